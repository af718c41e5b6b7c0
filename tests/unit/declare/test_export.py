"""What `rota export` writes declares the very specs that were stored."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.declare.applicability import default_misfire, default_when_false
from rota.declare.export import Top, export_keys, export_text, schedule_word
from rota.declare.project import read_project
from rota.declare.readers.notifications import read_ping
from rota.model.budgets import Account, Exceeded, Per, Price, Unit
from rota.model.spec import (
    Anchor,
    Condition,
    Draw,
    EnvValue,
    FirstRun,
    Gates,
    GroupMode,
    Isolate,
    Jitter,
    JobSpec,
    Kind,
    Limits,
    Member,
    Misfire,
    MisfirePolicy,
    Names,
    OnFailure,
    OnRestart,
    OutputPolicy,
    Overlap,
    OverlapPolicy,
    Pace,
    Postcondition,
    QuietHours,
    QuietPolicy,
    RepeatedFailure,
    Retention,
    Retry,
    Sandbox,
    Schedule,
    Spend,
    WhenFalse,
    Work,
)
from rota.rules.power import BATTERY

FOLDER = "/srv/project"
ACCOUNTS = {
    "day": Account("day", Unit.USD, 12_500_000, Per.DAY, "Europe/Berlin"),
    "week": Account("week", Unit.RUNS, 60, Per.WEEK, "Asia/Tokyo", Exceeded.SKIP),
    "worker": Account("worker", Unit.REQUESTS, 10_000, Per.MINUTE, "Europe/Berlin", Exceeded.WARN, 11),
}
TOP = Top(
    FOLDER,
    "Europe/Berlin",
    pools={"gpu": 5, "ollama": 5},
    budgets=ACCOUNTS,
    prices={"sonnet": Price(3_000_000, 15_000_000), "a b": Price(100_000, 0, cached_input=10_000)},
)
SPENDS = st.sampled_from([(), ("day",), ("week",), ("day", "week", "worker")])
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00{"), min_size=1, max_size=20)
WORDS = TEXT.filter(lambda text: bool(text.strip()))
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
SPANS = st.integers(1, 100_000).map(lambda seconds: timedelta(seconds=seconds))
POSTCONDITIONS = st.builds(Postcondition, command=st.tuples(WORDS), timeout=SPANS) | st.builds(
    Postcondition, shell=WORDS, timeout=SPANS
)
LIMITS = st.builds(Limits, memory=st.integers(1, 10**12), cpus=st.none() | st.sampled_from([0.5, 2.0]))
SANDBOXES = st.builds(
    Sandbox, network=st.booleans(), hosts=st.just(()), write=st.lists(WORDS, max_size=2).map(tuple)
) | st.builds(
    Sandbox,
    image=st.just("busybox:1"),
    runtime=st.sampled_from(["docker", "podman"]),
    network=st.booleans(),
    limits=st.none() | LIMITS,
)
GRACES = st.just(timedelta()) | SPANS
INSTANTS = st.integers(1_700_000_000_000, 2_000_000_000_000).map(
    lambda ms: datetime.fromtimestamp(ms // 1000, UTC) + timedelta(milliseconds=ms % 1000)
)
ZONES = st.sampled_from(["Europe/Berlin", "UTC", "Asia/Tokyo"])
JITTERS = (
    st.none()
    | SPANS.map(lambda span: Jitter(up_to=span))
    | st.integers(1, 50).map(lambda percent: Jitter(percent=float(percent)))
)
QUIET = st.builds(
    QuietHours,
    windows=st.sampled_from([("00:00-07:00",), ("sat,sun 22:00-24:00", "22:00-07:00")]),
    timezone=ZONES,
    policy=st.sampled_from([QuietPolicy.DEFER, QuietPolicy.SKIP]),
)
PARAMS = st.dictionaries(NAMES, st.none() | st.booleans() | st.integers(-99, 99) | TEXT | st.lists(TEXT, max_size=2))
PLACES = st.sampled_from([FOLDER, "/srv/project/logs", "/tmp", "logs/{{ job }}", "/srv/project/~x"])


class EveryName:
    """Knows every function and condition."""

    def find(self, functions: Sequence[str], conditions: Sequence[str]) -> Names:
        return Names()


@st.composite
def schedules(draw: Any) -> Schedule:
    word = draw(st.sampled_from(["", "cron", "interval", "at"]))
    bounded, once = word in ("cron", "interval"), draw(st.booleans()) and word != ""
    start_at = draw(st.none() | INSTANTS) if bounded else None
    end_at = draw(st.none() | SPANS.map(lambda span: start_at + span)) if start_at else None
    crons = st.lists(st.sampled_from(["15 2 * * *", "*/5 9-17 * * MON-FRI", "0 0 L * *"]), min_size=1, unique=True)
    return Schedule(
        cron=tuple(draw(crons)) if word == "cron" else (),
        interval=draw(SPANS) if word == "interval" else None,
        at=draw(INSTANTS) if word == "at" else None,
        timezone=draw(ZONES),
        start_at=start_at,
        end_at=end_at,
        anchor=draw(st.sampled_from(Anchor)) if word == "interval" else Anchor.COMPLETION,
        first_run=draw(st.sampled_from(FirstRun)) if word == "interval" else FirstRun.NOW,
        jitter=draw(JITTERS) if bounded else None,
        run_once=once,
        quiet=draw(st.none() | QUIET) if word else None,
        excluded=draw(st.sampled_from([(), ("12-25",), ("12-25", "2026-12-31")])) if word else (),
    )


@st.composite
def works(draw: Any) -> Work:
    kind = draw(st.sampled_from([Kind.COMMAND, Kind.SHELL, Kind.FUNCTION]))
    function = kind is Kind.FUNCTION
    python = draw(st.sampled_from([None, "/bin/sh", "python3"])) if function else None
    isolate = Isolate.PROCESS if python or (function and draw(st.booleans())) else Isolate.THREAD
    process = not function or isolate is Isolate.PROCESS
    names = draw(st.lists(NAMES, max_size=3, unique=True)) if process else []
    values = [EnvValue(name, *draw(st.tuples(TEXT, st.none()) | st.just((None, "TOKEN")))) for name in names]
    return Work(
        kind=kind,
        command=(draw(WORDS), *draw(st.lists(TEXT | st.just(""), max_size=3))) if kind is Kind.COMMAND else (),
        shell=draw(WORDS) if kind is Kind.SHELL else "",
        shell_with=draw(st.just(("/bin/sh", "-e", "-c")) | st.just(("bash", "-c")))
        if kind is Kind.SHELL
        else Work(kind).shell_with,
        function=draw(st.just("tidy") | st.just("chores.all:tidy")) if function else "",
        python=python,
        params=draw(PARAMS),
        env=tuple(values),
        env_pass=tuple(draw(st.lists(NAMES, max_size=2))) if process else (),
        env_file=draw(st.none() | st.just("/srv/project/.env")) if process else None,
        cwd=draw(PLACES) if process else FOLDER,
        timeout=draw(st.none() | SPANS),
        idle_timeout=draw(st.none() | SPANS) if process else None,
        term_grace=draw(GRACES) if process else timedelta(seconds=10),
        isolate=isolate,
        output=draw(st.sampled_from(OutputPolicy)),
        on_restart=draw(st.sampled_from(OnRestart)) if process else OnRestart.ADOPT,
        postcondition=draw(st.none() | POSTCONDITIONS),
        sandbox=draw(st.none() | SANDBOXES) if process and kind is not Kind.FUNCTION else None,
    )


@st.composite
def gates(draw: Any, schedule: Schedule, word: str) -> Gates:
    conditions = draw(
        st.lists(
            st.builds(Condition, name=WORDS, timeout=SPANS)
            | st.builds(Condition, name=st.just(BATTERY), percent=st.sampled_from([0.0, 30.0, 12.5]))
            | st.builds(Condition, command=st.tuples(WORDS), timeout=SPANS),
            max_size=2,
        )
    )
    usual = min(timedelta(seconds=60), schedule.interval) if schedule.interval else timedelta(seconds=60)
    when_false = draw(st.sampled_from(WhenFalse)) if conditions else default_when_false(word)
    waits = conditions and when_false is WhenFalse.WAIT
    return Gates(tuple(conditions), when_false, draw(SPANS) if waits else usual, draw(st.none() | SPANS))


def spends(account: str) -> Any:
    unit = ACCOUNTS[account].unit
    estimates = {Unit.USD: st.integers(1, 12_000_000), Unit.RUNS: st.none()}
    return st.builds(Spend, st.just(account), estimates.get(unit, st.none() | st.integers(0, 99)), st.just(unit))


@st.composite
def specs(draw: Any, name: str = "one") -> JobSpec:
    schedule, work = draw(schedules()), draw(works())
    word = schedule_word(schedule)
    policy = draw(st.sampled_from(MisfirePolicy)) if word else default_misfire(word)
    overlap = draw(st.sampled_from(OverlapPolicy))
    follows = schedule.interval is not None and schedule.follows_runs
    spec = JobSpec(
        name=name,
        work=work,
        schedule=schedule,
        misfire=Misfire(
            policy,
            grace=draw(SPANS) if word else timedelta(seconds=60),
            limit=draw(st.integers(1, 99)) if policy is MisfirePolicy.ALL else 10,
            max_age=draw(st.none() | SPANS) if policy is not MisfirePolicy.SKIP and word else None,
        ),
        overlap=Overlap(overlap, draw(st.integers(1, 9)) if overlap is OverlapPolicy.QUEUE else 1),
        gates=draw(gates(schedule, word)),
        pools=tuple(
            Draw(pool, draw(st.integers(1, 5))) for pool in draw(st.sampled_from([(), ("gpu",), ("gpu", "ollama")]))
        ),
        budgets=tuple(draw(spends(name)) for name in draw(SPENDS)),
        retention=draw(
            st.builds(
                Retention, st.none() | SPANS, st.none() | SPANS, st.none() | st.integers(1, 99), st.none() | SPANS
            )
        ),
        labels=tuple(draw(st.lists(NAMES, max_size=2, unique=True))),
        priority=draw(st.integers(-1000, 1000)),
        enabled=draw(st.booleans()),
        description=draw(TEXT | st.just("")),
        ping=draw(PINGS),
        pace=draw(PACES) if follows else None,
        wake=draw(st.booleans()) if word in ("cron", "interval", "at") else False,
    )
    repeated = (
        draw(st.none() | st.builds(RepeatedFailure, st.integers(1, 9), SPANS)) if word in ("cron", "interval") else None
    )
    return replace(spec, retry=draw(RETRIES), on_repeated_failure=repeated)


PACES = st.none() | st.just(Pace(timedelta(minutes=5), timedelta(days=1)))
PINGS = st.none() | st.sampled_from(
    [
        read_ping("https://hc.example.net/a"),
        read_ping({"secret": "HC"}),
        read_ping({"url": "http://10.0.0.5/a", "allow_private": ["10.0.0.5:80"]}),
    ]
)
RETRIES = st.builds(
    Retry,
    max_attempts=st.integers(2, 9),
    backoff=SPANS,
    factor=st.sampled_from([1.0, 1.5, 2.0]),
    max=st.just(timedelta(days=2)),
    jitter=JITTERS,
) | st.just(Retry(max_attempts=1))


def declared(found: Sequence[JobSpec], top: Top = TOP) -> tuple[JobSpec, ...]:
    content = export_text(found, top).encode()
    return read_project(Path(FOLDER), environment={"HOME": "/home/x"}, functions=EveryName(), content=content).jobs


@settings(max_examples=50)
@given(specs())
@example(JobSpec("one", Work(Kind.SHELL, shell="a: b #c\n", cwd=FOLDER)))
@example(JobSpec("one", Work(Kind.COMMAND, command=("true", "", "0755", "- x"), cwd=FOLDER)))
def test_an_exported_job_is_the_stored_one(spec: JobSpec) -> None:
    assert declared([spec]) == (spec,)


def test_exported_accounts_and_prices_are_the_stored_ones() -> None:
    content = export_text([], TOP).encode()
    settings = read_project(Path(FOLDER), environment={"HOME": "/home/x"}, content=content).settings
    assert (settings.budgets, settings.prices) == (TOP.budgets, TOP.prices)


@given(
    st.lists(st.booleans(), min_size=1, max_size=4), st.sampled_from(GroupMode), st.sampled_from(OnFailure), schedules()
)
def test_an_exported_group_is_the_stored_one(
    always: list[bool], mode: GroupMode, on_failure: OnFailure, schedule: Schedule
) -> None:
    jobs = [
        JobSpec(f"job{n}", Work(Kind.COMMAND, ("true",), params={"n": n}, cwd=FOLDER)) for n in range(len(always) + 1)
    ]
    members = (
        Member("job0", {"n": 7}),
        *(Member(job.name, always=one) for job, one in zip(jobs[1:], always, strict=True)),
    )
    work = Work(Kind.GROUP, timeout=None, members=members, mode=mode, on_failure=on_failure)
    word = schedule_word(schedule)
    recheck = min(timedelta(seconds=60), schedule.interval) if schedule.interval else timedelta(seconds=60)
    group = JobSpec(
        "all",
        work,
        schedule,
        misfire=Misfire(default_misfire(word)),
        gates=Gates(when_false=default_when_false(word), recheck=recheck),
        retry=Retry(max_attempts=1),
    )
    assert declared([*jobs, group])[-1] == group


@pytest.mark.parametrize(
    ("spec", "keys"),
    [
        (
            JobSpec("a", Work(Kind.COMMAND, ("true",), cwd=FOLDER), Schedule(timezone="Europe/Berlin")),
            {"command": ["true"]},
        ),
        (
            JobSpec(
                "a",
                Work(Kind.SHELL, shell="x", cwd="/srv/project/logs", timeout=None),
                Schedule(interval=timedelta(minutes=90), timezone="UTC"),
                misfire=Misfire(MisfirePolicy.ONCE),
                gates=Gates(when_false=WhenFalse.WAIT),
            ),
            {"interval": "90m", "timezone": "UTC", "shell": "x", "timeout": "never", "cwd": "logs"},
        ),
    ],
)
def test_only_what_differs_is_written(spec: JobSpec, keys: dict[str, Any]) -> None:
    assert export_keys(spec, TOP) == keys


def test_a_function_under_the_project_s_interpreter_names_none() -> None:
    work = Work(Kind.FUNCTION, function="m:f", python="/bin/sh", isolate=Isolate.PROCESS, cwd=FOLDER)
    top = Top(FOLDER, "UTC", python="/bin/sh", interpreter="/bin/sh")
    assert export_keys(JobSpec("a", work), top) == {"run": "m:f"}
    assert declared([JobSpec("a", work)], top)[0].work == work


AGENTS = """
agents:
  reviewer: {adapter: claude, model: haiku, max_turns: 5, max_usd: 0.5, max_concurrent: 3, working_directory: repo}
  work: {adapter: codex, account: work, args: [--color, never]}
  home: {adapter: codex, account: {name: home, dir: ~/logins/home}, profile: private}
  own: {adapter: custom, options: {argv: [./agent, "{prompt}"]}}
budgets: {day: {usd: 5, per: day}}
jobs:
  review: {interval: 1h, agent: reviewer, prompt: "Look at {{ job }}.", budget: day, pools: [gpu], retry: true}
  tidy: {agent: reviewer, prompt_file: prompts/tidy.md, access: write, allowed_tools: [Read, Edit]}
  wide: {agent: claude, prompt: x, args: [--effort, high], system_prompt: Short., add_dirs: [../b]}
  ask: {agent: codex, prompt: Look around., on_quota: continue, profile: deep}
  docs: {agent: claude, prompt: x, mcp_servers: {docs: {command: [npx, docs], tools: [search], env_pass: [KEY]}}}
  logins: {agent: [work, home], prompt: Look around.}
  either: {agent: [claude, codex], prompt: Look around.}
  models: {agent: codex, model: [small, large], prompt: Look around.}
  mine: {agent: own, access: full, task: x, retry: {max_attempts: 2}}
pools: {gpu: 1}
"""


def test_a_stored_job_of_the_default_task_is_exported_with_that_task() -> None:
    """Earlier versions took an empty prompt, which is refused now."""
    [asked] = [
        spec for spec in read_project(Path(FOLDER), environment={}, content=AGENTS.encode()).jobs if spec.name == "ask"
    ]
    stored = replace(asked, work=replace(asked.work, agent=replace(asked.work.agent, prompt=" ")))
    assert export_keys(stored, Top(FOLDER))["prompt"] == "Execute scheduled task"


def test_exported_agent_jobs_are_the_stored_ones() -> None:
    """Their pools follow from `agents:`, their one attempt from their kind."""
    found = read_project(Path(FOLDER), environment={"HOME": "/home/x"}, content=AGENTS.encode())
    top = Top(FOLDER, pools={"gpu": 1}, budgets=found.settings.budgets)
    again = read_project(Path(FOLDER), environment={"HOME": "/home/x"}, content=export_text(found.jobs, top).encode())
    assert again.jobs == found.jobs
    assert again.settings.pools == found.settings.pools
    assert "agent:" not in export_text(found.jobs, top).partition("jobs:")[0]
