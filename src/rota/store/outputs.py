"""The output of runs that share it (`output: database`): in pieces, for machines that do not have its files (R-21)."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.model.clock import to_ms
from rota.store.driver import Database


@dataclass(frozen=True, slots=True)
class Shared:
    """A piece of a run's output, and where it begins."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """Where the next one begins, unless something was left out."""
        return self.offset + len(self.data)


def save(db: Database, run_id: str, pieces: Sequence[Shared], *, now: datetime) -> None:
    """Store pieces; one that is there stays as it is."""
    for piece in pieces:
        text = base64.b64encode(piece.data).decode("ascii")
        db.execute("output_save", run_id=run_id, part=piece.offset, text=text, now=to_ms(now))


def read(db: Database, run_id: str, *, after: int, limit: int) -> list[Shared]:
    """Return the pieces that begin at an offset or later, in order."""
    rows = db.rows("output_read", run_id=run_id, after=after, limit=limit)
    return [Shared(part, base64.b64decode(text)) for part, text in rows]


def end(db: Database, run_id: str) -> int:
    """Return how far the output of a run is stored."""
    row = db.row("output_last", run_id=run_id)
    return 0 if row is None else Shared(row[0], base64.b64decode(row[1])).end


def forget_runs(db: Database, run_ids: Sequence[str]) -> None:
    """Let go of the output of runs that are gone."""
    db.execute("output_forget", ids=json.dumps(list(run_ids)))


def old(db: Database, before: datetime) -> bool:
    """Tell whether there are pieces from before."""
    return db.row("output_old", before=to_ms(before)) is not None


def prune(db: Database, before: datetime, *, limit: int) -> int:
    """Let go of pieces from before; return how many went."""
    return db.execute("output_prune", before=to_ms(before), limit=limit)
