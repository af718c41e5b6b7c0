"""Many projects under one scheduler: whom a command inside an included folder speaks to, and what it shows there."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import Struct, field

from rota.cli.invocation import Invocation
from rota.cli.main import cli
from rota.engine.membership.locks import take_serve_lock
from tests.faces.conftest import StillClock
from tests.template import lay_database

FLEET = """timezone: Europe/Madrid
include: ["~/code/*/rota.yaml"]
pools: {claude: 1}
jobs:
  own: {cron: "0 1 * * *", command: [echo, own]}
"""
PROJECT = """jobs:
  triage: {cron: "0 3 * * *", command: [echo, triage], pools: [claude]}
  report: {command: [echo, report]}
groups:
  all: {members: [triage, report]}
"""


class Home(Struct):
    """A home folder with projects in it, and `rota` typed in any of its folders."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    clock: StillClock = field(default_factory=StillClock)

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def rota(self, at: str, *arguments: str) -> Result:
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **self.environ}
        invocation = Invocation(environ, self.folder / at, self.clock, lambda _seconds: None)
        return CliRunner().invoke(cli, list(arguments), obj=invocation)

    def ok(self, at: str, *arguments: str) -> str:
        result = self.rota(at, *arguments)
        assert result.exit_code == 0, (result.exit_code, result.output, result.exception)
        return result.stdout

    def json(self, at: str, *arguments: str) -> Any:
        return json.loads(self.rota(at, *arguments, "--json").stdout)

    def names(self, at: str, *arguments: str) -> list[str]:
        return [job["name"] for job in self.json(at, "list", *arguments)]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A fleet that includes two projects, applied."""
    home = Home(tmp_path)
    home.write("fleet/rota.yaml", FLEET)
    home.write("code/api/rota.yaml", PROJECT.replace("[claude]", "[claude, gpu]") + "pools: {gpu: 1}\n")
    home.write("code/web/rota.yaml", PROJECT.replace(", pools: [claude]", ""))
    (tmp_path / "fleet" / ".rota").mkdir(0o700)
    lay_database(tmp_path / "fleet" / ".rota")
    home.ok("fleet", "apply")
    return home


@pytest.fixture
def served(home: Home) -> Iterator[Path]:
    """The state of the fleet, as if a scheduler served it."""
    lock = take_serve_lock(home.folder / "fleet" / ".rota")
    yield home.folder / "fleet" / ".rota"
    lock.release()


# whom a command speaks to


def test_a_command_inside_an_included_folder_speaks_to_the_including_project(home: Home) -> None:
    assert home.names("code/api") == ["api/all", "api/report", "api/triage"]
    assert not (home.folder / "code" / "api" / ".rota").exists()
    assert home.names("fleet") == ["api/all", "api/report", "api/triage", "own", "web/all", "web/report", "web/triage"]


def test_the_command_that_starts_a_scheduler_is_told_as_it_works_inside_an_included_folder(home: Home) -> None:
    serve = f"rota --dir {home.folder}/fleet serve"
    assert f"no scheduler is running; start one with `{serve}`" in home.rota("code/api", "status").stdout
    assert f"Start one with {serve}, or run it now with" in home.rota("code/api", "run", "report").stdout


def test_the_look_up_starts_at_the_nearest_file_upwards_and_follows_links(home: Home) -> None:
    (home.folder / "code" / "api" / "deep" / "down").mkdir(parents=True)
    (home.folder / "link").symlink_to(home.folder / "code" / "api")
    assert home.names("code/api/deep/down") == home.names("link") == ["api/all", "api/report", "api/triage"]


def test_dir_names_a_project_itself_and_shows_all_of_it(home: Home) -> None:
    fleet, api = str(home.folder / "fleet"), str(home.folder / "code" / "api")
    assert len(home.names("code/api", "--dir", fleet)) == 7
    assert home.rota("code/web", "--dir", api, "list").exit_code == 66


def test_the_users_own_file_is_spoken_to_outside_of_all_projects(home: Home) -> None:
    home.write(".config/rota/rota.yaml", "jobs:\n  mine: {command: [echo, mine]}\n")
    (home.folder / "elsewhere").mkdir()
    home.ok("elsewhere", "apply")
    assert home.names("elsewhere") == ["mine"]
    assert home.names("fleet", "--label", "none") == []


def test_the_users_own_file_includes_projects_without_being_remembered(tmp_path: Path) -> None:
    home = Home(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path / "conf"), "XDG_STATE_HOME": str(tmp_path / "state")})
    home.write("conf/rota/rota.yaml", FLEET)
    home.write("code/api/rota.yaml", PROJECT)
    home.ok("code/api", "apply")
    assert home.names("code/api") == ["api/all", "api/report", "api/triage"]
    assert not (tmp_path / "state" / "rota" / "included.json").exists()


def test_a_project_named_by_the_variable_is_spoken_to_from_inside_what_it_includes(home: Home) -> None:
    (home.folder / ".local" / "state" / "rota" / "included.json").unlink()
    assert home.rota("code/api", "list").exit_code == 66
    home.environ["ROTA_DIR"] = str(home.folder / "fleet")
    assert home.names("code/api") == ["api/all", "api/report", "api/triage"]
    assert len(home.names("code")) == 7


def test_a_project_that_is_no_longer_included_stands_alone_again(home: Home) -> None:
    home.write("fleet/rota.yaml", FLEET.replace("~/code/*/", "~/code/web/"))
    assert home.rota("code/api", "list").exit_code == 66
    assert len(home.names("code/web")) == 3
    home.write("fleet/rota.yaml", "jobs:\n  own: {command: [a]}\n")
    home.ok("fleet", "apply")
    assert json.loads((home.folder / ".local/state/rota/included.json").read_text()) == {"including": []}


def test_an_included_json_that_is_damaged_is_no_obstacle(home: Home) -> None:
    (home.folder / ".local/state/rota/included.json").write_text("{")
    assert home.rota("code/api", "list").exit_code == 66
    home.ok("fleet", "apply")
    assert len(home.names("code/api")) == 3


# names and filters


def test_a_name_inside_an_included_folder_is_that_of_its_own_job(home: Home) -> None:
    home.ok("code/api", "trigger", "triage")
    assert home.json("code/api", "show", "triage:1")["run"] == "api/triage:1"
    assert home.json("code/web", "show", "api/triage:1")["run"] == "api/triage:1"
    run = home.json("code/api", "show", "triage:1")["id"]
    assert home.json("code/web", "show", run)["run"] == "api/triage:1"
    assert "api/triage:1" in home.ok("code/api", "explain", "triage")
    assert "CANCELLED" in home.ok("code/api", "cancel", "triage:1")


def test_an_unknown_name_inside_an_included_folder_is_told_whole(home: Home) -> None:
    result = home.rota("code/api", "show", "own")
    assert result.exit_code == 2
    assert "no job is named 'api/own'" in result.stderr
    home.write("code/api/rota.yaml", "jobs:\n  fresh: {command: [a]}\n")
    assert "not applied yet: `rota apply`" in home.rota("code/api", "trigger", "fresh").stderr


def test_lists_inside_an_included_folder_are_of_its_own_jobs_and_say_so(home: Home) -> None:
    for job in ("api/triage", "web/triage", "own"):
        home.ok("fleet", "trigger", job)
    told = f"api, included by {home.folder / 'fleet'}   all projects: rota --dir {home.folder / 'fleet'}"
    for command in ("list", "history", "queue", "next", "groups", "check"):
        printed = home.ok("code/api", command)
        assert told in printed
        assert "api/" in printed
        assert "web/" not in printed.replace("~/code/web/rota.yaml, its jobs as web/…", ""), command
    assert told not in home.ok("fleet", "list")
    status = home.json("code/api", "status")
    assert (status["scope"], status["jobs"], [run["job"] for run in status["queued"]]) == ("api", 3, ["api/triage"])
    assert [fire["job"] for fire in status["next"]] == ["api/triage"]


def test_a_simulation_inside_an_included_folder_plays_all_projects_and_shows_its_own_jobs(home: Home) -> None:
    printed = home.ok("code/api", "simulate", "--days", "2")
    assert "api, included by" in printed
    assert "slots, pools, budgets, remote calls and collisions are those of all of them together" in printed
    assert "web/triage" not in printed.partition("collisions:")[0]
    report = home.json("code/api", "simulate", "--days", "2")
    assert sorted(job["name"] for job in report["jobs"]) == ["api/all", "api/report", "api/triage"]
    assert report["totals"]["fires"] == 2
    assert report["collisions"]["most"][0]["jobs"] == ["api/triage", "web/triage"]
    assert home.json("code/api", "simulate", "--job", "triage")["jobs"][0]["name"] == "api/triage"
    assert "all projects are played" not in home.ok("fleet", "simulate", "--days", "2")


def test_an_audit_inside_an_included_folder_is_of_the_whole_database_and_says_so(home: Home) -> None:
    whole = f"all projects of {home.folder / 'fleet'}, including api"
    printed = home.ok("code/api", "verify")
    assert whole in printed
    assert "checked 7 jobs" in printed
    inside, outside = (home.json(place, "verify")["checked"] for place in ("code/api", "fleet"))
    assert {**inside, "processes": 0} == {**outside, "processes": 0}  # those of all tests on this machine come and go
    assert whole not in home.ok("code/api", "verify", "triage")
    assert "together" not in home.ok("fleet", "verify")


def test_the_summary_for_programs_inside_an_included_folder_counts_for_the_whole_worker(home: Home) -> None:
    home.ok("code/web", "trigger", "triage")
    whole = f"all projects of {home.folder / 'fleet'}, including api"
    assert whole in home.rota("code/api", "status", "--poll").stdout
    assert home.json("code/api", "status", "--poll")["queue_counts"]["incoming"] == 1


def test_all_inside_an_included_folder_are_all_of_its_own(home: Home) -> None:
    home.ok("code/api", "trigger", "triage")
    home.ok("code/web", "trigger", "triage")
    home.ok("code/api", "pause", "--all", "--for", "1h")
    paused = {job["name"] for job in home.json("fleet", "list") if job["paused"]}
    assert paused == {"api/all", "api/report", "api/triage"}
    assert home.json("fleet", "status")["paused"] is None
    home.ok("code/api", "resume", "--all")
    assert not any(job["paused"] for job in home.json("fleet", "list"))
    home.ok("code/api", "cancel", "--queued", "--yes")
    assert [run["run"] for run in home.json("fleet", "status")["queued"]] == ["web/triage:1"]


def test_naming_nothing_is_refused_inside_an_included_folder_too(home: Home) -> None:
    assert home.rota("code/api", "pause").exit_code == 2
    assert home.rota("code/api", "cancel").exit_code == 2


def test_a_label_chooses_the_jobs_of_an_included_project(home: Home) -> None:
    assert home.names("fleet", "--label", "project=web") == ["web/all", "web/report", "web/triage"]


def test_a_group_made_at_run_time_belongs_to_the_project_of_its_maker(home: Home) -> None:
    home.ok("code/api", "groups", "run", "now", "triage", "report")
    shown = home.json("code/api", "groups", "show", "now")
    assert shown["group"] == "api/now:1"
    assert [seat["run"]["job"] for seat in shown["members"]] == ["api/triage", "api/report"]


def test_a_shell_completes_the_names_of_the_folders_own_jobs(home: Home) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home.folder)}

    def offered(word: str) -> list[str]:
        arguments = {"COMP_WORDS": f"rota show {word}", "COMP_CWORD": "2", "_ROTA_COMPLETE": "bash_complete"}
        obj = Invocation(environ, home.folder / "code" / "api", home.clock)
        printed = CliRunner().invoke(cli, [], obj=obj, env=arguments, prog_name="rota").stdout
        return [line.partition(",")[2] for line in printed.splitlines()]

    assert offered("") == ["all", "report", "triage"]
    assert offered("web/t") == ["web/triage"]


def test_add_writes_into_the_file_of_the_folder_where_it_is_typed(home: Home) -> None:
    assert "added api/fresh" in home.ok("code/api", "add", "fresh", "--", "echo", "hi")
    assert "fresh" in (home.folder / "code/api/rota.yaml").read_text()
    home.ok("code/api", "apply")
    assert "api/fresh" in home.names("code/api")


def test_a_dry_run_shows_the_included_projects_own_folder(home: Home) -> None:
    assert f"in {home.folder / 'code/api'}" in home.ok("code/api", "run", "triage", "--dry-run")


# apply


def test_a_project_that_leaves_is_retired_and_comes_back_with_its_history(home: Home) -> None:
    """R-14: the including file is the source of all jobs, so a project is retired and revived like a job of its own."""
    home.ok("fleet", "trigger", "api/triage")
    (home.folder / "code/api/rota.yaml").rename(home.folder / "code/api/rota.off")
    assert "- api/triage  retired" in home.ok("fleet", "apply")
    assert "api/triage" not in home.names("fleet")
    (home.folder / "code/api/rota.off").rename(home.folder / "code/api/rota.yaml")
    assert "+ api/triage  revived" in home.ok("fleet", "apply")
    assert home.json("code/api", "show", "triage:1")["run"] == "api/triage:1"


def test_a_job_that_moves_into_a_part_is_unchanged(home: Home) -> None:
    home.write("fleet/jobs.d/own.yaml", 'jobs:\n  own: {cron: "0 1 * * *", command: [echo, own]}\n')
    home.write(
        "fleet/rota.yaml",
        'timezone: Europe/Madrid\ninclude: ["~/code/*/rota.yaml", jobs.d/*.yaml]\npools: {claude: 1}\n',
    )
    assert home.ok("fleet", "apply") == "= 7 jobs unchanged\n"


def test_a_problem_in_an_included_file_keeps_everything_as_it_is(home: Home) -> None:
    home.write("code/web/rota.yaml", "jobs:\n  triage: {comand: x}\n")
    result = home.rota("code/api", "apply")
    assert result.exit_code == 65
    assert result.stderr.startswith("~/code/web/rota.yaml:2:12: jobs.triage.comand: unknown key")
    assert len(home.names("fleet")) == 7


def test_check_lists_what_is_included(home: Home) -> None:
    printed = home.ok("fleet", "check")
    assert "  includes ~/code/api/rota.yaml, its jobs as api/…\n" in printed
    assert home.json("fleet", "check")["included"] == [
        {"file": str(home.folder / "code" / name / "rota.yaml"), "project": name} for name in ("api", "web")
    ]


def test_an_export_of_included_jobs_is_a_file_that_can_be_read(home: Home) -> None:
    text = home.ok("code/api", "export")
    home.write("alone/rota.yaml", text)
    assert "+ api-triage  created" in home.ok("alone", "apply")
    assert "api-all" in home.names("alone")


def test_a_backup_holds_the_parts_of_the_file(home: Home) -> None:
    home.write("fleet/jobs.d/more.yaml", "jobs:\n  more: {command: [echo, more]}\n")
    home.write("fleet/rota.yaml", "include: [jobs.d/*.yaml]\njobs: {}\n")
    home.ok("fleet", "apply")
    home.ok("fleet", "backup", str(home.folder / "saved.tar.gz"))
    (home.folder / "new").mkdir()
    home.ok("new", "restore", str(home.folder / "saved.tar.gz"))
    assert "~ more  changed\n    cwd " in home.ok("new", "apply", "--dry-run")


# two schedulers


def test_an_included_project_has_no_scheduler_of_its_own(home: Home) -> None:
    for command in (["serve"], ["stop"], ["tick"], ["service", "status"]):
        result = home.rota("code/api", *command)
        assert result.exit_code == 73, command
        assert f"code/api is included by {home.folder / 'fleet'}/rota.yaml" in result.stderr


@pytest.mark.usefixtures("served")
def test_serving_an_included_project_alone_is_refused_while_the_including_one_is_served(home: Home) -> None:
    result = home.rota("fleet", "--dir", str(home.folder / "code/api"), "serve")
    assert result.exit_code == 73
    assert "whose scheduler runs its jobs" in result.stderr


def test_a_project_that_is_served_already_is_not_included(home: Home) -> None:
    (home.folder / "code/api/.rota").mkdir(0o700)
    lock = take_serve_lock(home.folder / "code/api/.rota")
    try:
        for command in ("check", "apply", "serve"):
            result = home.rota("fleet", command)
            assert result.exit_code == 73, command
            assert "its jobs would fire twice" in result.stderr
            assert f"rota --dir {home.folder / 'code/api'} stop" in result.stderr
    finally:
        lock.release()
