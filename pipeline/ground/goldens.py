"""The golden that a job is compared with."""

from __future__ import annotations

from pathlib import Path

from golden.cache import Wanted
from golden.inputs import load_inputs
from pipeline.ground.jobs import Job
from pipeline.ground.subject import subject_of


def wanted_golden(job: Job, inputs: Path | None) -> Wanted:
    """The golden that a job is compared with.

    Args:
        job: a job that has a profile.
        inputs: a file of tensors that replace those of the profile, or None.

    Raises:
        InputsError: the file's tensors do not fit the job's geometry.
        WorkloadError: the job's workload cannot be loaded.
    """
    subject = subject_of(job)
    definition, geometry = subject.definition, subject.geometry
    source = load_inputs(inputs, definition.specs(geometry)) if inputs is not None else str(job.profile)
    return Wanted(definition, geometry, source, job.platform.variant)
