"""The frame of every page: context, rendering, static files and typed forms."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property, wraps
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote, unquote, urlencode

from fastapi import Depends, Query, Request
from fastapi import Path as InPath
from msgspec import Struct
from starlette.requests import Request as StarletteRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope as AsgiScope

from rota.http.context import Ctx, F, Routes
from rota.http.errors import TITLES, NotFound, NoToken, headers_of, status_of
from rota.model.clock import cut_to_ms, parse_duration
from rota.model.errors import InvalidTimezone, InvalidValue, Problem, RotaError
from rota.model.params import ParamKind, ParamType, TypedText
from rota.model.spec import Work
from rota.operations.admin.access import Scope
from rota.operations.jobs import project_timezone
from rota.operations.status.feed import newest
from rota.operations.status.status import Health, look_at_health
from rota.rules.params import say_kind, write_typed
from rota.rules.schedule.timezone import zone as known_zone
from rota.text.ansi import plain
from rota.text.format import read_coming

if TYPE_CHECKING:
    from jinja2 import Environment

View = dict[str, Any]
"""The values of a template, or of one of its rows."""
FOLDER = Path(__file__).parent.parent / "templates"


@cache
def environment() -> "Environment":
    """Return the environment of all templates."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from rota.http.pages import components

    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        bytecode_cache=components.Compiled(str(FOLDER)),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= components.FILTERS
    made.globals |= {**components.GLOBALS, "version": version("rota")}
    return made


def render(template: str, values: Mapping[str, Any]) -> str:
    """Return a filled template."""
    return environment().get_template(template).render(values)


@cache
def template_names() -> frozenset[str]:
    """Return the names of all templates."""
    return frozenset(environment().list_templates(extensions=["html"]))


STATIC_FOLDER = Path(__file__).parent.parent / "static"
PREFIX = "/static/"
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"
routes = Routes("static", prefix="")

Name = Annotated[str, InPath(pattern=r"^[a-z][a-z0-9_-]{0,40}\.(css|js|svg)$")]
Digest = Annotated[str, InPath(pattern=r"^[0-9a-f]{12}$")]


class Assets(Struct, frozen=True):
    """All files by name, and their common digest, so that scripts which import each other match."""

    digest: str
    files: dict[str, bytes]


@cache
def assets() -> Assets:
    """Return the files."""
    files = {path.name: path.read_bytes() for path in sorted(STATIC_FOLDER.iterdir()) if path.suffix in TYPES}
    found = hashlib.sha256()
    for name, content in files.items():
        found.update(b"%s\0%d\0%s" % (name.encode(), len(content), content))
    return Assets(found.hexdigest()[:12], files)


def asset_path(name: str) -> str:
    """Return the path of a file, without the base path."""
    if name not in assets().files:
        raise KeyError(f"there is no file {name!r} for pages")
    return f"{PREFIX}{assets().digest}/{name}"


@routes.on("GET", "/static/{digest}/{name}", scope=None, answer=str, media="text/css", shown=False)
async def get_asset(digest: Digest, name: Name) -> Response:
    """Return a file of the pages; it needs no token, since the login page uses it."""
    content = assets().files.get(name)
    if content is None:
        raise NotFound
    caching = FOREVER if digest == assets().digest else "no-cache"
    return Response(content, 200, {"Cache-Control": caching}, TYPES[Path(name).suffix])


SECTIONS = (
    ("overview", "/", "Overview"),
    ("jobs", "/ui/jobs", "Jobs"),
    ("queue", "/ui/queue", "Queue"),
    ("runs", "/ui/runs", "Runs"),
    ("groups", "/ui/groups", "Groups"),
    ("calendar", "/ui/calendar", "Calendar"),
    ("questions", "/ui/questions", "Questions"),
    ("agents", "/ui/agents", "Agents & budgets"),
    ("costs", "/ui/costs", "Costs"),
    ("system", "/ui/system", "System"),
)
ZONE_COOKIE, THEME_COOKIE, TOLD_COOKIE = "rota_zone", "rota_theme", "rota_told"
THEMES = ("light", "dark")
MAX_FLASH = 600
_BACK = re.compile(r"/(ui/[^\\\x00-\x1f]*|\?[^\\\x00-\x1f]*)?")
_FRAGMENT = re.compile(r"[a-z][a-z_]{0,40}")


class Flash(Struct, frozen=True):
    """A message on the next page: done, or refused with a hint."""

    text: str
    hint: str = ""
    bad: bool = False


class PageContext:
    """The context of a page and its template."""

    def __init__(
        self,
        ctx: Ctx,
        request: Request,
        fragment: Annotated[str, Query(max_length=200, description="Only parts of it.")] = "",
    ) -> None:
        self.ctx = ctx
        self.request = request
        self.fragments = tuple(name for name in fragment.split(",") if name)
        self.now: datetime = ctx.now
        self.seq = 0 if self.fragments else newest(ctx.store)
        """The newest change before the page was read: later ones come live."""

    @property
    def form(self) -> Mapping[str, str]:
        """The fields of a form; a missing field is an empty text."""
        return cast(Mapping[str, str], getattr(self.request.state, "form", {}))

    @property
    def forms(self) -> Mapping[str, list[str]]:
        """All values of each field of a form."""
        return cast(Mapping[str, list[str]], getattr(self.request.state, "forms", {}))

    @property
    def base(self) -> str:
        """The base path of a proxy."""
        return self.ctx.context.base_path

    @property
    def project(self) -> str:
        """The name of the project's folder."""
        return self.ctx.context.folder.name or str(self.ctx.context.folder)

    @property
    def may_run(self) -> bool:
        """Whether this login may start and cancel runs."""
        return self.ctx.caller.may(Scope.RUN)

    @property
    def may_admin(self) -> bool:
        """Whether this login may do everything."""
        return self.ctx.caller.may(Scope.ADMIN)

    @cached_property
    def project_zone(self) -> str:
        """The timezone of the project."""
        return project_timezone(self.ctx.store)

    @cached_property
    def zone(self) -> str:
        """The timezone of the page: the project's, or the choice of this browser."""
        chosen = unquote(self.request.cookies.get(ZONE_COOKIE, ""))
        try:
            return known_zone(chosen).key if chosen else self.project_zone
        except InvalidTimezone:
            return self.project_zone

    @property
    def theme(self) -> str:
        """The theme of this browser; empty: that of its system."""
        return _theme(self.request)

    @cached_property
    def health(self) -> Health:
        """The health of the scheduler."""
        return look_at_health(self.ctx.store, self.ctx.state, now=self.now)

    @cached_property
    def told(self) -> Flash | None:
        """The message of the last action of this browser."""
        try:
            bad, text, hint = json.loads(unquote(self.request.cookies.get(TOLD_COOKIE, "")))
        except (ValueError, TypeError):
            return None
        return Flash(str(text)[:MAX_FLASH], str(hint)[:MAX_FLASH], bad=bad == 1)

    @property
    def here(self) -> str:
        """The path of this page, for forms that return to it."""
        query = [(key, value) for key, value in self.request.query_params.multi_items() if key != "fragment"]
        return f"{self.request.url.path}{f'?{urlencode(query)}' if query else ''}"

    def href(self, path: str, **query: str | int | list[str] | None) -> str:
        """Return a link; query values that are None or empty are left out."""
        values = {key: value for key, value in query.items() if value not in (None, "", [])}
        return f"{self.base}{quote(path, safe='/~:?=&%')}{f'?{urlencode(values, doseq=True)}' if values else ''}"

    def asset(self, name: str) -> str:
        """Return the link of a style, a script or the icon."""
        return f"{self.base}{asset_path(name)}"

    def wants(self, *names: str) -> bool:
        """Return whether the whole page is requested, or one of these fragments."""
        return not self.fragments or not set(names).isdisjoint(self.fragments)

    def show(self, template: str, view: Any, *, title: str, section: str = "", status: int = 200) -> Response:
        """Return the page, or only the requested fragments, each `_PAGE_FRAGMENT.html`."""
        values = {"visit": self, "view": view, "title": title, "section": section, "sections": SECTIONS}
        if self.fragments:
            page = template.removesuffix(".html")
            return HTMLResponse("\n".join(render(_partial(page, name), values) for name in self.fragments))
        response = HTMLResponse(render(template, values), status)
        if self.told is not None:
            response.delete_cookie(TOLD_COOKIE, path=self.base or "/", httponly=True, samesite="strict")
        return response

    def done(self, text: str, *, back: str = "/", hint: str = "", bad: bool = False) -> Response:
        """Redirect to a page, or to the form's `back`, with a message."""
        return self._back(Flash(text, hint, bad=bad), back)

    def refused(self, error: RotaError, *, back: str = "/") -> Response:
        """Redirect with the message and the hint of an error."""
        return self._back(Flash(error.message, error.hint or "", bad=True), back)

    def confirm(self, title: str, *, says: str, button: str, back: str, detail: tuple[str, ...] = ()) -> Response:
        """Return the confirmation page; it sends the same form with `confirm`."""
        kept = [(key, value) for key, values in self.forms.items() for value in values if key != "confirm"]
        view = {"says": says, "button": button, "back": self.safe_back(back), "detail": detail, "kept": kept}
        return self.show("confirm.html", view, title=title)

    @property
    def confirmed(self) -> bool:
        """Whether the form comes from the confirmation page."""
        return self.form.get("confirm") == "yes"

    def safe_back(self, otherwise: str) -> str:
        """Return the form's `back` if it is a page of ours."""
        wanted = self.form.get("back", "")
        return wanted if is_ours(wanted) else otherwise

    def _back(self, told: Flash, back: str) -> Response:
        response = RedirectResponse(f"{self.base}{self.safe_back(back)}", 303)
        text, hint = plain(told.text)[:MAX_FLASH], plain(told.hint)[:MAX_FLASH]
        value = quote(json.dumps([int(told.bad), text, hint], ensure_ascii=False), safe="")
        path, secure = self.base or "/", self.ctx.context.secure
        response.set_cookie(TOLD_COOKIE, value, max_age=60, path=path, httponly=True, samesite="strict", secure=secure)
        return response


def is_ours(path: str) -> bool:
    """Return whether a path, without the base path, is one of our pages."""
    return bool(path) and _BACK.fullmatch(path) is not None and "//" not in path.partition("?")[0]


def _partial(page: str, name: str) -> str:
    """Return the template of a fragment; every page has `health`."""
    template = "_health.html" if name == "health" else f"_{page}_{name}.html"
    if not _FRAGMENT.fullmatch(name) or template not in template_names():
        raise NotFound
    return template


def bare_frame(request: Request, base: str) -> dict[str, Any]:
    """Return the frame of a page without a login: the login page or an error page."""
    return {
        "base": base,
        "theme": _theme(request),
        "asset": lambda name: f"{base}{asset_path(name)}",
        "sections": SECTIONS,
        "provider": _provider(request),
    }


def _provider(request: Request) -> str:
    """Return the identity provider that logs people in; empty for none."""
    authenticator = getattr(request.state, "authenticator", None)
    sign_on = None if authenticator is None else authenticator.sign_on
    return "" if sign_on is None else str(sign_on.provider)


def _theme(request: Request) -> str:
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else ""


VisitOf = Annotated[PageContext, Depends()]


HTML = "text/html; charset=utf-8"


class Pages(Routes):
    """The routes of pages; the OpenAPI document leaves them out."""

    def __init__(self) -> None:
        super().__init__("pages", prefix="")

    def show(self, path: str, *, scope: Scope = Scope.READ) -> Callable[[F], F]:
        """Declare a page; the function takes `visit: VisitOf` and returns `visit.show(…)`."""
        return self.on("GET", path, scope=scope, answer=str, media=HTML, shown=False)

    def act(self, path: str, *, back: str, scope: Scope = Scope.RUN) -> Callable[[F], F]:
        """Declare the action of a form; the function returns `visit.done(…)`. A refusal is shown on `back`."""

        def declare(action: F) -> F:
            self.on("POST", path, scope=scope, answer=str, media=HTML, shown=False)(_told_there(action, back))
            return action

        return declare


def _told_there(action: Callable[..., Response], back: str) -> Callable[..., Response]:
    """Return an action that shows its refusal on the page it came from."""

    @wraps(action)
    def act(visit: PageContext, **given: Any) -> Response:
        try:
            return action(visit, **given)
        except RotaError as error:
            return visit.refused(error, back=back)

    return act


LOST = "it may have moved, or `retention` may have deleted it"
WORDS = {
    401: "Please log in",
    403: "Not allowed",
    404: "Page not found",
    405: "Method not allowed",
    409: "This is not possible now",
    422: "Invalid input",
    429: "Too many wrong tokens",
    503: "rota cannot answer now",
    507: "The disk is full",
}


def error_page(error: RotaError, scope: AsgiScope, *, base: str) -> Response:
    """Return the page of an error."""
    request = StarletteRequest(scope)
    status, query = status_of(error), request.url.query
    back = f"{request.scope['path']}{f'?{query}' if query else ''}"[:1000]
    values = {
        **bare_frame(request, base),
        "error": error,
        "hint": LOST if isinstance(error, NotFound) else error.hint,
        "problems": error.problems,
        "status": status,
        "title": WORDS.get(status, TITLES.get(status, "Something went wrong")),
        "back": back if request.method == "GET" and (status == 401 or status >= 429) else "",
        "note": "",
    }
    template = "login.html" if isinstance(error, NoToken) else "error.html"
    return HTMLResponse(render(template, values), status, headers_of(error))


LARGEST = 96_000
"""The size limit of a page in bytes: 100 KB with headers."""


def fit(show: Callable[[int], Response], *, lines: int) -> Response:
    """Return the page with so many lines, or fewer if it would be too large.

    The second guess takes all of the page to be lines; later ones know from two sizes what a line adds.
    """
    response = show(lines)
    before: tuple[int, int] | None = None
    while (size := len(response.body)) > LARGEST and lines > 1:
        guess = lines * LARGEST // size
        if before is not None and before[1] > size:
            guess = lines - -(-(size - LARGEST) * (before[0] - lines) // (before[1] - size))
        before = lines, size
        lines = max(1, min(lines - 1, guess))
        response = show(lines)
    return response


PARAM = "param."


def param_fields(
    work: Work, values: Mapping[str, Any], *, typed: Mapping[str, str] | None = None, problems: Sequence[Problem] = ()
) -> list[View]:
    """Return the form fields of params, with their values or the typed texts, each with its problems."""
    kinds = work.kind_of_param
    fields = []
    for name in work.param_names:
        kind = kinds.get(name) or ParamKind(name)
        text = write_typed(kinds.get(name), values[name]) if name in values else ""
        text = text if typed is None else typed.get(f"{PARAM}{name}", text)
        wrong = [problem for problem in problems if problem.at == ("params", name)]
        fields.append({"name": f"{PARAM}{name}", "label": name, "value": text, "wrong": wrong, **_control(kind, text)})
    return fields


def _control(kind: ParamKind, text: str) -> View:
    """Return the control of a param of this kind."""
    view: View = {"control": "text", "options": [], "help": kind.description, "required": kind.required}
    typed = bool(kind.one_of) or kind.type is not ParamType.JSON
    if kind.one_of or (kind.type is ParamType.BOOL and kind.required):
        words = [write_typed(kind, one) for one in kind.one_of] or ["true", "false"]
        return {**view, "control": "select", "options": words if text in words else ["", *words]}
    if kind.type is ParamType.BOOL:
        return {**view, "control": "check"}
    if kind.type in (ParamType.INT, ParamType.NUMBER):
        view |= {"control": "number", "step": "1" if kind.type is ParamType.INT else "any"}
        bounds = say_kind(kind) if kind.min is not None or kind.max is not None else ""
        helps = "; ".join(part for part in (kind.description, bounds) if part)
        return {**view, "min": kind.min, "max": kind.max, "help": helps}
    return {**view, "control": "area" if "\n" in text else "text", "plain": not typed}


def given_params(form: Mapping[str, str], work: Work, shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of a form that differ from the shown ones; an empty number or choice is not given."""
    kinds = work.kind_of_param
    given: dict[str, Any] = {}
    for field, text in form.items():
        name = field.removeprefix(PARAM)
        if name == field or (name in shown and write_typed(kinds.get(name), shown[name]) == text):
            continue
        kind = kinds.get(name)
        empties = kind is not None and (kind.required or kind.type is not ParamType.TEXT or bool(kind.one_of))
        if text or not empties:
            given[name] = TypedText(text)
    return given


def pause_end(form: Mapping[str, str], *, zone: str, now: datetime) -> datetime | None:
    """Return the end of a pause: after a duration, at a time, or never."""
    duration, until = form.get("for", "").strip(), form.get("until", "").strip()
    if duration and until:
        raise InvalidValue("a pause ends after a time or at a time, not both", hint="fill in one of them")
    if duration:
        return cut_to_ms(now + parse_duration(duration))
    return cut_to_ms(read_coming(until, zone, now=now)) if until else None
