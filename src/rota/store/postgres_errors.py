"""What PostgreSQL refuses, as errors of ours that name the database and a remedy."""

import contextlib
from collections.abc import Iterator

import psycopg

from rota.model.errors import DatabaseBusy, DatabaseCorrupt, DatabaseReadOnly, StateError, StorageFull
from rota.store.invariants import refused

NO_LOCK = "55P03"
NO_RIGHTS = ("25006", "42501")
NOT_AS_MADE = ("42P01", "42703", "42883")
_CONSTRAINT, _NO_ROOM, _SERVER = "23", "53", ("57", "58", "XX")


@contextlib.contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn the server's errors into ours; constraints that are no invariants stay what they are."""
    try:
        yield
    except psycopg.Error as error:
        found = ours(place, error)
        if found is error:
            raise
        raise found from error


def busy(place: str, error: BaseException) -> DatabaseBusy:
    """Return the error of a transaction that others did not let through."""
    return DatabaseBusy(
        f"others keep the database {place} from being written ({first_line(error)})",
        hint="try again; `rota doctor` tells how the database is",
    )


def first_line(error: BaseException) -> str:
    """Return what an error says, without details."""
    return str(error).strip().partition("\n")[0]


def ours(place: str, error: Exception) -> Exception:
    """Return an error of ours that says what the server's means, or the error itself."""
    found = _meant(place, error) if isinstance(error, psycopg.Error) else None
    if found is None:
        return error
    found.__cause__ = error
    return found


def _meant(place: str, error: psycopg.Error) -> Exception | None:
    state, text = error.sqlstate or "", first_line(error)
    if state.startswith(_CONSTRAINT):
        return refused(text)
    if state == NO_LOCK:
        return DatabaseBusy(
            f"others hold rows of the database {place} that this needs",
            hint="try again; `pg_stat_activity` of the server tells who holds them",
        )
    if state.startswith(_NO_ROOM):
        return StorageFull(
            f"the server of {place} has no room ({text})", hint="free some space there; rota goes on by itself"
        )
    if state in NO_RIGHTS:
        return DatabaseReadOnly(
            f"the database {place} cannot be written ({text})",
            hint="rota needs a role that owns its tables and their schema, on a server that is no standby",
        )
    if state in NOT_AS_MADE:
        return DatabaseCorrupt(
            f"the database {place} is not as rota made it ({text})",
            hint="nothing was changed; put back a dump, or name an empty database to start anew",
        )
    if state.startswith(_SERVER):
        return StateError(f"the server of {place} refused ({text})", hint="its log tells more")
    return None
