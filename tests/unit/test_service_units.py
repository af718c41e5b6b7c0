"""The text of services: what systemd and launchd are told, and that odd paths cannot change it."""

import plistlib
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.model.errors import InvalidValue
from rota.operations.admin.service import ServiceFacts, launchd_plist, systemd_tick_unit, systemd_timer, systemd_unit

FACTS = ServiceFacts(
    program=("/opt/rota/bin/rota",),
    folder=Path("/srv/api"),
    state=Path("/srv/api/.rota"),
    search_path="/usr/local/bin:/usr/bin",
    shutdown_grace=timedelta(minutes=2),
)
TICKS = replace(FACTS, every=timedelta(seconds=10))
ODD = replace(FACTS, folder=Path('/srv/my api/50% "$HOME" \\n'), state=Path("/var/lib/rota state"))


def entries(text: str) -> list[tuple[str, str]]:
    return [(key, value) for line in text.splitlines() for key, sign, value in [line.partition("=")] if sign]


def environment(text: str) -> list[str]:
    return [value for key, value in entries(text) if key == "Environment"]


def test_a_unit_starts_by_absolute_path_and_stops_by_detaching() -> None:
    """R-23: a restart of the service interrupts no command."""
    unit = dict(entries(systemd_unit(FACTS)))
    assert unit["ExecStart"] == "/opt/rota/bin/rota --dir /srv/api serve"
    assert unit["ExecStop"] == "/opt/rota/bin/rota --dir /srv/api stop --detach"
    assert (unit["KillMode"], unit["Restart"], unit["WantedBy"]) == ("process", "on-failure", "default.target")
    assert environment(systemd_unit(FACTS)) == ['"PATH=/usr/local/bin:/usr/bin"', '"ROTA_TRUST=/srv/api"']


def test_the_manager_waits_longer_than_the_grace() -> None:
    assert int(dict(entries(systemd_unit(FACTS)))["TimeoutStopSec"]) > 120
    assert plistlib.loads(launchd_plist(FACTS).encode())["ExitTimeOut"] > 120


def test_the_manager_waits_longer_than_the_grace_of_agents() -> None:
    longer = replace(FACTS, agent_shutdown_grace=timedelta(minutes=10))
    assert int(dict(entries(systemd_unit(longer)))["TimeoutStopSec"]) > 600
    assert plistlib.loads(launchd_plist(longer).encode())["ExitTimeOut"] > 600


def test_a_system_service_starts_at_boot_as_its_user() -> None:
    unit = dict(entries(systemd_unit(replace(FACTS, system=True, user="ops"))))
    assert (unit["User"], unit["WantedBy"]) == ("ops", "multi-user.target")
    assert plistlib.loads(launchd_plist(replace(FACTS, system=True, user="ops")).encode())["UserName"] == "ops"
    assert "User" not in dict(entries(systemd_unit(replace(FACTS, user="ops"))))


def test_odd_paths_are_quoted_as_systemd_reads_them() -> None:
    unit = entries(systemd_unit(ODD))
    start = dict(unit)["ExecStart"]
    assert start == '/opt/rota/bin/rota --dir "/srv/my api/50%% \\"$$HOME\\" \\\\n" serve'
    assert ("Environment", '"ROTA_STATE=/var/lib/rota state"') in unit


@pytest.mark.parametrize("make", [systemd_unit, launchd_plist])
def test_a_path_with_a_line_end_is_refused(make) -> None:
    with pytest.raises(InvalidValue):
        make(replace(FACTS, folder=Path("/srv/a\nExecStart=evil")))


def test_a_property_list_leaves_keepers_alone() -> None:
    """R-23: launchd would end the whole process group with the scheduler."""
    content = plistlib.loads(launchd_plist(ODD).encode())
    assert content["ProgramArguments"] == ["/opt/rota/bin/rota", "--dir", str(ODD.folder), "serve"]
    assert content["AbandonProcessGroup"] is True
    assert content["KeepAlive"] == {"SuccessfulExit": False}
    assert content["EnvironmentVariables"] == {
        "PATH": FACTS.search_path,
        "ROTA_STATE": str(ODD.state),
        "ROTA_TRUST": str(ODD.folder),
    }


def test_two_folders_of_one_name_have_two_services() -> None:
    other = replace(FACTS, folder=Path("/home/me/api"))
    assert FACTS.name.startswith("rota-api-")
    assert FACTS.name != other.name
    assert FACTS.name == replace(FACTS, search_path="/bin").name


def test_a_timer_starts_ticks_that_leave_their_runs_behind() -> None:
    """R-24: a unit that is still active is not started again, so a tick must not stay."""
    unit, timer = dict(entries(systemd_tick_unit(TICKS))), dict(entries(systemd_timer(TICKS)))
    assert unit["ExecStart"] == "/opt/rota/bin/rota --dir /srv/api tick --detach --quiet"
    assert (unit["Type"], unit["KillMode"]) == ("oneshot", "process")
    assert environment(systemd_tick_unit(TICKS)) == ['"PATH=/usr/local/bin:/usr/bin"', '"ROTA_TRUST=/srv/api"']
    assert (timer["OnUnitActiveSec"], timer["AccuracySec"], timer["WantedBy"]) == ("10s", "1s", "timers.target")


def test_launchd_starts_ticks_at_an_interval() -> None:
    """R-24."""
    content = plistlib.loads(launchd_plist(replace(TICKS, every=timedelta(seconds=4))).encode())
    assert content["ProgramArguments"][-3:] == ["tick", "--detach", "--quiet"]
    assert (content["StartInterval"], content["ThrottleInterval"], content["AbandonProcessGroup"]) == (4, 4, True)
    assert "KeepAlive" not in content


def test_ticks_and_a_scheduler_of_one_project_are_two_services() -> None:
    assert TICKS.name == f"{FACTS.name}-tick"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("system", [False, True])
def test_systemd_itself_finds_nothing_wrong(tmp_path: Path, system: bool) -> None:
    folder = tmp_path / 'my 50% "api"'
    folder.mkdir()
    program = shutil.which("true")
    assert program is not None
    facts = replace(FACTS, folder=folder, program=(program,), system=system)
    ticks = replace(facts, every=timedelta(seconds=10))
    texts = {
        f"{facts.name}.service": systemd_unit(facts),
        f"{ticks.name}.service": systemd_tick_unit(ticks),
        f"{ticks.name}.timer": systemd_timer(ticks),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    units = [str(tmp_path / name) for name in texts]
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    assert [line for line in checked.stderr.splitlines() if facts.name in line] == []
