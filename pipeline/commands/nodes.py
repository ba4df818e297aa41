"""Runs on a cluster: what the nodes are asked and sent, and what a node answers."""

from __future__ import annotations

import hashlib
import io
import os
import time
import zipfile
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence

from pipeline.commands.facts import ROOT, VERSIONS, run_facts, source_digests, source_files
from pipeline.commands.hosts import availability, device_pools, refuse_broken_toolchains
from pipeline.engines.registry import compiles, to_build, toolchain
from pipeline.ground.jobs import Job
from pipeline.run.cluster.executor import ClusterExecutor
from pipeline.run.cluster.head import AUTO
from pipeline.run.cluster.messages import Able, Inspect, Survey
from pipeline.run.cluster.roster import Cluster
from pipeline.run.executor import Terms
from pipeline.run.options import RunOptions

SURVEY = "pipeline.commands.nodes:survey"
"""The name of what answers `Inspect` on a node."""

_EPOCH = (1980, 1, 1, 0, 0, 0)


def survey(asked: Inspect, now: Callable[[], float] = time.time) -> Survey:
    """What this host can do of what is asked.

    `now` is its clock, which is read last of all: finding the toolchains runs compilers, and takes its time.

    Raises:
        DeviceError: a device is unknown, or outside what `TASK_DEVICE` lends here.
        ToolchainError: a toolchain is broken.
    """
    refuse_broken_toolchains(asked.jobs)
    facts = run_facts(())
    answers = [availability(job) for job in asked.jobs]
    toolchains = _toolchains(asked.jobs)
    return Survey(
        facts={name: facts[name] for name in ("host", *VERSIONS)},
        sources=source_digests(asked.jobs, {"inputs": asked.inputs}),
        able=tuple(Able(answer.reason, answer.remedy) for answer in answers),
        pools=device_pools(asked.jobs, asked.devices),
        toolchains=toolchains,
        lacks={name: what for name in _backends(asked.jobs) if (what := to_build(name))},
        clock=now(),
    )


def cluster_executor(arguments: Namespace, options: RunOptions) -> Callable[[Terms], ClusterExecutor]:
    """What makes the executor of a run on the cluster that a command line names."""
    cluster = Cluster(
        address=arguments.address or os.environ.get("RAY_ADDRESS") or AUTO,
        archive=sources_archive,
        root=ROOT,
        survey=SURVEY,
        facts={name: options.facts[name] for name in VERSIONS if name != "system"},
        sources=options.sources,
        toolchains=_toolchains,
        devices=arguments.devices,
        inputs=options.settings.inputs,
    )
    return lambda terms: ClusterExecutor(terms, cluster)


def _toolchains(plan: Sequence[Job]) -> Mapping[str, Mapping[str, str]]:
    """What the jobs of each backend of a plan compile with on this host, for those that compile."""
    return {name: toolchain(name, os.environ) for name in _backends(plan) if compiles(name)}


def _backends(plan: Sequence[Job]) -> list[str]:
    return sorted({platform.backend for job in plan for platform in job.platforms})


def sources_archive() -> tuple[bytes, str]:
    """The sources of this process as a zip file, and its digest: the same bytes for the same sources."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in source_files():
            information = zipfile.ZipInfo(str(path.relative_to(ROOT)), _EPOCH)
            information.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(information, path.read_bytes())
    content = buffer.getvalue()
    return content, hashlib.sha256(content).hexdigest()[:16]
