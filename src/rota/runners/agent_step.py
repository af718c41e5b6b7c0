"""Steps around an agent: tasks, results and the step after it."""

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from msgspec.structs import asdict, replace

from rota.agents.registry import adapter
from rota.model.agents import (
    Access,
    AgentProblem,
    AgentResult,
    AgentSession,
    AgentTask,
    ProcessEnd,
    SubscriptionWindow,
)
from rota.model.errors import InvalidValue
from rota.model.records import SUMMARY_LIMIT, bounded_result, cut
from rota.rules.agents import own_figures
from rota.runners.environment import RESULT_NAME
from rota.runners.keeper import UNCHECKED, readable, store_whole
from rota.runners.output import make_folder, read_all, read_json
from rota.runners.redacting import Redactor
from rota.runners.result import read_result, storable
from rota.runners.writer import FULL, OUTPUT_LIMIT, BoundedWriter

TASK = "agent.json"
TaskFacts = Mapping[str, Any]


def read_task(folder: Path) -> TaskFacts | None:
    """Return the stored facts of a task, or None."""
    return read_json(folder / TASK, needs="adapter")


def task_of(facts: TaskFacts) -> AgentTask:
    """Return the parts of a task that an adapter needs to read its output.

    It has no session, so that the result names only a session of the program itself.
    """
    return AgentTask(
        prompt="",
        model=facts["model"],
        access=Access(facts["access"]),
        max_turns=facts["max_turns"],
        max_usd=facts["max_usd"],
        allowed_tools=tuple(facts["allowed_tools"]),
        cwd=facts["cwd"],
        run_id=facts["run_id"],
        job=facts["job"],
        options=facts["options"],
        sessions=facts.get("sessions") or "",
    )


def write_session(session: AgentSession | None) -> TaskFacts | None:
    """Return the session that a run continues, as it is stored."""
    return None if session is None else asdict(session)


def session_of(facts: TaskFacts) -> AgentSession | None:
    """Return the session that a run continued."""
    return AgentSession(**facts["session"]) if facts.get("session") else None


ORDERS = "after-orders.json"
STAGE = "after.json"
ANSWER = "answer.txt"
AGENT_OUTPUT = "agent"
CHUNK = 1 << 16
POLL_PAUSE = 0.1
NOT_STARTED = 127
STOPPED = 143
START = "import sys; sys.path.insert(0, sys.argv[1]); from rota.runners.agent_step import main; main(sys.argv[2])"

_orders_to_stop: list[int] = []


def command_line(folder: Path) -> tuple[str, ...]:
    """Return the command line that runs the orders in a run's folder."""
    root = str(Path(__file__).parents[2])
    return (sys.executable, "-I", "-u", "-X", "utf8", "-c", START, root, str(folder / ORDERS))


def write_orders(
    argv: tuple[str, ...], after: tuple[str, ...], *, folder: Path, cwd: str, secret: tuple[str, ...]
) -> str:
    """Return the orders for an agent and the step after it, which runs in `cwd`; `secret` names variables.

    Without a step the agent is judged alone: its postcondition runs only after a success.
    """
    return json.dumps({"argv": argv, "after": after, "folder": str(folder), "after_cwd": cwd, "secret": secret})


def read_told(folder: Path) -> Mapping[str, Any] | None:
    """Return the agent's exit code and the stage that was reached, or None."""
    return read_json(folder / STAGE)


def main(path: str) -> NoReturn:
    """Run the agent and, after its success, the step after it if there is one; end as the last of them ended."""
    # The keeper signals every process of the tree; this one waits for the others. A handler, unlike an ignored signal,
    # is not inherited.
    signal.signal(signal.SIGTERM, lambda number, _frame: _orders_to_stop.append(number))
    orders = json.loads(Path(path).read_bytes())
    folder = Path(orders["folder"])
    hidden = Redactor(os.environ[name] for name in orders.get("secret", ()))
    status = _run_agent(orders["argv"], folder, hidden)
    answer = _answer(folder) if status == 0 else None
    if answer is None or not orders["after"]:
        _write_stage(folder, stage="agent", agent_exit=status)
        if answer is None:
            store_whole(str(folder), UNCHECKED, b"")
        _end(status)  # also for 0: the scheduler reads the same files and finds the failure
    if _orders_to_stop:
        _end(STOPPED)
    _write_stage(folder, stage="after", agent_exit=status)
    _end(_run_after(orders, folder, answer))


def _run_agent(argv: list[str], folder: Path, hidden: Redactor) -> int:
    writer = BoundedWriter(str(make_folder(folder / AGENT_OUTPUT)), FULL, limit=OUTPUT_LIMIT)
    try:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    except OSError as error:
        os.write(2, f"cannot start {argv[0]!r}: {error.strerror}\n".encode())
        return NOT_STARTED
    _copy(process, writer, hidden)
    writer.write(hidden.rest())
    writer.close()
    return process.wait()


def _copy(process: "subprocess.Popen[bytes]", writer: BoundedWriter, hidden: Redactor) -> None:
    """Copy the agent's output until the agent ends; other processes may keep its pipe open."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    os.set_blocking(pipe, False)
    try:
        ended = [os.pidfd_open(process.pid)]
    except (AttributeError, OSError):
        ended = []
    while True:
        ready = readable([pipe, *ended], None if ended else POLL_PAUSE)
        over = process.poll() is not None
        if pipe in ready or over:
            data = _read(pipe)
            while data:
                _write(data)
                writer.write(hidden.feed(data))
                data = _read(pipe)
            over = over or data == b""
        if over:
            break
    for file in ended:
        os.close(file)
    process.stdout.close()


def _read(pipe: int) -> bytes | None:
    """Return the data in a pipe: None for nothing yet, empty for its end."""
    try:
        return os.read(pipe, CHUNK)
    except BlockingIOError:
        return None


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _answer(folder: Path) -> AgentResult | None:
    """Return what the adapter reads in the output; None for a failure, or an invalid result file."""
    facts = read_task(folder)
    kind = None if facts is None else adapter(facts["adapter"], facts["options"])
    if facts is None or kind is None or kind.read is None:
        return None
    output = read_all(folder / AGENT_OUTPUT).decode("utf-8", "replace")
    try:
        read_result(folder / RESULT_NAME)
    except InvalidValue:
        return None
    result = kind.read(ProcessEnd(0, output), task_of(facts))
    return own_figures(result, session_of(facts)) if result.problem is None else None


def answer_variables(result: AgentResult, path: Path) -> dict[str, str]:
    """Return the variables that tell the step after an agent what the agent answered and used.

    The whole answer stands in a file: a variable has no room for it. An unknown figure is an empty text.
    """
    told = {
        "ANSWER_FILE": str(path),
        "SUMMARY": cut(storable(result.summary.strip()), SUMMARY_LIMIT),
        "SESSION_ID": result.session_id,
        "MODEL": result.model,
        "TOKENS_IN": result.tokens_in,
        "TOKENS_CACHED": result.tokens_cached,
        "TOKENS_OUT": result.tokens_out,
        "USD": result.usd,
        "TURNS": result.turns,
        "DENIED_TOOLS": ",".join(result.denied_tools),
    }
    return {f"ROTA_{name}": "" if value is None else storable(str(value)) for name, value in told.items()}


def _run_after(orders: Mapping[str, Any], folder: Path, answer: AgentResult) -> int:
    store_whole(str(folder), ANSWER, bounded_result(answer.summary.strip()).encode())
    environment = {"ROTA_BRANCH": "", **os.environ, **answer_variables(answer, folder / ANSWER)}
    try:
        process = subprocess.Popen(
            orders["after"],
            cwd=orders["after_cwd"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        words = f"cannot start {orders['after'][0]!r} in {orders['after_cwd']}: {(error.strerror or '').lower()}"
        _write(f"after: {words}\n".encode())
        _write_stage(folder, stage="after", agent_exit=0, error=words)
        return NOT_STARTED
    return process.wait()


def _write_stage(folder: Path, **facts: Any) -> None:
    store_whole(str(folder), STAGE, json.dumps(facts).encode())


def _end(status: int) -> NoReturn:
    """End with the exit code of a process, or by the signal that killed it."""
    if status < 0:
        if -status == signal.SIGTERM:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status if status >= 0 else 1)


COUNTS = ("tokens_in", "tokens_cached", "tokens_out", "turns")
HINT = "return rota.AgentResult(summary=…)"


def judge_result(value: Any) -> AgentResult:
    """Return a result that can be stored, or raise InvalidValue."""
    if not isinstance(value, AgentResult):
        raise InvalidValue(f"the agent returned {type(value).__name__}, not rota.AgentResult", hint=HINT)
    for name in ("summary", "model", "session_id", "error"):
        text = getattr(value, name)
        if not isinstance(text, str) and (text is not None or name == "summary"):
            raise _wrong(name, text, "a text")
    for name in COUNTS:
        _judge_number(name, getattr(value, name), whole=True)
    _judge_number("usd", value.usd, whole=False)
    return replace(
        value,
        summary=storable(value.summary),
        error=None if value.error is None else storable(value.error),
        denied_tools=_names(value.denied_tools),
        problem=_problem(value.problem),
        resets_at=_instant(value.resets_at),
        windows=_windows(value.windows),
    )


def _judge_number(name: str, number: Any, *, whole: bool) -> None:
    if number is None:
        return
    fits = isinstance(number, int) if whole else isinstance(number, int | float) and math.isfinite(number)
    if isinstance(number, bool) or not fits or number < 0:
        raise _wrong(name, number, "a whole number from 0 on" if whole else "a number from 0 on")


def _names(denied: Any) -> tuple[str, ...]:
    names = (denied,) if isinstance(denied, str) else denied
    if not isinstance(names, tuple | list | set | frozenset) or not all(isinstance(name, str) for name in names):
        raise _wrong("denied_tools", denied, "names of tools")
    return tuple(storable(name) for name in names)


def _problem(problem: Any) -> AgentProblem | None:
    if problem is None:
        return None
    try:
        return AgentProblem(problem)
    except ValueError:
        raise _wrong("problem", problem, f"one of {', '.join(AgentProblem)}") from None


def _instant(at: Any) -> datetime | None:
    if not isinstance(at, datetime | None):
        raise _wrong("resets_at", at, "a datetime")
    return at.astimezone() if at is not None and at.tzinfo is None else at


WINDOW_NAME = 100
WINDOWS = "a tuple of rota.SubscriptionWindow, each with a name and a part from 0 to 1"


def _windows(windows: Any) -> tuple[SubscriptionWindow, ...]:
    if not isinstance(windows, tuple | list) or not all(isinstance(one, SubscriptionWindow) for one in windows):
        raise _wrong("windows", windows, WINDOWS)
    for one in windows:
        number = isinstance(one.used, int | float) and not isinstance(one.used, bool)
        if one.used is not None and not (number and 0 <= one.used <= 1):
            raise _wrong("windows", one.used, WINDOWS)
        if not isinstance(one.name, str) or not one.name:
            raise _wrong("windows", one.name, WINDOWS)
    return tuple(
        replace(one, name=storable(one.name)[:WINDOW_NAME], resets_at=_instant(one.resets_at)) for one in windows
    )


def _wrong(name: str, value: Any, wanted: str) -> InvalidValue:
    return InvalidValue(f"{name} of the agent's result is {value!r:.100}, not {wanted}", hint=HINT)
