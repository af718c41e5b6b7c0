"""Who carries notifications out: webhooks, chats and commands, each attempt on a thread of its own."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from rota.engine.ports import Letter
from rota.engine.sources import ThreadedSources
from rota.model.errors import InvalidValue, RotaError
from rota.model.notify import Channel, Receipt, Target
from rota.rules import notify_words
from rota.runners import chat, notice_command, webhook
from rota.runners.environment import inherited
from rota.runners.secrets import Secrets
from rota.settings import Settings

SLACK = 2.0
"""How much longer than its timeout an attempt is waited for: names are resolved and threads started too."""


class ThreadedPost:
    """Sends letters. Secrets are read for each attempt and never stored."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ
        self._secrets = Secrets(settings.state, environ)
        self._threads = ThreadedSources(settings, environ)

    async def send(self, letter: Letter) -> Receipt:
        """Make one attempt."""
        return await self._bounded(partial(self.deliver, letter), letter.target)

    async def ping(self, target: Target) -> Receipt:
        """Fetch an address, only to be heard there."""
        return await self._bounded(partial(self._fetch, target), target)

    async def _bounded(self, attempt: Callable[[], Receipt], target: Target) -> Receipt:
        within = target.timeout.total_seconds() + SLACK
        try:
            return await self._threads.ask(attempt, within=within)
        except InvalidValue as error:
            return Receipt(ok=False, error=self._secrets.hide(str(error)), hopeless=True)
        except RotaError as error:
            return Receipt(ok=False, error=self._secrets.hide(error.message))

    def deliver(self, letter: Letter) -> Receipt:
        """Make one attempt here and now; it may take as long as the target's timeout."""
        receipt = self._deliver(letter)
        return receipt if receipt.error is None else replace(receipt, error=self._secrets.hide(receipt.error))

    def _deliver(self, letter: Letter) -> Receipt:
        target, body = letter.target, json.dumps(letter.payload, ensure_ascii=False, separators=(",", ":"))
        if target.channel is Channel.COMMAND:
            return self._command(letter, body)
        if target.channel is Channel.TELEGRAM:
            return self._telegram(letter)
        address = self._address(target)
        if target.channel is Channel.APPRISE:
            receipt = chat.send(
                address, title=notify_words.title(letter.payload), body=notify_words.body(letter.payload)
            )
        else:
            headers = webhook.signed(
                body, message=letter.id, at=letter.at, secrets=[self._secret(name) for name in target.signing]
            )
            request = webhook.Request(
                address, body, headers, target.allow_private, timeout=target.timeout.total_seconds()
            )
            receipt = webhook.send(request)
        return _redacted(receipt, address) if target.address_secret else receipt

    def _telegram(self, letter: Letter) -> Receipt:
        token = self._secret(letter.target.address_secret).strip()
        told = f"{notify_words.title(letter.payload)}\n{notify_words.body(letter.payload)}"
        timeout = letter.target.timeout.total_seconds()
        request = chat.telegram(token, letter.target.address, told, timeout=timeout)
        return _redacted(webhook.send(request), request.url)

    def _fetch(self, target: Target) -> Receipt:
        address, timeout = self._address(target), target.timeout.total_seconds()
        request = webhook.Request(address, allow_private=target.allow_private, timeout=timeout, method="GET")
        receipt = webhook.send(request)
        return _redacted(receipt, address) if target.address_secret else receipt

    def _command(self, letter: Letter, body: str) -> Receipt:
        told = {f"ROTA_{key.upper()}": str(letter.payload[key] or "") for key in ("event", "job", "run", "status")}
        environment = {**inherited(self._environ), **told, "ROTA_REASON": str(letter.payload.get("reason") or "")}
        cwd = Path(letter.target.cwd) if letter.target.cwd else self._settings.folder
        timeout = letter.target.timeout.total_seconds()
        return notice_command.run(letter.target.command, body, cwd=cwd, environment=environment, timeout=timeout)

    def _address(self, target: Target) -> str:
        return self._secret(target.address_secret).strip() if target.address_secret else target.address

    def _secret(self, name: str) -> str:
        return self._secrets.find(name)


def _redacted(receipt: Receipt, address: str) -> Receipt:
    """Return a receipt that shows nothing of an address which is a secret."""
    if receipt.ok or receipt.error is None:
        return receipt
    parts = sorted({part for part in (address, *address.split("/")) if len(part) > 3}, key=len, reverse=True)
    told = receipt.error
    for part in parts:
        told = told.replace(part, "…")
    return replace(receipt, error=told)
