"""Groups and their places. The newest attempt at a place stands for the ones before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.model.clock import from_ms, from_ms_or_none, to_ms, to_ms_or_none
from rota.model.records import Group, Run
from rota.model.spec import GroupMode, OnFailure
from rota.model.states import GroupStatus, Reason, Status, WaitingFor
from rota.store.driver import Database
from rota.store.rows import Record, run_of, write_json
from rota.store.tables import runs
from rota.store.tables.processes import CriticalSection, lock_section


@dataclass(frozen=True, slots=True)
class GroupMember:
    """The newest attempt at one place of a group."""

    run_id: str
    place: int
    always: bool
    status: Status
    reason: Reason | None
    waiting_for: WaitingFor | None
    attempt: int
    job_id: str
    version: int
    job: str
    number: int
    finished_at: datetime | None

    @property
    def handle(self) -> str:
        """The run as people write it: `backup:112`."""
        return f"{self.job}:{self.number}"


def insert_group(db: Database, group: Group) -> None:
    """Store a group that begins."""
    db.execute(
        "group_insert",
        id=group.id,
        name=group.name,
        number=group.number,
        run_id=group.run_id,
        mode=group.mode,
        on_failure=group.on_failure,
        size=group.size,
        retry_of=group.retry_of,
        now=to_ms(group.created_at),
    )


def next_number(db: Database, name: str) -> int:
    """Return the number of the next group of this name that is made at run time."""
    lock_section(db, CriticalSection.GROUPS)
    row = db.row("group_next_number", name=name)
    assert row is not None
    number: int = row[0]
    return number


def group_by_id(db: Database, group_id: str) -> Group | None:
    """Return the group with this identifier, None for none."""
    found = db.records("group_by_id", id=group_id)
    return group_of(found[0]) if found else None


def group_of_run(db: Database, run_id: str) -> Group | None:
    """Return the group that began with this run, None if the run is no group's or has not begun."""
    found = db.records("group_of_run", run_id=run_id)
    return group_of(found[0]) if found else None


def seats(db: Database, group_id: str) -> list[GroupMember]:
    """Return the newest attempt at each place, in order."""
    return [_seat(*row) for row in db.rows("group_seats", group_id=group_id)]


def open_seats(db: Database, group_id: str, *, limit: int) -> list[GroupMember]:
    """Return the places that are not final, in order; those that always run come last."""
    return [_seat(*row) for row in db.rows("group_open_seats", group_id=group_id, limit=limit)]


def failed_seat(db: Database, group_id: str) -> GroupMember | None:
    """Return the first place that failed or was cancelled, without those that always run; None for none."""
    row = db.row("group_failed_seat", group_id=group_id)
    return None if row is None else _seat(*row)


def group_by_number(db: Database, name: str, number: int) -> list[Group]:
    """Return the groups of this name and number: one, or none; two where a job took the name of a group made before."""
    return [group_of(row) for row in db.records("group_by_number", name=name, number=number)]


def newest_groups(db: Database, name: str, *, limit: int, offset: int = 0) -> list[Group]:
    """Return the newest groups of a name, newest first."""
    return [group_of(row) for row in db.records("groups_newest", name=name, limit=limit, offset=offset)]


def group_names(db: Database) -> list[str]:
    """Return the names of all groups that ever began."""
    return [name for (name,) in db.rows("group_names")]


def member_runs(db: Database, group_id: str) -> list[Run]:
    """Return all attempts at all places, in order."""
    return [run_of(row) for row in db.records("group_members", group_id=group_id)]


def let_go(db: Database, members: Sequence[tuple[str, datetime | None]]) -> int:
    """Make held members claimable, each with the moment it expires; return how many."""
    items = [(run_id, to_ms_or_none(expires_at)) for run_id, expires_at in members]
    return db.execute("group_let_go", members=write_json(items))


def begin_run(db: Database, run_id: str, *, now: datetime) -> bool:
    """Move a group's waiting run to RUNNING: it takes no slot (R-15)."""
    begun = db.execute("group_begin", id=run_id, now=to_ms(now))
    runs.count(db, Status.QUEUED, -begun)
    runs.count(db, Status.RUNNING, begun)
    return begun == 1


def ask_cancel(db: Database, group_id: str, *, now: datetime) -> bool:
    """Note that a group must end; the first wish stands."""
    return db.execute("group_ask_cancel", id=group_id, now=to_ms(now)) == 1


def finish_group(db: Database, group_id: str, status: GroupStatus, *, at: datetime) -> bool:
    """Give a group its final status; the database refuses while a member is not final (INV-006)."""
    return db.execute("group_finish", id=group_id, status=status, finished_at=to_ms(at)) == 1


def group_of(row: Record) -> Group:
    """Return the group of a row of `run_group`."""
    return Group(
        id=row["id"],
        name=row["name"],
        number=row["number"],
        run_id=row["run_id"],
        mode=GroupMode(row["mode"]),
        on_failure=OnFailure(row["on_failure"]),
        status=GroupStatus(row["status"]),
        size=row["size"],
        retry_of=row["retry_of"],
        created_at=from_ms(row["created_at"]),
        cancel_requested_at=from_ms_or_none(row["cancel_requested_at"]),
        finished_at=from_ms_or_none(row["finished_at"]),
    )


def _seat(
    run_id: str,
    place: int,
    always: int,
    status: str,
    reason: str | None,
    waiting_for: str | None,
    attempt: int,
    job_id: str,
    version: int,
    job: str,
    number: int,
    finished_at: int | None,
) -> GroupMember:
    return GroupMember(
        run_id=run_id,
        place=place,
        always=bool(always),
        status=Status(status),
        reason=None if reason is None else Reason(reason),
        waiting_for=None if waiting_for is None else WaitingFor(waiting_for),
        attempt=attempt,
        job_id=job_id,
        version=version,
        job=job,
        number=number,
        finished_at=from_ms_or_none(finished_at),
    )
