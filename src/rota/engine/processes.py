"""Commands for the executor: the run's folder and surroundings found, keepers started, asked and stopped."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from rota.engine.agents import prepare_agent, read_agent
from rota.engine.transactions.claim import Claimed
from rota.model.clock import Clock
from rota.model.errors import RotaError, StorageFull
from rota.model.records import POSTCONDITION, Outcome, ProcessIdentity
from rota.model.spec import Condition, Kind, OutputPolicy, SecretOrigin, Work
from rota.rules.admission import ConditionResult
from rota.rules.prompts import has_placeholders
from rota.runners.agent_step import TASK
from rota.runners.command import (
    CheckResult,
    CommandRunner,
    judge_check,
    prepare,
    prepare_check,
    prepare_postcondition,
    read_ended,
)
from rota.runners.environment import RunFacts, RunSurroundings
from rota.runners.output import append_output, folder_of
from rota.runners.processes import alive, kill_tagged
from rota.runners.sandbox import remove_left_container
from rota.runners.spawn_client import Launch, Spawned, Spawner
from rota.runners.watch import wait_keeper
from rota.settings import Settings

FALSE_EXIT = 10
SAID_LIMIT = 200
NOTHING: Mapping[str, Any] = MappingProxyType({})


class KeeperProcesses:
    """Runs commands under keepers, in the folders of one project."""

    def __init__(
        self,
        clock: Clock,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        scheduler_state: Callable[[], Mapping[str, Any]] = dict,
        origins: Callable[[], Mapping[str, SecretOrigin]] = dict,
    ) -> None:
        self._origins = origins
        self._clock = clock
        self._scheduler_state = scheduler_state
        self._settings = settings
        self._environ = environ
        self._runner = CommandRunner(Spawner(), settings.state)
        self._secrets: dict[str, tuple[str, ...]] = {}
        """The secrets of the agents that run: what their programs keep elsewhere no keeper sees."""
        self._seen: Mapping[str, str] = {}
        """The environment as the last claim found it: `os.environ` decodes each name at each look."""

    async def prepare(self, claimed: Claimed) -> Launch:
        """Return everything a start needs; raises SecretMissing or SpawnFailed."""
        work = claimed.spec.work
        facts, surroundings = self._facts(claimed), self._surroundings(self._folder(claimed.run.id), work)
        if work.agent is not None:
            return await self._with_secrets(work, partial(prepare_agent, claimed, facts, surroundings))
        return await self._with_secrets(work, partial(prepare, work, facts, surroundings))

    async def _with_secrets(self, work: Work, make: Callable[[], Launch]) -> Launch:
        """Make a launch; in a thread if it may take long: secrets of programs or files, a folder on another mount."""
        origins = self._origins()
        slow = may_hang(work, self._settings) or any(variable.secret in origins for variable in work.env)
        return await asyncio.to_thread(make) if slow else make()

    async def launch(self, run_id: str, prepared: Launch) -> Spawned:
        """Start a process that waits at its gate."""
        launched = await self._runner.launch(prepared, self._folder(run_id))
        if prepared.secret and TASK in prepared.files:
            self._secrets[run_id] = tuple(sorted({prepared.env[name] for name in prepared.secret}))
        return launched

    def reserve(self, count: int, ended: Sequence[ProcessIdentity]) -> Sequence[ProcessIdentity]:
        """Reserve up to so many keepers without a run; those of `ended` runs first."""
        reserved = self._runner.reserve(count, ended)
        if reserved:
            self._seen = dict(self._environ)
        return reserved

    def launch_reserved(self, claimed: Claimed, reserved: ProcessIdentity) -> Spawned | None:
        """Return a reserved keeper at the gate of a plain command; other work, and problems, take the ordinary way."""
        work, folder = claimed.spec.work, self._folder(claimed.run.id)
        plain = work.kind in (Kind.COMMAND, Kind.SHELL) and work.sandbox is None and work.env_file is None
        if not plain or may_hang(work, self._settings) or any(variable.secret is not None for variable in work.env):
            return None
        try:
            surroundings = surroundings_of(work, self._settings, folder=folder, environ=self._seen)
            launch = prepare(work, run_facts(claimed), surroundings)
            return self._runner.launch_reserved(launch, folder, reserved)
        except Exception:  # the ordinary way meets it again, and says it
            return None

    def release(self, reserved: Sequence[ProcessIdentity], *, claimed: bool) -> None:
        """Give back reserved keepers that got no run; send them away if that is not known."""
        self._runner.release(reserved, claimed=claimed)

    async def outcome(self, run_id: str, identity: ProcessIdentity, work: Work | None = None) -> Outcome:
        """Wait until the process is gone and return how it ended."""
        folder = self._folder(run_id)
        try:
            ended = await self._runner.outcome(folder, identity, work)
        finally:
            secrets = self._secrets.pop(run_id, ())
        if (work is None or work.agent is not None) and (folder / TASK).exists():
            ended = await asyncio.to_thread(read_agent, folder, ended, secrets)
        keeps = work is None or work.output is not OutputPolicy.NONE
        return ended if keeps or ended.result is None else replace(ended, result=None)

    def settle(self, identity: ProcessIdentity, *, stored: bool) -> None:
        """Give a keeper back whose outcome is stored; one whose outcome is not stored is left to itself."""
        self._runner.settle(identity, stored=stored)

    async def check(self, claimed: Claimed, condition: Condition, *, index: int) -> ConditionResult:
        """Run a condition in a process of its own."""
        folder = self._folder(claimed.run.id) / "conditions" / str(index)
        began = self._clock.monotonic()
        try:
            facts, surroundings = self._facts(claimed), self._surroundings(folder, claimed.spec.work)
            work = claimed.spec.work
            make = partial(prepare_check, condition, work, run=facts, surroundings=surroundings)
            launch = await self._with_secrets(work, make)
            result = await self._runner.check(launch, folder)
        except StorageFull:
            raise  # about all runs, not about this condition
        except RotaError as error:
            return ConditionResult(condition.title, "error", str(error))
        took_ms = round((self._clock.monotonic() - began) * 1000)
        return answer(condition, result, took_ms=took_ms)

    async def check_work(
        self, claimed: Claimed, outcome: Outcome, *, begun: Callable[[ProcessIdentity], None]
    ) -> Outcome:
        """Return the outcome of work that succeeded inside this process, after its postcondition."""
        work, path = claimed.spec.work, self._folder(claimed.run.id)
        folder = path / POSTCONDITION
        ended: Mapping[str, Any] | None
        try:
            surroundings = self._surroundings(folder, work)
            placed = work if claimed.brief.workspace is None else replace(work, cwd=claimed.brief.workspace)
            make = partial(prepare_postcondition, placed, self._facts(claimed), surroundings)
            launch = await self._with_secrets(work, make)
            ended = await self._runner.ended(launch, folder, begun=begun)
            ended = ended or {"why": "lost", "error": "its keeper exited without a result"}
        except RotaError as error:
            ended = {"why": "spawn_failed", "error": str(error)}
        checked = judge_check(outcome, ended, folder)
        total = await asyncio.to_thread(append_output, path, folder)
        return checked if not total else replace(checked, output_bytes=total)

    def stop(self, identity: ProcessIdentity, *, at_once: bool) -> None:
        """Ask a keeper to end its tree: TERM, grace, KILL; or KILL at once."""
        self._runner.stop(identity, at_once=at_once)

    def alive(self, identity: ProcessIdentity) -> bool:
        """Return whether this very process still runs."""
        return alive(identity)

    async def gone(self, identity: ProcessIdentity) -> None:
        """Wait until this very process has ended; it need not be ours."""
        await wait_keeper(identity)

    def outcome_left(self, run_id: str) -> bool:
        """Return whether a keeper wrote how the run ended."""
        return read_ended(self._folder(run_id)) is not None

    async def sweep(self, run_id: str) -> list[int]:
        """Kill all processes with the run's tag; return those that survived."""
        left = await asyncio.to_thread(kill_tagged, run_id)
        await asyncio.to_thread(remove_left_container, self._folder(run_id))
        return left

    def close(self) -> None:
        """Close the spawner; keepers stay."""
        self._runner.close()

    def _facts(self, claimed: Claimed) -> RunFacts:
        shared = self._scheduler_state() if claimed.spec.work.kind is Kind.FUNCTION else {}
        return run_facts(claimed, scheduler_state=shared)

    def _folder(self, run_id: str) -> Path:
        return folder_of(self._settings.state, run_id)

    def _surroundings(self, folder: Path, work: Work) -> RunSurroundings:
        surroundings = surroundings_of(work, self._settings, folder=folder, environ=self._environ)
        return replace(surroundings, origins=self._origins())


def may_hang(work: Work, settings: Settings) -> bool:
    """Return whether a look at the folder of the work may wait for a mount: it may lie outside of the project."""
    project = work.project or str(settings.folder)
    folder = os.path.normpath(os.path.join(project, os.path.expanduser(work.cwd)))
    return has_placeholders(work.cwd) or not f"{folder}{os.sep}".startswith(f"{project}{os.sep}")


def surroundings_of(work: Work, settings: Settings, *, folder: Path, environ: Mapping[str, str]) -> RunSurroundings:
    """Return where a run happens; the work of an included project is at home in that project's folder."""
    return RunSurroundings(
        project=Path(work.project) if work.project else settings.folder,
        state=settings.state,
        folder=folder,
        environ=environ,
        credentials=environ.get("CREDENTIALS_DIRECTORY"),
        imports=work.imports if work.project else settings.imports,
        root=settings.folder,
        origins=settings.secrets,
    )


def run_facts(claimed: Claimed, *, scheduler_state: Mapping[str, Any] = NOTHING) -> RunFacts:
    """Return what a process is told about its run."""
    run = claimed.run
    return RunFacts(
        run_id=run.id,
        handle=run.handle,
        job=run.job,
        number=run.number,
        attempt=run.attempt,
        trigger=run.trigger,
        scheduled_for=run.nominal,
        timezone=claimed.spec.schedule.timezone,
        params=run.params,
        state=run.state,
        poll_data=claimed.poll_data,
        scheduler_state=scheduler_state,
    )


def answer(condition: Condition, result: CheckResult, *, took_ms: int) -> ConditionResult:
    """Return what a condition's exit code means: 0 pass, 10 false, anything else an error."""
    title = condition.title
    if result.exit_code == 0:
        return ConditionResult(title, "pass", "exit 0", took_ms, output=result.output)
    if result.exit_code == FALSE_EXIT:
        return ConditionResult(title, "false", f"exit {FALSE_EXIT}", took_ms)
    if result.timed_out:
        return ConditionResult(title, "error", "timed out", took_ms)
    if result.exit_code is None:
        return ConditionResult(title, "error", result.error or "no exit code", took_ms)
    detail = f"exit {result.exit_code}, expected 0 (true) or {FALSE_EXIT} (false)"
    said = next((line.strip() for line in reversed(result.output.splitlines()) if line.strip()), "")
    return ConditionResult(title, "error", f"{detail}: {said[:SAID_LIMIT]}" if said else detail, took_ms)
