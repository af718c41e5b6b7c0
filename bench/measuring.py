"""Interleaved measuring: every contender once a round, then medians, and ratios taken within a round."""

import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins

RESULTS = Path(__file__).parent / "results"
SCRATCH = Path(__file__).parent / "scratch"

SHORT = os.environ.get("BENCH_SHORT") == "1"
"""A short round shows that every part still runs; its figures mean nothing."""

Measure = Callable[[Path], float]


def sized(full: Any, short: Any) -> Any:
    """Return the size of a part: the full one, or that of a short round."""
    return short if SHORT else full


class Row(Struct, frozen=True):
    """One contender: its median, its spread, and its ratio to the contender it is held against."""

    name: str
    unit: str
    median: float
    low: float
    high: float
    against: str = ""
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None


class Report(Struct, frozen=True):
    """What one part of the bench found, with the target it is held to."""

    part: str
    target: str
    rows: Sequence[Row]
    notes: Sequence[str] = field(default_factory=tuple)


@contextmanager
def scratch() -> Iterator[Path]:
    """Give an empty folder on the disk of the project: a folder in memory would make every commit free."""
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        yield Path(folder)


def interleave(contenders: Mapping[str, Measure], *, rounds: int) -> dict[str, list[float]]:
    """Measure A B C A B C …, each in a folder of its own."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            with scratch() as folder:
                found[name].append(measure(folder))
    return found


Spread = Callable[[Sequence[float]], tuple[float, float]]


def extremes(values: Sequence[float]) -> tuple[float, float]:
    """Return the lowest and the highest."""
    return min(values), max(values)


def middle_half(values: Sequence[float]) -> tuple[float, float]:
    """Return between which values half of all lie: for many short looks, some of which met somebody else's work."""
    low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else (values[0],) * 3
    return low, high


def rows_of(
    found: Mapping[str, Sequence[float]],
    unit: str,
    *,
    against: Mapping[str, Sequence[str]],
    spread: Spread = extremes,
) -> list[Row]:
    """Return a row for each contender and, for those named in `against`, one for each ratio within the rounds."""
    rows = []
    for name, values in found.items():
        shown = (statistics.median(values), *spread(values))
        rows.append(Row(name, unit, *shown))
        for other in against.get(name, ()):
            ratios = [mine / theirs for mine, theirs in zip(values, found[other], strict=True)]
            rows.append(Row(name, unit, *shown, other, statistics.median(ratios), *spread(ratios)))
    return rows


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of all lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def figure(name: str, unit: str, value: float) -> Row:
    """Return the row of a single figure."""
    return Row(name, unit, value, value, value)


def show(report: Report) -> None:
    """Print a part's table."""
    print(f"\n## {report.part}\ntarget: {report.target}\n")
    print("| what | median | low – high | against | ratio (low – high) |\n|---|---|---|---|---|")
    for row in report.rows:
        ratio = f"{row.ratio:.2f} ({row.ratio_low:.2f} – {row.ratio_high:.2f})" if row.ratio is not None else ""
        span = "" if row.low == row.high else f"{row.low:,.4g} – {row.high:,.4g}"
        print(f"| {row.name} | {row.median:,.4g} {row.unit} | {span} | {row.against} | {ratio} |")
    for note in report.notes:
        print(f"\n{note}")
    sys.stdout.flush()


def write(reports: Sequence[Report]) -> Path:
    """Keep all figures as JSON, beside the machine and the versions."""
    RESULTS.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    path = RESULTS / f"{now:%Y%m%d-%H%M%S}.json"
    content = {"at": now.isoformat(), "machine": machine(), "reports": to_builtins(reports)}
    path.write_text(json.dumps(content, indent=1), "utf-8")
    return path


def machine() -> dict[str, str]:
    """Return what the figures depend on."""
    names = ("rota", "apsw", "huey", "dbos", "apscheduler", "sqlalchemy")
    versions = {name: metadata.version(name) for name in names}
    cores = subprocess.run(["nproc"], capture_output=True, text=True, check=False).stdout.strip()
    load = Path("/proc/loadavg").read_text("ascii").split()[0] if Path("/proc/loadavg").exists() else "unknown"
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": cores,
        "load": load,
        "stdlib sqlite": sqlite3.sqlite_version,
        **versions,
    }
