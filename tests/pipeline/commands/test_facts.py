from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import numpy as np

from pipeline.commands.facts import run_facts, shared_digest

ROOT = Path(__file__).parents[3]


def test_a_run_says_where_and_with_what_it_ran() -> None:
    facts = run_facts(["run", "--geometry", "mc62"])
    assert facts["host"] == platform.node()
    assert facts["python"] == platform.python_version()
    assert facts["numpy"] == np.__version__
    assert facts["command"] == "python -m pipeline run --geometry mc62"
    assert all(facts[name] for name in ("torch", "pypto", "junit-xml", "processors", "system"))


def test_a_run_says_which_commit_it_ran() -> None:
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    expected = asked.stdout.strip() if asked.returncode == 0 else "unknown"
    assert run_facts([])["git"].removesuffix("-dirty") == expected


def test_the_digest_of_a_run_is_of_the_sources_that_all_of_its_parts_share() -> None:
    rooms = {
        f"{room}/": "aaaa" for room in ("emulator", "golden", "kernels", "lowering", "pipeline", "workloads")
    }
    begun = shared_digest(rooms)
    assert all(shared_digest({**rooms, room: "bbbb"}) != begun for room in rooms)
    tensors = {**rooms, "inputs": "aaaa"}
    assert len({begun, shared_digest(tensors), shared_digest({**tensors, "inputs": "bbbb"})}) == 3
    # Hosts have references of their own, and not every shard has a job of the user's workload.
    assert shared_digest({**rooms, "references": "aaaa", "workload.mine": "aaaa"}) == begun
