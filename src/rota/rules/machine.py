"""What about a machine is fit for a scheduler and what is not. Pure: measured values in, findings out."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import PurePath

FIXED_SQLITE = (3, 51, 3)
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "afpfs", "webdav", "davfs", "9p", "virtiofs", "vboxsf"}
    | {"afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "ncpfs", "ocfs2", "gfs2", "prl_fs", "fuse.vmhgfs-fuse"}
)
NETWORK_FUSE = ("sshfs", "s3fs", "rclone", "gcsfuse", "goofys", "davfs", "glusterfs", "ceph", "smb", "nfs", "gvfs")
SYNCED = {
    "dropbox": "Dropbox",
    "onedrive": "OneDrive",
    "google drive": "Google Drive",
    "googledrive": "Google Drive",
    "my drive": "Google Drive",
    "mobile documents": "iCloud",
    "icloud drive": "iCloud",
    "icloud": "iCloud",
    "cloudstorage": "a cloud folder",
    "nextcloud": "Nextcloud",
    "owncloud": "ownCloud",
    "syncthing": "Syncthing",
    "pcloud": "pCloud",
    "seafile": "Seafile",
}
MEGABYTE = 1_000_000
SCARCE, LITTLE = 50 * MEGABYTE, 500 * MEGABYTE
FILES_A_RUN, FILES_AT_REST = 4, 64
PROCESSES_A_RUN, PROCESSES_AT_REST = 4, 32
EARLIEST, LATEST = 2025, 2100


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what, how it is, and what to do where it is not well."""

    topic: str
    level: Level
    text: str
    remedy: str = ""


def judge_sqlite(version: str) -> Finding:
    """Judge the SQLite in use: before 3.51.3 a checkpoint beside a writer could lose a commit (the WAL-reset bug)."""
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if numbers >= FIXED_SQLITE:
        return Finding("sqlite", Level.OK, f"SQLite {version}")
    fixed = ".".join(map(str, FIXED_SQLITE))
    text = f"SQLite {version} has the WAL-reset bug, which can damage a database that two processes use"
    return Finding("sqlite", Level.PROBLEM, text, f"install an apsw that carries SQLite {fixed} or newer")


def is_network(kind: str) -> bool:
    """Tell whether a file system is on another machine, where locks and shared memory cannot be relied on."""
    kind = kind.lower()
    fuse = kind.removeprefix("fuse.") if kind.startswith("fuse.") else ""
    return kind in NETWORK or any(fuse.startswith(name) for name in NETWORK_FUSE)


def synced_by(path: PurePath) -> str | None:
    """Return what synchronises a folder, judged by the names in its path; None for nothing known."""
    for part in path.parts:
        name = part.lower()
        for word, service in SYNCED.items():
            if name == word or (len(word) > 4 and name.startswith((f"{word} ", f"{word}-", f"{word}("))):
                return service
    return None


def judge_place(path: PurePath, kind: str) -> Finding:
    """Judge where a state folder is."""
    elsewhere = "keep the state on a local disk: set `state:` or ROTA_STATE"
    if is_network(kind):
        text = f"{path} is on a network file system ({kind}), where SQLite's locks cannot be relied on"
        return Finding("file system", Level.PROBLEM, text, elsewhere)
    service = synced_by(path)
    if service is not None:
        text = f"{path} seems to be synchronised by {service}, which can damage a database in use"
        return Finding("file system", Level.WARNING, text, elsewhere)
    return Finding("file system", Level.OK, f"{path} is on a local disk ({kind or 'unknown kind'})")


def judge_room(path: PurePath, free: int) -> Finding:
    """Judge how much room the disk of the state has."""
    told = f"{free / MEGABYTE:,.0f} MB free on the disk of {path}"
    remedy = "free some space; rota starts nothing new on a full disk, and goes on by itself"
    if free < SCARCE:
        return Finding("disk", Level.PROBLEM, f"only {told}", remedy)
    return Finding("disk", Level.WARNING, f"only {told}", remedy) if free < LITTLE else Finding("disk", Level.OK, told)


def judge_clock(now: datetime, newest: datetime | None) -> Finding:
    """Judge the wall clock: its year, and whether it is behind what was stored under it."""
    told = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    remedy = "set the clock, and let it be kept by NTP"
    if not EARLIEST <= now.year < LATEST:
        return Finding("clock", Level.PROBLEM, f"the wall clock says {told}", remedy)
    if newest is not None and newest > now:
        text = f"the wall clock says {told}, but a scheduler was started at {newest:%Y-%m-%d %H:%M:%S} UTC"
        return Finding("clock", Level.WARNING, text, remedy)
    return Finding("clock", Level.OK, told)


def judge_mode(path: PurePath, mode: int, *, needed: bool) -> Finding:
    """Judge the mode of something that only its owner may see; `needed`: rota refuses it otherwise."""
    shown = f"{mode & 0o777:04o}"
    if not mode & 0o077:
        return Finding("permissions", Level.OK, f"{path} has mode {shown}")
    closed = f"{mode & 0o700:o}"
    level = Level.PROBLEM if needed else Level.WARNING
    return Finding("permissions", level, f"{path} is open to other users (mode {shown})", f"chmod {closed} {path}")


def judge_limits(files: int | None, processes: int | None, *, slots: int) -> list[Finding]:
    """Judge the limits on open files and processes for this many runs at once; None: without limit."""
    wanted = (
        ("open files", files, FILES_AT_REST + FILES_A_RUN * slots, "ulimit -n"),
        ("processes", processes, PROCESSES_AT_REST + PROCESSES_A_RUN * slots, "ulimit -u"),
    )
    return [_judge_limit(name, limit, least, how) for name, limit, least, how in wanted]


def _judge_limit(name: str, limit: int | None, least: int, how: str) -> Finding:
    if limit is None or limit >= least:
        return Finding("limits", Level.OK, f"{name}: {'no limit' if limit is None else format(limit, ',')}")
    text = f"{name}: {limit:,}, and {least:,} may be needed"
    return Finding("limits", Level.WARNING, text, f"raise it (`{how} {least}`), or lower `scheduler.concurrency`")


def worst(findings: Sequence[Finding]) -> Level:
    """Return the most serious level among findings."""
    order = list(Level)
    return max((finding.level for finding in findings), key=order.index, default=Level.OK)
