"""Writing of stored jobs as a file, and of new jobs into a file with its comments kept."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import Any

from msgspec import Struct, field
from msgspec.structs import fields, replace

from rota.declare.applicability import AT_BOOT, JobShape, default_misfire, default_when_false, usual_recheck
from rota.declare.job_lines import ENDS, split_lines
from rota.declare.keys import FIELDS, GROUP, JOB, misfit
from rota.declare.problems import REBOOT
from rota.declare.readers.agents import AGENTS_POOL, own_pools
from rota.declare.readers.calendar import IGNORE, means_something, written_quiet
from rota.declare.readers.chats import write_deliver
from rota.declare.readers.notifications import write_notify, write_ping, write_target
from rota.declare.readers.work_sources import write_work_source
from rota.declare.yaml import Document, WrittenFloat, WrittenInt, parse
from rota.model.agents import McpServer
from rota.model.budgets import MILLION, Account, Exceeded, Price, Subscription, Unit
from rota.model.clock import iso, write_duration
from rota.model.errors import FileProblems, InvalidValue, NameTaken
from rota.model.notifications import Target
from rota.model.spec import (
    AfterStep,
    AgentChoice,
    AgentWork,
    Condition,
    Deliver,
    Draw,
    Gates,
    Isolate,
    Jitter,
    JobSpec,
    Kind,
    Limits,
    Mode,
    OverlapPolicy,
    Pace,
    Postcondition,
    QuietHours,
    RepeatedFailure,
    Retention,
    Retry,
    Sandbox,
    Schedule,
    Spend,
    WhenFalse,
    Work,
)
from rota.rules.params import declared_params
from rota.rules.prompts import DEFAULT_PROMPT, has_placeholders
from rota.settings import FILE_NAME


def account_keys(account: Account, *, zone: str) -> dict[str, Any]:
    """Return the keys under which a file in `zone` declares an account."""
    keys: dict[str, Any] = {str(account.unit): written(account.limit, account.unit), "per": str(account.per)}
    keys |= {"policy": str(account.policy)} if account.policy is not Exceeded.DEFER else {}
    keys |= {"estimate": written(account.estimate, account.unit)} if account.estimate is not None else {}
    return keys | ({"timezone": account.timezone} if account.timezone != zone else {})


def subscription_keys(budget: Subscription) -> dict[str, Any]:
    """Return the keys under which a file keeps a part of a subscription."""
    provider = {"provider": budget.provider} if budget.provider else {}
    return {"of": "subscription", **provider, "keep": f"{budget.keep * 100 / MILLION:g}%"}


def price_keys(price: Price) -> dict[str, Any]:
    """Return the keys under which a file says what a model costs."""
    cached = {} if price.cached_input is None else {"cached_input": written(price.cached_input, Unit.USD)}
    return {"input": written(price.input, Unit.USD), "output": written(price.output, Unit.USD), **cached}


def spend_keys(spends: Sequence[Spend]) -> dict[str, Any]:
    """Return the keys under which a file charges a job to accounts."""
    if not spends:
        return {}
    names = [spend.account for spend in spends]
    keys: dict[str, Any] = {"budget": names[0] if len(names) == 1 else names}
    told = {one.account: written(one.estimate, one.unit) for one in spends if one.estimate is not None}
    if told:
        keys["estimate"] = told[names[0]] if len(names) == 1 else told
    return keys


def written(amount: int, unit: Unit | None) -> int | float:
    """Return an amount as a file writes it: money in dollars.

    >>> written(500_000, Unit.USD), written(2_000_000, Unit.USD), written(3, Unit.RUNS)
    (0.5, 2, 3)
    """
    if unit is not Unit.USD:
        return amount
    return amount // MILLION if amount % MILLION == 0 else amount / MILLION


INDENT = 2
WIDTH = 100
_PLAIN = re.compile(r"[A-Za-z0-9_./~+-][A-Za-z0-9_./~+@:%=^$()<>;| \"'&*?!\\-]*", re.ASCII)
_FLOW_PLAIN = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./~+@%=^$-]*", re.ASCII)
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"})
_NUMBER_LIKE = re.compile(r"(?![0-9]+[smhd]$)[-+.]?[0-9]|[-+]?\.(inf|nan)", re.IGNORECASE)
_MISREAD = re.compile(r":(\s|$)| #|^(-|\?|\.\.\.|---)(\s|$)|\s$")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def write_key(key: str) -> str:
    """Return a key of a map, in quotes where YAML would read something else.

    >>> write_key("backup-db"), write_key("2026")
    ('backup-db', '"2026"')
    """
    return _text(key, _FLOW_PLAIN)


def write_value(value: Any) -> str:
    """Return a value on one line; lists and maps in brackets.

    >>> write_value(["a b", 1, {"secret": "TOKEN"}])
    '["a b", 1, {secret: TOKEN}]'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{write_key(str(key))}: {write_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(write_value(item) for item in value) + "]"
    return _text(value, _FLOW_PLAIN) if isinstance(value, str) else _scalar(value)


def write_entry(key: str, value: Any, *, depth: int = 0) -> list[str]:
    """Return the lines of `key: value` at a depth; long maps and lists of maps over several lines.

    >>> write_entry("shell", "echo one\\necho two\\n", depth=1)
    ['  shell: |', '    echo one', '    echo two']
    """
    margin = " " * (INDENT * depth)
    head = f"{margin}{write_key(key)}:"
    if isinstance(value, str):
        return _write_text(head, value, depth=depth)
    line = f"{head} {write_value(value)}"
    if (
        isinstance(value, Mapping)
        and value
        and (len(line) > WIDTH or any("\n" in str(item) for item in value.values()))
    ):
        return [head, *write_map(value, depth=depth + 1)]
    if isinstance(value, list | tuple) and value and (len(line) > WIDTH or any(isinstance(i, Mapping) for i in value)):
        return [head, *(f"{margin}  - {write_value(item)}" for item in value)]
    return [line]


def write_map(values: Mapping[str, Any], *, depth: int = 0) -> list[str]:
    """Return the lines of a map's entries at a depth."""
    return [line for key, value in values.items() for line in write_entry(key, value, depth=depth)]


def write_job(name: str, keys: Mapping[str, Any], *, comments: Sequence[str] = ()) -> list[str]:
    """Return the lines of a job below `jobs:`, its comments above it."""
    head = [write_comment(comment, depth=1) for comment in comments]
    return [*head, f"{' ' * INDENT}{write_key(name)}:", *write_map(keys, depth=2)]


def write_comment(text: str, *, depth: int = 0) -> str:
    """Return a comment of one line; characters that could end the line are shown escaped."""
    plain = "".join(c if c.isprintable() or c == "\t" else f"\\u{ord(c):04x}" for c in text).rstrip()
    return f"{' ' * (INDENT * depth)}# {plain}".rstrip()


def _write_text(head: str, text: str, *, depth: int) -> list[str]:
    if "\n" not in text or not _fits_a_block(text):
        return [f"{head} {_text(text, _PLAIN)}"]
    body = text[:-1] if text.endswith("\n") else text
    mark = "|" if text.endswith("\n") else "|-"
    margin = " " * (INDENT * (depth + 1))
    return [f"{head} {mark}", *(f"{margin}{line}" if line else "" for line in body.split("\n"))]


def _fits_a_block(text: str) -> bool:
    """Return whether a block of lines reads back as `text`: nothing invisible, no blank edge that YAML would drop."""
    lines = text.removesuffix("\n").split("\n")
    visible = all(c.isprintable() or c == "\n" for c in text)
    return visible and bool(lines[-1].strip()) and lines[0][:1] not in ("", " ") and lines[0].strip() != ""


def _text(text: str, plain: re.Pattern[str]) -> str:
    misread = text.lower() in _WORDS or _NUMBER_LIKE.match(text) or _MISREAD.search(text)
    if plain.fullmatch(text) and not misread and len(text) < 1000:
        return text
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.written
    return repr(value) if isinstance(value, int | float) else _text(str(value), _FLOW_PLAIN)


Keys = dict[str, Any]

_WORK = Work(Kind.COMMAND)
_USUAL = JobSpec("", _WORK)
_AGENT = AgentWork("", "", "")
LIMITS = ("memory", "cpus", "processes")


class Top(Struct, frozen=True):
    """The parts of the exported file that apply to all jobs; `interpreter` is what `python` resolves to."""

    folder: str
    timezone: str = "UTC"
    imports: tuple[str, ...] = ()
    python: str | None = None
    interpreter: str | None = None
    pools: Mapping[str, int] = field(default_factory=dict)
    budgets: Mapping[str, Account] = field(default_factory=dict)
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)
    notify: Mapping[str, Target] = field(default_factory=dict)
    quiet: QuietHours | None = None
    retention: Retention = field(default_factory=Retention)


def export_text(specs: Sequence[JobSpec], top: Top, *, notes: Sequence[str] = ()) -> str:
    """Return the text of a rota.yaml that declares these jobs and groups."""
    head: Keys = {"timezone": top.timezone, "imports": top.imports, "python": top.python, "pools": dict(top.pools)}
    head["budgets"] = {name: account_keys(account, zone=top.timezone) for name, account in top.budgets.items()}
    head["budgets"] |= {name: subscription_keys(subscription) for name, subscription in top.subscriptions.items()}
    head["prices"] = {model: price_keys(price) for model, price in top.prices.items()}
    head["notify"] = {name: write_target(target) for name, target in top.notify.items()}
    lines = [write_comment(note) for note in notes]
    head["agents"] = _agents(specs)
    lines += write_map({key: value for key, value in head.items() if value})
    polling = [spec for spec in specs if spec.work.kind is Kind.POLL]
    top = replace(top, quiet=next((spec.schedule.quiet for spec in polling), None))
    if top.quiet is not None:
        lines += write_entry("quiet_hours", written_quiet(top.quiet, zone=top.timezone))
    top = replace(top, retention=next((spec.retention for spec in polling), top.retention))
    for spec in polling:  # it keeps its rows as long as the file says
        lines += write_map(_retention(spec.retention, Retention()) | {"poll": _poll(spec)})
    specs = [spec for spec in specs if spec not in polling]
    for section in ("jobs", "groups"):
        found = [spec for spec in specs if (spec.work.kind is Kind.GROUP) == (section == "groups")]
        if found or section == "jobs":
            lines += ["", f"{section}:" if found else f"{section}: {{}}"]
        for spec in found:
            lines += write_job(spec.name, export_keys(spec, top))
    return "\n".join(lines) + "\n"


def _agents(specs: Sequence[JobSpec]) -> Keys:
    """Return the agents that the jobs name; what a job limits is written with the job."""
    found: Keys = {}
    works = [spec.work.agent for spec in specs if spec.work.agent is not None]
    each: list[AgentWork | AgentChoice] = [one for work in works for one in (work.choices or (work,))]
    for agent in each:
        options = dict(agent.options)
        keys: Keys = {"adapter": {"run": agent.function, **options} if agent.function else agent.adapter}
        keys |= {"max_concurrent": agent.max_concurrent} if agent.max_concurrent != 1 else {}
        if agent.account:
            keys["account"] = {"name": agent.account, "dir": agent.account_dir} if agent.account_dir else agent.account
        if isinstance(agent, AgentChoice):
            keys |= {"args": list(agent.args)} if agent.args else {}
            keys |= {"system_prompt": agent.system_prompt} if agent.system_prompt else {}
            keys |= {"profile": agent.profile} if agent.profile else {}
        keys |= {"model": found[agent.agent]["model"]} if "model" in found.get(agent.agent, {}) else {}
        found[agent.agent] = keys | ({"options": options} if options and not agent.function else {})
    for work in works:
        for name in _listed(work) if len(_listed(work)) > 1 else ():
            models = [choice.model for choice in work.choices if choice.agent == name and choice.model]
            found[name] |= {"model": models if len(models) > 1 else models[0]} if models else {}
    return found


def _listed(work: AgentWork) -> list[str]:
    """Return the agents that may do the work of a job, the preferred first."""
    return list(dict.fromkeys(choice.agent for choice in work.choices))


def _poll(spec: JobSpec) -> Keys:
    work = spec.work
    keys: Keys = {"url": work.url} if work.url else {"run": work.function}
    if work.headers:
        keys["headers"] = {env.name: env.written for env in work.headers}
    keys |= {"interval": _when(spec.schedule, zone=spec.schedule.timezone)["interval"]}
    if work.timeout is not None:
        keys["timeout"] = write_duration(work.timeout)
    return keys | {"budget": [spend.account for spend in spec.budgets]} if spec.budgets else keys


def export_keys(spec: JobSpec, top: Top) -> Keys:
    """Return the keys under which a file declares this job or group."""
    word = schedule_word(spec.schedule)
    keys = _when(spec.schedule, zone=top.timezone) | _quiet(spec.schedule, top)
    keys |= {"members": [member.written for member in spec.work.members]} if spec.work.kind is Kind.GROUP else {}
    keys |= _work(spec.work, top)
    keys |= _fields(spec, _shape(spec, word))
    keys |= _what(spec, top) if spec.work.kind is not Kind.GROUP else {}
    if spec.misfire.policy is not default_misfire(word) and word not in ("", AT_BOOT):
        keys["misfire"] = str(spec.misfire.policy)
    if spec.overlap.policy is not OverlapPolicy.FORBID:
        keys["overlap"] = str(spec.overlap.policy)
    keys |= _retention(spec.retention, top.retention)
    return keys | ({"notify": write_notify(spec.notify, spec.notify_own)} if spec.notify or spec.notify_own else {})


def _shape(spec: JobSpec, word: str) -> JobShape:
    return JobShape(
        word,
        spec.work.kind,
        python=spec.work.python is not None,
        in_process=spec.work.in_process,
        overlap=spec.overlap.policy,
        misfire=spec.misfire.policy,
        conditions=bool(spec.gates.conditions),
        when_false=spec.gates.when_false,
        budget=bool(spec.budgets),
    )


_APART = frozenset({"timezone", "quiet_hours", "isolate", "work_source", "retry"})
"""Keys whose default or value depends on more than their field."""
_OF_EACH_CHOICE = ("model", "args", "system_prompt", "profile")
"""Keys that each agent of a list has for itself."""


def _fields(spec: JobSpec, shape: JobShape) -> Keys:
    """Return the keys that have a field of their own, have an effect, and differ from their default."""
    table = GROUP if spec.work.kind is Kind.GROUP else JOB
    usual = replace(_USUAL, work=replace(_WORK, agent=_AGENT if spec.work.agent else None))
    found: Keys = {}
    for key in table.keys:
        field = FIELDS.get(key, "")
        in_agent = field.startswith("work.agent.")
        if key in _OF_EACH_CHOICE and spec.work.agent is not None and spec.work.agent.choices:
            continue
        if not field or key in _APART or misfit(key, shape) or (in_agent and spec.work.agent is None):
            continue
        value = attrgetter(field)(spec)
        if value != attrgetter(field)(usual):
            found[key] = _written(value)
    found |= {"params": declared_params(spec.work)} if spec.work.param_names else {}
    return found | {key: "never" for key in ("timeout", "loop_guard") if found.get(key, 0) is None}


def _written(value: Any) -> Any:
    if isinstance(value, tuple) and value and isinstance(value[0], McpServer):
        parts = ("command", "url", "tools", "env_pass")
        return {one.name: {key: _written(part) for key in parts if (part := getattr(one, key))} for one in value}
    if isinstance(value, tuple):
        return [_written(item) for item in value]
    writer = _WRITERS.get(type(value))
    return writer(value) if writer else str(value) if isinstance(value, str) else value


def schedule_word(schedule: Schedule) -> str:
    """Return the key that says when: cron, interval, at, or nothing."""
    if schedule.cron or schedule.reboot:
        return "cron" if schedule.cron else AT_BOOT
    return "interval" if schedule.repeats else "at" if schedule.at else ""


def _when(schedule: Schedule, *, zone: str) -> Keys:
    keys: Keys = {}
    if schedule.reboot:
        keys["cron"] = REBOOT
    if schedule.cron:
        keys["cron"] = schedule.cron[0] if len(schedule.cron) == 1 else list(schedule.cron)
    if schedule.interval is not None:
        keys["interval"] = write_duration(schedule.interval)
    if schedule.by_mode is not None:
        modes = {mode.value: schedule.by_mode.of(mode) for mode in Mode}
        keys["interval"] = {mode: "never" if one is None else write_duration(one) for mode, one in modes.items()}
    return keys | ({"timezone": schedule.timezone} if schedule.timezone != zone else {})


def _quiet(schedule: Schedule, top: Top) -> Keys:
    if schedule.quiet == (top.quiet if top.quiet and means_something(top.quiet, schedule) else None):
        return {}
    quiet = IGNORE if schedule.quiet is None else written_quiet(schedule.quiet, zone=schedule.timezone)
    return {"quiet_hours": quiet}


def _jitter(jitter: Jitter) -> str:
    return write_duration(jitter.up_to) if jitter.up_to is not None else f"{jitter.percent or 0:g}%"


def _what(spec: JobSpec, top: Top) -> Keys:
    work, keys = spec.work, Keys()
    if not work.in_process:
        keys |= _surroundings(work, top)
    if draws := _written_pools(spec):
        names = [draw.pool for draw in draws]
        keys["pools"] = names if all(one.cost == 1 for one in draws) else {one.pool: one.cost for one in draws}
    keys |= spend_keys(spec.budgets)
    if spec.gates.conditions:
        keys |= _waiting(spec.gates, spec.schedule)
    usual = Retry() if work.agent is None else Retry(max_attempts=1)
    return keys | ({"retry": _retry(spec.retry)} if spec.retry != usual else {})


def _written_pools(spec: JobSpec) -> tuple[Draw, ...]:
    """Return what a job draws by its own words: every agent draws on further pools."""
    if spec.work.agent is None:
        return spec.pools
    own = (Draw(AGENTS_POOL), *map(Draw, own_pools(spec.work.agent)))
    return tuple(draw for draw in spec.pools if draw not in own)


def _agent(agent: AgentWork, top: Top) -> Keys:
    """Return the keys of an agent's work; jobs of earlier versions have no prompt where the default task is meant."""
    file, task = agent.prompt_file, agent.prompt
    asked = {"prompt_file": _place(file, top.folder)} if file else {"prompt": task if task.strip() else DEFAULT_PROMPT}
    keys: Keys = {**asked, "agent": agent.agent, "access": agent.access.value}
    if len(_listed(agent)) > 1:
        keys["agent"] = _listed(agent)
    elif agent.choices:
        keys["model"] = [choice.model for choice in agent.choices]
    same = all(choice.max_turns == agent.max_turns for choice in agent.choices)
    keys |= {"max_turns": agent.max_turns} if agent.max_turns is not None and same else {}
    if agent.source is not None:
        keys["work_source"] = write_work_source(agent.source, partial(_place, folder=top.folder))
    return keys


def _work(work: Work, top: Top) -> Keys:
    if work.agent is not None:
        return _agent(work.agent, top)
    if work.python is not None and work.python != top.interpreter and work.kind is Kind.FUNCTION:
        return {"run": work.function, "python": work.python}
    isolated = work.kind is Kind.FUNCTION and work.python is None and work.isolate is Isolate.PROCESS
    return {"isolate": str(work.isolate)} if isolated else {}


def _surroundings(work: Work, top: Top) -> Keys:
    keys: Keys = {}
    if work.env:
        keys["env"] = {env.name: env.written for env in work.env}
    if work.env_file is not None:
        keys["env_file"] = _place(work.env_file, top.folder)
    if work.cwd != top.folder:
        keys["cwd"] = _place(work.cwd, top.folder)
    return keys


def _place(path: str, folder: str) -> str:
    """Return a path as a file in `folder` would write it: relative where it is below."""
    below = path.startswith(folder.rstrip("/") + "/") and not has_placeholders(path)
    short = os.path.relpath(path, folder) if below else path
    return path if short.startswith("~") else short


def _waiting(gates: Gates, schedule: Schedule) -> Keys:
    keys: Keys = {}
    if gates.when_false is not default_when_false(schedule_word(schedule)):
        keys["when_false"] = str(gates.when_false)
    interval = schedule.every(Mode.ACTIVE)
    if gates.when_false is WhenFalse.WAIT and gates.recheck != usual_recheck(interval):
        keys["recheck"] = write_duration(gates.recheck)
    return keys


def _condition(condition: Condition) -> Any:
    timeout = _differing(condition, ("timeout",))
    if condition.name:
        return {"name": condition.written, **timeout} if timeout else condition.written
    return {"command": list(condition.command), **timeout}


def _retry(retry: Retry) -> Any:
    if retry == Retry(max_attempts=1):
        return False
    if retry == Retry():
        return True
    return _differing(retry, ("max_attempts", "factor", "backoff", "max", "jitter"))


def _retention(retention: Retention, usual: Retention) -> Keys:
    keys: Keys = {}
    for field_info in fields(Retention):
        value = getattr(retention, field_info.name)
        if value != getattr(usual, field_info.name):
            written = write_duration(value) if isinstance(value, timedelta) else value
            keys[field_info.name] = "forever" if value is None else written
    return {"retention": keys} if keys else {}


def _differing(record: Any, names: Sequence[str]) -> Keys:
    """Return the attributes of a record that differ from their default."""
    usual = type(record)()
    return {name: _written(one) for name in names if (one := getattr(record, name)) != getattr(usual, name)}


def _step(step: AfterStep | Postcondition, names: Sequence[str]) -> Keys:
    return {**({"command": list(step.command)} if step.command else {"shell": step.shell}), **_differing(step, names)}


def _sandbox(sandbox: Sandbox) -> Any:
    keys: Keys = {"container": sandbox.image} if sandbox.image else {"bubblewrap": True}
    keys |= _differing(sandbox, ("runtime", "user"))
    if sandbox.hosts or not sandbox.network:
        keys["network"] = list(sandbox.hosts) or "off"
    if sandbox.write:
        keys["write"] = list(sandbox.write)
    keys |= _differing(sandbox.limits, LIMITS) if sandbox.limits is not None else {}
    return "bubblewrap" if keys == {"bubblewrap": True} else keys


_WRITERS: Mapping[type, Callable[[Any], Any]] = {
    timedelta: write_duration,
    datetime: iso,
    Jitter: _jitter,
    Condition: _condition,
    RepeatedFailure: lambda one: {"after": one.after, "backoff_max": write_duration(one.backoff_max)},
    AfterStep: lambda step: _step(step, ("cwd",)),
    Postcondition: lambda check: _step(check, ("timeout",)),
    Pace: lambda pace: {"min": write_duration(pace.min), "max": write_duration(pace.max)},
    Sandbox: _sandbox,
    Limits: lambda limits: _differing(limits, LIMITS),
    Deliver: write_deliver,
    Target: write_ping,
}

_EMPTY_MAP = re.compile(r"(:[ \t]*)\{[ \t]*\}")
_BRACE = re.compile(r"[^#\"']*:[ \t]*\{")


class Insertion(Struct, frozen=True):
    """The new text of a file, and the lines that are new in it."""

    content: bytes
    added: str
    line: int


def insert_job(content: bytes, name: str, keys: Mapping[str, Any]) -> Insertion:
    """Return the file with one more job; refuse where that cannot be done without touching anything else."""
    document = parse(content)
    if document.problems:
        raise FileProblems(document.problems)
    jobs = document.data.get("jobs")
    if isinstance(jobs, dict) and name in jobs:
        hint = "choose another name, or change the job in the file"
        raise NameTaken(f"{FILE_NAME} already has a job {name!r}", hint=hint)
    lines = "\n".join(write_job(name, keys))
    alone = parse(f"jobs:\n{lines}\n".encode()).data["jobs"]
    wanted = {**document.data, "jobs": {**(jobs or {}), **alone}}
    for insertion in _candidates(content.decode("utf-8"), document, name=name, keys=keys):
        if _reads_as(insertion.content, wanted):
            return insertion
    hint = f"add these lines by hand, under `jobs:`:\n{lines}"
    raise InvalidValue(f"{FILE_NAME} has a form into which no job can be inserted", hint=hint)


def _reads_as(content: bytes, wanted: Mapping[str, Any]) -> bool:
    try:
        document = parse(content)
    except FileProblems:
        return False
    return not document.problems and document.data == wanted and [*document.data["jobs"]] == [*wanted["jobs"]]


def _candidates(text: str, document: Document, *, name: str, keys: Mapping[str, Any]) -> Iterator[Insertion]:
    lines = split_lines(text)
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    if "jobs" not in document.data:
        gap = [""] if lines else []
        yield _inserted(lines, [*gap, "jobs:", *write_job(name, keys)], at=len(lines), newline=newline)
        return
    start = document.position(("jobs",))[0]
    jobs = document.data["jobs"] or {}
    if not jobs:
        head = _EMPTY_MAP.sub(lambda match: match[1].rstrip(), lines[start - 1], count=1)
        emptied = [*lines[: start - 1], head, *lines[start:]]
        yield _inserted(emptied, write_job(name, keys), at=start, newline=newline)
        return
    if _BRACE.match(lines[start - 1]):
        return
    places = [document.position(("jobs", name)) for name in jobs]
    margin, last = places[0][1] - 1, max(line for line, _ in places)
    added = [" " * margin + line[INDENT:] if line else "" for line in write_job(name, keys)]
    spaced = any(not line.strip() for line in lines[start : last - 1])
    for at in _ends(lines, last, margin=margin):
        yield _inserted(lines, [*([""] if spaced else []), *added], at=at, newline=newline)


def _ends(lines: list[str], last: int, *, margin: int) -> Iterator[int]:
    """Yield where the last job may end: after its last line, or after the blank lines that a text may keep."""
    end = after = last
    for index in range(last, len(lines)):
        line = lines[index]
        if not line.strip():
            after = index + 1
            continue
        if len(line) - len(line.lstrip(" ")) <= margin:
            break
        end = after = index + 1
    yield end
    if after != end:
        yield after


def _inserted(lines: list[str], added: list[str], *, at: int, newline: str) -> Insertion:
    before, after = "".join(lines[:at]), "".join(lines[at:])
    if before and not before.endswith(ENDS):
        before += newline
    block = newline.join(added) + newline
    return Insertion((before + block + after).encode(), block, at + 1)
