"""Projects that include others: whom a folder is included by, which files belong together, who is served already."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rota.declare.include import Included, IncludeMatches, find_included, written_patterns
from rota.declare.yaml import Stamp, home_of, stamp_of, user_folder, user_state
from rota.settings import FILE_NAME

REGISTRY = "included.json"
HOSTS = "including"
NOTHING = IncludeMatches()


@dataclass(frozen=True, slots=True)
class Inclusion:
    """A project that includes another one, and the name under which it knows it."""

    host: Path
    name: str


def find_inclusion(folder: Path, hosts: Sequence[Path], environ: Mapping[str, str]) -> Inclusion | None:
    """Return the first of `hosts` that includes the project in `folder`; their jobs are not read for it."""
    wanted = os.path.realpath(folder)
    for host in hosts:
        if os.path.realpath(host) == wanted:
            continue
        for one in _found(host / FILE_NAME, home_of(environ)).projects:
            if os.path.realpath(one.folder) == wanted:
                return Inclusion(host, one.name)
    return None


def _found(file: Path, home: str) -> IncludeMatches:
    patterns = written_patterns(file)
    return find_included(patterns, file, home=home) if patterns else NOTHING


def parts_of(file: Path, home: str) -> tuple[Included, ...]:
    """Return the files that a project's file is split into."""
    return _found(file, home).parts


def known_hosts(environ: Mapping[str, str]) -> list[Path]:
    """Return the projects that may include others: the user's own file, then those that were applied or served."""
    return [user_folder(environ), *_registered(environ)]


def _registered(environ: Mapping[str, str]) -> list[Path]:
    try:
        told = json.loads((user_state(environ) / REGISTRY).read_bytes())
        return [Path(host) for host in told[HOSTS]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def remember_host(folder: Path, environ: Mapping[str, str], *, includes: bool) -> None:
    """Note that a project includes others, or no longer, so that commands inside those find it; stale ones are dropped.

    The user's own file is found without. Raises OSError where the note cannot be written.
    """
    known = _registered(environ)
    own = [folder] if includes and folder != user_folder(environ) else []
    others = [host for host in known if host != folder and (host / FILE_NAME).is_file()]
    hosts = sorted([*others, *own])
    if hosts != known:
        _write(user_state(environ) / REGISTRY, json.dumps({HOSTS: [str(host) for host in hosts]}, indent=2))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text + "\n", "utf-8")
    os.replace(fresh, path)


@dataclass(slots=True)
class FilesTogether:
    """The files that a project consists of, found again without reading those that did not change."""

    file: Path
    home: str
    _patterns: dict[Path, tuple[Stamp | None, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def many(self) -> bool:
        """Whether the file named patterns when it was looked at last."""
        return bool(self._patterns.get(self.file, (None, ()))[1])

    def stamps(self) -> tuple[object, ...]:
        """Return what changes when a file changes, comes or goes."""
        return tuple(self._stamps())

    def _stamps(self) -> Iterator[object]:
        own = stamp_of(self.file)
        yield own
        found = self._look(self.file, own)
        yield from found.problems
        for one in found.files:
            stamp = stamp_of(one.path)
            yield one.path, stamp
            if one.name:
                yield from ((part.path, stamp_of(part.path)) for part in self._parts(one, stamp))

    def _parts(self, one: Included, stamp: Stamp | None) -> tuple[Included, ...]:
        return self._look(one.path, stamp, base=self.file.parent).parts

    def _look(self, file: Path, stamp: Stamp | None, *, base: Path | None = None) -> IncludeMatches:
        known = self._patterns.get(file)
        if known is None or known[0] != stamp:
            known = self._patterns[file] = (stamp, written_patterns(file))
        return find_included(known[1], file, home=self.home, base=base) if known[1] else NOTHING
