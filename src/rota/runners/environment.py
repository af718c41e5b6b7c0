"""The environment of a run, secrets included."""

import os
import pwd
import re
import stat
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from rota.model.clock import iso
from rota.model.errors import RotaError, SecretMissing, SpawnFailed
from rota.model.spec import EnvValue, SecretOrigin, Work
from rota.model.states import Trigger
from rota.model.telemetry import TRACEPARENT, Signal, span_of, wanted_signals
from rota.rules.prompts import PlaceholderValues, fill, write_param
from rota.rules.schedule.timezone import zone
from rota.runners.redacting import PARAMS, RESULT, Redactor
from rota.runners.secret_origins import read_origin

FILE_NAME = "secrets.env"
NO_ORIGINS: Mapping[str, SecretOrigin] = {}
VALUES_PER_SECRET = 4
"""How many values of one name are redacted: a changed secret may still be in use."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}


class Secrets:
    """Finds secrets for one part of the scheduler, and redacts them in the texts that come back."""

    def __init__(
        self, state: Path, environ: Mapping[str, str], origins: Callable[[], Mapping[str, SecretOrigin]] = dict
    ) -> None:
        self._state = state
        self._environ = environ
        self.origins = origins
        """Returns the origins of the loaded file."""
        self._values: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=VALUES_PER_SECRET))

    def find(self, name: str) -> str:
        """Return a secret, or raise SecretMissing."""
        credentials = self._environ.get("CREDENTIALS_DIRECTORY")
        value = find_secret(
            name, credentials=credentials, environ=self._environ, state=self._state, origins=self.origins()
        )
        if value not in self._values[name]:
            self._values[name].append(value)
        return value

    def hide(self, text: str) -> str:
        """Return a text without the secrets that were found."""
        values = tuple(sorted({value for each in list(self._values.values()) for value in each}))
        return redactor(values).redact(text) if values else text

    def hide_in(self, error: RotaError) -> RotaError:
        """Return an error without the secrets that were found."""
        error.message = self.hide(error.message)
        error.args = (error.message,)
        return error


@lru_cache(maxsize=64)
def redactor(values: tuple[str, ...]) -> Redactor:
    """Return a redactor of these secrets; its preparation takes time for many lines."""
    return Redactor(values)


def find_secret(
    name: str,
    *,
    credentials: str | None,
    environ: Mapping[str, str],
    state: Path,
    origins: Mapping[str, SecretOrigin] = NO_ORIGINS,
) -> str:
    """Return a secret from its origin in the file, which may take its timeout; one without an origin from
    $CREDENTIALS_DIRECTORY, the scheduler's environment or secrets.env, in this order.
    """
    if name in origins:
        return read_origin(name, origins[name], environ)
    if credentials and _NAME.fullmatch(name):
        path = Path(credentials) / name
        try:
            return path.read_text(encoding="utf-8").removesuffix("\n")
        except FileNotFoundError:
            pass
        except (OSError, UnicodeDecodeError) as error:
            raise SpawnFailed(f"{path} cannot be read: {_why(error)}", hint="make it a readable text file") from error
    if name in environ:
        return environ[name]
    stored = _stored(state / FILE_NAME)
    if name not in stored:
        raise SecretMissing(name)
    return stored[name]


def _stored(path: Path) -> Mapping[str, str]:
    if not path.is_file():
        return {}
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        raise SpawnFailed(f"{path} is open to other users (mode {mode:04o})", hint=f"run `chmod 600 {path}`")
    return read_env_file(path)


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file with `NAME=value` lines, quotes, comments and `export`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SpawnFailed(f"{path} cannot be read: {_why(error)}", hint="write NAME=value lines in UTF-8") from error
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        written = line.strip()
        if written and not written.startswith("#"):
            match = _LINE.fullmatch(written)
            if match is None:
                text = f"{path}:{number}: the line is not of the form NAME=value"
                raise SpawnFailed(text, hint="see the notes on `env_file`")
            values[match[1]] = _unquote(match[2], f"{path}:{number}")
    return values


def _unquote(text: str, place: str) -> str:
    if text[:1] not in ("'", '"'):
        return text.split(" #", 1)[0].rstrip()
    quote = text[0]
    # Quoted values are often secrets: messages name only the line.
    pattern = r"'([^']*)'" if quote == "'" else r'"((?:[^"\\]|\\.)*)"'
    match = re.fullmatch(pattern + r"\s*(?:#.*)?", text)
    if match is None:
        raise SpawnFailed(f"{place}: the quotes are not closed", hint="close them, or escape a quote with \\")
    return match[1] if quote == "'" else _ESCAPED.sub(lambda part: _LETTERS.get(part[1], part[1]), match[1])


def _why(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else "it is not UTF-8"


RESULT_NAME = RESULT
POLL_NAME = "poll.json"
RESERVED = "ROTA_"
_INHERITED = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "PATH")


class RunFacts(Struct, frozen=True):
    """The facts of a run for its process or function; `scheduled_for` is the nominal instant."""

    run_id: str
    handle: str
    job: str
    number: int
    attempt: int
    trigger: Trigger
    scheduled_for: datetime
    timezone: str = "UTC"
    params: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    poll_data: Mapping[str, Any] | None = None
    scheduler_state: Mapping[str, Any] = field(default_factory=dict)


class RunSurroundings(Struct, frozen=True):
    """The place of a run: the project, its state, the run's own folder, the scheduler's environment."""

    project: Path
    state: Path
    folder: Path
    environ: Mapping[str, str]
    credentials: str | None = None
    imports: tuple[str, ...] = ()
    root: Path | None = None
    """The scheduler's own project, if it includes this one."""
    origins: Mapping[str, SecretOrigin] = NO_ORIGINS
    """The secrets that the file says where to read."""


def placeholder_values(run: RunFacts) -> PlaceholderValues:
    """Return the values of the placeholders of this run."""
    return PlaceholderValues(
        job=run.job, number=run.number, scheduled_for=run.scheduled_for, timezone=run.timezone, params=run.params
    )


def build_environment(work: Work, run: RunFacts, *, surroundings: RunSurroundings, params: str) -> dict[str, str]:
    """Return the whole environment of a run; later sources replace earlier ones."""
    environment = inherited(surroundings.environ) | described(run, surroundings=surroundings, params=params)
    if Signal.TRACES in wanted_signals(surroundings.environ):
        environment[TRACEPARENT] = span_of(run.run_id).header
    environment |= {name: surroundings.environ[name] for name in work.env_pass if name in surroundings.environ}
    if work.env_file is not None:
        environment |= _from_file(surroundings.project / Path(work.env_file).expanduser())
    values = placeholder_values(run)
    return environment | {variable.name: _value(variable, values, surroundings) for variable in work.env}


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the scheduler's environment that every run gets; the accounts database fills gaps."""
    variables = _from_accounts(os.getuid()) | {name: environ[name] for name in _INHERITED if name in environ}
    return variables | {name: environ[name] for name in environ if name.startswith("LC_")}


@cache
def _from_accounts(user: int) -> dict[str, str]:
    path = {"PATH": os.defpath}
    try:
        entry = pwd.getpwuid(user)
    except KeyError:
        return path  # a container may have a user id without a name
    account = {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": entry.pw_shell}
    return path | {name: value for name, value in account.items() if value}


def login_environment(
    work: Work,
    environ: Mapping[str, str],
    *,
    project: Path,
    state: Path,
    origins: Mapping[str, SecretOrigin] = NO_ORIGINS,
) -> dict[str, str]:
    """Return the variables that a check of an agent's login needs; a missing file or secret is left out."""
    variables = {name: environ[name] for name in work.env_pass if name in environ}
    if work.env_file is not None:
        with suppress(RotaError):
            variables |= read_env_file(Path(work.project or project) / Path(work.env_file).expanduser())
    for variable in work.env:
        value = variable.value
        if variable.secret is not None:
            with suppress(RotaError):
                credentials = environ.get("CREDENTIALS_DIRECTORY")
                value = find_secret(
                    variable.secret, credentials=credentials, environ=environ, state=state, origins=origins
                )
        variables |= {} if value is None else {variable.name: value}
    return variables


def described(run: RunFacts, *, surroundings: RunSurroundings, params: str) -> dict[str, str]:
    """Return the ROTA_* variables of a run; `params` is JSON."""
    values = {
        "RUN_ID": run.run_id,
        "RUN": run.handle,
        "JOB": run.job,
        "ATTEMPT": str(run.attempt),
        "SCHEDULED_FOR": iso(run.scheduled_for),
        "DATE": f"{run.scheduled_for.astimezone(zone(run.timezone)):%Y-%m-%d}",
        "TRIGGER": str(run.trigger),
        "RESULT_FILE": f"{surroundings.folder}/{RESULT_NAME}",
        "PARAMS": params,
        "PARAMS_FILE": f"{surroundings.folder}/{PARAMS}",
        "PROJECT_DIR": str(surroundings.project),
        "SCHEDULER_DIR": str(surroundings.root or surroundings.project),
        "STATE_DIR": str(surroundings.state),
    }
    if run.poll_data is not None:
        values["POLL_FILE"] = f"{surroundings.folder}/{POLL_NAME}"
    scalars = {name: value for name, value in run.params.items() if isinstance(value, str | bool | int | float)}
    values |= {f"PARAM_{name.upper()}": write_param(value) for name, value in scalars.items()}
    return {f"{RESERVED}{name}": value for name, value in values.items()}


def _from_file(path: Path) -> dict[str, str]:
    variables = read_env_file(path)
    reserved = next((name for name in variables if name.startswith(RESERVED)), None)
    if reserved is not None:
        raise SpawnFailed(f"{path} sets {reserved}", hint="names that start with ROTA_ are reserved, use another name")
    return variables


def _value(variable: EnvValue, values: PlaceholderValues, surroundings: RunSurroundings) -> str:
    if variable.secret is None:
        return fill(variable.value or "", values)
    return find_secret(
        variable.secret,
        credentials=surroundings.credentials,
        environ=surroundings.environ,
        state=surroundings.state,
        origins=surroundings.origins,
    )
