"""The context of a tool call: its author and project."""

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from rota.model.agents import Access
from rota.model.clock import Clock
from rota.model.errors import InvalidValue, RunUnknown, ToolsRefused
from rota.model.ids import is_id
from rota.model.proposals import MAKER_LIMIT, AgentPolicy, Author, Limits
from rota.model.spec import JobSpec
from rota.model.states import Status, Trigger
from rota.operations.jobs import project_timezone
from rota.operations.project.load import is_trusted
from rota.operations.project.locate import ProjectPaths
from rota.store.driver import Database, Store
from rota.store.tables import direct_calls, jobs, runs

Declare = Callable[[str, Mapping[str, Any], Author], JobSpec]
"""Builds a definition from a job's name and keys, as the file does; raises FileProblems."""


class ToolContext(Struct, frozen=True):
    """The context of a tool call. `policy` None means the applied policy."""

    store: Store
    state: Path
    clock: Clock
    maker: Author
    declare: Declare
    policy: AgentPolicy | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def now(self) -> datetime:
        """Return the wall time."""
        return self.clock.now()

    def zone(self) -> str:
        """Return the project's time zone."""
        return project_timezone(self.store)


RUN_ID = "ROTA_RUN_ID"
"""The variable that identifies a run to it and to its child processes."""


def maker_of(store: Store, environ: Mapping[str, str]) -> Author:
    """Return the author of this environment: a person, a live run or direct call, or an author without rights."""
    run_id = environ.get(RUN_ID, "")
    if not run_id:
        return Author()
    author = store.read(partial(_maker_of_subject, subject=run_id.lower())) if is_id(run_id) else None
    return stranger(run_id) if author is None else author


def stranger(run_id: str) -> Author:
    """Return the author of an environment whose ROTA_RUN_ID names no live run or call of this state."""
    return Author("unknown", unknown=run_id)


def tools_maker(store: Store, environ: Mapping[str, str]) -> Author:
    """Return the author that calls the tools; refuse an author without rights, and a run without the tools."""
    maker = maker_of(store, environ)
    refuse_toolless(maker)
    return maker


def refuse_toolless(maker: Author) -> None:
    """Refuse the tools to an author without rights, and to an agent's run without `rota_tools`."""
    if maker.unknown is not None:
        raise RunUnknown(maker.unknown)
    if maker.limits is not None and not maker.limits.rota_tools and maker.limits.access is not Access.ASK:
        raise ToolsRefused(maker.run or maker.name)


def refuse_rota_tools(maker: Author) -> None:
    """Refuse rota's own tools to a run that has a server only for decisions about its tool calls."""
    if maker.limits is not None and not maker.limits.rota_tools:
        raise ToolsRefused(maker.run or maker.name)


def _maker_of_subject(db: Database, *, subject: str) -> Author | None:
    """Return a live run or direct call as an author; None if there is none with this identifier."""
    run = runs.run_by_id(db, subject)
    if run is not None:
        live = run.status in (Status.DISPATCHED, Status.RUNNING)  # conditions are asked before the start
        return _maker(db, run.job_id, run.version, subject=run.id, handle=run.handle) if live else None
    job_id, version = _called(db, subject)
    if job_id is None or version is None:
        return None
    handle = f"{jobs.job_by_id(db, job_id).name}:{Trigger.DIRECT}"
    return _maker(db, job_id, version, subject=subject, handle=handle)


def _called(db: Database, call_id: str) -> tuple[str | None, int | None]:
    """Return the job and version of a live direct call; None for a reserved slot, or no live call."""
    call = direct_calls.call_by_id(db, call_id)
    if call is not None:
        return (call.job_id, call.version) if call.slot is not None else (None, None)
    started = direct_calls.direct_by_id(db, call_id)
    if started is None or started.execution.finished_at is not None:
        return None, None
    return started.execution.job_id, started.execution.version


def _maker(db: Database, job_id: str, version: int, *, subject: str, handle: str) -> Author:
    job, spec = jobs.job_by_id(db, job_id), jobs.version_spec(db, job_id, version)
    return Author(
        name=f"run:{job.name}" if spec.work.agent is None else f"agent:{spec.work.agent.agent}",
        run_id=subject,
        run=handle,
        depth=0 if job.made is None else job.made.depth,
        limits=_limits(spec),
    )


def _limits(spec: JobSpec) -> Limits | None:
    """Return the limits of an agent's run; None for other work, which has none."""
    work = spec.work.agent
    if work is None:
        return None
    return Limits(
        agent=work.agent if spec.work.project is None else work.agent.rpartition("/")[2],
        access=work.access,
        allowed_tools=work.allowed_tools,
        max_turns=work.max_turns,
        max_usd=work.max_usd,
        accounts=tuple(spend.account for spend in spec.budgets),
        rota_tools=work.rota_tools,
        trust_project=work.trust_project,
        cwd=spec.work.cwd,
        project=spec.work.project,
    )


def named_maker(name: str) -> Author:
    """Return the author with a name that a program sets."""
    if not name.strip() or len(name) > MAKER_LIMIT or not name.isprintable():
        hint = f"give the author 1 to {MAKER_LIMIT} printable characters, such as user-42"
        raise InvalidValue(f"{name[:MAKER_LIMIT]!r} cannot be an author", hint=hint)
    return Author(name.strip())


def project_declares(place: ProjectPaths, environ: Mapping[str, str]) -> Declare:
    """Return the function that declares jobs with the agents, defaults and zone of the project's file."""

    def declare(name: str, keys: Mapping[str, Any], maker: Author) -> JobSpec:
        from rota.declare.project import read_further
        from rota.operations.project.load import interpreter_finder

        inner = Path(maker.limits.project) if maker.limits and maker.limits.project else place.inner
        trusted, finder = is_trusted(place.folder, environ), interpreter_finder
        return read_further(
            place.folder, name, keys, environment=environ, interpreter=finder, inner=inner, imports=trusted
        )

    return declare
