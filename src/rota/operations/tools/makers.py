"""Who acts, and how the wishes of a project's makers become definitions."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rota.model.errors import InvalidValue, RunUnknown, ToolsRefused
from rota.model.ids import is_id
from rota.model.making import MAKER_LIMIT, Limits, Maker
from rota.model.records import Job
from rota.model.spec import JobSpec
from rota.model.states import Status, Trigger
from rota.operations.project import Place
from rota.operations.tools.desk import Declare
from rota.operations.trust import is_trusted
from rota.store import direct, jobs, runs
from rota.store.driver import Database, Store

RUN_ID = "ROTA_RUN_ID"
"""The variable by which a run, and everything it starts, is known."""


def maker_of(store: Store, environ: Mapping[str, str]) -> Maker:
    """Return who acts in this environment: a person, a live run or direct call, or a maker without rights."""
    run_id = environ.get(RUN_ID, "")
    if not run_id:
        return Maker()
    found = store.read(partial(_maker_of_subject, subject=run_id.lower())) if is_id(run_id) else None
    return stranger(run_id) if found is None else found


def stranger(run_id: str) -> Maker:
    """Return the maker of an environment whose ROTA_RUN_ID names nothing that is live in this state."""
    return Maker("unknown", unknown=run_id)


def tools_maker(store: Store, environ: Mapping[str, str]) -> Maker:
    """Return who calls the tools in this environment; refuse a maker without rights, and a run without the tools."""
    maker = maker_of(store, environ)
    refuse_toolless(maker)
    return maker


def refuse_toolless(maker: Maker) -> None:
    """Refuse the tools to a maker without rights, and to an agent's run whose `rota_tools` is not set."""
    if maker.unknown is not None:
        raise RunUnknown(maker.unknown)
    if maker.limits is not None and not maker.limits.rota_tools:
        raise ToolsRefused(maker.run or maker.name)


def _maker_of_subject(db: Database, *, subject: str) -> Maker | None:
    """Return a run or a direct call as a maker; None where none of this identifier is live."""
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
    """Return the job and version that a live direct call executes; None for a reserved slot, or no live call."""
    call = direct.call_by_id(db, call_id)
    if call is not None:
        return (call.job_id, call.version) if call.slot is not None else (None, None)
    found = direct.direct_by_id(db, call_id)
    if found is None or found.execution.finished_at is not None:
        return None, None
    return found.execution.job_id, found.execution.version


def _maker(db: Database, job_id: str, version: int, *, subject: str, handle: str) -> Maker:
    job, spec = jobs.job_by_id(db, job_id), jobs.version_spec(db, job_id, version)
    return Maker(
        name=f"run:{job.name}" if spec.work.agent is None else f"agent:{spec.work.agent.agent}",
        run_id=subject,
        run=handle,
        depth=_depth(job),
        limits=_limits(spec),
    )


def _depth(job: Job) -> int:
    return 0 if job.made is None else job.made.depth


def _limits(spec: JobSpec) -> Limits | None:
    """Return what the run of an agent may do; None for other work, which is bound by nothing here."""
    work = spec.work.agent
    if work is None:
        return None
    inside = spec.work.project is not None
    return Limits(
        agent=work.agent.rpartition("/")[2] if inside else work.agent,
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


def named_maker(name: str) -> Maker:
    """Return the maker of a name that a program gives."""
    if not name.strip() or len(name) > MAKER_LIMIT or not name.isprintable():
        hint = f"give the maker 1 to {MAKER_LIMIT} printable characters, such as user-42"
        raise InvalidValue(f"{name[:MAKER_LIMIT]!r} cannot be a maker", hint=hint)
    return Maker(name.strip())


def project_declares(place: Place, environ: Mapping[str, str]) -> Declare:
    """Return how jobs that are made in a project are declared: by its file's agents, defaults and zone."""

    def declare(name: str, keys: Mapping[str, Any], maker: Maker) -> JobSpec:
        from rota.declare.validate import read_further
        from rota.operations.loading import interpreter_finder

        inner = Path(maker.limits.project) if maker.limits and maker.limits.project else place.inner
        trusted = is_trusted(place.folder, environ)
        return read_further(
            place.folder,
            name,
            keys,
            environment=environ,
            interpreter=interpreter_finder,
            inner=inner,
            imports=trusted,
        )

    return declare
