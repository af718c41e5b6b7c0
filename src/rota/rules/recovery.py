"""What really happened to the runs of a process that is gone, and what to do about it (R-23)."""

from dataclasses import dataclass
from enum import StrEnum

from rota.model.spec import OnRestart
from rota.model.states import Status
from rota.rules.outcome import lost_too_often


class Recovery(StrEnum):
    """What a new process does with a run of a dead one."""

    REQUEUE = "requeue"
    FAIL_LOST = "fail_lost"
    ADOPT = "adopt"
    READ_OUTCOME = "read_outcome"
    STOP = "stop"
    FAIL_RESTARTED = "fail_restarted"


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A run of a dead process, and what is still to be found of it."""

    status: Status
    in_process: bool
    keeper_alive: bool
    outcome_left: bool
    losses: int
    on_restart: OnRestart


def decide_recovery(left: LeftBehind) -> Recovery:
    """Return what to do with a run that a dead process left behind."""
    if left.status is Status.DISPATCHED:
        return Recovery.FAIL_LOST if lost_too_often(left.losses) else Recovery.REQUEUE
    if left.in_process:
        return Recovery.FAIL_RESTARTED
    if left.outcome_left:
        return Recovery.READ_OUTCOME
    if left.keeper_alive:
        return Recovery.ADOPT if left.on_restart is OnRestart.ADOPT else Recovery.STOP
    return Recovery.FAIL_RESTARTED
