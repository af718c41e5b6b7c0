"""`rota takeover`: cron or rota runs the lines of a crontab, never both, whatever dies at which step."""

import json
import os
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import forking
from tests.waiting import LONGEST_WAIT, until

CRONTAB = """\
MAILTO=ops@example.net
# each minute
* * * * * true
61 * * * * broken
30 2 * * * /opt/backup.sh
"""
TAKEN = ["* * * * * true", "30 2 * * * /opt/backup.sh"]
PROGRAM = """\
#!/bin/sh
case "$1:$(cat "$CRON_KILLS" 2>/dev/null)" in
-l:*) [ -f "$CRON_TABLE" ] || { echo "no crontab for me" >&2; exit 1; }; cat "$CRON_TABLE";;
-:before) rm "$CRON_KILLS"; kill -9 $PPID;;
-:after) rm "$CRON_KILLS"; cat > "$CRON_TABLE.new"; mv "$CRON_TABLE.new" "$CRON_TABLE"; kill -9 $PPID;;
-:refuse) echo "bad minute" >&2; exit 1;;
-:*) cat > "$CRON_TABLE.new"; mv "$CRON_TABLE.new" "$CRON_TABLE";;
esac
"""


class Machine:
    """A folder with a crontab, the program of that name, and a project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.table = folder / "table"
        self.kills = folder / "kills"
        self.faults = folder / "faults"
        for name in ("project", "bin", "home"):
            (folder / name).mkdir()
        program = folder / "bin" / "crontab"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        self.table.write_text(CRONTAB)
        self.environment = {
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(folder / "home"),
            "TZ": "UTC",
            "CRON_TABLE": str(self.table),
            "CRON_KILLS": str(self.kills),
        }

    def rota(self, *arguments: str, dies_at: str = "") -> "subprocess.CompletedProcess[str]":
        environment = dict(self.environment)
        if dies_at:
            self.faults.write_text(json.dumps({"crash": {dies_at: 1}}))
            self.faults.chmod(0o600)
            environment["ROTA_TEST_FAULTS"] = str(self.faults)
        typed = ("--dir", str(self.project), *arguments)
        return forking.run("rota", *typed, environment=environment, folder=self.folder, timeout=LONGEST_WAIT)

    def active(self) -> list[str]:
        """Return the lines that cron runs, without the one that starts rota."""
        lines = [line for line in self.table.read_text().splitlines() if not line.startswith(("#", "MAILTO", "61"))]
        return [line for line in lines if " tick " not in line]

    def starts_rota(self) -> bool:
        return any(line.endswith(" tick --quiet") for line in self.table.read_text().splitlines())

    def one_is_in_charge(self) -> str:
        """Return the owner of the lines, as the next minute shows it: cron runs them, or starts rota, which does."""
        ticked = self.rota("tick") if (self.project / "rota.yaml").exists() else None
        refused = ticked is None or ticked.returncode == 73
        if self.active():
            assert self.active() == TAKEN
            assert refused, ticked
            return "cron"
        assert self.starts_rota()
        assert not refused, ticked
        assert self.names() == ["backup", "true"]
        return "rota"

    def names(self) -> list[str]:
        return [job["name"] for job in json.loads(self.rota("list", "--json").stdout)]

    def status(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.rota("takeover", "--json").stdout)
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_lines_go_to_rota_and_back(machine: Machine) -> None:
    taken = machine.rota("takeover", "crontab")
    assert taken.returncode == 0, taken.stderr
    text = machine.table.read_text()
    assert [line for line in TAKEN if f"#rota# {line}\n" not in text] == []
    assert "\n61 * * * * broken\n" in text  # what cannot be mapped stays with cron
    assert machine.status()["owner"] == "rota"
    assert machine.one_is_in_charge() == "rota"
    undone = machine.rota("takeover", "undo")
    assert undone.returncode == 0, undone.stderr
    assert machine.table.read_text() == CRONTAB
    assert machine.one_is_in_charge() == "cron"
    assert machine.rota("serve").returncode == 73


def test_the_first_instant_of_rota_is_the_minute_after_the_switch(machine: Machine) -> None:
    """Cron reads its tables at each full minute: none is lost, none runs twice."""
    machine.rota("takeover", "crontab")
    since = datetime.fromisoformat(str(machine.status()["since"]))
    first = {job["name"]: job["next"][0]["at"] for job in json.loads(machine.rota("list", "--json").stdout)}
    assert datetime.fromisoformat(first["true"]) == since
    assert (since.second, since > datetime.fromtimestamp(machine.table.stat().st_mtime, UTC)) == (0, True)


@pytest.mark.parametrize("step", ["prepared", "written", "switched", "stored"])
def test_a_kill_during_the_takeover_leaves_one_in_charge(machine: Machine, step: str) -> None:
    died = machine.rota("takeover", "crontab", dies_at=f"takeover.{step}")
    assert died.returncode == -9
    expected = "cron" if step in ("prepared", "written") else "rota"
    assert machine.one_is_in_charge() == expected
    again = machine.rota("takeover", "crontab")
    assert again.returncode == 0, again.stderr
    assert machine.one_is_in_charge() == "rota"
    assert machine.status()["phase"] == "done"


@pytest.mark.parametrize(("when", "expected"), [("before", "cron"), ("after", "rota")])
def test_a_kill_during_the_write_of_the_crontab_leaves_one_in_charge(
    machine: Machine, when: str, expected: str
) -> None:
    machine.kills.write_text(when)
    assert machine.rota("takeover", "crontab").returncode == -9
    assert machine.one_is_in_charge() == expected


@pytest.mark.parametrize(("step", "expected"), [("undoing", "rota"), ("restored", "cron")])
def test_a_kill_during_the_way_back_leaves_one_in_charge(machine: Machine, step: str, expected: str) -> None:
    machine.rota("takeover", "crontab")
    assert machine.rota("takeover", "undo", dies_at=f"takeover.{step}").returncode == -9
    assert machine.one_is_in_charge() == expected
    assert machine.rota("takeover", "undo").returncode == 0
    assert machine.one_is_in_charge() == "cron"


def test_what_was_undone_can_be_taken_over_again(machine: Machine) -> None:
    machine.rota("takeover", "crontab")
    machine.rota("takeover", "undo")
    again = machine.rota("takeover", "crontab")
    assert again.returncode == 0, again.stderr
    assert machine.one_is_in_charge() == "rota"


def test_a_crontab_that_is_refused_leaves_cron_in_charge(machine: Machine) -> None:
    machine.kills.write_text("refuse")
    refused = machine.rota("takeover", "crontab")
    assert refused.returncode != 0
    assert "crontab refused the new table: bad minute" in refused.stderr
    assert machine.one_is_in_charge() == "cron"


def test_other_changes_of_the_crontab_survive_the_way_back(machine: Machine) -> None:
    machine.rota("takeover", "crontab")
    machine.table.write_text(machine.table.read_text() + "5 5 * * * /new\n")
    machine.rota("takeover", "undo")
    assert machine.table.read_text() == f"{CRONTAB}5 5 * * * /new\n"


def test_a_line_that_was_added_again_by_hand_is_reported(machine: Machine) -> None:
    machine.rota("takeover", "crontab")
    machine.table.write_text(machine.table.read_text() + "* * * * * true\n")
    told = machine.rota("takeover")
    assert told.returncode == 1
    assert told.stdout.splitlines()[1] == "  * * * * * true"
    again = machine.rota("takeover", "crontab", "--dry-run")
    assert (again.returncode, "cron runs 1 of the jobs of" in again.stderr) == (73, True), again.stderr
    assert "problem  crontab      cron runs 1 line of the crontab that rota runs too" in machine.rota("doctor").stdout


def test_a_running_scheduler_lists_a_line_that_was_added_again_by_hand(machine: Machine) -> None:
    machine.rota("takeover", "crontab")
    log = machine.folder / "log"
    served = forking.start(
        "rota", "--dir", str(machine.project), "serve", "--no-http", environment=machine.environment, out=log
    )
    try:
        until(lambda: "serves" in log.read_text(), what=log.read_text)
        machine.table.write_text(machine.table.read_text() + "* * * * * true\n")
        os.kill(served.pid, signal.SIGHUP)
        until(lambda: "cron runs 1 line of the crontab that rota runs too" in machine.rota("status").stdout, what="it")
    finally:
        served.kill()
        served.wait(LONGEST_WAIT)


def test_a_new_line_of_cron_is_counted_and_stays_with_cron(machine: Machine) -> None:
    machine.rota("takeover", "crontab")
    machine.table.write_text(machine.table.read_text() + "MAILTO=me\n\n5 5 * * * /new\n")
    told = machine.rota("takeover", "crontab")
    assert (told.returncode, "cron runs 2 other lines itself" in told.stdout) == (0, True), told.stdout


def test_a_line_that_was_added_again_by_hand_keeps_rota_from_starting_until_it_is_gone(machine: Machine) -> None:
    machine.rota("takeover", "crontab")
    taken = machine.table.read_text()
    machine.table.write_text(taken + "* * * * * true\n")
    refused = machine.rota("serve")
    assert (refused.returncode, machine.rota("tick").returncode) == (73, 73)
    assert "cron runs 1 of the jobs of" in refused.stderr
    assert "crontab -e" in refused.stderr
    assert machine.rota("takeover", "undo").returncode == 0
    assert machine.table.read_text().splitlines().count("* * * * * true") == 1
    assert sorted(machine.active()) == sorted(TAKEN)


def test_a_file_of_other_jobs_is_not_touched(machine: Machine) -> None:
    (machine.project / "rota.yaml").write_text("jobs: {other: {command: [x]}}\n")
    refused = machine.rota("takeover", "crontab")
    assert refused.returncode == 2
    assert "has no job true on the times of the crontab" in refused.stderr
    assert machine.table.read_text() == CRONTAB


def test_a_file_that_was_imported_before_is_kept(machine: Machine) -> None:
    imported = machine.rota("import", "crontab", str(machine.table)).stdout
    mine = imported.replace("timeout: never", "timeout: 2h")
    (machine.project / "rota.yaml").write_text(mine)
    assert machine.rota("takeover", "crontab").returncode == 0
    assert (machine.project / "rota.yaml").read_text() == mine
    assert machine.one_is_in_charge() == "rota"


def test_a_dry_run_changes_nothing(machine: Machine) -> None:
    told = machine.rota("takeover", "crontab", "--dry-run")
    assert "would comment out 2 lines" in told.stdout
    assert machine.table.read_text() == CRONTAB
    assert list(machine.project.iterdir()) == []


def test_without_a_crontab_there_is_nothing_to_take_over(machine: Machine) -> None:
    machine.table.unlink()
    assert machine.rota("takeover", "crontab").returncode == 2
