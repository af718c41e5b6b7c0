"""How the keys of one job become its definition."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from rota.declare.applicability import SCHEDULES, SPELLINGS, WORKS, JobShape, Keys, shape_of, usual_recheck
from rota.declare.keys import GROUP, misfit, values_of
from rota.declare.problems import REBOOT, BadValue, ProblemList, below, following, shown, to_datetime
from rota.declare.readers.agents import (
    Agent,
    agent_limit,
    choices_of,
    draws_of,
    one_of_each,
    over_agent,
    without_effect,
    work_of,
)
from rota.declare.readers.calendar import KEY as EXCEPT
from rota.declare.readers.calendar import Calendars, WrittenQuiet, quiet_of, resolve_except
from rota.declare.readers.limits import drawn, spends_of, without_estimate, wrong_draws, wrong_estimates, wrong_names
from rota.declare.readers.notifications import WrittenNotify, wrong_receivers, wrong_targets
from rota.declare.readers.params import unfilled_params, wrong_member_params
from rota.declare.readers.values import SPELLINGS as MODE_SPELLINGS
from rota.declare.readers.values import one_interval
from rota.declare.readers.work_sources import refuse_source_elsewhere
from rota.declare.types import PollGroup, WorkType
from rota.model.agents import Access
from rota.model.budgets import MILLION, Account
from rota.model.clock import cut_to_ms
from rota.model.errors import InvalidInstant, KeyPath, Problem, RotaError, did_you_mean
from rota.model.spec import (
    Anchor,
    ByMode,
    EnvValue,
    Gates,
    Isolate,
    JobSpec,
    Kind,
    Member,
    Misfire,
    Mode,
    Overlap,
    Postcondition,
    QuietHours,
    Retention,
    Retry,
    Schedule,
    SourceKind,
    Work,
    WorkSource,
)
from rota.rules.prompts import PromptPlaces, check_placeholders, has_placeholders, known_placeholders
from rota.rules.schedule.timezone import localize

_TYPES = {
    WorkType.COMMAND: Kind.COMMAND,
    WorkType.SHELL: Kind.SHELL,
    WorkType.SCRIPT: Kind.FUNCTION,
    WorkType.FUNCTION: Kind.FUNCTION,
    WorkType.AGENT: Kind.AGENT,
}
NO_WORK = Problem(
    "has no work", "no_work_given", hint="add `command:`, `shell:`, `run:` or `prompt:`", looks_at=tuple(WORKS)
)


def kind_problems(own: Keys) -> list[Problem]:
    """Return what is wrong with how many kinds of work and schedules a job has."""
    works = [key for key in own if key in WORKS]
    problems = _surplus(works, "a job has one kind of work") + two_schedules(own, "a job")
    if not works:
        problems.append(NO_WORK)
    elif "type" in own and _TYPES[own["type"]] is not WORKS[works[0]]:
        message = f"`type: {own['type']}` contradicts `{works[0]}`"
        problems.append(Problem(message, "conflict", at=("type",), hint="remove it: the work implies it"))
    return problems


def two_schedules(own: Keys, owner: str) -> list[Problem]:
    """Return the schedules beyond the first."""
    return _surplus([key for key in own if key in SCHEDULES], f"{owner} has one schedule")


def _surplus(found: Sequence[str], rule: str) -> list[Problem]:
    message = f"{rule}, and this one has `{found[0]}` already" if found else ""
    return [Problem(message, "conflict", at=(key,), hint="keep one of them") for key in found[1:]]


def misfits(own: Keys, shape: JobShape) -> list[Problem]:
    """Return the keys that have no effect on a job of that shape."""
    problems = [
        Problem(need.message, "no_effect", at=(key,), hint=need.hint, looks_at=need.looks_at)
        for key in own
        if (need := misfit(key, shape)) is not None
    ]
    if isinstance(own.get("interval"), ByMode) and own.get("anchor") is Anchor.FIXED:
        message = "`anchor: fixed` needs one interval, and this job has an interval by mode"
        problems.append(Problem(message, "conflict", at=("anchor",), hint="remove this line, or write one duration"))
    if "pace" in own and (isinstance(own.get("interval"), ByMode) or own.get("anchor") is Anchor.FIXED):
        message = "`pace` needs one interval that counts from a run"
        hint = "remove this line, or write one duration without `anchor: fixed`"
        problems.append(Problem(message, "conflict", at=("pace",), hint=hint))
    if shape.python and own.get("isolate") is Isolate.THREAD:
        message = "a function of another interpreter (`python:`) cannot run inside the scheduler's process"
        problems.append(Problem(message, "conflict", at=("isolate",), hint="remove this line, or `python:`"))
    return problems


def draw_problems(keys: Keys, capacities: Mapping[str, int] | None) -> list[Problem]:
    """Return what is wrong with the pools that a job or the defaults draw on."""
    return [] if capacities is None else below("pools", wrong_draws(keys.get("pools", {}), capacities))


def target_problems(keys: Keys, targets: Collection[str] | None) -> list[Problem]:
    """Return the targets that a job, a group or the defaults name and that are not there."""
    if targets is None:
        return []
    notified, receivers = wrong_targets(keys.get("notify"), targets), wrong_receivers(keys.get("deliver"), targets)
    return below("notify", notified) + below("deliver", receivers)


def unheard(own: Keys, keys: Keys) -> list[Problem]:
    """Return the problem of a `finish_by` without a target to notify."""
    written: WrittenNotify | None = keys.get("notify")
    if "finish_by" not in own or (written is not None and (written.names or written.own)):
        return []
    hint = "add `notify:`, or remove this line"
    return [Problem("has no effect without `notify`", "no_effect", at=("finish_by",), hint=hint, looks_at=("notify",))]


def name_problems(keys: Keys, project: "JobDefaults") -> list[Problem]:
    """Return the accounts that a job or the defaults name and that are not there."""
    if project.budgets is None:
        return []
    wrong = wrong_names(keys.get("budget", {}), project.budgets, subscriptions=project.subscriptions)
    return below("budget", wrong)


def spend_problems(own: Keys, keys: Keys, project: "JobDefaults", *, limited: bool = False) -> list[Problem]:
    """Return what is wrong with the accounts of a job and with what it says that a run costs."""
    names, accounts = list(keys.get("budget", {}).values()), project.budgets
    problems = name_problems(own, project)
    if accounts is None or problems or not names:
        return problems
    refused = wrong_estimates(own["estimate"], names, accounts) if "estimate" in own else []
    problems = following(below("estimate", refused), "budget")
    spends = spends_of(names, keys.get("estimate", {}), accounts)
    for name in [] if problems else without_estimate(spends, accounts, limited=limited):
        message = f"there is no estimate of what a run costs in {shown(name)}"
        hint = f"add `estimate: {{{name}: AMOUNT}}` to the job, or `estimate: AMOUNT` to the account"
        problems.append(Problem(message, "estimate_missing", at=("budget",), hint=hint, looks_at=("estimate",)))
    return problems


def placeholder_problems(spec: JobSpec, keys: Keys) -> list[Problem]:
    """Return what is wrong with the placeholders of a job's texts."""
    work = spec.work
    texts: list[tuple[KeyPath, str]] = [(("command", index), word) for index, word in enumerate(work.command)]
    texts += [(("env", variable.name), variable.value) for variable in work.env if variable.value]
    texts += [((key,), keys[key]) for key in ("cwd", "prompt_file") if key in keys]
    after = keys.get("after") if work.kind is Kind.AGENT else None
    if after is not None:
        texts += [(("after", "command", index), word) for index, word in enumerate(after.command)]
    check = work.postcondition or Postcondition()
    texts += [(("postcondition", "command", index), word) for index, word in enumerate(check.command)]
    for index, condition in enumerate(spec.gates.conditions):
        texts += [(("conditions", index), word) for word in condition.command]
    problems = [problem for path, text in texts for problem in _unfilled(path, text, work)]
    places = PromptPlaces(conditions=len(spec.gates.conditions), item="work_source" in keys)
    for key in ("prompt", "task") if keys.get("placeholders", True) else ():
        problems += _unfilled((key,), keys.get(key, ""), work, prompt=places)
    shells = [(("shell",), work.shell), (("after", "shell"), after.shell if after else "")]
    shells.append((("postcondition", "shell"), check.shell))
    return problems + [problem for path, text in shells for problem in _shell_problems(path, text)]


def _unfilled(path: KeyPath, text: str, work: Work, *, prompt: PromptPlaces | None = None) -> list[Problem]:
    if "{{" not in text:
        return []
    found = check_placeholders(text, params=work.param_names, prompt=prompt)
    parts = [message.partition("; ") for message in found]
    looks_at = ("params", "conditions", "work_source") if prompt else ("params",)
    return [Problem(message, "placeholder", at=path, hint=hint, looks_at=looks_at) for message, _, hint in parts]


def _shell_problems(path: KeyPath, text: str) -> list[Problem]:
    known = known_placeholders(text) if "{{" in text else []
    if not known:
        return []
    hint = "use $ROTA_DATE, $ROTA_SCHEDULED_FOR, $ROTA_PARAM_NAME, $ROTA_JOB or $ROTA_RUN"
    return [Problem(f"`{known[0]}` is not filled in `shell`", "placeholder", at=path, hint=hint)]


class JobDefaults(Struct, frozen=True):
    """Values that each job inherits from the project."""

    folder: str
    home: str
    timezone: str
    local_zone: Callable[[], str]
    timeout: timedelta | None
    python: str | None
    retention: Retention
    pools: Mapping[str, int] | None = None
    """The capacities of the pools; None: not known, as they cannot be read."""
    budgets: Mapping[str, Account] | None = None
    subscriptions: frozenset[str] = frozenset()
    """The budgets that apply without being named."""
    """The accounts; None: not known, as they cannot be read."""
    agents: Mapping[str, Agent | None] = field(default_factory=dict)
    """The configured agents by name; None for one that has problems of its own."""
    defaults: Keys = field(default_factory=dict)
    quiet: QuietHours | None = None
    """The file's own quiet hours."""
    calendars: Calendars = field(default_factory=lambda: Calendars(str))
    targets: Collection[str] | None = None
    """The names of the targets of notifications; None: not known, as they cannot be read."""
    included: bool = False
    """Whether the project is included in another one, whose scheduler runs its jobs."""


def interpreter_of(keys: Keys, project: JobDefaults) -> str | None:
    """Return the interpreter of a job's function: its own, that of the defaults, or the project's."""
    written = keys.get("python") or project.defaults.get("python")
    return place_of(written, project.folder, home=project.home, program=True) if written else project.python


def place_of(text: str, folder: str, *, home: str, program: bool = False) -> str:
    """Return the absolute path of what a file names: relative to `folder`, `~` is `home`.

    >>> place_of("a/../b", "/srv", home="/home/x")
    '/srv/b'
    """
    if program and "/" not in text:
        return text
    if text == "~" or text.startswith("~/"):
        text = home + text[1:]
    elif text.startswith("~"):
        text = os.path.expanduser(text)
    return os.path.normpath(os.path.join(folder, text))


def except_problems(keys: dict[str, Any], calendars: Calendars) -> list[Problem]:
    """Put the days that `except` names into `keys`; return what is wrong with them."""
    return below(EXCEPT, resolve_except(keys, calendars))


def resolve_times(keys: dict[str, Any], project: JobDefaults) -> list[Problem]:
    """Put the zone's name and instants in the place of what was written, in `keys`; return what cannot be."""
    problems: list[Problem] = []
    try:
        zone = keys.get("timezone", project.timezone)
        keys["timezone"] = project.local_zone() if zone == "local" else zone
    except RotaError as error:
        keys["timezone"] = "UTC"
        problems.append(Problem(error.message, "timezone", at=("timezone",), hint=error.hint))
    for key in (key for key in ("at", "start_at", "end_at") if key in keys):
        written, keys[key] = keys[key], None
        try:
            keys[key] = _instant(key, written, keys["timezone"])
        except RotaError as error:
            problems.append(Problem(error.message, "instant", at=(key,), hint=error.hint))
    start_at, end_at = keys.get("start_at"), keys.get("end_at")
    if start_at and end_at and end_at <= start_at:
        hint = "no instant lies between them"
        problems.append(Problem("is not after `start_at`", "conflict", at=("end_at",), hint=hint))
    return problems + _resolve_quiet(keys, project)


def _resolve_quiet(keys: dict[str, Any], project: JobDefaults) -> list[Problem]:
    written: WrittenQuiet | None = keys.get("quiet_hours")
    try:
        if written is not None and written.timezone == "local":
            written = replace(written, timezone=project.local_zone())
        keys["quiet"] = quiet_of(written, project.quiet, schedule_of(keys))
    except BadValue as error:
        return following(below("quiet_hours", error.problems), *SCHEDULES)
    except RotaError as error:
        return [Problem(error.message, "timezone", at=("quiet_hours",), hint=error.hint, looks_at=SCHEDULES)]
    return []


def _instant(key: str, text: str, zone: str) -> datetime:
    if key == "at" and len(text) <= len("2026-11-15"):
        raise InvalidInstant(f"{shown(text)} has a date but no time", hint="add one: 2026-11-15 08:30")
    return cut_to_ms(localize(to_datetime(text), zone))


def schedule_of(keys: Keys) -> Schedule:
    """Return the schedule that keys say whose times were resolved."""
    jitter, interval, cron = keys.get("jitter"), keys.get("interval"), keys.get("cron", ())
    values = values_of("schedule", keys) | {
        "cron": () if cron == (REBOOT,) else cron,
        "reboot": cron == (REBOOT,),
        "by_mode" if isinstance(interval, ByMode) else "interval": interval,
        "jitter": jitter if jitter and (jitter.up_to or jitter.percent) else None,
        "quiet": keys.get("quiet"),
    }
    return Schedule(**values)


def one_spelling(keys: Keys) -> tuple[dict[str, Any], list[Problem]]:
    """Return `keys` with the accepted older spellings replaced; both spellings at once are an error."""
    found, problems = dict(keys), []
    for older, key in ((older, key) for older, key in SPELLINGS.items() if older in found):
        value = found.pop(older)
        if key in found:
            message = f"is another spelling of `{key}`, which is also set"
            problems.append(Problem(message, "conflict", at=(older,), hint="keep one"))
        else:
            found[key] = timedelta(seconds=value) if older == "timeout_seconds" else value
    if "group" in found:
        needs = found.pop("group") is PollGroup.REMOTE
        if found.setdefault("needs_poll", needs) is not needs:
            problems.append(Problem("contradicts `needs_poll`", "conflict", at=("group",), hint="keep one of them"))
    spelt = next((key for key in MODE_SPELLINGS if key in found), "")
    try:
        one_interval(found)
    except BadValue as error:
        problems += [replace(problem, at=problem.at or (spelt,), looks_at=("interval",)) for problem in error.problems]
    return found, problems


def build_job(name: str, own: Keys, project: JobDefaults) -> tuple[JobSpec | None, list[Problem]]:
    """Return the spec of a job from its own read keys, or what is wrong with them."""
    own, problems = one_spelling(own)
    problems += kind_problems(own) + except_problems(own, project.calendars)
    shape = shape_of(own, project.defaults, python=project.python is not None)
    problems += misfits(own, shape)
    problems += draw_problems(own, project.pools) + target_problems(own, project.targets)
    keys = merged(own, project.defaults, shape)
    named: tuple[str, ...] = ()
    if shape.work is Kind.AGENT:
        keys, named = one_of_each(keys)
        keys, _ = one_of_each(over_agent(own, keys, project.agents))
    limited = shape.work is Kind.AGENT and agent_limit(keys, project.agents) is not None
    problems += spend_problems(own, keys, project, limited=limited)
    problems += resolve_times(keys, project) + unheard(own, keys)
    spec = spec_of(name, keys, project=project, shape=shape)
    if shape.work is Kind.AGENT:
        spec, wrong = _with_agent(spec, keys, project, own=own, named=named)
        problems += wrong + (without_effect(spec.work.agent, own) if spec.work.agent is not None else [])
    problems += placeholder_problems(spec, keys) + sandbox_problems(spec.work)
    problems += unfilled_params(spec.work, spec.schedule)
    return (None, problems) if problems else (spec, [])


def sandbox_problems(work: Work) -> list[Problem]:
    """Return why a sandbox or limits, also those of `defaults`, cannot enclose this work."""
    inside = "the work runs inside the scheduler, which has no sandbox and no limits"
    found: list[tuple[str, str, str]] = []
    if work.in_process and (work.sandbox is not None or work.limits is not None):
        key = "sandbox" if work.sandbox is not None else "limits"
        found.append((key, inside, "use a command, or `isolate: process` for a function; or write `sandbox: none`"))
    if work.sandbox is not None and work.sandbox.image:
        if work.kind is Kind.FUNCTION:
            found.append(("sandbox", "a function needs the Python of this machine", "write `sandbox: bubblewrap`"))
        if work.limits is not None and work.sandbox.limits is not None:
            found.append(("limits", "the container has limits of its own", "keep those of one place"))
    asks = work.agent is not None and work.agent.access is Access.ASK
    if work.sandbox is not None and work.agent is not None and (work.agent.rota_tools or asks):
        needed = "`access: ask` needs" if asks else "`rota_tools` need"
        message = f"a sandbox hides the state folder, which {needed}"
        hint = "write another access" if asks else "remove `rota_tools`"
        found.append(("sandbox", message, f"{hint}, or write `sandbox: none`"))
    return [Problem(message, "conflict", at=(key,), hint=hint) for key, message, hint in found]


def _with_agent(
    spec: JobSpec, keys: Keys, project: JobDefaults, *, own: Keys, named: tuple[str, ...]
) -> tuple[JobSpec, list[Problem]]:
    """Return the spec of an agent job with its agent's work, pools and default of one attempt."""
    file = place_of(keys["prompt_file"], project.folder, home=project.home) if "prompt_file" in keys else ""
    try:
        with ProblemList() as problems:
            with problems.below():
                work = work_of(keys, project.agents, values=values_of("work.agent", keys) | {"prompt_file": file})
            refuse_source_elsewhere(keys.get("work_source"), project.python)
        if work is not None:
            asked = named or (work.agent,)
            choices = choices_of(own, keys, project.agents, named=asked, draws=spec.pools)
            work = replace(work, choices=choices)
    except BadValue as error:
        return spec, following(error.problems, "agent", "provider")
    if work is None:  # problems of its agent are reported there
        return spec, []
    most = None if work.max_usd is None else round(work.max_usd * MILLION)
    return replace(
        spec,
        work=replace(spec.work, agent=replace(work, source=_source(work.source, project))),
        pools=work.choices[0].pools if work.choices else draws_of(work, spec.pools),
        budgets=tuple(replace(spend, most=most) for spend in spec.budgets),
        retry=keys.get("retry", Retry(max_attempts=1)),
    ), []


def _source(source: WorkSource | None, project: JobDefaults) -> WorkSource | None:
    """Return a work source; the folder of one that is a folder as a whole path."""
    if source is None or source.kind is not SourceKind.DIRECTORY:
        return source
    return replace(source, place=place_of(source.place, project.folder, home=project.home))


def merged(own: Keys, defaults: Keys, shape: JobShape) -> dict[str, Any]:
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


def spec_of(name: str, keys: Keys, *, project: JobDefaults, shape: JobShape) -> JobSpec:
    """Return the spec of keys that were merged and whose times were resolved."""
    get = keys.get
    schedule = schedule_of(keys)
    interval = schedule.every(Mode.ACTIVE)
    notify: WrittenNotify = get("notify") or WrittenNotify()
    cwd = project.folder if project.included else ""
    return JobSpec(
        name=name,
        work=_work(keys, project, shape),
        schedule=schedule,
        misfire=Misfire(shape.misfire, **values_of("misfire", keys)),
        overlap=Overlap(shape.overlap, **values_of("overlap", keys)),
        gates=Gates(
            when_false=shape.when_false, recheck=get("recheck") or usual_recheck(interval), **values_of("gates", keys)
        ),
        pools=drawn(get("pools", {})),
        budgets=spends_of(get("budget", {}).values(), get("estimate", {}), project.budgets or {}),
        retention=replace(project.retention, **get("retention", {})),
        notify=tuple(name for name, _ in notify.names),
        notify_own=tuple(replace(target, cwd=cwd) if target.command else target for target in notify.own),
        **values_of("", keys),
    )


def _work(keys: Keys, project: JobDefaults, shape: JobShape) -> Work:
    values = {"timeout": project.timeout, "cwd": project.folder} | values_of("work", keys)
    for key in (key for key in ("env_file", "cwd") if key in keys):
        text = keys[key]
        values[key] = text if has_placeholders(text) else place_of(text, project.folder, home=project.home)
    values |= keys["params"].fields() if "params" in keys else {}
    if shape.python:
        values["isolate"] = Isolate.PROCESS
    env = tuple([EnvValue(name, entry.value, entry.secret) for name, entry in keys.get("env", {}).items()])
    return Work(shape.work, python=_python(keys, project, shape), env=env, **values)


def _python(keys: Keys, project: JobDefaults, shape: JobShape) -> str | None:
    if shape.work is Kind.FUNCTION:
        return interpreter_of(keys, project)
    # A command has no interpreter, but the registered conditions in front of it do.
    return project.python if any(gate.name for gate in keys.get("conditions", ())) else None


MEMBERS = 1000
NO_MEMBERS = Problem(
    "has no members", "member", at=("members",), hint="name at least one job: `members: [extract, load]`"
)


def build_group(
    name: str, own: Keys, project: JobDefaults, *, jobs: Mapping[str, JobSpec | None], groups: Sequence[str]
) -> tuple[JobSpec | None, list[Problem]]:
    """Return the spec of a group from its own read keys, or what is wrong with them.

    `jobs` are the jobs of the file by name, None for one that has problems of its own.
    """
    own, problems = one_spelling(own)
    problems += except_problems(own, project.calendars) + two_schedules(own, "a group")
    problems += target_problems(own, project.targets)
    defaults = {key: value for key, value in project.defaults.items() if key in GROUP.keys}
    shape = replace(shape_of(own, defaults, python=False), work=Kind.GROUP)
    problems += misfits(own, shape)
    keys = merged(own, defaults, shape)
    problems += resolve_times(keys, project) + unheard(own, keys)
    problems += _wrong_members(own, keys, jobs=jobs, groups=groups)
    if problems:
        return None, problems
    spec = spec_of(name, keys, project=project, shape=shape)
    order = values_of("work", {key: keys[key] for key in ("mode", "on_failure") if key in keys})
    work = Work(Kind.GROUP, timeout=None, members=tuple(keys["members"].values()), **order)
    return replace(spec, work=work, retry=Retry(max_attempts=1)), []


def _wrong_members(
    own: Keys, keys: Keys, *, jobs: Mapping[str, JobSpec | None], groups: Sequence[str]
) -> list[Problem]:
    members: Mapping[int, Member] = own.get("members", {})
    if not members:
        return [replace(NO_MEMBERS, at=("members",) if "members" in own else (), looks_at=("members",))]
    if len(members) > MEMBERS:
        message = f"has {len(members):,} members"
        return [Problem(message, "out_of_range", at=("members",), hint=f"at most {MEMBERS:,}; make several groups")]
    problems: list[Problem] = []
    for index, member in members.items():
        problems += _wrong_member(member, index, jobs=jobs, groups=groups, enabled=keys.get("enabled", True))
    if all(member.always for member in members.values()):
        hint = "`always` members run when the others are final; remove it where there are no others"
        always = Problem("every member is `always`", "member", at=("members",), hint=hint, looks_at=("members",))
        problems.append(always)
    return problems


def _wrong_member(
    member: Member, index: int, *, jobs: Mapping[str, JobSpec | None], groups: Sequence[str], enabled: bool
) -> list[Problem]:
    path: KeyPath = ("members", index)
    if member.job in groups and member.job not in jobs:
        message = f"{shown(member.job)} is a group, and groups cannot contain groups"
        return [Problem(message, "member", at=path, hint="name its jobs")]
    if member.job not in jobs:
        hint = did_you_mean(member.job, jobs, "declare it under `jobs:`")
        return [Problem(f"no job is named {shown(member.job)}", "member", at=path, hint=hint)]
    spec = jobs[member.job]
    if spec is None:
        return []
    if enabled and not spec.enabled:
        hint = "enable it, or remove it from the group"
        return [Problem(f"the job {shown(member.job)} is disabled", "member", at=path, hint=hint)]
    return [problem.below(*path) for problem in wrong_member_params(member, spec.work)]
