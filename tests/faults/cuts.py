"""Power cuts and failing disks: a writer's log, replayed up to a point, holds all that it acknowledged."""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from rota.model.errors import RotaError
from rota.store.migrate import open_store
from tests.faults.disk import Disk, Kind, Loss, read_log
from tests.faults.ledger import account
from tests.memory import in_memory
from tests.store.making import NOW

ROOT = Path(__file__).parents[2]
LOSSES: tuple[Loss, ...] = ("all", "content", "torn")
ORDER = ("QUEUED", "DISPATCHED", "RUNNING", "COMPLETED", "FAILED", "SKIPPED", "CANCELLED")
MINUTE = 60_000
CLEAR = ("storage_full", "state", "database_busy")
FAILING = {
    "pwrite EIO": (1 << Kind.WRITE, errno.EIO),
    "pwrite ENOSPC": (1 << Kind.WRITE, errno.ENOSPC),
    "fdatasync EIO": (1 << Kind.SYNC, errno.EIO),
    "fdatasync ENOSPC": (1 << Kind.SYNC, errno.ENOSPC),
    "ftruncate ENOSPC": (1 << Kind.TRUNCATE, errno.ENOSPC),
}


class Verdict(Struct, frozen=True):
    """What one cut or failure cost: acknowledged facts that are gone, instants with two rows, and what is broken."""

    lost: tuple[str, ...] = ()
    doubled: tuple[int, ...] = ()
    broken: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, doubled or broken."""
        return not (self.lost or self.doubled or self.broken)


def write(
    recorder: Path, folder: Path, *, seed: int, rounds: int, mode: str = "FULL", failing: Sequence[int] = ()
) -> Path:
    """Let a writer work under the recorder; return its log."""
    state, log = folder / "state", folder / "log"
    shutil.rmtree(state, ignore_errors=True)
    log.unlink(missing_ok=True)
    state.mkdir(parents=True)
    command = [sys.executable, "-m", "tests.faults.writer", str(state), str(log), str(seed), str(rounds), mode]
    environment = {**os.environ, "LD_PRELOAD": str(recorder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, *map(str, failing)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"the writer ended {done.returncode}: {done.stderr}"
    return log


def cut(log: Path, *, at: Sequence[int], seed: int) -> Iterator[tuple[int, Loss, Verdict]]:
    """Return, for each of these places in the log, what a power cut there would cost."""
    wanted = set(at)
    disk = Disk()
    for place, event in enumerate(read_log(log)):
        disk.apply(event)
        if place in wanted:
            chance = random.Random(f"{seed}:{place}")
            loss = chance.choice(LOSSES)
            yield place, loss, _judge_image(disk, loss, chance)


def places(log: Path, *, count: int, seed: int) -> list[int]:
    """Choose places for cuts: a random part of them all, and as many again right after an acknowledgement."""
    kinds = [event.kind for event in read_log(log)]
    told = [place for place, kind in enumerate(kinds) if kind is Kind.ACK]
    chance = random.Random(seed)
    chosen = set(chance.sample(told, min(count // 2, len(told))))
    rest = [place for place in range(len(kinds)) if place not in chosen]
    chosen.update(chance.sample(rest, min(count - len(chosen), len(rest))))
    return sorted(chosen)


def _judge_image(disk: Disk, loss: Loss, chance: random.Random) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="rota-cut-", dir=in_memory()) as name:
        for file, content in disk.image(loss, chance).items():
            Path(name, file).write_bytes(content)
        return judge(Path(name), disk.acknowledged)


def judge(folder: Path, acknowledged: Sequence[bytes]) -> Verdict:
    """Open a state folder as a restart does and compare it with what was acknowledged."""
    facts = [json.loads(fact) for fact in acknowledged]
    try:
        open_store(folder / "rota.db", now=NOW + timedelta(days=1)).close()
    except RotaError as error:
        return Verdict(broken=(f"{error.code}: {error}",))
    connection = apsw.Connection(str(folder / "rota.db"))
    try:
        return _compared(connection, folder, facts)
    finally:
        connection.close()


def _compared(connection: apsw.Connection, folder: Path, facts: list[dict[str, Any]]) -> Verdict:
    def read(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return connection.execute(sql, values).fetchall()

    check = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    check += [str(row) for row in connection.execute("PRAGMA foreign_key_check")]
    stored = dict(connection.execute("SELECT id, status FROM run_now").fetchall())
    lost = [f"{fact['id']} {fact['status']}" for fact in facts if fact["kind"] == "run" and not _kept(fact, stored)]
    lost += [fact["name"] for fact in facts if fact["kind"] == "outcome" and not (folder / fact["name"]).exists()]
    jobs = {row[0] for row in connection.execute("SELECT name FROM job")}
    if any(fact["kind"] == "prepared" for fact in facts) and not jobs:
        lost.append("jobs")
    books = account(read, "tick", step=MINUTE) if "tick" in jobs else None
    broken = [line for line in check if line != "ok"] + _half_written(folder)
    if books and (books.missing or books.miscounted):
        broken.append(f"instants without their row: {books.missing} {books.miscounted}")
    return Verdict(tuple(lost), tuple(books.doubled) if books else (), tuple(broken))


def _kept(fact: dict[str, Any], stored: dict[str, str]) -> bool:
    status = stored.get(fact["id"])
    return status is not None and ORDER.index(status) >= ORDER.index(fact["status"])


def _half_written(folder: Path) -> list[str]:
    """Return the outcome files that are there but not whole."""
    return [path.name for path in folder.glob("*.json") if path.read_text() != json.dumps({"name": path.name})]


def fail(recorder: Path, folder: Path, *, how: str, after: int, seed: int) -> tuple[Verdict, set[str]]:
    """Let the n-th call of a kind fail under a writer; return what that cost and the errors it was told."""
    mask, number = FAILING[how]
    log = write(recorder, folder, seed=seed, rounds=12, failing=(mask, after, number))
    told = [event.data for event in read_log(log) if event.kind is Kind.ACK]
    codes = {json.loads(fact)["code"] for fact in told if b'"error"' in fact}
    return judge(folder / "state", told), codes
