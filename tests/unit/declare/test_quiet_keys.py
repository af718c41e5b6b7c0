"""`quiet_hours`, `except` and `@reboot` in the file: what they come to for each job, and what is refused (R-17)."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from rota.declare.export import Top, export_text
from rota.declare.project import Declared, read_project
from rota.model.errors import FileProblems
from rota.model.spec import JobSpec, QuietHours, QuietPolicy
from rota.settings import Stamp

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
TOP = "timezone: Europe/Madrid\n"
HOLIDAYS = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20261208\nEND:VEVENT\nEND:VCALENDAR\n"


def read(folder: Path, text: str, **options: object) -> Declared:
    (folder / "rota.yaml").write_text(text, "utf-8")
    return read_project(folder, environment={"HOME": "/home/ops"}, now=NOW, **options)


def job(folder: Path, keys: str, top: str = "") -> JobSpec:
    return read(folder, f"{TOP}{top}jobs:\n  x: {{command: [a], {keys}}}\n").jobs[-1]


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(FileProblems) as refused:
        read(folder, text)
    return [str(problem).partition(": ")[2] for problem in refused.value.problems]


CRON, INTERVAL, BY_MODE = 'cron: "0 * * * *"', "interval: 1h", "interval: {active: 15s, dormant: never}"
NIGHT = ("22:00-07:00",)
DEFER = "quiet_hours: {windows: [22:00-07:00], policy: defer}\n"


@pytest.mark.parametrize(
    ("top", "keys", "quiet"),
    [
        ("", CRON, None),
        ("quiet_hours: [22:00-7:00]\n", CRON, None),
        ("quiet_hours: [22:00-7:00]\n", INTERVAL, None),
        ("quiet_hours: [22:00-7:00]\n", BY_MODE, (NIGHT, "Europe/Madrid", "dormant")),
        (DEFER, CRON, (NIGHT, "Europe/Madrid", "defer")),
        (DEFER, INTERVAL, (NIGHT, "Europe/Madrid", "defer")),
        (DEFER, BY_MODE, (NIGHT, "Europe/Madrid", "defer")),
        (DEFER, 'at: "2026-12-01 03:00"', (NIGHT, "Europe/Madrid", "defer")),
        (DEFER, f"{CRON}, timezone: UTC", (NIGHT, "Europe/Madrid", "defer")),
        (DEFER, f"{CRON}, quiet_hours: ignore", None),
        (DEFER, f"{CRON}, quiet_hours: {{policy: skip}}", (NIGHT, "Europe/Madrid", "skip")),
        (DEFER, f"{CRON}, quiet_hours: 1:00-2:00, timezone: UTC", (("01:00-02:00",), "UTC", "defer")),
        (
            "",
            f"{CRON}, quiet_hours: {{windows: [1:00-2:00], policy: skip, timezone: Asia/Tokyo}}",
            (("01:00-02:00",), "Asia/Tokyo", "skip"),
        ),
        ("quiet_hours: {windows: mon 1:00-2:00, timezone: UTC}\n", BY_MODE, (("mon 01:00-02:00",), "UTC", "dormant")),
        (DEFER, 'cron: "@reboot"', None),
        (DEFER, "enabled: true", None),
    ],
)
def test_quiet_hours_are_resolved_for_each_job(
    tmp_path: Path, top: str, keys: str, quiet: tuple[tuple[str, ...], str, str] | None
) -> None:
    """R-17: the file's only where they mean something, so that an edit of them is no edit of other schedules."""
    expected = None if quiet is None else QuietHours(quiet[0], quiet[1], QuietPolicy(quiet[2]))
    assert job(tmp_path, keys, top).schedule.quiet == expected


def test_groups_have_quiet_hours_and_exceptions_too(tmp_path: Path) -> None:
    """R-17."""
    text = f"{TOP}{DEFER}defaults: {{except: [12-25]}}\njobs: {{a: {{command: [a]}}}}\n"
    group = read(tmp_path, f'{text}groups: {{g: {{members: [a], cron: "0 3 * * *"}}}}\n').jobs[-1]
    assert (group.schedule.quiet, group.schedule.excluded) == (
        QuietHours(NIGHT, "Europe/Madrid", QuietPolicy.DEFER),
        ("12-25",),
    )


def test_the_poll_is_slowed_whatever_the_policy(tmp_path: Path) -> None:
    """R-17, R-16."""
    poll = read(tmp_path, f"{TOP}{DEFER}poll: {{url: https://example.net/poll}}\n").jobs[0]
    assert poll.schedule.quiet == QuietHours(NIGHT, "Europe/Madrid", QuietPolicy.DORMANT)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (f"{CRON}, quiet_hours: [22:00-07:00]", "jobs.x.quiet_hours: `policy: dormant` has no effect"),
        ("quiet_hours: ignore", "jobs.x.quiet_hours: has no effect without a schedule"),
        ("except: [12-25]", "jobs.x.except: has no effect without a schedule"),
        ('cron: "@reboot", quiet_hours: ignore', "jobs.x.quiet_hours: has no effect on a job that starts at boot"),
        ('cron: "@reboot", except: [12-25]', "jobs.x.except: has no effect on a job that starts at boot"),
        ('cron: "@reboot", misfire: once', "jobs.x.misfire: has no effect on a job that starts at boot"),
        ('cron: ["@reboot", "@daily"]', "jobs.x.cron: @reboot stands alone, not in a list"),
        (f"{CRON}, quiet_hours: {{policy: skip}}", "jobs.x.quiet_hours: has no `windows`, and the file"),
        (f"{CRON}, quiet_hours: {{}}", "jobs.x.quiet_hours: is empty"),
        (f"{CRON}, quiet_hours: []", "jobs.x.quiet_hours: is an empty list"),
        (f"{CRON}, quiet_hours: 7", "jobs.x.quiet_hours: 7 is not a list of windows"),
        (f"{CRON}, quiet_hours: [7]", "jobs.x.quiet_hours[0]: 7 is not a window of quiet hours"),
        (f"{CRON}, quiet_hours: [night]", "jobs.x.quiet_hours[0]: 'night' is not a window of quiet hours"),
        (f"{CRON}, quiet_hours: {{windows: [0:00-24:00]}}", "jobs.x.quiet_hours.windows: leave no minute of the week"),
        (f"{CRON}, quiet_hours: {{polcy: skip}}", 'jobs.x.quiet_hours.polcy: unknown key; did you mean "policy"?'),
        (f"{CRON}, quiet_hours: {{policy: never}}", 'jobs.x.quiet_hours.policy: "never" is not one of'),
        (f"{CRON}, quiet_hours: {{policy: skip, timezone: Mars}}", "quiet_hours.timezone: no time zone is named"),
        (f"{CRON}, except: 12-25", 'jobs.x.except: "12-25" is not a list of dates and .ics files'),
        (f"{CRON}, except: [tomorrow]", 'jobs.x.except[0]: "tomorrow" is not a date or an .ics file'),
        (f"{CRON}, except: [2026-12-25, 02-30]", 'jobs.x.except[1]: "02-30" is not a day'),
        (f"{CRON}, except: [gone.ics]", "jobs.x.except[0]: gone.ics cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_what_has_no_effect_or_cannot_be_is_told_with_its_place(tmp_path: Path, keys: str, told: str) -> None:
    """R-17: nothing is accepted and ignored."""
    found = problems(tmp_path, f"jobs:\n  x: {{command: [a], {keys}}}\n")
    assert len(found) == 1
    assert told in found[0]


def test_quiet_hours_of_the_file_need_windows(tmp_path: Path) -> None:
    """R-17."""
    assert "quiet_hours: has no `windows`" in problems(tmp_path, "quiet_hours: {policy: skip}\njobs: {}\n")[0]


def test_days_are_dates_days_of_every_year_and_those_of_files(tmp_path: Path) -> None:
    (tmp_path / "holidays.ics").write_text(HOLIDAYS)
    found = job(tmp_path, f'{CRON}, except: ["12-24", 2026-12-24, 2026-01-06, holidays.ics]').schedule.excluded
    assert found == ("12-24", "2026-01-06", "2026-12-08")


def test_a_jobs_own_days_take_the_place_of_the_defaults(tmp_path: Path) -> None:
    text = f"defaults: {{except: [12-25]}}\njobs:\n  a: {{command: [a], {CRON}}}\n"
    text += f"  b: {{command: [a], {CRON}, except: []}}\n  c: {{command: [a]}}\n"
    assert [spec.schedule.excluded for spec in read(tmp_path, text).jobs] == [("12-25",), (), ()]


def test_a_calendar_that_cannot_be_used_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "meetings.ics").write_text(HOLIDAYS.replace("20261208", "20261208T100000"))
    told = problems(tmp_path, "defaults: {except: [meetings.ics]}\njobs: {}\n")
    assert "defaults.except[0]: meetings.ics:3: DTSTART is '20261208T100000'" in told[0]


def test_the_calendars_that_were_looked_at_are_known_also_after_a_refusal(tmp_path: Path) -> None:
    """A scheduler watches them: one of them may be what is wrong."""
    looked_at: dict[Path, Stamp | None] = {}
    text = f"jobs:\n  x: {{command: [a], {CRON}, except: [a.ics, sub/b.ics]}}\n"
    (tmp_path / "a.ics").write_text("nonsense")
    with pytest.raises(FileProblems):
        read(tmp_path, text, calendars=looked_at)
    assert {path: stamp is None for path, stamp in looked_at.items()} == {
        tmp_path / "a.ics": False,
        tmp_path / "sub/b.ics": True,
    }


@pytest.mark.parametrize(
    ("keys", "note"),
    [
        ('cron: "30 2 * * *", quiet_hours: {policy: defer}', "x: every instant is in quiet hours"),
        ('cron: "30 2 * * *", quiet_hours: {policy: skip}', "x: never runs, as quiet hours and `except` leave none"),
        ('at: "2026-12-25 12:00", except: [12-25]', "x: never runs, as quiet hours and `except` leave none"),
    ],
)  # fmt: skip
def test_a_job_that_runs_later_than_it_says_or_never_is_noted(tmp_path: Path, keys: str, note: str) -> None:
    """R-17: a warning at check."""
    text = f"quiet_hours: [22:00-07:00]\njobs:\n  x: {{command: [a], {keys}}}\n"
    assert any(one.startswith(note) for one in read(tmp_path, text).notes)


def test_a_job_that_mostly_runs_when_it_says_is_not_noted(tmp_path: Path) -> None:
    """R-17."""
    assert read(tmp_path, f"{DEFER}jobs:\n  x: {{command: [a], {CRON}, except: [12-25]}}\n").notes == ()


def test_an_export_means_the_same(tmp_path: Path) -> None:
    text = f"""{TOP}{DEFER}
poll: {{url: https://example.net/poll}}
jobs:
  a: {{command: [a], {CRON}}}
  b: {{command: [a], {CRON}, timezone: UTC, except: [12-25, 2026-12-31]}}
  c: {{command: [a], {CRON}, quiet_hours: ignore}}
  d: {{command: [a], {BY_MODE}, quiet_hours: ignore}}
  e: {{command: [a], {BY_MODE}, quiet_hours: {{policy: dormant}}}}
  f: {{command: [a], cron: "@reboot"}}
  g: {{command: [a], {INTERVAL}, quiet_hours: {{windows: [sat 1:00-2:00], timezone: Asia/Tokyo}}}}
"""
    declared = read(tmp_path, text)
    exported = export_text(declared.jobs, Top(folder=str(tmp_path), timezone="Europe/Madrid"))
    assert read(tmp_path, exported).jobs == declared.jobs


def test_quiet_hours_that_cannot_be_read_are_told_once(tmp_path: Path) -> None:
    """R-17: not again for each job that refers to them."""
    found = problems(
        tmp_path, f"quiet_hours: [night]\njobs:\n  x: {{command: [a], {CRON}, quiet_hours: {{policy: skip}}}}\n"
    )
    assert len(found) == 1
