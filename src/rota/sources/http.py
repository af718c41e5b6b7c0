"""The work source of any HTTP endpoint."""

import json
import socket
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from rota.model.agents import WorkAhead, WorkItem, WorkReport, WorkRequest
from rota.model.errors import AddressUnknown, SourceError
from rota.rules.addresses import is_allowed, is_public, private, read_address
from rota.rules.outcome import retry_after
from rota.sources.items import read_item, write_item

if TYPE_CHECKING:
    import ssl

    import httpx2


T = TypeVar("T")
BODY_LIMIT = 8_000_000
CONNECT_SECONDS = 10.0
REFUSAL_TEXT_LIMIT = 200
RETRY_LIMIT_SECONDS = 24 * 3600.0


class HttpAnswer(Struct, frozen=True):
    """The answer of a server; `data` is its JSON or None."""

    status: int
    data: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Web:
    """One server, with the headers of all requests."""

    def __init__(self, base: str, headers: Mapping[str, str], *, timeout: float) -> None:
        self._base = base.rstrip("/")
        self._headers = dict(headers)
        self._timeout = timeout

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        also: Collection[int] = (),
    ) -> HttpAnswer:
        """Return the answer to a request; raise SourceError unless it is a success or its status is in `also`."""
        answer = self._send(method, self._address(path), body=body, params=params, headers=headers or {})
        if 200 <= answer.status < 300 or answer.status in also:
            return answer
        text = f"{method} {self._address(path)}: {answer.status}{_refusal_text(answer.data)}"
        raise SourceError(text, status=answer.status, again_after=retry_seconds(answer.headers))

    def _address(self, path: str) -> str:
        if "://" not in path:
            return f"{self._base}{path}"
        here, there = urlsplit(self._base), urlsplit(path)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):  # the headers are for this server alone
            raise SourceError(f"{self._base} points to another server: {there.scheme}://{there.netloc}")
        return path

    def _send(
        self, method: str, url: str, *, body: Any, params: Mapping[str, str | int] | None, headers: Mapping[str, str]
    ) -> HttpAnswer:
        import httpx2

        sent = {**self._headers, **headers}
        if (problem := header_problem(sent)) is not None:
            raise SourceError(f"{method} {url}: {problem}")
        request = {"json": body, "params": dict(params) if params else None, "headers": sent}
        try:
            answer = finish_within(self._timeout, self._fetch(method, url, request))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise SourceError(f"{method} {url}: {type(error).__name__}: {error}".rstrip(": ")) from None
        return replace(answer, data=_parsed(answer.data, method, url))

    async def _fetch(self, method: str, url: str, request: Mapping[str, Any]) -> HttpAnswer:
        import httpx2

        timeout = httpx2.Timeout(None, connect=min(CONNECT_SECONDS, self._timeout))
        async with (
            httpx2.AsyncClient(timeout=timeout, verify=trusted()) as client,
            client.stream(method, url, **request) as answer,
        ):
            return HttpAnswer(answer.status_code, await _read(answer), dict(answer.headers))


def header_problem(headers: Mapping[str, str]) -> str | None:
    """Return the problem of a header that cannot be sent; the client's own error would show its value."""
    names = (name for name, value in headers.items() if not (value.isascii() and value.isprintable()))
    return next((f"the header {name} holds characters that cannot be sent" for name in names), None)


def finish_within(seconds: float, request: Coroutine[Any, Any, T]) -> T:
    """Return the result of a request; close its socket and raise TimeoutError after so many seconds in all.

    The timeouts of clients restart with every byte, so a slow server could hold the thread and the socket forever.
    """

    import asyncio

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await request

    try:
        return asyncio.run(bounded())
    except TimeoutError:
        raise TimeoutError(f"no answer within {seconds:g} s") from None


Resolve = Callable[[str, int], Collection[str]]


class Pinned(Struct, frozen=True):
    """A checked address: `url` contains it instead of the name; `host` and `name` are as written."""

    url: str
    host: str
    name: str


def resolved(name: str, port: int) -> list[str]:
    """Return the addresses of a name."""
    try:
        entries: list[Any] = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise AddressUnknown(name, why.lower()) from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def pin(url: str, *, allow_private: Collection[str] = (), resolve: Resolve = resolved) -> Pinned:
    """Return the address to connect to, or raise AddressRefused; every address of the name must be public."""
    address = read_address(url, allow_private=allow_private)
    addresses = list(resolve(address.name, address.port))
    if not addresses:
        raise AddressUnknown(address.name)
    if not is_allowed(address, allow_private) and not all(map(is_public, addresses)):
        raise private(address)
    literal = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
    return Pinned(f"{address.scheme}://{literal}:{address.port}{address.path}", address.host, address.name)


@cache
def trusted() -> "ssl.SSLContext":
    """Return the certificates of this machine; loading them takes longer than most requests."""
    import httpx2

    return httpx2.create_ssl_context()


async def _read(answer: "httpx2.Response") -> bytes:
    body = bytearray()
    async for part in answer.aiter_bytes():
        body += part
        if len(body) > BODY_LIMIT:
            raise ValueError(f"its answer is larger than {BODY_LIMIT:,} bytes")
    return bytes(body)


def _parsed(content: bytes, method: str, url: str) -> Any:
    if not content.strip():
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        if content.lstrip()[:1] in (b"{", b"["):
            raise SourceError(f"{method} {url}: its answer is not JSON") from None
        return None


def _refusal_text(data: Any) -> str:
    text = data.get("message") or data.get("error") if isinstance(data, dict) else None
    words = "".join(c if c.isprintable() else " " for c in text) if isinstance(text, str) else ""
    return f" {words[:REFUSAL_TEXT_LIMIT]}" if words else ""


def retry_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the pause that a server asks for, by Retry-After or the end of its rate limit, on the server's clock."""
    from email.utils import formatdate

    date, reset = headers.get("date"), headers.get("x-ratelimit-reset", "")
    seconds = retry_after(headers.get("retry-after"), date=date)
    if seconds is None and headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        seconds = retry_after(formatdate(int(reset[:10]), usegmt=True), date=date)
    return None if seconds is None else min(seconds, RETRY_LIMIT_SECONDS)


KEY = "Idempotency-Key"
CLAIM_UNKNOWN = (404, 410)
NOT_OFFERED = (404, 405, 501)


class HttpSource:
    """`POST …/claim`, `…/report`, `…/release` and `GET …/peek`; the claim is the idempotency key."""

    def __init__(self, url: str, headers: Mapping[str, str], *, timeout: float) -> None:
        self._url = url
        self._web = Web(url, headers, timeout=timeout)

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        """Claim the next item; status 204 means none."""
        body = {"claim": request.claim, "job": request.job, "run": request.run, "params": dict(request.params)}
        answer = self._web.ask("POST", "/claim", body=body, headers={KEY: request.claim})
        if answer.status == 204 or answer.data is None:
            return None
        return read_item(answer.data, claim={"id": request.claim}, source=self._url)

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        """Report the outcome of the work."""
        self._end_claim("report", item.claim["id"], item, **asdict(outcome))

    def release(self, item: WorkItem, /) -> None:
        """Release an item."""
        self._end_claim("release", item.claim["id"], item)

    def release_claim(self, request: WorkRequest, /) -> None:
        """Release the item of this claim, if any."""
        self._end_claim("release", request.claim, None)

    def peek(self, request: WorkRequest, /) -> WorkAhead:
        """Return the waiting items; unknown for a server without this path."""
        answer = self._web.ask("GET", "/peek", params={"job": request.job}, also=NOT_OFFERED)
        if answer.status in NOT_OFFERED or answer.data is None:
            return WorkAhead()
        if not isinstance(answer.data, dict):
            raise SourceError(f"GET {self._url}/peek: its answer is not a JSON object")
        found, count = answer.data.get("next"), answer.data.get("open")
        following = None if found is None else read_item(found, claim={}, source=self._url)
        return WorkAhead(count if isinstance(count, int) and not isinstance(count, bool) else None, following)

    def _end_claim(self, verb: str, claim: str, item: WorkItem | None, **further: Any) -> None:
        body = {"claim": claim, "item": None if item is None else write_item(item), **further}
        self._web.ask("POST", f"/{verb}", body=body, headers={KEY: claim}, also=CLAIM_UNKNOWN)
