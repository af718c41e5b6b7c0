"""The addresses that rota itself may connect to, judged without a lookup."""

import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

from msgspec import Struct

from rota.model.errors import AddressRefused

MAX_URL_LENGTH = 2048
PORTS = {"https": 443, "http": 80}
HINT = "write https://host/path"
METADATA = "metadata.google.internal"
"""The name of 169.254.169.254 on machines of that cloud."""

_GLOBAL = ipaddress.IPv6Network("2000::/3")
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_SPECIAL_V4 = tuple(
    map(
        ipaddress.IPv4Network,
        ("192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.175.48.0/24"),
    )
)
_SPECIAL_V6 = tuple(
    map(
        ipaddress.IPv6Network,
        ("64:ff9b:1::/48", "2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20", "fec0::/10"),
    )
)
"""Special ranges of IANA that `is_global` accepts in some version of Python: protocol assignments (Teredo, ORCHID,
benchmarks), relays, AS112, documentation, local translation, site-local. None of them is the address of a host."""
_ISATAP = (0x00005EFE, 0x02005EFE)


class Address(Struct, frozen=True):
    """The parts of an address; `name` is in the form for a lookup."""

    scheme: str
    name: str
    port: int
    path: str

    @property
    def place(self) -> str:
        """Host and port, as in `allow_private`."""
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"

    @property
    def host(self) -> str:
        """The host for a header."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == PORTS[self.scheme] else f"{name}:{self.port}"


def read_address(url: str, *, allow_private: Collection[str] = ()) -> Address:
    """Return an address for a lookup, or raise AddressRefused.

    Plain http and a private address as host are allowed if `allow_private` names host:port.
    """
    address = _parse(url)
    if is_allowed(address, allow_private):
        return address
    if address.scheme == "http":
        hint = f"write https, or `allow_private: [{address.place}]`"
        raise AddressRefused(f"{address.place} uses http", hint=hint)
    literal = _literal(address.name)
    if literal is not None and not is_public(literal):
        raise private(address)
    return address


def is_allowed(address: Address, allow_private: Collection[str]) -> bool:
    """Return whether `allow_private` names this host and port."""
    return address.place in {place.strip().lower() for place in allow_private}


def private(address: Address) -> AddressRefused:
    """Return the error for a place outside of the public internet."""
    hint = f"to allow it, write `allow_private: [{address.place}]`"
    return AddressRefused(f"{address.place} leads to a private address", hint=hint)


def _parse(url: str) -> Address:
    if len(url) > MAX_URL_LENGTH or not url.isprintable() or " " in url:
        raise AddressRefused("it is too long, or contains blanks or control characters", hint=HINT)
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname or "", parts.port
    except ValueError:
        raise AddressRefused("it is not an http or https address", hint=HINT) from None
    if scheme not in PORTS or not host or port == 0:
        raise AddressRefused("it is not an http or https address", hint=HINT)
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("it holds a user or a password", hint="put the whole address into a secret without them")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(scheme, _ascii(host), port or PORTS[scheme], path)


def _ascii(name: str) -> str:
    try:
        return (name if name.isascii() else name.encode("idna").decode()).lower().rstrip(".")
    except UnicodeError:
        raise AddressRefused("its host cannot be a name", hint=HINT) from None


def _literal(name: str) -> str | None:
    """Return the address of a literal host, also in the notations that C libraries accept."""
    if name == "localhost" or name.endswith(".localhost"):
        return "127.0.0.1"
    if name == METADATA:
        return "169.254.169.254"
    try:
        return str(ipaddress.ip_address(name.partition("%")[0]))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        return None


def is_public(text: str) -> bool:
    """Return whether an address, and an IPv4 address inside of it, is on the public internet.

    >>> is_public("93.184.215.14"), is_public("10.0.0.1"), is_public("64:ff9b::a9fe:a9fe")
    (True, False, False)
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        special = address.is_multicast or address.is_reserved or any(address in net for net in _SPECIAL_V4)
        return address.is_global and not special
    if any(address in net for net in _SPECIAL_V6):
        return False
    inner = _inner(address)
    if inner is not None:  # not by `is_global`: versions of Python differ about 6to4
        return is_public(str(inner))
    return address in _GLOBAL and address.is_global and not address.is_multicast


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address inside of an IPv6 address, or None."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _TRANSLATED or address in _COMPATIBLE:
        return last
    return last if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP else None
