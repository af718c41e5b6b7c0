"""People that a reverse proxy authenticates: their name in a header that only this proxy may set."""

import hashlib
import hmac
import re
from collections.abc import Collection, Mapping
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from rota.http import errors
from rota.operations.admin.access import RESERVED, Caller, Scope
from rota.settings import Http

SECRET_HEADER = "x-rota-proxy-secret"
PEER = "rota.peer"
"""The key of an ASGI scope with the address of the connection, which no header changes."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.@_+-]{0,127}", re.ASCII)


class ProxiedPeople:
    """Finds the person in the header of a trusted proxy."""

    def __init__(self, http: Http, secret: str = "") -> None:
        self.header = http.trusted_header.lower()
        self._networks: tuple[IPv4Network | IPv6Network, ...] = tuple(map(ip_network, http.proxies))
        self._people = http.people
        self._others = http.others
        self._secret = secret

    def find(self, headers: Mapping[str, str], repeated: Collection[str], *, peer: str) -> Caller | None:
        """Return the person of a request; None without the header, or for one that no trusted proxy sent.

        Refuse a trusted proxy that names two people or an invalid name, and a person without a scope.
        """
        if self.header not in headers or not self._trusts(headers, repeated, peer=peer):
            return None
        if self.header in repeated:
            raise errors.PersonRefused(f"the proxy sent the header {self.header} twice")
        name = headers[self.header].strip()
        return caller_of(name, self._people, self._others) if name else None

    def _trusts(self, headers: Mapping[str, str], repeated: Collection[str], *, peer: str) -> bool:
        try:
            address = ip_address(peer)
        except ValueError:
            return False  # a socket without an address
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if not any(address in network for network in self._networks):
            return False
        given = headers.get(SECRET_HEADER, "") if SECRET_HEADER not in repeated else ""
        return not self._secret or hmac.compare_digest(digest_of(given), digest_of(self._secret))


def caller_of(name: str, people: Mapping[str, str], others: str) -> Caller:
    """Return an authenticated person with the scope of the file, or refuse the person."""
    if not _NAME.fullmatch(name) or name.casefold() in RESERVED:
        raise errors.PersonRefused("the name of the person is invalid or reserved")
    scope = people.get(name, others)
    if not scope:
        raise errors.PersonRefused(f"{name} has no access")
    return Caller(name, Scope(scope), browser=True, person=True)


def digest_of(text: str) -> bytes:
    """Return the digest of a secret, for comparisons that take the same time for all texts."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
