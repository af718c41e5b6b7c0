"""The scheduler's state (document 000): what runs changed of it is merged in the transactions of their ends."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rota.model.records import SCHEDULER_STATE_LIMIT, Outcome
from rota.model.states import Reason, Status
from rota.rules.shared_state import merged
from rota.store.driver import Database
from rota.store.locking import Turn, hold_turn
from rota.store.rows import write_json

KEY = "scheduler_state"


def scheduler_state(db: Database) -> dict[str, Any]:
    """Return the document that all jobs share."""
    row = db.row("meta_get", key=KEY)
    found: dict[str, Any] = json.loads(row[0]) if row is not None else {}
    return found


def judge(db: Database, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return outcomes that may be stored: a run whose changes no longer fit into the document has failed."""
    if any(outcome.scheduler_state for outcome in outcomes):
        hold_turn(db, Turn.STATE)
    document, judged = scheduler_state(db), []
    for outcome in outcomes:
        wanted = merged(document, outcome.scheduler_state or {})
        size = len(write_json(wanted).encode())
        if outcome.scheduler_state and size > SCHEDULER_STATE_LIMIT:
            judged.append(_too_large(outcome, size))
        else:
            document = wanted
            judged.append(outcome)
    return judged


def _too_large(outcome: Outcome, size: int) -> Outcome:
    error = f"`scheduler_state` would be {size:,} bytes, the limit is {SCHEDULER_STATE_LIMIT:,}"
    return replace(
        outcome, status=Status.FAILED, reason=Reason.RESULT_INVALID, error=error, state=None, scheduler_state=None
    )


def save(db: Database, changed: Iterable[Mapping[str, Any] | None]) -> None:
    """Merge what runs changed, in their order."""
    told = [one for one in changed if one]
    if not told:
        return
    document = scheduler_state(db)
    for one in told:
        document = merged(document, one)
    db.execute("meta_set", key=KEY, value=write_json(document))
