"""Starts and outcomes of command runs through their keeper, and functions of other interpreters."""

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.model.clock import from_ms, say_duration
from rota.model.errors import InvalidValue, SpawnFailed, StorageFull
from rota.model.records import ERROR_LIMIT, Outcome, PostconditionResult, ProcessIdentity, cut
from rota.model.spec import Condition, Kind, Names, OutputPolicy, Work
from rota.model.states import Reason, Status
from rota.rules.prompts import fill
from rota.runners.environment import (
    POLL_NAME,
    RESULT_NAME,
    RunFacts,
    RunSurroundings,
    build_environment,
    placeholder_values,
)
from rota.runners.keeper import CLEANUP, ERRORS, OUTCOME
from rota.runners.output import (
    folder_of,
    last_line,
    make_folder,
    read_all,
    read_from,
    read_json,
    tail_after,
    write_private,
)
from rota.runners.processes import TAG, kill_tagged, send_signal
from rota.runners.redacting import FUNCTION, PARAMS
from rota.runners.result import Result, read_result, read_usage, storable
from rota.runners.sandbox import NO_PATHS, FurtherPaths, cleanup_files, enclose, remove_left_container
from rota.runners.spawn_client import Launch, Spawned, Spawner
from rota.runners.watch import Watch, wait_keeper
from rota.text.ansi import clean_for_terminal

CHILD = Path(__file__).with_name("child.py")
CONTEXT_NAME = "context.json"
CONDITION_OUTPUT_LIMIT = 64 * 1024
CONDITION_GRACE = 1.0
POSTCONDITION_OUTPUT = 2000
RUNTIME_FAILED = 125
"""The exit code of docker and podman if they could not start a container."""


class Description(Struct, frozen=True):
    """A launch as `rota run --dry-run` shows it: without values of the environment."""

    argv: tuple[str, ...]
    cwd: str
    environment: tuple[str, ...]


def prepare(work: Work, run: RunFacts, surroundings: RunSurroundings) -> Launch:
    """Return the process of `work`, or raise SecretMissing or SpawnFailed; start and write nothing."""
    with _refusing():
        return _launch(_argv(work, run, surroundings), work, run=run, surroundings=surroundings)


def prepare_program(
    argv: tuple[str, ...],
    work: Work,
    *,
    run: RunFacts,
    surroundings: RunSurroundings,
    further: Mapping[str, str],
    paths: FurtherPaths,
) -> Launch:
    """Return a process with this argv in the surroundings of `work`; its `env` overrides `further`."""
    with _refusing():
        return _launch(argv, work, run=run, surroundings=surroundings, further=further, paths=paths)


def _postcondition(
    work: Work,
    run: RunFacts,
    *,
    cwd: str,
    env: Mapping[str, str],
    enclosed: Callable[[tuple[str, ...]], tuple[str, ...]],
) -> Mapping[str, Any] | None:
    """Return the keeper's order for the postcondition; its program may be a file that the work creates."""
    check = work.postcondition
    if check is None:
        return None
    values = placeholder_values(run)
    argv = tuple(fill(word, values) for word in check.command) or (*work.shell_with, check.shell)
    try:
        if work.sandbox is None or not work.sandbox.image:
            check_on_path(argv[0], env)
    except SpawnFailed as error:
        raise SpawnFailed(f"postcondition: {error.message}", hint=error.hint) from error
    return {"argv": enclosed(argv), "cwd": cwd, "timeout": check.timeout.total_seconds()}


def prepare_postcondition(work: Work, run: RunFacts, surroundings: RunSurroundings) -> Launch:
    """Return the process that checks work which ran inside the scheduler."""
    with _refusing():
        launch = _launch(work.shell_with, work, run=run, surroundings=surroundings)
    assert launch.postcondition is not None, "only work with a postcondition comes here"
    order = launch.postcondition
    return replace(launch, argv=order["argv"], timeout=order["timeout"], idle_timeout=None, postcondition=None)


def prepare_check(condition: Condition, work: Work, *, run: RunFacts, surroundings: RunSurroundings) -> Launch:
    """Return the process of a condition, in the folder and environment of its work."""
    with _refusing():
        values = placeholder_values(run)
        argv = tuple(fill(item, values) for item in condition.command)
        argv = argv or _child("condition", condition.name, work=work, surroundings=surroundings)
        open_work = replace(work, sandbox=None, limits=None)  # the person's own command decides about the run
        launch = _launch(argv, open_work, run=run, surroundings=surroundings)
    return replace(
        launch,
        timeout=condition.timeout.total_seconds(),
        idle_timeout=None,
        term_grace=CONDITION_GRACE,
        output=OutputPolicy.FULL,
        output_limit=2 * CONDITION_OUTPUT_LIMIT,
        postcondition=None,
    )


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn InvalidValue into SpawnFailed."""
    try:
        yield
    except InvalidValue as error:
        raise SpawnFailed(error.message, hint=error.hint) from error


def _launch(
    argv: tuple[str, ...],
    work: Work,
    *,
    run: RunFacts,
    surroundings: RunSurroundings,
    further: Mapping[str, str] = MappingProxyType({}),
    paths: FurtherPaths = NO_PATHS,
) -> Launch:
    params = _compact(run.params)
    cwd = working_folder(work, run, surroundings)
    env = {**further, **build_environment(work, run, surroundings=surroundings, params=params)}
    if work.sandbox is None or not work.sandbox.image:  # a container has its own programs
        _check_program(argv[0], cwd, env.get("PATH", os.defpath))
    enclosed = partial(enclose, work=work, run=run, surroundings=surroundings, cwd=cwd, env=env, further=paths)
    return Launch(
        argv=enclosed(argv),
        postcondition=_postcondition(work, run, cwd=cwd, env=env, enclosed=enclosed),
        env=env,
        cwd=cwd,
        timeout=None if work.timeout is None else work.timeout.total_seconds(),
        idle_timeout=None if work.idle_timeout is None else work.idle_timeout.total_seconds(),
        term_grace=work.term_grace.total_seconds(),
        output=work.output.on_disk,
        files=_files(work, run, surroundings, params=params, child=str(CHILD) in argv),
        secret=tuple(variable.name for variable in work.env if variable.secret is not None),
    )


def _files(work: Work, run: RunFacts, surroundings: RunSurroundings, *, params: str, child: bool) -> dict[str, str]:
    files = {PARAMS: params, **cleanup_files(work, run)}
    if run.poll_data is not None:
        files[POLL_NAME] = _compact(run.poll_data)
    if child:
        files[CONTEXT_NAME] = json.dumps(
            {
                **{name: dict(getattr(run, name)) for name in ("params", "state", "scheduler_state")},
                "poll_data": None if run.poll_data is None else dict(run.poll_data),
                "imports": list(surroundings.imports),
                "project": str(surroundings.project),
                "folder": str(surroundings.folder),
                "run": {
                    **{name: getattr(run, name) for name in ("handle", "job", "number", "attempt", "timezone")},
                    "id": run.run_id,
                    "trigger": str(run.trigger),
                    "scheduled_for": run.scheduled_for.isoformat(),
                },
            }
        )
    return files


def describe(launch: Launch) -> Description:
    """Return the parts of a launch that may be shown."""
    return Description(argv=launch.argv, cwd=launch.cwd, environment=tuple(sorted(launch.env)))


def _compact(value: Mapping[str, object]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"))


def _argv(work: Work, run: RunFacts, surroundings: RunSurroundings) -> tuple[str, ...]:
    if work.kind is Kind.SHELL:
        return (*work.shell_with, work.shell)
    if work.kind is Kind.FUNCTION:
        return _child("run", work.function, work=work, surroundings=surroundings)
    values = placeholder_values(run)
    return tuple(fill(item, values) for item in work.command)


def _child(verb: str, name: str, *, work: Work, surroundings: RunSurroundings) -> tuple[str, ...]:
    python = sys.executable if work.python is None else _interpreter(work.python, surroundings.project)
    return (python, "-u", str(CHILD), verb, name, str(surroundings.folder / CONTEXT_NAME))


def _interpreter(python: str, project: Path) -> str:
    path = os.path.expanduser(python)
    return str(project / path) if os.sep in path else path


def working_folder(work: Work, run: RunFacts, surroundings: RunSurroundings) -> str:
    """Return the folder of a run with its placeholders filled; raise SpawnFailed if it is missing."""
    written = os.path.expanduser(fill(work.cwd, placeholder_values(run)))
    folder = os.path.normpath(os.path.join(surroundings.project, written))
    if os.path.isdir(folder) and os.access(folder, os.X_OK):
        return folder
    if not os.path.exists(folder):
        raise SpawnFailed(f"the folder {folder!r} of `cwd` does not exist", hint="create it, or correct `cwd`")
    wrong = "cannot be entered" if os.path.isdir(folder) else "is a file"
    raise SpawnFailed(f"the folder {folder!r} of `cwd` {wrong}", hint="correct `cwd`, or its mode")


def _check_program(program: str, cwd: str, path: str) -> None:
    """Refuse a missing program with a helpful message; the keeper would refuse it too."""
    if os.sep not in program:
        _find_on_path(program, cwd, path)
        return
    file = os.path.join(cwd, program.removeprefix("./"))
    if not os.path.exists(file):
        raise SpawnFailed(f"there is no program {file!r}", hint="a path with / is relative to `cwd`")
    if os.path.isdir(file) or not os.access(file, os.X_OK):
        raise SpawnFailed(f"{file!r} is not executable", hint=f"run `chmod +x {file}`, or name its interpreter")


def check_on_path(program: str, env: Mapping[str, str]) -> None:
    """Refuse a program that is not on the PATH of a run; a path with / may be created later."""
    if os.sep not in program:
        _find_on_path(program, "", env.get("PATH", os.defpath))


def _find_on_path(program: str, cwd: str, path: str) -> None:
    files = (os.path.join(cwd, folder, program) for folder in path.split(os.pathsep))
    if not any(os.path.isfile(file) and os.access(file, os.X_OK) for file in files):
        hint = "use the full path, or set PATH in `env:`"
        raise SpawnFailed(f"no program {program!r} is on PATH {path!r}", hint=hint)


SPARE_FOLDERS = 64
SLACK_SECONDS = 5.0
"""How much later than its keeper the scheduler acts itself."""
Ended = Mapping[str, Any]


class CheckResult(Struct, frozen=True):
    """The end of a condition's command; `error` explains a missing exit code."""

    exit_code: int | None
    timed_out: bool
    output: str
    error: str | None = None


class CommandRunner:
    """Starts commands and returns their outcomes; all lasting state is in the run's folder."""

    def __init__(self, spawner: Spawner, state: Path, *, slack: float = SLACK_SECONDS) -> None:
        self._spawner = spawner
        self._state = state
        self._slack = slack
        self._files = ThreadPoolExecutor(1, thread_name_prefix="rota-files")
        """Makes the folders of runs: a new name takes as long as the rest of a start, and waits for commits."""
        self._bare: dict[ProcessIdentity, Path] = {}
        """The folders of runs that succeeded and left nothing in them, until their ends are stored."""
        self._spare: deque[Path] = deque(maxlen=SPARE_FOLDERS)
        """Such folders, once the ends are stored: other runs take them over, as a new one costs ten times as much."""
        self._watches: dict[ProcessIdentity, Watch] = {}
        self._early: dict[ProcessIdentity, bool] = {}
        """Stops of keepers without a watch yet, and whether at once."""

    def folder(self, run_id: str) -> Path:
        """Return the folder of a run."""
        return folder_of(self._state, run_id)

    async def launch(self, launch: Launch, folder: Path) -> Spawned:
        """Start a keeper for `launch`; the command waits until the gate is opened.

        SpawnFailed concerns this run, StorageFull all runs.
        """
        await asyncio.get_running_loop().run_in_executor(self._files, self._write_files, launch, folder)
        return await self._spawner.spawn(launch, folder)

    def reserve(self, count: int, ended: Sequence[ProcessIdentity]) -> list[ProcessIdentity]:
        """Reserve up to so many keepers without a run; those of `ended` runs first."""
        return self._spawner.reserve(count, ended)

    def launch_reserved(self, launch: Launch, folder: Path, keeper: ProcessIdentity) -> Spawned | None:
        """Give a short launch to a reserved keeper; the command waits for the gate. Called in any thread."""
        self._write_files(launch, folder)
        return self._spawner.spawn_reserved(launch, folder, keeper)

    def release(self, reserved: Sequence[ProcessIdentity], *, claimed: bool) -> None:
        """Give back reserved keepers that got no run; dismiss them if it is not known what was claimed."""
        self._spawner.release(reserved, claimed=claimed)

    async def outcome(self, folder: Path, keeper: ProcessIdentity, work: Work | None = None) -> Outcome:
        """Wait for the outcome of a run; the folder's name is the run's id. `settle` gives the keeper back.

        A keeper that exceeds the timeout and grace of `work` is killed with its process tree.
        """
        timeout = None if work is None or work.timeout is None else work.timeout.total_seconds()
        if timeout is not None and work is not None and work.postcondition is not None:
            timeout += work.postcondition.timeout.total_seconds()
        grace = 0.0 if work is None else work.term_grace.total_seconds()
        ended, overdue = await self._ended(keeper, folder, within=timeout, term_grace=grace)
        if ended is None:
            left = await asyncio.to_thread(kill_tagged, folder.name)
            await asyncio.to_thread(remove_left_container, folder)
            return _lost(left, overdue, timeout=timeout)
        outcome = to_outcome(ended, folder)
        if ended.get("bare") and outcome.status is Status.COMPLETED:
            self._bare[keeper] = folder
        return outcome

    async def _ended(
        self, keeper: ProcessIdentity, folder: Path, *, within: float | None, term_grace: float
    ) -> tuple[Ended | None, str | None]:
        """Wait for what a keeper says, or until it is gone; return its outcome, and why it was killed, or None."""
        watch = Watch(keeper, timeout=within, term_grace=term_grace, slack=self._slack)
        self._watches[keeper] = watch
        if keeper in self._early:
            watch.order(at_once=self._early.pop(keeper))
        try:
            channel = self._spawner.channel(keeper)
            said = None if channel is None else await channel.reply()
            if said is not None:
                return json.loads(said), watch.overdue
            await wait_keeper(keeper)
        finally:
            watch.close()
            del self._watches[keeper]
        return read_ended(folder), watch.overdue

    def settle(self, keeper: ProcessIdentity, *, stored: bool) -> None:
        """Give a keeper back once its outcome is stored; otherwise it keeps the outcome in its file and leaves."""
        folder = self._bare.pop(keeper, None)
        if stored:
            self._spare.extend([] if folder is None else [folder])
            self._spawner.settle(keeper)
        else:
            self._spawner.dismiss(keeper)

    async def check(self, launch: Launch, folder: Path) -> CheckResult:
        """Run a condition's command without a gate, in a folder of its own, and return its answer."""
        return to_check(await self.ended(launch, folder), folder)

    async def ended(
        self, launch: Launch, folder: Path, *, begun: Callable[[ProcessIdentity], None] | None = None
    ) -> Ended | None:
        """Run a command without a gate, in a folder of its own, and return what its keeper wrote, None for nothing."""
        spawned = await self.launch(launch, folder)
        spawned.open()
        if begun is not None:
            begun(spawned.identity)
        try:
            ended, _ = await self._ended(spawned.identity, folder, within=launch.timeout, term_grace=launch.term_grace)
        except asyncio.CancelledError:
            self.stop(spawned.identity)
            self._spawner.dismiss(spawned.identity)
            raise
        self._spawner.settle(spawned.identity)
        if ended is None:
            await asyncio.to_thread(kill_tagged, launch.env.get(TAG, folder.name))
        return ended

    def stop(self, keeper: ProcessIdentity, *, at_once: bool = False) -> bool:
        """Stop a run: TERM, grace, KILL, or KILL `at_once`; return whether the keeper received the signal."""
        channel = self._spawner.channel(keeper)
        if channel is not None:
            channel.reusable = False
        received = send_signal(keeper, signal.SIGUSR1 if at_once else signal.SIGTERM)
        send_signal(keeper, signal.SIGCONT)  # for a keeper that its run has stopped
        if received and keeper in self._watches:
            self._watches[keeper].order(at_once=at_once)
        elif received:
            self._early[keeper] = at_once
        return received

    def close(self) -> None:
        """End the spawner and the thread that makes folders; keepers stay."""
        self._spawner.stop()
        self._files.shutdown(wait=False)

    def _write_files(self, launch: Launch, folder: Path) -> None:
        try:
            if not self._take_spare(folder) or launch.errors_apart:
                make_folder(folder / ERRORS if launch.errors_apart else folder)
            for name, text in launch.files.items():
                write_private(f"{folder}/{name}", text)
        except OSError as error:
            words = f"{folder} cannot be written: {(error.strerror or str(error)).lower()}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(words, hint="free space on the disk of the state folder") from error
            raise SpawnFailed(words, hint="check owner and mode of the state folder") from error

    def _take_spare(self, folder: Path) -> bool:
        """Rename a spare folder to `folder`, and return whether there was one; one that is gone meanwhile is none."""
        with suppress(IndexError, OSError):
            os.rename(self._spare.pop(), folder)
            return True
        return False


def read_ended(folder: Path) -> Ended | None:
    """Return the outcome file of the keeper, or None."""
    return read_json(folder / OUTCOME, needs="why")


def to_outcome(ended: Ended, folder: Path) -> Outcome:
    """Return the outcome of a run from the files that the run and its keeper left."""
    outcome = _outcome(ended["why"], ended, folder)
    if outcome.status is not Status.COMPLETED:
        outcome = replace(outcome, usage=read_usage(folder / RESULT_NAME))
    seen = ended.get("finished_at_ms")
    return replace(outcome, finished_at=from_ms(seen)) if isinstance(seen, int) else outcome


def judge_postcondition(outcome: Outcome, check: Ended, folder: Path) -> Outcome:
    """Return a successful outcome after its postcondition, whose output begins at `from` in the folder."""
    wrong = _wrong_check(check)
    if wrong is None:
        return replace(outcome, postcondition=PostconditionResult(passed=True, exit_code=0))
    said = clean_for_terminal(tail_after(folder, check.get("from", 0), POSTCONDITION_OUTPUT).decode("utf-8", "replace"))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    error = f"postcondition: {wrong}" + (f": {lines[-1]}" if lines else "")
    return replace(
        outcome,
        status=Status.FAILED,
        reason=Reason.POSTCONDITION_FAILED,
        error=cut(storable(error), ERROR_LIMIT),
        summary=None,
        postcondition=PostconditionResult(
            passed=False, exit_code=check.get("exit_code"), output=storable(said.strip())[-POSTCONDITION_OUTPUT:]
        ),
    )


def judge_check(outcome: Outcome, ended: Ended, folder: Path) -> Outcome:
    """Return a successful outcome after a postcondition that had a keeper of its own."""
    if ended["why"] in ("stopped", "unkillable"):
        return _outcome(ended["why"], ended, folder)
    return judge_postcondition(outcome, ended, folder)


def _wrong_check(check: Ended) -> str | None:
    """Return why a postcondition failed, None if it passed."""
    if check["why"] == "timed_out":
        return f"timed out after {say_duration(timedelta(seconds=check.get('timeout') or 0))}"
    if check["why"] != "exited":  # it did not start, or nothing is left of it
        return str(check.get("error") or check["why"])
    if check["signal"] is not None:
        return f"killed by signal {signal_name(check['signal'])}"
    return None if check["exit_code"] == 0 else f"exit {check['exit_code']}"


def _lost(left: list[int], overdue: str | None, *, timeout: float | None) -> Outcome:
    if left:
        return _failed(Reason.UNKILLABLE, f"the keeper is gone and processes {_pids(left)} cannot be killed")
    if overdue is not None:
        ended = _outcome(overdue, {"timeout": timeout}, Path())
        return replace(ended, error=f"{ended.error}; its keeper was stopped and killed")
    return _failed(Reason.PROCESS_RESTARTED, "the keeper of the run exited without a result")


def _failed(reason: Reason, error: str, ended: Ended | None = None) -> Outcome:
    ended = ended or {}
    return Outcome(
        status=Status.FAILED,
        reason=reason,
        exit_code=ended.get("exit_code"),
        error=cut(storable(error), ERROR_LIMIT),
        output_bytes=ended.get("output_bytes"),
    )


def _outcome(why: str, ended: Ended, folder: Path) -> Outcome:
    match why:
        case "timed_out":
            after = say_duration(timedelta(seconds=ended.get("timeout") or 0))
            return _failed(Reason.TIMED_OUT, f"timed out after {after}", ended)
        case "idle":
            after = say_duration(timedelta(seconds=ended.get("idle_timeout") or 0))
            return _failed(Reason.IDLE, f"no output for {after}", ended)
        case "looping":
            return _failed(Reason.LOOPING, str(ended["error"]), ended)
        case "limited":
            return _failed(Reason.AGENT_ERROR, str(ended["error"]), ended)
        case "stopped":
            return _failed(Reason.SHUTDOWN, "stopped before it finished", ended)
        case "spawn_failed":
            return _failed(Reason.SPAWN_FAILED, str(ended["error"]), ended)
        case "unkillable":
            told = f"processes {_pids(ended['left'])} cannot be killed"
            told = told if ended["left"] else f"the container may still run: {ended['error']}"
            return _failed(Reason.UNKILLABLE, told, ended)
        case _:
            return _exited(ended, folder)


def _exited(ended: Ended, folder: Path) -> Outcome:
    if ended["exit_code"] != 0:
        return _exited_badly(ended, folder)
    try:
        result = Result() if ended.get("bare") else read_result(folder / RESULT_NAME)
    except InvalidValue as error:
        return _failed(Reason.RESULT_INVALID, str(error), ended)
    succeeded = Outcome(
        status=Status.COMPLETED,
        exit_code=0,
        summary=result.summary,
        result=result.result,
        state=result.state,
        scheduler_state=result.scheduler_state,
        files=result.files,
        usage=result.usage,
        output_bytes=ended["output_bytes"],
    )
    check = ended.get("postcondition")
    return succeeded if check is None else judge_postcondition(succeeded, check, folder)


def _exited_badly(ended: Ended, folder: Path) -> Outcome:
    raised = read_json(folder / FUNCTION)  # only `child.py` writes this file
    if raised is not None:
        reason = Reason.RESULT_INVALID if raised.get("invalid") else Reason.EXCEPTION
        return _failed(reason, str(raised.get("error")), ended)
    if ended["signal"] is not None:
        return _failed(Reason.EXIT_CODE, f"killed by signal {signal_name(ended['signal'])}", ended)
    if ended["exit_code"] == RUNTIME_FAILED and (folder / CLEANUP).exists():
        return _failed(Reason.SPAWN_FAILED, f"the container did not start: {_last_words(folder)}", ended)
    line = last_line(folder)
    return _failed(Reason.EXIT_CODE, f"exit {ended['exit_code']}" + (f": {line}" if line else ""), ended)


def _last_words(folder: Path) -> str:
    """Return the last line of a container runtime that is no advice to read its help."""
    said = [read_all(place).decode("utf-8", "replace") for place in (folder, folder / ERRORS) if place.is_dir()]
    lines = [line.strip() for line in clean_for_terminal("\n".join(said)).splitlines()]
    told = [line for line in lines if line and "--help'" not in line]
    return told[-1] if told else f"exit {RUNTIME_FAILED}"


def signal_name(number: int) -> str:
    """Return a signal by number and, where it has one, by name.

    >>> signal_name(9)
    '9 (SIGKILL)'
    """
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _pids(pids: list[int]) -> str:
    return ", ".join(map(str, pids[:20])) + (" …" if len(pids) > 20 else "")


def to_check(ended: Ended | None, folder: Path) -> CheckResult:
    """Return a condition's answer from the outcome of its keeper, with the first 64 KB of its output."""
    output = read_from(folder, 0, limit=CONDITION_OUTPUT_LIMIT).data.decode("utf-8", "replace")
    if ended is None:
        return CheckResult(exit_code=None, timed_out=False, output=output, error="its keeper exited without a result")
    if ended["why"] == "exited" and ended["signal"] is None:
        return CheckResult(exit_code=ended["exit_code"], timed_out=False, output=output)
    error = to_outcome(ended, folder).error
    return CheckResult(exit_code=None, timed_out=ended["why"] == "timed_out", output=output, error=error)


RESOLVE_SECONDS = 20.0


class InterpreterFinder(Struct, frozen=True):
    """Finds functions as another interpreter imports them; nothing is imported here."""

    python: str
    project: Path
    imports: tuple[str, ...] = ()
    timeout: float = RESOLVE_SECONDS

    def find(self, functions: Sequence[str], conditions: Sequence[str], sources: Sequence[str] = ()) -> Names:
        """Return the missing names, and the facts of the conditions."""
        callables = [*functions, *sources]
        question = {"imports": list(self.imports), "functions": callables, "conditions": list(conditions)}
        answer = self._ask(json.dumps({**question, "path": str(self.project)}))
        return answer if isinstance(answer, Names) else Names(dict.fromkeys([*callables, *conditions], answer))

    def _ask(self, question: str) -> Names | str:
        program = _interpreter(self.python, self.project)
        try:
            done = subprocess.run(
                [program, str(CHILD), "resolve"],
                input=question.encode(),
                capture_output=True,
                cwd=self.project,
                timeout=self.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"{program!r} did not answer within {self.timeout:g} s; its modules take too long to import"
        except OSError as error:
            return f"{program!r} cannot be started: {(error.strerror or str(error)).lower()}"
        return _read(done, program)


def _read(done: "subprocess.CompletedProcess[bytes]", program: str) -> Names | str:
    try:
        answer: Any = json.loads(done.stdout)
        missing = {str(name): str(message) for name, message in answer["missing"].items()}
        return Names(missing, frozenset(answer["conditions"]), frozenset(answer["needing_poll"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # no answer: standard error may have the reason
    lines = clean_for_terminal(done.stderr.decode("utf-8", "replace")).strip().splitlines()
    return f"{program!r} ended with exit {done.returncode}" + (f": {lines[-1]}" if lines else "")
