"""A real scheduler: it serves, is killed, comes back, and every run is accounted for."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rota.engine.membership.control import ask
from tests.scene import tamper_file
from tests.service.serving import Project, ended, gone, kill
from tests.waiting import LONGEST_WAIT, until

pytestmark = pytest.mark.xdist_group("service")

WAITING = """
scheduler: {{shutdown_grace: {grace}}}
defaults: {{retry: false}}
jobs:
  long:
    command: [sh, -c, "echo $$ > pid; read line < gate; echo done; exit 7"]
    term_grace: 1s
    {more}
"""


def started(project: Project, *, grace: str = "30s", more: str = "") -> int:
    """Serve a project with one command that waits at a fifo; return the command's pid."""
    os.mkfifo(project.folder / "gate")
    project.write(WAITING.format(grace=grace, more=more))
    project.serve()
    project.rota("trigger", "long")
    until(lambda: (project.folder / "pid").exists() and (project.folder / "pid").read_text().strip(), what="a start")
    return int((project.folder / "pid").read_text())


def open_gate(project: Project) -> None:
    (project.folder / "gate").write_text("go\n")


def test_a_trigger_from_another_process_wakes_the_scheduler(project: Project) -> None:
    """R-22: nothing is polled; the tick alone would take a minute."""
    project.write("jobs:\n  hello: {command: [echo, hi there]}\n")
    project.serve()
    done = project.rota("run", "hello", apart=True)
    assert "COMPLETED" in done.stdout
    assert "hi there" in done.stdout
    assert project.told("hello") == [("COMPLETED", None)]


def test_an_empty_file_is_served_and_its_first_job_is_picked_up(project: Project) -> None:
    project.write("# no jobs yet\n")
    project.serve()
    assert project.json("list") == []
    project.write("jobs:\n  hello: {command: [echo, hi there]}\n")
    until(lambda: project.json("list"), what="the new file to be applied")
    assert "hi there" in project.rota("run", "hello", apart=True).stdout


def test_sigterm_ends_an_idle_scheduler_with_exit_0(project: Project) -> None:
    project.write("jobs:\n  hello: {command: [echo, hi]}\n")
    server = project.serve()
    server.send_signal(signal.SIGTERM)
    assert ended(server) == 0
    assert not (project.state / "wake.sock").exists()


def test_a_second_scheduler_is_refused_and_names_the_first(project: Project) -> None:
    """CON-001."""
    project.write("jobs:\n  hello: {command: [echo, hi]}\n")
    first = project.serve()
    second = project.rota("serve", check=False)
    assert second.returncode != 0
    assert str(first.pid) in second.stderr
    assert first.poll() is None


def test_a_killed_scheduler_never_blocks_the_next_one(project: Project) -> None:
    project.write("jobs:\n  hello: {command: [echo, hi]}\n")
    kill(project.serve())
    assert project.rota("status", check=False).returncode == 1
    project.serve()
    assert project.scheduler()["pid"] == project.servers[-1].pid


def test_a_command_that_outlives_its_scheduler_is_adopted(project: Project) -> None:
    """R-23: the run stays RUNNING and its outcome is recorded when it ends."""
    pid = started(project)
    kill(project.servers[0])
    assert not gone(pid)
    project.serve()
    assert project.told("long") == [("RUNNING", None)]
    open_gate(project)
    project.until_told("long", [("FAILED", "exit_code")])
    assert project.history("long")[0]["exit_code"] == 7
    assert "done" in project.rota("logs", "long:1").stdout


def test_a_command_that_ended_while_no_scheduler_lived_is_recorded_as_it_ended(project: Project) -> None:
    """R-23: kill -9 loses neither exit code nor output."""
    pid = started(project)
    kill(project.servers[0])
    open_gate(project)
    until(lambda: gone(pid), what="the command to end")
    project.serve()
    project.until_told("long", [("FAILED", "exit_code")])
    assert project.history("long")[0]["exit_code"] == 7


def test_a_run_whose_keeper_was_killed_too_is_failed_and_its_tree_is_dead(project: Project) -> None:
    """R-23: whatever is left of its tree is killed, then FAILED/process_restarted."""
    pid = started(project)
    kill(project.servers[0])
    keeper = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(keeper, signal.SIGKILL)
    project.serve()
    project.until_told("long", [("FAILED", "process_restarted")])
    until(lambda: gone(pid), what="the tree to be dead")


def test_shutdown_waits_its_grace_then_ends_the_tree_and_says_so(project: Project) -> None:
    """R-08: FAILED/shutdown; CANCELLED is only what somebody asked for."""
    pid = started(project, grace="1s")
    project.servers[0].send_signal(signal.SIGTERM)
    assert ended(project.servers[0]) == 0
    assert project.told("long") == [("FAILED", "shutdown")]
    assert gone(pid)


def test_a_scheduler_that_stops_says_so_and_what_it_waits_for(project: Project) -> None:
    """No coming fire is promised that will not come."""
    started(project, grace="10m", more='cron: "0 0 1 1 *"')
    project.servers[0].send_signal(signal.SIGTERM)
    told = until(
        lambda: (told := project.json_of("status"))["state"] == "stopping" and told, what="the stop to be told"
    )
    stop = told["stopping"]
    assert (stop["mode"], stop["running"], stop["direct"], stop["ending"]) == ("grace", 1, 0, False)
    assert (told["next"], told["enabled"]) == ([], True)
    shown = project.rota("status", check=False)
    assert shown.returncode == 1
    assert "scheduler stopping" in shown.stdout
    assert "waits for 1 run, until " in shown.stdout
    assert "nothing: the scheduler is stopping" in shown.stdout
    open_gate(project)
    assert ended(project.servers[0]) == 0


def test_a_second_signal_ends_everything_now(project: Project) -> None:
    pid = started(project, grace="10m")
    project.servers[0].send_signal(signal.SIGTERM)
    until(lambda: "stopping" in project.log(), what="the first signal to be seen")
    project.servers[0].send_signal(signal.SIGTERM)
    assert ended(project.servers[0]) == 0
    assert project.told("long") == [("FAILED", "shutdown")]
    assert gone(pid)


def test_stop_now_does_not_wait(project: Project) -> None:
    pid = started(project, grace="10m")
    project.rota("stop", "--now")
    assert ended(project.servers[0]) == 0
    assert gone(pid)


def test_stop_when_idle_waits_for_the_run_and_starts_nothing_new(project: Project) -> None:
    started(project)
    answer = ask(project.state, {"ask": "stop", "mode": "idle", "within": None}, timeout=LONGEST_WAIT)
    assert answer == {"running": 1, "direct": 0}
    project.rota("trigger", "long", "--force")
    open_gate(project)
    assert ended(project.servers[0]) == 0
    assert project.told("long") == [("FAILED", "exit_code"), ("QUEUED", None)]


def test_stop_detach_leaves_the_command_to_its_keeper_for_the_next_scheduler(project: Project) -> None:
    """R-23: an upgrade interrupts nothing."""
    pid = started(project)
    project.rota("stop", "--detach")
    assert ended(project.servers[0]) == 0
    assert not gone(pid)
    project.serve()
    open_gate(project)
    project.until_told("long", [("FAILED", "exit_code")])


def test_cancel_ends_the_whole_tree(project: Project) -> None:
    pid = started(project)
    project.rota("cancel", "long:1")
    project.until_told("long", [("CANCELLED", "requested")])
    assert gone(pid)


def test_on_restart_kill_ends_the_survivor(project: Project) -> None:
    """R-23: on_restart kill."""
    pid = started(project, more="on_restart: kill")
    kill(project.servers[0])
    project.serve()
    until(lambda: project.told("long")[0][0] == "FAILED", what="the survivor to be ended")
    assert gone(pid)


def test_a_changed_file_is_applied_and_a_broken_one_leaves_the_last_good_set(project: Project) -> None:
    project.write("jobs:\n  one: {command: [echo, hi]}\n")
    project.serve()
    project.write("jobs:\n  one: {command: [echo, hi]}\n  two: {command: [echo, hi]}\n")
    until(lambda: len(project.json("list")) == 2, what="the second job")
    project.write("jobs:\n  one: {comand: [echo, hi]}\n")
    until(lambda: "comand" in str(project.scheduler()["file_problem"]), what="the problem in status")
    assert "COMPLETED" in project.rota("run", "two").stdout
    project.write("jobs:\n  one: {command: [echo, hi]}\n")
    until(lambda: len(project.json("list")) == 1, what="the second job to be retired")
    until(lambda: not project.scheduler()["file_problem"], what="the problem to be gone")


def test_a_broken_file_at_the_first_start_is_refused_with_every_problem(project: Project) -> None:
    project.write("jobs:\n  one: {comand: [echo]}\n  two: {command: [echo], evry: 5m}\n")
    done = project.rota("serve", check=False)
    assert done.returncode == 65
    assert "rota.yaml:2" in done.stderr
    assert "rota.yaml:3" in done.stderr


def test_a_state_folder_that_vanishes_stops_the_scheduler(project: Project) -> None:
    project.write("jobs:\n  one: {command: [echo, hi]}\n")
    server = project.serve()
    project.vanish()
    assert ended(server) != 0
    assert str(project.state) in project.log()
    assert not (project.state / "rota.db").exists()


def test_an_idle_scheduler_writes_nothing(project: Project) -> None:
    """R-22: no lease is renewed, nothing is written when idle."""
    project.write("jobs:\n  later: {cron: '0 0 1 1 *', command: [echo, hi]}\n")
    project.serve()

    log = project.state / "rota.db-wal"
    until(lambda: all(_rounds(project).values()), what="a first round of every loop")
    before = _idle_round(project, log)
    assert _idle_round(project, log) == before


def _rounds(project: Project) -> dict[str, int]:
    answer = ask(project.state, {"ask": "status"}, timeout=LONGEST_WAIT)
    assert answer is not None
    return {loop["name"]: loop["rounds"] for loop in answer["loops"]}


def _idle_round(project: Project, log: Path) -> int:
    """Wait for a round of the watch loop; return when the log was written last."""
    seen = _rounds(project)["watch"]
    until(lambda: _rounds(project)["watch"] > seen, what="a round of the watch loop")
    return log.stat().st_mtime_ns


def test_the_lock_and_the_socket_work_under_a_long_path(tmp_path: Path) -> None:
    """R-22: unix socket addresses end at 107 bytes."""
    folder = tmp_path / ("a" * 60) / ("b" * 60)
    folder.mkdir(parents=True)
    project = Project(folder)
    try:
        project.write("jobs:\n  hello: {command: [echo, hi]}\n")
        project.serve()
        assert "COMPLETED" in project.rota("run", "hello").stdout
    finally:
        project.end()


def test_a_scheduler_switched_off_by_its_file_starts_nothing(project: Project) -> None:
    project.write("scheduler: {enabled: false}\njobs:\n  hello: {interval: 1s, command: [echo, hi]}\n")
    project.serve()
    assert project.scheduler()["enabled"] is False
    assert project.told("hello") == []
    assert "switched off by `scheduler.enabled: false`" in project.rota("trigger", "hello").stdout
    assert "switched off by `scheduler.enabled: false`" in project.rota("explain", "hello:1").stdout
    assert project.told("hello") == [("QUEUED", None)]


def test_a_scheduled_run_replaces_the_one_before_it(project: Project) -> None:
    """R-12: the wish to stop reaches the holder without any command from outside."""
    project.write(
        "jobs:\n  again: {interval: 2s, anchor: fixed, overlap: replace, command: [sleep, '100'], term_grace: 1s}\n"
    )
    project.serve()
    until(lambda: project.told("again")[:1] == [("CANCELLED", "replaced")], what="the first run to be replaced")
    until(lambda: any(run["started_at"] for run in project.history("again")[1:]), what="a second to start")


def test_commands_of_a_newer_rota_leave_the_database_of_an_older_scheduler_alone(project: Project) -> None:
    """A schema that lacks its newest part stands for an older one: whoever opens it would have to upgrade it."""
    project.write("jobs:\n  hello: {command: [echo, hi]}\n")
    server = project.serve()
    tamper_file(project.state / "rota.db", "DELETE FROM migration WHERE number = (SELECT max(number) FROM migration)")
    refused = project.rota("list", check=False)
    assert refused.returncode == 75
    assert f"in use by serve (pid {server.pid}, rota " in refused.stderr
    assert "rota service restart" in refused.stderr
    status = project.rota("status", check=False)
    assert status.returncode == 1
    assert "scheduler running" in status.stdout
    assert "needs an upgrade to" in status.stdout
    project.rota("stop")
    assert ended(server) == 0


def test_a_scheduler_without_http_does_not_load_it():
    """The half of its memory would be the server's."""
    ask = "import sys, rota.serve.daemon; print([n for n in ('fastapi', 'pydantic', 'uvicorn') if n in sys.modules])"

    found = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)

    assert found.stdout == "[]\n"
