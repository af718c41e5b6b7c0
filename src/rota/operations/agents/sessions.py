"""Sessions of agents: open that of a run in a terminal, and start a run that goes on from it."""

import os
import shlex
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TypedDict

from msgspec import Struct

from rota.agents.adapter import Adapter
from rota.agents.registry import adapter
from rota.engine.activity import touching
from rota.engine.agents import account_environment
from rota.engine.membership.locks import read_worker
from rota.engine.transactions.insert import RunRef
from rota.model.agents import AgentInvocation, AgentTask
from rota.model.chats import Reply
from rota.model.errors import InvalidValue, RunUnfinished, SessionUnusable
from rota.model.questions import Door
from rota.model.records import Run, Worktree
from rota.model.serialize import to_shape
from rota.model.spec import PROMPT_LIMIT, AgentWork
from rota.model.states import Status, Trigger
from rota.operations.jobs import find_job
from rota.operations.project.locate import ProjectPaths
from rota.operations.run_actions import start_job
from rota.operations.runs import RunView, find_run, run_view
from rota.runners.agent_step import read_task
from rota.runners.environment import login_environment
from rota.runners.output import folder_of
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables import audit, chats, run_queries, work_items
from rota.store.tables.work_items import StoredSession
from rota.text.jobs import workspace_of

UNFINISHED = 100
"""The unfinished runs of a job that are read to find one in the same session."""


class OpenSession(Struct, frozen=True):
    """The process with which a person opens the session of a run, and its folder."""

    run: Run
    adapter: str
    session: str
    folder: str
    argv: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def command(self) -> str:
        """The command for a shell."""
        named = "".join(f"{name}={shlex.quote(value)} " for name, value in self.env.items())
        return f"cd {shlex.quote(self.folder)} && {named}{shlex.join(self.argv)}"


class OpenSessionJson(TypedDict):
    """The session of a run, as `rota attach --json` prints it."""

    run: str
    adapter: str
    session: str
    folder: str
    argv: list[str]
    env: dict[str, str]


def session_json(opened: OpenSession) -> OpenSessionJson:
    """Return a session as JSON."""
    return to_shape(OpenSessionJson, opened, run=opened.run.handle)


class StoredSessionJson(TypedDict):
    """The session that the next run of a job resumes, as `rota sessions --json` prints it."""

    job: str
    adapter: str
    session: str
    run: str | None
    turns: int
    usd: float
    began_at: str
    used_at: str


def stored_session_json(one: StoredSession) -> StoredSessionJson:
    """Return a stored session as JSON."""
    return to_shape(StoredSessionJson, one)


def reset_session(store: Store, name: str, *, now: datetime, dry_run: bool = False) -> StoredSession:
    """Forget the session of a job, so that its next run starts a new one; raise SessionUnusable without one."""

    def reset(db: Database) -> StoredSession:
        job = find_job(db, name)
        found = next((one for one in work_items.sessions(db) if one.job_id == job.id), None)
        if found is None:
            raise SessionUnusable(job.name, "has no session to continue", hint="`rota sessions` lists all sessions")
        if not dry_run:
            work_items.drop_session(db, job.id, found.session)
            audit.insert_event(db, "session_reset", now=now, job_id=job.id, session=found.session)
        return found

    return store.read(reset) if dry_run else store.write(reset)


def open_session(store: Store, place: ProjectPaths, handle: str, environ: Mapping[str, str]) -> OpenSession:
    """Return how a person opens the session of a run; raise an error that names what is missing."""

    def read(db: Database) -> RunView:
        view = run_view(db, find_run(db, handle))
        refuse_unusable(db, view, place.state)
        return view

    view = store.read(read)
    work, kind = _agent(view)
    if kind.attach is None:
        hint = f"`rota logs {view.run.handle} --transcript` shows what it did"
        raise SessionUnusable(view.run.handle, f"ran in {kind.name}, which opens no session in a terminal", hint=hint)
    folder = _folder(view, place)
    if not os.path.isdir(folder):
        raise _gone(view.run, folder)
    task = AgentTask(prompt="", session_id=view.run.session_id, cwd=folder, trust_project=work.trust_project)
    invocation = kind.attach(task)
    env = _environment(view, kind, invocation, environ=environ, place=place)
    return OpenSession(view.run, kind.name, view.run.session_id or "", folder, invocation.argv, env)


def note_attached(store: Store, opened: OpenSession, *, now: datetime) -> None:
    """Record that a person opens a session."""
    about = {"job_id": opened.run.job_id, "run_id": opened.run.id}
    store.write(lambda db: audit.insert_event(db, "attached", now=now, **about, session=opened.session))


def refuse_unusable(db: Database, view: RunView, state: Path) -> None:
    """Raise RunUnfinished or SessionUnusable unless the session of a run can be used on this machine."""
    run = view.run
    if view.spec.work.agent is None:
        raise SessionUnusable(run.handle, "is not a run of an agent and has no session", hint="name a run of an agent")
    if not run.status.final:
        raise RunUnfinished(run.handle, run.status.shown)
    if not run.session_id or run.session_id.lstrip().startswith("-"):
        why = "has no session: its program named none" if run.started_at else "never started and has no session"
        raise SessionUnusable(run.handle, why, hint=f"`rota history {run.job}` lists the runs of the job")
    if view.worker is not None and view.worker.id != read_worker(state):
        where = f"on {view.worker.host}" if view.worker.host else "there"
        raise SessionUnusable(run.handle, f"ran on the worker {view.worker.called}", hint=f"use its session {where}")
    workspace = workspace_of(run)
    if workspace is not None and not os.path.isdir(workspace["path"]):
        raise _gone(run, workspace["path"])
    if workspace is not None and workspace.get("branch") and not _is_kept(view.worktree):
        hint = "try again in a moment; a worktree without work is removed"
        raise SessionUnusable(run.handle, f"has a worktree that is not kept yet: {workspace['path']}", hint=hint)
    busy = _busy(db, run)
    if busy is not None:
        hint = f"wait for it, or stop it with `rota cancel {busy.handle}`"
        raise SessionUnusable(run.handle, f"has a session in which {busy.handle} works now", hint=hint)


def _is_kept(worktree: Worktree | None) -> bool:
    return worktree is not None and worktree.kept_at is not None


def _gone(run: Run, folder: str) -> SessionUnusable:
    hint = f"a session belongs to its folder; `rota logs {run.handle} --transcript` shows what it did"
    return SessionUnusable(run.handle, f"worked in a folder that is gone: {folder}", hint=hint)


def _busy(db: Database, run: Run) -> Run | None:
    """Return a started run of the same job in the same session or workspace."""
    path = (workspace_of(run) or {}).get("path")
    for other in run_queries.some_unfinished_runs(db, run.job_id, limit=UNFINISHED):
        same = other.decisions.get("session") == run.session_id
        same = same or (path is not None and (workspace_of(other) or {}).get("path") == path)
        if same and other.status is not Status.QUEUED:
            return other
    return None


def _agent(view: RunView) -> tuple[AgentWork, Adapter]:
    work = view.spec.work.agent
    assert work is not None, "a run with a session is one of an agent"
    return work, adapter(work.adapter, work.options)


def _folder(view: RunView, place: ProjectPaths) -> str:
    """Return the folder in which the program ran: as its task says, else as its workspace and its job say."""
    told = read_task(folder_of(place.state, view.run.id))
    if told is not None and told.get("cwd"):
        return str(told["cwd"])
    work, workspace = view.spec.work, workspace_of(view.run)
    folder = os.path.normpath(Path(work.project or place.folder) / os.path.expanduser(work.cwd))
    if workspace is None:
        return folder
    repository = view.worktree.repository if view.worktree is not None else folder
    below = os.path.relpath(folder, repository)
    return str(workspace["path"]) if below.startswith("..") else os.path.normpath(Path(workspace["path"]) / below)


def _environment(
    view: RunView, kind: Adapter, invocation: AgentInvocation, *, environ: Mapping[str, str], place: ProjectPaths
) -> dict[str, str]:
    """Return the variables that the session needs: its login folder and those of the adapter; no secrets."""
    work, agent = view.spec.work, _agent(view)[0]
    login = login_environment(work, environ, project=place.folder, state=place.state)
    home = {kind.home: login[kind.home]} if kind.home in login else {}
    return {**home, **account_environment(agent, environ), **invocation.env}


class Forked(Struct, frozen=True):
    """A fork: the run that it goes on from, and the new run."""

    of: Run
    born: RunRef


def fork_run(
    store: Store,
    handle: str,
    prompt: str,
    *,
    state: Path,
    by: str,
    door: Door,
    now: datetime,
    force: bool = False,
    dry_run: bool = False,
) -> Forked:
    """Start a run of the same job that goes on from the session of a finished run, with this prompt."""
    if not prompt.strip():
        raise InvalidValue("the prompt is empty", hint="write the task of the new run")
    if len(prompt) > PROMPT_LIMIT:
        raise InvalidValue(f"the prompt has {len(prompt):,} characters", hint=f"{PROMPT_LIMIT:,} are allowed")

    def fork(db: Database) -> Forked:
        view = run_view(db, find_run(db, handle))
        refuse_unusable(db, view, state)
        run, job = view.run, view.job
        _refuse_other_agent(view)
        params = {name: value for name, value in run.params.items() if name in job.spec.work.params}
        told = {"fork": {"of": run.handle, "by": by}}
        born = start_job(db, job, params, trigger=Trigger.FORK, decisions=told, force=force, now=now)
        reply = Reply(born.id, run.id, run.handle, run.session_id or "", prompt, door, "", by, created_at=now)
        chats.save_reply(db, reply)
        audit.insert_event(db, "forked", now=now, job_id=job.id, run_id=born.id, of=run.handle, by=by)
        return Forked(run, born)

    return rolled_back(store, fork) if dry_run else store.write(touching(fork, what="fork", now=now))


def _refuse_other_agent(view: RunView) -> None:
    """Refuse a fork whose run would not find the session: another program or folder may do the work."""
    (before, kind), now = _agent(view), view.job.spec.work.agent
    handle = view.run.handle
    if not kind.capabilities.resume:
        raise SessionUnusable(handle, f"ran in {kind.name}, which resumes no session", hint="start the job anew")
    if now is None or (now.adapter, now.workspace) != (before.adapter, before.workspace):
        why = "belongs to an earlier definition of its job: the adapter or the workspace was changed"
        raise SessionUnusable(handle, why, hint=f"`rota attach {handle}` opens the session itself")
    if now.choices:
        why = "has a job with a list of agents, of which another one may do the next run"
        raise SessionUnusable(handle, why, hint=f"`rota attach {handle}` opens the session itself")
