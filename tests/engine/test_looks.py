"""The next look: a run moves the next instant of its own job within `pace`, and jobs go on in sessions of authors."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from rota.engine.activity import look_again
from rota.model.agents import AgentSession
from rota.model.errors import InvalidValue
from rota.model.records import NextLook, Outcome
from rota.model.spec import Anchor, FirstRun, JobSpec, Pace, SessionMode
from rota.model.states import Status
from rota.operations.explain import explain
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.project.apply import put_job
from rota.testing.doubles import COMPLETED, Script
from rota.testing.scene import Scene
from tests.engine.agent_jobs import agent
from tests.engine.conftest import NOON, command, cron, every
from tests.engine.test_sessions import Seeing, seeing

__all__ = ["seeing"]
pytestmark = pytest.mark.anyio

PACE = Pace(timedelta(minutes=5), timedelta(days=1))


def watch(scene: Scene, **changes: Any) -> JobSpec:
    """Declare a job whose runs take ten minutes and choose their next one."""
    spec = command("watch", **{"schedule": every("1h"), "pace": PACE, **changes})
    scene.declare(spec)
    scene.processes.scripts["watch"] = Script(timedelta(minutes=10), COMPLETED)
    return spec


def look(scene: Scene, after: str | timedelta, why: str = "the deploy is on", *, number: int = -1) -> NextLook:
    run = scene.history("watch")[number]
    wait = timedelta(hours=float(after)) if isinstance(after, str) else after
    act = partial(look_again, run=run, after=wait, why=why, author="agent:reviewer", now=scene.clock.now())
    return scene.store.write(act)


def lines(scene: Scene, name: str) -> dict[str, str]:
    view = explain(scene.store, name, state=scene.settings.state, now=scene.clock.now())
    return {line.label: line.text for line in view.job_lines or view.run_lines}


async def test_a_run_moves_the_next_one_and_explain_says_who_and_why(scene: Scene) -> None:
    watch(scene)
    await scene.advance("1m")
    assert look(scene, "3").next_for is None
    assert lines(scene, "watch")["moved"] == "by agent:reviewer in watch:1, 3 h after a run: the deploy is on"
    assert lines(scene, "watch:1")["look again"] == "asked for the next run 3 h later: the deploy is on"
    await scene.advance("1h")
    assert scene.job("watch").next_for == NOON + timedelta(hours=3, minutes=10)
    assert "moved" in lines(scene, "watch")
    await scene.advance("3h")
    assert scene.history("watch")[1].scheduled_for == NOON + timedelta(hours=3, minutes=10)
    assert lines(scene, "watch:2")["moved"] == "by agent:reviewer in watch:1, 3 h after a run: the deploy is on"
    assert "moved" not in lines(scene, "watch")


async def test_the_move_counts_once_and_the_interval_comes_back(scene: Scene) -> None:
    watch(scene)
    await scene.advance("1m")
    look(scene, "3")
    await scene.advance("4h")
    assert scene.job("watch").next_for == NOON + timedelta(hours=4, minutes=20)


@pytest.mark.parametrize(("after", "kept"), [("0.01", timedelta(minutes=5)), ("100", timedelta(days=1))])
async def test_the_wait_keeps_within_the_pace(scene: Scene, after: str, kept: timedelta) -> None:
    watch(scene)
    await scene.advance("1m")
    assert look(scene, after).after == kept
    await scene.advance("20m")
    assert scene.job("watch").next_for in (NOON + timedelta(minutes=10) + kept, None)


async def test_the_start_anchor_counts_from_the_start(scene: Scene) -> None:
    watch(scene, schedule=every("1h", anchor=Anchor.START))
    await scene.advance("1m")
    look(scene, "2")
    await scene.advance("15m")
    assert scene.job("watch").next_for == NOON + timedelta(hours=2)


async def test_the_last_call_of_a_run_counts_and_a_retry_keeps_it(scene: Scene) -> None:
    watch(scene)
    await scene.advance("1m")
    look(scene, "3")
    look(scene, "2", "sooner")
    await scene.advance("15m")
    assert scene.job("watch").next_for == NOON + timedelta(hours=2, minutes=10)
    assert lines(scene, "watch")["moved"].endswith("sooner")


async def test_a_run_by_hand_moves_the_planned_instant_at_once(scene: Scene) -> None:
    watch(scene, schedule=every("6h", first_run=FirstRun.AFTER_INTERVAL))
    scene.trigger("watch")
    await scene.advance("1m")
    assert look(scene, "1").next_for == NOON + timedelta(hours=1, minutes=1)
    await scene.advance("2h")
    assert scene.history("watch")[1].scheduled_for == NOON + timedelta(hours=1, minutes=1)


async def test_a_job_without_pace_or_without_a_next_run_refuses(scene: Scene) -> None:
    watch(scene, pace=None)
    await scene.advance("1m")
    with pytest.raises(InvalidValue, match="has no `pace`"):
        look(scene, "3")


async def test_a_calendar_is_not_moved(scene: Scene) -> None:
    watch(scene, schedule=cron("1 * * * *"))
    await scene.advance("2m")
    with pytest.raises(InvalidValue, match="fixed schedule"):
        look(scene, "3")


async def test_a_crash_between_the_request_and_the_end_loses_nothing(scene: Scene) -> None:
    watch(scene)
    await scene.advance("1m")
    look(scene, "3")
    await scene.crash()
    await scene.start()
    await scene.advance("1h")
    assert scene.job("watch").next_for == NOON + timedelta(hours=3, minutes=10)


async def test_a_pause_keeps_the_moved_instant_apart_from_the_ledger(scene: Scene) -> None:
    watch(scene)
    await scene.advance("1m")
    look(scene, "3")
    pause(scene.store, JobSelection(("watch",)), until=None, reason="", now=scene.clock.now())
    await scene.advance("1h")
    resume(scene.store, JobSelection(("watch",)), catch_up=False, now=scene.clock.now())
    await scene.advance("6h")
    assert len(scene.history("watch")) > 1


# session: mine


def talker(name: str, **keys: Any) -> JobSpec:
    return agent(name, session=SessionMode.RESUME, **keys)


async def test_a_job_goes_on_in_a_copy_of_the_session_of_its_author(scene: Scene, seeing: Seeing) -> None:
    scene.declare(agent("author"), talker("later", session_of="author:1"))
    ended = Outcome(Status.COMPLETED, exit_code=0, session_id="s-1")
    scene.processes.scripts["author"] = Script(ending=ended)
    scene.trigger("author")
    await scene.settle()
    own = replace(ended, session_id="s-2", session=AgentSession("s-2", adapter="claude"))
    scene.processes.scripts["later"] = Script(ending=own)
    for _ in range(2):
        scene.trigger("later")
        await scene.settle()
    first, second = seeing.briefs[1:]
    assert (first.session and first.session.id, first.apart) == ("s-1", True)
    assert (second.session and second.session.id, second.apart) == ("s-2", False)


async def test_the_session_of_an_author_that_still_runs_is_left_alone(scene: Scene, seeing: Seeing) -> None:
    scene.declare(agent("author"), talker("later", session_of="author:1"))
    scene.processes.scripts["author"] = Script(timedelta(hours=1), COMPLETED)
    scene.trigger("author")
    await scene.settle()
    scene.trigger("later")
    await scene.settle()
    assert seeing.briefs[1].session is None


async def test_a_new_interval_replaces_a_wait_that_has_begun(scene: Scene) -> None:
    spec = watch(scene)
    await scene.advance("1m")
    look(scene, "3")
    await scene.advance("10m")
    changed = replace(spec, schedule=every("30m"))
    scene.store.write(partial(put_job, spec=changed, source="test", now=scene.clock.now()))
    assert scene.job("watch").next_for == NOON + timedelta(minutes=40)
    assert "moved" not in lines(scene, "watch")
