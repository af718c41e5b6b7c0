"""Deliveries of notifications: written with what they are about, sent by a loop of their own (DEC-009)."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from rota.engine.transactions.enqueue import cancel
from rota.model.notifications import Channel, Delivery, DeliveryResult, DeliveryStatus, Event, Target
from rota.model.records import Outcome
from rota.model.spec import GroupMode, JobSpec, Kind, Member, Misfire, MisfirePolicy, OnFailure, Retry, Schedule, Work
from rota.model.states import Reason, Status
from rota.store.tables import notifications
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.conftest import audit, command
from tests.scene import tamper

HOURLY = Schedule(cron=("0 * * * *",))
OPS = Target("ops", Channel.WEBHOOK, address="https://hooks.example.net/a")
EVERY = replace(OPS, on=(Event.FAILED, Event.RECOVERED), remind=None)
FAILED = Script(ending=Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=1))
NO = DeliveryResult(ok=False, answer=500, error="500 Internal Server Error")


def told(scene: Scene, *targets: Target) -> None:
    named = {target.name: target for target in targets}
    scene.store.write(partial(notifications.declare_targets, declared=named, now=scene.clock.now()))


def job(name: str = "backup", schedule: Schedule = HOURLY, **changes: Any) -> JobSpec:
    changes = {"retry": Retry(max_attempts=1), "notify": ("ops",), **changes}
    return command(name, schedule=schedule, **changes)


def stored(scene: Scene) -> list[Delivery]:
    return scene.store.read(lambda db: notifications.listed(db, limit=100))[::-1]


def states(scene: Scene) -> list[tuple[str, int]]:
    return [(one.status.value, one.attempts) for one in stored(scene)]


# what is told


async def test_a_failure_is_told_first_then_once_a_day_then_that_it_is_over(scene: Scene) -> None:
    told(scene, OPS)
    scene.declare(job())
    scene.processes.scripts["backup"] = FAILED
    await scene.advance("26h")
    assert scene.post.told() == [("ops", "failed", "backup:1"), ("ops", "failed", "backup:25")]
    scene.processes.scripts["backup"] = Script()
    await scene.advance("3h")
    assert scene.post.told()[2:] == [("ops", "recovered", "backup:27")]


async def test_every_failure_is_told_where_the_target_wants_it(scene: Scene) -> None:
    told(scene, EVERY)
    scene.declare(job())
    scene.processes.scripts["backup"] = FAILED
    await scene.advance("3h")
    assert [event for _, event, _ in scene.post.told()] == ["failed"] * 3


async def test_a_failure_is_told_after_the_last_attempt(scene: Scene) -> None:
    told(scene, OPS)
    scene.declare(job(retry=Retry(max_attempts=3)))
    scene.processes.scripts["backup"] = FAILED
    await scene.advance("59m")
    assert scene.post.told() == []
    await scene.advance("10m")
    assert [(letter.payload["run"], letter.payload["attempt"]) for letter in scene.post.letters] == [("backup:3", 3)]


async def test_the_payload_is_the_run_as_the_api_shows_it_and_the_event(scene: Scene) -> None:
    told(scene, OPS)
    scene.declare(job())
    scene.processes.scripts["backup"] = FAILED
    await scene.advance("1h")
    payload = scene.post.letters[0].payload
    expected = {"event": "failed", "job": "backup", "status": "FAILED", "reason": "exit_code", "exit_code": 1}
    assert expected.items() <= payload.items()
    assert {"id", "run", "scheduled_for", "started_at", "finished_at", "error", "result_summary"} <= payload.keys()


async def test_completed_skipped_missed_and_cancelled_are_told_to_who_asks_for_them(scene: Scene) -> None:
    told(scene, replace(OPS, on=(Event.COMPLETED, Event.SKIPPED, Event.MISSED, Event.CANCELLED)))
    scene.declare(job())
    await scene.advance("1h")
    scene.clock.advance(timedelta(hours=3, minutes=30))
    await scene.settle()
    scene.processes.scripts["backup"] = Script(takes=timedelta(hours=3))
    await scene.advance("2h")
    running = scene.history("backup")[-2]
    cancelling = partial(cancel, run_id=running.id, reason=Reason.REQUESTED, now=scene.clock.now())
    scene.store.write(cancelling)
    await scene.settle()
    events = [event for _, event, _ in scene.post.told()]
    assert events == ["completed", "missed", "skipped", "cancelled"]


async def test_a_run_that_starts_late_is_missed_but_no_skip(scene: Scene) -> None:
    told(scene, replace(OPS, on=(Event.MISSED,)), replace(OPS, name="other", on=(Event.SKIPPED,)))
    scene.declare(job(notify=("ops", "other"), misfire=Misfire(MisfirePolicy.ONCE)))
    scene.clock.advance(timedelta(hours=1, minutes=30))
    await scene.settle()
    assert scene.post.told() == [("ops", "missed", "backup:1")]


async def test_a_group_that_ends_with_a_failed_member_is_told_as_failed(scene: Scene) -> None:
    told(scene, OPS)
    work = Work(
        Kind.GROUP, members=(Member("good"), Member("bad")), mode=GroupMode.PARALLEL, on_failure=OnFailure.CONTINUE
    )
    scene.declare(command("good"), replace(command("bad"), retry=Retry(max_attempts=1)))
    scene.declare(JobSpec("all", work, schedule=HOURLY, retry=Retry(max_attempts=1), notify=("ops",)))
    scene.processes.scripts["bad"] = FAILED
    await scene.advance("1h")
    assert scene.post.told() == [("ops", "failed", "all:1")]


async def test_a_run_that_is_not_finished_by_its_time_is_late_once(scene: Scene) -> None:
    told(scene, OPS)
    scene.declare(job(schedule=Schedule(cron=("0 1 * * *",)), finish_by="06:00"))
    scene.processes.scripts["backup"] = Script(takes=timedelta(hours=9))
    await scene.advance("24h")
    assert scene.post.told() == [("ops", "late", "backup:1")]
    assert scene.post.letters[0].payload["status"] == "RUNNING"


async def test_a_retry_keeps_the_time_by_which_it_must_finish(scene: Scene) -> None:
    told(scene, replace(OPS, on=(Event.LATE,)))
    retry = Retry(max_attempts=2, backoff=timedelta(hours=8))
    scene.declare(
        job(schedule=Schedule(cron=("0 1 * * *",)), finish_by="06:00", retry=replace(retry, max=retry.backoff))
    )
    scene.processes.scripts["backup"] = FAILED
    await scene.advance("24h")
    assert scene.post.told() == [("ops", "late", "backup:2")]


async def test_a_target_that_is_written_in_the_job_is_told(scene: Scene) -> None:
    scene.declare(job(notify=(), notify_own=(replace(OPS, name="own"),)))
    scene.processes.scripts["backup"] = FAILED
    await scene.advance("1h")
    assert scene.post.told() == [("own", "failed", "backup:1")]


async def test_nobody_is_told_of_a_job_that_names_nobody(scene: Scene) -> None:
    told(scene, OPS)
    scene.declare(job(notify=()))
    scene.processes.scripts["backup"] = FAILED
    await scene.advance("2h")
    assert stored(scene) == []


# how it is sent


async def test_a_delivery_is_tried_four_times_and_then_has_failed(scene: Scene) -> None:
    """DEC-009: one attempt and three retries."""
    told(scene, OPS)
    scene.declare(job())
    scene.processes.scripts["backup"] = FAILED
    scene.post.answer = lambda _letter: NO
    await scene.advance("70m")
    assert states(scene) == [("FAILED", 4)]
    assert len({letter.id for letter in scene.post.letters}) == 1
    gaps = [(b.at - a.at).total_seconds() for a, b in zip(scene.post.letters, scene.post.letters[1:], strict=False)]
    assert [round(gap / pause, 1) for gap, pause in zip(gaps, (5, 30, 300), strict=True)] == pytest.approx(
        [1] * 3, abs=0.21
    )


async def test_what_a_receiver_asks_for_is_waited_up_to_an_hour(scene: Scene) -> None:
    told(scene, OPS)
    scene.declare(job(schedule=Schedule(cron=("0 1 * * *",))))
    scene.processes.scripts["backup"] = FAILED
    scene.post.answer = lambda _letter: replace(NO, answer=503, wait=7200)
    await scene.advance("15h")
    first, second = scene.post.letters[:2]
    assert second.at - first.at == timedelta(hours=1)


async def test_an_endpoint_that_is_gone_is_told_nothing_more(scene: Scene) -> None:
    told(scene, EVERY)
    scene.declare(job())
    scene.processes.scripts["backup"] = FAILED
    scene.post.answer = lambda _letter: DeliveryResult(ok=False, answer=410, error="410 Gone", gone=True)
    await scene.advance("3h")
    assert len(scene.post.letters) == 1
    assert states(scene) == [("FAILED", 1)] * 3
    assert "the target is disabled: 410 Gone" in (stored(scene)[1].error or "")


async def test_an_address_that_is_refused_is_not_tried_again(scene: Scene) -> None:
    """RISK-5."""
    told(scene, OPS)
    scene.declare(job())
    scene.processes.scripts["backup"] = FAILED
    scene.post.answer = lambda _letter: replace(NO, hopeless=True)
    await scene.advance("70m")
    assert states(scene) == [("FAILED", 1)]


async def test_an_endpoint_that_keeps_failing_is_left_alone_for_a_while(scene: Scene) -> None:
    """RISK-5, the circuit breaker: what waits for it costs no attempts."""
    told(scene, replace(EVERY, on=(Event.COMPLETED,)))
    scene.declare(job(schedule=Schedule(cron=("* * * * *",))))
    scene.post.answer = lambda _letter: NO
    await scene.advance("30m")
    attempts = len(scene.post.letters)
    assert attempts < 30
    endpoint = scene.store.read(lambda db: notifications.endpoint(db, OPS.endpoint))
    assert endpoint.failures == attempts
    assert endpoint.closed_until is not None
    scene.post.answer = lambda _letter: DeliveryResult(ok=True, answer=204)
    await scene.advance("31m")
    assert {one.status for one in stored(scene)} <= {DeliveryStatus.DELIVERED, DeliveryStatus.FAILED}
    assert scene.store.read(lambda db: notifications.endpoint(db, OPS.endpoint)).failures == 0


async def test_a_slow_endpoint_delays_neither_a_run_nor_another_endpoint(scene: Scene) -> None:
    told(scene, EVERY, replace(EVERY, name="other", address="https://hooks.example.net/b"))
    scene.declare(job(), job("second", notify=("other",)))
    scene.processes.scripts["backup"] = scene.processes.scripts["second"] = FAILED
    scene.post.held = {"ops"}
    await scene.advance("3h")
    assert [run for target, _, run in scene.post.told() if target == "other"] == ["second:1", "second:2", "second:3"]
    assert scene.told("backup")[-1] == ("FAILED", "exit_code")


async def test_a_crash_between_sending_and_recording_repeats_under_the_same_id(scene: Scene) -> None:
    """DEC-009: a receiver may hear twice, never not at all."""
    told(scene, OPS)
    scene.declare(job())
    scene.processes.scripts["backup"] = FAILED
    scene.post.held = {"ops"}
    await scene.advance("1h")
    assert len(scene.post.letters) == 1
    await scene.crash()
    scene.post.held = set()
    await scene.start()
    await scene.advance("5m")
    assert [letter.id for letter in scene.post.letters] == [scene.post.letters[0].id] * 2
    assert states(scene) == [("DELIVERED", 2)]


async def test_a_target_that_is_gone_from_the_file_ends_its_deliveries(scene: Scene) -> None:
    told(scene, OPS)
    scene.declare(job())
    scene.processes.scripts["backup"] = FAILED
    scene.post.answer = lambda _letter: NO
    await scene.advance("1h")
    told(scene)
    await scene.advance("5m")
    assert states(scene) == [("FAILED", 2)]
    assert stored(scene)[0].error == "the target no longer exists"


async def test_a_changed_address_holds_for_what_waits(scene: Scene) -> None:
    told(scene, OPS)
    scene.declare(job())
    scene.processes.scripts["backup"] = FAILED
    scene.post.answer = lambda _letter: NO
    await scene.advance("1h")
    told(scene, replace(OPS, address="https://new.example.net"))
    await scene.advance("1m")
    assert scene.post.letters[-1].target.address == "https://new.example.net"


async def test_old_deliveries_are_let_go(scene: Scene) -> None:
    told(scene, OPS)
    scene.declare(job(schedule=Schedule(at=scene.clock.now())))
    scene.processes.scripts["backup"] = FAILED
    await scene.advance("1h")
    assert len(stored(scene)) == 1
    await scene.advance("31d")
    await scene.engine.prune_loop.turn()
    assert stored(scene) == []


async def test_the_loop_that_fires_pings_once_a_minute(scene: Scene) -> None:
    target = Target("ping", Channel.WEBHOOK, address="https://watch.example.net/1")
    await scene.crash()
    scene.settings = replace(scene.settings, scheduler=replace(scene.settings.scheduler, ping=target))
    await scene.start()
    for _ in range(6):
        await scene.settle()
        scene.clock.advance(timedelta(seconds=30))
    assert scene.post.pings == [target] * 3


async def test_a_clock_that_is_set_back_delays_no_retry(scene: Scene) -> None:
    """R-26: pauses count elapsed time."""
    told(scene, OPS)
    scene.declare(job(schedule=Schedule(at=scene.clock.now())))
    scene.processes.scripts["backup"] = FAILED
    scene.post.answer = lambda _letter: NO
    await scene.settle()
    scene.clock.step(timedelta(hours=-1))
    await scene.advance("10m")
    assert states(scene) == [("FAILED", 4)]


async def test_a_restored_copy_tells_nobody_what_the_other_one_tells(scene: Scene) -> None:
    told(scene, OPS)
    scene.declare(job())
    scene.processes.scripts["backup"] = FAILED
    scene.post.answer = lambda _letter: NO
    await scene.advance("1h")
    now = scene.clock.now()
    scene.store.write(lambda db: notifications.leave_all(db, "restored from a backup of web1", now=now))
    sent = len(scene.post.letters)
    await scene.advance("10m")
    assert (len(scene.post.letters), states(scene)) == (sent, [("FAILED", 1)])


# what `rota verify` says of it


def lose(scene: Scene, delivery: Delivery) -> None:
    """Take a row away behind everybody's back."""
    tamper(scene, f"DELETE FROM delivery WHERE id = '{delivery.id}'")


EVENTS = replace(OPS, on=(Event.COMPLETED, Event.FAILED, Event.CANCELLED, Event.SKIPPED, Event.MISSED), remind=None)


@pytest.mark.parametrize(
    ("script", "event"), [(Script(), "completed"), (FAILED, "failed")], ids=["completed", "failed"]
)
async def test_an_end_that_nobody_was_told_of_is_found_by_verify(unaudited: Scene, script: Script, event: str) -> None:
    """DEC-009: the delivery is written with the end, so that one without is a loss."""
    told(unaudited, EVENTS)
    unaudited.declare(job())
    unaudited.processes.scripts["backup"] = script
    await unaudited.advance("3h")
    assert audit(unaudited).violations == ()
    lost = stored(unaudited)[1]
    lose(unaudited, lost)
    found = audit(unaudited).violations
    assert [(one.check.value, one.run, one.text) for one in found] == [
        ("delivery", "backup:2", f"ops was not notified of {event}")
    ]


async def test_a_reminder_that_was_not_written_is_found_by_verify(unaudited: Scene) -> None:
    told(unaudited, OPS)
    unaudited.declare(job())
    unaudited.processes.scripts["backup"] = FAILED
    await unaudited.advance("60h")
    assert audit(unaudited).violations == ()
    second = stored(unaudited)[1]
    lose(unaudited, second)
    assert {one.check.value for one in audit(unaudited).violations} == {"delivery"}


async def test_what_ended_before_the_targets_changed_is_not_held_against_them(scene: Scene) -> None:
    told(scene, OPS)
    scene.declare(job())
    await scene.advance("3h")
    told(scene, EVENTS)
    assert audit(scene).violations == ()


async def lost_event(scene: Scene, event: Event) -> list[tuple[str | None, str]]:
    """Return what verify says when the delivery of this event is gone, and nothing while it is there."""
    assert audit(scene).violations == ()
    lose(scene, next(one for one in stored(scene) if one.event is event))
    return [(one.run, one.text) for one in audit(scene).violations]


async def test_a_recovery_that_was_not_written_is_found_by_verify(unaudited: Scene) -> None:
    """DEC-009."""
    told(unaudited, OPS)
    unaudited.declare(job())
    unaudited.processes.scripts["backup"] = FAILED
    await unaudited.advance("2h")
    unaudited.processes.scripts["backup"] = Script()
    await unaudited.advance("2h")
    assert await lost_event(unaudited, Event.RECOVERED) == [("backup:3", "ops was not notified of recovered")]


async def test_a_late_run_that_nobody_was_told_of_is_found_by_verify(unaudited: Scene) -> None:
    """DEC-009."""
    told(unaudited, replace(OPS, on=(Event.LATE,)))
    unaudited.declare(job(schedule=Schedule(cron=("0 22 * * *",), timezone="Europe/Madrid"), finish_by="06:00"))
    unaudited.processes.scripts["backup"] = Script(takes=timedelta(hours=9))
    await unaudited.advance("36h")
    assert await lost_event(unaudited, Event.LATE) == [("backup:1", "ops was not notified of late")]


async def test_a_run_that_starts_late_and_nobody_was_told_of_is_found_by_verify(unaudited: Scene) -> None:
    """DEC-009."""
    told(unaudited, replace(OPS, on=(Event.MISSED,)))
    unaudited.declare(job(misfire=Misfire(MisfirePolicy.ONCE)))
    unaudited.clock.advance(timedelta(hours=1, minutes=30))
    await unaudited.settle()
    assert await lost_event(unaudited, Event.MISSED) == [("backup:1", "ops was not notified of missed")]
