"""The names of worktrees and their branches, and which of them stay (section 8)."""

import subprocess

import pytest

from rota.model.states import Status
from rota.rules.agents import branch_name, folder_name, why_kept


@pytest.mark.parametrize(
    ("job", "branch"),
    [
        ("fix-issues", "rota/fix-issues-9"),
        ("api/fix-issues", "rota/api/fix-issues-9"),
        ("a..b", "rota/a-b-9"),
        ("v1.lock/x", "rota/v1-/x-9"),
        ("ends./x", "rota/ends-/x-9"),
        ("with space~^:?*[", "rota/with-space--9"),
        ("überprüfen", "rota/-berpr-fen-9"),
        ("x" * 300, f"rota/{'x' * 150}-9"),
    ],
)
def test_a_branch_is_named_after_its_run_in_a_way_that_git_takes(job: str, branch: str) -> None:
    assert branch_name(job, 9) == branch
    subprocess.run(["git", "check-ref-format", "--branch", branch], check=True, capture_output=True)


def test_a_branch_that_exists_is_not_taken_again() -> None:
    taken = {"rota/a-1", "rota/a-1-2"}
    assert branch_name("a", 1, taken=taken) == "rota/a-1-3"


def test_a_branch_that_is_a_folder_of_others_is_not_taken() -> None:
    assert branch_name("a", 1, taken={"rota/a-1/b-7"}) == "rota/a-1-2"


def test_a_direct_call_has_a_branch_too() -> None:
    assert branch_name("a", 0) == "rota/a-direct"


def test_a_folder_is_flat_and_new() -> None:
    assert folder_name("rota/api/a-1", taken={"api-a-1"}) == "api-a-1-2"


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.CANCELLED, None])
def test_a_worktree_that_holds_nothing_goes_unless_its_run_failed(status: Status | None) -> None:
    assert why_kept(status, commits=False, changes=False) is None
    assert why_kept(Status.FAILED, commits=False, changes=False) == "the run failed"


@pytest.mark.parametrize("status", [*Status, None])
def test_a_worktree_that_holds_work_stays_however_its_run_ended(status: Status | None) -> None:
    assert why_kept(status, commits=True, changes=False) == "it has commits"
    assert why_kept(status, commits=False, changes=True) == "it has uncommitted changes"
