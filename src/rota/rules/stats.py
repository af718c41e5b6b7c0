"""The tallies of statistics: counts, histograms and sums of ended runs, and their figures. Pure functions.

A tally is a mapping of short keys to integers that are only ever added, so that any number of tallies give the tally
of a longer time or of more jobs. `run_tally` defines the keys.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from rota.model.budgets import Usage, usage_json
from rota.model.clock import MILLISECOND
from rota.model.states import Status, Trigger

HOUR, DAY = 3_600_000, 86_400_000
"""The lengths of a cell in milliseconds; days are those of UTC."""
LATE_AFTER = timedelta(seconds=60) // MILLISECOND
"""A run that starts more than this after its instant is late."""
UNKNOWN_COUNT = 10_000
"""A stretch of skipped instants that was too long to count adds this many."""
MAX_NAME = 80
"""Characters of the name of a model: it comes from an agent program."""

ROWS, COMPLETED, LATE, CALLS = "n", "C", "late", "calls"
FAILED, SKIPPED, CANCELLED = "F", "S", "X"
LETTERS = {Status.COMPLETED: COMPLETED, Status.FAILED: FAILED, Status.SKIPPED: SKIPPED, Status.CANCELLED: CANCELLED}
"""Failed, skipped and cancelled runs are counted by reason: `F.exit_code`."""
_REASONED = tuple(f"{letter}." for letter in (FAILED, SKIPPED, CANCELLED))
DURATION, WAIT, LATENESS = "d", "w", "l"
"""The sum of a measure in milliseconds; followed by the number of a bucket, its histogram: `d`, `d37`."""
FIRED, FIRED_FAILED = "h", "hf"
"""Followed by a number: runs that started so many hours before the hour of their end, and the failed ones."""
MAX_HOURS_BACK = 168
BOUND_EXPONENTS = range(2, 27)
"""The bounds of an exported histogram are these powers of two in milliseconds: 4 ms, 8 ms, … 18.6 hours."""
USED = "u"
"""Usage by agent and model: `u.usd.AGENT|MODEL`; money in millionths of a dollar."""
RUNS, TOKENS_IN, TOKENS_CACHED, TOKENS_OUT, REQUESTS, USD = "runs", "in", "cached", "out", "requests", "usd"

Tally = dict[str, int]


class RunTimes(NamedTuple):
    """The times of an ended run in milliseconds, and what started it."""

    trigger: str
    scheduled_for: int | None
    created_at: int
    dispatched_at: int | None
    started_at: int | None
    weight: int | None = 1


def bucket(milliseconds: int) -> int:
    """Return the bucket of a length of time: four for each doubling, so that a bound is at most 25 % away.

    >>> [bucket(length) for length in (0, 3, 4, 7, 8, 9, 10, 1000, 1023, 1024)]
    [0, 3, 4, 7, 8, 8, 9, 35, 35, 36]
    """
    if milliseconds < 4:
        return max(milliseconds, 0)
    doublings = milliseconds.bit_length() - 3
    return 4 * doublings + (milliseconds >> doublings)


def bounds(number: int) -> tuple[int, int]:
    """Return the first length of a bucket and the first of the next.

    >>> bounds(3), bounds(35), bounds(36)
    ((3, 4), (896, 1024), (1024, 1280))
    """
    if number < 4:
        return number, number + 1
    doublings = number // 4 - 1
    low = (number - 4 * doublings) << doublings
    return low, low + (1 << doublings)


def length_at(buckets: Mapping[int, int], share: float) -> timedelta | None:
    """Return the length below which `share` of all lie, between the bounds of its bucket; None without any.

    >>> length_at({35: 10, 36: 10}, 0.5)
    datetime.timedelta(seconds=1, microseconds=24000)
    """
    wanted = sum(buckets.values()) * share
    for number, count in sorted(buckets.items()):
        if wanted <= count:
            low, high = bounds(number)
            return round(low + (high - low) * wanted / count) * MILLISECOND
        wanted -= count
    return None


def histogram(tally: Mapping[str, int], measure: str) -> dict[int, int]:
    """Return the number of runs by bucket."""
    return parts(tally).buckets.get(measure, {})


class TallyParts(Struct, frozen=True):
    """A tally read once: ends by letter and reason, histograms by measure, and the sums of usage by kind."""

    ends: dict[str, dict[str, int]]
    buckets: dict[str, dict[int, int]]
    used: dict[str, int]

    def count(self, status: Status) -> int:
        """Return the number of runs that ended in a status."""
        return sum(self.ends.get(LETTERS[status], {}).values())


def parts(tally: Mapping[str, int]) -> TallyParts:
    """Read all keys of a tally.

    >>> parts({"C": 4, "F.exit_code": 2, "d": 900, "d35": 1, "hf2": 1}).buckets
    {'d': {35: 1}, 'hf': {2: 1}}
    """
    tallies = TallyParts({}, {}, {})
    for key, amount in tally.items():
        kind, name, number = _read_key(key)
        if kind == "bucket":
            tallies.buckets.setdefault(name, {})[number] = amount
        elif kind == "used":
            tallies.used[name] = tallies.used.get(name, 0) + amount
        elif kind:
            tallies.ends.setdefault(kind, {})[name] = amount
    return tallies


@lru_cache(maxsize=8192)
def _read_key(key: str) -> tuple[str, str, int]:
    """Return what a key counts: a bucket, usage, or the letter of a status with the reason; empty for a sum."""
    if key == COMPLETED:
        return key, "", 0
    if key.startswith(f"{USED}."):
        return "used", key.split(".", 2)[1], 0
    letter, dot, reason = key.partition(".")
    if dot:
        return letter, reason, 0
    measure = key.rstrip("0123456789")
    return ("bucket", measure, int(key[len(measure) :])) if len(measure) < len(key) else ("", key, 0)


def cumulative(tally: Mapping[str, int], measure: str) -> list[tuple[float, int]]:
    """Return the number of runs below each bound in seconds; the last bound is infinite, below it are all.

    >>> cumulative({"d3": 1, "d35": 10, "d36": 5}, "d")[0], cumulative({"d3": 1, "d35": 10, "d36": 5}, "d")[8]
    ((0.004, 1), (1.024, 11))
    """
    buckets = histogram(tally, measure)
    found, total = [], 0
    for exponent in BOUND_EXPONENTS:
        total = sum(count for number, count in buckets.items() if bounds(number)[1] <= 1 << exponent)
        found.append(((1 << exponent) / 1000, total))
    return [*found, (float("inf"), sum(buckets.values()))]


def ends(tally: Mapping[str, int]) -> Tally:
    """Return the keys of a tally that count ended runs by status and reason.

    >>> ends({"C": 2, "F.exit_code": 1, "d": 50, "d3": 3, "u.usd.a|b": 9})
    {'C': 2, 'F.exit_code': 1}
    """
    return {key: amount for key, amount in tally.items() if key == COMPLETED or key[:2] in _REASONED}


def mean(tally: Mapping[str, int], measure: str) -> timedelta | None:
    """Return the mean of a measure, None without any."""
    number = sum(histogram(tally, measure).values())
    return None if not number else tally.get(measure, 0) // number * MILLISECOND


def run_tally(times: RunTimes, status: Status, reason: str | None, *, at: int) -> Tally:
    """Return what one run adds to the cell of its end, `at` in milliseconds.

    A retry waits for its backoff and is late by design: it has a duration alone. A stretch of skipped instants adds
    its count.
    """
    letter = LETTERS[status]
    tally = {ROWS: 1, letter if reason is None else f"{letter}.{reason}": times.weight or UNKNOWN_COUNT}
    started, first = times.started_at, times.dispatched_at
    if started is not None:
        _measure(tally, DURATION, at - started)
        hours = min(at // HOUR - started // HOUR, MAX_HOURS_BACK)
        if hours > 0:
            tally[f"{FIRED}{hours}"] = 1
            if status is Status.FAILED:
                tally[f"{FIRED_FAILED}{hours}"] = 1
    if times.trigger != Trigger.RETRY and first is not None:
        _measure(tally, WAIT, first - times.created_at)
    if times.trigger == Trigger.SCHEDULE and started is not None and times.scheduled_for is not None:
        lateness = started - times.scheduled_for
        _measure(tally, LATENESS, lateness)
        if lateness > LATE_AFTER:
            tally[LATE] = 1
    return tally


def _measure(tally: Tally, measure: str, length: int) -> None:
    length = max(length, 0)
    tally[measure] = length
    tally[f"{measure}{bucket(length)}"] = 1


def usage_tally(usage: Usage | None, agent: str | None) -> Tally:
    """Return what the usage of a run or direct call adds."""
    if not usage_json(usage):
        return {}
    assert usage is not None
    model = "".join(filter(str.isprintable, usage.model or ""))
    name = f"{agent or ''}|{model[:MAX_NAME]}"
    amounts = {
        RUNS: 1,
        REQUESTS: usage.requests,
        TOKENS_IN: usage.tokens_in,
        TOKENS_CACHED: usage.tokens_cached,
        TOKENS_OUT: usage.tokens_out,
        USD: usage.usd,
    }
    return {f"{USED}.{kind}.{name}": amount for kind, amount in amounts.items() if amount}


class Spent(Struct, frozen=True):
    """The usage of an agent with a model; money in millionths of a dollar."""

    agent: str
    model: str
    runs: int = 0
    requests: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    usd: int = 0


_FIELDS = {
    RUNS: "runs",
    REQUESTS: "requests",
    TOKENS_IN: "tokens_in",
    TOKENS_CACHED: "tokens_cached",
    TOKENS_OUT: "tokens_out",
    USD: "usd",
}


def spent(tally: Mapping[str, int]) -> list[Spent]:
    """Return the usage of a tally by agent and model, by name.

    >>> spent({"u.runs.mender|haiku": 2, "u.usd.mender|haiku": 500, "C": 2})
    [Spent(agent='mender', model='haiku', runs=2, requests=0, tokens_in=0, tokens_cached=0, tokens_out=0, usd=500)]
    """
    found: dict[str, dict[str, int]] = {}
    for key, amount in tally.items():
        if key.startswith("u."):
            _, kind, name = key.split(".", 2)
            found.setdefault(name, {})[_FIELDS[kind]] = amount
    parts = {name: name.partition("|") for name in sorted(found)}
    return [Spent(agent, model, **found[name]) for name, (agent, _, model) in parts.items()]


def add(total: Tally, more: Mapping[str, int], times: int = 1) -> None:
    """Add a tally to a total, several times if so many runs are alike."""
    for key, amount in more.items():
        total[key] = total.get(key, 0) + amount * times


def sum_of(tallies: Iterable[Mapping[str, int]]) -> Tally:
    """Return the sum of tallies."""
    total: Tally = {}
    for tally in tallies:
        add(total, tally)
    return total


def counted(tally: Mapping[str, int], status: Status) -> int:
    """Return the number of runs that ended in a status.

    >>> counted({"F.exit_code": 2, "F.timed_out": 1, "C": 4}, Status.FAILED)
    3
    """
    letter = LETTERS[status]
    if status is Status.COMPLETED:
        return tally.get(letter, 0)
    return sum(reasons(tally, status).values())


def reasons(tally: Mapping[str, int], status: Status) -> dict[str, int]:
    """Return the number of runs of a status by reason."""
    start = f"{LETTERS[status]}."
    return {key[len(start) :]: amount for key, amount in tally.items() if key.startswith(start)}


def success_rate(tally: Mapping[str, int]) -> float | None:
    """Return the share of completed runs among completed and failed ones, None without any.

    >>> success_rate({"C": 3, "F.exit_code": 1, "S.overlap": 9})
    0.75
    """
    completed, failed = counted(tally, Status.COMPLETED), counted(tally, Status.FAILED)
    return completed / (completed + failed) if completed + failed else None


def usual(values: Sequence[float | None], *, least: int = 2) -> float | None:
    """Return the median of the same weekday's earlier values, None with fewer than `least` of them.

    >>> usual([3, None, 5, 4]), usual([3, None])
    (4, None)
    """
    known = sorted(value for value in values if value is not None)
    if len(known) < least:
        return None
    half = len(known) // 2
    return known[half] if len(known) % 2 else (known[half - 1] + known[half]) / 2


class Figures(Struct, frozen=True):
    """The figures of a tally. Runs are the completed, failed and cancelled ones; money is in millionths of a dollar."""

    runs: int
    completed: int
    failed: int
    skipped: int
    cancelled: int
    late: int
    success_rate: float | None
    duration_p50: timedelta | None
    duration_p95: timedelta | None
    lateness_p50: timedelta | None
    lateness_p95: timedelta | None
    wait_p50: timedelta | None
    wait_p95: timedelta | None
    paid_runs: int
    requests: int
    tokens: int
    usd: int


def figures(tally: Mapping[str, int]) -> Figures:
    """Return the figures of a tally."""
    tallies = parts(tally)
    completed, failed, skipped, cancelled = map(tallies.count, LETTERS)

    def at(measure: str, share: float) -> timedelta | None:
        return length_at(tallies.buckets.get(measure, {}), share)

    used = tallies.used
    return Figures(
        completed + failed + cancelled,
        completed,
        failed,
        skipped,
        cancelled,
        tally.get(LATE, 0),
        completed / (completed + failed) if completed + failed else None,
        at(DURATION, 0.5),
        at(DURATION, 0.95),
        at(LATENESS, 0.5),
        at(LATENESS, 0.95),
        at(WAIT, 0.5),
        at(WAIT, 0.95),
        used.get(RUNS, 0),
        used.get(REQUESTS, 0),
        used.get(TOKENS_IN, 0) + used.get(TOKENS_OUT, 0),
        used.get(USD, 0),
    )
