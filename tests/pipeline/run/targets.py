"""Work for jobs that misbehave, named by the job's kernel: `pipeline.run` is given `targets:perform`."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil

from golden.cache import entry_of, golden_for, is_cached
from pipeline.diff.heatmap import Axes, draw_heatmap
from pipeline.engines.base import InfrastructureError
from pipeline.ground.jobs import Job, State
from pipeline.ground.results import Blame, Diff, JobContext, Result, StageResult
from pipeline.ground.subject import wanted_golden
from pipeline.run.cluster.messages import Able, Inspect, Survey

Work = Callable[[Job, JobContext, str], Result]

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def perform(job: Job, context: JobContext) -> Result:
    """Do what the job's kernel says: `name` or `name:argument`, a function of this module."""
    name, _, argument = job.kernel.partition(":")
    work: Work = globals()[name]
    return work(job, context, argument)


def survey(asked: Inspect) -> Survey:
    """A node that can run every job, on the devices that the job names."""
    pools = {job.platform.name: job.platform.devices for job in asked.jobs}
    return Survey({"host": "a-host"}, {}, tuple(Able() for _ in asked.jobs), pools, time.time())


def complains(job: Job, context: JobContext, argument: str) -> Result:
    """Say something where the job's keeper says what is wrong with itself."""
    with Path(f"/proc/{os.getppid()}/fd/2").open("a") as log:
        log.write(argument)
    return Result(job, State.PASSED)


def passes(job: Job, context: JobContext, argument: str) -> Result:
    return Result(job, State.PASSED, argument)


def tells_device(job: Job, context: JobContext, argument: str) -> Result:
    return Result(job, State.PASSED, f"device {context.device}")


def ends_as(job: Job, context: JobContext, argument: str) -> Result:
    return Result(job, State(argument), f"ends as {argument}")


def lacks_memory(job: Job, context: JobContext, argument: str) -> Result:
    raise MemoryError(argument)


def holds(job: Job, context: JobContext, argument: str) -> Result:
    """Have so many bytes in memory."""
    return Result(job, State.PASSED, str(len(b"x" * int(argument))))


def holds_elsewhere(job: Job, context: JobContext, argument: str) -> Result:
    """The same in a process that it leaves behind."""
    code = f"import time; held = b'x' * {argument}; print(flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    return Result(job, State.PASSED)


def hangs(job: Job, context: JobContext, argument: str) -> Result:
    sys.stdout.write("last words")
    threading.Thread(target=_wait_in_thread, daemon=True).start()
    time.sleep(600)
    return Result(job, State.PASSED)


def _wait_in_thread() -> None:
    time.sleep(600)


def sleeps(job: Job, context: JobContext, argument: str) -> Result:
    time.sleep(float(argument))
    return Result(job, State.PASSED)


def hangs_once(job: Job, context: JobContext, argument: str) -> Result:
    """Hang the first time; the file `argument` remembers that."""
    if not Path(argument).exists():
        Path(argument).write_text("hung")
        time.sleep(600)
    return Result(job, State.PASSED)


def hangs_deaf(job: Job, context: JobContext, argument: str) -> Result:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return hangs(job, context, argument)


def stops_itself(job: Job, context: JobContext, argument: str) -> Result:
    os.kill(os.getpid(), signal.SIGSTOP)
    return Result(job, State.PASSED)


def stops_keeper(job: Job, context: JobContext, argument: str) -> Result:
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(600)
    return Result(job, State.PASSED)


def kills_keeper(job: Job, context: JobContext, argument: str) -> Result:
    Path(argument).write_text(str(_escape()))
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)
    return Result(job, State.PASSED)


def kills_nursery(job: Job, context: JobContext, argument: str) -> Result:
    os.kill(psutil.Process(os.getppid()).ppid(), signal.SIGKILL)
    return Result(job, State.PASSED)


def dies_by(job: Job, context: JobContext, argument: str) -> Result:
    os.kill(os.getpid(), int(argument) if argument.isdecimal() else signal.Signals[argument])
    return Result(job, State.PASSED)


def segfaults(job: Job, context: JobContext, argument: str) -> Result:
    ctypes.string_at(0)
    return Result(job, State.PASSED)


def exits(job: Job, context: JobContext, argument: str) -> Result:
    sys.exit(int(argument))


def exits_hard(job: Job, context: JobContext, argument: str) -> Result:
    os._exit(int(argument))


def raises(job: Job, context: JobContext, argument: str) -> Result:
    raise ValueError(argument)


def claims_sick(job: Job, context: JobContext, argument: str) -> Result:
    if str(context.device) in argument.split(","):
        raise InfrastructureError(f"device {context.device} is wedged", Blame.DEVICE)
    return Result(job, State.PASSED)


def blames(job: Job, context: JobContext, argument: str) -> Result:
    """Fail on device 0 with an error that blames what the argument names first, in the words that follow."""
    whom, _, words = argument.partition(":")
    if context.device == 0:
        raise InfrastructureError(words, Blame(whom))
    return Result(job, State.PASSED)


def compiles(job: Job, context: JobContext, argument: str) -> Result:
    """Compile the kernel `pass1` of a source file, with CANN's PyPTO."""
    from kernels.tensor.plan import tiling_by_rule
    from pipeline.engines.cann import child
    from pipeline.engines.cann.engine import CAPACITIES
    from pipeline.engines.process import HELPERS
    from pipeline.ground.subject import subject_of

    geometry = subject_of(job).geometry
    tiling = tiling_by_rule(geometry, CAPACITIES)
    order = child.Order(child.Work.CODE, "pass1", job.workload, geometry, tiling, argument)
    child.run(order, context.folder)
    HELPERS.close()
    return Result(job, State.PASSED)


def lacks(job: Job, context: JobContext, argument: str) -> Result:
    raise InfrastructureError(argument)


def on_sick(job: Job, context: JobContext, argument: str) -> Result:
    """Take half a second, and do other work on a node with `SICK` in its environment; pass on the others."""
    time.sleep(0.5)
    work = argument if "SICK" in os.environ else "passes"
    return replace(perform(replace(job, kernel=work), context), job=job)


def on(job: Job, context: JobContext, argument: str) -> Result:
    """Do other work on some devices, as in `0=hangs,1=raises:boom`; pass on the others."""
    works = dict(each.split("=", 1) for each in argument.split(","))
    work = works.get(str(context.device), "passes")
    return replace(perform(replace(job, kernel=work), context), job=job)


def until(job: Job, context: JobContext, argument: str) -> Result:
    """Pass the first time; the file `argument` remembers that. Then leave 600 bytes and fail."""
    if Path(argument).exists():
        (context.folder / "trace.bin").write_bytes(b"x" * 600)
        raise ValueError("no longer")
    Path(argument).touch()
    return Result(job, State.PASSED)


def is_wrong(job: Job, context: JobContext, argument: str) -> Result:
    """One wrong element."""
    return hashes_to(job, "bad")


def hashes_to(job: Job, sha: str) -> Result:
    """An output with this hash, where `good` is right."""
    diff = Diff("y", (1,), 1, int(sha != "good"), 1, sha, "good")
    state = State.PASSED if diff.clean else State.MISMATCH
    return Result(job, state, sha, stages=(StageResult("fused", state, diffs=(diff,)),))


def draws(job: Job, context: JobContext, argument: str) -> Result:
    draw_heatmap(context.folder / "picture.png", np.eye(3, dtype=np.int64), Axes("", "", "", ""))
    return Result(job, State.PASSED)


def prints_and_exits(job: Job, context: JobContext, argument: str) -> Result:
    sys.stdout.write(argument)
    sys.exit(1)


def prints_and_mismatches(job: Job, context: JobContext, argument: str) -> Result:
    sys.stdout.write(argument)
    return Result(job, State.MISMATCH, argument)


def garbage(job: Job, context: JobContext, argument: str) -> Result:
    os.write(1, b"\x1b[31m\x00\xff\xfe]]>\xed\xa0\x80\n")
    sys.stdout.write("surrogate \udcff")
    return Result(job, State.PASSED, "bad \udcff text", artefacts=("trace.bin",))


def floods(job: Job, context: JobContext, argument: str) -> Result:
    os.write(1, b"first ")
    block = b"x" * 1_000_000
    for _ in range(int(argument)):
        sys.stdout.buffer.write(block)
    os.write(1, b" last")
    return Result(job, State.PASSED)


def c_code_prints(job: Job, context: JobContext, argument: str) -> Result:
    ctypes.CDLL(None).printf(b"from C\nand the rest")
    return Result(job, State.PASSED)


def corrupts_result(job: Job, context: JobContext, argument: str) -> Result:
    results = context.folder.parents[2] / "results"
    # A result file is named by the number with which the job's mark ends.
    number = os.environ["PIPELINE_JOB"].rstrip("_").rstrip("/").rpartition("/")[2]
    (results / f"{number}.json").write_bytes(argument.encode())
    os._exit(0)


def speaks_for_another(job: Job, context: JobContext, argument: str) -> Result:
    return Result(replace(job, id=argument), State.PASSED)


def leaves_child(job: Job, context: JobContext, argument: str) -> Result:
    child = subprocess.Popen(SLEEPER)
    return Result(job, State.PASSED, str(child.pid))


def leaves_setsid(job: Job, context: JobContext, argument: str) -> Result:
    child = subprocess.Popen(SLEEPER, start_new_session=True, env={})
    return Result(job, State.PASSED, str(child.pid))


def leaves_daemon(job: Job, context: JobContext, argument: str) -> Result:
    return Result(job, State.PASSED, str(_escape()))


def leaves_deaf_daemon(job: Job, context: JobContext, argument: str) -> Result:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return Result(job, State.PASSED, str(_escape()))


def hangs_with_daemon(job: Job, context: JobContext, argument: str) -> Result:
    Path(argument).write_text(str(_escape()))
    time.sleep(600)
    return Result(job, State.PASSED)


def _escape() -> int:
    """Fork twice without exec, in a session of its own: a daemon. Returns its pid."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        daemon = os.fork()
        if daemon == 0:
            os.close(1)
            os.close(2)
            time.sleep(600)
        os.write(writing, str(daemon).encode())
        os._exit(0)
    os.wait()
    return int(os.read(reading, 32))


def hashes(job: Job, context: JobContext, argument: str) -> Result:
    """Give an output whose hash is the next line of the file `argument`; the last one again and again."""
    path = Path(argument)
    sha, _, rest = path.read_text().partition(" ")
    if rest:
        path.write_text(rest)
    if sha == "crash":
        os._exit(9)
    return hashes_to(job, sha)


def writes(job: Job, context: JobContext, argument: str) -> Result:
    """Leave an artefact of so many bytes and end as told: `1000,mismatch`."""
    size, state = argument.split(",")
    (context.folder / "trace.bin").write_bytes(b"x" * int(size))
    stage = StageResult("fused", State(state), artefacts=("fused/listing.txt",))
    return Result(job, State(state), artefacts=("trace.bin",), stages=(stage,))


def facts(job: Job, context: JobContext, argument: str) -> Result:
    """Tell what the process finds."""
    found = {
        "device": str(context.device),
        "cwd": str(Path.cwd()),
        "folder": str(context.folder),
        "openmp": os.environ["OMP_NUM_THREADS"],
        "mark": os.environ["PIPELINE_JOB"],
        "stdin": repr(sys.stdin.read() if sys.stdin else ""),
        "loaded": str(argument in sys.modules),
    }
    return Result(job, State.PASSED, facts=found)


def holds_device(job: Job, context: JobContext, argument: str) -> Result:
    """Fail if another job is on the same device: a file in the folder `argument` is the proof."""
    mine = Path(argument) / f"device-{context.device}"
    mine.touch(exist_ok=False)
    time.sleep(0.05)
    mine.unlink()
    return Result(job, State.PASSED)


def needs_golden(job: Job, context: JobContext, argument: str) -> Result:
    """Tell whether the golden was in the cache, and whether it took torch to get it."""
    wanted = wanted_golden(job, None)
    cached = is_cached(wanted, context.cache)
    golden_for(wanted, context.cache)
    return Result(job, State.PASSED, f"cached: {cached}, torch: {'torch' in sys.modules}")


def tells_golden(job: Job, context: JobContext, argument: str) -> Result:
    """Tell which file its golden in the cache is: one that is written again is another one."""
    found = entry_of(wanted_golden(job, None), context.cache).stat()
    return Result(job, State.PASSED, f"file {found.st_ino} of {found.st_mtime_ns}")
