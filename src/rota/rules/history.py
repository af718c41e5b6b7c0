"""What the newest runs of a job tell together: how long they take and how often they work."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from rota.model.records import Run
from rota.model.states import Status


@dataclass(frozen=True, slots=True)
class Record:
    """A summary of finished runs. Durations are None where none of the runs did any work."""

    runs: int
    completed: int
    failed: int
    median: timedelta | None
    longest: timedelta | None

    @property
    def rate(self) -> int | None:
        """How many of a hundred runs completed, of those that did their work; None for none."""
        return 100 * self.completed // (self.completed + self.failed) if self.completed + self.failed else None


def record_of(runs: Sequence[Run]) -> Record:
    """Return what these runs tell together."""
    durations = sorted(took for run in runs if run.status.final and (took := duration_of(run)) is not None)
    return Record(
        runs=sum(run.status.final for run in runs),
        completed=sum(run.status is Status.COMPLETED for run in runs),
        failed=sum(run.status is Status.FAILED for run in runs),
        median=durations[len(durations) // 2] if durations else None,
        longest=durations[-1] if durations else None,
    )


def duration_of(run: Run) -> timedelta | None:
    """Return how long a finished run took; None where it never started or still runs."""
    if run.started_at is None or run.finished_at is None:
        return None
    return max(run.finished_at - run.started_at, timedelta())
