"""`rota approve`, `remove` and `list --made-by`, and commands inside a run: what a person and an agent see."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

from rota.cli.main import COMMANDS, cli
from rota.engine.transactions.claim import claim, start
from rota.engine.transactions.direct_calls import finish
from rota.model.records import Outcome
from rota.model.states import Status
from rota.operations.direct_actions import ask_for_work
from rota.operations.project.locate import open_state
from rota.runners.processes import identity
from rota.store.tables.audit import entries
from tests.faces.conftest import NOON, Project
from tests.faces.test_tools import DAILY, Tools

FILE = """
agents:
  reviewer: {adapter: claude, max_concurrent: 5}
agent_policy: {approval: required}
jobs:
  nightly: {cron: "0 2 * * *", agent: reviewer, prompt: Review the day.}
  script: {command: "true"}
  plain: {command: "true"}
"""


@pytest.fixture
def made(project: Project) -> Project:
    """A project in which a job waits for approval."""
    Tools(project.applied(FILE)).call("schedule_job", **{**DAILY, "task": "Look at CI.\nThen tell."})
    return project


@pytest.fixture
def acting(made: Project) -> "Acting":
    return Acting(made)


class Acting:
    """A project, and `rota` typed inside the runs of its jobs."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def inside(self, job: str, *arguments: str, **further: str) -> Any:
        if self.project.rota("show", f"{job}:1").exit_code != 0:
            self.project.ok("trigger", job)
            self.project.begin()
        run_id = self.project.json("show", f"{job}:1")["id"]
        return self.project.rota(*arguments, environ={"ROTA_RUN_ID": run_id, **further})


def refused(result: Any) -> bool:
    return result.exit_code == 6 and "is not allowed for agents" in result.stderr


# approve


def test_what_waits_is_listed_and_shown_as_attention(made: Project) -> None:
    assert "watch" in made.ok("approve")
    assert made.json("approve")[0]["prompt"] == "Look at CI.\nThen tell."
    assert "waiting for approval, created by user" in made.rota("status").stdout
    assert "provisional" in made.ok("list")
    assert "rota approve watch" in made.ok("explain", "watch")


def test_an_approval_shows_exactly_what_it_is_for(made: Project) -> None:
    told = made.ok("approve", "watch", "--dry-run")
    assert "  │ Look at CI.\n  │ Then tell.\n" in told
    for part in ("access       read", "by user", "all tools of access read", "Mon 16 Nov 09:00 (UTC)\n"):
        assert part in told
    assert told.count("would start") == 5
    assert made.json("show", "watch")["state"] == "provisional"


def test_an_approval_needs_a_yes_where_nobody_can_be_asked(made: Project) -> None:
    result = made.rota("approve", "watch")
    assert result.exit_code == 2
    assert "pass --yes" in result.stderr
    assert "is approved; next Mon 16 Nov 09:00" in made.ok("approve", "watch", "--yes")
    assert made.json("show", "watch")["state"] == "idle"
    assert made.ok("approve") == "no job is waiting for approval\n"
    again = made.rota("approve", "watch", "--yes")
    assert again.exit_code == 6
    assert "does not wait for approval" in again.stderr


def test_an_approval_in_json_tells_what_was_approved(made: Project) -> None:
    answer = made.json("approve", "watch", "--yes")
    assert (answer["job"], answer["approved"], len(answer["next_fires"])) == ("watch", True, 5)


def test_an_edit_voids_an_approval(made: Project) -> None:
    made.ok("approve", "watch", "--yes")
    Tools(made).call("schedule_job", **{**DAILY, "task": "Something else."})
    assert made.json("show", "watch")["state"] == "provisional"


def test_a_job_that_waits_does_not_start(made: Project) -> None:
    for command in (("trigger", "watch"), ("run", "watch", "--force")):
        result = made.rota(*command)
        assert result.exit_code == 6
        assert "not approved yet" in result.stderr


def test_an_export_says_what_nobody_has_approved(made: Project) -> None:
    result = made.rota("export", "watch")
    assert "prompt: |-" in result.stdout
    assert "watch: waits for approval here" in result.stderr


# list and remove


def test_jobs_are_listed_by_their_maker(made: Project) -> None:
    Tools(made, None).call("schedule_job", name="second", task="Another.", schedule="0 7 * * *")
    assert [job["name"] for job in made.json("list", "--made-by", "agent")] == ["second", "watch"]
    assert [job["name"] for job in made.json("list", "--made-by", "user")] == ["second", "watch"]
    assert made.ok("list", "--made-by", "agent:reviewer") == "no jobs of author agent:reviewer\n"
    assert "by user, Sun 15 Nov 12:00" in made.ok("show", "watch")


def test_one_command_removes_all_that_agents_made(made: Project) -> None:
    assert made.rota("remove", "--made-by", "agent").exit_code == 2
    assert "would be removed" in made.ok("remove", "--made-by", "agent", "--dry-run")
    assert made.json("show", "watch")["state"] == "provisional"
    assert made.json("remove", "--made-by", "agent", "--yes") == {"dry_run": False, "removed": ["watch"]}
    assert made.json("show", "watch")["state"] == "retired"
    assert [job["name"] for job in made.json("list")] == ["nightly", "plain", "script"]
    assert "that author has no jobs" in made.ok("remove", "--made-by", "agent", "--yes")


def test_a_job_of_the_file_is_not_removed(made: Project) -> None:
    result = made.rota("remove", "plain", "watch")
    assert result.exit_code == 6
    assert f"is declared in {made.folder}/rota.yaml:" in result.stderr
    assert "remove it from that file" in result.stderr
    assert made.json("show", "watch")["state"] == "provisional"
    assert made.rota("remove").exit_code == 2
    assert made.ok("remove", "watch") == "- watch  removed\n"


def test_queued_runs_of_a_removed_job_are_cancelled_where_that_is_asked(made: Project) -> None:
    made.ok("approve", "watch", "--yes")
    made.ok("trigger", "watch")
    made.ok("remove", "watch", "--cancel-queued")
    assert made.json("show", "watch:1")["status"] == "CANCELLED"


# inside a run


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("status",),
        ("explain", "plain"),
        ("history",),
        ("approve",),
        ("approve", "--json"),
        ("export",),
        ("next",),
        ("groups",),
        ("queue",),
        ("trigger", "plain"),
        ("check",),
    ],
)
def test_an_agent_may_look_and_start(acting: Acting, command: tuple[str, ...]) -> None:
    result = acting.inside("nightly", *command)
    assert "not allowed for agents" not in result.stderr
    assert result.exit_code in (0, 1)


@pytest.mark.parametrize(
    "command",
    [
        ("pause", "plain"),
        ("resume", "--all"),
        ("apply",),
        ("apply", "--dry-run"),
        ("add", "x", "--cron", "0 9 * * *", "--", "true"),
        ("cancel", "--all", "--yes"),
        ("trigger", "plain", "--force"),
        ("run", "plain", "--next-slot"),
        ("direct", "plain"),
        ("retry", "plain"),
        ("backfill", "nightly", "--from", "2026-11-01", "--to", "2026-11-02"),
        ("approve", "watch", "--yes"),
        ("remove", "--made-by", "agent", "--yes"),
        ("stop",),
        ("serve",),
        ("tick",),
        ("touch",),
        ("move", "plain:1", "--first"),
        ("edit", "plain:1", "--priority", "9"),
        ("groups", "cancel", "x"),
        ("init",),
        ("restore", "x"),
        ("service", "install"),
    ],
)
def test_an_agent_changes_nothing_else(acting: Acting, command: tuple[str, ...]) -> None:
    before = (acting.project.folder / "rota.yaml").read_text()
    result = acting.inside("nightly", *command)
    assert refused(result), result.output
    assert "this is the run nightly:1" in result.stderr
    assert (acting.project.folder / "rota.yaml").read_text() == before


def test_a_refusal_has_a_code_of_its_own(acting: Acting) -> None:
    result = acting.inside("nightly", "pause", "plain", "--json")
    assert json.loads(result.stderr)["error"]["code"] == "agent_refused"


def test_what_an_agent_starts_is_recorded_and_bounded(acting: Acting) -> None:
    acting.project.write(FILE.replace("approval: required", "creations_per_hour: 1"))
    acting.project.ok("apply")
    assert acting.inside("nightly", "trigger", "plain").exit_code == 0
    assert acting.project.json("show", "plain:1")["decisions"]["by"] == {"maker": "agent:reviewer", "run": "nightly:1"}
    second = acting.inside("nightly", "trigger", "script")
    assert second.exit_code == 6
    assert "limit 1" in second.stderr


def test_a_run_of_other_work_is_not_bound_and_what_it_changes_is_noted(acting: Acting) -> None:
    assert acting.inside("script", "pause", "plain", "nightly").exit_code == 0
    assert acting.inside("script", "trigger", "plain").exit_code == 0
    assert acting.inside("script", "list").exit_code == 0
    store = open_state(acting.project.state, acting.project.clock, create=False)
    try:
        found = store.read(partial(entries, limit=10))
    finally:
        store.close()
    told = [(entry.actor, entry.action, entry.target) for entry in found if entry.actor.startswith("run:")]
    assert told == [
        ("run:script (script:1)", "trigger", "plain"),
        ("run:script (script:1)", "pause", "plain nightly"),
    ]
    assert "started by run:script (script:1)" in acting.project.ok("explain", "plain:1")


def test_a_run_that_is_not_live_has_no_rights(acting: Acting) -> None:
    """Queued, ended, unknown."""
    acting.project.ok("trigger", "nightly")
    run_id = acting.project.json("show", "nightly:1")["id"]
    assert rightless(acting.project.rota("pause", "plain", environ={"ROTA_RUN_ID": run_id}))
    acting.project.carry_out([Outcome(Status.COMPLETED)])
    assert rightless(acting.project.rota("list", environ={"ROTA_RUN_ID": run_id}))
    for unknown in ("nonsense", "0", " ", "0192f0c1-2345-7abc-8def-0123456789ab"):
        for command in RIGHTS:
            assert rightless(acting.project.rota(*command, environ={"ROTA_RUN_ID": unknown})), (unknown, command)
    assert acting.project.json("show", "plain")["state"] == "idle"
    assert not (acting.project.state / "token").exists()


RIGHTS = (
    ("apply",),
    ("pause", "--all"),
    ("token",),
    ("approve", "watch", "--yes"),
    ("trigger", "plain"),
    ("mcp",),
    ("list",),
    ("serve",),
)


def rightless(result: Any) -> bool:
    return result.exit_code == 6 and "is not a live run or direct call of" in result.stderr


def test_a_refusal_without_rights_has_a_code_of_its_own(acting: Acting) -> None:
    result = acting.project.rota("apply", "--json", environ={"ROTA_RUN_ID": "nonsense"})
    assert json.loads(result.stderr)["error"]["code"] == "run_unknown"


@pytest.mark.parametrize("command", [("help",), ("check",), ("schema",), ("completion", "bash"), ("mcp", "--list")])
def test_what_opens_no_state_needs_no_rights(acting: Acting, command: tuple[str, ...]) -> None:
    assert acting.project.rota(*command, environ={"ROTA_RUN_ID": "nonsense"}).exit_code == 0


def test_outside_of_any_project_a_run_may_only_ask_for_help(tmp_path: Path) -> None:
    outside = Project(tmp_path)
    assert outside.rota("help", environ={"ROTA_RUN_ID": "0" * 36}).exit_code == 0
    assert rightless(outside.rota("init", environ={"ROTA_RUN_ID": "0" * 36}))
    assert not (tmp_path / "rota.yaml").exists()


def test_the_run_of_one_project_has_no_rights_in_another(acting: Acting, tmp_path: Path) -> None:
    """Another project is another world, applied or not, for agents and for scripts."""
    other, fresh = tmp_path / "other", tmp_path / "fresh"
    for folder in (other, fresh):
        folder.mkdir()
        (folder / "rota.yaml").write_text("jobs: {own: {shell: 'true'}}\n")
    Project(other, acting.project.clock).applied("jobs: {own: {shell: 'true'}}\n")
    for job in ("nightly", "script"):
        for folder in (other, fresh):
            for command in (("apply",), ("pause", "--all"), ("token",), ("trigger", "own"), ("list",)):
                assert rightless(acting.inside(job, *command, "--dir", str(folder))), command
    assert not (fresh / ".rota").exists()
    assert Project(other, acting.project.clock).json("show", "own")["state"] == "idle"


# inside a direct call


class Calling(Acting):
    """`rota` typed inside a direct call."""

    call_id = ""

    def inside(self, job: str, *arguments: str, **further: str) -> Any:
        self.call_id = self.call_id or self.begun(job)
        return self.project.rota(*arguments, environ={"ROTA_RUN_ID": self.call_id, **further})

    def begun(self, job: str) -> str:
        """Start a direct call of a job, and let it go on."""
        store, now = open_state(self.project.state, self.project.clock, create=False), self.project.clock.now()
        try:
            call_id = store.write(partial(ask_for_work, name=job, params=None, caller=identity(), now=now))
            holder = store.write(self.project._holder)
            for one in store.write(partial(claim, holder=holder, free=range(9), now=now)):
                store.write(partial(start, claimed=one, holder=holder, process=holder.identity, now=now))
            return call_id
        finally:
            store.close()


@pytest.fixture
def calling(made: Project) -> Calling:
    return Calling(made)


@pytest.mark.parametrize(
    "command", [("apply",), ("pause", "--all"), ("token",), ("approve", "watch", "--yes"), ("direct", "plain")]
)
def test_an_agent_in_a_direct_call_is_an_agent(calling: Calling, command: tuple[str, ...]) -> None:
    result = calling.inside("nightly", *command)
    assert refused(result), result.output
    assert "this is the run nightly:direct" in result.stderr


def test_what_an_agent_in_a_direct_call_starts_is_recorded(calling: Calling) -> None:
    assert calling.inside("nightly", "list").exit_code == 0
    assert calling.inside("nightly", "trigger", "plain").exit_code == 0
    by = calling.project.json("show", "plain:1")["decisions"]["by"]
    assert by == {"maker": "agent:reviewer", "run": "nightly:direct"}


def test_a_script_in_a_direct_call_is_not_bound(calling: Calling) -> None:
    assert calling.inside("script", "pause", "plain").exit_code == 0


def test_a_direct_call_that_is_over_has_no_rights(calling: Calling) -> None:
    call_id = calling.begun("script")
    store = open_state(calling.project.state, calling.project.clock, create=False)
    try:
        ended = partial(finish, call_id=call_id, outcome=Outcome(Status.COMPLETED), epoch=None, now=NOON)
        assert store.write(ended)
    finally:
        store.close()
    assert rightless(calling.project.rota("pause", "plain", environ={"ROTA_RUN_ID": call_id}))


# tools and files


def test_an_agent_without_the_tools_cannot_serve_them_to_itself(acting: Acting) -> None:
    """`rota_tools: false` holds for an agent with a shell too."""
    result = acting.inside("nightly", "mcp")
    assert result.exit_code == 6
    assert "the run nightly:1 has no rota tools" in result.stderr
    assert acting.inside("nightly", "mcp", "--list").exit_code == 0


def test_an_agent_in_a_direct_call_without_the_tools_has_none(calling: Calling) -> None:
    assert "the run nightly:direct has no rota tools" in calling.inside("nightly", "mcp").stderr


WRITES = {
    "simulate --svg": ("simulate", "--svg", "{file}"),
    "backup FILE": ("backup", "{file}"),
    "mcp --write-plugin": ("mcp", "--write-plugin", "{file}"),
}
"""Params that name a file which the command writes."""
TAKES = {"serve --tls-cert", "serve --tls-key", "import FILES", "trigger --each", "restore FILE"}
"""Params that name a file which the command only reads."""


def file_params(command: click.Command, path: str) -> Iterator[str]:
    for param in command.params:
        about = f"{param.name} {param.metavar or ''} {' '.join(param.opts)}".lower()
        named = re.search(r"\b(file|path|folder|out|output|o)\b", about)
        if getattr(param, "is_flag", False) or param.name == "directory":
            continue
        if isinstance(param.type, click.Path | click.File) or named:
            yield f"{path} {param.opts[-1] if isinstance(param, click.Option) else (param.name or '').upper()}"
    for name, inner in getattr(command, "commands", {}).items():
        yield from file_params(inner, f"{path} {name}")


def test_every_option_that_names_a_file_is_known_to_read_or_to_write_it() -> None:
    context = click.Context(cli)
    found = [cli.get_command(context, name) for name in COMMANDS]
    params = {one for command in found if command for one in file_params(command, command.name or "")}
    assert params == TAKES | set(WRITES)


@pytest.mark.parametrize("typed", WRITES.values(), ids=WRITES)
def test_an_agent_writes_no_file_through_a_command(acting: Acting, tmp_path: Path, typed: tuple[str, ...]) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    result = acting.inside("nightly", *(word.format(file=precious) for word in typed))
    assert refused(result), result.output
    assert f"`rota {' '.join(word for word in typed if '{' not in word)}` is not allowed for agents" in result.stderr
    assert precious.read_text() == "mine"


def test_in_a_worktree_the_project_is_that_of_the_run(acting: Acting, tmp_path: Path) -> None:
    worktree = tmp_path / "worktree"
    worktree.mkdir()
    (worktree / "rota.yaml").write_text(FILE)
    acting.inside("nightly", "list")
    run_id = acting.project.json("show", "nightly:1")["id"]
    environ = {
        "ROTA_RUN_ID": run_id,
        "ROTA_PROJECT_DIR": str(acting.project.folder),
        "ROTA_WORKSPACE": str(worktree),
    }
    typed = Project(worktree, acting.project.clock)
    assert "nightly" in typed.rota("list", environ=environ).stdout
    assert refused(typed.rota("apply", environ=environ))
    assert not (worktree / ".rota").exists()


def test_inside_a_run_the_state_is_that_of_its_scheduler(acting: Acting, tmp_path: Path) -> None:
    """R-27: a scheduler may have been started with ROTA_STATE."""
    elsewhere = tmp_path / "elsewhere"
    acting.inside("nightly", "list")
    run_id = acting.project.json("show", "nightly:1")["id"]
    acting.project.state.rename(elsewhere)
    folder = str(acting.project.folder)
    environ = {
        "ROTA_RUN_ID": run_id,
        "ROTA_PROJECT_DIR": folder,
        "ROTA_SCHEDULER_DIR": folder,
        "ROTA_STATE_DIR": str(elsewhere),
    }
    nowhere, other = tmp_path / "nowhere", tmp_path / "other"
    for where in (nowhere, other):
        where.mkdir()
    (other / "rota.yaml").write_text("jobs: {own: {shell: 'true'}}\n")
    for place in (acting.project, Project(nowhere, acting.project.clock)):
        assert refused(place.rota("pause", "plain", environ=environ))
    assert rightless(Project(other, acting.project.clock).rota("apply", environ=environ))
    assert not (other / ".rota").exists()
    assert not acting.project.state.exists()
