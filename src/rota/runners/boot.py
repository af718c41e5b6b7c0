"""What names this boot of the machine: the same in every container on it, another one after each start."""

import subprocess
from functools import cache
from pathlib import Path

from rota.runners.tree import LINUX

LINUX_BOOT = Path("/proc/sys/kernel/random/boot_id")
MAC_BOOT = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
"""A boot time would not do: it moves whenever the clock is set."""
PATIENCE = 5


@cache
def machine_boot() -> str:
    """Return the name of this boot."""
    if LINUX:
        return LINUX_BOOT.read_text("ascii").strip()
    asked = subprocess.run(MAC_BOOT, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return asked.stdout.strip()
