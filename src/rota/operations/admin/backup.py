"""Backup and restore."""

import contextlib
import errno
import gzip
import hashlib
import io
import json
import os
import posixpath
import re
import shutil
import socket
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import IO, Any

from msgspec import Struct
from msgspec.structs import asdict

from rota.declare.include import PART_SECTIONS, written_patterns
from rota.declare.yaml import load
from rota.engine.membership.control import ask
from rota.engine.membership.locks import TICK_LOCK, living_processes, take, take_serve_lock
from rota.engine.recovery import age, settle_restored
from rota.model.clock import Clock, iso, say_duration
from rota.model.errors import BackupUnusable, FileExists, FileProblems, StateError, StateExists, StoreShared
from rota.model.states import Status
from rota.model.store_url import shown
from rota.operations.project.locate import DATABASE, ProjectPaths, locate, make_state, parts_of
from rota.rules.pause import plan_pause_end
from rota.runners.output import RUNS
from rota.settings import FILE_NAME, STATE_NAME, home_of
from rota.store.driver import Database
from rota.store.migrate import open_store
from rota.store.sqlite.store import copy_database, reachable, refusal, require_whole, sync
from rota.store.tables import jobs, run_queries

FORMAT = 1
MANIFEST = "manifest.json"
PARTS = "parts"
# A run's folder also holds its params and environment, which include secrets.
BACKED_UP = re.compile(r"(output\.\d+|outcome\.json|result\.json)")


class Manifest(Struct, frozen=True):
    """The content and the origin of an archive."""

    format: int
    rota: str
    host: str
    made_at: str
    project: str
    output: bool
    digest: str


class BackedUp(Struct, frozen=True):
    """A finished backup."""

    path: Path
    manifest: Manifest
    size: int
    outputs: int
    scheduler: bool


def back_up(place: ProjectPaths, target: Path, *, clock: Clock, with_output: bool) -> BackedUp:
    """Write a consistent copy of a project to `target`, completely or not at all; a scheduler may keep running."""
    if place.shared:
        raise StoreShared(shown(place.store), "rota does not back up", tool="pg_dump")
    if target.exists():
        raise FileExists(str(target))
    copy = target.with_name(f".{target.name}.{os.getpid()}.db")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    with reachable(target):
        try:
            copy_database(place.state / DATABASE, copy)
            require_whole(copy)
            manifest = Manifest(
                format=FORMAT,
                rota=metadata.version("rota"),
                host=socket.gethostname(),
                made_at=iso(clock.now()),
                project=str(place.folder),
                output=with_output,
                digest=digest_of(copy),
            )
            outputs = _write(part, place, copy, manifest=manifest, compress=target.suffix != ".tar")
            sync(part)
            part.rename(target)
            sync(target.parent)
        finally:
            for path in (part, copy, *(copy.with_name(copy.name + suffix) for suffix in ("-wal", "-shm"))):
                path.unlink(missing_ok=True)
        size = target.stat().st_size
    return BackedUp(target, manifest, size, outputs, scheduler=ask(place.state, {"ask": "status"}) is not None)


def digest_of(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(part: Path, place: ProjectPaths, copy: Path, *, manifest: Manifest, compress: bool) -> int:
    descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz" if compress else "w") as archive:
        _add_bytes(archive, MANIFEST, json.dumps(asdict(manifest), indent=2).encode())
        _add_bytes(archive, FILE_NAME, (place.folder / FILE_NAME).read_bytes())
        for piece in parts_of(place.folder / FILE_NAME, home_of(os.environ)):
            _add_bytes(archive, f"{PARTS}/{piece.file}", piece.path.read_bytes())
        archive.add(copy, DATABASE, filter=_plain)
        outputs = 0
        for folder, _, names in os.walk(place.state / RUNS) if manifest.output else ():
            for name in sorted(names):
                outputs += BACKED_UP.fullmatch(name) is not None and _add_output(
                    archive, Path(folder, name), place.state
                )
    return outputs


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode, member.uid, member.gid, member.uname, member.gname = 0o600, 0, 0, "", ""
    return member


def _add_output(archive: tarfile.TarFile, path: Path, state: Path) -> bool:
    """Add a file that a run may still write; return False if prune has deleted it."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return False
    _add_bytes(archive, path.relative_to(state).as_posix(), data)
    return True


OUTPUT = re.compile(rf"runs/[0-9]{{8}}/[0-9a-f-]{{36}}/(?:[\w-]{{1,64}}/){{0,2}}{BACKED_UP.pattern}", re.ASCII)
LARGEST_TEXT = 10_000_000
"""The maximum size of the manifest, of a project file or of an output file, in bytes."""
LARGEST_READ = 4 << 20
"""The maximum size of one read; rota writes no header that needs more."""
SMALL, RATIO = 100_000_000, 100
"""An archive may unpack to `SMALL` bytes plus `RATIO` times its size, ten times the usual ratio of a database."""
GZIP = b"\x1f\x8b"
LONGEST_NAME, DEEPEST_NAME = 500, 16
PROTECTED = (".git", STATE_NAME)
"""Folders without parts of a project."""
STAYS = ("serve.lock", "tick.lock", ".gitignore", "secrets.env", "schema.json", "backups")
QUEUE_COUNTED = 100_000


class Restored(Struct, frozen=True):
    """The result of a restore: the origin, the age, and the instants since."""

    state: Path
    manifest: Manifest
    age: timedelta
    jobs: int
    instants: int | None
    queued: int
    aside: Path | None
    file_kept: bool


def find_target(archive: Path, directory: str | None, environ: Mapping[str, str], cwd: Path) -> ProjectPaths:
    """Return the target of a restore: the named folder, or this one; it may have no project yet."""
    folder = (cwd / Path(directory or environ.get("ROTA_DIR") or ".").expanduser()).absolute()
    if (folder / FILE_NAME).is_file():
        return locate(str(folder), environ, cwd)
    written = environ.get("ROTA_STATE") or _state_named(archive)
    return ProjectPaths(folder, (folder / Path(written).expanduser()).absolute() if written else folder / STATE_NAME)


def _state_named(archive: Path) -> str | None:
    """Return the `state:` of the file in a backup, which later commands will use."""
    with _opened(archive) as opened, tempfile.TemporaryDirectory(prefix="rota-") as temporary:
        for member in opened:
            _extract(opened, member, Path(temporary), only=FILE_NAME)
            if member.name == FILE_NAME:
                written = load(Path(temporary) / FILE_NAME).data.get("state")
                return written if isinstance(written, str) else None
    raise BackupUnusable(str(archive), f"it has no {FILE_NAME}")


def restore(
    archive: Path, place: ProjectPaths, *, clock: Clock, force: bool = False, dry_run: bool = False
) -> Restored:
    """Check a backup and restore it with everything paused; only `force` moves an older state aside."""
    if place.shared:
        raise StoreShared(shown(place.store), "no backup of SQLite goes into", tool="pg_restore for a dump of it")
    taken = any((place.state / f"{DATABASE}{suffix}").exists() for suffix in ("", "-wal", "-shm"))
    if taken and not force:
        raise StateExists(str(place.state))
    with _staging(place.state, dry_run=dry_run) as staging:
        manifest = _unpack(archive, staging)
        note = _prepare(staging, manifest, place=place, now=clock.now())
        if dry_run:
            return _restored(note, place, manifest, now=clock.now(), aside=None)
        lock = take_serve_lock(place.state)
        try:
            _refuse_ticks(place.state)
            aside = _move_aside(place.state, staging, now=clock.now()) if taken else None
            _put_in_place(staging, place)
        finally:
            lock.release()
    return _restored(note, place, manifest, now=clock.now(), aside=aside)


def _refuse_ticks(state: Path) -> None:
    """Refuse to replace a state that ticks still use; no new tick starts while we hold the lock."""
    turn = take(state / TICK_LOCK)
    if turn is not None:
        turn.release()
    if turn is None or living_processes(state):
        raise StateError(f"a tick still has runs on {state}", hint="wait until they end: `rota status` shows them")


class _RestoreNote(Struct, frozen=True):
    jobs: int
    instants: int | None
    queued: int
    file_kept: bool


def _restored(
    told: _RestoreNote, place: ProjectPaths, manifest: Manifest, *, now: datetime, aside: Path | None
) -> Restored:
    made_at = datetime.fromisoformat(manifest.made_at)
    return Restored(
        place.state, manifest, age(made_at, now), told.jobs, told.instants, told.queued, aside, told.file_kept
    )


@contextlib.contextmanager
def _staging(state: Path, *, dry_run: bool) -> Iterator[Path]:
    """Yield a folder on the disk of the state, so that a checked file only needs a rename."""
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="rota-") as temporary:
            yield Path(temporary)
        return
    make_state(state)
    folder = state / f".restore.{os.getpid()}"
    with reachable(folder):
        folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unpack(archive: Path, staging: Path) -> Manifest:
    with _opened(archive) as opened:
        for member in opened:
            _extract(opened, member, staging)
    manifest = _read_manifest(archive, staging)
    _check_parts(archive, staging, manifest)
    return manifest


class _Bounded:
    """The content of an archive, read up to a limit: a few kilobytes may unpack to a full disk."""

    def __init__(self, content: IO[bytes], limit: int) -> None:
        self._content = content
        self._limit = limit

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        if not 0 <= size <= LARGEST_READ:
            raise tarfile.TarError("it has headers that are not part of a rota backup")
        data = self._content.read(size)
        self._check(self._content.tell())
        return data

    def seek(self, position: int) -> int:
        """Set the position."""
        self._check(position)
        return self._content.seek(position)

    def tell(self) -> int:
        """Return the position."""
        return self._content.tell()

    def _check(self, position: int) -> None:
        if position > self._limit:
            raise tarfile.TarError(f"it unpacks to more than {self._limit:,} bytes")


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive; raise BackupUnusable for a broken archive, but report a full disk as such."""
    try:
        with archive.open("rb") as file, contextlib.ExitStack() as stack:
            limit = SMALL + RATIO * file.seek(0, os.SEEK_END)
            file.seek(0)
            packed = file.read(2) == GZIP
            file.seek(0)
            content: Any = stack.enter_context(gzip.GzipFile(fileobj=file)) if packed else file
            bounded: Any = _Bounded(content, limit)
            yield stack.enter_context(tarfile.open(fileobj=bounded, mode="r:"))
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise BackupUnusable(str(archive), str(error).lower() or "it is cut off") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise refusal(Path(error.filename or archive), error) from error
        raise BackupUnusable(str(archive), (error.strerror or str(error)).lower()) from error


def _extract(opened: tarfile.TarFile, member: tarfile.TarInfo, staging: Path, *, only: str = "") -> None:
    """Check one member and write it: only names of a backup, only plain files, with mode 0600."""
    if not member.isreg() or not _is_name(member.name):
        raise tarfile.TarError(f"it holds {member.name[:100]!r}, which is not part of a rota backup")
    if member.size > LARGEST_TEXT and member.name != DATABASE:
        raise tarfile.TarError(f"{member.name!r} in it has {member.size:,} bytes")
    if only and member.name != only:
        return
    source = opened.extractfile(member)
    assert source is not None
    path = staging / member.name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        shutil.copyfileobj(source, file)


def _is_name(name: str) -> bool:
    """Return whether a backup may have a file of this name; `_check_parts` checks parts against its rota.yaml."""
    if name in (MANIFEST, DATABASE, FILE_NAME) or OUTPUT.fullmatch(name):
        return True
    first, *steps = name.split("/")
    plain = all(step not in ("", ".", "..", FILE_NAME) for step in steps)
    return first == PARTS and 1 <= len(steps) <= DEEPEST_NAME and len(name) <= LONGEST_NAME and plain


def _check_parts(archive: Path, staging: Path, manifest: Manifest) -> None:
    """Refuse files that the backup's rota.yaml does not include, or with other sections than jobs, groups and pools."""
    project = PurePosixPath(str(manifest.project))
    patterns = [posixpath.normpath(project / pattern) for pattern in written_patterns(staging / FILE_NAME)]
    for path in (path for path in (staging / PARTS).rglob("*") if path.is_file()):
        name = path.relative_to(staging / PARTS)
        included = any(_matches(project / name, pattern) for pattern in patterns)
        sections = {""}
        with contextlib.suppress(FileProblems):
            sections = set(load(path).data)
        protected = any(step.casefold() in PROTECTED for step in name.parts)
        if not included or protected or not sections <= set(PART_SECTIONS):
            raise BackupUnusable(str(archive), f"{PARTS}/{name} in it is not part of its {FILE_NAME}")


def _matches(path: PurePosixPath, pattern: str) -> bool:
    """Return whether a pattern names a file; the place of `~` is unknown here, so only the rest must match."""
    _, tilde, below = pattern.partition("/~/")
    return path.match(below if tilde else pattern)


def _read_manifest(archive: Path, staging: Path) -> Manifest:
    try:
        manifest = Manifest(**json.loads((staging / MANIFEST).read_bytes()))
        datetime.fromisoformat(manifest.made_at)
    except (OSError, ValueError, TypeError) as error:
        raise BackupUnusable(str(archive), "its manifest cannot be read") from error
    if manifest.format != FORMAT:
        raise BackupUnusable(str(archive), f"it has format {manifest.format}, this rota knows {FORMAT}")
    path = staging / DATABASE
    if not (staging / FILE_NAME).is_file():
        raise BackupUnusable(str(archive), f"it has no {FILE_NAME}")
    if not path.is_file() or digest_of(path) != manifest.digest:
        raise BackupUnusable(str(archive), "its database is not the one that was backed up")
    return manifest


def _prepare(staging: Path, manifest: Manifest, *, place: ProjectPaths, now: datetime) -> _RestoreNote:
    """Check the copy, pause everything in it and count the instants since."""
    path = staging / DATABASE
    require_whole(path)
    made_at = datetime.fromisoformat(manifest.made_at)
    reason = f"restored from {manifest.host}, {say_duration(age(made_at, now))} old"
    settle = partial(settle_restored, made_at=made_at, host=manifest.host, reason=reason, now=now)
    store = open_store(path, now=now, create=False)
    try:
        store.write(settle)
        before, after = (f"file:{Path(folder) / FILE_NAME}" for folder in (manifest.project, place.folder))
        store.write(lambda db: db.execute("job_move_source", before=before, after=after))
        return store.read(partial(_count, place=place, staging=staging, now=now))
    finally:
        store.close()


def _count(db: Database, *, place: ProjectPaths, staging: Path, now: datetime) -> _RestoreNote:
    held = [job for job in jobs.all_jobs(db) if job.retired_at is None]
    plans = [plan_pause_end(job, end=now, catch_up=False, now=now).skip for job in held]
    counts = [plan.count for plan in plans if plan is not None]
    queued = [run for run in run_queries.all_unfinished_runs(db, limit=QUEUE_COUNTED) if run.status is Status.QUEUED]
    file, packed = place.folder / FILE_NAME, staging / FILE_NAME
    kept = file.is_file() and file.read_bytes() != packed.read_bytes()
    return _RestoreNote(len(held), None if None in counts else sum(count or 0 for count in counts), len(queued), kept)


def _move_aside(state: Path, staging: Path, *, now: datetime) -> Path:
    """Move an older state into its own folder; nothing is deleted."""
    aside = state / f"replaced-{now:%Y%m%dT%H%M%S}"
    with reachable(aside):
        aside.mkdir(mode=0o700)
        for path in sorted(state.iterdir()):
            if path not in (aside, staging) and path.name not in STAYS and not path.name.startswith("replaced-"):
                path.rename(aside / path.name)
        sync(state)
    return aside


def _put_in_place(staging: Path, place: ProjectPaths) -> None:
    """Rename the checked files into place, the database last: without it no scheduler starts."""
    with reachable(place.state):
        for name in ("runs", DATABASE):
            if (staging / name).exists():
                if (place.state / name).is_dir():
                    (place.state / name).rename(place.state / f"{name}.replaced")
                (staging / name).rename(place.state / name)
        sync(place.state)
        if (place.folder / FILE_NAME).exists():
            return
        shutil.copyfile(staging / FILE_NAME, place.folder / FILE_NAME)
        for part in sorted(path for path in (staging / PARTS).rglob("*") if path.is_file()):
            target = place.folder / part.relative_to(staging / PARTS)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(part, target)
