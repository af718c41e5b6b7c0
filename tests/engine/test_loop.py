"""A loop goes on whatever its rounds do, and tells what went wrong once."""

import logging
from datetime import datetime, timedelta

import pytest

from rota.engine.loops.loop import Loop
from rota.engine.scheduler import Failing
from rota.model.errors import RotaError, StorageFull
from rota.testing.doubles import FakeClock
from rota.testing.scene import Scene
from tests.engine.conftest import NOON

pytestmark = pytest.mark.anyio
FULL = StorageFull("the disk is full", hint="free some space")
BUG = ZeroDivisionError("by nothing")


class Rounds:
    """Rounds that raise as a test says."""

    def __init__(self, *errors: Exception | None) -> None:
        self._errors = list(errors)

    async def __call__(self) -> datetime | None:
        error = self._errors.pop(0)
        if error is not None:
            raise error
        return None


def loop_of(*errors: Exception | None) -> Loop:
    return Loop("some", Rounds(*errors), clock=FakeClock(NOON))


@pytest.mark.parametrize("error", [FULL, BUG])
async def test_a_traceback_is_told_where_the_error_is_not_one_of_ours(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    await loop_of(error).turn()
    (record,) = caplog.records
    assert record.getMessage() == f"loop failed loop='some' error='{error}'"
    assert bool(record.exc_info) is not isinstance(error, RotaError)


async def test_the_same_failure_is_told_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rota")
    loop = loop_of(BUG, BUG, FULL, None, None)
    for _ in range(5):
        await loop.turn()
    assert [record.getMessage() for record in caplog.records] == [
        "loop failed loop='some' error='by nothing'",
        f"loop failed loop='some' error='{FULL}'",
        "loop recovered loop='some' failures=3",
    ]


async def test_a_failing_loop_comes_back_after_pauses_that_grow_to_a_limit() -> None:
    loop = loop_of(*[BUG] * 9, None)
    pauses = []
    for _ in range(9):
        again = await loop.turn()
        assert again is not None
        pauses.append(again - NOON)
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[1]
    assert pauses[-1] == pauses[-2] <= timedelta(minutes=5)
    assert await loop.turn() is None
    assert (loop.pulse.failures, loop.pulse.error, loop.pulse.rounds) == (0, None, 10)


async def test_a_claim_that_fails_twice_running_is_told_until_one_succeeds(scene: Scene) -> None:
    """The claim's own rounds go on: it is the claim itself that fails."""
    submit, refused = scene.store.submit, [FULL, FULL]

    def refusing(operation, *manner):
        if refused and "_claim" in repr(operation):
            error = refused.pop()
            return submit(lambda _db: _raise(error))
        return submit(operation, *manner)

    scene.store.submit = refusing  # type: ignore[method-assign]
    for expected in (None, Failing("claim", "storage_full", str(FULL)), None):
        await scene.claim_now()
        await scene.quiet()
        assert scene.engine.failing == expected


def _raise(error: Exception) -> None:
    raise error
