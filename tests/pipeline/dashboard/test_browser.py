"""The dashboard in a real browser, opened from disk as a reader does."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.dashboard.earlier import Earlier
from pipeline.dashboard.site import write_dashboard
from pipeline.ground.jobs import DIAGNOSIS, REPRODUCE, SINCE, Platform, Result, State
from pipeline.report.results import RunResults

REMEDY = "needs Playwright: pip install -e '.[dev]'"
sync_api = pytest.importorskip("playwright.sync_api", reason=REMEDY)
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=REMEDY)

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")

MANY = 5_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for all tests."""
    with sync_api.sync_playwright() as playwright:
        # Its sandbox needs rights that a container, or root, may not have; it opens our own files alone.
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """An empty page; nothing may fail in it, and it may ask no network."""
    told: list[str] = []
    opened = browser.new_page()
    opened.on("console", lambda message: told.append(message.text))
    opened.on("pageerror", lambda error: told.append(str(error)))
    ours = ("file:", "data:", "about:")
    opened.on("request", lambda asked: told.extend([] if asked.url.startswith(ours) else [asked.url]))
    yield opened
    opened.close()
    assert told == []


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory,
    run_of: Callable[..., RunResults],
    result_of: Callable[..., Result],
    wrong: Callable[..., Result],
) -> Path:
    """A night of six jobs, two of which are newly wrong for one cause."""
    told = {DIAGNOSIS: "halo: a row is missing", REPRODUCE: "python -m pipeline run --kernel fused"}
    hostile = "<img src=x onerror=alert(1)> </script>"
    shared = {"facts": told, "causes": ("halo",)}
    run = run_of(
        result_of("device/emu-a2a3/pair/fused/small", seconds=1.0),
        wrong("device/emu-a2a3/pair/fused/ties", **shared, output=hostile, message=hostile),
        wrong("device/emu-a5/pair/fused/ties", **shared),
        wrong("device/emu-a5/pair/two-pass/ties", facts={SINCE: "20260301-040000-0000000000"}),
        result_of("device/a2a3/pair/fused/small", State.SKIPPED, message="no card here"),
        result_of("compile/emu-a5/pair/fused", seconds=0.5),
        undecided={"npu-1": "one of two jobs failed"},
    )
    folder = tmp_path_factory.mktemp("browser") / "dashboard"
    write_dashboard(run, folder, None, Earlier("there is no history here"))
    return folder / "index.html"


def shown(page: Any) -> list[str]:
    """The jobs that are listed."""
    return list(page.locator("#list tbody a").all_inner_texts())


def test_filters_and_search_are_in_the_address(page: Any, site: Path) -> None:
    page.goto(site.as_uri())
    assert len(shown(page)) == page.locator(".grid td a").count() == 6
    page.get_by_role("combobox", name="platform").select_option("emu-a5")
    page.get_by_text("3 of 6 jobs").wait_for()
    page.get_by_label("Search").fill("TWO-pass")
    page.get_by_text("1 of 6 jobs").wait_for()
    assert shown(page) == ["device/emu-a5/pair/two-pass/ties"]
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    assert shown(page) == ["device/emu-a5/pair/two-pass/ties"]
    assert page.get_by_label("Search").input_value() == "TWO-pass"
    page.get_by_role("button", name="Clear").click()
    page.get_by_text("6 of 6 jobs").wait_for()
    page.get_by_label("new failures only").check()
    page.get_by_text("2 of 6 jobs").wait_for()
    assert shown(page) == ["device/emu-a2a3/pair/fused/ties", "device/emu-a5/pair/fused/ties"]
    page.goto(f"{site.as_uri()}#state=skipped")
    assert shown(page) == ["device/a2a3/pair/fused/small"]


def test_a_cause_leads_to_its_jobs_and_a_job_to_its_page(page: Any, site: Path) -> None:
    page.goto(site.as_uri())
    page.get_by_role("link", name="Show these 2 in the grid").click()
    page.get_by_text("2 of 6 jobs of one cause").wait_for()
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


def test_the_keyboard_reaches_the_content_first(page: Any, site: Path) -> None:
    page.goto(site.as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_fault_of_accessibility(page: Any, site: Path, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    for path in (site, site.with_name("timeline.html"), next(site.parent.glob("jobs/*a2a3*ties.html"))):
        page.goto(path.as_uri())
        found = axe.Axe().run(page, options={"preload": False}).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert serious == [], path.name


def test_a_narrow_screen_scrolls_down_only(page: Any, site: Path) -> None:
    page.set_viewport_size({"width": 360, "height": 640})
    for path in (site, next(site.parent.glob("jobs/*a2a3*ties.html"))):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path.name


def test_thousands_of_jobs_are_small_and_found(
    page: Any, tmp_path: Path, run_of: Callable[..., RunResults], wrong: Callable[..., Result]
) -> None:
    one = wrong("device/emu/g/fused/ties", message="x" * 500)
    platforms = [Platform(f"platform-{number}", "emulator", "a2a3") for number in range(5)]
    jobs = [
        replace(
            one.job,
            id=f"device/{place.name}/g{size}/k/p{kind}",
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
    page.get_by_text(f"1 of {MANY} jobs").wait_for()
    page.locator(".grid td a").click()
    page.get_by_role("heading", name="device/platform-3/g7/k/p11").wait_for()
