"""list, show, history, logs, explain, status."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.cli.output import Column, fit_widths, lay_out, visible_columns
from rota.model.budgets import Usage
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.text.format import day_time, read_instant
from tests.faces.conftest import NOON, Project

DONE = Outcome(Status.COMPLETED, exit_code=0)
BROKEN = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3: \x1b[31mrepository locked\x1b[0m")
JOBS = """timezone: Europe/Berlin
defaults: {retry: false}
jobs:
  backup: {cron: "15 2 * * *", command: [echo, hi], labels: [night], misfire: once}
  disk: {command: [echo, disk]}
  quiet: {command: [echo, secret], output: none}
"""
RUN_KEYS = (
    "id run job status reason waiting_for trigger scheduled_for covers_to count created_at started_at finished_at "
    "attempt retry_of exit_code error result_summary usage denied_tools session_id checked"
)


@pytest.fixture
def seen(project: Project) -> Project:
    """Three runs of disk, the last one failed."""
    project.applied(JOBS)
    for outcome in (DONE, DONE, BROKEN):
        project.ok("trigger", "disk")
        project.carry_out([outcome], output="one\ntwo\nthree\n")
        project.clock.advance(timedelta(minutes=1))
    return project


def test_list_shows_ticks_next_fires_and_how_many_fail(seen: Project) -> None:
    told = seen.ok("list")
    lines = told.splitlines()
    assert lines[0].split() == ["JOB", "SCHEDULE", "LAST", "LAST", "10", "NEXT", "(Europe/Berlin)"]
    assert "at 02:15 every day" in lines[1]
    assert "Mon 02:15  in 13 h" in lines[1]
    assert "FAILED exit 3" in lines[2]
    assert "▪▪✗" in lines[2]
    assert lines[-1].startswith("3 jobs · 1 failing · ▪ completed  ✗ failed")


def test_list_by_label_and_as_json(seen: Project) -> None:
    assert [job["name"] for job in seen.json("list", "--label", "night")] == ["backup"]
    assert seen.json("list")[1]["last"][0]["run"] == "disk:3"


def test_retired_jobs_are_listed_only_with_all(seen: Project) -> None:
    seen.write(JOBS.replace("  disk: {command: [echo, disk]}\n", ""))
    seen.ok("apply")
    assert "disk" not in seen.ok("list")
    assert "retired" in seen.ok("list", "--all")


def test_history_collapses_equal_neighbours_of_a_job(seen: Project) -> None:
    lines = seen.ok("history").splitlines()
    assert lines[1].startswith("disk:3   FAILED     exit_code")
    assert lines[1].endswith("exit 3: repository locked")
    assert lines[2].startswith("disk ×2  COMPLETED")
    assert len(seen.ok("history", "--all").splitlines()) == 4


def test_history_as_json_is_never_collapsed_and_has_its_fixed_shape(seen: Project) -> None:
    runs = seen.json("history", "disk")
    assert [run["run"] for run in runs] == ["disk:3", "disk:2", "disk:1"]
    assert " ".join(runs[0]) == RUN_KEYS
    assert runs[0]["exit_code"] == 3


def test_history_filters(seen: Project) -> None:
    assert [run["run"] for run in seen.json("history", "--status", "failed")] == ["disk:3"]
    assert [run["run"] for run in seen.json("history", "--status", "succeeded", "--limit", "1")] == ["disk:2"]
    assert [run["run"] for run in seen.json("history", "--reason", "exit_code")] == ["disk:3"]
    assert seen.json("history", "--label", "night") == []


def test_history_between_two_instants(project: Project) -> None:
    project.clock.advance(timedelta(days=30))  # identifiers of one process never go back, whatever other tests did
    project.applied(JOBS)
    for _ in range(3):
        project.ok("trigger", "disk")
        project.carry_out([DONE])
        project.clock.advance(timedelta(minutes=1))
    assert [run["run"] for run in project.json("history", "--since", "90s")] == ["disk:3"]
    assert [run["run"] for run in project.json("history", "--until", "2026-12-15T12:00:30Z")] == ["disk:1"]
    assert len(project.json("history", "--since", "today")) == 3
    assert project.json("history", "--since", "2026-12-16") == []


@pytest.fixture
def many(project: Project) -> Project:
    """A run of disk that failed, then 45 that worked."""
    paid = replace(DONE, usage=Usage(usd=1_000, tokens_in=3, tokens_out=4))
    project.applied(JOBS.replace("[echo, disk]", "[echo, disk], params: {n: 0}, overlap: allow"))
    for outcomes in ([BROKEN], [paid] * 45):
        (project.folder / "each.jsonl").write_text("{}\n" * len(outcomes))
        project.ok("trigger", "disk", "--each", "each.jsonl")
        project.carry_out(outcomes)
    return project


def test_a_line_of_the_history_counts_all_its_runs_whatever_the_limit(many: Project) -> None:
    whole = many.ok("history", "disk").splitlines()
    assert whole[1].startswith("disk ×45  COMPLETED")
    assert whole[1].split()[-2:] == ["$0.045", "315"]
    for scope in ([], ["disk"]):
        one = many.ok("history", *scope, "--limit", "1").splitlines()
        assert one[1].split() == whole[1].split()
        assert one[2:] == ["the newest 1 line; more with --limit"]


def test_the_history_says_that_there_is_more_only_where_there_is(many: Project) -> None:
    assert "more" not in many.ok("history", "--limit", "2")
    assert "more" not in many.ok("history", "--status", "completed", "--limit", "1")
    many.ok("trigger", "quiet")
    assert many.ok("history", "--limit", "1").splitlines()[1].startswith("quiet:1")
    assert "more" in many.ok("history", "--limit", "1")
    assert "more" in many.ok("history", "--all", "--limit", "46")
    assert "more" not in many.ok("history", "--all", "--limit", "47")


def test_the_history_says_when_a_run_that_never_started_was_due_or_created(project: Project) -> None:
    project.applied(JOBS)
    project.ok("trigger", "disk")
    project.ok("cancel", "disk")
    assert " created 13:00:00\n" in project.ok("history", "disk")
    tick = 'jobs:\n  tick: {cron: "*/5 * * * *", command: [echo, hi]}\n'
    project.applied(tick)
    project.clock.advance(timedelta(minutes=7))
    project.applied(tick.replace("hi", "ho").replace("*/5", "*/10"))
    assert " due 12:05:00\n" in project.ok("history", "tick")


def test_history_tells_counted_instants_in_one_row(project: Project) -> None:
    project.applied('jobs:\n  tick: {cron: "*/5 * * * *", command: [echo, hi]}\n')
    project.clock.advance(timedelta(hours=1, minutes=2))
    project.applied('jobs:\n  tick: {cron: "*/10 * * * *", command: [echo, hi]}\n')
    assert "×12" in project.ok("history")
    assert "○" in project.ok("list")
    told = project.ok("explain", "tick")
    assert "12 instants from 12:05:00 to 13:00:00" in told
    assert "`misfire: skip` does not run it" in told


def test_show_a_job_and_a_run(seen: Project) -> None:
    assert seen.ok("show", "disk").startswith("disk  idle\n")
    told = seen.ok("show", "disk:3")
    assert told.startswith("disk:3  FAILED exit 3\n")
    assert "error        exit 3: repository locked" in told
    assert seen.json("show", "disk:-1")["run"] == "disk:2"
    identifier = seen.json("history", "disk")[0]["id"]
    assert seen.json("show", identifier)["run"] == "disk:3"
    assert seen.json("show", "backup")["state"] == "idle"


def test_show_never_shows_values_of_the_environment(project: Project) -> None:
    project.applied("jobs:\n  a: {command: [env], env: {TOKEN: hunter2, OTHER: {secret: NAME}}}\n")
    assert "hunter2" not in project.ok("show", "a") + project.ok("show", "a", "--json")
    assert "TOKEN" in project.ok("show", "a")


def test_logs_prints_the_output_or_its_end(seen: Project) -> None:
    assert seen.ok("logs", "disk") == "one\ntwo\nthree\n"
    assert seen.ok("logs", "disk:1", "--tail", "1") == "three\n"
    assert seen.json("logs", "disk")["output"] == "one\ntwo\nthree\n"


def test_logs_strips_control_characters_unless_raw(project: Project) -> None:
    project.applied(JOBS).ok("trigger", "disk")
    project.carry_out([DONE], output="\x1b[31mred\x1b[0m\r\n")
    assert project.ok("logs", "disk") == "red\n"
    assert project.rota("logs", "disk", "--raw").stdout_bytes == b"\x1b[31mred\x1b[0m\r\n"


@pytest.mark.parametrize(("job", "note"), [("disk", "disk:1 wrote nothing"), ("quiet", "its job says `output: none`")])
def test_logs_says_why_there_is_no_output(project: Project, job: str, note: str) -> None:
    project.applied(JOBS).ok("trigger", job)
    project.carry_out([DONE])
    result = project.rota("logs", job)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert note in result.stderr


def test_logs_of_a_run_that_never_started_says_so(project: Project) -> None:
    project.applied(JOBS).ok("trigger", "disk")
    assert "has not started: it is QUEUED" in project.rota("logs", "disk").stderr
    project.ok("cancel", "disk")
    assert "disk:1 never started: CANCELLED requested" in project.rota("logs", "disk").stderr


def test_explain_tells_the_chain_of_decisions(seen: Project) -> None:
    lines = seen.ok("explain", "disk:3").splitlines()
    assert lines[0] == "disk:3  FAILED exit_code  Sun 15 Nov 13:02:04 (Europe/Berlin)"
    labels = [line.split()[0] for line in lines[1:]]
    assert labels == ["due", "misfire", "overlap", "conditions", "start", "end", "then"]
    assert "started by hand" in lines[1]
    assert "FAILED exit_code after 2 s: exit 3: repository locked" in lines[6]


def test_explain_a_queued_run_says_why_it_is_not_running_r_02(project: Project) -> None:
    """R-02: no_worker is derived when read."""
    project.applied(JOBS).ok("trigger", "disk")
    assert "for a scheduler: none is running here" in project.ok("explain", "disk:1")


def test_explain_a_job_without_runs_tells_its_next_fire(project: Project) -> None:
    told = project.applied(JOBS).ok("explain", "backup")
    assert "Mon 16 Nov 02:15 (Europe/Berlin), in 13 h 15 min" in told
    assert "it has no runs yet" in told


def test_explain_as_json_carries_lines_and_records(seen: Project) -> None:
    told = seen.json("explain", "disk")
    assert told["run"]["run"] == "disk:3"
    assert [line["label"] for line in told["job_lines"]] == ["state", "schedule", "next"]
    assert told["decisions"]["overlap"] == {"policy": "forbid", "verdict": "go"}


def test_status_without_a_scheduler_is_1_and_names_what_needs_somebody_r_22(seen: Project) -> None:
    """R-22: no lock is a dead scheduler."""
    result = seen.rota("status")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "no scheduler is running" in lines[0]
    assert lines[1:3] == ["attention", "  disk  FAILED exit_code: exit 3: repository locked   rota explain disk:3"]
    assert "Mon 02:15 backup" in lines[-1]
    assert len(lines) <= 10


def test_status_as_json(seen: Project) -> None:
    told = seen.json("status")
    assert told["state"] == "dead"
    assert [one["name"] for one in told["attention"]] == ["disk"]
    assert told["next"] == [{"at": "2026-11-16T01:15:00Z", "job": "backup"}]


def test_status_shows_what_was_due_as_overdue_and_only_what_comes_as_next(seen: Project) -> None:
    seen.clock.advance(timedelta(days=2))
    lines = seen.rota("status").stdout.splitlines()
    assert lines[-2:] == ["overdue   backup since yesterday 02:15   (Europe/Berlin)", "next      nothing"]
    told = seen.json("status")
    assert (told["next"], told["overdue"]) == ([], [{"at": "2026-11-16T01:15:00Z", "job": "backup"}])


def test_rota_alone_is_status_inside_a_project_and_first_steps_elsewhere(seen: Project, project: Project) -> None:
    assert "no scheduler is running" in seen.rota().stdout
    (project.folder / "rota.yaml").unlink()
    outside = project.rota()
    assert outside.exit_code == 0
    assert outside.stdout.startswith("There is no rota.yaml")


def test_help_shows_the_overview_one_command_or_all(project: Project) -> None:
    assert project.ok("help").startswith("Usage: rota [OPTIONS]")
    assert project.ok("help", "history").startswith("Usage: rota history [OPTIONS] [JOB]")
    assert "Usage: rota cancel" in project.ok("help", "--all")
    assert project.rota("help", "nonsense").exit_code == 2


def test_a_narrow_terminal_cuts_flexible_columns_first_and_never_the_first() -> None:
    columns = [Column("JOB"), Column("SCHEDULE", flexible=True), Column("NEXT")]
    assert fit_widths(columns, [12, 40, 20], room=80) == [12, 40, 20]
    assert fit_widths(columns, [12, 40, 20], room=60) == [12, 24, 20]
    assert fit_widths(columns, [12, 40, 20], room=40) == [12, 10, 14]


def test_a_narrow_terminal_does_without_spare_columns_before_it_cuts_the_others() -> None:
    columns = [
        Column("AGENT"),
        Column("PROGRAM", spare=True),
        Column("HEADLESS", spare=True),
        Column("WHY", flexible=True),
    ]
    assert visible_columns(columns, [10, 30, 8, 40], room=64) == [0, 1, 2, 3]
    assert visible_columns(columns, [10, 30, 8, 40], room=60) == [0, 2, 3]
    assert visible_columns(columns, [10, 30, 8, 40], room=30) == [0, 3]


def test_a_long_heading_gives_way_before_anything_below_it_is_cut() -> None:
    columns = [Column("RUN"), Column("STATUS"), Column("STARTED (Europe/Madrid)"), Column("WHY", flexible=True)]
    row = ["triage:12", "COMPLETED, 1 tool denied", "Mon 02:30:00", "the tool Bash was denied"]
    assert lay_out(columns, [row], room=80) == {0: 9, 1: 24, 2: 17, 3: 24}
    assert lay_out(columns, [row], room=70) == {0: 9, 1: 24, 2: 12, 3: 19}
    assert lay_out(columns, [row], room=120) == {0: 9, 1: 24, 2: 23, 3: 24}


def test_instants_are_told_as_short_as_they_stay_clear() -> None:
    told = [day_time(NOON + timedelta(days=days), "Europe/Berlin", now=NOON) for days in (0, -1, 1, 6, 7, -2, 90)]
    assert told == [
        "13:00",
        "yesterday 13:00",
        "Mon 13:00",
        "Sat 13:00",
        "Sun 22 Nov 13:00",
        "Fri 13 Nov 13:00",
        "Sat 13 Feb 2027 13:00",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", "2026-11-15T10:00:00+00:00"),
        ("today", "2026-11-14T23:00:00+00:00"),
        ("yesterday", "2026-11-13T23:00:00+00:00"),
        ("2026-11-01", "2026-10-31T23:00:00+00:00"),
        ("2026-11-01T10:00Z", "2026-11-01T10:00:00+00:00"),
    ],
)
def test_instants_are_read_in_the_project_s_zone(text: str, expected: str) -> None:
    assert read_instant(text, "Europe/Berlin", now=NOON).isoformat() == expected
