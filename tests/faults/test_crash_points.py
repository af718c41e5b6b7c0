"""Every named crash point once: a real scheduler dies there, the next one finds everything accounted for.

The points of a chain end one project's schedulers in turn; `make test-faults` gives each point a project of its own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.drill import Damage, Drill, points
from tests.faults.points import (
    CHAINS,
    ELSEWHERE,
    ON_POSTGRES,
    SCENES,
    TOGETHER,
    crash,
    crash_children,
    crash_ticks,
    passed_by,
)
from tests.postgres import bare_postgres

ROOT = Path(__file__).parents[2]


@pytest.fixture
def drill(tmp_path: Path) -> Iterator[Drill]:
    made = Drill(tmp_path)
    yield made
    made.end()


@pytest.fixture
def shared_drill(tmp_path: Path) -> Iterator[Drill]:
    made = Drill(tmp_path, store=bare_postgres("drill"))
    yield made
    made.end()


def test_every_point_in_the_source_has_a_name_of_its_own_and_dies_once_here() -> None:
    found = points()
    here = [point for point in found if point.partition(".")[0] not in ELSEWHERE]
    assert len(here) >= 30
    assert sorted(SCENES) == here
    assert sorted([*TOGETHER, *(point for chain in CHAINS.values() for point in chain)]) == here


def test_every_other_point_is_named_by_a_drill_of_its_own() -> None:
    for point in points():
        family, _, step = point.partition(".")
        if family in ELSEWHERE:
            text = (ROOT / ELSEWHERE[family]).read_text("utf-8")
            assert f'"{point}"' in text or f'"{step}"' in text, point


@pytest.mark.parametrize("chain", CHAINS)
def test_deaths_of_schedulers_and_commands_lose_double_and_leave_nothing(chain: str, drill: Drill) -> None:
    """R-23, section 11: acknowledged work survives kill -9."""
    for point in passed_by(CHAINS[chain], drill.store):
        crash(drill, point)
    drill.calm()
    assert drill.damage() == Damage()


@pytest.mark.parametrize("chain", ON_POSTGRES)
def test_deaths_on_postgresql_lose_double_and_leave_nothing(chain: str, shared_drill: Drill) -> None:
    """R-22, R-23: all points in `make test-faults`."""
    for point in passed_by(CHAINS[chain], shared_drill.store):
        crash(shared_drill, point)
    shared_drill.calm()
    assert shared_drill.damage() == Damage()


def test_deaths_of_ticks_lose_double_and_leave_nothing(drill: Drill) -> None:
    """R-23, R-24: fire and claim are as safe in a process that comes and goes."""
    crash_ticks(drill)
    drill.calm()
    assert drill.damage() == Damage()


def test_deaths_of_keepers_and_spawner_lose_double_and_leave_nothing(drill: Drill) -> None:
    """R-23, R-28: the scheduler lives on and tells what became of their runs."""
    crash_children(drill)
    drill.stop()
    drill.calm()
    assert drill.damage() == Damage()
