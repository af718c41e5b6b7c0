"""Digests: at their times, once each, over crashes and stops, and what they say."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from rota.model.agents import AgentProblem
from rota.model.budgets import Usage
from rota.model.notifications import Channel, DeliveryResult, Target
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.store.tables import notifications
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from rota.text import messages
from tests.engine.test_deliveries import FAILED, job, told
from tests.engine.test_holds import agent, put

pytestmark = pytest.mark.anyio

ME = Target("me", Channel.TELEGRAM, on=(), address="1", address_secret="TELEGRAM_BOT_TOKEN", digest=("13:30",))


def digests(scene: Scene) -> list[dict[str, Any]]:
    return [dict(letter.payload) for letter in scene.post.letters if letter.payload["event"] == "digest"]


def spans(scene: Scene) -> list[tuple[str, str]]:
    return [(one["since"][11:16], one["until"][11:16]) for one in digests(scene)]


async def test_a_digest_comes_once_at_each_time_and_covers_the_time_since_the_last(scene: Scene) -> None:
    told(scene, replace(ME, digest=("13:30", "18:00")))
    scene.declare(job("a", notify=()))
    await scene.advance("25h")
    assert spans(scene) == [("12:00", "13:30"), ("13:30", "18:00")]
    await scene.advance("1h")
    assert spans(scene)[2:] == [("18:00", "13:30")]


async def test_it_says_what_ran_what_failed_and_what_waits(scene: Scene) -> None:
    put(scene, agent("fix", notify=()), replace(job("backup"), notify=()))
    told(scene, ME)
    usage = Usage(tokens_in=10, tokens_out=5, usd=420_000)
    done = Outcome(Status.COMPLETED, summary="Fixed the import", usage=usage, provider="anthropic")
    scene.processes.scripts["fix"] = Script(timedelta(minutes=1), done)
    scene.processes.scripts["backup"] = FAILED
    scene.trigger("fix")
    await scene.advance("2h")
    [digest] = digests(scene)
    assert digest["counts"] == {"completed": 1, "failed": 1, "skipped": 0, "cancelled": 0}
    assert [(one["run"], one["summary"], one["usd_millionths"], one["tokens"]) for one in digest["agents"]] == [
        ("fix:1", "Fixed the import", 420_000, 15)
    ]
    assert [one["run"] for one in digest["failed"]] == ["backup:1"]
    assert [one["topic"] for one in digest["attention"]] == ["failing:backup"]
    text = messages.body(digest)
    assert "  fix:1 (completed, $0.42): Fixed the import" in text
    assert messages.title(digest).startswith("rota: 1 completed, 1 failed since ")


async def test_a_time_that_passed_while_nothing_ran_makes_one_digest(scene: Scene) -> None:
    told(scene, ME)
    scene.declare(job("a", notify=()))
    await scene.advance("1h")
    await scene.crash()
    scene.clock.advance(timedelta(days=3))
    await scene.start()
    await scene.advance("10m")
    assert len(digests(scene)) == 1
    assert digests(scene)[0]["since"].startswith("2026-11-15T12:00")


async def test_a_crash_after_it_was_written_neither_loses_nor_repeats_it(scene: Scene) -> None:
    told(scene, ME)
    scene.declare(job("a", notify=()))
    scene.post.answer = lambda _letter: DeliveryResult(ok=False, error="no network")
    await scene.advance("91m")
    scene.post.answer = lambda _letter: DeliveryResult(ok=True)
    await scene.crash()
    await scene.start()
    await scene.advance("1h")
    found = scene.store.read(partial(notifications.listed, limit=10))
    assert [(one.event.value, one.status.value) for one in found] == [("digest", "DELIVERED")]
    assert len({one["id"] for one in digests(scene)}) == 1


async def test_a_clock_that_is_set_back_repeats_no_digest(scene: Scene) -> None:
    told(scene, ME)
    scene.declare(job("a", notify=()))
    await scene.advance("2h")
    scene.clock.step(-timedelta(hours=1))
    await scene.advance("2h")
    assert len(digests(scene)) == 1


async def test_it_is_bounded(scene: Scene) -> None:
    names = [f"job-{number}" for number in range(35)]
    put(scene, *(agent(name, notify=()) for name in names))
    told(scene, ME)
    for name in names:
        ending = Outcome(Status.FAILED, Reason(AgentProblem.AGENT_ERROR), error="x" * 1000, provider=name)
        scene.processes.scripts[name] = Script(timedelta(minutes=1), ending)
        scene.trigger(name)
    await scene.advance("2h")
    [digest] = digests(scene)
    named = [len(digest[part]) for part in ("jobs", "failed", "agents", "attention")]
    more = [digest[f"more_{part}"] for part in ("jobs", "failed", "agents", "attention")]
    assert (named, more) == ([30, 20, 20, 20], [5, 15, 15, 15])
    assert all(len(one["error"]) <= 300 for one in digest["failed"])
