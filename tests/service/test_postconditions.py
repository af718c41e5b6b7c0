"""Postconditions: checks after the work, under the keeper of the work."""

import asyncio
import os
from pathlib import Path

import pytest

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.runners.output import folder_of, read_all
from tests.service.keeping import TIMEOUTS
from tests.service.serving import Project, gone, kill
from tests.service.test_command_runner import RUN_ID, check, outcome_of, shell
from tests.waiting import until


def folder(state: Path) -> Path:
    return folder_of(state, RUN_ID)


def test_a_check_that_exits_0_makes_the_run_completed_and_checked(tmp_path: Path) -> None:
    outcome: Outcome = outcome_of(shell("echo work", postcondition=check("echo fine")), tmp_path)

    assert (outcome.status, outcome.postcondition and outcome.postcondition.passed) == (Status.COMPLETED, True)
    assert (read_all(folder(tmp_path)), outcome.output_bytes) == (b"work\nfine\n", 10)


@pytest.mark.parametrize(
    ("text", "error", "code"),
    [
        ("echo first; echo 2 tests failed; exit 3", "postcondition: exit 3: 2 tests failed", 3),
        ("exit 3", "postcondition: exit 3", 3),
        ("kill -9 $$", "postcondition: killed by signal 9 (SIGKILL)", None),
    ],
)
def test_a_check_that_fails_makes_the_run_failed_with_its_words(
    text: str, error: str, code: int | None, tmp_path: Path
) -> None:
    outcome: Outcome = outcome_of(shell("echo work", postcondition=check(text)), tmp_path)

    assert (outcome.status, outcome.reason, outcome.error) == (Status.FAILED, Reason.POSTCONDITION_FAILED, error)
    assert outcome.exit_code == 0
    assert outcome.postcondition is not None
    assert outcome.postcondition.exit_code == code
    assert "work" not in outcome.postcondition.output


def test_a_check_has_its_own_timeout_and_leaves_no_process(tmp_path: Path) -> None:
    begun = tmp_path / "pid"
    for timeout in TIMEOUTS:
        launch = shell("echo work", postcondition=check("echo $$ > pid; sleep 60", timeout=timeout, cwd=str(tmp_path)))
        outcome: Outcome = outcome_of(launch, tmp_path / str(timeout))
        if begun.exists() and begun.read_text():
            break

    assert outcome.reason is Reason.POSTCONDITION_FAILED
    assert outcome.error == f"postcondition: timed out after {timeout} s"
    assert gone(int(begun.read_text()))


def test_a_check_that_cannot_start_fails_the_run(tmp_path: Path) -> None:
    order = {"argv": ("./missing",), "cwd": str(tmp_path), "timeout": 5.0}
    outcome: Outcome = outcome_of(shell("true", postcondition=order), tmp_path)

    assert outcome.reason is Reason.POSTCONDITION_FAILED
    assert outcome.error == "postcondition: cannot start './missing': no such file or directory"


def test_work_that_fails_is_not_checked(tmp_path: Path) -> None:
    outcome: Outcome = outcome_of(shell("exit 2", postcondition=check("echo checked")), tmp_path)

    assert (outcome.reason, outcome.postcondition) == (Reason.EXIT_CODE, None)
    assert read_all(folder(tmp_path)) == b""


def test_a_stop_ends_the_check_too(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    async def stop(runner, spawned):  # type: ignore[no-untyped-def]
        while not begun.exists():
            await asyncio.to_thread(until, begun.exists, what="the check to begin")
        runner.stop(spawned.identity)

    launch = shell("true", term_grace=0.2, postcondition=check("touch begun; sleep 60", cwd=str(tmp_path)))
    outcome: Outcome = outcome_of(launch, tmp_path, stop)

    assert (outcome.reason, outcome.postcondition) == (Reason.SHUTDOWN, None)


def test_the_timeout_of_the_work_does_not_count_the_check(tmp_path: Path) -> None:
    launch = shell("true", timeout=2.0, postcondition=check("sleep 2.2", timeout=60.0))
    outcome: Outcome = outcome_of(launch, tmp_path)

    assert outcome.status is Status.COMPLETED


CHECKED = """
defaults: {retry: false}
jobs:
  work:
    command: [sh, -c, "echo work >> worked"]
    postcondition: {shell: "echo $$ > pid; read line < gate; echo check >> checked"}
"""


@pytest.mark.xdist_group("service")
@pytest.mark.parametrize("serving", [True, False])
def test_a_scheduler_killed_between_the_work_and_the_end_of_its_check_loses_and_repeats_neither(
    project: Project, serving: bool
) -> None:
    """The keeper goes on with the check, and the next scheduler records it; `serving`: it comes before the end."""
    os.mkfifo(project.folder / "gate")
    project.write(CHECKED)
    project.serve()
    project.rota("trigger", "work")
    pid = project.folder / "pid"
    until(lambda: pid.exists() and pid.read_text().strip(), what="the check to begin")
    kill(project.servers[0])
    if serving:
        project.serve()
        assert project.told("work") == [("RUNNING", None)]
    (project.folder / "gate").write_text("go\n")
    if not serving:
        until(lambda: gone(int(pid.read_text())), what="the check to end")
        project.serve()
    project.until_told("work", [("COMPLETED", None)])
    assert project.history("work")[0]["checked"] is True
    assert (project.folder / "worked").read_text() == "work\n"
    assert (project.folder / "checked").read_text() == "check\n"


FUNCTION = """
imports: [work]
jobs:
  call:
    run: "work:call"
    retry: {max_attempts: 2, backoff: 1s}
    postcondition: {shell: "echo $$ >> pids; test -e allowed || read line < gate"}
"""


@pytest.mark.xdist_group("service")
def test_a_function_whose_scheduler_is_killed_during_its_check_runs_again_and_the_check_is_ended(
    project: Project,
) -> None:
    os.mkfifo(project.folder / "gate")
    (project.folder / "work.py").write_text("def call(ctx):\n    return 'done'\n")
    project.write(FUNCTION)
    project.serve()
    project.rota("trigger", "call")
    pids = project.folder / "pids"
    until(lambda: pids.exists() and pids.read_text().strip(), what="the check to begin")
    kill(project.servers[0])
    (project.folder / "allowed").touch()
    project.serve()
    project.until_told("call", [("FAILED", "process_restarted"), ("COMPLETED", None)])
    first, second = pids.read_text().split()
    until(lambda: gone(int(first)), what="the first check to end")
    assert first != second
