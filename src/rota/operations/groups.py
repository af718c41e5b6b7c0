"""Queries over groups: find, list, show and follow them."""

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Literal, TypedDict

from msgspec import Struct

from rota.model.errors import InvalidValue, UnknownGroup, nearest
from rota.model.ids import is_id
from rota.model.records import Group, Job, Run
from rota.model.serialize import iso_or_none, run_json, to_shape
from rota.model.spec import Kind
from rota.model.states import GroupStatus, Status
from rota.rules.queue_order import GROUP_LANE
from rota.rules.schedule.instants import explain_schedule
from rota.store.driver import Database, Store
from rota.store.tables import groups, jobs
from rota.text.format import spaced
from rota.text.runs import attempts_of


class SeatView(Struct, frozen=True):
    """One member of a group: its newest attempt, the earlier ones, and the maximum number."""

    run: Run
    earlier: tuple[Run, ...]
    attempts: int


class GroupView(Struct, frozen=True):
    """A group with its members, in order."""

    group: Group
    seats: tuple[SeatView, ...]
    repeated: str | None = None
    """The handle of the group that this one retries."""

    @property
    def retryable(self) -> bool:
        """Whether the group has failed members to retry."""
        return self.group.status in (GroupStatus.PARTIAL, GroupStatus.CANCELLED)


class GroupLine(Struct, frozen=True):
    """A group of a list: its job, None if it has none, and its newest instance, None before it ran."""

    name: str
    job: Job | None
    newest: GroupView | None


def list_groups(store: Store, *, limit: int | None = None) -> list[GroupLine]:
    """Return the declared groups, and those created at run time, by name, each with its newest instance."""
    return store.read(lambda db: _list_groups(db, limit=limit))


def count_groups(store: Store) -> int:
    """Return the number of names of groups."""
    return store.read(lambda db: len(_names(db, _declared(db))))


def newest_groups_of(store: Store, name: str, *, limit: int) -> list[Group]:
    """Return the newest groups of a name, newest first."""
    return store.read(lambda db: groups.newest_groups(db, name, limit=limit))


def _declared(db: Database) -> dict[str, Job]:
    return {job.name: job for job in jobs.all_jobs(db) if job.spec.work.kind is Kind.GROUP}


def _names(db: Database, declared: Mapping[str, Job]) -> list[str]:
    shown = {name for name, job in declared.items() if job.retired_at is None}
    return sorted(shown | {name for name in groups.group_names(db) if name not in declared})


def _list_groups(db: Database, *, limit: int | None = None) -> list[GroupLine]:
    declared = _declared(db)
    lines = []
    for name in _names(db, declared)[:limit]:
        newest = groups.newest_groups(db, name, limit=1)
        lines.append(GroupLine(name, declared.get(name), group_view(db, newest[0]) if newest else None))
    return lines


def show_group(store: Store, handle: str) -> GroupView:
    """Return the group that a handle names: `nightly:88`, `nightly:-1`, `nightly` (its newest), or an identifier."""
    return store.read(lambda db: group_view(db, find_group(db, handle)))


def group_view(db: Database, group: Group) -> GroupView:
    """Return a group with its members."""
    repeated = groups.group_by_id(db, group.retry_of) if group.retry_of else None
    seats = []
    for _, attempts in groupby(groups.member_runs(db, group.id), key=lambda run: run.place):
        *earlier, newest = attempts
        spec = jobs.version_spec(db, newest.job_id, newest.version)
        seats.append(SeatView(newest, tuple(earlier), attempts_of(newest, spec)))
    return GroupView(group, tuple(seats), repeated.handle if repeated else None)


def group_around(db: Database, run: Run) -> GroupView | None:
    """Return the group that a run belongs to, or that it represents; None for neither."""
    group = groups.group_by_id(db, run.group_id) if run.group_id else groups.group_of_run(db, run.id)
    return group_view(db, group) if group else None


def find_group(db: Database, handle: str) -> Group:
    """Return the group that a handle names, or raise UnknownGroup with the nearest name."""
    if is_id(handle):
        group = groups.group_by_id(db, handle.lower()) or groups.group_of_run(db, handle.lower())
        if group is None:
            raise UnknownGroup(handle)
        return group
    name, colon, number = handle.rpartition(":")
    if colon and number.isdecimal():
        return _numbered(db, name, int(number))
    back = int(number[1:]) if colon and number.startswith("-") and number[1:].isdecimal() else 0
    newest = groups.newest_groups(db, name if colon else handle, limit=1, offset=back)
    if not newest:
        raise _unknown(db, handle, name if colon else handle)
    return newest[0]


def _numbered(db: Database, name: str, number: int) -> Group:
    matches = groups.group_by_number(db, name, number)
    if len(matches) > 1:
        listed = " or ".join(group.id for group in matches)
        raise InvalidValue(f"{name}:{number} matches two groups", hint=f"write an identifier: {listed}")
    if not matches:
        raise _unknown(db, f"{name}:{number}", name)
    return matches[0]


def _unknown(db: Database, handle: str, name: str) -> UnknownGroup:
    job = jobs.job_by_name(db, name)
    if job is not None and job.spec.work.kind is not Kind.GROUP:
        return UnknownGroup(handle, "that is a job")
    if job is not None:
        hint = f"start it with `rota run {name}`; `rota show {name}` shows its members and when it is due"
        return UnknownGroup(handle, "it has not started", hint=hint)
    return UnknownGroup(handle, near=nearest(name, [line.name for line in _list_groups(db)]))


def counts(view: GroupView) -> dict[str, int]:
    """Return the number of members by status; `always` members are counted apart."""
    found = Counter(seat.run.status.shown.value.lower() for seat in view.seats if not seat.run.always)
    found["always"] = sum(seat.run.always for seat in view.seats)
    words = ("completed", "failed", "skipped", "cancelled", "running", "queued", "always")
    return {word: found[word] for word in words if found[word]}


class GroupJson(TypedDict):
    """A group, as `rota groups show --json`."""

    id: str
    group: str
    name: str
    status: Literal["RUNNING", "COMPLETED", "PARTIAL", "CANCELLED"]
    mode: str
    on_failure: str
    run_id: str | None
    retry_of: str | None
    created_at: str
    cancel_requested_at: str | None
    finished_at: str | None
    counts: dict[str, int]
    members: list[dict[str, Any]]


class GroupEntryJson(TypedDict):
    """A group's name and its newest instance."""

    name: str
    declared: bool
    schedule: str | None
    next_at: str | None
    newest: GroupJson | None


def group_json(view: GroupView) -> GroupJson:
    """Return a group as JSON."""
    group = view.group
    members = [
        {
            "place": seat.run.place,
            "always": seat.run.always,
            "max_attempts": seat.attempts,
            "earlier": [run.handle for run in seat.earlier],
            "run": run_json(seat.run),
        }
        for seat in view.seats
    ]
    return to_shape(GroupJson, group, group=group.handle, retry_of=view.repeated, counts=counts(view), members=members)


def line_json(line: GroupLine) -> GroupEntryJson:
    """Return a group with its newest instance as JSON."""
    return {
        "name": line.name,
        "declared": line.job is not None,
        "schedule": explain_schedule(line.job.spec.schedule) if line.job else None,
        "next_at": iso_or_none(line.job.next_at) if line.job else None,
        "newest": group_json(line.newest) if line.newest else None,
    }


def running_members(view: GroupView) -> list[Run]:
    """Return the members with a slot."""
    return [seat.run for seat in view.seats if seat.run.status in (Status.DISPATCHED, Status.RUNNING)]


class MemberReader:
    """Follows the members of a group: a line for each change of status."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._seen: dict[str, Status] = {}

    def lines(self) -> list[str]:
        """Return the changes since the last call."""
        return self._store.read(self._changes)

    def rest(self) -> list[str]:
        """Return the remaining changes of a finished group."""
        return self.lines()

    def _changes(self, db: Database) -> list[str]:
        group = groups.group_of_run(db, self._run_id)
        members = groups.member_runs(db, group.id) if group else []
        changed = [run for run in members if self._seen.get(run.id, Status.QUEUED) is not run.status.shown]
        self._seen |= {run.id: run.status.shown for run in changed}
        return [f"{run.handle}  {run.status.shown}{spaced(run.reason)}" for run in changed]


def follow_members(store: Store, run: Run) -> MemberReader | None:
    """Return a reader of a group's members; None unless the run represents a group."""
    return MemberReader(store, run.id) if run.lane_id == GROUP_LANE else None
