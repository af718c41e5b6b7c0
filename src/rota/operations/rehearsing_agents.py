"""A dry run of an agent job: who would be asked what, and where; nothing is claimed, made or spent."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rota.agents.probing import version_of
from rota.agents.registry import adapter
from rota.engine.agents import agent_task
from rota.engine.briefing import remembered
from rota.engine.claim import Claimed
from rota.engine.lock import read_worker
from rota.model.errors import RotaError
from rota.model.spec import AgentWork, Workspace
from rota.rules.workspace import BRANCHES, branch_name
from rota.runners import worktree as git
from rota.runners.environment import RunFacts, Surroundings
from rota.runners.launch import folder_of
from rota.store.driver import Store
from rota.store.workers import only_worker


@dataclass(frozen=True, slots=True)
class Asked:
    """What an agent would be asked: its whole prompt, where it would work, the session it would go on with."""

    work: AgentWork
    version: str
    prompt: str
    workspace: str | None
    """The folder of its own that it would get, in words; None: the job's own."""
    session: str | None
    problem: str | None = None


def with_memory(claimed: Claimed, store: Store | None, *, state: Path) -> Claimed:
    """Return a run with the session and the summary that it would be given by the worker of this folder."""
    work = claimed.spec.work.agent
    if work is None or store is None:
        return claimed
    own = read_worker(state) or store.read(only_worker) or ""
    return claimed._replace(brief=store.read(partial(remembered, claimed=claimed, work=work, worker_id=own)))


def ask(claimed: Claimed, run: RunFacts, surroundings: Surroundings, *, env: Mapping[str, str] | None) -> Asked | None:
    """Return what the agent of a job would be asked, None for other jobs.

    `env` is what its run gets, and what its program is asked for its version with; None: it is not started.
    """
    work = claimed.spec.work.agent
    if work is None:
        return None
    problem, prompt, workspace = None, "", None
    try:
        prompt = agent_task(claimed, run, surroundings).prompt
        workspace = _workspace(claimed, run, surroundings)
    except RotaError as error:
        problem = str(error)
    session = claimed.brief.session.id if claimed.brief.session else None
    version = version_of(adapter(work.adapter, work.options), env) if env is not None else ""
    return Asked(work, version, prompt, workspace, session, problem)


def _workspace(claimed: Claimed, run: RunFacts, surroundings: Surroundings) -> str | None:
    work = claimed.spec.work.agent
    if work is None or work.workspace is Workspace.PROJECT:
        return None
    if work.workspace is Workspace.SCRATCH:
        return "a new empty folder"
    place = git.locate(folder_of(claimed.spec.work, run, surroundings))
    branch = branch_name(run.job, run.number, taken=git.branches(place.repository, BRANCHES))
    at = place.head if place.base.startswith(place.head) else f"{place.head}@{place.base[:7]}"
    return f"a new worktree of {at}, branch {branch}"
