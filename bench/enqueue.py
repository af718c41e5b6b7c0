"""Single enqueues, each acknowledged after its commit."""

from bench.apart import apart
from bench.measuring import Report, interleave, rows_of, sized

TARGET = "≥ 0.9 × raw from a synchronous caller, ≥ 0.4 × from the event loop, 8 callers ≥ 3 × one"
COUNT = sized(800, 40)


def measure() -> Report:
    """Measure the raw insert, the synchronous caller, and one and eight callers on the event loop."""
    contenders = {
        "raw apsw": apart("enqueue_raw", COUNT),
        "synchronous caller": apart("enqueue_inline", COUNT),
        "event loop, one caller": apart("enqueue_loop", COUNT),
        "event loop, 8 callers": apart("enqueue_loop_8", COUNT),
    }
    against = {
        "synchronous caller": ("raw apsw",),
        "event loop, one caller": ("raw apsw",),
        "event loop, 8 callers": ("event loop, one caller",),
    }
    return Report("enqueue", TARGET, rows_of(interleave(contenders, rounds=sized(7, 1)), "enqueues/s", against=against))
