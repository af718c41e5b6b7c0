"""What an apply would do (R-14)."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

import pytest
from msgspec import Struct
from msgspec.structs import fields, replace

from rota.declare.plan import ChangeKind, differences, plan
from rota.model.agents import McpServer
from rota.model.budgets import Unit
from rota.model.errors import NameTaken
from rota.model.notifications import Channel, Target
from rota.model.params import ParamKind, ParamType
from rota.model.records import Job
from rota.model.spec import (
    AgentChoice,
    AgentWork,
    Condition,
    Deliver,
    Draw,
    EnvValue,
    Gates,
    Jitter,
    JobSpec,
    Kind,
    Limits,
    Member,
    Postcondition,
    RepeatedFailure,
    Retention,
    Sandbox,
    Schedule,
    SourceKind,
    Spend,
    Work,
    WorkSource,
)

NOW = datetime(2026, 11, 15, tzinfo=UTC)
FILE = "file"


def spec(name: str, cron: str = "0 2 * * *") -> JobSpec:
    return JobSpec(name, Work(Kind.COMMAND, ("a",)), Schedule(cron=(cron,)))


def stored(definition: JobSpec, *, source: str = FILE, retired: bool = False) -> Job:
    return Job(
        id=definition.name,
        name=definition.name,
        source=source,
        version=1,
        spec=definition,
        created_at=NOW,
        updated_at=NOW,
        enabled=True,
        retired_at=NOW if retired else None,
        used_up_at=None,
        next_for=None,
        next_at=None,
        anchored_at=None,
        fire_number=0,
        run_number=0,
        ledger_from=NOW,
    )


def kinds(found) -> list[tuple[str, str]]:
    return [(str(change.kind), change.name) for change in found.changes]


def test_r_14_each_job_is_created_updated_kept_revived_or_retired():
    found = plan(
        [spec("new"), spec("changed", "0 3 * * *"), spec("same"), spec("back")],
        [stored(spec("changed")), stored(spec("same")), stored(spec("back"), retired=True), stored(spec("gone"))],
        source=FILE,
    )
    assert kinds(found) == [
        ("create", "new"),
        ("update", "changed"),
        ("unchanged", "same"),
        ("revive", "back"),
        ("retire", "gone"),
    ]
    assert [change.name for change in found.changing] == ["new", "changed", "back", "gone"]


def test_applying_twice_changes_nothing():
    assert plan([spec("a")], [stored(spec("a"))], source=FILE).changing == ()


def test_a_retired_job_that_stays_away_is_not_retired_again():
    assert plan([spec("b")], [stored(spec("a"), retired=True)], source=FILE).changes[1:] == ()


def test_jobs_of_other_sources_are_never_touched():
    assert kinds(plan([spec("a")], [stored(spec("theirs"), source="api")], source=FILE)) == [("create", "a")]


def test_a_name_of_another_source_is_taken_also_in_another_case():
    theirs = [stored(spec("Backup"), source="api"), stored(spec("b"), source="api")]
    with pytest.raises(NameTaken) as caught:
        plan([spec("backup"), spec("b")], theirs, source=FILE)
    assert str(caught.value) == (
        "jobs of other sources have these names: 'Backup' (api), 'b' (api); "
        "choose another name, or take it over with `rota apply --adopt Backup --adopt b`"
    )


def test_a_name_of_another_source_can_be_adopted():
    found = plan([spec("a", "0 3 * * *")], [stored(spec("a"), source="api")], source=FILE, adopt=["a"])
    assert found.changes[0].kind is ChangeKind.ADOPT
    assert found.changes[0].differences == ('cron "0 2 * * *" -> "0 3 * * *"',)


def test_jobs_of_a_project_that_is_left_out_stay_and_do_not_make_a_file_empty():
    before = [stored(spec("api/triage")), stored(spec("web/triage"))]
    found = plan([], before, source=FILE, kept={"api", "web"})
    assert (kinds(found), found.empties) == ([], False)
    assert kinds(plan([], before, source=FILE, kept={"api"})) == [("retire", "web/triage")]


def test_from_some_jobs_to_none_is_told():
    assert plan([], [stored(spec("a"))], source=FILE).empties
    assert not plan([], [], source=FILE).empties
    assert not plan([], [stored(spec("a"), retired=True), stored(spec("b"), source="api")], source=FILE).empties
    assert not plan([spec("b")], [stored(spec("a"))], source=FILE).empties


BASE = spec("a")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            replace(BASE, schedule=Schedule(interval=timedelta(minutes=5))),
            ('cron "0 2 * * *" -> none', "interval none -> 5m"),
        ),
        (
            replace(BASE, schedule=Schedule(cron=("0 2 * * *", "0 4 * * *"))),
            ('cron "0 2 * * *" -> ["0 2 * * *", "0 4 * * *"]',),
        ),
        (replace(BASE, schedule=replace(BASE.schedule, jitter=Jitter(percent=10))), ("jitter none -> 10%",)),
        (replace(BASE, schedule=replace(BASE.schedule, end_at=NOW)), ("end_at none -> 2026-11-15T00:00:00Z",)),
        (replace(BASE, work=replace(BASE.work, timeout=None)), ('timeout 10m -> "never"',)),
        (replace(BASE, work=replace(BASE.work, command=("b", "c"))), ('command ["a"] -> ["b", "c"]',)),
        (replace(BASE, work=replace(BASE.work, params={"x": 1})), ('params none -> {"x": 1}',)),
        (replace(BASE, work=replace(BASE.work, env=(EnvValue("TOKEN", "hunter2"),))), ("env.TOKEN added",)),
        (replace(BASE, gates=Gates((Condition("up"),))), ('conditions none -> "up"',)),
        (replace(BASE, enabled=False), ("enabled true -> false",)),
        (replace(BASE, priority=5), ("priority 0 -> 5",)),
        (
            replace(BASE, retention=Retention(runs=None)),
            (
                (
                    "retention runs 365d, skipped 30d, skipped_count 10000, output 30d -> "
                    "runs forever, skipped 30d, skipped_count 10000, output 30d"
                ),
            ),
        ),
    ],
)
def test_differences_are_told_in_the_words_of_the_file(changed, said):
    [change] = plan([changed], [stored(BASE)], source=FILE).changes
    assert change.differences == said


OTHERS = {
    "cron": ("1 1 * * *",),
    "command": ("other",),
    "shell_with": ("bash", "-c"),
    "env": (EnvValue("A", "1"),),
    "env_pass": ("A",),
    "headers": (EnvValue("A", "1"),),
    "imports": ("chores",),
    "conditions": (Condition("up"),),
    "labels": ("x",),
    "notify": ("ops",),
    "ping": Target("ping", Channel.WEBHOOK, address="https://hc.example.net/a"),
    "notify_own": (Target("own", Channel.COMMAND, command=("tell",)),),
    "params": {"x": 1},
    "param_kinds": (ParamKind("x", ParamType.INT, required=True),),
    "agent": AgentWork("reviewer", "claude", "anthropic", "Look."),
    "members": (Member("extract", {"full": True}, always=True),),
    "pools": (Draw("gpu", 2),),
    "budgets": (Spend("day", 2_000_000, Unit.USD),),
    "jitter": Jitter(percent=5.0),
    "factor": 3.0,
    "on_repeated_failure": RepeatedFailure(),
    "at": NOW,
    "start_at": NOW,
    "end_at": NOW,
    "python": "python3",
    "env_file": ".env",
}


def another(name: str, value: object) -> object:
    """Return another value for a field."""
    if name in OTHERS:
        return OTHERS[name]
    if isinstance(value, StrEnum):
        return next(word for word in type(value) if word is not value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"{value}x"
    return value + 1 if isinstance(value, int) else timedelta(seconds=7)


def changed_in_one_place(record, top=()):
    """Yield the record with each of its fields changed, one at a time."""
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Struct):
            for path, inner in changed_in_one_place(value, (*top, field.name)):
                yield path, replace(record, **{field.name: inner})
        else:
            yield ".".join((*top, field.name)), replace(record, **{field.name: another(field.name, value)})


@pytest.mark.parametrize(("path", "changed"), list(changed_in_one_place(BASE)))
def test_no_change_of_a_spec_goes_untold(path, changed):
    assert changed != BASE
    assert differences(BASE, changed) != ()


ASKED = replace(BASE, work=Work(Kind.AGENT, agent=AgentWork("reviewer", "claude", "anthropic", "Look.")))
OF_AGENTS = {
    "agent": "writer",
    "model": "haiku",
    "max_turns": 5,
    "max_usd": 0.5,
    "allowed_tools": ("Read",),
    "options": {"a": [1]},
}


@pytest.mark.parametrize("field", [one.name for one in fields(AgentWork)])
def test_no_change_of_an_agents_work_goes_untold(field):
    work = ASKED.work.agent
    changed = replace(work, **{field: OF_AGENTS.get(field) or another(field, getattr(work, field))})
    [told] = differences(ASKED, replace(ASKED, work=replace(ASKED.work, agent=changed)))
    assert told.startswith({"options": "agents.options ", "source": "work_source "}.get(field, f"{field} "))


def test_a_change_of_the_work_source_is_told_by_its_key():
    old = WorkSource(SourceKind.GITHUB, "me/api", {"label": "ready"})
    jobs = [
        replace(ASKED, work=replace(ASKED.work, agent=replace(ASKED.work.agent, source=source)))
        for source in (old, replace(old, options={"label": "open"}))
    ]
    [told] = differences(*jobs)
    assert told.startswith('work_source github me/api {"label": "ready"')
    assert '-> github me/api {"label": "open"' in told


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        (
            "choices",
            (
                AgentChoice("a", "claude", "anthropic", model="opus"),
                AgentChoice("b", "codex", "openai", profile="deep"),
            ),
            'choices none -> [{"agent": "a (opus)", "max_concurrent": 1}, {"agent": "b", "max_concurrent": 1, "pro',
        ),
        (
            "mcp_servers",
            (McpServer("docs", ("npx", "docs"), tools=("search",)),),
            'mcp_servers none -> [{"name": "docs", "command": ["npx", "docs"], "tools": ["search"]}]',
        ),
        ("deliver", Deliver(("phone",)), "deliver none -> "),
    ],
)
def test_a_change_of_records_is_told(field, value, told):
    """A job that got a list of agents made `rota apply` fail with a TypeError."""
    changed = replace(ASKED.work.agent, **{field: value})
    [said] = differences(ASKED, replace(ASKED, work=replace(ASKED.work, agent=changed)))
    assert said.startswith(told)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sandbox", Sandbox(network=False)),
        ("limits", Limits(memory=1_000_000)),
        ("postcondition", Postcondition(shell="x")),
    ],
)
def test_a_change_of_what_surrounds_the_work_is_told(field, value):
    [said] = differences(BASE, replace(BASE, work=replace(BASE.work, **{field: value})))
    assert said.startswith(f"{field} none -> ")


def test_values_of_the_environment_are_not_shown():
    old = replace(BASE, work=replace(BASE.work, env=(EnvValue("A", "hunter1"), EnvValue("B", "x"))))
    new = replace(BASE, work=replace(BASE.work, env=(EnvValue("A", "hunter2"),)))
    assert plan([new], [stored(old)], source=FILE).changes[0].differences == ("env.B removed", "env.A changed")
