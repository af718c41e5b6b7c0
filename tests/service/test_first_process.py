"""`rota serve` as process 1 of a container: it reaps what others leave behind, and TERM stops it in order."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LONGEST_WAIT

UNSHARE = ["unshare", *(["--user", "--map-root-user"] if os.getuid() else []), "--pid", "--fork", "--kill-child"]

SCRIPT = """
import os, signal, sys
from rota.runners.processes import leave_first_place

leave_first_place()
stopped, out, go = [], os.pipe(), os.pipe()
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
if os.fork() == 0:
    orphan = os.fork()
    if orphan == 0:
        os.read(go[0], 1)
    else:
        os.write(out[1], str(orphan).encode().ljust(8))
    os._exit(0)
os.wait()
orphan = int(os.read(out[0], 8))
os.write(go[1], b"!")
while os.path.exists(f"/proc/{orphan}"):
    signal.sigtimedwait([], 0.01)
print("parent", os.getppid(), "reaped", flush=True)
while not stopped:
    signal.sigtimedwait([], 0.01)
sys.exit(7)
"""


def _can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run([*UNSHARE, "--mount-proc", "true"], capture_output=True, check=False)
    return tried.returncode == 0


pytestmark = pytest.mark.skipif(not _can_unshare(), reason="no pid namespaces here")


def first_process(arguments: list[str], **options) -> subprocess.Popen[str]:
    command = [*UNSHARE, "--mount-proc", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def stop(started: subprocess.Popen[str]) -> int:
    """Send TERM to process 1 of the namespace, which is the one child of unshare."""
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)
    return started.wait(LONGEST_WAIT)


def test_orphans_are_reaped_and_signals_and_exit_codes_pass_through() -> None:
    started = first_process([sys.executable, "-c", SCRIPT])
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == "parent 1 reaped\n"
        assert stop(started) == 7
    finally:
        started.kill()


def test_a_scheduler_stops_in_order_on_term(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("jobs:\n  a: {interval: 1h, command: [echo, hello]}\n")
    started = first_process([sys.executable, "-m", "rota", "--dir", str(tmp_path), "serve", "--no-http"], cwd=tmp_path)
    try:
        assert started.stdout is not None
        lines = []
        while not any("COMPLETED" in line for line in lines):
            lines.append(started.stdout.readline())
            assert lines[-1], lines
        assert "pid 2" in lines[0]
        assert stop(started) == 0
    finally:
        started.kill()


def test_any_other_process_goes_on_as_it_is() -> None:
    code = (
        "import os; from rota.runners.processes import leave_first_place\n"
        "p = os.getpid(); leave_first_place(); print(p == os.getpid())"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
