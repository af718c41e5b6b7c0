"""`python -m tests.simulation --seeds N --from S`: simulate many days, shrink what fails, print one line."""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.postgres import VARIABLE, server_address
from tests.scene import ON_POSTGRES
from tests.simulation.failing import Failing, explain, failing
from tests.simulation.play import Tally

BATCH = 20
SHOWN = 5
PROGRESS = 1000


def main() -> int:
    """Simulate; the exit code is 0 only when every day was right."""
    wanted = _arguments()
    total, found = Tally(), []
    for tally, more in _batches(wanted):
        total.add(tally)
        found += more
        if found and wanted.first_failure:
            break
        if total.seeds % PROGRESS == 0 and not wanted.quiet:
            sys.stderr.write(f"{summary(total)}\n")
    for one in found[:SHOWN]:
        sys.stdout.write(f"{explain(one, shrunk=not wanted.as_it_is)}\n")
    sys.stdout.write(f"{summary(total)}\n")
    return 1 if found else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many days")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--as-it-is", action="store_true", help="do not shrink what fails")
    parser.add_argument("--first", dest="first_failure", action="store_true", help="stop at what fails first")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return parser.parse_args()


def _batches(wanted: argparse.Namespace) -> Iterator[tuple[Tally, list[Failing]]]:
    seeds = range(wanted.first, wanted.first + wanted.seeds)
    size = 1 if wanted.first_failure else BATCH
    parts = [seeds[place : place + size] for place in range(0, len(seeds), size)]
    if wanted.processes == 1:
        yield from map(failing, parts)
        return
    if ON_POSTGRES:  # one server for all, ended with this process: those of a pool end nothing that they started
        os.environ[VARIABLE] = server_address()
    with ProcessPoolExecutor(wanted.processes) as pool:
        yield from pool.map(failing, parts)


def summary(tally: Tally) -> str:
    """Return the one line."""
    return (
        f"simulation: {tally.seeds} seeds, {tally.seeds} simulated days, {tally.fires} fires, {tally.crashes} crashes,"
        f" {tally.steps} steps, {tally.pauses} pauses, {tally.edits} edits: {tally.lost} lost, {tally.doubled} doubled,"
        f" {tally.left} left, {tally.other} otherwise wrong"
    )


if __name__ == "__main__":
    sys.exit(main())
