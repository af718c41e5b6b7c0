"""What every test may rely on, whatever the machine and the shell it was started from are like."""

import faulthandler
import gc
import os
import signal
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings

from rota.faults import VARIABLE
from tests.memory import in_memory

MACHINE = "ROTA_MACHINE"
"""How many examples the state machine plays; see `tests/machine/`."""
POSTGRES = "ROTA_TEST_POSTGRES"
"""A server to test with instead of one that is started; see `tests/postgres.py`."""
STORE = "ROTA_TEST_STORE"
"""The database that scenes play on; see `tests/scene.py`."""
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""With it each of some hundred processes would compile all that it imports: a third of the time of all tests."""
STRANGE = ("ROTA_", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "LC_", "LANGUAGE", NO_BYTECODE)
FAILED = "ROTA_TEST_FAILED"
"""A file for the names of the tests that failed, as `pytest @FILE` reads them; `.ci/run` repeats these alone."""
KEPT = (VARIABLE, MACHINE, POSTGRES, STORE, FAILED)
if "PYTEST_XDIST_WORKER" in os.environ:
    STRANGE += ("COVERAGE_",)  # a worker is measured, not what its tests start

for name in [name for name in os.environ if name.startswith(STRANGE) and name not in KEPT]:
    del os.environ[name]
os.environ |= {"TZ": "UTC", "LANG": "C.UTF-8", "TERM": "dumb"}
os.environ["XDG_STATE_HOME"] = os.devnull  # nothing is remembered of the projects of tests
time.tzset()
sys.dont_write_bytecode = False
os.umask(0o022)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

if memory := in_memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)

SELDOM = (20_000, 20, 50)
"""When the garbage collector looks: with Python's own numbers it takes a tenth of the time of what plays scenes."""

SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture)
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.register_profile("new", deadline=None, suppress_health_check=SLOW_IS_FINE, database=None)
settings.load_profile("same")
"""The same examples in every run; `pytest --hypothesis-profile new` draws new ones."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and have it pass over what is there then: it stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*SELDOM)
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Write the names of the tests that failed, if all tests ran: a worker that crashed leaves some out."""
    reports = [report for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, ())]
    whole = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    if (path := os.environ.get(FAILED)) and whole and all(one.when in PHASES for one in reports):
        Path(path).write_text("".join(f"{name}\n" for name in sorted({one.nodeid for one in reports})), "utf-8")


PHASES = ("setup", "call", "teardown")
"""Of a report about a test; that of a worker that crashed has no phase."""


BEYOND = 60
"""Seconds that a test, and what comes after it, may take beyond its time limit."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process of a test that outlasts its limit, and say where it stands: a loop may swallow the alarm."""
    _end_in_time(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Do the same for what comes after a test that failed: its alarm is used up, and pytest has taken ours back."""
    _end_in_time(item)
    return (yield)


def _end_in_time(item: pytest.Item) -> None:
    limit = float(item.config.getoption("timeout") or item.config.getini("timeout"))
    faulthandler.dump_traceback_later(limit + BEYOND, exit=True, file=item.config.stash[fault_handler_stderr_fd_key])
