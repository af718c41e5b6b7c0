"""Who takes over what processes that are gone have left: with what, and how it ends what it cannot go on with."""

from dataclasses import dataclass

from rota.engine.claim import Holder
from rota.engine.execute import Executor
from rota.engine.ports import Processes
from rota.engine.slots import Slots
from rota.model.clock import Clock
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.store.driver import Store

RESTARTED = Outcome(Status.FAILED, Reason.PROCESS_RESTARTED, error="the scheduler's process ended while it ran")


@dataclass(frozen=True, slots=True)
class Heir:
    """A process that recovers: its store and clock, its epoch, the trees it can see, and where adopted work goes."""

    store: Store
    clock: Clock
    holder: Holder
    children: Processes
    executor: Executor
    slots: Slots

    async def end_tree(self, run_id: str) -> Outcome:
        """End what is left of a run's processes; return how the run ended."""
        unkillable = await self.children.sweep(run_id)
        if unkillable:
            text = f"processes {', '.join(map(str, unkillable))} could not be killed"
            return Outcome(Status.FAILED, Reason.UNKILLABLE, error=text)
        return RESTARTED
