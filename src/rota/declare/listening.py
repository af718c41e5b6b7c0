"""Readers of where the HTTP API listens and how people reach it."""

import re
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from rota.declare.fields import Refused, shown, wrong_type

DEFAULT_PORT = 7682
LISTEN_HINT = "write an address and a port: 127.0.0.1:7682, [::1]:7682 or localhost:7682"
PATH_HINT = "write a path such as /rota"
URL_HINT = "write `public_url: https://host` or https://host/path"
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*", re.ASCII)
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+", re.ASCII)


def read_listen(value: Any) -> str:
    """Return an address, with its port where one is written: only the default port may give way to another.

    >>> read_listen("localhost"), read_listen("[::1]:080")
    ('localhost', '[::1]:80')
    """
    if not isinstance(value, str) or not value:
        raise wrong_type(value, "an address and a port", hint=LISTEN_HINT)
    host, port = split_listen(value)
    if not _is_host(host):
        raise Refused(f"{shown(value)} is no address to listen on", hint=LISTEN_HINT)
    if port is None:
        return host
    if not (port.isascii() and port.isdecimal()) or not 0 <= int(port) <= 65535:
        raise Refused(f"{shown(value)} has no port from 0 to 65535", hint=LISTEN_HINT)
    return f"{host}:{int(port)}"


def split_listen(value: str) -> tuple[str, str | None]:
    """Return the address, brackets included, and the port as it is written; None where none is.

    >>> split_listen("[::1]:80"), split_listen("localhost")
    (('[::1]', '80'), ('localhost', None))
    """
    if value.startswith("["):
        host, bracket, rest = value.partition("]")
        port = rest.removeprefix(":") if rest.startswith(":") else "" if rest else None
        return (host + bracket if bracket else ""), port
    host, colon, written = value.partition(":")
    return host, written if colon else None


def _is_host(host: str) -> bool:
    if host.startswith("["):
        return _is_ip(host[1:-1], version=6)
    if host.replace(".", "").isdecimal():
        return _is_ip(host, version=4)
    return _HOST.fullmatch(host) is not None


def _is_ip(text: str, *, version: int) -> bool:
    try:
        return ip_address(text).version == version
    except ValueError:
        return False


def read_base_path(value: Any) -> str:
    """Return a path without its last slash."""
    if not isinstance(value, str):
        raise wrong_type(value, "a path", hint=PATH_HINT)
    path = value.rstrip("/")
    if path and (not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/"))):
        raise Refused(f"{shown(value)} is no path to be reached under", hint=PATH_HINT)
    return path


def read_public_url(value: Any) -> str:
    """Return the address that people use, without its last slash."""
    if not isinstance(value, str) or not value:
        raise wrong_type(value, "an address", hint=URL_HINT)
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and _is_host(_bracketed(parts.hostname or "")) and parts.port != 0
    except ValueError:  # a host or port that cannot be
        good = False
    if not good or parts.query or parts.fragment or "@" in parts.netloc:
        raise Refused(f"{shown(value)} is no http or https address of a site", hint=URL_HINT)
    path = parts.path.rstrip("/")
    if path and not _PATH.fullmatch(path):
        raise Refused(f"{shown(value)} has a path that rota cannot be reached under", hint=URL_HINT)
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
