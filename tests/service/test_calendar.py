"""Real schedulers: calendar files that change under them, and jobs at boot."""

import apsw
import pytest

from tests.service.serving import Project
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("service")

HOLIDAYS = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:{day}\nEND:VEVENT\nEND:VCALENDAR\n"
BOOT = 'jobs: {warm: {cron: "@reboot", command: [echo, warm]}}\n'


def excluded(project: Project) -> list[str]:
    days: list[str] = project.json("show", "report")["except"]
    return days


def test_a_calendar_that_changes_is_noticed_and_a_broken_one_changes_nothing(project: Project) -> None:
    """The dates are part of the job's definition, wherever they are written."""
    calendar = project.folder / "holidays.ics"
    calendar.write_text(HOLIDAYS.format(day="20261225"))
    project.write('jobs: {report: {cron: "0 8 * * *", command: [echo, hi], except: [holidays.ics]}}\n')
    project.serve()
    assert excluded(project) == ["2026-12-25"]
    calendar.write_text("nonsense")
    until(lambda: "holidays.ics:1" in (project.scheduler()["file_problem"] or ""), what="the problem to be told")
    assert excluded(project) == ["2026-12-25"]
    calendar.write_text(HOLIDAYS.format(day="20261226"))
    until(lambda: excluded(project) == ["2026-12-26"], what="the new calendar to be applied")


def test_a_job_at_boot_runs_when_the_scheduler_starts_after_it(project: Project) -> None:
    """R-05: and not again in the same boot."""
    project.write(BOOT)
    project.rota("apply")
    pretend_an_earlier_boot(project)
    project.serve()
    project.until_told("warm", [("COMPLETED", None)])
    project.rota("stop")
    project.serve()
    assert project.told("warm") == [("COMPLETED", None)]


def test_a_tick_fires_jobs_at_boot_too(project: Project) -> None:
    """R-05, R-24."""
    project.write(BOOT)
    project.rota("apply")
    assert project.told("warm") == []
    pretend_an_earlier_boot(project)
    assert "warm:1" in project.rota("tick").stdout
    assert project.told("warm") == [("COMPLETED", None)]


def pretend_an_earlier_boot(project: Project) -> None:
    connection = apsw.Connection(str(project.state / "rota.db"))
    connection.execute("UPDATE job SET booted = 'an earlier one'")
    connection.close()
