"""The secrets of jobs and targets: list, store and remove them. No value is shown."""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rota.model.errors import InvalidValue, RotaError
from rota.model.notifications import Target
from rota.model.serialize import encode, fields_json
from rota.model.spec import JobSpec, SecretOrigin
from rota.model.store_url import secrets_of
from rota.operations.project.locate import make_state, write_private
from rota.runners.environment import FILE_NAME, NO_ORIGINS, read_env_file

if TYPE_CHECKING:
    from rota.settings import Settings
    from rota.store.driver import Store

LONGEST = 64 * 1024
PING = "scheduler.ping_url"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ASSIGNS = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=")
_KEYS = ("secret", "address_secret", "app_secret", "proxy_secret", "client_secret")
_LISTS = ("signing",)


class SecretSource(StrEnum):
    """Where a secret comes from: the first three in this order, unless `secrets:` of the file names the origin."""

    CREDENTIAL = "credential"
    ENVIRONMENT = "environment"
    FILE = "secrets.env"
    COMMAND = "command"
    PLACE = "file"
    KEYRING = "keyring"
    MISSING = "missing"


class SecretView(Struct, frozen=True):
    """A secret: its name, its source, and the jobs and `notify` targets that use it."""

    name: str
    source: SecretSource
    jobs: tuple[str, ...]
    targets: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    """The other sections of the file that name it: `scheduler.ping_url` and `http`."""
    store: bool = False
    """Whether the address of the store names it."""
    origin: str = ""
    """Its command, file or entry of the keyring, as `secrets:` of the file has it."""


def look_at_secrets(
    store: "Store | None",
    state: Path,
    environ: Mapping[str, str],
    *,
    address: str = "",
    settings: "Settings | None" = None,
) -> list[SecretView]:
    """Return the secrets of stored jobs, targets and the store's address, and unused ones; read no value."""
    from rota.operations.jobs import list_jobs
    from rota.store.tables import notifications

    jobs = _named((view.job.name, view.job.spec) for view in (list_jobs(store) if store is not None else ()))
    targets = _named(store.read(notifications.targets).items()) if store is not None else {}
    origins = settings.secrets if settings is not None else NO_ORIGINS
    sections = _named(_sections(settings)) if settings is not None else {}
    stored = _stored(state)
    return [
        SecretView(
            name,
            _source(name, stored, environ, origins=origins),
            tuple(jobs.get(name, ())),
            tuple(targets.get(name, ())),
            tuple(sections.get(name, ())),
            store=name in secrets_of(address),
            origin=origins[name].title if name in origins else "",
        )
        for name in sorted({*jobs, *targets, *sections, *stored, *secrets_of(address), *origins})
    ]


def missing_secrets(
    specs: Iterable[JobSpec], settings: "Settings", state: Path, environ: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return the missing secrets of these jobs and of the settings, each with its users."""
    stored, origins = _stored(state), settings.secrets
    of_file = [(f"notify.{name}", target) for name, target in settings.notify.items()]
    named = _named([*((spec.name, spec) for spec in specs), *of_file, *_sections(settings)])
    return {
        name: users
        for name, users in sorted(named.items())
        if _source(name, stored, environ, origins=origins) is SecretSource.MISSING
    }


def notes_on_targets(
    specs: Iterable[JobSpec],
    targets: Mapping[str, Target],
    state: Path,
    environ: Mapping[str, str],
    *,
    ping: Target | None = None,
    origins: Mapping[str, SecretOrigin] = NO_ORIGINS,
) -> tuple[str, ...]:
    """Return notes on targets and a `scheduler.ping_url` whose secret is missing, such as a chat without a token."""
    of_file = [(f"notify.{name}", target) for name, target in targets.items()]
    named = _named([*of_file, *((spec.name, target) for spec in specs for target in spec.own_targets), (PING, ping)])
    try:
        stored = _stored(state)
    except RotaError:
        return ()  # nothing can be said of a file that cannot be read; runs and `rota doctor` tell why
    return tuple(
        f"{user}: no {'ping' if user == PING else 'notification'} is sent without the secret {name}; "
        f"`rota secrets set {name}` stores it, "
        "unless the scheduler's own environment or `secrets:` of rota.yaml has it"
        for name, namers in sorted(named.items())
        if _source(name, stored, environ, origins=origins) is SecretSource.MISSING
        for user in dict.fromkeys(namers)
    )


def _sections(settings: "Settings") -> list[tuple[str, Any]]:
    return [(PING, settings.scheduler.ping), ("http", settings.http)]


def _named(definitions: Iterable[tuple[str, Any]]) -> dict[str, list[str]]:
    """Return the users of each secret."""
    named: dict[str, list[str]] = {}
    for user, definition in definitions:
        for name in sorted(set(_names(encode(definition)))):
            named.setdefault(name, []).append(user)
    return named


def _names(value: Any) -> Iterator[str]:
    """Yield the names of secrets in a definition, wherever they stand."""
    if isinstance(value, dict):
        for key, below in value.items():
            if key in _KEYS and isinstance(below, str) and below:
                yield below
            elif key in _LISTS and isinstance(below, list):
                yield from (one for one in below if isinstance(one, str))
            else:
                yield from _names(below)
    elif isinstance(value, list):
        for below in value:
            yield from _names(below)


def _source(
    name: str, stored: Mapping[str, str], environ: Mapping[str, str], *, origins: Mapping[str, SecretOrigin]
) -> SecretSource:
    if name in origins:
        return SecretSource(origins[name].kind)
    credentials = environ.get("CREDENTIALS_DIRECTORY")
    if credentials and _NAME.fullmatch(name) and (Path(credentials) / name).is_file():
        return SecretSource.CREDENTIAL
    if name in environ:
        return SecretSource.ENVIRONMENT
    return SecretSource.FILE if name in stored else SecretSource.MISSING


def _stored(state: Path) -> Mapping[str, str]:
    path = state / FILE_NAME
    return read_env_file(path) if path.is_file() else {}


def refuse_declared(name: str, origins: Mapping[str, SecretOrigin]) -> None:
    """Refuse to store a secret that the file says to read elsewhere: the stored value would have no effect."""
    if name in origins:
        what = f"`secrets:` in rota.yaml reads {name} from its {origins[name].kind}, {origins[name].title}"
        raise InvalidValue(what, hint="change it there, or remove it from `secrets:`")


def store_secret(state: Path, name: str, value: str) -> bool:
    """Write a secret into secrets.env, readable by its owner alone; return whether it existed."""
    from rota.store.sqlite.store import reachable

    if not _NAME.fullmatch(name):
        raise InvalidValue(f"{name!r} cannot be a secret's name", hint="use letters, digits and _, no digit first")
    if not value or "\0" in value or len(value) > LONGEST:
        raise InvalidValue("the value is empty or cannot be stored", hint=f"it has 1 to {LONGEST:,} characters")
    make_state(state)
    path = state / FILE_NAME
    with reachable(path):
        before = path.read_text("utf-8").splitlines() if path.exists() else []
        kept = [line for line in before if not _assigns(line, name)]
        write_private(path, "\n".join([*kept, f"{name}={_quoted(value)}"]) + "\n")
    return len(kept) < len(before)


def drop_secret(state: Path, name: str, *, dry_run: bool = False) -> None:
    """Take a secret out of secrets.env; other lines stay as they are."""
    from rota.store.sqlite.store import reachable

    path = state / FILE_NAME
    if name not in _stored(state):
        hint = "`rota secrets` shows where each comes from; one of the environment or of a credential is removed there"
        raise InvalidValue(f"{path} has no secret {name!r}", hint=hint)
    if not dry_run:
        with reachable(path):
            kept = [line for line in path.read_text("utf-8").splitlines() if not _assigns(line, name)]
            write_private(path, "".join(f"{line}\n" for line in kept))


def _assigns(line: str, name: str) -> bool:
    match = _ASSIGNS.match(line)
    return match is not None and match[1] == name


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def secret_json(view: SecretView) -> dict[str, Any]:
    """Return a secret as JSON, without its value."""
    shape = fields_json(view, "name", "source", "origin", "jobs", "targets", "sections", "store")
    return {**shape, "origin": view.origin or None}
