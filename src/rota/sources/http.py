"""The work source of any HTTP endpoint."""

import asyncio
import json
from collections.abc import Collection, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from rota.model.agents import WorkAhead, WorkItem, WorkReport, WorkRequest
from rota.model.errors import SourceError
from rota.sources.items import read_item, write_item

if TYPE_CHECKING:
    import ssl

    import httpx2


T = TypeVar("T")
BODY_LIMIT = 8_000_000
CONNECT = 10.0
SAID_LIMIT = 200
LONGEST_WISH = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a server answered; `data` is its JSON, None where it sent none."""

    status: int
    data: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Web:
    """One server, asked with the same headers each time."""

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
        """Return the answer to a request; raise SourceError unless it is a success, or its status one of `also`."""
        answer = self._send(method, self._address(path), body=body, params=params, headers=headers or {})
        if 200 <= answer.status < 300 or answer.status in also:
            return answer
        told = f"{method} {self._address(path)}: {answer.status}{_said(answer.data)}"
        raise SourceError(told, status=answer.status, again_after=wish(answer.headers))

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
        unfit = next((name for name, value in sent.items() if not (value.isascii() and value.isprintable())), None)
        if unfit is not None:  # told here, since the client would show the value
            raise SourceError(f"{method} {url}: the header {unfit} holds characters that cannot be sent")
        request = {"json": body, "params": dict(params) if params else None, "headers": sent}
        try:
            answer = finish_within(self._timeout, self._fetch(method, url, request))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise SourceError(f"{method} {url}: {type(error).__name__}: {error}".rstrip(": ")) from None
        return replace(answer, data=_parsed(answer.data, method, url))

    async def _fetch(self, method: str, url: str, request: Mapping[str, Any]) -> HttpAnswer:
        """Return an answer with its bytes as `data`."""
        import httpx2

        timeout = httpx2.Timeout(None, connect=min(CONNECT, self._timeout))
        async with (
            httpx2.AsyncClient(timeout=timeout, verify=trusted()) as client,
            client.stream(method, url, **request) as answer,
        ):
            return HttpAnswer(answer.status_code, await _read(answer), dict(answer.headers))


def finish_within(seconds: float, request: Coroutine[Any, Any, T]) -> T:
    """Return what a request brings; after so many seconds in all close its socket and raise TimeoutError.

    Timeouts of clients begin anew with every byte: a server that drips would keep the thread and the socket for ever.
    """

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await request

    try:
        return asyncio.run(bounded())
    except TimeoutError:
        raise TimeoutError(f"no answer within {seconds:g} s") from None


@cache
def trusted() -> "ssl.SSLContext":
    """Return the certificates of this machine; reading them costs more than most requests."""
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
            raise SourceError(f"{method} {url}: its answer is no JSON") from None
        return None


def _said(data: Any) -> str:
    """Return what a server says about a refusal, as short as a line."""
    found = data.get("message") or data.get("error") if isinstance(data, dict) else None
    words = "".join(c if c.isprintable() else " " for c in found) if isinstance(found, str) else ""
    return f" {words[:SAID_LIMIT]}" if words else ""


def wish(headers: Mapping[str, str]) -> float | None:
    """Return after how many seconds a server wants to be asked again, None where it does not say.

    A date and the end of a rate limit are read against the server's own clock.
    """
    after = headers.get("retry-after", "").strip()
    if after.isdecimal():
        return min(float(after), LONGEST_WISH)
    server = _instant(headers.get("date"))
    until = _instant(after)
    if until is None and headers.get("x-ratelimit-remaining") == "0":
        reset = headers.get("x-ratelimit-reset", "")
        until = float(reset) if reset.isdecimal() else None
    if until is None or server is None:
        return None
    return min(max(until - server, 0.0), LONGEST_WISH)


def _instant(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (TypeError, ValueError):
        return None


KEY = "Idempotency-Key"
UNKNOWN = (404, 410)
"""Answers of a server that knows no such claim (any more): there is nothing left to end."""
NOT_OFFERED = (404, 405, 501)


class HttpSource:
    """`POST …/claim`, `…/report`, `…/release` and `GET …/peek`; the claim's name is the idempotency key."""

    def __init__(self, url: str, headers: Mapping[str, str], *, timeout: float) -> None:
        self._url = url
        self._web = Web(url, headers, timeout=timeout)

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        """Claim the next item; 204 means that there is none."""
        answer = self._post("claim", {**_who(request), "params": dict(request.params)}, claim=request.claim)
        if answer.status == 204 or answer.data is None:
            return None
        return read_item(answer.data, claim={"id": request.claim}, source=self._url)

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        """Tell how the work ended."""
        told = {
            "success": outcome.success,
            "run": outcome.run,
            "summary": outcome.summary,
            "error": outcome.error,
        }
        self._post("report", {"claim": item.claim["id"], "item": write_item(item), **told}, claim=item.claim["id"])

    def release(self, item: WorkItem, /) -> None:
        """Give an item back."""
        self._post("release", {"claim": item.claim["id"], "item": write_item(item)}, claim=item.claim["id"])

    def release_claim(self, request: WorkRequest, /) -> None:
        """Give back whatever this claim may have got."""
        self._post("release", {"claim": request.claim, "item": None}, claim=request.claim)

    def peek(self, request: WorkRequest, /) -> WorkAhead:
        """Return what the server says that it has; one that has no such answer is not asked further."""
        answer = self._web.ask("GET", "/peek", params={"job": request.job}, also=NOT_OFFERED)
        if answer.status in NOT_OFFERED or answer.data is None:
            return WorkAhead()
        if not isinstance(answer.data, dict):
            raise SourceError(f"GET {self._url}/peek: its answer is no JSON object")
        found, count = answer.data.get("next"), answer.data.get("open")
        following = None if found is None else read_item(found, claim={}, source=self._url)
        return WorkAhead(count if isinstance(count, int) and not isinstance(count, bool) else None, following)

    def _post(self, verb: str, body: Mapping[str, Any], *, claim: str) -> HttpAnswer:
        also = () if verb == "claim" else UNKNOWN
        return self._web.ask("POST", f"/{verb}", body=dict(body), headers={KEY: claim}, also=also)


def _who(request: WorkRequest) -> dict[str, str]:
    return {"claim": request.claim, "job": request.job, "run": request.run}
