"""Who carries notifications out: by which channel, with which secrets, and what is never shown."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from rota.declare.readers.notifications import READERS
from rota.engine.clock import SystemClock
from rota.engine.loops.notifier import ThreadedPost
from rota.engine.ports import Message
from rota.model.notifications import Channel, DeliveryResult, Target
from rota.settings import Settings
from tests.stub_server import Reply, StubServer, serving

DOCS = Path(__file__).parents[2] / "docs"
SECRET = f"whsec_{base64.b64encode(b'k' * 32).decode()}"
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
PAYLOAD = {"event": "failed", "run": "backup:1", "job": "backup", "status": "FAILED", "reason": "exit_code"}


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving(Reply(b"")) as found:
        yield found


def place(server: StubServer) -> tuple[str, ...]:
    return (server.url.removeprefix("http://"),)


async def send(target: Target, folder: Path, *, at: datetime = NOW, **environ: str) -> DeliveryResult:
    post = ThreadedPost(Settings(folder, folder), {"PATH": "/usr/bin:/bin", **environ})
    return await post.send(Message("msg_1", target, PAYLOAD, at=at))


async def test_a_webhook_is_signed_with_the_secrets_that_it_names(server: StubServer, tmp_path: Path) -> None:
    target = Target("ops", Channel.WEBHOOK, address=f"{server.url}/a", signing=("HOOK",), allow_private=place(server))
    receipt = await send(target, tmp_path, at=SystemClock().now(), HOOK=SECRET)
    assert receipt == DeliveryResult(ok=True, answer=200)
    assert Webhook(SECRET).verify(server.bodies[0], server.asked[0][1]) == PAYLOAD


async def test_an_address_that_is_a_secret_is_shown_in_no_error(server: StubServer, tmp_path: Path) -> None:
    server.reply = Reply(b"no /T0KEN here", 404)
    target = Target("ops", Channel.WEBHOOK, address_secret="URL", allow_private=place(server))
    receipt = await send(target, tmp_path, URL=f"{server.url}/T0KEN")
    assert receipt.answer == 404
    assert "T0KEN" not in (receipt.error or "")
    refused = await send(Target("ops", Channel.WEBHOOK, address_secret="URL"), tmp_path, URL="https://10.0.0.1/T0KEN")
    assert refused.hopeless
    assert "T0KEN" not in (refused.error or "")


async def test_a_secret_that_is_missing_or_unfit_is_told_without_its_value(server: StubServer, tmp_path: Path) -> None:
    target = Target("ops", Channel.WEBHOOK, address=f"{server.url}/a", signing=("HOOK",), allow_private=place(server))
    missing = await send(target, tmp_path)
    assert "'HOOK'" in (missing.error or "")
    unfit = await send(target, tmp_path, HOOK="hunter2")
    assert unfit.hopeless
    assert "hunter2" not in (unfit.error or "")
    assert server.asked == []


async def test_a_command_runs_in_the_project_with_the_event(tmp_path: Path) -> None:
    target = Target("log", Channel.COMMAND, command=("sh", "-c", 'cat > told; echo "$ROTA_RUN $ROTA_REASON" > who'))
    receipt = await send(target, tmp_path)
    assert (receipt.ok, receipt.answer) == (True, 0)
    assert json.loads((tmp_path / "told").read_text()) == PAYLOAD
    assert (tmp_path / "who").read_text() == "backup:1 exit_code\n"


async def test_a_server_that_never_answers_is_given_up(server: StubServer, tmp_path: Path) -> None:
    server.reply = Reply(silent=True)
    target = Target(
        "ops", Channel.WEBHOOK, address=server.url, allow_private=place(server), timeout=timedelta(milliseconds=200)
    )
    assert not (await send(target, tmp_path)).ok


async def test_a_ping_is_a_get_without_a_body(server: StubServer, tmp_path: Path) -> None:
    post = ThreadedPost(Settings(tmp_path, tmp_path), {})
    target = Target("ping", Channel.WEBHOOK, address=f"{server.url}/ping", allow_private=place(server))
    assert (await post.ping(target)).ok
    assert [path for path, _ in server.asked] == ["/ping"]
    assert server.bodies == []


@pytest.mark.parametrize("channel", Channel)
def test_every_channel_has_a_reader_a_sender_and_a_line_in_the_documentation(channel: Channel, tmp_path: Path) -> None:
    assert channel.value in READERS
    assert channel in ThreadedPost(Settings(tmp_path, tmp_path), {}).senders
    for page in ("notify.md", "configuration-agents.md"):
        assert f"\n| `{channel}` |" in (DOCS / page).read_text()
