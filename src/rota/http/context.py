"""The context of a request, and how routes are declared."""

import asyncio
import json
import math
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from anyio.to_thread import run_sync
from fastapi import Depends, FastAPI, Query, Request
from fastapi import Path as PathParam
from fastapi._compat import ModelField
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from msgspec import Struct, field
from msgspec.json import encode
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, create_model
from starlette.responses import JSONResponse, Response

from rota.engine.membership.control import ask, wake
from rota.http.errors import ScopeRefused
from rota.http.feed import Feed
from rota.model.clock import Clock, cut_to_ms
from rota.model.errors import InvalidInstant, InvalidValue
from rota.model.proposals import Author
from rota.model.states import SHOWN, Reason, Trigger
from rota.operations.admin.access import Caller, Codes, Scope
from rota.operations.admin.audit import AuditedAct, AuditedStore
from rota.operations.status.metrics import RunTotals
from rota.settings import Settings
from rota.store.driver import OpenStore, Operation, Store
from rota.text.format import read_coming, read_instant

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
PREFIX = "/api/v1"
MAX_TARGET = 200


KEPT_ANSWERS = 16
KEPT_BYTES = 256 * 1024
"""The longest answer that is kept."""


class _Kept(NamedTuple):
    version: int
    at: float
    answer: "asyncio.Future[bytes]"


class AnswerCache:
    """Bodies of answers that stay right until the next commit: any number of pollers cost one look at the database.

    Without a number of commits (PostgreSQL) each request looks. Call it on the event loop of the server.
    """

    def __init__(self, commits: Callable[[], int | None] | None, clock: Clock) -> None:
        self._commits = commits
        self._clock = clock
        self._kept: dict[Hashable, _Kept] = {}

    async def get(self, key: Hashable, make: Callable[[], bytes], *, within: float = math.inf) -> bytes:
        """Return the kept body of `key`, or make one in a worker thread; concurrent requests share it.

        `within`: the seconds after which a body is made again even without a commit, since it also tells other things.
        """
        version = None if self._commits is None else self._commits()
        if version is None:
            return await run_sync(make)
        kept, at = self._kept.get(key), self._clock.monotonic()
        if kept is None or kept.version != version or not 0 <= at - kept.at < within:
            if len(self._kept) >= KEPT_ANSWERS:
                self._kept.clear()
            kept = self._kept[key] = _Kept(version, at, asyncio.ensure_future(run_sync(make)))
            kept.answer.add_done_callback(partial(self._made, key))
        return await asyncio.shield(kept.answer)

    def _made(self, key: Hashable, answer: "asyncio.Future[bytes]") -> None:
        """Forget an answer that failed or is too long."""
        failed = answer.cancelled() or answer.exception() is not None
        kept = self._kept.get(key)
        if kept is not None and kept.answer is answer and (failed or len(answer.result()) > KEPT_BYTES):
            del self._kept[key]


class WakeOnce(Struct):
    """Wakes the scheduler once for all requests that one turn of the event loop answers."""

    _woken: bool = False

    def wake(self, state: Path) -> None:
        """Wake it, unless that was done since the last turn: what this turn answers was committed before."""
        if not self._woken:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._forget)
            wake(state)

    def _forget(self) -> None:
        self._woken = False


class ServerContext(Struct, frozen=True):
    """The project that is served."""

    store: OpenStore
    clock: Clock
    folder: Path
    state: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    codes: Codes = field(default_factory=Codes)
    base_path: str = ""
    feed: Feed | None = None
    """The live events; None without a server."""
    secure: bool = False
    """Whether browsers connect over TLS, so that cookies are `Secure`."""
    settings: Settings | None = None
    """The settings of the scheduler; None if unknown."""
    totals: RunTotals = field(default_factory=RunTotals)
    """The sums of past days for the metrics."""
    answers: AnswerCache | None = None
    """The answers that many pollers share; None: each request looks."""
    waking: WakeOnce = field(default_factory=WakeOnce)


class RequestContext(Struct, frozen=True):
    """One request: its caller, its time, and a store that audits changes."""

    context: ServerContext
    caller: Caller
    store: Store
    now: datetime

    @property
    def actor(self) -> str:
        """The caller, as in the audit log."""
        return self.caller.actor

    @property
    def maker(self) -> Author:
        """The caller as an author of jobs: `agent_policy` binds a token of the scope `agent`."""
        return Author(self.actor, bound=self.caller.scope is Scope.AGENT)

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

    async def shared(self, key: Hashable, make: Callable[[], Any], *, within: float = math.inf) -> bytes:
        """Return the body of a JSON answer that does not depend on the caller; see `AnswerCache`."""
        answers = self.context.answers
        if answers is None:
            return await run_sync(lambda: encoded(make()))
        return await answers.get(key, lambda: encoded(make()), within=within)

    async def write(self, operation: Operation[T]) -> T:
        """Run `operation` in a transaction, on SQLite in a commit that concurrent requests and the scheduler share."""
        if self.context.store.patient:
            return await run_sync(self.store.write, operation)
        return await self.store.submit(operation)

    def wake(self, *, dry_run: bool = False) -> None:
        """Wake the scheduler after a change; a dry run changed nothing."""
        if not dry_run:
            wake(self.context.state)

    def wake_once(self) -> None:
        """Wake the scheduler after a change, together with other requests. Call it on the event loop."""
        self.context.waking.wake(self.context.state)

    def notify_pauses(self) -> None:
        """Notify the scheduler of changed pauses."""
        ask(self.context.state, {"ask": "pauses"})


async def request_context(request: Request) -> RequestContext:
    """Return the context of a request."""
    context: ServerContext = request.app.state.context
    caller: Caller = request.state.caller
    deed = AuditedAct(
        actor=caller.actor,
        face="http",
        action=getattr(request.scope.get("route"), "operation_id", None) or request.method,
        target=_target(request),
    )
    trailed = AuditedStore(context.store, deed, context.clock, also=getattr(request.state, "claim_key", None))
    return RequestContext(context, caller, trailed, context.clock.now())


def _target(request: Request) -> str:
    """Return the target of a request: the names in its path, else in its body."""
    in_path = [str(value).replace("~", "/") for value in request.path_params.values()]
    body = getattr(request.state, "body", None)
    in_body = [str(body[key])[:MAX_TARGET] for key in ("name", "job") if isinstance(body, dict) and key in body]
    if "action" in request.path_params:  # of a form, on all jobs that it names
        chosen = ", ".join(getattr(request.state, "forms", {}).get("job", ()))
        return f"{in_path[0]}: {chosen}"[:MAX_TARGET]
    return ", ".join(in_path or in_body)


Ctx = Annotated[RequestContext, Depends(request_context)]


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
    """Refuse an unknown query parameter."""
    route: APIRoute = request.scope["route"]
    names = {param.alias for param in _query_params(route.dependant)}
    unknown = sorted(set(request.query_params) - names)
    if unknown:
        hint = f"use one of: {', '.join(sorted(names)) or 'none'}"
        raise InvalidValue(f"unknown parameter {unknown[0][:60]!r} here", hint=hint)


def _query_params(route: Dependant) -> list[ModelField]:
    return [*route.query_params, *(param for part in route.dependencies for param in _query_params(part))]


SCOPE_KEY = "x-rota-scope"
PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "The request is refused; nothing was changed.", "content": PROBLEM},
    "5XX": {"description": "The scheduler cannot do it now.", "content": PROBLEM},
}


EXTENSIBLE = ConfigDict(extra="allow")


@cache
def model_of(hint: Any) -> Any:
    """Return the model of a JSON shape for OpenAPI; pydantic itself reads a TypedDict only from Python 3.12 on."""
    args = tuple(map(model_of, get_args(hint)))
    if is_typeddict(hint):
        fields: dict[str, Any] = {name: (model_of(field), ...) for name, field in get_type_hints(hint).items()}
        name = hint.__name__.removesuffix("Json")
        return create_model(name, __config__=EXTENSIBLE, __doc__=hint.__doc__, **fields)
    if get_origin(hint) is UnionType:
        return Union[args]  # noqa: UP007 - made from a tuple
    return list[args] if get_origin(hint) is list else hint  # type: ignore[valid-type]


def page_of(item: Any, name: str, about: str) -> Any:
    """Return the model of one page of a list; see `page`."""
    fields: dict[str, Any] = {"items": (list[model_of(item)], ...), "next": (str | None, ...)}  # type: ignore[misc]
    return create_model(name, __config__=EXTENSIBLE, __doc__=about, **fields)


class Routes:
    """A set of routes, each with its scope; None only for the login and health."""

    def __init__(self, tag: str, *, prefix: str = PREFIX) -> None:
        self._tag = tag
        self._prefix = prefix
        self._declared: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []

    def on(
        self,
        method: str,
        path: str,
        *,
        scope: Scope | None,
        answer: Any,
        status: int = 200,
        also: Mapping[int | str, dict[str, Any]] | None = None,
        media: str = "application/json",
        deprecated: bool = False,
        shown: bool = True,
    ) -> Callable[[F], F]:
        """Declare a route: `answer` is the shape of its answer, `also` has further answers."""

        def declare(endpoint: F) -> F:
            told: dict[str, Any] = {"description": "Done."}
            told |= (
                {"content": {media: {"schema": {"type": "string"}}}} if answer is str else {"model": model_of(answer)}
            )
            options: dict[str, Any] = {
                "methods": [method],
                "status_code": status,
                "response_model": None,
                "response_class": Response if answer is str else JsonAnswer,
                "responses": {status: told, **_described(also or {}), **REFUSALS},
                "dependencies": [] if scope is None else [needs(scope)],
                "operation_id": endpoint.__name__,
                "summary": (endpoint.__doc__ or "").partition("\n")[0].rstrip("."),
                "openapi_extra": {} if scope is None else {SCOPE_KEY: scope.value},
                "deprecated": deprecated or None,
                "include_in_schema": shown,
                "tags": [self._tag],
            }
            self._declared.append((f"{self._prefix}{path}", endpoint, options))
            return endpoint

        return declare

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to an application."""
        for path, endpoint, options in self._declared:
            app.add_api_route(path, endpoint, **options)


def _described(answers: Mapping[int | str, dict[str, Any]]) -> dict[int | str, dict[str, Any]]:
    return {
        status: {**given, "model": model_of(given["model"])} if "model" in given else given
        for status, given in answers.items()
    }


class JsonAnswer(JSONResponse):
    """A JSON answer; operations return fixed shapes, so values are not validated again."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return encoded(content)


def encoded(content: Any) -> bytes:
    """Return a value as JSON; a text with half of a surrogate pair, which only `json` writes, as it is stored."""
    try:
        return encode(content)
    except UnicodeEncodeError:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def answer(content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON answer."""
    return JsonAnswer(content, status, headers)


def page(items: list[Any], *, following: str | None) -> dict[str, Any]:
    """Return one page of a list; `next` is the cursor of the following page, null at the end."""
    return {"items": items, "next": following}


class RequestBody(BaseModel):
    """The body of a request; unknown fields are refused."""

    model_config = {"extra": "forbid", "strict": True}


def _plain(name: str) -> str:
    return name.replace("~", "/")


def segment(name: str) -> str:
    """Return a name as a path segment."""
    return name.replace("/", "~")


JOB = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}(~[A-Za-z0-9][A-Za-z0-9._-]{0,199})*$"
RUN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}(~[A-Za-z0-9][A-Za-z0-9._-]{0,199})*(:-?[0-9]{1,18})?$"
NEW_JOB = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
GROUP = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}(/[A-Za-z0-9][A-Za-z0-9._-]{0,199})?$"
WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"

JobName = Annotated[
    str, PathParam(pattern=JOB, max_length=400, description="A job; a slash in its name is ~."), AfterValidator(_plain)
]
NewJobName = Annotated[str, PathParam(pattern=NEW_JOB, description="A job: letters, digits and . _ -")]
RunName = Annotated[
    str,
    PathParam(pattern=RUN, max_length=430, description="JOB:NUMBER, JOB:-1, JOB for its newest run, or an identifier."),
    AfterValidator(_plain),
]
GroupName = Annotated[
    str,
    PathParam(pattern=RUN, max_length=430, description="NAME:NUMBER, NAME, or an identifier."),
    AfterValidator(_plain),
]
TargetName = Annotated[
    str,
    PathParam(pattern=JOB, max_length=400, description="A target; a slash in its name is ~."),
    AfterValidator(_plain),
]
Word = Annotated[str, PathParam(pattern=WORD)]
FilterWord = Annotated[str, Field(min_length=1)]
"""A value of a repeated filter; an empty one is refused, since it would match everything."""
StatusWord = Annotated[str, Field(min_length=1, json_schema_extra={"enum": list(SHOWN)})]
ReasonWord = Annotated[str, Field(min_length=1, json_schema_extra={"enum": list(Reason)})]
TriggerWord = Annotated[str, Field(min_length=1, json_schema_extra={"enum": list(Trigger)})]
"""Values of filters; operations also accept other case, and older words for statuses."""


WHEN = "ISO 8601; or back from now: 2h, 30d, today, yesterday."
YEARS = "^(19[7-9][0-9]|[2-8][0-9]{3}|9[0-8][0-9]{2})-"
ISO: list[JsonValue] = [
    {"type": "string", "format": "date-time", "pattern": YEARS},
    {"type": "string", "format": "date", "pattern": YEARS},
]
PAST: list[JsonValue] = [
    *ISO,
    {"type": "string", "pattern": r"^([1-9][0-9]{0,3}[smh]|[1-9][0-9]{0,2}d|now|today|yesterday)$"},
]
COMING: list[JsonValue] = [*ISO, {"type": "string", "pattern": r"^([01][0-9]|2[0-3]):[0-5][0-9]$"}]
"""The forms of instants in requests, for OpenAPI."""
PastTime = Annotated[str, Query(min_length=1, max_length=64, description=WHEN, json_schema_extra={"anyOf": PAST})]


def instant(text: str, *, now: datetime) -> datetime:
    """Return an instant; without an offset it is in UTC."""
    return _readable(text, read_instant, now=now)


def coming(text: str, *, now: datetime) -> datetime:
    """Return a future instant."""
    return _readable(text, read_coming, now=now)


def _readable(text: str, read: Callable[..., datetime], *, now: datetime) -> datetime:
    try:
        return cut_to_ms(read(text, "UTC", now=now))
    except (OverflowError, ValueError):
        raise InvalidInstant(f"{text!r} is out of the range of years", hint="write 2026-11-15T20:41:07Z") from None
