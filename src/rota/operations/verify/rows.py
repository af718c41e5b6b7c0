"""Checks of rows: states, budgets, counters, pools, work items, groups, notifications, schema and processes."""

import json
import threading
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import psutil
from msgspec import Struct

from rota.engine.membership.locks import SERVE_LOCK, life_here
from rota.model.amounts import counted
from rota.model.clock import from_ms, to_ms
from rota.model.notifications import Event, Target
from rota.model.questions import Subject
from rota.model.records import ProcessIdentity
from rota.model.spec import JobSpec
from rota.model.states import REASONS, Reason, Status
from rota.operations.verify.ledger import AuditedJob, SpanKind, Stretch, say, waits, wrong_wait
from rota.operations.verify.report import AuditFindings, Check
from rota.rules.outcome import OUTAGES
from rota.runners.keeper import OUTCOME
from rota.runners.output import folder_of
from rota.runners.processes import TAG
from rota.store.driver import Database, Row, Store
from rota.store.migrate import SERVER, Schema, expected_schema, present_schema
from rota.store.rows import read_spec
from rota.store.sqlite.store import is_held
from rota.store.tables import processes
from rota.store.tables.jobs import provisional_jobs, stored_digest
from rota.store.tables.notifications import TARGETS_AT_KEY, TARGETS_KEY, targets
from rota.store.tables.processes import is_shared
from rota.store.tables.questions import pending_of_job

MAX_ROWS = 1_000
MAX_PROBLEMS = 20
AGING_KEY = "aging"
CLOCK_SLACK_MS = 1_000
"""A clock step back by less than this is not recorded."""
MACHINE_SLACK_MS = 60_000
"""The difference between the clocks of two machines that verify tolerates."""
ANY_SLACK_MS = 1 << 60


def clock_was_set_back(db: Database) -> bool:
    """Return whether the times of rows may be out of order."""
    row = db.row("audit_clock")
    return row is not None and bool(row[0])


def check_rows(db: Database, findings: AuditFindings, *, chosen: Collection[str] | None, stepped: bool) -> None:
    """Check states, executions, slots, numbers, keys, times and waits of the rows of the chosen jobs."""
    jobs = None if chosen is None else json.dumps(sorted(chosen))
    runs = partial(_check_runs, db, findings, jobs=jobs)
    reasons = json.dumps([f"{status}/{reason}" for status, reasons in REASONS.items() for reason in reasons])
    runs(
        Check.STATE,
        "audit_states",
        lambda status, reason, what: f"is {status}{f'/{reason}' if reason else ''}, {what}",
        reasons=reasons,
    )
    runs(Check.EXECUTION, "audit_executions", lambda status, what: f"is {status}, {what}")
    _check_doubles(db, findings, jobs)
    runs(
        Check.WAITING,
        "audit_waiting",
        lambda waiting_for: f"waits for {waiting_for}, which nothing will end: it would wait for ever",
    )
    runs(Check.CHAIN, "audit_chains", str)
    runs(
        Check.CHAIN,
        "audit_not_retried",
        lambda attempt, most: f"failed as attempt {attempt} of {most}, but was not retried",
        outages=OUTAGES,
    )
    _check_groups(db, findings, jobs)
    _check_pools(db, findings, jobs)
    _check_budgets(db, findings)
    _check_work(db, findings)
    _check_questions(db, findings)
    runs(Check.CHAT, "audit_replies", str)
    for subject, what in db.rows("audit_chats", limit=MAX_ROWS):
        findings.violation(Check.CHAT, f"the message about {subject} {what}")
    slack = MACHINE_SLACK_MS if is_shared(db) else CLOCK_SLACK_MS
    direct_slack = ANY_SLACK_MS if stepped else slack
    for call_id, job, what in db.rows("audit_direct", jobs=jobs, slack=direct_slack, limit=MAX_ROWS):
        findings.violation(Check.EXECUTION, f"the direct call {call_id} {what}", job=job)
    if not stepped:
        runs(Check.TIME, "audit_times", _wrong_times, slack=slack)
        for name, what in db.rows("audit_tokens", slack=slack, limit=MAX_ROWS):
            findings.violation(Check.TOKEN, f"the token {name} {what}")


def _check_runs(
    db: Database, findings: AuditFindings, check: Check, query: str, text: Callable[..., str], **parameters: Any
) -> None:
    """Report each row of a query, which begins with the job and the number of a run."""
    for job, number, *facts in db.rows(query, limit=MAX_ROWS, **parameters):
        findings.violation(check, text(*facts), job=job, run=f"{job}:{number}")


def _wrong_times(*times: int | None) -> str:
    created, dispatched, started, finished = map(say, times)
    return (
        f"has its times out of order: created {created}, dispatched {dispatched}, started {started}, "
        f"finished {finished}"
    )


def _check_doubles(db: Database, findings: AuditFindings, jobs: str | None) -> None:
    for job, number, count in db.rows("audit_doubled_numbers", jobs=jobs, limit=MAX_ROWS):
        findings.violation(Check.NUMBER, f"the number {number} is given to {count} runs", job=job)
    for job, key, count in db.rows("audit_doubled_keys", jobs=jobs, limit=MAX_ROWS):
        findings.violation(Check.LEDGER, f"the fire {key} has {count} rows", job=job)
    for slot, count in db.rows("audit_doubled_slots", limit=MAX_ROWS):
        findings.violation(Check.STATE, f"slot {slot} holds {count} runs or direct calls")
    for job, numbered, highest in db.rows("audit_numbers", jobs=jobs, limit=MAX_ROWS):
        findings.violation(Check.NUMBER, f"it has counted {numbered} runs, but there is run {highest}", job=job)


def _check_budgets(db: Database, findings: AuditFindings) -> None:
    """Check that settled and reserved are the sums of the entries, and that reservations belong to unfinished runs."""
    for account, since, settled, entries, reserved, held in db.rows("audit_budgets", limit=MAX_ROWS):
        window = f"the window of {account} from {say(since)}"
        if settled != entries:
            findings.violation(Check.BUDGET, f"{window} counts {settled} as settled, its runs {entries}")
        if reserved != held:
            findings.violation(Check.BUDGET, f"{window} counts {reserved} as reserved, its runs {held}")
    for account, run_id, reserved in db.rows("audit_budget_held", limit=MAX_ROWS):
        what = "a reservation" if reserved else "requests"
        findings.violation(Check.BUDGET, f"{account} holds {what} of {run_id}, which is not in progress")


GROUP_ENDS: dict[str, set[tuple[str | None, str | None]]] = {
    "RUNNING": {("RUNNING", None)},
    "COMPLETED": {("COMPLETED", None)},
    "PARTIAL": {("FAILED", "members_failed")},
    "CANCELLED": {("CANCELLED", "requested"), ("CANCELLED", "replaced"), ("CANCELLED", "retired")},
}
"""Status and reason of a group's run, by the status of the group."""


class GroupRow(Struct, frozen=True):
    """A group with the counts of its members."""

    name: str
    number: int
    status: str
    size: int
    asked: int
    final: int
    declared: int
    run_status: str | None
    run_reason: str | None
    places: int
    highest: int
    unfinished: int
    completed: int
    failed: int
    cancelled: int


def _check_groups(db: Database, findings: AuditFindings, jobs: str | None) -> None:
    """Check that places are complete, and that a group is final with its last member and as its members decide."""
    for row in db.rows("audit_groups", jobs=jobs):
        group = GroupRow(*row)
        for text in _wrong_group(group):
            job = group.name if group.declared else None
            findings.violation(Check.GROUP, text, job=job, run=f"{group.name}:{group.number}")
    text = "is RUNNING, but its group was never made: it would run for ever"
    _check_runs(db, findings, Check.GROUP, "audit_groupless", lambda: text, jobs=jobs)


def _wrong_group(group: GroupRow) -> Iterator[str]:
    complete = group.places == group.size
    if group.highest > group.size:
        yield f"has a member at place {group.highest} of {group.size}"
    if not group.final and not complete:
        yield f"has members at {group.places} of its {group.size} places"
    if group.final and group.unfinished:
        yield f"is {group.status}, but {group.unfinished} of its members are not final"
    if not group.final and complete and not group.unfinished:
        yield "is RUNNING, but all of its members are final"
    if group.final and complete and not group.unfinished and group.status != _status_by_members(group):
        yield f"is {group.status}, but its members make it {_status_by_members(group)}"
    if group.declared and (group.run_status, group.run_reason) not in GROUP_ENDS[group.status]:
        run = f"{group.run_status}/{group.run_reason}" if group.run_reason else group.run_status
        yield f"is {group.status}, but its run is {run}"


def _status_by_members(group: GroupRow) -> str:
    if not group.failed and not group.cancelled:
        return "COMPLETED"
    by_request = group.asked and not group.completed and not group.failed
    return "CANCELLED" if by_request else "PARTIAL"


def _check_pools(db: Database, findings: AuditFindings, jobs: str | None) -> None:
    """Check the usage of pools, the lanes of runs, and that the rank of a run is its priority."""
    for name, used, drawn in db.rows("audit_pools"):
        findings.violation(Check.POOL, f"the pool {name} counts {used} as used, but {drawn} is drawn")
    for lane, key, drawn in db.rows("audit_lanes"):
        findings.violation(Check.POOL, f"lane {lane} is {key!r}, but draws {drawn!r}")
    runs = partial(_check_runs, db, findings, jobs=jobs)
    for job, number, lane, wanted in db.rows("audit_lanes_used", jobs=jobs, limit=MAX_ROWS):
        if lane not in _lanes_of_choices(db, job, number):
            text = f"stands in the lane {lane!r}, but its definition draws {wanted!r}"
            findings.violation(Check.POOL, text, job=job, run=f"{job}:{number}")
    aging = db.row("meta_get", key=AGING_KEY) is not None
    under = " under aging" if aging else ""
    runs(
        Check.ORDER,
        "audit_order",
        lambda rank, priority: f"has rank {rank} in the queue, but priority {priority}{under}",
        aging=int(aging),
    )


def _lanes_of_choices(db: Database, job: str, number: int) -> list[str]:
    """Return the lanes of a run whose job has a list of agents."""
    row = db.row("audit_choices", job=job, number=number)
    choices = [] if row is None or row[0] is None else json.loads(row[0])
    return [",".join(f"{draw['pool']}={draw['cost']}" for draw in choice["pools"]) for choice in choices]


def _check_work(db: Database, findings: AuditFindings) -> None:
    """Check that runs that ended or wait hold no work item, and that one run holds an item."""
    for handle, source, item in db.rows("audit_work", limit=MAX_ROWS):
        what = "asks for an item" if item is None else f"holds the item {item!r}"
        findings.violation(Check.WORK, f"{handle} {what} of {source.partition(' {')[0]}, but is not in progress")
    for source, item, handles in db.rows("audit_work_doubled", limit=MAX_ROWS):
        name = source.partition(" {")[0]
        findings.violation(Check.WORK, f"the item {item!r} of {name} is held more than once: {handles}")


def _check_questions(db: Database, findings: AuditFindings) -> None:
    """Check that each open question has a live subject, and each answered one its effect."""
    for number, job, what in db.rows("audit_questions", limit=MAX_ROWS):
        findings.violation(Check.QUESTION, f"question {number} {what}", job=job)
    for job in provisional_jobs(db):
        questions = [
            question
            for question in pending_of_job(db, job.id)
            if question.subject is Subject.PROPOSAL and question.is_open
        ]
        if [question.digest for question in questions] != [stored_digest(db, job)]:
            findings.violation(
                Check.QUESTION, "it waits for approval without a question about its definition", job=job.name
            )


def check_stall(db: Database, job: AuditedJob, current: Stretch, findings: AuditFindings, *, now: int) -> None:
    """Check that a job that follows its runs has a cursor, or a run that will set one; else it never fires again."""
    if current.kind is not SpanKind.FOLLOWING or not job.schedules:
        return
    if job.cursor is not None:
        if (wrong := _wrong_moment(job, current)) is not None:
            findings.violation(Check.CURSOR, wrong, job=job.name)
        return
    if db.row("audit_unfinished", job_id=job.id) is not None:
        return
    if _ends(job, current, _counts_from(db, job, current, now=now)):
        return
    text = "it has no next instant and no unfinished scheduled run: it would never fire again"
    findings.violation(Check.CURSOR, text, job=job.name)


def _wrong_moment(job: AuditedJob, current: Stretch) -> str | None:
    """Return the error in the time of the next fire: on time, by jitter, or at the end of quiet hours."""
    if job.next_at is None or (job.next_at == job.next_for and not waits(job, current)):
        return None
    if waits(job, current) or current.schedule.jitter is not None:
        return wrong_wait(job, current)
    return f"{say(job.next_for)} fires at {say(job.next_at)}, but the schedule has no jitter"


def _counts_from(db: Database, job: AuditedJob, current: Stretch, *, now: int) -> int:
    """Return the start of the current interval: the last definition, end of a run, back-off or blackout.

    After a clock step back it may lie after `now`.
    """
    row = db.row("audit_last_end", job_id=job.id)
    ended, backing_off_until, instant, reason = row or (None, None, None, None)
    latest = max(now, current.spans[-1].since, ended or now, backing_off_until or now)
    if current.blackouts is None or instant is None:
        return latest
    if reason == Reason.EXCLUDED:
        return max(latest, current.blackouts.excluded_end(instant))
    return max(latest, current.blackouts.quiet_end(instant) or latest) if reason == Reason.QUIET_HOURS else latest


def _ends(job: AuditedJob, current: Stretch, since: int) -> bool:
    """Return whether the next interval ends after the schedule, or the job never runs in this mode."""
    schedule = current.schedule
    if schedule.by_mode is None:
        interval = schedule.interval
    else:
        interval = getattr(schedule.by_mode, job.mode) if job.mode else None
    if interval is None:
        return schedule.by_mode is not None  # never in this mode: the next mode sets the cursor
    return schedule.end_at is not None and schedule.end_at.timestamp() * 1000 <= since + interval.total_seconds() * 1000


def check_counters(db: Database, findings: AuditFindings) -> None:
    """Check that each counter is the number of rows of its status and worker."""
    for status, worker_id, counter, rows in db.rows("audit_counters"):
        whose = f" of the worker {worker_id}" if worker_id else ""
        findings.violation(Check.COUNTER, f"the counter of {status} runs{whose} is {counter}, but there are {rows}")


def check_schema(db: Database, findings: AuditFindings) -> None:
    """Compare the schema with that of a new database: each trigger and index holds up a promise."""
    wanted, present = expected_schema(db), present_schema(db)
    made_by, kept_by = _take_server(wanted), _take_server(present)
    for kind, name in sorted(wanted.keys() - present.keys()):
        findings.violation(Check.SCHEMA, f"the {_shown(kind, name)} is missing")
    for kind, name in sorted(present.keys() - wanted.keys()):
        findings.violation(Check.SCHEMA, f"the {_shown(kind, name)} is not rota's")
    if made_by != kept_by:
        findings.notes.append(
            f"the schema was made on PostgreSQL {made_by} and is kept by {kept_by}, which words it in its own way: "
            "only names are compared"
        )
        return
    for kind, name in sorted(wanted.keys() & present.keys()):
        if wanted[kind, name].split() != present[kind, name].split():
            findings.violation(Check.SCHEMA, f"the {_shown(kind, name)} is not as rota makes it")


def _shown(kind: str, name: str) -> str:
    """Return the name of a part of the schema; a constraint keeps that of its table."""
    return f"{kind} {name if kind == 'constraint' else name.rpartition('.')[2]}"


def _take_server(schema: Schema) -> str | None:
    """Remove the version of the server from a schema and return it; SQLite has none."""
    line = next((key for key in schema if key[0] == SERVER), None)
    if line is None:
        return None
    del schema[line]
    return line[1]


def check_integrity(db: Database, findings: AuditFindings) -> None:
    """Run the database's own check of pages and indexes, and check all foreign keys."""
    for kind, text in db.rows("audit_integrity", limit=MAX_PROBLEMS):
        if kind == "violation":
            findings.violation(Check.INTEGRITY, text)
        elif kind == "note":
            findings.notes.append(text)
    for table, parent, count in db.rows("audit_foreign_keys"):
        findings.violation(Check.INTEGRITY, f"{counted(count, 'row')} of {table} without its {parent}")


DELIVERY_SLACK_MS = 60_000


def check_deliveries(db: Database, findings: AuditFindings, *, jobs: str | None, since: int) -> None:
    """Check that each final event of a job with `notify` has its delivery, and each pending one a next attempt.

    Only runs that ended after `since`, and after the last change of job and targets: earlier ones followed from
    definitions that are gone.
    """
    for handle, target, event in db.rows("audit_pending", limit=MAX_ROWS):
        text = f"the delivery of {event} to {target} waits without a next attempt, or is over and has one"
        findings.violation(Check.DELIVERY, text, run=handle)
    for (topic,) in db.rows("audit_attention", limit=MAX_ROWS):
        findings.violation(Check.DELIVERY, f"the item {topic!r} is stored under another topic, or as an event of a run")
    stored, targets_at = db.row("meta_get", key=TARGETS_KEY), db.row("meta_get", key=TARGETS_AT_KEY)
    _check_runs(
        db,
        findings,
        Check.DELIVERY,
        "audit_untold",
        _not_notified,
        targets=stored[0] if stored and targets_at else "{}",
        targets_at=int(targets_at[0]) if targets_at else 0,
        jobs=jobs,
        since=since,
        slack=DELIVERY_SLACK_MS,
    )


def _not_notified(target: str, event: str) -> str:
    return f"{target} was not notified of {event}"


EVENT_PAGE = 1_000
DAY = timedelta(days=1)
FINAL = ("COMPLETED", "FAILED")
BEYOND_ENDS = frozenset({Event.LATE, Event.MISSED, Event.RECOVERED})


class _EventRow(Struct, frozen=True):
    """A run with the facts about its events, times in milliseconds."""

    number: int
    status: str
    chain: str
    trigger: str
    scheduled_for: int | None
    created_at: int
    finished_at: int | None
    decisions: str | None
    tried_again: int

    @property
    def ended(self) -> bool:
        return self.status in FINAL and not self.tried_again

    @property
    def made_up(self) -> bool:
        return self.status != "SKIPPED" and self.trigger != "retry" and "made_up" in json.loads(self.decisions or "{}")


class _Listener(Struct, frozen=True):
    """A target of a job since its last change, its deliveries by chain and event, and the times of recoveries."""

    target: Target
    since: int
    delivered: frozenset[tuple[str, str]]
    recovered_at: tuple[int, ...]


def check_notifications(db: Database, findings: AuditFindings, *, chosen: Collection[str] | None, since: int) -> None:
    """Report late, missed and recovered runs without the delivery that a target must get."""
    row = db.row("audit_restored")
    since = max(since, row[0] if row and row[0] else 0)
    for job_id, name, updated_at, definition in db.rows("audit_notifying"):
        spec = read_spec(definition)
        if chosen is not None and job_id not in chosen:
            continue
        for listener in _listeners(db, job_id, spec, since=max(since, updated_at)):
            for event, number in _undelivered(db, job_id, listener, spec):
                text = _not_notified(listener.target.name, event.value)
                findings.violation(Check.DELIVERY, text, job=name, run=f"{name}:{number}")


def _listeners(db: Database, job_id: str, spec: JobSpec, *, since: int) -> Iterator[_Listener]:
    row = db.row("meta_get", key=TARGETS_AT_KEY)
    stored = targets(db) if row else {}
    named = [(stored[name], max(since, int(row[0]))) for name in spec.notify if name in stored and row]
    for target, begins in [*named, *((own, since) for own in spec.notify_own)]:
        if BEYOND_ENDS.isdisjoint(target.on):
            continue
        deliveries = [row for row in db.rows("audit_told", job_id=job_id) if row[2] == target.name]
        recovered = tuple(row[3] for row in deliveries if row[1] == Event.RECOVERED.value)
        yield _Listener(target, begins, frozenset((row[0], row[1]) for row in deliveries), recovered)


def _event_rows(db: Database, job_id: str, *, since: int) -> Iterator[_EventRow]:
    after = 0
    while page := db.rows("audit_tellable", job_id=job_id, after=after, limit=EVENT_PAGE):
        yield from (row for row in (_EventRow(*columns) for columns in page) if row.created_at > since)
        after = page[-1][0]


def _undelivered(db: Database, job_id: str, listener: _Listener, spec: JobSpec) -> Iterator[tuple[Event, int]]:
    on, failed_at = listener.target.on, None
    for row in _event_rows(db, job_id, since=listener.since):
        if Event.MISSED in on and row.made_up and (row.chain, Event.MISSED.value) not in listener.delivered:
            yield Event.MISSED, row.number
        if not row.ended or row.finished_at is None:
            continue
        if Event.LATE in on and _was_late(row, spec) and (row.chain, Event.LATE.value) not in listener.delivered:
            yield Event.LATE, row.number
        if row.status == "FAILED":
            failed_at = row.finished_at
            continue
        if Event.RECOVERED in on and failed_at is not None and not _recovered(row, listener, failed_at):
            yield Event.RECOVERED, row.number
        failed_at = None


def _recovered(row: _EventRow, listener: _Listener, failed_at: int) -> bool:
    """Return whether a target was notified of a recovery; overlapping runs may have ended in another order."""
    assert row.finished_at is not None
    if row.created_at <= failed_at + DELIVERY_SLACK_MS:
        return True
    first, last = failed_at - DELIVERY_SLACK_MS, row.finished_at + DELIVERY_SLACK_MS
    return any(first <= at <= last for at in listener.recovered_at)


def _was_late(row: _EventRow, spec: JobSpec) -> bool:
    """Return whether a run certainly ended too late; a time that clocks skip or show twice does not count."""
    if not spec.finish_by or row.trigger != "schedule" or row.scheduled_for is None or row.finished_at is None:
        return False
    hour, minute = (int(part) for part in spec.finish_by.split(":"))
    zone = ZoneInfo(spec.schedule.timezone)
    begins = from_ms(row.scheduled_for).astimezone(zone).replace(tzinfo=None)
    wall = begins.replace(hour=hour, minute=minute, second=0, microsecond=0)
    deadlines = [_instant(wall + DAY * days, zone) for days in (0, 1, 2)]
    first = next((at for at in deadlines if at is None or at > row.scheduled_for), None)
    return first is not None and first < row.finished_at


def _instant(wall: datetime, zone: ZoneInfo) -> int | None:
    both = {wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return to_ms(both.pop()) if len(both) == 1 else None


RESULT_TAG = "ROTA_RESULT_FILE"
RECHECK_SECONDS = 0.5
"""The pause between two reads: a transition is over by then."""
LEASE_MARGIN = timedelta(minutes=1)
"""How long after the end of a lease a run may still belong to a lost worker."""
RECOVERABLE = (None, "detached")
"""Ends of processes whose runs the next start recovers: none recorded, or runs left to their keepers."""

Alive = Callable[[ProcessIdentity], bool]


class Suspect(Struct, frozen=True):
    """A possible violation that may be a transition; `key` identifies it at the next read."""

    key: str
    check: Check
    text: str
    job: str | None
    run: str | None
    harmless: bool = False


def check_processes(store: Store, state: Path, findings: AuditFindings, *, alive: Alive) -> None:
    """Report the suspects that two reads, a moment apart, have in common."""
    suspects = _suspects(store, state, findings, alive)
    if any(not suspect.harmless for suspect in suspects):
        threading.Event().wait(RECHECK_SECONDS)
        still = {(suspect.key, suspect.text) for suspect in _suspects(store, state, None, alive)}
        suspects = [suspect for suspect in suspects if (suspect.key, suspect.text) in still]
    for suspect in suspects:
        if suspect.harmless:
            findings.notes.append(f"{suspect.run} {suspect.text}")
        else:
            findings.violation(suspect.check, suspect.text, job=suspect.job, run=suspect.run)


def _suspects(store: Store, state: Path, findings: AuditFindings | None, alive: Alive) -> list[Suspect]:
    tagged = _tagged(state)  # before the rows: a process starts after its row and ends before it
    if findings is not None:
        findings.count(processes=len(tagged))
    return [*_ownerless(store, state, alive), *_strays(store, tagged)]


def _ownerless(store: Store, state: Path, alive: Alive) -> list[Suspect]:
    served = is_held(state / SERVE_LOCK)
    owners = store.read(partial(_owners, state=state))
    suspects = []
    for run_id, job, name, status, lock, ending, worker_id, *process in _owned(store):
        if lock in owners.living:
            continue
        elsewhere = owners.elsewhere(worker_id, lock, ending)
        if elsewhere is not None:
            suspects.append(Suspect(run_id, Check.OWNER, elsewhere, job, name, harmless=True))
            continue
        keeper = status == Status.RUNNING and process[0] is not None and alive(ProcessIdentity(*process))
        left = keeper or (status == Status.RUNNING and (folder_of(state, run_id) / OUTCOME).exists())
        pending = not served and (left or ending in RECOVERABLE)
        if left and pending:
            what = "still runs under its keeper" if keeper else "has ended"
            text = f"{what} while no scheduler was there: recovered at the next start"
        elif pending:
            text = f"is {status}, and the process that held it is gone: recovered at the next start"
        else:
            text = f"is {status}, but the process that held it is gone"
        suspects.append(Suspect(run_id, Check.OWNER, text, job, name, harmless=pending))
    return suspects


class _Owners(Struct, frozen=True):
    """The locks of live processes, the locks whose lease just expired, and our own worker."""

    living: frozenset[str]
    lapsed: frozenset[str]
    own: str | None
    any_alive: bool

    def elsewhere(self, worker_id: str | None, lock: str, ending: str | None) -> str | None:
        """Return the note about a run of another machine, None if its owner should be alive."""
        if worker_id is None or worker_id == self.own:
            return None
        if ending == "detached":
            return "was left to its keeper on another machine: recovered at the next start there"
        if ending is None and (lock in self.lapsed or not self.any_alive):
            return "is held by a worker that is not heard of: it fails as worker_lost within 45 s of a scheduler's look"
        return None


def _owners(db: Database, *, state: Path) -> _Owners:
    life = life_here(db, state)
    open_ = processes.open_processes(db)
    living = life.living(open_)
    since = processes.server_now(db) - LEASE_MARGIN
    lapsed = [process.lock for process in open_ if process.lease_until is not None and process.lease_until >= since]
    return _Owners(frozenset(process.lock for process in living), frozenset(lapsed), life.own, bool(living))


def _owned(store: Store) -> Iterator[Row]:
    """Yield the runs and direct calls of processes."""
    for run_id, job, number, *rest in store.read(lambda db: db.rows("audit_owned")):
        yield run_id, job, _name(job, number, run_id), *rest
    for call_id, job, *rest in store.read(lambda db: db.rows("audit_called")):
        yield call_id, job, _name(job, None, call_id), *rest


def _name(job: str | None, number: int | None, run_id: str) -> str:
    return f"{job}:{number}" if number is not None else f"the direct call {run_id}"


def _strays(store: Store, tagged: dict[int, "_Tagged"]) -> list[Suspect]:
    ids = json.dumps(sorted({process.run_id for process in tagged.values()}))
    rows = {run_id: row for run_id, *row in store.read(lambda db: db.rows("audit_known", ids=ids))}
    suspects = []
    for pid, process in tagged.items():
        if process.run_id not in rows:
            if process.ours:
                text = f"process {pid} carries the tag of run {process.run_id}, which is not there"
                suspects.append(Suspect(f"{pid}", Check.PROCESS, text, None, None))
            continue
        job, number, status = rows[process.run_id]
        if status not in (Status.DISPATCHED, Status.RUNNING):
            text = f"is {status}, but process {pid} of it is still there"
            suspects.append(Suspect(f"{pid}", Check.PROCESS, text, job, _name(job, number, process.run_id)))
    return suspects


class _Tagged(Struct, frozen=True):
    """A process that carries the tag of a run; `ours`: its files are in this state folder."""

    run_id: str
    ours: bool


def _tagged(state: Path) -> dict[int, _Tagged]:
    tagged = {}
    for pid in filter(_may_carry_a_tag, psutil.pids()):
        try:
            process = psutil.Process(pid)
            environment = process.environ()
            dead = TAG in environment and process.status() == psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            continue  # ended meanwhile, or of another user
        if TAG in environment and not dead:
            ours = Path(environment.get(RESULT_TAG, "/")).is_relative_to(state)
            tagged[pid] = _Tagged(environment[TAG], ours)
    return tagged


def _may_carry_a_tag(pid: int) -> bool:
    """Search the raw bytes where the system has them: parsing an environment takes ten times as long."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return TAG.encode() in file.read()
    except FileNotFoundError:
        return True  # no such files on this system, or ended meanwhile
    except OSError:
        return False  # of another user
