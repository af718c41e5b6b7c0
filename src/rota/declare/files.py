"""Reading rota.yaml: where it is, and its text as plain values with the position of each. Knows nothing of jobs."""

import hashlib
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
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
Stamp = tuple[int, ...]


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
    files: Mapping[KeyPath, str] = field(default_factory=dict)
    """The files of the keys that stand in another one than `file`."""

    def position(self, path: KeyPath) -> tuple[int, int]:
        """Return line and column (from 1) of the key or item at `path`, else of the nearest one that holds it."""
        while path and path not in self.keys:
            path = path[:-1]
        return self.keys.get(path, (1, 1))

    def place(self, path: KeyPath) -> tuple[str, int, int]:
        """Return file, line and column of the key or item at `path`."""
        file = next((self.files[part] for part in (path[:2], path[:1]) if part in self.files), self.file)
        return (file, *self.position(path))


def find_project(directory: str | None, environment: Mapping[str, str], cwd: Path) -> Path:
    """Return the project's folder: `--dir`, ROTA_DIR, the nearest one upwards with a rota.yaml, or the user's own."""
    for given, origin in ((directory, "--dir"), (environment.get("ROTA_DIR"), "ROTA_DIR")):
        if given:
            return _given_folder(cwd / os.path.expanduser(given), origin)
    nearest, own = nearest_project(cwd), user_folder(environment)
    if nearest is not None:
        return nearest
    if (own / FILE_NAME).is_file():
        return own
    raise ProjectMissing(
        f"there is no {FILE_NAME} in {cwd.absolute()} or above it",
        hint="go to a project's folder, name it with --dir or ROTA_DIR, or write a first file with `rota init`",
    )


def nearest_project(cwd: Path) -> Path | None:
    """Return the nearest folder upwards that holds a rota.yaml."""
    cwd = cwd.absolute()
    return next((folder for folder in (cwd, *cwd.parents) if (folder / FILE_NAME).is_file()), None)


def user_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the user's own file."""
    return _user_place(environment, "XDG_CONFIG_HOME", ".config")


def user_state(environment: Mapping[str, str]) -> Path:
    """Return the folder for what is remembered about all of the user's projects."""
    return _user_place(environment, "XDG_STATE_HOME", ".local/state")


def home_of(environment: Mapping[str, str]) -> str:
    """Return the user's home folder."""
    return environment.get("HOME") or os.path.expanduser("~")


def _user_place(environment: Mapping[str, str], variable: str, usual: str) -> Path:
    given = environment.get(variable, "")
    return Path(given if os.path.isabs(given) else os.path.join(home_of(environment), usual)) / "rota"


def _given_folder(place: Path, origin: str) -> Path:
    folder = place.parent if place.name == FILE_NAME and not place.is_dir() else place
    if (folder / FILE_NAME).is_file():
        return folder.resolve()
    raise ProjectMissing(
        f"there is no {FILE_NAME} in {folder} ({origin})",
        hint=f"name a folder that holds one, or write a first file with `rota init --dir {folder}`",
    )


def load(path: Path, *, named: str | None = None) -> Document:
    """Return the document in the file at `path`, `named` so in messages; raise FileProblems when it cannot be read."""
    found = _parsed(_content(path, named), named or path.name)
    return replace(found, data=deepcopy(found.data))


def load_again(path: Path) -> Document:
    """Return what `load` does, for who asks often and changes nothing of it."""
    return _parsed(_content(path, None), path.name)


@lru_cache(maxsize=4)
def _parsed(content: bytes, file: str) -> Document:
    """Read bytes once: one command asks for the same file two or three times, and half its time is reading YAML."""
    return parse(content, file)


def _content(path: Path, named: str | None) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(SIZE_LIMIT + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise FileProblems([Problem(f"cannot be read: {why}", "file_unreadable", named or str(path))]) from None


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
    data = {} if composed.data is None else composed.data  # no text but comments: a file that declares nothing
    if not isinstance(data, dict):
        raise FileProblems([*problems, Problem(NO_MAP, "yaml_top_level", file, 1, 1, hint=SECTIONS_HINT)])
    spoilt = {flaw.path for flaw in composed.flaws if flaw.code != "yaml_duplicate_key"}
    spoilt |= {composed.values.get(mended.mark, ()) for mended in mends}
    return Document(file, data, composed.keys, tuple(problems), frozenset(spoilt - {()}), digest)


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


def stamp_of(path: Path) -> Stamp | None:
    """Return what changes when a file is written or replaced, None for one that is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


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
