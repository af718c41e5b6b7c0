"""The tools that change something: schedule, unschedule, start."""

from dataclasses import replace
from functools import partial
from typing import Any

from rota.agents.registry import adapter
from rota.declare.notes import notes_on
from rota.engine.wake import wake
from rota.model.errors import OverlapRefused, ToolArguments, UnknownJob
from rota.model.ids import is_id
from rota.model.notify import Event
from rota.model.records import Job
from rota.model.spec import JobSpec
from rota.operations.jobs import find_job, job_view
from rota.operations.making import put_made, refuse_others, remove, switch_off
from rota.operations.runs import show_run
from rota.operations.secrets import notes_on_targets
from rota.operations.starting import trigger
from rota.operations.tools.answers import FIRES, LONG, NOTICE, fires_answer, job_answer, run_answer
from rota.operations.tools.arguments import NamedJob, ScheduleJob, TriggerJob, UnscheduleJob, refuse_hiding
from rota.operations.tools.catalog import Answer
from rota.operations.tools.desk import Desk
from rota.operations.tools.times import keys_of
from rota.operations.tools.words import WAITS, declare
from rota.rules.agent_policy import held_back
from rota.rules.coming import next_fires
from rota.store import jobs, making
from rota.store.driver import Database

GIVEN = ("timezone", "timeout_seconds", "provider", "model", "labels")
"""Keys that are passed on as they are, where they were given."""
AFTER_EACH_RUN = [Event.COMPLETED.value, Event.FAILED.value, Event.CANCELLED.value]
"""What a chat is told of that was named with `notify_telegram_chat_id` (document 004)."""


def schedule(desk: Desk, wanted: ScheduleJob) -> Answer:
    """Answer `schedule_job`."""
    for key in ("task", "provider", "model"):
        refuse_hiding(key, getattr(wanted, key))
    if not wanted.task.strip():
        raise ToolArguments("task: is empty", hint="say what the agent is to do, complete")
    operation = partial(put_made, wanted=_declared(desk, wanted), maker=desk.maker, policy=desk.policy, now=desk.now())
    put = desk.store.write(operation)
    wake(desk.state)
    spec = put.job.spec
    notes = (*notes_on([spec], now=desk.now()), *notes_on_targets([spec], {}, desk.state, desk.environ))
    answer = {
        "result": put.done,
        "job": _job(desk, put.job),
        "notice": NOTICE,
        **({"notes": list(notes)} if notes else {}),
    }
    return answer | (_waiting(put.job, desk) if put.job.provisional_at is not None else {})


def _waiting(job: Job, desk: Desk) -> Answer:
    """Return that a job waits for approval, and when it would start if it got it now."""
    schedule = job.spec.schedule
    fires = next_fires(schedule, desk.now(), FIRES, created_at=desk.now())
    return {"waits_for_approval": WAITS, "next_fires_if_approved": fires_answer(fires, schedule.timezone)}


def _keys(desk: Desk, wanted: ScheduleJob) -> dict[str, Any]:
    """Return the wish as the keys of a job in the file; the agent is that of the run that makes it."""
    keys: dict[str, Any] = {
        **keys_of(wanted),
        "task": wanted.task.replace("\r\n", "\n"),
        "enabled": wanted.enabled,
        "overlap": wanted.overlap_policy,
    }
    keys |= {key: value for key in GIVEN if (value := getattr(wanted, key))}
    if wanted.notify_telegram_chat_id:
        keys["notify"] = {"telegram": wanted.notify_telegram_chat_id, "on": AFTER_EACH_RUN, "remind": "always"}
    if wanted.run_once and "at" not in keys:
        keys["run_once"] = True
    limits = desk.maker.limits
    if limits is None:
        return keys
    keys["cwd"] = limits.cwd
    return keys if wanted.provider else {**keys, "agent": limits.agent}


def _declared(desk: Desk, wanted: ScheduleJob) -> JobSpec:
    """Return the definition of a wish, held to what its maker may do, and without a step that only the owner adds."""
    keys = _keys(desk, wanted)
    spec = declare(desk, wanted.name, keys=keys)
    work = spec.work.agent
    if work is None:
        return spec
    policy = desk.policy or desk.store.read(making.policy)
    can = adapter(work.adapter, work.options).capabilities
    further = held_back(spec, desk.maker.limits, ceiling=policy.access, can=can)
    if further:
        spec = declare(desk, wanted.name, keys={**keys, **further})
    assert spec.work.agent is not None
    return replace(spec, work=replace(spec.work, agent=replace(spec.work.agent, after=None)))


def _job(desk: Desk, job: Job) -> Answer:
    view = desk.store.read(partial(job_view, job=job))
    return job_answer(view, desk.maker, task_limit=LONG)


def unschedule(desk: Desk, wanted: UnscheduleJob) -> Answer:
    """Answer `unschedule_job`."""
    job = desk.store.write(partial(_unschedule, desk=desk, wanted=wanted))
    wake(desk.state)
    return {"result": "deleted" if wanted.delete else "disabled", "job": _job(desk, job), "notice": NOTICE}


def _unschedule(db: Database, *, desk: Desk, wanted: UnscheduleJob) -> Job:
    job = named(db, wanted)
    refuse_others(job, desk.maker)
    if wanted.delete:
        if job.retired_at is None:
            remove(db, job, now=desk.now())
    elif job.enabled and job.retired_at is None:
        switch_off(db, job, now=desk.now())
    return jobs.job_by_id(db, job.id)


def named(db: Database, wanted: NamedJob) -> Job:
    """Return the job that a tool means, by its identifier or its exact name."""
    if bool(wanted.job_id) == bool(wanted.name):
        raise ToolArguments("the job is not clear", hint="give exactly one of `job_id` and `name`")
    if wanted.name:
        return find_job(db, wanted.name)
    known = {job.id: job for job in jobs.all_jobs(db)} if is_id(wanted.job_id) else {}
    found = known.get(wanted.job_id.lower())
    if found is None:
        raise UnknownJob(wanted.job_id)
    return found


def start(desk: Desk, wanted: TriggerJob) -> Answer:
    """Answer `trigger_job`."""
    job = desk.store.read(partial(named, wanted=wanted))
    try:
        born = trigger(desk.store, job.name, now=desk.now(), params=wanted.params or None, by=desk.maker)
    except OverlapRefused as error:
        error.hint = f"wait until {error.blocking} has ended; get_run tells"
        raise
    wake(desk.state)
    return {
        "result": "queued",
        **run_answer(show_run(desk.store, born.id).run),
        "job": _job(desk, job),
        "next": "look at it with get_run",
        "notice": NOTICE,
    }
