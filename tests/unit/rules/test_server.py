"""What about a PostgreSQL server is fit for rota, as doctor tells it."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.rules.health_checks import Server, Severity, judge_server

FINE = Server(
    place="postgresql://rota@db/rota",
    version="18.4",
    round_trip=timedelta(milliseconds=1),
    apart=timedelta(milliseconds=3),
    settings={"synchronous_commit": "on", "fsync": "on", "full_page_writes": "on"},
    connections=12,
    most_connections=100,
    may_write=True,
    owns=True,
)


def judged(server, topic):
    return next(finding for finding in judge_server(server) if finding.topic == topic)


def test_a_server_that_is_fine_has_no_findings_but_good_ones():
    assert {finding.level for finding in judge_server(FINE)} == {Severity.OK}
    assert "PostgreSQL 18.4" in judged(FINE, "database").text


@pytest.mark.parametrize(
    ("change", "topic", "level"),
    [
        ({"may_write": False}, "rights", Severity.PROBLEM),
        ({"owns": False}, "rights", Severity.WARNING),
        ({"settings": {"fsync": "off", "full_page_writes": "on"}}, "durability", Severity.PROBLEM),
        ({"round_trip": timedelta(milliseconds=80)}, "distance", Severity.WARNING),
        ({"apart": timedelta(seconds=-5)}, "clocks", Severity.WARNING),
        ({"apart": timedelta(seconds=5)}, "clocks", Severity.WARNING),
        ({"connections": 95}, "connections", Severity.WARNING),
    ],
)
def test_what_is_not_well_is_told_with_a_remedy(change, topic, level):
    found = judged(replace(FINE, **change), topic)
    assert found.level is level
    assert found.remedy


@pytest.mark.parametrize(("apart", "word"), [(3, "ahead of"), (-3, "behind")])
def test_whose_clock_is_ahead_is_said(apart, word):
    assert f"3.0 s {word} the database's" in judged(replace(FINE, apart=timedelta(seconds=apart)), "clocks").text


def test_a_weaker_default_of_the_role_is_no_problem_since_rota_keeps_its_own():
    """DEC-002: what is acknowledged is stored."""
    found = judged(replace(FINE, settings={"synchronous_commit": "off"}), "durability")
    assert found.level is Severity.OK
    assert "is off there, on for itself" in found.text
