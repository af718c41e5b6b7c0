"""Projects that include others: the host of a folder, and the files of a project."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from rota.declare.include import Included, IncludeMatches, find_included, written_patterns
from rota.declare.yaml import Stamp, home_of, stamp_of, user_folder, user_state
from rota.settings import FILE_NAME

REGISTRY = "included.json"
HOSTS = "including"
NOTHING = IncludeMatches()


class Inclusion(Struct, frozen=True):
    """A project that includes another one, and its name for it."""

    host: Path
    name: str


def find_inclusion(folder: Path, hosts: Sequence[Path], environ: Mapping[str, str]) -> Inclusion | None:
    """Return the first of `hosts` that includes the project in `folder`, without reading their jobs."""
    wanted = os.path.realpath(folder)
    for host in hosts:
        if os.path.realpath(host) == wanted:
            continue
        for project in _matches(host / FILE_NAME, home_of(environ)).projects:
            if os.path.realpath(project.folder) == wanted:
                return Inclusion(host, project.name)
    return None


def _matches(file: Path, home: str) -> IncludeMatches:
    patterns = written_patterns(file)
    return find_included(patterns, file, home=home) if patterns else NOTHING


def parts_of(file: Path, home: str) -> tuple[Included, ...]:
    """Return the parts of a project's file."""
    return _matches(file, home).parts


def known_hosts(environ: Mapping[str, str]) -> list[Path]:
    """Return the projects that may include others: the user's own file, then registered projects."""
    return [user_folder(environ), *_registered(environ)]


def _registered(environ: Mapping[str, str]) -> list[Path]:
    try:
        registry = json.loads((user_state(environ) / REGISTRY).read_bytes())
        return [Path(host) for host in registry[HOSTS]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def remember_host(folder: Path, environ: Mapping[str, str], *, includes: bool) -> None:
    """Register a project that includes others, or remove it, so that commands inside included projects find it.

    Missing projects are removed; the user's own file needs no entry. Raise OSError if the registry cannot be written.
    """
    registered = _registered(environ)
    own = [folder] if includes and folder != user_folder(environ) else []
    others = [host for host in registered if host != folder and (host / FILE_NAME).is_file()]
    hosts = sorted([*others, *own])
    if hosts != registered:
        _write(user_state(environ) / REGISTRY, json.dumps({HOSTS: [str(host) for host in hosts]}, indent=2))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text + "\n", "utf-8")
    os.replace(fresh, path)


class FilesTogether(Struct):
    """The files of a project; unchanged files are not read again."""

    file: Path
    home: str
    _patterns: dict[Path, tuple[Stamp | None, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def many(self) -> bool:
        """Whether the file named patterns at its last read."""
        return bool(self._patterns.get(self.file, (None, ()))[1])

    def stamps(self) -> tuple[object, ...]:
        """Return a value that changes when a file is changed, added or removed."""
        return tuple(self._stamps())

    def _stamps(self) -> Iterator[object]:
        own = stamp_of(self.file)
        yield own
        matches = self._look(self.file, own)
        yield from matches.problems
        for file in matches.files:
            stamp = stamp_of(file.path)
            yield file.path, stamp
            if file.name:
                parts = self._look(file.path, stamp, base=self.file.parent).parts
                yield from ((part.path, stamp_of(part.path)) for part in parts)

    def _look(self, file: Path, stamp: Stamp | None, *, base: Path | None = None) -> IncludeMatches:
        cached = self._patterns.get(file)
        if cached is None or cached[0] != stamp:
            cached = self._patterns[file] = (stamp, written_patterns(file))
        return find_included(cached[1], file, home=self.home, base=base) if cached[1] else NOTHING
