"""init, check, schema, apply, next."""

import json
import os
from datetime import timedelta
from pathlib import Path

import jsonschema
import pytest

from tests.faces.conftest import Project

JOBS = """timezone: Europe/Madrid
jobs:
  nightly: {cron: "30 2 * * *", command: [echo, hi], labels: [night]}
  triage: {interval: 30m, command: [echo, triage]}
  byhand: {command: [echo, "{{ params.who }}"], params: {who: you}}
"""


@pytest.mark.parametrize("kind", [None, "cron", "python", "claude", "codex"])
def test_what_init_writes_passes_check(project: Project, kind: str | None) -> None:
    told = project.ok("init", *(["--with", kind] if kind else []))
    assert "wrote rota.yaml" in told
    assert "1 job: ok" in project.ok("check")
    first = (project.folder / "rota.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=.rota/schema.json"
    assert json.loads((project.state / "schema.json").read_text())["title"] == "rota.yaml"
    assert project.state.stat().st_mode & 0o777 == 0o700


def test_init_says_that_the_agent_it_was_asked_for_is_not_here(project: Project) -> None:
    told = project.rota("init", "--with", "codex", environ={"PATH": str(project.folder)})
    assert "no codex here    it is not on PATH, and the job needs it" in told.stdout


def test_init_overwrites_nothing(project: Project) -> None:
    project.write(JOBS)
    result = project.rota("init")
    assert result.exit_code == 6
    assert (project.folder / "rota.yaml").read_text() == JOBS


def test_a_dry_init_writes_nothing(project: Project) -> None:
    told = project.ok("init", "--dry-run")
    assert "jobs:" in told
    assert list(project.folder.iterdir()) == []


def test_init_names_agents_on_path_and_writes_no_key_that_check_refuses(project: Project, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "claude").write_text("#!/bin/sh\necho '2.1.259 (Claude Code)'\n")
    (tools / "claude").chmod(0o755)
    result = project.rota("init", environ={"PATH": f"{tools}:{os.environ['PATH']}", "TZ": "Europe/Madrid"})
    assert "found claude 2.1.259" in result.stdout
    assert "time zone Europe/Madrid" in result.stdout
    project.ok("check")


def test_an_agent_job_of_init_is_disabled(project: Project) -> None:
    project.ok("init", "--with", "claude")
    assert [job["enabled"] for job in project.json("check")["jobs"]] == [False]


def test_check_reads_each_job_in_plain_english_with_its_next_fire(project: Project) -> None:
    project.write(JOBS)
    told = project.ok("check").splitlines()
    assert told[0] == "rota.yaml: 3 jobs: ok"
    assert told[1].split("  ")[1:] == [
        "nightly",
        "at 02:30 every day (Europe/Madrid)",
        "next Mon 16 Nov 02:30, in 13 h 30 min",
        "timeout 10 min, 3 attempts",
    ]
    assert "next: now" in told[2]
    assert told[-1].startswith("note: triage: starts as soon as it is first applied")


def test_check_tells_every_problem_on_a_line_and_changes_nothing(project: Project) -> None:
    project.write("jobs:\n  a: {every: 5m, command: [x]}\n  b: {cron: '61 * * * *', command: [x]}\n")
    result = project.rota("check")
    assert result.exit_code == 65
    lines = result.stderr.splitlines()
    places = [line.partition(": ")[0] for line in lines if line.startswith("rota.yaml")]
    assert places == ["rota.yaml:2:7", "rota.yaml:3:13"]
    assert lines[-1] == "2 problems, nothing was changed"
    problems = json.loads(project.rota("check", "--json").stderr)["error"]["problems"]
    assert [(one["line"], one["path"]) for one in problems] == [(2, "jobs.a.every"), (3, "jobs.b.cron")]


def test_check_names_the_column_of_the_value_and_cuts_a_long_line_around_it(project: Project) -> None:
    job = f"a: {{interval: 5m, command: [{', '.join(['argument'] * 20)}], timeout: forever}}"
    project.write(f"jobs:\n  {job}\n")
    place, line, caret, _ = project.rota("check").stderr.splitlines()
    assert place.startswith(f"rota.yaml:2:{job.index('forever') + 3}: jobs.a.timeout: ")
    assert line.strip().startswith("…")
    assert line[caret.index("^") :] == "forever}"


def test_check_shows_the_line_with_a_caret_under_the_value_or_an_unknown_key(project: Project) -> None:
    project.write("jobs:\n  a: {every: 5m, command: [x]}\n  b:\n    timeout: forever\n    command: [x]\n")
    for arguments in (["check"], ["--dir", str(project.folder), "check"]):
        lines = project.rota(*arguments).stderr.splitlines()
        assert lines[1:3] == ["    a: {every: 5m, command: [x]}", "        ^"]
        assert lines[4:6] == ["    timeout: forever", "             ^"]


def test_check_shows_no_line_that_holds_a_secret(project: Project) -> None:
    project.write("agents: {a: {adapter: claude, env: {ANTHROPIC_API_KEY: sk-geheim}}}\njobs: {}\n")
    refused = project.rota("check")
    assert refused.exit_code == 65
    assert "sk-geheim" not in refused.stderr


def test_schema_is_a_json_schema_that_knows_the_file(project: Project) -> None:
    schema = json.loads(project.ok("schema"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert list(validator.iter_errors({"jobs": {"a": {"command": ["x"], "interval": "5m"}}})) == []
    assert list(validator.iter_errors({"jobs": {"a": {"command": ["x"], "every": "5m"}}}))


def test_apply_prints_its_plan_and_a_second_one_changes_nothing(project: Project) -> None:
    project.write(JOBS)
    assert "+ nightly  created, at 02:30 every day (Europe/Madrid)" in project.ok("apply")
    assert project.ok("apply") == "= 3 jobs unchanged\n"


def test_apply_shows_what_differs_and_what_is_retired(project: Project) -> None:
    project.applied(JOBS)
    project.write(
        JOBS.replace("30 2", "30 3").replace(
            '  byhand: {command: [echo, "{{ params.who }}"], params: {who: you}}\n', ""
        )
    )
    told = project.ok("apply")
    assert '~ nightly  changed\n    cron "30 2 * * *" → "30 3 * * *"' in told
    assert "- byhand  retired" in told
    project.write(JOBS)
    assert "+ byhand  revived" in project.ok("apply")


def test_a_dry_apply_changes_nothing(project: Project) -> None:
    project.applied(JOBS)
    project.write(JOBS.replace("30 2", "30 3"))
    assert "nothing was changed" in project.ok("apply", "--dry-run")
    assert project.json("apply", "--dry-run")["changed"] == 1
    assert project.json("show", "nightly")["spec"]["schedule"]["cron"] == ["30 2 * * *"]


def test_a_dry_apply_of_a_fresh_project_makes_no_state(project: Project) -> None:
    project.write(JOBS)
    assert "+ nightly" in project.ok("apply", "--dry-run")
    assert not project.state.exists()


def test_apply_does_not_retire_everything_unless_told(project: Project) -> None:
    project.applied(JOBS)
    project.write("jobs: {}\n")
    refused = project.rota("apply")
    assert refused.exit_code == 6
    assert "--allow-empty" in refused.stderr
    assert "- nightly  retired" in project.ok("apply", "--allow-empty")


def test_next_of_a_cron_without_a_project_has_its_fixed_shape(project: Project) -> None:
    fires = project.json(
        "next", "--cron", "30 2 * * *", "--timezone", "Europe/Paris", "--after", "2026-03-28T00:00:00Z", "-n", "3"
    )
    assert fires == [
        {"at": "2026-03-28T01:30:00Z", "local": "2026-03-28T02:30:00+01:00"},
        {"at": "2026-03-29T01:00:00Z", "local": "2026-03-29T03:00:00+02:00"},
        {"at": "2026-03-30T00:30:00Z", "local": "2026-03-30T02:30:00+02:00"},
    ]


def test_next_of_an_interval_and_of_an_instant(project: Project) -> None:
    assert [fire["at"] for fire in project.json("next", "--interval", "5m", "-n", "2")] == [
        "2026-11-15T12:05:00Z",
        "2026-11-15T12:10:00Z",
    ]
    told = project.json("next", "--at", "2026-11-16T02:30", "--timezone", "Europe/Madrid")
    assert told == [{"at": "2026-11-16T01:30:00Z", "local": "2026-11-16T02:30:00+01:00"}]


def test_next_of_a_job_follows_the_stored_cursor(project: Project) -> None:
    project.applied(JOBS)
    project.clock.advance(timedelta(minutes=10))
    fires = project.json("next", "nightly", "-n", "2")
    assert fires[0] == {"at": "2026-11-16T01:30:00Z", "local": "2026-11-16T02:30:00+01:00"}
    assert [fire["at"] for fire in project.json("next", "triage", "-n", "2")] == [
        "2026-11-15T12:00:00Z",
        "2026-11-15T12:30:00Z",
    ]


def test_next_of_a_job_that_is_not_applied_is_read_from_the_file(project: Project) -> None:
    project.write(JOBS)
    assert project.json("next", "nightly", "-n", "1")[0]["at"] == "2026-11-16T01:30:00Z"
    assert not project.state.exists()


def test_next_of_all_jobs_is_merged_by_time(project: Project) -> None:
    project.applied(JOBS)
    fires = project.json("next", "-n", "3")
    assert [(fire["job"], fire["at"][11:16]) for fire in fires] == [
        ("triage", "12:00"),
        ("triage", "12:30"),
        ("triage", "13:00"),
    ]
    within = project.json("next", "nightly", "--days", "3")
    assert len(within) == 3


def test_next_of_a_job_that_has_none_says_why(project: Project) -> None:
    project.applied(JOBS)
    assert project.ok("next", "byhand") == "no next fire: the job has no schedule; start it by hand\n"
    assert project.json("next", "byhand") == []


@pytest.mark.parametrize("applied", [False, True])
def test_next_of_a_schedule_is_in_the_zone_of_the_project(project: Project, applied: bool) -> None:
    (project.applied if applied else project.write)("timezone: Asia/Tokyo\njobs:\n  a: {command: [x]}\n")
    assert project.json("next", "--cron", "0 9 * * *", "-n", "1")[0]["local"] == "2026-11-16T09:00:00+09:00"


def test_next_of_a_schedule_needs_no_whole_file(project: Project) -> None:
    project.write("timezone: Asia/Tokyo\njobs: [broken]\n")
    assert project.json("next", "--cron", "0 9 * * *", "-n", "1")[0]["at"] == "2026-11-16T09:00:00Z"


def test_two_kinds_of_schedule_for_next_are_refused(project: Project) -> None:
    result = project.rota("next", "--cron", "* * * * *", "--interval", "5m")
    assert result.exit_code == 2
    assert "--cron and --interval cannot be combined" in result.stderr


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n", "---\n# nothing yet\n", "jobs:\n"])
def test_a_file_without_jobs_is_right_and_noted(project: Project, text: str) -> None:
    project.write(text)
    told = project.ok("check")
    assert "rota.yaml: 0 jobs: ok" in told
    assert "note: the file declares no jobs; write them below `jobs:`, or add one with `rota add`" in told
    assert "= no jobs" in project.ok("apply")
    project.ok("add", "first", "--", "echo", "hi")
    assert "rota.yaml: 1 job: ok" in project.ok("check")


@pytest.mark.parametrize("text", ["", "# all gone\n"])
def test_a_file_that_loses_all_its_jobs_is_not_applied_by_mistake(project: Project, text: str) -> None:
    project.applied(JOBS)
    project.write(text)
    result = project.rota("apply")
    assert result.exit_code != 0
    assert "has no jobs, and 3 stored ones came from it" in result.stderr
    assert project.json("show", "triage")["state"] == "idle"
    project.ok("apply", "--allow-empty")
    assert "no jobs" in project.ok("list")


LIMITS = """agents: {reviewer: {adapter: claude, max_usd: 2}}
jobs:
  plain: {command: [echo, hi]}
  bound: {command: [echo, hi], timeout: never, retry: false}
  asked: {agent: reviewer, prompt: Review the day.}
  turned: {agent: reviewer, prompt: Review the day., max_turns: 25, timeout: 2h, retry: {max_attempts: 2}}
groups: {both: {members: [plain, bound]}}
"""


def test_check_and_show_tell_the_limits_that_hold_whether_or_not_they_are_written(project: Project) -> None:
    project.applied(LIMITS)
    told = {line.split()[0]: line for line in project.ok("check").splitlines()[1:]}
    assert told["plain"].endswith("  timeout 10 min, 3 attempts")
    assert told["bound"].endswith("  no timeout, 1 attempt")
    assert told["asked"].endswith("  timeout 10 min, 1 attempt, 10 turns, $2.00")
    assert told["turned"].endswith("  timeout 2 h, 2 attempts, 25 turns, $2.00")
    assert "attempt" not in told["both"]
    limits = ("timeout_seconds", "max_attempts", "max_turns", "max_usd")
    found = {job["name"]: [job[key] for key in limits] for job in project.json("check")["jobs"]}
    assert found["asked"] == [600, 1, 10, 2.0]
    assert found["bound"] == [None, 1, None, None]
    shown = project.ok("show", "asked")
    assert "limits       10 turns, $2.00" in shown
    assert "timeout      10 min" in shown
    assert "retry        3 attempts" in project.ok("show", "plain")


@pytest.mark.parametrize(
    ("keys", "lost"),
    [
        ("command: [ehco, hi]", True),
        ("command: [echo, hi]", False),
        ('command: ["{{ params.a }}"], params: {a: ehco}', False),
        ("command: [echo, hi], env: {PATH: /nowhere}", True),
        ('command: [ehco, hi], env: {PATH: "/opt/{{ job }}"}', False),
        ("command: [ehco, hi], env_file: .env", False),
        ('shell: "ehco hi"', False),
    ],
)
def test_check_notes_a_program_that_is_not_on_the_path_of_its_runs(project: Project, keys: str, lost: bool) -> None:
    project.write(f"jobs:\n  a: {{{keys}}}\n")
    said = "its runs fail: no folder of PATH has a program e"
    assert (said in project.rota("check", environ={"PATH": os.environ["PATH"]}).stdout) is lost


def test_a_project_whose_folder_was_moved_keeps_its_jobs_and_retires_those_it_drops(project: Project) -> None:
    before = project.applied(JOBS).folder
    project.folder = before.rename(before.with_name("renamed"))
    project.write(JOBS.replace("triage:", "sort:"))
    line = f"~ file {before}/rota.yaml → {project.folder}/rota.yaml"
    assert line in project.ok("apply", "--dry-run")
    told = project.ok("apply")
    assert line in told
    assert "- triage  retired" in told
    assert [job["name"] for job in project.json("list")] == ["byhand", "nightly", "sort"]
    assert project.ok("apply") == "= 3 jobs unchanged\n"


def test_the_jobs_of_another_file_are_not_taken_over_while_that_file_is_there(project: Project) -> None:
    other = project.applied(JOBS).folder
    project.folder = other.with_name("second")
    project.folder.mkdir()
    (other / ".rota").rename(project.state)
    project.write(JOBS)
    result = project.rota("apply")
    assert (result.exit_code, f"(file:{other}/rota.yaml)" in result.stderr) == (6, True), result.stderr
