"""Execution of Python functions and of agents written in Python."""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from rota.agents.registry import adapter
from rota.engine.agents import agent_task
from rota.engine.processes import run_facts, surroundings_of
from rota.engine.transactions.claim import Claimed
from rota.engine.transactions.finish import Finished
from rota.model.agents import AgentResult, AgentTask
from rota.model.clock import Clock
from rota.model.errors import InvalidValue, RotaError, SecretMissing, SpawnFailed
from rota.model.records import ERROR_LIMIT, Outcome, cut
from rota.model.spec import AgentWork, Condition, Kind, OutputPolicy, SecretOrigin, SessionMode, Work
from rota.model.states import Reason, Status
from rota.rules.admission import ConditionResult
from rota.rules.agents import agent_outcome
from rota.rules.power import BATTERY, Power, battery_above, on_ac_power, say_power
from rota.runners.agent_step import judge_result
from rota.runners.context import JobContext, RunInfo, RunLog
from rota.runners.environment import Secrets
from rota.runners.functions import (
    FunctionCall,
    FunctionRunner,
    Reader,
    fetcher,
    is_async,
    read_answer,
    read_poll,
    read_returned,
)
from rota.runners.output import folder_of
from rota.runners.power import read_power
from rota.runners.processes import network_up
from rota.runners.result import ENDED
from rota.settings import Settings


def called_task(claimed: Claimed, context: JobContext, *, settings: Settings) -> AgentTask:
    """Return the task of a run, with a folder of its own to write into; raise SpawnFailed where there is none."""
    folder = folder_of(settings.state, claimed.run.id)
    surroundings = surroundings_of(claimed.spec.work, settings, folder=folder, environ={})
    task = agent_task(claimed, run_facts(claimed), surroundings)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SpawnFailed(f"{folder} cannot be created: {error.strerror}", hint="check the state folder") from error
    return replace(task, cancelled=lambda: context.cancelled)


def read_result(context: JobContext, value: Any, *, claimed: Claimed) -> Outcome:
    """Return the outcome of an agent that returned; its whole answer goes into the run's output."""
    work = claimed.spec.work.agent
    assert work is not None, "only agents come here"
    try:
        result = judge_result(value)
    except InvalidValue as error:
        return Outcome(Status.FAILED, Reason.RESULT_INVALID, error=cut(str(error), ERROR_LIMIT))
    _keep_answer(context, result)
    ended = Outcome(Status.COMPLETED, output_bytes=context.log.total)
    outcome = agent_outcome(ended, result, resumed=claimed.brief.session, resumes=work.session is SessionMode.RESUME)
    if claimed.spec.work.output is OutputPolicy.NONE:
        outcome = replace(outcome, result=None)
    if outcome.session is not None:
        outcome = replace(outcome, session=replace(outcome.session, adapter=work.adapter))
    return replace(outcome, provider=work.provider, agent=work.agent if work.choices else None)


def _keep_answer(context: JobContext, result: AgentResult) -> None:
    for text in (result.summary, result.error or ""):
        if text.strip():
            context.log.write(text.rstrip("\n") + "\n")


CONDITION = "/condition/"

Function = Callable[..., Any]
NO_FACTS: Mapping[str, Callable[[Claimed], bool]] = {}


class FunctionTable(Struct):
    """The functions, conditions, work sources, agents and origins of secrets that the loaded file names.

    Stored data never adds to it.
    """

    functions: Mapping[str, Function] = field(default_factory=dict)
    conditions: Mapping[str, Function] = field(default_factory=dict)
    sources: Mapping[str, Function] = field(default_factory=dict)
    agents: Mapping[str, Function] = field(default_factory=dict)
    secrets: Mapping[str, SecretOrigin] = field(default_factory=dict)


class Prepared(NamedTuple):
    """The prepared call of a run, or its outcome if the preparation failed."""

    claimed: Claimed
    call: FunctionCall | Outcome


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
        facts: Mapping[str, Callable[[Claimed], bool]] = NO_FACTS,
        charge: Callable[[Claimed], Awaitable[None]] | None = None,
        scheduler_state: Callable[[], Mapping[str, Any]] = dict,
        sdk: Any = None,
        power: Callable[[], Power] = read_power,
        host: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.table = table
        self._facts = facts
        self._charge = charge
        self._scheduler_state = scheduler_state
        self._sdk = sdk
        self._power = power
        self._clock = clock
        self._settings = settings
        self._ended = ended
        self._released = released
        self._loop = asyncio.get_running_loop()
        self._jobs: dict[str, str] = {}
        self._contexts: dict[str, JobContext] = {}
        self._prepared: dict[str, Prepared] = {}
        self._answers: dict[str, asyncio.Future[Outcome]] = {}
        self._asked = itertools.count()
        """A condition that is asked again is another call: the deadline of the first may still come."""
        self._freed = asyncio.Event()
        self._idle = asyncio.Event()
        self._runner = FunctionRunner(
            self._loop,
            settings.scheduler.concurrency,
            on_outcomes=self._take_outcomes,
            on_released=self._take_released,
            host=host,
        )

    def prepare(self, claimed: Sequence[Claimed]) -> None:
        """Prepare calls whose start is being stored; drop calls that were prepared before and never began."""
        self._prepared = {
            one.run.id: Prepared(one, self._call(one)) for one in claimed if one.started and one.launched is None
        }

    def begin(self, claimed: Claimed) -> None:
        """Start a function; its outcome is reported later."""
        run = claimed.run
        self._jobs[run.id] = run.job_id
        prepared = self._prepared.pop(run.id, None)
        call = prepared.call if prepared is not None and prepared.claimed is claimed else self._call(claimed)
        if isinstance(call, Outcome):
            asyncio.get_running_loop().call_soon(self._take_outcomes, [(run.id, call)])
            return
        self._contexts[run.id] = call.context
        self._runner.start(call)

    def _call(self, claimed: Claimed) -> FunctionCall | Outcome:
        try:
            return self._make_call(claimed)
        except Exception as error:  # a broken object of a user must not stop the others
            text = cut(f"the call failed: {type(error).__name__}: {error}", ERROR_LIMIT)
            return Outcome(Status.FAILED, Reason.SPAWN_FAILED, error=text)

    def _make_call(self, claimed: Claimed) -> FunctionCall | Outcome:
        function = self._function(claimed)
        if isinstance(function, Outcome):
            return function
        run_id, timeout = claimed.run.id, claimed.spec.work.timeout
        context = self._context(claimed, function, run_id)
        given = self._given(claimed, context)
        if isinstance(given, Outcome):
            return given
        seconds = None if timeout is None else timeout.total_seconds()
        return FunctionCall(run_id, function, context, timeout=seconds, read=_reader(claimed), given=given)

    def _given(self, claimed: Claimed, context: JobContext) -> JobContext | AgentTask | Outcome:
        if claimed.spec.work.agent is None:
            return context
        try:
            return called_task(claimed, context, settings=self._settings)
        except RotaError as error:
            return Outcome(Status.FAILED, Reason.SPAWN_FAILED, error=str(error))

    def _function(self, claimed: Claimed) -> Function | Outcome:
        work = claimed.spec.work
        if work.agent is not None:
            return self._agent(work.agent)
        if not work.url:
            return self.table.functions.get(work.function) or _unknown(work.function)
        read = partial(self._headers, work)
        if any(header.secret in self.table.secrets for header in work.headers):
            return fetcher(work.url, read)  # the function reads them in a thread: a program may take long
        try:
            return fetcher(work.url, read())
        except RotaError as error:
            reason = Reason.SECRET_MISSING if isinstance(error, SecretMissing) else Reason.SPAWN_FAILED
            return Outcome(Status.FAILED, reason, error=str(error))

    def _agent(self, work: AgentWork) -> Function | Outcome:
        if work.function:
            return self.table.agents.get(work.function) or _unknown(work.function)
        return adapter(work.adapter, work.options).run or _unknown(work.adapter)

    def _headers(self, work: Work) -> dict[str, str]:
        secrets = Secrets(self._settings.state, os.environ, lambda: self.table.secrets)
        return {env.name: env.value or "" if env.secret is None else secrets.find(env.secret) for env in work.headers}

    def stop(self, run_id: str) -> None:
        """Ask a function to end; its outcome is reported."""
        self._runner.cancel(run_id)

    async def check(self, claimed: Claimed, condition: Condition, *, index: int) -> ConditionResult:
        """Ask a registered condition, or a built-in one."""
        if condition.name in _OF_POWER and condition.name not in self.table.conditions:
            return self._check_power(condition)
        fact = self._facts.get(condition.name) if condition.name not in self.table.conditions else None
        if fact is not None:
            return ConditionResult(condition.title, "pass" if fact(claimed) else "false")
        function = self.table.conditions.get(condition.name, _BUILT_IN.get(condition.name))
        if function is None:
            return ConditionResult(condition.title, "error", f'no condition is named "{condition.name}" in the file')
        token = f"{claimed.run.id}{CONDITION}{index}/{next(self._asked)}"
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._answers[token] = answer
        self._jobs[token] = claimed.run.job_id
        began = self._clock.monotonic()
        timeout = condition.timeout.total_seconds()
        context = self._contexts[token] = self._context(claimed, function, token)
        self._runner.start(FunctionCall(token, function, context, timeout=timeout, read=read_answer))
        try:
            outcome = await answer
        except asyncio.CancelledError:
            self._runner.cancel(token)
            raise
        return _result(condition, outcome, took_ms=round((self._clock.monotonic() - began) * 1000))

    def _check_power(self, condition: Condition) -> ConditionResult:
        power = self._power()
        passes = _OF_POWER[condition.name](power, condition)
        return ConditionResult(condition.title, "pass" if passes else "false", say_power(power))

    @property
    def busy(self) -> bool:
        """Whether a function or a condition is under way."""
        return bool(self._contexts)

    async def until_idle(self) -> None:
        """Wait until no function and no condition is under way; code of ended runs does not count."""
        while self._contexts:
            self._idle.clear()
            await self._idle.wait()

    def holds(self, run_id: str) -> bool:
        """Return whether code of a run that ended still runs: a thread cannot be killed."""
        abandoned = self._runner.abandoned()
        return bool(abandoned) and any(token.partition(CONDITION)[0] == run_id for token in abandoned)

    async def until_free(self, job_id: str) -> None:
        """Wait until no code of an ended run of this job still runs."""
        while any(self._jobs.get(token) == job_id for token in self._runner.abandoned()):
            self._freed.clear()
            await self._freed.wait()

    def close(self) -> None:
        """Release the threads."""
        self._runner.close()

    def _context(self, claimed: Claimed, function: Function, token: str) -> JobContext:
        run = claimed.run
        folder = partial(folder_of, self._settings.state, run.id)
        return JobContext(
            partial(_info, claimed),
            RunLog(folder, self._clock.now, policy=claimed.spec.work.output.on_disk),
            params=run.params,
            state=run.state,
            poll_data=claimed.poll_data,
            scheduler_state=self._scheduler_state,
            sdk=None if self._sdk is None else self._sdk.inside(run.handle, job=claimed.spec.name),
            count=partial(self._count, claimed, token) if claimed.spec.budgets and self._charge else None,
            asynchronous=is_async(function),
        )

    def _count(self, claimed: Claimed, token: str) -> "Future[None]":
        return asyncio.run_coroutine_threadsafe(self._count_one(claimed, token), self._loop)

    async def _count_one(self, claimed: Claimed, token: str) -> None:
        assert self._charge is not None
        if token not in self._contexts:
            raise RuntimeError(ENDED)  # its end is on its way to the database, and settles its accounts
        await self._charge(claimed)

    def _take_outcomes(self, outcomes: list[tuple[str, Outcome]]) -> None:
        finished = []
        for token, told in outcomes:
            outcome = self._with_usage(token, told)
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
        if not self._contexts:
            self._idle.set()

    def _with_usage(self, token: str, outcome: Outcome) -> Outcome:
        """Return an outcome with what the function used, however it ended; from here on it sends no more requests."""
        context = self._contexts.pop(token, None)
        usage = context.settle() if context is not None else None
        return outcome if usage is None else replace(outcome, usage=usage)

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


def _info(claimed: Claimed) -> RunInfo:
    run, zone = claimed.run, claimed.spec.schedule.timezone
    return RunInfo(run.id, run.handle, run.job, run.number, run.attempt, run.trigger, run.nominal, zone)


def _reader(claimed: Claimed) -> Reader:
    if claimed.spec.work.agent is not None:
        return partial(read_result, claimed=claimed)
    return read_poll if claimed.spec.work.kind is Kind.POLL else read_returned


def _unknown(name: str) -> Outcome:
    text = f'no function "{name}" is loaded; the file that named it has changed'
    return Outcome(Status.FAILED, Reason.SPAWN_FAILED, error=text)


def _network_up(_context: JobContext) -> bool:
    return network_up()


def _has_open_prs(context: JobContext) -> bool:
    """Return whether the polled server has provisional tasks."""
    counts = (context.poll_data or {}).get("queue_counts")
    provisional = counts.get("provisional", 0) if isinstance(counts, Mapping) else 0
    return isinstance(provisional, int | float) and provisional > 0


_BUILT_IN: Mapping[str, Function] = {"network_up": _network_up, "has_open_prs": _has_open_prs}
"""Built-in conditions that need no database."""
_OF_POWER: Mapping[str, Callable[[Power, Condition], bool]] = {
    "on_ac_power": lambda power, _condition: on_ac_power(power),
    BATTERY: lambda power, condition: battery_above(power, condition.percent or 0),
}
"""Built-in conditions that the power of the machine answers."""
