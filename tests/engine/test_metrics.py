"""Metrics: bounded, never falling, equal from every scheduler and after a restart."""

from datetime import timedelta
from functools import partial

import pytest

from rota.model.budgets import Usage
from rota.model.records import Outcome
from rota.model.spec import Retention
from rota.model.states import Reason, Status
from rota.operations.project.apply import remove_job
from rota.operations.status.metrics import MetricFamily, MetricKind, RunTotals, collect_metrics
from rota.rules.stats import DAY, cumulative, sum_of
from rota.store.tables import stats
from rota.store.tallies import merge_ends
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.calling import call
from tests.engine.conftest import ALLOW, command, cron

pytestmark = pytest.mark.anyio
BROKEN = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3)


def metrics(scene: Scene, totals: RunTotals | None = None, *, labelled: int = 100) -> dict[str, MetricFamily]:
    """Return the metrics by name; without `totals` as a process that has just started."""
    found = collect_metrics(
        scene.store, scene.settings.state, totals or RunTotals(), now=scene.clock.now(), labelled=labelled
    )
    assert len({family.name for family in found}) == len(found)
    return {family.name: family for family in found}


def samples(family: MetricFamily) -> dict[tuple[str, ...], float]:
    return dict(family.samples)


def counters(found: dict[str, MetricFamily]) -> dict[tuple[str, ...], float]:
    """Return every value that must never fall."""
    plain = {
        (name, *labels): value
        for name, family in found.items()
        if family.kind is MetricKind.COUNTER
        for labels, value in family.samples
    }
    histograms = {name: family.histogram for name, family in found.items() if family.histogram is not None}
    buckets = {(name, str(bound)): float(count) for name, value in histograms.items() for bound, count in value.buckets}
    return {**plain, **buckets, **{(name, "sum"): value.total for name, value in histograms.items()}}


async def test_runs_are_counted_by_job_status_and_reason_and_measured(scene: Scene) -> None:
    scene.processes.scripts["good"] = Script(takes=timedelta(minutes=2))
    scene.processes.scripts["bad"] = Script(takes=timedelta(seconds=5), ending=BROKEN)
    scene.declare(command("good", schedule=cron("0 * * * *")), command("bad", overlap=ALLOW))
    scene.trigger("bad")
    await scene.advance("5h")
    await scene.advance("5m")
    found = metrics(scene)
    fires = len(scene.history("good"))
    assert samples(found["rota_runs_total"]) == {
        ("good", "COMPLETED", ""): fires,
        ("bad", "FAILED", "exit_code"): len(scene.history("bad")),
    }
    durations = found["rota_run_seconds"].histogram
    assert durations is not None
    assert dict(durations.buckets)[131.072] - dict(durations.buckets)[65.536] == fires
    assert durations.buckets[-1] == (float("inf"), fires + len(scene.history("bad")))
    lateness = found["rota_lateness_seconds"].histogram
    assert lateness is not None
    assert lateness.buckets[0] == (0.004, fires)


async def test_usage_is_counted_in_tokens_and_dollars(scene: Scene) -> None:
    usage = Usage(tokens_in=100, tokens_cached=40, tokens_out=7, requests=3, usd=2_500_000, model="haiku")
    scene.processes.scripts["extract"] = Script(ending=Outcome(Status.COMPLETED, usage=usage))
    scene.declare(command("extract", overlap=ALLOW))
    scene.trigger("extract")
    call(scene, "extract")
    await scene.advance("5m")
    found = metrics(scene)
    assert samples(found["rota_cost_dollars_total"]) == {("", "haiku"): 5.0}
    assert samples(found["rota_tokens_total"]) == {("", "haiku", "in"): 200, ("", "haiku", "out"): 14}
    assert samples(found["rota_cached_tokens_total"]) == {("", "haiku"): 80}
    assert samples(found["rota_agent_requests_total"]) == {("", "haiku"): 6}
    assert samples(found["rota_agent_runs_total"]) == {("", "haiku"): 2}
    assert samples(found["rota_direct_calls_total"]) == {(): 1}


async def test_jobs_beyond_the_limit_are_one_series_and_nothing_is_lost(scene: Scene) -> None:
    for name in ("a", "b", "c", "d"):
        scene.declare(command(name, schedule=cron("0 13 * * *")))
    await scene.advance("2h")
    for labelled in (0, 1, 3, 4):
        runs = samples(metrics(scene, labelled=labelled)["rota_runs_total"])
        assert sum(runs.values()) == 4
        assert len(runs) == labelled + (labelled < 4)
        assert runs.get(("other", "COMPLETED", ""), 0) == 4 - labelled


async def test_a_retired_job_keeps_its_series_so_that_none_falls(scene: Scene) -> None:
    scene.declare(command("a", schedule=cron("0 * * * *")), command("b", schedule=cron("0 * * * *")))
    await scene.advance("2h")
    before = counters(metrics(scene, labelled=1))
    scene.store.write(partial(remove_job, name="a", now=scene.clock.now()))
    await scene.advance("2h")
    after = counters(metrics(scene, labelled=1))
    assert all(after[key] >= value for key, value in before.items())
    assert after["rota_runs_total", "a", "COMPLETED", ""] == 2


async def test_models_beyond_the_limit_are_one_series(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.operations.status.metrics.MAX_LABELLED", 2)
    scene.declare(command("extract", overlap=ALLOW))
    for number in range(5):
        usage = Usage(tokens_in=10, model=f"model-{number}")
        scene.processes.scripts["extract"] = Script(ending=Outcome(Status.COMPLETED, usage=usage))
        scene.trigger("extract")
        await scene.advance("1m")
    found = samples(metrics(scene)["rota_tokens_total"])
    assert {model: value for (_, model, way), value in found.items() if way == "in"} == {
        "model-0": 10,
        "model-1": 10,
        "other": 30,
    }


async def test_counters_stay_over_midnight_merges_retention_and_a_restart(scene: Scene) -> None:
    """A process that has summed the past days tells the same as one that has just started."""
    totals = RunTotals()
    daily = command("daily", schedule=cron("0 */6 * * *"), retention=Retention(runs=timedelta(days=2)))
    scene.declare(daily)
    before: dict[tuple[str, ...], float] = {}
    for day in range(6):
        await scene.advance("1d")
        if day % 2:
            while scene.store.write(merge_ends):
                pass
        if day == 4:
            await scene.engine.prune_loop.turn()
            assert len(scene.history("daily")) < 12
        if day == 5:
            await scene.crash()
            await scene.start()
        found = counters(metrics(scene, totals))
        assert found == counters(metrics(scene))
        assert all(found[key] >= value for key, value in before.items())
        before = found
    assert before["rota_runs_total", "daily", "COMPLETED", ""] == 24


async def test_a_day_that_is_still_pending_is_not_taken_for_final(scene: Scene) -> None:
    totals = RunTotals()
    scene.declare(command("once"))
    scene.trigger("once")
    await scene.advance("1m")
    while scene.store.write(merge_ends):
        pass
    scene.trigger("once")
    await scene.advance("4d")  # pending all the time: nothing else ends
    assert scene.store.read(stats.pending)
    assert samples(metrics(scene, totals)["rota_runs_total"])["once", "COMPLETED", ""] == 2
    while scene.store.write(merge_ends):
        pass
    assert samples(metrics(scene, totals)["rota_runs_total"])["once", "COMPLETED", ""] == 2
    whole = scene.store.read(partial(stats.series, job_id=None, span=DAY, since=0, until=1 << 60))
    assert cumulative(sum_of(whole.values()), "d")[-1] == (float("inf"), 2)


async def test_a_clock_that_was_set_back_sums_anew(scene: Scene) -> None:
    totals = RunTotals()
    scene.declare(command("daily", schedule=cron("0 0 * * *")))
    await scene.advance("5d")
    while scene.store.write(merge_ends):
        pass
    metrics(scene, totals)
    early = scene.clock.now() - timedelta(days=3)
    found = collect_metrics(scene.store, scene.settings.state, totals, now=early)
    assert {one.name: one for one in found}["rota_runs_total"] == metrics(scene)["rota_runs_total"]
