"""The queue with a million runs in it: claims past pools and lanes, moves, a page, and many runs at once."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

from msgspec import Struct

from bench.measuring import Report, Row, figure, quantile, rows_of, scratch, sized
from bench.rows import RawRows
from bench.scheduling import CLOCK, add_job, store_in
from rota.engine.membership.session import open_session
from rota.engine.transactions.claim import ClaimOwner, claim
from rota.engine.transactions.enqueue import Where
from rota.engine.transactions.finish import Finished, finish
from rota.model.agents import PLENTY, AgentProblem, ProviderHold, provider_pool
from rota.model.records import Outcome, ProcessIdentity
from rota.model.spec import Draw
from rota.model.states import Status
from rota.operations.bulk import trigger_many
from rota.operations.queue import look_at_queue
from rota.operations.run_actions import Destination, move_runs
from rota.store.driver import Database
from rota.store.sqlite.store import SqliteStore
from rota.store.tables import queue

TARGET = (
    "with 1,000,000 queued: claim p99 ≤ 5 ms, also behind a full pool, with 500 lanes and both; a move ≤ 5 ms; "
    "many at once ≥ 20,000 runs/s; a page ≤ 100 ms"
)
QUEUED = sized(1_000_000, 20_000)
CLAIMS = sized(500, 20)
WARM = sized(300, 10)
"""Claims and moves before those that count: commits are slow while the log grows, and a scheduler's has long grown."""
LANES = 500
FREE = (0, 1)
MOVES = sized(200, 10)
MOVES_TO = {
    "first": Destination(Where.FIRST),
    "last": Destination(Where.LAST),
    "before another": Destination(Where.BEFORE, other=f"nothing:{QUEUED // 2}"),
    "to place 1": Destination(Where.TO, place=1),
    "to place 1,000": Destination(Where.TO, place=1000),
}
PAGE = 100
MANY = sized(10_000, 500)
DONE = Outcome(Status.COMPLETED)


class Scenario(Struct, frozen=True):
    """A queue to claim from: the lanes that its runs stand in, in turn, and how many follow that may go.

    `blocked`: so many at the front stand in a lane whose pool is full.
    """

    name: str
    lanes: Callable[[Database], list[int]]
    behind: int = 0
    blocked: int = 0


def measure() -> Report:
    """Measure each on a full queue through rota's own stages, the same done raw between."""
    rows: list[Row] = []
    for scenario in (
        Scenario("claim", lambda _db: [1]),
        Scenario("claim behind a full pool", partial(_pools, count=1, capacity=0), behind=4 * CLAIMS),
        Scenario(f"claim over {LANES} lanes", partial(_pools, count=LANES, capacity=2)),
        Scenario(
            f"claim over {LANES} lanes behind a full pool",
            partial(_pools, count=LANES, capacity=2),
            blocked=QUEUED // 50,
        ),
        Scenario("claim behind a held provider", _held, behind=4 * CLAIMS),
        Scenario(f"claim behind {LANES} full pools", partial(_pools, count=LANES, capacity=0), behind=4 * CLAIMS),
    ):
        rows += _claims(scenario)
    return Report(
        "queue", TARGET, [*rows, *_others()], ["Each claim fills two free slots in one committed transaction."]
    )


def _pools(db: Database, *, count: int, capacity: int) -> list[int]:
    """Declare pools and return a lane for each."""
    queue.declare_pools(db, {f"pool-{number}": capacity for number in range(count)})
    return [queue.lane_of(db, [Draw(f"pool-{number}")]) for number in range(count)]


def _held(db: Database) -> list[int]:
    """Hold a provider, and return the lane of its runs; the pool that all agents share has room."""
    queue.declare_pools(db, {"agents": 4, provider_pool("acme"): PLENTY})
    now = CLOCK.now()
    until, problem = now + timedelta(days=1), AgentProblem.QUOTA
    hold = ProviderHold(
        "acme", until, stated=True, refusals=0, why="used up", run_id=None, set_at=now, problem=problem, since=now
    )
    queue.put_hold(db, hold)
    return [queue.lane_of(db, [Draw("agents"), Draw(provider_pool("acme"))])]


def _claims(scenario: Scenario) -> list[Row]:
    with scratch() as folder, scratch() as other:
        _fill(folder, scenario)
        raw = RawRows(other)
        raw.fill(QUEUED)
        store = store_in(folder)
        holder = open_session(store, folder, CLOCK, kind="serve", identity=ProcessIdentity("bench", 2, 2)).holder
        found = [(_claim(store, holder), _claim_raw(raw)) for _ in range(WARM + CLAIMS)][WARM:]
        store.close()
    return [*_quantiles(scenario.name, [one for one, _ in found]), *_quantiles("raw claim", [one for _, one in found])]


def _fill(folder: Path, scenario: Scenario) -> None:
    rows = RawRows(folder)
    store = store_in(folder)
    lanes = store.write(scenario.lanes)
    store.close()
    rows.fill(QUEUED, lanes=lanes, blocked=scenario.blocked)
    if scenario.behind:
        rows.fill(scenario.behind, first=QUEUED + 1)
    rows.connection.execute("UPDATE job SET run_number = (SELECT max(number) FROM run)").fetchall()
    rows.connection.close()


def _claim(store: SqliteStore, holder: ClaimOwner) -> float:
    began = time.perf_counter()
    claimed = store.write(partial(claim, holder=holder, free=FREE, now=CLOCK.now()))
    took = time.perf_counter() - began
    assert len(claimed) == len(FREE), "there is room for as many"
    finished = [Finished(one.run.id, one.run.job_id, DONE) for one in claimed]
    store.write(partial(finish, results=finished, epoch=holder.epoch, now=CLOCK.now()))
    return took


def _claim_raw(raw: RawRows) -> float:
    began = time.perf_counter()
    claimed = raw.start(len(FREE))
    took = time.perf_counter() - began
    raw.end(claimed)
    return took


def _others() -> list[Row]:
    """Move, look and enqueue over 500 lanes; raw: one position written, one lane read, one row after the other."""
    with scratch() as folder, scratch() as other:
        _fill(folder, Scenario("lanes", partial(_pools, count=LANES, capacity=2)))
        raw = RawRows(other)
        raw.fill(QUEUED)
        store = store_in(folder)
        add_job(store, "items", params={"item": 0})
        found = _moves(store, raw)
        pages = [(_timed(partial(_page, store, folder)), _timed(partial(raw.page, PAGE))) for _ in range(30)]
        many = [(_timed(partial(_many, store)), _timed(partial(raw.enqueue, MANY))) for _ in range(5)]
        store.close()
    found += _beside_raw("page of the queue", pages)
    rates = {"many at once": [MANY / one for one, _ in many], "raw many at once": [MANY / one for _, one in many]}
    return [*found, *rows_of(rates, "runs/s", against={"many at once": ["raw many at once"]})]


def _moves(store: SqliteStore, raw: RawRows) -> list[Row]:
    """Move runs from deep in the queue, each kind of move in turn."""
    took: dict[str, list[tuple[float, float]]] = {kind: [] for kind in MOVES_TO}
    for index in range(WARM + MOVES):
        for turn, (kind, destination) in enumerate(MOVES_TO.items()):
            number = index * len(MOVES_TO) + turn
            move = partial(_move, store, QUEUED // 3 + number * 7, destination)
            took[kind].append((_timed(move), _timed(partial(raw.place, number))))
    found = _beside_raw("move", [pair for pairs in took.values() for pair in pairs[WARM:]])
    for kind, pairs in took.items():
        found += _quantiles(f"move {kind}", [one for one, _ in pairs[WARM:]])
    return found


def _beside_raw(name: str, took: Sequence[tuple[float, float]]) -> list[Row]:
    return [*_quantiles(name, [one for one, _ in took]), *_quantiles(f"raw {name}", [raw for _, raw in took])]


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _move(store: SqliteStore, number: int, destination: Destination) -> None:
    move_runs(store, [f"nothing:{number}"], destination, now=CLOCK.now())


def _page(store: SqliteStore, folder: Path) -> None:
    look_at_queue(store, folder, limit=PAGE, now=CLOCK.now())


def _many(store: SqliteStore) -> None:
    trigger_many(store, "items", [{"item": number} for number in range(MANY)], now=CLOCK.now())


def _quantiles(name: str, took: Sequence[float]) -> list[Row]:
    return [figure(f"{name}, p{share * 100:g}", "ms", quantile(took, share) * 1000) for share in (0.5, 0.99)]
