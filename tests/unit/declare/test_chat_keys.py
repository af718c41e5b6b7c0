"""`telegram:` and `slack:` with people that may answer, and `deliver:`: what a file may say, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from rota.declare.problems import BadValue
from rota.declare.project import Declared, read_project
from rota.declare.readers.chats import read_deliver, write_deliver
from rota.declare.readers.notifications import read_target, write_target
from rota.model.errors import FileProblems
from rota.model.notifications import Channel, ChatCommands
from rota.model.spec import Deliver, DeliverWhen

PHONE: dict[str, Any] = {"chat": 5, "users": [7], "commands": {"run": ["a"], "pause": ["b"], "status": True}}
TOKEN = {"secret": "BOT"}
OPS: dict[str, Any] = {"channel": "C0123456789", "bot_token": TOKEN}


def declared(folder: Path, text: str) -> Declared:
    (folder / "rota.yaml").write_text(text)
    return read_project(folder, environment={"HOME": str(folder)})


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(FileProblems) as caught:
        declared(folder, text)
    return [str(problem) for problem in caught.value.problems]


def test_a_telegram_chat_names_its_people_and_their_commands() -> None:
    found = read_target({"telegram": PHONE})
    assert (found.channel, found.address, found.users, found.address_secret) == (
        Channel.TELEGRAM,
        "5",
        ("7",),
        "TELEGRAM_BOT_TOKEN",
    )
    assert found.commands == ChatCommands(run=("a",), pause=("b",), status=True)
    assert found.questions


def test_a_slack_channel_needs_the_app_token_only_for_answers() -> None:
    assert read_target({"slack": OPS}).users == ()
    found = read_target(
        {"slack": {**OPS, "app_token": {"secret": "APP"}, "users": ["U0123456789"], "questions": False}}
    )
    assert (found.app_secret, found.users, found.questions) == ("APP", ("U0123456789",), False)


@pytest.mark.parametrize(
    "written",
    [
        {"telegram": "5"},
        {"telegram": "5", "token": TOKEN},
        {"telegram": {"chat": "5", "token": TOKEN, "users": ["7"], "questions": False}},
        {"telegram": {"chat": "5", "users": ["7"], "commands": {"run": ["a"], "status": True}}},
        {"telegram": {"chat": "5", "api_url": "http://10.0.0.5:81"}, "allow_private": ["10.0.0.5:81"]},
        {"slack": OPS},
        {"slack": {**OPS, "app_token": {"secret": "APP"}, "users": ["U0123456789"]}},
    ],
)
def test_a_chat_is_written_as_it_was_read(written: dict[str, Any]) -> None:
    assert write_target(read_target(written)) == written


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"telegram": {"users": [7]}}, "has no `chat`"),
        ({"telegram": {**PHONE, "chat": "@channel"}}, "cannot answer in a channel"),
        ({"telegram": {**PHONE, "users": []}}, "is not a list of people"),
        ({"telegram": {**PHONE, "users": ["ada"]}}, "is not a person"),
        ({"telegram": {**PHONE, "users": list(range(101))}}, "has 101 entries"),
        ({"telegram": {"chat": 5, "commands": {"status": True}}}, "has no effect without `users`"),
        ({"telegram": {"chat": 5, "questions": False}}, "has no effect without `users`"),
        ({"telegram": {**PHONE, "commands": {"stop": ["a"]}}}, "unknown key"),
        ({"telegram": {**PHONE, "commands": {"run": ["a; rm"]}}}, "is not the name of a job"),
        ({"telegram": {**PHONE, "token": "123:abc"}}, "is a literal secret"),
        ({"telegram": {**PHONE, "api_url": "http://127.0.0.1:81"}}, "uses http"),
        ({"telegram": {**PHONE, "api_url": "https://10.0.0.1"}}, "leads to a private address"),
        ({"telegram": PHONE, "token": TOKEN}, "stands beside a map"),
        ({"slack": "C0123456789"}, "is not a map of keys"),
        ({"slack": {"channel": "C0123456789"}}, "has no `bot_token`"),
        ({"slack": {**OPS, "channel": "#ops"}}, "is not a channel"),
        ({"slack": {**OPS, "users": ["U0123456789"]}}, "without `app_token`"),
        ({"slack": {**OPS, "app_token": TOKEN}}, "has no effect without `users`"),
        ({"slack": OPS, "signing": TOKEN}, "has no effect without `webhook`"),
        ({"telegram": 5, "on": "result"}, "only `deliver:` of a job sends an answer"),
    ],
)
def test_what_cannot_be_kept_is_refused(written: dict[str, Any], told: str) -> None:
    with pytest.raises(BadValue) as caught:
        read_target(written)
    assert told in " ".join(str(problem) for problem in (caught.value, *caught.value.problems))


def test_the_jobs_of_commands_must_exist(tmp_path: Path) -> None:
    top = "notify: {phone: {telegram: {chat: 5, users: [7], commands: {run: [backup, bakcup], pause: [nightly]}}}}\n"
    found = problems(tmp_path, f"{top}jobs:\n  backup: {{command: x}}\ngroups:\n  nightly: {{members: [backup]}}\n")
    assert len(found) == 1
    assert found[0].startswith("rota.yaml:1:")
    assert 'no job is named "bakcup"' in found[0]
    assert 'did you mean "backup"?' in found[0]


def test_a_target_in_a_job_has_no_way_back(tmp_path: Path) -> None:
    text = "jobs:\n  a: {command: x, notify: {telegram: {chat: 5, users: [7]}}}\n"
    assert "can answer only to a target with a name" in problems(tmp_path, text)[0]


def test_deliver_names_targets_of_the_file(tmp_path: Path) -> None:
    top = "notify: {phone: {telegram: 5}}\n"
    found = declared(tmp_path, f"{top}jobs:\n  a: {{prompt: x, deliver: phone}}\n")
    assert found.jobs[0].deliver == Deliver(("phone",))
    assert found.jobs[0].notifies
    wrong = problems(
        tmp_path,
        f"{top}jobs:\n  a: {{prompt: x, deliver: {{to: [phone, phon]}}}}\n  b: {{command: x, deliver: phone}}\n",
    )
    assert 'no target is named "phon"' in wrong[0]
    assert "has no effect without an agent's work" in wrong[1]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"to": "phone"}, Deliver(("phone",))),
        ({"to": "phone", "when": "always"}, Deliver(("phone",), DeliverWhen.ALWAYS)),
        ({"to": ["a", "b"], "when": "failed"}, Deliver(("a", "b"), DeliverWhen.FAILED)),
    ],
)
def test_deliver_is_written_as_it_was_read(written: dict[str, Any], read: Deliver) -> None:
    assert read_deliver(written) == read
    assert write_deliver(read) == written


@pytest.mark.parametrize("written", [{"when": "said"}, {"to": []}, {"to": "a", "when": "never"}, {"to": 7}, 7, ""])
def test_a_wrong_deliver_is_refused(written: Any) -> None:
    with pytest.raises(BadValue):
        read_deliver(written)
