"""The token and logins of the HTTP API, for the person whose project it is."""

import json
from datetime import datetime
from pathlib import Path

from rota.engine.wake import ask
from rota.model.clock import to_ms
from rota.model.errors import NoHttp
from rota.operations.access import make_token, nonce_of, read_token, renew_token
from rota.operations.project import make_state
from rota.operations.system import serves
from rota.store.driver import Database

PATIENCE = 10.0
ENDED_KEY = "ended_sessions"
"""Where the database keeps the nonces of logouts, each with the time at which its cookie expires."""


def login_address(state: Path) -> str:
    """Return an address that logs a browser in once, within a minute."""
    if not serves(state):
        raise NoHttp(str(state))
    answer = ask(state, {"ask": "login"}, timeout=PATIENCE)
    if answer is None or not answer.get("url"):
        raise NoHttp(str(state), "the scheduler does not answer" if answer is None else "it was started with --no-http")
    return str(answer["url"])


def ended_sessions(db: Database, *, now: datetime) -> dict[str, int]:
    """Return the nonces of sessions that were logged out and whose cookies have not expired yet."""
    row = db.row("meta_get", key=ENDED_KEY)
    found: dict[str, int] = json.loads(row[0]) if row else {}
    return {nonce: until for nonce, until in found.items() if until > to_ms(now)}


def end_session(db: Database, *, session: str, now: datetime) -> dict[str, int]:
    """Store that a session was logged out, so that no copy of its cookie is good; return all of those."""
    nonce, until = nonce_of(session)
    ended = ended_sessions(db, now=now) | {nonce: until}
    db.execute("meta_set", key=ENDED_KEY, value=json.dumps(ended))
    return ended


def project_token(state: Path) -> str:
    """Return the project's token; it is made where there is none yet."""
    make_state(state)
    make_token(state)
    return read_token(state)


def renew_project_token(state: Path) -> str:
    """Replace the project's token, also in a scheduler that serves."""
    renew_token(state)
    ask(state, {"ask": "token"}, timeout=PATIENCE)
    return read_token(state)
