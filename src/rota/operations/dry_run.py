"""Dry runs of a run, an agent, a work source and a tick."""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rota.agents.registry import adapter, version_of
from rota.declare.registry import BUILTIN_CONDITIONS, asked_elsewhere
from rota.engine.activity import KIND
from rota.engine.agents import agent_launch, agent_task, prepare_agent
from rota.engine.functions import FunctionTable, InProcessFunctions
from rota.engine.loops.briefs import remembered, result_jobs_of
from rota.engine.loops.executor import Fact, facts_of
from rota.engine.loops.firer import FIRES_A_ROUND
from rota.engine.loops.work_sources import ThreadedSources
from rota.engine.membership.locks import read_worker, worker_here
from rota.engine.membership.session import UNNAMED, dead_epochs, enter_worker
from rota.engine.processes import answer, run_facts, surroundings_of
from rota.engine.transactions.claim import Claimed, ClaimOwner, claim, usable_slots
from rota.engine.transactions.enqueue import ManualStart, judge_start
from rota.engine.transactions.fire import Fired, fire, fire_at_boot, replan
from rota.engine.transactions.pause import release_due
from rota.engine.transactions.poll import scheduler_state
from rota.model.agents import WorkAhead, WorkItem, WorkRequest
from rota.model.clock import Clock
from rota.model.errors import FolderUntrusted, JobDisabled, RotaError, SecretMissing, UnknownJob, nearest
from rota.model.ids import new_id
from rota.model.records import Job
from rota.model.spec import AgentWork, Condition, JobSpec, Kind, WorkSource, Workspace
from rota.model.states import Trigger
from rota.operations.budgets import charges_of
from rota.operations.jobs import find_job
from rota.operations.project.apply import apply_in, held_change
from rota.operations.project.load import Loaded, is_trusted, load_project
from rota.operations.project.locate import ProjectPaths
from rota.operations.run_actions import merged_params, refuse_disabled
from rota.rules.admission import Admission, After, Allow, ConditionResult, Refuse, Replace, decide
from rota.rules.agents import BRANCHES, branch_name, choose, with_choice
from rota.rules.budgets import Charge
from rota.rules.queue_order import Pool
from rota.runners import worktree as git
from rota.runners.command import CommandRunner, describe, prepare, prepare_check, working_folder
from rota.runners.environment import RunFacts, RunSurroundings
from rota.runners.processes import identity, machine_boot
from rota.runners.spawn_client import Spawner
from rota.settings import FILE_NAME, Settings, home_of
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables import activity, jobs, processes, queue, runs, work_items
from rota.store.tables.processes import only_worker
from rota.text.runs import say_ahead, say_source

SKIPPED = "it would be SKIPPED source_error"
NOTHING_KNOWN = WorkAhead()
NO_ITEM = WorkItem("none", "no item")
"""The placeholder of a missing item."""


class Peeked(Struct, frozen=True):
    """The items of a work source, or the `problem` of its query."""

    source: WorkSource
    ahead: WorkAhead = NOTHING_KNOWN
    holders: tuple[str, ...] = ()
    problem: str | None = None
    fails: bool = False
    """Whether that problem fails a run, and does not skip it."""

    @property
    def item(self) -> WorkItem:
        """The next item, or a placeholder."""
        return self.ahead.next or NO_ITEM

    @property
    def text(self) -> str:
        """The result in one line."""
        if self.problem is not None:
            return f"{say_source(self.source)} did not answer: {self.problem}"
        return say_ahead(self.source, self.ahead, holders=list(self.holders))

    @property
    def obstacle(self) -> str | None:
        """The reason why a run would be skipped, or None."""
        if self.problem is not None:
            return "it would fail at once: its source has no secret" if self.fails else SKIPPED
        return "it would be SKIPPED no_work" if self.ahead.open == 0 else None


def peek(
    spec: JobSpec,
    *,
    store: Store | None,
    settings: Settings,
    table: FunctionTable,
    environ: Mapping[str, str],
    now: datetime,
) -> Peeked | None:
    """Query the work source of a job; return None if it has none."""
    source = spec.work.agent.source if spec.work.agent is not None else None
    if source is None:
        return None
    holders = () if store is None else tuple(store.read(partial(work_items.holders, source=source)))
    sources = ThreadedSources(settings, environ, lambda: table.sources)
    request = WorkRequest("dry-run", spec.name, f"{spec.name}:0", now, spec.work.params)
    try:
        look = partial(sources.find(source).peek, request)
        ahead = asyncio.run(sources.ask(look, within=source.timeout.total_seconds()))
    except RotaError as error:
        return Peeked(source, holders=holders, problem=str(error), fails=isinstance(error, SecretMissing))
    return Peeked(source, ahead, holders)


def peeked_json(found: Peeked | None) -> dict[str, Any] | None:
    """Return the items of a work source as JSON."""
    if found is None:
        return None
    item = found.ahead.next
    return {
        "source": found.source.title,
        "open": found.ahead.open,
        "held_by": list(found.holders),
        "next": None if item is None else {"id": item.id, "title": item.title, "url": item.url},
        "problem": found.problem,
    }


class AgentRequest(Struct, frozen=True):
    """The request to an agent: the complete prompt, the workspace, and the session to resume."""

    work: AgentWork
    version: str
    prompt: str
    workspace: str | None
    """Its own workspace in words; None for the folder of the job."""
    session: str | None
    problem: str | None = None


def with_memory(claimed: Claimed, store: Store | None, *, settings: Settings) -> Claimed:
    """Return a run with the session, summary and results that the worker of this folder would pass to it."""
    work = claimed.spec.work.agent
    if work is None or store is None:
        return claimed
    own = read_worker(settings.state) or store.read(only_worker) or ""
    try:
        jobs = result_jobs_of(claimed, settings)
    except RotaError:  # reported with the prompt
        jobs = ()
    recall = partial(remembered, claimed=claimed, work=work, worker_id=own, jobs=jobs)
    return claimed._replace(brief=store.read(recall))


def ask(
    claimed: Claimed, run: RunFacts, surroundings: RunSurroundings, *, env: Mapping[str, str] | None
) -> AgentRequest | None:
    """Return the request to the agent of a job; None for other jobs.

    `env` is the environment of the run and of the version query; with None, the program is not started.
    """
    work = claimed.spec.work.agent
    if work is None:
        return None
    problem, prompt, workspace = None, "", None
    try:
        prompt = agent_task(claimed, run, surroundings).prompt
        workspace = _workspace(claimed, run, surroundings)
    except RotaError as error:
        problem = str(error)
    session = claimed.brief.session.id if claimed.brief.session else None
    version = version_of(adapter(work.adapter, work.options), env) if env is not None else ""
    return AgentRequest(work, version, prompt, workspace, session, problem)


def _workspace(claimed: Claimed, run: RunFacts, surroundings: RunSurroundings) -> str | None:
    work = claimed.spec.work.agent
    if work is None or work.workspace is Workspace.PROJECT:
        return None
    if work.workspace is Workspace.SCRATCH:
        return "a new empty folder"
    place = git.locate(working_folder(claimed.spec.work, run, surroundings))
    branch = branch_name(run.job, run.number, taken=git.branches(place.repository, BRANCHES))
    at = place.head if place.base.startswith(place.head) else f"{place.head}@{place.base[:7]}"
    return f"a new worktree of {at}, branch {branch}"


class DryRunReport(Struct, frozen=True):
    """The result of a dry run: `problem` would make the run fail before its work begins."""

    spec: JobSpec
    applied: bool
    params: Mapping[str, Any]
    argv: tuple[str, ...]
    cwd: str
    environment: tuple[str, ...]
    conditions: tuple[ConditionResult, ...]
    charges: tuple[Charge, ...]
    admission: Admission
    overlap: ManualStart
    refused: str | None
    problem: str | None
    work: Peeked | None = None
    asked: AgentRequest | None = None
    """The request to the agent of the job."""
    pools: tuple[Pool, ...] = ()
    """The current state of the pools that the run would draw on."""


class _Subject(Struct, frozen=True):
    spec: JobSpec
    job: Job | None
    state: Mapping[str, Any]
    start: ManualStart
    shared: Mapping[str, Any] = field(default_factory=dict)


def rehearse(
    place: ProjectPaths,
    name: str,
    *,
    store: Store | None,
    clock: Clock,
    environ: Mapping[str, str],
    params: Mapping[str, Any] | None = None,
    force: bool = False,
) -> DryRunReport:
    """Return what `rota run` would do now; nothing is enqueued, but conditions are evaluated.

    Raise FolderUntrusted if that would run code, or send a request, of an untrusted project.
    """
    settings, table, specs = _load(place, environ, now=clock.now(), stored=store is not None)
    subject = _subject(store, name, specs, params=params, force=force)
    subject = replace(subject, spec=_as_chosen(store, subject.spec))
    trusted = is_trusted(place.folder, environ)
    if not trusted and (asked_code := _asked_code(subject.spec, force=force)):
        raise FolderUntrusted(str(place.folder), asked_code, what="for a dry run")
    given = merged_params(subject.spec, params)
    work = peek(subject.spec, store=store, settings=settings, table=table, environ=environ, now=clock.now())
    claimed = _as_briefed(_as_claimed(subject, given, clock.now(), force=force), store, work)
    with tempfile.TemporaryDirectory(prefix="rota-dry-run-") as folder:
        stage = _Stage(
            with_memory(claimed, store, settings=settings),
            settings,
            table,
            clock=clock,
            environ=environ,
            folder=Path(folder),
            facts=facts_of(store, clock) if store is not None else {},
            shared=subject.shared,
            trusted=trusted,
        )
        results = () if force else asyncio.run(stage.ask_conditions())
        stage.take_answers(results)
        start, agent_request = stage.describe(), stage.ask_agent()
    admission = decide(subject.spec.gates, expires_at=None, forced=force, conditions=results, now=clock.now())
    return DryRunReport(
        spec=subject.spec,
        applied=subject.job is not None,
        params=given,
        argv=start.argv,
        cwd=start.cwd,
        environment=start.environment,
        conditions=tuple(results),
        charges=tuple(charges_of(store, subject.spec, subject.job, settings=settings, now=clock.now())),
        admission=admission,
        overlap=subject.start,
        refused=_refused(subject.job),
        problem=start.problem or (agent_request.problem if agent_request else None),
        work=work,
        asked=agent_request,
        pools=_pools(store, subject.spec, settings),
    )


def _as_chosen(store: Store | None, spec: JobSpec) -> JobSpec:
    """Return the definition of a job with the agent of its list that would do the work now."""
    choices = spec.work.agent.choices if spec.work.agent is not None else ()
    if not choices:
        return spec
    holds = [] if store is None else store.read(queue.holds)
    choice = choose(choices, {hold.provider: hold.until for hold in holds if hold.until is not None})
    return spec if choice is None else with_choice(spec, choice.chosen)


def _asked_code(spec: JobSpec, *, force: bool) -> list[str]:
    """Return the code of a job that a dry run executes: its conditions and its work source."""
    conditions = () if force else spec.gates.conditions
    asked = [
        condition.title
        for condition in conditions
        if condition.command or condition.name not in BUILTIN_CONDITIONS or condition.replaces
    ]
    source = spec.work.agent.source if spec.work.agent is not None else None
    return asked if source is None else [*asked, source.title]


def _pools(store: Store | None, spec: JobSpec, settings: Settings) -> tuple[Pool, ...]:
    """Return the pools of a job: the stored ones, else the declared ones."""
    drawn = {draw.pool for draw in spec.pools}
    declared = {name: Pool(name, capacity, 0) for name, capacity in settings.pools.items()}
    stored = {} if store is None else {pool.name: pool for pool in store.read(queue.pools)}
    return tuple(pool for name, pool in {**declared, **stored}.items() if name in drawn)


def _load(
    place: ProjectPaths, environ: Mapping[str, str], *, now: datetime, stored: bool
) -> tuple[Settings, FunctionTable, Mapping[str, JobSpec]]:
    """Load the file; with a stored job, a broken file is ignored."""
    try:
        loaded = load_project(place.folder, environ, state=place.state, now=now)
    except RotaError:
        if not stored:
            raise
        return Settings(place.folder, place.state), FunctionTable(), {}
    return loaded.declared.settings, loaded.table, {spec.name: spec for spec in loaded.declared.jobs}


def _subject(
    store: Store | None, name: str, specs: Mapping[str, JobSpec], *, params: Mapping[str, Any] | None, force: bool
) -> _Subject:
    if store is not None:
        subject = store.read(partial(_stored, name=name, params=params, force=force, declared=name in specs))
        if subject is not None:
            return subject
    if name not in specs:
        raise UnknownJob(name, nearest(name, specs))
    return _Subject(specs[name], None, {}, ManualStart(Allow()))


def _stored(
    db: Database, *, name: str, params: Mapping[str, Any] | None, force: bool, declared: bool
) -> _Subject | None:
    if declared and jobs.job_by_name(db, name) is None:
        return None
    job = find_job(db, name)
    start = judge_start(db, job, [merged_params(job.spec, params)], force=force)
    return _Subject(job.spec, job, jobs.job_state(db, job.id), start, scheduler_state(db))


def _as_claimed(subject: _Subject, params: Mapping[str, Any], now: datetime, *, force: bool) -> Claimed:
    job, identifier = subject.job, new_id(now)
    run = runs.Candidate(
        id=identifier,
        job_id=job.id if job else identifier,
        version=job.version if job else 1,
        number=job.run_number + 1 if job else 1,
        job=subject.spec.name,
        trigger=Trigger.MANUAL,
        scheduled_for=None,
        created_at=now,
        attempt=1,
        params=params,
        expires_at=None,
        forced=force,
        state=subject.state,
    )
    return Claimed(run, subject.spec, slot=0, started=False)


def _as_briefed(claimed: Claimed, store: Store | None, work: Peeked | None) -> Claimed:
    """Add the data of the last poll and the next item, as a start does."""
    if store is not None and claimed.spec.gates.needs_poll:
        polled = store.read(activity.last_poll)
        claimed = claimed._replace(poll_data=polled.data if polled else None)
    return claimed if work is None else claimed._replace(brief=replace(claimed.brief, item=work.item))


def _refused(job: Job | None) -> str | None:
    try:
        if job is not None:
            refuse_disabled(job)
    except JobDisabled as error:
        return error.message
    return None


class _Start(Struct, frozen=True):
    """The command, the folder, the names of the environment, and the problem of a start."""

    argv: tuple[str, ...]
    cwd: str
    environment: tuple[str, ...] = ()
    problem: str | None = None


class _Stage:
    """The environment of a run in a temporary folder."""

    def __init__(
        self,
        claimed: Claimed,
        settings: Settings,
        table: FunctionTable,
        *,
        clock: Clock,
        environ: Mapping[str, str],
        folder: Path,
        facts: Mapping[str, Fact],
        shared: Mapping[str, Any],
        trusted: bool,
    ) -> None:
        self._claimed = claimed
        self._trusted = trusted
        self._shared = shared
        self._facts = facts
        self._settings = settings
        self._table = table
        self._clock = clock
        self._environ = environ
        self._folder = folder
        self._env: Mapping[str, str] = environ

    def describe(self) -> _Start:
        """Return how the work would start."""
        work = self._claimed.spec.work
        if work.kind is Kind.GROUP:
            return _Start(("group:", *(member.job for member in work.members)), str(self._settings.folder))
        if work.in_process:
            return self._called()
        try:
            facts, surroundings = run_facts(self._claimed), self._surroundings(self._folder)
            launch = (
                prepare(work, facts, surroundings)
                if work.agent is None
                else agent_launch(self._claimed, facts, surroundings)
            )
            if work.agent is not None:
                prepare_agent(self._claimed, facts, surroundings)  # also what comes after it
            description = describe(launch)
            self._env = launch.env
        except RotaError as error:
            written = work.command if work.kind is Kind.COMMAND else (work.shell or work.function,)
            return _Start(written, work.cwd, problem=str(error))
        return _Start(description.argv, description.cwd, description.environment)

    def take_answers(self, results: Sequence[ConditionResult]) -> None:
        """Add the output of the conditions to the prompt."""
        outputs = tuple(result.output for result in results)
        self._claimed = self._claimed._replace(brief=replace(self._claimed.brief, condition_outputs=outputs))

    def ask_agent(self) -> AgentRequest | None:
        """Return the request to the agent; None for other jobs."""
        env = self._env if self._trusted else None
        return ask(self._claimed, run_facts(self._claimed), self._surroundings(self._folder), env=env)

    def _called(self) -> _Start:
        """Return the call inside the scheduler; for an agent also the problem of its task."""
        work = self._claimed.spec.work
        if work.agent is None:
            fetched = ("GET", work.url) if work.url else ("python:", work.function)
            return _Start(fetched, str(self._settings.folder))
        called = ("python:", work.agent.function) if work.agent.function else (work.agent.adapter,)
        try:
            task = agent_task(self._claimed, run_facts(self._claimed), self._surroundings(self._folder))
        except RotaError as error:
            return _Start(called, work.cwd, problem=str(error))
        return _Start(called, task.cwd)

    async def ask_conditions(self) -> list[ConditionResult]:
        """Evaluate conditions in order, up to the first that does not pass, as a start does."""
        results: list[ConditionResult] = []
        for index, condition in enumerate(self._claimed.spec.gates.conditions):
            results.append(await self._ask(condition, index))
            if results[-1].answer != "pass":
                break
        return results

    async def _ask(self, condition: Condition, index: int) -> ConditionResult:
        if asked_elsewhere(condition, self._claimed.spec.work.python):
            return await self._ask_command(condition, index)
        settings = replace(self._settings, state=self._folder)
        functions = InProcessFunctions(
            self._clock,
            settings,
            self._table,
            ended=_ignore,
            released=_ignore,
            facts=self._facts,
            scheduler_state=lambda: self._shared,
        )
        try:
            return await functions.check(self._claimed, condition, index=index)
        finally:
            functions.close()

    async def _ask_command(self, condition: Condition, index: int) -> ConditionResult:
        folder = self._folder / "conditions" / str(index)
        runner = CommandRunner(Spawner(), self._folder)
        began = self._clock.monotonic()
        try:
            facts, surroundings = run_facts(self._claimed, scheduler_state=self._shared), self._surroundings(folder)
            launch = prepare_check(condition, self._claimed.spec.work, run=facts, surroundings=surroundings)
            result = await runner.check(launch, folder)
        except RotaError as error:
            return ConditionResult(condition.title, "error", str(error))
        finally:
            runner.close()
        return answer(condition, result, took_ms=round((self._clock.monotonic() - began) * 1000))

    def _surroundings(self, folder: Path) -> RunSurroundings:
        return surroundings_of(self._claimed.spec.work, self._settings, folder=folder, environ=self._environ)


def _ignore(_anything: object) -> None:
    return None


def overlap_words(rehearsal: DryRunReport) -> str:
    """Return the verdict of the overlap policy in words."""
    policy, verdict = rehearsal.spec.overlap.policy, rehearsal.overlap.verdict
    if isinstance(verdict, Refuse):
        return f"{policy} → refused: {verdict.blocking.handle} is not finished"
    if isinstance(verdict, After):
        return f"{policy} → waits behind an unfinished run"
    if isinstance(verdict, Replace):
        return f"{policy} → cancels {len(verdict.run_ids)} unfinished"
    if rehearsal.overlap.replaces:
        retries = ", ".join(retry.handle for retry in rehearsal.overlap.replaces)
        return f"{policy} → replaces the retry {retries}, which waits for its backoff"
    return f"{policy} → no active run"


COUNTED = 10_000
NO_LOCK = "none"


class TickPreview(Struct, frozen=True):
    """The effects of a tick; `recovered` are runs of dead processes, which it would recover first."""

    changes: tuple[str, ...]
    recovered: tuple[str, ...]
    fired: tuple[Fired, ...]
    claimed: tuple[str, ...]
    ready: int
    file_problem: str | None = None


def preview_tick(store: Store, place: ProjectPaths, *, clock: Clock, environ: Mapping[str, str]) -> TickPreview:
    """Return the fires and claims of a tick now; nothing is written."""
    loaded, problem = None, None
    try:
        loaded = load_project(place.folder, environ, state=place.state, now=clock.now(), lenient=True)
    except RotaError as error:
        problem = str(error)
    return rolled_back(store, partial(_play, place=place, loaded=loaded, problem=problem, now=clock.now()))


def _play(
    db: Database, *, place: ProjectPaths, loaded: Loaded | None, problem: str | None, now: datetime
) -> TickPreview:
    holder = _holder(db, place.state, now)
    recovered = _left_behind(db, place.state, holder=holder)
    held = held_change(db, file=place.folder / FILE_NAME, home=home_of(os.environ), now=now)
    loaded, problem = (None, held) if held else (loaded, problem)
    try:
        plan = apply_in(db, declared=loaded.declared, now=now) if loaded else None
    except RotaError as error:
        plan, problem = None, str(error)
    settings = loaded.declared.settings if loaded else Settings(place.folder, place.state)
    enabled = settings.scheduler.enabled
    fired = (*fire_at_boot(db, boot=machine_boot(), now=now), *_fire(db, now)) if enabled else ()
    free = usable_slots(db, holder, range(settings.scheduler.concurrency)) if enabled else []
    claimed = claim(db, holder, free, now=now)
    return TickPreview(
        changes=tuple(f"{change.kind.value} {change.name}" for change in plan.changing) if plan else (),
        recovered=recovered,
        fired=fired,
        claimed=tuple(run.run.handle for run in claimed),
        ready=queue.count_ready(db, limit=COUNTED),
        file_problem=problem,
    )


def _holder(db: Database, state: Path, now: datetime) -> ClaimOwner:
    me = identity(os.getpid())
    worker_id = enter_worker(db, worker_here(db, state) or new_id(now), UNNAMED, state=state, now=now)
    epoch = processes.open_process(db, worker_id=worker_id, kind=KIND, identity=me, lock=NO_LOCK, version="", now=now)
    return ClaimOwner(worker_id, epoch, me)


def _left_behind(db: Database, state: Path, *, holder: ClaimOwner) -> tuple[str, ...]:
    dead = dead_epochs(db, state=state, own=holder.epoch, worker_id=holder.worker_id)
    run_list = [runs.run_by_id(db, owned.id) for owned in runs.owned_runs(db, dead)]
    return tuple(run.handle for run in run_list if run is not None)


def _fire(db: Database, now: datetime) -> tuple[Fired, ...]:
    """Do the work before a claim: release delayed runs, replan by mode, fire due jobs."""
    release_due(db, now=now)
    replan(db, now=now)
    fired: list[Fired] = []
    seen: set[str] = set()
    while due := set(jobs.due_jobs(db, now=now, limit=FIRES_A_ROUND + len(seen))) - seen:
        seen |= due
        fired += [fire(db, job_id, now=now) for job_id in sorted(due)]
    return tuple(one for one in fired if one.runs or one.skips)
