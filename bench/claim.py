"""Claiming for one free slot with a million runs queued."""

import time
from functools import partial

from bench.measuring import Report, figure, quantile, scratch, sized
from bench.rows import RawRows
from bench.scheduling import CLOCK, store_in
from rota.engine.membership.session import open_session
from rota.engine.transactions.claim import ClaimOwner, claim
from rota.engine.transactions.finish import Finished, finish
from rota.model.records import Outcome, ProcessIdentity
from rota.model.states import Status

TARGET = "claim p99 ≤ 2.1 ms with 1,000,000 queued"
QUEUED = sized(1_000_000, 2_000)
CLAIMS = sized(1_000, 50)
DONE = Outcome(Status.COMPLETED)


def measure() -> Report:
    """Fill the queue raw, then claim and end runs one by one through the engine's own stages, raw commits between."""
    with scratch() as folder, scratch() as other:
        rows = RawRows(folder)
        rows.fill(QUEUED)
        rows.connection.close()
        raw = RawRows(other)
        store = store_in(folder)
        holder = open_session(store, folder, CLOCK, kind="serve", identity=ProcessIdentity("bench", 2, 2)).holder
        found = [(_claim_one(store, holder), _commit_one(raw)) for _ in range(CLAIMS)]
        store.close()
    shown = []
    for name, took in zip(("claim", "raw commit"), zip(*found, strict=True), strict=True):
        shown.extend(figure(f"{name}, p{share * 100:g}", "ms", quantile(took, share) * 1000) for share in (0.5, 0.99))
    return Report("claim", TARGET, shown, ["Each claim is one committed transaction; the run before was ended."])


def _commit_one(raw: RawRows) -> float:
    began = time.perf_counter()
    raw.enqueue_one()
    return time.perf_counter() - began


def _claim_one(store, holder: ClaimOwner) -> float:
    began = time.perf_counter()
    (claimed,) = store.write(partial(claim, holder=holder, free=[0], now=CLOCK.now()))
    took = time.perf_counter() - began
    finished = Finished(claimed.run.id, claimed.run.job_id, DONE)
    store.write(partial(finish, results=[finished], epoch=holder.epoch, now=CLOCK.now()))
    return took
