"""Print the child pipeline of a night for GitLab: `night.yml` beside this file, with a job for each part.

JSON is YAML too. The environment variables NIGHTLY_CARDS (platforms with cards, separated by blanks) and
NIGHTLY_PAGES (`true` publishes the night) are those of `.gitlab-ci.yml`.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

EMULATED = ("emu-a2a3", "emu-a5", "cann-a2a3")
"""The platforms that need no card."""

SHARDS = 4
"""In how many parts their jobs are divided, if there are as many."""


def child(shards: Mapping[str, Any], cards: list[str], *, pages: bool) -> dict[str, Any]:
    """The child pipeline of these shards, as `list --shards` gives them, and of platforms with cards."""
    pipeline: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("night.yml").read_text())
    part, on_cards = pipeline.pop(".part"), pipeline.pop(".on-cards")
    parts = {}
    for each in shards["include"]:
        words = [*_platforms(), "--shard", each["shard"]]
        parts[f"emulator-{each['part']}"] = {**part, "script": [_run(f"emulator-{each['part']}", words)]}
    for platform in cards:
        run = _run(f"device-{platform}", ["--platform", platform])
        parts[f"device-{platform}"] = {**part, **on_cards, "tags": ["npu", platform], "script": [run]}
    reports = [f"reports/{name}/junit.xml" for name in parts]
    count = str(len(shards["include"]))
    # Every part is named, so that the merge fails if one is missing.
    merge = ["nox", "-s", "report", "--", "merge", *reports, "--shards", count, "--out", "night/junit.xml"]
    pipeline["report"]["script"].append(shlex.join(merge))
    if not pages:
        del pipeline["pages"]
    return {**pipeline, **parts}


def _platforms() -> list[str]:
    return [word for platform in EMULATED for word in ("--platform", platform)]


def _run(name: str, words: list[str]) -> str:
    return shlex.join(["ci/nightly.sh", f"reports/{name}", *words, "--attachments", "relative"])


if __name__ == "__main__":
    listing = ["-m", "pipeline", "list", "--lane", "device", *_platforms(), "--shards", str(SHARDS)]
    listed = subprocess.run([sys.executable, *listing], stdout=subprocess.PIPE, check=False)
    if listed.returncode:
        sys.exit(listed.returncode)  # the line on stderr says why
    night = child(
        json.loads(listed.stdout),
        os.environ.get("NIGHTLY_CARDS", "").split(),
        pages=os.environ.get("NIGHTLY_PAGES") == "true",
    )
    json.dump(night, sys.stdout, indent=2)
