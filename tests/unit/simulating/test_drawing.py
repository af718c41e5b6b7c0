"""The timeline: well-formed, without script, readable by day and by night, and every text escaped."""

import re
from datetime import timedelta
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from playground import BEGIN, DAY, HOUR, MINUTE, Play, cron, job

from rota.model.budgets import Account, Per, Unit
from rota.model.spec import ByMode, Draw, Mode, QuietHours, Schedule, Spend
from rota.operations.simulate.player import Forced, Phase
from rota.operations.simulate.report import SharedTick
from rota.operations.simulate.svg import LEFT, PART, PLOT, draw, fit, marks

SVG = "{http://www.w3.org/2000/svg}"
NASTY = """<script>alert("1")</script> & 'x' \x07 {{ job }}"""
QUIET = QuietHours(("00:00-06:00",))
API = Account("api & more", Unit.REQUESTS, 20, Per.DAY)
PHASES = (Phase(Mode.ACTIVE, 8 * HOUR), Phase(Mode.DORMANT, 16 * HOUR))


def full_play(**changes):
    """Return a play with everything that a timeline can show."""
    jobs = [
        job("rare", cron("0 */6 * * *", quiet=QUIET)),
        job("dense", cron("* * * * *")),
        job("long", cron("0 * * * *"), pools=(Draw("press"),)),
        job("spending", cron("30 * * * *"), budgets=(Spend(API.name, 1),)),
        job("adaptive", Schedule(by_mode=ByMode(5 * MINUTE, None, 2 * HOUR))),
    ]
    play = Play(jobs, pools={"press": 1}, accounts=(API,), durations={"long": 90 * MINUTE}, **changes)
    return replace(play, person=Forced(PHASES, BEGIN))


def drawn(report):
    return ElementTree.fromstring(draw(report))


def paths(root, kind):
    return [one for one in root.iter() if one.get("class") == kind]


def test_a_timeline_shows_rows_bands_ticks_skips_modes_quiet_hours_saturation_and_budgets():
    root = drawn(full_play().report())
    texts = {one.text for one in root.iter(f"{SVG}text")}
    assert {"rare", "dense", "long", "spending", "adaptive", "slots", "pool press", "api & more", "mode"} <= texts
    for kind in ("tick", "band4", "skip", "quiet", "level", "full", "budget", "active", "dormant", "limit"):
        assert paths(root, kind), kind


def test_each_fire_of_a_rare_job_is_a_tick_where_it_happens():
    root = drawn(Play([job("rare", cron("0 */6 * * *"))]).report())
    (path,) = [one for one in paths(root, "tick") if one.tag == f"{SVG}path"]
    places = [int(x) for x in re.findall(r"M(\d+) ", path.get("d"))]
    assert places == [LEFT + PLOT // 4 * quarter // PART * PART for quarter in (1, 2, 3)]


def test_what_never_fires_has_no_row():
    report = Play([job("manual"), job("hourly", cron("0 * * * *"))]).report()
    assert "manual" not in {one.text for one in drawn(report).iter(f"{SVG}text")}


def test_names_are_escaped_and_cannot_become_elements():
    """Section 12: names are data, never control."""
    report = Play([job("a", cron("0 * * * *"))]).report()
    nasty = replace(report.jobs[0], name=NASTY)
    text = draw(replace(report, jobs=(nasty,), timezone="UTC"))
    root = ElementTree.fromstring(text)
    assert "<script" not in text
    assert "\x07" not in text
    assert any(one.text and one.text.startswith("<script>") for one in root.iter(f"{SVG}text"))


def test_there_is_no_script_no_handler_and_nothing_from_elsewhere():
    text = draw(full_play().report())
    root = ElementTree.fromstring(text)
    assert not list(root.iter(f"{SVG}script"))
    names = {name.lower() for one in root.iter() for name in one.attrib}
    assert not any(name.startswith("on") or name.endswith("href") for name in names)
    assert "url(" not in text
    assert "@import" not in text


def test_it_has_a_style_for_dark_surroundings():
    (style,) = drawn(full_play().report()).iter(f"{SVG}style")
    assert "prefers-color-scheme:dark" in style.text
    day, night = style.text.split("@media")
    coloured = set(re.findall(r"\.(\w+)[^{}]*\{[^}]*(?:fill|stroke):#", day))
    assert coloured - set(re.findall(r"\.(\w+)", night)) == set()


def test_the_heading_compares_with_a_single_tick():
    report = replace(full_play().report(), against=SharedTick(timedelta(seconds=60), 16))
    assert any("23,040 with a single tick" in (one.text or "") for one in drawn(report).iter(f"{SVG}text"))


@pytest.mark.parametrize("days", [0.01, 1, 3, 30, 366])
def test_the_axis_has_a_few_marks_whatever_the_span(days):
    until = BEGIN + days * DAY
    found = marks(BEGIN, until, "Europe/Madrid")
    assert len(found) <= 15
    assert all(BEGIN <= mark.at < until for mark in found)
    assert days < 1 or found


def test_a_text_is_cut_and_freed_of_what_xml_does_not_know():
    assert fit("a\x00b\ud800", 10) == "a\ufffdb\ufffd"
    assert fit("x" * 50, 5) == "xxxx…"
