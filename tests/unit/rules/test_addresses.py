"""Which addresses rota connects to by itself (DESIGN section 12), in all the ways to write a private one."""

import pytest

from rota.model.errors import AddressRefused
from rota.rules.addresses import is_public, read_address

ODD = ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "localhost", "LOCALHOST.", "a.localhost"]
FULL = ["１２７.0.0.1", "127。0。0。1"]
PLAIN = ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "198.18.0.1"]
FURTHER = ["0.0.0.0", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1"]
SIX = ["[::1]", "[::]", "[fe80::1]", "[fe80::1%25lo]", "[fc00::1]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]"]
INSIDE = [
    "[::ffff:169.254.169.254]",
    "[::ffff:7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::7f00:1]",
    "[2002:a9fe:a9fe::]",
    "[::169.254.169.254]",
    "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
    "[2606:4700::5efe:10.0.0.1]",
]


SPECIAL = [
    *("192.0.0.8", "192.0.0.9", "192.0.0.10", "192.0.0.170", "192.88.99.1", "192.88.99.2"),
    *("192.31.196.1", "192.52.193.1", "192.175.48.1", "198.18.0.1", "203.0.113.7", "240.0.0.1", "100.64.0.1"),
    *("[3fff::1]", "[3fff:fff::1]", "[2620:4f:8000::1]", "[2001:4:112::1]", "[2001:1::1]", "[2001:20::1]"),
    *("[2001:2::1]", "[5f00::1]", "[100::1]", "[::ffff:192.88.99.1]", "[64:ff9b::c000:8]", "[2002:c058:6301::1]"),
]
"""Networks that IANA lists as special, also those that some versions of Python count as global."""


@pytest.mark.parametrize("host", [*ODD, *FULL, *PLAIN, *FURTHER, *SIX, *INSIDE, *SPECIAL])
def test_a_private_address_is_refused_however_it_is_written(host: str) -> None:
    with pytest.raises(AddressRefused, match="leads to a private address"):
        read_address(f"https://{host}/hook")


@pytest.mark.parametrize(
    "host",
    ["93.184.215.14", "[2606:4700::1111]", "[64:ff9b::5db8:d70e]", "[2001:200::1]", "192.0.1.1", "hooks.example.net"],
)
def test_a_public_address_and_a_name_are_let_through(host: str) -> None:
    assert read_address(f"https://{host}/hook?a=1").path == "/hook?a=1"


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://h", "file:///etc/passwd", "gopher://h", "javascript:alert(1)", "https://", "https:///x", "h", ""),
        *("https://h:0/", "https://h:99999/", "https://[::1", "https://a b/", "https://h/\r\nX: y", "https://\u202e/"),
        f"https://h/{'a' * 2048}",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        read_address(url)


def test_a_password_in_an_address_is_refused_without_being_shown() -> None:
    with pytest.raises(AddressRefused, match="a user or a password") as caught:
        read_address("https://me:hunter2@hooks.example.net")
    assert "hunter2" not in str(caught.value)


def test_plain_http_goes_only_where_it_is_allowed() -> None:
    with pytest.raises(AddressRefused, match="uses http"):
        read_address("http://hooks.example.net/")
    assert read_address("http://10.0.0.5:8080/", allow_private=["10.0.0.5:8080"]).port == 8080


@pytest.mark.parametrize("allowed", ["10.0.0.5", "10.0.0.5:8081", "10.0.0.50:8080", "0.0.0.5:8080"])
def test_what_is_allowed_is_one_host_and_one_port(allowed: str) -> None:
    with pytest.raises(AddressRefused):
        read_address("https://10.0.0.5:8080/", allow_private=[allowed])


def test_an_address_of_six_parts_is_allowed_in_brackets() -> None:
    assert read_address("https://[::1]:8443/", allow_private=["[::1]:8443"]).host == "[::1]:8443"


def test_public_addresses_are_public() -> None:
    assert all(map(is_public, ["8.8.8.8", "2001:4860:4860::8888", "2002:808:808::1", "::ffff:8.8.8.8"]))
