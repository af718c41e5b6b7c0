"""Tokens, scopes and logins."""

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Container
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from rota.engine.membership.control import ask
from rota.model.clock import from_ms, to_ms
from rota.model.errors import InvalidValue, NoHttp, TokenUnusable
from rota.operations.project.locate import make_state, write_private
from rota.operations.status.heartbeat import serves
from rota.store.driver import Database
from rota.store.sqlite.store import reachable

FILE_NAME = "token"
TOKEN_BYTES = 32
LEAST_CHARACTERS = 43
"""A token of 256 bits has so many characters in base64; a shorter one is refused."""
SESSION_LASTS = timedelta(days=7)
CODE_LASTS = timedelta(seconds=60)
CODES_AT_ONCE = 100
OWNER = "owner"
RESERVED = frozenset({OWNER, "rota", "scheduler", "unknown", "user"})
"""Names that rota reserves for actors; no token may use one."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,63}", re.ASCII)
_MADE = re.compile(
    r"rota_(read|run|admin|agent|calendar)_([A-Za-z0-9][A-Za-z0-9.-]{0,63})_([A-Za-z0-9_-]{43})", re.ASCII
)
_SESSION = re.compile(
    r"([0-9]{1,15})\.([A-Za-z0-9_-]{22})\.(read|run|admin)(?:~([0-9]{1,15}|p))?\.([A-Za-z0-9_.-]{1,300})"
    r"\.([A-Za-z0-9_-]{43})",
    re.ASCII,
)


class Scope(StrEnum):
    """The rights of a token: read; control runs; all; of an agent: read, and start jobs; or only the calendar."""

    READ = "read"
    RUN = "run"
    ADMIN = "admin"
    AGENT = "agent"
    CALENDAR = "calendar"


GRANTS: dict[Scope, frozenset[Scope]] = {
    Scope.READ: frozenset({Scope.READ, Scope.CALENDAR}),
    Scope.RUN: frozenset({Scope.READ, Scope.RUN, Scope.AGENT, Scope.CALENDAR}),
    Scope.ADMIN: frozenset(Scope),
    Scope.AGENT: frozenset({Scope.READ, Scope.AGENT, Scope.CALENDAR}),
    Scope.CALENDAR: frozenset({Scope.CALENDAR}),
}
LOGIN_SCOPES = frozenset({Scope.READ, Scope.RUN, Scope.ADMIN})
"""The scopes with which a browser or a person may come in; the others are for programs."""


class Caller(Struct, frozen=True):
    """An authenticated caller: its name and its scope."""

    name: str
    scope: Scope
    browser: bool = False
    token: int | None = None
    """The number of the stored token; None: the project's own token, or one derived from it."""
    person: bool = False
    """Whether a proxy or an identity provider names the caller, and no token."""

    @property
    def actor(self) -> str:
        """The caller in the audit log, approvals and answers."""
        return f"{'person' if self.person else 'browser' if self.browser else 'token'}:{self.name}"

    def may(self, wanted: Scope) -> bool:
        """Return whether the caller has this scope."""
        return wanted in GRANTS[self.scope]


def token_file(state: Path) -> Path:
    """Return where a project's token is."""
    return state / FILE_NAME


def make_token(state: Path) -> bool:
    """Create the project's token, 256 random bits readable by the owner alone; return whether it is new."""
    path = token_file(state)
    with reachable(path):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, 0o600)
            file.write(f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")
            file.flush()
            os.fsync(descriptor)
    return True


def renew_token(state: Path) -> None:
    """Replace the project's token: it and every token and session made from it end."""
    path = token_file(state)
    with reachable(path):
        write_private(path, f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")


def read_token(state: Path) -> str:
    """Return the project's token; refuse an empty, short or readable one."""
    path = token_file(state)
    hint = f"remove {path}: the next `rota serve` makes a new one"
    with reachable(path):
        mode = path.stat().st_mode
        text = path.read_text("utf-8", errors="replace").strip()
    if mode & 0o077:
        raise TokenUnusable(f"{path} is open to other users (mode {mode & 0o777:04o})", hint=f"run `chmod 600 {path}`")
    if len(text) < LEAST_CHARACTERS or not text.isascii() or not text.isprintable() or " " in text:
        what = "is empty" if not text else f"has no token of at least {LEAST_CHARACTERS} characters"
        raise TokenUnusable(f"{path} {what}", hint=hint)
    return text


def check_name(name: str) -> None:
    """Raise InvalidValue for a name that no token may have."""
    if not _NAME.fullmatch(name):
        raise InvalidValue(f"{name!r} cannot be a token's name", hint="use 1 to 64 letters, digits, . and -")
    if name.casefold() in RESERVED:
        raise InvalidValue(f"{name!r} is reserved", hint="name it after its holder, such as ci")


def derive_token(token: str, scope: Scope, name: str) -> str:
    """Return the token of a name with one scope, made from the project's: nothing about it is stored."""
    check_name(name)
    return f"rota_{scope}_{name}_{_signed(token, f'token:{scope}:{name}')}"


def know_token(token: str, given: str) -> Caller | None:
    """Return the caller of a token, or None; compare in constant time."""
    if hmac.compare_digest(_digest(given), _digest(token)):
        return Caller(OWNER, Scope.ADMIN)
    match = _MADE.fullmatch(given)
    if match is None:
        return None
    scope, name = Scope(match[1]), match[2]
    if name.casefold() in RESERVED:
        return None  # an earlier version made such tokens
    expected = _signed(token, f"token:{scope}:{name}")
    return Caller(name, scope) if hmac.compare_digest(_digest(match[3]), _digest(expected)) else None


def owner() -> Caller:
    """Return the owner of the project."""
    return Caller(OWNER, Scope.ADMIN)


def make_session(token: str, caller: Caller, *, now: datetime) -> str:
    """Return the value of a browser's cookie: signed, so that nothing is stored, and good for a week."""
    until, nonce = to_ms(now + SESSION_LASTS), secrets.token_urlsafe(16)
    origin = "~p" if caller.person else "" if caller.token is None else f"~{caller.token}"
    name = caller.name.encode().hex() if caller.person else caller.name
    told = f"{until}.{nonce}.{caller.scope}{origin}.{name}"
    return f"{told}.{_signed(token, f'session:{told}')}"


def know_session(token: str, given: str, *, now: datetime, ended: Container[str] = ()) -> Caller | None:
    """Return the caller of a session cookie; None if it is invalid or expired. `ended` are nonces of logouts."""
    match = _SESSION.fullmatch(given)
    if match is None or match[2] in ended:
        return None
    told, _, sign = given.rpartition(".")
    if not hmac.compare_digest(_digest(sign), _digest(_signed(token, f"session:{told}"))):
        return None
    if from_ms(int(match[1])) <= now:
        return None
    if match[4] == "p":
        return Caller(bytes.fromhex(match[5]).decode(), Scope(match[3]), browser=True, person=True)
    return Caller(match[5], Scope(match[3]), browser=True, token=int(match[4]) if match[4] else None)


def nonce_of(session: str) -> tuple[str, int]:
    """Return the nonce of a session that is known, and until when it lasts, in milliseconds."""
    until, nonce, _ = session.split(".", 2)
    return nonce, int(until)


def _signed(token: str, text: str) -> str:
    made = hmac.new(token.encode(), text.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class Codes(Struct):
    """One-time codes with which `rota open` logs a browser in: single use, a minute long, kept in memory alone."""

    _made: dict[bytes, float] = field(default_factory=dict)

    def make(self, *, at: float) -> str:
        """Return a new code; `at` is monotonic seconds."""
        self._made = {code: until for code, until in self._made.items() if until > at}
        while len(self._made) >= CODES_AT_ONCE:
            del self._made[next(iter(self._made))]
        code = secrets.token_urlsafe(TOKEN_BYTES)
        self._made[_digest(code)] = at + CODE_LASTS.total_seconds()
        return code

    def take(self, code: str, *, at: float) -> bool:
        """Consume a code; return whether it was valid."""
        until = self._made.pop(_digest(code), None)
        return until is not None and until > at


PATIENCE = 10.0
ENDED_KEY = "ended_sessions"
"""Where the database keeps the nonces of logouts, each with the time at which its cookie expires."""


def login_address(state: Path) -> str:
    """Return an address that logs a browser in once, within a minute."""
    if not serves(state):
        raise NoHttp(str(state))
    answer = ask(state, {"ask": "login"}, timeout=PATIENCE)
    if answer is None or not answer.get("url"):
        raise NoHttp(str(state), "the scheduler does not answer" if answer is None else "it was started with --no-http")
    return str(answer["url"])


def ended_sessions(db: Database, *, now: datetime) -> dict[str, int]:
    """Return the nonces of logged-out sessions whose cookies have not expired."""
    row = db.row("meta_get", key=ENDED_KEY)
    found: dict[str, int] = json.loads(row[0]) if row else {}
    return {nonce: until for nonce, until in found.items() if until > to_ms(now)}


def end_session(db: Database, *, session: str, now: datetime) -> dict[str, int]:
    """Store that a session was logged out, so that no copy of its cookie is good; return all of those."""
    nonce, until = nonce_of(session)
    ended = ended_sessions(db, now=now) | {nonce: until}
    db.execute("meta_set", key=ENDED_KEY, value=json.dumps(ended))
    return ended


def project_token(state: Path) -> str:
    """Return the project's token; create it if there is none."""
    make_state(state)
    make_token(state)
    return read_token(state)


def renew_project_token(state: Path) -> str:
    """Replace the project's token, also in a scheduler that serves."""
    renew_token(state)
    ask(state, {"ask": "token"}, timeout=PATIENCE)
    return read_token(state)
