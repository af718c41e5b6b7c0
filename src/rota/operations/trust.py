"""Trust in a project's folder: only a trusted project may run its own code when a command only reads it.

The record is in the user's own state folder, never in a project: a file for each, named by a digest of path and owner.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from rota.declare.files import user_state
from rota.declare.validate import read_project
from rota.model.errors import FolderUntrusted, RotaError

RECORDS = "trusted"
VARIABLE = "ROTA_TRUST"
"""In the environment: folders that are trusted too, as in PATH. For machines without a home folder to write to."""


def is_trusted(folder: Path, environ: Mapping[str, str]) -> bool:
    """Tell whether the project in this folder is trusted, and the folder still has the owner that it had then."""
    told = [place for place in environ.get(VARIABLE, "").split(os.pathsep) if os.path.isabs(place)]
    real = os.path.realpath(folder)
    return any(os.path.realpath(place) == real for place in told) or _record(folder, environ).is_file()


def set_trust(folder: Path, environ: Mapping[str, str], *, trusted: bool = True) -> None:
    """Record that a project is trusted, or no longer. Raises OSError where that is not possible."""
    record = _record(folder, environ)
    if not trusted:
        record.unlink(missing_ok=True)
    elif not record.is_file():
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        record.write_bytes(os.fsencode(os.path.realpath(folder)) + b"\n")


def require_trust(
    folder: Path, environ: Mapping[str, str], *, now: datetime, ask: Callable[[Sequence[str]], bool]
) -> None:
    """Require trust before a command acts on a project; raise FolderUntrusted where `ask` returns False.

    `ask` gets the Python modules that the files name. A project without modules becomes trusted without a question:
    applying or serving it already lets its commands run.
    """
    if is_trusted(folder, environ):
        return
    modules, right = named_modules(folder, environ, now=now)
    if modules and not ask(modules):
        raise FolderUntrusted(str(folder), modules)
    if modules or right:
        with contextlib.suppress(OSError):  # without a record the next command asks again
            set_trust(folder, environ)


def named_modules(folder: Path, environ: Mapping[str, str], *, now: datetime) -> tuple[tuple[str, ...], bool]:
    """Return the Python modules that the files of a project name, and whether the files are right; import nothing."""
    modules: dict[str, None] = {}
    try:
        read_project(folder, environment=environ, now=now, imports=False, lenient=True, modules=modules)
    except RotaError:
        return tuple(modules), False
    return tuple(modules), True


def _record(folder: Path, environ: Mapping[str, str]) -> Path:
    real = os.path.realpath(folder)
    try:
        owner = os.stat(real).st_uid
    except OSError:
        owner = -1
    return user_state(environ) / RECORDS / hashlib.sha256(os.fsencode(f"{real}\0{owner}")).hexdigest()
