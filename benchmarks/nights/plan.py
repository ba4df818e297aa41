"""What befalls the matrix in ten nights, and what has to be answered in the mornings after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from benchmarks.nights.troubles import FLAKY, HANGING, SICK

Answers = Sequence[Mapping[str, Any]]
Expected = Callable[[Answers], bool]

CONVOLUTIONS = "device/emu-*/conv-*/conv/*"
PRODUCTS = "device/emu-*/gemm-*/gemm/*"
CANN = "device/cann-a2a3/*"
BROKEN = "device/emu-a2a3/conv-5x5/conv/small"
"""A job of those that the fault makes wrong."""

OVERLAY = f"""\
# CANN's interpreter takes minutes for the large pairs, and one job is known to end in a second.
exclude:
  - {{jobs: device/cann-a2a3/mc62/*, reason: minutes each}}
  - {{jobs: device/cann-a2a3/pair-24x16/*, reason: minutes each}}
timeouts:
  - {{jobs: {HANGING}, timeout: 15s}}
"""


@dataclass(frozen=True)
class Edit:
    """A text of a source file and what stands there instead; the commit's message says why."""

    file: str
    old: str
    new: str
    message: str

    @property
    def undone(self) -> Edit:
        """The edit that takes it back."""
        return Edit(self.file, self.new, self.old, f"Revert: {self.message}")


@dataclass(frozen=True)
class Ask:
    """A question about the night, what its answer should say, and whether it does."""

    question: str
    should: str
    does: Expected


@dataclass(frozen=True)
class Night:
    """A night: what it was, the exit code it has to give, and what is asked in the morning.

    `edits` are committed in the evening before. `target` does the work of jobs. `hidden` says whether CANN's
    toolchain is hidden behind another package of its name. `words` are added to the command line.
    """

    title: str
    was: str
    exit_code: int
    asks: tuple[Ask, ...]
    edits: tuple[Edit, ...] = ()
    target: str = ""
    hidden: bool = False
    words: tuple[str, ...] = ()


def none(answers: Answers) -> bool:
    """There is no answer."""
    return not answers


def only(*patterns: str) -> Expected:
    """There are answers about jobs of each pattern, and about no other job."""

    def does(answers: Answers) -> bool:
        jobs = [one["job"] for one in answers]
        return all(any(fnmatchcase(job, pattern) for job in jobs) for pattern in patterns) and all(
            any(fnmatchcase(job, pattern) for pattern in patterns) for job in jobs
        )

    return does


def both(*expected: Expected) -> Expected:
    """All of these."""
    return lambda answers: all(does(answers) for does in expected)


def each(**facts: object) -> Expected:
    """Every answer has these facts."""
    return lambda answers: all(one[name] == fact for one in answers for name, fact in facts.items())


def began(answer: Mapping[str, Any] | None) -> int:
    """The number of the night in which an end was: they begin with the first of March."""
    return int(answer["run"][6:8]) if answer else 0


def _sick(answers: Answers) -> bool:
    refused = {one["name"].rpartition("-")[2]: one["states"].get("infrastructure", 0) for one in answers}
    return refused.pop(str(SICK), 0) > 0 and not any(refused.values())


def _slower(answers: Answers) -> bool:
    cycles = [one for one in answers if one["metric"].endswith("estimated_cycles.overlap")]
    return bool(cycles) and only(PRODUCTS)(cycles) and all(one["percent"] > 0 for one in cycles)


def _red_nights(answers: Answers) -> bool:
    whole, *jobs = answers
    times = {one["name"]: (one["red"], one["days"]) for one in jobs}
    return (whole["red"], whole["runs"], whole["days"]) == (4, 10, 4.0) and times[BROKEN] == (3, 3.0)


FAULT = Edit(
    "kernels/conv2d.py",
    "band * rows_of_band,",
    "(last_band - band) * rows_of_band,",
    "conv: interior bands from below",
)
SLOWER = Edit(
    "kernels/gemm_plan.py",
    "min(fitting, key",
    "max(fitting, key",
    "gemm: small tiles",
)

NIGHTS = (
    Night(
        "Clean",
        "The matrix as it is shipped.",
        0,
        (
            Ask("new", "none", none),
            Ask("by-platform", "everything passed on each platform", each(rate=1.0)),
        ),
    ),
    Night(
        "A fault",
        "A commit makes the convolution write its interior bands in reverse order.",
        1,
        (
            Ask("new", "jobs of that kernel on the emulator, and no others", only(CONVOLUTIONS)),
            Ask("causes", "the same jobs, in a few buckets", lambda found: 1 <= len(found) <= 4),
            Ask(
                f"first-bad {BROKEN}",
                "between the first and the second night",
                lambda found: [(began(one["good"]), began(one["bad"])) for one in found] == [(1, 2)],
            ),
        ),
        (FAULT,),
    ),
    Night(
        "The fault again",
        "Nobody has mended it.",
        1,
        (
            Ask("new", "none", none),
            Ask(
                "failing",
                "the same jobs, for two runs and one day",
                both(only(CONVOLUTIONS), each(runs=2, days=1)),
            ),
            Ask(
                f"last-pass {BROKEN}",
                "in the first night",
                lambda found: [began(one) for one in found] == [1],
            ),
        ),
    ),
    Night(
        "Fixed",
        "The commit is reverted.",
        0,
        (Ask("fixed", "the same jobs", only(CONVOLUTIONS)), Ask("failing", "none", none)),
        (FAULT.undone,),
    ),
    Night(
        "A flaky job",
        "Nothing was committed. One job leaves a part of its output unwritten.",
        1,
        (
            Ask("new", "this job alone", only(FLAKY)),
            Ask("flaky", "this job: nothing explains the change", only(FLAKY)),
        ),
        target="wrong_once",
    ),
    Night(
        "A sick device",
        "Nothing was committed. Whatever runs on device 1 is refused with an error of the device.",
        0,
        (
            Ask("by-device", "tries that were refused, on that device alone", _sick),
            Ask("fixed", "the flaky job", only(FLAKY)),
            Ask("new", "none: all jobs passed on the other device", none),
        ),
        target="sick_device",
    ),
    Night(
        "A slower kernel",
        "A commit makes the tiles of the matrix product as small as can be.",
        0,
        (
            Ask("slower", "the estimated cycles of the matrix products on the emulator", _slower),
            Ask("new", "none", none),
        ),
        (SLOWER,),
    ),
    Night(
        "A platform that cannot run",
        "Another package of its name hides CANN's toolchain: what ran before cannot run, exit code 6.",
        6,
        (
            Ask("new", "the jobs of this platform, and no others", only(CANN)),
            Ask("skipped", "none: nobody has accepted it", none),
        ),
        hidden=True,
    ),
    Night(
        "Everything at once",
        "The toolchain is still hidden, which is now accepted (`--allow-new-skips`), the fault of the second "
        "night is back, and a job hangs.",
        1,
        (
            Ask("skipped", "the jobs of that platform", only(CANN)),
            Ask("new", "the jobs of the fault, and the one that hangs", only(CONVOLUTIONS, HANGING)),
            Ask(
                "recurring",
                "the jobs of the fault, last seen in the third night",
                both(only(CONVOLUTIONS), lambda found: {began(one["last"]) for one in found} == {3}),
            ),
            Ask(
                "timed-out",
                "the job that hangs: it usually takes a small part of its limit",
                both(only(HANGING), each(looks="hang")),
            ),
        ),
        (FAULT,),
        target="hanging",
        hidden=True,
        words=("--allow-new-skips",),
    ),
    Night(
        "Clean again",
        "The fault is reverted, the toolchain is back, and no job hangs.",
        0,
        (
            Ask("fixed", "the jobs of the fault, and the one that hung", only(CONVOLUTIONS, HANGING)),
            Ask("stabilised", "the flaky job of the fifth night", only(FLAKY)),
            Ask("skipped", "none", none),
            Ask("vanished", "none", none),
            Ask(
                "nights",
                "ten nights, of which the 2nd, 3rd, 5th, 8th and 9th were not green",
                lambda found: [one["exit_code"] for one in found] == [0, 1, 1, 0, 1, 0, 0, 6, 1, 0],
            ),
            Ask(
                "red",
                "four of ten nights: the 8th says nothing about a kernel; a job of the fault for three days",
                _red_nights,
            ),
        ),
        (FAULT.undone,),
    ),
)
