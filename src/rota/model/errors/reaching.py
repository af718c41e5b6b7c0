"""What rota starts, asks and tells: processes, secrets, work sources, addresses, targets of notifications."""

from collections.abc import Sequence

from rota.model.errors.root import RotaError, guess, shown


class SpawnFailed(RotaError):
    """A process could not be started."""

    code = "spawn_failed"


class WorkspaceFailed(SpawnFailed):
    """The folder that an agent is to work in could not be made."""

    code = "workspace_failed"


class SpawnerLost(SpawnFailed):
    """The spawner process ended before it answered."""

    code = "spawner_lost"


class SecretMissing(RotaError):
    """A secret that a job refers to is in none of the places."""

    code = "secret_missing"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"secret {name!r} is in none of $CREDENTIALS_DIRECTORY, the scheduler's environment, secrets.env",
            hint=f"set it in one of them, for example with `rota secrets set {name}`, and try again",
        )


class SourceError(RotaError):
    """A work source could not be asked, or told.

    `status` is what its server answered, `again_after` how many seconds that wants to be left alone.
    """

    code = "source_error"

    def __init__(
        self, message: str, *, hint: str = "", status: int | None = None, again_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.again_after = again_after


class AddressRefused(RotaError):
    """An address that rota does not connect to: it is private, or not as it must be written."""

    code = "address_refused"


class AddressUnknown(RotaError):
    """A name that has no address at this moment."""

    code = "address_unknown"

    def __init__(self, name: str, why: str = "it has no address") -> None:
        super().__init__(f"{shown(name)} cannot be resolved: {why}", hint="look at the name, and at the network")


class UnknownTarget(RotaError):
    """No target of notifications has this name."""

    code = "unknown_target"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no target is named {shown(name)}", hint=f"{guess(near)}list them with `rota notify`")


class UnknownDelivery(RotaError):
    """No delivery, or more than one, is named so."""

    code = "unknown_delivery"

    def __init__(self, name: str, *, several: bool = False) -> None:
        what = "more than one delivery ends with" if several else "no delivery is named"
        super().__init__(f"{what} {shown(name)}", hint="list them with `rota deliveries`")
