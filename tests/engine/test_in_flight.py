"""Where a run in a slot stands is a table: every pair of state and event has its result or is refused."""

from itertools import product

import pytest

from rota.engine.loops.in_flight import EXITS, PHASES, STOPS, OnExit, RunPhase, RunStep, StopRequest, move

PHASES_BY_NAME = {
    "CLAIMED": {"ENTER": "AT_GATES"},
    "AT_GATES": {"BEGIN": "STARTING", "WITHDRAW": "LEAVING"},
    "LEAVING": {"WITHDRAW": "LEAVING", "REFUSE": "REFUSED"},
    "STARTING": {"RUN": "RUNNING", "WITHDRAW": "STARTING", "REFUSE": "REFUSED"},
    "RUNNING": {"STORE": "STORING", "WITHDRAW": "RUNNING", "REFUSE": "REFUSED"},
    "STORING": {"STORE": "STORING", "REFUSE": "REFUSED"},
    "REFUSED": {"STORE": "REFUSED", "WITHDRAW": "REFUSED", "REFUSE": "REFUSED"},
}
STOPS_BY_NAME = {
    "NONE": {"GRACE": "GRACE", "NOW": "NOW"},
    "GRACE": {"NOW": "NOW"},
    "NOW": {"NOW": "NOW"},
}
EXITS_BY_NAME = {
    "END": {"REQUEUE": "REQUEUE"},
    "REQUEUE": {"REQUEUE": "REQUEUE"},
}
PAIRS = [
    *((PHASES, PHASES_BY_NAME, *pair) for pair in product(RunPhase, RunStep)),
    *((STOPS, STOPS_BY_NAME, *pair) for pair in product(StopRequest, StopRequest)),
    *((EXITS, EXITS_BY_NAME, *pair) for pair in product(OnExit, OnExit)),
]


@pytest.mark.parametrize(("table", "expected", "state", "event"), PAIRS, ids=str)
def test_every_pair_of_state_and_event_has_its_result_or_is_refused(table, expected, state, event):
    target = expected.get(state.name, {}).get(event.name)
    if target is not None:
        assert move(table, state, event) is type(state)[target]
        return
    with pytest.raises(AssertionError, match=f"{event} cannot follow {state}"):
        move(table, state, event)
