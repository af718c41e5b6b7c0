"""`rota.tools`: the tools for agents, for a program that has a scheduler, or for a project on disk."""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rota.engine.clock import SystemClock
from rota.library.scheduler import Scheduler
from rota.model.errors import NotApplied, UnknownRun
from rota.model.making import USER, Maker
from rota.operations.project import is_applied, locate, open_place
from rota.operations.tools.catalog import Tool, tools_of
from rota.operations.tools.makers import RUN_ID, maker_of, named_maker, project_declares, tools_maker
from rota.operations.tools.toolbox import Toolbox
from rota.store.driver import Store


def tools(project: Scheduler | str | os.PathLike[str], *, made_by: str = USER, run: str | None = None) -> list[Tool]:
    """Return the tools for agents: each has a name, a description, JSON Schemas, hints, `call` and `call_async`.

    `project` is a scheduler of this process, or the folder of a rota.yaml. What is made with them belongs to `made_by`,
    within `agent_policy`; where a `run` hands them out (`task.run_id`), also within the limits of that run. A call that
    is refused raises RotaError; its text says what to do instead.
    """
    maker = replace(named_maker(made_by), run_id=run)
    call = partial(_with_scheduler, project) if isinstance(project, Scheduler) else partial(_on_disk, Path(project))
    return list(tools_of(partial(call, maker)))


def _with_scheduler(scheduler: Scheduler, maker: Maker, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    def work(store: Store) -> dict[str, Any]:
        declare, acting = scheduler.declarations.declare_made, _acting(store, maker)
        return Toolbox(store, scheduler.state, scheduler.clock, maker=acting, declare=declare).call(name, arguments)

    return scheduler.operate(work, wakes=True)


def _on_disk(folder: Path, maker: Maker, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    place, clock = locate(str(folder), os.environ, Path.cwd()), SystemClock()
    if not is_applied(place, clock):
        raise NotApplied(str(place.folder))
    store = open_place(place, clock, create=False)
    try:
        acting = _acting(store, maker) if maker.run_id else _acting_here(store, maker)
        declare = project_declares(place, os.environ)
        return Toolbox(store, place.state, clock, maker=acting, declare=declare).call(name, arguments)
    finally:
        store.close()


def _acting_here(store: Store, maker: Maker) -> Maker:
    """Return who acts on a project on disk: inside a run that run, under the name that was given."""
    found = tools_maker(store, os.environ)
    return maker if found.run_id is None else replace(found, name=found.name if maker.name == USER else maker.name)


def _acting(store: Store, maker: Maker) -> Maker:
    """Return who acts: the name that was given, in the run that was."""
    if maker.run_id is None:
        return maker
    found = maker_of(store, {RUN_ID: maker.run_id})
    if found.run_id is None:
        raise UnknownRun(maker.run_id)
    return replace(found, name=maker.name)
