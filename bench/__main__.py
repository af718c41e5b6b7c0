"""`python -m bench [PART …]`: each figure beside its peers and the raw limit, in one interleaved run."""

import sys
from collections.abc import Callable

from bench import (
    api,
    claim,
    clock,
    commands,
    enqueue,
    idle,
    latency,
    lateness,
    log_bytes,
    noop,
    pages,
    postgres,
    queue,
    scale,
    second_writer,
    simulate,
    start,
    summary,
    usage,
)
from bench.measuring import SHORT, Report, machine, show, write

PARTS: dict[str, Callable[[], Report]] = {
    "noop": noop.measure,
    "enqueue": enqueue.measure,
    "latency": latency.measure,
    "second-writer": second_writer.measure,
    "lateness": lateness.measure,
    "log": log_bytes.measure,
    "scale": scale.measure,
    "commands": commands.measure,
    "start": start.measure,
    "claim": claim.measure,
    "queue": queue.measure,
    "summary": summary.measure,
    "usage": usage.measure,
    "idle": idle.measure,
    "simulate": simulate.measure,
    "clock": clock.measure,
    "api": api.measure,
    "pages": pages.measure,
    "postgres": postgres.measure,
}


def main(wanted: list[str]) -> None:
    """Measure the wanted parts, all of them when none is named."""
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        sys.exit(f"no part is named {unknown[0]!r}; there are {', '.join(PARTS)}")
    print(machine())
    reports = []
    for name in wanted or list(PARTS):
        report = PARTS[name]()
        show(report)
        reports.append(report)
    print("\na short round: the figures mean nothing" if SHORT else f"\nkept in {write(reports)}")


main(sys.argv[1:])
