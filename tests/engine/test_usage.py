"""What runs and direct calls used, added up (R-19: what is unknown is never nothing)."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.model.budgets import Usage
from rota.model.records import Outcome, PostconditionResult
from rota.model.states import Reason, Status
from rota.operations.budgets import By, UsageView, look_at_usage
from rota.store.tables.budgets import Amount
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.calling import call, reserve
from tests.engine.conftest import ALLOW, NOON, command

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)
SPENT = Outcome(Status.COMPLETED, usage=Usage(tokens_in=100, tokens_out=7, model="haiku"))


def usage(scene: Scene, by: By = By.JOB) -> UsageView:
    return look_at_usage(scene.store, by=by, since=NOON, tz="UTC", now=scene.clock.now())


async def test_direct_calls_count_like_runs(scene: Scene) -> None:
    """R-13."""
    scene.processes.scripts["extract"] = Script(takes=MINUTE, ending=SPENT)
    scene.declare(command("extract", overlap=ALLOW))
    scene.trigger("extract")
    call(scene, "extract")
    await scene.advance("5m")
    (extract,) = usage(scene).rows
    assert (extract.name, extract.runs, extract.took) == ("extract", 2, 2 * MINUTE)
    assert (extract.tokens_in, extract.usd) == (Amount(2, 200), Amount(0, 0))


async def test_a_run_that_still_runs_counts_up_to_now(scene: Scene) -> None:
    scene.processes.scripts["long"] = Script(takes=timedelta(hours=1))
    scene.declare(command("long"))
    scene.trigger("long")
    await scene.advance("10m")
    (long,) = usage(scene).rows
    assert (long.runs, long.took, long.tokens_in.told) == (1, 10 * MINUTE, 0)


async def test_a_reserved_slot_belongs_to_no_job(scene: Scene) -> None:
    """R-13."""
    reserve(scene, caller=scene.processes.caller())
    await scene.advance("10m")
    (reserved,) = usage(scene).rows
    assert (reserved.name, reserved.runs, reserved.took) == (None, 1, 10 * MINUTE)


async def test_days_add_up_to_the_whole(scene: Scene) -> None:
    scene.processes.scripts["job"] = Script(takes=MINUTE, ending=SPENT)
    scene.declare(command("job"))
    for _ in range(4):
        scene.trigger("job")
        await scene.advance("12h")
    view = usage(scene, By.DAY)
    assert [(day.name, day.runs) for day in view.rows] == [("2026-11-15", 1), ("2026-11-16", 2), ("2026-11-17", 1)]
    assert (view.total.runs, view.total.took, view.total.tokens_in) == (4, 4 * MINUTE, Amount(4, 400))


async def test_usage_by_outcome_tells_what_was_checked(scene: Scene) -> None:
    passed = replace(SPENT, postcondition=PostconditionResult(passed=True, exit_code=0))
    failed = Outcome(
        Status.FAILED,
        Reason.POSTCONDITION_FAILED,
        postcondition=PostconditionResult(passed=False, exit_code=2, output="2 tests failed"),
    )
    endings = {"checked": passed, "believed": SPENT, "refused": failed}
    for name, ending in endings.items():
        scene.processes.scripts[name] = Script(takes=MINUTE, ending=ending)
    scene.declare(*(command(name, overlap=ALLOW) for name in endings))
    for name in endings:
        scene.trigger(name)
    call(scene, "believed")
    await scene.advance("5m")
    rows = {row.name: (row.runs, row.tokens_in.told) for row in usage(scene, By.OUTCOME).rows}
    assert rows == {"completed checked": (1, 1), "completed": (2, 2), "failed postcondition_failed": (1, 0)}
    [run] = scene.history("refused")
    assert (run.checked, run.decisions["postcondition"]["output"]) == (False, "2 tests failed")
