"""Direct calls on a scene: asked through the operation that faces use, but without a scheduler's lock."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rota.engine.transactions import direct_calls
from rota.model.ids import new_id
from rota.model.records import ProcessIdentity
from rota.model.spec import Draw
from rota.operations.direct_actions import ask_for_work
from rota.operations.direct_calls import DirectView, direct_view
from rota.store.driver import Database
from rota.store.tables import direct_calls as direct_calls_table
from rota.store.tables import queue
from rota.testing.scene import Scene


def call(
    scene: Scene, job: str, *, caller: ProcessIdentity | None = None, params: Mapping[str, Any] | None = None
) -> str:
    """Ask for a job's work in the next slot; return the call's identifier."""
    caller = caller or scene.processes.caller()
    ask = partial(ask_for_work, name=job, params=params, caller=caller, now=scene.clock.now())
    return scene.store.write(ask)


def reserve(scene: Scene, *, caller: ProcessIdentity, pools: Sequence[Draw] = ()) -> str:
    """Ask for the next slot itself; return the call's identifier."""
    call_id, now = new_id(scene.clock.now()), scene.clock.now()

    def ask(db: Database) -> None:
        lane_id = queue.lane_of(db, pools)
        direct_calls_table.ask(db, direct_calls_table.WaitingCall(call_id, None, None, None, lane_id, {}, caller, now))

    scene.store.write(ask)
    return call_id


def withdraw(scene: Scene, call_id: str) -> bool:
    """Give a call up."""
    return scene.store.write(partial(direct_calls.withdraw, call_id=call_id, now=scene.clock.now()))


def look(scene: Scene, call_id: str) -> DirectView | None:
    """Return a call as faces show it."""
    return direct_view(scene.store, call_id)


def told(scene: Scene, call_id: str) -> tuple[str, str | None] | None:
    """Return status and reason of a call, None when nothing is left of it."""
    view = look(scene, call_id)
    return None if view is None else (view.status.value, view.reason)
