"""Decisions of the queue on a playing scheduler, where no other file is about them (DEC-006, DEC-010, DEC-011)."""

from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from rota.model.errors import InvalidValue
from rota.model.records import Outcome
from rota.model.spec import JobSpec, Schedule
from rota.model.states import Reason, Status
from rota.operations.project.apply import apply
from rota.operations.runs import history
from rota.testing.doubles import Script
from tests.engine.conftest import ALLOW, NOON, audit, command, cron
from tests.engine.test_apply import declared
from tests.scene import Scene

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


async def test_runs_are_found_by_the_words_of_old_and_told_in_those_of_now_dec_006(scene: Scene) -> None:
    """DEC-006: one vocabulary; deprecated words are understood and never shown."""
    scene.processes.scripts["bad"] = Script(ending=Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1))
    scene.processes.scripts["slow"] = Script(ending=Outcome(Status.FAILED, Reason.TIMED_OUT, error="after 1 s"))
    scene.declare(command("good"), command("bad"), command("slow"))
    for name in ("good", "bad", "slow"):
        scene.trigger(name)
    await scene.settle()
    found = partial(history, scene.store)
    assert [(run.job, run.status) for run in found(statuses=["succeeded"])] == [("good", "COMPLETED")]
    assert [(run.job, run.status) for run in found(statuses=["error"])] == [("slow", "FAILED"), ("bad", "FAILED")]
    assert [(run.job, run.status) for run in found(statuses=["timed_out"])] == [("slow", "FAILED")]
    assert [run.job for run in found(statuses=["timed_out", "succeeded"])] == ["slow", "good"]
    assert [run.job for run in found(job="slow", statuses=["Timed_Out"])] == ["slow"]
    assert found(statuses=["timed_out"], reasons=["exit_code"]) == []


async def test_what_is_dispatched_is_running_to_those_outside_dec_006(scene: Scene) -> None:
    """DEC-006: `dispatched` is internal, and no filter knows it."""
    with pytest.raises(InvalidValue, match="no status is named 'dispatched'"):
        history(scene.store, statuses=["dispatched"])


def nine(zone: str) -> JobSpec:
    return command("report", schedule=cron("0 9 * * *", timezone=zone))


async def test_a_cron_is_read_in_the_zone_of_its_job_and_a_new_zone_holds_from_the_next_instant_dec_010(
    scene: Scene,
) -> None:
    """DEC-010: nine in New York is two in the afternoon in UTC; a run that was made keeps its instant."""
    assert Schedule().timezone == "UTC"
    apply(scene.store, declared(scene, nine("America/New_York")), now=scene.clock.now())
    await scene.advance("3h")
    apply(scene.store, declared(scene, nine("UTC")), now=scene.clock.now())
    await scene.advance("24h")
    instants = [run.scheduled_for for run in scene.history("report")]
    assert instants == [NOON + 2 * HOUR, NOON + 21 * HOUR]


async def test_with_one_slot_one_run_runs_whatever_is_queued_dec_011(tmp_path: Path) -> None:
    """DEC-011, INV-003: global single concurrency is `concurrency: 1`; who waits is not lost."""
    scene = Scene(tmp_path, NOON, concurrency=1)
    await scene.start()
    for name in ("first", "second"):
        scene.processes.scripts[name] = Script(takes=MINUTE)
        scene.declare(command(name, overlap=ALLOW))
    for name in ("first", "second", "first"):
        scene.trigger(name)
    await scene.settle()
    assert scene.processes.begun == ["first:1"]
    await scene.advance("10m")
    spans = sorted((run.started_at, run.finished_at) for name in ("first", "second") for run in scene.history(name))
    assert [ended <= begun for (_, ended), (begun, _) in pairwise(spans)] == [True, True]
    assert scene.processes.begun == ["first:1", "second:1", "first:2"]
    assert audit(scene).violations == ()
    await scene.close()
