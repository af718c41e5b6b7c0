"""The loop that sends notifications."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rota import faults
from rota.engine.loops.answers import Answers, chat_checked, chat_sent, client_of, outgoing
from rota.engine.loops.loop import Loop, call_in_thread
from rota.engine.ports import Message, Post
from rota.engine.transactions.notifications import tell_late
from rota.log import log
from rota.model.chats import Button, Outgoing
from rota.model.clock import Clock
from rota.model.errors import InvalidValue, RotaError
from rota.model.notifications import (
    CHATS,
    Channel,
    Delivery,
    DeliveryResult,
    DeliveryStatus,
    Event,
    PingSignal,
    Target,
)
from rota.model.records import ERROR_LIMIT, Run, cut
from rota.model.serialize import run_json
from rota.model.spec import SecretOrigin
from rota.rules.notifications import pause_before, ping_address, rest_after
from rota.runners import senders
from rota.runners.environment import Secrets, inherited
from rota.runners.output import folder_of, tail_after
from rota.settings import Settings
from rota.store.driver import Database, Store
from rota.store.tables import jobs, notifications, run_queries, runs
from rota.text import messages

MAX_SENDING, MAX_SENDING_PER_ENDPOINT = 16, 2
"""How many attempts are under way together, and how many of them to the same endpoint."""
LEASE = timedelta(minutes=1)
"""After how much more than its timeout an attempt whose process died is made again."""
FINISH_TIMEOUT = timedelta(seconds=5)
"""How long a process that ends goes on sending; the next one sends the rest."""
NO_TARGET = DeliveryResult(ok=False, error="the target no longer exists", hopeless=True)
NO_RUN = DeliveryResult(ok=False, error="the run is no longer stored", hopeless=True)


class Deliveries:
    """Sends what is due. A slow or dead endpoint delays neither a run nor another endpoint."""

    def __init__(self, store: Store, clock: Clock, post: Post, *, tick: timedelta) -> None:
        self._store = store
        self._clock = clock
        self._post = post
        self._tick = tick
        self._answers = Answers(store, clock, post)
        self._sending: dict[str, tuple[str, asyncio.Task[None]]] = {}
        self.loop = Loop("deliveries", self.round, clock=clock)

    async def round(self) -> datetime | None:
        """Notify of late runs, start due deliveries; return the time of the next round."""
        now = self._clock.now()
        late = self._store.read(notifications.next_deadline)
        if late is not None and late <= now:
            await self._store.submit(partial(tell_late, now=now))
            late = self._store.read(notifications.next_deadline)
        due = self._next_due()
        if due is not None and due <= now:
            for delivery in await self._store.submit(partial(self._take_due, now=now)):
                self._begin(delivery)
            due = self._next_due()
        return min(at for at in (late, due, now + self._tick) if at is not None)

    def _next_due(self) -> datetime | None:
        if len(self._sending) >= MAX_SENDING:
            return None  # the end of one of them wakes the loop
        return self._store.read(partial(notifications.next_due, busy=self._busy()))

    def _busy(self) -> list[str]:
        counted = Counter(endpoint for endpoint, _ in self._sending.values())
        return [endpoint for endpoint, count in counted.items() if count >= MAX_SENDING_PER_ENDPOINT]

    def _take_due(self, db: Database, *, now: datetime) -> list[Delivery]:
        counted = Counter(endpoint for endpoint, _ in self._sending.values())
        deliveries: list[Delivery] = []
        for delivery in notifications.due(db, now=now, busy=self._busy(), limit=MAX_SENDING):
            target = _target(db, delivery)
            if (
                counted[delivery.endpoint] >= MAX_SENDING_PER_ENDPOINT
                or len(self._sending) + len(deliveries) >= MAX_SENDING
            ):
                continue
            until = now + LEASE + (target.timeout if target is not None else timedelta())
            if notifications.take(db, delivery.id, now=now, until=until):
                counted[delivery.endpoint] += 1
                deliveries.append(delivery)
        return deliveries

    async def finish(self, within: timedelta = FINISH_TIMEOUT) -> None:
        """Send what is due before the process ends; what takes longer is left to the next one."""
        try:
            await self.round()
        except RotaError as error:
            log.warning("notifications deferred to the next start", error=str(error))
        tasks = [task for _, task in self._sending.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=within.total_seconds())
        self.abandon()

    def abandon(self) -> None:
        """Wait for nothing any more; what was sent without an answer is sent again, under the same id."""
        for _, task in self._sending.values():
            task.cancel()

    def _begin(self, delivery: Delivery) -> None:
        task = asyncio.get_running_loop().create_task(self._send(delivery), name=f"rota-{delivery.id}")
        self._sending[delivery.id] = (delivery.endpoint, task)
        task.add_done_callback(lambda _task: self._sent(delivery.id))

    def _sent(self, delivery: str) -> None:
        self._sending.pop(delivery, None)
        self.loop.wake()

    async def _attempt(self, delivery: Delivery, letter: Message) -> DeliveryResult:
        if delivery.event is Event.RESULT and letter.target.channel in CHATS:
            return await self._answers.send(delivery, letter)
        return await self._post.send(letter)

    async def _send(self, delivery: Delivery) -> None:
        try:
            letter = self._store.read(partial(_letter, delivery=delivery, now=self._clock.now()))
            receipt = letter if isinstance(letter, DeliveryResult) else await self._attempt(delivery, letter)
            faults.point("notify.sent")
            final = await self._store.submit(
                partial(_record, delivery=delivery, receipt=receipt, now=self._clock.now())
            )
        except RotaError as error:  # the storage: sent again when the lease is over, under the same id
            log.warning("could not store a delivery result", run=delivery.handle, error=str(error))
        except Exception:
            log.exception("notification failed unexpectedly", run=delivery.handle, target=delivery.target)
        else:
            _log(delivery, receipt, final=final)


def _log(delivery: Delivery, receipt: DeliveryResult, *, final: bool) -> None:
    told = {"run": delivery.handle, "target": delivery.target, "told": delivery.event.value}
    if receipt.ok:
        log.debug("notification delivered", **told)
    elif final:
        log.warning("notification failed permanently; resend with `rota deliveries retry`", **told, error=receipt.error)
    else:
        log.info("notification failed, retrying", **told, error=receipt.error)


def _target(db: Database, delivery: Delivery) -> Target | None:
    return delivery.own or notifications.targets(db).get(delivery.target)


def _letter(db: Database, *, delivery: Delivery, now: datetime) -> Message | DeliveryResult:
    """Return what is sent: the run as it is, and the event; a receipt where there is nothing to send it to."""
    target = _target(db, delivery)
    if target is None:
        return NO_TARGET
    endpoint = notifications.endpoint(db, target.endpoint)
    if endpoint.disabled_at is not None:
        hint = f"`rota notify enable {target.name}` enables it"
        return DeliveryResult(ok=False, error=f"the target is disabled: {endpoint.error}; {hint}", hopeless=True)
    if delivery.payload:
        return Message(delivery.id, target, delivery.payload, at=now)
    run = runs.run_by_id(db, delivery.run_id or "")
    if run is None:
        return NO_RUN
    told = {**run_json(run), "event": delivery.event.value, "result": run_queries.result_of(db, run)}
    if delivery.event is not Event.RESULT:
        return Message(delivery.id, target, told, at=now)
    told |= {"files": _files(db, run)}
    return Message(delivery.id, target, told, at=now, folder=_folder(db, run))


def _files(db: Database, run: Run) -> list[str]:
    """Return the files that a run named as its result."""
    execution = runs.execution_of_run(db, run.id)
    return list(execution.artifacts.get("files") or ()) if execution is not None else []


def _folder(db: Database, run: Run) -> str:
    """Return the folder that a run worked in: its own, else that of its job, relative to the project."""
    own = run.decisions.get("workspace", {}).get("path")
    work = jobs.version_spec(db, run.job_id, run.version).work
    return str(own or Path(work.project or "") / os.path.expanduser(work.cwd))


def _record(db: Database, *, delivery: Delivery, receipt: DeliveryResult, now: datetime) -> bool:
    receipt = replace(receipt, error=cut(receipt.error or "", ERROR_LIMIT) or None)
    if receipt.ok:
        notifications.endpoint_works(db, delivery.endpoint)
        notifications.done(db, delivery.id, DeliveryStatus.DELIVERED, receipt=receipt, now=now)
        return True
    if receipt.gone:
        notifications.endpoint_gone(db, delivery.endpoint, error=receipt.error or "", now=now)
    elif not receipt.hopeless:
        failures = notifications.endpoint(db, delivery.endpoint).failures + 1
        rest = rest_after(failures)
        until = None if rest is None else now + rest
        notifications.endpoint_failed(db, delivery.endpoint, failures, closed_until=until, error=receipt.error or "")
    given_up = receipt.gone or receipt.hopeless
    # The attempt that was just made has been counted when it was taken.
    pause = None if given_up else pause_before(delivery.attempts + 2, delivery=delivery.id, wish=receipt.wait)
    if pause is None:
        notifications.done(db, delivery.id, DeliveryStatus.FAILED, receipt=receipt, now=now)
    else:
        notifications.again(db, delivery.id, receipt=receipt, at=now + pause)
    return pause is None


PING_OUTPUT, PING_LINES = 10_000, 50
"""How much of the output a ping shows: so many bytes and lines at the end."""
SLACK = 2.0
"""How much longer than its timeout an attempt is waited for: names are resolved and threads started too."""


class ThreadedPost:
    """Sends letters. Secrets are read for each attempt and never stored."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        origins: Callable[[], Mapping[str, SecretOrigin]] | None = None,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._secrets = Secrets(settings.state, environ, origins or (lambda: settings.secrets))
        self.senders: Mapping[Channel, Callable[[Message], DeliveryResult]] = {
            Channel.WEBHOOK: self._webhook,
            Channel.APPRISE: self._apprise,
            Channel.TELEGRAM: self._chat,
            Channel.SLACK: self._chat,
            Channel.COMMAND: self._command,
        }

    async def send(self, letter: Message) -> DeliveryResult:
        """Make one attempt."""
        return await self._bounded(partial(self.deliver, letter), letter.target)

    async def ping(self, target: Target) -> DeliveryResult:
        """Fetch an address, only to be heard there."""
        return await self._bounded(partial(self._fetch, target), target)

    async def _bounded(self, attempt: Callable[[], DeliveryResult], target: Target) -> DeliveryResult:
        within = target.timeout.total_seconds() + SLACK
        try:
            return await call_in_thread(attempt, within=within, hide=self._secrets.hide_in)
        except InvalidValue as error:
            return DeliveryResult(ok=False, error=self._secrets.hide(str(error)), hopeless=True)
        except RotaError as error:
            return DeliveryResult(ok=False, error=self._secrets.hide(error.message))

    def check(self, target: Target) -> DeliveryResult:
        """Ask the service of a chat for the name of the bot; other targets are not asked. Blocks."""
        if target.channel not in CHATS:
            return DeliveryResult(ok=True)
        checked = chat_checked(client_of(target, self._secret), target)
        return checked if checked.error is None else replace(checked, error=self._secrets.hide(checked.error))

    def deliver(self, letter: Message) -> DeliveryResult:
        """Make one attempt here and now; it may take as long as the target's timeout."""
        pings = letter.payload.get("event") == Event.PING
        receipt = self._ping(letter) if pings else self.senders[letter.target.channel](letter)
        return receipt if receipt.error is None else replace(receipt, error=self._secrets.hide(receipt.error))

    def _webhook(self, letter: Message) -> DeliveryResult:
        target, body, address = letter.target, _body(letter), self._address(letter.target)
        headers = senders.signed(
            body, message=letter.id, at=letter.at, secrets=[self._secret(name) for name in target.signing]
        )
        request = senders.WebhookRequest(
            address, body, headers, target.allow_private, timeout=target.timeout.total_seconds()
        )
        return _redacted(senders.send_webhook(request), target, address)

    def _apprise(self, letter: Message) -> DeliveryResult:
        address, payload = self._address(letter.target), letter.payload
        receipt = senders.send_chat(address, title=messages.title(payload), body=messages.body(payload))
        return _redacted(receipt, letter.target, address)

    def _chat(self, letter: Message) -> DeliveryResult:
        target, settings = letter.target, self._settings
        if letter.part is None:
            out = Outgoing(f"{messages.title(letter.payload)}\n{messages.body(letter.payload)}", _buttons(letter))
        else:
            folders = (str(settings.folder / letter.folder), str(folder_of(settings.state, str(letter.payload["id"]))))
            out = outgoing(letter, folders)
        return chat_sent(client_of(target, self._secret), target, out)

    def _ping(self, letter: Message) -> DeliveryResult:
        target, told = letter.target, letter.payload
        address, signal = self._address(target), PingSignal(told["signal"])
        url = ping_address(address, signal, run_id=str(told["id"]), exit_code=told.get("exit_code"))
        headers = {"content-type": "text/plain; charset=utf-8"}
        request = senders.WebhookRequest(
            url, self._ping_body(told), headers, target.allow_private, timeout=target.timeout.total_seconds()
        )
        return _redacted(senders.send_webhook(request), target, address)

    def _ping_body(self, told: Mapping[str, Any]) -> str:
        """Return the run, its error and the end of its output."""
        if told["signal"] == PingSignal.START:
            return ""
        output = b""
        with suppress(OSError, ValueError):
            output = tail_after(folder_of(self._settings.state, str(told["id"])), 0, PING_OUTPUT)
        lines = output.decode("utf-8", "replace").splitlines()[-PING_LINES:]
        head = [str(told["run"]), *(str(told[key]) for key in ("reason", "error") if told.get(key))]
        return self._secrets.hide("\n".join([*head, *lines]))

    def _fetch(self, target: Target) -> DeliveryResult:
        address, timeout = self._address(target), target.timeout.total_seconds()
        request = senders.WebhookRequest(address, allow_private=target.allow_private, timeout=timeout, method="GET")
        return _redacted(senders.send_webhook(request), target, address)

    def _command(self, letter: Message) -> DeliveryResult:
        told = {f"ROTA_{key.upper()}": str(letter.payload.get(key) or "") for key in ("event", "job", "run", "status")}
        environment = {**inherited(self._environ), **told, "ROTA_REASON": str(letter.payload.get("reason") or "")}
        cwd = Path(letter.target.cwd) if letter.target.cwd else self._settings.folder
        timeout = letter.target.timeout.total_seconds()
        return senders.run(letter.target.command, _body(letter), cwd=cwd, environment=environment, timeout=timeout)

    def _address(self, target: Target) -> str:
        return self._secret(target.address_secret).strip() if target.address_secret else target.address

    def _secret(self, name: str) -> str:
        return self._secrets.find(name)


def _buttons(letter: Message) -> Sequence[Button]:
    """Return the button that acknowledges the items of a message; its token is the delivery."""
    if letter.payload["event"] != Event.ATTENTION.value or not letter.target.users:
        return ()
    return (Button("Acknowledge", f"{letter.id.removeprefix('msg_')}:0"),)


def _body(letter: Message) -> str:
    return json.dumps(letter.payload, ensure_ascii=False, separators=(",", ":"))


def _redacted(receipt: DeliveryResult, target: Target, address: str) -> DeliveryResult:
    """Remove the parts of a secret address from the error of a result."""
    if not target.address_secret or receipt.error is None:
        return receipt
    parts = sorted({part for part in (address, *address.split("/")) if len(part) > 3}, key=len, reverse=True)
    told = receipt.error
    for part in parts:
        told = told.replace(part, "…")
    return replace(receipt, error=told)
