"""Who is alive, who is a reused pid, who belongs to a run (R-22, R-23)."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from msgspec.structs import replace

from rota.model.ids import new_id
from rota.runners import processes, tree


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_we_are_alive():
    assert processes.alive(processes.identity())


def test_r23_a_reused_pid_is_another_process(sleeper):
    found = processes.identity(sleeper.pid)

    assert processes.alive(found)
    assert not processes.alive(replace(found, start=found.start - 1))


def test_r23_a_process_of_another_boot_is_dead(sleeper):
    assert not processes.alive(replace(processes.identity(sleeper.pid), boot_id="another"))


def test_r23_a_zombie_is_dead(sleeper):
    found = processes.identity(sleeper.pid)

    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)

    assert processes.start_time(sleeper.pid) == found.start
    assert not processes.alive(found)


def test_there_is_no_identity_of_nobody(sleeper):
    sleeper.kill()
    sleeper.wait()

    with pytest.raises(ProcessLookupError):
        processes.identity(sleeper.pid)


def test_a_signal_never_reaches_a_reused_pid(sleeper):
    found = processes.identity(sleeper.pid)

    assert not processes.send_signal(replace(found, start=found.start - 1), signal.SIGKILL)
    assert sleeper.poll() is None
    assert processes.send_signal(found, signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL


def test_a_process_name_with_brackets_and_spaces_does_not_confuse_the_start_time(tmp_path):
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "60"]) as process:
        assert processes.alive(processes.identity(process.pid))
        process.kill()


def test_killing_the_tagged_reaches_their_children_too_and_not_us(clock_now, monkeypatch):
    run_id = new_id(clock_now)
    monkeypatch.setenv(processes.TAG, run_id)
    script = "env -i sleep 60 & env -i setsid sleep 60 & echo ready; wait"
    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        children = tree.descendants(process.pid)

        assert processes.tagged(run_id)
        assert os.getpid() not in processes.tagged(run_id)
        reap(process)
        assert processes.kill_tagged(run_id) == []

    assert children
    assert not any(running(pid) for pid in children)


def reap(process):
    """Let the kernel drop the killed process although its parent, this test, is busy killing."""
    threading.Thread(target=process.wait, daemon=True).start()


def running(pid):
    fields = tree.stat_fields(pid)
    return bool(fields) and fields[0] not in (b"Z", b"X")


def test_there_is_nothing_to_kill_when_nobody_carries_the_tag(clock_now):
    assert processes.kill_tagged(new_id(clock_now)) == []


@pytest.mark.skipif(sys.platform != "linux", reason="compares the two ways Linux offers")
def test_descendants_are_the_same_with_and_without_the_kernels_list_of_children(monkeypatch):
    script = "sleep 60 & (sleep 60 & wait) & echo ready; wait"
    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as process:
        process.stdout.readline()
        while len(tree.descendants(process.pid)) < 3:
            pass
        listed = tree.descendants(process.pid)
        monkeypatch.setattr(os.path, "exists", lambda _: False)
        scanned = tree.descendants(process.pid)
        os.killpg(process.pid, signal.SIGKILL)

    assert sorted(scanned) == sorted(listed)
