"""A project on disk: where it is, its state folder, its store, its loaded file."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rota.model.clock import Clock
from rota.model.errors import StateError
from rota.settings import FILE_NAME, STATE_NAME

if TYPE_CHECKING:
    from rota.store.sqlite import SqliteStore

GITIGNORE = "*\n"
_STATE_KEY = re.compile(r"^(state\s*:|[\"']state[\"']\s*:|[{\[])", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a project and its state are, known without reading all of its file.

    Inside a project that this one includes, `scope` is the name under which it does, and `inner` the folder there.
    """

    folder: Path
    state: Path
    scope: str = ""
    inner: Path | None = None

    @property
    def nearest(self) -> Path:
        """The folder whose file a person here means: that of the included project, else the project's own."""
        return self.inner or self.folder


def in_scope(name: str, scope: str) -> bool:
    """Tell whether a job belongs to an included project; every job does where none is named.

    >>> in_scope("api/triage", "api"), in_scope("web/triage", "api"), in_scope("web/triage", "")
    (True, False, True)
    """
    return not scope or name.startswith(f"{scope}/")


def locate(directory: str | None, environ: Mapping[str, str], cwd: Path) -> Place:
    """Find the project: --dir, ROTA_DIR, the nearest rota.yaml upwards, the user's own; and its state.

    The state is ROTA_STATE, `state:`, or .rota. A project that another one includes is found as a part of that one,
    unless --dir names it.
    """
    from rota.declare.files import find_project, nearest_project
    from rota.operations.including import find_inclusion, known_hosts

    folder = find_project(directory, environ, cwd)
    nearest = None if directory else nearest_project(cwd)
    hosts = [folder] if environ.get("ROTA_DIR") else [*_scheduler_of_run(environ), *known_hosts(environ)]
    inclusion = find_inclusion(nearest, hosts, environ) if nearest else None
    if inclusion is None:
        return Place(folder, state_of(folder, environ))
    return Place(inclusion.host, state_of(inclusion.host, environ), inclusion.name, nearest)


def _scheduler_of_run(environ: Mapping[str, str]) -> list[Path]:
    """Return the project whose scheduler started the run that this environment is of, if it is one."""
    told = environ.get("ROTA_SCHEDULER_DIR")
    return [Path(told)] if told and environ.get("ROTA_RUN_ID") else []


def state_of(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the state folder of a project: ROTA_STATE, that of the scheduler in a run of its, `state:`, or .rota.

    A run may look at other projects: what it was told about its own scheduler is not about those.
    """
    if environ.get("ROTA_STATE"):
        return (folder / Path(environ["ROTA_STATE"]).expanduser()).absolute()
    told = environ.get("ROTA_STATE_DIR")
    if told and any(os.path.realpath(own) == os.path.realpath(folder) for own in _scheduler_of_run(environ)):
        return Path(told)
    text = (folder / FILE_NAME).read_text("utf-8", errors="replace")
    if not _STATE_KEY.search(text):
        return folder / STATE_NAME
    from rota.declare.files import load

    written = load(folder / FILE_NAME).data.get("state")
    return (folder / Path(written).expanduser()).absolute() if isinstance(written, str) else folder / STATE_NAME


def make_state(state: Path) -> bool:
    """Make the state folder: 0700, with its own .gitignore. Tell whether it is new."""
    try:
        state.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        return _keep_private(state)
    except OSError as error:
        raise StateError(
            f"cannot make the state folder {state}: {error.strerror}", hint="set `state:` or ROTA_STATE"
        ) from None
    from rota.store.sqlite import reachable

    with reachable(state):
        (state / ".gitignore").write_text(GITIGNORE)
    return True


def _keep_private(state: Path) -> bool:
    if not state.is_dir():
        raise StateError(f"the state folder {state} is a file", hint="move it away, or set `state:` or ROTA_STATE")
    from rota.store.sqlite import reachable

    with reachable(state):
        if not (state / ".gitignore").exists():
            (state / ".gitignore").write_text(GITIGNORE)
        if state.stat().st_mode & 0o077:
            os.chmod(state, 0o700)
    return False


def open_state(state: Path, clock: Clock, *, create: bool) -> "SqliteStore":
    """Open the database of a state folder; without `create` it must be there."""
    from rota.store.migrate import open_store

    if create:
        make_state(state)
    return open_store(state / "rota.db", now=clock.now(), create=create)
