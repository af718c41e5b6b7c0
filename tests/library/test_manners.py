"""Guest manners: what belongs to the host process is as it was, while the scheduler runs and afterwards."""

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

import rota
from rota.cli.main import cli
from rota.model.states import Status
from tests.library.conftest import LONG, run_now
from tests.waiting import until

GET_CHILD_SUBREAPER = 37


def surroundings() -> dict[str, object]:
    """Return what a guest must leave alone."""
    root = logging.getLogger()
    return {
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, set()),
        "wakeup": _wakeup_fd(),
        "subreaper": _is_subreaper(),
        "environment": dict(os.environ),
        "path": list(sys.path),
        "folder": os.getcwd(),
        "umask": _umask(),
        "root logger": (root.level, list(root.handlers), list(root.filters), root.disabled),
        "rota's logger": (logging.getLogger("rota").level, list(logging.getLogger("rota").handlers)),
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook),
    }


def _wakeup_fd() -> int:
    current = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(current)
    return current


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def _is_subreaper() -> int | None:
    if sys.platform != "linux":
        return None
    answer = ctypes.c_int(-1)
    assert ctypes.CDLL(None).prctl(GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0) == 0
    return answer.value


@pytest.fixture
def busy(store: Path) -> Iterator[rota.Scheduler]:
    """A scheduler that has run functions, a command, a condition and something that failed."""
    scheduler = rota.Scheduler(store)
    scheduler.add_job("function", run=lambda: None)
    scheduler.add_job("command", command=["sh", "-c", "exit 3"], conditions=[{"command": ["true"]}], retry=False)
    with scheduler:
        for name in ("function", "command"):
            run_now(scheduler, name)
        yield scheduler


def test_signals_logging_environment_path_and_children_are_the_hosts(request: pytest.FixtureRequest) -> None:
    before = surroundings()
    scheduler: rota.Scheduler = request.getfixturevalue("busy")
    assert surroundings() == before
    scheduler.stop()
    assert surroundings() == before


def test_a_child_of_the_host_is_reaped_by_the_host_alone(busy: rota.Scheduler) -> None:
    child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(5)"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    run_now(busy, "command")
    busy.stop()
    assert os.waitpid(child.pid, 0) == (child.pid, 5 << 8)
    child.returncode = 5


@pytest.mark.skipif(sys.platform != "linux", reason="orphans go to the nearest subreaper on Linux alone")
def test_what_a_job_leaves_behind_never_becomes_a_child_of_the_host(store: Path, tmp_path: Path) -> None:
    scheduler = rota.Scheduler(store)
    text = (
        f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600' & until test -s {tmp_path}/pid; do sleep 0.02; done"
    )
    scheduler.add_job("leaves", command=["sh", "-c", text])
    with scheduler:
        run = run_now(scheduler, "leaves")
        assert run.status is Status.COMPLETED
        left = int((tmp_path / "pid").read_text())
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        assert str(left) not in children
        with pytest.raises(ProcessLookupError):
            os.kill(left, 0)


def test_no_process_and_no_thread_is_left_after_a_stop(request: pytest.FixtureRequest) -> None:
    children, threads = set(psutil.Process().children()), set(threading.enumerate())
    scheduler: rota.Scheduler = request.getfixturevalue("busy")
    assert set(psutil.Process().children()) - children
    scheduler.stop()
    assert set(psutil.Process().children()) <= children
    until(lambda: set(threading.enumerate()) <= threads, what="the threads of functions to end")


@pytest.mark.anyio
async def test_the_hosts_event_loop_keeps_its_own_handlers_and_tasks(store: Path) -> None:
    loop = asyncio.get_running_loop()
    scheduler = rota.Scheduler(store)
    before = (loop.get_exception_handler(), loop.get_debug(), len(asyncio.all_tasks()))
    async with scheduler:
        assert (loop.get_exception_handler(), loop.get_debug(), len(asyncio.all_tasks())) == before
    assert (loop.get_exception_handler(), loop.get_debug(), len(asyncio.all_tasks())) == before


def test_importing_rota_imports_nothing_heavy() -> None:
    heavy = ("apsw", "pydantic", "click", "asyncio", "rota.library", "rota.engine")
    code = f"import rota, sys; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_commands_see_a_guest_as_the_scheduler_that_serves(tmp_path: Path) -> None:
    """R-22, R-24: `status` is answered by its loop, and neither `tick` nor `serve` works beside it."""
    (tmp_path / "rota.yaml").write_text("state: state\n")
    scheduler = rota.Scheduler(tmp_path / "state")
    scheduler.add_job("work", run=lambda: None, cron="0 8 * * *")
    with scheduler:
        status = CliRunner().invoke(cli, ["--dir", str(tmp_path), "status", "--json"])
        assert f'"pid": {os.getpid()}' in status.output
        tick = CliRunner().invoke(cli, ["--dir", str(tmp_path), "tick", "--json"])
        assert '"left_to": "serve"' in tick.output
        serve = [sys.executable, "-m", "rota", "--dir", str(tmp_path), "serve"]
        refused = subprocess.run(serve, capture_output=True, text=True, check=False, timeout=LONG)
        assert refused.returncode == 73
        assert f"process {os.getpid()} already serves" in refused.stderr
        stop = CliRunner().invoke(cli, ["--dir", str(tmp_path), "stop"])
        assert stop.exit_code == 0
    assert not scheduler.is_running
