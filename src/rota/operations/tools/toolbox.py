"""The toolbox: all tools for one maker, at one store."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rota.model.clock import Clock
from rota.model.errors import RotaError, UnknownTool
from rota.model.making import AgentPolicy, Maker
from rota.operations.system import SWITCHED_OFF, heartbeat, switched_off
from rota.operations.tools import acting, looking
from rota.operations.tools.arguments import Arguments, read
from rota.operations.tools.catalog import TOOLS, Answer, Tool, tools_of
from rota.operations.tools.desk import Declare, Desk
from rota.operations.tools.words import hint_of
from rota.operations.trail import Deed, Trailed
from rota.store.driver import Store
from rota.store.schema import require_schema

DOES: Mapping[str, Callable[[Desk, Any], Answer]] = {
    "schedule_job": acting.schedule,
    "list_jobs": looking.list_all,
    "search_jobs": looking.search,
    "unschedule_job": acting.unschedule,
    "preview_schedule": looking.preview,
    "trigger_job": acting.start,
    "explain_job": looking.why,
    "get_run": looking.get_run,
}


class Toolbox:
    """The tools of one maker. Safe from any thread; each call is one transaction."""

    def __init__(
        self,
        store: Store,
        state: Path,
        clock: Clock,
        *,
        maker: Maker,
        declare: Declare,
        policy: AgentPolicy | None = None,
    ) -> None:
        # The tools are a door for agents: whoever calls them is bound by `agent_policy`, a person's own agent too.
        self._desk = Desk(store, state, clock, replace(maker, bound=True), declare, policy)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools, each bound to this maker."""
        return tools_of(self.call)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool; raise RotaError where it is refused, with a text that a model can act on."""
        described = TOOLS.get(name)
        if described is None:
            raise UnknownTool(name, list(TOOLS))
        wanted = read(described.takes, arguments)
        try:
            self._desk.store.read(require_schema)  # an agent keeps its tools for days: rota may be upgraded meanwhile
            answer = DOES[name](self._noting(name, wanted) if described.changes else self._desk, wanted)
            return answer | self._warning()
        except RotaError as error:
            error.hint = hint_of(error)
            raise

    def _warning(self) -> Answer:
        """Return what makes the next starts of an answer untrue: a scheduler that is switched off."""
        beat = heartbeat(self._desk.state)
        off = self._desk.store.read(partial(switched_off, beat=beat))
        return {"warning": f"{SWITCHED_OFF}, until a person sets it to true"} if off else {}

    def _noting(self, name: str, wanted: Arguments) -> Desk:
        """Return the desk with a store that notes who changes what."""
        desk = self._desk
        target = getattr(wanted, "name", "") or getattr(wanted, "job_id", "")
        deed = Deed(desk.maker.title, "tools", name, target)
        return replace(desk, store=Trailed(desk.store, deed, desk.clock))
