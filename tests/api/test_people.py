"""People behind a proxy: the header counts from a listed proxy alone, and names the person in every record."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from rota.http.people import PEER, ProxiedPeople
from rota.operations.admin.access import Scope
from rota.settings import Http
from tests.api.conftest import BASE, Api
from tests.asgi import Client

HTTP = Http(
    trusted_header="X-Forwarded-User",
    proxies=("10.0.0.0/24", "fd00::5/128"),
    people={"anna@example.net": "admin", "ben": "run", "carl": "read"},
)
PROXY = "10.0.0.5"
ANNA = {"X-Forwarded-User": "anna@example.net"}
ORIGIN = {"Origin": BASE}


@contextmanager
def reached(api: Api, *, peer: str = PROXY, http: Http = HTTP, secret: str = "") -> Iterator[Client]:
    """Yield a client of the API as a server sees it that trusts the X-Forwarded headers of every peer."""
    api.doorman.people = ProxiedPeople(http, secret)

    async def connection(scope: Any, receive: Any, send: Any) -> None:
        await behind({**scope, PEER: peer, "client": (peer, 50000)}, receive, send)

    behind = ProxyHeadersMiddleware(api.app, trusted_hosts="*")
    client = Client(connection, base_url=BASE)
    client.portal = api.bare.portal
    with client:
        yield client


def status(client: Client, headers: Any = None) -> int:
    return int(client.get("/api/v1/jobs", headers=headers).status_code)


@pytest.mark.parametrize("peer", [PROXY, "::ffff:10.0.0.5", "fd00::5"])
def test_a_listed_proxy_names_the_person(api: Api, peer: str) -> None:
    with reached(api, peer=peer) as client:
        assert status(client, ANNA) == 200
        assert status(client) == 401


@pytest.mark.parametrize("peer", ["10.0.1.5", "127.0.0.1", "fd00::6", "", "unix"])
def test_the_header_of_any_other_peer_is_ignored(api: Api, peer: str) -> None:
    with reached(api, peer=peer) as client:
        assert status(client, ANNA) == 401
        assert status(client, {**ANNA, **api.headers(Scope.READ)}) == 200


@pytest.mark.parametrize("name", ["X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Forwarded-Host"])
def test_no_header_makes_another_peer_a_proxy(api: Api, name: str) -> None:
    """With --behind-proxy the server takes the client's address from X-Forwarded-For: it is not the peer."""
    with reached(api, peer="192.0.2.7") as client:
        assert status(client, {**ANNA, name: PROXY}) == 401
        assert status(client, {**ANNA, name: f"{PROXY}, {PROXY}"}) == 401


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Forwarded-User", "anna@example.net"), ("X-Forwarded-User", "ben")],
        [("X-Forwarded-User", "ben"), ("x-forwarded-user", "ben")],
        [("X-Forwarded-User", "anna@example.net, ben")],
        [("X-Forwarded-User", "owner")],
        [("X-Forwarded-User", "Scheduler")],
        [("X-Forwarded-User", "anna\x1f")],
        [("X-Forwarded-User", "a" * 200)],
        [("X-Forwarded-User", "stranger")],
    ],
)
def test_two_names_an_invalid_one_and_a_stranger_are_refused(api: Api, headers: list[tuple[str, str]]) -> None:
    with reached(api) as client:
        found = client.get("/api/v1/jobs", headers=headers)
        assert (found.status_code, found.json()["code"]) == (403, "person_refused")


def test_similar_headers_do_not_count(api: Api) -> None:
    with reached(api) as client:
        for name in ("X_Forwarded_User", "X-Forwarded-Users", "Remote-User", "X-Forwarded-Email"):
            assert status(client, {name: "anna@example.net"}) == 401
        assert status(client, {"X-Forwarded-User": " "}) == 401


def test_each_person_has_the_scope_of_the_file(api: Api) -> None:
    start = "/api/v1/jobs/hello/trigger"
    with reached(api) as client:
        assert client.get("/api/v1/audit", headers=ANNA).status_code == 200
        assert client.post(start, headers={"X-Forwarded-User": "ben", **ORIGIN}).status_code in (200, 201, 202)
        assert client.post(start, headers={"X-Forwarded-User": "carl", **ORIGIN}).status_code == 403
    others = Http(trusted_header="X-Forwarded-User", proxies=HTTP.proxies, others="read")
    with reached(api, http=others) as client:
        assert status(client, {"X-Forwarded-User": "stranger"}) == 200
        assert client.post(start, headers={"X-Forwarded-User": "stranger", **ORIGIN}).status_code == 403


def test_a_person_changes_nothing_from_a_page_of_another_site(api: Api) -> None:
    start = "/api/v1/jobs/hello/trigger"
    with reached(api) as client:
        assert client.post(start, headers=ANNA).status_code == 403
        assert client.post(start, headers={**ANNA, "Origin": "http://evil.test"}).status_code == 403


def test_a_token_in_the_request_counts_more_than_the_person(api: Api) -> None:
    with reached(api) as client:
        reader = {**ANNA, **api.headers(Scope.READ), **ORIGIN}
        assert client.get("/api/v1/audit", headers=reader).status_code == 403


def test_the_audit_names_the_person_and_a_token_of_this_name_is_another_caller(api: Api) -> None:
    pause, key = "/api/v1/jobs/hello/pause", {"Idempotency-Key": "one"}
    with reached(api, http=Http(trusted_header="X-Forwarded-User", proxies=HTTP.proxies, others="run")) as client:
        assert client.post(pause, headers={"X-Forwarded-User": "tester", **ORIGIN, **key}).status_code == 200
        mine = client.post(pause, headers={**api.headers(Scope.RUN), **key})
        assert "idempotency-replayed" not in mine.headers
    actors = [entry["actor"] for entry in api.get("/audit")["items"]]
    assert "person:tester" in actors


def test_a_proxy_with_a_secret_needs_it(api: Api) -> None:
    with reached(api, secret="between-us") as client:
        assert status(client, ANNA) == 401
        assert status(client, {**ANNA, "X-Rota-Proxy-Secret": "wrong"}) == 401
        assert status(client, {**ANNA, "X-Rota-Proxy-Secret": "between-us"}) == 200
        twice = [*ANNA.items(), ("X-Rota-Proxy-Secret", "between-us"), ("X-Rota-Proxy-Secret", "between-us")]
        assert status(client, twice) == 401
