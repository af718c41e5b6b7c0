"""The tools for agents: typed functions with JSON Schemas, and the actions behind them."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rota.agents.adapter import NOT_PERMITTED
from rota.agents.registry import adapter
from rota.declare.entries import notes_on
from rota.engine.activity import look_again
from rota.engine.membership.control import wake
from rota.model.clock import Clock, iso
from rota.model.errors import (
    InvalidValue,
    OverlapRefused,
    RotaError,
    ToolArguments,
    TooManyQuestions,
    UnknownJob,
    UnknownTool,
)
from rota.model.ids import is_id
from rota.model.notifications import Event
from rota.model.proposals import AgentPolicy, Author
from rota.model.records import Job, NextLook
from rota.model.spec import AgentWork, JobSpec, SessionMode
from rota.operations.admin.audit import AuditedAct, AuditedStore
from rota.operations.admin.secrets import notes_on_targets
from rota.operations.agents.proposals import lives, put_made, refuse_others, remove, switch_off
from rota.operations.jobs import find_job, job_view
from rota.operations.questions.asking import Asking, ask_person
from rota.operations.questions.permissions import CallDecision, decide
from rota.operations.run_actions import trigger
from rota.operations.runs import show_run
from rota.operations.status.heartbeat import SWITCHED_OFF, heartbeat, switched_off
from rota.operations.tools import arguments, reads
from rota.operations.tools.catalog import PERMISSION_TOOL, TOOLS, Answer, Tool, tools_of
from rota.operations.tools.context import Declare, ToolContext, refuse_rota_tools
from rota.operations.tools.reads import NOTICE
from rota.rules.agents import held_back
from rota.rules.schedule.preview import next_fires
from rota.store.driver import Database, Store
from rota.store.migrate import require_schema
from rota.store.tables import jobs, runs

MAX_TARGET = 200
OPTIONAL_KEYS = ("timezone", "timeout_seconds", "provider", "model", "labels")
TELEGRAM_EVENTS = [Event.COMPLETED.value, Event.FAILED.value, Event.CANCELLED.value]


def schedule(ctx: ToolContext, wanted: arguments.ScheduleJob) -> Answer:
    """Answer `schedule_job`; a change of a job keeps what is not given."""
    asked = "session" in wanted.model_fields_set
    wanted = ctx.store.read(partial(_complete, wanted=wanted, ctx=ctx))
    for key in ("task", "provider", "model"):
        arguments.refuse_hiding(key, getattr(wanted, key))
    if not wanted.task.strip():
        raise ToolArguments("task: is empty", hint="give the complete task for the agent")
    now = ctx.now()
    with_session = partial(_with_session, ctx=ctx, mine=wanted.session == "mine", asked=asked)
    spec = ctx.store.read(partial(with_session, spec=_declared(ctx, wanted)))
    put = ctx.store.write(partial(put_made, wanted=spec, maker=ctx.maker, policy=ctx.policy, now=now))
    wake(ctx.state)
    spec = put.job.spec
    answer: Answer = {"result": put.done, "job": _job(ctx, put.job), "notice": NOTICE}
    if notes := [*notes_on([spec], now=now), *notes_on_targets([spec], {}, ctx.state, ctx.environ)]:
        answer["notes"] = notes
    if put.job.provisional_at is not None:
        fires = next_fires(spec.schedule, now, reads.FIRES, created_at=now)
        answer["waits_for_approval"] = reads.WAITS
        answer["next_fires_if_approved"] = reads.fires_answer(fires, spec.schedule.timezone)
    return answer


def _complete(db: Database, wanted: arguments.ScheduleJob, ctx: ToolContext) -> arguments.ScheduleJob:
    """Return the arguments with those of the author's own job of this name, if there is one."""
    name = next((name for name in jobs.job_names(db) if name.casefold() == wanted.name.casefold()), None)
    stored = None if name is None else jobs.job_by_name(db, name)
    if stored is None or not lives(stored, ctx.now()) or stored.made is None or stored.made.by != ctx.maker.name:
        return wanted
    return arguments.over_stored(wanted, stored.spec)


def _keys(ctx: ToolContext, wanted: arguments.ScheduleJob) -> dict[str, Any]:
    """Return the job keys of a request; the agent defaults to the agent of the calling run."""
    keys: dict[str, Any] = {
        **arguments.keys_of(wanted),
        "task": wanted.task.replace("\r\n", "\n"),
        "enabled": wanted.enabled,
        "overlap": wanted.overlap_policy,
    }
    keys |= {key: value for key in OPTIONAL_KEYS if (value := getattr(wanted, key))}
    if wanted.notify_telegram_chat_id:
        keys["notify"] = {"telegram": wanted.notify_telegram_chat_id, "on": TELEGRAM_EVENTS, "remind": "always"}
    if wanted.session == "mine":
        keys["session"] = SessionMode.RESUME.value
    if wanted.run_once and "at" not in keys:
        keys["run_once"] = True
    limits = ctx.maker.limits
    if limits is None:
        return keys
    keys["cwd"] = limits.cwd
    return keys if wanted.provider else {**keys, "agent": limits.agent}


def _declared(ctx: ToolContext, wanted: arguments.ScheduleJob) -> JobSpec:
    """Return the definition within the author's limits, without `after`, which only the owner sets."""
    keys = _keys(ctx, wanted)
    spec = reads.declare(ctx, wanted.name, keys=keys)
    work = spec.work.agent
    if work is None:
        return spec
    policy = ctx.policy or ctx.store.read(jobs.policy)
    can = adapter(work.adapter, work.options).capabilities
    if limits := held_back(spec, ctx.maker.limits, ceiling=policy.access, can=can):
        spec = reads.declare(ctx, wanted.name, keys={**keys, **limits})
    assert spec.work.agent is not None
    return replace(spec, work=replace(spec.work, agent=replace(spec.work.agent, after=None)))


def _with_session(db: Database, spec: JobSpec, ctx: ToolContext, *, mine: bool, asked: bool) -> JobSpec:
    """Return the definition with the run whose session it continues: the calling one if it is `asked` for now."""
    work = spec.work.agent
    if not mine or work is None:
        return spec
    stored = None if asked else jobs.job_by_name(db, spec.name)
    before = stored.spec.work.agent if stored is not None else None
    if before is not None:
        return _continuing(spec, work, before.session_of)
    run = None if ctx.maker.run_id is None else runs.run_by_id(db, ctx.maker.run_id)
    own = None if run is None else jobs.version_spec(db, run.job_id, run.version).work.agent
    if run is None or own is None:
        hint = "leave it out: the job begins a session of its own"
        raise ToolArguments("session: only a run of an agent has a session", hint=hint)
    if (own.adapter, own.account) != (work.adapter, work.account):
        hint = "leave out `provider`, or `session`"
        raise ToolArguments(f"session: {work.agent} cannot continue a session of {own.agent}", hint=hint)
    return _continuing(spec, work, run.handle)


def _continuing(spec: JobSpec, work: AgentWork, handle: str) -> JobSpec:
    return replace(spec, work=replace(spec.work, agent=replace(work, session_of=handle)))


def _job(ctx: ToolContext, job: Job) -> Answer:
    view = ctx.store.read(partial(job_view, job=job))
    return reads.job_answer(view, ctx.maker, task_limit=reads.LONG)


def unschedule(ctx: ToolContext, wanted: arguments.UnscheduleJob) -> Answer:
    """Answer `unschedule_job`."""

    def change(db: Database) -> Job:
        job = _named(db, wanted)
        refuse_others(job, ctx.maker)
        if wanted.delete:
            if job.retired_at is None:
                remove(db, job, now=ctx.now())
        elif job.enabled and job.retired_at is None:
            switch_off(db, job, now=ctx.now())
        return jobs.job_by_id(db, job.id)

    job = ctx.store.write(change)
    wake(ctx.state)
    return {"result": "deleted" if wanted.delete else "disabled", "job": _job(ctx, job), "notice": NOTICE}


def _named(db: Database, wanted: arguments.NamedJob) -> Job:
    if bool(wanted.job_id) == bool(wanted.name):
        raise ToolArguments("the job is ambiguous", hint="give exactly one of `job_id` and `name`")
    if wanted.name:
        return find_job(db, wanted.name)
    by_id = {job.id: job for job in jobs.all_jobs(db)} if is_id(wanted.job_id) else {}
    if wanted.job_id.lower() not in by_id:
        raise UnknownJob(wanted.job_id)
    return by_id[wanted.job_id.lower()]


def start(ctx: ToolContext, wanted: arguments.TriggerJob) -> Answer:
    """Answer `trigger_job`."""
    job = ctx.store.read(partial(_named, wanted=wanted))
    try:
        run = trigger(ctx.store, job.name, now=ctx.now(), params=wanted.params or None, by=ctx.maker)
    except OverlapRefused as error:
        error.hint = f"wait until {error.blocking} has ended; get_run shows that"
        raise
    wake(ctx.state)
    return {
        "result": "queued",
        **reads.run_answer(show_run(ctx.store, run.id).run),
        "job": _job(ctx, job),
        "next": "see it with get_run",
        "notice": NOTICE,
    }


def ask(ctx: ToolContext, wanted: arguments.AskPerson) -> Answer:
    """Answer `ask_person`."""
    question = Asking(wanted.question, wanted.choices, timedelta(seconds=wanted.timeout), wanted.default or None)
    stored_question = ctx.store.write(partial(ask_person, author=ctx.maker, wanted=question, now=ctx.now()))
    wake(ctx.state)
    found = stored_question.question
    return {"question": found.number, "state": found.state.value, "answer": found.answer, "next": stored_question.next}


def look(ctx: ToolContext, wanted: arguments.LookAgain) -> Answer:
    """Answer `look_again`."""
    arguments.refuse_hiding("why", wanted.why)

    def move(db: Database) -> NextLook:
        run = None if ctx.maker.run_id is None else runs.run_by_id(db, ctx.maker.run_id)
        if run is None:
            raise InvalidValue("only a run of a job can choose its next one", hint="use schedule_job")
        why = " ".join(wanted.why.split())
        return look_again(db, run, timedelta(seconds=wanted.after), why, author=ctx.maker.name, now=ctx.now())

    look = ctx.store.write(move)
    wake(ctx.state)
    seconds = int(look.after.total_seconds())
    return {
        "after_seconds": seconds,
        "bounded": seconds != wanted.after,
        "next_run": None if look.next_for is None else iso(look.next_for),
        "next": "finish this run; the wait begins with its end" if look.next_for is None else "the job waits",
    }


HANDLERS: Mapping[str, Callable[[ToolContext, Any], Answer]] = {
    "schedule_job": schedule,
    "list_jobs": reads.list_all,
    "search_jobs": reads.search,
    "unschedule_job": unschedule,
    "preview_schedule": reads.preview,
    "trigger_job": start,
    "look_again": look,
    "ask_person": ask,
    "explain_job": reads.why,
    "get_run": reads.get_run,
}


class Toolbox:
    """The tools of one author. Safe from any thread; each call is one transaction."""

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
        # `agent_policy` binds every caller of the tools, the agent of a person too.
        self._ctx = ToolContext(store, state, clock, replace(maker, bound=True), declare, policy)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools, each bound to this author."""
        return tools_of(self.call)

    def call(self, name: str, given: Mapping[str, Any]) -> Answer:
        """Call a tool; raise RotaError with a text that a model can act on."""
        if name == PERMISSION_TOOL:
            return self._permit(given)
        refuse_rota_tools(self._ctx.maker)
        described = TOOLS.get(name)
        if described is None:
            raise UnknownTool(name, list(TOOLS))
        wanted = arguments.read(described.takes, given)
        try:
            self._ctx.store.read(require_schema)  # an agent keeps its tools for days: rota may be upgraded meanwhile
            answer = HANDLERS[name](self._audited(name, wanted) if described.changes else self._ctx, wanted)
            off = self._ctx.store.read(partial(switched_off, beat=heartbeat(self._ctx.state)))
            return answer | ({"warning": f"{SWITCHED_OFF}, until a person sets it to true"} if off else {})
        except RotaError as error:
            error.hint = reads.hint_of(error)
            raise

    def _permit(self, given: Mapping[str, Any]) -> Answer:
        """Return the decision about a tool call in the form of the agent program."""
        permission, ctx = arguments.read(arguments.Permission, given), self._ctx
        store = self._audited(PERMISSION_TOOL, permission).store
        try:
            verdict = decide(store, ctx.maker, permission.tool_name, permission.input, now=ctx.now)
        except TooManyQuestions as error:
            verdict = CallDecision(why=error.message)
        if verdict.allowed:
            return {"behavior": "allow", "updatedInput": permission.input}
        return {"behavior": "deny", "message": f"{NOT_PERMITTED}{verdict.why}"}

    def _audited(self, name: str, wanted: arguments.Arguments) -> ToolContext:
        ctx = self._ctx
        names = (getattr(wanted, key, "") for key in ("name", "job_id", "tool_name"))
        target = next((str(name)[:MAX_TARGET] for name in names if name), "")
        act = AuditedAct(ctx.maker.title, "tools", name, target)
        return replace(ctx, store=AuditedStore(ctx.store, act, ctx.clock))
