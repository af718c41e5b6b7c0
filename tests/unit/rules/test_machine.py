"""What about a machine is fit for a scheduler."""

from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

import pytest

from rota.rules.health_checks import (
    Finding,
    Severity,
    is_network,
    judge_clock,
    judge_limits,
    judge_mode,
    judge_place,
    judge_room,
    judge_sqlite,
    synced_by,
    worst,
)

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
STATE = PurePosixPath("/home/d/api/.rota")


@pytest.mark.parametrize(
    ("version", "level"),
    [("3.51.2", "problem"), ("3.45.1", "problem"), ("3.51.3", "ok"), ("3.54.1", "ok"), ("4.0", "ok")],
)
def test_sqlite_before_the_fix_of_the_wal_reset_bug_is_a_problem(version: str, level: str) -> None:
    assert judge_sqlite(version).level == level


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "SMBFS", "9p", "fuse.sshfs", "fuse.rclone", "fuse.s3fs"])
def test_a_network_file_system_is_known(kind: str) -> None:
    assert is_network(kind)


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "apfs", "zfs", "tmpfs", "overlay", "fuseblk", "fuse.ntfs-3g", ""]
)
def test_a_local_file_system_is_none(kind: str) -> None:
    assert not is_network(kind)


@pytest.mark.parametrize(
    ("path", "service"),
    [
        ("/home/d/Dropbox/api/.rota", "Dropbox"),
        ("/home/d/Dropbox (Personal)/api/.rota", "Dropbox"),
        ("/Users/d/Library/Mobile Documents/com~apple~CloudDocs/api", "iCloud"),
        ("/Users/d/OneDrive - Contoso/api", "OneDrive"),
        ("/Users/d/Library/CloudStorage/GoogleDrive-d@x/My Drive/api", "a cloud folder"),
        ("/home/d/dropbox-client/api", "Dropbox"),
        ("/home/d/onedriver/api", None),
        ("/home/d/code/api", None),
    ],
)
def test_a_synced_folder_is_told_by_its_path(path: str, service: str | None) -> None:
    assert synced_by(PurePosixPath(path)) == service


def test_a_state_on_a_network_is_a_problem_and_in_a_synced_folder_a_warning() -> None:
    assert judge_place(STATE, "nfs4").level is Severity.PROBLEM
    assert judge_place(PurePosixPath("/home/d/Dropbox/.rota"), "ext4").level is Severity.WARNING
    assert judge_place(STATE, "ext4").level is Severity.OK


@pytest.mark.parametrize(("free", "level"), [(10e6, "problem"), (100e6, "warning"), (900e6, "ok")])
def test_little_room_is_a_warning_and_almost_none_a_problem(free: float, level: str) -> None:
    assert judge_room(STATE, int(free)).level == level


def test_a_clock_that_was_never_set_is_a_problem_and_one_behind_the_ledger_a_warning() -> None:
    assert judge_clock(NOW.replace(year=1970), None).level is Severity.PROBLEM
    assert judge_clock(NOW, NOW + timedelta(minutes=1)).level is Severity.WARNING
    assert judge_clock(NOW, NOW - timedelta(minutes=1)).level is Severity.OK


def test_an_open_mode_comes_with_the_command_that_closes_it() -> None:
    finding = judge_mode(STATE, 0o40755, needed=False)
    assert (finding.level, finding.remedy) == (Severity.WARNING, f"chmod 700 {STATE}")
    assert judge_mode(STATE, 0o100644, needed=True).remedy == f"chmod 600 {STATE}"
    assert judge_mode(STATE, 0o100644, needed=True).level is Severity.PROBLEM
    assert judge_mode(STATE, 0o40700, needed=True).level is Severity.OK


def test_limits_are_judged_by_how_much_runs_at_once() -> None:
    assert [one.level for one in judge_limits(256, None, slots=16)] == [Severity.OK, Severity.OK]
    assert [one.level for one in judge_limits(256, 100, slots=200)] == [Severity.WARNING, Severity.WARNING]


def test_whatever_is_not_well_has_a_remedy() -> None:
    found = [
        judge_sqlite("3.40.0"),
        judge_place(STATE, "nfs"),
        judge_room(STATE, 0),
        judge_clock(NOW.replace(year=1970), None),
        judge_mode(STATE, 0o777, needed=True),
        *judge_limits(1, 1, slots=1),
    ]
    assert all(finding.level is not Severity.OK and finding.remedy for finding in found)


def test_the_worst_finding_counts() -> None:
    findings = [Finding("a", Severity.WARNING, ""), Finding("b", Severity.PROBLEM, ""), Finding("c", Severity.OK, "")]
    assert worst(findings) is Severity.PROBLEM
    assert worst([]) is Severity.OK
