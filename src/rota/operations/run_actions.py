"""Actions on runs: start, stop, retry and change."""

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from rota import faults
from rota.engine.activity import touching
from rota.engine.transactions.enqueue import Aim, ManualStart, Where, cancel, enqueue, judge_start, move
from rota.engine.transactions.insert import RunRef
from rota.model import errors
from rota.model.clock import write_duration
from rota.model.ids import created_ms
from rota.model.proposals import Author
from rota.model.records import PARAMS_LIMIT, Job, ProcessIdentity, Run
from rota.model.spec import JobSpec, Kind
from rota.model.states import Reason, Status, Trigger, WaitingFor
from rota.operations.jobs import find_job
from rota.operations.queue import PLACES
from rota.operations.runs import find_run, find_unfinished, show_run
from rota.operations.status.heartbeat import carried, serves
from rota.rules import agents
from rota.rules.admission import After, Allow, Refuse, Replace, TooMany, verdict_word
from rota.rules.outcome import ONE_ATTEMPT
from rota.rules.params import wrong_params
from rota.rules.prompts import option_places
from rota.rules.queue_order import GROUP_LANE, place_of
from rota.runners.processes import send_signal
from rota.store.driver import Database, Store, rolled_back
from rota.store.rows import write_json
from rota.store.tables import audit, groups, jobs, queue, run_queries, runs
from rota.store.tables.processes import CriticalSection, lock_section

_OPTION = re.compile(r"-(?![0-9]+(\.[0-9]+)?$)", re.ASCII)


class StartOptions(TypedDict, total=False):
    """How a job is started by hand.

    `by` is the run or the caller of the tools that starts the job: it is recorded, and agents have a limit.
    `one_attempt`: a failure is not retried, regardless of the job's policy.
    """

    params: Mapping[str, Any] | None
    force: bool
    by: Author | None
    one_attempt: bool


def start(store: Store, name: str, *, now: datetime, **options: Unpack[StartOptions]) -> RunRef:
    """Start a job as `trigger` does, but without recording activity: a schedule may have started the caller."""
    return store.write(partial(_trigger, name=name, now=now, **options))


def trigger(store: Store, name: str, *, now: datetime, **options: Unpack[StartOptions]) -> RunRef:
    """Start a job by hand: enqueue a run, or raise an error that names the obstacle."""
    run = store.write(trigger_operation(name, now=now, **options))
    faults.point("trigger.committed")
    return run


def trigger_operation(name: str, *, now: datetime, **options: Unpack[StartOptions]) -> Callable[[Database], RunRef]:
    """Return what `trigger` does, as an operation."""
    return touching(partial(_trigger, name=name, now=now, **options), what="trigger", now=now)


def _trigger(
    db: Database,
    *,
    name: str,
    now: datetime,
    params: Mapping[str, Any] | None = None,
    force: bool = False,
    by: Author | None = None,
    one_attempt: bool = False,
) -> RunRef:
    job = find_job(db, name)
    recorded = {} if by is None else {"by": count_start(db, by, now=now, force=force)}
    told = {**({ONE_ATTEMPT: True} if one_attempt else {}), **recorded}
    return start_job(db, job, params, trigger=Trigger.MANUAL, decisions=told, force=force, now=now)


def start_job(
    db: Database,
    job: Job,
    params: Mapping[str, Any] | None,
    *,
    trigger: Trigger,
    decisions: Mapping[str, Any],
    now: datetime,
    force: bool = False,
) -> RunRef:
    """Start a job by hand with these further decisions: overlap applies."""
    refuse_disabled(job)
    if job.expired(now):
        raise errors.JobDisabled(job.name, "expired: its time has passed")
    merged = merged_params(job.spec, params)
    start = judge_start(db, job, [merged], force=force)
    return enqueue(
        db,
        job,
        admitted(job, start),
        trigger=trigger,
        now=now,
        params=merged,
        forced=force,
        decisions={**start_decisions(job, start), **decisions},
        replaces=start.replaces,
    )


def admitted(job: Job, start: ManualStart) -> Allow | After | Replace:
    """Return the verdict of a manual start, or raise the error that names the run in the way."""
    if isinstance(start.verdict, Refuse):
        raise errors.OverlapRefused(job.name, start.verdict.blocking.handle, job.spec.overlap.policy.value)
    assert not isinstance(start.verdict, TooMany), "a single run is refused by name"
    return start.verdict


def start_decisions(job: Job, start: ManualStart) -> dict[str, Any]:
    """Return the decisions of a manual start that the run stores for `explain`."""
    overlap = {"policy": job.spec.overlap.policy.value, "verdict": verdict_word(start.verdict)}
    return {"overlap": overlap, **start.decisions}


def refuse_disabled(job: Job) -> None:
    """Raise JobDisabled or JobProvisional if a job cannot be started by hand."""
    if job.retired_at is not None:
        gone = "the file no longer has it" if job.made is None else "it was removed, or it expired"
        raise errors.JobDisabled(job.name, f"retired: {gone}")
    if job.provisional_at is not None:
        raise errors.JobProvisional(job.name)
    if not job.enabled:
        raise errors.JobDisabled(job.name, "disabled")


def merged_params(spec: JobSpec, params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the job's params with those of this run over them: declared names and kinds only, 64 KB at most.

    A text that the job's program would read as an option is refused, unless it is the job's own value.
    """
    own = spec.work.params
    values, problems = wrong_params(spec.work, params or {})
    if unknown := [problem for problem in problems if problem.code == "param_unknown"]:
        raise errors.InvalidValue(f"job {spec.name!r} has no param {unknown[0].at[-1]!r}", hint=unknown[0].hint)
    if problems:
        raise errors.InvalidParams(spec.name, problems)
    for name in sorted(option_places(spec.work.command) & set(values)) if values else ():
        value = values[name]
        if isinstance(value, str) and _OPTION.match(value) and value != own.get(name):
            raise errors.OptionLike(spec.name, name, value)
    merged = {**own, **values}
    if len(write_json(merged).encode()) > PARAMS_LIMIT:
        message = f"the params of {spec.name!r} are larger than {PARAMS_LIMIT // 1024} KB"
        raise errors.InvalidValue(message, hint="pass a file's path instead")
    return merged


class Cancelled(Struct, frozen=True):
    """The result of a cancel: the run is final, or its processes are being stopped."""

    run: Run
    final: bool


def cancel_run(store: Store, handle: str, *, now: datetime, dry_run: bool = False) -> Cancelled:
    """Cancel a run: at once if it is queued, else by a request to its scheduler."""

    def change(db: Database) -> Cancelled:
        run = find_unfinished(db, handle)
        if run.status.final:
            raise errors.RunIsFinal(run.handle, run.status)
        if dry_run:
            return Cancelled(run, final=run.status is Status.QUEUED)
        final = cancel(db, run.id, reason=Reason.REQUESTED, now=now)
        return Cancelled(_reloaded(db, run), final)

    if dry_run:
        return store.read(change)
    cancelled = store.write(touching(change, what="cancel", now=now))
    faults.point("cancel.asked")
    return cancelled


def _reloaded(db: Database, run: Run) -> Run:
    after = runs.run_by_id(db, run.id)
    assert after is not None
    return after


def stop_keeper(store: Store, run: Run) -> bool:
    """Signal the keepers of a run, or of a group's members, without a scheduler; return whether there were any."""
    group = store.read(partial(groups.group_of_run, run_id=run.id))
    if group is not None:
        members = store.read(partial(groups.member_runs, group_id=group.id))
        stopped = [stop_keeper(store, member) for member in members if not member.status.final]
        return any(stopped)
    execution = store.read(partial(runs.execution_of_run, run_id=run.id))
    spec = store.read(partial(jobs.version_spec, job_id=run.job_id, version=run.version))
    if execution is None or execution.finished_at is not None or spec.work.in_process:
        return False
    keeper = ProcessIdentity(execution.boot_id, execution.pid, execution.pid_start)
    return send_signal(keeper, signal.SIGTERM)


def stop_unattended(store: Store, state: Path, run_ids: Sequence[str]) -> None:
    """Signal the keepers of cancelled runs that no scheduler executes."""
    if serves(state):
        return
    for run_id in run_ids:
        run = show_run(store, run_id).run
        if not carried(store, state, run):
            stop_keeper(store, run)


class Retried(Struct, frozen=True):
    """A retried run: the old run, the new params, and the new run, which is None in a dry run."""

    run: Run
    params: Mapping[str, Any]
    verdict: Allow | After | Replace
    start: ManualStart
    born: RunRef | None = None


def retry_run(
    store: Store,
    handle: str,
    *,
    now: datetime,
    again: bool = False,
    force: bool = False,
    params: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> Retried:
    """Retry a final run with its params, by the job's current definition; a completed one only with `again`.

    It is a manual start: overlap applies, it begins a new chain, and the schedule does not change.
    """

    def change(db: Database) -> Retried:
        run = find_run(db, handle)
        job = jobs.job_by_id(db, run.job_id)
        _refuse(db, run, job, again=again)
        current = {name: value for name, value in run.params.items() if name in job.spec.work.param_names}
        merged = merged_params(job.spec, {**current, **(params or {})})
        start = judge_start(db, job, [merged], force=force, chain_id=run.chain_id or run.id)
        wanted = Retried(run, merged, admitted(job, start), start)
        return wanted if dry_run else _retry(db, job, wanted, force=force, now=now)

    return store.read(change) if dry_run else store.write(touching(change, what="retry", now=now))


def _refuse(db: Database, run: Run, job: Job, *, again: bool) -> None:
    if not run.status.final:
        raise errors.RunUnfinished(run.handle, run.status)
    chain = [link for link in run_queries.chain_runs(db, run.chain_id or run.id) if not link.status.final]
    pending = next((link for link in chain if link.waiting_for is not WaitingFor.BACKOFF or link.group_id), None)
    if pending is not None:
        raise errors.RunUnfinished(pending.handle, pending.status, retry_of=run.handle)
    if run.status is Status.COMPLETED and not again:
        raise errors.RunCompleted(run.handle)
    if job.spec.work.kind is Kind.GROUP:
        hint = f"`rota groups retry {run.handle}` makes a new group from the first failed member"
        raise errors.InvalidValue(f"{run.handle} is the run of a group", hint=hint)
    refuse_disabled(job)


def _retry(db: Database, job: Job, wanted: Retried, *, force: bool, now: datetime) -> Retried:
    run = wanted.run
    ref = enqueue(
        db,
        job,
        wanted.verdict,
        trigger=Trigger.MANUAL,
        now=now,
        scheduled_for=run.scheduled_for,
        params=wanted.params,
        forced=force,
        retry_of=run.id,
        decisions={
            **start_decisions(job, wanted.start),
            "retried": {"run": run.handle, "status": run.status, "reason": run.reason},
        },
        replaces=wanted.start.replaces,
    )
    return replace(wanted, born=ref)


MAX_MOVED_RUNS = 1000
PRIORITIES = range(-1000, 1001)


class ReorderedRun(Struct, frozen=True):
    """A run at its new place. `place` None: beyond 1000, or it waits. `note`: why the place is another one."""

    run: Run
    place: int | None
    note: str = ""


class Destination(Struct, frozen=True):
    """The requested place of runs: `other` is a handle, `place` counts from 1."""

    where: Where
    other: str = ""
    place: int = 0


def move_runs(
    store: Store, handles: Sequence[str], destination: Destination, *, now: datetime, dry_run: bool = False
) -> list[ReorderedRun]:
    """Move queued runs, in their given order, within their priority."""
    if destination.where is Where.TO and not 1 <= destination.place <= PLACES:
        message = f"position {destination.place} does not exist"
        raise errors.InvalidValue(message, hint=f"positions go from 1 to {PLACES}")
    operation = partial(_move, handles=handles, destination=destination, now=now)
    return rolled_back(store, operation) if dry_run else store.write(touching(operation, what="move", now=now))


def step_run(store: Store, handle: str, *, steps: int, now: datetime) -> ReorderedRun:
    """Move a claimable run up (negative) or down by some places, within its priority."""

    def change(db: Database) -> ReorderedRun:
        run = _placed(find_run(db, handle))
        place = queue.place_in_queue(db, run, limit=PLACES) if run.waiting_for is None else None
        if place is None:
            raise errors.InvalidValue(f"{run.handle} has no position to move from", hint="move it first or last")
        destination = Destination(Where.TO, place=min(max(place + steps, 1), PLACES))
        return _move(db, handles=[run.handle], destination=destination, now=now)[0]

    return store.write(touching(change, what="move", now=now))


def _move(db: Database, *, handles: Sequence[str], destination: Destination, now: datetime) -> list[ReorderedRun]:
    aging = queue.aging(db)
    if aging is not None:
        raise errors.AgingOrders(write_duration(aging))
    chosen = list({run.id: run for run in (_placed(find_run(db, handle)) for handle in handles)}.values())
    if len(chosen) > MAX_MOVED_RUNS:
        hint = f"move {MAX_MOVED_RUNS:,} at most"
        raise errors.InvalidValue(f"{len(chosen):,} runs are too many to move at once", hint=hint)
    other = _other(db, destination, chosen) if destination.where is Where.BEFORE else None
    moved: dict[str, ReorderedRun] = {}
    for rank in sorted({run.rank for run in chosen}, reverse=True):
        same_rank = [run for run in chosen if run.rank == rank]
        moved |= {row.run.id: row for row in _move_within(db, same_rank, destination, other)}
    audit.insert_event(db, "moved", now=now, runs=len(chosen), where=destination.where)
    return [moved[run.id] for run in chosen]


def _placed(run: Run) -> Run:
    if run.status is not Status.QUEUED:
        raise errors.NotQueued(run.handle, run.status.shown)
    if run.lane_id == GROUP_LANE:
        raise errors.InvalidValue(f"{run.handle} is the run of a group, which has no position", hint="move its members")
    return run


def _other(db: Database, destination: Destination, chosen: Sequence[Run]) -> Run:
    other = _placed(find_run(db, destination.other))
    for run in chosen:
        if run.id == other.id:
            raise errors.InvalidValue(f"{run.handle} cannot be moved before itself", hint="name another run")
        if run.rank != other.rank:
            raise errors.OtherPriority(run.handle, other.handle, priority=run.priority, wanted=other.priority)
    return other


def _move_within(
    db: Database, chosen: Sequence[Run], destination: Destination, other: Run | None
) -> list[ReorderedRun]:
    move(db, chosen, Aim(destination.where, other, destination.place))
    after = queue.runs_of(db, [run.id for run in chosen])
    ready = [run for run in after if run.waiting_for is None]
    first = queue.place_in_queue(db, ready[0], limit=PLACES) if ready else None
    places = {} if first is None else {run.id: place for place, run in enumerate(ready, first) if place <= PLACES}
    note = _note(db, destination, chosen[0], first)
    return [ReorderedRun(run, places.get(run.id), note) for run in after]


def _note(db: Database, destination: Destination, run: Run, place: int | None) -> str:
    """Return why a run is not at the requested place: it cannot leave its priority."""
    sent = {Where.FIRST: 1, Where.TO: destination.place}.get(destination.where)
    if place == sent or destination.where is Where.BEFORE:
        return ""
    if sent is not None and (place is None or place > sent):
        return f"the first of priority {run.priority}" if queue.count_above(db, run.rank, limit=1) else ""
    if queue.next_rank(db, run.rank) is not None:
        return f"the last of priority {run.priority}"
    return "the queue ends there" if sent is not None else ""


class Edited(Struct, frozen=True):
    """A run before and after an edit, and its place now."""

    before: Run
    run: Run
    place: int | None


def edit_run(
    store: Store,
    handle: str,
    *,
    params: Mapping[str, Any] | None = None,
    priority: int | None = None,
    now: datetime,
    dry_run: bool = False,
) -> Edited:
    """Change a queued run: its params until its first dispatch, its priority until it starts."""
    if not params and priority is None:
        raise errors.InvalidValue("no change is given", hint="name a --param or a --priority")
    if priority is not None and priority not in PRIORITIES:
        raise errors.InvalidValue(f"the priority {priority} is out of range", hint="priorities go from -1000 to 1000")
    operation = partial(_edit, handle=handle, params=params or {}, priority=priority, now=now)
    return rolled_back(store, operation) if dry_run else store.write(touching(operation, what="edit", now=now))


def _edit(db: Database, *, handle: str, params: Mapping[str, Any], priority: int | None, now: datetime) -> Edited:
    run = find_run(db, handle)
    if params:
        _edit_params(db, run, params)
    if priority is not None:
        _edit_priority(db, run, priority)
    changed: dict[str, Any] = {"at": now.isoformat(), "params": sorted(params)}
    runs.note_decisions(db, run.id, {"edited": changed if priority is None else {**changed, "priority": priority}})
    audit.insert_event(
        db, "edited", now=now, job_id=run.job_id, run_id=run.id, params=sorted(params), priority=priority
    )
    after = _reloaded(db, run)
    place = queue.place_in_queue(db, after, limit=PLACES) if after.waiting_for is None else None
    return Edited(run, after, place)


def _edit_params(db: Database, run: Run, params: Mapping[str, Any]) -> None:
    if run.first_dispatched_at is not None:
        raise errors.Immutable(run.handle, run.status.shown)
    if run.status.final:
        raise errors.RunIsFinal(run.handle, run.status)
    spec = jobs.version_spec(db, run.job_id, run.version)
    merged = merged_params(replace(spec, work=replace(spec.work, params={**spec.work.params, **run.params})), params)
    queue.set_params(db, run.id, merged)


def _edit_priority(db: Database, run: Run, priority: int) -> None:
    if run.status is not Status.QUEUED:
        raise errors.NotQueued(run.handle, run.status.shown)
    aging = queue.aging(db)
    place = place_of(priority, created_ms=created_ms(run.id), aging=aging)
    position = run.position if aging is None else place.position
    queue.set_priority(db, run.id, priority=priority, rank=place.rank, position=position)


def count_start(db: Database, by: Author, *, now: datetime, force: bool = False) -> dict[str, str]:
    """Count a start by a run, a token or a tool, and return its record; raise PolicyRefused by `agent_policy`."""
    if by.is_agent:
        lock_section(db, CriticalSection.MAKING)
        refuse_start(db, by, now=now, force=force)
        jobs.count_making(db, by.name, "run", now=now, since=now - agents.HOUR)
    return {"maker": by.name, **({"run": by.run} if by.run else {})}


def refuse_start(db: Database, by: Author, *, now: datetime, force: bool = False) -> None:
    """Raise PolicyRefused if `agent_policy` does not allow this author one more run."""
    if not by.is_agent:
        return
    started = jobs.made_since(db, by.name, kind="run", since=now - agents.HOUR)
    verdict = agents.judge_start(jobs.policy(db), started=started, force=force)
    if isinstance(verdict, agents.PolicyRefusal):
        raise errors.PolicyRefused(verdict.text, rule=verdict.rule, hint=verdict.hint)
