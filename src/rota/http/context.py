"""What the routes work with: the project they serve, and one request of one caller."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi._compat import ModelField
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from rota.engine.wake import ask, wake
from rota.http.feed import Feed
from rota.http.refusals import ScopeRefused
from rota.model.address import SQLITE, shown
from rota.model.clock import Clock
from rota.model.errors import InvalidValue
from rota.model.making import Maker
from rota.operations.access import Caller, Codes, Scope
from rota.operations.trail import Deed, Trailed
from rota.settings import Settings
from rota.store.driver import Store

PREFIX = "/api/v1"
LONGEST_TARGET = 200


@dataclass(frozen=True, slots=True)
class Context:
    """The project that is served."""

    store: Store
    clock: Clock
    folder: Path
    state: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    codes: Codes = field(default_factory=Codes)
    base_path: str = ""
    feed: Feed | None = None
    """The live events; None where nobody can follow them."""
    secure: bool = False
    """Whether browsers reach it encrypted, so that the cookie may say so."""
    settings: Settings | None = None
    """What the scheduler was started with; None where it is not known."""

    @property
    def address(self) -> str:
        """Where the state is kept, as people are shown it."""
        return shown(self.settings.store) if self.settings is not None else SQLITE


@dataclass(frozen=True, slots=True)
class Desk:
    """One request: who asks, when, and a store that notes what the caller changes."""

    context: Context
    caller: Caller
    store: Store
    now: datetime

    @property
    def actor(self) -> str:
        """The caller as the audit names it."""
        return f"{'browser' if self.caller.browser else 'token'}:{self.caller.name}"

    @property
    def maker(self) -> Maker:
        """The caller as one who starts and makes jobs: a token of the scope `agent` is bound by `agent_policy`."""
        return Maker(self.actor, bound=self.caller.scope is Scope.AGENT)

    def path(self, below: str) -> str:
        """Return a path of the API as the client sees it."""
        return f"{self.context.base_path}{PREFIX}{below}"

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.context.state

    @property
    def clock(self) -> Clock:
        """The clock of the server."""
        return self.context.clock

    def note(self) -> None:
        """Note in the audit what is done without a change of the database."""
        self.store.write(lambda _db: None)

    def wake(self) -> None:
        """Let the scheduler look again: something was changed."""
        wake(self.context.state)

    def tell_pauses(self) -> None:
        """Let the scheduler see that pauses changed."""
        ask(self.context.state, {"ask": "pauses"})


async def desk_of(request: Request) -> Desk:
    """Return the desk of a request."""
    context: Context = request.app.state.context
    caller: Caller = request.state.caller
    deed = Deed(
        actor=f"{'browser' if caller.browser else 'token'}:{caller.name}",
        face="http",
        action=getattr(request.scope.get("route"), "operation_id", None) or request.method,
        target=_target(request),
    )
    trailed = Trailed(context.store, deed, context.clock, also=getattr(request.state, "claim_key", None))
    return Desk(context, caller, trailed, context.clock.now())


def _target(request: Request) -> str:
    """Return what a request is about: the names in its path, else the one that its body gives."""
    named = [str(value).replace("~", "/") for value in request.path_params.values()]
    body = getattr(request.state, "body", None)
    given = [str(body[key])[:LONGEST_TARGET] for key in ("name", "job") if isinstance(body, dict) and key in body]
    return ", ".join(named or given)


DeskOf = Annotated[Desk, Depends(desk_of)]


def needs(scope: Scope) -> Any:
    """Return the dependency that refuses a caller whose token does not have this scope."""

    async def check(request: Request) -> None:
        caller: Caller = request.state.caller
        if not caller.may(scope):
            raise ScopeRefused(caller.scope, scope)
        if request.query_params:
            _check_params(request)

    return Depends(check)


def _check_params(request: Request) -> None:
    """Refuse a query parameter that the route does not know."""
    route: APIRoute = request.scope["route"]
    known = {param.alias for param in _query_params(route.dependant)}
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        told = ", ".join(sorted(known)) or "none"
        raise InvalidValue(f"there is no parameter {unknown[0][:60]!r} here", hint=f"there are: {told}")


def _query_params(found: Dependant) -> list[ModelField]:
    """Return the query parameters of a route and of what it depends on."""
    return [*found.query_params, *(param for one in found.dependencies for param in _query_params(one))]
