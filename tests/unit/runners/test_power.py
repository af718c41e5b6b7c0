"""The power of a machine: what a program that keeps it awake gets, and what is said where that is impossible."""

import os
from pathlib import Path

import psutil
import pytest

from rota.runners.power import NO_CLOCK, SystemPower


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is first on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def program(folder: Path, text: str, name: str = "systemd-inhibit") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_the_inhibitor_runs_until_it_is_released(bin_folder: Path) -> None:
    program(bin_folder, f'echo "$$ $*" >{bin_folder}/told\nwhile [ "${{1#-}}" != "$1" ]; do shift; done\nexec "$@"')
    power = SystemPower("linux")
    assert power.hold("2 runs in progress") == ""
    pid, _, told = (bin_folder / "told").read_text().partition(" ")
    assert told.startswith("--what=sleep:idle --who=rota --mode=block --why=2 runs in progress /bin/sh -c")
    assert psutil.Process(int(pid)).is_running()
    assert power.hold("3 runs in progress") == ""
    power.release()
    assert not psutil.pid_exists(int(pid))


def test_a_refusal_says_what_the_program_wrote(bin_folder: Path) -> None:
    program(bin_folder, "echo 'Failed to inhibit: Access denied' >&2; exit 1")
    assert SystemPower("linux").hold("1 run in progress") == "Failed to inhibit: Access denied"


def test_an_inhibitor_that_died_is_started_again(bin_folder: Path) -> None:
    program(bin_folder, 'shift 1; exec "$@"', "caffeinate")
    power = SystemPower("darwin")
    assert power.hold("x") == ""
    assert power._inhibitor is not None
    power._inhibitor.kill()
    power._inhibitor.wait()
    assert power.hold("x") == ""
    assert power._inhibitor.poll() is None
    power.close()


def test_a_machine_without_the_program_or_a_known_system_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert SystemPower("linux").hold("x") == "systemd-inhibit is not installed"
    assert SystemPower("win32").hold("x") == "rota knows no inhibitor for win32"


def test_a_machine_without_a_clock_that_can_wake_it_says_so(tmp_path: Path) -> None:
    assert SystemPower("linux", tmp_path).set_up_alarm() == NO_CLOCK
    assert SystemPower("darwin", tmp_path).set_up_alarm() == "rota cannot wake a machine with darwin"
