"""Says which lines of which files made a job, or took it out of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from pipeline.ground.jobs import Lane
from pipeline.matrix.errors import closest, dotted, shown
from pipeline.matrix.expand import Candidate, Matcher, Rule, excusing_rule, time_limit, with_compared
from pipeline.matrix.model import Matrix
from pipeline.matrix.select import FilterError
from pipeline.matrix.strict_yaml import KeyPath


@dataclass(frozen=True)
class Origin:
    """A line of a matrix file that a job comes from: the key that stands there and its effect on the job."""

    file: str
    line: int
    key: str
    effect: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: {self.effect}"


def explain(matrix: Matrix, job_id: str, today: date) -> tuple[Origin, ...]:
    """Return the lines that a job comes from, in the order in which they take effect.

    Args:
        matrix: a loaded matrix.
        job_id: a job of the plan, or one that an exclusion took out of it.
        today: the run's day, for expected failures that have ended.

    Raises:
        FilterError: no line makes such a job.
    """
    candidates = {candidate.id: candidate for candidate in with_compared(matrix)}
    if job_id not in candidates:
        raise FilterError(f"no line makes job `{shown(job_id)}`; {closest(job_id, candidates)}")
    return tuple(_Explainer(matrix, candidates[job_id], today).origins())


class _Explainer:
    def __init__(self, matrix: Matrix, job: Candidate, today: date) -> None:
        self._matrix = matrix
        self._job = job
        self._today = today

    def origins(self) -> Iterator[Origin]:
        yield from self._from_block()
        yield self._origin(("platforms", self._job.platform), "where it runs")
        yield self._origin(("geometries", self._job.geometry), "its shapes")
        document = self._matrix.document
        for place in self._matching(document.exclude):
            rule = document.exclude[place]
            yield self._origin(("exclude", place), f"takes it out of the plan: {rule.reason}")
        yield from self._time_limit()
        yield from self._expected_failure()

    def _origin(self, path: KeyPath, effect: str) -> Origin:
        node = self._matrix.source.at(path)
        return Origin(node.file, node.line, dotted(path), effect)

    def _matching(self, rules: Sequence[Rule]) -> list[int]:
        return Matcher(rules)(self._job.id)

    def _from_block(self) -> Iterator[Origin]:
        job = self._job
        derived = job.lane is Lane.COMPARE
        lane = Lane.DEVICE if derived else job.lane
        path: KeyPath = ("lanes", lane.value, "include", job.block)
        yield self._origin(
            path, "its block" if not derived else "the first block with device jobs it compares"
        )
        names = {
            "platforms": job.platform,
            "geometries": job.geometry,
            "kernels": job.kernel,
            "profiles": job.profile,
        }
        for section, name in names.items():
            written = self._matrix.source.at((*path, section)).plain()
            if isinstance(written, list) and name in written:
                yield self._origin((*path, section, written.index(name)), str(name))
        if job.lane is Lane.COMPILE and job.profile is not None:
            yield self._origin((*path, "verify"), f"verified on {job.profile}")

    def _time_limit(self) -> Iterator[Origin]:
        rules = self._matching(self._matrix.document.timeouts)
        path: KeyPath = ("timeouts", rules[-1]) if rules else ("lanes", self._job.lane.value, "timeout")
        written = self._matrix.source.at(path) is not self._matrix.source.at(path[:-1])
        limit = f"its time limit, {time_limit(self._matrix, self._job.lane, rules):g} s"
        yield self._origin(path, limit if written else f"{limit} (default)")

    def _expected_failure(self) -> Iterator[Origin]:
        rules = self._matrix.document.expected_failures
        matching = self._matching(rules)
        excusing = excusing_rule(self._matrix, matching, self._today)
        for place in matching:
            rule = rules[place]
            if rule is excusing:
                effect = f"its failure is expected: {rule.reason}"
            elif rule.until is not None and rule.until < self._today:
                effect = f"no longer excuses it: ended on {rule.until}"
            else:
                effect = "does not count: a later rule does"
            yield self._origin(("expected_failures", place), effect)
