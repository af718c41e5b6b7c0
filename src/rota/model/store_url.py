"""The address of a project's store: SQLite in its state folder, or a PostgreSQL database."""

import re
from collections.abc import Callable
from urllib.parse import parse_qsl, quote, unquote, urlencode

from msgspec import Struct

SQLITE = "sqlite"
SCHEMES = ("postgresql", "postgres")
_SECRET_KEYS = ("password", "sslpassword", "oauth_client_secret")
_REFERENCE = r"\$\{secret:([A-Za-z_][A-Za-z0-9_.-]*)\}"
_CUT = r":(?!\d*(,|/|$)|[0-9a-f:]*\])"
"""A colon without a port: a login whose password contains a question mark."""


def is_postgres(address: str) -> bool:
    """Return whether an address is that of a PostgreSQL database.

    >>> is_postgres("postgresql://db/rota"), is_postgres("sqlite"), is_postgres("mysql://db/rota")
    (True, False, False)
    """
    scheme, separator, _ = address.partition("://")
    return bool(separator) and scheme in SCHEMES


def has_password(address: str) -> bool:
    """Return whether an address contains a literal password; a reference to a secret is not one.

    >>> has_password("postgresql://rota:top@db/rota"), has_password("postgresql://rota:${secret:DB}@db/rota")
    (True, False)
    """
    options = [value for key, value in _options(address) if key in _SECRET_KEYS]
    return any(re.sub(_REFERENCE, "", value) for value in (*options, _parts(address).password))


def with_secrets(address: str, find: Callable[[str], str]) -> str:
    """Return an address with each `${secret:NAME}` replaced.

    >>> with_secrets("postgresql://rota:${secret:DB}@db/rota", {"DB": "a/b"}.__getitem__)
    'postgresql://rota:a%2Fb@db/rota'
    """
    return re.sub(_REFERENCE, lambda match: quote(find(match[1]), safe=""), address)


def secrets_of(address: str) -> list[str]:
    """Return the names of the secrets that an address refers to."""
    return re.findall(_REFERENCE, address)


def shown(address: str) -> str:
    """Return an address without passwords.

    >>> shown("postgresql://rota:secret@db:5433/rota?sslmode=require&password=x")
    'postgresql://rota@db:5433/rota?sslmode=require'
    """
    if "://" not in address:
        return address
    parts = _parts(address)
    options = urlencode(
        [(key, value) for key, value in _options(address) if key not in _SECRET_KEYS], quote_via=quote, safe="/"
    )
    login, query = f"{parts.user}@" if parts.user else "", f"?{options}" if options else ""
    return f"{parts.scheme}://{login}{parts.hosts}{parts.path}{query}"


def host_of(address: str) -> str:
    """Return the hosts of a database's address, or the folder of a socket.

    >>> host_of("postgresql://rota@db:5433/rota"), host_of("postgresql:///rota?host=/run/pg")
    ('db:5433', '/run/pg')
    """
    return unquote(_parts(address).hosts) or dict(_options(address)).get("host", "") or "the local socket"


class _Parts(Struct, frozen=True):
    scheme: str
    user: str
    password: str
    hosts: str
    path: str
    query: str


def _parts(address: str) -> _Parts:
    """Split an address; unescaped characters of a password stay in the password."""
    scheme, _, rest = address.partition("://")
    place, _, query = rest.partition("?")
    if "@" not in place and re.search(_CUT, place):
        login, _, rest = rest.rpartition("@")
        place, _, query = rest.partition("?")
    else:
        login, _, place = place.rpartition("@")
    user, _, password = login.partition(":")
    hosts, slash, path = place.partition("/")
    return _Parts(scheme, user, password, hosts, slash + path, query)


def _options(address: str) -> list[tuple[str, str]]:
    return parse_qsl(_parts(address).query, keep_blank_values=True)
