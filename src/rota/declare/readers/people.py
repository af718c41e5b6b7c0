"""The keys of `http` about people that a reverse proxy authenticates."""

import re
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from rota.declare.problems import BadValue, read_items, read_text, shown
from rota.declare.readers.values import read_env_value, read_record
from rota.model.errors import Problem
from rota.settings import Http, Oidc

PERSON_SCOPES = ("read", "run", "admin")
_PERSON = re.compile(r"[A-Za-z0-9][A-Za-z0-9.@_+-]{0,127}", re.ASCII)
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
_NOT_OF_A_PERSON = (
    "authorization",
    "connection",
    "content-",
    "cookie",
    "forwarded",
    "host",
    "origin",
    "x-forwarded-for",
    "x-rota-",
    "x-rota-",
)


def read_header_name(value: Any) -> str:
    """Return the name of a header that may hold the name of a person."""
    text = read_text(value).strip()
    if not _HEADER.fullmatch(text) or text.lower().startswith(_NOT_OF_A_PERSON):
        raise BadValue(f"{shown(value)} cannot hold a person's name", hint="write X-Forwarded-User")
    return text


def read_networks(value: Any) -> tuple[str, ...]:
    """Return networks of proxies; one that contains every address is refused."""
    return tuple(read_items(value if isinstance(value, list) else [value], _network))


def _network(value: Any) -> str:
    try:
        found = ip_network(read_text(value).strip())
    except ValueError as error:
        hint = "write an address, 10.0.0.5, or a network, 10.0.0.0/24"
        raise BadValue(f"{shown(value)} is not a network: {error}", hint=hint) from None
    if not found.prefixlen:
        raise BadValue(f"{shown(value)} contains every address", hint="name the addresses of your proxy")
    return str(found)


def read_named_secret(value: Any) -> str:
    """Return the name of a secret."""
    if not isinstance(value, Mapping):
        raise BadValue("is a literal secret", hint="write {secret: NAME}")
    return read_env_value(value).secret or ""


def read_person(value: Any) -> str:
    """Return the name of a person as the proxy sends it."""
    if not isinstance(value, str) or not _PERSON.fullmatch(value):
        raise BadValue(f"{shown(value)} cannot be a person's name", hint="use letters, digits and . @ _ + -")
    return value


def read_person_scope(value: Any) -> str:
    """Return the scope of people; empty for none."""
    if value in ("none", *PERSON_SCOPES):
        return "" if value == "none" else str(value)
    raise BadValue(f"{shown(value)} is not a scope", hint=f"write none, {', '.join(PERSON_SCOPES)}")


OIDC_HINT = "write `oidc: {issuer: https://id.example.net, client_id: rota, client_secret: {secret: NAME}}`"


def read_oidc(value: Any) -> Oidc:
    """Return an identity provider."""
    readers = {
        "issuer": _issuer,
        "client_id": read_text,
        "client_secret": read_named_secret,
        "claim": read_text,
        "scope": _scope,
    }
    needs = {"issuer": "has no issuer", "client_id": "has no client_id"}
    return Oidc(**read_record(value, readers, hint=OIDC_HINT, needs=needs))


def _issuer(value: Any) -> str:
    """Return an issuer as it is written: the provider names the same text."""
    text = read_text(value).strip()
    parts = urlsplit(text)
    local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise BadValue(f"{shown(value)} is not the address of an issuer", hint="write https://id.example.net")
    if parts.scheme != "https" and not (local and parts.scheme == "http"):
        raise BadValue(f"{shown(value)} is not https", hint="an issuer without https can be replaced on the way")
    return text


def _scope(value: Any) -> str:
    text = read_text(value).strip()
    if "openid" not in text.split():
        raise BadValue(f"{shown(value)} lacks openid", hint="write `scope: openid email`")
    return text


def people_problems(http: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the keys about people, taken together."""
    problems = []
    if "trusted_header" in http and not http.get("proxies"):
        hint = "add `proxies: [10.0.0.5]`, the address of the proxy as rota sees it"
        problems.append(Problem("needs `proxies`", "missing_value", at=("trusted_header",), hint=hint))
    if "oidc" in http and not http.get("public_url"):
        hint = "add `public_url: https://ops.example.net`; the provider sends browsers back to it"
        problems.append(Problem("needs `public_url`", "missing_value", at=("oidc",), hint=hint))
    alone = [key for key in ("proxies", "proxy_secret") if key in http and "trusted_header" not in http]
    hint = "add `trusted_header: X-Forwarded-User`, or remove this line"
    message = "has no effect without `trusted_header`"
    problems += [Problem(message, "no_effect", at=(key,), hint=hint) for key in alone]
    named = "trusted_header" in http or "oidc" in http
    alone = [key for key in ("people", "others") if key in http and not named]
    message = "has no effect without `trusted_header` or `oidc`"
    problems += [Problem(message, "no_effect", at=(key,), hint=hint) for key in alone]
    return problems


def people_notes(http: Http) -> list[str]:
    """Return a note if every program of this machine could name a person."""
    if http.proxy_secret or not any(ip_network(one).is_loopback for one in http.proxies):
        return []
    told = "every program of this machine, agents included, can act as any person"
    return [f"http.proxies contains this machine: {told}; add `proxy_secret: {{secret: NAME}}`"]
