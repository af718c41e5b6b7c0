"""The shared poll: one fetch for all that need it, waits, failures, the server's wish (R-16)."""

from datetime import timedelta
from itertools import pairwise

import pytest

from rota.model.records import Outcome
from rota.model.spec import ByMode, Condition, Gates, JobSpec, Kind, RepeatedFailure, Retry, Schedule, Work
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.operations.activity import look_at_cadence, touch
from rota.operations.run_actions import cancel_run
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import NOON, audit, command, every, function
from tests.scene import tamper

pytestmark = pytest.mark.anyio

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
POLL = "rota/poll"
NEEDS = Gates(needs_poll=True)
BROKEN = Outcome(Status.FAILED, Reason.EXCEPTION, error="GET https://x: 503 Service Unavailable")


def answered(**data) -> Outcome:
    return Outcome(Status.COMPLETED, summary="200 OK", poll=data, suggested=data.get("suggested_poll_seconds"))


def poll(modes: ByMode | None = None, **changes) -> JobSpec:
    """Return the poll's job, as a scripted process."""
    by_mode = modes or ByMode(15 * SECOND, MINUTE, 5 * MINUTE)
    work = Work(Kind.COMMAND, command=("poll",))
    return JobSpec(POLL, work, Schedule(by_mode=by_mode), retry=Retry(max_attempts=1), **changes)


async def begin(scene: Scene, *specs: JobSpec, takes: timedelta = SECOND, ending: Outcome | None = None) -> None:
    touch(scene.store, now=scene.clock.now())
    scene.processes.scripts[POLL] = Script(takes=takes, ending=ending or answered(n=1))
    scene.declare(*specs)


async def test_one_poll_serves_all_that_are_due(scene: Scene) -> None:
    """R-16: one fetch for all; each gets that result."""
    await begin(scene, poll(), *(command(f"remote-{n}", schedule=every("10m"), gates=NEEDS) for n in range(5)))
    await scene.settle()
    assert {scene.history(f"remote-{n}")[0].waiting_for for n in range(5)} == {WaitingFor.POLL}
    await scene.advance("1s")
    assert all(scene.told(f"remote-{n}") == [("COMPLETED", None)] for n in range(5))
    assert len(scene.history(POLL)) == 1
    assert scene.history("remote-0")[0].decisions["poll"]["at"].startswith("2026-11-15T12:00:01")


async def test_local_jobs_never_wait_for_it(scene: Scene) -> None:
    """R-16."""
    await begin(scene, poll(), command("local", schedule=every("10s")), takes=timedelta(hours=1))
    await scene.advance("1m")
    assert len(scene.history("local")) == 7


async def test_a_fresh_result_is_enough(scene: Scene) -> None:
    """R-16: a result not older than the mode's interval needs no further poll."""
    await begin(scene, poll(), command("remote", gates=NEEDS))
    await scene.advance("10s")
    scene.trigger("remote")
    await scene.settle()
    assert scene.told("remote") == [("COMPLETED", None)]
    assert len(scene.history(POLL)) == 1


async def test_a_failed_poll_skips_those_who_wait_and_says_why(scene: Scene) -> None:
    """R-16: SKIPPED/poll_failed."""
    await begin(scene, poll(), command("remote", schedule=every("10m"), gates=NEEDS), ending=BROKEN)
    await scene.advance("1s")
    (run,) = scene.history("remote")
    assert (run.status, run.reason) == (Status.SKIPPED, Reason.POLL_FAILED)
    assert "503 Service Unavailable" in (run.error or "")
    assert scene.job("remote").next_for == NOON + SECOND + 10 * MINUTE


async def test_failures_back_off(scene: Scene) -> None:
    """R-16: the poll that keeps failing comes less and less often, and each instant left out has its row."""
    held = RepeatedFailure(after=2, backoff_max=15 * MINUTE)
    await begin(scene, poll(on_repeated_failure=held), takes=timedelta(), ending=BROKEN)
    await scene.advance("20m")
    failed = [run for run in scene.history(POLL) if run.status is Status.FAILED]
    assert len(failed) < 12
    gaps = [(later.created_at - earlier.created_at) for earlier, later in pairwise(failed)]
    assert gaps == sorted(gaps)
    assert gaps[-1] >= 4 * MINUTE


async def test_the_servers_suggestion_sets_the_next_poll(scene: Scene) -> None:
    """R-16: honoured, bounded, until the next poll says otherwise."""
    await begin(scene, poll(), takes=timedelta(), ending=answered(suggested_poll_seconds=40))
    await scene.settle()
    assert scene.job(POLL).next_for == NOON + 40 * SECOND
    scene.processes.scripts[POLL] = Script(ending=answered(suggested_poll_seconds=1))
    await scene.advance("40s")
    assert scene.job(POLL).next_for == NOON + 55 * SECOND
    scene.processes.scripts[POLL] = Script(ending=answered())
    await scene.advance("15s")
    assert (scene.job(POLL).suggested, scene.job(POLL).next_for) == (None, NOON + 70 * SECOND)


async def test_under_never_a_needing_run_makes_one_poll(scene: Scene) -> None:
    """R-16: nobody else would."""
    never = ByMode(15 * SECOND, None, None)
    scene.processes.scripts[POLL] = Script(takes=SECOND, ending=answered(n=1))
    scene.declare(poll(never), *(command(f"remote-{n}", schedule=every("1h"), gates=NEEDS) for n in range(3)))
    await scene.advance("5s")
    assert [run.trigger for run in scene.history(POLL)] == [Trigger.NEED]
    assert all(scene.told(f"remote-{n}") == [("COMPLETED", None)] for n in range(3))
    await scene.advance("1h")
    assert len(scene.history(POLL)) == 2


async def test_a_cancelled_poll_leaves_nobody_waiting(scene: Scene) -> None:
    """R-16: whoever waited for it must not wait for ever."""
    await begin(scene, poll(), command("remote", schedule=every("1h"), gates=NEEDS), takes=timedelta(hours=1))
    await scene.settle()
    cancel_run(scene.store, f"{POLL}:1", now=scene.clock.now())
    await scene.advance("1s")
    assert scene.told("remote") == [("SKIPPED", "poll_failed")]


async def test_a_poll_cut_off_by_a_crash_counts_as_failed(scene: Scene) -> None:
    """R-16, R-23."""
    await begin(scene, poll(), command("remote", schedule=every("1h"), gates=NEEDS), takes=timedelta(hours=1))
    await scene.settle()
    await scene.crash()
    scene.processes.living.clear()
    await scene.start()
    await scene.settle()
    assert scene.told("remote") == [("SKIPPED", "poll_failed")]


async def test_a_run_that_waited_for_another_first_still_gets_a_fresh_result(scene: Scene) -> None:
    """R-16, R-02: one wait after the other."""
    await begin(scene, poll(), command("remote", gates=Gates((Condition(command=("look",)),), needs_poll=True)))
    await scene.advance("1s")
    scene.processes.conditions["look"] = "false"
    scene.trigger("remote")
    await scene.advance("30m")
    told = scene.told("remote")
    assert told == [("SKIPPED", "condition")]


async def test_a_function_gets_the_data_read_only(scene: Scene) -> None:
    """R-16: `ctx.poll_data`."""
    seen = []

    def remote(context) -> None:
        seen.append(dict(context.poll_data))
        with pytest.raises(TypeError):
            context.poll_data["n"] = 2

    scene.table.functions = {"remote": remote}
    await begin(scene, poll(), function("remote", gates=NEEDS), ending=answered(n=7))
    await scene.advance("2s")
    scene.trigger("remote")
    await scene.settle()
    await scene.engine.until_empty()
    await scene.quiet()
    assert (seen, scene.told("remote")) == ([{"n": 7}], [("COMPLETED", None)])


async def test_status_shows_the_result_with_its_age(scene: Scene) -> None:
    """R-16: visible in `status`."""
    await begin(scene, poll(), command("remote", gates=NEEDS))
    await scene.advance("10s")
    view = scene.store.read(lambda db: look_at_cadence(db, now=scene.clock.now()))
    assert view.poll is not None
    assert view.poll.last is not None
    assert (view.project.mode, view.poll.interval, view.poll.last.ok, view.poll.last.at) == (
        "active",
        15 * SECOND,
        True,
        NOON + SECOND,
    )


async def test_verify_finds_a_run_whose_poll_never_comes(unaudited: Scene) -> None:
    """R-16: what waits for a poll must have one that comes."""
    scene = unaudited
    await begin(scene, poll(), command("remote", schedule=every("1h"), gates=NEEDS), takes=timedelta(hours=1))
    await scene.settle()
    assert audit(scene).violations == ()
    tamper(scene, "UPDATE job SET name = 'gone' WHERE name = 'rota/poll'")
    assert "remote" in [one.job for one in audit(scene).violations]
