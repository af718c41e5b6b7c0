"""Senders of notifications: webhooks, chats and commands, behind the SSRF check."""

import base64
import binascii
import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from rota.model.errors import AddressRefused, AddressUnknown, InvalidValue
from rota.model.notifications import DeliveryResult
from rota.rules.outcome import retry_after
from rota.sources.http import Pinned, finish_within, pin, trusted

GONE = 410
REFUSAL_BYTES = 256
SECRET_BYTES = range(24, 65)
SECRET_HINT = "write `whsec_` and 24 to 64 random bytes in base64: `printf 'whsec_%s' $(openssl rand -base64 32)`"


class WebhookRequest(Struct, frozen=True):
    """One request."""

    url: str
    body: str = ""
    headers: Mapping[str, str] | None = None
    allow_private: Sequence[str] = ()
    timeout: float = 15.0
    method: str = "POST"


def signed(body: str, *, message: str, at: datetime, secrets: Sequence[str]) -> dict[str, str]:
    """Return the headers of a message: its id, its time, and a signature for each secret."""
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
    if not text.startswith("whsec_") or len(key) not in SECRET_BYTES:
        raise InvalidValue("the signing secret has the wrong format", hint=SECRET_HINT)
    return text


def send_webhook(request: WebhookRequest) -> DeliveryResult:
    """Send a request; the result has the error, without the address."""
    import httpx2

    try:
        place = pin(request.url, allow_private=request.allow_private)
        return finish_within(request.timeout, _send(request, place))
    except AddressRefused as error:
        return DeliveryResult(ok=False, error=str(error), hopeless=True)
    except AddressUnknown as error:
        return DeliveryResult(ok=False, error=error.message)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        return DeliveryResult(ok=False, error=f"{type(error).__name__}: {error}".rstrip(": "))


async def _send(request: WebhookRequest, place: Pinned) -> DeliveryResult:
    import httpx2

    headers = {"host": place.host, "user-agent": "rota", "accept-encoding": "identity", **(request.headers or {})}
    if request.body:
        headers.setdefault("content-type", "application/json")
    client = httpx2.AsyncClient(timeout=None, verify=trusted(), trust_env=False, follow_redirects=False)
    sni: dict[str, Any] = {"sni_hostname": place.name}
    content = request.body.encode() or None
    async with (
        client,
        client.stream(request.method, place.url, content=content, headers=headers, extensions=sni) as answer,
    ):
        return await _receipt(answer)


async def _receipt(answer: Any) -> DeliveryResult:
    code: int = answer.status_code
    if answer.is_success:
        return DeliveryResult(ok=True, answer=code)
    status = f"{code} {answer.reason_phrase}".strip()
    if answer.has_redirect_location or answer.is_redirect:
        return DeliveryResult(ok=False, answer=code, error=f"{status}: redirects are not followed")
    if code == GONE:
        return DeliveryResult(ok=False, answer=code, error=f"{status}: the receiver wants no more messages", gone=True)
    wait = retry_after(answer.headers.get("retry-after"), date=answer.headers.get("date"))
    return DeliveryResult(ok=False, answer=code, error=f"{status}{await _refusal_text(answer)}", wait=wait)


async def _refusal_text(answer: Any) -> str:
    """Return the first bytes of an uncompressed refusal as text."""
    if answer.headers.get("content-encoding"):
        return ""
    first = (await anext(answer.aiter_raw(), b""))[:REFUSAL_BYTES].decode("utf-8", "replace")
    words = " ".join("".join(c if c.isprintable() else " " for c in first).split())
    return f": {words}" if words else ""


APPRISE_MISSING = "apprise is not installed: install rota with the extra `notify`"


def send_chat(address: str, *, title: str, body: str) -> DeliveryResult:
    """Notify an apprise address; apprise reports only success or failure."""
    try:
        import apprise
    except ImportError:
        return DeliveryResult(ok=False, error=APPRISE_MISSING, hopeless=True)
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its log shows the address
    notifier = apprise.Apprise()
    if not notifier.add(address):
        return DeliveryResult(ok=False, error="apprise does not support this address", hopeless=True)
    if notifier.notify(title=title, body=body):
        return DeliveryResult(ok=True)
    return DeliveryResult(ok=False, error="apprise could not deliver it")


OUTPUT_CHARACTERS = 500


def run(
    command: Sequence[str], body: str, *, cwd: Path, environment: Mapping[str, str], timeout: float
) -> DeliveryResult:
    """Run a command; kill it with its process group after the timeout."""
    try:
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return DeliveryResult(ok=False, error=f"{command[0]} cannot be started: {error}")
    try:
        _, errors = process.communicate(body.encode(), timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return DeliveryResult(ok=False, error=f"it did not finish within {timeout:g} s")
    if process.returncode == 0:
        return DeliveryResult(ok=True, answer=0)
    code, words = process.returncode, errors.decode("utf-8", "replace").strip()[-OUTPUT_CHARACTERS:]
    return DeliveryResult(ok=False, answer=code, error=f"exit {code}{f': {words}' if words else ''}")
