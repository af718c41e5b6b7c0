"""Whether this machine has a network, without sending anything: the built-in condition `network_up` (R-09)."""

import ipaddress
import socket

import psutil


def network_up() -> bool:
    """Tell whether an interface other than loopback is up and has an address that is not link-local."""
    up = {name for name, interface in psutil.net_if_stats().items() if interface.isup}
    return any(
        _reaches_out(address.address)
        for name, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if name in up and address.family in (socket.AF_INET, socket.AF_INET6)
    )


def _reaches_out(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)
