"""The test clock of `rota.testing`: what a run of an interval costs while hours pass in a moment."""

import time
from pathlib import Path

import rota.testing
from bench.measuring import Report, figure, interleave, rows_of, sized

TARGET = "a day of `interval: 30s` (2,881 runs) in under 3 s of processor time"
HOURS = sized(24, 1)
RUNS_A_DAY = 2_881


def measure() -> Report:
    """Play the same hours several times."""
    found = interleave({"a run": _played}, rounds=sized(3, 1))
    best = min(found["a run"])
    day = figure("a day, at the best of them", "s", best * RUNS_A_DAY / 1000)
    return Report("clock", TARGET, [*rows_of(found, "ms", against={}), day])


def _played(_folder: Path) -> float:
    """Return the milliseconds of processor time of a run."""

    def nothing() -> None: ...

    with rota.testing.scheduler(now="2026-11-16T00:00Z", timezone="UTC") as played:
        played.add_job("nothing", run=nothing, interval="30s")
        began = time.process_time()
        played.advance(f"{HOURS}h")
        return 1000 * (time.process_time() - began) / len(played.runs("nothing"))
