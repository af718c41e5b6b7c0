"""`rota notify` and `rota deliveries`: who is told, what was told, and doing it by hand."""

import base64
from collections.abc import Iterator
from functools import partial

import pytest

from rota.model.notifications import DeliveryResult, DeliveryStatus, Event
from rota.operations.notifications import trial_payload
from rota.operations.project.locate import open_state
from rota.store.driver import Database
from rota.store.tables import notifications
from tests.faces.conftest import Project, StillClock
from tests.stub_server import Reply, StubServer, serving

NOW = StillClock().now()
SECRET = f"whsec_{base64.b64encode(b'k' * 32).decode()}"


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving(Reply(b"")) as found:
        yield found


@pytest.fixture
def told(project: Project, server: StubServer) -> Project:
    """A project whose job tells a server on this machine, and has told it of two runs."""
    place = server.url.removeprefix("http://")
    project.applied(
        f"notify:\n  ops: {{webhook: {server.url}/hook, signing: {{secret: HOOK}}, allow_private: ['{place}']}}\n"
        "  log: {on: completed, command: [sh, -c, 'cat > told']}\n"
        "jobs:\n  backup: {command: 'true', notify: ops}\n"
    )
    secrets = project.state / "secrets.env"
    secrets.touch(0o600)
    secrets.write_text(f"HOOK={SECRET}\n")
    for _ in range(2):
        project.ok("trigger", "backup")
        project.ok("cancel", "backup", "--yes")
    return project


def deliver(project: Project, *statuses: DeliveryStatus) -> None:
    store = open_state(project.folder / ".rota", project.clock, create=False)
    try:
        runs = [run["id"] for run in reversed(project.json("history", "--all"))]
        for number, (run_id, status) in enumerate(zip(runs, statuses, strict=False), start=1):
            store.write(partial(_deliver, run_id=run_id, handle=f"backup:{number}", status=status))
    finally:
        store.close()


def _deliver(db: Database, *, run_id: str, handle: str, status: DeliveryStatus) -> None:
    target = notifications.targets(db)["ops"]
    notifications.insert(db, target, Event.FAILED, run_id=run_id, handle=handle, own=False, now=NOW)
    (made,) = notifications.listed(db, run_id=run_id, limit=1)
    if status is not DeliveryStatus.PENDING:
        failed = DeliveryResult(ok=False, answer=500, error="500 no")
        receipt = failed if status is DeliveryStatus.FAILED else DeliveryResult(ok=True, answer=0)
        notifications.done(db, made.id, status, receipt=receipt, now=NOW)


def test_a_test_is_sent_to_the_target_of_the_file(told: Project, server: StubServer) -> None:
    assert told.ok("notify", "test", "ops") == "ops: delivered, answered 200\n"
    assert b'"event":"test"' in server.bodies[0]
    assert "webhook-signature" in {name.lower() for name in server.asked[0][1]}


def test_a_test_that_is_not_delivered_says_why_and_exits_with_1(told: Project, server: StubServer) -> None:
    server.reply = Reply(b"go away", 403)
    result = told.rota("notify", "test", "ops")
    assert (result.exit_code, result.stdout) == (1, "ops: not delivered: 403 Forbidden: go away\n")
    assert told.json("notify", "test", "ops")["ok"] is False


def test_a_secret_that_is_missing_is_told_by_its_name(told: Project) -> None:
    (told.state / "secrets.env").unlink()
    result = told.rota("notify", "test", "ops")
    assert result.exit_code == 1
    assert "secret 'HOOK' is in none of" in result.stdout


def test_a_command_is_tried_out_too(told: Project) -> None:
    told.ok("notify", "test", "log")
    assert '"event":"test"' in (told.folder / "told").read_text()


def test_an_unknown_target_is_told_with_the_nearest_name(told: Project) -> None:
    result = told.rota("notify", "test", "opps")
    assert result.exit_code == 2
    assert "no target is named 'opps'" in result.stderr
    assert "did you mean 'ops'?" in result.stderr


def test_the_targets_are_listed_without_what_is_secret(told: Project) -> None:
    printed = told.ok("notify")
    assert "failed, late, recovered" in printed
    assert SECRET not in printed
    assert [one["name"] for one in told.json("notify")] == ["log", "ops"]


def test_the_secrets_of_targets_are_listed_with_the_targets_that_name_them(told: Project) -> None:
    """R-27."""
    assert told.json("secrets") == [
        {
            "name": "HOOK",
            "source": "secrets.env",
            "origin": None,
            "jobs": [],
            "targets": ["ops"],
            "sections": [],
            "store": False,
        }
    ]
    assert "notify.ops" in told.ok("secrets")


def test_a_project_without_targets_says_how_to_declare_some(project: Project) -> None:
    project.applied("jobs:\n  a: {command: 'true'}\n")
    assert "declare some under `notify:`" in project.ok("notify")
    assert project.ok("deliveries") == "no deliveries\n"


def test_deliveries_are_listed_and_filtered(told: Project) -> None:
    deliver(told, DeliveryStatus.FAILED, DeliveryStatus.DELIVERED)
    assert [one["run"] for one in told.json("deliveries")] == ["backup:2", "backup:1"]
    assert [one["run"] for one in told.json("deliveries", "--failed")] == ["backup:1"]
    assert told.json("deliveries", "--pending") == []
    assert [one["run"] for one in told.json("deliveries", "--job", "backup:2")] == ["backup:2"]
    assert len(told.json("deliveries", "--job", "backup")) == 2
    assert told.json("deliveries", "--target", "log") == []
    assert "500 no" in told.ok("deliveries")
    assert "DELIVERED  0         exit 0" in told.ok("deliveries")
    assert told.rota("deliveries", "--failed", "--pending").exit_code == 2


def test_a_delivery_is_sent_again_under_its_own_id(told: Project) -> None:
    deliver(told, DeliveryStatus.FAILED, DeliveryStatus.DELIVERED)
    failed = told.json("deliveries", "--failed")[0]["id"]
    assert "nothing was changed" in told.ok("deliveries", "retry", "--failed", "--dry-run")
    assert told.json("deliveries", "--pending") == []
    assert "failed of backup:1 to ops: queued again" in told.ok("deliveries", "retry", failed[-8:])
    (pending,) = told.json("deliveries", "--pending")
    assert (pending["id"], pending["attempts"]) == (failed, 0)


def test_retrying_names_something(told: Project) -> None:
    assert told.rota("deliveries", "retry").exit_code == 2
    result = told.rota("deliveries", "retry", "nothing")
    assert result.exit_code == 2
    assert "no delivery is named 'nothing'" in result.stderr
    assert "nothing to resend" in told.ok("deliveries", "retry", "--failed")


def test_a_target_that_was_switched_off_is_enabled_again(told: Project) -> None:
    assert told.ok("notify", "enable", "ops") == "ops was not disabled\n"
    store = open_state(told.folder / ".rota", told.clock, create=False)
    endpoint = store.read(notifications.targets)["ops"].endpoint
    store.write(partial(notifications.endpoint_gone, name=endpoint, error="410 Gone", now=NOW))
    store.close()
    assert "off: 410 Gone" in told.ok("notify")
    assert told.ok("notify", "enable", "ops") == "ops is enabled again\n"
    assert "off:" not in told.ok("notify")


def test_a_test_has_the_shape_of_every_other_message(told: Project) -> None:
    shape = [*told.json("history", "--all")[0]]
    sent = trial_payload("id", now=NOW)
    assert sent.pop("event") == "test"
    assert sorted(sent) == sorted(key for key in shape if key in sent)
    assert {"id", "run", "job", "status", "reason", "error", "usage", "session_id"} <= set(sent)


def test_what_nobody_heard_needs_attention_until_it_is_sent_again(told: Project) -> None:
    deliver(told, DeliveryStatus.FAILED, DeliveryStatus.FAILED)
    (one,) = told.json("status")["attention"]
    assert (one["name"], one["what"]) == ("ops", "2 notifications failed: 500 no")
    told.ok("deliveries", "retry", "--failed")
    assert told.json("status")["attention"] == []


CHATS = """
notify: {me: {telegram: 123456789}, ops: {webhook: {secret: OPS_URL}}}
jobs:
  nightly: {cron: "0 2 * * *", command: [echo, hi], notify: [me, {telegram: 42, token: {secret: OWN_TOKEN}}]}
"""


def test_a_secret_of_the_ping_url_or_of_http_that_is_missing_is_noted(project: Project) -> None:
    project.write(
        "scheduler: {ping_url: {secret: PING}}\njobs: {a: {command: [echo]}}\n"
        "http: {trusted_header: X-User, proxies: [10.0.0.5], people: {anna: read}, proxy_secret: {secret: PROXY}}\n"
    )
    [note] = project.json("check")["notes"]
    assert note.startswith("scheduler.ping_url: no ping is sent without the secret PING")
    told = project.rota("doctor").stdout
    assert "PING is missing, and needed by scheduler.ping_url" in told
    assert "PROXY is missing, and needed by http" in told
    secrets = {one["name"]: (one["source"], one["sections"]) for one in project.json("secrets")}
    assert secrets == {"PING": ("missing", ["scheduler.ping_url"]), "PROXY": ("missing", ["http"])}


def test_check_notes_targets_whose_secrets_are_found_nowhere(project: Project) -> None:
    project.write(CHATS)

    def untold() -> list[str]:
        notes = project.json("check")["notes"]
        return [note.partition(":")[0] for note in notes if "no notification is sent" in note]

    assert untold() == ["notify.ops", "nightly", "notify.me"]
    assert (
        "notify.me: no notification is sent without the secret TELEGRAM_BOT_TOKEN; `rota secrets set "
        "TELEGRAM_BOT_TOKEN` stores it, unless the scheduler's own environment or `secrets:` of rota.yaml has it"
    ) in project.json("check")["notes"]
    assert "TELEGRAM_BOT_TOKEN is missing, and needed by notify.me" in project.rota("doctor").stdout
    for name in ("OPS_URL", "OWN_TOKEN", "TELEGRAM_BOT_TOKEN"):
        (project.state / "secrets.env").parent.mkdir(exist_ok=True)
        with (project.state / "secrets.env").open("a") as file:
            file.write(f"{name}=x\n")
    (project.state / "secrets.env").chmod(0o600)
    assert untold() == []
