"""Notifications by a command."""

import json
from pathlib import Path

from tests.waiting import until

from rota.runners.senders import run

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "ROTA_EVENT": "failed"}


def test_a_command_gets_the_event_on_its_input_and_in_its_environment(tmp_path: Path) -> None:
    script = 'cat > told; printf %s "$ROTA_EVENT" > event'
    receipt = run(["sh", "-c", script], '{"a": 1}', cwd=tmp_path, environment=ENVIRONMENT, timeout=60)
    assert (receipt.ok, receipt.answer) == (True, 0)
    assert json.loads((tmp_path / "told").read_text()) == {"a": 1}
    assert (tmp_path / "event").read_text() == "failed"


def test_a_command_that_fails_says_what_it_said(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo no route >&2; exit 7"]
    receipt = run(command, "{}", cwd=tmp_path, environment=ENVIRONMENT, timeout=60)
    assert (receipt.ok, receipt.answer, receipt.error) == (False, 7, "exit 7: no route")


def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    receipt = run(["./missing"], "{}", cwd=tmp_path, environment=ENVIRONMENT, timeout=60)
    assert not receipt.ok
    assert "./missing cannot be started" in (receipt.error or "")


def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    script = "sleep 600 & echo $! > child; wait"
    receipt = run(["sh", "-c", script], "{}", cwd=tmp_path, environment=ENVIRONMENT, timeout=1)
    assert (receipt.ok, receipt.error) == (False, "it did not finish within 1 s")
    child = (tmp_path / "child").read_text().strip() if (tmp_path / "child").exists() else "none"
    until(lambda: _gone(child), what="the child to be gone")


def _gone(pid: str) -> bool:
    """Return whether a process has ended, reaped or not."""
    try:
        return (Path("/proc") / pid / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_a_command_that_does_not_read_its_input_is_no_failure(tmp_path: Path) -> None:
    assert run(["true"], "x" * 1_000_000, cwd=tmp_path, environment=ENVIRONMENT, timeout=60).ok
