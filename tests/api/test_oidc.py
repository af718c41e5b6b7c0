"""Login by OpenID Connect against a local issuer, and the ways to cheat it."""

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from rota.http.oidc import SignOn
from rota.model.clock import Clock
from rota.settings import Http, Oidc
from tests.api.conftest import BASE, Api
from tests.asgi import Client

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE_KEY = ec.generate_private_key(ec.SECP256R1())
PEOPLE = {"anna@example.net": "admin", "carl@example.net": "read"}


class Issuer:
    """A provider of identities: it answers any code with `token()`, and notes what it was asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.url = ""
        self.nonce = ""
        self.challenge = ""
        self.claims: dict[str, Any] = {}
        self.asked: list[dict[str, str]] = []
        self.metadata: dict[str, Any] = {}
        self.sign: Callable[[dict[str, Any]], str] = lambda claims: jwt.encode(claims, KEY, "RS256", {"kid": "one"})
        self.keys = [
            {**json.loads(RSAAlgorithm.to_jwk(KEY.public_key())), "kid": "one", "use": "sig"},
            {**json.loads(ECAlgorithm.to_jwk(CURVE_KEY.public_key())), "kid": "two"},
        ]

    def answer(self, path: str) -> dict[str, Any]:
        """Return the answer of an endpoint."""
        if path == "/.well-known/openid-configuration":
            places = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
            return {"issuer": self.url, **{name: self.url + at for name, at in places.items()}, **self.metadata}
        return {"keys": self.keys} if path == "/keys" else {"id_token": self.sign(self.all_claims())}

    def all_claims(self) -> dict[str, Any]:
        """Return the claims of a good token, with the changes of the test."""
        now = int(self._clock.now().timestamp())
        usual = {
            "iss": self.url,
            "aud": "rota",
            "sub": "1",
            "iat": now,
            "exp": now + 300,
            "nonce": self.nonce,
            "email": "anna@example.net",
            "email_verified": True,
        }
        return {name: value for name, value in {**usual, **self.claims}.items() if value is not ...}


@pytest.fixture
def issuer(api: Api) -> Iterator[Issuer]:
    made = Issuer(api.project.clock)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = json.dumps(made.answer(self.path)).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(found)))
            self.end_headers()
            self.wfile.write(found)

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            made.asked.append({name: values[0] for name, values in form.items()})
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    http = Http(public_url=BASE, people=PEOPLE, oidc=Oidc(made.url, "rota", "OIDC"))
    api.doorman.sign_on = SignOn(http, api.project.clock, secret="between-us", redirect=f"{BASE}/oidc/callback")
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def browser(api: Api, issuer: Issuer) -> Iterator[Client]:
    with another(api) as made:
        yield made


def another(api: Api) -> Client:
    made = Client(api.app, base_url=BASE, follow_redirects=False)
    made.portal = api.bare.portal
    return made


def begin(browser: Client, issuer: Issuer, back: str = "/") -> str:
    """Start a login; return its state."""
    found = browser.get("/oidc/login", params={"back": back})
    assert found.status_code == 303, found.text
    asked = {name: values[0] for name, values in parse_qs(urlsplit(found.headers["location"]).query).items()}
    assert found.headers["location"].startswith(f"{issuer.url}/authorize?")
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert asked["redirect_uri"] == f"{BASE}/oidc/callback"
    issuer.nonce, issuer.challenge = asked["nonce"], asked["code_challenge"]
    return asked["state"]


def finish(browser: Client, state: str, code: str = "code", **headers: str) -> Any:
    return browser.get("/oidc/callback", params={"state": state, "code": code}, headers=headers)


def log_in(browser: Client, issuer: Issuer, back: str = "/") -> Any:
    return finish(browser, begin(browser, issuer, back))


def sees(browser: Client) -> int:
    return int(browser.get("/api/v1/audit").status_code)


def test_a_person_logs_in_and_the_records_name_the_person(api: Api, browser: Client, issuer: Issuer) -> None:
    assert 'href="/oidc/login?back=' in browser.get("/login").text
    found = finish(browser, begin(browser, issuer, "/ui/runs"), Sec_Fetch_Site="cross-site")
    assert found.status_code == 200
    assert 'url=/ui/runs"' in found.text
    assert "HttpOnly" in found.headers["set-cookie"]
    assert sees(browser) == 200
    assert browser.post("/api/v1/jobs/hello/pause", headers={"Origin": BASE}).status_code == 200
    assert api.get("/audit")["items"][0]["actor"] == "person:anna@example.net"
    assert browser.post("/api/v1/jobs/hello/pause").status_code == 403


def test_the_code_is_exchanged_with_the_verifier_and_the_secret(browser: Client, issuer: Issuer) -> None:
    assert log_in(browser, issuer).status_code == 200
    (asked,) = issuer.asked
    digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == issuer.challenge
    assert (asked["code"], asked["client_id"], asked["client_secret"]) == ("code", "rota", "between-us")


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"aud": "another"}, "audience"),
        ({"aud": ["rota", "another"]}, "another program"),
        ({"azp": "another"}, "another program"),
        ({"iss": "http://evil.test"}, "issuer"),
        ({"nonce": "of another login"}, "another login"),
        ({"nonce": ...}, "another login"),
        ({"exp": 1}, "has expired"),
        ({"exp": ...}, "exp"),
        ({"exp": "never"}, "invalid time"),
        ({"iat": 99_999_999_999}, "not valid yet"),
        ({"nbf": 99_999_999_999}, "not valid yet"),
        ({"sub": ...}, "sub"),
        ({"email": ...}, "no text in the claim email"),
        ({"email_verified": False}, "has not verified"),
        ({"email_verified": ...}, "has not verified"),
        ({"email": "stranger@example.net"}, "has no access"),
        ({"email": "owner"}, "invalid or reserved"),
    ],
)
def test_a_token_for_another_purpose_is_refused(
    browser: Client, issuer: Issuer, claims: dict[str, Any], message: str
) -> None:
    issuer.claims = claims
    found = log_in(browser, issuer)
    assert found.status_code in (401, 403)
    assert message in found.text
    assert sees(browser) == 401


def unsigned(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, None, "none")


def with_the_public_key_as_a_secret(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, "x" * 32, "HS256", {"kid": "one"})


def with_a_key_in_its_head(claims: dict[str, Any]) -> str:
    own = json.loads(RSAAlgorithm.to_jwk(OTHER_KEY.public_key()))
    return jwt.encode(claims, OTHER_KEY, "RS256", {"kid": "one", "jwk": own, "jku": "http://evil.test/keys"})


def with_another_claim(claims: dict[str, Any]) -> str:
    head, _, sign = jwt.encode({**claims, "email": "carl@example.net"}, KEY, "RS256", {"kid": "one"}).split(".")
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"{head}.{body}.{sign}"


@pytest.mark.parametrize(
    "sign",
    [
        unsigned,
        with_the_public_key_as_a_secret,
        with_a_key_in_its_head,
        with_another_claim,
        lambda claims: jwt.encode(claims, KEY, "RS256", {"kid": "unknown"}),
        lambda claims: jwt.encode(claims, KEY, "RS256"),
        lambda claims: jwt.encode(claims, CURVE_KEY, "ES256", {"kid": "one"}),
        lambda _claims: "a.b.c",
        lambda _claims: None,
    ],
)
def test_a_token_without_the_issuers_signature_is_refused(
    browser: Client, issuer: Issuer, sign: Callable[[dict[str, Any]], str]
) -> None:
    issuer.sign = sign
    assert log_in(browser, issuer).status_code == 401
    assert sees(browser) == 401


def test_each_key_of_the_issuer_signs_with_its_own_algorithm(browser: Client, issuer: Issuer) -> None:
    issuer.sign = lambda claims: jwt.encode(claims, CURVE_KEY, "ES256", {"kid": "two"})
    assert log_in(browser, issuer).status_code == 200
    assert sees(browser) == 200


def test_a_state_works_once_in_the_browser_that_began_and_for_ten_minutes(
    api: Api, browser: Client, issuer: Issuer
) -> None:
    state = begin(browser, issuer)
    with another(api) as thief:
        assert "nother browser" in finish(thief, state).text
        assert sees(thief) == 401
    assert "used already" in finish(browser, state).text  # the theft used it up

    state = begin(browser, issuer)
    assert finish(browser, state).status_code == 200
    assert "used already" in finish(browser, state).text

    state = begin(browser, issuer)
    api.project.clock.advance(timedelta(minutes=11))
    assert "took too long" in finish(browser, state).text
    assert finish(browser, "invented").status_code == 401
    assert finish(browser, "").status_code == 401


@pytest.mark.parametrize(
    "back", ["https://evil.test/", "//evil.test", "/\\evil.test", "javascript:alert(1)", '/"><script>', "/jobs//x"]
)
def test_a_login_leads_to_our_own_pages_alone(browser: Client, issuer: Issuer, back: str) -> None:
    found = log_in(browser, issuer, back)
    assert found.status_code == 200
    assert 'content="0; url=/"' in found.text
    assert "evil" not in found.text


def test_a_login_makes_a_session_of_its_own(api: Api, browser: Client, issuer: Issuer) -> None:
    """Session fixation: a cookie that was there before the login gains nothing."""
    browser.cookies.set("rota_session", "planted", domain="127.0.0.1", path="/")
    log_in(browser, issuer)
    first = {cookie.value for cookie in browser.cookies.jar if cookie.name == "rota_session"}
    with another(api) as second:
        log_in(second, issuer)
        assert first.isdisjoint({cookie.value for cookie in second.cookies.jar})
        second.cookies.clear()
        second.cookies.set("rota_session", "planted", domain="127.0.0.1", path="/")
        assert sees(second) == 401


def test_the_scope_is_that_of_the_file_now(api: Api, browser: Client, issuer: Issuer) -> None:
    log_in(browser, issuer)
    assert sees(browser) == 200
    oidc = Oidc(issuer.url, "rota")
    fewer = Http(public_url=BASE, people={"anna@example.net": "read"}, oidc=oidc)
    api.doorman.sign_on = SignOn(fewer, api.project.clock, secret="", redirect=f"{BASE}/oidc/callback")
    assert (sees(browser), browser.get("/api/v1/jobs").status_code) == (403, 200)
    nobody = Http(public_url=BASE, oidc=oidc)
    api.doorman.sign_on = SignOn(nobody, api.project.clock, secret="", redirect=f"{BASE}/oidc/callback")
    assert browser.get("/api/v1/jobs").status_code == 403
    api.doorman.sign_on = None
    assert browser.get("/api/v1/jobs").status_code == 401
    assert browser.get("/oidc/login").status_code == 404


def test_a_provider_that_names_another_issuer_or_an_open_endpoint_is_refused(browser: Client, issuer: Issuer) -> None:
    for wrong in ({"issuer": "https://evil.test"}, {"token_endpoint": "http://evil.test/token"}, {"jwks_uri": None}):
        issuer.metadata = wrong
        assert browser.get("/oidc/login").status_code == 401
    issuer.metadata = {}
    assert log_in(browser, issuer).status_code == 200


def test_a_provider_that_is_gone_is_said(api: Api) -> None:
    http = Http(public_url=BASE, oidc=Oidc("http://127.0.0.1:9", "rota"))
    api.doorman.sign_on = SignOn(http, api.project.clock, secret="", redirect=f"{BASE}/oidc/callback")
    found = api.bare.get("/oidc/login")
    assert found.status_code == 401
    assert "cannot be reached" in found.text
