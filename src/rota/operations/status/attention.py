"""Attention items: failing jobs, stale processes, failed reports; and their acknowledgement."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from rota.engine.activity import KIND as TICK
from rota.engine.membership.control import installed_version
from rota.engine.membership.locks import live_processes, worker_here
from rota.model.agents import provider_pool
from rota.model.amounts import counted
from rota.model.clock import iso, say_duration
from rota.model.errors import InvalidValue, NothingNeeds, nearest
from rota.model.records import Abandoned, Claim, Job, Run
from rota.model.serialize import to_shape
from rota.model.spec import JobSpec
from rota.model.states import Reason, Status
from rota.operations.capacity import HoldView, hold_views
from rota.operations.jobs import HELD, LAST_OUTCOMES, JobView, job_view
from rota.operations.project.locate import in_scope
from rota.operations.workers import Presence, WorkerState, all_drained
from rota.rules.budgets import say_used
from rota.rules.health_checks import Finding, Severity
from rota.rules.liveness import say_skew
from rota.store.driver import Database, Store
from rota.store.tables import audit, jobs, notifications, processes, queue, run_queries, work_items
from rota.store.tables.activity import POLL
from rota.store.tables.audit import Acknowledgement
from rota.store.tables.jobs import digest_of
from rota.text.format import day_time
from rota.text.jobs import say_abandoned, say_hold
from rota.text.runs import say_attempt, say_retrying

if TYPE_CHECKING:
    from rota.operations.budgets import AccountView
    from rota.operations.status.heartbeat import Heartbeat

MAX_COUNTED_CLAIMS = 1000


class Untold(Struct, frozen=True):
    """A work source, the number of its failed reports, and the newest of them."""

    source: str
    count: int
    newest: Claim

    @property
    def text(self) -> str:
        """The problem in words."""
        what = counted(self.count, "report or release was", "reports or releases were")
        return f"{what} abandoned: {self.newest.error or 'no answer'}"


def given_up(db: Database, since: datetime, *, prefix: str = "") -> list[Untold]:
    """Return the sources with failed reports, by name; `prefix` selects jobs by the beginning of their names."""
    claims = work_items.given_up(db, since, prefix=prefix, limit=MAX_COUNTED_CLAIMS)
    claims.sort(key=lambda claim: claim.source.title)
    groups = [list(group) for _, group in groupby(claims, key=lambda claim: claim.source.title)]
    return [Untold(group[0].source.title, len(group), group[0]) for group in groups]


STUCK_AFTER = timedelta(minutes=1)
FAILURES_SHOWN_FOR = timedelta(days=1)
TOOLS_NAMED = 3


class Attention(Struct, frozen=True):
    """One item that needs attention: the job or file, the problem, and a command for details.

    `sign` changes only when something new happens; `subject` is the run or job of the item.
    """

    name: str
    what: str
    command: str
    kind: str = ""
    sign: str = ""
    subject: str = ""

    @property
    def topic(self) -> str:
        """The identity of the item, which stays when it happens again."""
        return f"{self.kind}:{self.name}"


class AttentionItem(Struct, frozen=True):
    """An item that needs attention; `seen` if exactly this was acknowledged."""

    attention: Attention
    mark: str
    seen: Acknowledgement | None = None


def with_seen(db: Database, found: Iterable[Attention]) -> list[AttentionItem]:
    """Return items, each with its acknowledgement, unless something new happened since."""
    from hashlib import sha256

    acknowledged = audit.acknowledgements(db)
    items = []
    for item in found:
        mark = sha256(item.sign.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        seen = acknowledged.get(item.topic)
        items.append(AttentionItem(item, mark, seen if seen is not None and seen.sign == mark else None))
    return items


class SeenJson(TypedDict):
    """The acknowledgement of an item."""

    by: str
    at: str


class NeedJson(TypedDict):
    """An item that needs attention, as `rota ack --json`; `about` is its run or job."""

    name: str
    kind: str
    what: str
    command: str
    about: str | None
    acknowledged: SeenJson | None


def need_json(need: AttentionItem) -> NeedJson:
    """Return an item that needs attention as JSON."""
    seen = None if need.seen is None else to_shape(SeenJson, need.seen, by=need.seen.actor)
    return to_shape(NeedJson, need.attention, about=need.attention.subject or None, acknowledged=seen)


def attention(
    db: Database,
    answer: Mapping[str, Any],
    *,
    views: Sequence[JobView],
    running: Sequence[Run],
    holds: Sequence[HoldView],
    now: datetime,
    scope: str = "",
) -> tuple[Attention, ...]:
    """Return the attention items of jobs and runs; `answer` is the answer of the scheduler's loop."""
    return (
        *_broken_file(answer),
        *_failing_parts(answer),
        *(note for run in running if (note := _late_end(run, jobs.version_spec(db, run.job_id, run.version), now))),
        *_abandoned(queue.abandoned(db), now=now, scope=scope),
        *(note for view in views if (note := _needs(view, now, holds))),
        *_failed_reports(db, now - FAILURES_SHOWN_FOR, prefix=f"{scope}/" if scope else ""),
    )


def _broken_file(answer: Mapping[str, Any]) -> tuple[Attention, ...]:
    problem = answer.get("file_problem")
    if not problem:
        return ()
    if str(problem).startswith(HELD):
        return (Attention("rota.yaml", str(problem), "rota apply --dry-run", kind="file", sign=str(problem)),)
    first, *more = str(problem).splitlines()
    rest = f" (and {len(more)} more)" if more else ""
    what = f"{first}{rest}; the last good jobs stay active"
    return (Attention("rota.yaml", what, "rota check", kind="file", sign=str(problem)),)


def _failing_parts(answer: Mapping[str, Any]) -> tuple[Attention, ...]:
    """Return the problems that the scheduler reports: its storage, or a loop."""
    storage, damage = answer.get("storage_problem"), answer.get("damage")
    if damage:
        return (Attention("database", str(damage), "rota doctor", kind="damage", sign=str(damage)),)
    if storage:
        return (Attention("storage", str(storage), "rota doctor", kind="storage", sign=str(storage)),)
    failing = [(loop["name"], str(loop["error"])) for loop in answer.get("loops", ()) if loop["error"]]
    return tuple(
        Attention(f"{name} loop", error, "rota status --loops", kind="loop", sign=error) for name, error in failing
    )


def _failed_reports(db: Database, since: datetime, *, prefix: str) -> Iterator[Attention]:
    """Yield the targets and work sources with failed notifications or reports."""
    for failed in notifications.failed_since(db, since, prefix=prefix):
        what, sign = f"{counted(failed.count, 'notification')} failed: {failed.error}", iso(failed.newest)
        yield Attention(failed.target, what, "rota deliveries --failed", kind="deliveries", sign=sign)
    for source in given_up(db, since, prefix=prefix):
        handle = source.newest.handle
        yield Attention(source.source, source.text, f"rota show {handle}", kind="source", sign=handle, subject=handle)


def _late_end(run: Run, spec: JobSpec, now: datetime) -> Attention | None:
    timeout, started = spec.work.timeout, run.started_at
    if timeout is None or started is None or now - started <= timeout + spec.work.term_grace + STUCK_AFTER:
        return None
    what = f"stuck: running for {say_duration(now - started)}, its timeout is {say_duration(timeout)}"
    return Attention(run.job, what, f"rota explain {run.handle}", kind="stuck", sign=run.id, subject=run.handle)


def _abandoned(found: Sequence[Abandoned], *, now: datetime, scope: str) -> Iterator[Attention]:
    """Yield the functions that still run after the end of their runs."""
    for left in found:
        if left.job is None or in_scope(left.job, scope):
            what = f"abandoned: {say_abandoned(left, now=now)}"
            command, subject = (f"rota explain {left.handle}", left.handle) if left.job else ("rota status", "")
            yield Attention(left.job or left.handle, what, command, kind="abandoned", sign=left.run_id, subject=subject)


def _needs(view: JobView, now: datetime, holds: Sequence[HoldView] = ()) -> Attention | None:
    newest, name = next((run for run in view.last if run.status.final), None), view.job.name
    if view.state == "provisional":
        whose = f", created by {view.job.made.by}" if view.job.made else ""
        sign = digest_of(view.job.spec)
        return Attention(
            name, f"waiting for approval{whose}", f"rota approve {name}", kind="approval", sign=sign, subject=name
        )
    if newest is None:
        return None
    if view.failing:
        return _failing(view, now, holds)
    if newest.reason is Reason.MISSED:
        count = counted(newest.count or 1, "instant")
        what = f"missed {count}, {say_duration(now - newest.created_at)} ago"
        return _about(newest, what, kind="missed")
    if newest.reason is Reason.BUDGET and name == POLL:
        why = f": {newest.error}" if newest.error else ""
        return _about(newest, f"SKIPPED {newest.reason}, also the jobs that need the poll{why}", kind="skipped")
    if newest.reason in (Reason.CONDITION_ERROR, Reason.EXPIRED):
        why = f": {newest.error}" if newest.error else ""
        return _about(newest, f"SKIPPED {newest.reason}{why}", kind="skipped")
    return None


def _about(run: Run, what: str, *, kind: str) -> Attention:
    return Attention(run.job, what, f"rota explain {run.job}", kind=kind, sign=run.id, subject=run.handle)


def _failing(view: JobView, now: datetime, holds: Sequence[HoldView]) -> Attention:
    failed = next(run for run in view.last if run.status is Status.FAILED)
    why = f": {failed.error}" if failed.error else ""
    parts = (f"FAILED {failed.reason}", *_tried(view, failed, now), _refused(view, holds, now))
    told = ", ".join(part for part in parts if part)
    command = f"rota explain {failed.handle}"
    return Attention(view.job.name, f"{told}{why}", command, kind="failing", sign=failed.id, subject=failed.handle)


def _refused(view: JobView, holds: Sequence[HoldView], now: datetime) -> str:
    """Return the hold of a job's provider in words, or nothing."""
    agent, zone = view.job.spec.work.agent, view.job.spec.schedule.timezone
    held = next((one.hold for one in holds if agent is not None and one.hold.provider == agent.provider), None)
    return "" if held is None else say_hold(provider_pool(held.provider), held.until, zone=zone, now=now)


def _tried(view: JobView, failed: Run, now: datetime) -> tuple[str, str]:
    """Return the retry or attempt of a failure, and the backoff of the job."""
    job = view.job
    retry = next((run for run in view.unfinished if run.retry_of == failed.id), None)
    tried = say_retrying(retry, job.spec) if retry else say_attempt(failed, job.spec)
    until = job.backing_off_until if job.spec.on_repeated_failure else None
    held = until is not None and until > now
    zone = job.spec.schedule.timezone
    return tried, f"held back until {day_time(until, zone, now=now)}" if until is not None and held else ""


def denied(view: JobView) -> Attention | None:
    """Return an item if the newest run of a job completed although tools were denied."""
    newest = next((run for run in view.last if run.status.final), None)
    if newest is None or not newest.denied_tools or newest.status is not Status.COMPLETED:
        return None
    tools = list(dict.fromkeys(newest.denied_tools))
    more = ", …" if len(tools) > TOOLS_NAMED else ""
    what = f"was denied {', '.join(tools[:TOOLS_NAMED])}{more} and completed without them"
    command = f"rota show {newest.handle}"
    return Attention(view.job.name, what, command, kind="denied", sign=newest.id, subject=newest.handle)


def held(view: HoldView, *, zone: str, now: datetime) -> Attention:
    """Return the item of a held provider."""
    hold = view.hold
    until = say_hold(provider_pool(hold.provider), hold.until, zone=zone, now=now)
    what = f"{until}, {view.waiting} waiting: {hold.why}"
    command, sign = f"rota agents release {hold.provider}", iso(hold.set_at)
    return Attention(hold.provider, what, command, kind="held", sign=sign, subject=view.run or "")


CALLED = {"serve": "the scheduler", "worker": "the worker", "guest": "a program that embeds rota"}
MOVED = "set `store:` in rota.yaml to the new database; two schedulers would run every job twice"
RESTART = "restart it: `rota service restart`, or `rota stop --detach` and `rota serve`"
RESTART_THERE = "restart it there: `rota service restart`, or `rota stop --detach` and `rota serve`"


class Outdated(Struct, frozen=True):
    """A live process of another version than the installed one; `where` names its machine if it is remote."""

    kind: str
    pid: int
    version: str
    installed: str
    where: str = ""

    @property
    def text(self) -> str:
        """The difference in words."""
        name, place = CALLED.get(self.kind, self.kind), f" on {self.where}" if self.where else ""
        return f"{name}{place} (pid {self.pid}) is rota {self.version}, installed is {self.installed}"


def outdated(db: Database, state: Path | None) -> list[Outdated]:
    """Return the live processes of other versions, as seen from a state folder, without ticks, which end soon."""
    installed = installed_version()
    if state is None or installed is None:
        return []
    own = worker_here(db, state)
    names = {one.id: one.called for one in processes.workers(db)}
    return [
        Outdated(
            one.kind,
            one.identity.pid,
            one.version,
            installed,
            "" if one.worker_id == own else names.get(one.worker_id, one.worker_id),
        )
        for one in live_processes(db, state)
        if one.kind != TICK and one.version != installed
    ]


def left_behind(db: Database, state: Path | None) -> Iterator[Attention]:
    """Yield the schedulers that need a restart, and a move of the database."""
    if (place := moved_to(db)) is not None:
        yield Attention("database", f"was migrated to {place}: use that one", "rota doctor", kind="moved", sign=place)
    for one in outdated(db, state):
        yield Attention(
            one.where or "scheduler", f"{one.text}: restart it", "rota doctor", kind="version", sign=one.text
        )


def moved_to(db: Database) -> str | None:
    """Return the destination to which `rota migrate` moved this database, or None."""
    from rota.store.transfer import MOVED_TO

    row = db.row("meta_get", key=MOVED_TO)
    return row[0] if row is not None else None


def left_behind_findings(db: Database, state: Path) -> list[Finding]:
    """Return findings about schedulers of other versions, and about a move of the database."""
    place = moved_to(db)
    moved = (
        [] if place is None else [Finding("store", Severity.WARNING, f"this database was migrated to {place}", MOVED)]
    )
    return moved + [
        Finding("version", Severity.WARNING, one.text, RESTART_THERE if one.where else RESTART)
        for one in outdated(db, state)
    ]


FIRST = ("damage", "storage", "file", "workers", "loop", "failing", "stuck", "abandoned")
"""The kinds that come first, in order."""


def needs_in(
    db: Database,
    beat: "Heartbeat",
    *,
    living: Sequence[Job],
    running: Sequence[Run],
    budgets: "Sequence[AccountView]",
    zone: str,
    now: datetime,
    scope: str = "",
) -> tuple[AttentionItem, ...]:
    """Return the attention items of these jobs and runs, the worst first."""
    striking = run_queries.striking_jobs(db, newest=LAST_OUTCOMES)
    views = [  # most jobs are fine, and reading their runs is expensive
        job_view(db, job)
        for job in living
        if job.id in striking or job.provisional_at or job.spec.work.agent or job.name == POLL
    ]
    holds = hold_views(db)
    items = [
        *machines_needing(beat.workers),
        *left_behind(db, beat.state),
        *attention(db, beat.answer, views=views, running=running, holds=holds, now=now, scope=scope),
        *(note for view in views if (note := denied(view))),
        *(held(hold, zone=zone, now=now) for hold in holds),
        *(_waiting(account) for account in budgets if account.waiting),
    ]
    items.sort(key=lambda item: FIRST.index(item.kind) if item.kind in FIRST else len(FIRST))
    return tuple(with_seen(db, items))


def _waiting(view: "AccountView") -> Attention:
    account, polls = view.account, any(run.rpartition(":")[0] == POLL for run in view.waiting)
    wait = counted(len(view.waiting), "run waits", "runs wait")
    held = "; jobs that need the poll also wait" if polls else ""
    what = f"{wait} for room: {say_used(view.used, account.limit, account.unit)}{held}"
    return Attention(
        account.name, what, f"rota budgets {account.name}", kind="budget", sign=view.window.since.isoformat()
    )


def chosen_among(
    needs: Sequence[AttentionItem], names: Sequence[str], *, everything: bool = False
) -> tuple[AttentionItem, ...]:
    """Return the chosen items: all, or those of names as `rota status` shows them, or of runs; else NothingNeeds."""
    if everything == bool(names):
        raise InvalidValue("name items, or pass `all`", hint="`rota ack` lists the items")
    if everything:
        return tuple(needs)
    for name in names:
        if not any(_is(need, name) for need in needs):
            near = nearest(name, [need.attention.name for need in needs])
            raise NothingNeeds(name, near)
    return tuple(need for need in needs if any(_is(need, name) for name in names))


def _is(need: AttentionItem, name: str) -> bool:
    return name in (need.attention.name, need.attention.subject, need.attention.topic)


def acknowledge(
    store: Store, chosen: Sequence[AttentionItem], *, needs: Sequence[AttentionItem], actor: str, now: datetime
) -> tuple[AttentionItem, ...]:
    """Acknowledge items until something new happens; delete acknowledgements of topics that are not in `needs`."""
    current = {need.attention.topic for need in needs}

    def change(db: Database) -> None:
        for topic in audit.acknowledgements(db):
            if topic not in current:
                audit.forget(db, topic)
        for need in chosen:
            audit.acknowledge(db, need.attention.topic, sign=need.mark, actor=actor, now=now)

    store.write(change)
    return tuple(replace(need, seen=Acknowledgement(need.attention.topic, need.mark, actor, now)) for need in chosen)


def point_out(store: Store, topics: Sequence[str]) -> None:
    """Show acknowledged items again."""
    store.write(lambda db: [audit.forget(db, topic) for topic in topics])


def machines_needing(found: Sequence[WorkerState]) -> Iterator[Attention]:
    """Yield the machines that need attention: no scheduler fires, or a lost one left runs to keepers."""
    if found and not any({"serve", "guest"}.intersection(one.kinds) for one in found):
        what = "no machine serves: due jobs do not fire"
        yield Attention("workers", what, "rota serve", kind="workers", sign=what)
    if drained := all_drained(found):
        what = f"all running workers are drained ({', '.join(drained)}): no run is claimed"
        yield Attention("workers", what, f"rota workers resume {drained[0]}", kind="workers", sign=what)
    for one in found:
        name, left = one.worker.called, counted(one.taken, "run")
        if one.presence is Presence.GONE and one.taken:
            what = f"is gone and left {left} to {'its keeper' if one.taken == 1 else 'their keepers'}"
            command = "rota serve" if one.here else f"rota workers forget {name}"
            yield Attention(name, what, command, kind="worker", sign=what)
        if one.skew is not None:
            what = f"its clock is {say_skew(one.skew)}: it fires and starts nothing until the clock is right"
            yield Attention(name, what, "rota workers", kind="clock", sign=name)
        if one.crashes:
            what = f"was drained because it crashed {one.crashes} times in a row: find the cause"
            yield Attention(name, what, f"rota workers resume {name}", kind="worker", sign=what)
