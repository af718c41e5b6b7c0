"""Where the time of a group or of a chain of retries went: the spans of its runs."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypedDict

from msgspec import Struct

from rota.model.clock import MILLISECOND, iso
from rota.model.errors import UnknownGroup, UnknownJob, UnknownRun
from rota.model.records import Group, Run
from rota.model.serialize import to_shape
from rota.model.spec import GroupMode
from rota.model.states import Held, Status, Trigger, WaitingFor
from rota.operations.explain import holding
from rota.operations.groups import find_group
from rota.operations.runs import find_run
from rota.operations.status.heartbeat import Heartbeat, heartbeat, with_ticks
from rota.rules.spans import Release, Span, spans_of, totals
from rota.store.driver import Database, Store
from rota.store.tables import groups, questions, run_queries, runs

HELD_SHOWN = 20
"""The number of queued runs whose hold is looked up."""


class SpanRow(Struct, frozen=True):
    """A run and its spans."""

    run: Run
    spans: tuple[Span, ...]


class SpansView(Struct, frozen=True):
    """The spans of the members of a group, or of the runs of a chain. `open`: it has not ended."""

    handle: str
    group: Group | None
    rows: tuple[SpanRow, ...]
    since: datetime
    until: datetime
    open: bool

    @property
    def totals(self) -> dict[str, timedelta]:
        """The length of each phase, over all runs."""
        return totals(span for row in self.rows for span in row.spans)


def spans_by_name(store: Store, name: str, *, state: Path, now: datetime) -> SpansView:
    """Return the spans of a group, or of the chain of a run, by its handle."""
    return store.read(partial(_by_name, name=name, beat=heartbeat(state), now=now))


def spans_of_group(store: Store, handle: str, *, state: Path, now: datetime) -> SpansView:
    """Return the spans of the members of a group."""
    beat = heartbeat(state)
    return store.read(lambda db: _of_group(db, find_group(db, handle), beat=beat, now=now))


def _by_name(db: Database, *, name: str, beat: Heartbeat, now: datetime) -> SpansView:
    try:
        run = find_run(db, name)
    except (UnknownJob, UnknownRun) as unknown:
        try:
            return _of_group(db, find_group(db, name), beat=beat, now=now)  # a group that was made at run time
        except UnknownGroup:
            raise unknown from None
    group = groups.group_of_run(db, run.id)
    return _of_group(db, group, beat=beat, now=now) if group else _of_chain(db, run, beat=beat, now=now)


def _of_group(db: Database, group: Group, *, beat: Heartbeat, now: datetime) -> SpansView:
    members = groups.member_runs(db, group.id)
    released = _turns(group, members)
    rows = _rows(db, members, {run.id: released.get(run.place or 0) for run in members}, beat=beat, now=now)
    ends = group.finished_at or now
    return SpansView(group.handle, group, rows, group.created_at, ends, group.finished_at is None)


def _turns(group: Group, members: Sequence[Run]) -> dict[int, Release | None]:
    """Return when each place of a group got its turn: after the places that it waits for."""
    ends: dict[int, datetime | None] = {run.place or 0: run.finished_at for run in members}
    always = {run.place or 0 for run in members if run.always}
    ordinary = [place for place in ends if place not in always]
    turns: dict[int, Release | None] = {}
    before: int | None = None
    for place in [*ordinary, *sorted(always)]:
        waits = ordinary if place in always else []
        if group.mode is GroupMode.SEQUENTIAL:
            waits = [*waits, *([] if before is None else [before])]
        before = place
        last = [ends[one] for one in waits]
        at = None if None in last else max((one for one in last if one is not None), default=None)
        turns[place] = Release(WaitingFor.PREDECESSOR, at) if waits else None
    return turns


def _of_chain(db: Database, run: Run, *, beat: Heartbeat, now: datetime) -> SpansView:
    chain = run_queries.chain_runs(db, run.chain_id or run.id)
    rows = _rows(db, chain, {one.id: _release(db, one) for one in chain}, beat=beat, now=now)
    last = max((one.finished_at or now for one in chain), default=now)
    return SpansView(run.handle, None, rows, chain[0].created_at, last, any(not one.status.final for one in chain))


def _release(db: Database, run: Run) -> Release | None:
    """Return what a run waited for outside of a group: the run before it, or an answer."""
    if run.trigger is Trigger.ANSWER:
        ended = [question.ended_at for question in questions.for_run(db, run.id)]
        at = max((one for one in ended if one is not None), default=None)
        return Release(WaitingFor.ANSWER, None if None in ended else at)
    if run.predecessor_id is None or run.group_id is not None:
        return None
    before = runs.run_by_id(db, run.predecessor_id)
    replaced = (run.decisions.get("overlap") or {}).get("verdict") == "replace"
    cause = WaitingFor.REPLACED_RUN if replaced else WaitingFor.PREDECESSOR
    return None if before is None else Release(cause, before.finished_at)


def _rows(
    db: Database, found: Sequence[Run], released: Mapping[str, Release | None], *, beat: Heartbeat, now: datetime
) -> tuple[SpanRow, ...]:
    queued = [run for run in found if run.status is Status.QUEUED and run.waiting_for is None][:HELD_SHOWN]
    held: dict[str, Held | None] = {}
    if queued:
        ticking = with_ticks(db, beat, now=now)
        held = {run.id: holding(db, run, held=ticking, now=now).held for run in queued}
    return tuple(
        SpanRow(run, spans_of(run, now=now, release=released.get(run.id), held=held.get(run.id))) for run in found
    )


class SpanJson(TypedDict):
    """A span: its phase, and why a run in the queue does not start."""

    phase: str
    since: str
    until: str
    ms: int
    open: bool
    held: str | None


class SpanRowJson(TypedDict):
    """A run and its spans."""

    run: str
    id: str
    place: int | None
    attempt: int
    status: str
    reason: str | None
    spans: list[SpanJson]


class SpansJson(TypedDict):
    """Where the time of a group or of a chain went, as `rota spans --json`; `totals` in milliseconds by phase."""

    name: str
    group: str | None
    since: str
    until: str
    open: bool
    totals: dict[str, int]
    runs: list[SpanRowJson]


def spans_json(view: SpansView) -> SpansJson:
    """Return spans as JSON."""
    return {
        "name": view.handle,
        "group": view.group.handle if view.group else None,
        "since": iso(view.since),
        "until": iso(view.until),
        "open": view.open,
        "totals": {phase: length // MILLISECOND for phase, length in view.totals.items()},
        "runs": [
            to_shape(
                SpanRowJson,
                row.run,
                run=row.run.handle,
                status=row.run.status.shown,
                spans=[to_shape(SpanJson, span, ms=span.length // MILLISECOND) for span in row.spans],
            )
            for row in view.rows
        ],
    }
