"""Execution of claimed runs: conditions, budgets, then the process or the function."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from rota import faults
from rota.declare.registry import asked_elsewhere
from rota.engine.loops.briefs import Briefing
from rota.engine.loops.in_flight import Events, InFlightRun, OnExit, Recorded, RunPhase, RunStep, StopRequest
from rota.engine.loops.loop import StorageErrors, pause_for
from rota.engine.loops.outputs import Outputs
from rota.engine.loops.work_sources import Items
from rota.engine.ports import Functions, Logins, Processes
from rota.engine.transactions import agents
from rota.engine.transactions.budgets import charges, full, pass_windows, refuse_exceeded, reserve
from rota.engine.transactions.claim import Claimed, ClaimOwner, Launched, start
from rota.engine.transactions.direct_calls import give_up, put_back
from rota.engine.transactions.finish import Finished, end_run
from rota.engine.transactions.insert import demand_poll
from rota.engine.transactions.poll import Needed, look
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import RotaError, SecretMissing, SpawnFailed, StateError
from rota.model.records import Outcome, ProcessIdentity
from rota.model.spec import Work
from rota.model.states import Reason, Status, WaitingFor
from rota.rules.admission import Admission, Admit, ConditionResult, Defer, Skip, decide
from rota.rules.agents import RECHECK_CERTIFIED, uncertified
from rota.settings import Settings
from rota.store.driver import Database, Store
from rota.store.tables import activity, budgets, queue, runs
from rota.store.tables.direct_calls import Direct

STAGE = "start"
"""Under which name refusals of the storage are told."""
STORAGE_PAUSE = timedelta(seconds=1)
TAKEN_BACK = Outcome(Status.FAILED, Reason.SHUTDOWN, error="the scheduler stopped while the slot was reserved")


class Executor:
    """Carries claimed runs to their end."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        holder: ClaimOwner,
        processes: Processes,
        functions: Functions,
        settings: Settings,
        items: Items,
        outputs: Outputs,
        logins: Logins,
        storage_errors: StorageErrors,
        events: Events,
    ) -> None:
        self.carried: dict[str, InFlightRun] = {}
        self.idle = True
        """Whether nothing was ever carried: no row names the epoch then."""
        self.detached = 0
        """How many runs were left to the next scheduler."""
        self._detaching = False
        self._store = store
        self._clock = clock
        self._holder = holder
        self._processes = processes
        self._functions = functions
        self.outputs = outputs
        self._events = events
        self._storage_errors = storage_errors
        self._logins = logins
        self.briefing = Briefing(store, clock, settings=settings, items=items, holder=holder)

    def begin_all(self, taken: Sequence[Claimed]) -> None:
        """Take on the runs of a claim."""
        if not taken:
            return
        faults.point("claim.committed")
        logged = log.is_enabled_for(logging.DEBUG)  # once for all: even a line that is dropped costs a tenth of a run
        for claimed in taken:
            if logged:
                log.debug("run claimed", run=claimed.run.handle, slot=claimed.slot)
            self.begin(claimed)

    def begin(self, claimed: Claimed) -> None:
        """Take on a claimed run."""
        self.idle = False
        run, work = claimed.run, claimed.spec.work
        reserved = claimed.call is not None and claimed.call.reserves
        launched = claimed.launched
        carried = InFlightRun(
            claimed,
            run.id,
            run.job_id,
            claimed.slot,
            in_process=launched is None and (claimed.started or work.in_process),
            direct=claimed.call is not None,
            reserved=reserved,
            phase=RunPhase.RUNNING if reserved or claimed.started else RunPhase.CLAIMED,
            shares=work.output.shared,
            work=work,
        )
        self.carried[run.id] = carried
        if carried.shares:
            self.outputs.begin(run.id)
        if reserved:
            return
        if launched is not None:
            if self._open(carried, launched):
                carried.task = asyncio.get_running_loop().create_task(self._follow(carried, launched.identity))
        elif claimed.started:
            self._functions.begin(claimed)
        else:
            carried.task = asyncio.get_running_loop().create_task(self._carry(carried, claimed))

    def adopt(
        self,
        owned: runs.Owned,
        *,
        slot: int,
        process: ProcessIdentity,
        work: Work,
    ) -> None:
        """Take on a run whose keeper was started by another process."""
        self.idle = False
        shares = work.output.shared
        carried = InFlightRun(
            None,
            owned.id,
            owned.job_id,
            slot,
            in_process=False,
            process=process,
            phase=RunPhase.RUNNING,
            shares=shares,
            work=work,
        )
        self.carried[owned.id] = carried
        if shares:
            self.outputs.begin(owned.id)
        carried.task = asyncio.get_running_loop().create_task(self._follow(carried, process))

    def adopt_call(self, found: Direct, work: Work | None) -> None:
        """Take on a direct call that another process gave its slot."""
        self.idle = False
        execution = found.execution
        carried = InFlightRun(
            None,
            found.id,
            execution.job_id or "",
            execution.slot,
            in_process=False,
            direct=True,
            reserved=found.reserves,
            phase=RunPhase.RUNNING,
            work=work,
        )
        self.carried[found.id] = carried
        if not found.reserves:
            carried.process = found.process
            carried.task = asyncio.get_running_loop().create_task(self._follow(carried, found.process))

    def stop(self, run_id: str, *, at_once: bool = False) -> None:
        """End a run early, in any phase. The reason is already stored."""
        carried = self.carried.get(run_id)
        if carried is None or (carried.stopping and not at_once):
            return
        first = not carried.stopping
        carried.request_stop(StopRequest.NOW if at_once else StopRequest.GRACE)
        if carried.reserved:
            if first:  # the code is the caller's: only its slot can be taken back
                self._events.finished(Finished(run_id, carried.job_id, TAKEN_BACK))
        elif carried.process is not None:
            if not carried.over:  # else its keeper may have the next run
                self._processes.stop(carried.process, at_once=at_once)
            faults.point("stop.sent")
        elif carried.function_called:
            self._functions.stop(run_id)
        else:
            carried.interrupt()

    def check_called(self, finished: Sequence[Finished]) -> list[Finished]:
        """Begin the postconditions of functions that succeeded; return the outcomes that are ready to be stored."""
        ready = []
        for one in finished:
            carried = self.carried.get(one.run_id)
            checked = carried is not None and carried.work is not None and carried.work.postcondition is not None
            if carried is not None and checked and one.outcome.status is Status.COMPLETED:
                carried.task = asyncio.get_running_loop().create_task(self._check_called(carried, one))
            else:
                ready.append(one)
        return ready

    async def _check_called(self, carried: InFlightRun, finished: Finished) -> None:
        def begun(process: ProcessIdentity) -> None:
            carried.process = process
            if carried.stopping:
                self._processes.stop(process, at_once=carried.stop is StopRequest.NOW)

        assert carried.claimed is not None, "functions are never adopted"
        faults.point("execute.function_succeeded")
        outcome = await self._processes.check_work(carried.claimed, finished.outcome, begun=begun)
        carried.process = None  # its keeper may have another run by now
        self._events.finished(Finished(carried.run_id, carried.job_id, outcome))

    def hand_back(self, run_id: str) -> None:
        """Give a run that still stands at its gates back to the queue; one that has begun stays."""
        carried = self.carried.get(run_id)
        if carried is not None and carried.phase in (RunPhase.CLAIMED, RunPhase.AT_GATES, RunPhase.LEAVING):
            carried.requeue()
            carried.interrupt()

    def leave(self, run_id: str) -> None:
        """Stop following a run without ending it; its keeper goes on for the next process."""
        carried = self.carried.pop(run_id, None)
        self.outputs.drop(run_id)
        if carried is not None and carried.task is not None:
            carried.task.cancel()
        if carried is not None and carried.process is not None:
            self._processes.settle(carried.process, stored=False)

    def settle(self, ended: Recorded) -> None:
        """Give back the keepers of stored outcomes."""
        for finished, carried in zip(ended.batch, ended.carried, strict=True):
            if carried is not None and carried.process is not None:
                self._processes.settle(carried.process, stored=finished.run_id in ended.stored)

    def detach(self) -> None:
        """Leave processes and reserved slots to the next scheduler, and processes that are just starting too."""
        self._detaching = True
        for run_id in [run_id for run_id, run in self.carried.items() if run.process is not None or run.reserved]:
            self._detach(run_id)

    def _detach(self, run_id: str) -> None:
        self.leave(run_id)
        self.detached += 1
        faults.point("shutdown.run_left")

    def abandon(self) -> list[str]:
        """Stop following all runs and end them at once; return those of which processes may be left."""
        left = []
        for run_id in list(self.carried):
            carried = self.carried.pop(run_id)
            self.outputs.drop(run_id)
            if carried.task is not None:
                carried.task.cancel()
            if carried.process is not None:
                self._processes.stop(carried.process, at_once=True)
                self._processes.settle(carried.process, stored=False)
            if carried.function_called:
                self._functions.stop(run_id)
            elif not carried.reserved:
                left.append(run_id)
        return left

    async def _carry(self, carried: InFlightRun, claimed: Claimed) -> None:
        # A task that is cancelled before its first step never runs at all: until here wishes are only noted.
        carried.step(RunStep.ENTER)
        try:
            if carried.stopping or carried.on_exit is OnExit.REQUEUE:
                raise asyncio.CancelledError
            polled = await self._pass_poll(claimed)
            admitted = None if polled is None else await self._pass_gates(polled)
            if admitted is None or not await self._pass_certified(admitted) or not await self._pass_budgets(admitted):
                return
            briefed = await self._pass_brief(admitted)
            if briefed is not None:
                await self._work(carried, briefed)
        except asyncio.CancelledError:
            if carried.on_exit is OnExit.REQUEUE:
                await self._put_back(claimed)
            elif carried.stopping:
                await self._give_up(claimed, Outcome(Status.CANCELLED, Reason.REQUESTED))
            else:
                raise
        except StateError as error:
            await self._wait_for_storage(carried, claimed, error)
        except SecretMissing as error:
            await self._give_up(claimed, Outcome(Status.FAILED, Reason.SECRET_MISSING, error=str(error)))
        except RotaError as error:
            await self._give_up(claimed, Outcome(Status.FAILED, Reason.SPAWN_FAILED, error=str(error)))
        except Exception as error:
            log.exception("run failed to start", run=claimed.run.handle)
            text = f"{type(error).__name__}: {error}"
            await self._give_up(claimed, Outcome(Status.FAILED, Reason.SPAWN_FAILED, error=text))

    async def _wait_for_storage(self, carried: InFlightRun, claimed: Claimed, error: StateError) -> None:
        """Put a run back that could not start for want of storage: it is not its fault, and it starts when there is.

        It keeps its slot for a moment first, so that a full disk is not asked without pause.
        """
        carried.step(RunStep.WITHDRAW)
        self._storage_errors.report(STAGE, error)
        if not carried.stopping and carried.on_exit is OnExit.END:
            await pause_for(STORAGE_PAUSE)
        await self._put_back(claimed)

    async def _pass_poll(self, claimed: Claimed) -> Claimed | None:
        """Give a run that needs the poll its data, or put it back to wait for the next one."""
        if not claimed.spec.gates.needs_poll:
            return claimed
        # A direct call does not wait for anything but its slot: it takes the newest data there is.
        needed = await self._store.submit(partial(self._look_at_poll, claimed=claimed))
        if needed is not None:
            return claimed._replace(poll_data=needed.data)
        log.info("run waits", run=claimed.run.handle, waiting_for=WaitingFor.POLL.value)
        self._drop(claimed.run.id)
        return None

    def _look_at_poll(self, db: Database, *, claimed: Claimed) -> Needed | None:
        """Return what the poll brought; None: nothing that serves, and the run was put back in this transaction."""
        now = self._clock.now()
        needed = look(db, born=claimed.run.created_at, now=now)
        if claimed.call is not None:
            return needed
        if needed.fresh:
            at = needed.at.isoformat() if needed.at else None
            runs.note_decisions(db, claimed.run.id, {"poll": {"at": at}})
            return needed
        reason = _asked(db, claimed.run.id)
        if reason is not None:
            self._finish(db, claimed, Outcome(Status.CANCELLED, reason))
            return None
        epoch = self._holder.epoch
        if runs.release_run(db, claimed.run.id, epoch=epoch, waiting_for=WaitingFor.POLL, not_before=None):
            runs.note_wait(db, claimed.run.id, WaitingFor.POLL, since=now, until=None)
        demand_poll(db, now=now)
        return None

    async def _pass_gates(self, claimed: Claimed) -> Claimed | None:
        run, gates = claimed.run, claimed.spec.gates
        if run.forced or not gates.conditions:
            return claimed
        results = await self._ask_conditions(claimed)
        now = self._clock.now()
        admission = decide(gates, expires_at=run.expires_at, forced=run.forced, conditions=results, now=now)
        told = {"conditions": [_told(result) for result in results], "conditions_at": now.isoformat()}
        await self._store.submit(partial(runs.note_decisions, run_id=run.id, decisions=told))
        if isinstance(admission, Admit):
            outputs = tuple(result.output for result in results)
            return claimed._replace(brief=replace(claimed.brief, condition_outputs=outputs))
        if isinstance(admission, Defer):
            await self._put_back(claimed, admission)
        else:
            await self._skip(claimed, admission)
        return None

    async def _pass_certified(self, claimed: Claimed) -> bool:
        """Return whether the program of an agent is certified, where that is required; else the run waits."""
        work = claimed.spec.work.agent
        if work is None or not work.require_certified:
            return True
        version = await self._logins.version(claimed.spec.work)
        why = uncertified(self._store.read(partial(activity.certification, adapter=work.adapter)), version)
        if not why:
            return True
        if claimed.call is not None:
            raise SpawnFailed(f"{work.agent} is not certified: {why}", hint=f"`rota agents certify {work.agent}`")
        told = {"uncertified": {"agent": work.agent, "why": why}}
        await self._store.submit(partial(runs.note_decisions, run_id=claimed.run.id, decisions=told))
        await self._put_back(claimed, Defer(self._clock.now() + RECHECK_CERTIFIED, WaitingFor.UNCERTIFIED))
        return False

    async def _pass_budgets(self, claimed: Claimed) -> bool:
        kept = claimed.spec.work.agent is not None and bool(self._store.read(budgets.subscriptions))
        if not claimed.spec.budgets and not kept:
            return True
        admission = await self._store.submit(partial(self._reserve, claimed=claimed))
        if isinstance(admission, Defer):
            await self._put_back(claimed, admission)
        elif isinstance(admission, Skip):
            await self._skip(claimed, admission)
        return isinstance(admission, Admit)

    async def _pass_brief(self, claimed: Claimed) -> Claimed | None:
        if claimed.spec.work.agent is None:
            return claimed
        briefed = await self.briefing.give(claimed)
        if isinstance(briefed, Skip):
            if claimed.call is not None:  # it has no row that could be skipped, and its caller waits to be told
                raise SpawnFailed(f"{briefed.reason}: {briefed.why}")
            await self._skip(claimed, briefed)
            return None
        return briefed

    def _reserve(self, db: Database, *, claimed: Claimed) -> Admission:
        run, spec, now = claimed.run, claimed.spec, self._clock.now()
        agent = spec.work.agent
        if claimed.call is not None:  # its caller waits: refuse now instead of in the next window
            refuse_exceeded(db, spec, job_id=run.job_id, now=now)
        elif agent is not None:
            admission = pass_windows(db, run.id, agent, now=now)
            if not isinstance(admission, Admit):
                return admission
        if not spec.budgets:
            return Admit()
        return reserve(db, run.id, spec, job_id=run.job_id, epoch=self._holder.epoch, now=now)

    async def _ask_conditions(self, claimed: Claimed) -> list[ConditionResult]:
        results: list[ConditionResult] = []
        for index, condition in enumerate(claimed.spec.gates.conditions):
            if asked_elsewhere(condition, claimed.spec.work.python):
                result = await self._processes.check(claimed, condition, index=index)
            else:
                result = await self._functions.check(claimed, condition, index=index)
            results.append(result)
            if result.answer != "pass":
                break
        return results

    async def _put_back(self, claimed: Claimed, wait: Defer | None = None) -> None:
        def release(db: Database) -> bool:
            if claimed.call is not None:
                return put_back(db, claimed.call, epoch=self._holder.epoch, now=self._clock.now())
            reason = _asked(db, claimed.run.id)
            if reason is not None:
                return self._finish(db, claimed, Outcome(Status.CANCELLED, reason))
            now = self._clock.now()
            agents.put_back(db, claimed.run.id, now=now)
            released = runs.release_run(
                db,
                claimed.run.id,
                epoch=self._holder.epoch,
                waiting_for=wait.waiting_for if wait else None,
                not_before=wait.until if wait else None,
            )
            if released and wait is not None:
                runs.note_wait(db, claimed.run.id, wait.waiting_for, since=now, until=wait.until)
            return released

        if wait is not None:
            until = wait.until.isoformat()
            log.info("run waits", run=claimed.run.handle, waiting_for=wait.waiting_for.value, until=until)
        await self._until_stored(claimed.run.id, release)
        self._drop(claimed.run.id)

    async def _skip(self, claimed: Claimed, admission: Skip) -> None:
        log.info("run skipped", run=claimed.run.handle, reason=admission.reason.value, why=admission.why)
        await self._give_up(claimed, Outcome(Status.SKIPPED, admission.reason, error=admission.why))

    async def _give_up(self, claimed: Claimed, outcome: Outcome) -> None:
        """End a dispatched run that never started; a stored wish to cancel it comes first."""

        def end(db: Database) -> bool:
            reason = _asked(db, claimed.run.id)
            return self._finish(db, claimed, outcome if reason is None else Outcome(Status.CANCELLED, reason))

        if outcome.status is Status.FAILED:
            log.info("run failed", run=claimed.run.handle, reason=outcome.reason, error=outcome.error)
        await self._until_stored(claimed.run.id, end)
        self._drop(claimed.run.id)

    def _finish(self, db: Database, claimed: Claimed, outcome: Outcome) -> bool:
        now = self._clock.now()
        if claimed.call is not None:
            return give_up(db, claimed.call, self._holder, outcome, slot=claimed.slot, now=now)
        return end_run(db, claimed.run.id, outcome, expected=Status.DISPATCHED, epoch=self._holder.epoch, now=now)

    async def _work(self, carried: InFlightRun, claimed: Claimed) -> None:
        """Start the work. From here on a wish to stop is only noted, and acted on once the start is stored."""
        if carried.in_process:
            await self._functions.until_free(carried.job_id)
            carried.step(RunStep.BEGIN)
            await self._work_in_process(carried, claimed)
            return
        carried.step(RunStep.BEGIN)
        prepared = await self._processes.prepare(claimed)
        launched = await self._processes.launch(claimed.run.id, prepared)
        faults.point("execute.launched")
        if not await self._start_at_gate(claimed, launched):
            await self._give_up(claimed, Outcome(Status.CANCELLED, Reason.REQUESTED))
            return
        carried.step(RunStep.RUN)
        if self._open(carried, launched):
            await self._follow(carried, launched.identity)

    def _open(self, carried: InFlightRun, launched: Launched) -> bool:
        """Start a command whose start is stored; return whether its end is awaited here."""
        faults.point("execute.start_committed")
        self._storage_errors.clear(STAGE)
        carried.process = launched.identity
        launched.open()
        faults.point("execute.gate_opened")
        if carried.stopping:
            self._processes.stop(launched.identity, at_once=carried.stop is StopRequest.NOW)
        elif self._detaching:
            self._detach(carried.run_id)
            self._events.released(carried.run_id)
            return False
        return True

    async def _work_in_process(self, carried: InFlightRun, claimed: Claimed) -> None:
        if not await self._start(claimed, self._holder.identity):
            await self._give_up(claimed, Outcome(Status.CANCELLED, Reason.REQUESTED))
            return
        self._storage_errors.clear(STAGE)
        carried.step(RunStep.RUN)
        carried.task = None
        self._functions.begin(claimed)
        if carried.stopping:
            self._functions.stop(carried.run_id)

    async def _start_at_gate(self, claimed: Claimed, launched: Launched) -> bool:
        """Store the start with the keeper's pid; the gate stays shut unless that is committed."""
        try:
            started = await self._start(claimed, launched.identity)
        except BaseException:
            launched.close()
            raise
        if not started:
            launched.close()
        return started

    async def _start(self, claimed: Claimed, process: ProcessIdentity) -> bool:
        operation = partial(start, claimed=claimed, holder=self._holder, process=process, now=self._clock.now())
        return await self._store.submit(operation)

    async def _follow(self, carried: InFlightRun, process: ProcessIdentity) -> None:
        outcome = await self._processes.outcome(carried.run_id, process, carried.work)
        faults.point("execute.outcome_read")
        if carried.shares:
            await self.outputs.finish(carried.run_id)
        self._events.finished(Finished(carried.run_id, carried.job_id, outcome))

    async def _until_stored(self, run_id: str, operation: Callable[[Database], bool]) -> None:
        """Retry a write until it succeeds; the result stays in memory meanwhile, and no stop interrupts it."""
        carried = self.carried.get(run_id)
        if carried is not None:
            carried.step(RunStep.WITHDRAW)
        pause = 0.1
        while True:
            try:
                await asyncio.shield(self._store.submit(operation))
                return
            except RotaError as error:
                self._storage_errors.report(STAGE, error)
                if carried is not None:
                    carried.step(RunStep.REFUSE)
                await pause_for(timedelta(seconds=pause))
                pause = min(pause * 2, 5.0)

    def _drop(self, run_id: str) -> None:
        self.outputs.drop(run_id)
        if self.carried.pop(run_id, None) is not None:
            self._events.released(run_id)


def _asked(db: Database, run_id: str) -> Reason | None:
    row = db.row("run_ending", id=run_id)
    return None if row is None or row[1] is None else Reason(row[1])


def _told(result: ConditionResult) -> dict[str, Any]:
    return {"title": result.title, "answer": result.answer, "detail": result.detail, "took_ms": result.took_ms}


AGENTS = "agents"
MANY = 1_000_000

Fact = Callable[[Claimed], bool]


def facts_of(store: Store, clock: Clock) -> Mapping[str, Fact]:
    """Return the built-in conditions that this database answers, by name."""
    return {
        "no_agents_running": partial(_ask, store, no_agents_running),
        "budget_left": partial(_ask, store, partial(budget_left, clock=clock)),
    }


def _ask(store: Store, question: Callable[[Database, Claimed], bool], claimed: Claimed) -> bool:
    return store.read(lambda db: question(db, claimed))


def no_agents_running(db: Database, claimed: Claimed) -> bool:
    """Return whether no other run uses the pool `agents`."""
    return not [one for one in queue.holders(db, AGENTS, limit=MANY) if one != claimed.run.handle]


def budget_left(db: Database, claimed: Claimed, *, clock: Clock) -> bool:
    """Return whether all accounts of the job, and the windows of its agent, have room for a run of it."""
    charge_list = charges(db, claimed.spec, job_id=claimed.run.job_id, now=clock.now())
    agent = claimed.spec.work.agent
    return all(charge.fits for charge in charge_list) and not (agent is not None and full(db, agent, now=clock.now()))
