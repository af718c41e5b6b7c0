"""`rota export`: the stored jobs as a file that passes the check and changes nothing when it is applied."""

import json
from functools import partial

from rota.engine.clock import tzdata_version
from rota.model.spec import JobSpec, Kind, Schedule, Work
from rota.operations.project.apply import create
from rota.operations.project.locate import open_state
from tests.faces.conftest import Project

FILE = """\
timezone: Europe/Berlin
pools: {gpu: 3}
defaults: {timeout: 1h, labels: [night], env: {LANG: C}}
jobs:
  backup: {cron: "15 2 * * *", shell: 'pg_dump "$DB" | gzip', env: {DB: {secret: DB}}, misfire: once}
  train: {interval: 90m, command: [./train, --fast], pools: {gpu: 2}, overlap: queue}
  by-hand: {command: [./report], description: "for people: only"}
"""


def test_an_export_applied_in_its_place_changes_nothing(project: Project) -> None:
    project.applied(FILE)
    text = project.ok("export")
    project.write(text)
    assert project.json("apply", "--dry-run")["changed"] == 0
    assert project.ok("export") == text


def test_named_jobs_alone_are_exported(project: Project) -> None:
    project.applied(FILE)
    found = project.json("export", "train")
    assert found["jobs"] == ["train"]
    assert "backup" not in found["yaml"]
    assert "pools: {gpu: 3}" in found["yaml"]


def test_a_job_that_no_file_declares_is_exported_too(project: Project) -> None:
    project.applied("jobs:\n  a: {command: [x]}\n")
    work = Work(Kind.COMMAND, ("made", "by an agent"), cwd=str(project.folder))
    spec = JobSpec("elsewhere", work, Schedule(cron=("0 8 * * *",)))
    store = open_state(project.state, project.clock, create=False)
    store.write(partial(create, spec=spec, source="api", tzdata=tzdata_version(), now=project.clock.now()))
    store.close()
    project.write(project.ok("export"))
    assert [job["name"] for job in project.json("check")["jobs"]] == ["a", "elsewhere"]


def test_a_retired_job_is_exported_only_when_named(project: Project) -> None:
    project.applied("jobs:\n  a: {command: [x]}\n  b: {command: [y]}\n")
    project.applied("jobs:\n  a: {command: [x]}\n")
    assert project.json("export")["jobs"] == ["a"]
    assert project.json("export", "b")["jobs"] == ["b"]


def test_an_unknown_job_is_told(project: Project) -> None:
    project.applied(FILE)
    result = project.rota("export", "trian", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stderr)["error"]["code"] == "unknown_job"


def test_imports_and_interpreter_of_the_file_are_kept(project: Project) -> None:
    (project.folder / "chores_of_export.py").write_text(
        "import rota\n\n\n@rota.job('tidy')\ndef tidy(ctx):\n    pass\n"
    )
    project.applied("imports: [chores_of_export]\njobs:\n  a: {interval: 5m, run: tidy}\n")
    text = project.ok("export")
    assert text.startswith("timezone: UTC\nimports: [chores_of_export]\n")
    project.write(text)
    assert project.json("apply", "--dry-run")["changed"] == 0
