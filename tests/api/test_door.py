"""The door: every route and method refuses who has no token, a wrong one, too little scope, or comes from elsewhere."""

import re
from datetime import timedelta
from itertools import product

import pytest
from fastapi.routing import APIRoute
from msgspec.structs import replace

from rota.http.app import make_app
from rota.http.context import SCOPE_KEY
from rota.http.security import OPEN, Authenticator
from rota.operations.admin.access import GRANTS, Scope
from tests.api.conftest import Api
from tests.asgi import Client

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "FOO")
FILES = "/static/{digest}/{name}"
EXAMPLES = {
    "job": "hello",
    "run": "hello:1",
    "group": "both",
    "account": "day",
    "question": "1",
    "grant": "1",
    "worker": "elsewhere",
    "action": "run",
    "target": "ops",
    "digest": "0" * 12,
    "name": "rota.css",
    "number": "1",
}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def routes(api: Api) -> list[APIRoute]:
    return [route for route in api.routes.routes if isinstance(route, APIRoute)]


def closed(api: Api) -> list[APIRoute]:
    return [route for route in routes(api) if route.path not in {*OPEN, FILES}]


def path_of(route: APIRoute) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: EXAMPLES[found[1]], route.path)


def test_there_are_routes_to_walk(api: Api) -> None:
    assert len(routes(api)) > 40


def test_every_route_but_five_says_which_scope_it_needs(api: Api) -> None:
    silent = {route.path for route in routes(api) if SCOPE_KEY not in (route.openapi_extra or {})}
    assert silent - {FILES} == OPEN == {"/healthz", "/login", "/oidc/login", "/oidc/callback"}


def test_every_route_and_method_refuses_who_has_no_token(api: Api) -> None:
    """Dagu CVE-2026-31882, Ray CVE-2023-48022: nothing is open because somebody forgot to close it."""
    for path, method in product(sorted({path_of(route) for route in closed(api)}), METHODS):
        found = api.bare.request(method, path)
        assert (found.status_code, found.headers["www-authenticate"]) == (401, 'Bearer realm="rota"'), (method, path)


def test_every_route_and_method_refuses_a_wrong_token(api: Api) -> None:
    wrong = {"Authorization": f"Bearer {'x' * 43}"}
    found = {
        api.bare.request(method, path_of(route), headers=wrong).status_code
        for route, method in product(closed(api), METHODS)
    }
    assert found == {401, 429}


def test_every_route_refuses_a_token_of_too_little_scope(api: Api) -> None:
    walked = set()
    for route in routes(api):
        wanted = (route.openapi_extra or {}).get(SCOPE_KEY)
        for scope in Scope:
            if wanted is None or wanted in GRANTS[scope]:
                continue
            (method,) = route.methods
            form = b"x=1" if route.path.startswith("/ui/") else None
            body, headers = form or {}, FORM if form else {}
            found = api.call(method, path_of(route), body if method != "GET" else None, scope=scope, **headers)
            assert (found.status_code, found.json()["code"]) == (403, "forbidden"), (method, route.path, scope)
            words = "run; a token for an agent needs the scope agent" if wanted == "agent" else wanted
            assert found.json()["hint"] == f"it needs the scope {words}"
            walked.add(wanted)
    assert walked >= {"read", "run", "admin", "agent"}


def test_every_route_and_method_refuses_a_foreign_host(api: Api) -> None:
    """T-04: a name that was bound to our address reaches nothing, not even what is open."""
    for route, method in product(routes(api), METHODS):
        assert api.call(method, path_of(route), Host="evil.test").status_code == 421, (method, route.path)


@pytest.mark.parametrize("host", ["127.0.0.1.nip.io", "", "localhost@evil.test", "127.0.0.1:x", "[::1"])
def test_what_only_looks_like_our_host_is_a_foreign_one(api: Api, host: str) -> None:
    assert api.call("GET", "/healthz", Host=host).status_code == 421


def test_every_route_and_method_refuses_a_foreign_origin(api: Api) -> None:
    for route, method in product(routes(api), METHODS):
        assert api.call(method, path_of(route), Origin="https://evil.test").status_code == 403, (method, route.path)


@pytest.mark.parametrize("origin", ["null", "http://localhost:9999", "http://127.0.0.1", "https://127.0.0.1:7682"])
def test_what_only_looks_like_our_origin_is_a_foreign_one(api: Api, origin: str) -> None:
    assert api.call("GET", "/api/v1/jobs", Origin=origin).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_browser_that_says_that_another_site_asks_is_believed(api: Api, site: str) -> None:
    assert api.refused("GET", "/api/v1/jobs", Sec_Fetch_Site=site) == (403, "origin_refused")


@pytest.mark.parametrize("host", ["localhost:7682", "127.0.0.1:7682", "[::1]:7682", "LOCALHOST"])
def test_our_own_names_and_origins_come_in(api: Api, host: str) -> None:
    assert api.call("GET", "/api/v1/jobs", Host=host, Origin=f"http://{host.lower()}").status_code == 200


def test_two_hosts_or_two_tokens_are_none(api: Api) -> None:
    twice = [("Host", "127.0.0.1:7682"), ("Host", "evil.test"), *api.headers().items()]
    assert api.bare.request("GET", "/api/v1/jobs", headers=twice).status_code == 421
    tokens = [("Authorization", f"Bearer {api.token}"), ("Authorization", "Bearer x")]
    assert api.bare.request("GET", "/api/v1/jobs", headers=tokens).status_code == 401


def test_a_token_in_the_address_is_none(api: Api) -> None:
    assert api.bare.get(f"/api/v1/jobs?token={api.token}&access_token={api.token}").status_code == 401


def test_who_is_wrong_too_often_is_not_listened_to_for_a_minute(api: Api) -> None:
    """T-02: ten failures a minute; who has the right token is never shut out."""
    wrong = {"Authorization": "Bearer wrong"}
    told = [api.bare.get("/api/v1/jobs", headers=wrong).status_code for _ in range(12)]
    assert told == [401] * 10 + [429] * 2
    assert 1 <= int(api.bare.get("/api/v1/jobs", headers=wrong).headers["retry-after"]) <= 60
    assert api.call("GET", "/api/v1/jobs").status_code == 200
    assert api.bare.get("/api/v1/jobs").status_code == 401  # without a token nothing is guessed
    api.project.clock.advance(timedelta(seconds=61))
    assert api.bare.get("/api/v1/jobs", headers=wrong).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "//etc/passwd",
        "/api/v1/jobs/..%2f..%2ftoken",
        "/api/v1/jobs/%2e%2e",
        "/api/v1/runs/%252e",
        "/api/v1/jobs/a%5cb",
        "/api/v1/jobs/a%00b",
    ],
)
def test_a_path_that_can_be_read_in_two_ways_leads_nowhere(api: Api, path: str) -> None:
    """Dagu CVE-2026-27598, -33344: names never become paths."""
    assert api.refused("GET", path) == (404, "not_found")


def test_every_answer_has_its_headers_and_none_of_cors(api: Api) -> None:
    for path in ("/api/v1/jobs", "/healthz", "/login", "/nowhere", "/api/v1/metrics"):
        headers = api.call("GET", path).headers
        assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert headers["cache-control"] == "no-store"
        assert "date" in headers
        assert "server" not in headers
        assert not [name for name in headers if name.startswith("access-control")]


def test_an_unknown_path_and_an_unknown_method_are_told(api: Api) -> None:
    assert api.refused("GET", "/api/v1/nowhere") == (404, "not_found")
    found = api.call("DELETE", "/api/v1/jobs")
    assert (found.status_code, found.headers["allow"]) == (405, "GET, POST")
    assert api.call("PUT", "/api/v1/jobs/hello/explain").headers["allow"] == "GET"


def test_a_proxy_may_show_it_below_a_path_and_under_a_name(api: Api) -> None:
    """`base_path` with or without being stripped, and the host and origin of `public_url`."""
    context = replace(api.context, base_path="/rota")
    doorman = Authenticator(api.project.clock, token=lambda: api.token, public_url="https://ops.example.net/rota")
    behind = Client(make_app(context, doorman), base_url="http://ops.example.net")
    headers = {**api.headers(), "Origin": "https://ops.example.net"}
    assert behind.get("/rota/api/v1/jobs", headers=headers).status_code == 200
    assert behind.get("/api/v1/jobs", headers=headers).status_code == 200
    assert behind.get("/rotate/api/v1/jobs", headers=headers).status_code == 404
    made = behind.post("/rota/api/v1/jobs/hello/trigger", headers=headers)
    assert made.headers["location"].startswith("/rota/api/v1/runs/")
    code = context.codes.make(at=api.project.clock.monotonic())
    cookie = behind.get(f"/rota/login?code={code}", follow_redirects=False).headers["set-cookie"]
    assert "Path=/rota" in cookie
    assert behind.get("/rota/api/v1/jobs", headers={**headers, "Origin": "https://evil.example.net"}).status_code == 403
    behind.close()
