"""A folder as a work source."""

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rota.model.agents import WorkItem, WorkReport, WorkRequest
from rota.model.errors import SourceError
from rota.sources.directory import DirectorySource

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
DONE = WorkReport(success=True, run="fix:1", summary="mended")


def request(claim: str = "c1") -> WorkRequest:
    return WorkRequest(claim, "fix", "fix:1", NOW)


def put(folder: Path, name: str, text: str, *, age: int = 0) -> Path:
    path = folder / name
    path.write_text(text)
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def claimed(folder: Path, claim: str = "c1") -> WorkItem:
    item = DirectorySource(str(folder)).next_item(request(claim))
    assert item is not None
    return item


def test_the_oldest_file_is_claimed_and_lies_in_claimed(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "second")
    put(tmp_path, "b.md", "# Login fails\n\nOn Safari.", age=60)
    item = claimed(tmp_path)
    assert (item.id, item.title, item.description) == ("b.md", "Login fails", "# Login fails\n\nOn Safari.")
    assert (tmp_path / "claimed/c1/b.md").exists()
    assert not (tmp_path / "b.md").exists()
    assert item.metadata["path"] == str(tmp_path / "claimed/c1/b.md")


def test_an_empty_file_is_called_by_its_name(tmp_path: Path) -> None:
    put(tmp_path, "restart-the-proxy", "")
    assert claimed(tmp_path).title == "restart-the-proxy"


def test_an_empty_folder_has_nothing_and_keeps_nothing(tmp_path: Path) -> None:
    assert DirectorySource(str(tmp_path)).next_item(request()) is None
    assert not list((tmp_path / "claimed").glob("*")) if (tmp_path / "claimed").exists() else True


@pytest.mark.parametrize("name", [".hidden", "a.md~", "a.md.tmp", "a.part", ".a.swp"])
def test_a_file_that_is_being_written_is_no_item(tmp_path: Path, name: str) -> None:
    put(tmp_path, name, "not yet")
    assert DirectorySource(str(tmp_path)).next_item(request()) is None


def test_a_link_is_no_item(tmp_path: Path) -> None:
    secret = put(tmp_path, ".secret", "canary")
    (tmp_path / "a.md").symlink_to(secret)
    assert DirectorySource(str(tmp_path)).next_item(request()) is None


def test_a_pattern_chooses_the_files(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "no", age=60)
    put(tmp_path, "b.md", "yes")
    item = DirectorySource(str(tmp_path), pattern="*.md").next_item(request())
    assert item is not None
    assert item.id == "b.md"


def test_a_report_moves_the_file_and_lies_beside_it(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "x")
    DirectorySource(str(tmp_path)).report(claimed(tmp_path), DONE)
    assert (tmp_path / "done/a.md").read_text() == "x"
    assert json.loads((tmp_path / "done/a.md.report.json").read_text())["summary"] == "mended"
    assert not (tmp_path / "claimed/c1").exists()


def test_a_failure_is_moved_to_failed(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "x")
    report = WorkReport(success=False, run="fix:1", error="exit 2")
    DirectorySource(str(tmp_path)).report(claimed(tmp_path), report)
    assert json.loads((tmp_path / "failed/a.md.report.json").read_text())["error"] == "exit 2"


def test_a_report_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "done").mkdir()
    put(tmp_path / "done", "a.md", "older")
    put(tmp_path, "a.md", "newer")
    DirectorySource(str(tmp_path)).report(claimed(tmp_path), DONE)
    assert (tmp_path / "done/a.md").read_text() == "older"
    assert (tmp_path / "done/a.2.md").read_text() == "newer"


def test_a_second_report_of_the_same_claim_changes_nothing(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "x")
    source, item = DirectorySource(str(tmp_path)), claimed(tmp_path)
    source.report(item, DONE)
    source.report(item, DONE)
    assert sorted(path.name for path in (tmp_path / "done").iterdir()) == ["a.md", "a.md.report.json"]


def test_a_report_that_was_cut_off_is_finished(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "x")
    item = claimed(tmp_path)
    (tmp_path / "done").mkdir()
    os.link(tmp_path / "claimed/c1/a.md", tmp_path / "done/a.md")
    DirectorySource(str(tmp_path)).report(item, DONE)
    assert sorted(path.name for path in (tmp_path / "done").iterdir()) == ["a.md", "a.md.report.json"]
    assert not (tmp_path / "claimed/c1").exists()


def test_a_released_file_is_there_again_and_as_old_as_it_was(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "x", age=60)
    put(tmp_path, "b.md", "y")
    DirectorySource(str(tmp_path)).release(claimed(tmp_path))
    assert claimed(tmp_path, "c2").id == "a.md"


def test_a_release_does_not_overwrite_a_file_that_came_meanwhile(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "first")
    item = claimed(tmp_path)
    put(tmp_path, "a.md", "second")
    DirectorySource(str(tmp_path)).release(item)
    assert ((tmp_path / "a.md").read_text(), (tmp_path / "a.2.md").read_text()) == ("second", "first")


def test_a_claim_that_nobody_noted_is_given_back_by_its_name(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "x")
    claimed(tmp_path, "lost")
    DirectorySource(str(tmp_path)).release_claim(request("lost"))
    assert (tmp_path / "a.md").exists()
    DirectorySource(str(tmp_path)).release_claim(request("never"))


def test_the_same_claim_asked_again_gets_the_same_file(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "x")
    put(tmp_path, "b.md", "y")
    assert claimed(tmp_path).id == claimed(tmp_path).id


def test_a_look_ahead_claims_nothing(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "x", age=60)
    put(tmp_path, "b.md", "y")
    ahead = DirectorySource(str(tmp_path)).peek(request())
    assert ahead.open == 2
    assert ahead.next is not None
    assert ahead.next.id == "a.md"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.md", "b.md"]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"missing cannot be used: No such file or directory; create it") as told:
        DirectorySource(str(tmp_path / "missing")).next_item(request())
    assert told.value.hint == "create it, or correct `directory:`"


def test_many_who_claim_at_once_never_get_the_same_file(tmp_path: Path) -> None:
    for number in range(40):
        put(tmp_path, f"{number}.md", str(number))
    got: list[str] = []
    start = threading.Barrier(8)

    def claim(who: int) -> None:
        start.wait()
        for turn in range(8):
            item = DirectorySource(str(tmp_path)).next_item(request(f"c{who}-{turn}"))
            if item is not None:
                got.append(item.id)

    threads = [threading.Thread(target=claim, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(f"{number}.md" for number in range(40))
