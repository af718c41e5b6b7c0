"""The forecast and the calendar: bounded simulations on pages, in the API and in calendar programs."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise

import pytest

from rota.model.errors import InvalidValue
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.admin.access import Scope
from rota.operations.admin.tokens import create_token, revoke_token
from rota.operations.simulate.calendar import calendar, predict
from rota.operations.simulate.forecast import MOST_FIRES, ForecastRequest, Project, WhatIf, forecast, project_of
from rota.operations.simulate.player import LOOKS, WorkLimit
from rota.text.icalendar import CalendarEvent, folded, write_calendar
from tests.pages.conftest import Page, Site

DAY = timedelta(days=1)


def nature(site: Site) -> Project:
    return project_of(site.store, None, folder=site.project.folder, state=site.project.state, environ={})


def now(site: Site) -> datetime:
    return site.clock.now()


def still() -> float:
    return 0.0


def feed(site: Site, query: str = "") -> list[str]:
    answer = site.api.call("GET", f"/calendar.ics{query}")
    assert answer.status_code == 200
    return unfolded(answer.text)


def unfolded(text: str) -> list[str]:
    assert text.endswith("\r\n")
    return text.replace("\r\n ", "").split("\r\n")[:-1]


# forecast


def test_the_forecast_shows_what_the_api_answers(site: Site) -> None:
    page = site.get("/ui/forecast?days=7")
    found = site.api.get("/forecast?days=7")["forecast"]
    assert found["totals"]["fires"] == 7
    assert "Fires 7" in page.words
    assert page.all("svg", role="img", class_="simulation")


def test_the_forecast_has_tables_in_place_of_the_drawing(site: Site) -> None:
    page = site.get("/ui/forecast?days=2&as=table")
    assert not page.all("svg", class_="simulation")
    assert "hello 2" in page.words
    assert any(link.startswith("/ui/forecast?days=2#") for link in page.links)


def test_a_what_if_compares_with_the_time_without_it_and_changes_nothing(site: Site) -> None:
    page = site.get("/ui/forecast?days=1&job=hello&schedule=every+15m&keys=overlap:+queue")
    assert "Fires 96 1 without the change" in page.words
    assert site.project.json("show", "hello")["schedule"] == "at 03:00 every day (UTC)"
    assert site.api.get("/forecast")["forecast"]["totals"]["fires"] == 1


def test_a_what_if_may_disable_a_job_or_change_how_long_it_takes(site: Site) -> None:
    off = site.api.get("/forecast?job=hello&keys=enabled:+false")
    assert (off["forecast"]["totals"]["fires"], off["before"]["totals"]["fires"]) == (0, 1)
    long = site.api.get("/forecast?job=hello&duration=3h")["forecast"]
    assert next(job for job in long["jobs"] if job["name"] == "hello")["takes_seconds"] == 3 * 3600


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("job=hello&keys=command:+[rm]", "'command' cannot be assumed"),
        ("job=hello&schedule=sometimes", "sometimes"),
        ("job=hello&keys=overlap:+maybe", "overlap"),
        ("job=hello&duration=soon", "soon"),
        ("job=nope&duration=3m", "no job is named 'nope'"),
        ("schedule=daily", "name no job"),
        ("activity=never", "never"),
    ],
)
def test_a_wrong_assumption_is_explained_and_the_form_is_kept(site: Site, query: str, words: str) -> None:
    page = site.get(f"/ui/forecast?{query}", status=422)
    assert words in page.words
    typed = query.partition("=")[2].partition("&")[0]
    assert any(field.get("value") == typed for field in page.all("input"))
    assert site.api.call("GET", f"/api/v1/forecast?{query}").status_code in (404, 422)


def test_a_forecast_stops_at_its_fires_and_says_so(site: Site) -> None:
    request = ForecastRequest(30.0, what_if=WhatIf("hello", schedule="every 1s", keys="anchor: fixed"))
    found = forecast(nature(site), request, monotonic=still, now=now(site))
    report = found.report
    assert report.until < now(site) + DAY
    assert MOST_FIRES - 1 <= sum(job.fires for job in report.jobs) <= MOST_FIRES
    assert any(note.startswith("stopped at") for note in report.notes)
    assert found.before is not None
    assert abs(found.before.until - report.until) < timedelta(seconds=1)


def test_a_simulation_stops_when_its_seconds_are_over() -> None:
    seconds = count(0.0, 1.0)
    limit = WorkLimit(1_000_000, 2.5, lambda: next(seconds))
    looks = next(look for look in range(1, 100 * LOOKS) if limit.is_reached(0))
    assert looks == 3 * LOOKS


def test_more_days_than_a_request_may_simulate_are_refused(site: Site) -> None:
    assert site.api.call("GET", "/api/v1/forecast?days=63").status_code == 422
    with pytest.raises(InvalidValue):
        forecast(nature(site), ForecastRequest(63.0), monotonic=still, now=now(site))


# calendar


@pytest.fixture
def ran(site: Site) -> Site:
    for outcome in (Outcome(Status.COMPLETED, exit_code=0), Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3)):
        site.project.ok("trigger", "hello")
        site.project.carry_out([outcome])
    return site


def test_the_week_shows_what_ended_and_what_will_fire(ran: Site) -> None:
    page = ran.get("/ui/calendar")
    assert "1 completed" in page.words
    assert "1 failed" in page.words
    assert "03:00 hello" not in page.words  # Sunday is the last day of the week
    later = ran.get("/ui/calendar?date=2026-11-16")
    assert later.words.count("03:00 hello") == 7
    assert "/ui/calendar?view=week&date=2026-11-09" in later.links


def test_the_month_shows_whole_weeks(ran: Site) -> None:
    page = ran.get("/ui/calendar?view=month")
    assert "November 2026" in page.words
    assert page.words.count("03:00 hello") == 21
    assert next(found["datetime"] for found in page.all("time")) == "2026-10-26"


def test_the_calendar_has_a_table_of_the_same_days(ran: Site) -> None:
    page = ran.get("/ui/calendar?date=2026-11-16&as=table")
    assert page.words.count("hello 03:00") == 7
    assert "/ui/calendar?view=week&date=2026-11-09&as=table" in page.links
    assert "/ui/calendar?view=week&date=2026-11-16" in page.links
    assert "hello 1 completed, 1 failed" in ran.get("/ui/calendar?as=table").words


def test_a_month_beyond_the_simulation_says_where_it_ends(site: Site) -> None:
    assert "Predicted until" in site.get("/ui/calendar?view=month&date=2027-03-01").words
    assert "Predicted until" not in site.get("/ui/calendar?view=month&date=2026-09-01").words


def test_the_api_has_the_days_of_the_calendar(ran: Site) -> None:
    found = ran.api.get("/calendar?date=2026-11-15&days=2")
    assert found["complete"]
    assert found["days"][0]["ended"] == {"COMPLETED": 1, "FAILED": 1}
    assert found["days"][0]["past"][0]["job"] == "hello"
    assert found["days"][1]["coming"] == [
        {
            "job": "hello",
            "ended": {},
            "fires": 1,
            "deferred": 0,
            "skipped": {},
            "times": ["2026-11-16T03:00:00Z"],
        }
    ]
    assert ran.api.call("GET", "/api/v1/calendar?date=9999-12-31").status_code == 422


def test_skips_and_deferrals_are_those_of_the_simulation(site: Site) -> None:
    site.project.applied(
        """
        jobs:
          quiet: {command: ["true"], cron: "0 3 * * *", quiet_hours: {windows: ["01:00-05:00"], policy: defer}}
          long: {command: ["true"], cron: "*/30 * * * *", overlap: forbid}
        """
    )
    days = site.api.get("/calendar?date=2026-11-16&days=1")["days"][0]["coming"]
    quiet = next(day for day in days if day["job"] == "quiet")
    assert (quiet["fires"], quiet["deferred"], quiet["times"]) == (1, 1, ["2026-11-16T05:00:00Z"])


def test_a_past_calendar_costs_no_simulation(site: Site) -> None:
    found = predict(nature(site), now(site) - DAY, monotonic=still, now=now(site))
    assert found.complete
    assert found.fires == ()
    past = calendar(nature(site), (now(site) - 7 * DAY).date(), days=3, tz="UTC", monotonic=still, now=now(site))
    assert [len(day.coming) for day in past.days] == [0, 0, 0]


# iCalendar


def test_a_calendar_program_gets_events_in_utc_with_stable_identifiers(site: Site) -> None:
    lines = feed(site)
    assert lines[:4] == ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//rota//calendar//EN", "CALSCALE:GREGORIAN"]
    assert lines[-1] == "END:VCALENDAR"
    assert "DTSTART:20261116T030000Z" in lines
    before = {line for line in lines if line.startswith("UID:")}
    assert len(before) == 14
    site.clock.advance(timedelta(hours=2))
    assert {line for line in feed(site) if line.startswith("UID:")} == before


def test_the_identifier_of_an_interval_stays_when_its_time_moves(site: Site) -> None:
    def first(interval: str) -> list[str]:
        site.project.applied(f"jobs:\n  tidy: {{command: ['true'], interval: {interval}, first_run: after_interval}}\n")
        return [line for line in feed(site, "?days=1") if line.startswith(("UID:", "DTSTART"))][:2]

    (before, at), (after, later) = first("6h"), first("7h")
    assert before == after
    assert at < later


def test_a_job_that_fires_often_is_one_event_of_each_day(site: Site) -> None:
    site.project.applied("jobs:\n  often: {command: ['true'], cron: '*/5 * * * *', labels: [ops]}\n")
    lines = feed(site, "?days=2&label=ops")
    assert "SUMMARY:often: 288 fires" in lines
    assert "DTSTART;VALUE=DATE:20261116" in lines
    assert "DTEND;VALUE=DATE:20261117" in lines
    assert not [line for line in feed(site, "?job=nothing") if line.startswith("UID:")]


def test_lines_are_folded_at_75_octets_and_texts_are_escaped() -> None:
    event = CalendarEvent(
        "1@rota", datetime(2026, 11, 16, 3, tzinfo=UTC), "päckchen, " * 20, description="a;b\\c\nd\x07"
    )
    text = write_calendar("rota; home", [event], about="all", now=datetime(2026, 11, 15, tzinfo=UTC))
    assert all(len(line.encode()) <= 75 for line in text.split("\r\n"))
    assert "\n" not in text.replace("\r\n", "")
    lines = unfolded(text)
    assert "NAME:rota\\; home" in lines
    assert "DESCRIPTION:a\\;b\\\\c\\nd" in lines
    assert "SUMMARY:" + ("päckchen\\, " * 20).rstrip() in lines
    assert "DTEND:20261116T030100Z" in lines


def test_no_character_is_cut_by_a_fold() -> None:
    parts = list(folded("ä€😀" * 40))
    assert all(len(part.encode()) <= 75 for part in parts)
    assert "".join(part.removeprefix(" ") if at else part for at, part in enumerate(parts)) == "ä€😀" * 40
    assert all(after.startswith(" ") for _, after in pairwise(parts))


# the token in the address


def calendar_token(site: Site, scope: Scope = Scope.CALENDAR) -> str:
    return create_token(site.store, f"phone-{scope}", scope, lasts=None, by="user:anna", now=now(site)).text


def ask(site: Site, path: str, **headers: str) -> Page:
    with closing(site.browser()) as browser:
        browser.cookies.clear()
        return browser.get(path, headers=headers)  # type: ignore[no-any-return]


def test_a_calendar_token_in_the_address_reads_the_calendar_alone_until_it_is_revoked(site: Site) -> None:
    token = calendar_token(site)
    answer = ask(site, f"/calendar.ics?token={token}&days=3")
    assert answer.status_code == 200
    assert answer.text.count("BEGIN:VEVENT") == 3
    assert ask(site, f"/api/v1/jobs?token={token}").status_code == 401
    assert ask(site, f"/?token={token}").status_code == 401
    assert ask(site, "/api/v1/jobs", Authorization=f"Bearer {token}").status_code == 403
    assert ask(site, "/calendar.ics", Authorization=f"Bearer {token}").status_code == 200
    revoke_token(site.store, "phone-calendar", by="user:anna", now=now(site))
    refused = ask(site, f"/calendar.ics?token={token}")
    assert refused.status_code == 401
    assert token not in refused.text


@pytest.mark.parametrize("scope", [Scope.READ, Scope.RUN, Scope.ADMIN, Scope.AGENT])
def test_a_token_with_more_rights_is_refused_in_an_address(site: Site, scope: Scope) -> None:
    refused = ask(site, f"/calendar.ics?token={calendar_token(site, scope)}", Accept="application/json")
    assert refused.status_code == 403
    assert refused.json()["code"] == "token_in_address"


def test_a_wrong_or_doubled_token_in_an_address_is_refused_and_counted(site: Site) -> None:
    token = calendar_token(site)
    assert ask(site, f"/calendar.ics?token={token}&token={token}").status_code == 401
    both = ask(site, f"/calendar.ics?token={token}", Authorization=f"Bearer {token}")
    assert both.status_code == 401
    codes = [ask(site, "/calendar.ics?token=wrong").status_code for _ in range(12)]
    assert codes[-1] == 429
