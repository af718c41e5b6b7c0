"""The state folder, its database and its backups; and files that cannot be written."""

from collections.abc import Sequence

from rota.model.errors.root import RotaError

NAMED = 3
"""How many processes a message names; the others are counted."""


class StateError(RotaError):
    """The state folder or database cannot be used as it is."""

    code = "state"


class DatabaseForeign(StateError):
    """The database file was not made by rota."""

    code = "database_foreign"


class DatabaseNewer(StateError):
    """The database was made by a newer rota."""

    code = "database_newer"


class UpgradeBlocked(StateError):
    """The database has to be upgraded, but processes of an older rota are at work on it."""

    code = "upgrade_blocked"

    def __init__(self, place: str, who: Sequence[str], *, schema: int, wanted: int, hint: str) -> None:
        more = f" and {len(who) - NAMED} more" if len(who) > NAMED else ""
        told = f"{', '.join(who[:NAMED])}{more}"
        form = f"is of schema {schema} and has to be upgraded to {wanted} for this rota"
        super().__init__(f"the database {place} {form}, but is in use by {told}", hint=hint)


class DatabaseCorrupt(StateError):
    """The database file is damaged."""

    code = "database_corrupt"


class DatabaseReadOnly(StateError):
    """The database or its folder cannot be written."""

    code = "database_read_only"


class StorageFull(StateError):
    """The disk is full."""

    code = "storage_full"


class DatabaseBusy(StateError):
    """Another process holds the database for too long."""

    code = "database_busy"


class DatabaseGone(StateError):
    """The server of the database cannot be reached."""

    code = "database_gone"


class InvariantRefused(RotaError):
    """The database itself refused a change that would break an invariant."""

    code = "invariant"

    def __init__(self, rule: str, meaning: str) -> None:
        super().__init__(
            f"the database refused a change ({rule}): {meaning}", hint="nothing was changed; look with `rota show`"
        )
        self.rule = rule


class MoveUnfinished(StateError):
    """A move into this database was begun and not finished."""

    code = "move_unfinished"

    def __init__(self, place: str) -> None:
        hint = "run the same `rota migrate` again: it goes on where it was"
        super().__init__(f"a move into {place} was begun and is not finished", hint=hint)


class MoveRefused(RotaError):
    """One database cannot be moved into another one as they are."""

    code = "move_refused"


class MoveDiffers(StateError):
    """After a move the rows of the two databases are not the same."""

    code = "move_differs"


class StoreShared(RotaError):
    """The command is about rota's own database file, and the state is in PostgreSQL."""

    code = "store_shared"

    def __init__(self, place: str, what: str, *, tool: str) -> None:
        super().__init__(
            f"the state is in {place}, which {what}",
            hint=f"use {tool}; docs/postgresql.md has the commands",
        )


class StoreNotShared(RotaError):
    """Many machines need a database that they share."""

    code = "store_not_shared"


class BackupUnusable(RotaError):
    """A file is no backup of rota, or not whole."""

    code = "backup_unusable"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} cannot be restored: {why}", hint="nothing was changed; take another backup")


class StateExists(RotaError):
    """A restore would replace a state that is there."""

    code = "state_exists"

    def __init__(self, state: str) -> None:
        super().__init__(
            f"there is a state in {state} already",
            hint="nothing was changed; --force moves it aside, or restore into another folder with --dir",
        )


class FileExists(RotaError):
    """A file that would be written is there already."""

    code = "file_exists"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is there already", hint="nothing was written; move it away, or use another folder")


class OutputUnwritable(RotaError):
    """What a command has to say cannot be written."""

    code = "output_unwritable"

    def __init__(self, why: str) -> None:
        super().__init__(f"the output cannot be written: {why}", hint="make room there, or write it elsewhere")
