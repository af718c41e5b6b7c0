"""Past runs in few lines: equal neighbours as one stretch, what it used, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Unpack

from rota.model.durations import say_duration
from rota.model.records import Run
from rota.operations.runs import Asked, chosen_of
from rota.operations.searching import ROWS, runs_saying, wanted_text
from rota.rules.budget_words import say_money
from rota.rules.times import day_time
from rota.rules.why import say_why
from rota.store import finding, jobs
from rota.store.driver import Database, Store
from rota.store.runs import run_by_number

ROWS_A_LINE = 40


@dataclass(frozen=True, slots=True)
class Stretch:
    """Runs of one job that follow each other and ended alike."""

    newest: Run
    oldest: Run
    runs: int
    times: int
    """How many instants or starts they stand for."""
    usd: int = 0
    usd_told: int = 0
    """How many of the runs tell what they cost."""
    tokens: int = 0
    tokens_told: int = 0


@dataclass(frozen=True, slots=True)
class Lines:
    """The newest stretches, and whether there are older ones."""

    stretches: tuple[Stretch, ...]
    more: bool


def history_lines(store: Store, text: str | None, *, limit: int, **asked: Unpack[Asked]) -> Lines:
    """Return the newest `limit` stretches, each of them whole, however many runs it has.

    With a text only those of the newest 50,000 runs count whose summary or error holds it.
    """
    if text is not None:
        saying = runs_saying(store, wanted_text(text), limit=ROWS, among=ROWS, **asked)
        stretches = collapsed(saying.runs)
        return Lines(tuple(stretches[:limit]), len(stretches) > limit or saying.last is not None)

    def read(db: Database) -> Lines:
        chosen = chosen_of(db, asked)
        return Lines((), more=False) if chosen is None else _lines(db, chosen, limit=limit)

    return store.read(read)


def _lines(db: Database, chosen: finding.Chosen, *, limit: int) -> Lines:
    """Read the newest runs; what follows the oldest one read of each job is added up in the database."""
    rows = limit * ROWS_A_LINE
    runs = finding.history(db, limit=rows, **chosen)
    stretches = collapsed(runs)
    if len(runs) < rows:
        return Lines(tuple(stretches[:limit]), len(stretches) > limit)
    last = {one.newest.job_id: index for index, one in enumerate(stretches)}
    more = len(stretches) > limit or _has_others(db, chosen, set(last))
    for index in (index for index in last.values() if index < limit):
        older = finding.alike_before(db, stretches[index].oldest, **chosen)
        stretches[index] = _longer(db, stretches[index], older)
        more = more or not older.complete
    return Lines(tuple(stretches[:limit]), more)


def _has_others(db: Database, chosen: finding.Chosen, job_ids: set[str]) -> bool:
    """Tell whether runs of other jobs are meant, too."""
    if chosen.get("job_id"):
        return False
    meant = chosen.get("job_ids")
    others = [one for one in ([job.id for job in jobs.all_jobs(db)] if meant is None else meant) if one not in job_ids]
    elsewhere: finding.Chosen = {**chosen, "job_ids": others}
    return bool(others) and bool(finding.history(db, limit=1, **elsewhere))


def _longer(db: Database, stretch: Stretch, older: finding.Older) -> Stretch:
    oldest = None if older.oldest is None else run_by_number(db, stretch.newest.job_id, older.oldest)
    return replace(
        stretch,
        oldest=oldest or stretch.oldest,
        runs=stretch.runs + older.runs,
        times=stretch.times + older.times,
        usd=stretch.usd + older.usd,
        usd_told=stretch.usd_told + older.usd_told,
        tokens=stretch.tokens + older.tokens,
        tokens_told=stretch.tokens_told + older.tokens_told,
    )


def collapsed(runs: Sequence[Run]) -> list[Stretch]:
    """Return runs in stretches of equal neighbours, each where its newest run stands.

    Neighbours are runs of one job that follow each other, whatever other jobs did between them.
    """
    stretches: list[list[Run]] = []
    newest: dict[str, list[Run]] = {}
    for run in runs:
        stretch = newest.get(run.job_id)
        if stretch is None or _alike(stretch[-1]) != _alike(run):
            stretch = newest[run.job_id] = []
            stretches.append(stretch)
        stretch.append(run)
    return [stretch_of(stretch) for stretch in stretches]


def _alike(run: Run) -> tuple[object, ...]:
    return run.status.shown, run.reason, len(run.denied_tools)


def stretch_of(runs: Sequence[Run]) -> Stretch:
    """Return runs that ended alike, newest first, as one stretch."""
    costs = [run.usage["usd_millionths"] for run in runs if "usd_millionths" in run.usage]
    both = [(run.usage.get("tokens_in"), run.usage.get("tokens_out")) for run in runs]
    tokens = [sum(filter(None, pair)) for pair in both if pair != (None, None)]
    times = sum(run.count or 1 for run in runs)
    return Stretch(runs[0], runs[-1], len(runs), times, sum(costs), len(costs), sum(tokens), len(tokens))


def cost_words(stretch: Stretch) -> str:
    """Return what the runs of a stretch cost; `≥` where some do not tell, empty where none does."""
    return _amount(say_money(stretch.usd), stretch.usd_told, stretch)


def token_words(stretch: Stretch) -> str:
    """Return how many tokens the runs of a stretch used, both ways together."""
    return _amount(f"{stretch.tokens:,}", stretch.tokens_told, stretch)


def _amount(words: str, told: int, stretch: Stretch) -> str:
    return f"{'≥ ' if told < stretch.runs else ''}{words}" if told else ""


def started_words(stretch: Stretch, zone: str, *, now: datetime) -> str:
    """Return when a stretch began and when its newest run did; of runs that never started, when they were due."""
    newest, oldest = (run.started_at or run.nominal for run in (stretch.newest, stretch.oldest))
    near = newest - oldest < timedelta(hours=1)
    first = unstarted_word(stretch.oldest) + day_time(oldest, zone, now=now, seconds=near)
    return first if stretch.runs == 1 else f"{first} … {day_time(newest, zone, now=now, seconds=near)}"


def unstarted_word(run: Run) -> str:
    """Return what the time is that stands in the place of a start; nothing where the run started."""
    if run.started_at is not None:
        return ""
    return "created " if run.scheduled_for is None else "due "


def why_words(run: Run, zone: str, *, now: datetime) -> str:
    """Return what a run says about itself: its error, its summary, how late it was."""
    attempt = f"attempt {run.attempt}" if run.attempt > 1 else ""
    if error := say_why(run, zone, now=now):
        return f"{attempt}: {error}" if attempt else error
    parts = [attempt, run.result_summary or ""]
    if "made_up" in run.decisions:
        parts.append(f"{say_duration(timedelta(milliseconds=run.decisions.get('late_ms', 0)))} late")
    return " · ".join(part for part in parts if part)
