"""Workers over HTTP: listed as on the command line, drained, resumed, not forgotten while they are the only one."""

import pytest

from tests.api.conftest import COMPLETED, Api


@pytest.fixture
def worked(api: Api) -> Api:
    """A project in which a worker carried out a run."""
    api.post("/jobs/hello/trigger", status=202)
    api.project.carry_out([COMPLETED])
    return api


def test_workers_are_told_as_by_the_command_line(worked: Api) -> None:
    (told,) = worked.get("/workers")["items"]
    assert told.pop("counts")["done"] == 1
    assert [told] == worked.cli("workers")


def test_a_worker_is_drained_and_resumed(worked: Api) -> None:
    assert worked.post("/workers/here/drain", status=200)["changed"] is True
    assert worked.post("/workers/here/drain", status=200)["changed"] is False
    assert worked.post("/workers/here/resume", status=200) == {"worker": "here", "draining": False, "changed": True}
    assert worked.refused("POST", "/api/v1/workers/nobody/drain") == (404, "unknown_worker")


def test_the_only_worker_is_not_forgotten(worked: Api) -> None:
    assert worked.refused("POST", "/api/v1/workers/here/forget") == (409, "store_not_shared")
