"""The token and logins of the HTTP API, for the person whose project it is."""

from pathlib import Path

from rota.engine.wake import ask
from rota.model.errors import NoHttp
from rota.operations.access import make_token, read_token, renew_token
from rota.operations.project import make_state
from rota.operations.system import serves

PATIENCE = 10.0


def login_address(state: Path) -> str:
    """Return an address that logs a browser in once, within a minute."""
    if not serves(state):
        raise NoHttp(str(state))
    answer = ask(state, {"ask": "login"}, timeout=PATIENCE)
    if answer is None or not answer.get("url"):
        raise NoHttp(str(state), "the scheduler does not answer" if answer is None else "it was started with --no-http")
    return str(answer["url"])


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
