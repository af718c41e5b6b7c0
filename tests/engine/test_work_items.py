"""Runs that work on items of a source: claimed before they start, reported or given back when they end (003)."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from rota.engine.loops.work_sources import WorkReporter
from rota.model.agents import WorkAhead, WorkItem, WorkReport, WorkRequest
from rota.model.errors import SecretMissing, SourceError
from rota.model.records import Claim, ClaimState, Outcome
from rota.model.spec import AgentWork, JobSpec, Kind, Retry, SourceKind, Work, WorkSource
from rota.model.states import Reason, Status
from rota.operations.admin.doctor import untold_findings
from rota.operations.explain import explain
from rota.operations.run_actions import cancel_run
from rota.operations.runs import show_run
from rota.operations.status.attention import Attention
from rota.operations.status.heartbeat import Heartbeat, Liveness
from rota.operations.status.status import look
from rota.operations.views import whole_run_json
from rota.rules.health_checks import Severity
from rota.store.driver import Store
from rota.store.tables import work_items
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.calling import call, told
from tests.engine.conftest import ALLOW, NO_RETRY, audit, every
from tests.scene import tamper
from tests.waiting import LONGEST_WAIT

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)
DEAD = Heartbeat(Liveness.DEAD)
SHELF = WorkSource(SourceKind.RUN, "shelf")
FAILS = Outcome(Status.FAILED, Reason.EXIT_CODE, error="exit 2", exit_code=2)


class Shelf:
    """A source in memory that keeps books as a good one does."""

    def __init__(self, *items: str) -> None:
        self.waiting = [WorkItem(item, f"title of {item}") for item in items]
        self.held: dict[str, WorkItem] = {}
        self.reports: list[tuple[str, WorkReport]] = []
        self.asked: list[str] = []
        self.refuses: Exception | None = None

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        self.asked.append(request.claim)
        if self.refuses is not None:
            raise self.refuses
        if not self.waiting:
            return None
        item = replace(self.waiting.pop(0), claim={"id": request.claim})
        self.held[request.claim] = item
        return item

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        if self.refuses is not None:
            raise self.refuses
        if self.held.pop(item.claim["id"], None) is not None:
            self.reports.append((item.id, outcome))

    def release(self, item: WorkItem, /) -> None:
        self._release(item.claim["id"])

    def release_claim(self, request: WorkRequest, /) -> None:
        self._release(request.claim)

    def _release(self, claim: str) -> None:
        if self.refuses is not None:
            raise self.refuses
        item = self.held.pop(claim, None)
        if item is not None:
            self.waiting.insert(0, item)

    def peek(self, _request: WorkRequest, /) -> WorkAhead:
        return WorkAhead(len(self.waiting))


def fixer(name: str = "fix", *, source: WorkSource = SHELF, **changes: Any) -> JobSpec:
    """Return an agent's job that works on the items of a source."""
    agent = AgentWork("fixer", "claude", "anthropic", prompt="Fix it.", source=source)
    return replace(JobSpec(name, Work(Kind.AGENT, agent=agent), retry=NO_RETRY), **changes)


def stock(scene: Scene, *items: str, takes: timedelta = MINUTE, ending: Outcome | None = None) -> Shelf:
    """Put items on the shelf, and say how the runs of `fix` end."""
    shelf = scene.sources.sources["shelf"] = Shelf(*items)
    done = Outcome(Status.COMPLETED, summary="mended", exit_code=0)
    scene.processes.scripts["fix"] = Script(takes, ending or done)
    return shelf


def claims(scene: Scene) -> list[Claim]:
    """Return the newest claim of each run of `fix`."""
    found = [scene.store.read(partial(work_items.of_run, run_id=run.id)) for run in scene.history("fix")]
    return [claim for claim in found if claim is not None]


def hang(scene: Scene) -> asyncio.Event:
    """Let the answers of sources get lost on their way, until the event is set."""
    heard = asyncio.Event()

    async def ask(call: Callable[[], Any], *, within: float, late: Callable[[], None] = lambda: None) -> Any:
        del within
        found = call()
        try:
            await heard.wait()
        except asyncio.CancelledError:
            late()
            raise
        return found

    scene.sources.ask = ask  # type: ignore[method-assign]
    return heard


async def test_a_run_gets_an_item_and_its_source_is_told_how_it_ended(scene: Scene) -> None:
    shelf = stock(scene, "a")
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    item = scene.processes.given["fix:1"].brief.item
    assert item is not None
    assert item.title == "title of a"
    assert claims(scene)[0].state is ClaimState.HELD
    await scene.advance(MINUTE)
    assert scene.told("fix") == [("COMPLETED", None)]
    assert shelf.reports == [("a", WorkReport(success=True, run="fix:1", summary="mended"))]
    assert claims(scene)[0].state is ClaimState.REPORTED


async def test_a_source_without_an_item_skips_the_run_and_leaves_no_row(scene: Scene) -> None:
    stock(scene)
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    assert scene.told("fix") == [("SKIPPED", "no_work")]
    assert scene.history("fix")[0].error == "run shelf has no items"
    assert claims(scene) == []


async def test_a_source_that_fails_skips_the_run_and_is_asked_to_take_back_what_it_may_have_given(scene: Scene) -> None:
    shelf = stock(scene, "a")
    shelf.refuses = SourceError("503 not now")
    scene.declare(fixer(schedule=every("15m")))
    await scene.settle()
    assert scene.told("fix") == [("SKIPPED", "source_error")]
    assert scene.history("fix")[0].error == "run shelf: 503 not now"
    assert claims(scene)[0].state is ClaimState.RELEASING
    shelf.refuses = None
    await scene.advance("16m")
    assert claims(scene)[0].state is ClaimState.RELEASED
    assert scene.told("fix")[1] == ("COMPLETED", None)


async def test_a_secret_that_is_missing_fails_the_run_before_anything_is_asked(scene: Scene) -> None:
    stock(scene, "a")

    def find(_wanted: WorkSource) -> Shelf:
        raise SecretMissing("GITHUB_TOKEN")

    scene.sources.find = find  # type: ignore[method-assign]
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    assert scene.told("fix") == [("FAILED", "secret_missing")]
    assert claims(scene) == []


async def test_a_failed_run_gives_its_item_back_until_the_third_which_reports_it_as_failed(scene: Scene) -> None:
    shelf = stock(scene, "a", ending=FAILS)
    scene.declare(fixer(schedule=every("15m")))
    await scene.advance("2m")
    assert [item.id for item in shelf.waiting] == ["a"]
    assert claims(scene)[0].state is ClaimState.RELEASED
    await scene.advance("1h")
    assert scene.told("fix") == [("FAILED", "exit_code")] * 3 + [("SKIPPED", "no_work")]
    assert shelf.reports == [("a", WorkReport(success=False, run="fix:3", error="exit 2"))]


async def test_an_item_that_somebody_puts_back_after_its_report_begins_anew(scene: Scene) -> None:
    shelf = stock(scene, "a", ending=FAILS)
    scene.declare(fixer(source=replace(SHELF, attempts=1)))
    for _ in range(2):
        scene.trigger("fix")
        await scene.advance("2m")
        shelf.waiting.append(WorkItem("a", "again"))
    assert [outcome.run for _, outcome in shelf.reports] == ["fix:1", "fix:2"]


@pytest.mark.parametrize("reason", [Reason.QUOTA, Reason.AUTH, Reason.SHUTDOWN, Reason.SPAWN_FAILED])
async def test_a_failure_that_any_item_would_have_met_does_not_count(scene: Scene, reason: Reason) -> None:
    shelf = stock(scene, "a", ending=Outcome(Status.FAILED, reason, error="no"))
    scene.declare(fixer(source=replace(SHELF, attempts=1)))
    scene.trigger("fix")
    await scene.advance("2m")
    assert ([item.id for item in shelf.waiting], shelf.reports) == (["a"], [])


async def test_a_retry_gets_the_item_that_the_failed_attempt_gave_back(scene: Scene) -> None:
    shelf = stock(scene, "a", "b", ending=FAILS)
    scene.declare(fixer(retry=Retry(max_attempts=2, backoff=timedelta(seconds=10))))
    scene.trigger("fix")
    await scene.advance("1m")
    scene.processes.scripts["fix"] = Script(MINUTE)
    await scene.advance("5m")
    assert scene.told("fix") == [("FAILED", "exit_code"), ("COMPLETED", None)]
    assert shelf.reports[0][0] == "a"


async def test_a_cancelled_run_gives_its_item_back(scene: Scene) -> None:
    shelf = stock(scene, "a", takes=timedelta(hours=1))
    scene.declare(fixer())
    handle = scene.trigger("fix")
    await scene.settle()
    cancel_run(scene.store, handle, now=scene.clock.now())
    await scene.settle()
    assert scene.told("fix") == [("CANCELLED", "requested")]
    assert [item.id for item in shelf.waiting] == ["a"]


async def test_a_report_that_fails_is_made_again_and_never_changes_the_run(scene: Scene) -> None:
    shelf = stock(scene, "a")
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    shelf.refuses = SourceError("502", again_after=300)
    await scene.advance("2m")
    assert scene.told("fix") == [("COMPLETED", None)]
    (claim,) = claims(scene)
    assert (claim.state, claim.attempts, claim.error) == (ClaimState.REPORTING, 1, "502")
    shelf.refuses = None
    await scene.advance("3m")
    assert shelf.reports == []
    await scene.advance("2m")
    assert [item for item, _ in shelf.reports] == ["a"]


async def test_a_source_that_is_never_heard_again_is_given_up_in_the_end(scene: Scene) -> None:
    shelf = stock(scene, "a")
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    shelf.refuses = SourceError("gone")
    await scene.advance("1d")
    (claim,) = claims(scene)
    assert (claim.state, claim.attempts) == (ClaimState.GIVEN_UP, 20)
    assert scene.told("fix") == [("COMPLETED", None)]


async def test_what_a_source_was_never_told_needs_attention_and_is_a_finding(scene: Scene) -> None:
    shelf = stock(scene, "a", "b")
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    shelf.refuses = SourceError("gone")
    await scene.advance("1d")
    what = "1 report or release was abandoned: gone"
    assert look(scene.store, DEAD, now=scene.clock.now()).attention == (
        Attention("run shelf", what, "rota show fix:1", kind="source", sign="fix:1", subject="fix:1"),
    )
    assert look(scene.store, DEAD, now=scene.clock.now(), scope="api").attention == ()
    (finding,) = scene.store.read(partial(untold_findings, now=scene.clock.now()))
    assert (finding.level, finding.text) == (Severity.WARNING, "run shelf: 1 report or release was abandoned: gone")
    later = scene.clock.now() + timedelta(days=8)
    assert look(scene.store, DEAD, now=later).attention == ()
    assert list(scene.store.read(partial(untold_findings, now=later))) == []


async def test_two_runs_never_hold_the_same_item_even_when_their_source_gives_it_twice(scene: Scene) -> None:
    shelf = stock(scene, "a", "a", takes=timedelta(hours=1))
    scene.declare(fixer(overlap=ALLOW))
    scene.trigger("fix")
    scene.trigger("fix")
    await scene.settle()
    assert scene.told("fix") == [("RUNNING", None), ("SKIPPED", "source_error")]
    assert "fix:1 holds" in (scene.history("fix")[1].error or "")
    assert list(shelf.held) == [claims(scene)[0].claim]


async def test_runs_side_by_side_get_items_of_their_own(scene: Scene) -> None:
    stock(scene, "a", "b", takes=timedelta(hours=1))
    scene.declare(fixer(overlap=ALLOW))
    for _ in range(3):
        scene.trigger("fix")
    await scene.settle()
    assert scene.told("fix") == [("RUNNING", None), ("RUNNING", None), ("SKIPPED", "no_work")]
    given = [scene.processes.given[handle].brief.item for handle in ("fix:1", "fix:2")]
    assert [item.id for item in given if item is not None] == ["a", "b"]


async def test_a_crash_before_the_answer_was_stored_gives_the_claim_back_and_the_run_asks_anew(scene: Scene) -> None:
    shelf = stock(scene, "a")
    scene.declare(fixer())
    scene.trigger("fix")
    asking = scene.sources.ask
    hang(scene)
    await scene.settle()
    assert claims(scene)[0].state is ClaimState.ASKING
    await scene.crash()
    scene.sources.ask = asking  # type: ignore[method-assign]
    await scene.start()
    await scene.advance("2m")
    assert scene.told("fix") == [("COMPLETED", None)]
    run_id = scene.history("fix")[0].id
    assert shelf.asked == [run_id, f"{run_id}.2"]
    assert [item for item, _ in shelf.reports] == ["a"]


async def test_a_crash_during_the_work_gives_the_item_back(scene: Scene) -> None:
    shelf = stock(scene, "a", takes=timedelta(hours=1))
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    await scene.crash()
    scene.processes.living.clear()  # the machine went down
    await scene.start()
    await scene.settle()
    assert scene.told("fix") == [("FAILED", "process_restarted")]
    assert ([item.id for item in shelf.waiting], shelf.reports) == (["a"], [])


async def test_a_run_that_outlives_its_scheduler_is_reported_by_the_next(scene: Scene) -> None:
    shelf = stock(scene, "a")
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    await scene.crash()
    await scene.start()
    await scene.advance("2m")
    assert scene.told("fix") == [("COMPLETED", None)]
    assert [item for item, _ in shelf.reports] == ["a"]


async def test_a_crash_after_the_end_was_stored_reports_at_the_next_start(scene: Scene) -> None:
    shelf = stock(scene, "a")
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    shelf.refuses = SourceError("no network")
    await scene.advance(MINUTE)
    await scene.crash()
    shelf.refuses = None
    await scene.start()
    await scene.advance("1m")
    assert [item for item, _ in shelf.reports] == ["a"]


async def test_a_stop_while_the_source_is_asked_gives_back_what_it_answers_later(scene: Scene) -> None:
    shelf = stock(scene, "a")
    scene.declare(fixer())
    scene.trigger("fix")
    asking = scene.sources.ask
    hang(scene)
    await scene.settle()
    scene.engine.quiesce()
    await scene.quiet()
    assert scene.told("fix") == [("QUEUED", None)]
    assert claims(scene)[0].state is ClaimState.RELEASING
    scene.sources.ask = asking  # type: ignore[method-assign]
    scene.engine.outbox.late(claims(scene)[0].claim)
    await scene.settle()
    assert [item.id for item in shelf.waiting] == ["a"]
    assert claims(scene)[0].state is ClaimState.RELEASED


async def test_an_answer_that_never_comes_is_released_when_it_can_come_no_more(scene: Scene) -> None:
    shelf = stock(scene, "a")
    scene.declare(fixer())
    handle = scene.trigger("fix")
    asking = scene.sources.ask
    hang(scene)
    await scene.settle()
    cancel_run(scene.store, handle, now=scene.clock.now())
    await scene.settle()
    scene.sources.ask = asking  # type: ignore[method-assign]
    assert scene.told("fix") == [("CANCELLED", "requested")]
    assert shelf.waiting == []
    await scene.advance("34s")
    assert shelf.waiting == []
    await scene.advance("2s")
    assert [item.id for item in shelf.waiting] == ["a"]


async def test_an_answer_that_comes_after_its_release_is_given_back_once_more(scene: Scene) -> None:
    shelf = stock(scene, "a")
    shelf.refuses = SourceError("no answer within 30 s")
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    shelf.refuses = None
    await scene.advance("1m")
    (claim,) = claims(scene)
    assert claim.state is ClaimState.RELEASED
    shelf.held[claim.claim] = shelf.waiting.pop()
    scene.engine.outbox.late(claim.claim)
    await scene.settle()
    assert [item.id for item in shelf.waiting] == ["a"]


async def test_a_direct_call_works_on_an_item_too(scene: Scene) -> None:
    shelf = stock(scene, "a")
    scene.declare(fixer())
    first = call(scene, "fix")
    await scene.advance("2m")
    assert told(scene, first) == ("COMPLETED", None)
    assert [item for item, _ in shelf.reports] == ["a"]
    second = call(scene, "fix")
    await scene.settle()
    assert told(scene, second) == ("FAILED", "spawn_failed")


async def test_a_forced_run_claims_an_item_as_any_other(scene: Scene) -> None:
    shelf = stock(scene, "a")
    scene.declare(fixer())
    scene.trigger("fix", force=True)
    await scene.advance("2m")
    assert [item for item, _ in shelf.reports] == ["a"]


async def test_what_is_planned_is_told_by_one_process_alone(scene: Scene) -> None:
    stock(scene, "a")
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    scene.sources.sources["shelf"].refuses = SourceError("later")  # type: ignore[attr-defined]
    await scene.advance(MINUTE)
    scene.clock.advance("10m")
    now = scene.clock.now()
    taken = [
        scene.store.write(partial(work_items.take, claim=claims(scene)[0].claim, now=now, until=now + MINUTE))
        for _ in range(2)
    ]
    assert taken == [True, False]
    assert await WorkReporter(scene.store, scene.clock, scene.sources).round() == now + MINUTE


class LateResults:
    """A store whose transactions are committed before their results arrive, as those of a thread may be."""

    def __init__(self, store: Store) -> None:
        self.read = store.read
        self._write = store.write
        self._pending: list[tuple[asyncio.Future[Any], Any]] = []

    def submit(self, operation: Callable[..., Any]) -> asyncio.Future[Any]:
        """Commit an operation; its result arrives by `arrive`."""
        self._pending.append((asyncio.get_running_loop().create_future(), self._write(operation)))
        return self._pending[-1][0]

    def arrive(self) -> None:
        """Let all results arrive."""
        while self._pending:
            future, result = self._pending.pop(0)
            future.set_result(result)


async def test_a_claim_waits_for_a_release_whose_commit_is_not_announced_yet(scene: Scene) -> None:
    shelf = stock(scene, "a")
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    shelf.refuses = SourceError("later")
    await scene.advance(MINUTE)
    scene.clock.advance("10m")
    shelf.refuses = None
    store = LateResults(scene.store)
    reporter = WorkReporter(store, scene.clock, scene.sources)  # type: ignore[arg-type]
    taking = asyncio.create_task(reporter.round())
    settling = asyncio.create_task(reporter.settle(SHELF.key))
    done, _ = await asyncio.wait({settling}, timeout=0)
    assert not done
    async with asyncio.timeout(LONGEST_WAIT):
        while not settling.done():
            store.arrive()
            await asyncio.wait({settling}, timeout=0)
    assert (shelf.held, len(shelf.reports)) == ({}, 1)
    await taking


async def test_rows_of_items_go_with_their_runs(scene: Scene) -> None:
    stock(scene, "a")
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.advance("2m")
    run_id = scene.history("fix")[0].id
    scene.store.write(partial(work_items.forget_runs, run_ids=[run_id]))
    assert scene.store.read(partial(work_items.of_run, run_id=run_id)) is None


async def test_a_restored_copy_leaves_items_alone_that_may_be_worked_on_elsewhere(scene: Scene) -> None:
    stock(scene, "a", takes=timedelta(hours=1))
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.settle()
    assert scene.store.write(partial(work_items.leave_all, why="restored", now=scene.clock.now())) == 1
    assert claims(scene)[0].state is ClaimState.GIVEN_UP


async def test_an_item_that_an_ended_run_still_holds_is_found_by_verify(unaudited: Scene) -> None:
    stock(unaudited, "a", takes=timedelta(hours=1))
    unaudited.declare(fixer())
    unaudited.trigger("fix")
    await unaudited.settle()
    (claim,) = claims(unaudited)
    cancel_run(unaudited.store, "fix:1", now=unaudited.clock.now())
    await unaudited.settle()
    undo = "UPDATE work_item SET state = 'held', ended_at = NULL, not_before = NULL, told_at = NULL"
    tamper(unaudited, f"{undo} WHERE claim = '{claim.claim}'")
    assert [one.text for one in audit(unaudited).violations] == [
        "fix:1 holds the item 'a' of run shelf, but is not in progress"
    ]


async def test_explain_and_show_tell_what_a_run_worked_on(scene: Scene) -> None:
    stock(scene, "a")
    scene.declare(fixer())
    scene.trigger("fix")
    await scene.advance("2m")
    lines = explain(scene.store, "fix:1", state=scene.settings.state, now=scene.clock.now()).run_lines
    assert [line.text for line in lines if line.label == "work"] == [
        'run shelf: a "title of a" claimed 12:00:00, reported 12:01:00'
    ]
    told = whole_run_json(show_run(scene.store, "fix:1"), None)["work"]
    assert (told["item"]["id"], told["state"]) == ("a", "reported")
