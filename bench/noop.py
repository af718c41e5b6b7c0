"""No-op functions with 64 slots, from the bulk enqueue until all are final and stored."""

from bench.apart import apart
from bench.measuring import Report, interleave, rows_of, sized

TARGET = "≥ 13 × huey, which stores results, and ≥ 0.5 × raw writes of the same rows"
COUNT = sized(5_000, 500)


def measure() -> Report:
    """Measure rota, the raw writes, huey and DBOS in turn."""
    contenders = {
        "rota, async": apart("rota_async", COUNT),
        "rota, sync": apart("rota_sync", COUNT),
        "raw apsw": apart("raw", COUNT),
        "huey": apart("huey", COUNT // 10),
        "DBOS": apart("dbos", COUNT // 50),
    }
    against = dict.fromkeys(("rota, async", "rota, sync"), ("raw apsw", "huey", "DBOS"))
    return Report("noop", TARGET, rows_of(interleave(contenders, rounds=sized(5, 1)), "runs/s", against=against))
