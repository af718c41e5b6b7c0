"""The life of a run: statuses, the events that move it, and the closed lists of reasons."""

from enum import StrEnum

from rota.model.errors import IllegalTransition


class Status(StrEnum):
    """The status of a run. DISPATCHED is internal: it is shown as RUNNING without a start."""

    QUEUED = "QUEUED"
    DISPATCHED = "DISPATCHED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"

    @property
    def final(self) -> bool:
        """Whether this status is final."""
        return self in FINAL

    @property
    def shown(self) -> "Status":
        """The status as it is shown to users."""
        return Status.RUNNING if self is Status.DISPATCHED else self


FINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.SKIPPED, Status.CANCELLED})
SHOWN = tuple(status for status in Status if status is not Status.DISPATCHED)

OLDER_WORDS = {
    "SUCCEEDED": Status.COMPLETED,
    "SUCCESS": Status.COMPLETED,
    "CANCELED": Status.CANCELLED,
    "TIMED_OUT": Status.FAILED,
    "ERROR": Status.FAILED,
}
"""Older words that filters accept; `TIMED_OUT` selects only the reason of that name."""


class RunEvent(StrEnum):
    """An event in the life of a run."""

    DISPATCH = "dispatch"
    START = "start"
    RELEASE = "release"
    COMPLETE = "complete"
    FAIL = "fail"
    SKIP = "skip"
    CANCEL = "cancel"


TRANSITIONS: dict[tuple[Status, RunEvent], Status] = {
    (Status.QUEUED, RunEvent.DISPATCH): Status.DISPATCHED,
    (Status.QUEUED, RunEvent.START): Status.RUNNING,  # functions without gates start with the claim
    (Status.QUEUED, RunEvent.SKIP): Status.SKIPPED,
    (Status.QUEUED, RunEvent.CANCEL): Status.CANCELLED,
    (Status.DISPATCHED, RunEvent.START): Status.RUNNING,
    (Status.DISPATCHED, RunEvent.RELEASE): Status.QUEUED,
    (Status.DISPATCHED, RunEvent.FAIL): Status.FAILED,
    (Status.DISPATCHED, RunEvent.SKIP): Status.SKIPPED,
    (Status.DISPATCHED, RunEvent.CANCEL): Status.CANCELLED,
    (Status.RUNNING, RunEvent.COMPLETE): Status.COMPLETED,
    (Status.RUNNING, RunEvent.FAIL): Status.FAILED,
    (Status.RUNNING, RunEvent.CANCEL): Status.CANCELLED,
}


def next_status(status: Status, event: RunEvent) -> Status:
    """Return the status a run enters when `event` happens to it."""
    try:
        return TRANSITIONS[status, event]
    except KeyError:
        raise IllegalTransition(status, event, allowed_from(status)) from None


def allowed_from(status: Status) -> tuple[RunEvent, ...]:
    """Return the events that may happen to a run in `status`."""
    return tuple(event for event in RunEvent if (status, event) in TRANSITIONS)


class Reason(StrEnum):
    """Why a run ended as it did; each reason belongs to one status, FAILED if it names none."""

    status: Status

    def __new__(cls, value: str, status: Status = Status.FAILED) -> "Reason":
        member = str.__new__(cls, value)
        member._value_ = value
        member.status = status
        return member

    OVERLAP = "overlap", Status.SKIPPED
    MISSED = "missed", Status.SKIPPED
    CONDITION = "condition", Status.SKIPPED
    CONDITION_ERROR = "condition_error", Status.SKIPPED
    NO_WORK = "no_work", Status.SKIPPED
    SOURCE_ERROR = "source_error", Status.SKIPPED
    POLL_FAILED = "poll_failed", Status.SKIPPED
    QUIET_HOURS = "quiet_hours", Status.SKIPPED
    BUDGET = "budget", Status.SKIPPED
    EXPIRED = "expired", Status.SKIPPED
    PAUSED = "paused", Status.SKIPPED
    BACKING_OFF = "backing_off", Status.SKIPPED
    EXCLUDED = "excluded", Status.SKIPPED
    NO_ANSWER = "no_answer", Status.SKIPPED

    EXIT_CODE = "exit_code"
    EXCEPTION = "exception"
    MEMBERS_FAILED = "members_failed"
    TIMED_OUT = "timed_out"
    IDLE = "idle"
    LOOPING = "looping"
    POSTCONDITION_FAILED = "postcondition_failed"
    PROCESS_RESTARTED = "process_restarted"
    WORKER_LOST = "worker_lost"
    SHUTDOWN = "shutdown"
    SPAWN_FAILED = "spawn_failed"
    SECRET_MISSING = "secret_missing"
    AGENT_ERROR = "agent_error"
    DENIED = "denied"
    AUTH = "auth"
    QUOTA = "quota"
    OUTAGE = "outage"
    RESULT_INVALID = "result_invalid"
    UNKILLABLE = "unkillable"

    REQUESTED = "requested", Status.CANCELLED
    REPLACED = "replaced", Status.CANCELLED
    PREDECESSOR_FAILED = "predecessor_failed", Status.CANCELLED
    GROUP_CANCELLED = "group_cancelled", Status.CANCELLED
    RETIRED = "retired", Status.CANCELLED


REASONS = {
    status: tuple(reason for reason in Reason if reason.status is status)
    for status in (Status.SKIPPED, Status.FAILED, Status.CANCELLED)
}


class WaitingFor(StrEnum):
    """Why a QUEUED run must not be claimed yet. Stored with the run."""

    BACKOFF = "backoff"
    BUDGET = "budget"
    CONDITION = "condition"
    POLL = "poll"
    PREDECESSOR = "predecessor"
    REPLACED_RUN = "replaced_run"
    ANSWER = "answer"
    UNCERTIFIED = "uncertified"


class Held(StrEnum):
    """Why a claimable QUEUED run does not start. Derived when read, never stored."""

    SLOT = "slot"
    POOL = "pool"
    PROVIDER_HOLD = "provider_hold"
    NO_WORKER = "no_worker"
    PAUSED = "paused"


class Trigger(StrEnum):
    """The origin of a run."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    RETRY = "retry"
    GROUP = "group"
    BACKFILL = "backfill"
    ANSWER = "answer"  # of a run that goes on with the answer of a person
    NEED = "need"  # a poll that another run needs and no schedule fires
    REPLY = "reply"  # a reply in a chat to the answer of an agent
    FORK = "fork"  # a person's prompt in the session of an earlier run
    DIRECT = "direct"  # of a direct call, which has no run


class GroupStatus(StrEnum):
    """The status of a group. It is final only when every member is."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    PARTIAL = "PARTIAL"
    CANCELLED = "CANCELLED"
