"""What agents make, in the engine: instants, approval, expiry, counts (R-29, section 8)."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from rota.declare.plan import ChangeKind, JobChange
from rota.model.agents import Access
from rota.model.errors import (
    ApprovalVoid,
    DuplicateJob,
    JobDisabled,
    JobProvisional,
    NotProvisional,
    NotYours,
    PolicyRefused,
)
from rota.model.proposals import AgentPolicy, Approval, Author, Limits
from rota.model.questions import Door
from rota.model.records import Job
from rota.model.spec import AgentWork, FirstRun, JobSpec, Kind, Retry, Schedule, Work
from rota.operations.agents.proposals import put_made, remove_all, switch_off
from rota.operations.jobs import find_job, made_jobs, show_job
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.project.apply import carry_out
from rota.operations.questions.answers import Answerer, approve
from rota.operations.run_actions import trigger
from rota.operations.runs import show_run
from rota.operations.status.summary import summarise, summary_json
from rota.store.tables import jobs
from rota.testing.scene import Scene
from tests.engine.conftest import audit, command, cron, every

MINE = Author("user-42")
THEIRS = Author("agent:reviewer", "id", "nightly:1", limits=Limits("reviewer", Access.READ))
WAITS = AgentPolicy(approval=Approval.REQUIRED)


def asking(name: str, schedule: Schedule | None = None, *, task: str = "", **changes: Any) -> JobSpec:
    agent = AgentWork("reviewer", "claude", "anthropic", prompt=task or f"look at {name}")
    spec = JobSpec(name, Work(Kind.AGENT, agent=agent), schedule or every("10m"), retry=Retry(max_attempts=1))
    return replace(spec, **changes)


def put(scene: Scene, spec: JobSpec, *, maker: Author = MINE, policy: AgentPolicy | None = None) -> Job:
    now = scene.clock.now()
    return scene.store.write(partial(put_made, wanted=spec, maker=maker, policy=policy, now=now)).job


def done(scene: Scene, spec: JobSpec) -> str:
    return scene.store.write(partial(put_made, wanted=spec, maker=MINE, now=scene.clock.now())).done


def allow(scene: Scene, name: str, digest: str | None = None) -> Job:
    found = scene.store.read(partial(find_job, name=name))
    shown = jobs.digest_of(found.spec) if digest is None else digest
    by = Answerer("user:anna", Door.CLI)
    return scene.store.write(partial(approve, name=name, digest=shown, by=by, now=scene.clock.now()))


def rule(scene: Scene, spec: JobSpec, **changes: Any) -> str:
    with pytest.raises(PolicyRefused) as caught:
        put(scene, spec, **changes)
    return caught.value.rule


async def test_a_job_that_was_made_fires_and_knows_its_maker(scene: Scene) -> None:
    made = put(scene, asking("watch", cron("*/30 * * * *")), maker=THEIRS).made
    assert made is not None
    assert (made.by, made.run_id, made.depth, made.at) == ("agent:reviewer", "id", 1, scene.clock.now())
    await scene.advance("30m")
    assert [run.status for run in scene.history("watch")] == ["COMPLETED"]


async def test_the_same_again_changes_nothing_and_another_task_changes_the_job(scene: Scene) -> None:
    first = put(scene, asking("watch"))
    assert done(scene, asking("watch")) == "unchanged"
    assert done(scene, asking("watch", task="look twice")) == "changed"
    again = scene.store.read(partial(find_job, name="watch"))
    assert (again.id, again.version) == (first.id, first.version + 1)
    assert again.made == first.made


async def test_jobs_of_others_are_not_changed(scene: Scene) -> None:
    scene.declare(command("backup", schedule=cron("0 2 * * *")))
    put(scene, asking("watch"), maker=THEIRS)
    for name in ("backup", "watch", "WATCH", "Backup"):
        with pytest.raises(NotYours):
            put(scene, asking(name, task="mine now"))
    assert scene.store.read(partial(find_job, name="backup")).spec.work.command == ("true",)


async def test_a_double_under_another_name_is_pointed_out(scene: Scene) -> None:
    put(scene, asking("watch", task="Look  at\nCI"))
    with pytest.raises(DuplicateJob) as caught:
        put(scene, asking("watch-2", task="Look at CI"))
    assert caught.value.other == "watch"
    put(scene, asking("watch-3", every("20m"), task="Look at CI"))


async def test_a_task_that_differs_in_case_alone_is_a_double(scene: Scene) -> None:
    put(scene, asking("watch", task="Look at CI"))
    with pytest.raises(DuplicateJob):
        put(scene, asking("watch-2", task="look AT ci"))


async def test_another_author_target_or_run_once_is_another_job_and_a_disabled_one_does_not_count(scene: Scene) -> None:
    """The answer to a double names a job that its caller may use, so jobs of others are none."""
    spec = asking("watch", task="Look at CI")
    assert spec.work.agent is not None
    put(scene, spec)
    put(scene, replace(spec, name="theirs"), maker=THEIRS)
    put(scene, replace(spec, name="once", schedule=replace(spec.schedule, run_once=True)))
    put(scene, replace(spec, name="chat", notify=("bot",)))
    other = replace(spec.work, agent=replace(spec.work.agent, model="opus"))
    put(scene, replace(spec, name="model", work=other))
    put(scene, replace(spec, name="off", enabled=False))
    switch = scene.store.read(partial(find_job, name="watch"))
    scene.store.write(partial(switch_off, job=switch, now=scene.clock.now()))
    put(scene, replace(spec, name="again"))


async def test_enabling_a_double_is_refused(scene: Scene) -> None:
    put(scene, asking("watch", task="Look at CI"))
    put(scene, asking("off", task="Look at CI", enabled=False))
    with pytest.raises(DuplicateJob):
        put(scene, asking("off", task="Look at CI"))


async def test_twenty_jobs_of_a_maker_are_active_and_those_of_others_do_not_count(scene: Scene) -> None:
    policy = AgentPolicy(max_active=2)
    for name in ("one", "two"):
        put(scene, asking(name), policy=policy)
    assert rule(scene, asking("three"), policy=policy) == "too_many_jobs"
    put(scene, asking("three"), maker=THEIRS, policy=policy)
    put(scene, asking("one", task="changed"), policy=policy)
    put(scene, asking("off", enabled=False), policy=policy)
    job = scene.store.read(partial(find_job, name="two"))
    scene.store.write(partial(switch_off, job=job, now=scene.clock.now()))
    put(scene, asking("four"), policy=policy)


async def test_creations_are_counted_for_an_hour_also_of_what_is_gone(scene: Scene) -> None:
    policy = AgentPolicy(creations_per_hour=2)
    for name in ("one", "two"):
        put(scene, asking(name), policy=policy)
        scene.store.write(partial(remove_all, names=[name], now=scene.clock.now()))
    assert rule(scene, asking("one"), policy=policy) == "too_many_creations"
    await scene.advance("1h")
    assert rule(scene, asking("one"), policy=policy) == "too_many_creations"
    await scene.advance("1s")
    assert put(scene, asking("one"), policy=policy).retired_at is None


async def test_a_job_ends_by_itself_and_is_retired(scene: Scene) -> None:
    put(scene, asking("watch", every("6h")), policy=AgentPolicy(expires_after=timedelta(days=1)))
    await scene.advance("20h")
    fired = len(scene.history("watch"))
    assert fired == 4
    await scene.advance("6h")
    await scene.engine.prune_loop.turn()
    found = scene.store.read(partial(find_job, name="watch"))
    assert found.retired_at is not None
    assert len(scene.history("watch")) == fired


async def test_a_change_does_not_prolong_a_job_and_making_it_anew_does(scene: Scene) -> None:
    first = put(scene, asking("watch"))
    await scene.advance("1d")
    assert put(scene, asking("watch", task="more")).made == first.made
    scene.store.write(partial(remove_all, names=["watch"], now=scene.clock.now()))
    again = put(scene, asking("watch", task="more")).made
    assert first.made is not None
    assert again is not None
    assert first.made.expires_at is not None
    assert again.expires_at == first.made.expires_at + timedelta(days=1)


async def test_one_that_ran_once_is_made_anew_by_the_same_words(scene: Scene) -> None:
    once = asking("later", replace(every("10m"), run_once=True, first_run=FirstRun.AFTER_INTERVAL))
    put(scene, once)
    await scene.advance("10m")
    assert scene.store.read(partial(find_job, name="later")).used_up_at is not None
    assert done(scene, once) == "created"
    await scene.advance("10m")
    assert len(scene.history("later")) == 2


async def test_one_that_ran_once_is_made_anew_also_a_moment_later(scene: Scene) -> None:
    once = asking("later", replace(every("1s"), run_once=True))
    put(scene, once)
    await scene.advance("1s")
    assert done(scene, once) == "created"
    await scene.advance("2s")
    assert len(scene.history("later")) == 2


async def test_a_job_is_paused_and_resumed_while_it_waits_for_approval(scene: Scene) -> None:
    put(scene, asking("watch", cron("*/10 * * * *")), policy=WAITS)
    pause(scene.store, JobSelection(("watch",)), until=None, reason="", now=scene.clock.now())
    await scene.advance("1h")
    allow(scene, "watch")
    await scene.advance("1h")
    assert scene.history("watch") == []
    resume(scene.store, JobSelection(("watch",)), catch_up=False, now=scene.clock.now())
    await scene.advance("10m")
    assert [run.reason or run.status for run in scene.history("watch")] == ["paused", "COMPLETED"]
    assert scene.history("watch")[0].count == 6


@pytest.mark.parametrize("schedule", [cron("*/10 * * * *"), every("10m")], ids=["calendar", "interval"])
async def test_a_job_that_is_proposed_while_everything_is_paused_is_clean_and_begins_when_both_allow_it(
    scene: Scene, schedule: Schedule
) -> None:
    pause(scene.store, JobSelection(everything=True), until=None, reason="", now=scene.clock.now())
    put(scene, asking("watch", schedule), policy=WAITS)
    assert audit(scene).violations == ()
    await scene.advance("1h")
    assert audit(scene).violations == ()
    allow(scene, "watch")
    await scene.advance("1h")
    assert scene.history("watch") == []
    resume(scene.store, JobSelection(everything=True), catch_up=False, now=scene.clock.now())
    await scene.advance("10m")
    assert [run.reason or run.status for run in scene.history("watch")] == ["paused", "COMPLETED"]


async def test_r_29_a_provisional_job_has_no_instants_and_refuses_to_start(scene: Scene) -> None:
    """R-29: no due instants and no runs until it is approved."""
    job = put(scene, asking("watch", cron("*/10 * * * *")), policy=WAITS)
    assert (job.provisional_at, job.next_at, job.schedules) == (scene.clock.now(), None, False)
    assert show_job(scene.store, "watch").state == "provisional"
    await scene.advance("1d")
    assert scene.history("watch") == []
    with pytest.raises(JobProvisional):
        trigger(scene.store, "watch", now=scene.clock.now())


async def test_an_approved_job_begins_with_its_next_instant_and_makes_nothing_up(scene: Scene) -> None:
    put(scene, asking("watch", cron("0 * * * *")), policy=WAITS)
    await scene.advance("90m")
    job = allow(scene, "watch")
    assert job.provisional_at is None
    assert job.approved == jobs.digest_of(job.spec)
    assert scene.history("watch") == []
    await scene.advance("30m")
    assert len(scene.history("watch")) == 1


async def test_an_interval_that_is_approved_begins_with_its_pause(scene: Scene) -> None:
    put(scene, asking("watch", every("10m")), policy=WAITS)
    await scene.advance("1h")
    allow(scene, "watch")
    await scene.advance("9m")
    assert scene.history("watch") == []
    await scene.advance("1m")
    assert len(scene.history("watch")) == 1


async def test_an_approval_is_for_exactly_what_was_shown(scene: Scene) -> None:
    shown = jobs.digest_of(put(scene, asking("watch"), policy=WAITS).spec)
    put(scene, asking("watch", task="and delete everything"), policy=WAITS)
    with pytest.raises(ApprovalVoid):
        allow(scene, "watch", shown)
    assert scene.store.read(partial(find_job, name="watch")).provisional_at is not None


async def test_any_edit_voids_an_approval_and_the_same_again_does_not(scene: Scene) -> None:
    put(scene, asking("watch", cron("0 * * * *")), policy=WAITS)
    allow(scene, "watch")
    assert put(scene, asking("watch", cron("0 * * * *")), policy=WAITS).provisional_at is None
    await scene.advance("1h")
    job = put(scene, asking("watch", cron("30 * * * *")), policy=WAITS)
    assert (job.provisional_at, job.next_at) == (scene.clock.now(), None)
    await scene.advance("1h")
    assert len(scene.history("watch")) == 1


async def test_switching_an_approved_job_off_and_on_keeps_its_approval(scene: Scene) -> None:
    put(scene, asking("watch"), policy=WAITS)
    job = allow(scene, "watch")
    off = scene.store.write(partial(switch_off, job=job, now=scene.clock.now()))
    assert (off.enabled, off.schedules) == (False, False)
    assert put(scene, asking("watch"), policy=WAITS).schedules


async def test_only_what_waits_can_be_approved(scene: Scene) -> None:
    put(scene, asking("watch"))
    with pytest.raises(NotProvisional):
        allow(scene, "watch")


async def test_a_file_that_takes_a_job_over_makes_it_its_own(scene: Scene) -> None:
    job = put(scene, asking("watch"), policy=WAITS)
    wanted = asking("watch", cron("0 * * * *"))
    change = JobChange(ChangeKind.ADOPT, "watch", wanted, job)
    now = scene.clock.now()
    scene.store.write(partial(carry_out, change=change, source="file:rota.yaml", tzdata="now", now=now))
    taken = scene.store.read(partial(find_job, name="watch"))
    assert (taken.made, taken.provisional_at, taken.source) == (None, None, "file:rota.yaml")
    with pytest.raises(NotYours):
        put(scene, asking("watch"))


async def test_all_of_a_maker_are_found_and_removed(scene: Scene) -> None:
    scene.declare(command("backup", schedule=cron("0 2 * * *")))
    put(scene, asking("one", cron("*/10 * * * *")))
    put(scene, asking("two"), maker=THEIRS)
    assert [job.name for job in scene.store.read(partial(made_jobs, maker="agent"))] == ["one", "two"]
    assert [job.name for job in scene.store.read(partial(made_jobs, maker="user-42"))] == ["one"]
    scene.store.write(partial(remove_all, names=["one", "two"], now=scene.clock.now()))
    assert scene.store.read(partial(made_jobs, maker="agent")) == []
    await scene.advance("1h")
    assert scene.history("one") == []


async def test_an_expired_job_refuses_to_start_before_it_is_retired(scene: Scene) -> None:
    put(scene, asking("watch", cron("0 0 * * *")), policy=AgentPolicy(expires_after=timedelta(days=1)))
    scene.clock.advance("1d")
    with pytest.raises(JobDisabled):
        trigger(scene.store, "watch", now=scene.clock.now())


async def test_starts_by_agents_are_recorded_and_bounded(scene: Scene) -> None:
    scene.store.write(partial(jobs.set_policy, wanted=AgentPolicy(creations_per_hour=2)))
    for name in ("a", "b", "c"):
        scene.declare(command(name))
    born = trigger(scene.store, "a", now=scene.clock.now(), by=THEIRS)
    decisions = show_run(scene.store, born.id).run.decisions
    assert decisions["by"] == {"maker": "agent:reviewer", "run": "nightly:1"}
    trigger(scene.store, "b", now=scene.clock.now(), by=THEIRS)
    with pytest.raises(PolicyRefused) as caught:
        trigger(scene.store, "c", now=scene.clock.now(), by=THEIRS)
    assert caught.value.rule == "too_many_starts"
    trigger(scene.store, "c", now=scene.clock.now(), by=Author("run:other", "id", "other:1"))
    await scene.advance("1s")


async def test_the_summary_tells_what_waits_for_approval(scene: Scene) -> None:
    job = put(scene, asking("watch"), policy=WAITS)
    told = summary_json(summarise(scene.store, scene.settings.state, now=scene.clock.now()))
    assert told["queue_counts"]["provisional"] == 1
    (task,) = told["provisional_tasks"]
    assert (task["id"], task["job"], task["made_by"]) == (job.id, "watch", "user-42")
    assert len(task["prompt_digest"]) == 64
    assert task["waiting_since"]
