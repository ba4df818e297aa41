"""What befalls jobs and devices in some nights: each function does a job's work instead of `execute`."""

from __future__ import annotations

import time
from dataclasses import replace

from pipeline.engines.base import InfrastructureError
from pipeline.ground.jobs import Job
from pipeline.ground.results import Blame, JobContext, Result
from pipeline.work.stages import execute

FLAKY = "device/emu-a2a3/pair-24x16/fused/small"
HANGING = "device/emu-a2a3/gemm-128/gemm/full-range@7"
SICK = 1
"""The number of the sick device."""


def wrong_once(job: Job, context: JobContext) -> Result:
    """Leave a part of one job's output unwritten, as a kernel does that depends on what nobody set."""
    if job.id == FLAKY:
        context = replace(context, settings=replace(context.settings, inject="unwritten"))
    return execute(job, context)


def sick_device(job: Job, context: JobContext) -> Result:
    """Fail on one device, whatever the job."""
    if context.device == SICK:
        raise InfrastructureError("rtStreamSynchronize failed: 507018", Blame.DEVICE)
    return execute(job, context)


def hanging(job: Job, context: JobContext) -> Result:
    """Never end one job."""
    while job.id == HANGING:
        time.sleep(1)
    return execute(job, context)
