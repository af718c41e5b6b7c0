"""`rota tick` as it is typed, and what the other commands say where ticks come instead of a scheduler (R-24)."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from rota.cli.commands.tick import code_of
from rota.engine.activity import KIND, note_look
from rota.engine.membership.locks import SERVE_LOCK, TICK_LOCK, take, take_process_lock
from rota.operations.project.locate import ProjectPaths, open_state
from rota.runners.processes import identity
from rota.serve.tick import Tick, TickReport
from rota.store.driver import Database
from rota.store.tables import processes
from tests.faces.conftest import Project
from tests.workers import ensure_worker

JOBS = """
scheduler: {concurrency: 3}
jobs:
  hourly: {cron: "0 * * * *", run: "os:getpid"}
  other: {cron: "30 * * * *", command: [./never]}
"""


@pytest.fixture
def due(project: Project) -> Project:
    """A project whose job is due now."""
    project.applied(JOBS)
    project.clock.advance(timedelta(hours=1))
    return project


def ticked(project: Project, *ago: int) -> None:
    """Let ticks have looked so many seconds ago, without anything to do."""
    store = open_state(project.state, project.clock, create=False)
    now = project.clock.now()

    def enter(db: Database) -> None:
        worker = ensure_worker(db, name="here", now=now)
        epoch = processes.open_process(
            db, worker_id=worker, kind=KIND, identity=identity(), lock="none", version="0", now=now
        )
        processes.end_process(db, epoch, ending="clean", now=now)
        for seconds in sorted(ago, reverse=True):
            note_look(db, slots=3, now=now - timedelta(seconds=seconds))

    try:
        store.write(enter)
    finally:
        store.close()


def test_a_tick_tells_what_fired_and_how_it_ended(due: Project) -> None:
    told = due.ok("tick").splitlines()
    assert ["hourly:1", "fired"] in [line.split()[1:3] for line in told]
    assert ["other:1", "SKIPPED"] in [line.split()[1:3] for line in told]
    assert any("hourly:1" in line and "COMPLETED" in line for line in told)
    assert any(line.startswith("1 fired, 1 skipped") for line in told)


def test_a_tick_without_anything_due_says_what_is_next(project: Project) -> None:
    project.applied(JOBS)
    assert project.ok("tick") == "nothing was due, next 12:30:00\n"
    assert project.ok("tick", "--quiet") == ""


def test_the_answer_in_json_has_everything(due: Project) -> None:
    told = due.json("tick")
    assert (told["left_to"], told["problems"], told["file_problem"]) == (None, [], None)
    assert "hourly:1" in {one["run"] for one in told["fired"]}
    assert {run["run"]: run["status"] for run in told["finished"]}["hourly:1"] == "COMPLETED"
    assert told["next_at"] == "2026-11-15T13:30:00Z"


def test_a_rehearsal_writes_nothing(due: Project) -> None:
    before = (due.state / "rota.db").read_bytes()
    told = due.ok("tick", "--dry-run")
    assert "would fire hourly:1" in told
    assert "would start hourly:1" in told
    assert due.json("history") == []
    assert due.json("tick", "--dry-run")["claimed"] == due.json("tick", "--dry-run")["claimed"]
    assert (due.state / "rota.db").read_bytes() == before


def test_a_rehearsal_tells_what_the_changed_file_would_do(due: Project) -> None:
    due.write("jobs:\n  hourly: {cron: '0 * * * *', command: [./new]}\n")
    told = due.ok("tick", "--dry-run")
    assert "would update hourly" in told
    assert "would retire other" in told
    assert due.json("show", "hourly")["kind"] == "function"


def test_a_broken_file_is_told_and_the_last_good_set_goes_on(due: Project) -> None:
    """The work is done, and the exit code says what is wrong."""
    due.write("jobs:\n  hourly: {corn: x}\n")
    done = due.rota("tick")
    assert done.exit_code == 65
    assert "the last good jobs stay active" in done.stderr
    assert due.json("history", "hourly")[-1]["trigger"] == "schedule"


def test_a_broken_file_without_a_good_set_is_refused(project: Project) -> None:
    project.write("jobs:\n  hourly: {corn: x}\n")
    done = project.rota("tick")
    assert (done.exit_code, "corn" in done.stderr) == (65, True)


def test_a_scheduler_that_is_switched_off_is_not_ticked(due: Project) -> None:
    due.write(f"{JOBS}".replace("{concurrency: 3}", "{enabled: false}"))
    assert "switched off" in due.ok("tick")
    assert due.json("history") == []


def test_another_tick_that_looks_is_left_alone(due: Project) -> None:
    """Two ticks at the same moment: the second waits a little, then leaves it to the first."""
    lock = take(due.state / TICK_LOCK)
    assert lock is not None
    place = ProjectPaths(due.folder, due.state)
    try:
        report = asyncio.run(Tick(place, due.clock, environ={}, patience=timedelta()).run())
    finally:
        lock.release()
    assert report.left_to == "tick"
    assert due.json("history") == []


def test_a_part_that_failed_shows_in_the_exit_code() -> None:
    assert code_of(TickReport(problems=["fire: the disk is full"])) == 1
    assert code_of(TickReport(problems=["fire: the disk is full"], file_problem="corn")) == 65


def test_no_backup_is_put_in_the_place_of_a_state_that_a_tick_uses(due: Project, tmp_path: Path) -> None:
    archive = tmp_path / "backup.tar.gz"
    due.ok("backup", str(archive))
    lock = take_process_lock(due.state)
    refused = due.rota("restore", str(archive), "--force")
    lock.release()
    assert (refused.exit_code, "a tick still has runs" in refused.stderr) == (74, True)
    due.ok("restore", str(archive), "--force")


@pytest.fixture
def served(due: Project) -> Iterator[Project]:
    """A project whose lock a scheduler holds."""
    lock = take(due.state / SERVE_LOCK)
    assert lock is not None
    lock.write("4121")
    yield due
    lock.release()


def test_while_a_scheduler_serves_a_tick_says_so_and_is_content(served: Project) -> None:
    assert served.ok("tick") == "process 4121 serves this project; the tick did nothing\n"
    assert "a tick would do nothing" in served.ok("tick", "--dry-run")
    assert served.json("history") == []


def test_status_tells_of_ticks_instead_of_a_dead_scheduler(project: Project) -> None:
    """Exit 0 while they come: the last one is younger than three usual distances."""
    project.applied(JOBS)
    ticked(project, 28, 18, 8)
    assert "ticks: last 8 s ago, usually every 10 s · 0 of 3 slots taken" in project.ok("status")
    told = project.json("status")
    assert (told["state"], told["slots"], told["ticks"]["every_seconds"]) == ("ticking", 3, 10)
    project.clock.advance(timedelta(seconds=22))
    late = project.rota("status")
    assert late.exit_code == 1
    assert "ticks have stopped: last 30 s ago" in late.stdout


def test_where_ticks_come_a_queued_run_is_not_alone(project: Project) -> None:
    """R-02: nothing holds it but the time to the next tick."""
    project.applied(JOBS)
    ticked(project, 20, 10)
    assert "no scheduler" not in project.ok("trigger", "hourly")
    assert "for the next tick; they usually come every 10 s" in project.ok("explain", "hourly:1")
    assert "starts next" in project.ok("queue")
    project.clock.advance(timedelta(minutes=1))
    assert "none is running here" in project.ok("explain", "hourly:1")
    assert "no scheduler is running" in project.ok("queue")


def test_doctor_tells_of_ticks_that_stopped(project: Project) -> None:
    project.applied(JOBS)
    ticked(project, 20, 10)
    found = {one["topic"]: one["level"] for one in project.json("doctor")["findings"]}
    assert found["ticks"] == "ok"
    project.clock.advance(timedelta(minutes=1))
    found = {one["topic"]: one["level"] for one in project.json("doctor")["findings"]}
    assert found["ticks"] == "problem"
