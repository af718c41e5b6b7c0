"""What `rota serve` costs when nothing is due."""

import time
from pathlib import Path

import psutil

from bench.measuring import Report, figure, scratch, sized
from bench.projects import serving

TARGET = "≤ 10 ms CPU a minute, zero writes, RSS ≤ 60 MB"
SETTLE = sized(10.0, 1.0)
WATCH = sized(60.0, 2.0)
YAML = """
jobs:
  yearly:
    command: ["true"]
    cron: "0 0 1 1 *"
"""


def measure() -> Report:
    """Let it settle, then watch it for a minute."""
    with scratch() as folder, serving(folder, YAML) as served:
        process = psutil.Process(served.pid)
        time.sleep(SETTLE)
        before, written = process.cpu_times(), _written(folder)
        switches = process.num_ctx_switches().voluntary
        time.sleep(WATCH)
        after, memory = process.cpu_times(), process.memory_info().rss
        spent = (after.user + after.system) - (before.user + before.system)
        rows = [
            figure("CPU a minute (counted by the system in steps of 10 ms)", "ms", spent * 1000),
            figure("wake-ups a minute", "", process.num_ctx_switches().voluntary - switches),
            figure("files changed in the state folder", "", float(_written(folder) != written)),
            figure("RSS", "MB", memory / 1e6),
        ]
    return Report("idle", TARGET, rows)


def _written(folder: Path) -> dict[str, tuple[int, int]]:
    found = (folder / ".rota").rglob("*")
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found if path.is_file()}
