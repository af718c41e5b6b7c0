"""The versions of a job: what it was, from when to when, and what each of them changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from rota.declare.differences import differences
from rota.operations.jobs import find_job
from rota.store import jobs
from rota.store.driver import Database, Store
from rota.store.jobs import Version

NEWEST = 2**62
FIRST = ("made",)


@dataclass(frozen=True, slots=True)
class VersionView:
    """A version of a job, and what differs from the one before it, in the words of the file."""

    version: Version
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Versions:
    """Some versions of a job, newest first; `below` is where the older ones begin, None at the end."""

    shown: tuple[VersionView, ...]
    below: int | None


def list_versions(store: Store, name: str, *, below: int | None = None, limit: int = 10) -> Versions:
    """Return the newest versions of a job, or the next ones below a number."""
    return store.read(partial(versions_in, name=name, below=below, limit=limit))


def versions_in(db: Database, *, name: str, below: int | None = None, limit: int = 10) -> Versions:
    """Return versions inside a transaction."""
    found = jobs.versions(db, find_job(db, name).id, below=NEWEST if below is None else below, limit=limit + 1)
    shown = [VersionView(after, _changes(before, after)) for after, before in pairwise(found)]
    if len(found) <= limit:
        shown += [VersionView(oldest, FIRST) for oldest in found[-1:]]
    return Versions(tuple(shown), shown[-1].version.number if len(found) > limit and shown else None)


def _changes(before: Version, after: Version) -> tuple[str, ...]:
    """Return what a version changed: keys of the job, or only whether it fires."""
    told = (*differences(before.spec, after.spec), *_turned(before, after))
    return told or ("stored again",)


def _turned(before: Version, after: Version) -> Sequence[str]:
    if before.paused != after.paused:
        return ("paused",) if after.paused else ("resumed",)
    if before.schedules != after.schedules and before.spec.enabled == after.spec.enabled:
        return ("fires from here on",) if after.schedules else ("fires no more",)
    return ()
