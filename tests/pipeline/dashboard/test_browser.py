"""The dashboard in a real browser, opened from disk as a reader does."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from pipeline.dashboard.earlier import Earlier, Night
from pipeline.dashboard.site import write_dashboard
from pipeline.ground.jobs import Platform, State
from pipeline.ground.results import DIAGNOSIS, REPRODUCE, SINCE, Attempt, Result
from pipeline.history.answers import Ended
from pipeline.report.results import RunResults

RUN = "20260302-040000-0000000001"
REMEDY = "needs Playwright: pip install -e '.[dev]'"
sync_api = pytest.importorskip("playwright.sync_api", reason=REMEDY)
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=REMEDY)

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")

MANY = 5_000
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 360, "height": 640}
PAPER = {"width": 718, "height": 1000}
"""An A4 page with usual margins, in pixels."""

SEEN = ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"]
"""Rules of axe that are about what is seen."""

FIRST = datetime(2026, 3, 1, 4, tzinfo=timezone.utc)
BEFORE = "20260301-050000-0000000001"
WRONG, PAGE = "device/emu-a2a3/pair/fused/ties", "device+emu-a2a3+pair+fused+ties.html"
_BAND = {"row": 0, "rows": 4, "read_row": 0, "read_rows": 5}
_CUT = {"source": "x", "source_height": 8, "tile_rows": 2, "positions": 8, "step": 32, "steps": 9}
_TILES = [{"name": f"a_tile_with_a_long_name_{at}", "address": at, "bytes": 64} for at in (0, 64)]
REPORT = {
    "memory": {"core": {"L1": {"capacity": 512, "peak": 128, "tiles": _TILES}}},
    "cuts": [
        {"output": "y", "height": 8, "width": 4, "turns": [1, 2], **_CUT}
        | {"bands": [_BAND, {**_BAND, "row": 4, "read_row": 3}]}
    ],
}


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Any, list[str]]]:
    """The one page of all tests, since to open one takes long; and what it told: faults, and other hosts."""
    told: list[str] = []
    with sync_api.sync_playwright() as playwright:
        # Its sandbox needs rights that a container, or root, may not have; it opens our own files alone.
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = started.new_page()
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        ours = ("file:", "data:", "about:")
        page.on("request", lambda asked: told.extend([] if asked.url.startswith(ours) else [asked.url]))
        yield page, told
        started.close()


@pytest.fixture
def page(opened: tuple[Any, list[str]]) -> Iterator[Any]:
    """An empty page as wide as a desk's; nothing may fail in it, and it may ask no network."""
    empty, told = opened
    told.clear()
    empty.set_viewport_size(WIDE)
    empty.emulate_media(color_scheme="light", media="screen")
    empty.goto("about:blank")
    yield empty
    assert told == []


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory,
    run_of: Callable[..., RunResults],
    result_of: Callable[..., Result],
    wrong: Callable[..., Result],
) -> Path:
    """A night of six jobs, two of which are newly wrong for one cause; its folder and those of two more."""
    told = {DIAGNOSIS: "halo: a row is missing", REPRODUCE: "python -m pipeline run --kernel fused"}
    hostile = "<img src=x onerror=alert(1)> </script>"
    shared = {"facts": told, "causes": ("halo",)}
    run = run_of(
        result_of("device/emu-a2a3/pair/fused/small", seconds=1.0),
        replace(
            wrong(WRONG, **shared, output=hostile * 20, message=hostile),
            stages=(replace(wrong(WRONG).stages[0], artefacts=("report.json",)),),
            tries=tuple(Attempt(f"emulated-{number}", State.MISMATCH, hostile, 1.0) for number in (0, 1)),
        ),
        wrong("device/emu-a5/pair/fused/ties", **shared),
        wrong("device/emu-a5/pair/two-pass/ties", facts={SINCE: "20260301-040000-0000000000"}),
        result_of("device/a2a3/pair/fused/small", State.SKIPPED, message="no card here"),
        result_of("compile/emu-a5/pair/fused", seconds=0.5),
        undecided={"npu-1": "one of two jobs failed"},
    )
    folder = tmp_path_factory.mktemp("browser") / RUN
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps(REPORT))
    before = folder.with_name(BEFORE) / "dashboard" / "jobs" / PAGE
    before.parent.mkdir(parents=True)
    before.write_text("<title>an earlier page</title><h1>an earlier page</h1>")
    write_dashboard(run, folder / "dashboard", folder, told_of(run))
    return folder / "dashboard" / "index.html"


def told_of(run: RunResults) -> Earlier:
    """What a history would say: the wrong jobs passed in the night before, whose folder is kept."""
    nights = [
        Night(name, "c1", FIRST + timedelta(days=day), rate, 9.0, {"passed": 6}, rate < 100, 100.0, 104.0)
        for day, (name, rate) in enumerate((("20260301-040000-0", 100.0), (BEFORE, 90.0), (RUN, 25.0)))
    ]
    ended = [
        Ended(WRONG, night.run, night.began, night.commit, "t", state, 1.0, "npu-1", "", "")
        for night, state in zip(nights, (State.PASSED, State.PASSED, State.MISMATCH), strict=True)
    ]
    return Earlier(strips={WRONG: ended}, nights=nights)


def shown(page: Any) -> list[str]:
    """The jobs that are listed."""
    return list(page.locator("#list tbody a").all_inner_texts())


def test_filters_and_search_are_in_the_address(page: Any, site: Path) -> None:
    page.goto(site.as_uri())
    assert len(shown(page)) == page.locator(".grid td a").count() == 6
    new = ["device/emu-a2a3/pair/fused/ties", "device/emu-a5/pair/fused/ties"]
    assert shown(page)[:3] == [*new, "device/emu-a5/pair/two-pass/ties"]  # then what was red before
    assert shown(page)[-1] == "device/a2a3/pair/fused/small"  # skipped
    page.get_by_role("combobox", name="platform").select_option("emu-a5")
    page.locator("#count", has_text="3 of 6 jobs").wait_for()
    page.get_by_label("Search").fill("TWO-pass")
    page.locator("#count", has_text="1 of 6 jobs").wait_for()
    assert shown(page) == ["device/emu-a5/pair/two-pass/ties"]
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    assert shown(page) == ["device/emu-a5/pair/two-pass/ties"]
    assert page.get_by_label("Search").input_value() == "TWO-pass"
    page.get_by_role("button", name="Clear").click()
    page.locator("#count", has_text="6 of 6 jobs").wait_for()
    page.get_by_label("new failures only").check()
    page.locator("#count", has_text="2 of 6 jobs").wait_for()
    assert shown(page) == new
    page.get_by_label("Search").fill("no such job")
    page.get_by_text("No job matches all of these.").wait_for()
    page.goto(f"{site.as_uri()}#state=skipped")
    assert shown(page) == ["device/a2a3/pair/fused/small"]


def test_a_cause_leads_to_its_jobs_and_a_job_to_its_page(page: Any, site: Path) -> None:
    page.goto(site.as_uri())
    page.get_by_role("link", name="Show these 2 in the grid").click()
    page.locator("#count", has_text="2 of 6 jobs of one cause").wait_for()
    page.locator(".grid td a").first.click()
    page.get_by_role("heading", name="device/emu-a2a3/pair/fused/ties").wait_for()
    assert page.get_by_text("most likely: halo: a row is missing").is_visible()
    assert page.get_by_text("<img src=x onerror=alert(1)> </script>").first.is_visible()
    page.get_by_role("link", name="Timeline").click()
    page.get_by_role("heading", name="When jobs ran").wait_for()
    page.locator("svg a").first.click()
    assert "ties" in page.get_by_role("heading", level=1).inner_text()
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("heading", name="New failures").wait_for()


def test_the_keyboard_reaches_everything(page: Any, site: Path) -> None:
    page.goto(site.as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = []
    while (now := page.evaluate(FOCUSED)) not in ("BODY", "A #main"):
        reached.append(now)
        page.keyboard.press("Tab")
        assert len(reached) < 100
    wanted = ("INPUT q", "SELECT platform", "INPUT new", "BUTTON", f"A jobs/{PAGE}", "SUMMARY", "A #group=0")
    assert not [each for each in wanted if each not in reached]
    page.get_by_label("Search").focus()
    page.keyboard.type("ties")
    page.locator("#count", has_text="3 of 6 jobs").wait_for()
    page.locator(".grid td a").first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name=WRONG).wait_for()


FOCUSED = """(() => {
  const one = document.activeElement;
  return `${one.tagName} ${one.name || one.getAttribute("href") || ""}`.trim();
})()"""


def pages_of(site: Path) -> tuple[Path, ...]:
    """The first page, the timeline, and the page of the job that has everything."""
    return (site, site.with_name("timeline.html"), site.parent / "jobs" / PAGE)


def test_no_page_has_a_fault_of_accessibility(page: Any, site: Path) -> None:
    """All rules in two looks; in the other two those that colours and sizes decide: a rule costs time."""
    looks = (("light", WIDE, []), ("dark", NARROW, []), ("dark", WIDE, SEEN), ("light", NARROW, SEEN))
    for path in pages_of(site):
        page.goto(path.as_uri())
        for scheme, size, rules in looks:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(size)
            options = {
                "preload": False,
                "resultTypes": ["violations"],
                **({"runOnly": rules} if rules else {}),
            }
            found = axe.Axe().run(page, options=options).response["violations"]
            serious = [each for each in found if each["impact"] in ("serious", "critical")]
            assert serious == [], (path.name, scheme, size)


def test_a_narrow_screen_scrolls_down_only(page: Any, site: Path) -> None:
    page.set_viewport_size(NARROW)
    for path in pages_of(site):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path.name
    page.goto(site.as_uri())
    assert [box["width"] <= NARROW["width"] for box in boxes(page, ".charts img")] == [True] * 3
    assert page.get_by_role("region", name="List").evaluate("one => one.scrollWidth > one.clientWidth")


def boxes(page: Any, selector: str) -> list[Any]:
    """Where elements are drawn."""
    return [each.bounding_box() for each in page.locator(selector).all()]


def test_charts_follow_the_colours_and_paper_is_light(page: Any, site: Path) -> None:
    page.goto(site.as_uri())
    shown_as = (("light", "screen", ""), ("dark", "screen", "-dark"), ("dark", "print", ""))
    for scheme, media, ending in shown_as:
        page.emulate_media(color_scheme=scheme, media=media)
        names = [f"trend-{name}{ending}.svg" for name in ("passed", "seconds", "cycles")]
        page.wait_for_function(
            "names => [...document.querySelectorAll('.charts img')].every((one, place) =>"
            " one.complete && one.naturalWidth && one.currentSrc.endsWith(`/${names[place]}`))",
            arg=names,
        )
        assert page.locator(".charts img").count() == 3


def test_paper_has_everything_and_nothing_to_press(page: Any, site: Path) -> None:
    page.set_viewport_size(PAPER)
    page.emulate_media(media="print")
    for path in pages_of(site):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path.name
        for selector in ("nav", "form", "button", ".skip"):
            assert not any(boxes(page, selector)), f"{path.name}: {selector}"
        scrolled = "all => all.filter(one => getComputedStyle(one).overflowX !== 'visible').length"
        assert page.locator(".scroll").evaluate_all(scrolled) == 0
        details = boxes(page, "details > :not(summary)")
        assert all(box and box["height"] > 0 for box in details)
        assert bool(details) == (path.name != "timeline.html")


def test_a_jobs_page_leads_to_its_page_in_an_earlier_run(page: Any, site: Path) -> None:
    page.goto(pages_of(site)[-1].as_uri())
    strip = page.get_by_role("list", name="How the job ended")
    assert strip.get_by_role("listitem").count() == 3
    strip.get_by_role("link").click()  # of the nights before, one alone is kept
    page.get_by_role("heading", name="an earlier page").wait_for()


def test_the_table_of_all_jobs_is_a_file(page: Any, site: Path) -> None:
    page.goto(site.as_uri())
    with page.expect_download() as saved:
        page.get_by_role("link", name="All jobs as CSV").click()
    rows = list(csv.DictReader(Path(saved.value.path()).read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 6
    assert next(row["job"] for row in rows if row["state"] == "mismatch") == WRONG


def test_thousands_of_jobs_are_small_and_found(
    page: Any, tmp_path: Path, run_of: Callable[..., RunResults], wrong: Callable[..., Result]
) -> None:
    one = wrong("device/emu/g/fused/ties", message="x" * 500)
    platforms = [Platform(f"platform-{number}", "emulator", "a2a3") for number in range(5)]
    jobs = [
        replace(
            one.job,
            id=f"device/{place.name}/g{size}/k/p{kind}{'k' * 300 * (kind == 11)}",  # too long for a file
            platform=place,
            geometry_name=f"g{size}",
            profile=f"p{kind}",
        )
        for place in platforms
        for size in range(MANY // 100)
        for kind in range(20)
    ]
    run = run_of(*(replace(one, job=job, stages=()) for job in jobs))
    assert len(run.jobs) == MANY
    write_dashboard(run, tmp_path / "d", None, Earlier("there is no history here"))
    first = [tmp_path / "d" / name for name in ("index.html", "dashboard.css", "dashboard.js", "jobs.js")]
    assert sum(path.stat().st_size for path in first) < 2_000_000
    page.goto(first[0].as_uri())
    assert page.locator("#list tbody tr").count() == 200
    assert page.locator(".grid td a").count() == MANY
    page.get_by_label("Search").fill("platform-3/g7/k/p11")
    page.locator("#count", has_text=f"1 of {MANY} jobs").wait_for()
    page.locator(".grid td a").click()
    page.get_by_role("heading", name="device/platform-3/g7/k/p11").wait_for()
