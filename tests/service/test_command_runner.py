"""Commands from their launch to their outcome (R-21, R-23, R-27, R-28)."""

import asyncio
import json
import os
import signal
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.engine.processes import may_hang
from rota.model.errors import SpawnFailed, StorageFull
from rota.model.ids import IdSource
from rota.model.spec import Kind, Work
from rota.model.states import Reason, Status
from rota.runners.command import CommandRunner
from rota.runners.files import read_index
from rota.runners.processes import tagged
from rota.runners.spawn_client import Spawner
from rota.runners.watch import wait_keeper
from rota.settings import Settings
from tests.service.keeping import TIMEOUTS, Marker, launch_of, umask
from tests.waiting import LONGEST_WAIT

RUN_ID = IdSource().new(datetime(2026, 11, 15, tzinfo=UTC))


def shell(text, **options):
    options["env"] = {"ROTA_RUN_ID": RUN_ID} | options.get("env", {})
    return launch_of("/bin/sh", "-c", text, **options)


def check(text, *, timeout=60.0, cwd="/"):
    return {"argv": ("/bin/sh", "-c", text), "cwd": cwd, "timeout": timeout}


def outcome_of(launch, state, act=None):
    limits = Work(
        kind=Kind.COMMAND,
        timeout=None if launch.timeout is None else timedelta(seconds=launch.timeout),
        term_grace=timedelta(seconds=launch.term_grace),
    )

    async def whole():
        spawner = Spawner()
        runner = CommandRunner(spawner, state, slack=0.5)
        folder = runner.folder(RUN_ID)
        spawned = await runner.launch(launch, folder)
        spawned.open()
        if act is not None:
            await act(runner, spawned)
        try:
            outcome = await asyncio.wait_for(runner.outcome(folder, spawned.identity, limits), LONGEST_WAIT)
            runner.settle(spawned.identity, stored=True)
            return outcome
        finally:
            spawner.stop()

    return asyncio.run(whole())


def test_exit_zero_is_completed(tmp_path):
    outcome = outcome_of(shell("echo hi"), tmp_path)

    assert (outcome.status, outcome.exit_code, outcome.summary, outcome.output_bytes) == (Status.COMPLETED, 0, None, 3)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("echo 'repository locked'; exit 3", "exit 3: repository locked"),
        ("exit 4", "exit 4"),
        (r"printf 'one\n\033[31mtwo\033[0m\n\n'; exit 1", "exit 1: two"),
        ("kill -9 $$", "killed by signal 9 (SIGKILL)"),
        ("kill -40 $$", "killed by signal 40"),
    ],
)
def test_a_failed_command_says_why_in_one_line(text, error, tmp_path):
    outcome = outcome_of(shell(text), tmp_path)

    assert (outcome.status, outcome.reason, outcome.error) == (Status.FAILED, Reason.EXIT_CODE, error)


def test_a_timeout_is_told_with_its_length(tmp_path):
    outcome = outcome_of(shell("sleep 60", timeout=0.1), tmp_path)

    assert (outcome.reason, outcome.error) == (Reason.TIMED_OUT, "timed out after 0.1 s")


def test_a_run_without_output_for_its_idle_timeout_is_ended_with_its_tree(tmp_path):
    marker = Marker(tmp_path)
    launch = marker.script("print('on', flush=True)\nready()\nrest()", idle_timeout=0.5)
    outcome = outcome_of(launch, tmp_path)

    assert (outcome.reason, outcome.error) == (Reason.IDLE, "no output for 0.5 s")
    assert not marker.held()


CHATTY = """
import time
end = time.monotonic() + 3.5
while time.monotonic() < end:
    os.write({stream}, b".")
    time.sleep(0.02)
"""


@pytest.mark.parametrize("stream", [1, 2])
def test_every_byte_of_output_or_of_errors_begins_the_idle_timeout_anew(stream, tmp_path):
    launch = Marker(tmp_path).script(CHATTY.format(stream=stream), idle_timeout=3.0, errors_apart=True)

    assert outcome_of(launch, tmp_path).status is Status.COMPLETED


def test_a_postcondition_may_be_silent(tmp_path):
    launch = shell("true", idle_timeout=2.0, postcondition=check("sleep 2.2"))

    assert outcome_of(launch, tmp_path).status is Status.COMPLETED


def test_a_looping_agent_is_ended_with_its_tree(tmp_path):
    marker = Marker(tmp_path)
    event = {"type": "tool_use", "tool_name": "run", "parameters": {"command": "make"}}
    text = f"for _ in range(3): print({json.dumps(event)!r}, flush=True)\nready()\nrest()"
    outcome = outcome_of(marker.script(text, guard={"stream": "gemini", "limit": 3}), tmp_path)

    assert outcome.reason is Reason.LOOPING
    assert outcome.error == 'the agent called run {"command": "make"} 3 times in a row'
    assert not marker.held()


def test_an_agent_at_its_limit_of_turns_is_ended_with_its_tree(tmp_path):
    marker = Marker(tmp_path)
    event = {"type": "step_start", "part": {"messageID": "m"}}
    text = f"for _ in range(3): print({json.dumps(event)!r}, flush=True)\nready()\nrest()"
    guard = {"stream": "opencode", "limit": None, "max_turns": 2, "max_usd": None}
    outcome = outcome_of(marker.script(text, guard=guard), tmp_path)

    assert (outcome.reason, outcome.error) == (Reason.AGENT_ERROR, "opencode was stopped at max_turns (2)")
    assert not marker.held()


def test_a_failed_start_is_told(tmp_path):
    outcome = outcome_of(launch_of("nope"), tmp_path)

    assert (outcome.reason, outcome.error) == (Reason.SPAWN_FAILED, "cannot start 'nope': no such file or directory")


@pytest.mark.parametrize("at_once", [False, True])
def test_r08_a_stopped_command_is_failed_by_shutdown_until_somebody_says_otherwise(at_once, tmp_path):
    marker = Marker(tmp_path)

    async def stop(runner, spawned):
        await marker.ready()
        assert runner.stop(spawned.identity, at_once=at_once)

    outcome = outcome_of(marker.script("ready(); rest()"), tmp_path, stop)

    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.SHUTDOWN)


def test_a_folder_that_cannot_be_made_is_a_failed_start(tmp_path):
    (tmp_path / "runs").write_text("in the way")

    with pytest.raises(SpawnFailed, match=r"cannot be written: not a directory|cannot be written: file exists"):
        outcome_of(shell("true"), tmp_path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_not_the_fault_of_the_run(tmp_path):
    folder = CommandRunner(Spawner(), tmp_path).folder(RUN_ID)
    folder.mkdir(parents=True)
    try:
        os.mknod(folder / "params.json", 0o600 | stat.S_IFCHR, os.stat("/dev/full").st_rdev)
    except PermissionError:
        pytest.skip("only a privileged user may make such a device")

    with pytest.raises(StorageFull, match="no space left on device"):
        outcome_of(shell("true", files={"params.json": "{}"}), tmp_path)


def test_stopping_what_is_gone_is_said_and_harmless(tmp_path):
    async def late(runner, spawned):
        spawned.close()
        await wait_keeper(spawned.identity)
        assert not runner.stop(spawned.identity)
        assert not runner.stop(spawned.identity, at_once=True)

    assert outcome_of(shell("true"), tmp_path, late).status is Status.COMPLETED


@pytest.mark.skipif(sys.platform != "linux", reason="the sweep by tag reads /proc")
def test_r23_a_killed_keeper_leaves_a_run_that_was_restarted_and_no_process(tmp_path):
    marker = Marker(tmp_path)

    async def kill(_, spawned):
        await marker.ready()
        assert tagged(RUN_ID)
        os.kill(spawned.identity.pid, signal.SIGKILL)

    script = "os.setsid() if os.fork() == 0 else None\nready(); rest()"
    outcome = outcome_of(marker.script(script, env={"ROTA_RUN_ID": RUN_ID}), tmp_path, kill)

    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.PROCESS_RESTARTED)
    assert tagged(RUN_ID) == []
    assert not marker.held()


STOPS_ITS_KEEPER = "keeper = os.getppid(); os.kill(keeper, signal.SIGSTOP); ready(); rest()"
KEEPS_STOPPING_IT = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
keeper = os.getppid()
os.kill(keeper, signal.SIGSTOP)
ready()
while True: os.kill(keeper, signal.SIGSTOP)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="whether a process is stopped is read from /proc")
@pytest.mark.parametrize("script", [STOPS_ITS_KEEPER, KEEPS_STOPPING_IT], ids=["once", "again and again"])
def test_r28_a_run_that_stops_its_keeper_is_timed_out(script, tmp_path):
    marker = Marker(tmp_path)

    outcome = outcome_of(marker.script(script, timeout=1.0, term_grace=0.1, env={"ROTA_RUN_ID": RUN_ID}), tmp_path)

    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.TIMED_OUT)
    assert outcome.error.startswith("timed out after 1 s")
    assert not marker.held()


@pytest.mark.skipif(sys.platform != "linux", reason="whether a process is stopped is read from /proc")
@pytest.mark.parametrize("script", [STOPS_ITS_KEEPER, KEEPS_STOPPING_IT], ids=["once", "again and again"])
@pytest.mark.parametrize("at_once", [False, True])
def test_r28_a_run_that_stops_its_keeper_is_stopped(at_once, script, tmp_path):
    marker = Marker(tmp_path)

    async def stop(runner, spawned):
        await marker.ready()
        assert runner.stop(spawned.identity, at_once=at_once)

    outcome = outcome_of(marker.script(script, term_grace=0.1, env={"ROTA_RUN_ID": RUN_ID}), tmp_path, stop)

    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.SHUTDOWN)
    assert not marker.held()


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no subreaper")
def test_r28_a_run_that_kills_its_keeper_and_hides_leaves_no_process(tmp_path):
    """Its daemon has neither the run's tag nor a parent that belongs to it: the spawner inherits and kills it."""
    marker = Marker(tmp_path)
    hides = """
keeper = os.getppid()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c",
            f"import os, signal; os.write({mark}, b'r'); os.kill({keeper}, 9); signal.pause()"], {})
    os._exit(0)
rest()
"""

    async def ended(_runner, spawned):
        await wait_keeper(spawned.identity)
        while marker.held():
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.01)

    outcome = outcome_of(marker.script(hides, env={"ROTA_RUN_ID": RUN_ID}), tmp_path, ended)

    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.PROCESS_RESTARTED)
    assert not marker.held()


def test_a_damaged_outcome_file_counts_as_none(tmp_path):
    async def damage(runner, spawned):
        spawned.close()
        await wait_keeper(spawned.identity)
        (runner.folder(RUN_ID) / "outcome.json").write_text("{")

    assert outcome_of(shell("true"), tmp_path, damage).reason is Reason.PROCESS_RESTARTED


def result_launch(state, text, code=0):
    path = CommandRunner(Spawner(), state).folder(RUN_ID) / "result.json"
    return shell('printf %s "$TEXT" > "$ROTA_RESULT_FILE"; exit $CODE', env={
        "TEXT": text, "CODE": str(code), "ROTA_RESULT_FILE": str(path)})  # fmt: skip


def test_the_result_file_gives_summary_state_and_files(tmp_path):
    text = json.dumps({"summary": "3 mails", "state": {"last": 1}, "files": ["a"]})

    outcome = outcome_of(result_launch(tmp_path, text), tmp_path)

    assert (outcome.summary, outcome.state, outcome.files) == ("3 mails", {"last": 1}, ("a",))


def test_the_files_of_a_result_are_copied_before_the_end_is_told(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("token hunter-22-two")
    result = CommandRunner(Spawner(), tmp_path).folder(RUN_ID) / "result.json"
    text = json.dumps({"files": ["a", "/etc/passwd"]})
    env = {"TEXT": text, "ROTA_RESULT_FILE": str(result), "TOKEN": "hunter-22-two"}
    launch = shell('printf %s "$TEXT" > "$ROTA_RESULT_FILE"', env=env, cwd=str(work), secret=("TOKEN",))

    assert outcome_of(launch, tmp_path).status is Status.COMPLETED
    assert (result.parent / "files" / "0").read_text() == "token ***"
    assert [entry["why"] for entry in read_index(str(result.parent))] == [None, "is outside of the working folder"]


def test_a_wrong_result_file_fails_a_command_that_exited_with_zero(tmp_path):
    outcome = outcome_of(result_launch(tmp_path, '{"sumary": 1}'), tmp_path)

    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.FAILED, Reason.RESULT_INVALID, 0)
    assert "'sumary'" in outcome.error


def test_a_wrong_result_file_does_not_hide_a_failed_command(tmp_path):
    assert outcome_of(result_launch(tmp_path, "{", code=3), tmp_path).reason is Reason.EXIT_CODE


HARD = 'to"ken\\4711'


@pytest.mark.parametrize(
    ("form", "shown"),
    [(HARD, "***"), (repr(HARD), "'***'"), ("dG8ia2VuXDQ3MTE=", "***"), ("to%22ken%5C4711", "***")],
)
def test_r27_what_a_run_says_about_itself_shows_no_secret(form, shown, tmp_path):
    said = json.dumps({"summary": f"a {form} b", "state": {"last": [form, 4711]}, "files": [form]})

    outcome = outcome_of(
        shell('printf %s "$SAID" > "$FILE"', env={"SAID": said, "T": HARD, **_result_file(tmp_path)}, secret=("T",)),
        tmp_path,
    )

    assert (outcome.summary, outcome.state) == (f"a {shown} b", {"last": [shown, 4711]})
    assert outcome.files == (shown,)
    assert not any(HARD in path.read_text() or form in path.read_text() for path in tmp_path.rglob("*.json"))


def test_r27_a_result_file_that_is_not_json_shows_no_secret_either(tmp_path):
    launch = shell('echo "{$T" > "$FILE"', env={"T": "token-4711", **_result_file(tmp_path)}, secret=("T",))

    assert outcome_of(launch, tmp_path).reason is Reason.RESULT_INVALID
    assert [path.read_text() for path in tmp_path.rglob("result.json")] == ["{***\n"]


def _result_file(state):
    return {"FILE": str(CommandRunner(Spawner(), state).folder(RUN_ID) / "result.json")}


def test_the_files_of_a_run_are_closed_to_others(tmp_path):
    launch = shell("echo x", files={"params.json": "{}"})

    with umask(0o022):
        outcome_of(launch, tmp_path)

    folder = CommandRunner(Spawner(), tmp_path).folder(RUN_ID)
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "params.json": 0o600, "output.0": 0o600,
    }  # fmt: skip
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("true", True),
        ("exit 3", False),
        ("echo x", False),
        ('echo "{}" > "$FOLDER/result.json"', False),
        ('chmod 640 "$FOLDER/params.json"', False),
        ('ln "$FOLDER/params.json" "$FOLDER/../other"', False),
        ('rm "$FOLDER/params.json"; ln -s /etc/hostname "$FOLDER/params.json"', False),
        ('echo "[1, 2, 3]" > "$FOLDER/params.json"', True),
        ('rm -r "$FOLDER"', False),
    ],
)
def test_a_run_takes_over_the_folder_of_one_that_left_nothing_in_it(text, taken, tmp_path):
    """A new name on a disk costs more than the rest of a start."""
    ids = IdSource()

    async def two():
        spawner = Spawner()
        runner = CommandRunner(spawner, tmp_path)
        folders, places = [runner.folder(ids.new(datetime(2026, 11, 15, tzinfo=UTC))) for _ in range(2)], []
        try:
            for folder, written in zip(folders, (text, "true"), strict=True):
                launch = shell(written, env={"FOLDER": str(folder)}, files={"params.json": '{"a":1}'})
                spawned = await runner.launch(launch, folder)
                places.append(folder.stat().st_ino)
                assert (folder / "params.json").read_text() == '{"a":1}'
                spawned.open()
                await asyncio.wait_for(runner.outcome(folder, spawned.identity), LONGEST_WAIT)
                runner.settle(spawned.identity, stored=True)
        finally:
            runner.close()
        return places[0] == places[1], folders[0].exists()

    same, left = asyncio.run(two())
    assert same == taken
    assert left == (not taken and "rm -r" not in text)


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        ("echo yes", 0, None),
        ("echo yes; exit 10", 10, None),
        ("echo yes; exit 2", 2, None),
        ("echo yes; kill -9 $$", None, "killed by signal 9 (SIGKILL)"),
    ],
)
def test_r09_a_condition_command_is_answered(text, code, error, tmp_path):
    found = checked(shell(text), tmp_path)

    assert (found.exit_code, found.timed_out, found.error, found.output) == (code, False, error, "yes\n")


def test_r09_a_condition_command_that_takes_too_long_is_told_with_what_it_said(tmp_path):
    for timeout in TIMEOUTS:
        found = checked(shell("echo yes; sleep 600", timeout=timeout, term_grace=0.1), tmp_path / str(timeout))
        assert (found.exit_code, found.timed_out, found.error) == (None, True, f"timed out after {timeout:g} s")
        if found.output:
            break

    assert found.output == "yes\n"


def test_r09_only_64_kb_of_a_conditions_output_are_kept(tmp_path):
    launch = shell("head -c 1000000 /dev/zero", output_limit=128 * 1024)

    assert len(checked(launch, tmp_path).output) == 64 * 1024


def checked(launch, state):
    """Ask a condition's command."""

    async def check():
        spawner = Spawner()
        try:
            return await CommandRunner(spawner, state).check(launch, state / "0")
        finally:
            spawner.stop()

    return asyncio.run(check())


@pytest.mark.parametrize(
    ("cwd", "project", "hangs"),
    [
        (".", None, False),
        ("/home/me/site", None, False),
        ("/home/me/site/data/in", None, False),
        ("/home/me/site2", None, True),
        ("../other", None, True),
        ("/mnt/share", None, True),
        ("{{ params.folder }}", None, True),
        ("/home/me/included", "/home/me/included", False),
    ],
)
def test_a_folder_outside_of_the_project_is_not_looked_at_inside_a_claim(tmp_path, cwd, project, hangs):
    settings = Settings(Path("/home/me/site"), tmp_path)
    assert may_hang(Work(kind=Kind.COMMAND, command=("true",), cwd=cwd, project=project), settings) is hangs
