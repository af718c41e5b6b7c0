"""A start that meets a database that is away, or rows that others hold: it tries again, within bounds."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import Struct

from rota.engine.membership.shutdown import ShortLockStore, StartupRetry
from rota.model.errors import DatabaseBusy, DatabaseGone, StorageFull
from rota.store.driver import Database
from rota.store.postgres.pipeline import statement
from rota.testing.doubles import FakeClock
from rota.testing.scene import Scene
from tests.scene import many_machines

pytestmark = pytest.mark.anyio


class PassingClock(FakeClock):
    """A clock on which every look takes a second."""

    def monotonic(self) -> float:
        """Return elapsed seconds, and let one pass."""
        self.advance("1s")
        return super().monotonic()


class Away(Struct):
    """As much of a store as patience looks at."""

    problem: str | None = None


class Step:
    """A step of a start that is refused so often before it gets through."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.attempts = 0

    async def __call__(self) -> str:
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.fixture
def patience() -> Callable[..., StartupRetry]:
    def make(
        *, over: Callable[[], bool] = lambda: False, within: timedelta | None = None, away: Any = None
    ) -> StartupRetry:
        return StartupRetry(away or Away(), PassingClock(datetime(2026, 1, 1, tzinfo=UTC)), over=over, within=within)

    return make


def busy() -> Exception:
    return DatabaseBusy("others hold it", hint="wait")


def gone() -> Exception:
    return DatabaseGone("it is away", hint="wait")


async def test_a_step_that_others_held_up_is_done_again_and_told_once(
    patience: Callable[..., StartupRetry], caplog: pytest.LogCaptureFixture
) -> None:
    """R-22, R-23."""
    step = Step(busy(), gone(), busy())
    with caplog.at_level(logging.INFO):
        assert await patience().do(step) == "done"
    assert step.attempts == 4
    assert caplog.text.count("retrying") == caplog.text.count("startup continues") == 1


async def test_what_does_not_pass_by_itself_is_not_tried_again(patience: Callable[..., StartupRetry]) -> None:
    step = Step(StorageFull("no room", hint="make some"))
    with pytest.raises(StorageFull):
        await patience().do(step)
    assert step.attempts == 1


async def test_a_first_start_gives_up_after_a_while(patience: Callable[..., StartupRetry]) -> None:
    step = Step(*(busy() for _ in range(1000)))
    with pytest.raises(DatabaseBusy):
        await patience(within=timedelta(seconds=10)).do(step)
    assert 1 < step.attempts < 1000


async def test_a_start_that_nobody_wants_any_more_is_given_up(patience: Callable[..., StartupRetry]) -> None:
    step = Step(gone(), gone(), gone())
    with pytest.raises(DatabaseGone):
        await patience(over=lambda: step.attempts == 2).do(step)
    assert step.attempts == 2


async def test_a_step_that_waits_for_a_database_that_is_away_is_left_when_nobody_wants_it(
    patience: Callable[..., StartupRetry],
) -> None:
    left = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    with pytest.raises(DatabaseGone):
        await patience(over=lambda: True, away=Away("away since noon")).do(waits)
    await left.wait()


def lock_timeout(db: Database) -> str:
    return str(db._link.run(statement("SHOW lock_timeout"), {}).get_value(0, 0), "ascii")  # type: ignore[attr-defined]


@many_machines
async def test_the_steps_of_a_start_wait_a_second_at_most_for_rows_that_others_hold(scene: Scene) -> None:
    """So whoever is told to stop hears it in time; all other transactions wait as long as ever."""
    brief = ShortLockStore(scene.store)
    assert (brief.write(lock_timeout), await brief.submit(lock_timeout)) == ("1s", "1s")
    assert (scene.store.write(lock_timeout), await scene.store.submit(lock_timeout)) == ("10s", "10s")


async def test_what_a_step_of_a_start_writes_is_stored(scene: Scene) -> None:
    brief = ShortLockStore(scene.store)
    brief.write(lambda db: db.execute("meta_set", key="first", value="1"))
    await brief.submit(lambda db: db.execute("meta_set", key="second", value="2"))
    assert brief.read(lambda db: [db.row("meta_get", key=key) for key in ("first", "second")]) == [("1",), ("2",)]
