"""Attention items: failing jobs, stale processes, failed reports; and their acknowledgement."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from rota.engine.activity import KIND as TICK
from rota.engine.activity import everything_paused
from rota.engine.membership.control import installed_version
from rota.engine.membership.locks import live_processes, worker_here
from rota.model.amounts import counted
from rota.model.attention import Attention, ItemKind
from rota.model.budgets import Per
from rota.model.clock import iso, say_duration
from rota.model.errors import InvalidValue, NothingNeeds, nearest
from rota.model.questions import MAX_OPEN, Subject
from rota.model.records import Abandoned, Claim, Job, Run, Worktree
from rota.model.serialize import to_shape
from rota.model.spec import JobSpec, Work
from rota.model.states import Reason, Status, WaitingFor
from rota.operations.capacity import HoldView, hold_views
from rota.operations.jobs import HELD, LAST_OUTCOMES, JobView, job_view
from rota.operations.project.locate import in_scope
from rota.operations.workers import Presence, WorkerState, all_drained
from rota.rules.attention import WORKTREE_AGE, BudgetLevel, budget_level, in_order, is_stuck, mark_after
from rota.rules.budgets import say_used
from rota.rules.health_checks import Finding, Severity
from rota.rules.liveness import REASON as CRASH_LOOP
from rota.rules.liveness import say_skew
from rota.store.driver import Database, Store
from rota.store.tables import attention as noted
from rota.store.tables import audit, chats, jobs, notifications, processes, questions, queue, run_queries, work_items
from rota.store.tables.activity import POLL
from rota.store.tables.audit import Acknowledgement
from rota.store.tables.jobs import digest_of
from rota.text.format import day_time
from rota.text.jobs import say_abandoned, say_provider_hold
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


FAILURES_SHOWN_FOR = timedelta(days=1)
TOOLS_NAMED = 3


OF_JOBS = frozenset(
    {
        ItemKind.FAILING,
        ItemKind.STUCK,
        ItemKind.ABANDONED,
        ItemKind.APPROVAL,
        ItemKind.MISSED,
        ItemKind.SKIPPED,
        ItemKind.DENIED,
        ItemKind.WORKTREE,
    }
)
"""The kinds whose name is a job."""


class AttentionItem(Struct, frozen=True):
    """An item that needs attention; `seen` if exactly this was acknowledged."""

    attention: Attention
    mark: str
    seen: Acknowledgement | None = None

    def about(self, job: str) -> bool:
        """Return whether the item is one of a job."""
        return self.attention.kind in OF_JOBS and self.attention.name == job


def with_seen(db: Database, found: Iterable[Attention]) -> list[AttentionItem]:
    """Return items, each with its acknowledgement, unless something new happened since."""
    acknowledged = audit.acknowledgements(db)
    items = []
    for item in found:
        seen = acknowledged.get(item.topic)
        mark = mark_after(item, [seen.sign] if seen is not None else ())
        items.append(AttentionItem(item, mark, seen if seen is not None and seen.sign == mark else None))
    return items


class SeenJson(TypedDict):
    """The acknowledgement of an item."""

    by: str
    at: str


class NeedJson(TypedDict):
    """An item that needs attention, as `rota ack --json`; `about` is its run or job, `mark` changes with news of it."""

    topic: str
    mark: str
    name: str
    kind: str
    what: str
    command: str
    about: str | None
    acknowledged: SeenJson | None


def need_json(need: AttentionItem) -> NeedJson:
    """Return an item that needs attention as JSON."""
    seen = None if need.seen is None else to_shape(SeenJson, need.seen, by=need.seen.actor)
    about = need.attention.subject or None
    return to_shape(NeedJson, need.attention, mark=need.mark, about=about, acknowledged=seen)


def attention(
    db: Database,
    answer: Mapping[str, Any],
    *,
    views: Sequence[JobView],
    running: Sequence[Run],
    holds: Sequence[HoldView],
    now: datetime,
    scope: str = "",
    state: Path | None = None,
) -> tuple[Attention, ...]:
    """Return the attention items of jobs and runs; `answer` is the answer of the scheduler's loop."""
    return (
        *_broken_file(answer),
        *_failing_parts(answer),
        *(note for run in running if (note := _stuck(run, jobs.version_spec(db, run.job_id, run.version), now, state))),
        *_abandoned(queue.abandoned(db), now=now, scope=scope),
        *(note for view in views if (note := _needs(view, now, holds))),
        *_failed_reports(db, now - FAILURES_SHOWN_FOR, prefix=f"{scope}/" if scope else ""),
    )


def _broken_file(answer: Mapping[str, Any]) -> tuple[Attention, ...]:
    problem = answer.get("file_problem")
    if not problem:
        return ()
    if str(problem).startswith(HELD):
        return (Attention("rota.yaml", str(problem), "rota apply --dry-run", kind=ItemKind.FILE, sign=str(problem)),)
    first, *more = str(problem).splitlines()
    rest = f" (and {len(more)} more)" if more else ""
    what = f"{first}{rest}; the last good jobs stay active"
    return (Attention("rota.yaml", what, "rota check", kind=ItemKind.FILE, sign=str(problem)),)


def _failing_parts(answer: Mapping[str, Any]) -> tuple[Attention, ...]:
    """Return the problems that the scheduler reports: its storage, or a loop."""
    storage, damage = answer.get("storage_problem"), answer.get("damage")
    if damage:
        return (Attention("database", str(damage), "rota doctor", kind=ItemKind.DAMAGE, sign=str(damage)),)
    if storage:
        return (Attention("storage", str(storage), "rota doctor", kind=ItemKind.STORAGE, sign=str(storage)),)
    failing = [(loop["name"], str(loop["error"])) for loop in answer.get("loops", ()) if loop["error"]]
    return tuple(
        Attention(f"{name} loop", error, "rota status --loops", kind=ItemKind.LOOP, sign=error)
        for name, error in failing
    )


def _failed_reports(db: Database, since: datetime, *, prefix: str) -> Iterator[Attention]:
    """Yield the targets and work sources with failed notifications or reports."""
    if not prefix:
        yield from _disabled_targets(db)
    for failed in notifications.failed_since(db, since, prefix=prefix):
        what, sign = f"{counted(failed.count, 'notification')} failed: {failed.error}", iso(failed.newest)
        yield Attention(failed.target, what, "rota deliveries --failed", kind=ItemKind.DELIVERIES, sign=sign)
    if not prefix:
        yield from _unsent_messages(db, since)
    for source in given_up(db, since, prefix=prefix):
        handle = source.newest.handle
        yield Attention(
            source.source, source.text, f"rota show {handle}", kind=ItemKind.SOURCE, sign=handle, subject=handle
        )


def _unsent_messages(db: Database, since: datetime) -> Iterator[Attention]:
    """Yield the chats that did not get a question or a notice."""
    unsent = chats.failed_since(db, since)
    declared = notifications.targets(db) if unsent else {}
    for messages in unsent:
        if messages.target in declared:
            what, command = (
                f"{counted(messages.count, 'message')} failed: {messages.error}",
                f"rota notify test {messages.target}",
            )
            yield Attention(messages.target, what, command, kind=ItemKind.DELIVERIES, sign=iso(messages.newest))


def _disabled_targets(db: Database) -> Iterator[Attention]:
    """Yield the targets that get nothing until a person enables them."""
    disabled = notifications.disabled(db)
    for name, target in notifications.targets(db).items() if disabled else ():
        endpoint = disabled.get(target.endpoint)
        if endpoint is not None and endpoint.disabled_at is not None:
            what, command = f"disabled, it gets no notifications: {endpoint.error}", f"rota notify enable {name}"
            yield Attention(name, what, command, kind=ItemKind.DELIVERIES, sign=f"disabled {iso(endpoint.disabled_at)}")


def _stuck(run: Run, spec: JobSpec, now: datetime, state: Path | None) -> Attention | None:
    """Return the item of a run that outlives its timeout, or is silent beyond its idle timeout."""
    started, work = run.started_at, spec.work
    if started is None:
        return None
    check = work.postcondition.timeout if work.postcondition is not None else timedelta()
    heard, grace = _heard(run, work, started, state), work.term_grace + check
    if work.timeout is not None and is_stuck(running=now - started, timeout=work.timeout, grace=grace):
        silent = f", last output {say_duration(now - heard)} ago" if heard and heard > started else ""
        what = f"stuck: running for {say_duration(now - started)}, its timeout is {say_duration(work.timeout)}{silent}"
    elif heard and work.idle_timeout and is_stuck(running=now - heard, timeout=work.idle_timeout, grace=grace):
        most = say_duration(work.idle_timeout)
        what = f"stuck: no output for {say_duration(now - heard)}, its idle timeout is {most}"
    else:
        return None
    return Attention(run.job, what, f"rota explain {run.handle}", kind=ItemKind.STUCK, sign=run.id, subject=run.handle)


def _heard(run: Run, work: Work, started: datetime, state: Path | None) -> datetime | None:
    """Return the time of a run's last output, else its start; None for a run of another machine."""
    if state is None or (work.timeout is None and work.idle_timeout is None):
        return None
    from rota.runners.output import folder_of, written_at

    folder = folder_of(state, run.id)
    return max(started, written_at(folder) or started) if folder.is_dir() else None


def _abandoned(found: Sequence[Abandoned], *, now: datetime, scope: str) -> Iterator[Attention]:
    """Yield the functions that still run after the end of their runs."""
    for left in found:
        if left.job is None or in_scope(left.job, scope):
            what = f"abandoned: {say_abandoned(left, now=now)}"
            command, subject = (f"rota explain {left.handle}", left.handle) if left.job else ("rota status", "")
            yield Attention(
                left.job or left.handle, what, command, kind=ItemKind.ABANDONED, sign=left.run_id, subject=subject
            )


def _needs(view: JobView, now: datetime, holds: Sequence[HoldView] = ()) -> Attention | None:
    newest, name = next((run for run in view.last if run.status.final), None), view.job.name
    if view.state == "provisional":
        whose = f", created by {view.job.made.by}" if view.job.made else ""
        sign = digest_of(view.job.spec)
        return Attention(
            name,
            f"waiting for approval{whose}",
            f"rota approve {name}",
            kind=ItemKind.APPROVAL,
            sign=sign,
            subject=name,
        )
    held = next((run for run in view.unfinished if run.waiting_for is WaitingFor.UNCERTIFIED), None)
    if held is not None:
        return _uncertified(held)
    if newest is None:
        return None
    if view.failing:
        return _failing(view, now, holds)
    if newest.reason is Reason.MISSED:
        count = counted(newest.count or 1, "instant")
        what = f"missed {count}, {say_duration(now - newest.created_at)} ago"
        return _about(newest, what, kind=ItemKind.MISSED)
    if newest.reason is Reason.BUDGET and name == POLL:
        why = f": {newest.error}" if newest.error else ""
        return _about(newest, f"SKIPPED {newest.reason}, also the jobs that need the poll{why}", kind=ItemKind.SKIPPED)
    if newest.reason in (Reason.CONDITION_ERROR, Reason.EXPIRED):
        why = f": {newest.error}" if newest.error else ""
        return _about(newest, f"SKIPPED {newest.reason}{why}", kind=ItemKind.SKIPPED)
    return None


def _uncertified(run: Run) -> Attention:
    told = run.decisions.get("uncertified", {})
    agent, why = told.get("agent", "its agent"), told.get("why", "")
    what = f"waits until {agent} is certified: {why}"
    command = f"rota agents certify {agent}"
    return Attention(run.job, what, command, kind=ItemKind.HELD, sign=f"{agent} {why}", subject=run.handle)


def _about(run: Run, what: str, *, kind: ItemKind) -> Attention:
    return Attention(run.job, what, f"rota explain {run.job}", kind=kind, sign=run.id, subject=run.handle)


def _failing(view: JobView, now: datetime, holds: Sequence[HoldView]) -> Attention:
    failed = next(run for run in view.last if run.status is Status.FAILED)
    why = f": {failed.error}" if failed.error else ""
    refused = _refused(view, holds, now)
    parts = (f"FAILED {failed.reason}", *_tried(view, failed, now, held=bool(refused)), refused)
    told = ", ".join(part for part in parts if part)
    command = f"rota explain {failed.handle}"
    return Attention(
        view.job.name, f"{told}{why}", command, kind=ItemKind.FAILING, sign=failed.id, subject=failed.handle
    )


def _refused(view: JobView, holds: Sequence[HoldView], now: datetime) -> str:
    """Return the hold of a job's provider in words, or nothing."""
    agent, zone = view.job.spec.work.agent, view.job.spec.schedule.timezone
    held = next((hold.hold for hold in holds if agent is not None and hold.hold.provider == agent.provider), None)
    return "" if held is None else say_provider_hold(held, zone=zone, now=now)


def _tried(view: JobView, failed: Run, now: datetime, *, held: bool) -> tuple[str, str]:
    """Return the retry or attempt of a failure, and the backoff of the job."""
    job = view.job
    retry = next((run for run in view.unfinished if run.retry_of == failed.id), None)
    tried = say_retrying(retry, job.spec, held=held) if retry else say_attempt(failed, job.spec)
    until = job.backing_off_until if job.spec.on_repeated_failure else None
    if until is None or until <= now:
        return tried, ""
    return tried, f"held back until {day_time(until, job.spec.schedule.timezone, now=now)}"


def denied(view: JobView) -> Attention | None:
    """Return an item if the newest run of a job completed although tools were denied."""
    newest = next((run for run in view.last if run.status.final), None)
    if newest is None or not newest.denied_tools or newest.status is not Status.COMPLETED:
        return None
    tools = list(dict.fromkeys(newest.denied_tools))
    more = ", …" if len(tools) > TOOLS_NAMED else ""
    what = f"was denied {', '.join(tools[:TOOLS_NAMED])}{more} and completed without them"
    command = f"rota show {newest.handle}"
    return Attention(view.job.name, what, command, kind=ItemKind.DENIED, sign=newest.id, subject=newest.handle)


def held(view: HoldView, *, zone: str, now: datetime) -> Attention:
    """Return the item of a held provider."""
    hold = view.hold
    until = say_provider_hold(hold, zone=zone, now=now)
    what = f"{until}, {view.waiting} waiting: {hold.why}"
    command = "rota agents check" if hold.login else f"rota agents release {hold.provider}"
    sign = f"{hold.problem} {iso(hold.since)}"
    return Attention(hold.provider, what, command, kind=ItemKind.HELD, sign=sign, subject=view.run or "")


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
    names = {worker.id: worker.called for worker in processes.workers(db)}
    return [
        Outdated(
            process.kind,
            process.identity.pid,
            process.version,
            installed,
            "" if process.worker_id == own else names.get(process.worker_id, process.worker_id),
        )
        for process in live_processes(db, state)
        if process.kind != TICK and process.version != installed
    ]


def left_behind(db: Database, state: Path | None) -> Iterator[Attention]:
    """Yield the schedulers that need a restart, and a move of the database."""
    if (place := moved_to(db)) is not None:
        yield Attention(
            "database", f"was migrated to {place}: use that one", "rota doctor", kind=ItemKind.MOVED, sign=place
        )
    for one in outdated(db, state):
        yield Attention(
            one.where or "scheduler", f"{one.text}: restart it", "rota doctor", kind=ItemKind.VERSION, sign=one.text
        )


def moved_to(db: Database) -> str | None:
    """Return the destination to which `rota migrate` moved this database, or None."""
    from rota.store.migrate import MOVED_TO

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
        *_scheduler(beat),
        *_crash_pause(db),
        *machines_needing(beat.workers),
        *left_behind(db, beat.state),
        *attention(db, beat.answer, views=views, running=running, holds=holds, now=now, scope=scope, state=beat.state),
        *(note for view in views if (note := denied(view))),
        *(held(hold, zone=zone, now=now) for hold in holds),
        *(note for account in budgets if (note := _short(account))),
        *_questions(db, scope=scope),
        *_old_worktrees(db, now=now, scope=scope),
    ]
    return tuple(with_seen(db, in_order(items)))


def _short(view: "AccountView") -> Attention | None:
    """Return the item of a budget that is nearly used up, used up, or for which runs wait."""
    account = view.account
    level = budget_level(settled=view.settled, limit=account.limit, waiting=len(view.waiting))
    if level is None or (account.per is Per.MINUTE and not view.waiting):
        return None
    used, window = say_used(view.used, account.limit, account.unit), view.window.since.isoformat()
    what = _waiting(view, used) if view.waiting else f"{level}: {used}"
    also = (f"{BudgetLevel.USED_UP} {window}",) if level is BudgetLevel.NEARLY else ()
    command = f"rota budgets {account.name}"
    return Attention(account.name, what, command, kind=ItemKind.BUDGET, sign=f"{level} {window}", also=also)


def _waiting(view: "AccountView", used: str) -> str:
    polls = any(run.rpartition(":")[0] == POLL for run in view.waiting)
    wait = counted(len(view.waiting), "run waits", "runs wait")
    return f"{wait} for room: {used}{'; jobs that need the poll also wait' if polls else ''}"


def _questions(db: Database, *, scope: str) -> Iterator[Attention]:
    """Yield the open questions; a proposal is an item of its job."""
    for question in questions.open_questions(db, limit=MAX_OPEN):
        if question.subject is not Subject.PROPOSAL and in_scope(question.job, scope):
            number, subject = question.number, question.run or question.job
            what, command = f"{question.job} asks: {question.text}", f"rota answer {number}"
            yield Attention(
                f"question {number}", what, command, kind=ItemKind.QUESTION, sign=str(number), subject=subject
            )


def _old_worktrees(db: Database, *, now: datetime, scope: str) -> Iterator[Attention]:
    """Yield the jobs whose worktrees were kept for more than a week."""
    old: dict[str, list[Worktree]] = {}
    for worktree in work_items.kept_worktrees(db):
        name = worktree.handle.rpartition(":")[0] or worktree.handle
        if worktree.kept_at is not None and now - worktree.kept_at >= WORKTREE_AGE and in_scope(name, scope):
            old.setdefault(name, []).append(worktree)
    for name, worktrees in old.items():
        oldest, newest = worktrees[0], worktrees[-1]
        count = counted(len(worktrees), "worktree was", "worktrees were")
        what = f"{count} kept for more than a week, the oldest at {oldest.path}: {oldest.kept_why}"
        command = "rota worktrees"
        yield Attention(name, what, command, kind=ItemKind.WORKTREE, sign=newest.run_id, subject=oldest.handle)


def _scheduler(beat: "Heartbeat") -> Iterator[Attention]:
    """Yield a scheduler that is alive and does not work, cron that runs its jobs too, and ticks that stopped."""
    if beat.liveness == "stalled":
        what = f"stalled: pid {beat.pid} holds the lock and does not answer"
        yield Attention("scheduler", what, "rota doctor", kind=ItemKind.SCHEDULER, sign=f"stalled {beat.pid}")
    failing = beat.answer.get("failing")
    if failing and failing["error"] != beat.answer.get("storage_problem"):  # the storage is an item of its own
        what = f"{failing['stage']} fails, nothing starts: {failing['error']}"
        yield Attention("scheduler", what, "rota doctor", kind=ItemKind.SCHEDULER, sign=what)
    doubled = beat.answer.get("crontab_problem")
    if doubled:
        yield Attention("crontab", doubled, "rota takeover", kind=ItemKind.SCHEDULER, sign=doubled)
    if beat.ticks is not None and beat.ticks.last is not None and not beat.alive:
        what = f"ticks have stopped, the last one was at {iso(beat.ticks.last)}"
        yield Attention("scheduler", what, "rota doctor", kind=ItemKind.SCHEDULER, sign=what)


def _crash_pause(db: Database) -> Iterator[Attention]:
    """Yield the pause of a scheduler that crashed repeatedly."""
    paused = everything_paused(db)
    if paused is not None and paused.reason == CRASH_LOOP:
        what = "started paused because it crashed repeatedly: find the cause; until then nothing fires or starts"
        yield Attention("scheduler", what, "rota resume --all", kind=ItemKind.CRASHES, sign=iso(paused.since))


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


def acknowledge_notified(db: Database, topic: str, *, mark: str, actor: str, now: datetime) -> bool:
    """Acknowledge an item as a notification named it; return False if something new happened or it is over."""
    item = noted.noted_items(db).get(topic)
    if item is None or item.mark != mark:
        return False
    audit.acknowledge(db, topic, sign=mark, actor=actor, now=now)
    return True


def point_out(store: Store, topics: Sequence[str]) -> None:
    """Show acknowledged items again."""
    store.write(lambda db: [audit.forget(db, topic) for topic in topics])


def machines_needing(found: Sequence[WorkerState]) -> Iterator[Attention]:
    """Yield the machines that need attention: no scheduler fires, or a lost one left runs to keepers."""
    if found and not any({"serve", "guest"}.intersection(worker.kinds) for worker in found):
        what = "no machine serves: due jobs do not fire"
        yield Attention("workers", what, "rota serve", kind=ItemKind.WORKERS, sign=what)
    if drained := all_drained(found):
        what = f"all running workers are drained ({', '.join(drained)}): no run is claimed"
        yield Attention("workers", what, f"rota workers resume {drained[0]}", kind=ItemKind.DRAINED, sign=what)
    for worker in found:
        name, left = worker.worker.called, counted(worker.taken, "run")
        if worker.presence is Presence.GONE and worker.taken:
            what = f"is gone and left {left} to {'its keeper' if worker.taken == 1 else 'their keepers'}"
            command = "rota serve" if worker.here else f"rota workers forget {name}"
            yield Attention(name, what, command, kind=ItemKind.WORKER, sign=what)
        if worker.skew is not None:
            what = f"its clock is {say_skew(worker.skew)}: it fires and starts nothing until the clock is right"
            yield Attention(name, what, "rota workers", kind=ItemKind.CLOCK, sign=name)
        if worker.crashes:
            what = f"was drained because it crashed {worker.crashes} times in a row: find the cause"
            yield Attention(name, what, f"rota workers resume {name}", kind=ItemKind.CRASHES, sign=what)
