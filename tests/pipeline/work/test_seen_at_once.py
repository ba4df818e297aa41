"""Wrong outputs that no known fault gives, of a job as a whole: what it says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from emulator.engine import run_program
from golden.cache import golden_for
from pipeline.ground.jobs import Lane, State
from pipeline.ground.memory import SENTINEL
from pipeline.ground.results import DIAGNOSIS, JobContext, Result
from pipeline.ground.subject import wanted_golden
from pipeline.report.overview import overview
from pipeline.run.verdict import merge_repeats
from pipeline.work import stages

pytestmark = pytest.mark.usefixtures("torch_installed", "undrawn")

ROWS, COLUMNS, CHANNELS, TILE = 12, 8, 64, 16
PROFILES = ("ties", "full-range@7")

Image = npt.NDArray[np.int8]
Run = Callable[..., Result]


@pytest.fixture
def run(samples: Any, tmp_path: Path, goldens: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Does a job of `fused` whose output, as an image [row, column, channel], is changed."""

    def do(profile: str, change: Callable[[Image], object]) -> Result:
        def spoiled(program: Any, soc: Any, arrays: Mapping[str, Any], variant: str) -> Any:
            report = run_program(program, soc, arrays, variant)
            change(arrays["y"].reshape(ROWS, COLUMNS, CHANNELS))
            return report

        monkeypatch.setattr("pipeline.engines.emulator.run_program", spoiled)
        job = samples["conv-pair"].job(Lane.DEVICE, "fused", profile)
        return stages.execute(job, JobContext(tmp_path / profile, None, goldens))

    return do


def border(image: Image) -> None:
    image[0] = image[-1] = 0
    image[:, 0] = image[:, -1] = 0


def half_the_tiles(value: int) -> Callable[[Image], object]:
    return lambda image: image.reshape(-1, TILE, CHANNELS).__setitem__(slice(None, None, 2), value)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda image: image[..., :32].fill(0), "every wrong element is 0"),
        (half_the_tiles(0), "every wrong element is 0; only in ACC tiles 0, 2, 4 of 6"),
        (border, "every wrong element is 0; only the image's border is wrong"),
        (
            lambda image: image.__setitem__(slice(1, None), image[:-1].copy()),
            "it is the golden moved by +1 row",
        ),
        (lambda image: image.fill(3), "every wrong element is 3"),
        (lambda image: image[..., 32:].fill(SENTINEL), "unwritten: channels 32..63"),
        (half_the_tiles(SENTINEL), "unwritten: ACC tiles 0, 2, 4 of 6"),
    ],
)
def test_the_fact_itself_is_told_not_what_such_differences_usually_are(
    change: Callable[[Image], object], told: str, profile: str, run: Run
) -> None:
    result = run(profile, change)
    assert result.state is State.MISMATCH
    assert result.message.endswith(f"; {told}")
    assert result.causes == ()
    (group,) = overview([result]).broken
    where = "host or engine" if told.startswith("unwritten") else "toolchain or device"
    assert group.why.startswith(f"the program is right: {where}; {told}; none of ")
    assert all("last ACC tile" not in text for text in (group.why, result.details, *result.facts.values()))


def test_the_output_of_another_profile_is_known_by_its_golden(samples: Any, run: Run, goldens: Path) -> None:
    other = golden_for(wanted_golden(samples["conv-pair"].job(Lane.DEVICE, "fused", "small"), None), goldens)
    given = other.outputs["y"].reshape(ROWS, COLUMNS, CHANNELS)
    result = run("ties", lambda image: image.__setitem__(..., given))
    told = "; it is the golden: y of small (vreq8)"
    assert result.message.endswith(told)
    assert result.facts[DIAGNOSIS].startswith(f"the program is right: host or engine{told}")


def test_the_ties_that_are_wrong_are_counted_also_where_most_elements_are_ties(run: Run) -> None:
    """On this profile every even channel holds ties alone, and every odd one some other elements."""

    def half_of_the_ties(image: Image) -> None:
        image[:, ::2, ::2] += np.where(image[:, ::2, ::2] < 127, 1, -1).astype(np.int8)

    result = run("ties", half_of_the_ties)
    (diff,) = result.stages[0].diffs
    (told,) = [fact for fact in diff.facts if "ties" in fact]
    assert told.startswith(f"only ties are wrong: {ROWS * COLUMNS // 2 * CHANNELS // 2} of ")
    assert diff.count > int(told.rpartition(" ")[2]) > diff.count / 2


def test_repeats_that_differ_say_in_which_channels_and_tiles(run: Run) -> None:
    """What is wrong in every repeat alike, in channel 9, does not vary."""

    def noise(seed: int) -> Callable[[Image], object]:
        def change(image: Image) -> None:
            image[..., 9] = 0
            drawn = np.random.default_rng(seed).integers(-128, 128, (4, COLUMNS, 2))
            image[4:8, :, [5, 37]] = drawn.astype(np.int8)

        return change

    repeats = [run("full-range@7", noise(seed)) for seed in (1, 2)]
    assert all(DIAGNOSIS in repeat.stages[0].facts for repeat in repeats)
    merged = merge_repeats(repeats)
    assert merged.state is State.NONDETERMINISTIC
    assert merged.message.endswith("; fused: y varies only in channels 5, 37 of 64 and ACC tiles 2, 3 of 6")
