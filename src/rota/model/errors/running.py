"""Runs, groups and the queue: what is not there, final, or not possible just then."""

from collections.abc import Sequence

from rota.model.errors.root import RotaError, guess


class IllegalTransition(RotaError):
    """A run was asked to do what its status does not allow."""

    code = "illegal_transition"

    def __init__(self, status: str, event: str, allowed: Sequence[str]) -> None:
        options = ", ".join(allowed) or "nothing, it is final"
        super().__init__(f"a run that is {status} cannot {event}", hint=f"possible: {options}")


class UnknownRun(RotaError):
    """No run has this handle."""

    code = "unknown_run"

    def __init__(self, handle: str, why: str = "") -> None:
        because = f": {why}" if why else ""
        super().__init__(f"there is no run {handle!r}{because}", hint="list them with `rota history`")


class RunIsFinal(RotaError):
    """A finished run never changes."""

    code = "run_final"

    def __init__(self, handle: str, status: str) -> None:
        super().__init__(
            f"{handle} is {status} already", hint="a finished run never changes; `rota run` starts a new one"
        )


class RunUnfinished(RotaError):
    """A run that is not final cannot be run again; nor one whose retry is not."""

    code = "run_unfinished"

    def __init__(self, handle: str, status: str, *, retry_of: str | None = None) -> None:
        retries = f", it retries {retry_of}" if retry_of else ""
        super().__init__(
            f"{handle} is not finished: it is {status}{retries}",
            hint=f"wait for it, or stop it with `rota cancel {handle}` and try again",
        )


class RunCompleted(RotaError):
    """A run that completed is run again only if that is meant."""

    code = "run_completed"

    def __init__(self, handle: str) -> None:
        super().__init__(f"{handle} is COMPLETED", hint=f"to do its work once more: `rota retry {handle} --again`")


class NotQueued(RotaError):
    """Only a queued run has a place in the queue."""

    code = "not_queued"

    def __init__(self, handle: str, status: str) -> None:
        super().__init__(
            f"{handle} is {status}, only a queued run has a place in the queue", hint="`rota queue` shows what waits"
        )


class Immutable(RotaError):
    """The params of a run are frozen from its first dispatch on (INV-001)."""

    code = "immutable"

    def __init__(self, handle: str, status: str) -> None:
        super().__init__(
            f"cannot modify params after dispatch: {handle} is {status}",
            hint=f"start a new run with other params: `rota run {handle.rpartition(':')[0]} --param NAME=VALUE`",
        )


class OtherPriority(RotaError):
    """A run cannot be moved before one of another priority (INV-004)."""

    code = "other_priority"

    def __init__(self, handle: str, other: str, *, priority: int, wanted: int) -> None:
        super().__init__(
            f"{handle} has the priority {priority} and cannot stand before {other}, which has {wanted}",
            hint=f"give it that priority first: `rota edit {handle} --priority {wanted}`",
        )


class AgingOrders(RotaError):
    """Runs have no place to be moved to while age and priority make the order (R-03)."""

    code = "aging_orders"

    def __init__(self, aging: str) -> None:
        super().__init__(
            f"runs cannot be moved while `scheduler.aging: {aging}` makes the order of the queue",
            hint="`rota edit RUN --priority N` changes how soon a run comes, or remove `scheduler.aging` and apply",
        )


class OverlapRefused(RotaError):
    """A manual start was refused because the job is active (R-11)."""

    code = "overlap"

    def __init__(self, name: str, blocking: str, policy: str) -> None:
        super().__init__(
            f"{name} was not started: {blocking} is not finished and the job says `overlap: {policy}`",
            hint=f"wait for it, stop it with `rota cancel {blocking}`, or pass overlap with --force",
        )
        self.blocking = blocking


class SetRefused(RotaError):
    """Many runs at once were refused: overlap leaves no room for all of them (R-11)."""

    code = "overlap_set"

    def __init__(self, name: str, count: int, *, room: int, policy: str) -> None:
        super().__init__(
            f"{count:,} runs of {name} were not made: `overlap: {policy}` leaves room for {room}",
            hint="set `overlap: allow`, or `overlap: queue` with a larger `queue_depth`, or pass --force",
        )


class NoSlot(RotaError):
    """A direct caller got no slot within the time that it wanted to wait."""

    code = "no_slot"

    def __init__(self, name: str, waited: str) -> None:
        super().__init__(
            f"no slot for {name!r} became free within {waited}",
            hint="`rota status` shows who has the slots; raise `scheduler.concurrency`, or wait longer",
        )


class UnknownGroup(RotaError):
    """No group has this handle, or it has not begun."""

    code = "unknown_group"

    def __init__(self, handle: str, why: str = "", near: Sequence[str] = (), *, hint: str = "") -> None:
        because = f": {why}" if why else ""
        hint = hint or f"{guess(near)}list them with `rota groups`"
        super().__init__(f"there is no group {handle!r}{because}", hint=hint)


class GroupIsFinal(RotaError):
    """A final group never changes (INV-006)."""

    code = "group_final"

    def __init__(self, handle: str, status: str) -> None:
        super().__init__(
            f"{handle} is {status} already",
            hint=f"a final group never changes; `rota groups retry {handle}` makes a new one of what failed",
        )


class GroupCompleted(RotaError):
    """A group of which no member failed has nothing to repeat."""

    code = "group_completed"

    def __init__(self, handle: str, status: str, name: str) -> None:
        super().__init__(
            f"{handle} is {status}: none of its members failed",
            hint=f"start it again as a whole with `rota run {name}`",
        )


class GroupUnfinished(RotaError):
    """A group can be repeated only when all of its members are final (INV-006)."""

    code = "group_unfinished"

    def __init__(self, handle: str) -> None:
        super().__init__(
            f"{handle} is not finished", hint=f"wait for it, or cancel it with `rota groups cancel {handle}`"
        )


class NothingNeeds(RotaError):
    """Only what needs somebody can be acknowledged."""

    code = "nothing_needs"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"nothing about {name!r} needs attention", hint=f"{guess(near)}list what does with `rota ack`")
