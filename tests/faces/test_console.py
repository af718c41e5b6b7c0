"""The console of `rota serve`: short lines, dense jobs collapsed, failures always told."""

import asyncio
import json
import os
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.cli.console import BURST_LINES, Console
from rota.engine.membership.shutdown import Stop
from rota.engine.transactions.fire import Fired
from rota.engine.transactions.insert import RunRef
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.project.locate import ProjectPaths, open_state
from rota.operations.runs import show_run
from rota.settings import Settings
from tests.faces.conftest import NOON, Project

JOBS = 'timezone: Europe/Madrid\njobs:\n  disk: {command: [echo, hi]}\n  nightly: {cron: "30 2 * * *", command: [x]}\n'


def fired(number: int) -> Fired:
    return Fired("disk", (RunRef(f"id-{number}", "disk", number),))


def play(project: Project, *events: Fired, as_json: bool = False) -> None:
    """Serve for a moment in which these instants come."""

    async def serve() -> None:
        place = ProjectPaths(project.folder, project.state)
        console = Console(place, project.clock, as_json=as_json)
        console.serving(Settings(project.folder, project.state, timezone="Europe/Madrid"), recovered=1)
        for event in events:
            console.fired(event)
        console.stopping(Stop("grace", None), running=0)
        console.close()

    project.applied(JOBS)
    asyncio.run(serve())


def test_the_console_names_project_recovery_and_next_fires(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    play(project)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("16 slots, times in Europe/Madrid")
    assert lines[1] == "1 run of an earlier process recovered"
    assert lines[2].split() == ["next", "nightly", "Mon", "02:30:00,", "in", "13", "h", "30", "min"]
    assert lines[-2:] == ["stopping", "stopped"]


def test_only_the_runs_that_were_taken_over_here_are_said_to_go_on_and_queued_ones_to_wait(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Others of a shared database run on other machines."""
    project.applied("jobs:\n  disk: {command: [echo, hi]}\n  tape: {command: [echo, hi]}\n  queued: {command: [x]}\n")
    for name in ("disk", "tape"):
        project.ok("trigger", name)
    project.begin()
    project.ok("trigger", "queued")
    store = open_state(project.state, project.clock, create=False)
    taken = show_run(store, "tape:1").run
    store.close()

    async def serve() -> None:
        console = Console(ProjectPaths(project.folder, project.state), project.clock, as_json=False)
        settings = Settings(project.folder, project.state, timezone="UTC")
        console.serving(settings, recovered=1, going_on=[taken.id])
        console.close()

    asyncio.run(serve())
    lines = capsys.readouterr().out.splitlines()
    assert "1 run of an earlier process recovered; tape:1 continues" in lines
    assert "1 run waits in the queue   rota queue" in lines
    assert "nothing is due" not in "".join(lines)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_console_that_cannot_be_written_stops_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", buffering=1, errors="replace") as full:
        monkeypatch.setattr("sys.stdout", full)
        play(project, fired(1))
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # what is left in the buffer goes nowhere


def test_a_console_whose_reader_has_left_stops_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as broken:
        monkeypatch.setattr("sys.stdout", broken)
        play(project, fired(1))
        monkeypatch.undo()


def test_a_dense_job_is_collapsed_and_nothing_is_lost(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    play(project, *(fired(number) for number in range(1, 301)))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith("fired") or "fired:" in line]
    single = [line for line in lines if line.endswith("fired")]
    assert 0 < len(single) <= BURST_LINES
    assert lines[len(single) :] == [f"13:00:00  +{300 - len(single):<10} fired: disk ×{300 - len(single)}"]


def test_a_skip_is_told_with_its_reason_and_count(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    play(project, Fired("disk", (), ((RunRef("id", "disk", 4), Reason.MISSED, 288),)))
    assert "13:00:00  disk:4      SKIPPED missed ×288" in capsys.readouterr().out


def test_a_failure_that_is_tried_again_says_when(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.applied(JOBS)
    project.ok("trigger", "disk")
    project.carry_out([Outcome(Status.FAILED, Reason.EXIT_CODE, error="exit 3: no printer", exit_code=3)])
    store = open_state(project.state, project.clock, create=False)
    failed = show_run(store, "disk:1").run
    store.close()

    async def serve() -> None:
        console = Console(ProjectPaths(project.folder, project.state), project.clock, as_json=False)
        console.serving(Settings(project.folder, project.state, timezone="UTC"), recovered=0)
        console.finished(failed)
        console.close()

    asyncio.run(serve())
    assert "FAILED exit 3: no printer · retrying, attempt 2 of 3 at 12:00:12" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (["init"], "CANCELLED requested"),
        (["init", "tool"], "CANCELLED requested · → Bash git log"),
        (["init", "tool", "words", "usage"], "CANCELLED requested · I look at the log."),
    ],
)
def test_the_end_of_an_agent_is_told_in_words(
    project: Project, capsys: pytest.CaptureFixture[str], events: list[str], said: str
) -> None:
    tool = {"type": "tool_use", "name": "Bash", "input": {"command": "git log"}}
    written = {
        "init": {"type": "system", "subtype": "init", "cwd": "/srv", "session_id": "s"},
        "tool": {"type": "assistant", "message": {"content": [tool]}},
        "words": {"type": "assistant", "message": {"content": [{"type": "text", "text": "I look at the log."}]}},
        "usage": {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}},
    }
    project.applied("agents: {c: {adapter: claude}}\njobs: {look: {agent: c, prompt: look}}\n")
    project.ok("trigger", "look")
    output = "".join(json.dumps(written[name]) + "\n" for name in events)
    project.carry_out([Outcome(Status.CANCELLED, Reason.REQUESTED)], output=output)
    store = open_state(project.state, project.clock, create=False)
    ended = show_run(store, "look:1").run
    store.close()

    async def serve() -> None:
        console = Console(ProjectPaths(project.folder, project.state), project.clock, as_json=False)
        console.serving(Settings(project.folder, project.state, timezone="UTC"), recovered=0)
        console.finished(ended)
        console.close()

    asyncio.run(serve())
    [line] = [line for line in capsys.readouterr().out.splitlines() if "look:1" in line]
    assert line.endswith(said)


def test_with_json_each_line_is_an_object(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.applied(JOBS)
    capsys.readouterr()
    play(project, *(fired(number) for number in range(1, 31)), as_json=True)
    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert events == ["serving", "recovered", *["fired"] * 30, "stopping", "stopped"]


def test_the_console_tells_time_in_the_zone_it_was_given(tmp_path: Path) -> None:
    console = Console(ProjectPaths(tmp_path, tmp_path / ".rota"), Project(tmp_path).clock, zone="Europe/Madrid")
    assert console.time() == "13:00:00"
    console.close()


def test_a_stop_says_how_long_runs_and_agents_may_go_on(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """R-08."""

    async def serve() -> None:
        console = Console(ProjectPaths(project.folder, project.state), project.clock, as_json=False)
        console.stopping(Stop("grace", timedelta(seconds=30), timedelta(minutes=10)), running=2)
        console.close()

    project.applied(JOBS)
    asyncio.run(serve())
    told = "stopping, waiting for 2 runs for 30 s at most, for agents 10 min (Ctrl-C again kills them)"
    assert told in capsys.readouterr().out


def test_what_recovery_brings_is_told_after_the_heading(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.applied(JOBS)
    for _ in range(2):
        project.ok("trigger", "disk", "--force")
    project.begin()
    store = open_state(project.state, project.clock, create=False)
    ended, other = (show_run(store, name).run for name in ("disk:1", "disk:2"))
    store.close()

    async def serve() -> None:
        console = Console(ProjectPaths(project.folder, project.state), project.clock)
        console.finished(replace(ended, status=Status.FAILED, reason=Reason.PROCESS_RESTARTED, finished_at=NOON))
        settings = Settings(project.folder, project.state, timezone="Europe/Madrid")
        console.serving(settings, recovered=2, going_on=[ended.id, other.id])
        console.close()

    asyncio.run(serve())
    lines = capsys.readouterr().out.splitlines()
    assert " serves " in lines[0]
    assert lines[1] == "2 runs of an earlier process recovered; disk:1, disk:2 continue"
    assert lines[2].startswith("13:00:00  disk:1")
    assert "FAILED process_restarted" in lines[2]


@pytest.mark.parametrize(
    ("stop", "told"),
    [
        (Stop("now", timedelta()), "stopping, killing 2 runs at once"),
        (Stop("detach", None), "stopping with 2 runs: commands continue for the next scheduler, functions may finish"),
        (Stop("idle", None), "stopping, waiting for 2 runs (Ctrl-C again kills them)"),
        (
            Stop("grace", timedelta(seconds=30)),
            "stopping, waiting for 2 runs for 30 s at most (Ctrl-C again kills them)",
        ),
    ],
)
def test_a_stop_says_what_becomes_of_what_runs(
    project: Project, capsys: pytest.CaptureFixture[str], stop: Stop, told: str
) -> None:
    project.applied(JOBS)
    Console(ProjectPaths(project.folder, project.state), project.clock).stopping(stop, running=2)
    assert capsys.readouterr().out == f"{told}\n"
