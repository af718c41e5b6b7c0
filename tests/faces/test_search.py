"""`rota logs --grep` and `rota history --grep`: a text in many runs, in any case, whatever bytes they wrote."""

import pytest

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.project.locate import open_state
from rota.operations.runs import show_run
from rota.runners.output import folder_of, make_folder
from tests.faces.conftest import Project

FILE = "jobs:\n  a: {command: [x], overlap: allow}\n  b: {command: [y], overlap: allow}\n"


@pytest.fixture
def filled(project: Project) -> Project:
    project.applied(FILE)
    for job, text in (("a", "one\nRepository Locked by 7\n"), ("b", "fine\n"), ("a", "repository locked\nagain\n")):
        project.ok("trigger", job)
        project.carry_out([Outcome(Status.COMPLETED)], output=text)
    return project


def write_output(project: Project, handle: str, content: bytes) -> None:
    store = open_state(project.state, project.clock, create=False)
    run = show_run(store, handle).run
    store.close()
    (make_folder(folder_of(project.state, run.id)) / "output.0").write_bytes(content)


def test_lines_are_found_over_all_runs_in_any_case(filled: Project) -> None:
    assert filled.ok("logs", "--grep", "REPOSITORY locked").splitlines() == [
        "a:2:1: repository locked",
        "a:1:2: Repository Locked by 7",
    ]


def test_a_job_or_a_run_narrows_the_search(filled: Project) -> None:
    assert filled.ok("logs", "b", "--grep", "e").splitlines() == ["b:1:1: fine"]
    assert filled.ok("logs", "a:1", "--grep", "locked").splitlines() == ["a:1:2: Repository Locked by 7"]


def test_json_tells_how_many_runs_were_looked_at(filled: Project) -> None:
    assert filled.json("logs", "--grep", "fine") == {
        "matches": [{"run": "b:1", "line": 1, "text": "fine"}],
        "runs": 3,
        "stopped": None,
    }


@pytest.mark.parametrize(("since", "runs"), [("2126-01-01", 0), ("2026-01-01", 3)])
def test_older_runs_are_left_out(filled: Project, since: str, runs: int) -> None:
    assert filled.json("logs", "--grep", "locked", "--since", since)["runs"] == runs


def test_a_search_that_ends_early_says_so(filled: Project) -> None:
    found = filled.json("logs", "--grep", "locked", "--limit", "1")
    assert (len(found["matches"]), found["stopped"]) == (
        1,
        "stopped after 1 line: narrow the search with --since or a job",
    )


def test_nothing_found_is_told(filled: Project) -> None:
    result = filled.rota("logs", "--grep", "nowhere")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "rota: no output of 3 runs holds 'nowhere'\n"


def test_ugly_bytes_are_searched_and_shown_safely(filled: Project) -> None:
    write_output(filled, "b:1", b"\xff\x00\x1b[31mneedle\x1b[0m\r\n" + b"x" * 200_000 + b"Needle" + b"y" * 200_000)
    lines = filled.ok("logs", "b", "--grep", "needle").splitlines()
    assert [line.split(":")[2] for line in lines] == ["1", "2"]
    assert not {"\x1b", "\x00", "\r"} & set("".join(lines))
    assert len(lines[1]) < 400
    assert "Needle" in lines[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--grep", "x", "-f"],
        ["--grep", "x", "--tail", "1"],
        ["--grep", "x", "--raw"],
        ["--grep", " "],
        [],
        ["a", "--since", "1d"],
    ],
)
def test_a_wrong_use_is_told(filled: Project, arguments: list[str]) -> None:
    assert filled.rota("logs", *arguments).exit_code == 2


def test_history_is_searched_in_summaries_and_errors(project: Project) -> None:
    project.applied("jobs:\n  a: {command: [x], retry: false}\n")
    for outcome in (
        Outcome(Status.FAILED, Reason.EXIT_CODE, error="exit 3: Repository locked", exit_code=3),
        Outcome(Status.COMPLETED, summary="3 REPOSITORY checks"),
        Outcome(Status.COMPLETED, summary="nothing"),
    ):
        project.ok("trigger", "a")
        project.carry_out([outcome])
    assert [run["run"] for run in project.json("history", "--grep", "repository")] == ["a:2", "a:1"]
    assert [run["run"] for run in project.json("history", "--grep", "repository", "--status", "failed")] == ["a:1"]
    assert len(project.json("history", "--grep", "repository", "--limit", "1")) == 1
    assert project.rota("history", "--grep", "").exit_code == 2
