"""Secrets by reference (R-27): read when a run starts, never stored, never shown."""

import os
import re
import stat
from collections import defaultdict, deque
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from rota.model.errors import RotaError, SecretMissing, SpawnFailed
from rota.runners.redacting import Redactor

FILE_NAME = "secrets.env"
REMEMBERED = 4
"""How many values of one name are taken out: a changed secret may still be in use."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}


class Secrets:
    """Finds secrets for one part of the scheduler, and takes those it has found out of the texts that come back."""

    def __init__(self, state: Path, environ: Mapping[str, str]) -> None:
        self._state = state
        self._environ = environ
        self._found: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=REMEMBERED))

    def find(self, name: str) -> str:
        """Return a secret, or raise SecretMissing."""
        credentials = self._environ.get("CREDENTIALS_DIRECTORY")
        value = find_secret(name, credentials=credentials, environ=self._environ, state=self._state)
        if value not in self._found[name]:
            self._found[name].append(value)
        return value

    def hide(self, text: str) -> str:
        """Return a text without the secrets that were found."""
        values = tuple(sorted({value for found in list(self._found.values()) for value in found}))
        return redactor(values).redact(text) if values else text

    def hide_in(self, error: RotaError) -> RotaError:
        """Return an error whose text shows none of the secrets that were found."""
        error.message = self.hide(error.message)
        error.args = (error.message,)
        return error


@lru_cache(maxsize=64)
def redactor(values: tuple[str, ...]) -> Redactor:
    """Return what takes these secrets out of texts; many lines take a while to prepare."""
    return Redactor(values)


def find_secret(name: str, *, credentials: str | None, environ: Mapping[str, str], state: Path) -> str:
    """Return a secret from $CREDENTIALS_DIRECTORY, the scheduler's environment or secrets.env, in this order."""
    if credentials and _NAME.fullmatch(name):
        text = _read_credential(Path(credentials) / name)
        if text is not None:
            return text
    if name in environ:
        return environ[name]
    stored = _stored(state / FILE_NAME)
    if name not in stored:
        raise SecretMissing(name)
    return stored[name]


def _read_credential(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SpawnFailed(f"{path} cannot be read: {_why(error)}", hint="make it a readable text file") from error


def _stored(path: Path) -> Mapping[str, str]:
    if not path.is_file():
        return {}
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        raise SpawnFailed(f"{path} is open to other users (mode {mode:04o})", hint=f"run `chmod 600 {path}`")
    return read_env_file(path)


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file of `NAME=value` lines; quotes, comments and `export` are understood."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SpawnFailed(f"{path} cannot be read: {_why(error)}", hint="write NAME=value lines in UTF-8") from error
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        written = line.strip()
        if written and not written.startswith("#"):
            name, value = _read_line(written, f"{path}:{number}")
            values[name] = value
    return values


def _read_line(line: str, place: str) -> tuple[str, str]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise SpawnFailed(f"{place}: the line is not of the form NAME=value", hint="see the notes on `env_file`")
    return found[1], _unquote(found[2], place)


def _unquote(text: str, place: str) -> str:
    if text[:1] not in ("'", '"'):
        return text.split(" #", 1)[0].rstrip()
    quote = text[0]
    # What the quotes hold is a secret as a rule: messages name the line alone.
    pattern = r"'([^']*)'" if quote == "'" else r'"((?:[^"\\]|\\.)*)"'
    found = re.fullmatch(pattern + r"\s*(?:#.*)?", text)
    if found is None:
        raise SpawnFailed(f"{place}: the quotes are not closed", hint="close them, or escape a quote with \\")
    return found[1] if quote == "'" else _ESCAPED.sub(lambda part: _LETTERS.get(part[1], part[1]), found[1])


def _why(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else "it is not UTF-8"
