"""Chats, mail and phones: Telegram by itself, all else through apprise, which comes with the extra `notify`."""

import json
import logging

from rota.model.notify import Receipt
from rota.runners.webhook import Request

LONGEST = 4000
NEEDED = "it needs apprise: install rota with the extra `notify`"


def telegram(token: str, chat: str, text: str, *, timeout: float) -> Request:
    """Return the request by which a Telegram bot says something in a chat."""
    body = json.dumps({"chat_id": chat, "text": text[:LONGEST], "disable_web_page_preview": True}, ensure_ascii=False)
    return Request(f"https://api.telegram.org/bot{token}/sendMessage", body, timeout=timeout)


def send(address: str, *, title: str, body: str) -> Receipt:
    """Tell whoever is behind an apprise address; apprise itself says no more than whether it worked."""
    try:
        import apprise
    except ImportError:
        return Receipt(ok=False, error=NEEDED, hopeless=True)
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its lines would show the address
    teller = apprise.Apprise()
    if not teller.add(address):
        return Receipt(ok=False, error="apprise does not know such an address", hopeless=True)
    if teller.notify(title=title, body=body):
        return Receipt(ok=True)
    return Receipt(ok=False, error="apprise could not deliver it")
