"""Automatic retries: a failure and its next attempt in one transaction, and everybody who looks at chains (DEC-001)."""

from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from rota.model.errors import OverlapRefused
from rota.model.records import Outcome, Run
from rota.model.spec import (
    Anchor,
    Condition,
    Gates,
    Jitter,
    JobSpec,
    Misfire,
    MisfirePolicy,
    Overlap,
    OverlapPolicy,
    RepeatedFailure,
    Retry,
)
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.operations.bulk import trigger_many
from rota.operations.explain import explain
from rota.operations.run_actions import cancel_run, retry_run
from rota.operations.verify.report import Check
from rota.store.tables import runs
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import NOON, ONCE, QUEUE, REPLACE, audit, command, cron, every, function
from tests.engine.test_apply import put
from tests.engine.test_groups import group
from tests.scene import tamper

pytestmark = pytest.mark.anyio

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
BROKEN = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1, error="broken")
THREE = Retry()


def failing(scene: Scene, spec: JobSpec, *, takes: timedelta = timedelta(), retry: Retry = THREE) -> None:
    """Declare a command that always fails."""
    scene.processes.scripts[spec.name] = Script(takes=takes, ending=BROKEN)
    scene.declare(replace(spec, retry=retry))


def mend(scene: Scene, name: str) -> None:
    scene.processes.scripts[name] = Script()


def attempts(scene: Scene, name: str) -> list[tuple[int, str]]:
    return [(run.attempt, run.status.value) for run in scene.history(name)]


def starts(scene: Scene, name: str) -> list[timedelta]:
    return [run.started_at - NOON for run in scene.history(name) if run.started_at]


async def test_three_attempts_are_three_failed_runs_of_one_chain(scene: Scene) -> None:
    """DEC-001, DEC-007: each attempt is a run of its own and points at the one before."""
    failing(scene, command("job", schedule=cron("0 13 * * *")))
    await scene.advance("2h")
    first, second, third = scene.history("job")
    assert scene.told("job") == [("FAILED", "exit_code")] * 3
    assert [run.trigger for run in (first, second, third)] == [Trigger.SCHEDULE, Trigger.RETRY, Trigger.RETRY]
    assert [run.retry_of for run in (first, second, third)] == [None, first.id, second.id]
    assert [run.chain_id for run in (first, second, third)] == [None, first.id, first.id]
    assert {run.scheduled_for for run in (first, second, third)} == {NOON + HOUR}


async def test_a_retry_is_stored_in_the_transaction_of_the_failure(scene: Scene) -> None:
    """DEC-001: whoever sees the failure sees what follows from it."""
    failing(scene, command("job"))
    scene.trigger("job")
    await scene.settle()
    failed, retried = scene.history("job")
    assert (failed.status, retried.status) == (Status.FAILED, Status.QUEUED)
    assert (retried.waiting_for, retried.not_before) == (WaitingFor.BACKOFF, failed.finished_at + 10 * SECOND)


async def test_the_backoff_really_elapses_and_grows(scene: Scene) -> None:
    failing(scene, command("job"), retry=Retry(max_attempts=4))
    scene.trigger("job")
    await scene.advance("5m")
    assert starts(scene, "job") == [0 * SECOND, 10 * SECOND, 30 * SECOND, 70 * SECOND]


async def test_a_backoff_of_nothing_tries_again_at_once(scene: Scene) -> None:
    failing(scene, command("job"), retry=Retry(backoff=timedelta()))
    scene.trigger("job")
    await scene.settle()
    assert starts(scene, "job") == [timedelta()] * 3


async def test_a_success_ends_the_chain(scene: Scene) -> None:
    failing(scene, command("job"))
    scene.trigger("job")
    await scene.settle()
    mend(scene, "job")
    await scene.advance("1h")
    assert attempts(scene, "job") == [(1, "FAILED"), (2, "COMPLETED")]


async def test_a_backoff_survives_a_restart(scene: Scene) -> None:
    """DEC-007."""
    failing(scene, command("job"), retry=Retry(max_attempts=2, backoff=HOUR, max=HOUR))
    scene.trigger("job")
    await scene.settle()
    await scene.crash()
    scene.clock.advance("30m")
    await scene.start()
    await scene.advance("29m")
    assert starts(scene, "job") == [timedelta()]
    await scene.advance("1m")
    assert starts(scene, "job") == [timedelta(), HOUR]


async def test_a_backoff_that_ended_while_no_scheduler_ran_is_over(scene: Scene) -> None:
    failing(scene, command("job"), retry=Retry(max_attempts=2))
    scene.trigger("job")
    await scene.settle()
    await scene.crash()
    scene.clock.advance("1h")
    await scene.start()
    await scene.settle()
    assert starts(scene, "job") == [timedelta(), HOUR]


@pytest.mark.parametrize("back", [2 * SECOND, MINUTE, HOUR, timedelta(days=1)], ids=str)
async def test_a_step_back_makes_no_backoff_longer(scene: Scene, back: timedelta) -> None:
    """DEC-007, R-26: a backoff is elapsed time and moves with the clock."""
    failing(scene, command("job"), retry=Retry(max_attempts=2, backoff=30 * MINUTE, max=HOUR))
    scene.trigger("job")
    await scene.advance("10m")
    scene.clock.step(-back)
    await scene.advance("19m")
    assert len(starts(scene, "job")) == 1
    await scene.advance("1m")
    assert len(starts(scene, "job")) == 2


async def test_a_crash_counts_as_an_attempt(scene: Scene) -> None:
    """R-23: FAILED/process_restarted is retried by policy."""
    scene.processes.scripts["job"] = Script(takes=HOUR)
    scene.declare(command("job", retry=Retry(max_attempts=2)))
    scene.trigger("job")
    await scene.settle()
    await scene.crash()
    scene.processes.living.clear()
    await scene.start()
    assert [(run.reason, run.status) for run in scene.history("job")] == [
        (Reason.PROCESS_RESTARTED, Status.FAILED),
        (None, Status.QUEUED),
    ]
    await scene.advance("2h")
    assert attempts(scene, "job") == [(1, "FAILED"), (2, "COMPLETED")]


async def test_a_worker_lost_three_times_before_the_start_counts_once(scene: Scene) -> None:
    """R-01: the third loss is a failure, and so an attempt, though nothing ever started."""
    scene.processes.conditions["./never"] = "pass"
    scene.declare(command("job", retry=Retry(max_attempts=2)))
    scene.trigger("job")
    (run,) = scene.history("job")
    for _ in range(3):
        taken = [runs.ClaimedSlot(run.seq, 0, started=False)]
        holder = scene.session.holder
        now = scene.clock.now()
        claim = partial(runs.claim_runs, claimed=taken, worker_id=holder.worker_id, epoch=holder.epoch, now=now)
        scene.store.write(claim)
        await scene.crash()
        await scene.start()
    assert scene.told("job") == [("FAILED", "worker_lost"), ("QUEUED", None)]


async def test_a_run_that_never_started_is_tried_again(scene: Scene) -> None:
    """Section 7: the chain counts failed runs, started or not."""
    scene.processes.refused["job"] = ValueError("no such program")
    scene.declare(command("job", retry=THREE))
    scene.trigger("job")
    await scene.advance("1h")
    assert [run.started_at for run in scene.history("job")] == [None] * 3
    assert {run.status for run in scene.history("job")} == {Status.FAILED}


async def test_a_function_that_raises_is_tried_again(scene: Scene) -> None:
    scene.table.functions = {"broken": lambda context: {}["missing"]}
    scene.declare(function("broken", retry=Retry(max_attempts=2)))
    scene.trigger("broken")
    for _ in range(2):
        await scene.advance("1m")
        await scene.engine.until_empty()
        await scene.quiet()
    assert scene.told("broken") == [("FAILED", "exception")] * 2


async def test_a_cancelled_run_is_never_tried_again(scene: Scene) -> None:
    """DEC-007."""
    failing(scene, command("job"), takes=HOUR)
    handle = scene.trigger("job")
    await scene.settle()
    cancel_run(scene.store, handle, now=scene.clock.now())
    await scene.advance("3h")
    assert scene.told("job") == [("CANCELLED", "requested")]


async def test_a_run_that_fails_by_itself_while_it_is_being_stopped_is_not_tried_again(scene: Scene) -> None:
    scene.processes.scripts["job"] = Script(takes=HOUR, ending=BROKEN, stops=False)
    scene.declare(command("job", retry=THREE))
    handle = scene.trigger("job")
    await scene.settle()
    cancel_run(scene.store, handle, now=scene.clock.now())
    await scene.advance("3h")
    assert scene.told("job") == [("FAILED", "exit_code")]


async def test_a_pending_retry_can_be_cancelled_and_that_ends_the_chain(scene: Scene) -> None:
    failing(scene, command("job", schedule=every("1h")))
    await scene.settle()
    cancel_run(scene.store, "job:2", now=scene.clock.now())
    assert scene.told("job") == [("FAILED", "exit_code"), ("CANCELLED", "requested")]
    assert scene.job("job").next_for == NOON + HOUR


async def test_a_retry_keeps_version_params_and_priority_of_its_run(scene: Scene) -> None:
    """R-14, INV-005: the chain goes on as it began."""
    spec = command("job")
    failing(scene, replace(spec, work=replace(spec.work, params={"day": 1})))
    scene.trigger("job", params={"day": 2})
    await scene.settle()
    failed, retried = scene.history("job")
    assert (retried.version, retried.params, retried.priority) == (failed.version, {"day": 2}, failed.priority)


async def test_a_retry_passes_the_gates_again(scene: Scene) -> None:
    gates = Gates((Condition(command=("./look",)),))
    failing(scene, command("job", gates=gates))
    scene.trigger("job")
    await scene.settle()
    scene.processes.conditions["./look"] = "false"
    await scene.advance("1h")
    assert scene.told("job") == [("FAILED", "exit_code"), ("SKIPPED", "condition")]


async def test_expires_after_counts_from_the_end_of_the_backoff(scene: Scene) -> None:
    gates = Gates(expires_after=5 * SECOND)
    failing(scene, command("job", gates=gates))
    scene.trigger("job")
    await scene.advance("1h")
    assert attempts(scene, "job") == [(1, "FAILED"), (2, "FAILED"), (3, "FAILED")]


# who looks at chains


async def test_an_interval_counts_from_the_end_of_the_chain(scene: Scene) -> None:
    """R-06: completion means the last attempt's."""
    failing(scene, command("job", schedule=every("1h")), takes=MINUTE)
    await scene.advance("2m")
    assert scene.job("job").next_for is None
    await scene.advance("10m")
    *_, last = scene.history("job")
    assert attempts(scene, "job") == [(1, "FAILED"), (2, "FAILED"), (3, "FAILED")]
    assert scene.job("job").next_for == last.finished_at + HOUR


async def test_a_start_anchor_counts_from_the_first_start_of_the_chain(scene: Scene) -> None:
    """R-06: first start + interval, not before the chain is final."""
    failing(scene, command("job", schedule=every("1h", anchor=Anchor.START)), takes=MINUTE)
    await scene.advance("10m")
    assert scene.job("job").next_for == NOON + HOUR


async def test_run_once_is_used_up_when_its_chain_is_final(scene: Scene) -> None:
    """R-07: not by the first attempt."""
    failing(scene, command("job", schedule=cron("0 13 * * *", run_once=True)))
    await scene.advance(HOUR + 5 * SECOND)
    assert scene.job("job").used_up_at is None
    await scene.advance("2d")
    assert scene.job("job").used_up_at is not None
    assert attempts(scene, "job") == [(1, "FAILED"), (2, "FAILED"), (3, "FAILED")]


async def test_run_once_goes_on_after_a_chain_that_ends_skipped(scene: Scene) -> None:
    """R-07: a chain that ends SKIPPED does not use it up."""
    gates = Gates((Condition(command=("./look",)),))
    failing(scene, command("job", schedule=cron("0 13 * * *", run_once=True), gates=gates))
    await scene.advance(HOUR + 5 * SECOND)
    scene.processes.conditions["./look"] = "false"
    await scene.advance("1m")
    assert scene.told("job") == [("FAILED", "exit_code"), ("SKIPPED", "condition")]
    assert (scene.job("job").used_up_at, scene.job("job").next_for) == (None, NOON + 25 * HOUR)


async def test_an_instant_during_a_backoff_is_overlap(scene: Scene) -> None:
    """R-11: a job is active while any of its chains is not final."""
    failing(
        scene, command("job", schedule=cron("*/10 * * * *")), retry=Retry(max_attempts=2, backoff=15 * MINUTE, max=HOUR)
    )
    await scene.advance("29m")
    assert scene.told("job") == [("FAILED", "exit_code"), ("FAILED", "exit_code"), ("SKIPPED", "overlap")]


async def test_who_is_queued_behind_a_run_waits_for_its_chain(scene: Scene) -> None:
    """R-11: the follower is linked to the retry in the transaction that makes it."""
    failing(scene, command("job", overlap=QUEUE), takes=MINUTE)
    scene.trigger("job")
    await scene.settle()
    scene.trigger("job")
    await scene.advance("1m")
    first, follower, retried = scene.history("job")
    assert (follower.waiting_for, follower.predecessor_id) == (WaitingFor.PREDECESSOR, retried.id)
    mend(scene, "job")
    await scene.advance("1m")
    assert first.status is Status.FAILED
    follower, retried = scene.history("job")[1:]
    assert (retried.status, follower.status) == (Status.COMPLETED, Status.COMPLETED)
    assert follower.started_at >= retried.finished_at


async def test_two_who_are_queued_behind_a_chain_start_one_after_the_other(scene: Scene) -> None:
    """R-11: who comes later waits for the last in line, not for the retry that both would see."""
    deep = Overlap(OverlapPolicy.QUEUE, queue_depth=2)
    spec = command("job", overlap=deep)
    spec = replace(spec, work=replace(spec.work, params={"number": 0}))
    failing(scene, spec, takes=MINUTE, retry=Retry(max_attempts=2))
    scene.trigger("job", params={"number": 1})
    await scene.settle()
    scene.trigger("job", params={"number": 2})
    await scene.advance("1m")
    scene.trigger("job", params={"number": 3})
    await scene.advance("1h")
    ran = sorted((run.started_at, run.finished_at) for run in scene.history("job"))
    assert len(ran) == 6
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(ran))


async def test_replace_cancels_a_pending_retry(scene: Scene) -> None:
    """R-12: unfinished runs and their pending retries."""
    failing(scene, command("job", overlap=REPLACE))
    scene.trigger("job")
    await scene.settle()
    mend(scene, "job")
    scene.trigger("job")
    await scene.advance("1h")
    assert scene.told("job") == [("FAILED", "exit_code"), ("CANCELLED", "replaced"), ("COMPLETED", None)]


async def test_a_replaced_run_that_fails_by_itself_has_no_retry(scene: Scene) -> None:
    """R-12: the new run has its place; the old one must not come back."""
    scene.processes.scripts["job"] = Script(takes=MINUTE, ending=BROKEN, stops=False)
    scene.declare(command("job", overlap=REPLACE, retry=THREE))
    scene.trigger("job")
    await scene.settle()
    scene.trigger("job")
    mend(scene, "job")
    await scene.advance("1h")
    assert scene.told("job") == [("FAILED", "exit_code"), ("COMPLETED", None)]


async def test_runs_made_up_one_after_another_wait_for_chains(scene: Scene) -> None:
    """R-10: runs of `all` wait for each other as predecessor."""
    failing(
        scene,
        command("job", schedule=cron("0 * * * *"), misfire=Misfire(MisfirePolicy.ALL)),
        takes=SECOND,
        retry=Retry(max_attempts=2),
    )
    await scene.crash()
    scene.clock.advance("150m")
    await scene.start()
    await scene.advance("5m")
    order = sorted(scene.history("job"), key=lambda run: run.started_at or NOON)
    assert [run.attempt for run in order] == [1, 2, 1, 2]


# a job that keeps failing


def hourly(**changes: Any) -> JobSpec:
    return command("job", schedule=cron("0 * * * *"), on_repeated_failure=RepeatedFailure(after=2), **changes)


def failed_in_a_row(scene: Scene) -> int:
    return scene.job("job").failures


async def test_a_chain_counts_as_one_failure(scene: Scene) -> None:
    failing(scene, hourly())
    await scene.advance("90m")
    assert (len(scene.history("job")), failed_in_a_row(scene)) == (3, 1)


async def test_instants_are_held_back_after_failures_and_counted(scene: Scene) -> None:
    """DEC-007, `on_repeated_failure`: nothing is silent, each instant has its row."""
    every_minute = replace(hourly(), schedule=cron("* * * * *"))
    failing(scene, every_minute, retry=Retry(max_attempts=1))
    await scene.advance("11m")
    assert scene.told("job") == [
        ("FAILED", "exit_code"),
        ("FAILED", "exit_code"),  # held back for 1 min from here: 12:03 is just over
        ("FAILED", "exit_code"),  # 2 min: 12:04
        ("SKIPPED", "backing_off"),
        ("FAILED", "exit_code"),  # 4 min: 12:06, 12:07, 12:08
        *[("SKIPPED", "backing_off")] * 3,
        ("FAILED", "exit_code"),  # 8 min: 12:10, 12:11
        *[("SKIPPED", "backing_off")] * 2,
    ]


async def test_an_interval_is_held_back_by_one_row_and_goes_on_at_the_end(scene: Scene) -> None:
    """R-06: its instants depend on its runs, so none lies within the time that it is held back."""
    spec = replace(hourly(), schedule=every("10s"), on_repeated_failure=RepeatedFailure(after=1))
    failing(scene, spec, retry=Retry(max_attempts=1))
    await scene.advance("61s")
    assert scene.told("job") == [("FAILED", "exit_code"), ("SKIPPED", "backing_off"), ("FAILED", "exit_code")]
    assert starts(scene, "job") == [timedelta(), MINUTE]


async def test_a_success_forgets_the_failures(scene: Scene) -> None:
    failing(scene, hourly(), retry=Retry(max_attempts=1))
    await scene.advance("60m")
    assert failed_in_a_row(scene) == 1
    mend(scene, "job")
    await scene.advance("60m")
    assert (failed_in_a_row(scene), scene.job("job").backing_off_until) == (0, None)


async def test_a_success_by_hand_lets_the_schedule_go_on(scene: Scene) -> None:
    failing(scene, replace(hourly(), schedule=cron("* * * * *")), retry=Retry(max_attempts=1))
    await scene.advance("5m")
    assert scene.job("job").backing_off_until is not None
    mend(scene, "job")
    scene.trigger("job")
    await scene.advance("1m")
    assert scene.told("job")[-2:] == [("COMPLETED", None), ("COMPLETED", None)]


async def test_failures_by_hand_hold_nothing_back(scene: Scene) -> None:
    failing(scene, hourly(), retry=Retry(max_attempts=1))
    for _ in range(3):
        scene.trigger("job")
        await scene.settle()
    assert (failed_in_a_row(scene), scene.job("job").backing_off_until) == (0, None)


async def test_a_start_by_hand_is_never_held_back(scene: Scene) -> None:
    failing(scene, replace(hourly(), schedule=cron("* * * * *")), retry=Retry(max_attempts=1))
    await scene.advance("4m")
    mend(scene, "job")
    assert scene.job("job").backing_off_until > scene.clock.now()
    scene.trigger("job")
    await scene.settle()
    assert scene.told("job")[-1] == ("COMPLETED", None)


async def test_a_missed_instant_is_not_made_up_while_the_job_is_held_back(scene: Scene) -> None:
    """R-10: `once` would start at once what the policy holds back."""
    policy = RepeatedFailure(after=1, backoff_max=timedelta(days=1))
    spec = command("job", schedule=cron("*/20 * * * *"), misfire=ONCE, on_repeated_failure=policy)
    failing(scene, spec, retry=Retry(max_attempts=1))
    await scene.advance("161m")
    assert scene.told("job").count(("FAILED", "exit_code")) == 7
    assert scene.job("job").backing_off_until > scene.clock.now() + HOUR
    await scene.crash()
    scene.clock.advance("25m")
    await scene.start()
    await scene.settle()
    assert scene.told("job")[-1] == ("SKIPPED", "backing_off")


@pytest.mark.parametrize("back", [HOUR, timedelta(days=1)], ids=str)
async def test_a_step_back_holds_nothing_back_longer(scene: Scene, back: timedelta) -> None:
    """R-26: the time that a job is held back is elapsed time."""
    failing(scene, replace(hourly(), schedule=cron("* * * * *")), retry=Retry(max_attempts=1))
    await scene.advance("5m")
    held = scene.job("job").backing_off_until
    scene.clock.step(-back)
    await scene.settle()
    assert scene.job("job").backing_off_until == held - back


async def test_an_edit_that_takes_the_policy_away_holds_nothing_back(scene: Scene) -> None:
    spec = replace(hourly(), schedule=cron("* * * * *"), retry=Retry(max_attempts=1))
    scene.processes.scripts["job"] = Script(ending=BROKEN)
    put(scene, spec)
    await scene.advance("4m")
    assert scene.told("job")[-1] == ("SKIPPED", "backing_off")
    put(scene, replace(spec, on_repeated_failure=None))
    await scene.advance("2m")
    assert scene.told("job")[-2:] == [("FAILED", "exit_code")] * 2


def jittered(run: Run) -> timedelta:
    assert run.started_at is not None
    return run.started_at - NOON


async def test_jitter_spreads_retries_and_stays_within_the_limit(scene: Scene) -> None:
    spread = Retry(max_attempts=2, backoff=10 * SECOND, max=20 * SECOND, jitter=Jitter(up_to=timedelta(seconds=60)))
    names = [f"job-{number}" for number in range(8)]
    for name in names:
        failing(scene, command(name), retry=spread)
        scene.trigger(name)
    await scene.advance("1m")
    waits = {jittered(scene.history(name)[1]) for name in names}
    assert len(waits) > 1
    assert all(10 * SECOND <= wait <= 20 * SECOND for wait in waits)


# verify


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "DELETE FROM ended WHERE run = (SELECT seq FROM run WHERE attempt = 3); DELETE FROM run WHERE attempt = 3",
            "was not retried",
        ),
        ("UPDATE run SET attempt = 7 WHERE attempt = 3", "is attempt 7 after attempt 2"),
        ("UPDATE run SET chain_id = NULL WHERE attempt = 3", "another chain"),
        ("UPDATE run SET scheduled_for = 1 WHERE attempt = 3", "another instant"),
        ("UPDATE run SET trigger = 'manual', attempt = 3 WHERE attempt = 3", "no automatic retry"),
    ],
)
async def test_verify_sees_a_chain_that_is_not_as_it_must_be(unaudited: Scene, change: str, told: str) -> None:
    failing(unaudited, command("job"))
    unaudited.trigger("job")
    await unaudited.advance("1h")
    assert audit(unaudited).violations == ()
    tamper(unaudited, change)
    found = [violation for violation in audit(unaudited).violations if violation.check is Check.CHAIN]
    assert found
    assert told in found[0].text


async def test_verify_sees_instants_held_back_without_a_policy(unaudited: Scene) -> None:
    failing(unaudited, command("job", schedule=cron("0 13 * * *")), retry=Retry(max_attempts=1))
    await unaudited.advance("2h")
    tamper(unaudited, "UPDATE ended SET status = 6, reason = 'backing_off', started_at = NULL")
    assert "no `on_repeated_failure`" in audit(unaudited).violations[0].text


async def test_r_31_a_manual_start_takes_the_place_of_a_retry_in_backoff(scene: Scene) -> None:
    """The cause is mended and the job started again: nothing is in the way, and both rows name each other."""
    failing(scene, command("job"))
    scene.trigger("job")
    await scene.settle()
    mend(scene, "job")
    assert scene.trigger("job") == "job:3"
    await scene.settle()
    _, retried, again = scene.history("job")
    assert scene.told("job") == [("FAILED", "exit_code"), ("CANCELLED", "replaced"), ("COMPLETED", None)]
    assert retried.error == "job:3 was started by hand and replaces it"
    assert again.decisions["replaced"] == ["job:2"]
    await scene.advance("1h")
    assert len(scene.history("job")) == 3


async def test_r_31_a_retry_that_runs_counts_for_overlap(scene: Scene) -> None:
    failing(scene, command("job"), takes=MINUTE)
    scene.trigger("job")
    await scene.advance(MINUTE + 11 * SECOND)
    assert scene.history("job")[-1].status is Status.RUNNING
    with pytest.raises(OverlapRefused, match="job:2 is not finished"):
        scene.trigger("job")


async def test_r_31_the_retry_of_a_group_member_is_not_replaced(scene: Scene) -> None:
    """It would stop the rest of its group."""
    failing(scene, command("one"))
    scene.declare(group("both", "one"))
    scene.trigger("both")
    await scene.settle()
    with pytest.raises(OverlapRefused, match="one:2 is not finished"):
        scene.trigger("one")


@pytest.mark.parametrize(
    ("policy", "params", "ends"),
    [
        (OverlapPolicy.ALLOW, {"to": "bob"}, "FAILED"),
        (OverlapPolicy.ALLOW, {"to": "ann"}, "CANCELLED"),
        (OverlapPolicy.QUEUE, {"to": "bob"}, "FAILED"),
        (OverlapPolicy.QUEUE, {"to": "ann"}, "CANCELLED"),
        (OverlapPolicy.FORBID, {"to": "bob"}, "CANCELLED"),
        (OverlapPolicy.REPLACE, {"to": "bob"}, "CANCELLED"),
    ],
)
async def test_r_31_where_runs_stand_side_by_side_other_params_are_other_work(
    scene: Scene, policy: OverlapPolicy, params: dict[str, Any], ends: str
) -> None:
    spec = command("mail", overlap=Overlap(policy))
    failing(scene, replace(spec, work=replace(spec.work, params={"to": "nobody"})), retry=Retry(max_attempts=2))
    scene.trigger("mail", params={"to": "ann"})
    await scene.settle()
    scene.trigger("mail", params=params)
    await scene.advance("1h")
    assert scene.history("mail")[1].status == ends


async def test_r_31_a_forced_start_replaces_the_retry_too(scene: Scene) -> None:
    failing(scene, command("job"))
    scene.trigger("job")
    await scene.settle()
    scene.trigger("job", force=True)
    assert scene.told("job")[1] == ("CANCELLED", "replaced")


async def test_r_31_the_chain_of_an_instant_that_is_replaced_ends_there(scene: Scene) -> None:
    """R-06: the next instant counts from the end of the chain, which is when the start took its place."""
    failing(scene, command("job", schedule=every("1h")))
    await scene.settle()
    await scene.advance(5 * SECOND)
    scene.trigger("job")
    assert scene.job("job").next_for == NOON + HOUR + 5 * SECOND
    await scene.advance("3h")


async def test_r_31_rota_retry_takes_the_place_of_the_pending_retry_whatever_its_params(scene: Scene) -> None:
    spec = command("mail", overlap=Overlap(OverlapPolicy.ALLOW))
    failing(scene, replace(spec, work=replace(spec.work, params={"to": "ann"})))
    scene.trigger("mail")
    await scene.settle()
    mend(scene, "mail")
    retry_run(scene.store, "mail:1", now=scene.clock.now(), params={"to": "bob"})
    await scene.advance("1h")
    assert scene.told("mail") == [("FAILED", "exit_code"), ("CANCELLED", "replaced"), ("COMPLETED", None)]


async def test_r_31_many_starts_at_once_take_the_place_of_retries_too(scene: Scene) -> None:
    spec = command("mail", overlap=Overlap(OverlapPolicy.ALLOW))
    failing(scene, replace(spec, work=replace(spec.work, params={"to": "ann"})))
    scene.trigger("mail")
    await scene.settle()
    trigger_many(scene.store, "mail", [{"to": "ann"}, {"to": "bob"}], now=scene.clock.now())
    retried = scene.history("mail")[1]
    assert (retried.status, retried.error) == ("CANCELLED", "mail:3 was started by hand and replaces it")


async def test_r_31_a_start_of_one_attempt_is_not_retried_and_explain_says_why(scene: Scene) -> None:
    failing(scene, command("job"))
    scene.trigger("job", one_attempt=True)
    await scene.advance("1h")
    assert scene.told("job") == [("FAILED", "exit_code")]
    told = explain(scene.store, "job:1", state=scene.settings.state, now=scene.clock.now())
    assert "not retried: `rota run` makes one attempt" in next(
        line.text for line in told.run_lines if line.label == "then"
    )


async def test_r_31_one_attempt_of_a_group_is_one_of_each_member(scene: Scene) -> None:
    failing(scene, command("one"))
    scene.declare(group("both", "one"))
    scene.trigger("both", one_attempt=True)
    await scene.advance("1h")
    assert scene.told("one") == [("FAILED", "exit_code")]
