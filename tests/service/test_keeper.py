"""The keeper and the spawner as real processes (R-28)."""

import asyncio
import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rota.model.errors import SpawnFailed
from rota.model.records import ProcessIdentity
from rota.model.spec import OutputPolicy
from rota.model.states import Reason
from rota.runners.command import to_outcome
from rota.runners.output import read_all, read_output
from rota.runners.processes import alive, identity, send_signal, tagged
from rota.runners.spawn_client import IDLE_SECONDS
from rota.runners.watch import wait_keeper
from tests.service.keeping import PYTHON, RUN_ID, Marker, keep, launch_of, read, spawner, start_alone, umask
from tests.waiting import LONGEST_WAIT, until


def test_a_command_leaves_its_exit_code_and_its_output(tmp_path):
    ended = asyncio.run(keep(launch_of("/bin/sh", "-c", "echo out; echo err >&2; exit 3"), tmp_path))

    assert (ended["why"], ended["exit_code"], ended["signal"]) == ("exited", 3, None)
    assert (tmp_path / "output.0").read_bytes() == b"out\nerr\n"
    assert ended["output_bytes"] == 8
    assert ended["started_at_ms"] <= ended["finished_at_ms"]


def test_a_command_killed_by_a_signal_says_which(tmp_path):
    ended = asyncio.run(keep(launch_of("/bin/sh", "-c", "kill -9 $$"), tmp_path))

    assert (ended["exit_code"], ended["signal"]) == (None, 9)


@pytest.mark.parametrize("byte", [None, b"x"])
def test_r01_a_gate_that_is_not_opened_never_runs_the_command(byte, tmp_path):
    async def refuse():
        async with spawner() as running:
            spawned = await running.spawn(launch_of("/bin/sh", "-c", f"touch {tmp_path}/ran"), tmp_path)
            if byte is not None:
                spawned._channel._end.send(byte)
            spawned.close()
            await wait_keeper(spawned.identity)

    asyncio.run(refuse())

    assert os.listdir(tmp_path) == []


def test_a_stop_at_the_closed_gate_is_an_outcome_once_the_gate_opens(tmp_path):
    async def stop_first():
        async with spawner() as running:
            spawned = await running.spawn(launch_of("/bin/sh", "-c", f"touch {tmp_path}/ran"), tmp_path)
            send_signal(spawned.identity, signal.SIGTERM)
            start_alone(spawned)
            await wait_keeper(spawned.identity)

    asyncio.run(stop_first())

    assert read(tmp_path)["why"] == "stopped"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        (launch_of("no-such-program"), "cannot start 'no-such-program': no such file or directory"),
        (launch_of("/etc/passwd"), "cannot start '/etc/passwd': permission denied"),
        (launch_of("/bin/true", cwd="/nowhere"), "cannot start in '/nowhere': no such file or directory"),
        (launch_of("/bin/true", "a\0b"), "cannot start '/bin/true': embedded null byte"),
        (launch_of("/bin/true", "x" * 3_000_000), "cannot start '/bin/true': argument list too long"),
    ],
    ids=["not found", "not executable", "no folder", "nul byte", "too long"],
)
def test_a_command_that_cannot_start_says_why_and_names_it(launch, words, tmp_path):
    ended = asyncio.run(keep(launch, tmp_path))

    assert (ended["why"], ended["error"]) == ("spawn_failed", words)
    assert (ended["exit_code"], ended["signal"]) == (None, None)


def test_a_script_without_a_first_line_is_explained(tmp_path):
    script = tmp_path / "script"
    script.write_text("echo hello\n")
    script.chmod(0o700)

    ended = asyncio.run(keep(launch_of(str(script)), tmp_path))

    assert (
        ended["error"] == f"cannot start '{script}': exec format error (a script needs a first line such as #!/bin/sh)"
    )


def test_a_relative_program_is_looked_for_in_the_commands_folder(tmp_path):
    (tmp_path / "hello").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "hello").chmod(0o700)

    ended = asyncio.run(keep(launch_of("./hello", cwd=str(tmp_path)), tmp_path))

    assert ended["exit_code"] == 0


def test_the_path_of_the_job_finds_the_program(tmp_path):
    (tmp_path / "hello").write_text("#!/bin/sh\necho from here\n")
    (tmp_path / "hello").chmod(0o700)

    asyncio.run(keep(launch_of("hello", env={"PATH": str(tmp_path)}), tmp_path))

    assert (tmp_path / "output.0").read_bytes() == b"from here\n"


SURROUNDINGS = """
import os, signal, json, sys
files = [fd for fd in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{fd}")]
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print(json.dumps({"env": dict(os.environ), "files": files, "stdin": os.readlink("/proc/self/fd/0"),
    "ignored": int(status["SigIgn"], 16), "blocked": int(status["SigBlk"], 16), "umask": int(status["Umask"], 8),
    "leader": os.getsid(0) == os.getpid(), "cwd": os.getcwd()}))
"""


def bits(*signals):
    return sum(1 << number - 1 for number in signals)


def ignored_here():
    """Return what the shell that started the tests had ignored: nohup HUP, a shell in the background INT and QUIT."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_command_starts_in_clean_surroundings(tmp_path):
    launch = launch_of(*PYTHON, SURROUNDINGS, cwd=str(tmp_path), env={"UGLY": "\udcff"})

    with umask(0o027):
        asyncio.run(keep(launch, tmp_path))
    seen = json.loads((tmp_path / "output.0").read_bytes())

    assert seen["env"].items() >= dict(launch.env).items()
    assert set(seen["env"]) - set(launch.env) <= {"LC_CTYPE"}, "Python sets LC_CTYPE for itself"
    assert seen["files"] == [0, 1, 2]
    assert seen["stdin"] == "/dev/null"
    expected = bits(signal.SIGPIPE, signal.SIGXFSZ, 32, 33) | ignored_here() & ~bits(signal.SIGHUP, signal.SIGINT)
    assert seen["ignored"] & ~expected == 0, "Python ignores PIPE and XFSZ; 32 and 33 are the C library's own"
    assert seen["blocked"] == 0
    assert seen["umask"] == 0o027
    assert seen["leader"]
    assert seen["cwd"] == str(tmp_path)


def test_hangup_and_interrupt_do_not_disturb_a_keeper(tmp_path):
    marker = Marker(tmp_path)

    async def disturb(spawned):
        await marker.ready()
        send_signal(spawned.identity, signal.SIGHUP)
        send_signal(spawned.identity, signal.SIGINT)
        send_signal(spawned.identity, signal.SIGTERM)

    ended = asyncio.run(keep(marker.script("ready(); rest()"), tmp_path, disturb))

    assert ended["why"] == "stopped"


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGUSR1])
def test_a_second_stop_kills_at_once(second, tmp_path):
    marker = Marker(tmp_path)
    script = "signal.signal(signal.SIGTERM, lambda *_: ready()); ready(); rest()"

    async def twice(spawned):
        await marker.ready()
        send_signal(spawned.identity, signal.SIGTERM)
        await marker.ready()
        send_signal(spawned.identity, second)

    ended = asyncio.run(keep(marker.script(script, term_grace=3600.0), tmp_path, twice))

    assert (ended["why"], ended["signal"]) == ("stopped", signal.SIGKILL)


def test_a_stop_lets_the_command_tidy_up_and_keeps_its_exit_code(tmp_path):
    marker = Marker(tmp_path)
    script = "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'bye'), os._exit(4))); ready(); rest()"

    async def stop(spawned):
        await marker.ready()
        send_signal(spawned.identity, signal.SIGTERM)

    ended = asyncio.run(keep(marker.script(script), tmp_path, stop))

    assert (ended["why"], ended["exit_code"]) == ("stopped", 4)
    assert (tmp_path / "output.0").read_bytes() == b"bye"


@pytest.mark.parametrize("policy", OutputPolicy)
def test_r21_a_flood_is_bounded_on_disk_and_in_memory(policy, tmp_path):
    peak = 0

    async def watch(spawned):
        nonlocal peak
        keeper = psutil.Process(spawned.identity.pid)
        gone = asyncio.ensure_future(wait_keeper(spawned.identity))
        while not gone.done():
            with contextlib.suppress(psutil.Error):
                peak = max(peak, keeper.memory_info().rss)
            await asyncio.wait([gone], timeout=0.02)

    flood = launch_of("/bin/sh", "-c", "head -c 60000000 /dev/zero; echo end", output=policy)
    ended = asyncio.run(keep(flood, tmp_path, watch))

    stored = sum(path.stat().st_size for path in tmp_path.glob("output.*"))
    assert ended["output_bytes"] == 60_000_004
    assert stored <= 10_000_000
    assert (policy is OutputPolicy.NONE) == (stored == 0)
    assert b"".join(read_output(tmp_path)).endswith(b"end\n") or policy is OutputPolicy.NONE
    assert peak < 40_000_000


def test_output_that_cannot_be_stored_is_marked_and_does_not_hurt_the_run(tmp_path):
    (tmp_path / "output.0").mkdir()

    ended = asyncio.run(keep(launch_of("/bin/sh", "-c", "echo lost"), tmp_path))

    assert (ended["exit_code"], ended["output_bytes"], ended["truncated"]) == (0, 5, True)
    assert "Is a directory" in ended["output_error"]


def test_an_outcome_that_cannot_be_stored_waits_in_memory(tmp_path):
    marker = Marker(tmp_path)
    (tmp_path / "outcome.json.tmp").mkdir()

    async def make_room(spawned):
        await marker.ready()
        gone = asyncio.ensure_future(wait_keeper(spawned.identity))
        while marker.held():
            await asyncio.wait([gone], timeout=0.02)
        assert not gone.done()
        (tmp_path / "outcome.json.tmp").rmdir()

    ended = asyncio.run(keep(marker.script("ready(); os._exit(5)"), tmp_path, make_room))

    assert ended["exit_code"] == 5


def test_a_stranger_who_holds_the_output_open_is_not_waited_for(tmp_path):
    """A process outside the tree got the pipe by descriptor passing; the run ends without it."""
    script = """
import os, socket
channel = socket.socket(socket.AF_UNIX)
channel.connect(os.environ["CHANNEL"])
socket.send_fds(channel, [b"x"], [1])
channel.recv(1)
"""
    path = str(tmp_path / "channel")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(1)
    server.setblocking(False)

    async def hold(_):
        accepted, _ = await asyncio.get_running_loop().sock_accept(server)
        accepted.setblocking(True)
        _, files, _, _ = socket.recv_fds(accepted, 1, 1)
        accepted.send(b"x")
        held.extend(files)

    held = []
    ended = asyncio.run(keep(launch_of(*PYTHON, script, env={"CHANNEL": path}), tmp_path, hold))

    assert ended["exit_code"] == 0
    assert held, "the pipe was open elsewhere until now"
    os.close(held[0])
    server.close()


DAEMON = """
import asyncio, fcntl, json, os, sys
sys.path.insert(0, {root!r})
from tests.service.keeping import launch_of
from pathlib import Path
from rota.runners.spawn_client import Spawner

async def main():
    lock = os.open({folder!r} + "/lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    spawner = Spawner()
    launch = launch_of("/bin/sh", "-c", "echo begun; read go < {folder}/go; echo done; exit 7")
    spawned = await spawner.spawn(launch, Path({folder!r}))
    spawned.open()
    print(json.dumps([spawned.identity.boot_id, spawned.identity.pid, spawned.identity.start, spawner.pid]), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_r28_a_killed_scheduler_loses_neither_exit_code_nor_output_and_frees_its_lock(tmp_path):
    os.mkfifo(tmp_path / "go")
    program = DAEMON.format(root=str(Path(__file__).parents[2]), folder=str(tmp_path))
    daemon = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    boot, pid, start, spawner_pid = json.loads(daemon.stdout.readline())
    keeper, helper = ProcessIdentity(boot, pid, start), identity(spawner_pid)

    daemon.kill()
    assert daemon.stdout.read() == b"", "nobody else holds the scheduler's output"
    daemon.wait()
    lock = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(lock)
    assert alive(keeper)
    asyncio.run(asyncio.wait_for(wait_keeper(helper), LONGEST_WAIT))
    (tmp_path / "go").write_text("go\n")
    asyncio.run(asyncio.wait_for(wait_keeper(keeper), LONGEST_WAIT))

    assert read(tmp_path)["exit_code"] == 7
    assert (tmp_path / "output.0").read_bytes() == b"begun\ndone\n"


def test_a_dead_spawner_is_replaced_at_the_next_spawn_and_its_keepers_live_on(tmp_path):
    marker = Marker(tmp_path)
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()

    async def kill_between():
        async with spawner() as running:
            kept = await running.spawn(marker.script("ready(); rest()"), first)
            start_alone(kept)
            await marker.ready()
            lost = identity(running.pid)
            os.kill(lost.pid, signal.SIGKILL)
            await wait_keeper(lost)
            again = await running.spawn(launch_of("/bin/true"), second)
            start_alone(again)
            await wait_keeper(again.identity)
            assert alive(kept.identity)
            send_signal(kept.identity, signal.SIGTERM)
            await wait_keeper(kept.identity)

    asyncio.run(kill_between())

    assert (read(first)["why"], read(second)["exit_code"]) == ("stopped", 0)


def test_many_spawns_at_once_each_get_their_own_keeper(tmp_path):
    async def spawn_all():
        async with spawner() as running:
            folders = [tmp_path / str(number) for number in range(60)]
            for folder in folders:
                folder.mkdir()
            launches = [launch_of("/bin/sh", "-c", f"exit {number}") for number in range(60)]
            spawned = await asyncio.gather(*map(running.spawn, launches, folders))
            for one in spawned:
                start_alone(one)
            await asyncio.gather(*(wait_keeper(one.identity) for one in spawned))
            return [read(folder)["exit_code"] for folder in folders]

    assert asyncio.run(spawn_all()) == list(range(60))


def test_a_cancelled_spawn_leaves_no_keeper_and_does_not_mix_up_the_replies(tmp_path):
    async def cancel_one():
        async with spawner() as running:
            gone = asyncio.ensure_future(running.spawn(launch_of("/bin/sh", "-c", "exit 1"), tmp_path))
            for _ in range(3):
                await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0)
            gone.cancel()
            kept = await running.spawn(launch_of("/bin/sh", "-c", "exit 2"), tmp_path)
            start_alone(kept)
            await wait_keeper(kept.identity)
            with pytest.raises(asyncio.CancelledError):
                await gone

    asyncio.run(cancel_one())

    assert read(tmp_path)["exit_code"] == 2


def test_a_stopped_spawner_says_so_to_those_who_wait(tmp_path):
    async def stop_under():
        async with spawner() as running:
            asked = asyncio.ensure_future(running.spawn(launch_of("/bin/true"), tmp_path))
            while not running._replies:
                await asyncio.wait([asked], timeout=0)
            running.stop()
            with pytest.raises(SpawnFailed, match="was stopped"):
                await asked

    asyncio.run(stop_under())


UNKILLABLE = """
import json, os, socket, sys
from rota.runners.keeper import keep; from rota.runners.keeper import listen_to_orders
listen_to_orders()
spec = json.loads(sys.argv[1])
file = os.memfd_create("spec"); os.write(file, json.dumps(spec).encode())
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
socket.send_fds(ours, [b"r"], [file]); ours.close()
keep(theirs)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="uses ptrace to make a process that cannot be reaped")
def test_what_cannot_be_killed_ends_the_run_as_unkillable_with_its_pids(tmp_path):
    marker = Marker(tmp_path)
    launch = marker.script("os.write(1, str(os.getpid()).encode()); ready(); rest()", timeout=None, term_grace=0.1)
    spec = {
        "argv": launch.argv, "env": dict(launch.env), "cwd": "/", "timeout": None, "term_grace": 0.1,
        "output": "full", "output_limit": 1000, "folder": str(tmp_path), "unkillable_after": 0.3,
    }  # fmt: skip
    keeper = subprocess.Popen([sys.executable, "-c", UNKILLABLE, json.dumps(spec)])
    asyncio.run(marker.ready())
    output = tmp_path / "output.0"
    pid = int(until(lambda: output.exists() and output.read_text(), what="the command to say who it is"))
    traced = ctypes.CDLL(None, use_errno=True).ptrace(0x4206, pid, 0, 0)  # PTRACE_SEIZE
    if traced != 0:
        keeper.terminate()
        keeper.wait()
        pytest.skip("this system does not allow tracing")

    keeper.terminate()
    keeper.wait()
    os.kill(pid, signal.SIGKILL)
    while os.waitpid(pid, 0x40000000)[1] & 0xFF == 0x7F:  # __WALL: take every stop until its end
        ctypes.CDLL(None).ptrace(7, pid, 0, 0)  # PTRACE_CONT

    assert (read(tmp_path)["why"], read(tmp_path)["left"]) == ("unkillable", [pid])


def test_a_container_that_cannot_be_removed_in_time_is_told(tmp_path):
    (tmp_path / "cleanup.json").write_text(json.dumps(["sleep", "600"]))
    spec = {
        "argv": ["true"], "env": {"PATH": os.environ["PATH"]}, "cwd": "/", "timeout": None, "term_grace": 0.1,
        "output": "full", "output_limit": 1000, "folder": str(tmp_path), "cleanup_limit": 0.1,
    }  # fmt: skip
    assert subprocess.run([sys.executable, "-c", UNKILLABLE, json.dumps(spec)], check=False).returncode == 0

    outcome = to_outcome(read(tmp_path), tmp_path)
    assert (outcome.reason, outcome.error) == (
        Reason.UNKILLABLE,
        "the container may still run: sleep 600 did not finish",
    )


WATCHED = """
import json, os, signal, socket, sys
from rota.runners.keeper import keep; from rota.runners.keeper import listen_to_orders
os.fsync = lambda file: os.write(1, b"s")
listen_to_orders()
file = os.memfd_create("spec"); os.write(file, sys.argv[1].encode())
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
if os.fork() == 0:
    ours.close()
    keep(theirs)
theirs.close()
socket.send_fds(ours, [b"r"], [file])
if sys.argv[2] != "nobody":
    os.write(2, ours.recv(4096))
if sys.argv[2] == "scheduler":
    ours.send(b"s")
ours.close()
os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="hands the orders over in a file in memory")
@pytest.mark.parametrize(("records", "synced"), [("scheduler", b""), ("half a scheduler", b"ss"), ("nobody", b"ss")])
def test_an_outcome_is_stored_and_synced_where_no_scheduler_is_left_to_store_it(records, synced, tmp_path):
    """R-28: a scheduler commits the outcome at once; without one the file is all there is, also after a power cut.

    A scheduler that dies after it has heard the outcome has not stored it.
    """
    spec = {
        "argv": ["/bin/true"], "env": {}, "cwd": "/", "timeout": None, "term_grace": 1.0,
        "output": "none", "output_limit": 1000, "folder": str(tmp_path),
    }  # fmt: skip

    watched = subprocess.run(
        [sys.executable, "-c", WATCHED, json.dumps(spec), records], capture_output=True, check=True
    )

    assert watched.stdout == synced
    assert (tmp_path / "outcome.json").exists() == bool(synced)
    told = [json.loads(line) for line in watched.stderr.splitlines()]
    assert {one["exit_code"] for one in [*told, *([read(tmp_path)] if synced else [])]} == {0}


def test_a_keeper_takes_run_after_run(tmp_path):
    """R-28: one keeper, another folder and environment for each run, and nothing of one in the next."""

    async def two():
        async with spawner() as running:
            seen = []
            for number in (1, 2):
                folder = tmp_path / str(number)
                folder.mkdir()
                script = f"echo $N $OTHER > {folder}/said; pwd; exit {number}"
                env = {"N": str(number)} | ({"OTHER": "first"} if number == 1 else {})
                spawned = await running.spawn(launch_of("/bin/sh", "-c", script, env=env, cwd=str(folder)), folder)
                spawned.open()
                told = json.loads(await running.channel(spawned.identity).reply())
                running.settle(spawned.identity)
                seen.append((spawned.identity, told["exit_code"], (folder / "said").read_text().split()))
            return seen

    (first, one, said), (second, two_, said_then) = asyncio.run(two())

    assert (first, one, two_) == (second, 1, 2)
    assert (said, said_then) == (["1", "first"], ["2"])
    assert [(tmp_path / str(number) / "output.0").read_text() for number in (1, 2)] == [
        f"{tmp_path}/{number}\n" for number in (1, 2)
    ]
    assert not list(tmp_path.rglob("outcome.json"))


def test_a_reserved_keeper_takes_its_next_order_for_a_word_that_its_outcome_is_stored(tmp_path):
    """R-28: the next run is stored with that outcome, so the keeper must neither hold nor write it any longer."""

    async def two():
        async with spawner() as running:
            for name in ("one", "two"):
                (tmp_path / name).mkdir()
            spawned = await running.spawn(launch_of("/bin/sh", "-c", "exit 1"), tmp_path / "one")
            assert running.reserve(2, [spawned.identity]) == []  # it has not answered
            spawned.open()
            await running.channel(spawned.identity).reply()
            reserved = running.reserve(2, [spawned.identity])
            running.settle(spawned.identity)  # stored, as is the start of the next run
            following = running.spawn_reserved(launch_of("/bin/sh", "-c", "exit 2"), tmp_path / "two", reserved[0])
            start_alone(following)
            await asyncio.wait_for(wait_keeper(spawned.identity), LONGEST_WAIT)
            return [spawned.identity] == reserved == [following.identity]

    assert asyncio.run(two())
    assert [path.parent.name for path in tmp_path.rglob("outcome.json")] == ["two"]
    assert read(tmp_path / "two")["exit_code"] == 2


@pytest.mark.parametrize("claimed", [True, False])
def test_a_reserved_keeper_without_a_run_goes_back_or_leaves_with_its_outcome(claimed, tmp_path):
    async def back():
        async with spawner() as running:
            spawned = await running.spawn(launch_of("/bin/sh", "-c", "exit 1"), tmp_path)
            spawned.open()
            await running.channel(spawned.identity).reply()
            reserved = running.reserve(1, [spawned.identity])
            running.dismiss(spawned.identity)  # its claim decides
            running.release(reserved, claimed=claimed)
            running.settle(spawned.identity)
            if claimed:
                return running.reserve(1, []) == reserved
            await asyncio.wait_for(wait_keeper(spawned.identity), LONGEST_WAIT)
            return read(tmp_path)["exit_code"] == 1

    assert asyncio.run(back())


def test_a_keeper_that_claims_reserve_without_a_run_for_it_still_leaves(tmp_path):
    """Claims of functions reserve keepers all the time; nothing may keep those alive, or wake them each time."""

    async def reserve_again():
        async with spawner() as running:
            spawned = await running.spawn(launch_of("/bin/true"), tmp_path)
            spawned.open()
            channel = running.channel(spawned.identity)
            await channel.reply()
            running.settle(spawned.identity)
            rested = channel.idle_since
            for _ in range(3):
                assert running.reserve(1, []) == [spawned.identity]
                running.release([spawned.identity], claimed=True)
            assert (channel.idle_since, channel.unconfirmed) == (rested, False)
            channel.idle_since -= IDLE_SECONDS
            assert running.reserve(1, []) == []
            await asyncio.wait_for(wait_keeper(spawned.identity), LONGEST_WAIT)

    asyncio.run(reserve_again())
    assert not (tmp_path / "outcome.json").exists()


def test_a_long_order_comes_in_a_file_and_takes_no_reserved_keeper(tmp_path):
    async def long():
        async with spawner() as running:
            launch = launch_of("/bin/sh", "-c", "exit ${#LONG}", env={"LONG": "x" * 100_000})
            spawned = await running.spawn(launch, tmp_path)
            spawned.open()
            told = json.loads(await running.channel(spawned.identity).reply())
            reserved = running.reserve(1, [spawned.identity])
            return told["exit_code"], running.spawn_reserved(launch, tmp_path, reserved[0])

    assert asyncio.run(long()) == (100_000 % 256, None)


@pytest.mark.parametrize("how", ["signalled", "killed", "spawner lost"])
def test_a_keeper_that_cannot_be_trusted_gets_no_other_run(how, tmp_path):
    async def again():
        async with spawner() as running:
            spawned = await running.spawn(launch_of("/bin/true"), tmp_path)
            spawned.open()
            channel = running.channel(spawned.identity)
            await channel.reply()
            if how == "signalled":
                channel.reusable = False  # as `CommandRunner.stop` leaves it
            if how == "spawner lost":
                lost = identity(running.pid)
                os.kill(lost.pid, signal.SIGKILL)
                await wait_keeper(lost)
                while channel.reusable:
                    await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.01)
            running.settle(spawned.identity)
            if how == "killed":
                os.kill(spawned.identity.pid, signal.SIGKILL)
            await asyncio.wait_for(wait_keeper(spawned.identity), LONGEST_WAIT)
            other = await running.spawn(launch_of("/bin/sh", "-c", "exit 4"), tmp_path)
            other.open()
            assert json.loads(await running.channel(other.identity).reply())["exit_code"] == 4
            return spawned.identity, other.identity

    first, second = asyncio.run(again())
    assert first != second


def test_a_stop_meant_for_all_does_not_end_the_spawner_before_its_scheduler(tmp_path):
    """A service manager may send TERM to every process of the service; those that still start need the spawner."""

    async def stop_it():
        async with spawner() as running:
            running.start()
            asked = await running.spawn(launch_of("/bin/true"), tmp_path)
            pid = running.pid
            os.kill(pid, signal.SIGTERM)
            start_alone(asked)
            await wait_keeper(asked.identity)
            again = await running.spawn(launch_of("/bin/true"), tmp_path)
            start_alone(again)
            await wait_keeper(again.identity)
            assert running.pid == pid

    asyncio.run(stop_it())


def test_the_specification_with_its_secrets_is_never_a_named_file(tmp_path):
    """R-27."""

    async def look():
        async with spawner() as running:
            spawned = await running.spawn(launch_of("/bin/true", env={"TOKEN": "s3cret"}), tmp_path)
            assert os.listdir(tmp_path) == []
            assert "s3cret" not in " ".join(psutil.Process(spawned.identity.pid).cmdline())
            spawned.close()
            await wait_keeper(spawned.identity)

    asyncio.run(look())


def test_secrets_are_taken_out_of_the_output_r_27(tmp_path):
    """R-27: also one that is written in two pieces, and the last bytes of a stream that looked like one."""
    script = "printf 'a %s b\\ntok' $TOKEN; sleep 0.1; printf 'en-4711\\ntoken-4'"
    env = {"TOKEN": "token-4711", "PATH": os.defpath}

    async def play():
        async with spawner() as running:
            launch = launch_of("/bin/sh", "-c", script, env=env, secret=("TOKEN",))
            spawned = await running.spawn(launch, tmp_path)
            start_alone(spawned)
            await wait_keeper(spawned.identity)

    asyncio.run(play())
    assert read_all(tmp_path) == b"a *** b\n***\ntoken-4"


def test_a_tagged_search_finds_the_command_and_not_its_keeper(tmp_path):
    marker = Marker(tmp_path)
    found = []

    async def search(spawned):
        await marker.ready()
        found.extend(tagged(RUN_ID))
        assert spawned.identity.pid not in found
        send_signal(spawned.identity, signal.SIGTERM)

    asyncio.run(keep(marker.script("ready(); rest()"), tmp_path, search))

    assert len(found) == 1


def test_without_pidfds_the_end_of_a_keeper_is_seen_by_looking(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    marker = Marker(tmp_path)

    async def stop(spawned):
        await marker.ready()
        assert send_signal(spawned.identity, signal.SIGTERM)

    ended = asyncio.run(keep(marker.script("ready(); rest()"), tmp_path, stop))

    assert ended["why"] == "stopped"


def test_a_keeper_whose_folder_is_gone_leaves(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    marker = Marker(tmp_path)

    async def remove():
        async with spawner() as running:
            spawned = await running.spawn(marker.script("ready(); rest()"), folder)
            start_alone(spawned)
            await marker.ready()
            shutil.rmtree(folder)
            send_signal(spawned.identity, signal.SIGTERM)
            await asyncio.wait_for(wait_keeper(spawned.identity), LONGEST_WAIT)

    asyncio.run(remove())

    assert not marker.held()
    assert not folder.exists()
