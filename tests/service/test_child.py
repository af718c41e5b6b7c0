"""A Python function in a process of its own, also in an interpreter that has no rota (section 7 of the design)."""

import ast
import asyncio
import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.model.budgets import Usage
from rota.model.ids import IdSource
from rota.model.spec import Condition, EnvValue, Isolate, Kind, Work
from rota.model.states import Reason, Status, Trigger
from rota.runners.command import CHILD, CommandRunner, InterpreterFinder, prepare, prepare_check
from rota.runners.environment import RunFacts, RunSurroundings
from rota.runners.spawn_client import Spawner

NOW = datetime(2026, 11, 15, 20, 41, 7, tzinfo=UTC)
MODULE = """
import asyncio, os, signal, sys
import secrets
secrets.token_hex(2)
import rota
print("imported")

@rota.job
def hello(ctx: rota.JobContext):
    ctx.state["count"] = ctx.state.get("count", 0) + 1
    ctx.log.info("working on", ctx.params["x"])
    return f"hello {ctx.run.handle} {ctx.run.scheduled_for.isoformat()} {ctx.run.timezone} {ctx.cancelled}"

@rota.agent("helper", max_turns=True)
async def helper(task: rota.AgentTask) -> rota.AgentResult: ...

@rota.job("greet")
async def greeting(ctx):
    await asyncio.sleep(0)
    return {"a": 1}

@rota.job()
def broken():
    raise ValueError("no such user")

@rota.job
def unlocks():
    raise KeyError(os.environ["TOKEN"])

@rota.job
def leaves(ctx): sys.exit(3)

@rota.job
def bad_state(ctx): ctx.state["x"] = {1}

@rota.job
def shares(ctx):
    ctx.scheduler_state["seen"].append(2)
    ctx.scheduler_state["new"] = 1
    del ctx.scheduler_state["old"]

@rota.job
def asks(ctx): ctx.sdk.trigger("other")

@rota.job
def patient(ctx):
    open(ctx.params["ready"], "w").close()
    while not ctx.cancelled: signal.pause()
    print("tidied")

@rota.job
async def patient_async(ctx):
    open(ctx.params["ready"], "w").close()
    try:
        await asyncio.sleep(60)
    finally:
        print("tidied")

@rota.job
def thirsty(ctx):
    ctx.add_usage(tokens_in=100, model="sonnet")
    ctx.add_usage(tokens_in=10, usd=0.25, requests=None)
    try:
        ctx.http
    except RuntimeError as error:
        raise rota.BudgetExceeded if "isolate" not in str(error) else ValueError(str(error))

@rota.job
def sober(ctx): ctx.add_usage(requests=2)

@rota.condition
def yes(ctx): return True
@rota.condition("no")
async def refuse(ctx): return False
@rota.condition
def odd(): return 3
@rota.condition
def raising(ctx): raise RuntimeError("gone")

def plain(ctx): return "plain"
"""


DEAF = """
import signal, rota
@rota.job
def deaf(ctx):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    open(ctx.params["ready"], "w").close()
    while True: pass
"""


GATES = """
from rota import condition as register_condition, job as register_job
@register_condition("has_work", needs_poll=True)
def has_work(ctx): return ctx.poll_data["n"] > 0
@register_condition("open")
def is_open(ctx): return True
@register_job("greet")
def greet(ctx):
    ctx.log(f"the poll says {ctx.poll_data['n']}")
    return str(ctx.poll_data["n"])
"""


@pytest.fixture(params=["with rota", "without rota"])
def python(request, tmp_path):
    """An interpreter that has rota, and one that has not."""
    if request.param == "with rota":
        pytest.importorskip("rota.declare.registry")
        return sys.executable
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o700)
    return str(bare)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "chores.py").write_text(MODULE)
    return tmp_path


class Project:
    def __init__(self, folder, python):
        state = folder / ".rota"
        self.facts = RunFacts(
            run_id=IdSource().new(NOW), handle="a:3", job="a", number=3, attempt=1, trigger=Trigger.MANUAL,
            scheduled_for=NOW, timezone="Europe/Paris", params={"x": 5, "ready": str(folder / "ready")},
            state={"count": 1}, scheduler_state={"seen": [1], "old": 1, "same": 5},
        )  # fmt: skip
        self.runner = CommandRunner(Spawner(), state)
        self.around = RunSurroundings(
            project=folder,
            state=state,
            folder=self.runner.folder(self.facts.run_id),
            environ=os.environ,
            imports=("chores",),
        )
        self.work = Work(kind=Kind.FUNCTION, isolate=Isolate.PROCESS, python=python, term_grace=timedelta(hours=1))

    async def outcome(self, name, *, stop_when=None):
        launch = prepare(replace(self.work, function=name), self.facts, self.around)
        spawned = await self.runner.launch(launch, self.around.folder)
        spawned.open()
        if stop_when is not None:
            while not stop_when.exists():
                await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.01)
            self.runner.stop(spawned.identity)
        outcome = await self.runner.outcome(self.around.folder, spawned.identity)
        self.runner._spawner.stop()
        return outcome

    async def check(self, name):
        launch = prepare_check(Condition(name=name), self.work, run=self.facts, surroundings=self.around)
        result = await self.runner.check(launch, self.around.folder)
        self.runner._spawner.stop()
        return result


def run(project, python, name, **options):
    return asyncio.run(Project(project, python).outcome(name, **options))


def test_a_function_gets_its_context_and_gives_summary_and_state(project, python):
    there = Project(project, python)

    outcome = asyncio.run(there.outcome("hello"))

    assert (outcome.status, outcome.state) == (Status.COMPLETED, {"count": 2})
    assert outcome.summary == "hello a:3 2026-11-15T20:41:07+00:00 Europe/Paris False"
    written = (there.around.folder / "output.0").read_text()
    assert written.startswith("imported\n")
    assert written.endswith("Z info working on 5\n")


def test_an_async_function_runs_and_other_values_are_shown(project, python):
    outcome = run(project, python, "greet")

    assert (outcome.summary, outcome.state) == ("{'a': 1}", None)


def test_the_changed_keys_of_the_scheduler_state_are_told(project, python):
    """Document 000: `ctx.scheduler_state`."""
    outcome = run(project, python, "shares")

    assert outcome.scheduler_state == {"seen": [1, 2], "new": 1, "old": None}


def test_the_operations_are_inside_the_scheduler_alone(project, python):
    assert "ctx.sdk is available only to functions inside" in run(project, python, "asks").error


def test_an_unregistered_function_is_found_by_module_and_name(project, python):
    assert run(project, python, "chores:plain").summary == "plain"


def test_an_exception_is_told_as_inside_the_scheduler(project, python):
    there = Project(project, python)

    outcome = asyncio.run(there.outcome("broken"))

    line = MODULE.splitlines().index('    raise ValueError("no such user")') + 1
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.EXCEPTION)
    assert outcome.error == f"ValueError: no such user ({project}/chores.py:{line})"
    assert "Traceback" in (there.around.folder / "output.0").read_text()


def test_r27_an_exception_shows_no_secret_and_its_file_is_private(project, python, monkeypatch):
    monkeypatch.setenv("CHILD_TOKEN", 'to"ken\\4711')
    before = os.umask(0)
    there = Project(project, python)
    there.work = replace(there.work, env=(EnvValue(name="TOKEN", secret="CHILD_TOKEN"),))

    try:
        outcome = asyncio.run(there.outcome("unlocks"))
    finally:
        os.umask(before)

    told = there.around.folder / "function.json"
    assert outcome.error.startswith("KeyError: '***'")
    assert json.loads(told.read_text())["error"] == outcome.error
    assert stat.S_IMODE(told.stat().st_mode) == 0o600
    assert "ken" not in (there.around.folder / "output.0").read_text().replace("TOKEN", "")


def test_an_exit_inside_a_function_is_an_exception(project, python):
    outcome = run(project, python, "leaves")

    assert (outcome.reason, outcome.exit_code) == (Reason.EXCEPTION, 1)
    assert outcome.error.startswith("SystemExit: 3")


def test_r19_a_function_tells_what_it_used(project, python):
    assert run(project, python, "sober").usage == Usage(requests=2)


def test_r19_what_a_failed_function_used_is_told_and_there_is_no_client_to_count(project, python):
    outcome = run(project, python, "thirsty")

    assert outcome.usage == Usage(tokens_in=110, usd=250_000, model="sonnet")
    assert "ValueError: ctx.http is available only to functions inside the scheduler" in outcome.error


def test_a_state_that_is_not_json_fails_the_run(project, python):
    outcome = run(project, python, "bad_state")

    assert outcome.reason is Reason.RESULT_INVALID
    assert "set is not JSON" in outcome.error


@pytest.mark.parametrize("name", ["patient", "patient_async"])
def test_a_stop_lets_a_function_tidy_up(name, project, python):
    there = Project(project, python)

    outcome = asyncio.run(there.outcome(name, stop_when=project / "ready"))

    assert outcome.reason is Reason.SHUTDOWN
    assert "tidied" in (there.around.folder / "output.0").read_text()


@pytest.mark.parametrize(("name", "code"), [("yes", 0), ("no", 10), ("odd", 1), ("raising", 1)])
def test_r09_a_condition_answers_by_its_exit_code(name, code, project, python):
    assert asyncio.run(Project(project, python).check(name)).exit_code == code


def test_another_interpreter_tells_what_is_missing(project, python):
    finder = InterpreterFinder(python, project, imports=("chores", "absent_module"))

    missing = finder.find(["hello", "helo", "chores:plain", "chores:plane", "nowhere:x"], ["yes", "maybe"]).missing

    assert set(missing) == {"absent_module", "helo", "chores:plane", "nowhere:x", "maybe"}
    assert missing["helo"] == 'nothing is registered as "helo"; did you mean "hello"?'
    assert missing["chores:plane"] == '"chores" has no function "plane"'
    assert "No module named 'absent_module'" in missing["absent_module"]


def test_r16_another_interpreter_tells_which_conditions_look_at_the_poll(project, python):
    (project / "gates.py").write_text(GATES)

    found = InterpreterFinder(python, project, imports=("gates",)).find(["greet"], ["has_work", "open"])

    assert (found.missing, found.conditions, found.needing_poll) == ({}, {"has_work", "open"}, {"has_work"})


def test_r16_a_function_and_a_condition_get_what_the_poll_brought(project, python):
    (project / "chores.py").write_text(GATES)
    there = Project(project, python)
    there.facts = replace(there.facts, poll_data={"n": 7})

    assert asyncio.run(there.check("has_work")).exit_code == 0
    outcome = asyncio.run(there.outcome("greet"))

    assert (outcome.status, outcome.summary) == (Status.COMPLETED, "7")
    assert (there.around.folder / "output.0").read_text().endswith(" the poll says 7\n")


def test_an_interpreter_that_is_not_there_is_named(project):
    missing = InterpreterFinder(".venv/bin/python", project).find(["hello"], []).missing

    assert missing["hello"] == f"'{project}/.venv/bin/python' cannot be started: no such file or directory"


def test_an_interpreter_that_hangs_is_given_up(project):
    (project / "slow.py").write_text("import signal; signal.pause()")

    missing = InterpreterFinder(sys.executable, project, imports=("slow",), timeout=0.5).find(["x"], ["y"]).missing

    assert "did not answer within 0.5 s" in missing["x"]
    assert set(missing) == {"x", "y"}


def test_an_interpreter_that_fails_is_quoted(project):
    bad = project / "bad"
    bad.write_text("#!/bin/sh\necho '\033[31mbroken install\033[0m' >&2; exit 4\n")
    bad.chmod(0o700)

    missing = InterpreterFinder("./bad", project).find(["x"], []).missing

    assert missing["x"].endswith("ended with exit 4: broken install")


def test_the_child_is_written_for_old_interpreters():
    ast.parse(Path(CHILD).read_text(), feature_version=(3, 8))


def test_the_child_does_not_shadow_the_standard_library(tmp_path):
    asked = json.dumps(
        {"imports": ["secrets"], "functions": ["secrets:token_hex"], "conditions": [], "path": str(tmp_path)}
    )

    done = subprocess.run([sys.executable, CHILD, "resolve"], input=asked, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout)["missing"] == {}


def test_a_function_in_a_process_can_be_killed(project, python):
    (project / "chores.py").write_text(DEAF)
    there = Project(project, python)
    there.work = replace(there.work, term_grace=timedelta(milliseconds=100))

    outcome = asyncio.run(there.outcome("deaf", stop_when=project / "ready"))

    assert outcome.reason is Reason.SHUTDOWN
