"""A real scheduler whose storage is full, read-only, locked, gone or damaged: it says so, loses nothing, goes on."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from tests.service.serving import Project, ended, kill
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("service")

WAITING = """
state: {state}
scheduler: {{shutdown_grace: 1s}}
defaults: {{retry: false}}
jobs:
  long:
    command: [sh, -c, "echo $$ > pid; read line < gate; exit 7"]
    timeout: never
  short: {{command: [echo, hi]}}
"""
TICKING = """
state: {state}
jobs:
  tick: {{interval: 1s, anchor: fixed, command: ["true"], overlap: allow}}
"""


class Disk:
    """A small file system of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Take all the room there is."""
        with open(self.folder / "ballast", "ab", buffering=0) as file:
            for size in (65536, 4096, 512, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    continue

    def empty(self) -> None:
        """Give the room back."""
        (self.folder / "ballast").unlink()


def mounted(folder: Path, size: str) -> Disk:
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size},mode=0700"
    if os.getuid() != 0:
        pytest.skip("mounting a small disk needs root")
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"cannot mount here: {made.stderr}")
    return Disk(folder)


@pytest.fixture
def disk(project: Project) -> Iterator[Disk]:
    """A disk of 8 MB that holds the project's state."""
    made = mounted(project.folder / "disk", "8m")
    project.state = made.folder / "state"
    yield made
    project.end()
    subprocess.run(["umount", "-l", str(made.folder)], check=True)


def waiting(project: Project, state: Path) -> None:
    """Serve a project with a command that waits at a fifo."""
    os.mkfifo(project.folder / "gate")
    project.write(WAITING.format(state=state))
    project.serve()
    project.rota("trigger", "long")
    until((project.folder / "pid").exists, what="the command to start")
    until(lambda: project.history("long")[0]["started_at"], what="the start to be stored")


def let_go(project: Project) -> None:
    with open(project.folder / "gate", "w") as gate:
        gate.write("go\n")


def attention(project: Project) -> str:
    return " ".join(f"{one['name']}: {one['what']}" for one in project.scheduler()["attention"])


def test_on_a_full_disk_new_work_is_refused_and_a_running_command_is_recorded_once_there_is_room(
    project: Project, disk: Disk
) -> None:
    waiting(project, disk.folder / "state")
    disk.fill()
    refused = project.rota("trigger", "short", "--json", check=False, apart=True)
    assert refused.returncode == 74
    error = json.loads(refused.stderr)["error"]
    assert error["code"] == "storage_full"
    assert str(disk.folder) in error["message"]
    assert "space" in error["hint"]
    let_go(project)
    assert project.scheduler()["pid"] == project.servers[-1].pid
    disk.empty()
    project.until_told("long", [("FAILED", "exit_code")])
    assert project.history("long")[0]["exit_code"] == 7
    assert project.told("short") == []
    project.rota("run", "short")


def test_fires_missed_on_a_full_disk_are_accounted_for_when_there_is_room(project: Project, disk: Disk) -> None:
    """RISK-2, R-10: every due instant has one row, and status showed why."""
    project.write(TICKING.format(state=disk.folder / "state"))
    project.serve()
    until(lambda: len(project.history("tick")) >= 2, what="two fires")
    disk.fill()
    until(lambda: "is full" in attention(project), what="status to show the full disk")
    full_at = datetime.fromisoformat(project.history("tick")[-1]["scheduled_for"])
    disk.empty()
    until(lambda: _last_covered(project) > full_at + timedelta(seconds=3), what="fires to go on")
    covered = [at for run in project.history("tick") for at in _covered(run)]
    assert covered == [covered[0] + timedelta(seconds=number) for number in range(len(covered))]
    until(lambda: "is full" not in attention(project), what="status to be well again")
    project.servers[-1].terminate()
    ended(project.servers[-1])
    project.rota("verify")


def health(project: Project) -> tuple[int, dict[str, str | None]]:
    """Return what `/healthz` answers."""
    note = json.loads((project.state / "http.json").read_text())
    answer = httpx2.get(f"{note['url']}/healthz")
    return answer.status_code, answer.json()


def test_a_scheduler_that_can_start_nothing_is_unhealthy_until_there_is_room(project: Project, disk: Disk) -> None:
    """Status and health tell that fire or claim fails, with the error, and are well again by themselves."""
    project.write(TICKING.format(state=disk.folder / "state"))
    project.serve(http=True)
    until(lambda: health(project) == (200, {"status": "ok"}), what="health to be well")
    disk.fill()
    until(lambda: health(project) == (503, {"status": "failing", "error": "storage_full"}), what="health to be bad")
    told = project.rota("status", check=False)
    assert told.returncode == 1
    assert f"fails, nothing starts: the disk of {project.state / 'rota.db'} is full" in told.stdout
    assert project.scheduler()["failing"]["code"] == "storage_full"
    told = project.rota("status", "--json", check=False)
    assert [item["kind"] for item in json.loads(told.stdout)["attention"]] == ["storage"]
    assert project.rota("doctor", check=False).stdout.count("problem  scheduler") == 1
    disk.empty()
    until(lambda: health(project)[0] == 200, what="health to be well again")
    assert project.rota("status").returncode == 0


@pytest.mark.parametrize("damage", ["DROP TABLE job", "DROP TABLE run", "DROP TABLE live"])
def test_a_scheduler_whose_tables_are_gone_is_unhealthy(project: Project, damage: str) -> None:
    project.write(TICKING.format(state=".rota"))
    project.serve(http=True)
    until(lambda: health(project)[0] == 200, what="health to be well")
    connection = sqlite3.connect(project.state / "rota.db", timeout=60)
    connection.execute(damage)
    connection.close()
    until(lambda: health(project) == (503, {"status": "failing", "error": "database_corrupt"}), what="health to be bad")
    told = project.rota("status", check=False)
    assert told.returncode == 1
    assert "nothing starts" in told.stdout
    assert "no such table" in told.stdout


def _covered(run: dict[str, str]) -> list[datetime]:
    first = datetime.fromisoformat(run["scheduled_for"])
    return [first + timedelta(seconds=number) for number in range(int(run["count"] or 1))]


def _last_covered(project: Project) -> datetime:
    return _covered(project.history("tick")[-1])[-1]


def test_a_full_output_folder_holds_runs_back_until_there_is_room(project: Project) -> None:
    project.write(WAITING.format(state=".rota"))
    project.rota("apply")
    disk = mounted(project.state / "runs", "64k")
    try:
        disk.fill()
        project.serve()
        project.rota("trigger", "short")
        told = until(lambda: "storage" in (told := attention(project)) and told, what="status to show the full folder")
        assert str(project.state / "runs") in told
        assert project.told("short")[0][0] in ("QUEUED", "RUNNING")
        disk.empty()
        project.until_told("short", [("COMPLETED", None)])
    finally:
        project.end()
        subprocess.run(["umount", "-l", str(disk.folder)], check=True)


def test_a_stop_on_a_full_disk_ends_and_the_next_start_records_what_commands_left(project: Project, disk: Disk) -> None:
    """R-08, R-23."""
    waiting(project, disk.folder / "state")
    disk.fill()
    with open(disk.folder / "ballast", "r+b") as ballast:  # room for the keeper's outcome, not for the database
        ballast.truncate(os.path.getsize(disk.folder / "ballast") - 4096)
    server = project.servers[-1]
    server.terminate()
    assert ended(server) in (0, 74)
    disk.empty()
    project.serve()
    until(lambda: project.told("long")[0][0] == "FAILED", what="the outcome")
    assert project.told("long")[0][1] in ("shutdown", "process_restarted")


def test_a_read_only_disk_is_refused_at_the_start_with_path_and_remedy(project: Project, disk: Disk) -> None:
    project.write(WAITING.format(state=disk.folder / "state"))
    project.rota("apply")
    subprocess.run(["mount", "-o", "remount,ro", str(disk.folder)], check=True)
    for command in (["serve"], ["trigger", "short"]):
        refused = project.rota(*command, check=False, apart=True)
        assert refused.returncode == 77, refused.stderr
        assert str(disk.folder / "state") in refused.stderr
        assert "owner and mode" in refused.stderr
        assert "Traceback" not in refused.stderr


def unusable(project: Project, *around: str) -> dict[str, int]:
    """Return how commands end that cannot use the state; each names a path of it and what to do."""
    codes = {}
    for command in ALL_KINDS:
        typed = [*around, sys.executable, "-m", "rota", "--dir", str(project.folder), *command.split()]
        done = subprocess.run(typed, capture_output=True, text=True, check=False, env=project.environment())
        said = done.stdout + done.stderr
        assert "Traceback" not in said, said
        assert str(project.state) in said, f"{command}: {said}"
        codes[command] = done.returncode
    return codes


ALL_KINDS = (
    "status --json",
    "doctor",
    "stop",
    "tick",
    "tick --dry-run",
    "open",
    "apply",
    "list",
    "history",
    "logs short",
    "explain short",
    "pause short",
    "run short",
    "verify",
    "workers",
    "serve",
)


def test_every_command_on_a_read_only_disk_tells_path_and_remedy(project: Project, disk: Disk) -> None:
    """The locks that a scheduler left there can be looked at, so it is told that none runs."""
    project.write(WAITING.format(state=disk.folder / "state"))
    kill(project.serve())
    subprocess.run(["mount", "-o", "remount,ro", str(disk.folder)], check=True)
    codes = unusable(project)
    assert {command: code for command, code in codes.items() if code != 77} == {"doctor": 1, "stop": 69, "open": 69}


def test_every_command_of_another_user_tells_path_and_remedy(project: Project) -> None:
    around = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("being another user needs root and setpriv")
    project.write(WAITING.format(state=".rota"))
    kill(project.serve())
    os.chown(project.state, 65534, 65534)
    assert {command: code for command, code in unusable(project, *around).items() if code != 77} == {}


def test_a_state_folder_that_cannot_be_made_is_refused_with_path_and_remedy(project: Project, disk: Disk) -> None:
    project.write(WAITING.format(state=disk.folder / "state"))
    subprocess.run(["mount", "-o", "remount,ro", str(disk.folder)], check=True)
    for command in ("apply", "tick", "serve"):
        refused = project.rota(command, check=False, apart=True)
        assert refused.returncode == 77, refused.stderr
        assert f"cannot create the state folder {disk.folder / 'state'}" in refused.stderr


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of writers in a process of its own: locks of one process do not meet."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=600)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_held_for_long_delays_writes_and_loses_none(project: Project) -> None:
    waiting(project, project.state)
    with locked(project.state / "rota.db"):
        let_go(project)
        refused = project.rota("trigger", "short", check=False)
        assert refused.returncode == 75
        assert str(project.state / "rota.db") in refused.stderr
        until(lambda: "locked by another process" in attention(project), what="status to show the lock")
    project.until_told("long", [("FAILED", "exit_code")])
    project.rota("run", "short")


def test_a_state_folder_that_was_replaced_is_not_served_any_longer(project: Project) -> None:
    waiting(project, project.state)
    server = project.servers[-1]
    project.vanish()
    project.rota("apply")
    assert ended(server) == 74
    assert f"the state folder {project.state} disappeared or was replaced" in project.log()
    assert project.told("long") == []


@pytest.mark.parametrize("by", ["nothing", "noise", "its own backup", "its own past", "another project"])
def test_a_database_that_is_overwritten_in_place_is_not_served_any_longer(
    project: Project, tmp_path: Path, by: str
) -> None:
    """The file keeps its name and its number, so only what it holds tells."""
    path = project.state / "rota.db"
    project.write(TICKING.format(state=".rota"))
    project.rota("apply")
    past = path.read_bytes()
    other = Project(tmp_path / "other")
    other.folder.mkdir()
    other.write(WAITING.format(state=".rota"))
    other.rota("apply")
    server = project.serve()
    until(lambda: ("COMPLETED", None) in project.told("tick"), what="a first run")
    project.rota("backup", str(tmp_path / "copy"))
    with tarfile.open(tmp_path / "copy") as archive:
        (backup,) = (one for one in archive if one.name.endswith("rota.db"))
        own = archive.extractfile(backup)
        assert own is not None
        contents = {
            "nothing": b"",
            "noise": os.urandom(len(past)),
            "its own backup": own.read(),
            "its own past": past,
            "another project": (other.state / "rota.db").read_bytes(),
        }[by]
    path.write_bytes(contents)
    assert ended(server) == 74
    assert f"the database {path} was overwritten" in project.log()
    assert path.read_bytes() == contents


@pytest.mark.parametrize("damage", ["foreign", "newer", "corrupt"])
def test_a_database_that_cannot_be_used_ends_serve_at_once_and_is_left_alone(project: Project, damage: str) -> None:
    """DEC-002."""
    project.write(WAITING.format(state=".rota"))
    project.rota("apply")
    path = project.state / "rota.db"
    if damage == "corrupt":
        path.write_bytes(b"\xff" * 8192)
    elif damage == "foreign":
        path.unlink()
        sqlite3.connect(path).execute("CREATE TABLE theirs (x)").connection.close()
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("INSERT INTO migration VALUES (9999, 'later', 'x', 0)")
        connection.close()
    before = path.read_bytes()
    refused = project.rota("serve", check=False)
    assert refused.returncode == 78, refused.stderr
    assert str(path) in refused.stderr
    assert len(refused.stderr.splitlines()) == 2
    assert path.read_bytes() == before


def test_a_missing_index_is_found_at_the_start(project: Project) -> None:
    project.write(WAITING.format(state=".rota"))
    project.rota("apply")
    with sqlite3.connect(project.state / "rota.db") as connection:
        connection.execute("DROP INDEX live_ready")
    connection.close()
    refused = project.rota("serve", check=False)
    assert refused.returncode == 78
    assert "no such index: live_ready" in refused.stderr


def test_damage_is_found_beside_the_work_after_an_unclean_stop(project: Project) -> None:
    waiting(project, project.state)
    kill(project.servers[-1])
    path = project.state / "rota.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("CREATE TABLE filler (x TEXT)")
        connection.executemany("INSERT INTO filler VALUES (?)", [("x" * 900,)] * 400)
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'filler'").fetchone()
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with open(path, "r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xee" * size)
    project.serve()
    until(lambda: "is damaged" in attention(project), what="status to show the damage")
    until(lambda: "database is corrupt" in project.log(), what="the log to show the damage")


def test_a_log_left_by_something_else_is_not_taken_for_ours(project: Project) -> None:
    project.write(WAITING.format(state=".rota"))
    project.rota("apply")
    for suffix in ("-wal", "-shm"):
        (project.state / f"rota.db{suffix}").write_bytes(os.urandom(40_000))
    project.serve()
    project.rota("run", "short")
    assert project.told("short") == [("COMPLETED", None)]
