"""The machine, played: 60 examples of 40 steps, the same in every run; ROTA_MACHINE=5000 plays 5,000 new ones.

On PostgreSQL (ROTA_TEST_STORE=postgres) 8 of them.
"""

import os

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import MACHINE, SLOW_IS_FINE
from tests.machine.play import Machine
from tests.scene import ON_POSTGRES

PARTS, EXAMPLES, STEPS = 4, 8 if ON_POSTGRES else 60, 40
WANTED = os.environ.get(MACHINE)


def played(part: int) -> type[Machine]:
    """Return the machine with the examples of a part: the same always, or new ones where somebody asked for many."""

    class Part(Machine):
        """The same rules, other examples."""

    return Part if WANTED else seed(part)(Part)


@pytest.mark.timeout(None if WANTED else 1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_is_done_in_whatever_order_rota_stands_as_the_model_says(part: int) -> None:
    """INV-001, INV-003 to INV-006, DEC-001, DEC-004, DEC-005, DEC-007, DEC-008, DEC-011, DEC-012, R-03, R-13, R-15."""
    wanted = settings(
        max_examples=int(WANTED or EXAMPLES) // PARTS,
        stateful_step_count=STEPS,
        database=None,
        deadline=None,
        suppress_health_check=SLOW_IS_FINE,
    )
    run_state_machine_as_test(played(part), settings=wanted)
