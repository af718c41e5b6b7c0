"""Commands: started through spawner and keeper, and how they ended (R-28, R-23)."""

import asyncio
import errno
import json
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from rota.model.clock import from_ms
from rota.model.durations import say_duration
from rota.model.errors import InvalidValue, SpawnFailed, StorageFull
from rota.model.records import ERROR_LIMIT, Outcome, ProcessIdentity, cut
from rota.model.spec import Work
from rota.model.states import Reason, Status
from rota.runners.environment import RESULT_NAME, RunFacts, Surroundings
from rota.runners.keeper import ERRORS, OUTCOME
from rota.runners.launch import CONDITION_OUTPUT_LIMIT, Description, describe, prepare, prepare_check
from rota.runners.output import folder_of, last_line, make_folder, read_from, write_private
from rota.runners.processes import TAG, kill_tagged, send_signal
from rota.runners.redacting import FUNCTION
from rota.runners.result import Result, read_result, read_usage, storable
from rota.runners.spawning import Launch, Spawned, Spawner, Watch, wait_keeper

__all__ = [
    "CheckResult",
    "CommandRunner",
    "Description",
    "Launch",
    "RunFacts",
    "Surroundings",
    "describe",
    "prepare",
    "prepare_check",
]

SLACK = 5.0
"""How many seconds later than its keeper the scheduler acts itself."""
Ended = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How a condition's command ended; `error` says why there is no exit code."""

    exit_code: int | None
    timed_out: bool
    output: str
    error: str | None = None


class CommandRunner:
    """Starts commands and tells how they ended; the run's folder is all it remembers."""

    def __init__(self, spawner: Spawner, state: Path, *, slack: float = SLACK) -> None:
        self._spawner = spawner
        self._state = state
        self._slack = slack
        self._watches: dict[ProcessIdentity, Watch] = {}
        self._early: dict[ProcessIdentity, bool] = {}
        """Orders to keepers whose end nobody waits for yet, and whether at once."""

    def folder(self, run_id: str) -> Path:
        """Return where the files of a run are."""
        return folder_of(self._state, run_id)

    async def launch(self, launch: Launch, folder: Path) -> Spawned:
        """Start a keeper for `launch`; the command itself waits until the gate is opened (R-01).

        SpawnFailed is about this run, StorageFull about all of them.
        """
        _write_files(launch, folder)
        return await self._spawner.spawn(launch, folder)

    async def outcome(self, folder: Path, keeper: ProcessIdentity, work: Work | None = None) -> Outcome:
        """Wait until the keeper is gone and return how its run ended; the folder's name is the run's id.

        Of `work` the timeout and the grace count: a keeper that does not keep to them is killed, with all below it.
        """
        timeout = None if work is None or work.timeout is None else work.timeout.total_seconds()
        grace = 0.0 if work is None else work.term_grace.total_seconds()
        overdue = await self._until_gone(keeper, within=timeout, term_grace=grace)
        ended = read_ended(folder)
        if ended is None:
            left = await asyncio.to_thread(kill_tagged, folder.name)
            return _lost(left, overdue, timeout=timeout)
        return to_outcome(ended, folder)

    async def _until_gone(self, keeper: ProcessIdentity, *, within: float | None, term_grace: float) -> str | None:
        """Wait until the keeper is gone; return why it had to be killed, if it had to."""
        watch = Watch(keeper, timeout=within, term_grace=term_grace, slack=self._slack)
        self._watches[keeper] = watch
        if keeper in self._early:
            watch.order(at_once=self._early.pop(keeper))
        try:
            await wait_keeper(keeper)
        finally:
            watch.close()
            del self._watches[keeper]
        return watch.overdue

    async def check(self, launch: Launch, folder: Path) -> CheckResult:
        """Run a condition's command at once, in a folder of its own, and return its answer."""
        spawned = await self.launch(launch, folder)
        spawned.gate.open()
        try:
            await self._until_gone(spawned.identity, within=launch.timeout, term_grace=launch.term_grace)
        except asyncio.CancelledError:
            self.stop(spawned.identity)
            raise
        ended = read_ended(folder)
        if ended is None:
            await asyncio.to_thread(kill_tagged, launch.env.get(TAG, folder.name))
        return to_check(ended, folder)

    def stop(self, keeper: ProcessIdentity) -> bool:
        """Ask a run to end: TERM, its grace, then KILL; tell whether the keeper was there."""
        return self._order(keeper, signal.SIGTERM)

    def kill_now(self, keeper: ProcessIdentity) -> bool:
        """Kill a run's whole tree without grace; tell whether the keeper was there."""
        return self._order(keeper, signal.SIGUSR1)

    def _order(self, keeper: ProcessIdentity, order: int) -> bool:
        """Send an order; CONT lets a keeper that its run has stopped hear it."""
        heard = send_signal(keeper, order)
        send_signal(keeper, signal.SIGCONT)
        at_once = order == signal.SIGUSR1
        if heard and keeper in self._watches:
            self._watches[keeper].order(at_once=at_once)
        elif heard:
            self._early[keeper] = at_once
        return heard


def _write_files(launch: Launch, folder: Path) -> None:
    try:
        make_folder(folder / ERRORS if launch.errors_apart else folder)
        for name, text in launch.files.items():
            write_private(folder / name, text)
    except OSError as error:
        words = f"{folder} cannot be written: {(error.strerror or str(error)).lower()}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(words, hint="make room on the disk of the state folder") from error
        raise SpawnFailed(words, hint="look at the owner and mode of the state folder") from error


def read_ended(folder: Path) -> Ended | None:
    """Return what the keeper wrote, None when it wrote nothing."""
    try:
        ended: Any = json.loads((folder / OUTCOME).read_bytes())
    except (OSError, ValueError):
        return None
    return ended if isinstance(ended, dict) and "why" in ended else None


def to_outcome(ended: Ended, folder: Path) -> Outcome:
    """Return the outcome of a run from its keeper's words and the files it left."""
    outcome = _READERS[ended["why"]](ended, folder)
    if outcome.status is not Status.COMPLETED:
        outcome = replace(outcome, usage=read_usage(folder / RESULT_NAME))
    seen = ended.get("finished_at_ms")
    return replace(outcome, finished_at=from_ms(seen)) if isinstance(seen, int) else outcome


def _lost(left: list[int], overdue: str | None, *, timeout: float | None) -> Outcome:
    if left:
        return _failed(Reason.UNKILLABLE, f"the keeper is gone and processes {_pids(left)} cannot be killed")
    if overdue is not None:
        ended = _READERS[overdue]({"timeout": timeout}, Path())
        return replace(ended, error=f"{ended.error}; its keeper was stopped and had to be killed")
    return _failed(Reason.PROCESS_RESTARTED, "the run's keeper ended without an outcome")


def _failed(reason: Reason, error: str, ended: Ended | None = None) -> Outcome:
    ended = ended or {}
    return Outcome(
        status=Status.FAILED,
        reason=reason,
        exit_code=ended.get("exit_code"),
        error=cut(storable(error), ERROR_LIMIT),
        output_bytes=ended.get("output_bytes"),
    )


def _exited(ended: Ended, folder: Path) -> Outcome:
    if ended["exit_code"] != 0:
        return _exited_badly(ended, folder)
    try:
        result = read_result(folder / RESULT_NAME)
    except InvalidValue as error:
        return _failed(Reason.RESULT_INVALID, str(error), ended)
    return _completed(result, ended)


def _completed(result: Result, ended: Ended) -> Outcome:
    return Outcome(
        status=Status.COMPLETED,
        exit_code=0,
        summary=result.summary,
        state=result.state,
        scheduler_state=result.scheduler_state,
        files=result.files,
        usage=result.usage,
        output_bytes=ended["output_bytes"],
    )


def _exited_badly(ended: Ended, folder: Path) -> Outcome:
    raised = _raised(folder)
    if raised is not None:
        reason = Reason.RESULT_INVALID if raised.get("invalid") else Reason.EXCEPTION
        return _failed(reason, str(raised.get("error")), ended)
    if ended["signal"] is not None:
        return _failed(Reason.EXIT_CODE, f"killed by signal {signal_name(ended['signal'])}", ended)
    line = last_line(folder)
    return _failed(Reason.EXIT_CODE, f"exit {ended['exit_code']}" + (f": {line}" if line else ""), ended)


def signal_name(number: int) -> str:
    """Return a signal by number and, where it has one, by name.

    >>> signal_name(9)
    '9 (SIGKILL)'
    """
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _raised(folder: Path) -> Mapping[str, Any] | None:
    """Return what a Python function in a process of its own raised; only `child.py` writes this file."""
    try:
        raised: Any = json.loads((folder / FUNCTION).read_bytes())
    except (OSError, ValueError):
        return None
    return raised if isinstance(raised, dict) else None


def _timed_out(ended: Ended, _: Path) -> Outcome:
    return _failed(Reason.TIMED_OUT, f"timed out after {_say_seconds(ended.get('timeout'))}", ended)


def _say_seconds(seconds: float | None) -> str:
    return say_duration(timedelta(seconds=seconds or 0))


def _spawn_failed(ended: Ended, _: Path) -> Outcome:
    return _failed(Reason.SPAWN_FAILED, str(ended["error"]), ended)


def _stopped(ended: Ended, _: Path) -> Outcome:
    return _failed(Reason.SHUTDOWN, "stopped before it had finished", ended)


def _unkillable(ended: Ended, _: Path) -> Outcome:
    return _failed(Reason.UNKILLABLE, f"processes {_pids(ended['left'])} cannot be killed", ended)


def _pids(pids: list[int]) -> str:
    return ", ".join(map(str, pids[:20])) + (" …" if len(pids) > 20 else "")


_READERS: dict[str, Callable[[Ended, Path], Outcome]] = {
    "exited": _exited,
    "timed_out": _timed_out,
    "stopped": _stopped,
    "spawn_failed": _spawn_failed,
    "unkillable": _unkillable,
}


def to_check(ended: Ended | None, folder: Path) -> CheckResult:
    """Return a condition's answer from its keeper's words; the first 64 KB of its output."""
    output = read_from(folder, 0, limit=CONDITION_OUTPUT_LIMIT).data.decode("utf-8", "replace")
    if ended is None:
        return CheckResult(exit_code=None, timed_out=False, output=output, error="its keeper ended without an outcome")
    if ended["why"] == "exited" and ended["signal"] is None:
        return CheckResult(exit_code=ended["exit_code"], timed_out=False, output=output)
    error = to_outcome(ended, folder).error
    return CheckResult(exit_code=None, timed_out=ended["why"] == "timed_out", output=output, error=error)
