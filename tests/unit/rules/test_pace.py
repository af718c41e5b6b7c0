"""When to ask again (document 001, option C)."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.model.spec import Mode
from rota.rules.activity import suggested_poll

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(("mode", "seconds"), [(Mode.ACTIVE, 15), (Mode.IDLE, 60), (Mode.DORMANT, 300)])
def test_the_mode_says_how_often_to_ask(mode, seconds):
    assert suggested_poll(mode, next_due_at=None, now=NOON) == seconds
    assert suggested_poll(mode, next_due_at=NOON + timedelta(days=1), now=NOON) == seconds


@pytest.mark.parametrize(("due", "seconds"), [(200, 200), (30.001, 31), (6, 6), (4, 5), (0, 5), (-60, 5)])
def test_what_is_due_sooner_is_asked_for_sooner_but_never_below_five_seconds(due, seconds):
    assert suggested_poll(Mode.DORMANT, next_due_at=NOON + timedelta(seconds=due), now=NOON) == seconds
