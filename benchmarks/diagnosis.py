"""How long the diagnosis of MC62 takes, in golden pairs: the goal is at most 20.

Run as `python -m benchmarks.diagnosis`. Outputs are made by the hypotheses themselves, an arbitrary few of
each kind; what none explains is noise. Golden and diagnosis take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from golden import conv_pair
from golden.geometry import MC62
from pipeline.diff.diagnosis import diagnose
from pipeline.diff.evidence import Evidence
from pipeline.diff.hypotheses.base import View
from pipeline.diff.hypotheses.model import model_of
from pipeline.diff.hypotheses.registry import hypotheses
from pipeline.ground.memory import SENTINEL
from pipeline.ground.subject import Subject
from workloads.registry import workload_named
from workloads.tiling import CONTRACT

ROUNDS = 5
ALLOWED = 20
FAULTS = (
    "offset-unsigned",
    "offset-sign-1",
    "k-step-twice-1",
    "acc-not-reset-1",
    "wrong-stride-1",
    "band-up",
    "no-padding-left-2-interior",
    "nz-as-nd-mid",
    "unwritten",
)


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Print the median time of a diagnosis by fault, and in golden pairs."""
    tensors = conv_pair.DEFINITION.make("channels", MC62)
    golden = partial(conv_pair.compute, MC62, tensors, "vreq8")
    right = golden()
    subject = Subject(workload_named("conv-pair"), MC62, "a2a3", CONTRACT)
    form = subject.form("fused")
    assert form is not None
    y = right["y"]
    clean = Evidence(form, subject.frame("y"), tensors, right, "vreq8", "y", y, y, SENTINEL)
    model = model_of(clean, form)
    known = {hypothesis.name: hypothesis for hypothesis in hypotheses(model)}
    everywhere = View(model, np.arange(len(y)))
    outputs: dict[str, Any] = {
        name: known[name].predict(everywhere) for name in FAULTS if name != "unwritten"
    }
    outputs["unwritten"] = np.concatenate([y[:-112], np.full_like(y[-112:], SENTINEL)])
    outputs["noise"] = np.random.default_rng(1).integers(-128, 128, y.shape).astype(np.int8)
    outputs["clean"] = y
    print(f"{len(hypotheses(model))} hypotheses")
    for name, output in outputs.items():
        evidence = replace(clean, actual=output)
        rounds = [(seconds(golden), seconds(partial(diagnose, evidence))) for _ in range(ROUNDS + 1)][1:]
        pair, found = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:28} {found * 1e3:8.1f} ms   {found / pair:5.1f} golden pairs (allowed: {ALLOWED})")


if __name__ == "__main__":
    main()
