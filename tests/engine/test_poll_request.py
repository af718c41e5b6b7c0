"""The poll's request on a playing scheduler: its secrets, its account, and those who wait for it (R-16, R-19)."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from rota.declare.sections import POLL
from rota.model.budgets import Account, Exceeded, Per, Unit
from rota.model.spec import EnvValue, Gates, JobSpec, Kind, Retry, Schedule, Spend, Work
from rota.model.states import Reason, Status, WaitingFor
from rota.operations.status.heartbeat import Heartbeat, Liveness
from rota.operations.status.status import look
from rota.testing.scene import Scene
from tests.engine.conftest import command, every
from tests.engine.real_work import pass_time, play
from tests.engine.spending import put, used
from tests.stub_server import StubServer, reply_json, serving

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)
NEEDS = Gates(needs_poll=True)
TOKEN = EnvValue("Authorization", secret="OCTO_TOKEN")
ONE = Account("hourly", Unit.REQUESTS, 1, Per.HOUR)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(reply_json({"n": 1})) as found:
        yield found


def poll(server: StubServer, *headers: EnvValue, **changes) -> JobSpec:
    work = Work(Kind.POLL, url=server.url, headers=headers, timeout=timedelta(minutes=1))
    return JobSpec(POLL, work, Schedule(interval=MINUTE), retry=Retry(max_attempts=1), **changes)


async def test_a_secret_is_sent_and_nowhere_else(scene: Scene, server: StubServer) -> None:
    """R-27: read when the poll starts; the row does not hold it."""
    secrets = scene.settings.state / "secrets.env"
    secrets.write_text("OCTO_TOKEN=hunter2\n")
    secrets.chmod(0o600)
    scene.declare(poll(server, TOKEN, EnvValue("X-Empty", "")))
    await play(scene)
    assert scene.told(POLL) == [("COMPLETED", None)]
    (_, headers) = server.asked[0]
    assert (headers["Authorization"], headers["X-Empty"]) == ("hunter2", "")
    assert "hunter2" not in repr((scene.job(POLL), scene.history(POLL)))


async def test_a_secret_that_is_not_there_fails_the_poll(scene: Scene, server: StubServer) -> None:
    """R-16, R-27."""
    scene.declare(poll(server, TOKEN), command("remote", schedule=every("1h"), gates=NEEDS))
    await play(scene)
    (run,) = scene.history(POLL)
    assert (run.status, run.reason) == (Status.FAILED, Reason.SECRET_MISSING)
    assert scene.told("remote") == [("SKIPPED", "poll_failed")]
    assert "OCTO_TOKEN" in (scene.history("remote")[0].error or "")
    assert server.asked == []


async def test_secrets_that_others_can_read_fail_the_poll(scene: Scene, server: StubServer) -> None:
    """R-27: the run ends, it does not stay in its slot."""
    secrets = scene.settings.state / "secrets.env"
    secrets.write_text("OCTO_TOKEN=hunter2\n")
    secrets.chmod(0o644)
    scene.declare(poll(server, TOKEN))
    await play(scene)
    (run,) = scene.history(POLL)
    assert (run.status, run.reason) == (Status.FAILED, Reason.SPAWN_FAILED)
    assert "is open to other users" in (run.error or "")


async def test_a_poll_without_room_in_its_account_waits_for_the_next_window(scene: Scene, server: StubServer) -> None:
    """R-16, R-19: those who need it wait with it."""
    remote = command("remote", schedule=every("30m"), gates=NEEDS)
    put(scene, poll(server, budgets=(Spend("hourly", 1, Unit.REQUESTS),)), remote, accounts=(ONE,))
    await play(scene)
    assert (scene.told(POLL), scene.told("remote")) == ([("COMPLETED", None)], [("COMPLETED", None)])
    assert used(scene, ONE) == (1, 0)
    await pass_time(scene, 59 * MINUTE)
    assert scene.history(POLL)[-1].waiting_for is WaitingFor.BUDGET
    assert scene.history("remote")[-1].waiting_for is WaitingFor.POLL
    assert needing(scene) == [("hourly", "1 run waits for room: 1 of 1 request; jobs that need the poll also wait")]
    await pass_time(scene, MINUTE)
    assert scene.told("remote") == [("COMPLETED", None), ("COMPLETED", None)]
    assert len(server.asked) == 2


async def test_a_poll_that_its_account_skips_lets_nobody_wait(scene: Scene, server: StubServer) -> None:
    """R-16, R-19: SKIPPED/budget, and whoever needed it is told so."""
    account = Account("hourly", Unit.REQUESTS, 1, Per.HOUR, policy=Exceeded.SKIP)
    remote = command("remote", schedule=every("30m"), gates=NEEDS)
    put(scene, poll(server, budgets=(Spend("hourly", 1, Unit.REQUESTS),)), remote, accounts=(account,))
    await play(scene)
    await pass_time(scene, 31 * MINUTE)
    assert scene.told("remote") == [("COMPLETED", None), ("SKIPPED", "poll_failed")]
    assert "hourly" in (scene.history("remote")[-1].error or "")
    assert len(server.asked) == 1
    item, exhausted = needing(scene)
    assert exhausted == ("hourly", "used up: 1 of 1 request")
    assert item[0] == POLL
    assert item[1].startswith("SKIPPED budget, also the jobs that need the poll")


def needing(scene: Scene) -> list[tuple[str, str]]:
    """Return what `rota status` says needs attention."""
    view = look(scene.store, Heartbeat(Liveness.RUNNING), now=scene.clock.now())
    return [(one.name, one.what) for one in view.attention]
