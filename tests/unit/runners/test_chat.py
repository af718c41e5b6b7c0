"""Chats by apprise, which need not be there."""

import sys
from types import ModuleType

import pytest

from rota.model.notifications import DeliveryResult
from rota.runners.senders import send_chat


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
