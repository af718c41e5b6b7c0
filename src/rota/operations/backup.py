"""Backup: database, file and, if wanted, outputs in one archive, taken from a living scheduler; never secrets."""

import hashlib
import io
import json
import os
import re
import socket
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path

from rota.declare.files import home_of
from rota.engine.wake import ask
from rota.model.address import shown
from rota.model.clock import Clock, iso
from rota.model.errors import FileExists, StoreShared
from rota.operations.including import parts_of
from rota.operations.project import Place
from rota.runners.output import RUNS
from rota.settings import FILE_NAME
from rota.store.copying import copy_database, require_whole, sync
from rota.store.sqlite import reachable

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE = "rota.db"
PARTS = "parts"
CHUNK = 1 << 20
# A run's folder also holds what it was started with: params and environment, secrets among them.
KEPT = re.compile(r"(output\.\d+|outcome\.json|result\.json)")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive holds, and where and when it was made."""

    format: int
    rota: str
    host: str
    made_at: str
    project: str
    output: bool
    digest: str


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A finished backup."""

    path: Path
    manifest: Manifest
    size: int
    outputs: int
    scheduler: bool


def back_up(place: Place, target: Path, *, clock: Clock, with_output: bool) -> BackedUp:
    """Write a consistent copy of a project to `target`, whole or not at all; a scheduler may go on meanwhile."""
    if place.shared:
        raise StoreShared(shown(place.store), "rota does not copy itself", tool="pg_dump")
    if target.exists():
        raise FileExists(str(target))
    copy = target.with_name(f".{target.name}.{os.getpid()}.db")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    with reachable(target):
        try:
            copy_database(place.state / DATABASE, copy)
            require_whole(copy)
            manifest = _manifest(place, copy, made_at=clock.now(), output=with_output)
            outputs = _write(part, place, copy, manifest=manifest, compress=target.suffix != ".tar")
            sync(part)
            part.rename(target)
            sync(target.parent)
        finally:
            for path in (part, copy, *(copy.with_name(copy.name + suffix) for suffix in ("-wal", "-shm"))):
                path.unlink(missing_ok=True)
        size = target.stat().st_size
    return BackedUp(target, manifest, size, outputs, scheduler=ask(place.state, {"ask": "status"}) is not None)


def _manifest(place: Place, copy: Path, *, made_at: datetime, output: bool) -> Manifest:
    return Manifest(
        format=FORMAT,
        rota=metadata.version("rota"),
        host=socket.gethostname(),
        made_at=iso(made_at),
        project=str(place.folder),
        output=output,
        digest=digest_of(copy),
    )


def digest_of(path: Path) -> str:
    """Return the checksum of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            found.update(data)
    return found.hexdigest()


def _write(part: Path, place: Place, copy: Path, *, manifest: Manifest, compress: bool) -> int:
    descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz" if compress else "w") as archive:
        _add_bytes(archive, MANIFEST, json.dumps(asdict(manifest), indent=2).encode())
        _add_bytes(archive, FILE_NAME, (place.folder / FILE_NAME).read_bytes())
        for piece in parts_of(place.folder / FILE_NAME, home_of(os.environ)):
            _add_bytes(archive, f"{PARTS}/{piece.file}", piece.path.read_bytes())
        archive.add(copy, DATABASE, filter=_plain)
        outputs = 0
        for path in _outputs(place.state) if manifest.output else ():
            outputs += _add_output(archive, path, place.state)
    return outputs


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode, member.uid, member.gid, member.uname, member.gname = 0o600, 0, 0, "", ""
    return member


def _outputs(state: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(state / RUNS):
        yield from (Path(folder, name) for name in sorted(names) if KEPT.fullmatch(name))


def _add_output(archive: tarfile.TarFile, path: Path, state: Path) -> int:
    """Add a file that a run may still be writing, or prune may take away."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return 0
    _add_bytes(archive, path.relative_to(state).as_posix(), data)
    return 1
