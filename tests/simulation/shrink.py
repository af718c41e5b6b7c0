"""Makes a failing day small: jobs and happenings are taken away as long as it still fails."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from tests.simulation.plan import Day

T = TypeVar("T")
Fails = Callable[[Day], bool]


def shrink(day: Day, fails: Fails) -> Day:
    """Return a day that still fails and of which nothing can be taken away."""
    before = None
    while before != day:
        before = day
        happenings = _fewest(day.happenings, lambda kept: fails(replace(day, happenings=kept)))  # noqa: B023
        day = replace(day, happenings=happenings)
        jobs = _fewest(day.jobs, lambda kept: bool(kept) and fails(_with_jobs(day, kept)))  # noqa: B023
        day = _with_jobs(day, jobs)
    return day


def _with_jobs(day: Day, jobs: tuple) -> Day:
    names = {job.name for job in jobs}
    return replace(day, jobs=jobs, happenings=tuple(one for one in day.happenings if not one.job or one.job in names))


def _fewest(items: tuple[T, ...], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Take away halves, then quarters, down to single ones, while what is left fails."""
    size = max(1, len(items) // 2)
    while items:
        kept = _without_some(items, size, fails)
        if len(kept) == len(items):
            if size == 1:
                return items
            size = max(1, size // 2)
        items = kept
    return items


def _without_some(items: Sequence[T], size: int, fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    kept, place = tuple(items), 0
    while place < len(kept):
        fewer = kept[:place] + kept[place + size :]
        if fails(fewer):
            kept = fewer
        else:
            place += size
    return kept
