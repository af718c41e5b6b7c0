"""Rows of groups and their members. The newest attempt at a place represents the earlier ones."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from rota.model.clock import to_ms, to_ms_or_none
from rota.model.records import Group, Run
from rota.model.states import GroupStatus, Reason, Status, WaitingFor
from rota.store.driver import Database
from rota.store.rows import Record, columns_of, record_by_name, record_or_none, records_of, run_of, value_of, write_json
from rota.store.tables import runs
from rota.store.tables.processes import CriticalSection, lock_section


class GroupMember(Struct, frozen=True):
    """The newest attempt at a place of a group."""

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
        """The name of the run for people: `backup:112`."""
        return f"{self.job}:{self.number}"


def insert_group(db: Database, group: Group) -> None:
    """Store a new group."""
    db.execute("group_insert", now=to_ms(group.created_at), **columns_of(group))


def next_number(db: Database, name: str) -> int:
    """Return the number of the next group of this name that is created at run time."""
    lock_section(db, CriticalSection.GROUPS)
    return int(value_of(db, "group_next_number", name=name))


def group_by_id(db: Database, group_id: str) -> Group | None:
    """Return the group with this identifier, None for none."""
    return next(map(group_of, db.records("group_by_id", id=group_id)), None)


def group_of_run(db: Database, run_id: str) -> Group | None:
    """Return the group of this run, None if the run has no group or has not started."""
    return next(map(group_of, db.records("group_of_run", run_id=run_id)), None)


def seats(db: Database, group_id: str) -> list[GroupMember]:
    """Return the newest attempt at each place, in order."""
    return records_of(GroupMember, db.rows("group_seats", group_id=group_id))


def open_seats(db: Database, group_id: str, *, limit: int) -> list[GroupMember]:
    """Return the places that are not final, in order; members with `always` come last."""
    return records_of(GroupMember, db.rows("group_open_seats", group_id=group_id, limit=limit))


def failed_seat(db: Database, group_id: str) -> GroupMember | None:
    """Return the first failed or cancelled place without `always`, None for none."""
    return record_or_none(GroupMember, db.row("group_failed_seat", group_id=group_id))


def group_by_number(db: Database, name: str, number: int) -> list[Group]:
    """Return the groups of this name and number: at most one, or two if a job took the name of an earlier group."""
    return [group_of(row) for row in db.records("group_by_number", name=name, number=number)]


def newest_groups(db: Database, name: str, *, limit: int, offset: int = 0) -> list[Group]:
    """Return the newest groups of a name, newest first."""
    return [group_of(row) for row in db.records("groups_newest", name=name, limit=limit, offset=offset)]


def group_names(db: Database) -> list[str]:
    """Return the names of all groups that ever started."""
    return [name for (name,) in db.rows("group_names")]


def member_runs(db: Database, group_id: str) -> list[Run]:
    """Return all attempts at all places, in order."""
    return [run_of(row) for row in db.records("group_members", group_id=group_id)]


def release(db: Database, members: Sequence[tuple[str, datetime | None]]) -> int:
    """Make waiting members claimable, each with its expiry; return the number."""
    items = [(run_id, to_ms_or_none(expires_at)) for run_id, expires_at in members]
    return db.execute("group_let_go", members=write_json(items))


def begin_run(db: Database, run_id: str, *, now: datetime) -> bool:
    """Move a group's waiting run to RUNNING; it takes no slot."""
    begun = db.execute("group_begin", id=run_id, now=to_ms(now))
    runs.count(db, Status.QUEUED, -begun)
    runs.count(db, Status.RUNNING, begun)
    return begun == 1


def ask_cancel(db: Database, group_id: str, *, now: datetime) -> bool:
    """Request the cancellation of a group; the first request counts."""
    return db.execute("group_ask_cancel", id=group_id, now=to_ms(now)) == 1


def finish_group(db: Database, group_id: str, status: GroupStatus, *, at: datetime) -> bool:
    """Give a group its final status; the schema refuses it while a member is not final."""
    return db.execute("group_finish", id=group_id, status=status, finished_at=to_ms(at)) == 1


def group_of(row: Record) -> Group:
    """Return the group of a row of `run_group`."""
    return record_by_name(Group, row)
