"""A small mixed project that is meant to be killed, and the checker that looks at what is left of it."""

import json
import re
import shutil
import signal
import subprocess
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
import psutil
import psycopg
from msgspec import Struct

from rota.engine.clock import SystemClock
from rota.engine.membership.control import wake
from rota.faults import VARIABLE
from rota.model.records import ProcessIdentity
from rota.model.store_url import SQLITE
from rota.operations.project.apply import apply
from rota.operations.project.load import load_project
from rota.operations.project.locate import open_state
from rota.operations.run_actions import cancel_run, trigger
from rota.operations.verify.verify import verify
from rota.runners.processes import TAG
from rota.store.driver import Store
from tests.faults.ledger import account
from tests.service.serving import Project, ended
from tests.waiting import until

SOURCE = Path(__file__).parents[2] / "src"
POINT = re.compile(r'faults\.point\("([a-z_.]+)"\)')
SECOND = 1000
OLD = timedelta(days=2)
FINAL = ("COMPLETED", "FAILED", "CANCELLED", "SKIPPED")
NEVER_RAN = ("absent", "QUEUED", "SKIPPED")
WAITING = "SELECT count(*) FROM live JOIN run ON run.seq = live.run WHERE live.state = 1 AND run.id <= ?"

FILE = """
scheduler: {crash_guard: false, tick: 2s, shutdown_grace: "0", concurrency: 40}
pools: {wide: 500}
budgets: {many: {runs: 1000000, per: day}}
poll: {run: "{chores}:poll", interval: 1s}
defaults: {overlap: allow, term_grace: "0", retry: false}
agents:
  fixer: {adapter: custom, access: full, workspace: worktree, options: {argv: [sh, "../../../agent"], prompt: stdin}}
  picker: {adapter: custom, access: full, options: {argv: [sh, agent], prompt: stdin}}
jobs:
  pick: {agent: picker, prompt: do it, work_source: {directory: inbox}}
  fix: {agent: fixer, prompt: fix it, cwd: repository}
  tick: {interval: 1s, anchor: fixed, first_run: now, command: [sh, effect], postcondition: {command: ["true"]}}
  call: {interval: 1s, anchor: fixed, first_run: now, run: "{chores}:call", postcondition: {command: ["true"]}}
  after: {interval: 1s, command: [sh, effect], overlap: forbid, notify: {on: completed, command: [sh, tell]}}
  hand: {command: [sh, effect], pools: [wide]}
  daily: {cron: "0 3 * * *", timezone: UTC, command: [sh, effect]}
  again: {command: [sh, -c, "sh effect; exit 3"], retry: {max_attempts: 3, backoff: 0}}
  gated: {command: [sh, effect], conditions: [{command: ["true"]}], pools: {wide: 2}}
  long: {command: [sh, effect, "60"], pools: [wide]}
  doomed: {command: [sh, effect, "60"], on_restart: kill, pools: {wide: 3}}
  late: {command: [sh, effect, "60"], timeout: 1s}
  late-call: {run: "{chores}:late_call", timeout: 1s, pools: [wide]}
  brief: {command: [sh, effect, "1"]}
  brief-doomed: {command: [sh, effect, "1"], on_restart: kill}
  nap: {run: "{chores}:nap"}
  stay: {run: "{chores}:stay"}
  old: {command: [sh, effect], retention: {runs: 1d}}
  quick: {run: "{chores}:call"}
  remote: {interval: 1s, run: "{chores}:call", needs_poll: true, budget: many}
  mood-1: {interval: {active: 1s, idle: 1s, dormant: never}, run: "{chores}:call"}
  mood-2: {interval: {active: 1s, idle: 1s, dormant: 2s}, run: "{chores}:call"}
  mood-3: {interval: {active: 1s, idle: 1s, dormant: 2s}, run: "{chores}:call"}
  mood-4: {interval: {active: 1s, idle: 1s, dormant: 2s}, run: "{chores}:call"}
groups:
  pair: {interval: 1s, overlap: forbid, members: [quick, quick]}
"""
EFFECT = 'echo "$ROTA_RUN_ID $ROTA_ATTEMPT" >> effects\n[ -z "$1" ] || exec sleep "$1"\n'
TELL = 'echo "$ROTA_RUN" >> told\n'
AGENT = 'echo "$ROTA_RUN_ID $ROTA_ATTEMPT" >> "$ROTA_PROJECT_DIR/effects"\necho done\n'
CHORES = """
import asyncio, os

def note(run):
    file = os.open({effects!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"{{run.id}} {{run.attempt}}\\n".encode())
    os.close(file)

async def call(context):
    note(context.run)

async def poll(context):
    note(context.run)
    return {{}}

async def stay(context):
    note(context.run)
    await asyncio.Event().wait()

async def nap(context):
    note(context.run)
    await asyncio.sleep(0.3)

async def late_call(context):
    note(context.run)
    await asyncio.Event().wait()
"""


def points() -> list[str]:
    """Return the names of all crash points, read from the source."""
    return sorted(name for path in SOURCE.rglob("*.py") for name in POINT.findall(path.read_text()))


class Damage(Struct, frozen=True):
    """What a drill found: what is gone, what was done twice, what is left running, and what else is wrong."""

    lost: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    @property
    def none(self) -> bool:
        """Whether all is well."""
        return not (self.lost or self.doubled or self.left or self.wrong)


class Drill(Project):
    """A project whose clients note what was acknowledged, and whose jobs note what they did."""

    def __init__(self, folder: Path, *, store: str = SQLITE) -> None:
        super().__init__(folder)
        self.store = store
        self._look = _SqliteLook(self.state / "rota.db") if store == SQLITE else _PostgresLook(store)
        self.acknowledged: list[str] = []
        self.clock = SystemClock()
        self.faults: Path | None = None
        self.extra: dict[str, str] = {}
        self.items = 0
        chores = f"chores_{uuid4().hex}"  # a name of its own: our process imports it too
        self.write(FILE.replace("{chores}", chores))
        (folder / "inbox").mkdir()
        (folder / "effect").write_text(EFFECT)
        (folder / "tell").write_text(TELL)
        (folder / "agent").write_text(AGENT)
        (folder / f"{chores}.py").write_text(CHORES.format(effects=str(folder / "effects")))

    # what goes wrong

    def arm(self, crash: dict[str, int], **more: Any) -> None:
        """Let the n-th pass of each of these points, in whatever process, be its last."""
        passes = self.folder / "passes"
        shutil.rmtree(passes, ignore_errors=True)
        passes.mkdir()
        self.apart = True
        self.faults = self.folder / "faults.json"
        self.faults.write_text(json.dumps({"crash": crash, "passes": str(passes), **more}))
        self.faults.chmod(0o600)

    def disarm(self) -> None:
        """Let nothing go wrong from here on."""
        self.apart = False
        self.faults = None

    def passed(self, point: str) -> int:
        """Return how often a point was passed since it was armed."""
        counter = self.folder / "passes" / point
        return counter.stat().st_size if counter.exists() else 0

    def environment(self) -> dict[str, str]:
        """Return the environment of commands and schedulers, with the faults."""
        armed = {VARIABLE: str(self.faults)} if self.faults else {}
        return {**super().environment(), "ROTA_STORE": self.store, **armed, **self.extra}

    # clients

    def client(self) -> Store:
        """Return the store as another process has it."""
        return open_state(self.state, self.clock, create=True, store=self.store)

    def declare(self) -> None:
        """Apply the file, without a scheduler."""
        now = self.clock.now()
        store = self.client()
        try:
            apply(store, load_project(self.folder, self.environment(), now=now).declared, now=now)
        finally:
            store.close()

    def trigger(self, *names: str, store: Store | None = None) -> list[str]:
        """Start jobs as a client; what returns is acknowledged."""
        used = store or self.client()
        try:
            started = [trigger(used, name, now=self.clock.now()).id for name in names]
        finally:
            if store is None:
                used.close()
        self.acknowledged += started
        wake(self.state)
        return started

    def grow_old(self) -> None:
        """Leave a run of `old` that retention has reached."""
        store = self.client()
        try:
            born = trigger(store, "old", now=self.clock.now() - OLD)
            cancel_run(store, born.id, now=self.clock.now() - OLD)
        finally:
            store.close()

    def make_repository(self) -> None:
        """Make the repository that agents work on, each in a worktree of its own."""
        folder = self.folder / "repository"
        if folder.exists():
            return
        folder.mkdir()
        identity = ("-c", "user.name=n", "-c", "user.email=n@example.net")
        for words in (("init", "-q", "-b", "main"), (*identity, "commit", "-q", "--allow-empty", "-m", "first")):
            subprocess.run(["git", *words], cwd=folder, check=True)

    def put_item(self) -> None:
        """Lay a piece of work into the folder that agents take it from."""
        self.items += 1
        (self.folder / "inbox" / f"item-{self.items}.md").write_text("do it\n")

    def fall_asleep(self) -> None:
        """Let the last activity be long ago, so that every job with intervals by mode must be planned anew."""
        store = self.client()
        try:
            store.write(lambda db: db.execute("activity_touch", what="drill", now=0))
        finally:
            store.close()

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read from the database."""
        return self._look.rows(sql, *values)

    def status(self, run_id: str) -> str:
        """Return the status of a run as it is stored."""
        found = self.rows("SELECT status FROM run_now WHERE id = ?", run_id)
        return str(found[0][0]) if found else "absent"

    def until_status(self, run_id: str, *statuses: str) -> None:
        """Wait until a run is in one of these statuses."""
        until(lambda: self.status(run_id) in statuses, what=f"{run_id} to be {statuses}")

    def until_effect(self, run_id: str) -> None:
        """Wait until a run has done what it does."""
        until(lambda: run_id in self.effects(), what=f"the effect of {run_id}")

    def effects(self) -> Counter[str]:
        """Return how often each run did its work."""
        file = self.folder / "effects"
        return Counter(line.split()[0] for line in file.read_text().splitlines()) if file.exists() else Counter()

    # victims

    def keepers(self) -> list[ProcessIdentity]:
        """Return the keepers of running commands."""
        found = self.rows(
            "SELECT e.boot_id, e.pid, e.pid_start FROM execution e JOIN process p USING (epoch)"
            " WHERE e.finished_at IS NULL AND e.pid <> p.pid"
        )
        return [ProcessIdentity(*row) for row in found]

    def spawners(self) -> list[psutil.Process]:
        """Return the spawner of the newest scheduler, if it has one."""
        try:
            children = psutil.Process(self.servers[-1].pid).children()
            return [child for child in children if any("spawner.py" in word for word in child.cmdline())]
        except psutil.Error:
            return []

    def tagged(self) -> list[int]:
        """Return the processes that carry the tag of a run of this project."""
        known = {row[0] for row in self.rows("SELECT id FROM run")}
        return [pid for pid in psutil.pids() if _tag(pid) in known]

    # afterwards

    def calm(self) -> None:
        """Serve without faults: recover, finish what was acknowledged, stop in order."""
        self.disarm()
        self.serve()
        until(lambda: self.rows("SELECT 1 FROM job WHERE name = 'hand'"), what="the file to be applied")
        last = self.trigger("hand")
        self.until_status(last[0], *FINAL)
        until(lambda: not self.rows(WAITING, last[0])[0][0], what="the queue to be empty")
        self.stop()

    def end(self) -> None:
        """Leave nothing behind."""
        super().end()
        self._look.close()

    def stop(self) -> None:
        """End the scheduler in order."""
        self.servers[-1].send_signal(signal.SIGTERM)
        assert ended(self.servers[-1]) == 0, self.log()

    def damage(self) -> Damage:
        """Look at what is left once nothing serves any more."""
        # Lane 0 holds the runs of groups: they do nothing themselves, and go on when the next scheduler starts.
        stored: dict[str, str] = dict(self.rows("SELECT id, status FROM run_now WHERE lane_id <> 0"))
        left = [f"{run_id} is {status}" for run_id, status in stored.items() if status in ("DISPATCHED", "RUNNING")]
        left += [f"process {pid}" for pid in self.tagged()]
        return Damage(
            lost=tuple(self._lost(stored)),
            doubled=tuple(self._doubled(stored)),
            left=tuple(left),
            wrong=tuple(self._wrong()),
        )

    def _lost(self, stored: dict[str, str]) -> list[str]:
        effects = self.effects()
        absent = [run_id for run_id in self.acknowledged if run_id not in stored]
        unreal = [run_id for run_id, status in stored.items() if status == "COMPLETED" and not effects[run_id]]
        return absent + [f"{run_id} is COMPLETED and did nothing" for run_id in unreal]

    def _doubled(self, stored: dict[str, str]) -> list[str]:
        effects = self.effects()
        doubled = [f"{run_id} ran {times} times" for run_id, times in effects.items() if times > 1]
        never = [run_id for run_id in effects if stored.get(run_id, "absent") in NEVER_RAN]
        return doubled + [f"{run_id} ran, it is {stored.get(run_id, 'absent')}" for run_id in never]

    def _untold(self) -> list[str]:
        """Return what nobody was told of, whatever died in between (DEC-009)."""
        unwritten = self.rows(
            "SELECT r.job || ':' || r.number FROM run_now r WHERE r.job = 'after' "
            "AND r.status = 'COMPLETED' AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.run_id = r.id)"
        )
        told = self.folder / "told"
        heard = set(told.read_text().split()) if told.exists() else set()
        sent = self.rows("SELECT handle FROM delivery WHERE status = 'DELIVERED'")
        unheard = [handle for (handle,) in sent if handle not in heard]
        return [f"{handle} has no delivery" for (handle,) in unwritten] + [
            f"{handle} was not heard" for handle in unheard
        ]

    def _misplaced(self) -> list[str]:
        """Return the items that are gone, lie twice, or are still claimed though nobody works on them (003).

        A stop need not wait for a source: what it still has to tell is stored, and told by the next scheduler.
        """
        inbox = self.folder / "inbox"
        found = Counter(path.name for path in inbox.rglob("item-*.md"))
        wanted = {f"item-{number}.md" for number in range(1, self.items + 1)}
        wrong = [f"{name} lies {found[name]} times" for name in sorted(wanted | set(found)) if found[name] != 1]
        to_tell = {item for (item,) in self.rows("SELECT item_id FROM work_item WHERE not_before IS NOT NULL")}
        claimed = [path for path in (inbox / "claimed").rglob("item-*.md") if not {path.name, None} & to_tell]
        return wrong + [f"{path} is still claimed" for path in claimed]

    def _wrong(self) -> list[str]:
        books = {job: account(self.rows, job, step=SECOND) for job in ("tick", "call")}
        wrong = [f"{job}: {found}" for job, found in books.items() if not found.clean]
        known = {Path(path) for (path,) in self.rows("SELECT path FROM worktree")}
        wrong += [f"{path} is forgotten" for path in (self.state / "worktrees").glob("*") if path not in known]
        wrong += self._untold() + self._misplaced()
        store = self.client()
        try:
            report = verify(store, self.state, now=self.clock.now())
        finally:
            store.close()
        return wrong + [f"{one.check} {one.where} {one.text}" for one in report.violations]


class _SqliteLook:
    """Reads a file past rota."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        connection = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(60_000)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def close(self) -> None:
        """Nothing is kept open."""


class _PostgresLook:
    """Reads a database of a server past rota."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection: psycopg.Connection[Any] | None = None

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        if self._connection is None or self._connection.broken:
            self._connection = psycopg.connect(self._address, autocommit=True)
        return self._connection.execute(sql.replace("?", "%s"), values).fetchall()

    def close(self) -> None:
        """Let go of the database."""
        if self._connection is not None:
            self._connection.close()


def _tag(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((word.decode().partition("=")[2] for word in words if word.startswith(TAG.encode() + b"=")), "")
