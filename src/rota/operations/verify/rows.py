"""Checks of rows: budgets, counters, pools, work items, groups, notifications, and rows that never end."""

import json
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import psutil

from rota.engine.membership.locks import SERVE_LOCK, life_here
from rota.model.amounts import counted
from rota.model.clock import from_ms, to_ms
from rota.model.notifications import Event, Target
from rota.model.records import ProcessIdentity
from rota.model.spec import JobSpec, Schedule
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
from rota.store.tables.notifications import TARGETS_AT_KEY, TARGETS_KEY, targets
from rota.store.tables.processes import is_shared

MOST = 1_000


def check_budgets(db: Database, findings: AuditFindings) -> None:
    """R-19: settled and reserved are the sums of the entries; what is held belongs to something unfinished."""
    for account, since, settled, entries, reserved, held in db.rows("audit_budgets", limit=MOST):
        window = f"the window of {account} from {say(since)}"
        if settled != entries:
            findings.violation(Check.BUDGET, f"{window} counts {settled} as settled, its runs {entries} (R-19)")
        if reserved != held:
            findings.violation(Check.BUDGET, f"{window} counts {reserved} as reserved, its runs {held} (R-19)")
    for account, run_id, reserved in db.rows("audit_budget_held", limit=MOST):
        what = "a reservation" if reserved else "requests"
        findings.violation(Check.BUDGET, f"{account} holds {what} of {run_id}, which is not under way (R-19)")


ENDS: dict[str, set[tuple[str | None, str | None]]] = {
    "RUNNING": {("RUNNING", None)},
    "COMPLETED": {("COMPLETED", None)},
    "PARTIAL": {("FAILED", "members_failed")},
    "CANCELLED": {("CANCELLED", "requested"), ("CANCELLED", "replaced"), ("CANCELLED", "retired")},
}
"""How the run of a group stands, by the status of the group (R-15)."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group with its members counted."""

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

    @property
    def handle(self) -> str:
        """The group as people write it."""
        return f"{self.name}:{self.number}"


def check_groups(db: Database, findings: AuditFindings, *, jobs: str | None) -> None:
    """INV-006 and R-15: places complete, final exactly with the last member, the status that the members give."""
    for row in db.rows("audit_groups", jobs=jobs):
        group = GroupRow(*row)
        for text in _wrong(group):
            findings.violation(Check.GROUP, text, job=group.name if group.declared else None, run=group.handle)
    for job, number in db.rows("audit_groupless", jobs=jobs, limit=MOST):
        text = "is RUNNING, but its group was never made: it would run for ever (R-15)"
        findings.violation(Check.GROUP, text, job=job, run=f"{job}:{number}")


def _wrong(group: GroupRow) -> Iterator[str]:
    whole = group.places == group.size
    if group.highest > group.size:
        yield f"has a member at place {group.highest} of {group.size} (INV-006)"
    if not group.final and not whole:
        yield f"has members at {group.places} of its {group.size} places (INV-006)"
    if group.final and group.unfinished:
        yield f"is {group.status}, but {group.unfinished} of its members are not final (INV-006)"
    if not group.final and whole and not group.unfinished:
        yield "is RUNNING, but all of its members are final (INV-006)"
    if group.final and whole and not group.unfinished and group.status != _counted(group):
        yield f"is {group.status}, but its members make it {_counted(group)} (R-15)"
    if group.declared and (group.run_status, group.run_reason) not in ENDS[group.status]:
        run = f"{group.run_status}/{group.run_reason}" if group.run_reason else group.run_status
        yield f"is {group.status}, but its run is {run} (R-15)"


def _counted(group: GroupRow) -> str:
    if not group.failed and not group.cancelled:
        return "COMPLETED"
    by_request = group.asked and not group.completed and not group.failed
    return "CANCELLED" if by_request else "PARTIAL"


AGING_KEY = "aging"


def check_pools(db: Database, findings: AuditFindings, *, jobs: str | None) -> None:
    """R-03: used is what is drawn, a run stands in the lane of its definition; INV-004: its rank is its priority."""
    for name, used, drawn in db.rows("audit_pools"):
        findings.violation(Check.POOL, f"the pool {name} counts {used} as used, but {drawn} is drawn (R-03)")
    for lane, key, drawn in db.rows("audit_lanes"):
        findings.violation(Check.POOL, f"lane {lane} is {key!r}, but draws {drawn!r} (R-03)")
    for job, number, found, wanted in db.rows("audit_lanes_used", jobs=jobs, limit=MOST):
        text = f"stands in the lane {found!r}, but its definition draws {wanted!r} (R-03)"
        findings.violation(Check.POOL, text, job=job, run=f"{job}:{number}")
    aging = db.row("meta_get", key=AGING_KEY) is not None
    for job, number, rank, priority in db.rows("audit_order", aging=int(aging), jobs=jobs, limit=MOST):
        text = f"has rank {rank} in the queue, but priority {priority}{' under aging' if aging else ''} (INV-004)"
        findings.violation(Check.ORDER, text, job=job, run=f"{job}:{number}")


def check_work(db: Database, findings: AuditFindings) -> None:
    """A run that ended or waits holds no item (003); an item is held by one run."""
    for handle, source, item in db.rows("audit_work", limit=MOST):
        what = "asks for an item" if item is None else f"holds the item {item!r}"
        findings.violation(Check.WORK, f"{handle} {what} of {_named(source)}, but is not under way")
    for source, item, handles in db.rows("audit_work_doubled", limit=MOST):
        findings.violation(Check.WORK, f"the item {item!r} of {_named(source)} is held more than once: {handles}")


def _named(key: str) -> str:
    return key.partition(" {")[0]


SLACK = 1_000
"""A clock that is set back by less than this is not noted anywhere (R-26)."""
BETWEEN_MACHINES = 60_000
"""By how much clocks may differ where one machine makes a run, and another carries it out."""
ANY_TIME = 1 << 60


def clock_was_set_back(db: Database) -> bool:
    """Tell whether the times of rows need not be in order."""
    row = db.row("audit_clock")
    return row is not None and bool(row[0])


def check_rows(db: Database, findings: AuditFindings, *, chosen: Collection[str] | None, stepped: bool) -> None:
    """INV-001 to INV-004 by re-reading: states, executions, slots, numbers, keys, times, waits."""
    jobs = None if chosen is None else json.dumps(sorted(chosen))
    _check_states(db, findings, jobs)
    _check_executions(db, findings, jobs)
    _check_doubles(db, findings, jobs)
    _check_waiting(db, findings, jobs)
    _check_chains(db, findings, jobs)
    check_groups(db, findings, jobs=jobs)
    check_pools(db, findings, jobs=jobs)
    check_budgets(db, findings)
    check_work(db, findings)
    slack = BETWEEN_MACHINES if is_shared(db) else SLACK
    _check_direct(db, findings, jobs, slack=ANY_TIME if stepped else slack)
    if not stepped:
        _check_times(db, findings, jobs, slack=slack)


def _check_states(db: Database, findings: AuditFindings, jobs: str | None) -> None:
    reasons = json.dumps([f"{status}/{reason}" for status, known in REASONS.items() for reason in known])
    for job, number, status, reason, what in db.rows("audit_states", jobs=jobs, reasons=reasons, limit=MOST):
        text = f"is {status}{f'/{reason}' if reason else ''}, {what}"
        findings.violation(Check.STATE, text, job=job, run=f"{job}:{number}")


def _check_executions(db: Database, findings: AuditFindings, jobs: str | None) -> None:
    for job, number, status, what in db.rows("audit_executions", jobs=jobs, limit=MOST):
        findings.violation(Check.EXECUTION, f"is {status}, {what} (INV-002)", job=job, run=f"{job}:{number}")


def _check_direct(db: Database, findings: AuditFindings, jobs: str | None, *, slack: int) -> None:
    for call_id, job, what in db.rows("audit_direct", jobs=jobs, slack=slack, limit=MOST):
        findings.violation(Check.EXECUTION, f"the direct call {call_id} {what} (R-13)", job=job)


def _check_doubles(db: Database, findings: AuditFindings, jobs: str | None) -> None:
    for job, number, count in db.rows("audit_doubled_numbers", jobs=jobs, limit=MOST):
        findings.violation(Check.NUMBER, f"the number {number} is given to {count} runs", job=job)
    for job, key, count in db.rows("audit_doubled_keys", jobs=jobs, limit=MOST):
        findings.violation(Check.LEDGER, f"the fire {key} has {count} rows (R-05)", job=job)
    for slot, count in db.rows("audit_doubled_slots", limit=MOST):
        findings.violation(Check.STATE, f"slot {slot} holds {count} runs or direct calls (INV-003)")
    for job, numbered, highest in db.rows("audit_numbers", jobs=jobs, limit=MOST):
        findings.violation(Check.NUMBER, f"it has counted {numbered} runs, but there is run {highest}", job=job)


def _check_waiting(db: Database, findings: AuditFindings, jobs: str | None) -> None:
    for job, number, waiting_for in db.rows("audit_waiting", jobs=jobs, limit=MOST):
        text = f"waits for {waiting_for}, which nothing will end: it would wait for ever"
        findings.violation(Check.WAITING, text, job=job, run=f"{job}:{number}")


def _check_chains(db: Database, findings: AuditFindings, jobs: str | None) -> None:
    for job, number, what in db.rows("audit_chains", jobs=jobs, limit=MOST):
        findings.violation(Check.CHAIN, f"{what} (DEC-001)", job=job, run=f"{job}:{number}")
    for job, number, attempt, most in db.rows("audit_not_retried", jobs=jobs, outages=OUTAGES, limit=MOST):
        text = f"failed as attempt {attempt} of {most}, but was not retried (DEC-007)"
        findings.violation(Check.CHAIN, text, job=job, run=f"{job}:{number}")


def _check_times(db: Database, findings: AuditFindings, jobs: str | None, *, slack: int) -> None:
    for job, number, *times in db.rows("audit_times", jobs=jobs, slack=slack, limit=MOST):
        created, dispatched, started, finished = map(say, times)
        text = f"has its times out of order: created {created}, dispatched {dispatched}, started {started}, "
        findings.violation(Check.TIME, f"{text}finished {finished}", job=job, run=f"{job}:{number}")


def check_stall(db: Database, job: AuditedJob, current: Stretch, findings: AuditFindings, *, now: int) -> None:
    """A job that follows its runs has a cursor, or a run that will set one: else it has stalled silently."""
    if current.kind is not SpanKind.FOLLOWING or not job.schedules:
        return
    if job.cursor is not None:
        if (wrong := _wrong_moment(job, current)) is not None:
            findings.violation(Check.CURSOR, wrong, job=job.name)
        return
    if db.row("audit_unfinished", job_id=job.id) is not None:
        return
    if _ends(job, current, _goes_on_from(db, job, current, now=now)):
        return
    text = "it has no next instant and no unfinished scheduled run: it would never fire again"
    findings.violation(Check.CURSOR, text, job=job.name)


def _wrong_moment(job: AuditedJob, current: Stretch) -> str | None:
    """Return what is wrong with when the next instant fires: at once, by jitter, or at the end of quiet hours."""
    if job.next_at is None or (job.next_at == job.next_for and not waits(job, current)):
        return None
    if waits(job, current) or current.schedule.jitter is not None:
        return wrong_wait(job, current)
    return f"{say(job.next_for)} fires at {say(job.next_at)}, but the schedule has no jitter"


def _goes_on_from(db: Database, job: AuditedJob, current: Stretch, *, now: int) -> int:
    """Return what one interval is counted from: when the job became what it is or last ran, which may be later than a
    clock that was set back, or the end of the quiet hours, excluded days or back-off that its newest row tells of.
    """
    row = db.row("audit_last_end", job_id=job.id)
    ended, backing_off_until, instant, reason = row or (None, None, None, None)
    latest = max(now, current.spans[-1].since, ended or now, backing_off_until or now)
    if current.lulls is None or instant is None:
        return latest
    if reason == Reason.EXCLUDED:
        return max(latest, current.lulls.excluded_end(instant))
    return max(latest, current.lulls.quiet_end(instant) or latest) if reason == Reason.QUIET_HOURS else latest


def _ends(job: AuditedJob, current: Stretch, since: int) -> bool:
    """Tell whether the schedule is over, nearly so that one interval leads beyond its end, or asleep in this mode."""
    schedule = current.schedule
    interval = _interval(schedule, job.mode)
    if interval is None:
        return schedule.by_mode is not None  # never in this mode: the next one gives it its cursor back
    return schedule.end_at is not None and schedule.end_at.timestamp() * 1000 <= since + interval.total_seconds() * 1000


def _interval(schedule: Schedule, mode: str | None) -> timedelta | None:
    if schedule.by_mode is None:
        return schedule.interval
    modes = {"active": schedule.by_mode.active, "idle": schedule.by_mode.idle, "dormant": schedule.by_mode.dormant}
    return modes.get(mode or "")


def check_counters(db: Database, findings: AuditFindings) -> None:
    """Each counter is the number of rows of its status and worker."""
    for status, worker_id, counter, rows in db.rows("audit_counters"):
        whose = f" of the worker {worker_id}" if worker_id else ""
        findings.violation(Check.COUNTER, f"the counter of {status} runs{whose} is {counter}, but there are {rows}")


MOST_PROBLEMS = 20


def check_schema(db: Database, findings: AuditFindings) -> None:
    """Compare the schema with that of a fresh database: a lost trigger or index takes a promise with it."""
    wanted, found = expected_schema(db), present_schema(db)
    made_by, kept_by = _take_server(wanted), _take_server(found)
    for kind, name in sorted(wanted.keys() - found.keys()):
        findings.violation(Check.SCHEMA, f"the {_shown(kind, name)} is missing")
    for kind, name in sorted(found.keys() - wanted.keys()):
        findings.violation(Check.SCHEMA, f"the {_shown(kind, name)} is not rota's")
    if made_by != kept_by:
        findings.notes.append(
            f"the schema was made on PostgreSQL {made_by} and is kept by {kept_by}, which words it in its own way: "
            "only names are compared"
        )
        return
    for kind, name in sorted(key for key in wanted.keys() & found.keys() if wanted[key] != found[key]):
        if wanted[kind, name].split() != found[kind, name].split():
            findings.violation(Check.SCHEMA, f"the {_shown(kind, name)} is not as rota makes it")


def _shown(kind: str, name: str) -> str:
    """Return what people call it; only constraints have no name of their own without that of their table."""
    return f"{kind} {name if kind == 'constraint' else name.rpartition('.')[2]}"


def _take_server(schema: Schema) -> str | None:
    """Take the line about the server out, and return its version; SQLite has none."""
    line = next((key for key in schema if key[0] == SERVER), None)
    if line is None:
        return None
    del schema[line]
    return line[1]


def check_integrity(db: Database, findings: AuditFindings) -> None:
    """Let the database say what it knows of its pages and indexes, and ask for every reference from row to row."""
    for kind, text in db.rows("audit_integrity", limit=MOST_PROBLEMS):
        if kind == "violation":
            findings.violation(Check.INTEGRITY, text)
        elif kind == "note":
            findings.notes.append(text)
    for table, parent, count in db.rows("audit_foreign_keys"):
        findings.violation(Check.INTEGRITY, f"{counted(count, 'row')} of {table} without its {parent}")


DELIVERY_SLACK = 60_000


def check_deliveries(db: Database, findings: AuditFindings, *, jobs: str | None, since: int) -> None:
    """Each final event of a job with `notify` has its delivery; each that waits has a next attempt.

    Looked at is what ended after `since` and after the job and the targets last changed: what was told before that
    followed from definitions that are gone.
    """
    for handle, target, event in db.rows("audit_pending", limit=MOST):
        text = f"the delivery of {event} to {target} waits without a next attempt, or is over and has one"
        findings.violation(Check.DELIVERY, text, run=handle)
    targets, targets_at = db.row("meta_get", key=TARGETS_KEY), db.row("meta_get", key=TARGETS_AT_KEY)
    untold = db.rows(
        "audit_untold",
        targets=targets[0] if targets and targets_at else "{}",
        targets_at=int(targets_at[0]) if targets_at else 0,
        jobs=jobs,
        since=since,
        slack=DELIVERY_SLACK,
        limit=MOST,
    )
    for job, number, target, event in untold:
        findings.violation(
            Check.DELIVERY, f"{target} was not told of {event} (DEC-009)", job=job, run=f"{job}:{number}"
        )


PAGE = 1_000
NOTIFICATION_SLACK = 60_000
DAY = timedelta(days=1)
FINAL = ("COMPLETED", "FAILED")
BEYOND = frozenset({Event.LATE, Event.MISSED, Event.RECOVERED})


@dataclass(frozen=True, slots=True)
class _Row:
    """A run as an audit needs it, times in milliseconds."""

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


@dataclass(frozen=True, slots=True)
class _Listener:
    """A target of a job, since when it is what it is, and what it was told: which chain, of what, when."""

    target: Target
    since: int
    told: frozenset[tuple[str, str]]
    recovered_at: tuple[int, ...]


def check_telling(db: Database, findings: AuditFindings, *, chosen: Collection[str] | None, since: int) -> None:
    """Tell of late, missed and recovered runs that a target was to be told of and that have no delivery."""
    row = db.row("audit_restored")
    since = max(since, row[0] if row and row[0] else 0)
    for job_id, name, updated_at, text in db.rows("audit_notifying"):
        spec = read_spec(text)
        if chosen is not None and job_id not in chosen:
            continue
        for listener in _listeners(db, job_id, spec, since=max(since, updated_at)):
            violation = partial(_violation, findings, name, listener.target.name)
            _check(listener, spec, _rows(db, job_id, since=listener.since), violation=violation)


def _violation(findings: AuditFindings, job: str, target: str, event: Event, number: int) -> None:
    text = f"{target} was not told of {event.value} (DEC-009)"
    findings.violation(Check.DELIVERY, text, job=job, run=f"{job}:{number}")


def _listeners(db: Database, job_id: str, spec: JobSpec, *, since: int) -> Iterator[_Listener]:
    """Yield the targets that are told of more than ends."""
    row = db.row("meta_get", key=TARGETS_AT_KEY)
    known = targets(db) if row else {}
    named = [(known[name], max(since, int(row[0]))) for name in spec.notify if name in known and row]
    for target, begins in [*named, *((own, since) for own in spec.notify_own)]:
        if BEYOND.isdisjoint(target.on):
            continue
        told = [row for row in db.rows("audit_told", job_id=job_id) if row[2] == target.name]
        recovered = tuple(row[3] for row in told if row[1] == Event.RECOVERED.value)
        yield _Listener(target, begins, frozenset((row[0], row[1]) for row in told), recovered)


def _rows(db: Database, job_id: str, *, since: int) -> Iterator[_Row]:
    after = 0
    while page := db.rows("audit_tellable", job_id=job_id, after=after, limit=PAGE):
        yield from (one for one in (_Row(*row) for row in page) if one.created_at > since)
        after = page[-1][0]


def _check(listener: _Listener, spec: JobSpec, rows: Iterator[_Row], *, violation: "partial[None]") -> None:
    on, failed_at = listener.target.on, None
    for row in rows:
        if Event.MISSED in on and row.made_up and (row.chain, Event.MISSED.value) not in listener.told:
            violation(Event.MISSED, row.number)
        if not row.ended or row.finished_at is None:
            continue
        if Event.LATE in on and _was_late(row, spec) and (row.chain, Event.LATE.value) not in listener.told:
            violation(Event.LATE, row.number)
        if row.status == "FAILED":
            failed_at = row.finished_at
            continue
        if Event.RECOVERED in on and failed_at is not None and not _recovered(row, listener, failed_at):
            violation(Event.RECOVERED, row.number)
        failed_at = None


def _recovered(row: _Row, listener: _Listener, failed_at: int) -> bool:
    """Tell whether a target was told that a job works again; runs that overlap may have ended in another order."""
    assert row.finished_at is not None
    if row.created_at <= failed_at + NOTIFICATION_SLACK:
        return True
    return any(
        failed_at - NOTIFICATION_SLACK <= at <= row.finished_at + NOTIFICATION_SLACK for at in listener.recovered_at
    )


def _was_late(row: _Row, spec: JobSpec) -> bool:
    """Tell whether a run surely ended after its time; one that clocks skip or show twice is nobody's promise."""
    if not spec.finish_by or row.trigger != "schedule" or row.scheduled_for is None or row.finished_at is None:
        return False
    hour, minute = (int(part) for part in spec.finish_by.split(":"))
    place = ZoneInfo(spec.schedule.timezone)
    begins = from_ms(row.scheduled_for).astimezone(place).replace(tzinfo=None)
    wall = begins.replace(hour=hour, minute=minute, second=0, microsecond=0)
    times = [_instant(wall + DAY * days, place) for days in (0, 1, 2)]
    coming = [None if at is None else to_ms(at) for at in times]
    first = next((at for at in coming if at is None or at > row.scheduled_for), None)
    return first is not None and first < row.finished_at


def _instant(wall: datetime, place: ZoneInfo) -> datetime | None:
    both = {wall.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return both.pop() if len(both) == 1 else None


RESULT_TAG = "ROTA_RESULT_FILE"
LOOK_AGAIN = 0.5
"""Seconds between two looks: what is moving on has moved by then."""

JUST_LAPSED = timedelta(minutes=1)
"""How long after the end of a lease a run may still be with a worker that is lost."""

RECOVERED = (None, "detached")
"""How processes ended whose runs the next start looks for: not at all, or with runs left to their keepers."""

Alive = Callable[[ProcessIdentity], bool]


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something that looks wrong and may only be on its way; `key` finds it again."""

    key: str
    check: Check
    text: str
    job: str | None
    run: str | None
    harmless: bool = False


def check_processes(store: Store, state: Path, findings: AuditFindings, *, alive: Alive) -> None:
    """Report what looks wrong at two looks, a moment apart."""
    suspects = _look(store, state, findings, alive)
    if any(not suspect.harmless for suspect in suspects):
        threading.Event().wait(LOOK_AGAIN)
        still = {(suspect.key, suspect.text) for suspect in _look(store, state, None, alive)}
        suspects = [suspect for suspect in suspects if (suspect.key, suspect.text) in still]
    for suspect in suspects:
        if suspect.harmless:
            findings.notes.append(f"{suspect.run} {suspect.text}")
        else:
            findings.violation(suspect.check, suspect.text, job=suspect.job, run=suspect.run)


def _look(store: Store, state: Path, findings: AuditFindings | None, alive: Alive) -> list[Suspect]:
    tagged = _tagged(state)  # before the rows: a process is started after its row says so, and gone before it ends
    if findings is not None:
        findings.count(processes=len(tagged))
    return [*_ownerless(store, state, alive), *_strays(store, tagged)]


def _ownerless(store: Store, state: Path, alive: Alive) -> list[Suspect]:
    served = is_held(state / SERVE_LOCK)
    owners = store.read(partial(_owners, state=state))
    found = []
    for run_id, job, name, status, lock, ending, worker_id, *process in _owned(store):
        if lock in owners.living:
            continue
        elsewhere = owners.elsewhere(worker_id, lock, ending)
        if elsewhere is not None:
            found.append(Suspect(run_id, Check.OWNER, elsewhere, job, name, harmless=True))
            continue
        keeper = status == Status.RUNNING and process[0] is not None and alive(ProcessIdentity(*process))
        left = keeper or (status == Status.RUNNING and (folder_of(state, run_id) / OUTCOME).exists())
        pending = not served and (left or ending in RECOVERED)
        if left and pending:
            what = "still runs under its keeper" if keeper else "has ended"
            text = f"{what} while no scheduler was there: recovered at the next start"
        elif pending:
            text = f"is {status}, and the process that held it is gone: recovered at the next start"
        else:
            text = f"is {status}, but the process that held it is gone"
        found.append(Suspect(run_id, Check.OWNER, text, job, name, harmless=pending))
    return found


@dataclass(frozen=True, slots=True)
class _Owners:
    """Who lives, by lock; whose lease was over a moment ago, so that others are about to act; our own worker."""

    living: frozenset[str]
    lapsed: frozenset[str]
    own: str | None
    anybody: bool

    def elsewhere(self, worker_id: str | None, lock: str, ending: str | None) -> str | None:
        """Return what is to be said of a run that another machine had, None if its owner should be there."""
        if worker_id is None or worker_id == self.own:
            return None
        if ending == "detached":
            return "was left to its keeper on another machine: recovered at the next start there"
        if ending is None and (lock in self.lapsed or not self.anybody):
            return "is held by a worker that is not heard of: it fails as worker_lost within 45 s of a scheduler's look"
        return None


def _owners(db: Database, *, state: Path) -> _Owners:
    life = life_here(db, state)
    open_ = processes.open_processes(db)
    living = life.living(open_)
    since = processes.server_now(db) - JUST_LAPSED
    lapsed = [one.lock for one in open_ if one.lease_until is not None and one.lease_until >= since]
    return _Owners(frozenset(one.lock for one in living), frozenset(lapsed), life.own, bool(living))


def _owned(store: Store) -> Iterator[Row]:
    """Yield what processes carry: runs, and direct calls (R-13)."""
    for run_id, job, number, *rest in store.read(lambda db: db.rows("audit_owned")):
        yield run_id, job, _name(job, number, run_id), *rest
    for call_id, job, *rest in store.read(lambda db: db.rows("audit_called")):
        yield call_id, job, _name(job, None, call_id), *rest


def _name(job: str | None, number: int | None, run_id: str) -> str:
    return f"{job}:{number}" if number is not None else f"the direct call {run_id}"


def _strays(store: Store, tagged: dict[int, "_Tagged"]) -> list[Suspect]:
    ids = json.dumps(sorted({one.run_id for one in tagged.values()}))
    known = {run_id: row for run_id, *row in store.read(lambda db: db.rows("audit_known", ids=ids))}
    found = []
    for pid, one in tagged.items():
        if one.run_id not in known:
            if one.ours:
                text = f"process {pid} carries the tag of run {one.run_id}, which is not there"
                found.append(Suspect(f"{pid}", Check.PROCESS, text, None, None))
            continue
        job, number, status = known[one.run_id]
        if status not in (Status.DISPATCHED, Status.RUNNING):
            text = f"is {status}, but process {pid} of it is still there"
            found.append(Suspect(f"{pid}", Check.PROCESS, text, job, _name(job, number, one.run_id)))
    return found


@dataclass(frozen=True, slots=True)
class _Tagged:
    """A process that carries the tag of a run; `ours`: its files are in this state folder."""

    run_id: str
    ours: bool


def _tagged(state: Path) -> dict[int, _Tagged]:
    found = {}
    for pid in filter(_may_carry_a_tag, psutil.pids()):
        try:
            process = psutil.Process(pid)
            environment = process.environ()
            dead = TAG in environment and process.status() == psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            continue  # gone meanwhile, or somebody else's
        if TAG in environment and not dead:
            ours = Path(environment.get(RESULT_TAG, "/")).is_relative_to(state)
            found[pid] = _Tagged(environment[TAG], ours)
    return found


def _may_carry_a_tag(pid: int) -> bool:
    """Look at the bytes alone where the system shows them: to read an environment whole takes ten times as long."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return TAG.encode() in file.read()
    except FileNotFoundError:
        return True  # no such files on this system, or gone meanwhile
    except OSError:
        return False  # somebody else's
