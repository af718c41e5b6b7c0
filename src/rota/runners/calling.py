"""One call of a user's function: what it is given, what it returns, what it raises, as an Outcome."""

import asyncio
import inspect
import traceback
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

from rota.model.errors import InvalidValue
from rota.model.records import ERROR_LIMIT, SUMMARY_LIMIT, Outcome, cut
from rota.model.states import Reason, Status
from rota.runners.context import JobContext
from rota.runners.result import judge_scheduler_state, judge_state, storable

Function = Callable[..., Any]
Reader = Callable[[JobContext, Any], Outcome]
STOPPED = Outcome(status=Status.FAILED, reason=Reason.SHUTDOWN, error="stopped before it had finished")
_COMPLETED = Outcome(status=Status.COMPLETED)


class Call:
    """One running function. `decided` is the outcome that replaces its own once it was stopped.

    It is called with what is `given`: the context, or the task of an agent.
    """

    __slots__ = (
        "abandon_at",
        "context",
        "decided",
        "entered",
        "function",
        "given",
        "read",
        "reported",
        "task",
        "ticket",
        "timeout",
        "token",
    )

    def __init__(
        self,
        token: str,
        function: Function,
        context: JobContext,
        *,
        timeout: float | None = None,
        read: Reader | None = None,
        given: Any = None,
    ) -> None:
        self.token = token
        self.function = function
        self.context = context
        self.given = context if given is None else given
        self.read = read or read_returned
        self.timeout = timeout
        self.decided: Outcome | None = None
        self.abandon_at: float | None = None
        self.reported = False
        self.entered = False
        self.task: asyncio.Task[None] | None = None
        # Whoever takes the ticket decides whether the call begins: a thread, or a cancel that came first.
        self.ticket = [True]

    def begin(self) -> bool:
        """Take the ticket; tell whether it was still there."""
        try:
            return self.ticket.pop()
        except IndexError:
            return False


def _remembered(look: Callable[[Function], bool]) -> Callable[[Function], bool]:
    """Look at a function once; at one that cannot be hashed, as an object with a `__call__` may be, each time."""
    known = lru_cache(maxsize=4096)(look)

    @wraps(look)
    def remembered(function: Function) -> bool:
        try:
            return known(function)
        except TypeError:
            return look(function)

    return remembered


@_remembered
def takes_context(function: Function) -> bool:
    """Tell whether a function wants the context; one without parameters is called without it."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters)


@_remembered
def is_async(function: Function) -> bool:
    """Tell whether a function is run on the functions' event loop."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def call(started: Call) -> Any:
    """Call a user's function with what it is given, if it wants that."""
    return started.function(started.given) if takes_context(started.function) else started.function()


def read_returned(context: JobContext, value: Any) -> Outcome:
    """Return the outcome of a job's function that returned: a text is the summary, other values are shown."""
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the function returned a coroutine; declare it with `async def`")
    state, shared = context.changed_state, context.changed_scheduler_state
    written = context.log.total
    if value is None and state is None and shared is None and not written:
        return _COMPLETED
    try:
        kept, changed = judge_state(state), judge_scheduler_state(shared)
    except InvalidValue as error:
        return Outcome(status=Status.FAILED, reason=Reason.RESULT_INVALID, error=cut(str(error), ERROR_LIMIT))
    text = None if value is None else storable(value if isinstance(value, str) else repr(value))
    return Outcome(
        status=Status.COMPLETED,
        summary=cut(text, SUMMARY_LIMIT),
        state=kept,
        scheduler_state=changed,
        output_bytes=written,
    )


def read_answer(_: JobContext, value: Any) -> Outcome:
    """Return the outcome of a condition that answered: COMPLETED is true, SKIPPED/condition is false (R-09)."""
    if value is True:
        return _COMPLETED
    if value is False:
        return Outcome(status=Status.SKIPPED, reason=Reason.CONDITION)
    kind = type(value).__name__
    error = f"the condition returned {kind}, not True or False"
    return Outcome(status=Status.SKIPPED, reason=Reason.CONDITION_ERROR, error=error)


def read_raised(context: JobContext, error: BaseException) -> Outcome:
    """Return the outcome of a function that raised; the whole traceback goes into the run's output."""
    context.log.write(storable("".join(traceback.format_exception(error))))
    return Outcome(
        status=Status.FAILED,
        reason=Reason.EXCEPTION,
        error=cut(storable(say_exception(error)), ERROR_LIMIT),
        output_bytes=context.log.total,
    )


def say_exception(error: BaseException) -> str:
    """Return an exception as one line with the place where it was raised."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be read)"
    name = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{name}: {text}{place}" if text else f"{name}{place}"
