"""How a scheduling process is, as its own loop tells it to whoever asks (R-22)."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rota.engine.engine import Engine
from rota.engine.loop import Loop
from rota.engine.stopping import Stopping
from rota.model.clock import Clock, iso
from rota.settings import Settings


def tell_status(
    engine: Engine,
    clock: Clock,
    *,
    settings: Settings,
    started_at: datetime,
    further: Sequence[Loop] = (),
    stopping: Stopping | None = None,
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
        "stopping": _tell_stop(engine, clock, stopping) if stopping is not None and stopping.stop else None,
        "file_problem": file_problem,
        "storage_problem": engine.refusals.problem,
        "damage": damage,
        "failing": asdict(engine.failing) if engine.failing else None,
        "loops": [_loop(loop, engine) for loop in (*engine.loops, *further)],
    }


def _tell_stop(engine: Engine, clock: Clock, stopping: Stopping) -> Mapping[str, Any]:
    """Return how a process stops and what it waits for; `until` null: without bound."""
    left = stopping.left
    return {
        "mode": stopping.stop.mode if stopping.stop is not None else None,
        "until": iso(clock.now() + left) if left is not None else None,
        "ending": stopping.ending,
        **tell_carried(engine),
        "unstored": sum(one.unstored for one in engine.executor.carried.values()),
    }


def tell_carried(engine: Engine) -> Mapping[str, int]:
    """Return how many runs and direct calls a process carries."""
    carried = engine.executor.carried.values()
    calls = sum(one.direct for one in carried)
    return {"running": len(carried) - calls, "direct": calls}


def _loop(loop: Loop, engine: Engine) -> dict[str, Any]:
    pulse = loop.pulse
    error = pulse.error or (engine.claimer.pulse.error if loop is engine.claim_loop else None)
    last_at = iso(pulse.last_at) if pulse.last_at else None
    return {"name": loop.name, "rounds": pulse.rounds, "last_at": last_at, "error": error}
