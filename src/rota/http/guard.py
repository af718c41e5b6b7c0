"""The outermost layer: every request passes here before any route is looked for, and everything unknown is refused."""

import re
from collections import Counter
from email.utils import format_datetime
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.http.bodies import read_body, read_form, read_json, replayed
from rota.http.doorman import SAFE, Asked, Doorman
from rota.http.problems import Unexpected
from rota.http.refusals import BodyTooLarge, HttpRefusal, JsonInvalid, LengthAmbiguous, MediaRefused, NotFound
from rota.log import log
from rota.model.errors import RotaError


class ErrorResponse(Protocol):
    """Makes the response to a refused request."""

    async def __call__(self, error: RotaError, scope: Scope, *, base: str) -> Response:
        """Return an error as a page or as problem+json."""
        ...


OPEN = frozenset({"/healthz", "/login"})
"""Paths that need no token: the first tells nothing, the second takes one."""
FILES = "/static/"
"""Styles and scripts of the pages need none either: the login page has them, and they tell nothing."""
LOGIN = "/login"
ACTIONS = "/ui/"
"""What pages of the dashboard change comes by forms, below this path."""
JSON_TYPE = re.compile(r"application/json(\s*;\s*charset=\"?utf-8\"?)?\s*", re.IGNORECASE)
FORM_TYPE = "application/x-www-form-urlencoded"
ODD_PATH = re.compile(rb"%2f|%5c|%2e|%00|%25|\\|//|/\.{1,2}(/|$)", re.IGNORECASE)
POLICY = (
    b"default-src 'none'",
    b"script-src 'self'",
    b"style-src 'self'",
    b"img-src 'self'",
    b"connect-src 'self'",
    b"base-uri 'none'",
    b"form-action 'self'",
    b"frame-ancestors 'none'",
)
"""What pages may load: nothing but our own styles, scripts, images and answers."""
HEADERS = (
    (b"content-security-policy", b"; ".join(POLICY)),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, forms of our own pages have the Origin `null`
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
NO_STORE = (b"cache-control", b"no-store")


class Guard:
    """Checks host, origin, token and body, and gives every response its headers."""

    def __init__(self, app: ASGIApp, doorman: Doorman, *, refuse: ErrorResponse, base_path: str = "") -> None:
        self._app = app
        self._error_response = refuse
        self._doorman = doorman
        self._base_path = base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            raise NotImplementedError("only http is served")  # no lifespan, no websockets
        answer = _Answer(send, format_datetime(self._doorman.clock.now(), usegmt=True).encode())
        try:
            receive = await self._let_in(scope, receive)
            await self._app(scope, receive, answer.send)
        except RotaError as error:
            await self._refuse(error, scope, receive, answer=answer)
        except Exception as error:
            log.exception("a request failed", path=scope["path"], method=scope["method"], error=str(error))
            await self._refuse(Unexpected(), scope, receive, answer=answer)

    async def _let_in(self, scope: Scope, receive: Receive) -> Receive:
        asked = _asked(scope)
        _check_length(asked, version=scope.get("http_version", "1.1"))
        self._doorman.check_host(asked)
        self._doorman.check_origin(asked)
        self._strip(scope)
        state: dict[str, Any] = scope.setdefault("state", {})
        state["doorman"] = self._doorman
        if scope["path"] not in OPEN and not scope["path"].startswith(FILES):
            state["caller"] = self._doorman.admit(asked)
        return await self._body(scope, asked, receive)

    def _strip(self, scope: Scope) -> None:
        """Take the path of the proxy away, and refuse paths that somebody wrote to be read in two ways."""
        raw = scope.get("raw_path") or scope["path"].encode()
        if ODD_PATH.search(raw.partition(b"?")[0]):
            raise NotFound
        base = self._base_path
        if base and (scope["path"] == base or scope["path"].startswith(f"{base}/")):
            scope["path"] = scope["path"][len(base) :] or "/"
            scope["raw_path"] = raw[len(base) :] or b"/"

    async def _body(self, scope: Scope, asked: Asked, receive: Receive) -> Receive:
        """Read the body of a request and look whether it is JSON; what reads only has none."""
        if asked.headers.get("content-length", "0").isdecimal() and _too_long(asked.headers.get("content-length", "0")):
            raise BodyTooLarge
        body = await read_body(receive) if _has_body(asked) else b""
        if body and asked.method not in SAFE:
            form = scope["path"] == LOGIN or scope["path"].startswith(ACTIONS)
            _check_media(asked, form=form)
            scope["state"] |= read_form(body) if form else {"body": _not_null(read_json(body))}
        scope["state"]["body_bytes"] = body
        return replayed(body, receive) if _has_body(asked) else receive

    async def _refuse(self, error: RotaError, scope: Scope, receive: Receive, *, answer: "_Answer") -> None:
        if answer.begun:
            return  # the head is out already; the connection is closed and the client sees that it was cut
        if isinstance(error, HttpRefusal) and error.status in (401, 403, 421, 429):
            log.debug("request refused", code=error.code, path=scope["path"], client=_client(scope))
        response = await self._error_response(error, scope, base=self._base_path)
        await response(scope, receive, answer.send)


def _not_null(value: Any) -> Any:
    """Return a value that is not null: a client that means no body sends none."""
    if value is None:
        raise JsonInvalid("it is null; send an object, or no body where it may be left out")
    return value


class _Answer:
    """Sends a response with the headers that all have."""

    def __init__(self, send: Send, date: bytes) -> None:
        self._send = send
        self._date = date
        self.begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            given = {name for name, _ in message["headers"]}
            own = [*HEADERS, (b"date", self._date), *(() if b"cache-control" in given else (NO_STORE,))]
            message = {**message, "headers": [*message["headers"], *own]}
        await self._send(message)


def _asked(scope: Scope) -> Asked:
    pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    counted = Counter(name for name, _ in pairs)
    return Asked(
        method=scope["method"],
        scheme=scope["scheme"],
        headers=dict(pairs),
        repeated=frozenset(name for name, count in counted.items() if count > 1),
        client=_client(scope),
    )


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _check_length(asked: Asked, *, version: str) -> None:
    """Refuse a request that a proxy in front may split differently; the connection is closed with the answer."""
    chunked = "transfer-encoding" in asked.headers
    if chunked and ("content-length" in asked.headers or version == "1.0"):
        raise LengthAmbiguous


def _has_body(asked: Asked) -> bool:
    return asked.headers.get("content-length", "0") != "0" or "transfer-encoding" in asked.headers


def _too_long(length: str) -> bool:
    return len(length) > 10 or int(length) > 1_000_000


def _check_media(asked: Asked, *, form: bool) -> None:
    written = asked.headers.get("content-type", "")
    right = written.partition(";")[0].strip().lower() == FORM_TYPE if form else JSON_TYPE.fullmatch(written)
    if not right or asked.headers.get("content-encoding", "identity") != "identity" or "content-type" in asked.repeated:
        raise MediaRefused
