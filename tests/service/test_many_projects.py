"""One scheduler for many projects: their work runs at home, their files are followed, a broken one costs no other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.serving import Project
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("service")

FLEET = 'include: ["~/code/*/rota.yaml"]\ndefaults: {retry: false}\njobs: {}\n'
PLACE = 'jobs:\n  place: {interval: 1h, shell: "pwd; echo $ROTA_PROJECT_DIR $ROTA_JOB"}\n'
FUNCTION = "imports: [chores]\njobs:\n  greet: {interval: 1h, run: greet}\n"
MODULE = 'import rota\n\n@rota.job("greet")\ndef greet(ctx):\n    return "hello from %s"\n'


class Fleet(Project):
    """An including project in a home folder of its own."""

    def __init__(self, home: Path) -> None:
        super().__init__(home / "fleet")
        self.home = home

    def environment(self) -> dict[str, str]:
        """Return an environment whose home folder is the test's."""
        return {**super().environment(), "HOME": str(self.home), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}

    def put(self, path: str, text: str) -> None:
        """Write a file below `code`, as an editor does: whole, under a new inode."""
        file = self.home / "code" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.write_text(text)
        fresh.rename(file)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    (tmp_path / "fleet").mkdir()
    made = Fleet(tmp_path)
    made.write(FLEET)
    yield made
    made.end()


def test_the_work_of_included_projects_runs_at_home_and_their_files_are_followed(fleet: Fleet) -> None:
    fleet.put("api/rota.yaml", PLACE)
    fleet.put("web/rota.yaml", PLACE)
    fleet.serve()
    for name in ("api", "web"):
        fleet.until_told(f"{name}/place", [("COMPLETED", None)])
        folder = fleet.home / "code" / name
        assert fleet.rota("logs", f"{name}/place").stdout == f"{folder}\n{folder} {name}/place\n"

    fleet.put("api/rota.yaml", PLACE + '  second: {interval: 1h, command: [echo, "2"]}\n')
    fleet.put("new/rota.yaml", PLACE)
    until(lambda: len(fleet.json("list")) == 4, what="the second job and the new project to be applied")
    fleet.until_told("api/second", [("COMPLETED", None)])
    fleet.until_told("new/place", [("COMPLETED", None)])
    assert fleet.told("api/place") == [("COMPLETED", None)]


def test_a_broken_file_keeps_its_own_jobs_as_they_are_and_the_others_change(fleet: Fleet) -> None:
    fleet.put("api/rota.yaml", PLACE)
    fleet.put("web/rota.yaml", PLACE)
    fleet.serve()
    fleet.until_told("web/place", [("COMPLETED", None)])
    fleet.put("web/rota.yaml", "jobs:\n  place: {comand: x}\n")
    problem = until(lambda: fleet.scheduler()["file_problem"], what="the broken file to be told")
    assert problem.startswith("~/code/web/rota.yaml:2:11: jobs.place.comand: unknown key")

    fleet.put("api/rota.yaml", PLACE.replace("place", "moved"))
    names = ["api/moved", "web/place"]
    until(lambda: [job["name"] for job in fleet.json("list")] == names, what="the other project to change")
    fleet.until_told("api/moved", [("COMPLETED", None)])
    assert fleet.scheduler()["file_problem"] == problem
    fleet.put("web/rota.yaml", PLACE)
    until(lambda: fleet.scheduler()["file_problem"] is None, what="the mended file to be applied")


def test_functions_of_projects_with_modules_of_one_name_do_not_meet(fleet: Fleet) -> None:
    for name in ("api", "web"):
        fleet.put(f"{name}/rota.yaml", FUNCTION)
        fleet.put(f"{name}/chores.py", MODULE % name)
    fleet.serve()
    for name in ("api", "web"):
        fleet.until_told(f"{name}/greet", [("COMPLETED", None)])
        assert fleet.history(f"{name}/greet")[0]["result_summary"] == f"hello from {name}"
