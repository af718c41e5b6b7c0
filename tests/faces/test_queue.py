"""`rota queue`, `move`, `edit`, `trigger --each` and `cancel` by filter, typed in a project without a scheduler."""

import json
from datetime import timedelta

import pytest

from rota.model.records import Outcome
from rota.model.states import Status
from tests.faces.conftest import Project

FILE = """
timezone: Europe/Madrid
pools: {gpu: 1}
defaults: {retry: false}
jobs:
  crawl: {command: [./crawl], params: {page: 0, deep: false}, overlap: allow}
  train: {command: [./train], params: {page: 0}, overlap: allow, pools: [gpu], priority: 5, labels: [night]}
  line: {command: [./line], overlap: queue, queue_depth: 3}
"""


@pytest.fixture
def queued(project: Project) -> Project:
    """A project with three queued runs of `crawl`."""
    project.applied(FILE)
    for page in (1, 2, 3):
        project.ok("trigger", "crawl", "--param", f"page={page}")
        project.clock.advance(timedelta(seconds=1))
    return project


def places(project: Project) -> list[str]:
    return [run["run"] for run in project.json("queue")["ready"]]


def test_an_empty_queue_says_so(project: Project) -> None:
    project.applied(FILE)
    assert project.ok("queue") == "the queue is empty\n"
    assert project.json("queue")["ready"] == []


def test_the_queue_shows_place_since_priority_pools_and_what_keeps_the_first(queued: Project) -> None:
    queued.ok("trigger", "train")
    queued.clock.advance(timedelta(minutes=3))
    lines = queued.ok("queue").splitlines()
    assert lines[:2] == ["4 ready, 0 waiting", "first: train:1, no scheduler is running"]
    assert lines[2].split() == ["PLACE", "RUN", "SINCE", "PRIORITY", "POOLS", "WHY"]
    assert lines[3].split() == ["1", "train:1", "3", "min", "5", "gpu", "no", "scheduler", "is", "running"]
    assert [line.split()[:2] for line in lines[4:]] == [["2", "crawl:1"], ["3", "crawl:2"], ["4", "crawl:3"]]


def test_the_queue_shows_waiting_runs_after_the_others_with_what_they_wait_for(queued: Project) -> None:
    queued.ok("trigger", "line")
    queued.ok("trigger", "line")
    assert queued.ok("queue").splitlines()[-1].split() == [
        "–",
        "line:2",
        "0",
        "s",
        "0",
        "waits",
        "for",
        "predecessor",
        "line:1",
    ]
    (waiting,) = queued.json("queue")["waiting"]
    assert (waiting["run"], waiting["waiting_for"], waiting["predecessor"]) == ("line:2", "predecessor", "line:1")


def test_the_queue_shows_no_more_than_the_limit_and_says_that_there_is_more(queued: Project) -> None:
    told = queued.ok("queue", "--limit", "2")
    assert "crawl:3" not in told
    assert told.endswith("more with --limit\n")
    assert queued.json("queue", "--limit", "2")["ready_count"] == 3


def test_a_pause_of_everything_is_what_keeps_the_queue(queued: Project) -> None:
    queued.ok("pause", "--all", "--reason", "kernel upgrade")
    told = queued.ok("queue")
    assert told.startswith("everything is paused (kernel upgrade); continue with `rota resume --all`\n")
    assert {run["held"] for run in queued.json("queue")["ready"]} == {"paused"}


def test_the_json_of_the_queue_has_a_fixed_shape(queued: Project) -> None:
    queued.ok("trigger", "train")
    view = queued.json("queue")
    assert set(view) == {
        *(
            "state",
            "paused",
            "slots",
            "slots_taken",
            "ready_count",
            "waiting_count",
            "direct",
            "ready",
            "waiting",
            "pools",
        )
    }
    first = view["ready"][0]
    assert (first["place"], first["priority"], first["pools"], first["held"]) == (1, 5, {"gpu": 1}, "no_worker")


def test_runs_are_moved_in_the_order_in_which_they_are_named_dec_005(queued: Project) -> None:
    """DEC-005."""
    assert queued.ok("move", "crawl:3", "crawl:2", "--first") == "crawl:3  place 1\ncrawl:2  place 2\n"
    assert places(queued) == ["crawl:3", "crawl:2", "crawl:1"]
    queued.ok("move", "crawl:1", "--before", "crawl:2")
    assert places(queued) == ["crawl:3", "crawl:1", "crawl:2"]
    queued.ok("move", "crawl:3", "--to", "2")
    assert places(queued) == ["crawl:1", "crawl:3", "crawl:2"]
    queued.ok("move", "crawl:1", "--last")
    assert places(queued) == ["crawl:3", "crawl:2", "crawl:1"]


def test_a_move_stops_at_the_border_of_its_priority_and_says_so_inv_004(queued: Project) -> None:
    """INV-004."""
    queued.ok("trigger", "train")
    assert queued.ok("move", "crawl:3", "--first") == "crawl:3  place 2: the first of priority 0\n"
    refused = queued.rota("move", "crawl:3", "--before", "train:1")
    assert refused.exit_code == 6
    assert "`rota edit crawl:3 --priority 5`" in refused.stderr


def test_a_dry_run_of_a_move_changes_nothing(queued: Project) -> None:
    told = queued.ok("move", "crawl:3", "--first", "--dry-run")
    assert told == "crawl:3  place 1\nnothing was changed (--dry-run)\n"
    assert places(queued) == ["crawl:1", "crawl:2", "crawl:3"]


@pytest.mark.parametrize("where", [[], ["--first", "--last"], ["--to", "1", "--before", "crawl:2"]])
def test_a_move_needs_exactly_one_place_to_go_to(queued: Project, where: list[str]) -> None:
    result = queued.rota("move", "crawl:3", *where)
    assert result.exit_code == 2
    assert "give one of --first" in result.stderr


def test_with_aging_a_move_is_refused_with_the_way_out_r_03(queued: Project) -> None:
    """R-03."""
    queued.applied(FILE + "scheduler: {aging: 10m}\n")
    refused = queued.rota("move", "crawl:3", "--first", "--json")
    assert refused.exit_code == 6
    error = json.loads(refused.stderr)["error"]
    assert (error["code"], "--priority" in error["hint"]) == ("aging_orders", True)


def test_a_queued_run_is_edited_and_a_started_one_is_not_inv_001(queued: Project) -> None:
    """INV-001: the error names run and status."""
    told = queued.ok("edit", "crawl:3", "--param", "page=9", "--priority", "1")
    assert told == "crawl:3  page = 9, priority 0 → 1; place 1\n"
    assert queued.json("show", "crawl:3")["params"] == {"page": 9, "deep": False}
    queued.carry_out([Outcome(Status.COMPLETED)])
    refused = queued.rota("edit", "crawl:3", "--param", "page=1", "--json")
    assert refused.exit_code == 6
    error = json.loads(refused.stderr)["error"]
    assert (error["code"], error["message"]) == (
        "immutable",
        "cannot modify params after dispatch: crawl:3 is COMPLETED",
    )
    running = queued.rota("edit", "crawl:1", "--param", "page=1")
    assert "cannot modify params after dispatch: crawl:1 is RUNNING" in running.stderr


def test_a_dry_run_of_an_edit_changes_nothing(queued: Project) -> None:
    assert queued.ok("edit", "crawl:3", "--priority", "4", "--dry-run").endswith("nothing was changed (--dry-run)\n")
    assert places(queued) == ["crawl:1", "crawl:2", "crawl:3"]


def test_each_line_of_a_file_becomes_a_run(queued: Project) -> None:
    (queued.folder / "pages.jsonl").write_text('{"page": 7}\n\n{"page": "é", "deep": true}\n')
    told = queued.ok("trigger", "crawl", "--each", "pages.jsonl", "--param", "deep=false")
    assert told == "queued 2 runs: crawl:4 … crawl:5   rota queue\n"
    assert queued.json("show", "crawl:4")["params"] == {"page": 7, "deep": False}
    assert queued.json("show", "crawl:5")["params"] == {"page": "é", "deep": True}
    answer = queued.json("trigger", "crawl", "--each", "pages.jsonl")
    assert (answer["count"], answer["first"], answer["last"]) == (2, "crawl:6", "crawl:7")
    assert len(answer["runs"]) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"page": 1}\n{"page": ', "line 2 is not JSON"),
        ('{"page": 1}\n\n[1]', "line 3 is not a JSON object"),
        ('{"page": 1}\n{"size": 2}', "line 2: job 'crawl' has no param 'size'"),
        ('{"page": NaN}', "line 1 is not JSON: NaN is not a number"),
        ("\n\n", "no runs of 'crawl' were requested"),
    ],
)
def test_a_wrong_line_is_named_and_no_run_is_made(queued: Project, text: str, message: str) -> None:
    (queued.folder / "pages.jsonl").write_text(text)
    refused = queued.rota("trigger", "crawl", "--each", "pages.jsonl")
    assert refused.exit_code == 2
    assert message in refused.stderr
    assert len(places(queued)) == 3


def test_a_file_that_is_not_there_is_named(queued: Project) -> None:
    refused = queued.rota("trigger", "crawl", "--each", "nowhere.jsonl")
    assert refused.exit_code == 2
    assert "nowhere.jsonl cannot be read" in refused.stderr


def test_a_dry_run_of_many_makes_none(queued: Project) -> None:
    (queued.folder / "pages.jsonl").write_text("{}\n{}")
    told = queued.ok("trigger", "crawl", "--each", "pages.jsonl", "--dry-run")
    assert told == "would queue 2 runs: crawl:4 … crawl:5   rota queue\nnothing was changed (--dry-run)\n"
    assert len(places(queued)) == 3


def test_a_cancel_by_filter_previews_asks_and_cancels(queued: Project) -> None:
    queued.ok("trigger", "train")
    preview = queued.ok("cancel", "--job", "crawl", "--dry-run")
    assert [line.split() for line in preview.splitlines()] == [
        ["JOB", "QUEUED", "RUNNING"],
        ["crawl", "3", "0"],
        ["nothing", "was", "changed", "(--dry-run)"],
    ]
    unanswered = queued.rota("cancel", "--job", "crawl")
    assert unanswered.exit_code == 2
    assert "--yes" in unanswered.stderr
    assert len(places(queued)) == 4
    assert queued.ok("cancel", "--job", "crawl", "--yes").endswith("3 queued runs CANCELLED\n")
    assert places(queued) == ["train:1"]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--all"], []),
        (["--label", "night"], ["crawl:1", "crawl:2", "crawl:3"]),
        (["--older-than", "10m", "--queued"], ["train:1"]),
        (["--running"], ["train:1", "crawl:1", "crawl:2", "crawl:3"]),
        (["--waiting-for", "predecessor"], ["train:1", "crawl:1", "crawl:2", "crawl:3"]),
    ],
)
def test_a_filter_means_what_it_says(queued: Project, options: list[str], left: list[str]) -> None:
    queued.clock.advance(timedelta(hours=1))
    queued.ok("trigger", "train")
    answer = queued.json("cancel", *options, "--yes")
    assert places(queued) == left
    assert answer["cancelled"] == 4 - len(left)


def test_runs_and_filters_do_not_go_together_and_one_of_them_is_needed(queued: Project) -> None:
    assert queued.rota("cancel").exit_code == 2
    assert queued.rota("cancel", "crawl:1", "--all").exit_code == 2
    unknown = queued.rota("cancel", "--waiting-for", "godot", "--yes")
    assert unknown.exit_code == 2
    assert "one of backoff" in unknown.stderr


def test_status_shows_the_head_of_the_queue_in_its_order(queued: Project) -> None:
    queued.ok("move", "crawl:3", "--first")
    status = json.loads(queued.rota("status", "--json").stdout)
    assert [run["run"] for run in status["queued"]] == ["crawl:3", "crawl:1", "crawl:2"]
