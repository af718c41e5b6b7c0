"""Budgets on a playing scheduler (R-19): reserved before the start, settled with the end, right after a crash."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.engine.loops.pruner import Pruner
from rota.engine.recovery import settle_restored
from rota.model.budgets import Account, Per, Price, Unit, Usage
from rota.model.errors import BudgetExceeded
from rota.model.records import Outcome
from rota.model.spec import Condition, Gates, Retention, Retry, Spend, WhenFalse
from rota.model.states import Reason, Status
from rota.operations.explain import explain
from rota.operations.run_actions import cancel_run
from rota.store.tables import budgets, runs
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.calling import call, look, told
from tests.engine.conftest import NOON, audit, command, cron, every, function
from tests.engine.spending import DAY, dollars, put, skipping, spending, used, warning
from tests.engine.test_functions import play
from tests.scene import tamper

pytestmark = pytest.mark.anyio

TWO = Spend("day", dollars(2), Unit.USD)
SIX = Spend("day", dollars(6), Unit.USD)
MIDNIGHT = NOON + timedelta(hours=12)


async def test_a_run_reserves_its_estimate_and_settles_what_it_used(scene: Scene) -> None:
    """R-19: settled + reserved + estimate must fit; settled in the transaction of its end."""
    put(scene, spending("agent", scene, TWO, takes="3m", usage=Usage(usd=dollars(0.41))))
    scene.trigger("agent")
    await scene.settle()
    assert used(scene) == (0, dollars(2))
    await scene.advance("3m")
    assert scene.told("agent") == [("COMPLETED", None)]
    assert used(scene) == (dollars(0.41), 0)


async def test_a_run_that_says_nothing_settles_at_its_estimate(scene: Scene) -> None:
    """R-19."""
    put(scene, spending("agent", scene, TWO))
    scene.trigger("agent")
    await scene.settle()
    assert used(scene) == (dollars(2), 0)


async def test_explain_says_why_a_run_is_charged_its_estimate(scene: Scene) -> None:
    silent = spending("agent", scene, TWO)
    put(scene, silent)
    scene.trigger("agent")
    await scene.advance("2m")
    told = explain(scene.store, "agent:1", state=scene.settings.state, now=scene.clock.now())
    [charged] = [line.text for line in told.run_lines if line.label == "charged"]
    assert charged.endswith("the estimate (by the job): the run reported no usage")


async def test_a_failed_run_is_charged_too(scene: Scene) -> None:
    """R-19: what was spent is spent."""
    spec = spending("agent", scene, TWO)
    ending = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1, usage=Usage(usd=dollars(3)))
    scene.processes.scripts["agent"] = Script(ending=ending)
    put(scene, spec)
    scene.trigger("agent")
    await scene.settle()
    assert used(scene) == (dollars(3), 0)


async def test_without_room_a_run_waits_for_the_next_window_and_starts_then(scene: Scene) -> None:
    """R-19: defer. The slot is given back meanwhile."""
    put(scene, spending("agent", scene, SIX))
    scene.trigger("agent")
    scene.trigger("agent")
    await scene.settle()
    _, second = scene.history("agent")
    assert (second.status, second.waiting_for, second.not_before) == (Status.QUEUED, "budget", MIDNIGHT)
    assert scene.engine.slots.taken == 0
    await scene.advance("12h")
    assert scene.told("agent") == [("COMPLETED", None)] * 2
    assert scene.history("agent")[1].started_at == MIDNIGHT


async def test_an_account_that_skips_ends_the_run(scene: Scene) -> None:
    """R-19: skip."""
    put(scene, spending("agent", scene, SIX), accounts=(skipping(),))
    scene.trigger("agent")
    scene.trigger("agent")
    await scene.settle()
    assert scene.told("agent") == [("COMPLETED", None), ("SKIPPED", "budget")]
    error = scene.history("agent")[1].error
    assert error == "day has no room for $6.00 more: $6.00 of $10.00 used or reserved"


async def test_an_account_that_warns_only_counts(scene: Scene) -> None:
    """R-19: warn."""
    put(scene, spending("agent", scene, SIX), accounts=(warning(),))
    for _ in range(3):
        scene.trigger("agent")
    await scene.settle()
    assert scene.told("agent") == [("COMPLETED", None)] * 3
    assert used(scene) == (dollars(18), 0)
    assert scene.history("agent")[1].decisions["budget"]["accounts"][0]["answer"] == "warn"


async def test_two_runs_for_the_last_unit_are_one_run(scene: Scene) -> None:
    """R-19: the reservation is a conditional update."""
    account = Account("week", Unit.RUNS, 1, Per.WEEK)
    put(scene, spending("fix", scene, Spend("week"), takes="5m"), accounts=(account,))
    for _ in range(5):
        scene.trigger("fix")
    await scene.settle()
    assert [run.status for run in scene.history("fix")] == [Status.RUNNING, *[Status.QUEUED] * 4]
    assert used(scene, account) == (0, 1)


async def test_all_accounts_of_a_job_must_have_room_and_none_keeps_anything_if_not(scene: Scene) -> None:
    """R-19: all or none."""
    week = Account("week", Unit.RUNS, 1, Per.WEEK)
    put(scene, spending("fix", scene, TWO, Spend("week")), accounts=(DAY, week))
    scene.trigger("fix")
    scene.trigger("fix")
    await scene.settle()
    assert scene.history("fix")[1].not_before == NOON + timedelta(hours=12)  # Monday: noon is a Sunday's
    assert used(scene) == (dollars(2), 0)
    assert used(scene, week) == (1, 0)


async def test_a_run_of_two_full_accounts_waits_for_the_later_window(scene: Scene) -> None:
    """R-19."""
    month = Account("month", Unit.RUNS, 1, Per.MONTH)
    hour = Account("hour", Unit.RUNS, 1, Per.HOUR)
    put(scene, spending("fix", scene, Spend("hour"), Spend("month")), accounts=(hour, month))
    scene.trigger("fix")
    scene.trigger("fix")
    await scene.settle()
    assert scene.history("fix")[1].not_before == NOON.replace(month=12, day=1, hour=0)


async def test_room_that_a_cheap_run_leaves_lets_go_who_waits(scene: Scene) -> None:
    """R-02: the transaction that ends the cause releases; nobody waits for midnight while there is room."""
    put(scene, spending("agent", scene, SIX, takes="3m", usage=Usage(usd=dollars(1))))
    for _ in range(3):
        scene.trigger("agent")
    await scene.settle()
    assert [run.waiting_for for run in scene.history("agent")] == [None, "budget", "budget"]
    await scene.advance("3m")
    assert [run.status for run in scene.history("agent")] == [Status.COMPLETED, Status.RUNNING, Status.QUEUED]
    await scene.advance("3m")
    assert used(scene) == (dollars(2), dollars(6))


async def test_raising_a_limit_lets_go_who_waits(scene: Scene) -> None:
    """R-19: judged again in the transaction of the apply."""
    job = spending("agent", scene, SIX, takes="3m")
    put(scene, job)
    scene.trigger("agent")
    scene.trigger("agent")
    await scene.settle()
    put(scene, job, accounts=(replace(DAY, limit=dollars(20)),))
    await scene.settle()
    assert [run.status for run in scene.history("agent")] == [Status.RUNNING] * 2


async def test_an_estimate_above_the_whole_limit_is_skipped_and_says_so(scene: Scene) -> None:
    """R-19: it would wait for ever."""
    job = spending("agent", scene, Spend("day"), usage=Usage(usd=dollars(12)))
    put(scene, job, accounts=(replace(DAY, estimate=dollars(1)),))
    scene.trigger("agent")
    await scene.settle()
    assert used(scene) == (dollars(12), 0)
    scene.trigger("agent")
    await scene.settle()
    assert scene.told("agent")[1] == ("SKIPPED", "budget")
    assert "more than its whole limit of $10.00" in (scene.history("agent")[1].error or "")


async def test_the_estimate_is_the_dearest_of_the_last_ten_that_said_what_they_used(scene: Scene) -> None:
    """R-19."""
    account = Account("day", Unit.TOKENS, 1_000_000, Per.DAY, estimate=50_000)
    job = spending("agent", scene, Spend("day"))
    put(scene, job, accounts=(account,))
    for tokens in (900, 300, *range(11, 20)):
        ending = Outcome(Status.COMPLETED, exit_code=0, usage=Usage(tokens_in=tokens, tokens_out=0))
        scene.processes.scripts["agent"] = Script(ending=ending)
        scene.trigger("agent")
        await scene.advance("1s")
    scene.processes.scripts["agent"] = Script()
    scene.trigger("agent")
    await scene.settle()
    estimates = [run.decisions["budget"]["accounts"][0]["estimate"] for run in scene.history("agent")]
    assert estimates == [50_000, *[900] * 10, 300]
    assert used(scene, account)[0] == 900 + 300 + sum(range(11, 20)) + 300


async def test_tokens_are_priced_by_the_model(scene: Scene) -> None:
    """R-19: prices, for agents that report no money."""
    usage = Usage(tokens_in=18_204, tokens_out=2_113, model="sonnet")
    put(scene, spending("agent", scene, TWO, usage=usage), prices={"sonnet": Price(dollars(3), dollars(15))})
    scene.trigger("agent")
    await scene.settle()
    assert used(scene) == (86_307, 0)
    (run,) = scene.history("agent")
    execution = scene.store.read(lambda db: runs.execution_of_run(db, run.id))
    assert execution is not None
    assert execution.artifacts["usage"] == {
        "tokens_in": 18_204,
        "tokens_out": 2_113,
        "model": "sonnet",
        "usd_millionths": 86_307,
    }


async def test_a_model_without_a_price_settles_at_the_estimate(scene: Scene) -> None:
    """R-19: unknown cost is never 0."""
    put(scene, spending("agent", scene, TWO, usage=Usage(tokens_in=1, tokens_out=1, model="opus")))
    scene.trigger("agent")
    await scene.settle()
    assert used(scene) == (dollars(2), 0)


async def test_a_run_that_is_cancelled_at_its_gates_gives_its_reservation_back(scene: Scene) -> None:
    """R-19: released if the run does not start."""
    put(scene, spending("agent", scene, SIX))
    scene.processes.refused["agent"] = RuntimeError("no such program")
    scene.trigger("agent")
    await scene.settle()
    assert scene.told("agent") == [("FAILED", "spawn_failed")]
    assert used(scene) == (0, 0)


async def test_cancelling_a_waiting_run_leaves_nothing_charged(scene: Scene) -> None:
    """R-19."""
    put(scene, spending("agent", scene, SIX))
    scene.trigger("agent")
    handle = scene.trigger("agent")
    await scene.settle()
    cancel_run(scene.store, handle, now=scene.clock.now())
    await scene.settle()
    assert scene.told("agent")[1] == ("CANCELLED", "requested")
    assert used(scene) == (dollars(6), 0)


async def test_what_runs_across_midnight_is_charged_to_the_day_in_which_it_began(scene: Scene) -> None:
    """R-19: the reservation belongs to the window in which it was made."""
    put(scene, spending("agent", scene, SIX, takes=timedelta(hours=13), usage=Usage(usd=dollars(5))))
    scene.trigger("agent")
    await scene.advance("12h")
    assert used(scene) == (0, 0)
    await scene.advance("2h")
    assert used(scene) == (0, 0)
    scene.clock.step(-timedelta(hours=3))
    assert used(scene) == (dollars(5), 0)


async def test_a_crash_between_the_reservation_and_the_start_gives_it_back(scene: Scene) -> None:
    """R-19, R-23: the run goes back to the queue, reserves anew, and is charged once."""
    put(scene, spending("agent", scene, SIX, takes="3m"))
    scene.trigger("agent")
    launch = scene.processes.launch

    async def never(run_id, prepared):
        await asyncio.Event().wait()

    scene.processes.launch = never
    await scene.settle()
    assert used(scene) == (0, dollars(6))
    assert [run.status for run in scene.history("agent")] == [Status.DISPATCHED]
    await scene.crash()
    scene.processes.launch = launch
    await scene.start()
    assert used(scene) == (0, 0)
    await scene.settle()
    assert used(scene) == (0, dollars(6))
    await scene.advance("3m")
    assert used(scene) == (dollars(6), 0)


async def test_a_run_that_dies_with_its_scheduler_settles_at_its_estimate(scene: Scene) -> None:
    """R-19, R-23: FAILED/process_restarted."""
    put(scene, spending("agent", scene, SIX, takes="3m"))
    scene.trigger("agent")
    await scene.settle()
    await scene.crash()
    scene.processes.living.clear()
    await scene.start()
    assert scene.told("agent") == [("FAILED", "process_restarted")]
    assert used(scene) == (dollars(6), 0)


async def test_a_retry_waits_for_room_like_any_run(scene: Scene) -> None:
    """R-19, DEC-007."""
    retry = Retry(max_attempts=2, backoff=timedelta(seconds=10))
    spec = spending("agent", scene, SIX, retry=retry)
    scene.processes.scripts["agent"] = Script(ending=Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1))
    put(scene, spec)
    scene.trigger("agent")
    await scene.advance("1m")
    first, second = scene.history("agent")
    assert (first.status, second.waiting_for, second.not_before) == (Status.FAILED, "budget", MIDNIGHT)


async def test_force_does_not_pass_a_budget(scene: Scene) -> None:
    """R-29: --force passes overlap and conditions only."""
    put(scene, spending("agent", scene, SIX))
    scene.trigger("agent")
    scene.trigger("agent", force=True)
    await scene.settle()
    assert scene.history("agent")[1].waiting_for == "budget"


async def test_a_false_condition_comes_before_the_budget(scene: Scene) -> None:
    """R-19: nothing is reserved for a run that its conditions stop."""
    scene.processes.conditions["./look"] = "false"
    gates = Gates((Condition(command=("./look",)),), when_false=WhenFalse.SKIP)
    put(scene, spending("agent", scene, SIX, gates=gates))
    scene.trigger("agent")
    await scene.settle()
    assert scene.told("agent") == [("SKIPPED", "condition")]
    assert used(scene) == (0, 0)


async def test_instants_behind_a_run_that_waits_for_its_budget_take_that_reason(scene: Scene) -> None:
    """R-11: the instants that its wait blocks are skipped as budget, not as overlap."""
    spec = spending("agent", scene, SIX, schedule=cron("0 * * * *"))
    put(scene, replace(spec, overlap=command("x").overlap))
    await scene.advance("3h")
    assert scene.told("agent") == [("COMPLETED", None), ("QUEUED", None), ("SKIPPED", "budget")]


async def test_an_interval_waits_out_the_window(scene: Scene) -> None:
    """R-06, R-19: the next interval begins when the run that waited is final."""
    spec = spending("agent", scene, SIX, schedule=every("1h"))
    put(scene, replace(spec, overlap=command("x").overlap))
    await scene.advance("13h")
    assert [run.started_at for run in scene.history("agent")[:2]] == [NOON, MIDNIGHT]


async def test_an_account_that_left_the_file_still_bounds_older_runs(scene: Scene) -> None:
    """INV-005: a queued run keeps its definition, and with it its accounts."""
    job = spending("agent", scene, SIX)
    put(scene, job)
    scene.trigger("agent")
    scene.trigger("agent")
    await scene.settle()
    put(scene, replace(job, budgets=()), accounts=())
    scene.trigger("agent")
    await scene.settle()
    assert [run.status for run in scene.history("agent")] == [Status.COMPLETED, Status.QUEUED, Status.COMPLETED]
    await scene.advance("12h")
    assert scene.told("agent") == [("COMPLETED", None)] * 3


async def test_a_change_of_length_begins_new_windows(scene: Scene) -> None:
    """R-19: what was used of the day does not count for the month."""
    job = spending("agent", scene, SIX)
    put(scene, job)
    scene.trigger("agent")
    await scene.settle()
    month = replace(DAY, per=Per.MONTH)
    put(scene, job, accounts=(month,))
    scene.trigger("agent")
    await scene.settle()
    assert used(scene) == (dollars(6), 0)
    assert used(scene, month) == (dollars(6), 0)


async def test_a_direct_call_reserves_and_settles(scene: Scene) -> None:
    """R-13, R-19: accounts apply to direct calls too."""
    put(scene, spending("agent", scene, SIX, takes="3m", usage=Usage(usd=dollars(1))))
    call_id = call(scene, "agent")
    await scene.settle()
    assert used(scene) == (0, dollars(6))
    await scene.advance("3m")
    assert told(scene, call_id) == ("COMPLETED", None)
    assert used(scene) == (dollars(1), 0)


async def test_a_direct_call_without_room_is_refused_at_once(scene: Scene) -> None:
    """R-13, R-19: somebody waits for it, and would wait for a window."""
    put(scene, spending("agent", scene, SIX, takes="3m"))
    scene.trigger("agent")
    await scene.settle()
    with pytest.raises(BudgetExceeded, match="day has no room for"):
        call(scene, "agent")


async def test_two_direct_calls_for_the_last_room_are_one_call(scene: Scene) -> None:
    """R-13, R-19: the second finds none at its gate, and says so."""
    put(scene, spending("agent", scene, SIX, takes="3m"))
    first, second = call(scene, "agent"), call(scene, "agent")
    await scene.settle()
    assert told(scene, first) == ("RUNNING", None)
    view = look(scene, second)
    assert view is not None
    assert (view.status, view.reason) == (Status.FAILED, "spawn_failed")
    assert "day has no room for $6.00 more" in (view.error or "")
    assert used(scene) == (0, dollars(6))


async def test_a_direct_call_that_is_given_up_at_its_gates_gives_its_reservation_back(scene: Scene) -> None:
    """R-13, R-19."""
    put(scene, spending("agent", scene, SIX))
    scene.processes.refused["agent"] = RuntimeError("no such program")
    call(scene, "agent")
    await scene.settle()
    assert used(scene) == (0, 0)


async def test_a_direct_call_of_a_function_passes_the_gate_too(scene: Scene) -> None:
    """R-13, R-19: a function with accounts does not start at once."""
    scene.table.functions = {"work": lambda ctx: ctx.add_usage(usd=0.5)}
    put(scene, function("work", budgets=(SIX,)))
    call_id = call(scene, "work")
    await play(scene)
    assert told(scene, call_id) == ("COMPLETED", None)
    assert used(scene) == (dollars(0.5), 0)


async def test_a_direct_call_of_a_scheduler_that_died_at_the_gate_is_made_by_the_next_one(scene: Scene) -> None:
    """R-13, R-19, R-23."""
    put(scene, spending("agent", scene, SIX, takes="3m"))
    call_id = call(scene, "agent")
    launch = scene.processes.launch

    async def never(run_id, prepared):
        await asyncio.Event().wait()

    scene.processes.launch = never
    await scene.settle()
    assert used(scene) == (0, dollars(6))
    await scene.crash()
    scene.processes.launch = launch
    await scene.start()
    assert used(scene) == (0, 0)
    await scene.advance("3m")
    assert told(scene, call_id) == ("COMPLETED", None)


async def test_a_restored_database_settles_what_ran_and_gives_back_what_was_reserved(scene: Scene) -> None:
    """R-19: nothing is taken for alive."""
    put(scene, spending("agent", scene, TWO, takes="3m"))
    scene.trigger("agent")
    call(scene, "agent")
    await scene.settle()
    await scene.crash()
    now = scene.clock.now()
    scene.store.write(lambda db: settle_restored(db, made_at=now, host="there", reason="restored", now=now))
    assert used(scene) == (dollars(4), 0)
    await scene.start()


async def test_verify_finds_what_was_counted_wrong(unaudited: Scene) -> None:
    """R-19: settled and reserved are counted anew."""
    put(unaudited, spending("agent", unaudited, SIX))
    unaudited.trigger("agent")
    await unaudited.settle()
    assert audit(unaudited).violations == ()
    tamper(unaudited, "UPDATE budget_window SET settled = settled + 1, reserved = 7")
    texts = [violation.text for violation in audit(unaudited).violations]
    assert [text.partition(" counts ")[2] for text in texts] == [
        "6000001 as settled, its runs 6000000",
        "7 as reserved, its runs 0",
    ]


async def test_verify_finds_a_reservation_of_nobody(unaudited: Scene) -> None:
    """R-19: nothing is reserved without an unfinished run."""
    put(unaudited, spending("agent", unaudited, SIX))
    unaudited.trigger("agent")
    await unaudited.settle()
    tamper(
        unaudited,
        "UPDATE budget_entry SET settled = NULL, settled_at = NULL",
        "UPDATE budget_window SET settled = 0, reserved = 6000000",
    )
    (violation,) = audit(unaudited).violations
    assert violation.text.startswith("day holds a reservation of ")


async def test_old_runs_leave_their_sum_behind_and_old_windows_go_after_thirteen_months(scene: Scene) -> None:
    """R-19: windows are kept longer than the runs that filled them."""
    put(scene, spending("agent", scene, SIX, retention=Retention(runs=timedelta(days=30))))
    scene.trigger("agent")
    await scene.settle()
    scene.clock.advance(timedelta(days=40))
    await Pruner(scene.store, scene.clock, scene.settings).round()
    assert scene.history("agent") == []
    (window,) = scene.store.read(lambda db: budgets.past_windows(db, DAY, before=scene.clock.now(), limit=9))
    assert (window.settled, window.pruned) == (dollars(6), dollars(6))
    scene.clock.advance(timedelta(days=370))
    await Pruner(scene.store, scene.clock, scene.settings).round()
    assert scene.store.read(lambda db: budgets.past_windows(db, DAY, before=scene.clock.now(), limit=9)) == []
