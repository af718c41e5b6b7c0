"""The address that is connected to: resolved once, every answer judged, and no other taken later (section 12)."""

import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from rota.model.errors import AddressUnknown
from rota.rules.addresses import is_allowed, is_public, private, read_address

Resolve = Callable[[str, int], Collection[str]]


@dataclass(frozen=True, slots=True)
class Pinned:
    """An address that was judged: `url` has it in the place of the name, `host` and `name` are what was written."""

    url: str
    host: str
    name: str


def resolved(name: str, port: int) -> list[str]:
    """Return the addresses of a name."""
    try:
        found: list[Any] = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise AddressUnknown(name, told.lower()) from None
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def pin(url: str, *, allow_private: Collection[str] = (), resolve: Resolve = resolved) -> Pinned:
    """Return where to connect to; AddressRefused says why not. Every address that a name has must be public."""
    address = read_address(url, allow_private=allow_private)
    found = list(resolve(address.name, address.port))
    if not found:
        raise AddressUnknown(address.name)
    if not is_allowed(address, allow_private) and not all(map(is_public, found)):
        raise private(address)
    literal = f"[{found[0]}]" if ":" in found[0] else found[0]
    return Pinned(f"{address.scheme}://{literal}:{address.port}{address.path}", address.host, address.name)
