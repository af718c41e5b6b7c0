"""What people are told of what an agent's runs are given: session, what is carried over, workspace, the step after."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from rota.model.records import Run
from rota.model.spec import AfterStep, AgentWork, Carry, SessionMode, Workspace
from rota.model.workspaces import Worktree

_CARRIED = {Carry.LAST_SUMMARY: "the last summary", Carry.STATE: "the job's state"}
_PLACES = {
    Workspace.WORKTREE: "a git worktree and branch of its own for each run",
    Workspace.SCRATCH: "an empty folder for each run",
}


def say_brief(work: AgentWork) -> Iterator[tuple[str, str]]:
    """Yield what the runs of an agent job are given beyond their task, each with its label."""
    if work.session is SessionMode.RESUME:
        yield "session", "resume: each run goes on with the newest one"
    if work.carry:
        yield "carry", " and ".join(_CARRIED[word] for word in work.carry)
    if work.workspace in _PLACES:
        yield "workspace", f"{work.workspace}: {_PLACES[work.workspace]}"
    if work.trust_project:
        yield "trust", "trust_project: its program runs hooks, plugins and servers that the folder's own settings name"
    if work.after is not None:
        yield "after", say_after(work.after)


def say_after(after: AfterStep) -> str:
    """Return the step after an agent on one line.

    >>> say_after(AfterStep(command=("gh", "pr", "create")))
    'gh pr create, in its workspace'
    """
    where = "its workspace" if after.cwd.value == "workspace" else "the project"
    return f"{shlex.join(after.command) or after.shell}, in {where}"


def workspace_of(run: Run) -> Mapping[str, Any] | None:
    """Return the folder that a run was given, as it was noted; None: it had none of its own."""
    found: Mapping[str, Any] | None = run.decisions.get("workspace")
    return found


def say_place(told: Mapping[str, Any]) -> str:
    """Return the folder of a run in short."""
    return f"worktree {told['branch']}" if told.get("branch") else "scratch folder"


def say_workspace(run: Run, worktree: Worktree | None) -> str | None:
    """Return where a run worked and what became of that; None: it had no folder of its own."""
    told = workspace_of(run)
    if told is None:
        return None
    if not told.get("branch"):
        return f"{say_place(told)} {told['path']}"
    if worktree is None:
        return f"{say_place(told)}, removed" if run.status.final else say_place(told)
    kept = f", kept: {worktree.kept_why}" if worktree.kept_why else ""
    return f"{say_place(told)} in {told['path']}{kept}"


def say_session(run: Run, work: AgentWork) -> str | None:
    """Return which session a run went on with; None: its job does not resume any."""
    if work.session is not SessionMode.RESUME:
        return None
    resumed = run.decisions.get("session")
    if resumed:
        return f"resume: went on with {resumed}"
    return "resume: began a new one" if run.started_at is not None else "resume: not looked for yet"
