"""Past runs in few lines: equal neighbours as one stretch, what it used, and why."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from rota.model.durations import say_duration
from rota.model.records import Run
from rota.rules.budget_words import say_money
from rota.rules.times import day_time
from rota.rules.why import say_why


def collapsed(runs: Sequence[Run]) -> list[list[Run]]:
    """Return runs in stretches of equal neighbours, each where its newest run stands.

    Neighbours are runs of one job that follow each other, whatever other jobs did between them.
    """
    stretches: list[list[Run]] = []
    newest: dict[str, list[Run]] = {}
    for run in runs:
        stretch = newest.get(run.job)
        if stretch is None or _alike(stretch[-1]) != _alike(run):
            stretch = newest[run.job] = []
            stretches.append(stretch)
        stretch.append(run)
    return stretches


def _alike(run: Run) -> tuple[object, ...]:
    return run.status.shown, run.reason, len(run.denied_tools)


def times_of(stretch: Sequence[Run]) -> int:
    """Return how many instants or starts a stretch stands for."""
    return sum(run.count or 1 for run in stretch)


def cost_words(stretch: Sequence[Run]) -> str:
    """Return what the runs of a stretch cost; `≥` where some do not tell, empty where none does."""
    return _said(stretch, "usd_millionths", say=say_money)


def token_words(stretch: Sequence[Run]) -> str:
    """Return how many tokens the runs of a stretch used, both ways together."""
    return _said(stretch, "tokens_in", "tokens_out")


def _said(runs: Sequence[Run], *keys: str, say: Callable[[int], str] = "{:,}".format) -> str:
    told = [run for run in runs if any(key in run.usage for key in keys)]
    total = sum(run.usage.get(key, 0) for run in told for key in keys)
    return f"{'≥ ' if len(told) < len(runs) else ''}{say(total)}" if told else ""


def started_words(stretch: Sequence[Run], zone: str, *, now: datetime) -> str:
    """Return when a stretch began and when its newest run did."""
    newest, oldest = (run.started_at or run.nominal for run in (stretch[0], stretch[-1]))
    near = newest - oldest < timedelta(hours=1)
    first = day_time(oldest, zone, now=now, seconds=near)
    return first if len(stretch) == 1 else f"{first} … {day_time(newest, zone, now=now, seconds=near)}"


def why_words(run: Run, zone: str, *, now: datetime) -> str:
    """Return what a run says about itself: its error, its summary, how late it was."""
    attempt = f"attempt {run.attempt}" if run.attempt > 1 else ""
    if error := say_why(run, zone, now=now):
        return f"{attempt}: {error}" if attempt else error
    parts = [attempt, run.result_summary or ""]
    if "made_up" in run.decisions:
        parts.append(f"{say_duration(timedelta(milliseconds=run.decisions.get('late_ms', 0)))} late")
    return " · ".join(part for part in parts if part)
