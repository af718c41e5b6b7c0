"""Judgements of a machine and a database server for `rota doctor`."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import PurePath

from msgspec import Struct

from rota.model.amounts import listed

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
NO_SPACE, LOW_SPACE = 50 * MEGABYTE, 500 * MEGABYTE
FILES_A_RUN, FILES_AT_REST = 4, 64
PROCESSES_A_RUN, PROCESSES_AT_REST = 4, 32
EARLIEST, LATEST = 2025, 2100


class Severity(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(Struct, frozen=True):
    """One check: its topic, its result and its remedy."""

    topic: str
    level: Severity
    text: str
    remedy: str = ""


def judge_sqlite(version: str) -> Finding:
    """Judge the SQLite version: before 3.51.3 a checkpoint beside a writer could lose a commit (the WAL-reset bug)."""
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if numbers >= FIXED_SQLITE:
        return Finding("sqlite", Severity.OK, f"SQLite {version}")
    fixed = ".".join(map(str, FIXED_SQLITE))
    text = f"SQLite {version} has the WAL-reset bug, which can damage a database that two processes use"
    return Finding("sqlite", Severity.PROBLEM, text, f"install an apsw that carries SQLite {fixed} or newer")


def is_network(kind: str) -> bool:
    """Return whether a file system is remote: locks and shared memory are not reliable there."""
    kind = kind.lower()
    fuse = kind.removeprefix("fuse.") if kind.startswith("fuse.") else ""
    return kind in NETWORK or any(fuse.startswith(name) for name in NETWORK_FUSE)


def synced_by(path: PurePath) -> str | None:
    """Return the service that synchronises a folder, by the names in its path, or None."""
    for part in path.parts:
        name = part.lower()
        for word, service in SYNCED.items():
            if name == word or (len(word) > 4 and name.startswith((f"{word} ", f"{word}-", f"{word}("))):
                return service
    return None


def judge_place(path: PurePath, kind: str) -> Finding:
    """Judge the place of a state folder."""
    elsewhere = "keep the state on a local disk: set `state:` or ROTA_STATE"
    if is_network(kind):
        text = f"{path} is on a network file system ({kind}), where SQLite's locks are not reliable"
        return Finding("file system", Severity.PROBLEM, text, elsewhere)
    service = synced_by(path)
    if service is not None:
        text = f"{path} seems to be synchronised by {service}, which can damage a database in use"
        return Finding("file system", Severity.WARNING, text, elsewhere)
    return Finding("file system", Severity.OK, f"{path} is on a local disk ({kind or 'unknown kind'})")


def judge_room(path: PurePath, free: int) -> Finding:
    """Judge the free space on the disk of the state."""
    text = f"{free / MEGABYTE:,.0f} MB free on the disk of {path}"
    if free >= LOW_SPACE:
        return Finding("disk", Severity.OK, text)
    remedy = "free some space; rota starts no runs on a full disk, and continues by itself"
    return Finding("disk", Severity.PROBLEM if free < NO_SPACE else Severity.WARNING, f"only {text}", remedy)


def judge_clock(now: datetime, newest: datetime | None) -> Finding:
    """Judge the wall clock: its year, and whether it is behind a stored time."""
    shown = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    remedy = "set the clock, and use NTP"
    if not EARLIEST <= now.year < LATEST:
        return Finding("clock", Severity.PROBLEM, f"the clock shows {shown}", remedy)
    if newest is not None and newest > now:
        text = f"the clock shows {shown}, but a scheduler started at {newest:%Y-%m-%d %H:%M:%S} UTC"
        return Finding("clock", Severity.WARNING, text, remedy)
    return Finding("clock", Severity.OK, shown)


def judge_mode(path: PurePath, mode: int, *, needed: bool) -> Finding:
    """Judge the mode of a private file or folder; `needed`: rota rejects another mode."""
    shown = f"{mode & 0o777:04o}"
    if not mode & 0o077:
        return Finding("permissions", Severity.OK, f"{path} has mode {shown}")
    closed = f"{mode & 0o700:o}"
    level = Severity.PROBLEM if needed else Severity.WARNING
    return Finding("permissions", level, f"{path} is open to other users (mode {shown})", f"chmod {closed} {path}")


def judge_limits(files: int | None, processes: int | None, *, slots: int) -> list[Finding]:
    """Judge the limits on open files and processes for this many slots; None: without limit."""
    wanted = (
        ("open files", files, FILES_AT_REST + FILES_A_RUN * slots, "ulimit -n"),
        ("processes", processes, PROCESSES_AT_REST + PROCESSES_A_RUN * slots, "ulimit -u"),
    )
    findings = []
    for name, limit, least, how in wanted:
        if limit is None or limit >= least:
            text = f"{name}: {'no limit' if limit is None else format(limit, ',')}"
            findings.append(Finding("limits", Severity.OK, text))
        else:
            text = f"{name}: {limit:,}, and {least:,} may be needed"
            remedy = f"raise it (`{how} {least}`), or lower `scheduler.concurrency`"
            findings.append(Finding("limits", Severity.WARNING, text, remedy))
    return findings


def judge_power(task: str, problem: str, *, key: str) -> Finding:
    """Judge whether the machine can be kept awake or woken; `problem` empty: it can.

    >>> judge_power("woken for 1 job", "it has no clock that can wake it", key="wake").text
    'the machine is not woken for 1 job: it has no clock that can wake it'
    """
    if not problem:
        return Finding("power", Severity.OK, f"the machine is {task}")
    remedy = f"runs start as before, when the machine is awake; `{key}` works once this is repaired"
    return Finding("power", Severity.PROBLEM, f"the machine is not {task}: {problem}", remedy)


def worst(findings: Sequence[Finding]) -> Severity:
    """Return the most serious level among findings."""
    order = list(Severity)
    return max((finding.level for finding in findings), key=order.index, default=Severity.OK)


MAX_ROUND_TRIP = timedelta(milliseconds=20)
"""A longer round trip makes every start late: each start needs several."""
MAX_CLOCK_DIFFERENCE = timedelta(seconds=2)
"""A larger difference makes a machine fire visibly early or late."""
FLUSHES = ("fsync", "full_page_writes")
SPARE_CONNECTIONS = 10
NAMES_SHOWN = 3
NONE_RUNNING = Finding("scheduler", Severity.NOTE, "none is running", "start one with `rota serve`")
NONE_HERE = Finding("scheduler", Severity.NOTE, "none is running in this folder; other machines are unknown")


class Server(Struct, frozen=True):
    """The facts about a server: `apart` is the lead of our clock over its own."""

    place: str
    version: str
    round_trip: timedelta
    apart: timedelta
    settings: dict[str, str]
    connections: int
    most_connections: int
    may_write: bool
    owns: bool


def judge_server(server: Server) -> Iterator[Finding]:
    """Judge a server and the rights of its role."""
    yield Finding("database", Severity.OK, f"{server.place} is PostgreSQL {server.version}")
    yield _judge_rights(server)
    yield from _judge_flushing(server)
    yield _judge_distance(server)
    yield _judge_clock(server)
    yield _judge_connections(server)


def _judge_rights(server: Server) -> Finding:
    if not server.may_write:
        text = "the server refuses writes: it is a standby, or the role may not write"
        return Finding("rights", Severity.PROBLEM, text, "use the primary server")
    if not server.owns:
        text = "another role owns rota's tables, so an upgrade of rota cannot change them"
        return Finding("rights", Severity.WARNING, text, "use one role for all, or make its owner a member of this one")
    return Finding("rights", Severity.OK, "the role owns rota's tables and may write them")


def _judge_flushing(server: Server) -> Iterator[Finding]:
    off = [name for name in FLUSHES if server.settings.get(name) == "off"]
    if off:
        text = f"off: {', '.join(off)}; a power failure may lose or damage committed data"
        yield Finding("durability", Severity.PROBLEM, text, "turn it on in postgresql.conf")
        return
    setting = server.settings.get("synchronous_commit", "on")
    own = "" if setting in ("on", "remote_apply") else f", which is {setting} there, on for itself"
    yield Finding(
        "durability", Severity.OK, f"commits are flushed; rota keeps synchronous_commit{own or f' = {setting}'}"
    )


def _judge_distance(server: Server) -> Finding:
    milliseconds = server.round_trip / timedelta(milliseconds=1)
    text = f"a round trip takes {milliseconds:.1f} ms"
    if server.round_trip > MAX_ROUND_TRIP:
        return Finding("distance", Severity.WARNING, text, "runs start late: move the database closer")
    return Finding("distance", Severity.OK, text)


def _judge_clock(server: Server) -> Finding:
    way = "ahead of" if server.apart > timedelta() else "behind"
    text = f"this machine's clock is {abs(server.apart).total_seconds():.1f} s {way} the database's"
    if abs(server.apart) > MAX_CLOCK_DIFFERENCE:
        return Finding("clocks", Severity.WARNING, text, "use NTP on both: each machine fires by its own clock")
    return Finding("clocks", Severity.OK, text)


def _judge_connections(server: Server) -> Finding:
    text = f"{server.connections} of {server.most_connections} connections are in use"
    if server.most_connections - server.connections < SPARE_CONNECTIONS:
        remedy = "raise max_connections, or close others: rota uses up to twelve per machine"
        return Finding("connections", Severity.WARNING, text, remedy)
    return Finding("connections", Severity.OK, text)


def judge_machines(serving: Sequence[str], claiming: Sequence[str], *, here: bool) -> list[Finding]:
    """Judge the machines on a shared database; `here`: a scheduler runs in this folder.

    >>> [one.text for one in judge_machines(["b", "c on host"], ["d"], here=False)]
    ['none runs in this folder; b, c on host serve, d claims']
    """
    claims = _verb(claiming, "claims", "claim")
    if serving:
        also = "beside it " if here else "none runs in this folder; "
        text = also + ", ".join(filter(None, (_verb(serving, "serves", "serve"), claims)))
        return [Finding("scheduler", Severity.OK, text)]
    if here:
        return [Finding("scheduler", Severity.OK, f"beside it {claims}")] if claiming else []
    if claiming:
        text = f"no machine serves, so due jobs do not fire; {claims}"
        return [Finding("scheduler", Severity.WARNING, text, "start `rota serve` on one of them, or here")]
    return [NONE_RUNNING]


def _verb(names: Sequence[str], one: str, many: str) -> str:
    return f"{listed(names, NAMES_SHOWN)} {one if len(names) == 1 else many}" if names else ""
