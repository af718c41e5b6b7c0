"""Named tokens: create, list and revoke them one by one, and recognise them in requests."""

import hashlib
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TypedDict

from msgspec import Struct

from rota.model.clock import Clock
from rota.model.errors import InvalidValue, RotaError, UnknownToken, nearest
from rota.model.serialize import to_shape
from rota.operations.admin.access import TOKEN_BYTES, Caller, Scope, check_name
from rota.store.driver import Database, Store, rolled_back
from rota.store.tables import tokens
from rota.store.tables.tokens import USE_INTERVAL, AccessToken

LASTS = timedelta(days=90)
"""How long a token lasts unless its creation says otherwise."""
LONGEST = timedelta(days=3650)
LISTED = 1_000
PREFIX = "rota_token_"
_TEXT = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII)


class TokenState(StrEnum):
    """Whether a token is accepted."""

    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"


class NewToken(Struct, frozen=True):
    """A token that was created; its text is shown once and stored nowhere."""

    text: str
    row: AccessToken


class TokenJson(TypedDict):
    """A named token, without its text."""

    token: int
    name: str
    scope: str
    state: str
    created_by: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None
    revoked_by: str | None


def token_json(token: AccessToken, *, now: datetime) -> TokenJson:
    """Return a token as JSON."""
    return to_shape(TokenJson, token, token=token.number, state=state_of(token, now=now))


def state_of(token: AccessToken, *, now: datetime) -> TokenState:
    """Return whether a token is accepted now."""
    if token.revoked_at is not None:
        return TokenState.REVOKED
    return TokenState.EXPIRED if token.expires_at is not None and token.expires_at <= now else TokenState.VALID


def create_token(
    store: Store, name: str, scope: Scope, *, lasts: timedelta | None, by: str, now: datetime, dry_run: bool = False
) -> NewToken:
    """Create a token that lasts so long, None for ever; refuse a name that another token has."""
    check_name(name)
    if lasts is not None and not timedelta() < lasts <= LONGEST:
        raise InvalidValue(f"a token cannot last {lasts}", hint=f"give up to {LONGEST.days}d, or never")
    text = f"{PREFIX}{secrets.token_urlsafe(TOKEN_BYTES)}"
    until = None if lasts is None else now + lasts

    def create(db: Database) -> AccessToken:
        if (other := tokens.by_name(db, name)) is not None:
            what = "an expired token" if state_of(other, now=now) is TokenState.EXPIRED else "a token"
            hint = f"revoke it with `rota token revoke {name}`, or choose another name"
            raise InvalidValue(f"there is {what} named {name!r}", hint=hint)
        tokens.insert(db, name=name, scope=scope, digest=hash_of(text), by=by, now=now, expires_at=until)
        access_token = tokens.by_name(db, name)
        assert access_token is not None
        return access_token

    return NewToken(text, rolled_back(store, create) if dry_run else store.write(create))


def hash_of(text: str) -> str:
    """Return the hash by which a token is stored; 256 random bits need no slow one."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def list_tokens(store: Store) -> Sequence[AccessToken]:
    """Return the tokens, newest first, revoked ones too."""
    return store.read(partial(tokens.newest, limit=LISTED))


def revoke_token(store: Store, name: str, *, by: str, now: datetime, dry_run: bool = False) -> AccessToken:
    """Revoke the token of a name: no request with it, and no login made with it, is accepted from now on."""

    def revoke(db: Database) -> AccessToken:
        token = tokens.by_name(db, name)
        if token is None:
            names = {each.name for each in tokens.newest(db, limit=LISTED) if each.revoked_at is None}
            raise UnknownToken(name, nearest(name, names))
        tokens.revoke(db, token.number, by=by, now=now)
        return tokens.by_number(db, token.number) or token

    return rolled_back(store, revoke) if dry_run else store.write(revoke)


class TokenDesk:
    """Recognises named tokens in requests. Each look reads the row, so that a revocation counts at once."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def find(self, text: str) -> AccessToken | None:
        """Return the token of a text, also an expired or a revoked one."""
        return self._used(self._store.read(partial(tokens.by_hash, digest=hash_of(text))))

    def by_number(self, number: int) -> AccessToken | None:
        """Return the token with which a browser logged in."""
        return self._used(self._store.read(partial(tokens.by_number, number=number)))

    def state_of(self, token: AccessToken) -> TokenState:
        """Return whether a token is accepted now."""
        return state_of(token, now=self._clock.now())

    def _used(self, token: AccessToken | None) -> AccessToken | None:
        """Record the use of a valid token, at most once a minute; a failure to record refuses no request."""
        now = self._clock.now()
        if token is None or state_of(token, now=now) is not TokenState.VALID:
            return token
        if token.last_used_at is None or token.last_used_at <= now - USE_INTERVAL:
            with suppress(RotaError):  # such as a full disk: the next request records its use
                self._store.write(partial(tokens.use, number=token.number, now=now))
        return token


def is_named(text: str) -> bool:
    """Return whether a text has the form of a named token."""
    return _TEXT.fullmatch(text) is not None


def caller_of(token: AccessToken, *, browser: bool = False) -> Caller:
    """Return the caller that a valid token stands for."""
    return Caller(token.name, Scope(token.scope), browser=browser, token=token.number)
