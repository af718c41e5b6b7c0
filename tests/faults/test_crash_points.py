"""Every named crash point once: a real scheduler dies there, the next one finds everything accounted for."""

from pathlib import Path

import pytest

from tests.faults.drill import Damage, Drill, points
from tests.faults.points import SCENES, crash


@pytest.fixture
def drill(tmp_path: Path):
    made = Drill(tmp_path)
    yield made
    made.end()


def test_every_point_in_the_source_has_a_name_of_its_own_and_a_scene() -> None:
    found = points()
    assert len(found) >= 30
    assert sorted(SCENES) == found


@pytest.mark.parametrize("point", SCENES)
def test_a_death_here_loses_doubles_and_leaves_nothing(point: str, drill: Drill) -> None:
    """R-23, section 11: acknowledged work survives kill -9."""
    crash(drill, point)
    drill.calm()
    assert drill.damage() == Damage()
