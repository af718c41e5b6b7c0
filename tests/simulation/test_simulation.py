"""60 simulated days (8 on PostgreSQL): every due instant has exactly one row (R-05, R-10, R-20, R-23, R-26)."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.model.spec import JobSpec, Kind, Work
from tests.scene import ON_POSTGRES
from tests.simulation.failing import explain, failing
from tests.simulation.plan import Crash, Happening, draw
from tests.simulation.play import play
from tests.simulation.shrink import shrink

SEEDS, BATCH = (8, 4) if ON_POSTGRES else (60, 10)


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_the_ledger_of_simulated_days_equals_the_oracle(first: int) -> None:
    """RISK-2."""
    _, found = failing(range(first, first + BATCH))
    assert not found, explain(found[0])


def test_a_seed_gives_the_same_day_twice() -> None:
    day = draw(7)
    assert draw(7) == day
    assert play(day) == play(day)


def test_a_scheduler_that_died_with_its_keepers_leaves_no_process() -> None:
    """R-23: whatever is left of a run's tree is killed, then it is FAILED/process_restarted."""
    jobs = tuple(JobSpec(f"job{number}", Work(Kind.COMMAND, command=("true",))) for number in range(12))
    triggers = [Happening(timedelta(minutes=1), "trigger", job.name, value=False) for job in jobs]
    crash = Happening(timedelta(minutes=2), "crash", value=Crash(0, False, 5, None, keepers_too=True))
    wrongs, tally = play(replace(draw(0), slots=16, jobs=jobs, happenings=(*triggers, crash)))
    assert (wrongs, tally.crashes) == ([], 1)


def test_shrinking_leaves_only_what_matters() -> None:
    day = draw(3)
    needed = Happening(timedelta(hours=1), "crash", value=Crash(0, False, 5, None, False))
    day = replace(day, happenings=(*day.happenings, needed))
    small = shrink(day, lambda one: needed in one.happenings)
    assert small.happenings == (needed,)
    assert len(small.jobs) == 1
