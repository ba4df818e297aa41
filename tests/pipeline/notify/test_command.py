from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden.errors import UserError
from pipeline.commands.notify import notify
from pipeline.ground.jobs import State
from pipeline.ground.results import BLAMED, DIAGNOSIS, REPRODUCE, WRONG_STEP, Result, StageResult
from pipeline.history.sources import results_at
from pipeline.notify.webhook import VARIABLE
from pipeline.report.results import RunResults, write_results

URL = "https://hooks.example/s3cret"


@pytest.fixture
def night(
    tmp_path: Path,
    told: Callable[..., RunResults],
    result_of: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """The results of a run, in a folder of their own, which is the current one."""
    monkeypatch.chdir(tmp_path)
    write_results(tmp_path / "night.json", told(result_of("device/emu/g/fine/small")))
    return tmp_path / "night.json"


def call(run: str, **of: Any) -> int:
    given: dict[str, Any] = {"markdown": None, "webhook": None, "annotations": False, **of}
    return notify(Namespace(run=run, output=Path("out"), **given), {VARIABLE: ""})


def refused(run: str, **of: Any) -> str:
    with pytest.raises(UserError) as failure:
        call(run, **of)
    assert failure.value.exit_code == 4
    assert "\n" not in str(failure.value)
    return str(failure.value)


def test_the_markdown_replaces_nothing_that_is_read(night: Path) -> None:
    hook, linked = Path("hook"), Path("linked")
    hook.write_text(URL)
    linked.symlink_to(night)
    folder = Path("of-run")
    folder.mkdir()
    (folder / "results.json").write_bytes(night.read_bytes())
    report = Path("night.xml")
    report.write_text("<testsuites/>")
    Path("out").mkdir()
    database = Path("out/history.sqlite")
    database.write_text("")
    for run, markdown in (
        ("night.json", night),
        ("linked", night),
        ("night.json", linked),
        ("night.json", hook),
        ("night.json", database),
        ("of-run", folder / "results.json"),
        ("night.xml", report),
        ("night.xml", Path("night.results.json")),
    ):
        before = content(markdown)
        assert "this file is read here; name another" in refused(run, markdown=markdown, webhook=hook)
        assert content(markdown) == before


@pytest.mark.parametrize("text", ["[" * 200_000, '{"version": 1, "run": ' + "[" * 200_000])
def test_what_is_nested_deeply_is_one_line(text: str, night: Path) -> None:
    night.write_text(text)
    assert "night.json: is no results.json of this pipeline" in refused("night.json")


def test_a_name_that_is_too_long_is_one_line(night: Path) -> None:
    name = "n" * 5000
    assert "is no run, file or folder here" in refused(name)
    assert "File name too long" in refused("night.json", markdown=Path(name))
    assert "File name too long" in refused("night.json", webhook=Path(name))
    with pytest.raises(UserError, match="File name too long"):
        list(results_at(Path(name)))


@pytest.mark.parametrize(
    "word", ["a", "/", ".py", "a.py:1 ", "a.py:1", "\x1b[0", f"{'a' * 1000}.py:1 ", "[", "0", " ", ":", "::"]
)
def test_long_texts_are_annotated_in_linear_time(
    word: str,
    night: Path,
    told: Callable[..., RunResults],
    result_of: Callable[..., Result],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A search that took the square of 200,000 characters would not end; no file has a long name."""
    text = f"{word * (200_000 // len(word))}b.py:1"
    facts = {DIAGNOSIS: text, WRONG_STEP: text, BLAMED: text, REPRODUCE: text}
    stage = StageResult("fused", State.CRASHED, text, text, facts=facts, causes=(text,))
    jobs = [
        result_of(f"device/emu/g/k{number}/small", State.CRASHED, message=text, stages=(stage,), **more)
        for number, more in enumerate(({"facts": facts}, {"causes": (text,)}, {}))
    ]
    write_results(night, told(*jobs))
    assert call("night.json", annotations=True) == 0
    assert capsys.readouterr().out.startswith("::error ")


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def test_a_command_that_fails_leaves_the_older_markdown(night: Path) -> None:
    precious = Path("precious.md")
    precious.write_text("mine")
    Path("broken.json").write_text("{}")
    Path("hook").write_text("no address")
    for run, more in (("nosuch", {}), ("broken.json", {}), ("night.json", {"webhook": Path("hook")})):
        refused(run, markdown=precious, **more)
        assert precious.read_text() == "mine"
    assert call("night.json", markdown=precious) == 0
    assert precious.read_text().startswith("## Passed: ")
    assert {path.name for path in Path.cwd().iterdir()} == {
        "night.json",
        "precious.md",
        "broken.json",
        "hook",
    }
