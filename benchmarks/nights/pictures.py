"""Take the pictures of a dashboard for the docs: `python -m benchmarks.nights.pictures DASHBOARD FOLDER JOB`.

DASHBOARD is the folder of one, JOB the id of a job whose page is taken too. Needs Debian's package chromium.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from pipeline.dashboard.words import page_of

WIDE, NARROW = {"width": 1000, "height": 900}, {"width": 360, "height": 900}
_RENAME = """([from, to]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(from, to);
}"""
"""Where the environment of this host is says nothing to a reader."""


def main(dashboard: Path, folder: Path, job: str) -> None:
    """Take them."""
    pages: dict[str, tuple[str, dict[str, Any]]] = {
        "light": ("index.html", {"viewport": WIDE, "color_scheme": "light"}),
        "dark": ("index.html", {"viewport": WIDE, "color_scheme": "dark"}),
        "narrow": ("index.html", {"viewport": NARROW}),
        "job": (f"jobs/{page_of(job)}", {"viewport": WIDE}),
        "timeline": ("timeline.html", {"viewport": {**WIDE, "height": 400}}),
    }
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"]  # it opens our own files alone
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        for name, (page, options) in pages.items():
            opened = browser.new_page(**options)
            opened.goto((dashboard.resolve() / page).as_uri())
            opened.evaluate(_RENAME, [sys.prefix, ".nox/environment"])
            opened.screenshot(path=folder / f"dashboard-{name}.png")
            opened.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
