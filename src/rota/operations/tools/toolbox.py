"""The tools for agents: typed functions with JSON Schemas, and the actions behind them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rota.agents.registry import adapter
from rota.declare.entries import notes_on
from rota.engine.membership.control import wake
from rota.model.clock import Clock
from rota.model.errors import OverlapRefused, RotaError, ToolArguments, UnknownJob, UnknownTool
from rota.model.ids import is_id
from rota.model.notifications import Event
from rota.model.proposals import AgentPolicy, Author
from rota.model.records import Job
from rota.model.spec import JobSpec
from rota.operations.admin.audit import AuditedAct, AuditedStore
from rota.operations.admin.secrets import notes_on_targets
from rota.operations.jobs import find_job, job_view
from rota.operations.proposal_actions import put_made, refuse_others, remove, switch_off
from rota.operations.run_actions import trigger
from rota.operations.runs import show_run
from rota.operations.status.status import SWITCHED_OFF, heartbeat, switched_off
from rota.operations.tools import reads
from rota.operations.tools.arguments import (
    Arguments,
    NamedJob,
    ScheduleJob,
    TriggerJob,
    UnscheduleJob,
    keys_of,
    read,
    refuse_hiding,
)
from rota.operations.tools.catalog import TOOLS, Answer, Tool, tools_of
from rota.operations.tools.context import Declare, ToolContext
from rota.operations.tools.reads import (
    FIRES,
    LONG,
    NOTICE,
    WAITS,
    declare,
    fires_answer,
    hint_of,
    job_answer,
    run_answer,
)
from rota.rules.agents import held_back
from rota.rules.schedule.preview import next_fires
from rota.store.driver import Database, Store
from rota.store.migrate import require_schema
from rota.store.tables import jobs

GIVEN = ("timezone", "timeout_seconds", "provider", "model", "labels")
"""Keys that are passed on as they are, where they were given."""
AFTER_EACH_RUN = [Event.COMPLETED.value, Event.FAILED.value, Event.CANCELLED.value]
"""What a chat is told of that was named with `notify_telegram_chat_id` (document 004)."""


def schedule(desk: ToolContext, wanted: ScheduleJob) -> Answer:
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


def _waiting(job: Job, desk: ToolContext) -> Answer:
    """Return that a job waits for approval, and when it would start if it got it now."""
    schedule = job.spec.schedule
    fires = next_fires(schedule, desk.now(), FIRES, created_at=desk.now())
    return {"waits_for_approval": WAITS, "next_fires_if_approved": fires_answer(fires, schedule.timezone)}


def _keys(desk: ToolContext, wanted: ScheduleJob) -> dict[str, Any]:
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


def _declared(desk: ToolContext, wanted: ScheduleJob) -> JobSpec:
    """Return the definition of a wish, held to what its maker may do, and without a step that only the owner adds."""
    keys = _keys(desk, wanted)
    spec = declare(desk, wanted.name, keys=keys)
    work = spec.work.agent
    if work is None:
        return spec
    policy = desk.policy or desk.store.read(jobs.policy)
    can = adapter(work.adapter, work.options).capabilities
    further = held_back(spec, desk.maker.limits, ceiling=policy.access, can=can)
    if further:
        spec = declare(desk, wanted.name, keys={**keys, **further})
    assert spec.work.agent is not None
    return replace(spec, work=replace(spec.work, agent=replace(spec.work.agent, after=None)))


def _job(desk: ToolContext, job: Job) -> Answer:
    view = desk.store.read(partial(job_view, job=job))
    return job_answer(view, desk.maker, task_limit=LONG)


def unschedule(desk: ToolContext, wanted: UnscheduleJob) -> Answer:
    """Answer `unschedule_job`."""
    job = desk.store.write(partial(_unschedule, desk=desk, wanted=wanted))
    wake(desk.state)
    return {"result": "deleted" if wanted.delete else "disabled", "job": _job(desk, job), "notice": NOTICE}


def _unschedule(db: Database, *, desk: ToolContext, wanted: UnscheduleJob) -> Job:
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


def start(desk: ToolContext, wanted: TriggerJob) -> Answer:
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


DOES: Mapping[str, Callable[[ToolContext, Any], Answer]] = {
    "schedule_job": schedule,
    "list_jobs": reads.list_all,
    "search_jobs": reads.search,
    "unschedule_job": unschedule,
    "preview_schedule": reads.preview,
    "trigger_job": start,
    "explain_job": reads.why,
    "get_run": reads.get_run,
}


class Toolbox:
    """The tools of one maker. Safe from any thread; each call is one transaction."""

    def __init__(
        self,
        store: Store,
        state: Path,
        clock: Clock,
        *,
        maker: Author,
        declare: Declare,
        policy: AgentPolicy | None = None,
    ) -> None:
        # The tools are a door for agents: whoever calls them is bound by `agent_policy`, a person's own agent too.
        self._desk = ToolContext(store, state, clock, replace(maker, bound=True), declare, policy)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools, each bound to this maker."""
        return tools_of(self.call)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool; raise RotaError where it is refused, with a text that a model can act on."""
        described = TOOLS.get(name)
        if described is None:
            raise UnknownTool(name, list(TOOLS))
        wanted = read(described.takes, arguments)
        try:
            self._desk.store.read(require_schema)  # an agent keeps its tools for days: rota may be upgraded meanwhile
            answer = DOES[name](self._noting(name, wanted) if described.changes else self._desk, wanted)
            return answer | self._warning()
        except RotaError as error:
            error.hint = hint_of(error)
            raise

    def _warning(self) -> Answer:
        """Return what makes the next starts of an answer untrue: a scheduler that is switched off."""
        beat = heartbeat(self._desk.state)
        off = self._desk.store.read(partial(switched_off, beat=beat))
        return {"warning": f"{SWITCHED_OFF}, until a person sets it to true"} if off else {}

    def _noting(self, name: str, wanted: Arguments) -> ToolContext:
        """Return the desk with a store that notes who changes what."""
        desk = self._desk
        target = getattr(wanted, "name", "") or getattr(wanted, "job_id", "")
        deed = AuditedAct(desk.maker.title, "tools", name, target)
        return replace(desk, store=AuditedStore(desk.store, deed, desk.clock))
