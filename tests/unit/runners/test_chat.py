"""Chats: what a Telegram bot is asked to say, and apprise, which need not be there."""

import json
import sys
from types import ModuleType

import pytest

from rota.model.notifications import DeliveryResult
from rota.runners.senders import TELEGRAM_LIMIT, send_chat, telegram


def test_a_bot_is_asked_to_say_a_text_in_a_chat() -> None:
    request = telegram("123:abc", "-100", "backup:1 failed", timeout=5)
    assert request.url == "https://api.telegram.org/bot123:abc/sendMessage"
    assert json.loads(request.body)["chat_id"] == "-100"
    assert json.loads(request.body)["text"] == "backup:1 failed"


def test_a_long_text_is_cut() -> None:
    assert len(json.loads(telegram("t", "1", "x" * 10_000, timeout=5).body)["text"]) == TELEGRAM_LIMIT


def test_without_apprise_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    receipt = send_chat("mailto://h", title="a", body="b")
    assert (receipt.ok, receipt.hopeless) == (False, True)
    assert "extra `notify`" in (receipt.error or "")


@pytest.mark.parametrize(
    ("known", "works", "receipt"),
    [
        (True, True, DeliveryResult(ok=True)),
        (True, False, DeliveryResult(ok=False, error="apprise could not deliver it")),
        (False, True, DeliveryResult(ok=False, error="apprise does not support this address", hopeless=True)),
    ],
)
def test_apprise_is_asked_and_says_whether_it_worked(
    monkeypatch: pytest.MonkeyPatch, known: bool, works: bool, receipt: DeliveryResult
) -> None:
    class Apprise:
        def add(self, _address: str) -> bool:
            return known

        def notify(self, *, title: str, body: str) -> bool:
            return works and bool(title and body)

    module = ModuleType("apprise")
    module.Apprise = Apprise  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "apprise", module)
    assert send_chat("json://h", title="backup:1 failed", body="exit 1") == receipt
