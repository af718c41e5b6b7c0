"""Random kill -9 of scheduler, keepers and spawner while clients go on asking (F-01, F-06)."""

from pathlib import Path

from tests.faults.drill import Damage
from tests.faults.kills import storm


def test_a_storm_of_kills_loses_doubles_and_leaves_nothing(tmp_path: Path) -> None:
    """RISK-3, R-23, section 11."""
    kills, damage = storm(kills=24, seed=20261115, folder=tmp_path)
    assert kills.total() >= 24
    assert damage == Damage()
