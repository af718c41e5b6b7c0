"""Who acts, and how the wishes of a project's makers become definitions."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rota.declare.validate import read_further
from rota.model.errors import InvalidValue
from rota.model.ids import is_id
from rota.model.making import MAKER_LIMIT, Limits, Maker
from rota.model.records import Job
from rota.model.spec import JobSpec
from rota.model.states import Status
from rota.operations.loading import interpreter_finder
from rota.operations.project import Place
from rota.operations.tools.desk import Declare
from rota.store import jobs, runs
from rota.store.driver import Database, Store

RUN_ID = "ROTA_RUN_ID"
"""The variable by which a run, and everything it starts, is known."""


def maker_of(store: Store, environ: Mapping[str, str]) -> Maker:
    """Return who acts in this environment: the run that is under way here, else a person."""
    run_id = environ.get(RUN_ID, "")
    found = store.read(partial(_maker_of_run, run_id=run_id)) if is_id(run_id) else None
    return Maker() if found is None else found


def _maker_of_run(db: Database, *, run_id: str) -> Maker | None:
    """Return a run as a maker; None where no such run is under way here."""
    run = runs.run_by_id(db, run_id.lower())
    if run is None or run.status is not Status.RUNNING:
        return None
    job = jobs.job_by_id(db, run.job_id)
    spec = jobs.version_spec(db, run.job_id, run.version)
    return Maker(
        name=f"run:{job.name}" if spec.work.agent is None else f"agent:{spec.work.agent.agent}",
        run_id=run.id,
        run=run.handle,
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
        inner = Path(maker.limits.project) if maker.limits and maker.limits.project else place.inner
        return read_further(place.folder, name, keys, environment=environ, interpreter=interpreter_finder, inner=inner)

    return declare
