"""What needs somebody over HTTP: the list, acknowledging and showing again."""

import pytest

from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.api.conftest import Api

FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3: no such table")


@pytest.fixture
def failing(api: Api) -> Api:
    """A project in which `hello` fails."""
    api.project.ok("trigger", "hello")
    api.project.carry_out([FAILED])
    return api


def test_the_list_is_that_of_the_command(failing: Api) -> None:
    assert failing.get("/attention")["items"] == failing.project.json("ack")


def test_what_is_acknowledged_leaves_the_status_and_comes_back_when_shown(failing: Api) -> None:
    (done,) = failing.post("/attention/acknowledge", {"names": ["hello"]})["items"]
    assert done["acknowledged"]["by"].startswith("token:")
    status = failing.get("/scheduler/status")
    assert (status["attention"], [one["name"] for one in status["acknowledged"]]) == ([], ["hello"])
    assert len(failing.post("/attention/show", {"all": True})["items"]) == 1
    assert len(failing.get("/scheduler/status")["attention"]) == 1


def test_a_dry_run_changes_nothing(failing: Api) -> None:
    assert failing.post("/attention/acknowledge", {"all": True, "dry_run": True})["dry_run"]
    assert failing.get("/attention")["items"][0]["acknowledged"] is None
