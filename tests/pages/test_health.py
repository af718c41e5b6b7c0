"""How the scheduler is, in a word: what every page says at its top."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.engine.activity import PauseState
from rota.model.spec import Mode
from rota.operations.status.heartbeat import Heartbeat, Liveness
from rota.operations.status.status import Health, look_at_health
from tests.pages.conftest import Site

RUNNING = Heartbeat(Liveness.RUNNING, 1, {"enabled": True})
PAUSED = PauseState(None, datetime(2026, 11, 15, tzinfo=UTC), None, "upgrade")
NOW = timedelta()


@pytest.mark.parametrize(
    ("beat", "lag", "paused", "told"),
    [
        (RUNNING, NOW, None, ("ok", "running")),
        (RUNNING, timedelta(seconds=4), None, ("ok", "running")),
        (RUNNING, timedelta(seconds=6), None, ("warning", "running")),
        (RUNNING, NOW, PAUSED, ("warning", "paused")),
        (Heartbeat(Liveness.RUNNING, 1, {"enabled": False}), NOW, None, ("warning", "switched off")),
        (Heartbeat(Liveness.RUNNING, 1, {"storage_problem": "disk full"}), NOW, None, ("bad", "running")),
        (Heartbeat(Liveness.STALLED, 1), NOW, None, ("bad", "stalled")),
        (Heartbeat(Liveness.DEAD), NOW, PAUSED, ("bad", "not running")),
        (Heartbeat(Liveness.ELSEWHERE), NOW, None, ("ok", "running elsewhere")),
    ],
)
def test_health_is_a_level_and_a_word(
    beat: Heartbeat, lag: timedelta, paused: PauseState | None, told: tuple[str, str]
) -> None:
    found = Health(beat, lag, Mode.ACTIVE, paused)
    assert (found.level, found.word) == told


def test_lag_is_how_long_the_earliest_due_instant_waits(site: Site) -> None:
    assert look_at_health(site.store, site.project.state, now=site.clock.now()).lag == NOW
    site.clock.advance(timedelta(hours=16))
    assert look_at_health(site.store, site.project.state, now=site.clock.now()).lag == timedelta(hours=1)
    assert "lag 1 h" in site.get("/").words


def test_what_is_paused_does_not_lag(site: Site) -> None:
    site.project.ok("pause", "--all")
    site.clock.advance(timedelta(hours=16))
    assert look_at_health(site.store, site.project.state, now=site.clock.now()).lag == NOW
