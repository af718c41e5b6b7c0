"""An agent and the step after it in one process tree: this program stands in the agent's place under its keeper.

The keeper's timeout, its signals and its adoption by a later scheduler so cover both. Standard output is the agent's,
then the step's; a copy of the agent's own part is kept apart, because that alone is read by its adapter.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from rota.agents.registry import adapter
from rota.model.agents import Ended
from rota.model.errors import InvalidValue
from rota.runners.agent_tasks import read_task, task_of
from rota.runners.environment import RESULT_NAME
from rota.runners.keeper import readable, store_whole
from rota.runners.output import make_folder, read_all
from rota.runners.redacting import Redactor
from rota.runners.result import read_result
from rota.runners.writer import FULL, OUTPUT_LIMIT, BoundedWriter

ORDERS = "after-orders.json"
TOLD = "after.json"
AGENT_OUTPUT = "agent"
CHUNK = 1 << 16
POLL_PAUSE = 0.1
NOT_STARTED = 127
STOPPED = 143
START = "import sys; sys.path.insert(0, sys.argv[1]); from rota.runners.afterwards import main; main(sys.argv[2])"
"""What starts this module in an interpreter that need not know where rota lies."""

_orders_to_stop: list[int] = []


def command_line(folder: Path) -> tuple[str, ...]:
    """Return what runs the orders in a run's folder."""
    root = str(Path(__file__).parents[2])
    return (sys.executable, "-I", "-u", "-X", "utf8", "-c", START, root, str(folder / ORDERS))


def write_orders(
    argv: tuple[str, ...], after: tuple[str, ...], *, folder: Path, cwd: str, secret: tuple[str, ...]
) -> str:
    """Return the orders for an agent, and for the step after it, which runs in `cwd`; `secret` names variables."""
    return json.dumps({"argv": argv, "after": after, "folder": str(folder), "after_cwd": cwd, "secret": secret})


def read_told(folder: Path) -> Mapping[str, Any] | None:
    """Return how far it came: the agent's exit code, and whether the step was begun; None: there is no word of one."""
    try:
        told: Any = json.loads((folder / TOLD).read_bytes())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None


def main(path: str) -> NoReturn:
    """Run the agent; if its adapter calls it a success, run the step after it. Ends as the last of them ended."""
    # The keeper asks every process of the tree: this one waits for the others. A handler, unlike an ignored signal, is
    # not handed on to them.
    signal.signal(signal.SIGTERM, lambda number, _frame: _orders_to_stop.append(number))
    orders = json.loads(Path(path).read_bytes())
    folder = Path(orders["folder"])
    hidden = Redactor(os.environ[name] for name in orders.get("secret", ()))
    status = _run_agent(orders["argv"], folder, hidden)
    if status != 0 or not _succeeded(folder):
        _tell(folder, stage="agent", agent_exit=status)
        _end(status)  # also where it is 0: whoever records the run reads the same, and finds why
    if _orders_to_stop:
        _end(STOPPED)
    _tell(folder, stage="after", agent_exit=status)
    _end(_run_after(orders, folder))


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
    """Hand the agent's output on until it ends; whoever else holds its pipe open is not waited for."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    os.set_blocking(pipe, False)
    ended = _end_of(process.pid)
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


def _end_of(pid: int) -> list[int]:
    """Return a file that becomes readable when a process ends, where the system has such."""
    try:
        return [os.pidfd_open(pid)]
    except (AttributeError, OSError):
        return []


def _read(pipe: int) -> bytes | None:
    """Return what is in a pipe: None for nothing yet, empty for its end."""
    try:
        return os.read(pipe, CHUNK)
    except BlockingIOError:
        return None


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _succeeded(folder: Path) -> bool:
    """Tell whether the agent's adapter calls what it wrote a success, and its result file, if any, is in order."""
    told = read_task(folder)
    kind = None if told is None else adapter(told["adapter"], told["options"])
    if told is None or kind is None or kind.read is None:
        return False
    output = read_all(folder / AGENT_OUTPUT).decode("utf-8", "replace")
    try:
        read_result(folder / RESULT_NAME)
    except InvalidValue:
        return False
    return kind.read(Ended(0, output), task_of(told)).problem is None


def _run_after(orders: Mapping[str, Any], folder: Path) -> int:
    try:
        process = subprocess.Popen(
            orders["after"], cwd=orders["after_cwd"], stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
    except OSError as error:
        words = f"cannot start {orders['after'][0]!r} in {orders['after_cwd']}: {(error.strerror or '').lower()}"
        _write(f"after: {words}\n".encode())
        _tell(folder, stage="after", agent_exit=0, error=words)
        return NOT_STARTED
    return process.wait()


def _tell(folder: Path, **told: Any) -> None:
    store_whole(str(folder), TOLD, json.dumps(told).encode())


def _end(status: int) -> NoReturn:
    """End as a process ended: by its exit code, or by the signal that killed it."""
    if status < 0:
        if -status == signal.SIGTERM:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status if status >= 0 else 1)
