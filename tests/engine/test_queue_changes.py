"""Changes of the queue while a scheduler works: moves, edits, many runs at once, cancels by filter, restarts."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.engine.transactions.enqueue import Where
from rota.model.errors import (
    AgingOrders,
    Immutable,
    InvalidValue,
    NotQueued,
    OtherPriority,
    OverlapRefused,
    RunIsFinal,
    SetRefused,
)
from rota.model.records import Outcome
from rota.model.spec import Condition, Draw, Gates, Overlap, OverlapPolicy, Retry, WhenFalse
from rota.model.states import Held, Reason, Status, WaitingFor
from rota.operations.bulk import MAX_TRIGGERED_RUNS, Filter, cancel_matching, match_runs, trigger_many
from rota.operations.queue import look_at_queue
from rota.operations.run_actions import Destination, edit_run, move_runs
from rota.store.tables import queue
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import ALLOW, NOON, QUEUE, REPLACE, audit, command

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
FIRST, LAST = Destination(Where.FIRST), Destination(Where.LAST)


@pytest.fixture
async def busy(tmp_path: Path) -> AsyncIterator[Scene]:
    """A scheduler with one slot, which a run of `busy` holds for an hour; of `work` any number may run."""
    made = Scene(tmp_path, NOON, concurrency=1)
    await made.start()
    made.processes.scripts["busy"] = Script(takes=HOUR)
    made.declare(command("busy"), work())
    made.trigger("busy")
    await made.settle()
    yield made
    assert audit(made).violations == ()
    await made.close()


def work(name: str = "work", **changes):
    spec = command(name, **{"overlap": ALLOW, **changes})
    return replace(spec, work=replace(spec.work, params={"x": 0, "y": "é"}))


def go(scene: Scene, *handles: str, to: Destination, **changes):
    return move_runs(scene.store, handles, to, now=scene.clock.now(), **changes)


def edit(scene: Scene, handle: str, **changes):
    return edit_run(scene.store, handle, now=scene.clock.now(), **changes)


def many(scene: Scene, name: str, count: int, **changes):
    return trigger_many(scene.store, name, [{}] * count, now=scene.clock.now(), **changes)


def ready(scene: Scene) -> list[str]:
    return [run.handle for run in scene.store.read(lambda db: queue.runs_of(db, queue.ready(db, limit=20_000)))]


async def test_runs_start_in_the_order_into_which_they_were_moved_dec_005(busy: Scene) -> None:
    """DEC-005, INV-004: what is moved first starts first."""
    for _ in range(4):
        busy.trigger("work")
    go(busy, "work:4", "work:2", to=FIRST)
    go(busy, "work:1", to=LAST)
    await busy.advance("1h")
    assert busy.processes.begun == ["busy:1", "work:4", "work:2", "work:3", "work:1"]


async def test_a_move_tells_the_new_places_and_the_border_at_which_it_stopped_inv_004(busy: Scene) -> None:
    """INV-004: priority comes before position, so no move leaves its priority."""
    busy.declare(work("urgent", priority=5))
    busy.trigger("urgent")
    for _ in range(3):
        busy.trigger("work")
    (moved,) = go(busy, "work:3", to=FIRST)
    assert (moved.place, moved.note) == (2, "the first of priority 0")
    (moved,) = go(busy, "urgent:1", to=LAST)
    assert (moved.place, moved.note) == (1, "the last of priority 5")
    (moved,) = go(busy, "work:1", to=Destination(Where.TO, place=1000))
    assert (moved.place, moved.note) == (4, "the queue ends there")
    (moved,) = go(busy, "work:1", to=Destination(Where.TO, place=3))
    assert (moved.place, moved.note) == (3, "")


async def test_a_run_cannot_be_moved_before_one_of_another_priority_inv_004(busy: Scene) -> None:
    """INV-004: the refusal names the command that helps."""
    busy.declare(work("urgent", priority=5))
    busy.trigger("urgent")
    busy.trigger("work")
    with pytest.raises(OtherPriority, match="rota edit work:1 --priority 5"):
        go(busy, "work:1", to=Destination(Where.BEFORE, other="urgent:1"))
    edit(busy, "work:1", priority=5)
    go(busy, "work:1", to=Destination(Where.BEFORE, other="urgent:1"))
    assert ready(busy) == ["work:1", "urgent:1"]


async def test_only_queued_runs_have_a_place(busy: Scene) -> None:
    busy.trigger("work")
    with pytest.raises(NotQueued, match="busy:1 is RUNNING"):
        go(busy, "work:1", "busy:1", to=FIRST)
    with pytest.raises(InvalidValue, match="before itself"):
        go(busy, "work:1", to=Destination(Where.BEFORE, other="work:1"))
    for place in (0, 1001):
        with pytest.raises(InvalidValue, match=r"position \d+ does not exist"):
            go(busy, "work:1", to=Destination(Where.TO, place=place))


async def test_under_aging_moves_are_refused_and_priorities_still_change_the_order_r_03(busy: Scene) -> None:
    """DEC-005, R-03: with aging the order is a constant rank."""
    busy.store.write(lambda db: queue.set_aging(db, HOUR))
    busy.trigger("work")
    busy.trigger("work")
    with pytest.raises(AgingOrders, match="aging: 1h"):
        go(busy, "work:2", to=FIRST)
    edit(busy, "work:2", priority=1)
    assert ready(busy) == ["work:2", "work:1"]


async def test_a_dry_run_of_a_move_tells_the_place_and_moves_nothing(busy: Scene) -> None:
    for _ in range(3):
        busy.trigger("work")
    (moved,) = go(busy, "work:3", to=FIRST, dry_run=True)
    assert moved.place == 1
    assert ready(busy) == ["work:1", "work:2", "work:3"]


async def test_a_waiting_run_is_moved_and_keeps_waiting(busy: Scene) -> None:
    busy.declare(work("line", overlap=QUEUE))
    busy.trigger("line")
    busy.trigger("work")
    busy.trigger("line")
    (moved,) = go(busy, "line:2", to=FIRST)
    assert (moved.place, moved.run.waiting_for) == (None, WaitingFor.PREDECESSOR)
    await busy.advance("1h")
    assert busy.processes.begun == ["busy:1", "line:1", "line:2", "work:1"]


async def test_params_change_until_the_first_dispatch_and_never_after_inv_001(busy: Scene) -> None:
    """INV-001: the message names run and status; a gate that put the run back counts as dispatched."""
    busy.trigger("work", params={"x": 1})
    assert edit(busy, "work:1", params={"x": 2}).run.params == {"x": 2, "y": "é"}
    await busy.advance("1h")
    with pytest.raises(Immutable, match="cannot modify params after dispatch: work:1 is COMPLETED"):
        edit(busy, "work:1", params={"x": 3})
    gated = Gates((Condition(command=("open",)),), when_false=WhenFalse.WAIT)
    busy.processes.conditions["open"] = "false"
    busy.declare(work("gated", gates=gated))
    busy.trigger("gated")
    await busy.settle()
    (run,) = busy.history("gated")
    assert (run.status, run.waiting_for) == (Status.QUEUED, WaitingFor.CONDITION)
    with pytest.raises(Immutable, match="gated:1 is QUEUED"):
        edit(busy, "gated:1", params={"x": 3})
    assert edit(busy, "gated:1", priority=7).run.priority == 7


async def test_an_edit_reaches_the_run_that_it_names_and_its_version_stays_inv_005(busy: Scene) -> None:
    """INV-005: an edited run keeps the version of its job and everything that says which run it is."""
    busy.trigger("work")
    before = busy.history("work")[0]
    after = edit(busy, "work:1", params={"x": 5}, priority=3).run
    assert replace(after, params=before.params, priority=0, rank=0, decisions=before.decisions) == before
    await busy.advance("1h")
    assert busy.history("work")[0].params["x"] == 5


async def test_nonsense_edits_are_refused(busy: Scene) -> None:
    busy.trigger("work")
    with pytest.raises(InvalidValue, match="no param 'z'"):
        edit(busy, "work:1", params={"z": 1})
    with pytest.raises(InvalidValue, match="out of range"):
        edit(busy, "work:1", priority=1001)
    with pytest.raises(InvalidValue, match="no change is given"):
        edit(busy, "work:1")
    with pytest.raises(NotQueued):
        edit(busy, "busy:1", priority=1)
    cancel_matching(busy.store, Filter(jobs=("work",)), now=busy.clock.now())
    with pytest.raises(RunIsFinal):
        edit(busy, "work:1", params={"x": 1})


async def test_expires_after_holds_for_moved_edited_and_retried_runs_r_09(busy: Scene) -> None:
    """R-09: it counts from the enqueue, whatever was done to the run since."""
    busy.declare(work("short", gates=Gates(expires_after=timedelta(minutes=30))))
    busy.trigger("short")
    await busy.advance("20m")
    go(busy, "short:1", to=FIRST)
    edit(busy, "short:1", params={"x": 1}, priority=2)
    await busy.advance("15m")
    assert busy.told("short") == [("SKIPPED", "expired")]


async def test_ten_thousand_runs_enter_by_one_call_in_their_order(busy: Scene) -> None:
    """Bulk: all in one transaction, numbered and placed in the order of the list."""
    params = [{"x": number} for number in range(MAX_TRIGGERED_RUNS)]
    born = trigger_many(busy.store, "work", params, now=busy.clock.now())
    assert [one.number for one in born] == list(range(1, MAX_TRIGGERED_RUNS + 1))
    assert ready(busy) == [one.handle for one in born]
    found = busy.history("work")
    assert [run.params["x"] for run in found[:3]] == [0, 1, 2]
    assert found[-1].params == {"x": MAX_TRIGGERED_RUNS - 1, "y": "é"}
    assert busy.job("work").run_number == MAX_TRIGGERED_RUNS
    after = busy.trigger("work")
    assert ready(busy)[-1] == after
    cancel_matching(busy.store, Filter(queued=True), now=busy.clock.now())


async def test_one_wrong_item_refuses_all_of_them_and_is_named(busy: Scene) -> None:
    with pytest.raises(InvalidValue, match="item 3: job 'work' has no param 'z'"):
        trigger_many(busy.store, "work", [{"x": 1}, {}, {"z": 1}], now=busy.clock.now())
    assert busy.history("work") == []
    with pytest.raises(InvalidValue, match="too many"):
        many(busy, "work", MAX_TRIGGERED_RUNS + 1)
    with pytest.raises(InvalidValue, match="no runs"):
        many(busy, "work", 0)


async def test_many_runs_are_refused_where_overlap_has_no_room_for_all_r_11(busy: Scene) -> None:
    """R-11: judged for the whole set; nothing is made."""
    depth = Overlap(OverlapPolicy.QUEUE, queue_depth=2)
    busy.declare(command("one"), command("line", overlap=depth), command("newest", overlap=REPLACE))
    for name, room in (("one", 1), ("line", 3), ("newest", 1)):
        with pytest.raises(SetRefused, match=f"allows {room}"):
            many(busy, name, 4)
        assert busy.history(name) == []
    with pytest.raises(OverlapRefused):
        many(busy, "busy", 1)
    assert len(many(busy, "one", 4, force=True)) == 4
    await busy.advance("1h")


async def test_many_runs_of_a_queue_that_fit_wait_for_each_other_r_11(busy: Scene) -> None:
    """R-11: the same as if they were started one by one."""
    busy.declare(command("line", overlap=Overlap(OverlapPolicy.QUEUE, queue_depth=2)))
    many(busy, "line", 3)
    found = busy.history("line")
    assert [run.predecessor_id for run in found] == [None, found[0].id, found[1].id]
    assert [run.waiting_for for run in found] == [None, WaitingFor.PREDECESSOR, WaitingFor.PREDECESSOR]
    await busy.advance("1h")
    assert busy.processes.begun == ["busy:1", "line:1", "line:2", "line:3"]


async def test_many_runs_draw_on_the_pools_of_their_job_r_04(busy: Scene) -> None:
    """R-04: no door forgets the lane."""
    busy.store.write(lambda db: queue.declare_pools(db, {"gpu": 1}))
    busy.declare(work("drawing", pools=(Draw("gpu"),)))
    many(busy, "drawing", 3)
    lanes = {run.lane_id for run in busy.history("drawing")}
    assert lanes == {busy.store.read(lambda db: queue.lane_of(db, [Draw("gpu")]))}
    await busy.advance("1h")


async def test_a_filter_counts_first_and_then_cancels_what_it_counted(busy: Scene) -> None:
    busy.declare(work("old", labels=("nightly",)), work("line", overlap=QUEUE))
    many(busy, "old", 5)
    await busy.advance("10m")
    many(busy, "work", 3)
    busy.trigger("line")
    busy.trigger("line")
    now = busy.clock.now()

    def counts(**chosen):
        return {one.job: (one.queued, one.running) for one in match_runs(busy.store, Filter(**chosen), now=now)}

    assert counts() == {"busy": (0, 1), "old": (5, 0), "work": (3, 0), "line": (2, 0)}
    assert counts(running=True) == {"busy": (0, 1)}
    assert counts(older_than=timedelta(minutes=5), queued=True) == {"old": (5, 0)}
    assert counts(waiting_for=WaitingFor.PREDECESSOR) == {"line": (1, 0)}
    assert counts(labels=("nightly",)) == {"old": (5, 0)}
    assert cancel_matching(busy.store, Filter(jobs=("work", "old")), now=now).cancelled == 8
    assert busy.told("work") == [("CANCELLED", "requested")] * 3
    swept = cancel_matching(busy.store, Filter(running=True), now=now)
    assert (swept.cancelled, swept.asked) == (0, (busy.history("busy")[0].id,))
    await busy.settle()
    assert busy.told("busy") == [("CANCELLED", "requested")]
    assert busy.told("line") == [("COMPLETED", None)] * 2


async def test_runs_made_after_the_question_are_not_cancelled(busy: Scene) -> None:
    busy.trigger("work")
    asked_at = busy.clock.now()
    busy.clock.advance("1s")
    busy.trigger("work")
    cancel_matching(busy.store, Filter(jobs=("work",)), now=asked_at)
    assert [run.status for run in busy.history("work")] == [Status.CANCELLED, Status.QUEUED]


async def test_queued_runs_keep_order_and_waiting_reasons_over_restarts_dec_008(busy: Scene) -> None:
    """DEC-008: killed in between, three times, with moved, edited, waiting and retried runs."""
    failing = Script(ending=Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1))
    retry = Retry(max_attempts=2, backoff=timedelta(hours=2))
    busy.declare(work("flaky", retry=retry, priority=9), work("line", overlap=QUEUE))
    busy.processes.scripts["flaky"] = failing
    busy.trigger("flaky")
    await busy.advance("1h")
    busy.processes.scripts["busy"] = Script(takes=10 * HOUR)
    busy.trigger("busy")
    await busy.settle()
    many(busy, "work", 5)
    busy.trigger("line")
    busy.trigger("line")
    go(busy, "work:5", "work:3", to=FIRST)
    edit(busy, "work:4", params={"x": 4}, priority=2)

    def standing():
        found = busy.store.read(
            lambda db: queue.runs_of(db, [*queue.ready(db, limit=99), *queue.waiting(db, limit=99)])
        )
        return [(run.handle, run.waiting_for, run.not_before, run.params, run.predecessor_id) for run in found]

    before = standing()
    assert [handle for handle, *_ in before] == [
        *("work:4", "work:5", "work:3", "work:1", "work:2", "line:1"),
        *("flaky:2", "line:2"),
    ]
    for _ in range(3):
        await busy.crash()
        busy.clock.advance("1m")
        await busy.start()
        await busy.settle()
        assert standing() == before
    await busy.advance("11h")
    order_of_starts = [handle for handle in busy.processes.begun if handle != "busy:2"]
    assert order_of_starts == [
        *("busy:1", "flaky:1", "flaky:2", "work:4", "work:5", "work:3", "work:1", "work:2", "line:1", "line:2")
    ]


async def test_the_queue_says_what_keeps_each_run_r_02(busy: Scene) -> None:
    """R-02: derived when read; without a scheduler that answers, nobody claims."""
    busy.trigger("work")
    view = look_at_queue(busy.store, busy.settings.state, limit=10, now=busy.clock.now())
    assert [(one.place, one.run.handle, one.hold.held) for one in view.ready] == [(1, "work:1", Held.NO_WORKER)]
    assert (view.ready_count, view.waiting_count) == (1, 0)
