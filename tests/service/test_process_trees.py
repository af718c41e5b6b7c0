"""F-28: whatever shape a command's process tree has, timeout and stop leave nothing of it (R-28)."""

import asyncio
import signal
import subprocess
import sys

import pytest

from rota.runners.output import read_output
from rota.runners.processes import send_signal
from tests.service.keeping import TIMEOUTS, Marker, keep

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="macOS has no subreaper; its weaker sweep is documented"
)

SHAPES = {
    "plain": "ready(); rest()",
    "ignores TERM": "signal.signal(signal.SIGTERM, signal.SIG_IGN); ready(); rest()",
    "stops itself": "ready(); os.kill(os.getpid(), signal.SIGSTOP); rest()",
    "double fork and setsid": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN); ready(); rest()
    os._exit(0)
rest()
""",
    "closes its output and runs on": "[os.close(fd) for fd in (0, 1, 2)]; ready(); rest()",
    "500 children": """
for _ in range(500):
    if os.fork() == 0: rest()
ready(); rest()
""",
    "exec chain": """
again = "import os, signal; os.write(int(os.environ['FD']), b'r'); signal.pause()"
os.environ["FD"] = str(mark)
os.execv("/bin/sh", ["sh", "-c", 'exec /bin/sh -c \\'exec "$0" -I -S -c "$1"\\' "$0" "$1"', sys.executable, again])
""",
    "process group of its own": """
if os.fork() == 0:
    os.setpgid(0, 0); signal.signal(signal.SIGTERM, signal.SIG_IGN); ready(); rest()
rest()
""",
    "nohup in the background": """
os.write(mark, b"r")
os.execv("/bin/sh", ["sh", "-c", "nohup sleep 1000 & nohup sleep 1000 & wait"])
""",
    "never waits for its zombies": """
for _ in range(30):
    if os.fork() == 0: os._exit(0)
ready(); rest()
""",
    "drops its tag": """
if os.fork() == 0:
    os.setsid()
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c",
        f"import os, signal; signal.signal(15, signal.SIG_IGN); os.write({mark}, b'r'); signal.pause()"], {})
rest()
""",
    "a few orphans that fork on and on": """
for _ in range(6):
    if os.fork() == 0:
        os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for _ in range(5000):
            if os.fork(): os._exit(0)
ready(); rest()
""",
    "forks when it is told to stop": """
def more(*_):
    for _ in range(20):
        if os.fork() == 0:
            os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); rest()
signal.signal(signal.SIGTERM, more); ready(); rest()
""",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_r28_a_timeout_leaves_no_process_of_any_tree(shape, tmp_path):
    marker = Marker(tmp_path)

    ended = timed_out_once_ready(marker, SHAPES[shape], term_grace=0.2)

    assert ended["why"] == "timed_out"
    assert ended["left"] == []
    assert not marker.held()


def timed_out_once_ready(marker, script, **options):
    """Let a script run into its timeout, into a longer one if it was not ready by then; return its outcome."""
    for timeout in TIMEOUTS:
        folder = marker.path.with_name(f"within {timeout}")
        folder.mkdir()
        ended = asyncio.run(keep(marker.script(script, timeout=timeout, **options), folder))
        if marker.was_ready():
            return ended | {"output": b"".join(read_output(folder))}
    raise AssertionError(f"the script was not ready within {timeout} s")


def test_r28_what_is_killed_is_reaped_in_the_same_sweep():
    """Else a tree that forks on and on fills the table of processes with zombies while it is killed."""
    script = """
import os, signal
from rota.runners.keeper import Keeper
keeper = object.__new__(Keeper)
keeper.child = -1
pids = [os.fork() or signal.pause() for _ in range(20)]
keeper._signal(signal.SIGKILL)
for pid in pids:
    try: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError: pass
keeper._signal(signal.SIGKILL)
print(open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.parametrize("shape", SHAPES)
def test_r28_a_stop_leaves_no_process_of_any_tree(shape, tmp_path):
    marker = Marker(tmp_path)

    async def stop(spawned):
        await marker.ready()
        assert send_signal(spawned.identity, signal.SIGTERM)

    ended = asyncio.run(keep(marker.script(SHAPES[shape], term_grace=0.2), tmp_path, stop))

    assert ended["why"] == "stopped"
    assert not marker.held()


LEFTOVERS = {
    "holds the output": "",
    "closed the output": "[os.close(fd) for fd in (0, 1, 2)]",
    "in a session of its own, deaf to TERM": "os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)",
}


@pytest.mark.parametrize("left", LEFTOVERS)
def test_r28_what_a_command_leaves_behind_is_killed_when_it_ends(left, tmp_path):
    marker = Marker(tmp_path)
    script = f"""
got, told = os.pipe()
if os.fork() == 0:
    {LEFTOVERS[left] or "pass"}
    os.write(told, b"x"); rest()
os.read(got, 1)
os._exit(7)
"""
    ended = asyncio.run(keep(marker.script(script, term_grace=3600.0), tmp_path))  # with a grace it would not end

    assert (ended["why"], ended["exit_code"]) == ("exited", 7)
    assert not marker.held()


def test_a_child_that_cleans_up_keeps_the_grace_although_the_command_ended_at_once(tmp_path):
    marker = Marker(tmp_path)
    script = """
got, told = os.pipe()
if os.fork() == 0:
    def tidy(*_):
        signal.sigtimedwait([signal.SIGUSR2], 0.3)
        os.write(1, b"tidied"); os._exit(0)
    signal.signal(signal.SIGTERM, tidy); os.write(told, b"x"); rest()
os.read(got, 1); ready(); rest()
"""

    async def stop(spawned):
        await marker.ready()
        send_signal(spawned.identity, signal.SIGTERM)

    ended = asyncio.run(keep(marker.script(script), tmp_path, stop))

    assert (ended["why"], ended["signal"]) == ("stopped", signal.SIGTERM)
    assert (tmp_path / "output.0").read_bytes() == b"tidied"


STOPS_ITSELF = """
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"tidied"), os._exit(0)))
ready(); os.kill(os.getpid(), signal.SIGSTOP); rest()
"""


def test_a_stopped_process_wakes_up_to_hear_a_stop(tmp_path):
    marker = Marker(tmp_path)

    async def stop(spawned):
        await marker.ready()
        send_signal(spawned.identity, signal.SIGTERM)

    ended = asyncio.run(keep(marker.script(STOPS_ITSELF), tmp_path, stop))

    assert ended["exit_code"] == 0
    assert (tmp_path / "output.0").read_bytes() == b"tidied"


def test_a_stopped_process_wakes_up_to_hear_its_timeout(tmp_path):
    ended = timed_out_once_ready(Marker(tmp_path), STOPS_ITSELF)

    assert (ended["why"], ended["exit_code"], ended["output"]) == ("timed_out", 0, b"tidied")
