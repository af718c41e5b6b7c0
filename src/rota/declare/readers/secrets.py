"""The section `secrets`: where the file says that a secret is read at each use. No value stands in the file."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.declare.problems import ENV_NAME, BadValue, ProblemList, between, read_text, shown, wrong_type
from rota.declare.readers.values import one_of, read_command, read_keys
from rota.model.spec import SecretOrigin

HINT = "write `NAME: {command: [op, read, op://vault/item/field]}`, {file: path} or {keyring: service/account}"
KINDS = ("command", "file", "keyring")
_TIMEOUT = between(timedelta(seconds=1), timedelta(minutes=5), said="1s and 5m")


class _KeyringEntry(Struct, frozen=True):
    """An entry of the keyring."""

    service: str
    account: str


def read_secret_name(value: Any) -> str:
    """Return the name of a secret, which `{secret: NAME}` refers to."""
    if not isinstance(value, str) or not ENV_NAME.fullmatch(value):
        raise BadValue(f"{shown(value)} cannot be a secret's name", hint="use letters, digits and _, no digit first")
    return value


def read_origin(value: Any) -> SecretOrigin:
    """Return where one secret is read."""
    if not isinstance(value, Mapping):
        hint = f"{HINT}; `rota secrets set NAME` stores a value outside the file"
        raise (
            wrong_type(None, "an origin", hint=hint)
            if value is None
            else BadValue("is not an origin of a secret", code="wrong_type", hint=hint)
        )
    readers = {"command": read_command, "file": read_text, "keyring": _read_entry, "timeout": _TIMEOUT}
    with ProblemList() as problems:
        keys = read_keys(value, readers, problems=problems, hint=HINT)
        if not one_of(KINDS, value, problems=problems):
            written = [kind for kind in KINDS if kind in value]
            message = f"has {' and '.join(written)}" if written else "has no origin"
            code = "conflict" if written else "missing_value"
            raise BadValue(message, code=code, hint=f"keep one of {', '.join(KINDS)}")
    entry = keys.pop("keyring", _KeyringEntry("", ""))
    return SecretOrigin(**keys, service=entry.service, account=entry.account)


def _read_entry(value: Any) -> _KeyringEntry:
    service, _, account = read_text(value).strip().partition("/")
    if not service or not account or service.startswith("-"):
        raise BadValue(f"{shown(value)} is not an entry of a keyring", hint="write `keyring: service/account`")
    return _KeyringEntry(service, account)


def placed(origins: Mapping[str, SecretOrigin], folder: str, place: Callable[..., str]) -> dict[str, SecretOrigin]:
    """Return origins whose paths are absolute; a program without a slash is searched in PATH."""
    found: dict[str, SecretOrigin] = {}
    for name, origin in origins.items():
        if origin.file:
            found[name] = replace(origin, file=place(origin.file))
        elif origin.command:
            found[name] = replace(
                origin, command=(place(origin.command[0], program=True), *origin.command[1:]), cwd=folder
            )
        else:
            found[name] = origin
    return found
