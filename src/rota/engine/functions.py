"""Functions and conditions for the executor: contexts made, outcomes passed on, names from the loaded file alone."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rota.engine.claim import Claimed
from rota.engine.record import Finished
from rota.model.clock import Clock
from rota.model.records import Outcome
from rota.model.spec import Condition
from rota.model.states import Reason, Status
from rota.rules.admission import ConditionResult
from rota.runners.calling import read_answer
from rota.runners.context import JobContext, RunInfo, RunLog
from rota.runners.function import FunctionRunner
from rota.runners.network import network_up
from rota.runners.output import folder_of
from rota.settings import Settings

CONDITION = "/condition/"

Function = Callable[..., Any]


@dataclass(slots=True)
class FunctionTable:
    """The functions and conditions that the loaded file names. Stored data never adds to it."""

    functions: Mapping[str, Function] = field(default_factory=dict)
    conditions: Mapping[str, Function] = field(default_factory=dict)


class InProcessFunctions:
    """Runs functions of the table on the function runner."""

    def __init__(
        self,
        clock: Clock,
        settings: Settings,
        table: FunctionTable,
        *,
        ended: Callable[[list[Finished]], None],
        released: Callable[[str], None],
    ) -> None:
        self.table = table
        self._clock = clock
        self._settings = settings
        self._ended = ended
        self._released = released
        self._jobs: dict[str, str] = {}
        self._answers: dict[str, asyncio.Future[Outcome]] = {}
        self._freed = asyncio.Event()
        self._runner = FunctionRunner(
            asyncio.get_running_loop(),
            settings.scheduler.concurrency,
            on_outcomes=self._take_outcomes,
            on_released=self._take_released,
        )

    def begin(self, claimed: Claimed) -> None:
        """Start a function; its outcome is reported later."""
        run, work = claimed.run, claimed.spec.work
        self._jobs[run.id] = run.job_id
        function = self.table.functions.get(work.function)
        if function is None:
            asyncio.get_running_loop().call_soon(self._take_outcomes, [(run.id, _unknown(work.function))])
            return
        timeout = None if work.timeout is None else work.timeout.total_seconds()
        self._runner.start(run.id, function, self._context(claimed), timeout=timeout)

    def stop(self, run_id: str) -> None:
        """Ask a function to end; its outcome is reported."""
        self._runner.cancel(run_id)

    async def check(self, claimed: Claimed, condition: Condition, *, index: int) -> ConditionResult:
        """Ask a registered condition, or a built-in one."""
        function = self.table.conditions.get(condition.name, _BUILT_IN.get(condition.name))
        if function is None:
            return ConditionResult(condition.title, "error", f'no condition is named "{condition.name}" in the file')
        token = f"{claimed.run.id}{CONDITION}{index}"
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._answers[token] = answer
        self._jobs[token] = claimed.run.job_id
        began = self._clock.monotonic()
        timeout = condition.timeout.total_seconds()
        self._runner.start(token, function, self._context(claimed), timeout=timeout, read=read_answer)
        try:
            outcome = await answer
        except asyncio.CancelledError:
            self._runner.cancel(token)
            raise
        return _result(condition, outcome, took_ms=round((self._clock.monotonic() - began) * 1000))

    def holds(self, run_id: str) -> bool:
        """Tell whether code of a run that ended still runs: a thread cannot be killed."""
        return any(token.partition(CONDITION)[0] == run_id for token in self._runner.abandoned())

    async def until_free(self, job_id: str) -> None:
        """Wait until no code of an ended run of this job still runs (R-12)."""
        while any(self._jobs.get(token) == job_id for token in self._runner.abandoned()):
            self._freed.clear()
            await self._freed.wait()

    def close(self) -> None:
        """Let the threads go."""
        self._runner.close()

    def _context(self, claimed: Claimed) -> JobContext:
        run = claimed.run
        info = RunInfo(
            id=run.id,
            handle=run.handle,
            job=run.job,
            number=run.number,
            attempt=run.attempt,
            trigger=run.trigger,
            scheduled_for=run.nominal,
            timezone=claimed.spec.schedule.timezone,
        )
        folder = partial(folder_of, self._settings.state, run.id)
        log = RunLog(folder, self._clock.now, policy=claimed.spec.work.output)
        return JobContext(info, log, params=run.params, state=run.state)

    def _take_outcomes(self, outcomes: list[tuple[str, Outcome]]) -> None:
        finished = []
        for token, outcome in outcomes:
            answer = self._answers.pop(token, None)
            if answer is not None:
                if not answer.done():
                    answer.set_result(outcome)
            else:
                finished.append(Finished(token, self._jobs[token], outcome))
            if token not in self._runner.abandoned():
                del self._jobs[token]
        if finished:
            self._ended(finished)

    def _take_released(self, token: str) -> None:
        self._jobs.pop(token, None)
        self._freed.set()
        self._released(token.partition(CONDITION)[0])


def _result(condition: Condition, outcome: Outcome, *, took_ms: int) -> ConditionResult:
    if outcome.status is Status.COMPLETED:
        return ConditionResult(condition.title, "pass", took_ms=took_ms)
    if outcome.reason is Reason.CONDITION:
        return ConditionResult(condition.title, "false", took_ms=took_ms)
    return ConditionResult(condition.title, "error", outcome.error or "it failed", took_ms)


def _unknown(name: str) -> Outcome:
    text = f'no function "{name}" is loaded; the file that named it has changed'
    return Outcome(Status.FAILED, Reason.SPAWN_FAILED, error=text)


def _network_up(_context: JobContext) -> bool:
    return network_up()


_BUILT_IN: Mapping[str, Function] = {"network_up": _network_up}
