"""Which days fail, and how to tell it so that somebody can repeat it."""

from collections.abc import Iterable

from msgspec import Struct

from tests.simulation.plan import draw
from tests.simulation.play import Tally, play
from tests.simulation.shrink import shrink
from tests.simulation.world import World

TOLD = 6


class Failing(Struct, frozen=True):
    """A seed whose day went wrong, and how."""

    seed: int
    wrongs: tuple[str, ...]


def failing(seeds: Iterable[int], world_type: type[World] = World) -> tuple[Tally, list[Failing]]:
    """Simulate the days of these seeds; return the sums and what went wrong."""
    total, found = Tally(), []
    for seed in seeds:
        wrongs, tally = play(draw(seed), world_type)
        total.add(tally)
        if wrongs:
            found.append(Failing(seed, tuple(wrongs)))
    return total, found


def explain(one: Failing, *, shrunk: bool = True) -> str:
    """Return what went wrong, the command that repeats it, and the fewest happenings that suffice."""
    lines = [
        f"seed {one.seed} fails: {len(one.wrongs)} findings",
        *(f"  {wrong}" for wrong in one.wrongs[:TOLD]),
        f"repeat it with: .venv/bin/python -m tests.simulation --seeds 1 --from {one.seed}",
    ]
    if shrunk:
        small = shrink(draw(one.seed), lambda day: bool(play(day)[0]))
        lines += ["the least that fails:", f"  {small.slots} slots, begins {small.begins.isoformat()}"]
        lines += [f"  {job}" for job in small.jobs]
        lines += [f"  {happening}" for happening in small.happenings]
        lines += [f"  => {wrong}" for wrong in play(small)[0][:TOLD]]
    return "\n".join(lines)
