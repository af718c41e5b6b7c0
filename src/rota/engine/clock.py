"""The system's clock. The only place that reads time."""

import time
from datetime import UTC, datetime
from pathlib import Path

from rota.model.clock import cut_to_ms


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC, cut to milliseconds."""
        return cut_to_ms(datetime.now(UTC))

    def monotonic(self) -> float:
        """Return seconds that never step; suspended time does not count."""
        return time.monotonic()

    def boottime(self) -> float:
        """Return seconds that never step; suspended time counts."""
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def tzdata_version() -> str:
    """Return the version of the time zone data that `zoneinfo` reads: the system's, else the package's."""
    for folder in ("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"):
        try:
            with Path(folder, "tzdata.zi").open(encoding="ascii", errors="replace") as file:
                first = file.readline()  # the rest is a hundred times as long
        except OSError:
            continue
        return first.removeprefix("# version ").strip()
    from importlib.metadata import version

    return version("tzdata")
