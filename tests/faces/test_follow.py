"""`rota history --follow` and `rota logs --follow --json`: lines while they come; the form of the log."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rota.cli.console import configure_logging, say_dropped
from rota.declare.project import read_project
from rota.engine.membership.locks import take_serve_lock
from rota.log import log
from rota.model.errors import DatabaseGone, FileProblems
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.project.locate import open_state
from rota.operations.status import feed
from rota.operations.status.feed import HistoryFollower
from rota.settings import LogFormat
from tests.faces.conftest import Project

DONE = Outcome(Status.COMPLETED, exit_code=0, summary="all good")
FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3: oh no")
JOBS = """defaults: {retry: false}
jobs:
  hello: {command: [echo, hello], overlap: allow, labels: [greeting]}
  other: {command: [echo, other], overlap: allow}
"""
Step = Callable[[], Any]


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def jobs(project: Project) -> Project:
    return project.applied(JOBS)


def ended(project: Project, name: str, outcome: Outcome = DONE) -> None:
    project.ok("trigger", name)
    project.carry_out([outcome])


def follow(project: Project, *arguments: str, steps: list[Step]) -> Any:
    """Return the result of a follower that Ctrl-C ends after the steps, one of them at each pause."""
    left = [*steps, lambda: None, interrupt]
    project.pause = lambda _seconds: left.pop(0)()
    result = project.rota("history", "--follow", *arguments)
    project.pause = lambda _seconds: None
    assert result.exit_code == 130, result.output
    assert "Traceback" not in result.output
    return result


def runs(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[1:]]


def test_runs_are_printed_as_they_end_and_each_once(jobs: Project) -> None:
    found = follow(jobs, steps=[lambda: ended(jobs, "hello"), lambda: None, lambda: ended(jobs, "other", FAILED)])
    head, first, second = found.stdout.splitlines()
    assert head.split() == ["RUN", "STATUS", "REASON", "ENDED", "TOOK", "WHY"]
    assert first.split()[:2] == ["hello:1", "COMPLETED"]
    assert second.split()[:3] == ["other:1", "FAILED", "exit_code"]
    assert second.endswith("exit 3: oh no")
    assert head.index("STATUS") == first.index("COMPLETED") == second.index("FAILED")


def test_an_unfinished_run_is_not_printed_before_it_ends(jobs: Project) -> None:
    steps = [lambda: jobs.ok("trigger", "hello"), jobs.begin, lambda: None]
    assert runs(follow(jobs, steps=steps).stdout) == []


def test_the_last_runs_come_first_and_are_not_repeated(jobs: Project) -> None:
    for _ in range(12):
        ended(jobs, "hello")
    found = runs(follow(jobs, steps=[lambda: ended(jobs, "other")]).stdout)
    assert found == [*(f"hello:{number}" for number in range(3, 13)), "other:1"]
    assert runs(follow(jobs, "-n", "2", steps=[]).stdout) == ["hello:12", "other:1"]


def test_with_json_each_line_is_an_object_in_the_shape_of_the_history(jobs: Project) -> None:
    found = follow(jobs, "--json", steps=[lambda: ended(jobs, "hello"), lambda: ended(jobs, "other")])
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert lines == jobs.json("history")[::-1]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["hello"], ["hello:1", "hello:2"]),
        (["--status", "failed"], ["hello:2", "other:2"]),
        (["--reason", "exit_code"], ["hello:2", "other:2"]),
        (["--label", "greeting"], ["hello:1", "hello:2"]),
        (["--trigger", "schedule"], []),
        (["--grep", "OH NO", "other"], ["other:2"]),
        (["--status", "timed_out"], []),
        (["--agent", "claude"], []),
    ],
)
def test_filters_are_those_of_the_history(jobs: Project, arguments: list[str], expected: list[str]) -> None:
    steps: list[Step] = [
        lambda: ended(jobs, "hello"),
        lambda: ended(jobs, "other"),
        lambda: ended(jobs, "hello", FAILED),
        lambda: ended(jobs, "other", FAILED),
    ]
    assert runs(follow(jobs, *arguments, steps=steps).stdout) == expected


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--until", "today"], 2), (["nope"], 6), (["--status", "nope"], 2), (["--grep", " "], 2)],
)
def test_what_cannot_be_followed_is_refused_at_once(jobs: Project, arguments: list[str], code: int) -> None:
    jobs.pause = lambda _seconds: pytest.fail("it began to follow")
    found = jobs.rota("history", "--follow", *arguments)
    assert found.exit_code not in (0, 130)
    assert found.stdout == ""


def test_a_database_that_is_gone_for_a_while_is_waited_for(jobs: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    look, answers = HistoryFollower.look, [True, False, False, True, True, True]

    def looked(self: HistoryFollower) -> Any:
        if answers.pop(0):
            return look(self)
        raise DatabaseGone("cannot reach the database")

    monkeypatch.setattr(HistoryFollower, "look", looked)
    found = follow(jobs, steps=[lambda: None, lambda: ended(jobs, "hello"), lambda: None, lambda: None])
    assert runs(found.stdout) == ["hello:1"]
    assert found.stderr.count("retrying") == 1


def test_a_late_commit_with_an_earlier_number_is_found(jobs: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PostgreSQL a change may be committed after one with a higher number."""
    store = open_state(jobs.state, jobs.clock, create=False)
    try:
        follower = HistoryFollower(store)
        ended(jobs, "hello")
        ended(jobs, "other")
        real = feed.audit.changes_after
        hidden = {change.seq for change in store.read(lambda db: real(db, 0, limit=1000))[:-1]}
        with monkeypatch.context() as patched:
            patched.setattr(
                feed.audit,
                "changes_after",
                lambda db, seq, limit: [one for one in real(db, seq, limit=limit) if one.seq not in hidden],
            )
            early = follower.look()
        assert {run.handle for run in [*early, *follower.look()]} == {"hello:1", "other:1"}
        assert len(early) < 2
        assert follower.look() == []
    finally:
        store.close()


def test_more_changes_than_a_page_are_all_read(jobs: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_CHANGES", 3)

    def several() -> None:
        for _ in range(6):
            ended(jobs, "hello")

    assert runs(follow(jobs, steps=[several]).stdout) == [f"hello:{number}" for number in range(1, 7)]


def test_missed_changes_are_told(jobs: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = feed.audit.bounds

    def pruned() -> None:
        ended(jobs, "hello")
        last = open_state(jobs.state, jobs.clock, create=False)
        try:
            newest = last.read(bounds).last
        finally:
            last.close()
        monkeypatch.setattr(feed.audit, "bounds", lambda db: feed.audit.Bounds(newest + 5, newest + 9))

    assert "some runs are missing here" in follow(jobs, steps=[pruned]).stderr


# logs


def test_followed_lines_are_objects_and_the_last_has_the_status(jobs: Project) -> None:
    lock = take_serve_lock(jobs.state)
    try:
        jobs.ok("trigger", "hello")
        left: list[Step] = [lambda: jobs.carry_out([DONE], output="first\nlast")]
        jobs.pause = lambda _seconds: left.pop(0)()
        lines = [json.loads(line) for line in jobs.ok("logs", "-f", "hello", "--json").splitlines()]
    finally:
        lock.release()
    assert [(line["run"], line["text"]) for line in lines[:-1]] == [("hello:1", "first"), ("hello:1", "last")]
    assert all(line["time"] for line in lines)
    assert (lines[-1]["status"], lines[-1]["note"]) == ("COMPLETED", None)


def test_lines_of_the_past_have_no_time(jobs: Project) -> None:
    jobs.ok("trigger", "hello")
    jobs.carry_out([DONE], output="first\nlast\n")
    lines = [json.loads(line) for line in jobs.ok("logs", "-f", "hello", "--tail", "1", "--json").splitlines()]
    assert [(line.get("text"), line["time"]) for line in lines[:-1]] == [("last", None)]
    assert lines[-1]["status"] == "COMPLETED"


# the form of the log


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "format", LogFormat.AUTO)


@pytest.mark.parametrize(
    ("chosen", "stream", "is_json"),
    [
        (LogFormat.AUTO, Terminal, False),
        (LogFormat.AUTO, io.StringIO, True),
        (LogFormat.JSON, Terminal, True),
        (LogFormat.TEXT, io.StringIO, False),
    ],
)
def test_the_file_chooses_the_form_of_log_lines(
    form: None, monkeypatch: pytest.MonkeyPatch, chosen: LogFormat, stream: type[io.StringIO], *, is_json: bool
) -> None:
    stderr = stream()
    monkeypatch.setattr(sys, "stderr", stderr)
    configure_logging(verbose=False, console=False, stamp=lambda: "12:00:00")
    log.format = chosen  # the file is read after the log has begun
    log.warning("lease expired", job="hello", seconds=3)
    line = stderr.getvalue().strip()
    if is_json:
        told = json.loads(line)
        assert (told["event"], told["level"], told["job"], told["seconds"]) == ("lease expired", "warning", "hello", 3)
        assert told["timestamp"].endswith("Z")
    else:
        assert line.startswith("12:00:00")
        assert "lease expired job='hello' seconds=3" in line
        assert ("\x1b" in line) is (stream is Terminal)


def test_dropped_lines_are_told_in_the_form_of_the_log(
    form: None, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    told = say_dropped(project.clock, as_json=False)["stderr"]
    assert told(3).startswith("rota: dropped 3 lines")
    log.format = LogFormat.JSON
    assert json.loads(told(3))["event"] == "lines dropped"


@pytest.mark.parametrize("written", ["json", "text", "auto"])
def test_the_form_is_read_from_the_file(tmp_path: Path, written: str) -> None:
    (tmp_path / "rota.yaml").write_text(f"scheduler: {{log_format: {written}}}\njobs:\n  one: {{command: [echo]}}\n")
    assert read_project(tmp_path, environment={}).settings.scheduler.log_format == written


def test_another_form_is_refused_with_the_words(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("scheduler: {log_format: logfmt}\njobs:\n  one: {command: [echo]}\n")
    with pytest.raises(FileProblems) as raised:
        read_project(tmp_path, environment={})
    assert all(word in str(raised.value.problems[0]) for word in ("logfmt", "auto", "json", "text"))
