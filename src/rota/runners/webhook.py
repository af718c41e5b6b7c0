"""Webhooks: one signed POST to an address that was judged, 2xx or it failed (DEC-009, Standard Webhooks)."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.errors import AddressRefused, AddressUnknown, InvalidValue
from rota.model.notify import Receipt
from rota.rules.retry_after import retry_after
from rota.runners.guard import Pinned, pin
from rota.runners.http import trusted
from rota.sources.web import finish_within

GONE = 410
SHOWN = 256
"""How much of a refusal's own words is kept."""
LEAST_SECRET, MOST_SECRET = 24, 64
SECRET_HINT = "write `whsec_` and 24 to 64 random bytes in base64: `printf 'whsec_%s' $(openssl rand -base64 32)`"


@dataclass(frozen=True, slots=True)
class Request:
    """One request: where to, what, and how long it may take."""

    url: str
    body: str = ""
    headers: Mapping[str, str] | None = None
    allow_private: Sequence[str] = ()
    timeout: float = 15.0
    method: str = "POST"


def signed(body: str, *, message: str, at: datetime, secrets: Sequence[str]) -> dict[str, str]:
    """Return the headers of a message: its id, its time, and a signature by each secret."""
    headers = {"webhook-id": message, "webhook-timestamp": str(int(at.timestamp()))}
    if secrets:
        from standardwebhooks import Webhook

        made = [Webhook(_checked(secret)).sign(message, at, body) for secret in secrets]
        headers["webhook-signature"] = " ".join(made)
    return headers


def _checked(secret: str) -> str:
    text = secret.strip()
    try:
        key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith("whsec_") or not LEAST_SECRET <= len(key) <= MOST_SECRET:
        raise InvalidValue("the secret that signs is not as it must be", hint=SECRET_HINT)
    return text


def send(request: Request) -> Receipt:
    """Send a request; what goes wrong is told in the receipt, never with the address itself."""
    import httpx2

    try:
        place = pin(request.url, allow_private=request.allow_private)
        return finish_within(request.timeout, _send(request, place))
    except AddressRefused as error:
        return Receipt(ok=False, error=str(error), hopeless=True)
    except AddressUnknown as error:
        return Receipt(ok=False, error=error.message)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        return Receipt(ok=False, error=f"{type(error).__name__}: {error}".rstrip(": "))


async def _send(request: Request, place: Pinned) -> Receipt:
    import httpx2

    headers = {"host": place.host, "user-agent": "rota", "accept-encoding": "identity", **(request.headers or {})}
    if request.body:
        headers["content-type"] = "application/json"
    client = httpx2.AsyncClient(timeout=None, verify=trusted(), trust_env=False, follow_redirects=False)
    sni: dict[str, Any] = {"sni_hostname": place.name}
    content = request.body.encode() or None
    async with (
        client,
        client.stream(request.method, place.url, content=content, headers=headers, extensions=sni) as answer,
    ):
        return await _receipt(answer)


async def _receipt(answer: Any) -> Receipt:
    code: int = answer.status_code
    if answer.is_success:
        return Receipt(ok=True, answer=code)
    told = f"{code} {answer.reason_phrase}".strip()
    if answer.has_redirect_location or answer.is_redirect:
        return Receipt(ok=False, answer=code, error=f"{told}: redirects are not followed")
    if code == GONE:
        return Receipt(ok=False, answer=code, error=f"{told}: it wants nothing any more", gone=True)
    wait = retry_after(answer.headers.get("retry-after"), date=answer.headers.get("date"))
    return Receipt(ok=False, answer=code, error=f"{told}{await _said(answer)}", wait=wait)


async def _said(answer: Any) -> str:
    """Return the first words of a refusal as they came: nothing is unpacked."""
    if answer.headers.get("content-encoding"):
        return ""
    first = (await anext(answer.aiter_raw(), b""))[:SHOWN].decode("utf-8", "replace")
    words = " ".join("".join(c if c.isprintable() else " " for c in first).split())
    return f": {words}" if words else ""
