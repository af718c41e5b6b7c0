"""Requests to the API of a chat service: one checked address, bounded in time and size."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from rota.model.chats import ChatFailure
from rota.model.errors import AddressRefused, AddressUnknown
from rota.rules.outcome import retry_after
from rota.sources.http import finish_within, pin, trusted

if TYPE_CHECKING:
    import httpx2

ANSWER_LIMIT = 8_000_000


class ApiAnswer(Struct, frozen=True):
    """The answer of an API; `data` is its JSON object, empty for none."""

    status: int
    data: Mapping[str, Any]
    wait: float | None = None


class ChatApi:
    """The address of an API, and what it may lead to."""

    def __init__(self, base: str, *, allow_private: Sequence[str] = (), timeout: float = 15.0) -> None:
        self.base = base.rstrip("/")
        self.allow_private = tuple(allow_private)
        self.timeout = timeout

    def post(
        self,
        path: str,
        *,
        body: Any = None,
        form: Mapping[str, str] | None = None,
        files: Mapping[str, tuple[str, bytes]] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ApiAnswer:
        """Return the answer to a POST; raise ChatFailure if there is none. `path` may be a whole address."""
        import httpx2

        url = path if "://" in path else f"{self.base}/{path}"
        request = {"json": body, "data": form, "files": files, "content": content}
        given = {name: value for name, value in request.items() if value is not None}
        try:
            place = pin(url, allow_private=self.allow_private)
            seconds = self.timeout if timeout is None else timeout
            return finish_within(seconds, _post(place.url, place.host, place.name, given, headers or {}))
        except AddressRefused as error:
            raise ChatFailure(error.message, hopeless=True) from None
        except AddressUnknown as error:
            raise ChatFailure(error.message) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            # The address holds the token of a Telegram bot, and the errors of the client may name it.
            raise ChatFailure(f"{urlsplit(self.base).hostname}: {type(error).__name__}{_cause(error)}") from None


def _cause(error: Exception) -> str:
    return f": {error}" if isinstance(error, TimeoutError | OSError) and "://" not in str(error) else ""


async def _post(url: str, host: str, name: str, request: Mapping[str, Any], headers: Mapping[str, str]) -> ApiAnswer:
    import httpx2

    sent = {"host": host, "user-agent": "rota", "accept-encoding": "identity", **headers}
    client = httpx2.AsyncClient(timeout=None, verify=trusted(), trust_env=False, follow_redirects=False)
    sni: dict[str, Any] = {"sni_hostname": name}
    async with client, client.stream("POST", url, headers=sent, extensions=sni, **request) as answer:
        data = _object(await _read(answer))
        wait = retry_after(answer.headers.get("retry-after"), date=answer.headers.get("date"))
        return ApiAnswer(answer.status_code, data, wait)


async def _read(answer: "httpx2.Response") -> bytes:
    body = bytearray()
    async for part in answer.aiter_raw():
        body += part
        if len(body) > ANSWER_LIMIT:
            raise ValueError("its answer is too large")
    return bytes(body)


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
