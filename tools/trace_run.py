"""Trace one command run through `rota tick`, from the fire to the stored delivery, and print the modules on its way.

`python tools/trace_run.py` prints the modules in the order of their first call, and how many of their functions ran.
"""

import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import rota
from rota.cli import run
from rota.engine.clock import SystemClock

SOURCE = Path(rota.__file__).parent
FIRST = ("engine/transactions/fire.py", "fire")
LAST = ("engine/loops/notifier.py", "_record")
"""The functions at which the trace begins and ends."""
PROJECT = """\
jobs:
  traced:
    at: {at}
    command: ["true"]
    notify: {{on: completed, command: ["true"]}}
"""


class Trace:
    """The functions of rota that are called between FIRST and LAST, in all threads."""

    def __init__(self) -> None:
        self.calls: dict[CodeType, None] = {}
        self.on = False
        self.ended = False

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Note a call or a return; called by the interpreter."""
        code = frame.f_code
        if not code.co_filename.startswith(f"{SOURCE}{os.sep}"):
            return
        place = (Path(code.co_filename).relative_to(SOURCE).as_posix(), code.co_name)
        if event == "call" and place == FIRST:
            self.on = True
        if event == "call" and self.on and not self.ended:
            self.calls.setdefault(code)
        if event == "return" and place == LAST:
            self.ended = True

    def modules(self) -> dict[str, int]:
        """Return module -> number of its functions that were called, in order of the first call."""
        found: dict[str, int] = {}
        for code in self.calls:
            name = Path(code.co_filename).relative_to(SOURCE).as_posix()
            found[name] = found.get(name, 0) + 1
        return found


def trace_run() -> dict[str, int]:
    """Run one job by a tick in a new project; return the modules between its fire and its stored delivery."""
    trace, clock = Trace(), SystemClock()
    with tempfile.TemporaryDirectory() as folder, _profiled(trace):
        due = clock.now().replace(microsecond=0) + timedelta(seconds=2)
        Path(folder, "rota.yaml").write_text(PROJECT.format(at=due.isoformat()), "utf-8")
        _rota("--dir", folder, "apply")
        while clock.now() <= due:
            threading.Event().wait(0.1)
        _rota("--dir", folder, "tick", "--quiet")
    if not trace.ended:
        raise SystemExit("the delivery was not stored: nothing was traced to its end")
    return trace.modules()


@contextlib.contextmanager
def _profiled(trace: Trace) -> Iterator[None]:
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _rota(*arguments: str) -> None:
    said = io.StringIO()
    sys.argv = ["rota", *arguments]
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        run()


def main() -> int:
    """Print the modules."""
    modules = trace_run()
    for name, functions in modules.items():
        print(f"{name:45} {functions:4}")
    print(f"{len(modules)} modules, {sum(modules.values())} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
