"""Whether quiet hours and excluded dates allow what became of an instant, and when the next one fires (R-17)."""

from rota.model.clock import from_ms, iso
from rota.model.states import Reason
from rota.operations.auditing.lulls import Fate, Lulls, follows_zones
from rota.operations.auditing.spans import AuditedJob, Stretch


def wrong_fate(reason: str | None, at: int, lulls: Lulls, *, created_at: int | None) -> str | None:
    """Return what the calendar says where it does not allow an instant its row; `created_at` None: not known."""
    if reason == Reason.PAUSED:
        return None
    fate = lulls.fate(at)
    if fate is Fate.RUNS:
        return "lets it run" if reason in (Reason.QUIET_HOURS, Reason.EXCLUDED) else None
    if fate is Fate.EXCLUDED:
        return None if reason == Reason.EXCLUDED else "excludes it"
    if reason == Reason.QUIET_HOURS:
        return None
    end = lulls.quiet_end(at)
    if fate is Fate.SKIPPED or reason in (Reason.MISSED, Reason.EXCLUDED):
        return f"has quiet hours until {_say(end)}"
    early = end is not None and created_at is not None and created_at < end
    return f"lets it wait for {_say(end)}" if early else None


def waits(job: AuditedJob, stretch: Stretch) -> bool:
    """Tell whether the next instant waits for quiet hours to end, or may do so under other data of time zones."""
    if stretch.lulls is None:
        return stretch.schedule.quiet is not None and follows_zones(stretch.schedule)
    return job.next_for is not None and stretch.lulls.quiet_end(job.next_for) is not None


def wrong_wait(job: AuditedJob, stretch: Stretch) -> str | None:
    """Return what is wrong where an instant inside quiet hours does not wait for their end."""
    if stretch.lulls is None or job.next_for is None:
        return None
    end = stretch.lulls.quiet_end(job.next_for)
    if end is None or end == job.next_at:
        return None
    return f"{_say(job.next_for)} fires at {_say(job.next_at)}, but it lies in quiet hours until {_say(end)}"


def _say(ms: int | None) -> str:
    return "none" if ms is None else iso(from_ms(ms))
