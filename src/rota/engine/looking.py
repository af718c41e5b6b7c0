"""One look of a tick: every duty goes round in the order of the flow, and what has come by then is claimed (R-24)."""

from datetime import datetime

from rota.engine.engine import Engine
from rota.model.clock import Clock

PASSES = 2
MOST_PASSES = 1000


async def look_once(engine: Engine, clock: Clock) -> datetime:
    """Fire and claim what is due; return when the look was over. What comes later is left to later ticks.

    While it carries runs, a tick fills the slots that become free with what was there at its look, so that a queue
    drains and every tick ends.
    """
    if engine.claimer.allowed:
        await _go_round(engine, clock)
    engine.claimer.until = clock.now()
    await engine.claim_loop.turn()
    return engine.claimer.until


async def _go_round(engine: Engine, clock: Clock) -> None:
    """Let every duty go round, again while some has more to do that was due before.

    The second time finds what the first made possible: a pause that ended, a run that was let go. Pruning is not a part
    of the look: it may take longer.
    """
    began = clock.now()
    loops = [loop for loop in engine.loops if loop is not engine.prune_loop]
    for count in range(1, MOST_PASSES):
        due = [await loop.turn() for loop in loops]
        if count >= PASSES and not any(at is not None and at <= began for at in due):
            break
