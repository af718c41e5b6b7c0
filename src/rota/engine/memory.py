"""Garbage in a process that serves: looked for rarely, and never among what it began with."""

import gc

OBJECTS = 10_000
"""How many more objects there must be before any are looked at: a run makes about thirty, and leaves no cycle."""


def collect_rarely() -> None:
    """Leave what is there now alone for good, and look at the rest less often: that is a tenth of a short run."""
    gc.freeze()
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])
