"""Attention items reach people: once each, grouped, until they are acknowledged, over crashes."""

from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from rota.engine.loops.attention import AttentionWatch
from rota.model.notifications import Channel, Event, Target
from rota.operations.status.attention import acknowledge_notified
from rota.store.tables import attention, notifications
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import audit
from tests.engine.test_deliveries import FAILED, job, told
from tests.engine.test_holds import agent, logged_out, put, works
from tests.scene import tamper

pytestmark = pytest.mark.anyio

PHONE = Target(
    "phone", Channel.TELEGRAM, on=(Event.ATTENTION, Event.RESOLVED), address="1", address_secret="TELEGRAM_BOT_TOKEN"
)


def events(scene: Scene) -> list[tuple[str, list[str]]]:
    """Return the messages that were sent: the event and the topics."""
    return [
        (letter.payload["event"], [item["topic"] for item in letter.payload["items"]])
        for letter in scene.post.letters
        if "items" in letter.payload
    ]


def fails(scene: Scene, *names: str) -> None:
    for name in names:
        scene.processes.scripts[name] = FAILED


async def test_items_of_a_short_time_are_one_message_and_are_not_repeated(scene: Scene) -> None:
    told(scene, PHONE)
    scene.declare(job("a", notify=()), job("b", notify=()))
    fails(scene, "a", "b")
    scene.trigger("a")
    await scene.advance("10s")
    scene.trigger("b")
    await scene.advance("10m")
    assert events(scene) == [("attention", ["failing:a", "failing:b"])]


async def test_an_item_that_is_over_is_reported_once(scene: Scene) -> None:
    told(scene, PHONE)
    scene.declare(job("a", notify=()))
    fails(scene, "a")
    scene.trigger("a")
    await scene.advance("5m")
    scene.processes.scripts["a"] = Script()
    scene.trigger("a")
    await scene.advance("10m")
    assert events(scene) == [("attention", ["failing:a"]), ("resolved", ["failing:a"])]
    assert scene.store.read(attention.noted_items) == {}


async def test_an_item_that_ends_before_its_message_is_not_reported(scene: Scene) -> None:
    told(scene, PHONE)
    scene.declare(job("a", notify=()))
    fails(scene, "a")
    scene.trigger("a")
    await scene.advance("10s")
    scene.processes.scripts["a"] = Script()
    scene.trigger("a")
    await scene.advance("10m")
    assert events(scene) == []


async def test_a_new_failure_is_reported_again_and_an_acknowledged_item_is_not(scene: Scene) -> None:
    told(scene, PHONE)
    scene.declare(job("a", notify=()))
    fails(scene, "a")
    scene.trigger("a")
    await scene.advance("5m")
    scene.trigger("a")
    await scene.advance("5m")
    assert events(scene) == [("attention", ["failing:a"])] * 2
    item = scene.store.read(attention.noted_items)["failing:a"]
    acknowledge = partial(acknowledge_notified, topic=item.topic, actor="me", now=scene.clock.now())
    assert not scene.store.write(partial(acknowledge, mark="of another time"))
    assert scene.store.write(partial(acknowledge, mark=item.mark))
    await scene.advance("5m")
    scene.processes.scripts["a"] = Script()
    scene.trigger("a")
    await scene.advance("10m")
    assert len(events(scene)) == 2


async def test_a_target_that_hears_of_the_runs_of_a_job_gets_no_item_of_its_failure(scene: Scene) -> None:
    both = replace(PHONE, name="ops", on=(Event.FAILED, Event.ATTENTION))
    told(scene, both, PHONE)
    scene.declare(job("a"))
    fails(scene, "a")
    scene.trigger("a")
    await scene.advance("5m")
    assert [(letter.target.name, letter.payload["event"]) for letter in scene.post.letters] == [
        ("ops", "failed"),
        ("phone", "attention"),
    ]


async def test_a_missing_login_is_one_message_and_its_end_another(scene: Scene) -> None:
    told(scene, PHONE)
    put(scene, *(agent(name, notify=()) for name in ("fix", "review")))
    told(scene, PHONE)
    logged_out(scene, "fix")
    works(scene, "review")
    scene.trigger("fix")
    await scene.advance("3m")
    scene.trigger("review")
    await scene.advance("40m")
    assert events(scene) == [("attention", ["failing:fix", "held:anthropic"])]
    scene.logins.missing.clear()
    works(scene, "fix")
    scene.trigger("fix")
    await scene.advance("2h")
    assert events(scene)[1:] == [("resolved", ["held:anthropic"]), ("resolved", ["failing:fix"])]


async def test_a_crash_neither_loses_nor_doubles_a_message(scene: Scene) -> None:
    told(scene, PHONE)
    scene.declare(job("a", notify=()))
    fails(scene, "a")
    scene.trigger("a")
    await scene.advance("10s")
    await scene.crash()
    scene.clock.advance(timedelta(minutes=1))
    await scene.start()
    await scene.advance("5m")
    await scene.crash()
    await scene.start()
    await scene.advance("5m")
    assert events(scene) == [("attention", ["failing:a"])]


async def test_without_a_target_for_items_nothing_is_read_or_stored(scene: Scene) -> None:
    told(scene, replace(PHONE, on=(Event.FAILED,)))
    scene.declare(job("a", notify=()))
    fails(scene, "a")
    scene.trigger("a")
    await scene.advance("5m")
    assert scene.store.read(attention.noted_items) == {}


async def test_a_message_is_bounded(scene: Scene) -> None:
    told(scene, PHONE)
    names = [f"job-{number}" for number in range(25)]
    scene.declare(*(job(name, notify=()) for name in names))
    fails(scene, *names)
    for name in names:
        scene.trigger(name)
    await scene.advance("5m")
    [letter] = scene.post.letters
    assert (len(letter.payload["items"]), letter.payload["more"]) == (20, 5)


async def test_the_deliveries_of_items_are_listed_without_a_run(scene: Scene) -> None:
    told(scene, PHONE)
    scene.declare(job("a", notify=()))
    fails(scene, "a")
    scene.trigger("a")
    await scene.advance("5m")
    [delivery] = scene.store.read(lambda db: notifications.listed(db, limit=10))
    assert (delivery.run_id, delivery.handle, delivery.event) == (None, "", Event.ATTENTION)


async def test_verify_finds_an_item_under_another_topic(scene: Scene) -> None:
    told(scene, PHONE)
    scene.declare(job("a", notify=()))
    fails(scene, "a")
    scene.trigger("a")
    await scene.advance("5m")
    tamper(scene, "UPDATE attention SET name = 'b'")
    assert [found.text for found in audit(scene).violations] == [
        "the item 'failing:a' is stored under another topic, or as an event of a run"
    ]
    tamper(scene, "UPDATE attention SET name = 'a'")


async def test_the_end_of_a_run_wakes_the_loop_once_until_the_next_look_and_never_without_a_target(
    scene: Scene,
) -> None:
    watch = AttentionWatch(
        scene.store, scene.clock, lambda _db, _now: (), stays=True, tick=timedelta(minutes=1), written=lambda: None
    )

    def ends() -> list[bool]:
        """Let two runs end; return which of them woke the loop."""
        woken = []
        for _ in range(2):
            watch.run_ended()
            woken.append(watch.loop.take_wake())
        return woken

    await watch.round()
    assert ends() == [False, False]
    told(scene, PHONE)
    await watch.round()  # the apply wakes all loops
    watch.run_ended()
    assert watch.loop.take_wake()
    due = await watch.round()
    assert due == scene.clock.now() + watch.pause
    assert ends() == [False, False]
    scene.clock.advance(watch.pause)
    await watch.round()
    watch.run_ended()
    assert watch.loop.take_wake()
