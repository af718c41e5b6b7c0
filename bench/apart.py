"""Running a contender in a process of its own, so that nothing of one is left in the other."""

import json
import subprocess
import sys
from pathlib import Path

from bench.measuring import Measure

LIMIT = 180


def apart(name: str, count: int) -> Measure:
    """Return a measure that runs a contender of `contenders.py`."""

    def measure(folder: Path) -> float:
        command = [sys.executable, "-m", "bench.contenders", name, str(folder), str(count)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True)
        return float(json.loads(done.stdout.splitlines()[-1]))

    return measure
