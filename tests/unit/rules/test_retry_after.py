"""When a server wants to be asked again."""

import pytest

from rota.rules.outcome import retry_after

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("0", 0),
        ("Wed, 21 Oct 2026 07:30:00 GMT", 120),
        ("Wed, 21 Oct 2026 09:30:00 +0200", 120),
        ("Wednesday, 21-Oct-26 07:28:30 GMT", 30),
        ("Wed Oct 21 07:29:00 2026", 60),
        ("Wed, 21 Oct 2026 07:00:00 GMT", 0),
    ],
)
def test_seconds_and_the_three_forms_of_a_date_are_read(header: str, seconds: float) -> None:
    assert retry_after(header, date=DATE) == seconds


@pytest.mark.parametrize("header", [None, "", "-5", "1.5", "soon", "٣", "Wed, 99 Oct 2026 07:28:00 GMT"])
def test_anything_else_is_no_wish(header: str | None) -> None:
    assert retry_after(header, date=DATE) is None


@pytest.mark.parametrize("date", [None, "", "today"])
def test_a_date_without_the_servers_own_clock_is_no_wish(date: str | None) -> None:
    assert retry_after("Wed, 21 Oct 2026 07:30:00 GMT", date=date) is None


def test_a_number_of_any_length_is_a_number() -> None:
    assert retry_after("9" * 5000, date=None) == 999_999_999_999
