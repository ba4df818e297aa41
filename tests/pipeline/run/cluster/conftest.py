"""Real Ray clusters of several nodes on this host, in namespaces of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from pipeline.ground.results import Result
from pipeline.run import processes
from pipeline.run.folders import read_run, run_ids

HERE = Path(__file__).parents[1]
PATHS = os.pathsep.join([str(HERE), str(HERE.parents[2])])
PORT = 6380
ADDRESS = f"127.0.0.1:{PORT}"
_AS_ROOT = () if os.geteuid() == 0 else ("--user", "--map-root-user")
_UNSHARE = ("unshare", *_AS_ROOT, "--net", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child")


def cannot() -> str:
    """Why there can be no cluster here; empty if there can."""
    if find_spec("ray") is None:
        return "Ray is not installed"
    if not (shutil.which("unshare") and shutil.which("nsenter") and shutil.which("ip")):
        return "needs unshare, nsenter and ip"
    tried = subprocess.run([*_UNSHARE, "ip", "link", "set", "lo", "up"], capture_output=True, text=True)
    return f"namespaces are not allowed: {tried.stderr.strip()}" if tried.returncode else ""


_UNTIL_GONE = """
import sys, time, ray
ray.init(address=sys.argv[1], log_to_driver=False)
while any(node["Alive"] and node["NodeManagerAddress"] == sys.argv[2] for node in ray.nodes()):
    time.sleep(0.2)
"""


class RealCluster:
    """Nodes at 127.0.0.1, 127.0.0.2, ... with two processors each, and processes beside them.

    The head can be at another address, `head`; `environment` is that of all nodes and runs. Of the variables
    of a cluster beside this one none is in it.
    """

    def __init__(self, folder: Path, head: str = "127.0.0.1", **environment: str) -> None:
        # Ray's sockets are files, and their paths must be short.
        self.folder = folder
        self.address = f"{head}:{PORT}"
        own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self._environment = {**own, "RAY_TMPDIR": str(folder), **environment}
        self._unshare = subprocess.Popen([*_UNSHARE, "sh", "-c", "ip link set lo up; exec sleep 3600"])
        while not (children := psutil.Process(self._unshare.pid).children()):
            time.sleep(0.01)
        self._inside = str(children[0].pid)
        while children[0].name() != "sleep":
            time.sleep(0.01)
        self.nodes: list[subprocess.Popen[bytes]] = []

    def popen(self, command: Sequence[str], **environment: str) -> subprocess.Popen[bytes]:
        """Start a command in the namespaces of the cluster."""
        user = ("--user", "--preserve-credentials") if _AS_ROOT else ()
        inside = (
            "nsenter",
            "--target",
            self._inside,
            *user,
            "--net",
            "--pid",
            "--mount",
            "--wd=" + str(Path.cwd()),
        )
        return subprocess.Popen(
            [*inside, *command], stdout=subprocess.PIPE, env={**self._environment, **environment}
        )

    def do(self, script: str) -> None:
        """Run a script of the shell in the namespaces of the cluster."""
        with self.popen(["sh", "-ec", script]) as shell:
            assert shell.wait() == 0, script

    def add_node(self, address: str = "", script: str = "", **environment: str) -> Path:
        """Start one more node, the first of which is the head, and wait until it is up.

        What `script` does is there for this node only: mounts and network are its own if it says so. Gives
        the node's folder, in which the script runs.
        """
        number = len(self.nodes) + 1
        own = self.folder / str(number)
        (own / "tmp").mkdir(parents=True)
        if number == 1:
            address = self.address.partition(":")[0]
        where = ("--head", f"--port={PORT}", "--include-dashboard=false")
        ray = str(Path(sys.executable).with_name("ray"))
        ip = f"--node-ip-address={address or f'127.0.0.{number}'}"
        options = (ip, "--num-cpus=2", "--object-store-memory=100000000")
        joins = where if number == 1 else (f"--address={self.address}",)
        node = self.popen(
            [
                *("sh", "-ec", f'cd {own}\n{script}\nexec "$@"', "sh"),
                ray,
                "start",
                *joins,
                *options,
                "--include-log-monitor=false",
                "--disable-usage-stats",
                "--block",
            ],
            **{
                "TMPDIR": str(own / "tmp"),
                "PIPELINE_LOCKS": str(own / "locks"),
                "PYTHONPATH": PATHS,
                "RAY_worker_niceness": "0",
                **environment,
            },
        )
        self.nodes.append(node)
        assert node.stdout is not None
        for line in node.stdout:
            if b"Ray runtime started" in line:
                return own
        pytest.fail("a node of the cluster did not start")

    def processes(self, number: int) -> list[psutil.Process]:
        """All processes of a node."""
        node = psutil.Process(self.nodes[number - 1].pid)
        return [node, *node.children(recursive=True)]

    def inside(self) -> Iterator[psutil.Process]:
        """All processes in the namespaces."""
        inside = Path(f"/proc/{self._inside}/ns/pid").stat().st_ino
        for process in psutil.process_iter():
            with suppress(OSError):
                if Path(f"/proc/{process.pid}/ns/pid").stat().st_ino == inside:
                    yield process

    def kill_node(self, number: int) -> None:
        """Kill everything on a node at once, as if its power had failed."""
        victims = self.processes(number)
        for deadly in (signal.SIGSTOP, signal.SIGKILL):
            processes.send(victims, deadly)  # the process of a job may have ended just now
        self.nodes[number - 1].wait()

    @contextmanager
    def joined(self, address: str, script: str = "", **environment: str) -> Iterator[int]:
        """One more node while this lasts, and its number; see `add_node`.

        Afterwards Ray knows that it is gone: a run that comes too soon would be told of it.
        """
        self.add_node(address, script, **environment)
        number = len(self.nodes)
        try:
            yield number
        finally:
            self.kill_node(number)
            with self.popen([sys.executable, "-c", _UNTIL_GONE, self.address, address]) as waiting:
                assert waiting.wait(60) == 0

    def run(self, root: Path, *works: str, script: str = "") -> subprocess.Popen[bytes]:
        """Start a run of such jobs (see runner.py), after a script of the shell."""
        command = [sys.executable, str(HERE / "runner.py"), str(root), str(root / "locks"), *works]
        before = ("sh", "-ec", f'{script}\nexec "$@"', "sh")
        return self.popen([*before, *command], CLUSTER=self.address, PYTHONPATH=PATHS)

    def left(self) -> list[str]:
        """Commands of stewards, keepers and jobs that are still there."""
        found = []
        for process in self.inside():
            with suppress(psutil.Error):
                command = " ".join(process.cmdline())
                if "pipeline.run.cluster" in command or "pipeline.run.nursery" in command:
                    found.append(command)
        return found

    def close(self) -> None:
        """End everything in the namespaces."""
        self._unshare.kill()
        self._unshare.wait()
        for node in self.nodes:
            node.wait()
            if node.stdout is not None:
                node.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def certificate(folder: Path) -> dict[str, str]:
    """The variables of TLS, and their files: a certificate of 127.0.0.1 and .2 that is its own authority."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    paths = {"out": folder / "certificate.pem", "keyout": folder / "key.pem"}
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ray"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1,IP:127.0.0.2"]
    for option, path in paths.items():
        command += [f"-{option}", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    own = str(paths["out"])
    files = {"RAY_TLS_CA_CERT": own, "RAY_TLS_SERVER_CERT": own, "RAY_TLS_SERVER_KEY": str(paths["keyout"])}
    return {"RAY_USE_TLS": "1", **files}


def compile_lane(
    cluster: RealCluster, *words: str, script: str = "", **environment: str
) -> tuple[int, list[str], float]:
    """How the command line ends on a cluster, what it prints, and after how many seconds.

    It comes after a script of the shell.
    """
    shell = ("sh", "-ec", f'cd "$1"; shift; exec 2>&1\n{script}\nexec "$@"', "sh", str(HERE.parents[2]))
    lane = ("-m", "pipeline", "compile", *words, "--executor", "ray", "--address", cluster.address)
    begun = time.monotonic()
    process = cluster.popen([*shell, sys.executable, *lane], **environment)
    code = process.wait()
    return code, rest(process), time.monotonic() - begun


@contextmanager
def a_cluster(head: str = "127.0.0.1", before: str = "", **environment: str) -> Iterator[RealCluster]:
    """A cluster of one node, after a script of the shell in its namespaces."""
    with namespaces(head, before, **environment) as cluster:
        cluster.add_node()
        yield cluster


@contextmanager
def namespaces(head: str = "127.0.0.1", before: str = "", **environment: str) -> Iterator[RealCluster]:
    """Those of a cluster that has no node yet, after a script of the shell in them."""
    if reason := cannot():
        pytest.skip(reason)
    cluster = RealCluster(Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp")), head, **environment)
    try:
        cluster.do(before)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    """A cluster of two nodes."""
    with a_cluster() as cluster:
        cluster.add_node()
        yield cluster


def wait_for(run: subprocess.Popen[bytes], beginning: str) -> str:
    """Read lines of a run until one begins so."""
    assert run.stdout is not None
    for line in run.stdout:
        if line.decode().startswith(beginning):
            return line.decode().strip()
    pytest.fail(f"the run ended without saying {beginning!r}")


def busy(cluster: RealCluster, folder: Path, seconds: int) -> subprocess.Popen[bytes]:
    """A run of eight jobs that take so long and one that is wrong, of which four have begun."""
    run = cluster.run(folder, f"sleeps:{seconds}*8", "ends_as:mismatch")
    for _ in range(4):
        wait_for(run, "started ")
    return run


def begun(cluster: RealCluster, folder: Path, where: str = "") -> tuple[subprocess.Popen[bytes], str]:
    """A run and its name, of eight jobs: one has ended, and one hangs, which hangs only once.

    `where` is where that one runs, as in `@0,1`.
    """
    flag = folder / "flag"
    run = cluster.run(folder, f"hangs_once:{flag}{where}", "ends_as:mismatch", "passes*6")
    name = wait_for(run, "run ").split()[1]
    wait_for(run, "finished ")
    assert processes.wait_until(flag.exists, 60.0)
    return run, name


def rest(run: subprocess.Popen[bytes]) -> list[str]:
    """What a process prints until its end."""
    return run.communicate()[0].decode().splitlines()


def results(root: Path) -> tuple[Result, ...]:
    """Those of the last run."""
    return read_run(root, run_ids(root)[-1]).all_results()
