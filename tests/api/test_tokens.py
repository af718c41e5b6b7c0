"""Named tokens over HTTP: scopes, expiry, revocation, last use and logins."""

import re
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest
from fastapi import Request
from fastapi.routing import APIRoute

from rota.http.api.system import _until_logout
from rota.http.context import SCOPE_KEY
from rota.operations.admin.access import GRANTS, Scope
from rota.operations.admin.tokens import NewToken, caller_of, create_token, hash_of, list_tokens, revoke_token
from rota.store.tables.tokens import AccessToken
from tests.api.conftest import BASE, Api
from tests.api.test_door import EXAMPLES, FILES, FORM, path_of, routes

CHANGES_ITSELF_ONLY = {"/api/v1/logout", "/ui/logout", "/ui/preferences"}
"""Routes that change no more than the session or the cookies of the caller."""


def make(api: Api, name: str = "ci", scope: Scope = Scope.RUN, days: int | None = 90) -> NewToken:
    lasts = None if days is None else timedelta(days=days)
    return create_token(api.store, name, scope, lasts=lasts, by="user:anna", now=api.project.clock.now())


def use(api: Api, text: str, method: str = "GET", path: str = "/api/v1/jobs", **more: Any) -> Any:
    headers = {"Authorization": f"Bearer {text}", **more.pop("headers", {})}
    return api.bare.request(method, path, headers=headers, **more)


def row(api: Api) -> AccessToken:
    return list_tokens(api.store)[0]


@pytest.mark.parametrize("scope", [Scope.READ, Scope.RUN, Scope.ADMIN, Scope.CALENDAR])
def test_a_token_opens_exactly_the_routes_of_its_scope(api: Api, scope: Scope) -> None:
    """Each route states its scope; the answer to a sufficient token is never 401 or 403."""
    text = make(api, scope=scope).text
    walked = 0
    for route in routes(api):
        wanted = (route.openapi_extra or {}).get(SCOPE_KEY)
        if wanted is None or route.path.endswith("/events"):  # the stream has no end
            continue
        (method,) = route.methods
        form = route.path.startswith("/ui/")
        more: dict[str, Any] = {"content": b"x=1" if form else b"{}"} if method != "GET" else {}
        headers = (FORM if form else {"Content-Type": "application/json"}) if more else {}
        found = use(api, text, method, path_of(route), headers=headers, **more)
        allowed = Scope(wanted) in GRANTS[scope]
        assert (found.status_code == 403) is not allowed, (method, route.path, scope, found.text[:200])
        assert found.status_code != 401, (method, route.path)
        walked += 1
    assert walked > 40


def test_no_route_changes_anything_for_a_reader(api: Api) -> None:
    """A route with another method than GET needs more than `read`, unless it changes only the caller's login."""
    weak = {
        route.path
        for route in routes(api)
        if isinstance(route, APIRoute)
        and route.path not in {FILES, "/login", "/healthz"}
        and route.methods != {"GET"}
        and (route.openapi_extra or {}).get(SCOPE_KEY) in ("read", "calendar")
    }
    assert weak == CHANGES_ITSELF_ONLY


def test_every_name_in_a_path_has_an_example(api: Api) -> None:
    names = {name for route in routes(api) for name in re.findall(r"\{(\w+)\}", route.path)}
    assert names <= set(EXAMPLES)


def test_the_name_of_a_token_stands_in_the_audit_and_in_the_history(api: Api) -> None:
    text = make(api).text
    found = use(
        api, text, "POST", "/api/v1/jobs/hello/pause", content=b"{}", headers={"Content-Type": "application/json"}
    )
    assert found.status_code < 300, found.text
    assert api.get("/audit")["items"][0]["actor"] == "token:ci"


def test_a_token_ends_with_its_time(api: Api) -> None:
    text = make(api, days=1).text
    api.project.clock.advance(timedelta(hours=23, minutes=59))
    assert use(api, text).status_code == 200
    api.project.clock.advance(timedelta(minutes=1))
    refused = use(api, text)
    assert (refused.status_code, refused.json()["code"]) == (401, "token_ended")
    assert refused.json()["detail"] == "the token 'ci' has expired"
    assert "rota token create" in refused.json()["hint"]


def test_a_token_without_an_end_lasts(api: Api) -> None:
    text = make(api, days=None).text
    api.project.clock.advance(timedelta(days=4000))
    assert use(api, text).status_code == 200


def test_a_revoked_token_is_refused_at_once_and_the_others_go_on(api: Api) -> None:
    text, other = make(api).text, make(api, "grafana", Scope.READ).text
    assert use(api, text).status_code == 200
    revoke_token(api.store, "ci", by="user:anna", now=api.project.clock.now())
    refused = use(api, text)
    assert (refused.status_code, refused.json()["detail"]) == (401, "the token 'ci' was revoked")
    assert use(api, other).status_code == 200
    assert use(api, api.token).status_code == 200


def test_an_ended_token_is_no_guess_and_an_unknown_one_is(api: Api) -> None:
    """The rate limit counts guesses; a client with an old token must not lock its address out."""
    text = make(api).text
    revoke_token(api.store, "ci", by="user:anna", now=api.project.clock.now())
    assert {use(api, text).status_code for _ in range(15)} == {401}
    unknown = f"rota_token_{'x' * 43}"
    assert [use(api, unknown).status_code for _ in range(11)] == [401] * 10 + [429]


@pytest.mark.parametrize("wrong", ["", "x", "rota_token_", "{0}x", "{1}", "Bearer {0}", "rota_token_{2}"])
def test_a_text_that_is_not_the_token_is_refused(api: Api, wrong: str) -> None:
    text = make(api).text
    written = wrong.format(text, text[:-1], text.removeprefix("rota_token_").swapcase())
    assert use(api, written).status_code == 401
    assert row(api).last_used_at is None


def test_the_database_holds_the_hash_of_a_token_and_the_hash_is_no_token(api: Api) -> None:
    """A copy of the database gives nobody access."""
    text = make(api).text
    stored = b"".join(file.read_bytes() for file in api.project.state.glob("rota.db*"))
    assert (hash_of(text).encode() in stored, text.encode() in stored) == (True, False)
    assert use(api, hash_of(text)).status_code == 401
    assert use(api, f"rota_token_{hash_of(text)[:43]}").status_code == 401


def test_the_last_use_is_written_once_a_minute(api: Api) -> None:
    text = make(api).text
    clock = api.project.clock
    first = clock.now()
    use(api, text)
    assert row(api).last_used_at == first
    clock.advance(timedelta(seconds=59))
    use(api, text)
    assert row(api).last_used_at == first
    clock.advance(timedelta(seconds=1))
    use(api, text)
    assert row(api).last_used_at == clock.now()


def test_a_login_with_a_token_ends_when_the_token_is_revoked(api: Api) -> None:
    text = make(api).text
    sent = api.bare.post("/login", data={"token": text}, headers={"Origin": BASE}, follow_redirects=False)
    assert sent.status_code == 303
    assert api.bare.get("/api/v1/jobs").status_code == 200
    revoke_token(api.store, "ci", by="user:anna", now=api.project.clock.now())
    assert api.bare.get("/api/v1/jobs").status_code == 401
    again = api.bare.post("/login", data={"token": text}, headers={"Origin": BASE}, follow_redirects=False)
    assert (again.status_code, "was revoked" in again.text) == (401, True)


def test_a_login_with_a_token_ends_when_the_token_expires(api: Api) -> None:
    text = make(api, days=1).text
    api.bare.post("/login", data={"token": text}, headers={"Origin": BASE}, follow_redirects=False)
    api.project.clock.advance(timedelta(days=1))
    assert api.bare.get("/api/v1/jobs").status_code == 401


@pytest.mark.parametrize("scope", [Scope.AGENT, Scope.CALENDAR])
def test_a_token_for_programs_logs_no_browser_in(api: Api, scope: Scope) -> None:
    sent = api.bare.post("/login", data={"token": make(api, scope=scope).text}, headers={"Origin": BASE})
    assert (sent.status_code, f"scope {scope}" in sent.text) == (403, True)


def test_two_tokens_of_one_name_share_no_idempotency_keys(api: Api) -> None:
    """A new token may get the name of a revoked one."""
    first = make(api).text
    path, headers = "/api/v1/jobs/hello/trigger", {"Idempotency-Key": "k"}
    one = use(api, first, "POST", path, headers=headers)
    revoke_token(api.store, "ci", by="user:anna", now=api.project.clock.now())
    other = use(api, make(api).text, "POST", path, headers=headers)
    assert (one.status_code, other.status_code) == (202, 202)
    assert one.json()["id"] != other.json()["id"]


def test_the_tools_need_the_scope_of_agents(api: Api) -> None:
    """MCP over HTTP states its scope as the routes do."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    for scope, status in [(Scope.READ, 403), (Scope.CALENDAR, 403), (Scope.AGENT, 200), (Scope.RUN, 200)]:
        text = make(api, f"t-{scope}", scope).text
        assert use(api, text, "POST", "/mcp", json=body, headers=headers).status_code == status


def test_the_live_events_of_a_token_end_with_it(api: Api) -> None:
    caller = caller_of(make(api).row)
    request = Request({"type": "http", "headers": [], "state": {"authenticator": api.doorman, "caller": caller}})

    async def pieces() -> AsyncGenerator[bytes]:
        yield b"before"
        revoke_token(api.store, "ci", by="user:anna", now=api.project.clock.now())
        yield b"after"

    async def follow() -> list[bytes]:
        return [piece async for piece in _until_logout(pieces(), request)]

    assert api.bare.portal is not None
    assert api.bare.portal.call(follow) == [b"before"]
