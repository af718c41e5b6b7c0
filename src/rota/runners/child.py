"""A Python function in a process of its own, run by any interpreter from 3.8 on: standard library only.

    child.py run NAME CONTEXT         run a function; its result goes to $ROTA_RESULT_FILE
    child.py condition NAME CONTEXT   exit 0 for True, 10 for False, 1 for anything else
    child.py resolve                  JSON on stdin; which of the names are there, as JSON on stdout

TERM sets `ctx.cancelled` and cancels an async function; a sync function may check it and has the job's `term_grace`
to end. A second TERM ends the process at once.
"""

from __future__ import annotations

import os
import sys

# This folder must not be on the path: a module here could shadow one of the standard library.
if sys.path and os.path.abspath(sys.path[0] or ".") == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]

import asyncio
import difflib
import importlib
import inspect
import json
import signal
import time
import traceback
import types
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

FALSE = 10
SUMMARY_LIMIT = 1001  # one more than is kept, so that the cut is marked
FUNCTION_NAME = "function.json"


class Registered:
    """The declarations of the imported modules, for interpreters without rota."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        self.conditions: dict[str, Callable[..., Any]] = {}
        self.needing_poll: set[str] = set()

    def job(self, name: Any = None, **_: Any) -> Any:
        """Stand in for `rota.job`."""
        return _register(self.functions, name)

    def condition(self, name: Any = None, *, needs_poll: bool = False, **_: Any) -> Any:
        """Stand in for `rota.condition`."""
        return _register(self.conditions, name, self.needing_poll if needs_poll else None)

    def agent(self, name: Any = None, **_: Any) -> Any:
        """Stand in for `rota.agent`; agents are not called here."""
        return _register({}, name)


def _register(names: dict[str, Callable[..., Any]], name: Any, also_in: set[str] | None = None) -> Any:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        known = name if isinstance(name, str) else function.__name__
        names[known] = function
        if also_in is not None:
            also_in.add(known)
        return function

    return keep(name) if callable(name) else keep


def open_registry() -> Any:
    """Return rota's registry if rota is installed, else a stand-in under its name."""
    try:
        return importlib.import_module("rota.declare.registry").default
    except ImportError:
        registered = Registered()
        stand_in = types.ModuleType("rota")
        stand_in.job = registered.job  # type: ignore[attr-defined]
        stand_in.condition = registered.condition  # type: ignore[attr-defined]
        stand_in.agent = registered.agent  # type: ignore[attr-defined]
        stand_in.JobContext = Context  # type: ignore[attr-defined]
        stand_in.AgentTask = stand_in.AgentResult = object  # type: ignore[attr-defined]
        stand_in.BudgetExceeded = BudgetExceeded  # type: ignore[attr-defined]
        sys.modules["rota"] = stand_in
        return registered


class BudgetExceeded(Exception):
    """Stands in for `rota.BudgetExceeded`, which only the scheduler's process raises."""


class RunInfo:
    """The run of a function."""

    def __init__(self, run: dict[str, Any]) -> None:
        self.id: str = run["id"]
        self.handle: str = run["handle"]
        self.job: str = run["job"]
        self.number: int = run["number"]
        self.attempt: int = run["attempt"]
        self.trigger: str = run["trigger"]
        self.scheduled_for = datetime.fromisoformat(run["scheduled_for"])
        self.timezone: str = run["timezone"]


class Log:
    """Writes lines into the run's output: call it, or use its levels."""

    __slots__ = ()

    def __call__(self, *parts: object) -> None:
        """Write one line."""
        self._line("", parts)

    def debug(self, *parts: object) -> None:
        """Write one line for debugging."""
        self._line("debug ", parts)

    def info(self, *parts: object) -> None:
        """Write one line of information."""
        self._line("info ", parts)

    def warning(self, *parts: object) -> None:
        """Write one warning line."""
        self._line("warning ", parts)

    def error(self, *parts: object) -> None:
        """Write one error line."""
        self._line("error ", parts)

    def exception(self, *parts: object) -> None:
        """Write one error line and the traceback of the current exception."""
        self.error(*parts)
        self.write(traceback.format_exc())

    def _line(self, level: str, parts: tuple[object, ...]) -> None:
        self.write(f"{self._stamp()} {level}{' '.join(map(str, parts))}\n")

    def _stamp(self) -> str:
        at = time.time()
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at * 1000) % 1000:03d}Z"

    def write(self, text: str) -> None:
        """Append text to the run's output unchanged."""
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()


class Context:
    """The argument of a job's function and of a condition, as inside the scheduler."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.params: dict[str, Any] = values["params"]
        self.state: dict[str, Any] = values["state"]
        self.scheduler_state: dict[str, Any] = values.get("scheduler_state", {})
        self.poll_data: dict[str, Any] | None = values.get("poll_data")
        self.log = Log()
        self.run = RunInfo(values["run"])
        self.cancelled = False
        self.used: dict[str, Any] = {}

    @property
    def sdk(self) -> Any:
        """Refuse: only the scheduler's process has its operations."""
        raise RuntimeError(
            "ctx.sdk is available only to functions inside the scheduler; remove `isolate: process` and "
            "`python:`, or call the command: rota trigger JOB"
        )

    def ask(self, *_question: Any, **_options: Any) -> str | None:
        """Refuse: only the scheduler's process can store questions."""
        raise RuntimeError(
            "ctx.ask is available only to functions inside the scheduler; remove `isolate: process` and `python:`"
        )

    @property
    def http(self) -> Any:
        """Refuse: only the scheduler's process can count requests."""
        raise RuntimeError(
            "ctx.http is available only to functions inside the scheduler; remove `isolate: process` and "
            "`python:`, or send requests yourself and report their number: ctx.add_usage(requests=1)"
        )

    def add_usage(self, **used: Any) -> None:
        """Add usage: requests, tokens_in, tokens_cached, tokens_out, usd (dollars), model."""
        for key, value in used.items():
            if value is not None:
                number = value if isinstance(value, (int, str)) else float(value)
                self.used[key] = value if key == "model" else self.used.get(key, 0) + number


def import_all(imports: list[str], project: str) -> None:
    """Import the project's modules with its folder first."""
    sys.path.insert(0, project)
    for name in imports:
        importlib.import_module(name)


def find(names: dict[str, Callable[..., Any]], name: str) -> Callable[..., Any]:
    """Return a registered function, or `module:function`; LookupError suggests a near name."""
    if name in names:
        return names[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        near = difflib.get_close_matches(name, list(names), n=1)
        guess = f'; did you mean "{near[0]}"?' if near else ""
        raise LookupError(f'nothing is registered as "{name}"{guess}')
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise LookupError(f'"{module}" has no function "{attribute}"')
    return found  # type: ignore[no-any-return]


def takes_context(function: Callable[..., Any]) -> bool:
    """Return whether a function has a parameter for the context."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters)


def call(function: Callable[..., Any], context: Context) -> Any:
    """Call a function, or run a coroutine function to its end, cancelling it on TERM."""
    listen(context, None)
    returned = function(context) if takes_context(function) else function()
    return asyncio.run(_until_cancelled(returned, context)) if inspect.iscoroutine(returned) else returned


def listen(context: Context, cancel: Callable[[], Any] | None) -> None:
    """Set `cancelled` at the first TERM; the second ends the process."""

    def on_term(*_: Any) -> None:
        context.cancelled = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if cancel is not None:
            cancel()

    signal.signal(signal.SIGTERM, on_term)


async def _until_cancelled(coroutine: Any, context: Context) -> Any:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(coroutine)
    listen(context, lambda: loop.call_soon_threadsafe(task.cancel))
    if context.cancelled:
        task.cancel()
    return await task


def run(name: str, values: dict[str, Any]) -> int:
    """Run a job's function and leave its result; return the exit code."""
    context = Context(values)
    before = json.loads(json.dumps([context.state, context.scheduler_state]))
    try:
        registry = open_registry()
        import_all(values["imports"], values["project"])
        value = call(find(registry.functions, name), context)
    except BaseException as error:  # SystemExit too
        traceback.print_exc()
        write(values, {"error": say_exception(error)})
        leave_usage(context)
        return 1
    try:
        return leave_result(value, context, before=before)
    except (TypeError, ValueError) as error:
        write(values, {"error": f"its state cannot be stored as JSON: {error}", "invalid": True})
        return 1


def leave_result(value: Any, context: Context, before: list[dict[str, Any]]) -> int:
    """Write the result file: the summary, changed states and usage."""
    result: dict[str, Any] = {}
    if value is not None:
        result["summary"] = value if isinstance(value, str) else repr(value)
    after = json.loads(json.dumps([context.state, context.scheduler_state], allow_nan=False))
    if after[0] != before[0]:
        result["state"] = after[0]
    if after[1] != before[1]:
        result["scheduler_state"] = changes(before[1], after[1])
    if result:
        result["summary"] = result.get("summary", "")[:SUMMARY_LIMIT] or None
    if context.used:
        result["usage"] = context.used
    if result:
        write_result(result)
    return 0


def changes(before: dict[str, Any], after: Any) -> Any:
    """Return the changed keys, None for removed ones; other values than objects are judged later."""
    if not isinstance(after, dict):
        return after
    changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
    return {**changed, **{key: None for key in before if key not in after}}


def leave_usage(context: Context) -> None:
    """Write the usage of a failed function."""
    if context.used:
        try:
            write_result({"usage": context.used})
        except (TypeError, ValueError):
            pass  # the usage cannot be stored; the failure is


def write_result(result: dict[str, Any]) -> None:
    """Write the result file."""
    write_private(os.environ["ROTA_RESULT_FILE"], result)


def write(values: dict[str, Any], content: dict[str, Any]) -> None:
    """Write the exception for the scheduler, into a file that only this program writes."""
    write_private(os.path.join(values["folder"], FUNCTION_NAME), content)


def write_private(path: str, content: dict[str, Any]) -> None:
    """Write a JSON file with mode 0600: it may contain secrets of this run."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file)


def say_exception(error: BaseException) -> str:
    """Return an exception as one line with the place where it was raised."""
    try:
        text = str(error)
    except Exception:
        text = "(unreadable text)"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"


def condition(name: str, values: dict[str, Any]) -> int:
    """Call a condition; return the exit code of its answer."""
    registry = open_registry()
    import_all(values["imports"], values["project"])
    answer = call(find(registry.conditions, name), Context(values))
    if answer is True:
        return 0
    if answer is False:
        return FALSE
    print(f"the condition returned {type(answer).__name__}, not True or False", file=sys.stderr)
    return 1


def resolve(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the missing names, and the facts of the conditions."""
    registry = open_registry()
    missing = find_missing(registry, asked)
    needing = getattr(registry, "needing_poll", ())  # an older rota has none
    return {"missing": missing, "conditions": list(registry.conditions), "needing_poll": list(needing)}


def find_missing(registry: Any, asked: dict[str, Any]) -> dict[str, str]:
    """Return a message for each missing name and each module that cannot be imported."""
    missing: dict[str, str] = {}
    sys.path.insert(0, asked["path"])
    for module in asked["imports"]:
        try:
            importlib.import_module(module)
        except BaseException as error:
            missing[module] = f"cannot be imported: {type(error).__name__}: {error}"
    for names, kind in ((registry.functions, "functions"), (registry.conditions, "conditions")):
        for name in asked[kind]:
            message = _lacks(names, name)
            if message is not None:
                missing[name] = message
    return missing


def _lacks(names: dict[str, Callable[..., Any]], name: str) -> str | None:
    try:
        find(names, name)
    except LookupError as error:
        return str(error.args[0])
    except BaseException as error:
        return f"cannot be imported: {type(error).__name__}: {error}"
    return None


def answer_resolve() -> int:
    """Answer on standard output; output of the imported modules goes to standard error."""
    answer = os.dup(1)
    os.dup2(2, 1)
    found = resolve(json.load(sys.stdin))
    sys.stdout.flush()
    with os.fdopen(answer, "w", encoding="utf-8") as file:
        json.dump(found, file)
    return 0


def main(arguments: list[str]) -> int:
    """Run the command of the arguments; return the exit code."""
    if arguments[:1] == ["resolve"]:
        return answer_resolve()
    with open(arguments[2], encoding="utf-8") as file:
        values = json.load(file)
    return {"run": run, "condition": condition}[arguments[0]](arguments[1], values)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
