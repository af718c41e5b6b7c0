"""Several schedulers on one PostgreSQL while they, it and the ways to it fail; at length in `make test-faults`."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.storm import storm

ACTS = ("kill", "reset", "stop", "terminate", "swallow", "restart_immediate", "refuse", "delay")


def test_every_instant_has_one_row_and_no_function_runs_twice_whatever_fails_meanwhile() -> None:
    """R-05, R-22."""
    # Not below pytest's folder: the server has another user, and each pytest that begins closes that folder to others.
    with TemporaryDirectory(prefix="rota-storm-") as folder:
        verdict = storm(Path(folder), daemons=3, jobs=20, fires=240, seed=1, acts=ACTS)
    assert verdict.clean, verdict.troubles
    assert verdict.done["fires"] > 0
    assert verdict.done["executed"] > 0
