"""Execution of agents, and the tools server that they use."""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rota.agents.adapter import Adapter, option_words
from rota.agents.registry import adapter
from rota.declare.include import files_of, sources_of
from rota.engine.transactions.claim import Claimed
from rota.model.agents import PERMISSIONS, Access, AgentResult, AgentTask, Brief, ProcessEnd
from rota.model.errors import SpawnFailed
from rota.model.records import ERROR_LIMIT, Outcome, cut
from rota.model.spec import PROMPT_LIMIT, AfterStep, AgentChoice, AgentWork, OutputPolicy, SessionMode, StepFolder, Work
from rota.model.states import Reason, Status
from rota.rules.agents import agent_outcome
from rota.rules.prompts import (
    CONTINUATION,
    ITEM_NOTE,
    RESULT_NOTE,
    answers_text,
    build_prompt,
    carried_text,
    envelope,
    fill,
    names_item,
    result_jobs,
    with_carried,
    with_envelope,
)
from rota.runners import agent_step
from rota.runners.command import check_on_path, prepare_program, working_folder
from rota.runners.environment import RunFacts, RunSurroundings, placeholder_values, redactor
from rota.runners.keeper import ERRORS
from rota.runners.output import forget_output, last_line, read_all
from rota.runners.sandbox import FurtherPaths
from rota.runners.spawn_client import Launch
from rota.settings import FILE_NAME, account_folder, home_of
from rota.sources.items import write_item

ENV = "/usr/bin/env"


def tools_server(run: RunFacts, surroundings: RunSurroundings) -> tuple[str, ...]:
    """Return the command of a run's own tools. Some agents give their servers no environment, so it is said here."""
    told = (f"ROTA_RUN_ID={run.run_id}", f"ROTA_STATE={surroundings.state}")
    # Without -P a folder named `rota` in the project would be taken for this package.
    rota = (sys.executable, "-P", "-m", "rota", "mcp", "--dir", str(surroundings.root or surroundings.project))
    return (shutil.which("env") or ENV, *told, *rota)


STDIN = "stdin"
ITEM = "item.json"
STOPPED = (Reason.TIMED_OUT, Reason.IDLE, Reason.LOOPING, Reason.AGENT_ERROR, Reason.SHUTDOWN)


def prepare_agent(claimed: Claimed, run: RunFacts, surroundings: RunSurroundings) -> Launch:
    """Return the process of an agent's run, or raise SecretMissing or SpawnFailed; nothing is started or written."""
    work = claimed.spec.work.agent
    assert work is not None, "only agents come here"
    launch = agent_launch(claimed, run, surroundings)
    if work.after is None and launch.postcondition is None:
        return launch
    return _with_step(launch, work.after, work=claimed.spec.work, run=run, surroundings=surroundings)


def agent_launch(claimed: Claimed, run: RunFacts, surroundings: RunSurroundings) -> Launch:
    """Return the process of the agent itself, without the step after it."""
    work = claimed.spec.work.agent
    assert work is not None, "only agents come here"
    task = agent_task(claimed, run, surroundings)
    kind = adapter(work.adapter, work.options)
    if kind.invoke is None:
        raise SpawnFailed(f"the agent {work.agent} runs inside the scheduler", hint="it has no separate process")
    _refuse_options(task)
    invocation = kind.invoke(task)
    around = replace(claimed.spec.work, cwd=task.cwd)
    account = account_environment(work, surroundings.environ)
    for folder in account.values():
        _make_account(folder)
    further = {**invocation.env, **account, **_further(claimed), **_item_variables(claimed, surroundings)}
    paths = _paths(task, account)
    launch = prepare_program(invocation.argv, around, run=run, surroundings=surroundings, further=further, paths=paths)
    sessions = kind.sessions(launch.env) if kind.sessions is not None else ""
    files = {**launch.files, **invocation.files, agent_step.TASK: _write_task(work, task, claimed, sessions=sessions)}
    if claimed.brief.item is not None:
        files[ITEM] = json.dumps(write_item(claimed.brief.item), ensure_ascii=False, indent=2)
    if invocation.stdin is not None:
        files[STDIN] = invocation.stdin
    return replace(
        launch,
        files=files,
        stdin=str(surroundings.folder / STDIN) if invocation.stdin is not None else None,
        errors_apart=True,
        guard=_guard(work, kind),
        # The result of the agent is read from its output, which is deleted afterwards if the job keeps none.
        output=OutputPolicy.FULL,
    )


def _paths(task: AgentTask, account: Mapping[str, str]) -> FurtherPaths:
    """Return the paths of a task that its sandbox must show: the login folder, and further folders by access."""
    changes = task.access in (Access.WRITE, Access.FULL)
    write = (*account.values(), *(task.add_dirs if changes else ()))
    return FurtherPaths(read=() if changes else task.add_dirs, write=write)


def _guard(work: AgentWork, kind: Adapter) -> dict[str, Any] | None:
    """Return what the keeper watches in the stream of a program, None for nothing."""
    can = kind.capabilities
    limits = {
        "limit": work.loop_guard if can.loop_guard else None,
        "max_turns": work.max_turns if can.counts_turns else None,
        "max_usd": work.max_usd if can.counts_turns and can.max_usd else None,
    }
    return {"stream": kind.name, **limits} if any(value is not None for value in limits.values()) else None


def account_environment(work: AgentWork | AgentChoice, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable with the login folder of an agent's account; none without an account."""
    if not work.account:
        return {}
    variable = adapter(work.adapter, work.options).home
    return {variable: account_folder(environ, work.adapter, work.account, work.account_dir)} if variable else {}


def _make_account(folder: str) -> None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        words = f"the login folder {folder} cannot be created: {(error.strerror or str(error)).lower()}"
        raise SpawnFailed(words, hint="check owner and mode of the folder above it") from error


def _refuse_options(task: AgentTask) -> None:
    """Refuse a value that the program would take for an option, also one that was stored before it was checked."""
    values = {"model": [task.model], "session": [task.session_id], "allowed_tools": task.allowed_tools}
    for name, words in values.items():
        for word in words:
            if (word or "").lstrip().startswith("-"):
                hint = "the agent program would read it as an option"
                raise SpawnFailed(f"{name}: {word!r} begins with `-`", hint=hint)


def agent_task(claimed: Claimed, run: RunFacts, surroundings: RunSurroundings) -> AgentTask:
    """Return the task of an agent's run: its whole prompt, its limits, the session that it goes on with."""
    work, brief = claimed.spec.work.agent, claimed.brief
    assert work is not None, "only agents come here"
    cwd = brief.workspace or working_folder(claimed.spec.work, run, surroundings)
    folders = _folders(work, surroundings)
    return AgentTask(
        prompt=with_envelope(_envelope(claimed), task_text(work, run, brief=brief, project=surroundings.project)),
        model=work.model,
        access=work.access,
        max_turns=work.max_turns,
        max_usd=work.max_usd,
        allowed_tools=work.allowed_tools,
        session_id=brief.session.id if brief.session else None,
        fork=brief.apart,
        folder=str(surroundings.folder),
        cwd=cwd,
        run_id=run.run_id,
        job=run.job,
        params=run.params,
        item=brief.item,
        options=work.options,
        tools_server=_server(work, run, surroundings),
        protected=(*_protected(surroundings, cwd), *(f"{folder}/.git" for folder in folders)),
        args=tuple(option_words(work.args)),
        system_prompt=work.system_prompt,
        add_dirs=folders,
        mcp_servers=work.mcp_servers,
        profile=work.profile,
        state=str(surroundings.state),
        trust_project=work.trust_project,
    )


def _folders(work: AgentWork, surroundings: RunSurroundings) -> tuple[str, ...]:
    """Return the further folders of an agent; raise SpawnFailed for one that is missing or shows the state folder."""
    home, state = home_of(surroundings.environ), f"{surroundings.state}/"
    places = (home + folder[1:] if folder.startswith("~") else folder for folder in work.add_dirs)
    folders = tuple(os.path.normpath(surroundings.project / place) for place in places)
    for folder in folders:
        if not os.path.isdir(folder):
            raise SpawnFailed(f"there is no folder {folder!r}", hint="create it, or correct `add_dirs`")
        if state.startswith(f"{folder}/") or f"{folder}/".startswith(state):
            raise SpawnFailed(f"{folder!r} contains rota's state folder", hint="name folders beside it in `add_dirs`")
    return folders


def _protected(surroundings: RunSurroundings, cwd: str) -> tuple[str, ...]:
    """Return what an agent must not change, because others run it: rota's files, the modules they import, and `.git`.

    A hook or a filter in `.git` starts with the next git command of anybody.
    """
    project, root = surroundings.project, surroundings.root or surroundings.project
    files = files_of(root / FILE_NAME, home=home_of(surroundings.environ))
    sources = sources_of(project, surroundings.imports)
    git = next((folder / ".git" for folder in (Path(cwd), *Path(cwd).parents) if (folder / ".git").exists()), None)
    paths = [project / FILE_NAME, *files, *sources, git or Path(cwd) / ".git"]
    return tuple(dict.fromkeys(str(path) for path in paths))


def _further(claimed: Claimed) -> dict[str, str]:
    """Return what an agent finds in its environment beyond every other run: the rest of its envelope, its workspace."""
    found = {"ROTA_JOB_ID": claimed.run.job_id}
    if claimed.brief.branch is not None:
        found["ROTA_BRANCH"] = claimed.brief.branch
    return found if claimed.brief.workspace is None else {**found, "ROTA_WORKSPACE": claimed.brief.workspace}


def _item_variables(claimed: Claimed, surroundings: RunSurroundings) -> dict[str, str]:
    return {} if claimed.brief.item is None else {"ROTA_ITEM_FILE": str(surroundings.folder / ITEM)}


def _with_step(
    launch: Launch, after: AfterStep | None, *, work: Work, run: RunFacts, surroundings: RunSurroundings
) -> Launch:
    argv, cwd = ((), "") if after is None else _after(launch, after, work=work, run=run, surroundings=surroundings)
    orders = agent_step.write_orders(launch.argv, argv, folder=surroundings.folder, cwd=cwd, secret=launch.secret)
    return replace(
        launch, argv=agent_step.command_line(surroundings.folder), files={**launch.files, agent_step.ORDERS: orders}
    )


def _after(
    launch: Launch, after: AfterStep, *, work: Work, run: RunFacts, surroundings: RunSurroundings
) -> tuple[tuple[str, ...], str]:
    """Return the command line and the folder of the step after an agent."""
    values = placeholder_values(run)
    argv = tuple(fill(word, values) for word in after.command) or (*work.shell_with, after.shell)
    try:
        check_on_path(argv[0], launch.env)
    except SpawnFailed as error:
        raise SpawnFailed(f"after: {error.message}", hint=error.hint) from error
    return argv, launch.cwd if after.cwd is StepFolder.WORKSPACE else str(surroundings.project)


def _envelope(claimed: Claimed) -> str:
    run = claimed.run
    return envelope(
        trigger=run.trigger.value,
        job_id=run.job_id,
        run_id=run.id,
        scheduled_for=run.nominal,
        attempt=run.attempt,
    )


def _server(work: AgentWork, run: RunFacts, surroundings: RunSurroundings) -> tuple[str, ...]:
    """Return the command of the tools of a run: rota's own, the decision about tool calls, both or none."""
    if work.access is not Access.ASK:
        return tools_server(run, surroundings) if work.rota_tools else ()
    offers = "also" if work.rota_tools else "only"
    command, *rest = tools_server(run, surroundings)
    return (command, f"{PERMISSIONS}={offers}", *rest)


def task_text(work: AgentWork, run: RunFacts, *, brief: Brief, project: Path) -> str:
    """Return the task: its own text with its placeholders filled, its work item, what is carried over.

    A session that continues after a rate limit has the task already.
    """
    if brief.reply is not None:
        return brief.reply
    if brief.continues is not None:
        return CONTINUATION
    answers = answers_text(brief.answers)
    if brief.answered:
        return answers
    written = _written(work, run, project)
    values = replace(placeholder_values(run), outputs=brief.condition_outputs, item=brief.item, results=brief.results)
    # A prompt that says itself where parts of the item stand does not get it once more.
    named = work.placeholders and names_item(written)
    task = build_prompt(
        fill(written, values) if work.placeholders else written, None if named else brief.item, note=ITEM_NOTE
    )
    if named and brief.item is not None:
        task = f"{task}\n\n{ITEM_NOTE}"
    if brief.results:
        task = f"{task}\n\n{RESULT_NOTE}"
    carried = carried_text(
        work.carry, last_summary=brief.last_summary, state=run.state, postcondition=brief.postcondition
    )
    return with_carried(with_carried(task, carried), answers)


def named_results(work: AgentWork, run: RunFacts, project: Path) -> tuple[str, ...]:
    """Return the jobs whose results the prompt of a run has placeholders for."""
    return result_jobs(_written(work, run, project)) if work.placeholders else ()


def _written(work: AgentWork, run: RunFacts, project: Path) -> str:
    text = work.prompt
    if work.prompt_file:
        path = project / fill(work.prompt_file, placeholder_values(run))
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SpawnFailed(f"the prompt file {path} cannot be read: {error}", hint="make it a UTF-8 text") from error
        if not text.strip():
            raise SpawnFailed(f"the prompt file {path} is empty", hint="write the task into it")
    if len(text) > PROMPT_LIMIT:
        raise SpawnFailed(f"the prompt has {len(text):,} characters", hint=f"{PROMPT_LIMIT:,} are allowed")
    return text


def _write_task(work: AgentWork, task: AgentTask, claimed: Claimed, *, sessions: str) -> str:
    told = {
        "adapter": work.adapter,
        "provider": work.provider,
        "agent": work.agent if work.choices else None,
        "options": dict(work.options),
        "model": task.model,
        "access": task.access.value,
        "max_turns": task.max_turns,
        "max_usd": task.max_usd,
        "allowed_tools": list(task.allowed_tools),
        "cwd": task.cwd,
        "job": task.job,
        "run_id": task.run_id,
        "output": claimed.spec.work.output.value,
        "session": agent_step.write_session(claimed.brief.session),
        "sessions": sessions,
        "resumes": work.session is SessionMode.RESUME and not claimed.brief.apart,
    }
    return json.dumps(told)


def read_agent(folder: Path, ended: Outcome, secrets: tuple[str, ...] = ()) -> Outcome:
    """Return the outcome of a run as its agent tells it, without these secrets; that of any other command as it is."""
    outcome = _read_agent(folder, ended)
    if not secrets:
        return outcome
    hide = redactor(secrets).redact
    return replace(
        outcome,
        summary=None if outcome.summary is None else hide(outcome.summary),
        result=None if outcome.result is None else hide(outcome.result),
        error=None if outcome.error is None else hide(outcome.error),
        denied_tools=tuple(map(hide, outcome.denied_tools)),
    )


def _read_agent(folder: Path, ended: Outcome) -> Outcome:
    told = agent_step.read_task(folder)
    if told is None:
        return ended
    kind = adapter(told["adapter"], told["options"])
    if kind.read is None:
        return replace(ended, provider=told.get("provider"), agent=told.get("agent"))
    step = agent_step.read_told(folder)
    result = kind.read(_process(folder, ended, step), agent_step.task_of(told))
    outcome = agent_outcome(ended, result, resumed=agent_step.session_of(told), resumes=told.get("resumes", False))
    if outcome.session is not None:
        outcome = replace(outcome, session=replace(outcome.session, adapter=told["adapter"]))
    outcome = replace(
        _after_words(outcome, result, step, folder=folder), provider=told.get("provider"), agent=told.get("agent")
    )
    if told["output"] == OutputPolicy.NONE:
        forget_output(folder)
        forget_output(folder / agent_step.AGENT_OUTPUT)
        if outcome.postcondition is not None:
            outcome = replace(outcome, postcondition=replace(outcome.postcondition, output=""))
    return outcome


def _process(folder: Path, ended: Outcome, step: Mapping[str, Any] | None) -> ProcessEnd:
    """Return how the agent itself ended; where a step came after it, its own part of the output."""
    own = folder / agent_step.AGENT_OUTPUT
    code = ended.exit_code if step is None else step.get("agent_exit")
    return ProcessEnd(
        exit_code=None if code is None or code < 0 else code,
        stdout=read_all(own if own.is_dir() else folder).decode("utf-8", "replace"),
        stderr=read_all(folder / ERRORS).decode("utf-8", "replace"),
        stopped=ended.reason in STOPPED,
        ended_at=None if ended.finished_at is None else ended.finished_at.astimezone(),
    )


def _after_words(outcome: Outcome, result: AgentResult, step: Mapping[str, Any] | None, *, folder: Path) -> Outcome:
    """Return an outcome whose error says that it was the step after the agent that failed."""
    if step is None or step.get("stage") != "after" or result.problem or outcome.status is not Status.FAILED:
        return outcome
    if outcome.postcondition is not None:
        return outcome
    line = last_line(folder)
    silent = line == last_line(folder / agent_step.AGENT_OUTPUT)
    error = (outcome.error or "").removesuffix(f": {line}") if silent else outcome.error
    return replace(outcome, error=cut(f"after: {step.get('error') or error}", ERROR_LIMIT))
