"""Idempotency-Key: a request that is repeated under its key takes effect once, and gets the same answer again."""

import hashlib
import re
from functools import partial

from anyio.to_thread import run_sync
from fastapi import FastAPI
from starlette.routing import Match
from starlette.types import Message, Receive, Scope, Send

from rota.http.context import Context
from rota.http.doorman import SAFE
from rota.http.refusals import KeyMismatch, KeyPending, KeyRefused, ScopeRefused
from rota.http.routing import SCOPE_KEY
from rota.operations.access import Caller
from rota.operations.access import Scope as TokenScope
from rota.operations.repeating import Answered, Mark
from rota.store.driver import Database

HEADER = b"idempotency-key"
KEY = re.compile(rb"[\x21-\x7e]{1,128}")


class Repeats:
    """Answers repeated requests from what is stored; lets the first one note its key with its effects."""

    def __init__(self, app: FastAPI, context: Context) -> None:
        self._app = app
        self._routes = app.routes
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it as the first one under its key was answered."""
        key = _key(scope)
        caller: Caller | None = scope["state"].get("caller")
        if key is None or caller is None or scope["method"] in SAFE:
            await self._app(scope, receive, send)
            return
        self._check_scope(caller, scope)
        mark = Mark(self._context.store, self._context.clock, caller=_owner(caller), key=key, digest=_digest(scope))
        known = await run_sync(mark.find)
        if known is not None:
            await _repeat(_same(known, mark), send)
            return
        scope["state"]["claim_key"] = partial(_claim, mark)
        held = _Held()
        await self._app(scope, receive, held.take)
        if held.status < 400:
            await run_sync(partial(mark.answer, held.status, held.body.decode("utf-8", "replace")))
        for message in held.messages:
            await send(message)

    def _check_scope(self, caller: Caller, scope: Scope) -> None:
        """Refuse a caller whose token does not have the scope of the route, before any answer is looked for."""
        for route in self._routes:
            if route.matches(scope)[0] is Match.FULL:
                needed = (getattr(route, "openapi_extra", None) or {}).get(SCOPE_KEY)
                if needed is not None and not caller.may(TokenScope(needed)):
                    raise ScopeRefused(caller.scope, TokenScope(needed))
                return


class _Held:
    """A response that is kept back until its answer is stored."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.status = 500
        self.body = b""

    async def take(self, message: Message) -> None:
        self.messages.append(message)
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.body += message.get("body", b"")


def _owner(caller: Caller) -> str:
    """Return whose a key is: one token's, or the browsers' that were logged in by it. Names alone are not unique."""
    return f"{'browser' if caller.browser else 'token'}:{caller.scope}:{caller.name}"


def _same(known: Answered, mark: Mark) -> Answered:
    """Return the answer of the first request; raise where the key is not for this one, or there is no answer."""
    if known.digest != mark.digest:
        raise KeyMismatch
    if known.status is None:
        raise KeyPending
    return known


def _claim(mark: Mark, db: Database) -> None:
    if not mark.claim(db):
        raise KeyPending  # another request was faster


async def _repeat(known: Answered, send: Send) -> None:
    body = known.body.encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"idempotency-replayed", b"true"),
    ]
    await send({"type": "http.response.start", "status": known.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _key(scope: Scope) -> str | None:
    given = [value for name, value in scope["headers"] if name.lower() == HEADER]
    if not given:
        return None
    if len(given) > 1 or not KEY.fullmatch(given[0]):
        raise KeyRefused
    key: bytes = given[0]
    return key.decode("ascii")


def _digest(scope: Scope) -> str:
    parts = (scope["method"].encode(), scope["path"].encode(), scope["query_string"], scope["state"]["body_bytes"])
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
