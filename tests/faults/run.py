"""`make test-faults`: storms of kills, every crash point again, power cuts, failing disks, clock steps, trees.

Run as `python -m tests.faults.run --kills 1000 --cuts 2000 --steps 200 --seed 1`; a part with 0 is left out. Kills,
points and steps come again on PostgreSQL (`--postgres-kills 250`). With --progress FILE what is done is kept there, and
a second call goes on from it. The last line tells it all.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct, field

from rota.model.store_url import SQLITE
from tests.faults import cuts, kills, points, steps, trees
from tests.faults.drill import Damage, Drill
from tests.faults.shims import compiled
from tests.postgres import VARIABLE, bare_postgres, start_server
from tests.service.test_process_trees import SHAPES

SIZES = {"cut": 250, "kill": 25, "step": 10}
AMOUNTS = {
    "kills": 1000,
    "cuts": 2000,
    "steps": 200,
    "disks": 30,
    "seed": 1,
    "postgres-kills": 250,
    "postgres-steps": 50,
}
POSTGRES = "postgres"
ONCE_ONLY = (
    "migrate.",
    "upgrade.",
    "apply.committed",
    "apply.written",
    "recover.epochs_ended",
    "session.",
    "shutdown.quiesced",
)
ONCE_TOO = ("shutdown.runs_ended", "prune.", "function.timed_out", "keeper.term_sent", "recover.swept", "stop.sent")
ONCE_EACH = ("tick.", "workspace.", "items.", "notify.", "move.begun", "move.finished")
"""What one process passes once: a command, the only workspace, item or letter there is."""


class Unit(Struct, frozen=True):
    """A piece of work that is done wholly or not at all."""

    part: str
    number: int
    seed: int
    detail: str = ""
    store: str = SQLITE

    @property
    def name(self) -> str:
        """What progress files and messages call it."""
        where = "" if self.store == SQLITE else f"-{self.store}"
        return f"{self.part}{where}-{self.seed}-{self.number}{'-' if self.detail else ''}{self.detail}"

    def laid(self) -> str:
        """Return the store that it plays on, empty."""
        return SQLITE if self.store == SQLITE else bare_postgres("faults")


class Result(Struct):
    """How much was done, and what it cost."""

    done: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)

    def add(self, damage: Damage | cuts.Verdict, *, what: str) -> None:
        """Count what was lost, doubled, left or otherwise wrong."""
        for kind in ("lost", "doubled", "left", "wrong", "broken"):
            found = getattr(damage, kind, ())
            self.done["wrong" if kind == "broken" else kind] += len(found)
            self.troubles += [f"{what}: {kind}: {one}" for one in found[:5]]


def storm(unit: Unit, folder: Path) -> Result:
    """One project, 25 kills."""
    seed = unit.seed * 10_000 + unit.number
    died, damage = kills.storm(kills=SIZES["kill"], seed=seed, folder=folder, store=unit.laid())
    result = Result(Counter(kills=died.total()))
    result.add(damage, what=unit.name)
    return result


def point(unit: Unit, folder: Path) -> Result:
    """One crash point, at the n-th pass."""
    drill = Drill(folder, store=unit.laid())
    result = Result(Counter(kills=1, points=1))
    try:
        points.crash(drill, unit.detail, nth=unit.number)
        drill.calm()
        result.add(drill.damage(), what=unit.name)
    finally:
        drill.end()
    return result


def cut(unit: Unit, folder: Path) -> Result:
    """One writer's log, 250 power cuts."""
    seed = unit.seed * 10_000 + unit.number
    log = cuts.write(compiled("recorder", folder), folder, seed=seed, rounds=150)
    result = Result()
    for place, loss, verdict in cuts.cut(log, at=cuts.places(log, count=SIZES["cut"], seed=seed), seed=seed):
        result.done["cuts"] += 1
        result.add(verdict, what=f"{unit.name} at {place} ({loss})")
    return result


def failing_disk(unit: Unit, folder: Path) -> Result:
    """One call of one kind that fails."""
    verdict, codes = cuts.fail(compiled("recorder", folder), folder, how=unit.detail, after=unit.number, seed=unit.seed)
    result = Result(Counter(failures=1))
    result.add(verdict, what=unit.name)
    clear = {*cuts.CLEAR, os.strerror(cuts.FAILING[unit.detail][1])}
    result.add(Damage(wrong=tuple(codes - clear)), what=unit.name)
    return result


def step(unit: Unit, folder: Path) -> Result:
    """One scheduler, ten steps of its clock."""
    seed = unit.seed * 10_000 + unit.number
    shim = compiled("clock", folder)
    done, damage = steps.walk(steps=SIZES["step"], seed=seed, folder=folder, shim=shim, store=unit.laid())
    result = Result(Counter(steps=done))
    result.add(damage, what=unit.name)
    return result


def tree(unit: Unit, folder: Path) -> Result:
    """All twelve shapes, one way to end them."""
    left = trees.fell(unit.detail, list(SHAPES), folder)
    result = Result(Counter(trees=len(SHAPES)))
    result.add(Damage(left=tuple(left)), what=unit.name)
    return result


WORK: dict[str, Callable[[Unit, Path], Result]] = {
    "kill": storm,
    "point": point,
    "cut": cut,
    "disk": failing_disk,
    "step": step,
    "tree": tree,
}


def units(wanted: argparse.Namespace) -> Iterator[Unit]:
    """Return the pieces of work."""
    yield from _repeated(wanted, "cut", wanted.cuts)
    for store, most in ((SQLITE, ""), (POSTGRES, "postgres_")):
        for part in ("kill", "step"):
            yield from _repeated(wanted, part, getattr(wanted, f"{most}{part}s"), store=store)
        if getattr(wanted, f"{most}points"):
            yield from _points(wanted, store)
    yield from (Unit("disk", nth, wanted.seed, how) for how in cuts.FAILING for nth in range(1, wanted.disks + 1))
    if wanted.trees:
        yield from (Unit("tree", 0, wanted.seed, ending) for ending in trees.ENDINGS)


def _repeated(wanted: argparse.Namespace, part: str, amount: int, *, store: str = SQLITE) -> Iterator[Unit]:
    return (Unit(part, number, wanted.seed, store=store) for number in range(-(-amount // SIZES[part])))


def _points(wanted: argparse.Namespace, store: str) -> Iterator[Unit]:
    for name in points.passed_by(points.SCENES, store):
        often = (1,) if name.startswith(ONCE_ONLY + ONCE_TOO + ONCE_EACH) else points.PASSES
        yield from (Unit("point", nth, wanted.seed, name, store) for nth in often)


def work(unit: Unit) -> Result:
    """Do one piece in a folder of its own; a piece that fails is told as wrong."""
    with tempfile.TemporaryDirectory(prefix="rota-faults-", ignore_cleanup_errors=True) as folder:
        try:
            return WORK[unit.part](unit, Path(folder))
        except Exception as error:  # one bad piece costs no other
            return Result(Counter(wrong=1), [f"{unit.name}: {type(error).__name__}: {error}"])


def line(total: Counter[str]) -> str:
    """Return the one line that tells it all."""
    names = ("kills", "cuts", "steps", "points", "failures", "trees", "lost", "doubled", "left", "wrong")
    return ", ".join(f"{name} {total[name]}" for name in names)


def told(text: str) -> None:
    """Print at once, also into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    reader = argparse.ArgumentParser(description=__doc__)
    for name, default in AMOUNTS.items():
        reader.add_argument(f"--{name}", type=int, default=default)
    for name in ("--points", "--postgres-points"):
        reader.add_argument(name, type=int, default=1, help="0 leaves out the crash points")
    reader.add_argument("--trees", type=int, default=1, help="0 leaves out the process trees")
    reader.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1))
    reader.add_argument("--progress", type=Path, help="keep what is done here, and go on from it")
    return reader.parse_args(given)


@contextmanager
def _server(todo: list[Unit]) -> Iterator[None]:
    """Have one server for all processes, where any of them needs one."""
    if os.environ.get(VARIABLE) or all(unit.store == SQLITE for unit in todo):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="rota-postgres-", ignore_cleanup_errors=True) as folder:
        server = start_server(Path(folder))
        os.environ[VARIABLE] = server.get_uri()
        try:
            yield
        finally:
            del os.environ[VARIABLE]
            server.cleanup()


def main() -> int:
    """Do what is left to do; end with 0 only if nothing was lost, doubled, left or wrong."""
    wanted = arguments()
    kept: dict[str, dict[str, int]] = {}
    if wanted.progress and wanted.progress.exists():
        kept = json.loads(wanted.progress.read_text())
    total: Counter[str] = Counter()
    for counts in kept.values():
        total.update(counts)
    todo = [unit for unit in units(wanted) if unit.name not in kept]
    began = time.monotonic()  # noqa: TID251
    with _server(todo), ProcessPoolExecutor(wanted.workers, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(work, unit): unit for unit in todo}
        for number, future in enumerate(as_completed(futures), 1):
            unit, result = futures[future], future.result()
            total.update(result.done)
            kept[unit.name] = dict(result.done)
            for trouble in result.troubles:
                told(f"  ! {trouble}")
            if wanted.progress:
                wanted.progress.write_text(json.dumps(kept))
            spent = time.monotonic() - began  # noqa: TID251
            told(f"[{number}/{len(todo)} {spent:.0f} s] {unit.name}: {line(total)}")
    told(line(total))
    return 0 if not any(total[kind] for kind in ("lost", "doubled", "left", "wrong")) else 1


if __name__ == "__main__":
    sys.exit(main())
