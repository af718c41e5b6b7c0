"""Many schedulers on one PostgreSQL in a storm: kills, stops, broken backends, restarts of the server, cut ways to it.

Run as `python -m tests.faults.storm --daemons 5 --jobs 200 --fires 100000 --seed 1`. Each job is due
once a second; in the end every instant has exactly one row, no function was executed twice for a run, and `rota verify`
finds nothing. The last line tells it all.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from rota.engine.clock import SystemClock
from tests.faults.fleet import AHEAD, Fleet, Member, Plan, soon

ACTS = {
    "kill": 4,
    "stop": 3,
    "stop_long": 0.5,
    "terminate": 5,
    "restart_fast": 0.5,
    "restart_immediate": 0.5,
    "reset": 3,
    "refuse": 2,
    "delay": 2,
    "swallow": 2,
    "swallow_long": 0.5,
}
"""What may happen, and how often compared with the others."""
PACE = (0.2, 2.5)
SHORT, LONG = (0.2, 5.0), (50.0, 70.0)
"""Who is away for long is declared lost, by one who could renew its own lease meanwhile."""
MANY = 3
WORST = ("restart_fast", "restart_immediate", "stop_long", "swallow_long")
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = 'storm' AND pid <> pg_backend_pid()"
ROWS = """
SELECT job, scheduled_for, covers_to, count, id FROM run_now WHERE trigger = 'schedule'
"""
CREATED = "SELECT name, created_at FROM job WHERE name NOT LIKE 'rota/%'"
DONE = "SELECT id FROM run_now WHERE status = 'COMPLETED' AND job <> 'command'"
SHOWN = 10


class Verdict(Struct):
    """What the storm did, and what it cost."""

    done: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)

    def add(self, kind: str, found: list[str]) -> None:
        """Count what is wrong, and keep some of it to tell."""
        self.done[kind] += len(found)
        self.troubles += [f"{kind}: {one}" for one in found[:SHOWN]]

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, doubled, left or otherwise wrong."""
        return not any(self.done[kind] for kind in ("doubled", "lost", "left", "wrong"))

    def line(self) -> str:
        """Return the one line that tells it all."""
        names = ("daemons", "fires", "rows", "executed", "kills", "stops", "terminated", "restarts", "cuts")
        return ", ".join(f"{name} {self.done[name]}" for name in (*names, "doubled", "lost", "left", "wrong"))


class Storm(Struct):
    """A fleet in a storm: drawn from one seed, except for what the machine adds."""

    fleet: Fleet
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)
    told: Callable[[str], None] = lambda _text: None
    _clock: SystemClock = field(default_factory=SystemClock)
    _reliefs: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _pause: threading.Event = field(default_factory=threading.Event)
    _spared: list[Member] = field(default_factory=list)
    """While a member is away for long: that one, and a witness."""

    def rage(self, acts: tuple[str, ...] = ()) -> None:
        """Do these acts, then whatever comes, until every job has fired its last instant."""
        for act in acts:
            self.act(act)
        while self.fleet.count(AHEAD):
            names = [name for name in ACTS if name not in WORST or self._may_do_worst()]
            self.act(self.chance.choices(names, [ACTS[name] for name in names])[0])
        self.calm()

    def _may_do_worst(self) -> bool:
        return not self._spared and len(self.fleet.members) >= MANY

    def act(self, name: str) -> None:
        """Do one thing, wait a little, relieve who has suffered long enough, and start again what has ended."""
        self.told(name)
        getattr(self, f"_{name}")()
        self._pause.wait(self.chance.uniform(*PACE))
        now = self._clock.monotonic()
        over = [relief for relief in self._reliefs if relief[0] <= now]
        self._reliefs = [relief for relief in self._reliefs if relief[0] > now]
        for _, relieve in over:
            relieve()
        self.done["started"] += self.fleet.revive()

    def calm(self) -> None:
        """Relieve everybody."""
        for _, relieve in self._reliefs:
            relieve()
        self._reliefs.clear()

    def _later(self, relieve: Callable[[], None], span: tuple[float, float]) -> None:
        self._reliefs.append((self._clock.monotonic() + self.chance.uniform(*span), relieve))

    def _away(self, relieve: Callable[[Member], None]) -> Member:
        """Choose who is away for long, and who sees it."""
        self._spared = self.chance.sample(self.fleet.members, 2)
        member = self._spared[0]

        def back() -> None:
            relieve(member)
            self._spared = []

        self._later(back, LONG)
        return member

    def _any(self) -> Member:
        return self.chance.choice([member for member in self.fleet.members if member not in self._spared])

    def _kill(self) -> None:
        victim = self._any()
        victim.server.kill()
        victim.server.wait()
        self.done["kills"] += 1

    def _stop(self) -> None:
        server = self._any().server
        server.send_signal(signal.SIGSTOP)
        self._later(lambda: server.send_signal(signal.SIGCONT), SHORT)
        self.done["stops"] += 1

    def _stop_long(self) -> None:
        member = self._away(lambda one: one.server.send_signal(signal.SIGCONT))
        member.server.send_signal(signal.SIGSTOP)
        self.done["stops"] += 1

    def _terminate(self) -> None:
        with self.fleet.asking() as connection:
            found = [pid for (pid,) in connection.execute(BACKENDS).fetchall()]
            for pid in self.chance.sample(found, min(len(found), self.chance.randint(1, 8))):
                connection.execute("SELECT pg_terminate_backend(%s)", [pid])
                self.done["terminated"] += 1

    def _restart_fast(self) -> None:
        self.fleet.restart_postgres("fast")
        self.done["restarts"] += 1

    def _restart_immediate(self) -> None:
        self.fleet.restart_postgres("immediate")
        self.done["restarts"] += 1

    def _some(self) -> list[Member]:
        """Return one member, or now and then all of them."""
        all_of_them = self.chance.random() < 0.2 and not self._spared
        return self.fleet.members if all_of_them else [self._any()]

    def _reset(self) -> None:
        for member in self._some():
            member.proxy.reset()

    def _refuse(self) -> None:
        for member in self._some():
            member.proxy.refuse()
            self._later(member.proxy.heal, SHORT)

    def _delay(self) -> None:
        seconds = self.chance.uniform(0.01, 0.3)
        for member in self._some():
            member.proxy.delay(seconds)
            self._later(member.proxy.heal, SHORT)

    def _swallow(self) -> None:
        for member in self._some():
            member.proxy.swallow()
            self._later(partial(self._end_silence, member), SHORT)

    def _swallow_long(self) -> None:
        self._away(self._end_silence).proxy.swallow()

    def _end_silence(self, member: Member) -> None:
        """Let what was swallowed arrive after all, or never."""
        if self.chance.random() < 0.5:
            member.proxy.reset()
        member.proxy.heal()


def judge(fleet: Fleet, done: Counter[str]) -> Verdict:
    """Look at what is left once nothing serves any more."""
    verdict = Verdict(Counter(done))
    verdict.done["daemons"] = len(fleet.members)
    verdict.done["cuts"] = sum(member.proxy.cuts for member in fleet.members)
    _judge_rows(fleet, verdict)
    _judge_executions(fleet, verdict)
    verdict.add("left", fleet.left())
    verdict.add("wrong", [end for member in fleet.members for end in member.strange_ends()])
    found = json.loads(fleet.members[0].rota("verify", "--json", check=False).stdout)
    verdict.add("wrong", [str(one) for one in found["violations"]])
    return verdict


def _judge_rows(fleet: Fleet, verdict: Verdict) -> None:
    """Compare the rows with the instants that were due: each must be covered once."""
    with fleet.asking() as connection:
        created = dict(connection.execute(CREATED).fetchall())
        rows = connection.execute(ROWS).fetchall()
    covered: dict[str, Counter[int]] = {name: Counter() for name in created}
    due = {name: set(fleet.plan.due(name, since=_instant(since))) for name, since in created.items()}
    for job, first, last, count, run_id in rows:
        instants = [first] if last is None else [at for at in due[job] if first <= at <= last]
        covered[job].update(instants)
        if count is not None and count != len(instants):
            verdict.add("wrong", [f"{run_id} counts {count} instead of {len(instants)}"])
    for job, times_of in covered.items():
        verdict.add("lost", [f"{job} {_instant(at)}" for at in sorted(due[job] - set(times_of))])
        verdict.add("doubled", [f"{job} {_instant(at)}" for at, times in sorted(times_of.items()) if times > 1])
        verdict.add("wrong", [f"{job} was not due {_instant(at)}" for at in sorted(set(times_of) - due[job])])
    verdict.done["fires"] = sum(len(instants) for instants in covered.values())
    verdict.done["rows"] = len(rows)


def _judge_executions(fleet: Fleet, verdict: Verdict) -> None:
    """No function may have been executed twice for one run, nor a run have completed without its function."""
    executed = fleet.executions()
    with fleet.asking() as connection:
        completed = {run_id for (run_id,) in connection.execute(DONE).fetchall()}
    verdict.add("doubled", [f"{run_id} was executed {times} times" for run_id, times in executed.items() if times > 1])
    verdict.add("lost", [f"{run_id} completed without its function" for run_id in sorted(completed - set(executed))])
    verdict.done["executed"] = executed.total()


def _instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def storm(
    folder: Path,
    *,
    daemons: int,
    jobs: int,
    fires: int,
    seed: int,
    acts: tuple[str, ...] = (),
    told: Callable[[str], None] = lambda _text: None,
) -> Verdict:
    """Let a storm pass over so many schedulers until their jobs have fired so often; return what it cost."""
    fleet = Fleet(folder, members=daemons)
    try:
        start, seconds = soon(), -(-fires // jobs)
        more = seconds // 20  # jobs that were stored late owe none of the instants before
        fleet.begin(Plan(jobs=jobs, start=start, end=start + timedelta(seconds=seconds + more)))
        raging = Storm(fleet, random.Random(seed), told=told)
        raging.rage(acts)
        fleet.settle()
        return judge(fleet, raging.done)
    finally:
        fleet.end()


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    reader = argparse.ArgumentParser(description=__doc__)
    for name, default in (("daemons", 5), ("jobs", 200), ("fires", 100_000), ("seed", 1)):
        reader.add_argument(f"--{name}", type=int, default=default)
    reader.add_argument(
        "--keep", type=Path, help="use this new folder, and leave it there: logs, output, the server's log"
    )
    return reader.parse_args(given)


def main() -> int:
    """Let the storm pass; end with 0 only if nothing was lost, doubled, left or wrong."""
    wanted = arguments()
    with tempfile.TemporaryDirectory(prefix="rota-storm-", ignore_cleanup_errors=True) as scratch:
        folder = wanted.keep or Path(scratch)
        folder.mkdir(exist_ok=True)
        amounts = {"daemons": wanted.daemons, "jobs": wanted.jobs, "fires": wanted.fires, "seed": wanted.seed}
        verdict = storm(folder, **amounts, told=_told_since())
    for trouble in verdict.troubles:
        _tell(f"  ! {trouble}")
    _tell(verdict.line())
    return 0 if verdict.clean else 1


def _told_since() -> Callable[[str], None]:
    clock = SystemClock()
    began = clock.monotonic()
    return lambda text: _tell(f"[{clock.monotonic() - began:.0f} s] {text}")


def _tell(text: str) -> None:
    """Print at once, also into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
