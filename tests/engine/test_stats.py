"""Statistics: kept with each end, equal to a recount, whatever is retried, skipped, pruned or counted later."""

from datetime import timedelta
from functools import partial

import pytest

from rota.model.budgets import Usage
from rota.model.clock import to_ms
from rota.model.records import Outcome
from rota.model.spec import Retention, Retry
from rota.model.states import Reason, Status
from rota.operations.verify.report import Check
from rota.rules.stats import DAY, HOUR, Spent, counted, mean, reasons, spent, success_rate, sum_of
from rota.store.tables import stats
from rota.store.tallies import merge_ends
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.calling import call
from tests.engine.conftest import ALLOW, NOON, audit, command, cron, every
from tests.scene import tamper

pytestmark = pytest.mark.anyio

LATER = 1 << 60
PAID = Outcome(Status.COMPLETED, usage=Usage(tokens_in=100, tokens_out=7, usd=250, model="haiku"))
BROKEN = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3)


def tally(scene: Scene, job: str | None = None, *, span: int = HOUR) -> dict[str, int]:
    job_id = scene.job(job).id if job else None
    read = partial(stats.series, job_id=job_id, span=span, since=0, until=LATER)
    return sum_of(scene.store.read(read).values())


async def test_each_end_adds_to_its_hour_and_day_and_to_those_of_all_jobs(scene: Scene) -> None:
    scene.processes.scripts["job"] = Script(takes=timedelta(minutes=2))
    scene.declare(command("job", schedule=every("20m")), command("other"))
    scene.trigger("other")
    await scene.advance("3h")
    runs = len(scene.history("job"))
    for span in (HOUR, DAY):
        assert counted(tally(scene, "job", span=span), Status.COMPLETED) == runs
        assert counted(tally(scene, span=span), Status.COMPLETED) == runs + 1
    assert mean(tally(scene, "job"), "d") == timedelta(minutes=2)
    assert mean(tally(scene, "job"), "l") == timedelta()


async def test_reasons_retries_and_skips_are_told_apart(scene: Scene) -> None:
    scene.processes.scripts["bad"] = Script(takes=timedelta(seconds=5), ending=BROKEN)
    scene.processes.scripts["slow"] = Script(takes=timedelta(minutes=25))
    scene.declare(
        command("bad", schedule=cron("0 13 * * *"), retry=Retry(max_attempts=3)),
        command("slow", schedule=cron("*/10 * * * *")),
    )
    await scene.advance("2h")
    assert reasons(tally(scene, "bad"), Status.FAILED) == {"exit_code": 3}
    assert (
        sum(key.startswith("l") and key != "late" for key in tally(scene, "bad")) == 2
    )  # one sum, one bucket: no retry
    assert success_rate(tally(scene, "bad")) == 0
    overlaps = [run for run in scene.history("slow") if run.reason is Reason.OVERLAP]
    assert reasons(tally(scene, "slow"), Status.SKIPPED) == {"overlap": len(overlaps)}


async def test_a_stretch_of_missed_instants_counts_each_of_them(scene: Scene) -> None:
    scene.declare(command("job", schedule=cron("*/5 * * * *")))
    await scene.crash()
    scene.clock.advance(timedelta(hours=2))
    await scene.start()
    await scene.advance("1s")
    missed = [run for run in scene.history("job") if run.reason is Reason.MISSED]
    assert reasons(tally(scene, "job"), Status.SKIPPED)["missed"] == sum(run.count or 1 for run in missed) > len(missed)


async def test_a_long_run_counts_where_it_ended_and_notes_when_it_started(scene: Scene) -> None:
    scene.processes.scripts["long"] = Script(takes=timedelta(hours=3), ending=BROKEN)
    scene.declare(command("long", retry=Retry(max_attempts=1)))
    scene.trigger("long")
    await scene.advance("4h")
    found = tally(scene, "long")
    assert (found["h3"], found["hf3"]) == (1, 1)


async def test_usage_is_counted_by_agent_and_model_for_runs_and_direct_calls(scene: Scene) -> None:
    scene.processes.scripts["extract"] = Script(takes=timedelta(minutes=1), ending=PAID)
    scene.declare(command("extract", overlap=ALLOW))
    scene.trigger("extract")
    call(scene, "extract")
    await scene.advance("5m")
    expected = [Spent("", "haiku", runs=2, tokens_in=200, tokens_out=14, usd=500)]
    assert spent(tally(scene, "extract")) == spent(tally(scene)) == expected
    found = scene.store.read(partial(stats.expensive_runs, job_id=None, since=0, until=LATER, limit=5))
    assert found == [(scene.history("extract")[0].id, 250)]


async def test_what_retention_removes_stays_in_the_statistics(scene: Scene) -> None:
    scene.declare(command("daily", schedule=cron("0 0 * * *"), retention=Retention(runs=timedelta(days=3))))
    await scene.advance(timedelta(days=10))
    before = tally(scene, "daily", span=DAY)
    await scene.engine.prune_loop.turn()
    assert len(scene.history("daily")) < 10
    assert tally(scene, "daily", span=DAY) == before
    assert not audit(scene).violations


async def test_hours_go_after_sixty_days_and_days_stay(scene: Scene) -> None:
    scene.declare(command("daily", schedule=cron("0 0 * * *")))
    await scene.advance(timedelta(days=70))
    await scene.engine.prune_loop.turn()
    oldest = scene.store.read(lambda db: min(stats.series(db, None, span=HOUR, since=0, until=LATER)))
    assert oldest >= to_ms(scene.clock.now() - timedelta(days=61))
    assert counted(tally(scene, "daily", span=DAY), Status.COMPLETED) == 70


async def test_the_past_is_counted_in_steps_and_new_ends_are_added_meanwhile(scene: Scene) -> None:
    scene.processes.scripts["job"] = Script(takes=timedelta(minutes=2), ending=PAID)
    scene.declare(command("job", schedule=every("25m"), retry=Retry(max_attempts=1)))
    await scene.advance(timedelta(days=2))
    whole, days = tally(scene, "job"), tally(scene, span=DAY)
    until = (to_ms(scene.clock.now()) // HOUR + 1) * HOUR
    tamper(
        scene,
        "DELETE FROM stat",
        "DELETE FROM stat_delta",
        f"INSERT INTO meta (key, value) VALUES ('stats_from', '{until}')",
    )
    for _ in range(5):
        assert scene.store.write(stats.count_past)
    await scene.advance("1h")  # ends of now are added to hours that are counted and to one that is not
    while scene.store.write(stats.count_past):
        pass
    assert scene.store.read(stats.counted_from) is None
    assert counted(tally(scene, "job"), Status.COMPLETED) > counted(whole, Status.COMPLETED)
    assert counted(tally(scene, span=DAY), Status.COMPLETED) > counted(days, Status.COMPLETED)
    assert not audit(scene).violations


async def test_the_scheduler_counts_the_past_by_itself(scene: Scene) -> None:
    scene.declare(command("job", schedule=every("30m")))
    await scene.advance("10h")
    whole = tally(scene, "job", span=DAY)
    until = (to_ms(scene.clock.now()) // HOUR + 1) * HOUR
    tamper(
        scene,
        "DELETE FROM stat",
        "DELETE FROM stat_delta",
        f"INSERT INTO meta (key, value) VALUES ('stats_from', '{until}')",
    )
    await scene.engine.prune_loop.turn()
    assert scene.store.read(stats.counted_from) is None
    assert tally(scene, "job", span=DAY) == whole


async def test_what_is_not_yet_in_the_cells_is_read_with_them(scene: Scene) -> None:
    scene.declare(command("job", schedule=every("30m")))
    await scene.advance("2h")
    before = tally(scene, "job"), tally(scene, span=DAY)
    assert scene.store.write(merge_ends) > 0
    assert (tally(scene, "job"), tally(scene, span=DAY)) == before
    assert scene.store.write(merge_ends) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('UPDATE stat SET tally = \'{"n":99,"C":99}\' WHERE job > 0', "a recount gives"),
        ("DELETE FROM stat WHERE span = 86400000", "a recount gives"),
        ("UPDATE stat SET pruned = 4", "but there were"),
        ("UPDATE run_cost SET usd = 9", "reports a cost of 250"),
    ],
)
async def test_wrong_statistics_are_found(scene: Scene, change: str, said: str) -> None:
    scene.processes.scripts["job"] = Script(ending=PAID)
    scene.declare(command("job", schedule=every("30m")))
    await scene.advance("2h")
    scene.store.write(merge_ends)
    tamper(scene, change)
    found = audit(scene).violations
    assert {one.check for one in found} == {Check.STATS}
    assert said in found[0].text
    tomorrow = (to_ms(NOON) // DAY + 1) * DAY
    again = f"INSERT INTO meta (key, value) VALUES ('stats_from', '{tomorrow}')"
    tamper(scene, "UPDATE run_cost SET usd = 250", "DELETE FROM stat", again)
    while scene.store.write(stats.count_past):
        pass
