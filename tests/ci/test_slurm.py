from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
import pytest

SCRIPT = Path(__file__).parents[2] / "ci/slurm.sh"

RAY = """#!/bin/sh
echo "ray $*" >>"$CALLS"
[ -n "$RAY_AUTH_TOKEN" ] && echo "token $RAY_AUTH_MODE ${#RAY_AUTH_TOKEN}" >>"$CALLS"
echo "Ray runtime started."
exec sleep 600
"""
PYTHON = """#!/bin/sh
while ! grep -q srun "$CALLS"; do sleep 0.05; done
echo "python $*" >>"$CALLS"
exit 6
"""
SRUN = """#!/bin/sh
echo "srun $*" >>"$CALLS"
exec sleep 600
"""
HOSTNAME = """#!/bin/sh
[ "$1" = -I ] && echo "10.0.0.1 fe80::1" || echo node-1.example.org
"""


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    programs = {"ray": RAY, "python": PYTHON, "srun": SRUN, "hostname": HOSTNAME}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path / "calls"


def test_a_run_in_an_allocation_uses_all_nodes_and_leaves_none(calls: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{calls.parent}:{os.environ['PATH']}",
        "PIPELINE_PYTHON_BIN": str(calls.parent),
        "SLURM_JOB_NUM_NODES": "3",
        "SLURMD_NODENAME": "node-1",
        "SLURM_SUBMIT_DIR": str(calls.parent),
        "CALLS": str(calls),
    }
    ended = subprocess.run(["bash", str(SCRIPT), "--deadline", "8h"], env=environment)
    assert ended.returncode == 6
    head, token, others, run = calls.read_text().splitlines()
    assert head.startswith("ray start --head --port=6380 --node-ip-address=10.0.0.1 ")
    assert token == "token token 64"
    assert "--nodes=2 --ntasks=2 --ntasks-per-node=1 --exclude=node-1 " in others
    assert "ray start --address=10.0.0.1:6380" in others
    assert run == "python -m pipeline run --executor ray --address 10.0.0.1:6380 --deadline 8h"
    assert not [one for one in psutil.process_iter() if calls_of(one) == str(calls)]


def calls_of(process: psutil.Process) -> str:
    try:
        return str(process.environ().get("CALLS", ""))
    except psutil.Error:
        return ""
