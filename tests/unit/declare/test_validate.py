"""A project's file to specs: every refusal with its exact line, defaults by kind, and what is merged."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.declare.jobs import JobDefaults, build_job
from rota.declare.keys import JOB, read_map
from rota.declare.problems import PROBLEM_CODES
from rota.declare.project import Declared, read_project
from rota.model.errors import FileProblems
from rota.model.serialize import decode, encode
from rota.model.spec import (
    Anchor,
    EnvValue,
    FirstRun,
    Isolate,
    Jitter,
    JobSpec,
    Kind,
    MisfirePolicy,
    Names,
    OverlapPolicy,
    Retention,
    WhenFalse,
)


class Everything:
    """A finder to which every function and condition is known."""

    def find(self, functions, conditions):
        return Names()


def read(folder: Path, text: str, **options) -> Declared:
    (folder / "rota.yaml").write_text(text)
    options.setdefault("functions", Everything())
    return read_project(folder, environment=options.pop("environment", {"HOME": "/home/ops"}), **options)


def job(folder: Path, body: str, top: str = "", **options) -> JobSpec:
    text = top + "jobs:\n  x:\n" + "".join(f"    {line}\n" for line in body.split("|"))
    return read(folder, text, **options).jobs[0]


def problems(folder: Path, text: str, **options) -> list[str]:
    with pytest.raises(FileProblems) as caught:
        read(folder, text, **options)
    assert {problem.code for problem in caught.value.problems} <= set(PROBLEM_CODES)
    return [str(problem) for problem in caught.value.problems]


def refused_jobs() -> list[tuple[str, list[str]]]:
    """Read the table: a body (lines split at `|`, from line 3 on), below it what is said; `~` is `jobs.x`."""
    blocks = (Path(__file__).parent / "refused_jobs.txt").read_text().strip("\n").split("\n\n")
    rows = [block.split("\n") for block in blocks]
    return [(row[0], [line.strip().replace("~", "jobs.x", 1) for line in row[1:]]) for row in rows]


@pytest.mark.parametrize(("body", "said"), refused_jobs(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_refused_job_is_told_with_place_value_and_hint(tmp_path, body, said):
    text = "jobs:\n  x:\n" + "".join(f"    {line}\n" for line in body.split("|"))
    assert problems(tmp_path, text, functions=None) == [f"rota.yaml:{line}" for line in said]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("job: {}\n", 'rota.yaml:1:1: job: unknown key; did you mean "jobs"?'),
        ("pools: {a: -1}\n", "rota.yaml:1:9: pools.a: -1 is not between 0 and 1,000,000"),
        ("concurrency: 1\n", "rota.yaml:1:1: concurrency: unknown key; it belongs in `scheduler:`"),
        ("scheduler: {tik: 1s}\n", 'rota.yaml:1:13: scheduler.tik: unknown key; did you mean "tick"?'),
        ("scheduler: {tick: 2h}\n", 'rota.yaml:1:13: scheduler.tick: "2h" is not between 1s and 1h'),
        ("scheduler: {concurrency: 0}\n", "rota.yaml:1:13: scheduler.concurrency: 0 is not between 1 and 1,000"),
        (
            "retention: {output_total: 5 potatoes}\n",
            (
                'rota.yaml:1:13: retention.output_total: "5 potatoes" is not a size; '
                "write 500MB, 5GB, or a number of bytes"
            ),
        ),
        (
            "defaults: {cron: '* * * * *'}\n",
            "rota.yaml:1:12: defaults.cron: cannot be a default; write it in the job itself",
        ),
        (
            "defaults: {run_once: true}\n",
            "rota.yaml:1:12: defaults.run_once: cannot be a default; write it in the job itself",
        ),
        (
            "defaults: {every: 5m}\n",
            "rota.yaml:1:12: defaults.every: unknown key; intervals are written `interval: 30m`",
        ),
        ("defaults: 5\n", "rota.yaml:1:1: defaults: 5 is not a map of keys"),
        ("jobs: [a]\n", "rota.yaml:1:1: jobs: is not a map of jobs; write each job under its name"),
        ("jobs: {a: }\n", "rota.yaml:1:8: jobs.a: has no work; add `command:`, `shell:`, `run:` or `prompt:`"),
        ("jobs: {a: echo}\n", 'rota.yaml:1:8: jobs.a: "echo" is not a map of keys'),
        (
            "jobs: {a: {interval: 5m}}\n",
            "rota.yaml:1:8: jobs.a: has no work; add `command:`, `shell:`, `run:` or `prompt:`",
        ),
        (
            "jobs: {a b: {command: [x]}}\n",
            (
                'rota.yaml:1:8: jobs.a b: "a b" cannot be a job\'s name; use 1 to 200 letters, digits and . _ -, '
                "the first a letter or digit"
            ),
        ),
        (
            "jobs: {rota/poll: {command: [x]}}\n",
            "rota.yaml:1:8: jobs.rota/poll: names that start with rota/ are reserved; choose another name",
        ),
        (
            "jobs: {a: {command: [x]}, A: {command: [x]}}\n",
            'rota.yaml:1:27: jobs.A: differs from "a" in case only; choose another name',
        ),
        (
            "python: .venv/bin/python\n",
            (
                'rota.yaml:1:1: python: there is no program ".venv/bin/python"; '
                "create the environment, or correct the path"
            ),
        ),
        (
            "imports: [os path]\n",
            'rota.yaml:1:11: imports[0]: "os path" is not the name of a module; write it as in `import package.module`',
        ),
        ("timezone:\n", "rota.yaml:1:1: timezone: has no value; use an IANA name such as Europe/Paris, UTC, or local"),
    ],
)
def test_a_refused_section_is_told_with_place_value_and_hint(tmp_path, text, said):
    assert problems(tmp_path, text) == [said]


def test_the_three_mistakes_of_the_experience_are_told_at_once_in_file_order(tmp_path):
    text = (
        "jobs:\n"
        "  triage:\n"
        "    every: 30m\n"
        "    command: [triage]\n"
        "  nightly-review:\n"
        "    cron: */5 * * * *\n"
        "    command: [review]\n"
        "    conditions:\n"
        "      - nework_up\n"
    )
    assert problems(tmp_path, text, functions=None) == [
        "rota.yaml:3:5: jobs.triage.every: unknown key; intervals are written `interval: 30m`",
        (
            "rota.yaml:6:11: jobs.nightly-review.cron: `*` starts a YAML alias here; "
            'put the expression in quotes: cron: "*/5 * * * *"'
        ),
        (
            'rota.yaml:9:9: jobs.nightly-review.conditions[0]: no condition is named "nework_up"; '
            'did you mean "network_up"?'
        ),
    ]


def test_a_mistake_does_not_hide_the_others_of_the_same_job(tmp_path):
    text = "jobs:\n  x:\n    interval: 5x\n    command: [a, '{{ nope }}']\n    queue_depth: 3\n    priority: high\n"
    assert [line.split(": ")[1] for line in problems(tmp_path, text)] == [
        "jobs.x.interval",
        "jobs.x.command[1]",
        "jobs.x.queue_depth",
        "jobs.x.priority",
    ]


def test_all_wrong_instants_of_a_job_are_told(tmp_path):
    text = "jobs: {x: {interval: 1h, start_at: 2026-03-29 02:30, end_at: 2026-10-25 02:30, command: [a, '{{ b }}']}}\n"
    found = problems(tmp_path, f"timezone: Europe/Paris\n{text}")
    assert [line.split(": ")[1] for line in found] == ["jobs.x.start_at", "jobs.x.end_at", "jobs.x.command[1]"]


@pytest.mark.parametrize(
    "at", ["0001-01-01 00:00", "9999-12-31 23:59", "0001-01-01T00:00+14:00", "9999-12-31T23:59-12:00"]
)
def test_an_instant_at_the_edge_of_the_calendar_is_read_or_told(tmp_path, at):
    try:
        spec = job(tmp_path, f"at: {at}|timezone: Pacific/Apia|command: [a]")
    except FileProblems as error:
        assert [problem.code for problem in error.problems] == ["instant"]  # noqa: PT017
    else:
        assert spec.schedule.at is not None


def test_a_mistyped_key_does_not_cause_follow_up_problems(tmp_path):
    text = "jobs:\n  x:\n    intervall: 5m\n    anchor: start\n    cmd: [a]\n"
    assert [line.split(": ")[1] for line in problems(tmp_path, text)] == ["jobs.x.intervall", "jobs.x.cmd"]


def test_a_value_is_shown_short_and_escaped(tmp_path):
    [line] = problems(tmp_path, 'jobs:\n  x: {command: [a], overlap: "' + "\\e[31m" + "y" * 500 + '"}\n')
    assert '"\\u001b[31myyy' in line
    assert len(line) < 220


LONG = "k" * 300_000


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG}: 1\n",
        f"jobs: {{{LONG}: {{command: [a]}}}}\n",
        f"jobs: {{x: {{{LONG}: 1, command: [a]}}}}\n",
        f"jobs: {{x: {{overlap: {LONG}, command: [a]}}}}\n",
        f"jobs: {{x: {{interval: {LONG}, command: [a]}}}}\n",
        f"jobs: {{x: {{cron: {LONG}, command: [a]}}}}\n",
        f"jobs: {{x: {{timezone: {LONG}, command: [a]}}}}\n",
        f"jobs: {{x: {{conditions: [{LONG}], command: [a]}}}}\n",
        f"jobs: {{x: {{run: {LONG}}}}}\n",
        f"jobs: {{x: {{env: {{A: '{'{{' * 100_000}'}}, command: [a]}}}}\n",
        f"jobs: {{x: {{env: {{A: '{{{{{LONG}}}}}'}}, command: [a]}}}}\n",
    ],
    ids=range(11),
)
def test_a_huge_text_is_refused_and_told_shortly(tmp_path, text):
    [line] = problems(tmp_path, text, functions=None)
    assert len(line) < 400


def test_the_value_of_an_environment_variable_is_never_shown(tmp_path):
    [line] = problems(tmp_path, "jobs:\n  x: {command: [a], env: {TOKEN: [hunter2]}}\n")
    assert "hunter2" not in line


def test_an_empty_file_of_jobs_declares_none(tmp_path):
    assert read(tmp_path, "jobs:\n").jobs == ()


def test_a_job_has_its_name_and_place(tmp_path):
    declared = read(tmp_path, "jobs:\n  b: {command: [x]}\n  a: {command: [y]}\n")
    assert [spec.name for spec in declared.jobs] == ["b", "a"]
    assert declared.positions == {"b": (2, 3), "a": (3, 3)}


def test_misfire_defaults_to_skip_for_cron_and_once_for_interval_and_at_r_10(tmp_path):
    assert job(tmp_path, 'cron: "0 0 * * *"|command: [a]').misfire.policy is MisfirePolicy.SKIP
    assert job(tmp_path, "interval: 5m|command: [a]").misfire.policy is MisfirePolicy.ONCE
    assert job(tmp_path, "at: 2026-11-15 08:00|command: [a]").misfire.policy is MisfirePolicy.ONCE


def test_when_false_defaults_to_wait_for_interval_and_skip_for_the_others_r_09(tmp_path):
    assert job(tmp_path, "interval: 5m|command: [a]").gates.when_false is WhenFalse.WAIT
    assert job(tmp_path, 'cron: "0 0 * * *"|command: [a]').gates.when_false is WhenFalse.SKIP
    assert job(tmp_path, "command: [a]").gates.when_false is WhenFalse.SKIP


def test_recheck_defaults_to_a_minute_or_the_interval_if_shorter_r_09(tmp_path):
    assert job(tmp_path, "interval: 5m|command: [a]").gates.recheck == timedelta(seconds=60)
    assert job(tmp_path, "interval: 10s|command: [a]").gates.recheck == timedelta(seconds=10)


def test_the_timeout_comes_from_the_job_then_the_defaults_then_the_scheduler(tmp_path):
    section, default = "scheduler: {timeout: 3m}\n", "defaults: {timeout: 2m}\n"
    assert job(tmp_path, "command: [a]").work.timeout == timedelta(minutes=10)
    assert job(tmp_path, "command: [a]", section).work.timeout == timedelta(minutes=3)
    assert job(tmp_path, "command: [a]", section + default).work.timeout == timedelta(minutes=2)
    assert job(tmp_path, "command: [a]|timeout: never", section + default).work.timeout is None
    assert job(tmp_path, "command: [a]|timeout_seconds: 90", default).work.timeout == timedelta(seconds=90)


def test_older_spellings_mean_the_same(tmp_path):
    older = job(tmp_path, "type: command|command: [a]|overlap_policy: queue|working_directory: x|timeout_seconds: 60")
    newer = job(tmp_path, "command: [a]|overlap: queue|cwd: x|timeout: 1m")
    assert older == newer


def test_a_script_type_is_a_function(tmp_path):
    assert job(tmp_path, "type: script|run: check").work.kind is Kind.FUNCTION


def test_a_default_that_a_kind_does_not_know_is_not_applied(tmp_path):
    top = (
        "defaults: {anchor: start, jitter: 5m, misfire: once, misfire_max_age: 6h, isolate: process, "
        "shell_with: [bash, -c], queue_depth: 4, recheck: 5s, when_false: wait}\n"
    )
    manual = job(tmp_path, "command: [a]", top)
    assert (manual.schedule.anchor, manual.schedule.jitter) == (Anchor.COMPLETION, None)
    assert (manual.misfire.max_age, manual.overlap.queue_depth) == (None, 1)
    assert (manual.work.isolate, manual.work.shell_with) == (Isolate.THREAD, ("/bin/sh", "-e", "-c"))
    assert manual.gates.recheck == timedelta(seconds=60)


def test_a_default_that_fits_is_applied_and_the_job_wins(tmp_path):
    top = "defaults: {misfire: once, misfire_max_age: 6h, overlap: queue, queue_depth: 4, timezone: Europe/Paris}\n"
    spec = job(tmp_path, 'cron: "0 0 * * *"|command: [a]|queue_depth: 2', top)
    assert spec.misfire.max_age == timedelta(hours=6)
    assert (spec.overlap.policy, spec.overlap.queue_depth) == (OverlapPolicy.QUEUE, 2)
    assert spec.schedule.timezone == "Europe/Paris"
    assert job(tmp_path, 'cron: "0 0 * * *"|command: [a]|misfire: skip', top).misfire.max_age is None


def test_env_and_labels_of_defaults_are_merged(tmp_path):
    top = "defaults: {env: {A: 1, B: 2}, labels: [x, team=ops]}\n"
    spec = job(tmp_path, "command: [a]|env: {B: 3, C: {secret: T}}|labels: {team: data}", top)
    assert spec.work.env == (EnvValue("A", "1"), EnvValue("B", "3"), EnvValue("C", secret="T"))
    assert spec.labels == ("x", "team=data")


def test_environment_values_stay_as_they_were_written(tmp_path):
    env = job(tmp_path, 'command: [a]|env: {A: 1.10, B: 0755, C: true, D: "x", E: 1e3}').work.env
    assert [variable.value for variable in env] == ["1.10", "0755", "true", "x", "1e3"]


def test_a_plain_command_is_split_into_words_and_a_placeholder_stays_in_one(tmp_path):
    spec = job(tmp_path, """command: 'restic backup "/srv/a b" --tag {{ scheduled_for:%Y %m }}x'""")
    assert spec.work.command == ("restic", "backup", "/srv/a b", "--tag", "{{ scheduled_for:%Y %m }}x")


def test_shell_characters_inside_single_quotes_are_words_of_a_plain_command(tmp_path):
    assert job(tmp_path, "command: grep 'a&b' x").work.command == ("grep", "a&b", "x")


def test_foreign_double_braces_are_fine_in_a_shell_text(tmp_path):
    assert job(tmp_path, "shell: docker ps --format '{{.Names}}'").work.kind is Kind.SHELL


def test_folders_are_relative_to_the_project_and_to_the_home(tmp_path):
    assert job(tmp_path, "command: [a]").work.cwd == str(tmp_path)
    assert job(tmp_path, "command: [a]|cwd: data/../logs").work.cwd == str(tmp_path / "logs")
    assert job(tmp_path, "command: [a]|cwd: ~/code").work.cwd == "/home/ops/code"
    assert job(tmp_path, 'command: [a]|cwd: "out/{{ job }}"').work.cwd == "out/{{ job }}"
    assert job(tmp_path, "command: [a]|env_file: .env").work.env_file == str(tmp_path / ".env")


def test_local_times_are_read_in_the_jobs_zone_and_offsets_win(tmp_path):
    top = "timezone: Europe/Madrid\n"
    assert job(tmp_path, "at: 2026-11-16 02:30|command: [a]", top).schedule.at == datetime(
        2026, 11, 16, 1, 30, tzinfo=UTC
    )
    in_utc = job(tmp_path, "at: 2026-11-16 02:30|timezone: UTC|command: [a]", top)
    assert in_utc.schedule.at == datetime(2026, 11, 16, 2, 30, tzinfo=UTC)
    offset = job(tmp_path, "at: 2026-11-16T02:30:00 +05:00|command: [a]", top)
    assert offset.schedule.at == datetime(2026, 11, 15, 21, 30, tzinfo=UTC)


def test_a_bound_may_be_a_day_alone(tmp_path):
    spec = job(tmp_path, "interval: 1h|start_at: 2026-11-16|command: [a]")
    assert spec.schedule.start_at == datetime(2026, 11, 16, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "jitter"),
    [
        ("10%", Jitter(percent=10.0)),
        ('"2.5 %"', Jitter(percent=2.5)),
        ("20m", Jitter(up_to=timedelta(minutes=20))),
        ("45", Jitter(up_to=timedelta(seconds=45))),
        ("0", None),
        ("0%", None),
    ],
)
def test_a_jitter_is_a_percentage_a_duration_or_seconds(tmp_path, written, jitter):
    assert job(tmp_path, f"interval: 1h|jitter: {written}|command: [a]").schedule.jitter == jitter


def test_an_interpreter_of_a_job_must_be_there(tmp_path):
    assert problems(tmp_path, "jobs: {a: {run: f, python: venv/bin/python}}\n") == [
        (
            'rota.yaml:1:20: jobs.a.python: there is no program "venv/bin/python"; '
            "create the environment, or correct the path"
        )
    ]


def test_a_job_may_be_named_rota(tmp_path):
    assert read(tmp_path, "jobs: {rota: {command: [x]}}\n").jobs[0].name == "rota"


def test_a_function_of_another_interpreter_is_a_process(tmp_path):
    spec = job(tmp_path, "run: module:function|python: python3|cwd: x")
    assert (spec.work.python, spec.work.isolate, spec.work.in_process) == ("python3", Isolate.PROCESS, False)


def test_the_projects_interpreter_is_that_of_its_functions_alone(tmp_path):
    declared = read(tmp_path, "python: python3\njobs: {a: {run: f}, b: {command: [x]}}\n")
    assert [spec.work.python for spec in declared.jobs] == ["python3", None]


def test_retention_of_a_job_replaces_single_values_of_the_files(tmp_path):
    spec = job(tmp_path, "command: [a]|retention: {output: forever}", "retention: {runs: 10d, skipped_count: 5}\n")
    assert (spec.retention.runs, spec.retention.output) == (timedelta(days=10), None)
    assert spec.retention.skipped_count == 5


def test_settings_come_from_the_file(tmp_path):
    text = "timezone: Europe/Paris\nscheduler: {concurrency: 2, shutdown_grace: 0}\nretention: {output_total: 1GB}\n"
    found = read(tmp_path, text).settings
    assert (found.folder, found.state, found.timezone) == (tmp_path, tmp_path / ".rota", "Europe/Paris")
    assert (found.scheduler.concurrency, found.scheduler.shutdown_grace) == (2, timedelta(0))
    assert found.output_total == 1_000_000_000


def test_the_state_folder_is_the_flag_then_the_environment_then_the_file(tmp_path):
    text = "state: ~/state\n"
    assert read(tmp_path, text).settings.state == Path("/home/ops/state")
    environment = {"HOME": "/home/ops", "ROTA_STATE": "/var/lib/rota"}
    assert read(tmp_path, text, environment=environment).settings.state == Path("/var/lib/rota")
    assert read(tmp_path, text, environment=environment, state=Path("/flag")).settings.state == Path("/flag")


def test_local_is_resolved_to_a_name_at_load(tmp_path):
    environment = {"TZ": "America/New_York"}
    assert read(tmp_path, "timezone: local\n", environment=environment).settings.timezone == "America/New_York"
    spec = job(tmp_path, "command: [a]|timezone: local", environment=environment)
    assert spec.schedule.timezone == "America/New_York"


def test_names_of_jobs_may_look_like_numbers_or_words_of_yaml(tmp_path):
    declared = read(tmp_path, "jobs: {1: {command: [x]}, true: {command: [x]}, 2026-11-15: {command: [x]}}\n")
    assert [spec.name for spec in declared.jobs] == ["1", "true", "2026-11-15"]


def test_notes_tell_places_that_runs_would_not_find(tmp_path):
    text = (
        "agents: {helper: {adapter: claude}}\n"
        "jobs:\n"
        "  lost: {prompt_file: no.md, agent: helper}\n"
        "  there: {prompt_file: yes.md, agent: helper}\n"
        "  filled: {prompt_file: 'at-{{ job }}.md', cwd: 'data/{{ params.x }}', params: {x: a}, agent: helper}\n"
        "  bare: {prompt: x, agent: helper, workspace: worktree}\n"
        "  inside: {prompt: x, agent: helper, workspace: worktree, cwd: kept/below}\n"
        "  elsewhere: {command: [a], cwd: nowhere}\n"
        "  beside: {command: [a], cwd: yes.md}\n"
    )
    (tmp_path / "yes.md").write_text("look")
    (tmp_path / "kept" / "below").mkdir(parents=True)
    (tmp_path / "kept" / ".git").write_text("gitdir: elsewhere")
    assert read(tmp_path, text).notes == (
        f"lost: its runs fail: there is no file {tmp_path}/no.md; write it, or correct `prompt_file`",
        f"bare: {tmp_path} is not in a git repository, as `workspace: worktree` needs; run `git init`",
        f"elsewhere: its runs fail: the folder {tmp_path}/nowhere does not exist; create it, or correct `cwd`",
        f"beside: its runs fail: the folder {tmp_path}/yes.md is a file; create it, or correct `cwd`",
    )


@pytest.mark.parametrize(
    ("content", "keys", "wrong"),
    [
        (b"Look.", "", None),
        (b"Look at {{ params.x }} and {{ conditions.0.output }}.", ", params: {x: 1}, conditions: [a]", None),
        (b"Look at {{ secrets.TOKEN }}.", ", placeholders: false", None),
        (b"Look at {{ params.y }}.", "", 'says: the job has no param "y"; add it to `params:`'),
        (b"Look at {{ item.title }}.", "", 'says: "item.title" needs a work item; add `work_source:` to the job'),
        (b" \n", "", "is empty; write the task"),
        (b"\xff", "", "is not UTF-8 text; save it as UTF-8"),
        (b"x" * 1_000_001, "", "has more than 1,000,000 characters; shorten it"),
    ],
)
def test_check_reads_prompt_files(tmp_path: Path, content: bytes, keys: str, wrong: str | None) -> None:
    (tmp_path / "p.md").write_bytes(content)
    file = f"agents: {{helper: {{adapter: claude}}}}\njobs: {{j: {{agent: helper, prompt_file: p.md{keys}}}}}\n"
    said = f"j: its runs fail: {tmp_path}/p.md {wrong}"
    assert read(tmp_path, file).notes == (() if wrong is None else (said,))


def test_programs_with_a_path_that_runs_would_not_find_are_told(tmp_path: Path) -> None:
    text = (
        "jobs:\n"
        "  lost: {command: [./scripts/lost.sh]}\n"
        "  plain: {command: [scripts/plain.sh]}\n"
        "  there: {command: [./scripts/there.sh]}\n"
        "  filled: {command: ['./{{ job }}.sh']}\n"
        "  on-the-path: {command: [no-such-program]}\n"
    )
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "plain.sh").write_text("echo hi\n")
    (tmp_path / "scripts" / "there.sh").touch(0o755)
    lost, plain = f"{tmp_path}/scripts/lost.sh", f"{tmp_path}/scripts/plain.sh"
    assert read(tmp_path, text).notes == (
        f"lost: its runs fail: there is no program {lost}; write it, or correct `command`",
        f"plain: its runs fail: {plain} is not executable; `chmod +x {plain}`, or name its interpreter",
    )


def test_a_file_that_everybody_may_change_is_told(tmp_path):
    """#69."""
    file = tmp_path / "rota.yaml"
    file.write_text("jobs: {a: {command: [a]}}\n")
    file.chmod(0o644)
    assert read_project(tmp_path, environment={}).notes == ()
    file.chmod(0o666)
    (note,) = read_project(tmp_path, environment={}).notes
    assert note.startswith(f"{tmp_path}/rota.yaml is writable by every user of this machine")


def test_notes_tell_what_may_surprise(tmp_path):
    text = (
        "jobs:\n"
        '  friday: {cron: "0 0 13 * 5", command: [a]}\n'
        '  leap: {cron: "0 0 29 2 *", command: [a]}\n'
        "  gone: {at: 2026-01-01 00:00, command: [a]}\n"
        "  triage: {interval: 30m, command: [a]}\n"
        "  later: {interval: 30m, first_run: after_interval, command: [a]}\n"
        '  quiet: {interval: 30m, quiet_hours: {windows: ["00:00-07:00"], policy: defer}, command: [a]}\n'
    )
    notes = read(tmp_path, text, now=datetime(2026, 11, 15, tzinfo=UTC)).notes
    assert notes == (
        (
            'friday: "0 0 13 * 5" fires on each day that matches its day of month or its weekday, as cron does, '
            "not only where both match"
        ),
        "leap: fires next on 2028-02-29, more than a year from now",
        (
            "gone: 2026-01-01T00:00:00Z is in the past, 318 d ago; a new job records it as missed, "
            "for a stored job `misfire: once` decides"
        ),
        "triage: starts as soon as it is first applied; `first_run: after_interval` waits",
    )


def test_an_ordinary_file_has_no_notes(tmp_path):
    text = 'jobs: {a: {cron: "30 2 * * *", command: [a]}}\n'
    assert read(tmp_path, text, now=datetime(2026, 11, 15, tzinfo=UTC)).notes == ()


FULL = """\
timezone: Europe/Berlin
defaults: {env: {A: 1.10}, labels: [x]}
jobs:
  full:
    cron: ["0 2 * * *", "30 3 * * mon"]
    start_at: 2026-01-01
    end_at: "2027-01-01T00:00:00.500Z"
    jitter: 10%
    run_once: true
    misfire: all
    misfire_limit: 3
    misfire_max_age: 2h
    overlap: queue
    queue_depth: 2
    shell: echo "$ROTA_DATE"
    params: {n: 0755, f: 1.10, list: [1, {a: null}], text: é}
    env: {T: {secret: TOKEN}}
    env_pass: [SSH_AUTH_SOCK]
    cwd: ~/x
    timeout: never
    conditions: [network_up, {command: "test -f x", timeout: 5s}]
    when_false: wait
    recheck: 7s
    expires_after: 1d
    retention: {runs: forever}
    description: all of it
"""


def test_a_spec_survives_the_way_through_json(tmp_path):
    [spec] = read(tmp_path, FULL).jobs
    assert decode(JobSpec, json.loads(json.dumps(encode(spec)))) == spec
    assert spec.schedule.first_run is FirstRun.NOW


KEYS = st.sampled_from([*JOB.keys, "every", "zzz", "jobs", ""])
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=12),
        st.sampled_from(
            ["5m", "never", "* * * * *", "2026-11-15 08:00", "Europe/Paris", "{{ params.x }}", "once", "10%"]
        ),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=150)
@given(st.dictionaries(KEYS, VALUES, max_size=8), st.dictionaries(KEYS, VALUES, max_size=3))
def test_any_job_is_read_or_refused_with_problems_of_known_codes(tmp_path_factory, body, defaults):
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    text = json.dumps({"defaults": defaults, "jobs": {"x": body}}).replace("NaN", ".nan").replace("Infinity", ".inf")
    try:
        found = read(folder, text).jobs
    except FileProblems as error:
        found = error.problems
    codes = [item.code for item in found if not isinstance(item, JobSpec)]
    assert found
    assert set(codes) <= set(PROBLEM_CODES)


def test_a_thousand_parsed_jobs_become_specs(tmp_path):
    around = JobDefaults(
        folder="/srv",
        home="/home/ops",
        timezone="UTC",
        local_zone=lambda: "UTC",
        timeout=None,
        python=None,
        retention=Retention(),
    )
    body = {"cron": "30 2 * * *", "command": ["a", "b"], "timeout": "5m", "env": {"A": "1"}, "labels": ["x"]}
    built = [build_job(f"j{number}", read_map(JOB, body)[0], around) for number in range(1000)]
    assert all(spec is not None for spec, _ in built)


def test_reading_leaves_the_environment_of_the_process_alone(tmp_path):
    before = dict(os.environ)
    read(tmp_path, FULL)
    assert dict(os.environ) == before
