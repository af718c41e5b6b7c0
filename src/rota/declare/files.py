"""Reading rota.yaml: where it is, and its text as plain values with the position of each. Knows nothing of jobs."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.declare.composing import NO_MAP, SECTIONS_HINT, Composed, Stopped, compose
from rota.declare.mending import QUOTE_HINTS, Mend, mend
from rota.model.errors import FileProblems, Problem, ProjectMissing
from rota.model.records import cut
from rota.settings import FILE_NAME

SIZE_LIMIT = 1_000_000
KEY_SHOWN = 80
MENDS = 20
MEND_SIZE = 100_000

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file: plain values, where each key and item stands, and what is wrong with the YAML itself.

    What stands below a `spoilt` path is not what the user meant: nothing more is said about it.
    """

    file: str
    data: Any
    keys: Mapping[KeyPath, tuple[int, int]]
    problems: tuple[Problem, ...] = ()
    spoilt: frozenset[KeyPath] = frozenset()
    digest: str = ""

    def position(self, path: KeyPath) -> tuple[int, int]:
        """Return line and column (from 1) of the key or item at `path`, else of the nearest one that holds it."""
        while path and path not in self.keys:
            path = path[:-1]
        return self.keys.get(path, (1, 1))


def find_project(directory: str | None, environment: Mapping[str, str], cwd: Path) -> Path:
    """Return the project's folder: `--dir`, ROTA_DIR, or the nearest one upwards that holds a rota.yaml."""
    for given, origin in ((directory, "--dir"), (environment.get("ROTA_DIR"), "ROTA_DIR")):
        if given:
            return _given_folder(cwd / os.path.expanduser(given), origin)
    cwd = cwd.absolute()
    for folder in (cwd, *cwd.parents):
        if (folder / FILE_NAME).is_file():
            return folder
    raise ProjectMissing(
        f"there is no {FILE_NAME} in {cwd} or above it",
        hint="go to a project's folder, name it with --dir or ROTA_DIR, or write a first file with `rota init`",
    )


def _given_folder(place: Path, origin: str) -> Path:
    folder = place.parent if place.name == FILE_NAME and not place.is_dir() else place
    if (folder / FILE_NAME).is_file():
        return folder.resolve()
    raise ProjectMissing(
        f"there is no {FILE_NAME} in {folder} ({origin})",
        hint=f"name a folder that holds one, or write a first file with `rota init --dir {folder}`",
    )


def load(path: Path) -> Document:
    """Return the document in the file at `path`; raise FileProblems when it cannot be read at all."""
    try:
        with path.open("rb") as stream:
            content = stream.read(SIZE_LIMIT + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise FileProblems([Problem(f"cannot be read: {why}", "file_unreadable", str(path))]) from None
    return parse(content, path.name)


def parse(content: bytes, file: str = FILE_NAME) -> Document:
    """Return the document that `content` spells; raise FileProblems when it cannot be read at all."""
    if len(content) > SIZE_LIMIT:
        hint = "split the work or move long texts into files of their own"
        raise FileProblems([Problem("is larger than 1 MB", "yaml_size", file, hint=hint)])
    text = _decode(content, file)
    mends: list[Mend] = []
    while True:
        try:
            composed = compose(text)
            break
        except Stopped as stopped:
            mended = mend(text, stopped) if len(mends) < MENDS and len(text) <= MEND_SIZE else None
            if mended is None:
                raise FileProblems(_all_problems(file, Composed.empty(stopped), mends)) from None
            text = mended.text
            mends.append(mended)
    return _document(file, composed, mends=mends, digest=hashlib.sha256(content).hexdigest())


def _decode(content: bytes, file: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1
        message = f"byte 0x{content[error.start]:02x} is not UTF-8"
        problem = Problem(message, "yaml_encoding", file, line, column, hint="save the file as UTF-8")
        raise FileProblems([problem]) from None


def _document(file: str, composed: Composed, *, mends: list[Mend], digest: str) -> Document:
    problems = _all_problems(file, composed, mends)
    if not isinstance(composed.data, dict):
        top = "the file is empty" if composed.data is None else NO_MAP
        raise FileProblems([*problems, Problem(top, "yaml_top_level", file, 1, 1, hint=SECTIONS_HINT)])
    spoilt = {flaw.path for flaw in composed.flaws if flaw.code != "yaml_duplicate_key"}
    spoilt |= {composed.values.get(mended.mark, ()) for mended in mends}
    return Document(file, composed.data, composed.keys, tuple(problems), frozenset(spoilt - {()}), digest)


def _all_problems(file: str, composed: Composed, mends: list[Mend]) -> list[Problem]:
    found = [
        Problem(flaw.message, flaw.code, file, *flaw.mark, path=write_path(flaw.path), hint=flaw.hint)
        for flaw in composed.flaws
    ]
    for mended in mends:
        path = composed.values.get(mended.mark, ())
        key = f"{path[-1]}: " if path and isinstance(path[-1], str) else ""
        hint = QUOTE_HINTS[mended.code].format(key=key) + mended.quoted
        found.append(Problem(mended.message, mended.code, file, *mended.mark, path=write_path(path), hint=hint))
    return sorted(found, key=lambda problem: (problem.line, problem.column))


def write_path(path: KeyPath) -> str:
    """Return `path` as messages show it.

    >>> write_path(("jobs", "backup", "conditions", 0))
    'jobs.backup.conditions[0]'
    """
    text = ""
    for part in path:
        key = cut(part, KEY_SHOWN) if isinstance(part, str) else None
        text += f"[{part}]" if key is None else f".{key}" if text else key
    return text
