"""Readers of addresses and of the headers sent to them."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from rota.declare.fields import Refused, shown, wrong_type
from rota.declare.maps import read_env_value
from rota.declare.parts import Parts
from rota.model.address import SQLITE, has_password, is_postgres
from rota.model.address import shown as without_password
from rota.model.spec import EnvValue

STORE_HINT = "write `store: sqlite`, or `store: postgresql://user@host:5432/database`"
PASSWORD_HINT = "write ${secret:NAME} in its place and store it with `rota secrets set NAME`, or use ~/.pgpass"
URL_HINT = "write `url: https://host/path`"
HEADERS_HINT = "write `headers: {Authorization: {secret: NAME}}`"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)


def read_url(value: Any) -> str:
    """Return the address of a poll."""
    if not isinstance(value, str) or not value:
        raise wrong_type(value, "an address", hint=URL_HINT)
    if "@" in value.partition("://")[2].partition("/")[0]:
        raise Refused("holds a user or a password", hint="put it into `headers: {Authorization: {secret: NAME}}`")
    if not _is_address(value):
        raise Refused(f"{shown(value)} is no http or https address", hint=URL_HINT)
    return value


def read_store(value: Any) -> str:
    """Return where the state is kept: `sqlite`, or the address of a PostgreSQL database, without a password in it."""
    if not isinstance(value, str) or not value:
        raise wrong_type(value, "sqlite or the address of a database", hint=STORE_HINT)
    if value != SQLITE and not is_postgres(value):
        raise Refused(f"{shown(without_password(value))} is no store that rota knows", hint=STORE_HINT)
    if has_password(value):
        raise Refused("holds a password", hint=PASSWORD_HINT)
    return value


def _is_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a host or port that cannot be
        return False
    return complete and value.isprintable() and " " not in value


OWN_HEADERS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade"),
        *("expect", "proxy-authorization", "proxy-connection"),
    }
)
"""Headers that say where a request goes and where it ends: another value would send it elsewhere, or end it early."""


def read_headers(value: Any) -> dict[str, EnvValue]:
    """Return the headers of a poll: texts, or {secret: NAME}."""
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map of headers", hint=HEADERS_HINT)
    names: set[str] = set()
    found: dict[str, EnvValue] = {}
    with Parts() as parts:
        for name in value:
            with parts.below(name):
                _check_header(name, names)
            with parts.below(name):
                found[name] = replace(_header(value[name]), name=name)
    return found


def _check_header(name: str, names: set[str]) -> None:
    """Refuse what cannot be a header's name, or is one of `names`, and add it to them."""
    if not _TOKEN.fullmatch(name):
        raise Refused(f"{shown(name)} cannot be a header's name", hint=HEADERS_HINT)
    if name.lower() in OWN_HEADERS:
        hint = "remove it; rota sends what the address and the body ask for"
        raise Refused(f"the header {shown(name)} is not free to choose", code="header_denied", hint=hint)
    if name.lower() in names:
        raise Refused(f"the header {shown(name)} is there twice", hint="names differ in more than case")
    names.add(name.lower())


def _header(value: Any) -> EnvValue:
    read = read_env_value(value)
    if read.value is not None and not (read.value.isascii() and read.value.isprintable()):
        raise Refused("holds characters that a header cannot have", hint="use printable ASCII")
    return read
