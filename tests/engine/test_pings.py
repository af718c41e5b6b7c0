"""Health pings of jobs: what they say, in order, over retries and crashes, to a server that speaks the protocol."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.engine.loops.notifier import ThreadedPost
from rota.engine.ports import Message
from rota.engine.transactions.enqueue import cancel
from rota.model.notifications import Channel, DeliveryResult, DeliveryStatus, Target
from rota.model.records import Outcome
from rota.model.spec import Retry
from rota.model.states import Reason, Status
from rota.settings import Settings
from rota.store.tables import notifications
from rota.testing.doubles import Script
from rota.testing.scene import Scene
from tests.engine.test_deliveries import FAILED, job
from tests.stub_server import Reply, StubServer, serving

pytestmark = pytest.mark.anyio

CHECK = Target("ping", Channel.WEBHOOK, address="https://hc.example.net/ab")
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def pings(scene: Scene) -> list[tuple[str, str]]:
    return [
        (letter.payload["signal"], letter.payload["run"])
        for letter in scene.post.letters
        if letter.payload["event"] == "ping"
    ]


async def test_a_start_and_a_success_are_sent_in_order(scene: Scene) -> None:
    scene.declare(job("a", notify=(), ping=CHECK))
    scene.processes.scripts["a"] = Script(timedelta(minutes=1))
    scene.trigger("a")
    await scene.advance("30s")
    assert pings(scene) == [("start", "a:1")]
    await scene.advance("1m")
    assert pings(scene) == [("start", "a:1"), ("success", "a:1")]


async def test_only_the_last_failure_of_a_chain_is_sent(scene: Scene) -> None:
    scene.declare(job("a", notify=(), ping=CHECK, retry=Retry(max_attempts=2)))
    scene.processes.scripts["a"] = FAILED
    scene.trigger("a")
    await scene.advance("10m")
    assert pings(scene) == [("start", "a:1"), ("start", "a:2"), ("fail", "a:2")]
    assert scene.post.letters[-1].payload["exit_code"] == 1


async def test_a_run_that_never_started_sends_nothing(scene: Scene) -> None:
    scene.declare(job("a", notify=(), ping=CHECK))
    scene.engine.claimer.allowed = False
    scene.trigger("a")
    run = scene.history("a")[0]
    scene.store.write(lambda db: cancel(db, run.id, reason=Reason.REQUESTED, now=scene.clock.now()))
    await scene.advance("1m")
    assert pings(scene) == []


async def test_a_ping_waits_for_the_one_before_it(scene: Scene) -> None:
    scene.post.answer = lambda _letter: DeliveryResult(ok=False, error="no network")
    scene.declare(job("a", notify=(), ping=CHECK))
    scene.trigger("a")
    await scene.advance("20s")
    assert {signal for signal, _ in pings(scene)} == {"start"}
    scene.post.answer = lambda _letter: DeliveryResult(ok=True)
    await scene.advance("10m")
    assert pings(scene)[-2:] == [("start", "a:1"), ("success", "a:1")]


async def test_a_check_that_never_answers_delays_no_run_and_no_later_ping_for_ever(scene: Scene) -> None:
    scene.post.answer = lambda _letter: DeliveryResult(ok=False, error="no network")
    scene.declare(job("a", notify=(), ping=CHECK))
    scene.trigger("a")
    await scene.advance("59m")
    found = scene.store.read(lambda db: notifications.listed(db, limit=10))
    assert [one.status for one in found] == [DeliveryStatus.FAILED] * 2
    assert scene.told("a") == [("COMPLETED", None)]


async def test_a_crash_during_a_run_sends_each_ping_once(scene: Scene) -> None:
    scene.declare(job("a", notify=(), ping=CHECK))
    scene.processes.scripts["a"] = Script(timedelta(minutes=1))
    scene.trigger("a")
    await scene.advance("30s")
    await scene.crash()
    scene.clock.advance("1m")
    scene.processes.end_due()
    await scene.start()
    await scene.advance("1m")
    assert pings(scene) == [("start", "a:1"), ("success", "a:1")]


# the protocol


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving(Reply(b"OK")) as found:
        yield found


RUN = "01a1df14-25d0-75cd-8bdd-1ae5a3f36514"


async def send(server: StubServer, folder: Path, **payload: Any) -> DeliveryResult:
    post = ThreadedPost(Settings(folder, folder), {"HC": f"{server.url}/T0KEN"})
    allowed = (server.url.removeprefix("http://"),)
    target = Target("ping", Channel.WEBHOOK, address_secret="HC", allow_private=allowed)
    told = {"event": "ping", "id": RUN, "run": "a:1", **payload}
    return await post.send(Message("msg_1", target, told, at=NOON))


async def test_the_requests_are_those_of_the_protocol(server: StubServer, tmp_path: Path) -> None:
    assert (await send(server, tmp_path, signal="start")).ok
    await send(server, tmp_path, signal="success", exit_code=0)
    await send(server, tmp_path, signal="fail", exit_code=3, reason="exit_code", error="exit 3: disk full")
    await send(server, tmp_path, signal="fail", exit_code=None, reason="timed_out", error="took too long")
    assert [path for path, _ in server.asked] == [
        f"/T0KEN/start?rid={RUN}",
        f"/T0KEN?rid={RUN}",
        f"/T0KEN/3?rid={RUN}",
        f"/T0KEN/fail?rid={RUN}",
    ]
    assert server.bodies[-2] == b"a:1\nexit_code\nexit 3: disk full"
    assert server.asked[-1][1]["content-type"] == "text/plain; charset=utf-8"


async def test_an_address_of_this_machine_is_refused_and_a_secret_one_is_not_shown(
    server: StubServer, tmp_path: Path
) -> None:
    post = ThreadedPost(Settings(tmp_path, tmp_path), {"HC": f"{server.url}/T0KEN"})
    target = Target("ping", Channel.WEBHOOK, address_secret="HC")
    told = {"event": "ping", "id": RUN, "run": "a:1", "signal": "start"}
    receipt = await post.send(Message("msg_1", target, told, at=NOON))
    assert receipt.hopeless
    assert "T0KEN" not in (receipt.error or "")
    assert server.asked == []


async def test_a_run_that_is_cancelled_after_its_start_is_a_failure(scene: Scene) -> None:
    scene.declare(job("a", notify=(), ping=CHECK))
    scene.processes.scripts["a"] = Script(timedelta(minutes=9), Outcome(Status.CANCELLED, Reason.REQUESTED))
    scene.trigger("a")
    await scene.advance("10m")
    assert pings(scene) == [("start", "a:1"), ("fail", "a:1")]
