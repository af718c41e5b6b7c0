"""Moves between SQLite and PostgreSQL: copied in batches, resumable, compared and verified."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from rota import faults
from rota.engine.membership.locks import TICK_LOCK, living_processes, read_worker, take, take_serve_lock, write_worker
from rota.engine.transactions.finish import release_leaked_by
from rota.model.amounts import counted
from rota.model.clock import Clock
from rota.model.errors import InvalidValue, MoveDiffers, MoveRefused, RotaError, StateError
from rota.model.store_url import SQLITE, has_password, is_postgres, shown
from rota.operations.project.locate import DATABASE, complete_address, load_postgres, make_state, open_state, state_of
from rota.operations.verify.report import AuditReport
from rota.operations.verify.verify import verify
from rota.settings import FILE_NAME
from rota.store.driver import Database
from rota.store.migrate import MOVED_TO, check_applied, open_store
from rota.store.queries import load_migrations
from rota.store.tables import processes
from rota.store.transfer import CopyEnd, PartialCopy, Position, SqliteEnd, Table, cleaned, made_rows, tables

if TYPE_CHECKING:
    from rota.store.postgres.transfer import PostgresEnd

SQLITE_PREFIX = f"{SQLITE}:"
STOP_HINT = "stop it first: `rota stop --when-idle`"
RESTART_HINT = "start over with --restart: the partial copy is deleted, the source does not change"


class MigrationEnd(Struct, frozen=True):
    """One end of a move: an address of PostgreSQL, or a state folder with SQLite's file.

    `state` is also the folder of the secrets of an address.
    """

    state: Path
    address: str = SQLITE

    @property
    def shared(self) -> bool:
        """Whether it is PostgreSQL."""
        return is_postgres(self.address)

    @property
    def place(self) -> str:
        """Its place, without a password."""
        return shown(self.address) if self.shared else str(self.state / DATABASE)

    @property
    def written(self) -> str:
        """The value of `store:` for it, without a literal password."""
        return shown(self.address) if has_password(self.address) else self.address


class Doing(StrEnum):
    """The step of a table."""

    COPIES = "copies"
    COMPARES = "compares"


Telling = Callable[[Doing, str, int, int], None]
"""Called for every batch with the step, the table, the number of done rows, and of all rows."""


class TableMoved(Struct, frozen=True):
    """A table that is equal on both sides."""

    name: str
    rows: int
    digest: str


class MigrationResult(Struct, frozen=True):
    """A finished move. `resumed`: it continued an earlier one; `replaced`: rows with NUL characters in texts."""

    source: MigrationEnd
    target: MigrationEnd
    tables: tuple[TableMoved, ...]
    resumed: bool
    replaced: int
    report: AuditReport

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(table.rows for table in self.tables)


def read_spot(text: str, *, cwd: Path, state: Path | None, environ: Mapping[str, str]) -> MigrationEnd:
    """Return the end that a text names; `sqlite` alone is the state folder of this project."""
    if is_postgres(text):
        return MigrationEnd(state or cwd, text)
    if text == SQLITE and state is not None:
        return MigrationEnd(state)
    if not text.startswith(SQLITE_PREFIX) or text == SQLITE_PREFIX:
        hint = "write sqlite:PATH with the state folder, or postgresql://user@host:5432/database"
        raise InvalidValue(f"{shown(text)!r} is not a store that rota supports", hint=hint)
    path = (cwd / Path(text.removeprefix(SQLITE_PREFIX).removeprefix("//")).expanduser()).absolute()
    if path.name == DATABASE:
        return MigrationEnd(path.parent)
    return MigrationEnd(state_of(path, environ) if (path / FILE_NAME).is_file() else path)


def preview(source: MigrationEnd, target: MigrationEnd, *, clock: Clock) -> dict[str, int]:
    """Check both ends without changing them; return the number of rows of each table."""
    _refuse_same(source, target)
    with _locked(source), _open_end(source, clock) as origin:
        _check_source(origin)
        if _is_there(target, clock):
            with _open_end(target, clock, target=True) as copy:
                _begun_before(copy, origin, counts=origin.counts())
        return origin.counts()


def move(
    source: MigrationEnd, target: MigrationEnd, *, clock: Clock, tell: Telling, restart: bool = False
) -> MigrationResult:
    """Copy everything from one database to another, compare both, and mark the source as moved.

    An interrupted move is resumed; `restart` drops its copy instead. The source is locked against writes.
    """
    _refuse_same(source, target)
    with _locked(source), _open_end(source, clock) as origin:
        origin.hold()
        try:
            _check_source(origin)
            done = _fill(source, target, origin, clock=clock, tell=tell, restart=restart)
            faults.point("move.finished")
            report = _settle(source, target, clock)
            origin.set_note(MOVED_TO, target.place)
            origin.release(commit=True)
        except BaseException:
            with contextlib.suppress(RotaError):
                origin.release(commit=False)
            raise
    return MigrationResult(source, target, done.tables, done.resumed, done.replaced, report)


class _Filled(Struct, frozen=True):
    tables: tuple[TableMoved, ...]
    resumed: bool
    replaced: int


def _fill(
    source: MigrationEnd, target: MigrationEnd, origin: CopyEnd, *, clock: Clock, tell: Telling, restart: bool
) -> _Filled:
    """Create or resume the target; copy, compare and finish it."""
    _make(target, clock)
    with _locked(target), _open_end(target, clock, target=True) as copy:
        counts = origin.counts()
        begun = _begun_before(copy, origin, counts=counts, restart=restart)
        if begun is None and copy.moved_from() is not None:  # all of it was done, but the source does not know yet
            return _Filled(tuple(_told(origin, copy, table) for table in tables()), resumed=True, replaced=0)
        if begun is None:
            copy.begin(source.place, counts)
        elif restart:
            copy.begin_anew(counts)
        faults.point("move.begun")
        replaced = sum(_copy(origin, copy, table, total=counts[table.name], tell=tell) for table in tables())
        moved = tuple(_compare(origin, copy, counts=counts, tell=tell))
        copy.finish(origin.last_numbers())
        return _Filled(moved, resumed=begun is not None and not restart, replaced=replaced)


def _copy(origin: CopyEnd, copy: CopyEnd, table: Table, *, total: int, tell: Telling) -> int:
    """Copy a table from its last position, each batch with its position in one transaction; return the changed rows."""
    position = copy.positions().get(table.name)
    done, replaced = position.rows if position else 0, 0
    places = [table.columns.index(column) for column in table.key]
    tell(Doing.COPIES, table.name, done, total)
    for rows in origin.batches(table, position.after if position else None):
        fitting = rows if copy.takes_nul else [cleaned(row) for row in rows]
        replaced += sum(before is not after for before, after in zip(rows, fitting, strict=True))
        done += len(rows)
        with copy.transaction():
            copy.put(table, fitting)
            copy.remember(table, Position(tuple(rows[-1][place] for place in places), done))
            faults.point("move.written")
        faults.point("move.committed")
        tell(Doing.COPIES, table.name, done, total)
    return replaced


def _compare(origin: CopyEnd, copy: CopyEnd, *, counts: Mapping[str, int], tell: Telling) -> Iterator[TableMoved]:
    """Read every table on both sides and compare the checksums."""
    for table in tables():
        total = counts[table.name]

        def report(done: int, *, name: str = table.name, before: int = 0, total: int = total) -> None:
            tell(Doing.COMPARES, name, (before + done) // 2, total)

        first = _told(origin, copy, table, report)
        second = _told(copy, copy, table, partial(report, before=total))
        if first != second:
            raise MoveDiffers(
                f"the table {table.name} differs: {counted(first.rows, 'row')} in {origin.place}, "
                f"{second.rows} in {copy.place}",
                hint=RESTART_HINT,
            )
        yield second


def _told(end: CopyEnd, copy: CopyEnd, table: Table, tell: Callable[[int], None] = lambda _: None) -> TableMoved:
    """Return the digest of a table of one side, with texts that the other side can store."""
    found = (0, "")
    for found in end.digest(table, clean=not copy.takes_nul):
        tell(found[0])
    return TableMoved(table.name, *found)


def _settle(source: MigrationEnd, target: MigrationEnd, clock: Clock) -> AuditReport:
    """Close the processes that died before the move, keep the folder's worker, and audit the target."""

    def end_processes(db: Database) -> None:
        for process in processes.open_processes(db):
            release_leaked_by(db, [process.epoch])
            processes.end_process(db, process.epoch, ending="lost", now=clock.now())

    store = open_state(target.state, clock, create=False, store=target.address)
    try:
        store.write(end_processes)
        if target.shared and not source.shared and read_worker(source.state) is None:
            worker = store.read(lambda db: db.row("worker_first"))
            if worker is not None:
                write_worker(source.state, worker[0])
        return verify(store, target.state, now=clock.now())
    finally:
        store.close()


def _make(target: MigrationEnd, clock: Clock) -> None:
    """Create an empty target, unless it exists."""
    if not target.shared:
        _refuse_strange(target.state)
        make_state(target.state)
    if _is_there(target, clock):
        return
    if target.shared:
        load_postgres().open_postgres(complete_address(target.address, target.state), now=clock.now).close()
    else:
        open_store(target.state / DATABASE, now=clock.now()).close()


def _is_there(spot: MigrationEnd, clock: Clock) -> bool:
    if not spot.shared:
        return (spot.state / DATABASE).exists()
    return bool(load_postgres().is_made(complete_address(spot.address, spot.state), now=clock.now))


@contextlib.contextmanager
def _open_end(spot: MigrationEnd, clock: Clock, *, target: bool = False) -> Iterator[CopyEnd]:
    """Open one end as it is: nothing is upgraded."""
    if not _is_there(spot, clock):
        raise MoveRefused(f"no rota database in {spot.place}", hint="check --from")
    end: CopyEnd
    if spot.shared:
        address = complete_address(spot.address, spot.state)
        end = load_postgres("transfer").PostgresEnd(address, now=clock.now, target=target)
    else:
        end = SqliteEnd(spot.state / DATABASE, target=target)
    try:
        if spot.shared:
            _refuse_living(end)  # type: ignore[arg-type]  # that of PostgreSQL
        yield end
    finally:
        end.close()


@contextlib.contextmanager
def _locked(spot: MigrationEnd) -> Iterator[None]:
    """Keep schedulers away from a state folder; those of PostgreSQL are known by their leases."""
    if spot.shared or not spot.state.is_dir():
        yield
        return
    lock = take_serve_lock(spot.state)
    try:
        turn = take(spot.state / TICK_LOCK)
        if turn is None or living_processes(spot.state):
            raise MoveRefused(f"a scheduler is running on {spot.state}", hint=STOP_HINT)
        try:
            yield
        finally:
            turn.release()
    finally:
        lock.release()


def _refuse_living(end: "PostgresEnd") -> None:
    alive = end.alive()
    if alive:
        raise MoveRefused(f"schedulers are running on {end.place}: {', '.join(alive)}", hint=STOP_HINT)


def _refuse_same(source: MigrationEnd, target: MigrationEnd) -> None:
    if source.place == target.place:
        raise InvalidValue(f"{source.place} cannot be migrated to itself", hint="name another store with --to")


def _refuse_strange(state: Path) -> None:
    """Refuse a folder with files of other programs: rota makes a state folder private."""
    if state.is_dir() and any(state.iterdir()) and not ((state / ".gitignore").exists() or (state / DATABASE).exists()):
        hint = "name a new folder, such as …/.rota"
        raise MoveRefused(f"{state} is neither empty nor a state folder of rota", hint=hint)


def _check_source(origin: CopyEnd) -> None:
    _check_schema(origin)
    under_way = origin.unsettled()
    if under_way.runs or under_way.calls:
        calls = counted(under_way.calls, "direct call")
        raise MoveRefused(
            f"{counted(under_way.runs, 'run')} and {calls} in progress in {origin.place}",
            hint="wait for them: `rota stop --when-idle`; if no scheduler is running, `rota serve` recovers them first",
        )


def _check_schema(end: CopyEnd) -> None:
    """Refuse a database with another schema version: a move is no upgrade."""
    wanted = load_migrations("postgres" if not end.takes_nul else "sqlite")
    applied = end.schema()
    check_applied(applied, wanted, end.place)
    if len(applied) < len(wanted):
        hint = "upgrade it first: any command on it does, such as `rota list`"
        raise MoveRefused(f"{end.place} has schema {max(applied, default=0)}, this rota has {wanted[-1][0]}", hint=hint)
    wrong = [table.name for table in tables() if end.columns(table) != set(table.columns)]
    if wrong:
        raise StateError(
            f"the tables {', '.join(wrong)} of {end.place} differ from rota's schema", hint="`rota verify`"
        )


def _begun_before(
    copy: CopyEnd, origin: CopyEnd, *, counts: Mapping[str, int], restart: bool = False
) -> PartialCopy | None:
    """Return the earlier move that the target is half of, None for an empty or a full one; refuse everything else."""
    begun = copy.begun()
    if begun is None:
        _check_schema(copy)
        _refuse_full(copy, origin, counts)
        return None
    if begun.source != origin.place:
        raise MoveRefused(
            f"{copy.place} has half of a migration from {begun.source}", hint="finish that one, or name another target"
        )
    if dict(begun.counts) != dict(counts) and not restart:
        raise MoveRefused(f"{origin.place} has changed since the migration started", hint=RESTART_HINT)
    return begun


def _refuse_full(copy: CopyEnd, origin: CopyEnd, counts: Mapping[str, int]) -> None:
    """Refuse a target that holds something, unless that is this very source and only its mark is missing."""
    before = copy.moved_from()
    if before is not None and before.source == origin.place and origin.note(MOVED_TO) == copy.place:
        raise MoveRefused(
            f"{origin.place} was already migrated to {copy.place}", hint="set `store:` in rota.yaml to the new one"
        )
    if before is not None and before.source == origin.place and dict(before.counts) == dict(counts):
        return
    if copy.counts() != made_rows():
        raise MoveRefused(
            f"{copy.place} is not empty", hint="name an empty database, or a schema of its own, with --to"
        )
