"""Files that a project's file includes: what the patterns match, how parts and projects are joined, what is refused."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rota.declare.include import find_included, locate_job, written_patterns
from rota.declare.keys import PROJECT, RETENTION, SCHEDULER
from rota.declare.merge import HOLDS, IGNORED, SHARED
from rota.declare.project import Declared, read_project
from rota.model.errors import FileProblems
from rota.model.spec import Isolate, Names

NOTHING = "jobs: {}\n"
JOB = "jobs:\n  triage: {command: [triage.sh]}\n"


class Home:
    """A home folder with an including project, `fleet`, and others beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def read(self, text: str, **options: Any) -> Declared:
        self.write("fleet/rota.yaml", text)
        return read_project(self.folder / "fleet", environment={"HOME": str(self.folder)}, **options)

    def problems(self, text: str) -> list[str]:
        with pytest.raises(FileProblems) as caught:
            self.read(text)
        return [str(problem) for problem in caught.value.problems]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def names(declared: Declared) -> list[str]:
    return [spec.name for spec in declared.jobs]


# places


@pytest.mark.parametrize(
    ("name", "file", "line", "path"),
    [
        ("own", "fleet/rota.yaml", 3, "jobs.own"),
        ("all", "fleet/rota.yaml", 5, "groups.all"),
        ("bot/daily", "fleet/rota.yaml", 9, "agents.bot.schedules.daily"),
        ("web", "fleet/jobs.d/web.yaml", 2, "jobs.web"),
        ("api/triage", "api/rota.yaml", 3, "jobs.triage"),
        ("api/inner", "api/more/inner.yaml", 1, "jobs.inner"),
        ("gone", "", 0, ""),
        ("api", "", 0, ""),
    ],
)
def test_a_job_is_located_in_the_file_that_declares_it(home: Home, name: str, file: str, line: int, path: str) -> None:
    home.write("fleet/jobs.d/web.yaml", "jobs:\n  web: {command: [a]}\n")
    home.write("api/rota.yaml", f"include: [more/*.yaml]\n{JOB}")
    home.write("api/more/inner.yaml", "jobs: {inner: {command: [a]}}")
    text = """include: [jobs.d/*.yaml, ~/api/rota.yaml]
jobs:
  own: {command: [a]}
groups:
  all: {members: [own]}
agents:
  bot:
    adapter: claude
    schedules: {daily: {cron: "0 9 * * *", prompt: x}}
"""
    found = locate_job(home.write("fleet/rota.yaml", text), name, home=str(home.folder))
    place = ("", 0, "") if found is None else (found.file, found.line, found.path)
    assert place == (file and str(home.folder / file), line, path)


# parts


def test_a_part_below_the_folder_joins_without_a_prefix(home: Home) -> None:
    home.write("fleet/jobs.d/web.yaml", "jobs:\n  web: {command: [./web.sh], pools: [disk]}\npools: {disk: 2}\n")
    declared = home.read("include: [jobs.d/*.yaml]\njobs:\n  own: {command: [a], pools: [disk]}\n")
    assert names(declared) == ["own", "web"]
    assert declared.jobs[1].work.cwd == str(home.folder / "fleet")
    assert declared.settings.pools["disk"] == 2


def test_groups_may_stand_in_another_file_than_their_members(home: Home) -> None:
    home.write("fleet/jobs.d/a.yaml", "groups:\n  both: {members: [one, two]}\njobs:\n  two: {command: [b]}\n")
    declared = home.read("include: [jobs.d/*.yaml]\njobs:\n  one: {command: [a]}\n")
    assert names(declared) == ["one", "two", "both"]


def test_a_name_that_is_there_twice_is_told_with_both_places(home: Home) -> None:
    home.write("fleet/jobs.d/a.yaml", "pools: {x: 1}\njobs:\n  own: {command: [b]}\n")
    problems = home.problems("include: [jobs.d/*.yaml]\npools: {x: 1}\njobs:\n  own: {command: [a]}\n")
    assert problems == [
        "jobs.d/a.yaml:1:9: pools.x: a pool of this name already exists, in rota.yaml:2:9; keep one of them",
        "jobs.d/a.yaml:3:3: jobs.own: a job of this name already exists, in rota.yaml:4:3; choose another name",
    ]


def test_every_problem_of_a_part_has_its_own_place(home: Home) -> None:
    home.write("fleet/jobs.d/a.yaml", "jobs:\n  Own: {comand: [b]}\n")
    home.write("fleet/jobs.d/b.yaml", "jobs:\n  c:\n    command: [a]\n    cron: nonsense\n")
    home.write("fleet/jobs.d/c.yaml", "jobs: [a]\n")
    home.write("fleet/jobs.d/d.yaml", "jobs: {\n")
    problems = home.problems("include: [jobs.d/*.yaml]\njobs:\n  own: {command: [a]}\n")
    assert [problem.split(": ")[0] for problem in problems] == [
        "jobs.d/c.yaml:1:1",
        "jobs.d/d.yaml:2:1",
        "jobs.d/a.yaml:2:3",
        "jobs.d/a.yaml:2:9",
        "jobs.d/b.yaml:4:5",
    ]


def test_a_part_holds_nothing_that_is_said_for_the_whole_project(home: Home) -> None:
    home.write("fleet/jobs.d/a.yaml", f"timezone: UTC\n{JOB}")
    assert home.problems("include: [jobs.d/*.yaml]\n") == [
        (
            "jobs.d/a.yaml:1:1: timezone: is not allowed in a part of a project; it applies to the whole project: "
            "write it in its rota.yaml; a part has jobs, groups and pools"
        )
    ]


# projects


def test_jobs_of_an_included_project_are_named_after_its_folder_and_at_home_there(home: Home) -> None:
    text = (
        "timezone: Europe/Madrid\ndefaults: {timeout: 1h, env_file: .env}\n"
        "jobs:\n  triage: {command: [triage.sh]}\n  sub: {command: [a], cwd: sub}\n"
        "groups:\n  all: {members: [triage, sub]}\n"
    )
    home.write("code/api/rota.yaml", text)
    declared = home.read(f'timezone: Asia/Tokyo\ninclude: ["~/code/*/rota.yaml"]\n{JOB}')
    api = home.folder / "code" / "api"
    assert names(declared) == ["triage", "api/triage", "api/sub", "api/all"]
    own, triage, sub, group = declared.jobs
    assert (own.schedule.timezone, triage.schedule.timezone) == ("Asia/Tokyo", "Europe/Madrid")
    assert (triage.work.cwd, triage.work.env_file) == (str(api), str(api / ".env"))
    assert triage.work.timeout is not None
    assert triage.work.timeout.total_seconds() == 3600
    assert sub.work.cwd == str(api / "sub")
    assert [member.job for member in group.work.members] == ["api/triage", "api/sub"]
    assert (triage.work.project, own.work.project) == (str(api), None)
    assert (triage.labels, own.labels) == (("project=api",), ())


def test_a_rota_yaml_below_the_folder_is_a_project_too(home: Home) -> None:
    home.write("fleet/services/api/rota.yaml", JOB)
    assert names(home.read('include: ["services/*/rota.yaml"]\n')) == ["api/triage"]


def test_an_included_project_may_have_parts_of_its_own(home: Home) -> None:
    home.write("code/api/rota.yaml", "include: [jobs.d/*.yaml]\njobs: {}\n")
    home.write("code/api/jobs.d/a.yaml", JOB)
    declared = home.read('include: ["~/code/*/rota.yaml"]\n')
    assert names(declared) == ["api/triage"]
    assert [one.file for one in declared.included] == ["~/code/api/rota.yaml", "~/code/api/jobs.d/a.yaml"]


def test_functions_of_an_included_project_run_as_processes_of_its_own_modules(home: Home) -> None:
    """Modules of two projects often have the same name, so that they cannot meet in one process."""
    text = "imports: [chores]\njobs:\n  greet: {run: greet, isolate: thread}\n  plain: {command: [a]}\n"
    home.write("code/api/rota.yaml", text)

    class Every:
        def find(self, functions: Sequence[str], conditions: Sequence[str]) -> Names:
            return Names()

    declared = home.read('include: ["~/code/*/rota.yaml"]\n', interpreter=lambda python, settings: Every())
    greet, plain = declared.jobs
    assert (greet.work.isolate, greet.work.python, greet.work.imports) == (Isolate.PROCESS, sys.executable, ("chores",))
    assert (plain.work.python, plain.work.imports) == (None, ())
    assert "isolate of greet in ~/code/api/rota.yaml does not apply: included functions run as processes" in (
        declared.notes
    )


def test_the_pools_of_the_including_file_count(home: Home) -> None:
    home.write("code/api/rota.yaml", f"pools: {{claude: 2, gpu: 1}}\n{JOB.replace(']}', '], pools: [gpu, claude]}')}")
    home.write("code/web/rota.yaml", f"pools: {{gpu: 1}}\n{JOB}")
    declared = home.read('pools: {claude: 1}\ninclude: ["~/code/*/rota.yaml"]\n')
    assert declared.settings.pools == {"agents": 2, "claude": 1, "gpu": 1}
    assert declared.notes == ("pools.claude of ~/code/api/rota.yaml differs from the one here, which applies",)


def test_a_job_may_draw_on_a_pool_that_only_the_including_file_declares(home: Home) -> None:
    home.write("code/api/rota.yaml", "jobs:\n  triage: {command: [a], pools: [claude]}\n")
    assert names(home.read('pools: {claude: 1}\ninclude: ["~/code/*/rota.yaml"]\n')) == ["api/triage"]


def test_two_included_projects_that_differ_about_a_pool_are_refused(home: Home) -> None:
    home.write("code/api/rota.yaml", f"pools: {{gpu: 1}}\n{JOB}")
    home.write("code/web/rota.yaml", f"pools: {{gpu: 4}}\n{JOB}")
    assert home.problems('include: ["~/code/*/rota.yaml"]\n') == [
        (
            "~/code/web/rota.yaml:1:9: pools.gpu: differs from ~/code/api/rota.yaml:1:9; "
            "make them equal, or set it in the including file: `pools: {gpu: …}`"
        )
    ]


def test_what_does_not_apply_of_an_included_file_is_told(home: Home) -> None:
    text = "state: ../x\nscheduler: {concurrency: 3, timeout: 1h}\nretention: {runs: 1d, output_total: 1GB}\n"
    home.write("code/api/rota.yaml", text + JOB)
    declared = home.read('include: ["~/code/*/rota.yaml"]\n')
    assert [note.partition(" of ")[0] for note in declared.notes] == [
        "state",
        "scheduler.concurrency",
        "retention.output_total",
    ]
    (triage,) = declared.jobs
    assert triage.work.timeout is not None
    assert triage.retention.runs is not None
    assert (triage.work.timeout.total_seconds(), triage.retention.runs.days) == (3600, 1)


def test_an_included_project_that_is_switched_off_stays_off(home: Home) -> None:
    home.write("code/api/rota.yaml", f"scheduler: {{enabled: false}}\n{JOB}")
    declared = home.read('include: ["~/code/*/rota.yaml"]\n')
    assert not declared.jobs[0].enabled
    assert declared.notes == ("scheduler.enabled of ~/code/api/rota.yaml is false: its jobs are disabled here",)


def test_it_is_decided_for_every_key_of_a_file_what_it_means_in_an_included_one() -> None:
    decided = [*HOLDS, *SHARED, *IGNORED]
    assert len(set(decided)) == len(decided)
    assert set(PROJECT.keys) - set(decided) == set()
    assert set(SCHEDULER.keys) - IGNORED["scheduler"] == {"timeout", "enabled"}
    assert set(RETENTION.keys) - IGNORED["retention"] == {"runs", "skipped", "skipped_count", "output"}


# what is refused


def test_an_included_project_includes_no_projects(home: Home) -> None:
    home.write("code/api/rota.yaml", f"include: [../web/rota.yaml]\n{JOB}")
    home.write("code/web/rota.yaml", JOB)
    assert home.problems('include: ["~/code/api/rota.yaml"]\n') == [
        (
            "~/code/api/rota.yaml:1:11: include[0]: ~/code/web/rota.yaml is a project, and an included project "
            "cannot include others; include it from the file that includes this one"
        )
    ]


def test_two_folders_of_one_name_are_refused_and_a_link_helps(home: Home) -> None:
    home.write("code/api/rota.yaml", JOB)
    home.write("more/api/rota.yaml", JOB)
    text = 'include: ["~/code/*/rota.yaml", "~/more/*/rota.yaml"]\n'
    assert home.problems(text) == [
        (
            "rota.yaml:1:33: include[1]: ~/code/api/rota.yaml and ~/more/api/rota.yaml would give their jobs "
            "the same names; "
            "rename the folder, or link it under another name"
        )
    ]
    (home.folder / "links").mkdir()
    (home.folder / "links" / "api2").symlink_to(home.folder / "more" / "api")
    assert names(home.read(text.replace("more", "links"))) == ["api/triage", "api2/triage"]


@pytest.mark.parametrize(
    ("folder", "told"),
    [("rota", "would name its jobs rota/…"), ("my api", "is in a folder that cannot name its jobs")],
)
def test_a_folder_that_cannot_name_jobs_is_refused(home: Home, folder: str, told: str) -> None:
    home.write(f"code/{folder}/rota.yaml", JOB)
    (problem,) = home.problems('include: ["~/code/*/rota.yaml"]\n')
    assert problem.startswith(f"rota.yaml:1:11: include[0]: ~/code/{folder}/rota.yaml {told}; ")


@pytest.mark.parametrize(
    ("include", "told"),
    [
        ("jobs.d/none.yaml", "there is no file 'jobs.d/none.yaml'"),
        ("jobs.d", "jobs.d is a folder"),
        ("~/code/api/other.yaml", "~/code/api/other.yaml is outside this folder and not a rota.yaml"),
        ("~/code/**/rota.yaml", '"~/code/**/rota.yaml" would search whole folder trees'),
        ("3", "3 is not a text"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_told(home: Home, include: str, told: str) -> None:
    home.write("code/api/other.yaml", JOB)
    (home.folder / "fleet" / "jobs.d").mkdir(parents=True)
    (problem,) = home.problems(f"include: [{include if include == '3' else repr(include)}]\n")
    assert problem.startswith(f"rota.yaml:1:11: include[0]: {told}")


def test_a_pattern_that_matches_nothing_is_told_as_a_note(home: Home) -> None:
    declared = home.read('include: ["jobs.d/*.yaml"]\njobs: {by-hand: {command: [echo, hi]}}\n')
    assert declared.notes == ("include: 'jobs.d/*.yaml' matches no file",)


def test_the_including_file_and_a_file_matched_twice_are_taken_once(home: Home) -> None:
    home.write("api/rota.yaml", JOB)
    declared = home.read(f'include: ["~/*/rota.yaml", "~/api/rota.yaml"]\n{JOB}')
    assert names(declared) == ["triage", "api/triage"]


def test_a_lenient_reading_leaves_out_the_projects_that_have_problems(home: Home) -> None:
    home.write("code/api/rota.yaml", "jobs:\n  a: {comand: x}\n")
    home.write("code/ill/rota.yaml", "jobs: {\n")
    home.write("code/web/rota.yaml", JOB)
    declared = home.read('include: ["~/code/*/rota.yaml"]\n', lenient=True)
    assert names(declared) == ["web/triage"]
    assert [one.included.name for one in declared.left_out] == ["api", "ill"]
    assert [problem.line for one in declared.left_out for problem in one.problems] == [2, 2]
    assert [one.name for one in declared.included] == ["web"]


# the look-up, which does not read the jobs


@pytest.mark.parametrize(
    "text",
    [
        'include: ["~/a/rota.yaml", b.yaml]\njobs: nonsense: {\n',
        "jobs: {\n\ninclude:\n- ~/a/rota.yaml\n# more\n- b.yaml\ntimezone: UTC\n",
        "timezone: UTC\n'include': [\n  ~/a/rota.yaml,\n  b.yaml\n]\njobs: {\n",
        "{include: [~/a/rota.yaml, b.yaml], jobs: {}}\n",
    ],
)
def test_patterns_are_found_without_reading_the_rest_of_a_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "rota.yaml").write_text(text)
    assert written_patterns(tmp_path / "rota.yaml") == ("~/a/rota.yaml", "b.yaml")


@pytest.mark.parametrize("text", ["jobs: {}\n", "include: x\n", "# include: [a]\njobs: {include: [a]}\n", "{}"])
def test_a_file_without_patterns_has_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "rota.yaml").write_text(text)
    assert written_patterns(tmp_path / "rota.yaml") == ()
    assert written_patterns(tmp_path / "missing.yaml") == ()


def test_wildcards_in_the_names_of_folders_above_are_plain_characters(tmp_path: Path) -> None:
    folder = tmp_path / "a[b]*"
    (folder / "jobs.d").mkdir(parents=True)
    (folder / "jobs.d" / "x.yaml").write_text(JOB)
    found = find_included(["jobs.d/*.yaml", "~/jobs.d/x.yaml"], folder / "rota.yaml", home=str(folder))
    assert [one.file for one in found.files] == ["jobs.d/x.yaml"]
    assert found.problems == ()


def test_the_example_of_many_projects_is_right() -> None:
    declared = read_project(Path(__file__).parents[3] / "examples" / "many", environment={})
    assert names(declared) == ["own", "backup-files", "backup-database", "api/triage", "web/triage"]
    assert declared.settings.pools == {"agents": 2, "model": 1, "disk": 1}


# agents


def test_agents_of_one_name_in_two_projects_are_two_and_are_held_apart(home: Home) -> None:
    for place in ("api", "web"):
        text = (
            "agents:\n"
            "  helper: {adapter: custom, access: full, options: {argv: [helper]}}\n"
            "  known: {adapter: custom, access: full, options: {argv: [known], provider: acme}}\n"
            "jobs: {ask: {prompt: x, agent: helper}, again: {prompt: x, agent: known}}\n"
        )
        home.write(f"code/{place}/rota.yaml", text)
    declared = home.read("include: [~/code/*/rota.yaml]\njobs: {}\n")
    asked = {spec.name: spec for spec in declared.jobs}
    assert [asked[name].work.agent.provider for name in ("api/ask", "web/ask")] == ["api/helper", "web/helper"]
    assert [draw.pool for draw in asked["api/ask"].pools] == ["agent:api/helper", "agents", "provider:api/helper"]
    assert [asked[name].work.agent.provider for name in ("api/again", "web/again")] == ["acme", "acme"]
    assert {"provider:api/helper", "provider:web/helper", "provider:acme"} <= declared.settings.pools.keys()
