"""Where HTTP listens: loopback unless asked for more; only the default port gives way where it is in use."""

import contextlib
import os
import re
import socket
from pathlib import Path

import pytest

from rota.declare.problems import BadValue
from rota.declare.readers.values import DEFAULT_PORT, read_base_path, read_listen, read_public_url
from rota.http.server import PORTS_TRIED, Flags, bind, check_exposure, is_loopback
from rota.model.errors import ListenExposed, ListenRefused
from rota.settings import Http

EVERYWHERE = "0.0.0.0:7682"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("localhost", "localhost"),
        ("[::1]", "[::1]"),
        ("[::]:0", "[::]:0"),
        ("web1.example:7682", "web1.example:7682"),
    ],
)
def test_an_address_is_read(written: str, read: str) -> None:
    assert read_listen(written) == read


@pytest.mark.parametrize(
    "written", ["", "::1", "127.0.0.1:", "127.0.0.1:x", "host:70000", "1.2.3", "a b:1", "[::1:80", 7682]
)
def test_what_is_no_address_is_refused(written: object) -> None:
    with pytest.raises(BadValue):
        read_listen(written)


@pytest.mark.parametrize("written", ["rota", "/..", "/a/./b", "/a b", "/a?b", 1])
def test_what_is_no_path_is_refused(written: object) -> None:
    assert read_base_path("/rota/") == "/rota"
    with pytest.raises(BadValue):
        read_base_path(written)


@pytest.mark.parametrize(
    "written", ["", "rota.example", "ftp://x", "http://u:p@x", "http://x?y", "http://x/#y", "http://x:0"]
)
def test_what_is_no_site_is_refused(written: str) -> None:
    assert read_public_url("https://Rota.example/r/") == "https://rota.example/r"
    with pytest.raises(BadValue):
        read_public_url(written)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_needs_no_flag(host: str) -> None:
    assert is_loopback(host)
    shown = f"[{host}]" if ":" in host else host
    check_exposure(Flags().over(Http(listen=f"{shown}:80")))


@pytest.mark.parametrize(
    "flags",
    [
        Flags(),
        Flags(behind_proxy=True),
        Flags(certificate=Path("cert.pem")),
        Flags(listen=EVERYWHERE),
    ],
)
def test_beyond_this_machine_needs_a_flag_and_encryption(flags: Flags) -> None:
    """T-01: neither the file alone, nor the flag alone."""
    with pytest.raises(ListenExposed):
        check_exposure(flags.over(Http(listen=EVERYWHERE)))


@pytest.mark.parametrize(
    "flags", [Flags(listen=EVERYWHERE, behind_proxy=True), Flags(listen=EVERYWHERE, certificate=Path("cert.pem"))]
)
def test_beyond_this_machine_is_possible(flags: Flags) -> None:
    check_exposure(flags.over(Http()))


@pytest.mark.parametrize("http", [Http(), Http(listen="localhost")])
def test_only_the_default_port_gives_way_and_says_to_which_process(
    http: Http, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as first:
        with contextlib.suppress(OSError):  # in use already, by a process that is not one of ours
            first.bind(("127.0.0.1", DEFAULT_PORT))
            first.listen(1)
        with bind(Flags().over(http)) as second:
            port = second.getsockname()[1]
    assert DEFAULT_PORT < port < DEFAULT_PORT + PORTS_TRIED
    assert f"port {DEFAULT_PORT} is in use, listening on {port}" in caplog.text
    assert "used_by=" in caplog.text


@pytest.mark.parametrize("by_flag", [True, False])
def test_a_port_that_was_written_down_does_not_give_way(by_flag: bool) -> None:
    with socket.socket() as first:
        first.bind(("127.0.0.1", 0))
        first.listen(1)
        address = f"127.0.0.1:{first.getsockname()[1]}"
        wanted = Flags(listen=address).over(Http()) if by_flag else Flags().over(Http(listen=address))
        with pytest.raises(ListenRefused, match=rf"{re.escape(address)} is in use by \S+ \(pid {os.getpid()}, in /"):
            bind(wanted)


def test_a_default_port_that_was_written_down_does_not_give_way() -> None:
    with socket.socket() as first:
        with contextlib.suppress(OSError):
            first.bind(("127.0.0.1", DEFAULT_PORT))
            first.listen(1)
        with pytest.raises(ListenRefused, match="is in use by"):
            bind(Flags().over(Http(listen=f"127.0.0.1:{DEFAULT_PORT}")))


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ListenRefused, match=r"cannot listen on 192\.0\.2\.1"):
        bind(Flags().over(Http(listen="192.0.2.1:0")))
