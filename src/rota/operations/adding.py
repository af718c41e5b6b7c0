"""Adding a job to a project's file: checked before it is written, and written whole or not at all."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rota.declare.adding import Insertion, insert_job
from rota.declare.files import parse
from rota.declare.notes import notes_on, refuse_past
from rota.declare.validate import Declared
from rota.model.errors import FileProblems, InvalidValue, Problem, StateError
from rota.model.spec import JobSpec
from rota.operations.loading import load_project
from rota.operations.project import Place
from rota.settings import FILE_NAME


@dataclass(frozen=True, slots=True)
class Added:
    """A job that was, or would be, put into the file."""

    spec: JobSpec
    file: Path
    insertion: Insertion
    declared: Declared
    notes: tuple[str, ...] = ()


def add_job(
    place: Place,
    name: str,
    keys: Mapping[str, Any],
    *,
    environ: Mapping[str, str],
    now: datetime,
    dry_run: bool = False,
) -> Added:
    """Put a job into the project's file; raise FileProblems when the file is not right, with it or without it.

    Inside an included project that one's file is meant, checked as it is included.
    """
    file = Path(os.path.realpath(place.nearest / FILE_NAME))
    load_project(place.folder, environ, now=now)
    before = file.read_bytes()
    insertion = insert_job(before, name, keys)
    declared = _checked(place, insertion, name=name, environ=environ, now=now)
    if not dry_run:
        replace_file(file, insertion.content, before=before)
    spec = _named(declared, place, name)
    return Added(spec, file, insertion, declared, notes_on([spec], now=now, environ=environ))


def _named(declared: Declared, place: Place, name: str) -> JobSpec:
    whole = f"{place.scope}/{name}" if place.scope else name
    return next(spec for spec in declared.jobs if spec.name == whole)


def _checked(place: Place, insertion: Insertion, *, name: str, environ: Mapping[str, str], now: datetime) -> Declared:
    try:
        found = load_project(place.folder, environ, now=now, content=insertion.content, inner=place.inner).declared
        refuse_past(_named(found, place, name), now=now)
        return found
    except FileProblems as error:
        raise FileProblems([_unplaced(problem, name) for problem in error.problems]) from None


def _unplaced(problem: Problem, name: str) -> Problem:
    """Return a problem of the new lines without a place: they are in no file yet."""
    ours = problem.path == f"jobs.{name}" or problem.path.startswith(f"jobs.{name}.")
    return replace(problem, file="rota add", line=0, column=0) if ours else problem


def read_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Return the keys that `--set key=value` gives; a dot leads into a map, and values are read as the file's are.

    >>> read_settings(["timeout=1h", "env.LANG=C", "labels=[a, b]"])
    {'timeout': '1h', 'env': {'LANG': 'C'}, 'labels': ['a', 'b']}
    """
    keys: dict[str, Any] = {}
    for setting in settings:
        path, sign, value = setting.partition("=")
        parts = path.strip().split(".")
        if not sign or not all(parts):
            raise InvalidValue(f"{setting!r} sets nothing", hint="write --set key=value, such as --set timeout=1h")
        _set(keys, parts, _value(value), setting)
    return keys


def _set(keys: dict[str, Any], parts: Sequence[str], value: Any, setting: str) -> None:
    for part in parts[:-1]:
        keys = keys.setdefault(part, {})
        if not isinstance(keys, dict):
            raise InvalidValue(f"{setting!r} sets a key of something that is no map", hint="give each key one value")
    if parts[-1] in keys:
        raise InvalidValue(f"{setting!r} sets a key that is set already", hint="give each key one value")
    keys[parts[-1]] = value


def _value(text: str) -> Any:
    """Return what the file would read; a text that is no YAML is meant as it is."""
    try:
        document = parse(f"value: {text}\n".encode())
    except FileProblems:
        return text
    plain = not document.problems and set(document.data) == {"value"}
    return document.data["value"] if plain and document.data["value"] is not None else text


def replace_file(file: Path, content: bytes, *, before: bytes) -> None:
    """Put `content` in the place of a file in one step, with the same mode; refuse if it is not `before` any more."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        if file.read_bytes() != before:
            raise InvalidValue(f"{file} was changed meanwhile", hint="nothing was written; run the command again")
        _write(fresh, content, mode=file.stat().st_mode & 0o7777)
        os.replace(fresh, file)
        _sync(file.parent)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise StateError(f"cannot write {file}: {error.strerror}", hint="nothing was changed; check its mode") from None


def _write(path: Path, content: bytes, *, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
