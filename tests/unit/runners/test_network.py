"""The built-in condition `network_up` (R-09): looks at interfaces, sends nothing."""

import socket
from types import SimpleNamespace

import psutil
import pytest

from rota.runners.processes import network_up

LOOPBACK = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]


@pytest.mark.parametrize(
    ("interfaces", "up"),
    [
        ({"lo": (True, LOOPBACK)}, False),
        ({"lo": (True, LOOPBACK), "eth0": (True, [(socket.AF_INET, "192.168.1.4")])}, True),
        ({"eth0": (False, [(socket.AF_INET, "192.168.1.4")])}, False),
        ({"eth0": (True, [(socket.AF_INET, "169.254.3.4"), (socket.AF_INET6, "fe80::1%eth0")])}, False),
        ({"eth0": (True, [(socket.AF_INET6, "2001:db8::1")])}, True),
        ({"eth0": (True, [(psutil.AF_LINK, "00:11:22:33:44:55")])}, False),
        ({}, False),
    ],
)
def test_r09_the_network_is_up_when_an_address_reaches_beyond_the_machine(interfaces, up, monkeypatch):
    stats = {name: SimpleNamespace(isup=is_up) for name, (is_up, _) in interfaces.items()}
    addresses = {
        name: [SimpleNamespace(family=family, address=address) for family, address in found]
        for name, (_, found) in interfaces.items()
    }
    monkeypatch.setattr(psutil, "net_if_stats", lambda: stats)
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: addresses)

    assert network_up() is up
