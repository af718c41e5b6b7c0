"""No-op functions with 64 slots, from the bulk enqueue until all are final and stored."""

from bench.apart import apart
from bench.measuring import Report, interleave, rows_of

TARGET = "≥ 8× huey storing results and ≥ 20× DBOS, async and sync functions each; beside the raw row writes"


def measure() -> Report:
    """Measure rota, the raw writes, huey and DBOS in turn."""
    contenders = {
        "rota, async": apart("rota_async", 5_000),
        "rota, sync": apart("rota_sync", 5_000),
        "raw apsw": apart("raw", 5_000),
        "huey": apart("huey", 500),
        "DBOS": apart("dbos", 100),
    }
    against = dict.fromkeys(("rota, async", "rota, sync"), ("raw apsw", "huey", "DBOS"))
    return Report("noop", TARGET, rows_of(interleave(contenders, rounds=5), "runs/s", against=against))
