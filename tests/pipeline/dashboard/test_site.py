from __future__ import annotations

import csv
import errno
import fcntl
import html
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from msgspec import structs

from pipeline.dashboard import words
from pipeline.dashboard.earlier import Earlier, Night, earlier_of
from pipeline.dashboard.site import write_dashboard, write_of_run
from pipeline.ground.jobs import State
from pipeline.ground.results import DIAGNOSIS, NEW, OUTCOMES, REPRODUCE, SINCE, Result, StageResult
from pipeline.history.answers import Change, Ended
from pipeline.history.store import open_history
from pipeline.history.trends import Recurring
from pipeline.report.document import ReportError
from pipeline.report.results import RunResults
from pipeline.report.text import safe

Written = Callable[..., Path]
Make = Callable[..., RunResults]
MakeResult = Callable[..., Result]
NO_HISTORY = Earlier("there is no history here")
FIRST = datetime(2026, 3, 1, 4, tzinfo=timezone.utc)


class _Page(HTMLParser):
    """What a browser makes of a page: its elements, its text, and where it leads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.links: list[str] = []
        self.said: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        told = dict(attrs)
        self.attributes += told
        self.links += [link for name in ("href", "src") if (link := told.get(name)) is not None]

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.said).split())


def leads_to(page: Path) -> Iterator[Path]:
    """The files that the links of a page lead to."""
    for link in _Page(page).links:
        if not link.startswith(("#", "data:")):
            assert not re.match(r"[a-z]+:|//", link), f"{page}: {link} leaves the dashboard"
            yield page.parent / unquote(link.partition("#")[0])


def test_every_state_has_a_sign_of_its_own() -> None:
    assert words.MARKS.keys() == OUTCOMES.keys()
    assert len(set(words.MARKS.values())) == len(OUTCOMES)


def test_the_first_page_says_the_verdict_and_what_is_new_before_what_is_old(
    written: Written, run_of: Make, result_of: MakeResult, wrong: MakeResult
) -> None:
    run = run_of(
        result_of("device/emu/g/fused/small"),
        wrong("device/emu/g/fused/ties", facts={SINCE: "20260301-040000-0000000000"}),
        wrong("device/emu/g/two-pass/ties", message="y: 9 of 128 elements differ", facts={SINCE: NEW}),
        set_aside={"npu-1": "3 of 3 jobs failed on it alone"},
    )
    said = _Page(written(run) / "index.html").text
    assert "Failed (exit code 1): 2 of 3 jobs are red: 1 passed, 2 mismatch" in said
    assert "1 new failure of 1 cause" in said
    assert said.index("New failures") < said.index("two-pass/ties") < said.index("Sick devices")
    assert said.index("npu-1") < said.index("Still red") < said.index("fused/ties")


def test_a_green_night_says_that_nothing_is_new(
    written: Written, run_of: Make, result_of: MakeResult
) -> None:
    said = _Page(written(run_of(result_of("device/emu/g/fused/small"))) / "index.html").text
    assert "Passed: no job is red: 1 passed" in said
    assert "No failure is new" in said
    assert "New failures" not in said


def test_the_last_runs_are_told_in_numbers(written: Written, run_of: Make, result_of: MakeResult) -> None:
    nights = (
        Night("r1", "c1", FIRST, None, 3.0, {"skipped": 2}),
        Night("r2", "c2", FIRST, 50.0, 4.0, {"passed": 1, "mismatch": 1}, True, 100.0, 112.5),
    )
    page = (
        written(run_of(result_of("device/emu/g/fused/small")), earlier=Earlier(nights=nights)) / "index.html"
    )
    said = _Page(page).text
    assert page.with_name("trend-seconds.svg").is_file()
    assert not page.with_name("trend-passed.svg").exists()  # one point is no trend
    assert "r2 c2 1 passed, 1 mismatch 50.0 % 4.0 100.0 % 112.5 % r1 c1 2 skipped none 3.0 - -" in said


def test_what_jobs_have_in_common_is_said_once(written: Written, run_of: Make, result_of: MakeResult) -> None:
    def end(job: str, run: str, message: str = "") -> Ended:
        return Ended(job, run, FIRST, "c", "t", State.SKIPPED, 1.0, "", "", message)

    names = [f"device/emu/g/k{number}/small" for number in range(4)]
    earlier = Earlier(
        skipped=[Change(name, end(name, "r9", "no card"), end(name, "r8")) for name in names[:2]],
        recurring=[Recurring(name, end(name, "r9"), end(name, "r3"), 5) for name in names],
    )
    said = _Page(written(run_of(*map(result_of, names)), earlier=earlier) / "index.html").text
    assert f"2 jobs newly skipped: no card {names[0]} , skipped in run r8" in said
    assert said.count("no card") == 1
    assert f"last in run r3: 4 jobs {names[0]} , then 5 passes" in said
    assert "and 1 more" in said


def test_a_page_says_how_long_jobs_were_red(
    written: Written, run_of: Make, result_of: MakeResult, wrong: MakeResult, tmp_path: Path
) -> None:
    place, job = tmp_path / "history.sqlite", "device/emu/g/fused/ties"
    with open_history(place) as history:
        for day, one in ((1, wrong(job)), (2, result_of(job)), (4, wrong(job))):
            began = f"2026-03-0{day}T04:00:00+00:00"
            run = structs.replace(run_of(one, run=f"2026030{day}-040000-0000000000"), started=began)
            history.record(run)
    folder = written(run, earlier=earlier_of(place, run.run))
    said = "red in 2 of the last 3 runs, for 1 day altogether, and is so now"
    first = _Page(folder / "index.html").text
    assert f"Some job was {said}; 3 days lie between the first of them and this run." in first
    assert f"{job} : {said}" in first
    assert said.capitalize() in _Page(folder / "jobs" / words.page_of(job)).text


def test_a_run_that_executed_nothing_is_not_green(
    written: Written, run_of: Make, result_of: MakeResult
) -> None:
    page = written(run_of(result_of("device/emu/g/fused/small", State.SKIPPED))) / "index.html"
    assert "Failed (exit code 5): nothing was executed" in _Page(page).text
    assert "verdict green" not in page.read_text()


def test_every_link_leads_to_a_file(
    written: Written, run_of: Make, wrong: MakeResult, tmp_path: Path
) -> None:
    picture = "jobs/it is+100%/1/fused/rows-columns.png"
    (tmp_path / picture).parent.mkdir(parents=True)
    (tmp_path / picture).write_bytes(b"a picture")
    folder = written(run_of(wrong("device/emu/g/fused/full range%#?&@7", artefacts=(picture,))), tmp_path)
    pages = list(folder.rglob("*.html"))
    assert len(pages) == 3
    assert all(target.is_file() for page in pages for target in leads_to(page))
    assert tmp_path / picture in {target.resolve() for page in pages for target in leads_to(page)}


@pytest.mark.parametrize("signs", ["k" * 300, "%" * 300, "k" * 2000])
def test_jobs_of_long_names_have_pages(signs: str, written: Written, run_of: Make, wrong: MakeResult) -> None:
    jobs = [f"device/emu/g/{signs}/{profile}" for profile in ("small", "ties")]
    folder = written(run_of(*map(wrong, jobs)))
    pages = [*(folder / "jobs").iterdir()]
    assert len(pages) == 2
    assert set(pages) <= {*leads_to(folder / "index.html")}
    data = json.loads((folder / "jobs.js").read_text("utf-8").partition(" = ")[2].rstrip(";\n"))
    assert sorted(data["pages"].values()) == sorted(page.name for page in pages)
    assert {row[0] for row in data["jobs"]} == data["pages"].keys()


def test_a_dashboard_elsewhere_has_copies_of_the_pictures_of_red_jobs(
    run_of: Make, wrong: MakeResult, result_of: MakeResult, tmp_path: Path
) -> None:
    kept = tmp_path / "run"
    kept.mkdir()
    for name in ("red.png", "red.npy", "green.png"):
        (kept / name).write_bytes(b"kept")
    run = run_of(
        wrong("device/emu/g/fused/ties", artefacts=("red.png", "red.npy")),
        result_of("device/emu/g/fused/small", artefacts=("green.png",)),
    )
    site = tmp_path / "site"
    write_dashboard(run, site, kept, NO_HISTORY)
    assert [path.name for path in (site / "files").iterdir()] == ["red.png"]
    found = [target for page in site.rglob("*.html") for target in leads_to(page)]
    assert all(target.is_file() and target.resolve().is_relative_to(site) for target in found)


def test_a_document_cannot_publish_files_of_the_host(run_of: Make, wrong: MakeResult, tmp_path: Path) -> None:
    kept = tmp_path / "run"
    kept.mkdir()
    (tmp_path / "secret.png").write_bytes(b"not of this run")
    (kept / "link.png").symlink_to(tmp_path / "secret.png")
    named = ("../secret.png", str(tmp_path / "secret.png"), "link.png", "nul\0byte.png")
    site = tmp_path / "site"
    write_dashboard(run_of(wrong("device/emu/g/fused/ties", artefacts=named)), site, kept, NO_HISTORY)
    assert not (site / "files").exists()
    assert all(target.is_relative_to(site) for page in site.rglob("*.html") for target in leads_to(page))


@pytest.mark.parametrize("named", ["../../runs/R/jobs/x.txt", "../R/jobs/x.txt", "{kept}/jobs/x.txt"])
def test_a_document_cannot_write_outside_the_site(
    named: str, run_of: Make, wrong: MakeResult, tmp_path: Path
) -> None:
    kept, site = tmp_path / "runs" / "R", tmp_path / "a" / "b" / "site"
    (kept / "jobs").mkdir(parents=True)
    (kept / "jobs" / "x.txt").write_text("a log")
    named = named.format(kept=kept)
    write_dashboard(run_of(wrong("device/emu/g/fused/ties", artefacts=(named,))), site, kept, NO_HISTORY)
    assert [path for path in tmp_path.rglob("x.txt") if not path.is_relative_to(kept)] == [
        site / "files" / "jobs" / "x.txt"
    ]


def test_what_a_kernel_prints_is_shown_as_text(
    written: Written, run_of: Make, wrong: MakeResult, hostile_texts: list[str]
) -> None:
    scripts = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "'; alert(1); '", "{{ 7 * 7 }}"]
    for text in [*hostile_texts, *scripts]:
        said = f"before {text} after"
        stage = StageResult(
            text or "s", State.MISMATCH, said, said, facts={DIAGNOSIS: said, text or "f": said}
        )
        facts = {DIAGNOSIS: said, REPRODUCE: said, SINCE: NEW, text or "f": said}
        job = wrong(
            "device/emu/g/fused/ties", message=said, details=said, output=said, stages=(stage,), facts=facts
        )
        folder = written(run_of(job))
        for page in folder.rglob("*.html"):
            raw = page.read_text(encoding="utf-8")
            assert safe(raw) == raw
            assert not {"img", "style", "failure"} & set(_Page(page).tags)
            assert not [name for name in _Page(page).attributes if name.startswith("on")]
            assert _Page(page).tags.count("script") == (2 if page.name == "index.html" else 0)
        if len(text) < 100:
            shown = (folder / "jobs" / "device+emu+g+fused+ties.html").read_text(encoding="utf-8")
            assert " ".join(safe(said).split()) in " ".join(html.unescape(shown).split())
        data = (folder / "jobs.js").read_text(encoding="utf-8")
        json.loads(data.removeprefix("window.dashboard = ").removesuffix(";\n"))


def test_no_cell_of_the_table_is_a_formula(written: Written, run_of: Make, wrong: MakeResult) -> None:
    folder = written(run_of(wrong("device/emu/g/fused/ties", message="=HYPERLINK(1), a\nb")))
    (row,) = csv.DictReader((folder / "jobs.csv").read_text(encoding="utf-8").splitlines())
    assert row["message"] == "'=HYPERLINK(1), a b"
    assert (row["job"], row["state"], row["seconds"]) == ("device/emu/g/fused/ties", "mismatch", "2.000")


def test_a_jobs_page_says_what_is_wrong_and_how_to_run_it_again(
    written: Written, run_of: Make, wrong: MakeResult, tmp_path: Path
) -> None:
    band = {"row": 0, "rows": 4, "read_row": 0, "read_rows": 5}
    below = {"row": 4, "rows": 4, "read_row": 3, "read_rows": 5}
    cut = {"output": "y", "height": 8, "width": 4, "bands": [band, below], "turns": [1, 2]}
    cut |= {"source": "x", "source_height": 8, "tile_rows": 2, "positions": 8, "step": 32, "steps": 9}
    tile = {"name": "filter", "address": 0, "bytes": 64, "created": "k.py:3", "last_used": "k.py:9"}
    other = {**tile, "name": "rows", "address": 64}
    memory = {"core": {"L1": {"capacity": 512, "peak": 128, "tiles": [tile, other, tile]}}}
    (tmp_path / "report.json").write_text(json.dumps({"memory": memory, "cuts": [cut]}))
    (stage,) = wrong("device/emu/g/fused/ties").stages
    facts = {
        REPRODUCE: "python -m pipeline run --kernel fused",
        DIAGNOSIS: "halo: too small; kernel at k.py:3",
    }
    one = wrong("device/emu/g/fused/ties", output="the kernel's log", facts=facts)
    one = replace(one, stages=(replace(stage, artefacts=("report.json",)),))
    page = _Page(written(run_of(one), tmp_path) / "jobs" / "device+emu+g+fused+ties.html")
    for said in (
        "y: 7 of 128 elements differ",
        "most likely: halo: too small",
        "python -m pipeline run --kernel fused",
        "band 1 rows 4..7 7 128 3",
        "4, 5, 6 -3 0",
        "the kernel's log",
        "128 of 512 bytes",
        "rows 64 64 k.py:3 k.py:9",
        "2 bands of y, which has 8 rows of 4 positions",
        "its halo: 2 rows in all",
        "1 2. 4 to 7 2 3 to 7 2",
    ):
        assert said in page.text
    assert page.tags.count("svg") == 2


@pytest.mark.parametrize(
    "report",
    [
        "[]",
        '{"cuts": [{"output": "y"}]}',
        '{"cuts": [{"output": "y", "height": 0, "width": 0, "turns": [1], '
        '"bands": [{"row": -1, "rows": 0}]}]}',
        '{"cuts": [{"output": "y", "height": 1, "width": 1, "source": "x", "tile_rows": 1, "turns": [1], '
        '"bands": [{"row": 0, "rows": 1000000000000}]}]}',
    ],
)
def test_a_report_that_makes_no_sense_breaks_no_page(
    written: Written, run_of: Make, wrong: MakeResult, tmp_path: Path, report: str
) -> None:
    (tmp_path / "report.json").write_text(report)
    one = wrong("device/emu/g/fused/ties")
    one = replace(one, stages=(replace(one.stages[0], artefacts=("report.json",)),))
    page = written(run_of(one), tmp_path) / "jobs" / "device+emu+g+fused+ties.html"
    assert page.stat().st_size < 20_000


def test_another_dashboard_is_replaced(run_of: Make, wrong: MakeResult, tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_dashboard(run_of(wrong("device/emu/g/fused/ties")), site, None, NO_HISTORY)
    write_dashboard(run_of(wrong("device/emu/g/fused/small")), site, None, NO_HISTORY)
    assert [page.name for page in (site / "jobs").iterdir()] == ["device+emu+g+fused+small.html"]
    assert {path.name for path in tmp_path.iterdir()} == {"site"}


@pytest.mark.parametrize("name", ["thesis.tex", "index.html", ".git"])
@pytest.mark.parametrize("beside", [False, True])
def test_nothing_but_a_dashboard_is_replaced(
    name: str, beside: bool, run_of: Make, wrong: MakeResult, tmp_path: Path
) -> None:
    run, mine = run_of(wrong("device/emu/g/fused/ties")), tmp_path / "mine"
    if beside:
        write_dashboard(run, mine, None, NO_HISTORY)
    mine.mkdir(exist_ok=True)
    (mine / name).write_text("years of work")
    with pytest.raises(ReportError, match="is no dashboard, and not empty: name another folder"):
        write_dashboard(run, mine, None, NO_HISTORY)
    assert (mine / name).read_text() == "years of work"
    assert {path.name for path in tmp_path.iterdir()} == {"mine"}


def test_the_current_folder_and_those_above_it_stay(
    run_of: Make, wrong: MakeResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for site in (Path(), tmp_path):
        with pytest.raises(ReportError, match="is the current folder, or holds it: name another folder"):
            write_dashboard(run_of(wrong("device/emu/g/fused/ties")), site, None, NO_HISTORY)
    assert [*tmp_path.iterdir()] == [Path.cwd()]


def test_a_link_leads_to_the_folder_that_is_written(run_of: Make, wrong: MakeResult, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for _ in range(2):
        write_dashboard(run_of(wrong("device/emu/g/fused/ties")), tmp_path / "link", None, NO_HISTORY)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "index.html").is_file()


@pytest.mark.parametrize("refused", [1, 2])
def test_a_dashboard_that_cannot_be_replaced_stays(
    refused: int, run_of: Make, wrong: MakeResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount point cannot be renamed."""
    site, renamed, rename = tmp_path / "site", [], Path.rename
    write_dashboard(run_of(wrong("device/emu/g/fused/ties")), site, None, NO_HISTORY)
    before = (site / "index.html").read_bytes()

    def busy(path: Path, to: Path) -> Path:
        renamed.append(path)
        if len(renamed) == refused:
            raise OSError(errno.EBUSY, "Device or resource busy")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", busy)
    with pytest.raises(ReportError, match="is a mount point, which stays: name a folder in it"):
        write_dashboard(run_of(wrong("device/emu/g/fused/small")), site, None, NO_HISTORY)
    assert (site / "index.html").read_bytes() == before
    assert [*tmp_path.iterdir()] == [site]


def test_what_a_killed_writer_left_goes_once_nobody_writes(
    run_of: Make, wrong: MakeResult, tmp_path: Path
) -> None:
    left, other = tmp_path / ".site.dashboard-00c0ffee", tmp_path / ".site.backup"
    left.mkdir()
    other.mkdir()
    writer = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(writer, fcntl.LOCK_SH)  # another one writes
    write_dashboard(run_of(wrong("device/emu/g/fused/ties")), tmp_path / "site", None, NO_HISTORY)
    assert left.is_dir()
    os.close(writer)
    write_dashboard(run_of(wrong("device/emu/g/fused/ties")), tmp_path / "site", None, NO_HISTORY)
    assert {path.name for path in tmp_path.iterdir()} == {"site", ".site.backup"}


def test_what_goes_wrong_at_the_end_of_a_run_is_one_line(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "journal.jsonl").write_text("{}\n")
    write_of_run(tmp_path, tmp_path / "history.sqlite", told.append)
    (line,) = told
    assert line.startswith(f"dashboard: {tmp_path / 'results.json'}: cannot be read")
    assert line.endswith(f"python -m pipeline dashboard {tmp_path}")
