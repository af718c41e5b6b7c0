"""Rows against processes: no run without an owner, no process without its run. Looked at twice, since both move on."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import psutil

from rota.engine.life import life_here
from rota.engine.lock import SERVE_LOCK, is_held
from rota.model.records import ProcessIdentity
from rota.model.states import Status
from rota.operations.auditing.report import Check, Findings
from rota.runners.keeper import OUTCOME
from rota.runners.output import folder_of
from rota.runners.processes import TAG
from rota.store import processes
from rota.store.driver import Database, Row, Store

RESULT_TAG = "ROTA_RESULT_FILE"
LOOK_AGAIN = 0.5
"""Seconds between two looks: what is moving on has moved by then."""

JUST_LAPSED = timedelta(minutes=1)
"""How long after the end of a lease a run may still be with a worker that is lost."""

RECOVERED = (None, "detached")
"""How processes ended whose runs the next start looks for: not at all, or with runs left to their keepers."""

Alive = Callable[[ProcessIdentity], bool]


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something that looks wrong and may only be on its way; `key` finds it again."""

    key: str
    check: Check
    text: str
    job: str | None
    run: str | None
    harmless: bool = False


def check_processes(store: Store, state: Path, findings: Findings, *, alive: Alive) -> None:
    """Report what looks wrong at two looks, a moment apart."""
    suspects = _look(store, state, findings, alive)
    if any(not suspect.harmless for suspect in suspects):
        threading.Event().wait(LOOK_AGAIN)
        still = {(suspect.key, suspect.text) for suspect in _look(store, state, None, alive)}
        suspects = [suspect for suspect in suspects if (suspect.key, suspect.text) in still]
    for suspect in suspects:
        if suspect.harmless:
            findings.notes.append(f"{suspect.run} {suspect.text}")
        else:
            findings.violation(suspect.check, suspect.text, job=suspect.job, run=suspect.run)


def _look(store: Store, state: Path, findings: Findings | None, alive: Alive) -> list[Suspect]:
    tagged = _tagged(state)  # before the rows: a process is started after its row says so, and gone before it ends
    if findings is not None:
        findings.count(processes=len(tagged))
    return [*_ownerless(store, state, alive), *_strays(store, tagged)]


def _ownerless(store: Store, state: Path, alive: Alive) -> list[Suspect]:
    served = is_held(state / SERVE_LOCK)
    owners = store.read(partial(_owners, state=state))
    found = []
    for run_id, job, name, status, lock, ending, worker_id, *process in _owned(store):
        if lock in owners.living:
            continue
        elsewhere = owners.elsewhere(worker_id, lock, ending)
        if elsewhere is not None:
            found.append(Suspect(run_id, Check.OWNER, elsewhere, job, name, harmless=True))
            continue
        keeper = status == Status.RUNNING and process[0] is not None and alive(ProcessIdentity(*process))
        left = keeper or (status == Status.RUNNING and (folder_of(state, run_id) / OUTCOME).exists())
        pending = not served and (left or ending in RECOVERED)
        if left and pending:
            what = "still runs under its keeper" if keeper else "has ended"
            text = f"{what} while no scheduler was there: recovered at the next start"
        elif pending:
            text = f"is {status}, and the process that held it is gone: recovered at the next start"
        else:
            text = f"is {status}, but the process that held it is gone"
        found.append(Suspect(run_id, Check.OWNER, text, job, name, harmless=pending))
    return found


@dataclass(frozen=True, slots=True)
class _Owners:
    """Who lives, by lock; whose lease was over a moment ago, so that others are about to act; our own worker."""

    living: frozenset[str]
    lapsed: frozenset[str]
    own: str | None
    anybody: bool

    def elsewhere(self, worker_id: str | None, lock: str, ending: str | None) -> str | None:
        """Return what is to be said of a run that another machine had, None if its owner should be there."""
        if worker_id is None or worker_id == self.own:
            return None
        if ending == "detached":
            return "was left to its keeper on another machine: recovered at the next start there"
        if ending is None and (lock in self.lapsed or not self.anybody):
            return "is held by a worker that is not heard of: it fails as worker_lost within 45 s of a scheduler's look"
        return None


def _owners(db: Database, *, state: Path) -> _Owners:
    life = life_here(db, state)
    open_ = processes.open_processes(db)
    living = life.living(open_)
    since = processes.server_now(db) - JUST_LAPSED
    lapsed = [one.lock for one in open_ if one.lease_until is not None and one.lease_until >= since]
    return _Owners(frozenset(one.lock for one in living), frozenset(lapsed), life.own, bool(living))


def _owned(store: Store) -> Iterator[Row]:
    """Yield what processes carry: runs, and direct calls (R-13)."""
    for run_id, job, number, *rest in store.read(lambda db: db.rows("audit_owned")):
        yield run_id, job, _name(job, number, run_id), *rest
    for call_id, job, *rest in store.read(lambda db: db.rows("audit_called")):
        yield call_id, job, _name(job, None, call_id), *rest


def _name(job: str | None, number: int | None, run_id: str) -> str:
    return f"{job}:{number}" if number is not None else f"the direct call {run_id}"


def _strays(store: Store, tagged: dict[int, "_Tagged"]) -> list[Suspect]:
    ids = json.dumps(sorted({one.run_id for one in tagged.values()}))
    known = {run_id: row for run_id, *row in store.read(lambda db: db.rows("audit_known", ids=ids))}
    found = []
    for pid, one in tagged.items():
        if one.run_id not in known:
            if one.ours:
                text = f"process {pid} carries the tag of run {one.run_id}, which is not there"
                found.append(Suspect(f"{pid}", Check.PROCESS, text, None, None))
            continue
        job, number, status = known[one.run_id]
        if status not in (Status.DISPATCHED, Status.RUNNING):
            text = f"is {status}, but process {pid} of it is still there"
            found.append(Suspect(f"{pid}", Check.PROCESS, text, job, _name(job, number, one.run_id)))
    return found


@dataclass(frozen=True, slots=True)
class _Tagged:
    """A process that carries the tag of a run; `ours`: its files are in this state folder."""

    run_id: str
    ours: bool


def _tagged(state: Path) -> dict[int, _Tagged]:
    found = {}
    for pid in filter(_may_carry_a_tag, psutil.pids()):
        try:
            process = psutil.Process(pid)
            environment = process.environ()
            dead = TAG in environment and process.status() == psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            continue  # gone meanwhile, or somebody else's
        if TAG in environment and not dead:
            ours = Path(environment.get(RESULT_TAG, "/")).is_relative_to(state)
            found[pid] = _Tagged(environment[TAG], ours)
    return found


def _may_carry_a_tag(pid: int) -> bool:
    """Look at the bytes alone where the system shows them: to read an environment whole takes ten times as long."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return TAG.encode() in file.read()
    except FileNotFoundError:
        return True  # no such files on this system, or gone meanwhile
    except OSError:
        return False  # somebody else's
