"""Attention items reach people: once each, grouped, until they are acknowledged, over crashes."""

from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from rota.engine.loops.attention import AttentionWatch
from rota.engine.transactions.questions import ask
from rota.model.attention import Attention, ItemKind
from rota.model.budgets import Exceeded, Usage
from rota.model.notifications import Channel, DeliveryResult, Event, Target
from rota.model.questions import Subject
from rota.model.spec import Kind, Spend, Work
from rota.operations.notifications import enable_target
from rota.operations.run_actions import cancel_run
from rota.operations.status.attention import acknowledge_notified
from rota.operations.status.heartbeat import heartbeat
from rota.operations.status.status import needs_of
from rota.runners.output import folder_of
from rota.store.tables import attention, notifications
from rota.store.tables.questions import NewQuestion
from rota.testing.doubles import COMPLETED, Script
from rota.testing.scene import Scene
from tests.engine.conftest import audit, command
from tests.engine.spending import DAY, dollars, spending
from tests.engine.spending import put as put_file
from tests.engine.test_deliveries import FAILED, job, told
from tests.engine.test_holds import agent, logged_out, put, works
from tests.engine.test_making import WAITS, asking
from tests.engine.test_making import put as put_job
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


def needs(scene: Scene) -> list[Attention]:
    beat, now = heartbeat(scene.settings.state), scene.clock.now()
    return [one.attention for one in needs_of(scene.store, beat=beat, zone="UTC", now=now)]


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


async def test_a_question_that_a_chat_does_not_have_is_an_item_there(scene: Scene) -> None:
    """`rota tick` sends notifications, and no questions to chats."""
    told(scene, replace(PHONE, users=("1",)))
    put_job(scene, asking("watch"), policy=WAITS)
    scene.declare(job("a", notify=()))
    new = NewQuestion(Subject.JOB, scene.job("a").id, "Which branch?", "d", "a:1", scene.clock.now(), run_id="r")
    scene.store.write(partial(ask, new=new, job="a"))
    await scene.advance("1m")
    assert [(event, sorted(topics)) for event, topics in events(scene)] == [
        ("attention", ["approval:watch", "question:question 2"])
    ]


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


async def test_of_failures_in_a_row_one_a_day_is_reported_also_after_an_acknowledgement(scene: Scene) -> None:
    told(scene, PHONE)
    scene.declare(job("a", notify=()))
    fails(scene, "a")
    for pause in ("20s", "20s", "20s", "2h"):
        scene.trigger("a")
        await scene.advance(pause)
    assert events(scene) == [("attention", ["failing:a"])]
    item = scene.store.read(attention.noted_items)["failing:a"]
    acknowledge = partial(acknowledge_notified, topic=item.topic, actor="me", now=scene.clock.now())
    assert not scene.store.write(partial(acknowledge, mark="of another time"))
    assert scene.store.write(partial(acknowledge, mark=item.mark))
    await scene.advance("5m")
    scene.trigger("a")
    await scene.advance("5m")
    assert len(events(scene)) == 1
    await scene.advance("1d")
    scene.trigger("a")
    await scene.advance("5m")
    assert events(scene) == [("attention", ["failing:a"])] * 2


async def test_an_acknowledged_item_is_not_reported_when_it_is_over(scene: Scene) -> None:
    told(scene, PHONE)
    scene.declare(job("a", notify=()))
    fails(scene, "a")
    scene.trigger("a")
    await scene.advance("5m")
    item = scene.store.read(attention.noted_items)["failing:a"]
    scene.store.write(
        partial(acknowledge_notified, topic=item.topic, mark=item.mark, actor="me", now=scene.clock.now())
    )
    await scene.advance("5m")
    scene.processes.scripts["a"] = Script()
    scene.trigger("a")
    await scene.advance("10m")
    assert events(scene) == [("attention", ["failing:a"])]
    assert scene.store.read(attention.noted_items) == {}


async def test_a_budget_is_reported_at_80_and_at_100_percent_once_in_its_window(scene: Scene) -> None:
    account = replace(DAY, policy=Exceeded.WARN)
    small, large = spending("small", scene, Spend("day"), usage=Usage(usd=dollars(1))), dollars(1.5)
    reserving = spending("large", scene, Spend("day", estimate=large), takes="30m", usage=Usage(usd=dollars(0)))
    put_file(scene, small, reserving, accounts=(account,))
    told(scene, PHONE)

    async def spend(name: str, times: int = 1) -> list[str]:
        for _ in range(times):
            scene.trigger(name)
            await scene.advance("5m")
        return [item["what"].partition(":")[0] for letter in scene.post.letters for item in letter.payload["items"]]

    assert await spend("small", 7) == []
    assert await spend("large") == []
    await scene.advance("1h")
    assert await spend("small") == ["nearly"]
    assert await spend("large") == ["nearly"]
    await scene.advance("1h")
    assert await spend("small", 3) == ["nearly", "used up"]
    await scene.advance("1d")
    await scene.advance("5m")
    assert [event for event, _ in events(scene)] == ["attention", "attention", "resolved"]


async def test_a_budget_for_which_runs_wait_now_and_then_is_reported_once_in_its_window(scene: Scene) -> None:
    small = spending("small", scene, Spend("day"), usage=Usage(usd=dollars(1)))
    large = spending("large", scene, Spend("day", estimate=dollars(3)), usage=Usage(usd=dollars(3)))
    put_file(scene, small, large)
    told(scene, PHONE)
    for _ in range(8):
        scene.trigger("small")
        await scene.advance("5m")
    for _ in range(3):
        run = scene.trigger("large")
        await scene.advance("5m")
        cancel_run(scene.store, run, now=scene.clock.now())
        await scene.advance("5m")
    assert events(scene) == [("attention", ["budget:day"])] * 2


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


async def test_a_disabled_target_needs_attention_until_a_person_enables_it(scene: Scene) -> None:
    told(scene, PHONE, replace(PHONE, name="hook", on=(Event.FAILED,), address="2"))
    scene.declare(job("a", notify=("hook",)))
    gone = DeliveryResult(ok=False, answer=410, error="410 Gone", gone=True)
    scene.post.answer = lambda letter: gone if letter.target.name == "hook" else DeliveryResult(ok=True, answer=200)
    fails(scene, "a")
    await scene.advance("61m")
    scene.processes.scripts["a"] = Script()
    await scene.advance("3d")
    (item,) = (one for one in needs(scene) if one.kind is ItemKind.DELIVERIES)
    assert (item.name, item.command) == ("hook", "rota notify enable hook")
    assert item.what == "disabled, it gets no notifications: 410 Gone"
    enable_target(scene.store, "hook")
    assert [one for one in needs(scene) if one.kind is ItemKind.DELIVERIES] == []


async def test_a_run_that_is_silent_beyond_its_idle_timeout_is_stuck(scene: Scene) -> None:
    work = Work(Kind.COMMAND, command=("true",), timeout=None, idle_timeout=timedelta(minutes=5))
    scene.declare(
        replace(command("mute"), work=work), replace(command("patient"), work=replace(work, idle_timeout=None))
    )
    for name in ("mute", "patient"):
        scene.processes.scripts[name] = Script(timedelta(hours=3), COMPLETED)
        scene.trigger(name)
    await scene.settle()
    for name in ("mute", "patient"):
        folder_of(scene.settings.state, scene.history(name)[0].id).mkdir(parents=True)
    await scene.advance("6m")
    assert stuck(scene) == []
    await scene.advance("9m")
    assert stuck(scene) == [("mute:1", "stuck: no output for 15 min, its idle timeout is 5 min")]


def stuck(scene: Scene) -> list[tuple[str, str]]:
    found = scene.store.read(lambda db: scene._find_items(db, scene.clock.now()))
    return [(one.subject, one.what) for one in found if one.kind is ItemKind.STUCK]
