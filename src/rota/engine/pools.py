"""Pools: given back when a run ends, kept by a thread that outlives its run until it returns (R-03, section 7)."""

import json
from collections.abc import Collection, Sequence

from rota.store import queue, runs
from rota.store.driver import Database


def settle_pools(db: Database, ended: Sequence[runs.Ended], *, kept: Collection[str]) -> None:
    """Give back what ended runs drew; those of `kept` leave slot and pools to a thread that cannot be killed."""
    if kept:
        db.execute("abandoned_insert", ids=json.dumps([run.id for run in ended if run.id in kept]))
    queue.give_back(db, [run.lane_id for run in ended if run.id not in kept])


def return_kept(db: Database, run_id: str) -> None:
    """Give back what the thread of an ended run kept; nothing if it kept nothing."""
    queue.give_back(db, [lane_id for (lane_id,) in db.rows("abandoned_delete", run_id=run_id)])


def forget_kept(db: Database, epochs: Sequence[int]) -> None:
    """Give back what threads of processes that are gone kept: they went with them."""
    forgotten = db.rows("abandoned_forget", epochs=json.dumps(list(epochs)))
    queue.give_back(db, [lane_id for (lane_id,) in forgotten])
