"""Groups played by a whole engine: born together, one after another or side by side, ended with the last member."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.engine.loops.pruner import prune_batch
from rota.engine.transactions.enqueue import enqueue
from rota.model.records import Outcome
from rota.model.spec import Condition, Gates, GroupMode, JobSpec, Kind, Member, OnFailure, Retention, Retry, Work
from rota.model.states import GroupStatus, Reason, Status, Trigger, WaitingFor
from rota.operations.group_actions import create, retry
from rota.operations.groups import show_group
from rota.operations.run_actions import cancel_run
from rota.operations.verify.report import Check
from rota.rules.admission import After, Allow
from rota.store.tables import groups, runs
from rota.testing.doubles import Script
from tests.engine.conftest import NOON, QUEUE, REPLACE, audit, command, cron, every
from tests.scene import Scene, tamper

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)
FAILS = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=2, error="it left with 2")
ONE_TRY = Retry(max_attempts=1)
LONG = Script(takes=10 * MINUTE)


def group(name, *members, mode=GroupMode.SEQUENTIAL, on_failure=OnFailure.STOP, **changes):
    """Return a group of jobs; a member is a name or a Member."""
    seats = tuple(member if isinstance(member, Member) else Member(member) for member in members)
    return replace(JobSpec(name, Work(Kind.GROUP, members=seats, mode=mode, on_failure=on_failure)), **changes)


def declare(scene: Scene, *specs, jobs="abcd", **changes) -> None:
    """Store jobs named by one letter each, which take five minutes and are tried once, and then the groups."""
    for name in jobs:
        scene.declare(command(name, **{"retry": ONE_TRY, **changes}))
        scene.processes.scripts.setdefault(name, Script(takes=5 * MINUTE))
    scene.declare(*specs)


def the_group(scene, run_handle):
    run = scene.history(run_handle.split(":")[0])[int(run_handle.split(":")[1]) - 1]
    found = scene.store.read(lambda db: groups.group_of_run(db, run.id))
    assert found is not None
    return found


def last(scene, name):
    return scene.history(name)[-1]


async def test_the_members_of_a_sequence_run_one_after_another(scene):
    """R-15: the group's run is RUNNING from creation and final with its last member."""
    declare(scene, group("nightly", "a", "b", "c"))
    handle = scene.trigger("nightly")
    await scene.settle()
    assert last(scene, "nightly").status is Status.RUNNING
    assert (last(scene, "a").status, last(scene, "b").waiting_for) == (Status.RUNNING, WaitingFor.PREDECESSOR)
    await scene.advance("15m")
    starts = [last(scene, name).started_at for name in "abc"]
    assert starts == [NOON, NOON + 5 * MINUTE, NOON + 10 * MINUTE]
    assert scene.told("nightly") == [("COMPLETED", None)]
    assert last(scene, "nightly").finished_at == NOON + 15 * MINUTE
    assert the_group(scene, handle).status is GroupStatus.COMPLETED


async def test_the_members_of_a_parallel_group_run_side_by_side_and_always_comes_last(scene):
    declare(scene, group("both", "a", "b", Member("c", always=True), mode=GroupMode.PARALLEL))
    scene.trigger("both")
    await scene.advance("15m")
    starts = [last(scene, name).started_at for name in "abc"]
    assert starts == [NOON, NOON, NOON + 5 * MINUTE]
    assert scene.told("both") == [("COMPLETED", None)]


async def test_a_group_takes_no_slot_no_execution_and_no_worker(scene):
    """R-15."""
    declare(scene, group("nightly", "a"))
    scene.trigger("nightly")
    await scene.settle()
    run = last(scene, "nightly")
    assert (run.status, run.worker_id, run.slot, run.epoch) == (Status.RUNNING, None, None, None)
    assert scene.store.read(lambda db: runs.execution_of_run(db, run.id)) is None
    await scene.advance("5m")


async def test_a_failure_cancels_the_rest_and_always_members_still_run(scene):
    """DEC-012, R-15: CANCELLED/predecessor_failed names the run; the group is PARTIAL, its run FAILED."""
    declare(scene, group("nightly", "a", "b", "c", Member("d", always=True)))
    scene.processes.scripts["b"] = Script(takes=MINUTE, ending=FAILS)
    handle = scene.trigger("nightly")
    await scene.advance("1h")
    told = [scene.told(name) for name in "abcd"]
    assert told == [
        [("COMPLETED", None)],
        [("FAILED", "exit_code")],
        [("CANCELLED", "predecessor_failed")],
        [("COMPLETED", None)],
    ]
    assert last(scene, "c").error == "b:1 did not complete"
    assert last(scene, "d").started_at == NOON + 6 * MINUTE
    assert scene.told("nightly") == [("FAILED", "members_failed")]
    assert last(scene, "nightly").error == "b:1 ended FAILED/exit_code"
    assert the_group(scene, handle).status is GroupStatus.PARTIAL


async def test_a_failed_member_is_retried_before_the_group_stops(scene):
    """R-15, DEC-012: the rest is cancelled only after the chain has no attempt left."""
    declare(scene, group("nightly", "a", "b"), retry=Retry(max_attempts=2, backoff=MINUTE))
    scene.processes.scripts["a"] = Script(ending=FAILS)
    scene.trigger("nightly")
    await scene.advance("30s")
    assert last(scene, "b").status is Status.QUEUED
    assert last(scene, "b").predecessor_id == last(scene, "a").id
    await scene.advance("1m")
    assert [(run.attempt, run.place) for run in scene.history("a")] == [(1, 1), (2, 1)]
    assert scene.told("b") == [("CANCELLED", "predecessor_failed")]
    assert scene.told("nightly") == [("FAILED", "members_failed")]


async def test_a_member_that_succeeds_at_its_second_attempt_lets_the_sequence_go_on(scene):
    declare(scene, group("nightly", "a", "b"), retry=Retry(max_attempts=2, backoff=MINUTE))
    scene.processes.scripts["a"] = Script(ending=FAILS)
    scene.trigger("nightly")
    await scene.settle()
    scene.processes.scripts["a"] = Script()
    await scene.advance("10m")
    assert scene.told("a") == [("FAILED", "exit_code"), ("COMPLETED", None)]
    assert scene.told("nightly") == [("COMPLETED", None)]


async def test_on_failure_continue_runs_the_rest(scene):
    declare(scene, group("nightly", "a", "b", on_failure=OnFailure.CONTINUE))
    scene.processes.scripts["a"] = Script(ending=FAILS)
    scene.trigger("nightly")
    await scene.advance("10m")
    assert scene.told("b") == [("COMPLETED", None)]
    assert scene.told("nightly") == [("FAILED", "members_failed")]


async def test_a_failure_in_a_parallel_group_cancels_what_has_not_started(tmp_path):
    scene = Scene(tmp_path, NOON, concurrency=2)
    await scene.start()
    declare(scene, group("all", "a", "b", "c", "d", mode=GroupMode.PARALLEL))
    scene.processes.scripts["a"] = Script(takes=MINUTE, ending=FAILS)
    scene.trigger("all")
    await scene.advance("10m")
    assert [scene.told(name)[0][1] for name in "abcd"] == [
        "exit_code",
        None,
        "predecessor_failed",
        "predecessor_failed",
    ]
    assert scene.told("all") == [("FAILED", "members_failed")]
    await scene.close()


async def test_a_member_does_not_expire_while_its_group_holds_it(scene):
    """`expires_after` counts from the moment the group lets a member go."""
    declare(scene, jobs="a")
    scene.declare(command("b", gates=Gates(expires_after=MINUTE)), group("nightly", "a", "b"))
    scene.trigger("nightly")
    await scene.advance("10m")
    assert scene.told("b") == [("COMPLETED", None)]


async def test_a_skipped_member_does_not_stop_a_sequence(scene):
    """R-15: SKIPPED counts as done."""
    declare(scene, jobs="ac")
    scene.declare(
        command("b", gates=Gates(conditions=(Condition(command=("never",)),))), group("nightly", "a", "b", "c")
    )
    scene.processes.conditions["never"] = "false"
    scene.trigger("nightly")
    await scene.advance("15m")
    assert [scene.told(name) for name in "bc"] == [[("SKIPPED", "condition")], [("COMPLETED", None)]]
    assert scene.told("nightly") == [("COMPLETED", None)]


async def test_a_scheduled_group_owns_the_instant_and_its_members_carry_it(scene):
    """R-05, R-15: the group's run owns the ledger row; members repeat its instant."""
    declare(scene, group("nightly", "a", "b", schedule=cron("0 13 * * *")))
    await scene.advance("2h")
    run = last(scene, "nightly")
    assert (run.trigger, run.scheduled_for) == (Trigger.SCHEDULE, NOON + 60 * MINUTE)
    assert [last(scene, name).scheduled_for for name in "ab"] == [run.scheduled_for] * 2
    assert [last(scene, name).trigger for name in "ab"] == [Trigger.GROUP] * 2


async def test_an_interval_of_a_group_counts_from_its_last_member(scene):
    """R-06: the completion anchor waits for the whole group."""
    declare(scene, group("often", "a", "b", schedule=every("1h")))
    await scene.advance("15m")
    assert scene.job("often").next_for == NOON + 70 * MINUTE


async def test_a_group_that_still_runs_refuses_its_next_instant(scene):
    """R-11 applies to the group's run."""
    declare(scene, group("nightly", "a", schedule=cron("*/2 * * * *")))
    await scene.advance("5m")
    assert scene.told("nightly") == [("RUNNING", None), ("SKIPPED", "overlap")]
    await scene.advance("3m")


async def test_instants_missed_while_a_group_ran_are_overlap(scene):
    """R-10: a late instant at which a run of the job was executing is overlap, also of a group."""
    declare(scene, group("often", "a", schedule=cron("*/5 * * * *")))
    scene.processes.scripts["a"] = Script(takes=7 * MINUTE)
    await scene.advance("6m")
    await scene.crash()
    scene.clock.advance("13m")
    scene.processes.end_due()
    await scene.start()
    await scene.settle()
    told = [(run.scheduled_for - NOON, run.reason) for run in scene.history("often")]
    assert told == [(5 * MINUTE, None), (10 * MINUTE, Reason.OVERLAP), (15 * MINUTE, Reason.MISSED)]


async def test_a_group_that_waits_for_the_one_before_begins_when_it_ended(scene):
    """R-11: its members are born when it begins, not before."""
    declare(scene, group("nightly", "a", overlap=QUEUE))
    scene.trigger("nightly")
    await scene.settle()
    scene.trigger("nightly")
    await scene.settle()
    assert last(scene, "nightly").waiting_for is WaitingFor.PREDECESSOR
    assert len(scene.history("a")) == 1
    await scene.advance("6m")
    assert last(scene, "nightly").started_at == NOON + 5 * MINUTE
    await scene.advance("10m")
    assert scene.told("nightly") == [("COMPLETED", None), ("COMPLETED", None)]


async def test_a_group_that_is_replaced_stops_its_members_first(scene):
    """R-12: the new one begins when the old one's processes are gone."""
    declare(scene, group("nightly", "a", "b", overlap=REPLACE))
    scene.processes.scripts["a"] = LONG
    scene.trigger("nightly")
    await scene.advance("1m")
    scene.trigger("nightly")
    await scene.settle()
    assert scene.told("nightly") == [("CANCELLED", "replaced"), ("RUNNING", None)]
    assert scene.told("a") == [("CANCELLED", "group_cancelled"), ("RUNNING", None)]
    assert scene.told("b")[0] == ("CANCELLED", "group_cancelled")
    await scene.advance("1h")
    assert scene.told("nightly")[-1] == ("COMPLETED", None)


async def test_cancelling_a_group_ends_queued_members_and_stops_running_ones(scene):
    """R-15: CANCELLED by request where none completed or failed; always members do not run."""
    declare(scene, group("nightly", "a", "b", Member("c", always=True)))
    handle = scene.trigger("nightly")
    await scene.advance("1m")
    cancelled = cancel_run(scene.store, handle, now=scene.clock.now())
    assert (cancelled.final, last(scene, "a").status) == (False, Status.RUNNING)
    await scene.settle()
    assert [scene.told(name) for name in "abc"] == [[("CANCELLED", "group_cancelled")]] * 3
    assert scene.told("nightly") == [("CANCELLED", "requested")]
    assert the_group(scene, handle).status is GroupStatus.CANCELLED


async def test_a_cancelled_group_of_which_a_member_completed_is_partial(scene):
    """R-15: PARTIAL is everything else."""
    declare(scene, group("nightly", "a", "b", "c"))
    handle = scene.trigger("nightly")
    await scene.advance("6m")
    cancel_run(scene.store, handle, now=scene.clock.now())
    await scene.settle()
    assert scene.told("nightly") == [("FAILED", "members_failed")]
    assert the_group(scene, handle).status is GroupStatus.PARTIAL


async def test_a_cancelled_group_waits_for_a_member_that_will_not_stop(scene):
    """INV-006: the status is determined only when all members are final."""
    declare(scene, group("nightly", "a", "b"))
    scene.processes.scripts["a"] = Script(takes=5 * MINUTE, stops=False)
    handle = scene.trigger("nightly")
    await scene.settle()
    cancel_run(scene.store, handle, now=scene.clock.now())
    await scene.settle()
    assert scene.told("nightly") == [("RUNNING", None)]
    await scene.advance("5m")
    assert scene.told("nightly") == [("FAILED", "members_failed")]  # it completed all the same
    assert scene.told("b") == [("CANCELLED", "group_cancelled")]


async def test_a_member_cancelled_alone_stops_the_sequence_after_it(scene):
    declare(scene, group("nightly", "a", "b", "c"))
    scene.trigger("nightly")
    await scene.settle()
    cancel_run(scene.store, "b:1", now=scene.clock.now())
    await scene.advance("1h")
    assert [scene.told(name)[0] for name in "abc"] == [
        ("COMPLETED", None),
        ("CANCELLED", "requested"),
        ("CANCELLED", "predecessor_failed"),
    ]


async def test_a_group_that_waits_is_cancelled_without_ever_having_members(scene):
    declare(scene, group("nightly", "a", overlap=QUEUE))
    scene.trigger("nightly")
    await scene.settle()
    waiting = scene.trigger("nightly")
    assert cancel_run(scene.store, waiting, now=scene.clock.now()).final
    await scene.advance("10m")
    assert scene.told("nightly") == [("COMPLETED", None), ("CANCELLED", "requested")]
    assert len(scene.history("a")) == 1


async def test_the_place_of_a_disabled_job_ends_cancelled_and_stops_the_rest(scene):
    declare(scene, jobs="ac")
    scene.declare(command("b", enabled=False), group("nightly", "a", "b", "c"))
    scene.trigger("nightly")
    await scene.advance("10m")
    assert [scene.told(name)[0] for name in "abc"] == [
        ("COMPLETED", None),
        ("CANCELLED", "retired"),
        ("CANCELLED", "predecessor_failed"),
    ]
    assert last(scene, "b").error == "job 'b' is disabled"


async def test_a_group_all_of_whose_jobs_are_disabled_ends_at_once(scene):
    scene.declare(command("a", enabled=False), group("nightly", "a"))
    scene.trigger("nightly")
    assert scene.told("nightly") == [("FAILED", "members_failed")]


async def test_params_of_a_member_come_over_those_of_its_job(scene):
    work = Work(Kind.COMMAND, command=("true",), params={"full": True, "day": 1})
    scene.declare(JobSpec("a", work), group("nightly", Member("a", {"full": False})))
    scene.trigger("nightly")
    await scene.settle()
    assert last(scene, "a").params == {"full": False, "day": 1}


async def test_the_same_job_may_stand_twice_in_a_group_and_the_second_waits(scene):
    declare(scene, group("twice", "a", "a"), jobs="a")
    scene.trigger("twice")
    await scene.settle()
    assert [run.status for run in scene.history("a")] == [Status.RUNNING, Status.QUEUED]
    await scene.advance("10m")
    assert [run.started_at for run in scene.history("a")] == [NOON, NOON + 5 * MINUTE]


async def test_a_crash_between_two_members_loses_nothing(scene):
    """R-15, DEC-008: a group's run has no process to lose; its members are recovered as any run is."""
    declare(scene, group("nightly", "a", "b"))
    scene.trigger("nightly")
    await scene.settle()
    await scene.crash()
    scene.clock.advance("7m")
    await scene.start()
    await scene.advance("10m")
    assert [scene.told(name) for name in ("a", "b", "nightly")] == [[("COMPLETED", None)]] * 3


async def test_a_backfilled_group_waits_for_the_one_before_it(scene):
    """R-05: backfill gives a group the instant and the trigger, and one comes after another."""
    declare(scene, group("nightly", "a"))
    job = scene.job("nightly")
    instants = [NOON - timedelta(days=2), NOON - timedelta(days=1)]

    def backfill(db):
        verdict = Allow()
        for instant in instants:
            born = enqueue(db, job, verdict, trigger=Trigger.BACKFILL, now=scene.clock.now(), scheduled_for=instant)
            verdict = After(born.id)

    scene.store.write(backfill)
    await scene.settle()
    assert [run.status for run in scene.history("nightly")] == [Status.RUNNING, Status.QUEUED]
    await scene.advance("10m")
    assert scene.told("nightly") == [("COMPLETED", None)] * 2
    assert [run.scheduled_for for run in scene.history("a")] == instants


async def test_a_run_by_hand_waits_for_a_member_of_a_group(scene):
    """R-11: a job is active while a member of a group is not final."""
    declare(scene, group("nightly", "a"), overlap=QUEUE)
    scene.trigger("nightly")
    await scene.settle()
    scene.trigger("a")
    await scene.advance("11m")
    assert [run.started_at for run in scene.history("a")] == [NOON, NOON + 5 * MINUTE]


async def test_a_run_behind_a_cancelled_member_does_not_wait_for_what_held_the_member(scene):
    """R-11, R-15: what a member waits for is of another job, whose end would let nobody of this one go."""
    declare(scene, group("nightly", "a", "b"), overlap=QUEUE)
    scene.trigger("nightly")
    scene.trigger("b")
    await scene.settle()
    cancel_run(scene.store, "b:1", now=scene.clock.now())
    await scene.settle()
    assert last(scene, "b").status is Status.RUNNING
    await scene.advance("10m")
    assert scene.told("b") == [("CANCELLED", "requested"), ("COMPLETED", None)]


async def test_a_group_made_at_run_time_needs_no_job(scene):
    """R-15: all or nothing; the group stands for itself."""
    declare(scene)
    made = create(scene.store, "adhoc", [Member("a"), Member("b", always=True)], now=scene.clock.now())
    await scene.advance("10m")
    view = show_group(scene.store, "adhoc:1")
    assert (made.group.id, view.group.status, view.group.run_id) == (view.group.id, GroupStatus.COMPLETED, None)


async def test_a_repetition_that_waits_begins_with_what_failed(scene):
    """R-11, R-15: the members are chosen when it begins, from the group that it repeats."""
    declare(scene, group("nightly", "a", "b", overlap=QUEUE))
    scene.processes.scripts["b"] = Script(ending=FAILS)
    scene.trigger("nightly")
    await scene.advance("10m")
    scene.processes.scripts["b"] = Script()
    scene.trigger("nightly")
    await scene.settle()
    repeated = retry(scene.store, "nightly:1", now=scene.clock.now())
    assert repeated.view is None
    await scene.advance("10m")
    assert [run.place for run in scene.history("b")] == [2, 2, 1]
    assert show_group(scene.store, "nightly:3").repeated == "nightly:1"
    assert scene.told("nightly")[2] == ("COMPLETED", None)


async def test_a_member_of_a_group_that_runs_is_not_pruned(scene):
    """INV-006: without it the group could never be final."""
    declare(scene, jobs="b")
    scene.declare(command("a", retention=Retention(runs=MINUTE)), group("nightly", "a", "b"))
    scene.trigger("nightly")
    await scene.advance("4m")
    job = scene.job("a")
    assert scene.store.write(lambda db: prune_batch(db, job=job, now=scene.clock.now(), limit=10)) == []
    await scene.advance("10m")
    assert scene.told("nightly") == [("COMPLETED", None)]


# what verify finds

READY_AGAIN = """INSERT INTO live (run, job, state, lane_id, rank, position, created_at)
    SELECT seq, job, 1, lane_id, priority, 1, created_at FROM run"""


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE run_group SET status = 'COMPLETED'", "is COMPLETED, but its members make it PARTIAL"),
        (
            "UPDATE run_group SET status = 'RUNNING', finished_at = NULL",
            "is RUNNING, but all of its members are final",
        ),
        ("UPDATE run_group SET size = 1", "has a member at place 3 of 1"),
        (
            "UPDATE ended SET status = 7, reason = 'requested' WHERE run = (SELECT seq FROM run WHERE lane_id = 0)",
            "is PARTIAL, but its run is CANCELLED/requested",
        ),
        (
            f"""{READY_AGAIN} WHERE place = 3; DELETE FROM ended WHERE run = (SELECT seq FROM run WHERE place = 3)""",
            "is PARTIAL, but 1 of its members are not final",
        ),
        (
            "UPDATE run SET place = 5 WHERE place = 3",
            "has a member at place 5 of 3",
        ),
    ],
)
async def test_a_group_that_does_not_agree_with_its_members_is_found(unaudited, statement, said):
    """INV-006."""
    scene = unaudited
    declare(scene, group("nightly", "a", "b", "c"))
    scene.processes.scripts["b"] = Script(ending=FAILS)
    scene.trigger("nightly")
    await scene.advance("10m")
    assert audit(scene).violations == ()
    tamper(scene, statement)
    found = [violation for violation in audit(scene).violations if violation.check is Check.GROUP]
    assert (said, "nightly:1") in [(violation.text, violation.run) for violation in found]


async def test_a_group_that_lost_its_members_or_its_row_is_found(unaudited):
    scene = unaudited
    declare(scene, group("nightly", "a", "b"))
    scene.trigger("nightly")
    tamper(
        scene,
        "DELETE FROM live WHERE run = (SELECT seq FROM run WHERE place = 2)",
        "DELETE FROM run WHERE place = 2",
    )
    [found] = [one.text for one in audit(scene).violations if one.check is Check.GROUP]
    assert found == "has members at 1 of its 2 places"
    tamper(scene, "DELETE FROM run_group")
    [found] = [one.text for one in audit(scene).violations if one.check is Check.GROUP]
    assert found == "is RUNNING, but its group was never made: it would run for ever"


async def test_a_member_that_nobody_will_let_go_is_found(unaudited):
    scene = unaudited
    declare(scene, group("nightly", "a", "b"))
    scene.trigger("nightly")
    first = "run = (SELECT seq FROM run WHERE place = 1)"
    tamper(scene, f"UPDATE live SET state = 0, waiting_for = 'predecessor' WHERE {first}")
    assert {one.check for one in audit(scene).violations} == {Check.WAITING}
