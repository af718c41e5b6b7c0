"""Login by OpenID Connect: authorization code with PKCE. The ID token is the only thing that is believed."""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from rota.http import errors
from rota.http.people import caller_of, digest_of
from rota.model.clock import Clock
from rota.operations.admin.access import Caller
from rota.settings import Http

if TYPE_CHECKING:
    import ssl

    import httpx2

START, CALLBACK = "/oidc/login", "/oidc/callback"
LASTS = timedelta(minutes=10)
"""How long a login at the provider may take."""
METADATA_LASTS = timedelta(minutes=10)
AT_ONCE = 1000
"""The most logins under way; a further one ends the oldest."""
TIMEOUT = 10.0
ANSWER_LIMIT = 256 * 1024
LEEWAY = 60
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a public key alone: `none` and shared keys never verify."""
MISSING = "logins by OpenID Connect need PyJWT: `pip install 'rota[oidc]'`"


class LoginFailed(errors.HttpRefusal, code="login_failed", status=401):
    """A login at the identity provider that cannot be completed."""

    remedy = "log in again"


class Attempt(Struct, frozen=True):
    """A login under way: what the answer must fit."""

    nonce: str
    verifier: str
    binding: bytes
    """The digest of the value in the cookie of the browser that began it."""
    back: str
    until: float


class Started(Struct, frozen=True):
    """Where to send the browser, and the value of the cookie that binds the login to it."""

    url: str
    binding: str


class Metadata(Struct, frozen=True):
    """The endpoints of the provider."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


class SignOn:
    """Logins at one identity provider. Logins under way are in memory: a restart ends them."""

    def __init__(self, http: Http, clock: Clock, *, secret: str, redirect: str) -> None:
        assert http.oidc is not None
        self._oidc = http.oidc
        self._people, self._others = http.people, http.others
        self._clock = clock
        self._secret = secret
        self._redirect = redirect
        self._attempts: dict[bytes, Attempt] = {}
        self._metadata: tuple[Metadata, float] | None = None

    @property
    def provider(self) -> str:
        """The host of the provider, for people."""
        return urlsplit(self._oidc.issuer).hostname or ""

    def person(self, name: str) -> Caller:
        """Return a person with the scope that the file gives now, or refuse the person."""
        return caller_of(name, self._people, self._others)

    async def begin(self, back: str) -> Started:
        """Start a login; `back` is a checked path of a page."""
        metadata = await self._look_up()
        state, nonce, verifier, binding = (secrets.token_urlsafe(32) for _ in range(4))
        at = self._clock.monotonic()
        self._attempts = {key: attempt for key, attempt in self._attempts.items() if attempt.until > at}
        while len(self._attempts) >= AT_ONCE:
            del self._attempts[next(iter(self._attempts))]
        self._attempts[digest_of(state)] = Attempt(
            nonce, verifier, digest_of(binding), back, at + LASTS.total_seconds()
        )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._oidc.client_id,
                "redirect_uri": self._redirect,
                "scope": self._oidc.scope,
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        separator = "&" if urlsplit(metadata.authorization_endpoint).query else "?"
        return Started(f"{metadata.authorization_endpoint}{separator}{query}", binding)

    async def finish(self, *, state: str, code: str, binding: str) -> tuple[Caller, str]:
        """Return the person and the page to go back to; a state works once, and only in the browser that began."""
        attempt = self._attempts.pop(digest_of(state), None)
        if attempt is None or attempt.until <= self._clock.monotonic():
            raise LoginFailed("the login is unknown, was used already, or took too long")
        if not hmac.compare_digest(digest_of(binding), attempt.binding):
            raise LoginFailed("another browser began this login")
        if not code:
            raise LoginFailed("the identity provider refused the login")
        metadata = await self._look_up()
        async with self._client() as client:
            answer = await _asked(
                client,
                "POST",
                metadata.token_endpoint,
                data={
                    "grant_type": "authorization_code",
                    "code": code,
                    "redirect_uri": self._redirect,
                    "client_id": self._oidc.client_id,
                    "code_verifier": attempt.verifier,
                    **({"client_secret": self._secret} if self._secret else {}),
                },
            )
            keys = await _asked(client, "GET", metadata.jwks_uri)
        claims = verified(answer.get("id_token"), keys, issuer=self._oidc.issuer, audience=self._oidc.client_id)
        self._check(claims, nonce=attempt.nonce)
        return self.person(self._name(claims)), attempt.back

    def _check(self, claims: Mapping[str, Any], *, nonce: str) -> None:
        """Check the times by rota's clock, and that the token answers this login."""
        now = self._clock.now().timestamp()
        ends, *begins = (claims["exp"], claims["iat"], claims.get("nbf", 0))
        if not all(isinstance(time, int | float) for time in (ends, *begins)):
            raise LoginFailed("the ID token has an invalid time")
        if ends + LEEWAY <= now:
            raise LoginFailed("the ID token has expired")
        if max(begins) - LEEWAY > now:
            raise LoginFailed("the ID token is not valid yet", hint="compare the clocks of both machines")
        if not hmac.compare_digest(digest_of(str(claims.get("nonce", ""))), digest_of(nonce)):
            raise LoginFailed("the ID token belongs to another login")
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self._oidc.client_id) != self._oidc.client_id:
            raise LoginFailed("the ID token was issued to another program")

    def _name(self, claims: Mapping[str, Any]) -> str:
        name = claims.get(self._oidc.claim)
        if not isinstance(name, str) or not name:
            raise LoginFailed(f"the ID token has no text in the claim {self._oidc.claim}")
        if self._oidc.claim == "email" and claims.get("email_verified") is not True:
            raise LoginFailed("the identity provider has not verified the email address")
        return name

    async def _look_up(self) -> Metadata:
        at = self._clock.monotonic()
        if self._metadata is not None and self._metadata[1] > at:
            return self._metadata[0]
        async with self._client() as client:
            found = await _asked(client, "GET", f"{self._oidc.issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != self._oidc.issuer:
            raise LoginFailed("the identity provider names another issuer", hint="correct `http.oidc.issuer`")
        places = [str(found.get(name)) for name in Metadata.__struct_fields__]
        if not all(map(is_private, places)):
            raise LoginFailed("the identity provider names an endpoint without https")
        metadata = Metadata(*places)
        self._metadata = (metadata, at + METADATA_LASTS.total_seconds())
        return metadata

    def _client(self) -> "httpx2.AsyncClient":
        import httpx2

        return httpx2.AsyncClient(timeout=TIMEOUT, verify=_certificates(), trust_env=False, follow_redirects=False)


def is_private(url: str) -> bool:
    """Return whether an address is encrypted, or of this machine.

    >>> is_private("https://id.test/x"), is_private("http://127.0.0.1:1/x"), is_private("http://id.test/x")
    (True, True, False)
    """
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1"))


def verified(token: object, keys: Mapping[str, Any], *, issuer: str, audience: str) -> Mapping[str, Any]:
    """Return the claims of an ID token with a valid signature, issuer and audience; its times are not checked."""
    try:
        import jwt
    except ImportError:
        raise LoginFailed("a package is missing", hint=MISSING) from None

    if not isinstance(token, str):
        raise LoginFailed("the identity provider sent no ID token")
    try:
        head = jwt.get_unverified_header(token)
        if head.get("alg") not in ALGORITHMS:
            raise LoginFailed("the signature of the ID token is of a kind that rota does not accept")
        usable = [one for one in _keys(keys) if one.get("use", "sig") == "sig" and one.get("kty") != "oct"]
        fitting = [one for one in usable if "kid" not in head or one.get("kid") == head["kid"]]
        if len(fitting) != 1:
            raise LoginFailed("the identity provider has no key for this ID token")
        key = jwt.PyJWK(dict(fitting[0]), algorithm=str(fitting[0].get("alg") or head["alg"]))
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            audience=audience,
            issuer=issuer,
            options={
                "require": ["exp", "iat", "iss", "aud", "sub"],
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except jwt.PyJWTError as error:
        raise LoginFailed(f"the ID token is not valid: {str(error)[:120].lower()}") from None
    return claims


def _keys(keys: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = keys.get("keys")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


async def _asked(client: "httpx2.AsyncClient", method: str, url: str, *, data: Any = None) -> Mapping[str, Any]:
    """Return the JSON object of an answer; refuse redirects, errors and answers that are too long."""
    import httpx2

    body = bytearray()
    try:
        async with client.stream(method, url, data=data, headers={"accept": "application/json"}) as answer:
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > ANSWER_LIMIT:
                    raise LoginFailed("the answer of the identity provider is too long")
    except (httpx2.HTTPError, OSError) as error:
        raise LoginFailed(f"the identity provider cannot be reached: {type(error).__name__}") from None
    try:
        found = json.loads(body) if answer.is_success else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise LoginFailed(f"the identity provider answered {answer.status_code} without a JSON object")
    return found


@lru_cache(maxsize=1)
def _certificates() -> "ssl.SSLContext":
    import httpx2

    return httpx2.create_ssl_context()
