"""What is paused, since when, for how long and why (R-20)."""

import json
from dataclasses import dataclass
from datetime import datetime

from rota.model.clock import from_ms, from_ms_or_none
from rota.store.driver import Database

ALL_KEY = "paused_all"


@dataclass(frozen=True, slots=True)
class Pause:
    """Who is paused, since when, how long and why. `job` None: everything, claiming included."""

    job: str | None
    since: datetime
    until: datetime | None
    reason: str


def everything_paused(db: Database) -> Pause | None:
    """Return the pause of everything, None if there is none."""
    row = db.row("meta_get", key=ALL_KEY)
    if row is None:
        return None
    value = json.loads(row[0])
    return Pause(None, from_ms(value["since"]), from_ms_or_none(value["until"]), value["reason"])


def ask_claiming_paused(db: Database) -> None:
    """Ask ahead what `claiming_paused` looks at."""
    db.ahead("meta_get", key=ALL_KEY)


def claiming_paused(db: Database, now: datetime) -> bool:
    """Tell whether nothing may be claimed now."""
    pause = everything_paused(db)
    return pause is not None and (pause.until is None or now < pause.until)


def paused_jobs(db: Database) -> list[Pause]:
    """Return the jobs that are paused, by name."""
    return [
        Pause(name, from_ms(since), from_ms_or_none(until), reason or "")
        for name, since, until, reason in db.rows("jobs_paused")
    ]


def is_over(pause: Pause | None, now: datetime) -> bool:
    """Tell whether a timed pause has come to its end."""
    return pause is not None and pause.until is not None and pause.until <= now


def next_pause_end(db: Database) -> datetime | None:
    """Return when the next timed pause is over."""
    row = db.row("job_next_pause_end")
    found = [from_ms_or_none(row[0]) if row else None]
    everything = everything_paused(db)
    found.append(everything.until if everything else None)
    return min((at for at in found if at is not None), default=None)
