"""`rota service` with a manager that only notes what it was asked."""

from datetime import timedelta
from pathlib import Path

import pytest

from rota.model.errors import ServiceUnavailable
from rota.operations.admin.service import Service, ServiceFacts, find_manager, lingers, output_of_service, own_program
from rota.settings import SchedulerSettings
from tests.faces.conftest import Project

NOTES = """#!/bin/sh
echo "$(basename "$0") $*" >> "$NOTES"
case "$*" in *$REFUSED*) echo "refused by hand" >&2; exit 1;; esac
case "$0" in *journalctl|*tail) echo "what it wrote";; esac
"""


class Managed:
    """A service under a manager made of shell scripts."""

    def __init__(
        self,
        folder: Path,
        *,
        manager: str = "systemd",
        system: bool = False,
        every: timedelta | None = None,
        refused: str = "nothing",
    ) -> None:
        self.notes = folder / "notes"
        programs = folder / "bin"
        programs.mkdir()
        for name in ("systemctl", "journalctl", "launchctl", "tail", "rota"):
            (programs / name).write_text(NOTES)
            (programs / name).chmod(0o755)
        environ = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "HOME": str(folder),
            "NOTES": str(self.notes),
            "REFUSED": refused,
        }
        project = Project(folder)
        project.write("jobs: {}\n")
        facts = ServiceFacts(
            (str(programs / "rota"),),
            folder,
            folder / ".rota",
            "/bin",
            SchedulerSettings().shutdown_grace,
            system,
            every=every,
        )
        self.service = Service(facts, manager, environ, root=folder / "root")

    def asked(self) -> list[str]:
        name = self.service.facts.name
        return (
            [line.replace(name, "NAME") for line in self.notes.read_text().splitlines()] if self.notes.exists() else []
        )


EVERY = timedelta(seconds=10)


def test_ticks_are_a_timer_and_what_it_starts(tmp_path: Path) -> None:
    """R-24."""
    managed = Managed(tmp_path, every=EVERY)
    managed.service.install()
    units = tmp_path / ".config/systemd/user"
    name = managed.service.facts.name
    assert {file.name: file.read_text() for file in units.iterdir()} == {
        file.name: text for file, text in managed.service.texts.items()
    }
    assert output_of_service(managed.service, lines=7) == "what it wrote\n"
    managed.service.remove()
    assert (list(units.iterdir()), name[-5:]) == ([], "-tick")
    assert managed.asked() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable NAME.timer",
        "systemctl --user restart NAME.timer",
        "journalctl --user --no-pager -u NAME.service -n 7",
        "systemctl --user disable --now NAME.timer",
        "systemctl --user daemon-reload",
    ]


def test_launchd_starts_a_tick_when_it_is_restarted(tmp_path: Path) -> None:
    """R-24: there is no scheduler to detach from its runs."""
    managed = Managed(tmp_path, manager="launchd", every=EVERY)
    managed.service.install()
    managed.service.carry_out("restart")
    assert [line.split()[:2] for line in managed.asked()] == [["launchctl", "bootstrap"], ["launchctl", "kickstart"]]


def test_install_writes_the_unit_and_starts_it(tmp_path: Path) -> None:
    managed = Managed(tmp_path)
    managed.service.install()
    assert managed.service.file == tmp_path / f".config/systemd/user/{managed.service.facts.name}.service"
    assert managed.service.file.read_text() == managed.service.text
    assert managed.asked() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable NAME.service",
        "systemctl --user restart NAME.service",
    ]


def test_a_system_service_has_its_own_place(tmp_path: Path) -> None:
    managed = Managed(tmp_path, system=True)
    managed.service.install()
    assert managed.service.file.parent == tmp_path / "root/etc/systemd/system"
    assert managed.asked()[0] == "systemctl daemon-reload"


def test_remove_stops_it_and_takes_the_unit_away(tmp_path: Path) -> None:
    managed = Managed(tmp_path)
    managed.service.install()
    managed.service.remove()
    assert not managed.service.file.exists()
    assert managed.asked()[3:] == ["systemctl --user disable --now NAME.service", "systemctl --user daemon-reload"]


def test_what_is_not_installed_cannot_be_removed(tmp_path: Path) -> None:
    managed = Managed(tmp_path)
    with pytest.raises(ServiceUnavailable, match="does not exist"):
        managed.service.remove()
    assert managed.asked() == []


def test_a_manager_that_refuses_is_quoted(tmp_path: Path) -> None:
    managed = Managed(tmp_path, refused="enable")
    with pytest.raises(ServiceUnavailable, match="refused by hand"):
        managed.service.install()


def test_the_standing_is_what_the_manager_says(tmp_path: Path) -> None:
    managed = Managed(tmp_path, refused="is-active")
    standing = managed.service.standing()
    assert (standing.installed, standing.active, standing.enabled) == (False, False, True)


def test_the_output_comes_from_the_journal(tmp_path: Path) -> None:
    managed = Managed(tmp_path)
    managed.service.install()
    assert output_of_service(managed.service, lines=7) == "what it wrote\n"
    assert managed.asked()[-1] == "journalctl --user --no-pager -u NAME.service -n 7"


def test_launchd_is_restarted_after_a_detach(tmp_path: Path) -> None:
    """R-23: launchd ends a service by TERM, so it is asked to detach first."""
    managed = Managed(tmp_path, manager="launchd")
    managed.service.install()
    managed.service.carry_out("restart")
    assert managed.service.file.parent == tmp_path / "Library/LaunchAgents"
    assert [line.split()[:2] for line in managed.asked()] == [
        ["launchctl", "bootstrap"],
        ["rota", "--dir"],
        ["launchctl", "kickstart"],
    ]


def test_without_a_manager_on_path_nothing_is_written(tmp_path: Path) -> None:
    managed = Managed(tmp_path)
    bare = Service(managed.service.facts, "systemd", {"PATH": str(tmp_path / "none"), "HOME": str(tmp_path)})
    with pytest.raises(ServiceUnavailable, match="no systemd or launchd"):
        bare.install()
    assert not bare.file.exists()


def test_the_manager_is_found_by_what_runs(tmp_path: Path) -> None:
    assert find_manager("darwin") == "launchd"
    assert find_manager("linux", tmp_path) == "systemd"
    assert find_manager("linux", tmp_path / "missing") is None


def test_rota_is_started_by_absolute_path(tmp_path: Path) -> None:
    assert own_program(str(tmp_path / "python")) == (str(tmp_path / "python"), "-m", "rota")
    (tmp_path / "rota").touch(0o755)
    assert own_program(str(tmp_path / "python")) == (str(tmp_path / "rota"),)


def test_lingering_is_seen(tmp_path: Path) -> None:
    assert not lingers({"USER": "ops"}, tmp_path)
    (tmp_path / "var/lib/systemd/linger").mkdir(parents=True)
    (tmp_path / "var/lib/systemd/linger/ops").touch()
    assert lingers({"USER": "ops"}, tmp_path)
    assert not lingers({}, tmp_path)


def test_print_writes_nothing_and_needs_no_manager(project: Project) -> None:
    project.write("scheduler: {shutdown_grace: 2m, agent_shutdown_grace: 1m}\njobs:\n  a: {command: [x]}\n")
    text = project.ok("service", "install", "--print")
    assert f"ExecStart={own_program()[0]}" in text or "ProgramArguments" in text
    assert "150" in text
    assert [path.name for path in project.folder.iterdir()] == ["rota.yaml"]
    assert project.json("service", "install", "--print")["text"] == text


def test_a_machine_without_a_manager_is_told_what_to_do(project: Project) -> None:
    if find_manager() is not None:
        pytest.skip("this machine has a service manager")
    project.write("jobs: {}\n")
    result = project.rota("service", "install")
    assert result.exit_code == 69
    assert "no systemd or launchd runs on this machine" in result.stderr
    assert "rota serve" in result.stderr


def test_a_user_can_be_named_for_a_system_service_only(project: Project) -> None:
    project.write("jobs: {}\n")
    assert project.rota("service", "install", "--user", "ops", "--print").exit_code == 2
    assert "ops" in project.ok("service", "install", "--system", "--user", "ops", "--print")
    assert "User=" not in project.ok("service", "install", "--print", "--user")


def test_the_distance_of_ticks_can_be_said(project: Project) -> None:
    """R-24: ten seconds unless it is."""
    project.write("jobs: {}\n")
    printed = project.ok("service", "install", "--tick", "--print")
    assert "OnUnitActiveSec=10s" in printed or "<integer>10</integer>" in printed
    printed = project.ok("service", "install", "--tick", "--every", "2m", "--print")
    assert "OnUnitActiveSec=120s" in printed or "<integer>120</integer>" in printed
    assert project.rota("service", "install", "--every", "2m", "--print").exit_code == 2


def test_a_broken_file_is_not_installed(project: Project) -> None:
    project.write("jobs:\n  a: {}\n")
    assert project.rota("service", "install", "--print").exit_code == 65
