"""R-27: what is in the environment of a run, in which order. R-25: params in it."""

import json

import pytest
from msgspec.structs import replace

from rota.model.errors import SecretMissing, SpawnFailed
from rota.model.spec import EnvValue, Kind, Work
from rota.model.telemetry import span_of
from rota.runners.command import describe, prepare

WORK = Work(kind=Kind.COMMAND, command=("true",))


def environment(work, facts, around):
    return dict(prepare(work, facts, around).env)


def test_r27_the_environment_is_exactly_what_the_ruling_lists(facts, around):
    environ = {
        **around.environ,
        "LANG": "C",
        "LC_TIME": "fr",
        "TZ": "UTC",
        "TMPDIR": "/t",
        "OTHER": "no",
        "PYTHONPATH": "no",
    }

    found = environment(WORK, facts, replace(around, environ=environ))

    folder = around.folder
    assert found == {
        "PATH": "/usr/bin:/bin", "HOME": "/home/d", "USER": "d", "LOGNAME": "d", "SHELL": "/bin/sh",
        "LANG": "C", "LC_TIME": "fr", "TZ": "UTC", "TMPDIR": "/t",
        "ROTA_RUN_ID": facts.run_id,
        "ROTA_RUN": "backup:7",
        "ROTA_JOB": "backup",
        "ROTA_ATTEMPT": "1",
        "ROTA_SCHEDULED_FOR": "2026-11-15T23:30:07Z",
        "ROTA_DATE": "2026-11-16",
        "ROTA_TRIGGER": "schedule",
        "ROTA_RESULT_FILE": str(folder / "result.json"),
        "ROTA_PARAMS": '{"full":false,"name":"a b","depth":3,"ratio":0.5,"tags":["x"],"none":null}',
        "ROTA_PARAMS_FILE": str(folder / "params.json"),
        "ROTA_PARAM_FULL": "false",
        "ROTA_PARAM_NAME": "a b",
        "ROTA_PARAM_DEPTH": "3",
        "ROTA_PARAM_RATIO": "0.5",
        "ROTA_PROJECT_DIR": str(around.project),
        "ROTA_SCHEDULER_DIR": str(around.root or around.project),
        "ROTA_STATE_DIR": str(around.state),
    }  # fmt: skip


def test_r27_the_day_is_the_one_in_the_jobs_zone(facts, around):
    assert environment(WORK, replace(facts, timezone="UTC"), around)["ROTA_DATE"] == "2026-11-15"
    assert environment(WORK, facts, around)["ROTA_DATE"] == "2026-11-16"


def test_r27_later_sources_replace_earlier_ones(facts, around):
    (around.project / "job.env").write_text("B=file\nC=file\n")
    environ = {**around.environ, "A": "passed", "B": "passed", "C": "passed"}
    work = replace(WORK, env_pass=("A", "B", "C", "ABSENT"), env_file="job.env", env=(EnvValue("C", "own"),))

    found = environment(work, facts, replace(around, environ=environ))

    assert (found["A"], found["B"], found["C"]) == ("passed", "file", "own")
    assert "ABSENT" not in found


def test_a_scheduler_without_an_environment_still_gives_a_home_and_a_path(facts, around):
    found = environment(WORK, facts, replace(around, environ={}))

    assert found["HOME"]
    assert found["PATH"]


def test_r25_placeholders_are_filled_in_values(facts, around):
    work = replace(WORK, env=(EnvValue("OUT", "/b/{{ scheduled_for:%Y-%m-%d }}/{{ params.name }}"),))

    assert environment(work, facts, around)["OUT"] == "/b/2026-11-16/a b"


def test_r27_a_secret_comes_from_credentials_then_environment_then_file(facts, around):
    work = replace(WORK, env=(EnvValue("TOKEN", secret="KEY"),))
    stored = around.state / "secrets.env"
    stored.write_text("KEY=stored\n")
    stored.chmod(0o600)
    folder = around.project / "credentials"
    folder.mkdir()
    with_environment = replace(around, environ={**around.environ, "KEY": "environment"})
    with_credentials = replace(with_environment, credentials=str(folder))

    assert environment(work, facts, around)["TOKEN"] == "stored"
    assert environment(work, facts, with_credentials)["TOKEN"] == "environment"
    (folder / "KEY").write_text("credential\n")
    assert environment(work, facts, with_credentials)["TOKEN"] == "credential"
    assert environment(work, facts, with_environment)["TOKEN"] == "environment"


def test_r27_a_missing_secret_is_named(facts, around):
    with pytest.raises(SecretMissing, match="'KEY'"):
        prepare(replace(WORK, env=(EnvValue("TOKEN", secret="KEY"),)), facts, around)


def test_a_secret_cannot_name_a_file_elsewhere(facts, around):
    (around.project / "credentials").mkdir()
    (around.project / "private").write_text("x")
    surroundings = replace(around, credentials=str(around.project / "credentials"))

    with pytest.raises(SecretMissing):
        prepare(replace(WORK, env=(EnvValue("TOKEN", secret="../private"),)), facts, surroundings)


def test_r27_secrets_that_others_can_read_are_refused(facts, around):
    stored = around.state / "secrets.env"
    stored.write_text("KEY=stored\n")
    stored.chmod(0o640)

    with pytest.raises(SpawnFailed, match=r"open to other users \(mode 0640\).*chmod 600"):
        prepare(replace(WORK, env=(EnvValue("TOKEN", secret="KEY"),)), facts, around)


def test_nothing_that_may_be_shown_holds_a_value(facts, around):
    work = replace(WORK, env=(EnvValue("TOKEN", secret="KEY"),))
    surroundings = replace(around, environ={**around.environ, "KEY": "s3cret"})

    shown = describe(prepare(work, facts, surroundings))

    assert "TOKEN" in shown.environment
    assert "s3cret" not in repr(shown)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("X=plain", "plain"),
        ("export X=exported", "exported"),
        ("X = spaced ", "spaced"),
        ("X=with # comment", "with"),
        ("X=a#b", "a#b"),
        ("X='single # $HOME \\n'", "single # $HOME \\n"),
        ('X="double \\" \\n" # comment', 'double " \n'),
        ("X=", ""),
        ("X=a=b", "a=b"),
    ],
)
def test_an_env_file_line_is_understood(line, value, facts, around):
    (around.project / "job.env").write_text(f"# first\n\n{line}\n")

    assert environment(replace(WORK, env_file="job.env"), facts, around)["X"] == value


@pytest.mark.parametrize("line", ["1X=a", "no equals s3cret", "X='open s3cret", "=s3cret"])
def test_a_bad_env_file_line_is_named_by_its_number_without_its_text(line, facts, around):
    (around.project / "job.env").write_text(f"A=1\n{line}\n")

    with pytest.raises(SpawnFailed, match=r"job\.env:2: ") as caught:
        prepare(replace(WORK, env_file="job.env"), facts, around)
    assert "s3cret" not in str(caught.value)


def test_an_env_file_cannot_pretend_to_be_another_run(facts, around):
    (around.project / "job.env").write_text("ROTA_RUN_ID=x\n")

    with pytest.raises(SpawnFailed, match="sets ROTA_RUN_ID"):
        prepare(replace(WORK, env_file="job.env"), facts, around)


def test_a_missing_env_file_is_named(facts, around):
    with pytest.raises(SpawnFailed, match=r"job\.env cannot be read: no such file"):
        prepare(replace(WORK, env_file="job.env"), facts, around)


def test_r25_the_params_file_holds_the_params(facts, around):
    launch = prepare(WORK, facts, around)

    assert json.loads(launch.files["params.json"]) == facts.params
    assert not around.folder.exists(), "preparing writes nothing"


def test_r25_one_argv_item_stays_one_item(facts, around):
    work = replace(WORK, command=("true", "{{ params.name }}", "n={{ run.number }}", "{{ job }}"))

    assert prepare(work, facts, around).argv == ("true", "a b", "n=7", "backup")


def test_r25_a_placeholder_for_a_param_that_the_run_lacks_is_refused(facts, around):
    with pytest.raises(SpawnFailed, match="absent"):
        prepare(replace(WORK, command=("true", "{{ params.absent }}")), facts, around)


def test_r25_a_shell_text_stays_as_it_is(facts, around):
    work = Work(kind=Kind.SHELL, shell="echo {{ job }} $ROTA_DATE")

    assert prepare(work, facts, around).argv == ("/bin/sh", "-e", "-c", "echo {{ job }} $ROTA_DATE")


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (replace(WORK, command=("nope",)), r"no program 'nope' is on PATH '/usr/bin:/bin'"),
        (replace(WORK, command=("./nope",)), r"there is no program '.*/nope'"),
        (replace(WORK, command=("/etc/passwd",)), r"'/etc/passwd' is not executable"),
        (replace(WORK, command=("/etc/",)), r"'/etc/' is not executable"),
        (replace(WORK, cwd="nowhere"), r"the folder '.*/nowhere' of `cwd` does not exist"),
        (replace(WORK, cwd="/dev/null"), r"the folder '/dev/null' of `cwd` is a file"),
    ],
)
def test_what_cannot_start_is_refused_before_anything_is_started(work, words, facts, around):
    with pytest.raises(SpawnFailed, match=words):
        prepare(work, facts, around)


def test_the_folder_may_hold_a_placeholder_and_is_relative_to_the_project(facts, around):
    (around.project / "backup").mkdir()

    assert prepare(replace(WORK, cwd="{{ job }}"), facts, around).cwd == str(around.project / "backup")


def test_a_process_gets_the_trace_of_its_run_where_spans_are_exported(facts, around):
    assert "TRACEPARENT" not in environment(WORK, facts, around)
    exporting = {**around.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    found = environment(WORK, facts, replace(around, environ=exporting))
    assert found["TRACEPARENT"] == span_of(facts.run_id).header
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" not in found
    own = replace(WORK, env=(EnvValue("TRACEPARENT", "mine"),))
    assert environment(own, facts, replace(around, environ=exporting))["TRACEPARENT"] == "mine"
