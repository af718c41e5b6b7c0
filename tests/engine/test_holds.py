"""Providers that take no more work: their runs wait, others go on, and the hold ends by itself (section 8)."""

from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise

import pytest
from msgspec.structs import replace

from rota.declare.readers.agents import draws_of, own_pools
from rota.model.errors import ProviderNotHeld
from rota.model.records import Outcome
from rota.model.spec import AgentWork, Draw, JobSpec, Kind, Retry, Work
from rota.model.states import Held, Reason, Status
from rota.operations.capacity import held_providers, hold_json, release_provider
from rota.operations.explain import explain
from rota.operations.project.apply import apply
from rota.operations.queue import hold_words, look_in
from rota.operations.runs import show_run
from rota.operations.simulate.state import copy_state
from rota.operations.status.heartbeat import Heartbeat, Liveness
from rota.operations.status.status import look, system_json
from rota.operations.views import whole_run_json
from rota.settings import Settings
from rota.store.tables import queue
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.calling import call
from tests.engine.conftest import ALLOW, NO_RETRY, NOON, every
from tests.engine.test_apply import declared
from tests.engine.test_simulated_fires import simulated

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)
THREE = NOON + timedelta(hours=3)


def agent(name: str, *draws: Draw, provider: str = "anthropic", **changes) -> JobSpec:
    """Return a job of an agent of its own; up to ten of its runs go on at once."""
    work = AgentWork(agent=name, adapter="claude", provider=provider, prompt="look", max_concurrent=10)
    spec = JobSpec(name, Work(Kind.AGENT, agent=work), retry=NO_RETRY, overlap=ALLOW, pools=draws_of(work, draws))
    return replace(spec, **changes)


def put(scene: Scene, *specs: JobSpec, **capacities: int) -> None:
    """Apply these jobs as the whole file."""
    file = declared(scene, *specs)
    own = {pool: size for spec in specs if spec.work.agent for pool, size in own_pools(spec.work.agent).items()}
    pools = {"agents": 10, **own, **capacities}
    file.settings = Settings(scene.settings.folder, scene.settings.state, pools=pools)
    apply(scene.store, file, now=scene.clock.now())


def refuses(scene: Scene, name: str, *, provider: str = "anthropic", resets_at: datetime | None = None) -> None:
    """Let the runs of a job be refused, after a minute."""
    error = "usage limit reached"
    ending = Outcome(Status.FAILED, Reason.QUOTA, error=error, provider=provider, resets_at=resets_at)
    scene.processes.scripts[name] = Script(MINUTE, ending)


def fails(scene: Scene, name: str, *, provider: str = "anthropic") -> None:
    """Let the provider of a job fail, after a minute."""
    ending = Outcome(Status.FAILED, Reason.OUTAGE, error="API Error: 529 Overloaded", provider=provider)
    scene.processes.scripts[name] = Script(MINUTE, ending)


def works(scene: Scene, *names: str, provider: str = "anthropic", takes: timedelta = MINUTE) -> None:
    for name in names:
        scene.processes.scripts[name] = Script(takes, Outcome(Status.COMPLETED, provider=provider))


def until(scene: Scene, provider: str = "anthropic") -> datetime | None:
    hold = scene.store.read(partial(queue.hold_of, provider=provider))
    return hold.until if hold else None


def begun(scene: Scene, name: str) -> list[datetime]:
    return [run.started_at for run in scene.history(name) if run.started_at]


async def test_every_job_of_a_provider_waits_until_the_reset_and_then_starts(scene: Scene) -> None:
    """R-04: a pool whose room is 0 until then."""
    put(scene, agent("fix"), agent("review"))
    refuses(scene, "fix", resets_at=THREE)
    works(scene, "review")
    scene.trigger("fix")
    await scene.advance("2m")
    assert scene.told("fix") == [("FAILED", "quota")]
    scene.trigger("review")
    await scene.advance("2h")
    assert scene.told("review") == [("QUEUED", None)]
    await scene.advance("1h")
    assert begun(scene, "review") == [THREE]
    assert scene.told("review") == [("COMPLETED", None)]


async def test_a_run_that_is_running_goes_on(scene: Scene) -> None:
    put(scene, agent("fix"), agent("long"))
    refuses(scene, "fix", resets_at=THREE)
    works(scene, "long", takes=timedelta(minutes=30))
    scene.trigger("long")
    scene.trigger("fix")
    await scene.advance("1h")
    assert scene.told("long") == [("COMPLETED", None)]
    assert until(scene) == THREE  # it had begun before the refusal, and says nothing about it


async def test_other_providers_and_other_work_go_on(scene: Scene) -> None:
    put(scene, agent("fix"), agent("other", provider="openai"))
    refuses(scene, "fix", resets_at=THREE)
    works(scene, "other", provider="openai")
    for name in ("fix", "fix"):
        scene.trigger(name)
    await scene.advance("2m")
    scene.trigger("fix")
    scene.trigger("other")
    await scene.advance("2m")
    assert scene.told("other") == [("COMPLETED", None)]
    assert scene.told("fix")[2] == ("QUEUED", None)


async def test_a_held_run_keeps_no_other_pool_from_those_behind(scene: Scene) -> None:
    """R-03: what others give back would not help it."""
    put(scene, agent("fix", Draw("gpu", 3)), agent("small", Draw("gpu"), provider="openai"), gpu=3)
    refuses(scene, "fix", resets_at=THREE)
    works(scene, "small", provider="openai", takes=timedelta(minutes=20))
    scene.trigger("fix")
    await scene.advance("2m")
    scene.trigger("small")
    await scene.settle()
    scene.trigger("fix")
    scene.trigger("small")
    await scene.settle()
    assert [status for status, _ in scene.told("small")] == ["RUNNING", "RUNNING"]


async def test_a_reset_that_nobody_stated_is_a_back_off_that_doubles(scene: Scene) -> None:
    put(scene, agent("fix"))
    refuses(scene, "fix")
    for _ in range(4):
        scene.trigger("fix")
        await scene.advance("1m")
        await scene.advance("2h")
    starts = begun(scene, "fix")
    assert [later - earlier for earlier, later in pairwise(starts)] == [timedelta(minutes=121)] * 3
    assert until(scene) is None
    scene.trigger("fix")
    await scene.advance("1m")
    assert until(scene) == scene.clock.now() + timedelta(hours=4)


async def test_a_success_ends_the_count(scene: Scene) -> None:
    put(scene, agent("fix"))
    for script in (refuses, refuses, works, refuses):
        script(scene, "fix")
        scene.trigger("fix")
        await scene.advance("1m")
        left = until(scene)
        await scene.advance("1h")
    assert scene.told("fix") == [("FAILED", "quota")] * 2 + [("COMPLETED", None), ("FAILED", "quota")]
    assert left == begun(scene, "fix")[-1] + timedelta(minutes=16)


async def test_runs_refused_together_are_one_refusal(scene: Scene) -> None:
    put(scene, agent("fix"))
    refuses(scene, "fix")
    for _ in range(5):
        scene.trigger("fix")
    await scene.advance("1m")
    assert until(scene) == NOON + timedelta(minutes=16)


async def test_a_hold_outlives_the_scheduler(scene: Scene) -> None:
    put(scene, agent("fix"))
    refuses(scene, "fix", resets_at=THREE)
    scene.trigger("fix")
    await scene.advance("2m")
    await scene.crash()
    await scene.start()
    works(scene, "fix")
    scene.trigger("fix")
    await scene.advance("2h")
    assert scene.told("fix")[1] == ("QUEUED", None)
    await scene.advance("1h")
    assert begun(scene, "fix")[1] == THREE


async def test_a_hold_that_ended_while_nobody_looked_ends_at_the_start(scene: Scene) -> None:
    put(scene, agent("fix"))
    refuses(scene, "fix", resets_at=THREE)
    scene.trigger("fix")
    await scene.advance("2m")
    scene.trigger("fix")
    await scene.crash()
    scene.clock.advance("6h")
    works(scene, "fix")
    await scene.start()
    await scene.advance("2m")
    assert scene.told("fix")[1] == ("COMPLETED", None)


async def test_a_refusal_of_a_lost_scheduler_counts_from_when_it_was_said(scene: Scene) -> None:
    put(scene, agent("fix"))
    refuses(scene, "fix", resets_at=THREE)
    scene.trigger("fix")
    await scene.advance("10s")
    await scene.crash()
    scene.clock.advance("1m")
    scene.processes.end_due()
    scene.clock.advance("6h")
    await scene.start()
    await scene.settle()
    assert scene.told("fix") == [("FAILED", "quota")]
    assert until(scene) is None


async def test_a_retry_waits_for_the_provider(scene: Scene) -> None:
    put(scene, agent("fix", retry=Retry(max_attempts=2, backoff=MINUTE)))
    refuses(scene, "fix", resets_at=THREE)
    scene.trigger("fix")
    await scene.advance("2m")
    works(scene, "fix")
    await scene.advance("3h")
    assert begun(scene, "fix")[1] == THREE


async def test_an_outage_holds_the_provider_and_is_retried_after_growing_pauses(scene: Scene) -> None:
    """Agents have one attempt, and an outage uses up none."""
    put(scene, agent("fix"), agent("review"))
    fails(scene, "fix")
    works(scene, "review")
    scene.trigger("fix")
    await scene.advance("9m")
    assert scene.told("fix") == [("FAILED", "outage")] * 3 + [("QUEUED", None)]
    starts = begun(scene, "fix")
    assert [later - earlier for earlier, later in pairwise(starts)] == [MINUTE * 2, MINUTE * 3]
    scene.trigger("review")
    works(scene, "fix")
    await scene.advance("1h")
    assert begun(scene, "review") == begun(scene, "fix")[3:] == [starts[-1] + MINUTE * 5]
    assert scene.told("fix")[-1] == ("COMPLETED", None)
    assert until(scene) is None


async def test_a_failure_after_an_outage_is_the_first_attempt_that_counts(scene: Scene) -> None:
    put(scene, agent("fix", retry=Retry(max_attempts=2, backoff=timedelta(seconds=10))))
    fails(scene, "fix")
    scene.trigger("fix")
    await scene.advance("1m")
    broken = Outcome(Status.FAILED, Reason.AGENT_ERROR, error="no result", provider="anthropic")
    scene.processes.scripts["fix"] = Script(MINUTE, broken)
    await scene.advance("1h")
    assert scene.told("fix") == [("FAILED", "outage"), ("FAILED", "agent_error"), ("FAILED", "agent_error")]
    told = explain(scene.store, "fix:2", state=scene.settings.state, now=scene.clock.now())
    assert "attempt 2 of 3" in next(line.text for line in told.run_lines if line.label == "due")


async def test_a_chain_whose_provider_stays_out_ends(scene: Scene) -> None:
    put(scene, agent("fix"))
    fails(scene, "fix")
    scene.trigger("fix")
    await scene.advance("26h")
    assert scene.told("fix") == [("FAILED", "outage")] * 25
    told = explain(scene.store, "fix:25", state=scene.settings.state, now=scene.clock.now())
    assert "its provider was unavailable 25 times in a row" in next(
        line.text for line in told.run_lines if line.label == "then"
    )


async def test_outages_and_refusals_are_counted_apart(scene: Scene) -> None:
    put(scene, agent("fix", retry=NO_RETRY))
    fails(scene, "fix")
    scene.trigger("fix")
    await scene.advance("15m")
    refuses(scene, "fix")
    await scene.advance("9m")
    assert scene.told("fix")[-1] == ("FAILED", "quota")
    ended = scene.history("fix")[-1].finished_at
    assert ended is not None
    assert until(scene) == ended + timedelta(minutes=15)


def logged_out(scene: Scene, name: str) -> None:
    """Let the runs of a job fail because its agent is not logged in, after a minute."""
    ending = Outcome(Status.FAILED, Reason.AUTH, error="Not logged in", provider="anthropic")
    scene.processes.scripts[name] = Script(MINUTE, ending)
    scene.logins.missing.add("anthropic")


async def test_a_missing_login_holds_the_provider_until_a_check_finds_it(scene: Scene) -> None:
    put(scene, agent("fix"), agent("review"), agent("other", provider="openai"))
    logged_out(scene, "fix")
    works(scene, "review")
    works(scene, "other", provider="openai")
    scene.trigger("fix")
    await scene.advance("2m")
    assert scene.told("fix") == [("FAILED", "auth")]
    scene.trigger("review")
    scene.trigger("other")
    await scene.advance("33m")  # checks 5, 10 and 20 minutes after the one before
    assert scene.logins.checked == ["anthropic"] * 2
    assert scene.told("review") == [("QUEUED", None)]
    assert scene.told("other") == [("COMPLETED", None)]
    scene.logins.missing.clear()
    await scene.advance("1m")
    assert begun(scene, "review") == [NOON + MINUTE * 36]
    assert scene.told("review") == [("RUNNING", None)]


async def test_a_login_that_is_refused_again_is_checked_after_a_longer_pause(scene: Scene) -> None:
    """A probe sees a key and cannot see that it was revoked."""
    put(scene, agent("fix"))
    logged_out(scene, "fix")
    scene.logins.missing.clear()
    scene.trigger("fix")
    await scene.advance("2m")
    scene.trigger("fix")
    await scene.advance("5m")
    assert begun(scene, "fix") == [NOON, NOON + MINUTE * 6]
    assert until(scene) == NOON + MINUTE * 17
    works(scene, "fix")
    scene.trigger("fix")
    await scene.advance("11m")
    assert scene.told("fix")[-1] == ("COMPLETED", None)
    assert until(scene) is None


async def test_the_hold_of_a_missing_login_is_one_item_that_says_so(scene: Scene) -> None:
    put(scene, agent("fix"), agent("review"))
    logged_out(scene, "fix")
    scene.trigger("fix")
    await scene.advance("2m")
    scene.trigger("review")
    await scene.settle()
    beat = Heartbeat(Liveness.RUNNING, 1, {"concurrency": 16, "slots_taken": 0, "pid": 1})
    items = look(scene.store, beat, now=scene.clock.now()).attention
    assert [note.what for note in items if note.kind == "held"] == [
        "provider anthropic held until it is logged in, next check 12:06, 1 waiting: Not logged in"
    ]
    seen = scene.store.read(partial(look_in, beat=beat, limit=10, now=scene.clock.now()))
    words = hold_words(seen.ready[0], seen, zone="UTC", now=scene.clock.now())
    assert words == "provider anthropic held until it is logged in, next check 12:06"
    await scene.advance("1h")
    later = look(scene.store, beat, now=scene.clock.now()).attention
    assert [note.sign for note in later if note.kind == "held"] == [note.sign for note in items if note.kind == "held"]


async def test_a_missing_login_replaces_a_limit_and_stays_when_a_limit_is_stated(scene: Scene) -> None:
    put(scene, agent("fix"), agent("review"), agent("third"))
    refuses(scene, "fix", resets_at=THREE)
    logged_out(scene, "review")
    scene.processes.scripts["review"] = replace(scene.processes.scripts["review"], takes=MINUTE * 2)
    refuses(scene, "third", resets_at=THREE)
    scene.processes.scripts["third"] = replace(scene.processes.scripts["third"], takes=MINUTE * 3)
    for name in ("fix", "review", "third"):
        scene.trigger(name)
    await scene.advance("1m")
    assert until(scene) == THREE
    await scene.advance("3m")
    [hold] = held_providers(scene.store)
    assert hold.hold.login


async def test_a_check_of_a_login_survives_a_crash(scene: Scene) -> None:
    put(scene, agent("fix"))
    logged_out(scene, "fix")
    scene.trigger("fix")
    await scene.advance("2m")
    await scene.crash()
    scene.clock.advance("1h")
    await scene.start()
    await scene.settle()
    assert scene.logins.checked == ["anthropic"]
    assert until(scene) == scene.clock.now() + MINUTE * 10


async def test_a_provider_is_let_go_by_hand(scene: Scene) -> None:
    put(scene, agent("fix"))
    refuses(scene, "fix", resets_at=THREE)
    scene.trigger("fix")
    await scene.advance("2m")
    works(scene, "fix")
    scene.trigger("fix")
    await scene.settle()
    [held] = held_providers(scene.store)
    assert hold_json(held) == {
        "provider": "anthropic",
        "until": "2026-11-15T15:00:00Z",
        "stated": True,
        "problem": "quota",
        "why": "usage limit reached",
        "run": "fix:1",
        "since": "2026-11-15T12:01:00Z",
        "waiting": 1,
    }
    assert release_provider(scene.store, "anthropic", now=scene.clock.now()) == held
    await scene.advance("2m")
    assert scene.told("fix")[1] == ("COMPLETED", None)
    with pytest.raises(ProviderNotHeld, match="'anthropic' is not held"):
        release_provider(scene.store, "anthropic", now=scene.clock.now())


async def test_a_provider_is_let_go_by_the_name_of_its_agent(scene: Scene) -> None:
    put(scene, agent("fix"))
    refuses(scene, "fix")
    scene.trigger("fix")
    await scene.advance("2m")
    assert release_provider(scene.store, "fix", now=scene.clock.now()).hold.provider == "anthropic"
    with pytest.raises(ProviderNotHeld, match="no provider is held"):
        release_provider(scene.store, "fixx", now=scene.clock.now())


async def test_applying_a_file_leaves_the_hold(scene: Scene) -> None:
    put(scene, agent("fix"))
    refuses(scene, "fix", resets_at=THREE)
    scene.trigger("fix")
    await scene.advance("2m")
    put(scene, agent("fix"), agent("more"))
    scene.trigger("more")
    await scene.advance("10m")
    assert scene.told("more") == [("QUEUED", None)]


async def test_a_direct_call_is_refused_for_all_and_waits_as_well(scene: Scene) -> None:
    """R-13."""
    put(scene, agent("fix"))
    refuses(scene, "fix", resets_at=THREE)
    call(scene, "fix")
    await scene.advance("2m")
    assert until(scene) == THREE
    call(scene, "fix")
    scene.trigger("fix")
    await scene.advance("1h")
    assert len(scene.processes.begun) == 1
    assert not scene.history("fix")[0].started_at


async def test_a_back_off_moves_back_with_the_clock_and_a_stated_reset_does_not(scene: Scene) -> None:
    """R-26."""
    put(scene, agent("fix"), agent("other", provider="openai"))
    refuses(scene, "fix", resets_at=THREE)
    refuses(scene, "other", provider="openai")
    scene.trigger("fix")
    scene.trigger("other")
    await scene.advance("1m")
    scene.clock.step(-timedelta(hours=1))
    await scene.settle()
    assert until(scene) == THREE
    assert until(scene, "openai") == NOON + timedelta(minutes=16) - timedelta(hours=1)


async def test_faces_tell_the_provider_and_the_end(scene: Scene) -> None:
    """R-02: derived when somebody looks, never stored."""
    put(scene, agent("fix", schedule=every("1h")))
    refuses(scene, "fix", resets_at=THREE)
    await scene.advance("10m")
    scene.trigger("fix")
    await scene.settle()
    now = scene.clock.now()
    beat = Heartbeat(Liveness.RUNNING, 1, {"concurrency": 16, "slots_taken": 0, "pid": 1})
    seen = scene.store.read(partial(look_in, beat=beat, limit=10, now=now))
    assert [(one.run.handle, one.hold.held, one.hold.pool) for one in seen.ready] == [
        ("fix:2", Held.PROVIDER_HOLD, "provider:anthropic")
    ]
    view = look(scene.store, beat, now=now)
    assert [note.what for note in view.attention] == [
        "FAILED quota, provider anthropic held until 15:00: usage limit reached",
        "provider anthropic held until 15:00, 1 waiting: usage limit reached",
    ]
    told = system_json(view, now=now)
    assert [one["held"] for one in told["queued"]] == ["provider_hold"]
    assert [one["provider"] for one in told["holds"]] == ["anthropic"]
    assert [one["job"] for one in told["next"] if one["at"] == "2026-11-15T15:00:00Z"] == ["fix"]
    assert [pool["name"] for pool in told["pools"]] == ["agent:fix", "agents"]
    whole = show_run(scene.store, "fix:2")
    assert whole_run_json(whole, None)["held"] == "provider_hold"
    assert whole_run_json(show_run(scene.store, "fix:1"), None)["held"] is None


async def test_a_retry_that_waits_for_its_provider_is_not_said_to_start_as_soon_as_possible(scene: Scene) -> None:
    put(scene, agent("a", retry=Retry(max_attempts=2, backoff=timedelta(seconds=1))))
    refuses(scene, "a")
    scene.trigger("a")
    await scene.advance("2m")
    view = look(scene.store, Heartbeat(Liveness.RUNNING), now=scene.clock.now())
    failing = next(note.what for note in view.attention if note.name == "a")
    assert failing.startswith("FAILED quota, retrying, attempt 2 of 2, provider anthropic held until ")


async def test_explain_tells_what_is_held_and_why(scene: Scene) -> None:
    put(scene, agent("fix"))
    refuses(scene, "fix", resets_at=THREE)
    scene.trigger("fix")
    await scene.advance("2m")
    scene.trigger("fix")
    await scene.settle()
    first = explain(scene.store, "fix:1", state=scene.settings.state, now=scene.clock.now())
    then = next(line.text for line in first.run_lines if line.label == "then")
    assert then.startswith("provider anthropic held until 15:00; ")


async def test_a_simulation_knows_of_the_hold(scene: Scene) -> None:
    put(scene, agent("fix", schedule=every("1h")), agent("other", provider="openai", schedule=every("1h")))
    refuses(scene, "fix", resets_at=THREE)
    works(scene, "other", provider="openai")
    await scene.advance("2m")
    state, since = scene.store.read(partial(copy_state, now=scene.clock.now())), scene.clock.now()
    rows = simulated(state, days=0.25, takes={"fix": "1m", "other": "1m"}, since=since)
    assert next(row for row in rows if row[0] == "fix")[7] == THREE
    assert next(row for row in rows if row[0] == "other")[7] == NOON + timedelta(minutes=61)


async def test_the_pool_of_a_provider_bounds_nothing(scene: Scene) -> None:
    put(scene, agent("fix"))
    works(scene, "fix")
    for _ in range(9):
        scene.trigger("fix")
    await scene.settle()
    used = {pool.name: pool.used for pool in scene.store.read(queue.pools)}
    assert used == {"agent:fix": 9, "agents": 9, "provider:anthropic": 9}
    await scene.advance("2m")
    assert {pool.used for pool in scene.store.read(queue.pools)} == {0}
