"""`notify:` and `finish_by:` as a file writes them: who is told, of what, and everything that cannot be."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rota.declare.problems import BadValue
from rota.declare.project import Declared, read_project
from rota.declare.readers.notifications import (
    read_finish_by,
    read_notify,
    read_ping,
    read_target,
    write_notify,
    write_target,
)
from rota.model.errors import FileProblems
from rota.model.notifications import USUAL, Channel, Event, Target

HOOK = "https://hooks.example.net/rota"
TOP = f"notify:\n  ops: {{on: [failed, recovered], webhook: {HOOK}}}\n  log: {{on: completed, command: [./tell]}}\n"


def declared(folder: Path, text: str) -> Declared:
    (folder / "rota.yaml").write_text(text)
    return read_project(folder, environment={"HOME": str(folder)})


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(FileProblems) as caught:
        declared(folder, text)
    return [str(problem) for problem in caught.value.problems]


def test_targets_at_the_top_are_named_by_jobs_groups_and_defaults(tmp_path: Path) -> None:
    found = declared(
        tmp_path,
        TOP + "defaults: {notify: ops}\n"
        "jobs:\n  a: {command: x}\n  b: {command: x, notify: [log, ops]}\n  c: {command: x, notify: none}\n"
        "groups:\n  g: {members: [a], notify: log}\n  h: {members: [a]}\n",
    )
    told = {spec.name: spec.notify for spec in found.jobs}
    assert told == {"a": ("ops",), "b": ("log", "ops"), "c": (), "g": ("log",), "h": ("ops",)}
    assert found.settings.notify["ops"] == Target("ops", Channel.WEBHOOK, (Event.FAILED, Event.RECOVERED), address=HOOK)
    assert found.settings.notify["log"].command == ("./tell",)


def test_a_target_may_be_written_in_the_job(tmp_path: Path) -> None:
    found = declared(tmp_path, f"jobs:\n  a: {{command: x, notify: {{on: [failed], webhook: {HOOK}}}}}\n")
    assert found.jobs[0].notify_own == (Target("own", Channel.WEBHOOK, (Event.FAILED,), address=HOOK),)
    assert found.jobs[0].notifies


def test_without_on_failures_lateness_and_recoveries_are_told() -> None:
    assert read_target({"webhook": HOOK}).on == USUAL == (Event.FAILED, Event.LATE, Event.RECOVERED)


def test_every_key_of_a_target_is_read_and_written_back() -> None:
    written: dict[str, Any] = {
        "on": ["failed", "missed"],
        "webhook": {"secret": "HOOK_URL"},
        "signing": [{"secret": "NEW"}, {"secret": "OLD"}],
        "allow_private": ["10.0.0.5:8080"],
        "remind": "2h",
        "timeout": "5s",
    }
    found = read_target(written)
    assert found == Target(
        "own",
        Channel.WEBHOOK,
        (Event.FAILED, Event.MISSED),
        address_secret="HOOK_URL",
        signing=("NEW", "OLD"),
        allow_private=("10.0.0.5:8080",),
        remind=timedelta(hours=2),
        timeout=timedelta(seconds=5),
    )
    assert write_target(found) == written
    assert read_target({"command": ["a"], "remind": "always"}).remind is None


def test_what_is_written_is_read_back_the_same() -> None:
    own = read_target({"apprise": {"secret": "PHONE"}, "on": "failed"})
    found = read_notify(write_notify(["ops"], [own]))
    assert ([name for name, _ in found.names], found.own) == (["ops"], (own,))


def test_a_telegram_chat_is_told_by_the_bot_whose_token_is_a_secret() -> None:
    usual = read_target({"telegram": -100123})
    assert (usual.address, usual.address_secret) == ("-100123", "TELEGRAM_BOT_TOKEN")
    own = read_target({"telegram": "@ops_channel", "token": {"secret": "BOT"}})
    assert (own.address, own.address_secret) == ("@ops_channel", "BOT")
    assert [read_target(write_target(target)) for target in (usual, own)] == [usual, own]


def test_several_targets_written_in_a_job_have_names_of_their_own() -> None:
    found = read_notify([{"webhook": HOOK}, {"command": "tell"}])
    assert [target.name for target in found.own] == ["own", "own-2"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"webhook": "https://127.1/"}, "leads to a private address"),
        ({"webhook": "http://hooks.example.net"}, "uses http"),
        ({"webhook": "https://me:pw@hooks.example.net"}, "a user or a password"),
        ({"webhook": "ftp://hooks.example.net"}, "not an http or https address"),
        ({"apprise": "mailto://me:pw@example.net"}, "is a literal secret"),
        ({"webhook": HOOK, "command": "x"}, "has webhook and command"),
        ({"on": ["failed"]}, "has no channel"),
        ({"webhook": HOOK, "on": ["faild"]}, '"faild" is not one of'),
        ({"webhook": HOOK, "on": ["test"]}, "only `rota notify test` sends a test"),
        ({"webhook": HOOK, "on": "digest"}, "a digest has times of day"),
        ({"webhook": HOOK, "on": "ping"}, "the key `ping` of a job sends pings"),
        ({"webhook": HOOK, "digest": "7h"}, "is not a time of the day"),
        ({"webhook": HOOK, "digest": "24:00"}, "is not a time of the day"),
        ({"webhook": HOOK, "digest": []}, "has 0 entries"),
        ({"webhook": HOOK, "on": []}, "is an empty list"),
        ({"webhook": HOOK, "url": "x"}, "unknown key"),
        ({"webhook": HOOK, "signing": "hunter2"}, "is not a secret"),
        ({"webhook": HOOK, "signing": [{"secret": "A"}] * 3}, "is not a secret"),
        ({"command": "x", "signing": {"secret": "A"}}, "has no effect without `webhook`"),
        ({"webhook": HOOK, "allow_private": ["10.0.0.5"]}, "is not a host and a port"),
        ({"webhook": HOOK, "allow_private": ["*:80"]}, "is not a host and a port"),
        ({"webhook": HOOK, "timeout": "1h"}, "is not between"),
        ({"telegram": "chat"}, "is not a chat"),
        ({"telegram": True}, "is not a chat"),
        ({"telegram": 1, "token": "123:abc"}, "is a literal secret"),
        ({"webhook": HOOK, "token": {"secret": "A"}}, "has no effect without `telegram`"),
        ("https", "is not a target"),
    ],
)
def test_a_target_that_cannot_be_is_refused(value: Any, said: str) -> None:
    with pytest.raises(BadValue) as caught:
        read_target(value)
    message = caught.value.problems[0].message
    assert said in message
    assert "hunter2" not in message or said == "is not a secret"


def test_an_unknown_target_is_told_with_its_place_and_the_nearest_name(tmp_path: Path) -> None:
    told = problems(tmp_path, TOP + "defaults: {notify: nobody}\njobs:\n  a: {command: x, notify: [log, opps]}\n")
    assert told[0].startswith('rota.yaml:4:12: defaults.notify: no target is named "nobody"; declare it at the top')
    assert told[1] == 'rota.yaml:6:33: jobs.a.notify[1]: no target is named "opps"; did you mean "ops"?'


@pytest.mark.parametrize("name", ["none", "own", "own-2", "a b", "-x"])
def test_a_name_that_means_something_else_is_refused(tmp_path: Path, name: str) -> None:
    told = problems(tmp_path, f'notify:\n  "{name}": {{command: x}}\njobs: {{}}\n')
    assert "cannot be a target's name" in told[0]


def test_a_target_that_is_wrong_makes_no_trouble_in_the_jobs_that_name_it(tmp_path: Path) -> None:
    told = problems(tmp_path, "notify:\n  ops: {webhook: x}\njobs:\n  a: {command: x, notify: ops}\n")
    assert len(told) == 1


def test_finish_by_needs_a_schedule_and_somebody_to_tell(tmp_path: Path) -> None:
    jobs = 'jobs:\n  a: {command: x, notify: ops, finish_by: "6:00"}\n'
    text = f'{TOP}{jobs}  b: {{cron: "@daily", command: x, finish_by: "6:00"}}\n'
    told = problems(tmp_path, text)
    assert "jobs.a.finish_by: has no effect without a schedule" in told[0]
    assert "jobs.b.finish_by: has no effect without `notify`" in told[1]
    fine = declared(tmp_path, TOP + 'jobs:\n  a: {cron: "@daily", command: x, notify: ops, finish_by: "6:00"}\n')
    assert fine.jobs[0].finish_by == "06:00"


@pytest.mark.parametrize("value", ["25:00", "06:60", "6", "06:0", 360, "", None, "٠٦:٠٠"])
def test_what_is_no_time_of_the_day_is_refused(value: Any) -> None:
    with pytest.raises(BadValue):
        read_finish_by(value)


def test_the_pinged_address_is_an_address_a_secret_or_a_private_one_that_is_allowed() -> None:
    ping = Target("ping", Channel.WEBHOOK, address="https://watch.example.net/1")
    assert read_ping("https://watch.example.net/1") == ping
    assert read_ping({"secret": "PING"}) == replace(ping, address="", address_secret="PING")
    url, allowed = "http://10.0.0.5:80/", ("10.0.0.5:80",)
    assert read_ping({"url": url, "allow_private": list(allowed)}) == replace(ping, address=url, allow_private=allowed)
    with pytest.raises(BadValue):
        read_ping(url)


def test_targets_of_included_projects_are_shared_by_name(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "rota.yaml").write_text(
        f"notify: {{ops: {{webhook: {HOOK}/api}}, mine: {{command: [./tell]}}}}\n"
        "jobs:\n  a: {command: x, notify: [ops, mine]}\n"
    )
    found = declared(tmp_path, TOP + "include: [api/rota.yaml]\njobs: {}\n")
    assert found.settings.notify["ops"].address == HOOK
    assert found.settings.notify["mine"].cwd == str(tmp_path / "api")
    assert found.jobs[0].notify == ("ops", "mine")
    assert any("notify.ops of" in note for note in found.notes)


def test_people_hear_of_items_by_default_and_programs_if_they_ask() -> None:
    assert read_target({"telegram": 1}).on == (*USUAL, Event.ATTENTION)
    assert read_target({"webhook": HOOK}).on == USUAL
    for written in ({"telegram": "1"}, {"telegram": "1", "on": ["failed", "late", "recovered"]}):
        assert write_target(read_target(written)) == written


@pytest.mark.parametrize("written", ["attention", "resolved"])
def test_a_target_in_a_job_has_no_events_of_items(written: str) -> None:
    with pytest.raises(BadValue, match="is no event of a job"):
        read_notify({"webhook": HOOK, "on": ["failed", written]})
    assert read_notify({"telegram": 1}).own[0].on == USUAL


def test_a_digest_has_one_time_or_several_and_belongs_to_a_target_of_the_file() -> None:
    assert read_target({"telegram": 1, "digest": "7:30"}).digest == ("07:30",)
    target = read_target({"telegram": 1, "digest": ["18:00", "09:00", "09:00"]})
    assert target.digest == ("09:00", "18:00")
    assert read_target(write_target(target)) == target
    with pytest.raises(BadValue, match="a digest is about all jobs"):
        read_notify({"telegram": 1, "digest": "07:30"})


def test_a_job_pings_its_own_address_that_of_the_defaults_or_none(tmp_path: Path) -> None:
    jobs = "  a: {command: x}\n  b: {command: x, ping: none}\n  c: {command: x, ping: 'https://hc.example.net/c'}\n"
    found = declared(tmp_path, f"defaults: {{ping: {{secret: HC}}}}\njobs:\n{jobs}")
    a, b, c = (job.ping for job in found.jobs)
    assert a is not None
    assert a.address_secret == "HC"
    assert b is None
    assert c is not None
    assert c.address == "https://hc.example.net/c"


def test_an_address_that_is_no_place_for_a_ping_is_refused(tmp_path: Path) -> None:
    told = problems(tmp_path, "jobs:\n  a: {command: x, ping: 'https://127.1/'}\n")
    assert "leads to a private address" in told[0]
