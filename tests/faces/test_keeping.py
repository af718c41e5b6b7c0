"""`rota backup` and `rota restore`: a copy that is whole, and a restored project that starts paused."""

import json
import os
import stat
import tarfile
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from rota.engine.membership.locks import take_serve_lock
from rota.engine.transactions.pause import end_timed_pauses
from rota.model.records import Outcome
from rota.model.states import Status
from rota.operations.project.locate import open_state
from tests.faces.conftest import Project

FILE = """
jobs:
  tick: {cron: "*/10 * * * *", command: [echo, hi], misfire: once}
  by-hand: {command: [echo, hi], retry: false}
"""


@pytest.fixture
def backed_up(project: Project) -> Project:
    """A project with one finished run and its output, and a backup of it, `copy.tgz`."""
    project.applied(FILE)
    project.ok("trigger", "by-hand")
    project.carry_out([Outcome(Status.COMPLETED, exit_code=0)], output="hello\n")
    (project.state / "secrets.env").write_text("TOKEN=x\n")
    project.ok("backup", "copy.tgz", "--with-output")
    return project


def elsewhere(project: Project) -> Project:
    """An empty folder on what could be another machine, three days later."""
    other = Project(project.folder.parent / "other", project.clock)
    other.folder.mkdir()
    project.clock.advance(timedelta(days=3))
    return other


def members(project: Project, name: str = "copy.tgz") -> list[str]:
    with tarfile.open(project.folder / name) as archive:
        return archive.getnames()


def test_a_backup_holds_the_database_the_file_and_outputs_but_no_secrets(backed_up: Project) -> None:
    names = members(backed_up)
    assert names[:3] == ["manifest.json", "rota.yaml", "rota.db"]
    assert [Path(name).name for name in names[3:]] == ["output.0"]
    assert stat.S_IMODE((backed_up.folder / "copy.tgz").stat().st_mode) == 0o600
    assert sorted(path.name for path in backed_up.folder.iterdir()) == [".rota", "copy.tgz", "rota.yaml"]


def test_outputs_are_left_out_unless_asked_for(backed_up: Project) -> None:
    backed_up.ok("backup", "plain.tar")
    assert members(backed_up, "plain.tar") == ["manifest.json", "rota.yaml", "rota.db"]


def test_a_backup_overwrites_nothing(backed_up: Project) -> None:
    before = (backed_up.folder / "copy.tgz").read_bytes()
    assert backed_up.rota("backup", "copy.tgz").exit_code == 6
    assert (backed_up.folder / "copy.tgz").read_bytes() == before


def test_a_restored_project_is_paused_and_says_how_old_it_is(backed_up: Project) -> None:
    other = elsewhere(backed_up)
    told = other.ok("restore", str(backed_up.folder / "copy.tgz"))
    assert f"from {os.uname().nodename}, 3 d old, 432 instants passed" in told
    assert "resume with rota resume --all --catch-up none" in told
    assert [job["state"] for job in other.json("list")] == ["paused", "paused"]
    assert other.json("status")["paused"]["reason"] == f"restored from {os.uname().nodename}, 3 d old"
    assert other.ok("logs", "by-hand") == "hello\n"
    assert (other.folder / "rota.yaml").read_text() == FILE


def test_what_passed_since_the_backup_is_one_counted_row_and_nothing_runs(backed_up: Project) -> None:
    """R-20: also with `misfire: once`; those instants belonged to the other machine."""
    other = elsewhere(backed_up)
    other.ok("restore", str(backed_up.folder / "copy.tgz"))
    other.ok("resume", "--all", "--catch-up", "none")
    rows = [(run["status"], run["reason"], run["count"]) for run in other.json("history", "tick")]
    assert rows == [("SKIPPED", "paused", 432)]
    other.ok("verify")


def test_a_timed_pause_in_a_backup_does_not_end_by_itself_after_a_restore(project: Project) -> None:
    project.applied(FILE)
    project.ok("pause", "tick", "--for", "1h")
    project.ok("backup", "copy.tgz")
    other = elsewhere(project)
    other.ok("restore", str(project.folder / "copy.tgz"))
    store = open_state(other.state, other.clock, create=False)
    assert store.write(partial(end_timed_pauses, now=other.clock.now(), limit=10)) == []
    store.close()


def test_a_run_that_was_under_way_is_closed_and_a_claimed_one_waits_again(project: Project) -> None:
    project.applied(FILE)
    project.ok("trigger", "by-hand")
    project.carry_out([])
    project.ok("backup", "copy.tgz")
    other = elsewhere(project)
    other.ok("restore", str(project.folder / "copy.tgz"))
    assert [(run["status"], run["reason"]) for run in other.json("history")] == [("FAILED", "process_restarted")]
    other.ok("verify")


def test_the_jobs_of_a_restored_file_are_known_as_its_own(backed_up: Project) -> None:
    """Their source names the file's new place, so that apply finds nothing to change but the folder."""
    other = elsewhere(backed_up)
    other.ok("restore", str(backed_up.folder / "copy.tgz"))
    kinds = {change["kind"] for change in other.json("apply")["changes"]}
    assert kinds <= {"unchanged", "update"}
    assert {job["state"] for job in other.json("list")} == {"paused"}


def test_a_restore_replaces_no_state_unless_forced_and_then_moves_it_aside(backed_up: Project) -> None:
    refused = backed_up.rota("restore", "copy.tgz")
    assert refused.exit_code == 6
    assert "--force" in refused.stderr
    assert [job["state"] for job in backed_up.json("list")] == ["idle", "idle"]
    told = backed_up.json("restore", "copy.tgz", "--force")
    assert (Path(told["aside"]) / "rota.db").exists()
    assert (backed_up.state / "secrets.env").exists()
    assert [job["state"] for job in backed_up.json("list")] == ["paused", "paused"]


def test_a_restore_is_refused_while_a_scheduler_runs(backed_up: Project) -> None:
    lock = take_serve_lock(backed_up.state)
    try:
        assert backed_up.rota("restore", "copy.tgz", "--force").exit_code == 73
    finally:
        lock.release()
    assert [job["state"] for job in backed_up.json("list")] == ["idle", "idle"]


def test_a_dry_run_of_a_restore_changes_nothing(backed_up: Project) -> None:
    other = elsewhere(backed_up)
    assert "would restore 2 jobs" in other.ok("restore", str(backed_up.folder / "copy.tgz"), "--dry-run")
    assert list(other.folder.iterdir()) == []


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:2000])


def _garbage(path: Path) -> None:
    path.write_bytes(b"\x00\xff" * 500)


def _other_database(path: Path) -> None:
    _repack(path, "rota.db", b"SQLite format 3\0" + bytes(5000))


def _later_format(path: Path) -> None:
    with tarfile.open(path) as archive:
        manifest = json.loads(archive.extractfile("manifest.json").read())
    _repack(path, "manifest.json", json.dumps({**manifest, "format": 99}).encode())


def _stranger(path: Path) -> None:
    _repack(path, "../evil", b"x", rename="rota.yaml")


def _repack(path: Path, name: str, data: bytes, *, rename: str = "") -> None:
    import io

    with tarfile.open(path) as archive:
        kept = {member.name: archive.extractfile(member).read() for member in archive}
    kept.pop(rename or name, None)
    kept[name] = data
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for each, content in kept.items():
            member = tarfile.TarInfo(each)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def _zeros(name: str) -> Callable[[Path], None]:
    return lambda path: _repack(path, name, bytes(300_000_000))


def _deep(path: Path) -> None:
    _repack(path, f"parts/{'a/' * 2_000}x.yaml", b"jobs: {}\n")


def _hook(path: Path) -> None:
    _repack(path, "parts/.git/hooks/x", b"#!/bin/sh\n")


def _included_hook(path: Path) -> None:
    _repack(path, "rota.yaml", f"include: ['.git/hooks/*']\n{FILE}".encode())
    _repack(path, "parts/.git/hooks/x", b"#!/bin/sh\njobs: {}\n")


def _included_script(path: Path) -> None:
    _repack(path, "rota.yaml", f"include: ['tools/*']\n{FILE}".encode())
    _repack(path, "parts/tools/x", b"hooks: {a: b}\n")


def _not_included(path: Path) -> None:
    _repack(path, "parts/jobs.d/x.yaml", b"jobs: {}\n")


def _second_main_file(path: Path) -> None:
    _repack(path, "parts/rota.yaml", b"jobs: {}\n")


def _odd_output(path: Path) -> None:
    _repack(path, "runs/20260101/00000000-0000-0000-0000-000000000000/environment.json", b"{}")


def _long_header(path: Path) -> None:
    _repack(path, "runs/" + "x" * 20_000_000, b"")


SPOILERS = [
    *(_cut, _garbage, _other_database, _later_format, _stranger, Path.unlink),
    *(_zeros("manifest.json"), _zeros("rota.yaml"), _zeros("rota.db"), _zeros("parts/x.yaml"), _deep, _long_header),
    *(_hook, _included_hook, _included_script, _not_included, _second_main_file, _odd_output),
]


@pytest.mark.parametrize("spoil", SPOILERS)
def test_a_file_that_is_no_whole_backup_is_refused_and_leaves_nothing(backed_up: Project, spoil) -> None:
    path = backed_up.folder / "copy.tgz"
    spoil(path)
    other = elsewhere(backed_up)
    refused = other.rota("restore", str(path))
    assert refused.exit_code == 65, refused.output
    assert str(path) in refused.stderr
    assert not (other.state / "rota.db").exists()
    assert not (other.folder.parent / "evil").exists()
    assert [path.name for path in other.folder.iterdir() if path != other.state] == []


@pytest.mark.parametrize("pattern", ["jobs.d/*.yaml", "./jobs.d/a.yaml", "FOLDER/jobs.d/*", "~/home/jobs.d/*.yaml"])
def test_the_parts_that_the_file_includes_are_restored(
    project: Project, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.folder.parent))
    pattern = pattern.replace("FOLDER", str(project.folder)).replace("/home/", f"/{project.folder.name}/")
    (project.folder / "jobs.d").mkdir()
    (project.folder / "jobs.d" / "a.yaml").write_text("jobs: {more: {command: [echo, hi]}}\n")
    project.applied(f"include: ['{pattern}']\n{FILE}")
    project.ok("backup", "copy.tgz")
    assert "parts/jobs.d/a.yaml" in members(project)
    other = elsewhere(project)
    other.ok("restore", str(project.folder / "copy.tgz"))
    assert (other.folder / "jobs.d" / "a.yaml").read_text() == "jobs: {more: {command: [echo, hi]}}\n"


def test_the_state_that_the_file_of_the_backup_names_is_where_it_goes(project: Project) -> None:
    """Else the next command would find an empty project, and start everything anew."""
    project.write(f"state: {project.folder.parent / 'data'}\n{FILE}")
    project.ok("apply")
    project.ok("backup", "copy.tgz")
    (project.folder.parent / "data").rename(project.folder.parent / "old")
    other = elsewhere(project)
    other.ok("restore", str(project.folder / "copy.tgz"))
    assert [job["state"] for job in other.json("list")] == ["paused", "paused"]
