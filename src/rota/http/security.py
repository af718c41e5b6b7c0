"""Security middleware: host and origin checks, authentication, rate limits, bounded bodies, idempotency keys."""

import asyncio
import hashlib
import json
import re
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from email.utils import format_datetime
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Any, NoReturn
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from anyio.to_thread import run_sync
from fastapi import FastAPI
from msgspec import Struct, field
from msgspec.structs import replace
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.http import errors
from rota.http.context import SCOPE_KEY, ServerContext
from rota.http.oidc import CALLBACK, START, SignOn
from rota.http.people import PEER, ProxiedPeople
from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import RotaError
from rota.operations.admin.access import Caller, know_session, know_token
from rota.operations.admin.access import Scope as TokenScope
from rota.operations.admin.audit import IdempotencyKey
from rota.operations.admin.tokens import TokenDesk, TokenState, caller_of, is_named
from rota.store.driver import Database
from rota.store.tables.audit import IdempotentRequest
from rota.store.tables.tokens import AccessToken

LIMIT = 1_000_000
PATIENCE = 20.0
MAX_DEPTH = 50
DIGITS = 300
FIELDS = 500


async def read_body(receive: Receive) -> bytes:
    """Return the body; refuse one that is too large or late."""
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(PATIENCE):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    break
                part: bytes = message.get("body", b"")
                size, more = size + len(part), message.get("more_body", False)
                if size > LIMIT:
                    raise errors.BodyTooLarge
                parts.append(part)
    except TimeoutError:
        raise errors.BodyLate from None
    return b"".join(parts)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that first returns a body which was read already."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def read_form(body: bytes) -> dict[str, Any]:
    """Return the fields of a form: their first values as `form` and `body`, all of them as `forms`."""
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError:
        raise errors.FormInvalid from None
    first = {key: values[0].replace("\r\n", "\n") for key, values in fields.items()}
    return {"forms": fields, "form": first, "body": first}


def read_json(body: bytes) -> Any:
    """Return the value of a body that is strict JSON, or refuse it."""
    if body.startswith(b"\xef\xbb\xbf"):
        raise errors.JsonInvalid("it starts with a byte order mark")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise errors.JsonInvalid("it is not UTF-8") from None
    try:
        value = json.loads(
            text, parse_constant=_constant, parse_float=_number, parse_int=_whole, object_pairs_hook=_unique
        )
        if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
            raise RecursionError
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise errors.JsonInvalid(f"it is nested more than {MAX_DEPTH} deep") from None
    except UnicodeEncodeError:
        raise errors.JsonInvalid("it contains half of a surrogate pair") from None
    except ValueError as error:
        raise errors.JsonInvalid(_short(error)) from None
    return value


def _short(error: Exception) -> str:
    text = str(error)[:120]
    first = text.partition(" ")[0]
    return (text if first.isupper() or not first.istitle() else text[:1].lower() + text[1:]) or "it cannot be read"


def _depth(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else 1 + max(map(_depth, parts), default=0)


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number in JSON")


def _number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError("it contains a number that is too large")
    return number


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"it contains a number of more than {DIGITS} digits")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        key = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {key[:60]!r} appears twice")
    return values


LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FAILURES, WITHIN = 10, 60.0
ADDRESSES = 10_000
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class RequestHead(Struct, frozen=True):
    """The head of a request; `repeated` are headers that came more than once."""

    method: str
    scheme: str
    headers: Mapping[str, str]
    repeated: frozenset[str]
    client: str
    peer: str = ""
    """The address of the connection itself; behind a proxy `client` is an address that the proxy named."""


class Failures(Struct):
    """Wrong tokens by address, for a minute."""

    _by_client: dict[str, deque[float]] = field(default_factory=dict)

    def note(self, client: str, at: float) -> None:
        """Remember a failure."""
        while client not in self._by_client and len(self._by_client) >= ADDRESSES:
            del self._by_client[next(iter(self._by_client))]
        self._by_client.setdefault(client, deque(maxlen=FAILURES)).append(at)

    def wait(self, client: str, at: float) -> int:
        """Return the seconds for which an address is blocked; 0: it is not."""
        failed = self._by_client.get(client)
        if failed is None or len(failed) < FAILURES or failed[0] + WITHIN <= at:
            return 0
        return max(1, round(failed[0] + WITHIN - at))


class Authenticator:
    """Checks host, origin and credentials of each request."""

    def __init__(
        self,
        clock: Clock,
        *,
        token: Callable[[], str],
        cookie: str = "rota_session",
        hosts: frozenset[str] = frozenset(),
        public_url: str = "",
        ended: Collection[str] = (),
        desk: TokenDesk | None = None,
        people: ProxiedPeople | None = None,
        sign_on: SignOn | None = None,
    ) -> None:
        self.people = people
        self.sign_on = sign_on
        self.cookie = cookie
        self.ended = ended
        """The nonces of ended sessions."""
        self.token = token
        self.clock = clock
        public = urlsplit(public_url)
        self._hosts = LOOPBACK | hosts | ({public.hostname or ""} if public_url else set())
        self._public_origin = f"{public.scheme}://{public.netloc}".lower() if public_url else None
        self._failures = Failures()
        self._desk = desk

    def check_host(self, head: RequestHead) -> None:
        """Refuse a request for another host, against DNS rebinding."""
        host = head.headers.get("host", "")
        if "host" in head.repeated or _hostname(host) not in self._hosts:
            raise errors.HostRefused

    def check_origin(self, head: RequestHead) -> None:
        """Refuse a request that a page of another origin sent, of any method."""
        origin = head.headers.get("origin")
        if origin is None:
            allowed = head.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        else:
            own = f"{head.scheme}://{head.headers.get('host', '')}".lower()
            allowed = "origin" not in head.repeated and origin.lower() in (own, self._public_origin)
        if not allowed:
            raise errors.OriginRefused

    async def admit(self, head: RequestHead) -> Caller:
        """Authenticate by bearer token or session cookie; rate-limit failures per client."""
        session = self.session_in(head.headers.get("cookie", ""))
        caller = self._proxied(head) or await self._caller(head, session)
        if caller is None:
            if "authorization" not in head.headers and not session:
                raise errors.NoToken  # no guess, so it is not counted
            self._refuse_token(head.client)
        if caller.browser and head.method not in SAFE and "origin" not in head.headers:
            raise errors.OriginRefused("a browser's session changes nothing without an Origin")
        return caller

    async def admit_token(self, token: str, *, client: str) -> Caller:
        """Authenticate by a token that was typed into the login page."""
        return await self._bearer(token) or self._refuse_token(client)

    def _refuse_token(self, client: str) -> NoReturn:
        at = self.clock.monotonic()
        if wait := self._failures.wait(client, at):
            raise errors.TooManyFailures(wait)
        self._failures.note(client, at)
        raise errors.NoToken("the token is not one of this project")

    def _proxied(self, head: RequestHead) -> Caller | None:
        """Return the person that a trusted proxy names; a token in the same request counts more."""
        if self.people is None or "authorization" in head.headers:
            return None
        return self.people.find(head.headers, head.repeated, peer=head.peer)

    async def _caller(self, head: RequestHead, session: str | None) -> Caller | None:
        if "authorization" in head.repeated:
            return None
        written = head.headers.get("authorization")
        if written is not None:
            kind, _, token = written.partition(" ")
            return await self._bearer(token.strip()) if kind.lower() == "bearer" else None
        return await self._browser(session) if session else None

    async def _bearer(self, text: str) -> Caller | None:
        if self._desk is None or not is_named(text):
            return know_token(self.token(), text)
        row = await run_sync(self._desk.find, text)
        return None if row is None else caller_of(self._valid(row, self._desk))

    async def _browser(self, session: str) -> Caller | None:
        caller = self.know_session(session)
        if caller is not None and caller.token is not None:
            await self.check_token(caller)
        if caller is not None and caller.person:  # the scope is that of the file now, not that of the login
            return None if self.sign_on is None else self.sign_on.person(caller.name)
        return caller

    async def check_token(self, caller: Caller) -> None:
        """Refuse a caller whose stored token has expired or was revoked since it came in."""
        if self._desk is not None and caller.token is not None:
            row = await run_sync(self._desk.by_number, caller.token)
            if row is None:
                raise errors.TokenEnded("the token of this login no longer exists")
            self._valid(row, self._desk)

    def _valid(self, row: AccessToken, desk: TokenDesk) -> AccessToken:
        """Return a token that is accepted; the refusal of another one is no guess, so it is not counted."""
        state = desk.state_of(row)
        if state is TokenState.REVOKED:
            raise errors.TokenEnded(f"the token {row.name!r} was revoked")
        if state is TokenState.EXPIRED:
            raise errors.TokenEnded(f"the token {row.name!r} has expired")
        return row

    def know_session(self, session: str) -> Caller | None:
        """Return the caller of a session cookie, None if it is wrong, expired or ended."""
        return know_session(self.token(), session, now=self.clock.now(), ended=self.ended)

    def session_in(self, cookies: str) -> str | None:
        """Return the session in a Cookie header, None for none."""
        try:
            found = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return None
        return found.value if found is not None else None


def _hostname(host: str) -> str:
    """Return the name in a Host header without its port; empty if it is invalid.

    >>> _hostname("LocalHost:7682"), _hostname("[::1]:80"), _hostname("evil.test@localhost")
    ('localhost', '::1', '')
    """
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        return name if bracket and (not rest or rest[1:].isdecimal()) else ""
    name, colon, port = host.partition(":")
    if (colon and not port.isdecimal()) or not name.replace("-", "").replace(".", "").replace("_", "").isalnum():
        return ""
    return name.lower()


OPEN = frozenset({"/healthz", "/login", START, CALLBACK})
"""Paths without a token."""
FILES = "/static/"
"""The login page needs styles and scripts without a token."""
LOGIN = "/login"
CALENDAR = "/calendar.ics"
"""Calendar programs send no headers: here a token of the scope calendar may be in the address."""
ACTIONS = "/ui/"
"""The dashboard sends forms below this path."""
JSON_TYPE = re.compile(r"application/json(\s*;\s*charset=\"?utf-8\"?)?\s*", re.IGNORECASE)
FORM_TYPE = "application/x-www-form-urlencoded"
ODD_PATH = re.compile(rb"%2f|%5c|%2e|%00|%25|\\|//|/\.{1,2}(/|$)", re.IGNORECASE)
POLICY = (  # pages load only our own styles, scripts, images and answers
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, forms of our own pages have the Origin `null`
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
NO_STORE = (b"cache-control", b"no-store")


class Guard:
    """Checks host, origin, token and body, and gives every response its headers."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        *,
        refuse: Callable[..., Awaitable[Response]],
        base_path: str = "",
    ) -> None:
        self._app = app
        self._refusal = refuse
        self._authenticator = authenticator
        self._base_path = base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit a request, or refuse it."""
        if scope["type"] != "http":
            raise NotImplementedError("only http is served")  # no lifespan, no websockets
        answer = _HeaderSender(send, format_datetime(self._authenticator.clock.now(), usegmt=True).encode())
        try:
            receive = await self._admit(scope, receive)
            await self._app(scope, receive, answer.send)
        except RotaError as error:
            await self._refuse(error, scope, receive, answer=answer)
        except Exception as error:
            log.exception("request failed", path=scope["path"], method=scope["method"], error=str(error))
            await self._refuse(errors.Unexpected(), scope, receive, answer=answer)

    async def _admit(self, scope: Scope, receive: Receive) -> Receive:
        head = _asked(scope)
        _check_length(head, version=scope.get("http_version", "1.1"))
        self._authenticator.check_host(head)
        self._strip(scope)
        returns = scope["path"] == CALLBACK and head.method == "GET" and "origin" not in head.headers
        if not returns:  # the identity provider sends the browser back; its state is checked instead
            self._authenticator.check_origin(head)
        state: dict[str, Any] = scope.setdefault("state", {})
        state["authenticator"] = self._authenticator
        if scope["path"] not in OPEN and not scope["path"].startswith(FILES):
            addressed = _take_token(scope, head) if scope["path"] == CALENDAR else None
            state["caller"] = caller = await self._authenticator.admit(addressed or head)
            if addressed is not None and caller.scope is not TokenScope.CALENDAR:
                raise errors.TokenInAddress
        return await self._body(scope, head, receive)

    def _strip(self, scope: Scope) -> None:
        """Remove the base path, and refuse ambiguous paths."""
        raw = scope.get("raw_path") or scope["path"].encode()
        if ODD_PATH.search(raw.partition(b"?")[0]):
            raise errors.NotFound
        base = self._base_path
        if base and (scope["path"] == base or scope["path"].startswith(f"{base}/")):
            scope["path"] = scope["path"][len(base) :] or "/"
            scope["raw_path"] = raw[len(base) :] or b"/"

    async def _body(self, scope: Scope, head: RequestHead, receive: Receive) -> Receive:
        """Read and check the body of a request."""
        length = head.headers.get("content-length", "0")
        if length.isdecimal() and (len(length) > 10 or int(length) > LIMIT):
            raise errors.BodyTooLarge
        body = await read_body(receive) if _has_body(head) else b""
        if body and head.method not in SAFE:
            form = scope["path"] == LOGIN or scope["path"].startswith(ACTIONS)
            _check_media(head, form=form)
            scope["state"] |= read_form(body) if form else {"body": read_json(body)}
            if scope["state"]["body"] is None:
                raise errors.JsonInvalid("it is null; send an object, or no body if it is optional")
        scope["state"]["body_bytes"] = body
        return replayed(body, receive) if _has_body(head) else receive

    async def _refuse(self, error: RotaError, scope: Scope, receive: Receive, *, answer: "_HeaderSender") -> None:
        if answer.begun:
            return  # the head is sent already; the client sees a broken connection
        if isinstance(error, errors.HttpRefusal) and error.status in (401, 403, 421, 429):
            log.debug("request refused", code=error.code, path=scope["path"], client=_client(scope))
        response = await self._refusal(error, scope, base=self._base_path)
        await response(scope, receive, answer.send)


class _HeaderSender:
    """Adds the common headers to a response."""

    def __init__(self, send: Send, date: bytes) -> None:
        self._send = send
        self._date = date
        self.begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            names = {name for name, _ in message["headers"]}
            own = [*HEADERS, (b"date", self._date), *(() if b"cache-control" in names else (NO_STORE,))]
            message = {**message, "headers": [*message["headers"], *own]}
        await self._send(message)


def _asked(scope: Scope) -> RequestHead:
    pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    counted = Counter(name for name, _ in pairs)
    return RequestHead(
        method=scope["method"],
        scheme=scope["scheme"],
        headers=dict(pairs),
        repeated=frozenset(name for name, count in counted.items() if count > 1),
        client=_client(scope),
        peer=scope.get(PEER) or "",
    )


def _take_token(scope: Scope, head: RequestHead) -> RequestHead | None:
    """Move the token of an address into the head, so that no page, log or refusal repeats it; None without one."""
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=FIELDS)
    tokens = [value for name, value in pairs if name == "token"]
    if not tokens or head.method not in SAFE:
        return None
    scope["query_string"] = urlencode([pair for pair in pairs if pair[0] != "token"]).encode()
    repeated = head.repeated | ({"authorization"} if len(tokens) > 1 or "authorization" in head.headers else set())
    return replace(head, headers={**head.headers, "authorization": f"Bearer {tokens[0]}"}, repeated=repeated)


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _check_length(head: RequestHead, *, version: str) -> None:
    """Refuse a request that a proxy may split differently; close the connection."""
    chunked = "transfer-encoding" in head.headers
    if chunked and ("content-length" in head.headers or version == "1.0"):
        raise errors.LengthAmbiguous


def _has_body(head: RequestHead) -> bool:
    return head.headers.get("content-length", "0") != "0" or "transfer-encoding" in head.headers


def _check_media(head: RequestHead, *, form: bool) -> None:
    written = head.headers.get("content-type", "")
    right = written.partition(";")[0].strip().lower() == FORM_TYPE if form else JSON_TYPE.fullmatch(written)
    if not right or head.headers.get("content-encoding", "identity") != "identity" or "content-type" in head.repeated:
        raise errors.MediaRefused


HEADER = b"idempotency-key"
REPLAYED = {"idempotency-replayed": "true"}
KEY = re.compile(rb"[\x21-\x7e]{1,128}")


class IdempotencyMiddleware:
    """Answers a repeated request from the stored answer; stores the key of the first one with its effects."""

    def __init__(self, app: FastAPI, context: ServerContext) -> None:
        self._app = app
        self._routes = app.routes
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or repeat the answer of the first one with its key."""
        key = _key(scope)
        caller: Caller | None = scope["state"].get("caller")
        if key is None or caller is None or scope["method"] in SAFE:
            await self._app(scope, receive, send)
            return
        self._check_scope(caller, scope)
        # A key belongs to one token, or to the browsers that it logged in: names alone are not unique.
        number = "" if caller.token is None else f"~{caller.token}"
        kind, _, name = caller.actor.partition(":")
        owner = f"{kind}{number}:{caller.scope}:{name}"
        context = self._context
        mark = IdempotencyKey(context.store, context.clock, caller=owner, key=key, digest=_digest(scope))
        stored = await run_sync(mark.find)
        if stored is not None:
            first = _same(stored, mark)
            response = Response(first.body, first.status or 200, REPLAYED, "application/json")
            await response(scope, receive, send)
            return
        scope["state"]["claim_key"] = partial(_claim, mark)
        held = _Held()
        await self._app(scope, receive, held.take)
        if held.status < 400:
            await run_sync(partial(mark.answer, held.status, held.body.decode("utf-8", "replace")))
        for message in held.messages:
            await send(message)

    def _check_scope(self, caller: Caller, scope: Scope) -> None:
        """Refuse a caller without the scope of the route, before an answer is repeated."""
        for route in self._routes:
            if route.matches(scope)[0] is Match.FULL:
                needed = (getattr(route, "openapi_extra", None) or {}).get(SCOPE_KEY)
                if needed is not None and not caller.may(TokenScope(needed)):
                    raise errors.ScopeRefused(caller.scope, TokenScope(needed))
                return


class _Held:
    """A response that is delayed until its answer is stored."""

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


def _same(known: IdempotentRequest, mark: IdempotencyKey) -> IdempotentRequest:
    """Return the answer of the first request; refuse another request, or one without an answer."""
    if known.digest != mark.digest:
        raise errors.KeyMismatch
    if known.status is None:
        raise errors.KeyPending
    return known


def _claim(mark: IdempotencyKey, db: Database) -> None:
    if not mark.claim(db):
        raise errors.KeyPending  # a concurrent request has the key


def _key(scope: Scope) -> str | None:
    keys: list[bytes] = [value for name, value in scope["headers"] if name.lower() == HEADER]
    if not keys:
        return None
    if len(keys) > 1 or not KEY.fullmatch(keys[0]):
        raise errors.KeyRefused
    return keys[0].decode("ascii")


def _digest(scope: Scope) -> str:
    parts = (scope["method"].encode(), scope["path"].encode(), scope["query_string"], scope["state"]["body_bytes"])
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
