"""Document 000 and its migrated example: every job runs, on the poll of a server on this machine."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from rota.declare.registry import default
from rota.declare.sections import POLL
from rota.engine.transactions.poll import scheduler_state
from rota.model.errors import FileProblems
from rota.model.spec import Draw, Kind
from rota.model.states import Status, WaitingFor
from rota.operations.activity import touch
from rota.operations.project.apply import apply
from rota.operations.project.load import Loaded, load_project
from rota.runners.output import folder_of
from rota.store.tables import budgets
from rota.testing.scene import Scene
from tests.engine.conftest import NOON
from tests.engine.real_work import pass_time, play
from tests.engine.spending import used
from tests.engine.test_pools import drawing, put
from tests.jobs_file import DOCUMENT
from tests.stub_server import StubServer, reply_json, serving

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[2] / "examples" / "octopoid"
NAMES = (
    "check_finished_agents",
    "register_orchestrator",
    "requeue_expired_leases",
    "process_hooks",
    "check_project_completion",
    "queue_health",
    "agent_evaluation",
    "sweep_stale_worktrees",
    "cleanup_merged_branches",
)
REMOTE = NAMES[1:7]
AGENT = "review_stale_prs"
"""The job of an agent; its program is scripted here, and real in tests/service."""
ANSWER = {
    "queue_counts": {"incoming": 4, "claimed": 2, "provisional": 1, "done": 50, "failed": 3},
    "claimable": True,
    "provisional_tasks": [{"id": "TASK-abc", "hooks": ["test", "merge"], "pr_number": 87}],
    "orchestrator_registered": True,
    "leases": [
        {"task": "TASK-old", "expires_at": "2026-11-15T11:00:00+00:00"},
        {"task": "TASK-new", "expires_at": "2026-11-15T13:00:00+00:00"},
    ],
}
SAID = {
    "check_finished_agents": "gone has finished",
    "register_orchestrator": "the server knows us",
    "requeue_expired_leases": "the lease of TASK-old ended at 2026-11-15T11:00:00+00:00",
    "process_hooks": "TASK-abc has 2 hooks to run",
    "check_project_completion": "7 tasks are left",
    "queue_health": "info 3 of 53 tasks failed",
    "agent_evaluation": "0 agents for 4 tasks",
    "sweep_stale_worktrees": "left-over was empty",
    "cleanup_merged_branches": "0 branches are merged",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(reply_json(ANSWER)) as found:
        yield found


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """The example's folder, with an agent that has ended and a worktree that nobody uses; its modules are new."""
    folder = tmp_path / "octopoid"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".rota", "__pycache__"))
    agents = folder / ".octopoid" / "agents"
    agents.mkdir(parents=True)
    (agents / "gone.pid").write_text("none")
    (folder / ".octopoid" / "worktrees" / "left-over").mkdir(parents=True)
    known = (dict(default.functions), dict(default.conditions), set(default.needing_poll), list(sys.path))
    yield folder
    default.functions, default.conditions, default.needing_poll, sys.path[:] = known
    for name in [name for name in sys.modules if name.partition(".")[0] == "orchestrator"]:
        del sys.modules[name]


def load(project: Path, text: str) -> Loaded:
    (project / "rota.yaml").write_text(text)
    return load_project(project, {"TZ": "UTC"}, now=NOON, acts=True)


def example(server: StubServer) -> str:
    """Return the example's file, its server's address replaced by that of the test's."""
    text = (EXAMPLE / "rota.yaml").read_text()
    replaced, times = re.subn(r"https://octo\.example(?=/api)", server.url, text)
    assert times == 1
    return replaced


def document(server: StubServer) -> str:
    """Return the document's file, below the poll that it lacks."""
    return f"poll: {{url: '{server.url}/api/v1/scheduler/poll', interval: 60}}\n{DOCUMENT}"


async def begin(scene: Scene, loaded: Loaded) -> None:
    scene.table.functions, scene.table.conditions = loaded.table.functions, loaded.table.conditions
    touch(scene.store, now=scene.clock.now())
    apply(scene.store, loaded.declared, now=scene.clock.now())
    await play(scene)


def output(scene: Scene, name: str, index: int = 0) -> str:
    run = scene.history(name)[index]
    return (folder_of(scene.settings.state, run.id) / "output.0").read_text()


def work_on(project: Path, name: str) -> Path:
    """Leave the pid file of an agent that lives: this process."""
    file = project / ".octopoid" / "agents" / f"{name}.pid"
    file.write_text(str(os.getpid()))
    return file


@pytest.mark.parametrize("file", [example, document])
async def test_every_job_runs(file, scene: Scene, project: Path, server: StubServer) -> None:
    """R-16: one request for six remote jobs; each says what it found in its data, local ones run without."""
    await begin(scene, load(project, file(server)))
    assert {name: scene.told(name) for name in NAMES} == {name: [("COMPLETED", None)] for name in NAMES}
    assert {name: SAID[name] in output(scene, name) for name in NAMES} == dict.fromkeys(NAMES, True)
    assert [path for path, _ in server.asked] == ["/api/v1/scheduler/poll"]
    assert scene.told(AGENT) == [("COMPLETED", None)]
    assert scene.processes.begun == [f"{AGENT}:1"]
    polled = {name for name in (*NAMES, AGENT) if "poll" in scene.history(name)[0].decisions}
    assert polled == {*REMOTE, AGENT}
    assert scene.store.read(scheduler_state) == {"registered": True}


async def test_the_agent_waits_while_there_is_nothing_to_review(
    scene: Scene, project: Path, server: StubServer
) -> None:
    """R-09: `has_open_prs` looks at the poll's data; an interval job waits and looks again."""
    server.reply = reply_json({**ANSWER, "queue_counts": {"provisional": 0}})
    await begin(scene, load(project, document(server)))
    assert scene.history(AGENT)[0].waiting_for is WaitingFor.CONDITION
    server.reply = reply_json(ANSWER)
    await pass_time(scene, timedelta(minutes=3))
    assert scene.told(AGENT) == [("COMPLETED", None)]


async def test_the_whole_document_loads(project: Path, server: StubServer) -> None:
    """R-16: the agent's job names no group, and needs the poll by its condition."""
    jobs = {spec.name: spec for spec in load(project, document(server)).declared.jobs}
    assert set(jobs) == {POLL, *NAMES, AGENT}
    agent = jobs[AGENT]
    assert (agent.work.kind, agent.schedule.interval) == (Kind.AGENT, timedelta(hours=2))
    assert agent.gates.needs_poll


async def test_the_document_alone_lacks_a_poll_and_says_who_needs_it(project: Path) -> None:
    """R-16: without a `poll:` section it is a load error."""
    with pytest.raises(FileProblems) as caught:
        load(project, DOCUMENT)
    assert [(problem.path, problem.code) for problem in caught.value.problems] == [
        *((f"jobs.{name}.group", "no_poll") for name in REMOTE),
        (f"jobs.{AGENT}.conditions[0]", "no_poll"),
    ]


async def test_local_jobs_run_without_the_server(scene: Scene, project: Path, server: StubServer) -> None:
    """R-16: local jobs never wait for it; the remote ones say why they were skipped."""
    server.reply = reply_json({}, status=503)
    await begin(scene, load(project, example(server)))
    local = [name for name in NAMES if name not in REMOTE]
    assert {name: scene.told(name) for name in local} == {name: [("COMPLETED", None)] for name in local}
    assert {name: scene.told(name) for name in REMOTE} == {name: [("SKIPPED", "poll_failed")] for name in REMOTE}
    assert "503 Service Unavailable" in (scene.history("process_hooks")[0].error or "")


async def test_the_sweep_waits_for_the_agents_of_the_project(scene: Scene, project: Path, server: StubServer) -> None:
    """R-09: the project's own condition replaces the built-in one; an interval job waits and looks again."""
    working = work_on(project, "busy")
    await begin(scene, load(project, example(server)))
    (run,) = scene.history("sweep_stale_worktrees")
    assert (run.status, run.waiting_for) == (Status.QUEUED, WaitingFor.CONDITION)
    assert "still at work: busy" in output(scene, "sweep_stale_worktrees")
    working.unlink()
    await pass_time(scene, timedelta(minutes=1))
    (run,) = scene.history("sweep_stale_worktrees")
    assert (run.status, run.result_summary) == (Status.COMPLETED, "1 removed")


async def test_the_sweep_waits_for_what_draws_on_the_agents_pool(
    scene: Scene, project: Path, server: StubServer
) -> None:
    """R-09: the built-in condition, where the project registers none."""
    loaded = load(project, document(server))
    scene.table.functions = loaded.table.functions
    claude = drawing("claude", Draw("agents"), takes=timedelta(seconds=90), scene=scene)
    put(scene, claude, agents=2)
    scene.trigger("claude")
    await scene.settle()
    put(scene, claude, *(spec for spec in loaded.declared.jobs if spec.name == "sweep_stale_worktrees"), agents=2)
    await scene.settle()
    assert scene.history("sweep_stale_worktrees")[0].waiting_for is WaitingFor.CONDITION
    await scene.advance("2m")
    await play(scene)
    assert scene.told("sweep_stale_worktrees") == [("COMPLETED", None)]


async def test_a_new_answer_reaches_the_next_runs(scene: Scene, project: Path, server: StubServer) -> None:
    """R-16: the data of the newest poll; R-18: every 15 s while something goes on."""
    await begin(scene, load(project, example(server)))
    server.reply = reply_json({**ANSWER, "queue_counts": {"done": 57, "failed": 3}})
    await pass_time(scene, timedelta(minutes=1))
    assert [run.result_summary for run in scene.history("check_project_completion")] == ["not complete", "complete"]
    assert f"nothing has been left since {datetime.isoformat(NOON + timedelta(minutes=1))}" in output(
        scene, "check_project_completion", 1
    )
    assert len(server.asked) == 5


async def test_each_poll_is_charged_to_its_account(scene: Scene, project: Path, server: StubServer) -> None:
    """R-19: `poll: {budget: …}`, one request each."""
    await begin(scene, load(project, example(server)))
    await pass_time(scene, timedelta(seconds=30))
    (found,) = scene.store.read(budgets.accounts)
    assert (found.account.name, found.account.limit) == ("worker-requests", 10_000)
    assert (used(scene, found.account), len(server.asked)) == ((3, 0), 3)
