"""Webhooks against a server on this machine: what is sent, what counts as delivered, and what is never shown."""

import base64
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError
from tests.stub_server import Reply, StubServer, serving
from tests.waiting import LONGEST_WAIT

from rota.engine.clock import SystemClock
from rota.model.errors import AddressRefused, AddressUnknown, InvalidValue
from rota.model.notifications import DeliveryResult
from rota.runners.senders import WebhookRequest, pin, send_webhook, signed

SECRET = f"whsec_{base64.b64encode(b'k' * 32).decode()}"
NEWER = f"whsec_{base64.b64encode(b'n' * 32).decode()}"
PUBLIC = "93.184.215.14"


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving() as found:
        yield found


def place(server: StubServer) -> str:
    return server.url.removeprefix("http://")


def post(server: StubServer, reply: Reply | None = None, **changes: Any) -> DeliveryResult:
    server.reply = reply or Reply(b"")
    usual: dict[str, Any] = {
        "url": f"{server.url}/hook?a=1",
        "body": '{"event":"failed"}',
        "allow_private": [place(server)],
    }
    return send_webhook(WebhookRequest(**{**usual, **changes}))


def test_a_body_is_posted_to_the_address_under_its_own_name(server: StubServer) -> None:
    assert post(server, headers={"webhook-id": "msg_1"}) == DeliveryResult(ok=True, answer=200)
    path, headers = server.asked[0]
    assert path == "/hook?a=1"
    told = {name.lower(): value for name, value in headers.items()}
    assert (told["host"], told["webhook-id"]) == (place(server), "msg_1")
    assert told["content-type"] == "application/json"
    assert server.bodies == [b'{"event":"failed"}']


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_two_hundreds_are_delivered(server: StubServer, status: int) -> None:
    assert post(server, Reply(b"", status)).ok


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_everything_else_is_not(server: StubServer, status: int) -> None:
    receipt = post(server, Reply(b"no\x1b[31m\nway", status))
    assert (receipt.ok, receipt.answer, receipt.hopeless, receipt.gone) == (False, status, False, False)
    assert (receipt.error or "").endswith(": no [31m way")


def test_a_redirect_is_not_followed(server: StubServer) -> None:
    receipt = post(server, Reply(b"", 302, {"Location": "http://169.254.169.254/"}))
    assert (receipt.ok, receipt.error) == (False, "302 Found: redirects are not followed")
    assert len(server.asked) == 1


def test_gone_is_for_good(server: StubServer) -> None:
    assert post(server, Reply(b"", 410)).gone


def test_retry_after_is_heard(server: StubServer) -> None:
    assert post(server, Reply(b"", 429, {"Retry-After": "30"})).wait == 30


def test_an_answer_is_not_unpacked_and_only_its_beginning_read(server: StubServer) -> None:
    packed = post(server, Reply(b"\x1f\x8b\x08 bomb", 500, {"Content-Encoding": "gzip"}))
    assert packed.error == "500 Internal Server Error"
    long = post(server, Reply(b"x" * 1_000_000, 500))
    assert len(long.error or "") < 300


def test_a_server_that_never_answers_is_given_up(server: StubServer) -> None:
    receipt = post(server, Reply(silent=True), timeout=0.2)
    assert not receipt.ok
    assert "Timeout" in (receipt.error or "")


def test_a_server_that_drips_its_answer_is_given_up_and_its_socket_closed(server: StubServer) -> None:
    """The timeout of a client begins anew with every byte."""
    receipt = post(server, Reply(drips=True), timeout=0.3)
    assert receipt == DeliveryResult(ok=False, error="TimeoutError: no answer within 0.3 s")
    assert server.hung_up.wait(LONGEST_WAIT)


def test_nobody_there_is_a_failure_that_may_pass() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    receipt = send_webhook(WebhookRequest(f"http://127.0.0.1:{port}/", "{}", allow_private=[f"127.0.0.1:{port}"]))
    assert (receipt.ok, receipt.hopeless) == (False, False)


def test_a_private_address_is_not_connected_to(server: StubServer) -> None:
    receipt = post(server, allow_private=[])
    assert (receipt.ok, receipt.hopeless) == (False, True)
    assert server.asked == []


def test_proxies_of_the_environment_are_not_used(server: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert post(server).ok


# the guard


def test_the_address_that_was_judged_is_the_one_that_is_connected_to() -> None:
    found = pin("https://hooks.example.net:8443/a?b=1", resolve=lambda _name, _port: [PUBLIC])
    assert found.url == f"https://{PUBLIC}:8443/a?b=1"
    assert (found.host, found.name) == ("hooks.example.net:8443", "hooks.example.net")


def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    with pytest.raises(AddressRefused, match="leads to a private address"):
        pin("https://rebinding.example.net/", resolve=lambda _name, _port: [PUBLIC, "127.0.0.1"])


def test_a_name_is_resolved_once() -> None:
    """Rebinding: the second answer of a name that changes is never asked for."""
    answers = iter([[PUBLIC], ["169.254.169.254"]])
    assert PUBLIC in pin("https://rebinding.example.net/", resolve=lambda _name, _port: next(answers)).url
    assert next(answers) == ["169.254.169.254"]


def test_a_name_without_an_address_may_have_one_later() -> None:
    with pytest.raises(AddressUnknown):
        pin("https://hooks.example.net/", resolve=lambda _name, _port: [])


# signatures


def test_a_receiver_verifies_the_signature_with_the_standard_library_of_webhooks() -> None:
    body, at = '{"event":"failed","error":"Zoë"}', SystemClock().now()
    headers = signed(body, message="msg_1", at=at, secrets=[SECRET])
    assert Webhook(SECRET).verify(body, headers) == {"event": "failed", "error": "Zoë"}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body.replace("failed", "completed"), headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEWER).verify(body, headers)


def test_while_a_secret_is_changed_both_sign() -> None:
    headers = signed("{}", message="msg_1", at=SystemClock().now(), secrets=[NEWER, SECRET])
    for secret in (SECRET, NEWER):
        Webhook(secret).verify("{}", headers)


def test_without_a_secret_there_is_no_signature() -> None:
    headers = signed("{}", message="msg_1", at=datetime(2026, 11, 16, tzinfo=UTC), secrets=[])
    assert headers == {"webhook-id": "msg_1", "webhook-timestamp": "1794787200"}


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_c2hvcnQ=", "hunter2", SECRET.removeprefix("whsec_"), "whsec_!!"]
)
def test_a_secret_that_cannot_sign_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(InvalidValue, match="wrong format") as caught:
        signed("{}", message="msg_1", at=SystemClock().now(), secrets=[secret])
    assert not secret or secret == "whsec_" or secret not in str(caught.value)


def test_a_drip_of_headers_does_not_keep_the_sender_for_ever() -> None:
    """Its caller waits for the timeout and a little more, whatever the thread does; here the read itself times out."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=lambda: server.accept()[0].recv(10), daemon=True).start()
        receipt = send_webhook(
            WebhookRequest(f"http://127.0.0.1:{port}/", "{}", allow_private=[f"127.0.0.1:{port}"], timeout=0.2)
        )
    assert not receipt.ok
