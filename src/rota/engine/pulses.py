"""How a scheduling process is, as its own loop tells it to whoever asks (R-22)."""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rota.engine.engine import Engine
from rota.engine.loop import Loop
from rota.model.clock import Clock, iso
from rota.settings import Settings


def tell_status(
    engine: Engine,
    clock: Clock,
    *,
    settings: Settings,
    started_at: datetime,
    further: Sequence[Loop] = (),
    file_problem: str | None = None,
    damage: str | None = None,
) -> Mapping[str, Any]:
    """Return what `rota status` is answered; `further` are the loops of the process beside the engine's."""
    return {
        "pid": os.getpid(),
        "started_at": iso(started_at),
        "now": iso(clock.now()),
        "enabled": settings.scheduler.enabled,
        "concurrency": settings.scheduler.concurrency,
        "slots_taken": engine.slots.taken,
        "carries": tell_carried(engine),
        "file_problem": file_problem,
        "storage_problem": engine.refusals.problem,
        "damage": damage,
        "loops": [_loop(loop) for loop in (*engine.loops, *further)],
    }


def tell_carried(engine: Engine) -> Mapping[str, int]:
    """Return how many runs and direct calls a process carries."""
    carried = engine.executor.carried.values()
    calls = sum(one.direct for one in carried)
    return {"running": len(carried) - calls, "direct": calls}


def _loop(loop: Loop) -> dict[str, Any]:
    pulse = loop.pulse
    last_at = iso(pulse.last_at) if pulse.last_at else None
    return {"name": loop.name, "rounds": pulse.rounds, "last_at": last_at, "error": pulse.error}
