"""Where HTTP listens: loopback unless asked for more, the next free port where one is taken."""

import socket
from pathlib import Path

import pytest

from rota.declare.fields import Refused
from rota.declare.listening import read_base_path, read_listen, read_public_url
from rota.http.flags import Flags
from rota.http.listening import bind, check_exposure, is_loopback
from rota.model.errors import ListenExposed, ListenRefused
from rota.settings import Http

EVERYWHERE = "0.0.0.0:7682"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("localhost", "localhost:7682"),
        ("[::1]", "[::1]:7682"),
        ("[::]:0", "[::]:0"),
        ("web1.example", "web1.example:7682"),
    ],
)
def test_an_address_is_read(written: str, read: str) -> None:
    assert read_listen(written) == read


@pytest.mark.parametrize(
    "written", ["", "::1", "127.0.0.1:", "127.0.0.1:x", "host:70000", "1.2.3", "a b:1", "[::1:80", 7682]
)
def test_what_is_no_address_is_refused(written: object) -> None:
    with pytest.raises(Refused):
        read_listen(written)


@pytest.mark.parametrize("written", ["rota", "/..", "/a/./b", "/a b", "/a?b", 1])
def test_what_is_no_path_is_refused(written: object) -> None:
    assert read_base_path("/rota/") == "/rota"
    with pytest.raises(Refused):
        read_base_path(written)


@pytest.mark.parametrize(
    "written", ["", "rota.example", "ftp://x", "http://u:p@x", "http://x?y", "http://x/#y", "http://x:0"]
)
def test_what_is_no_site_is_refused(written: str) -> None:
    assert read_public_url("https://Rota.example/r/") == "https://rota.example/r"
    with pytest.raises(Refused):
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


def test_the_next_free_port_is_taken() -> None:
    with socket.socket() as first:
        first.bind(("127.0.0.1", 0))
        first.listen(1)
        port = first.getsockname()[1]
        with bind(Flags().over(Http(listen=f"127.0.0.1:{port}"))) as second:
            assert port < second.getsockname()[1] <= port + 50


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ListenRefused, match=r"cannot listen on 192\.0\.2\.1"):
        bind(Flags().over(Http(listen="192.0.2.1:0")))
