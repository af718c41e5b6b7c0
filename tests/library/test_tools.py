"""`rota.tools`: the tools for a program's own agents, of its scheduler or of a project on disk."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.model.errors import JobProblems, PolicyRefused, RunUnknown, ToolsRefused, UnknownRun
from tests.faces.conftest import Project
from tests.library.conftest import LONG, Held
from tests.library.test_agents import agent
from tests.template import lay_database
from tests.waiting import until


def tool(found: list[rota.Tool], name: str) -> rota.Tool:
    return next(one for one in found if one.name == name)


@pytest.fixture
def fleet(store: Path) -> rota.Scheduler:
    agents: dict[str, Any] = {"writer": agent()}
    policy = {"max_active": 2}
    return rota.Scheduler(store, folder=store.parents[1], agents=agents, agent_policy=policy, allow_empty=True)


def test_a_framework_makes_jobs_for_its_users_within_the_policy(fleet: rota.Scheduler) -> None:
    with fleet:
        mine, theirs = rota.tools(fleet, made_by="user-42"), rota.tools(fleet, made_by="user-7")
        answer = tool(mine, "schedule_job").call(name="digest", task="Summarise.", schedule="0 18 * * *")
        assert (answer["result"], answer["job"]["made_by"]) == ("created", "user-42")
        assert fleet.next_fires("digest", 1)[0].hour == 18
        assert tool(theirs, "list_jobs").call({"mine": True})["jobs"] == []
        with pytest.raises(rota.RotaError, match="was created by user-42"):
            tool(theirs, "unschedule_job").call(name="digest")
        with pytest.raises(PolicyRefused, match="the minimum is 5 min"):
            tool(mine, "schedule_job").call(name="fast", task="x", interval_seconds=60)


async def test_tools_are_called_on_the_event_loop_without_blocking_it(fleet: rota.Scheduler) -> None:
    async with fleet:
        found = rota.tools(fleet, made_by="user-42")
        made = await tool(found, "schedule_job").call_async(name="a", task="look", interval_seconds=600)
        born = await tool(found, "trigger_job").call_async({"name": "a"})
        run = await fleet.wait(born["run_id"], timeout=LONG)
        told = await tool(found, "get_run").call_async(run=born["run"])
    assert made["result"] == "created"
    assert (str(run.status), told["status"]) == ("COMPLETED", "COMPLETED")
    assert told["summary"]["data"] == "did it"


def test_on_disk_inside_a_run_the_tools_are_bound_by_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One policy for every door: the environment says who acts, not the program."""
    inside = Project(tmp_path).applied(
        "agents: {claude: {max_concurrent: 2}}\n"
        "jobs: {plain: {prompt: look, agent: claude}, armed: {prompt: see, agent: claude, rota_tools: true}}\n"
    )
    for job in ("plain", "armed"):
        inside.ok("trigger", job)
    inside.begin()
    listing, making = (tool(rota.tools(tmp_path), name) for name in ("list_jobs", "schedule_job"))
    monkeypatch.setenv("ROTA_RUN_ID", "nonsense")
    with pytest.raises(RunUnknown):
        listing.call()
    monkeypatch.setenv("ROTA_RUN_ID", inside.json("show", "plain:1")["id"])
    with pytest.raises(ToolsRefused):
        listing.call()
    monkeypatch.setenv("ROTA_RUN_ID", inside.json("show", "armed:1")["id"])
    made = making.call(name="digest", task="Summarise.", schedule="0 18 * * *")
    assert made["job"]["made_by"] == "agent:claude"


def test_what_was_made_outlives_the_code_that_made_it(store: Path, fleet: rota.Scheduler) -> None:
    with fleet:
        tool(rota.tools(fleet), "schedule_job").call(name="digest", task="Summarise.", schedule="0 18 * * *")
    again = rota.Scheduler(store, folder=store.parents[1], allow_empty=True)
    with again:
        assert again.status().of("digest").state == "idle"
        assert again.next_fires("digest", 1)


def test_a_job_of_the_code_is_not_touched(fleet: rota.Scheduler) -> None:
    fleet.add_job("own", agent="writer", prompt="mine", cron="0 1 * * *")
    with fleet, pytest.raises(rota.RotaError, match="was not created with the tools"):
        tool(rota.tools(fleet), "schedule_job").call(name="own", task="theirs", schedule="0 18 * * *")


def test_the_tools_of_a_run_carry_its_name(fleet: rota.Scheduler, held: Held) -> None:
    fleet.add_job("outer", run=held)
    with fleet:
        run_id = fleet.sync.trigger("outer").run_id
        held.enter()
        found = rota.tools(fleet, made_by="user-42", run=run_id)
        tool(found, "schedule_job").call(name="inner", task="look", schedule="0 18 * * *")
        made = fleet.operate(lambda store: store.read(lambda db: db.records("job_by_name", name="inner")[0]))
        assert (made["made_by"], made["made_by_run"], made["depth"]) == ("user-42", run_id, 1)
        held.go_on.set()
        until(lambda: fleet.running_count("outer") == 0, what="the outer run to end")
        with pytest.raises(UnknownRun):
            tool(found, "list_jobs").call()


def test_an_agent_of_the_code_cannot_be_served_tools_by_a_file_that_is_not_there(store: Path) -> None:
    scheduler = rota.Scheduler(store, agents={"claude": {"rota_tools": True}})
    with pytest.raises(JobProblems, match="tools to agents of a project with a rota.yaml".replace(".", "[.]")):
        scheduler.add_job("x", agent="claude", prompt="y")


def test_the_same_tools_for_a_project_on_disk(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text('jobs: {backup: {cron: "0 2 * * *", command: "true"}}\n')
    found = rota.tools(tmp_path, made_by="user-42")
    with pytest.raises(rota.RotaError, match="rota apply"):
        tool(found, "list_jobs").call()
    (tmp_path / ".rota").mkdir(0o700)
    lay_database(tmp_path / ".rota")
    answer = tool(found, "schedule_job").call(name="digest", task="Summarise.", schedule="0 18 * * *")
    assert answer["job"]["yours"]
    assert [job["name"] for job in asyncio.run(tool(found, "list_jobs").call_async())["jobs"]] == ["digest"]


def test_rota_alone_does_not_load_the_tools() -> None:
    script = "import sys, rota; assert 'rota.operations.tools.toolbox' not in sys.modules and 'mcp' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
