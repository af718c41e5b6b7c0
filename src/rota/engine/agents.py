"""Agents as processes: a claimed run becomes a task and its invocation, what the process left becomes an outcome."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rota.agents.registry import adapter
from rota.engine.claim import Claimed
from rota.model.agents import Access, AgentTask, Ended
from rota.model.errors import SpawnFailed
from rota.model.records import Outcome
from rota.model.spec import AgentWork, OutputPolicy
from rota.model.states import Reason
from rota.rules.agent_outcome import agent_outcome
from rota.rules.envelope import envelope, with_envelope
from rota.rules.placeholders import fill
from rota.rules.prompts import build_prompt
from rota.runners.environment import RunFacts, Surroundings, placeholder_values
from rota.runners.keeper import ERRORS
from rota.runners.launch import folder_of, prepare_program
from rota.runners.output import forget_output, read_all
from rota.runners.spawning import Launch

TASK = "agent.json"
"""What the reading of an agent's output needs of its task: whoever adopts the run finds it in the run's folder."""
STDIN = "stdin"
PROMPT_LIMIT = 1_000_000
STOPPED = (Reason.TIMED_OUT, Reason.SHUTDOWN)


def prepare_agent(claimed: Claimed, run: RunFacts, surroundings: Surroundings) -> Launch:
    """Return the process of an agent's run, or raise SecretMissing or SpawnFailed; nothing is started or written."""
    work = claimed.spec.work.agent
    assert work is not None, "only agents come here"
    task = _task(work, claimed, run, surroundings)
    kind = adapter(work.adapter, work.options)
    if kind.invoke is None:
        raise SpawnFailed(f"the agent {work.agent} runs inside the scheduler", hint="it has no process of its own")
    invocation = kind.invoke(task)
    launch = prepare_program(
        invocation.argv, claimed.spec.work, run=run, surroundings=surroundings, further=invocation.env
    )
    files = {**launch.files, **invocation.files, TASK: _write_task(work, task, claimed.spec.work.output)}
    if invocation.stdin is not None:
        files[STDIN] = invocation.stdin
    return replace(
        launch,
        files=files,
        stdin=str(surroundings.folder / STDIN) if invocation.stdin is not None else None,
        errors_apart=True,
        # What the agent said is read from its output; where none is to be kept it goes once it was read.
        output=OutputPolicy.FULL,
    )


def _task(work: AgentWork, claimed: Claimed, run: RunFacts, surroundings: Surroundings) -> AgentTask:
    return AgentTask(
        prompt=with_envelope(_envelope(claimed), build_prompt(prompt_of(work, run, surroundings.project))),
        model=work.model,
        access=work.access,
        max_turns=work.max_turns,
        max_usd=work.max_usd,
        allowed_tools=work.allowed_tools,
        folder=str(surroundings.folder),
        cwd=folder_of(claimed.spec.work, run, surroundings),
        run_id=run.run_id,
        job=run.job,
        params=run.params,
        options=work.options,
    )


def _envelope(claimed: Claimed) -> str:
    run = claimed.run
    return envelope(
        trigger=run.trigger.value,
        job_id=run.job_id,
        run_id=run.id,
        scheduled_for=run.nominal,
        attempt=run.attempt,
    )


def prompt_of(work: AgentWork, run: RunFacts, project: Path) -> str:
    """Return the task's own text, from the file or the job, its placeholders filled."""
    text = work.prompt
    if work.prompt_file:
        path = project / fill(work.prompt_file, placeholder_values(run))
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SpawnFailed(f"the prompt file {path} cannot be read: {error}", hint="make it a UTF-8 text") from error
    if len(text) > PROMPT_LIMIT:
        raise SpawnFailed(f"the prompt has {len(text):,} characters", hint=f"{PROMPT_LIMIT:,} are allowed")
    return fill(text, placeholder_values(run))


def _write_task(work: AgentWork, task: AgentTask, output: OutputPolicy) -> str:
    told = {
        "adapter": work.adapter,
        "options": dict(work.options),
        "model": task.model,
        "access": task.access.value,
        "max_turns": task.max_turns,
        "max_usd": task.max_usd,
        "allowed_tools": list(task.allowed_tools),
        "cwd": task.cwd,
        "job": task.job,
        "run_id": task.run_id,
        "output": output.value,
    }
    return json.dumps(told)


def is_agent(folder: Path) -> bool:
    """Tell whether a run's folder is that of an agent."""
    return (folder / TASK).exists()


def read_agent(folder: Path, ended: Outcome) -> Outcome:
    """Return the outcome of a run as its agent tells it; that of any other command as it is."""
    told = _read_task(folder)
    if told is None:
        return ended
    kind = adapter(told["adapter"], told["options"])
    if kind.read is None:
        return ended
    process = Ended(
        exit_code=ended.exit_code,
        stdout=read_all(folder).decode("utf-8", "replace"),
        stderr=read_all(folder / ERRORS).decode("utf-8", "replace"),
        stopped=ended.reason in STOPPED,
        ended_at=None if ended.finished_at is None else ended.finished_at.astimezone(),
    )
    outcome = agent_outcome(ended, kind.read(process, _task_read(told)))
    if told["output"] == OutputPolicy.NONE:
        forget_output(folder)
    return outcome


def _read_task(folder: Path) -> Mapping[str, Any] | None:
    try:
        told: Any = json.loads((folder / TASK).read_bytes())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) and "adapter" in told else None


def _task_read(told: Mapping[str, Any]) -> AgentTask:
    return AgentTask(
        prompt="",
        model=told["model"],
        access=Access(told["access"]),
        max_turns=told["max_turns"],
        max_usd=told["max_usd"],
        allowed_tools=tuple(told["allowed_tools"]),
        cwd=told["cwd"],
        run_id=told["run_id"],
        job=told["job"],
        options=told["options"],
    )
