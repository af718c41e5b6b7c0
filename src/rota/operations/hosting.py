"""Two schedulers must not run the same jobs: an included project is served by the including one alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rota.declare.including import Included
from rota.engine.lock import SERVE_LOCK, is_held, serving_pid
from rota.model.errors import ProjectIncluded, ProjectServed
from rota.operations.including import find_inclusion, known_hosts
from rota.operations.project import Place, state_of


def refuse_served(projects: Sequence[Included], state: Path) -> None:
    """Refuse included projects that a scheduler of their own serves; `state` is that of the including one."""
    for one in projects:
        own = state_of(one.folder, {})
        if own != state and is_held(own / SERVE_LOCK):
            raise ProjectServed(one.file, str(one.folder), pid=serving_pid(own))


def refuse_included(place: Place, environ: Mapping[str, str], *, verb: str) -> None:
    """Refuse to serve a project alone while one that includes it is served."""
    inclusion = find_inclusion(place.folder, known_hosts(environ), environ)
    if inclusion is not None and is_held(state_of(inclusion.host, {}) / SERVE_LOCK):
        raise ProjectIncluded(str(place.folder), str(inclusion.host), verb=verb)
