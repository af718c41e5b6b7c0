"""One thing wrong with what a user wrote, and which of them are there because of another one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rota.declare.fields import Refused
from rota.declare.files import KeyPath


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing wrong with a job; the path starts below the job. It follows from what is wrong with `looks_at`."""

    path: KeyPath
    message: str
    code: str = "conflict"
    hint: str = ""
    looks_at: tuple[str, ...] = ()


def troubles_below(key: str, refused: Iterable[Refused], *, looks_at: tuple[str, ...] = ()) -> list[Trouble]:
    """Return what was refused in the value of a key."""
    return [Trouble((key, *one.at), one.message, one.code, one.hint, looks_at) for one in refused]


def troubles_of(refused: Refused, *, looks_at: tuple[str, ...] = ()) -> list[Trouble]:
    """Return what was refused in a job."""
    return [Trouble(one.at, one.message, one.code, one.hint, looks_at) for one in refused.each]


def independent(troubles: Sequence[Trouble], found: Sequence[Trouble]) -> list[Trouble]:
    """Return the troubles that would be there also if keys with one of `found` had not been left out."""
    return [trouble for trouble in troubles if not _follows(trouble, found)] if found else list(troubles)


def _follows(trouble: Trouble, found: Sequence[Trouble]) -> bool:
    bad = {other.path[0] for other in found if other.path}
    if trouble.path and any(_overlap(trouble.path, other.path) for other in found if other.path):
        return True
    mistyped = any(other.code == "unknown_key" and len(other.path) == 1 for other in found)
    return bool(trouble.looks_at) and (mistyped or not bad.isdisjoint(trouble.looks_at))


def _overlap(one: KeyPath, other: KeyPath) -> bool:
    """Tell whether one place is inside of the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]
