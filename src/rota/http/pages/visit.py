"""One request for a page: who looks, in which zone and theme, what the page is filled with, and what is told next."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlencode

from fastapi import Depends, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rota.http.context import Desk, DeskOf
from rota.http.doorman import Doorman
from rota.http.pages.rendering import exists, render
from rota.http.pages.static import asset_path
from rota.http.refusals import NotFound
from rota.model.errors import InvalidTimezone, RotaError
from rota.operations.access import Scope
from rota.operations.following import newest
from rota.operations.health import Health, look_at_health
from rota.operations.jobs import project_timezone
from rota.operations.words import plain
from rota.rules.timezone import zone as known_zone

SECTIONS = (
    ("overview", "/", "Overview"),
    ("jobs", "/ui/jobs", "Jobs"),
    ("queue", "/ui/queue", "Queue"),
    ("runs", "/ui/runs", "Runs"),
    ("agents", "/ui/agents", "Agents & budgets"),
    ("system", "/ui/system", "System"),
)
ZONE_COOKIE, THEME_COOKIE, TOLD_COOKIE = "rota_zone", "rota_theme", "rota_told"
THEMES = ("light", "dark")
LONGEST_TOLD = 600
_BACK = re.compile(r"/(ui/[^\\\x00-\x1f]*|\?[^\\\x00-\x1f]*)?")
_FRAGMENT = re.compile(r"[a-z][a-z_]{0,40}")


@dataclass(frozen=True, slots=True)
class Told:
    """A message on the next page: done, or refused with a hint."""

    text: str
    hint: str = ""
    bad: bool = False


class Visit:
    """What a page and its template work with."""

    def __init__(self, desk: Desk, request: Request, *, fragment: str = "") -> None:
        self.desk = desk
        self.request = request
        self.fragments = tuple(name for name in fragment.split(",") if name)
        self.now: datetime = desk.now
        self.seq = 0 if self.fragments else newest(desk.store)
        """The newest change before the page was read: what comes after it is told live, so that nothing is missed."""

    @property
    def form(self) -> Mapping[str, str]:
        """What was sent with a form; unticked boxes and fields that are not there are empty texts."""
        found: Mapping[str, str] = getattr(self.request.state, "form", {})
        return found

    @property
    def forms(self) -> Mapping[str, list[str]]:
        """All values of each field of a form."""
        found: Mapping[str, list[str]] = getattr(self.request.state, "forms", {})
        return found

    @property
    def base(self) -> str:
        """The path below which a proxy shows rota."""
        return self.desk.context.base_path

    @property
    def project(self) -> str:
        """The name of the project's folder."""
        return self.desk.context.folder.name or str(self.desk.context.folder)

    @property
    def may_run(self) -> bool:
        """Whether this login may start and steer runs."""
        return self.desk.caller.may(Scope.RUN)

    @property
    def may_admin(self) -> bool:
        """Whether this login may do everything."""
        return self.desk.caller.may(Scope.ADMIN)

    @cached_property
    def project_zone(self) -> str:
        """The zone in which people of this project read times."""
        return project_timezone(self.desk.store)

    @cached_property
    def zone(self) -> str:
        """The zone of all times on the page: the project's, or the one that this browser chose."""
        chosen = unquote(self.request.cookies.get(ZONE_COOKIE, ""))
        try:
            return known_zone(chosen).key if chosen else self.project_zone
        except InvalidTimezone:
            return self.project_zone

    @property
    def theme(self) -> str:
        """The theme that this browser chose; empty: what its system says."""
        return theme_of(self.request)

    @cached_property
    def health(self) -> Health:
        """How the scheduler is."""
        return look_at_health(self.desk.store, self.desk.state, now=self.now)

    @cached_property
    def told(self) -> Told | None:
        """What the last action of this browser brought."""
        return read_told(self.request.cookies.get(TOLD_COOKIE, ""))

    @property
    def here(self) -> str:
        """The path of this page, for forms that come back to it."""
        query = [(key, value) for key, value in self.request.query_params.multi_items() if key != "fragment"]
        return f"{self.request.url.path}{f'?{urlencode(query)}' if query else ''}"

    def href(self, path: str, **query: str | int | list[str] | None) -> str:
        """Return a link to a path of ours; values that are None or empty are left out."""
        given = {key: value for key, value in query.items() if value not in (None, "", [])}
        return f"{self.base}{quote(path, safe='/~:?=&%')}{f'?{urlencode(given, doseq=True)}' if given else ''}"

    def asset(self, name: str) -> str:
        """Return the link of a style, a script or the icon."""
        return f"{self.base}{asset_path(name)}"

    def wants(self, *names: str) -> bool:
        """Tell whether the page is asked for, or one of these fragments of it."""
        return not self.fragments or not set(names).isdisjoint(self.fragments)

    def show(self, template: str, view: Any, *, title: str, section: str = "", status: int = 200) -> Response:
        """Return the page; or only those of its fragments that were asked for, each `_PAGE_FRAGMENT.html`."""
        values = {"visit": self, "view": view, "title": title, "section": section, "sections": SECTIONS}
        if self.fragments:
            page = template.removesuffix(".html")
            return HTMLResponse("\n".join(render(_partial(page, name), values) for name in self.fragments))
        response = HTMLResponse(render(template, values), status)
        if self.told is not None:
            response.delete_cookie(TOLD_COOKIE, path=self.base or "/", httponly=True, samesite="strict")
        return response

    def done(self, text: str, *, back: str = "/") -> Response:
        """Go back to a page, or where the form says, with a message about what was done."""
        return self._back(Told(text), back)

    def refused(self, error: RotaError, *, back: str = "/") -> Response:
        """Go back with what was refused, and the hint."""
        return self._back(Told(error.message, error.hint or "", bad=True), back)

    def confirm(self, title: str, *, says: str, button: str, back: str, detail: tuple[str, ...] = ()) -> Response:
        """Return the page that asks once more and says what is hit; its form is this one, with `confirm`."""
        kept = [(key, value) for key, values in self.forms.items() for value in values if key != "confirm"]
        view = {"says": says, "button": button, "back": self.safe_back(back), "detail": detail, "kept": kept}
        return self.show("confirm.html", view, title=title)

    @property
    def confirmed(self) -> bool:
        """Whether the form was sent from the page that asks once more."""
        return self.form.get("confirm") == "yes"

    def safe_back(self, otherwise: str) -> str:
        """Return where a form says to go back to, if that is a page of ours."""
        wanted = self.form.get("back", "")
        return wanted if is_ours(wanted) else otherwise

    def _back(self, told: Told, back: str) -> Response:
        response = RedirectResponse(f"{self.base}{self.safe_back(back)}", 303)
        text, hint = plain(told.text)[:LONGEST_TOLD], plain(told.hint)[:LONGEST_TOLD]
        value = quote(json.dumps([int(told.bad), text, hint], ensure_ascii=False), safe="")
        path, secure = self.base or "/", self.desk.context.secure
        response.set_cookie(TOLD_COOKIE, value, max_age=60, path=path, httponly=True, samesite="strict", secure=secure)
        return response


def is_ours(path: str) -> bool:
    """Tell whether a path, without that of a proxy, is one of a page, so that a form may lead there."""
    return bool(path) and _BACK.fullmatch(path) is not None and "//" not in path.partition("?")[0]


def _partial(page: str, name: str) -> str:
    """Return the template of a fragment; `health` is one of every page."""
    template = "_health.html" if name == "health" else f"_{page}_{name}.html"
    if not _FRAGMENT.fullmatch(name) or not exists(template):
        raise NotFound
    return template


def bare_frame(request: Request, base: str) -> dict[str, Any]:
    """Return what a page is framed with that is no visit: nobody is let in yet, or the page itself failed."""
    return {
        "base": base,
        "theme": theme_of(request),
        "asset": lambda name: f"{base}{asset_path(name)}",
        "sections": SECTIONS,
    }


def theme_of(request: Request) -> str:
    """Return the theme that a browser chose; empty: what its system says."""
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else ""


def read_told(cookie: str) -> Told | None:
    """Return the message that a cookie carries from one page to the next."""
    try:
        bad, text, hint = json.loads(unquote(cookie))
    except (ValueError, TypeError):
        return None
    return Told(str(text)[:LONGEST_TOLD], str(hint)[:LONGEST_TOLD], bad=bad == 1)


def visit_of(
    request: Request,
    desk: DeskOf,
    fragment: Annotated[str, Query(max_length=200, description="Only parts of it.")] = "",
) -> Visit:
    """Return the visit of a request."""
    return Visit(desk, request, fragment=fragment)


VisitOf = Annotated[Visit, Depends(visit_of)]


def doorman_of(request: Request) -> Doorman:
    """Return who lets requests in."""
    doorman: Doorman = request.state.doorman
    return doorman
