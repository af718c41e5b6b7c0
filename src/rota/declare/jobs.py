"""A complete JobSpec from the keys a user wrote: defaults merged, kinds told apart, contradictions refused."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from rota.declare.agents import agent_limit, draws_of, over_agent, without_effect, work_of
from rota.declare.budgets import spends_of
from rota.declare.contradictions import draw_troubles, kind_troubles, misfits, spend_troubles, target_troubles, unheard
from rota.declare.fields import Refused
from rota.declare.fitting import Keys, Shape, misfit, shape_of
from rota.declare.job_keys import RetentionEntry
from rota.declare.notify import WrittenNotify
from rota.declare.parts import Parts
from rota.declare.placeholders import placeholder_troubles
from rota.declare.pools import drawn
from rota.declare.schedules import except_troubles, resolve_times, schedule_of
from rota.declare.sources import refuse_elsewhere
from rota.declare.spelling import one_spelling
from rota.declare.surroundings import Surroundings, interpreter_of, place_of
from rota.declare.troubles import Trouble, troubles_of
from rota.model.budget import MILLION
from rota.model.spec import (
    Anchor,
    ByMode,
    EnvValue,
    Gates,
    Isolate,
    JobSpec,
    Kind,
    Misfire,
    Mode,
    OnRestart,
    OutputPolicy,
    Overlap,
    Retention,
    Retry,
    Schedule,
    SourceKind,
    Work,
    WorkSource,
)
from rota.rules.placeholders import has_placeholders

RECHECK = timedelta(seconds=60)
MISFIRE_GRACE = timedelta(seconds=60)
SHELL_WITH = ("/bin/sh", "-e", "-c")


def build_job(name: str, own: Keys, around: Surroundings) -> tuple[JobSpec | None, list[Trouble]]:
    """Return the spec of a job from its own read keys, or what is wrong with them."""
    own, troubles = one_spelling(own)
    troubles += kind_troubles(own) + except_troubles(own, around.calendars)
    shape = shape_of(own, around.defaults, python=around.python is not None)
    troubles += misfits(own, shape)
    troubles += draw_troubles(own, around.pools) + target_troubles(own, around.targets)
    keys = merged(own, around.defaults, shape)
    if shape.work is Kind.AGENT:
        keys = over_agent(own, keys, around.agents)
    limited = shape.work is Kind.AGENT and agent_limit(keys, around.agents) is not None
    troubles += spend_troubles(own, keys, around.budgets, limited=limited)
    troubles += resolve_times(keys, around) + unheard(own, keys)
    spec = spec_of(name, keys, around=around, shape=shape)
    if shape.work is Kind.AGENT:
        spec, wrong = _with_agent(spec, keys, around)
        troubles += wrong + _without_effect(spec, own)
    troubles += placeholder_troubles(spec, keys)
    return (None, troubles) if troubles else (spec, [])


def _without_effect(spec: JobSpec, own: Keys) -> list[Trouble]:
    refused = without_effect(spec.work.agent, own) if spec.work.agent is not None else []
    return [Trouble(one.at, one.message, one.code, one.hint, ("agent", "provider")) for one in refused]


def _with_agent(spec: JobSpec, keys: Keys, around: Surroundings) -> tuple[JobSpec, list[Trouble]]:
    """Return the spec of an agent job with its agent's work, pools and default of one attempt (section 7)."""
    file = place_of(keys["prompt_file"], around.folder, home=around.home) if "prompt_file" in keys else ""
    try:
        with Parts() as parts:
            with parts.below():
                work = work_of(keys, around.agents, prompt_file=file)
            refuse_elsewhere(keys.get("work_source"), around.python)
    except Refused as error:
        return spec, troubles_of(error, looks_at=("agent", "provider"))
    if work is None:  # what is wrong with its agent is told there
        return spec, []
    most = None if work.max_usd is None else round(work.max_usd * MILLION)
    return replace(
        spec,
        work=replace(spec.work, agent=replace(work, source=_source(work.source, around))),
        pools=draws_of(work, spec.pools),
        budgets=tuple(replace(spend, most=most) for spend in spec.budgets),
        retry=keys.get("retry", Retry(max_attempts=1)),
    ), []


def _source(source: WorkSource | None, around: Surroundings) -> WorkSource | None:
    """Return a work source; the folder of one that is a folder as a whole path."""
    if source is None or source.kind is not SourceKind.DIRECTORY:
        return source
    return replace(source, place=place_of(source.place, around.folder, home=around.home))


def merged(own: Keys, defaults: Keys, shape: Shape) -> dict[str, Any]:
    """Return a job's keys over the defaults that fit it; `env` and `labels` are merged."""
    if not defaults:
        return dict(own)
    keys = {key: value for key, value in defaults.items() if misfit(key, shape) is None}
    env, labels = keys.get("env"), keys.get("labels")
    keys.update(own)
    if env and "env" in own:
        keys["env"] = {**env, **own["env"]}
    if labels and "labels" in own:
        keys["labels"] = _merged_labels(labels, own["labels"])
    if isinstance(keys.get("interval"), ByMode) and "anchor" not in own and keys.get("anchor") is Anchor.FIXED:
        del keys["anchor"]  # a fixed grid has one interval
    return keys


def _merged_labels(labels: tuple[str, ...], own: tuple[str, ...]) -> tuple[str, ...]:
    replaced = {label.partition("=")[0] for label in own if "=" in label}
    kept = [label for label in labels if "=" not in label or label.partition("=")[0] not in replaced]
    return tuple(dict.fromkeys((*kept, *own)))


def spec_of(name: str, keys: Keys, *, around: Surroundings, shape: Shape) -> JobSpec:
    """Return the spec of keys that were merged and whose times were resolved."""
    get = keys.get
    schedule = schedule_of(keys)
    return JobSpec(
        name=name,
        work=_work(keys, around, shape),
        schedule=schedule,
        misfire=Misfire(
            shape.misfire,
            grace=get("misfire_grace", MISFIRE_GRACE),
            limit=get("misfire_limit", 10),
            max_age=get("misfire_max_age"),
        ),
        overlap=Overlap(shape.overlap, get("queue_depth", 1)),
        gates=_gates(keys, schedule, shape),
        retry=get("retry", Retry()),
        on_repeated_failure=get("on_repeated_failure"),
        pools=drawn(get("pools", {})),
        budgets=spends_of(get("budget", {}).values(), get("estimate", {}), around.budgets or {}),
        retention=_retention(around.retention, get("retention")),
        labels=get("labels", ()),
        priority=get("priority", 0),
        enabled=get("enabled", True),
        description=get("description", ""),
        **_told(keys, around),
    )


def _told(keys: Keys, around: Surroundings) -> dict[str, Any]:
    """Return who is told of a job's runs, and by when they must have finished."""
    written: WrittenNotify = keys.get("notify") or WrittenNotify()
    cwd = around.folder if around.included else ""
    own = tuple(replace(one, cwd=cwd) if one.command else one for one in written.own)
    names = tuple(name for name, _ in written.names)
    return {"notify": names, "notify_own": own, "finish_by": keys.get("finish_by", "")}


def _work(keys: Keys, around: Surroundings, shape: Shape) -> Work:
    get = keys.get
    python = _python(keys, around, shape)
    return Work(
        kind=shape.work,
        command=get("command", ()),
        shell=get("shell", ""),
        shell_with=get("shell_with", SHELL_WITH),
        function=get("run", ""),
        python=python,
        params=get("params", {}),
        env=tuple([EnvValue(name, entry.value, entry.secret) for name, entry in get("env", {}).items()]),
        env_pass=tuple(get("env_pass", ())),
        env_file=_place(keys, "env_file", around) if "env_file" in keys else None,
        cwd=_place(keys, "cwd", around) if "cwd" in keys else around.folder,
        timeout=get("timeout", around.timeout),
        term_grace=get("term_grace", timedelta(seconds=10)),
        isolate=Isolate.PROCESS if shape.python else get("isolate", Isolate.THREAD),
        output=get("output", OutputPolicy.FULL),
        on_restart=get("on_restart", OnRestart.ADOPT),
    )


def _python(keys: Keys, around: Surroundings, shape: Shape) -> str | None:
    if shape.work is Kind.FUNCTION:
        return interpreter_of(keys, around)
    # A command has no interpreter, but the registered conditions in front of it do.
    return around.python if any(gate.name for gate in keys.get("conditions", ())) else None


def _place(keys: Keys, key: str, around: Surroundings) -> str:
    text: str = keys[key]
    return text if has_placeholders(text) else place_of(text, around.folder, home=around.home)


def _gates(keys: Keys, schedule: Schedule, shape: Shape) -> Gates:
    interval = schedule.every(Mode.ACTIVE)
    return Gates(
        conditions=tuple(keys.get("conditions", ())),
        when_false=shape.when_false,
        recheck=keys.get("recheck") or (min(RECHECK, interval) if interval else RECHECK),
        expires_after=keys.get("expires_after"),
        needs_poll=keys.get("needs_poll", False),
    )


def _retention(base: Retention, entry: RetentionEntry | None) -> Retention:
    return replace(base, **{key: getattr(entry, key) for key in entry.model_fields_set}) if entry else base
