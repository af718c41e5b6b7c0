"""Where a project keeps its state: SQLite in its state folder, or a PostgreSQL database by its address."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode

SQLITE = "sqlite"
SCHEMES = ("postgresql", "postgres")
_SECRET_KEYS = ("password", "sslpassword", "oauth_client_secret")
_REFERENCE = re.compile(r"\$\{secret:([A-Za-z_][A-Za-z0-9_.-]*)\}")
_CUT = re.compile(r":(?!\d*(,|/|$)|[0-9a-f:]*\])")
"""A colon that no port follows: a login whose password holds a question mark."""


def is_postgres(address: str) -> bool:
    """Tell whether an address is that of a PostgreSQL database.

    >>> is_postgres("postgresql://db/rota"), is_postgres("sqlite"), is_postgres("mysql://db/rota")
    (True, False, False)
    """
    scheme, found, _ = address.partition("://")
    return bool(found) and scheme in SCHEMES


def has_password(address: str) -> bool:
    """Tell whether a password is written out in an address; one by reference is not.

    >>> has_password("postgresql://rota:top@db/rota"), has_password("postgresql://rota:${secret:DB}@db/rota")
    (True, False)
    """
    options = [value for key, value in _options(address) if key in _SECRET_KEYS]
    return any(_REFERENCE.sub("", value) for value in (*options, _parts(address).password))


def with_secrets(address: str, find: Callable[[str], str]) -> str:
    """Return an address with what `${secret:NAME}` stands for in place.

    >>> with_secrets("postgresql://rota:${secret:DB}@db/rota", {"DB": "a/b"}.__getitem__)
    'postgresql://rota:a%2Fb@db/rota'
    """
    return _REFERENCE.sub(lambda found: quote(find(found[1]), safe=""), address)


def secrets_of(address: str) -> list[str]:
    """Return the names of the secrets that an address refers to."""
    return _REFERENCE.findall(address)


def shown(address: str) -> str:
    """Return an address as it may be shown: without any password.

    >>> shown("postgresql://rota:secret@db:5433/rota?sslmode=require&password=x")
    'postgresql://rota@db:5433/rota?sslmode=require'
    """
    if "://" not in address:
        return address
    parts = _parts(address)
    kept = urlencode([one for one in _options(address) if one[0] not in _SECRET_KEYS], quote_via=quote, safe="/")
    login, query = f"{parts.user}@" if parts.user else "", f"?{kept}" if kept else ""
    return f"{parts.scheme}://{login}{parts.hosts}{parts.path}{query}"


def host_of(address: str) -> str:
    """Return the machine, or machines, of a database's address; a socket's folder where it has none.

    >>> host_of("postgresql://rota@db:5433/rota"), host_of("postgresql:///rota?host=/run/pg")
    ('db:5433', '/run/pg')
    """
    return unquote(_parts(address).hosts) or dict(_options(address)).get("host", "") or "the local socket"


@dataclass(frozen=True, slots=True)
class _Parts:
    scheme: str
    user: str
    password: str
    hosts: str
    path: str
    query: str


def _parts(address: str) -> _Parts:
    """Take an address apart; a password may hold what it should have escaped, and still belongs to nothing else."""
    scheme, _, rest = address.partition("://")
    place, _, query = rest.partition("?")
    if "@" not in place and _CUT.search(place):
        login, _, rest = rest.rpartition("@")
        place, _, query = rest.partition("?")
    else:
        login, _, place = place.rpartition("@")
    user, _, password = login.partition(":")
    hosts, slash, path = place.partition("/")
    return _Parts(scheme, user, password, hosts, slash + path, query)


def _options(address: str) -> list[tuple[str, str]]:
    return parse_qsl(_parts(address).query, keep_blank_values=True)
