"""Who may come in: the names of this server, its own origins, tokens, cookies, and how often somebody may be wrong."""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from rota.http.refusals import HostRefused, NoToken, OriginRefused, TooManyFailures
from rota.model.clock import Clock
from rota.operations.access import Caller, know_session, know_token

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FAILURES, WITHIN = 10, 60.0
ADDRESSES = 10_000
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Asked:
    """What the head of a request says that matters here; `repeated` are headers that came more than once."""

    method: str
    scheme: str
    headers: Mapping[str, str]
    repeated: frozenset[str]
    client: str


@dataclass(slots=True)
class Failures:
    """Wrong tokens by address, for a minute."""

    _by_client: dict[str, deque[float]] = field(default_factory=dict)

    def note(self, client: str, at: float) -> None:
        """Remember a failure."""
        while client not in self._by_client and len(self._by_client) >= ADDRESSES:
            del self._by_client[next(iter(self._by_client))]
        self._by_client.setdefault(client, deque(maxlen=FAILURES)).append(at)

    def wait(self, client: str, at: float) -> int:
        """Return for how many seconds an address is not listened to; 0: it is."""
        failed = self._by_client.get(client)
        if failed is None or len(failed) < FAILURES or failed[0] + WITHIN <= at:
            return 0
        return max(1, round(failed[0] + WITHIN - at))


class Doorman:
    """Judges the head of each request; everything that it does not know is refused."""

    def __init__(
        self,
        clock: Clock,
        *,
        token: Callable[[], str],
        cookie: str = "rota_session",
        hosts: frozenset[str] = frozenset(),
        public_url: str = "",
        ended: Collection[str] = (),
    ) -> None:
        self.cookie = cookie
        self.ended = ended
        """The nonces of sessions that were logged out."""
        self.token = token
        self.clock = clock
        self._hosts = LOOPBACK | hosts | ({urlsplit(public_url).hostname or ""} if public_url else set())
        self._public_origin = _origin(public_url) if public_url else None
        self._failures = Failures()

    def check_host(self, asked: Asked) -> None:
        """Refuse a request for another host: the page of another site may have bound its name to our address."""
        host = asked.headers.get("host", "")
        if "host" in asked.repeated or _hostname(host) not in self._hosts:
            raise HostRefused

    def check_origin(self, asked: Asked) -> None:
        """Refuse a request that a page of another origin sent, whatever its method."""
        origin = asked.headers.get("origin")
        if "origin" in asked.repeated or (origin is not None and not self._is_own(origin, asked)):
            raise OriginRefused
        if origin is None and asked.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise OriginRefused

    def _is_own(self, origin: str, asked: Asked) -> bool:
        own = f"{asked.scheme}://{asked.headers.get('host', '')}".lower()
        return origin.lower() in (own, self._public_origin)

    def admit(self, asked: Asked) -> Caller:
        """Return who asks, by token or cookie; who is wrong too often is not listened to for a while."""
        at = self.clock.monotonic()
        caller = self._known(asked)
        if caller is None:
            if "authorization" not in asked.headers and not self._cookie(asked):
                raise NoToken  # no guess, so it is not counted
            wait = self._failures.wait(asked.client, at)
            if wait:
                raise TooManyFailures(wait)
            self._failures.note(asked.client, at)
            raise NoToken("the token is not one of this project")
        if caller.browser and asked.method not in SAFE and "origin" not in asked.headers:
            raise OriginRefused("a browser's session changes nothing without an Origin")
        return caller

    def admit_token(self, token: str, *, client: str) -> Caller:
        """Return whose token this is that somebody typed into the login page."""
        at = self.clock.monotonic()
        caller = know_token(self.token(), token)
        if caller is not None:
            return caller
        wait = self._failures.wait(client, at)
        if wait:
            raise TooManyFailures(wait)
        self._failures.note(client, at)
        raise NoToken("the token is not one of this project")

    def _known(self, asked: Asked) -> Caller | None:
        if "authorization" in asked.repeated:
            return None
        written = asked.headers.get("authorization")
        if written is not None:
            kind, _, token = written.partition(" ")
            return know_token(self.token(), token.strip()) if kind.lower() == "bearer" else None
        session = self._cookie(asked)
        return self.know_session(session) if session else None

    def know_session(self, session: str) -> Caller | None:
        """Return whose session a cookie's value is, None when it is wrong, over or logged out."""
        return know_session(self.token(), session, now=self.clock.now(), ended=self.ended)

    def _cookie(self, asked: Asked) -> str | None:
        return self.session_in(asked.headers.get("cookie", ""))

    def session_in(self, cookies: str) -> str | None:
        """Return the value of our cookie in a Cookie header, None for none."""
        try:
            found = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return None
        return found.value if found is not None else None


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _hostname(host: str) -> str:
    """Return the name in a Host header without its port; empty where it is none.

    >>> _hostname("LocalHost:7682"), _hostname("[::1]:80"), _hostname("evil.test@localhost")
    ('localhost', '::1', '')
    """
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        return name if bracket and (not rest or rest[1:].isdecimal()) else ""
    name, colon, port = host.partition(":")
    if (colon and not port.isdecimal()) or not name.replace("-", "").replace(".", "").replace("_", "").isalnum():
        return ""
    return name.lower()
