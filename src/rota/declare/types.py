"""The types of values in a file, each with its reader and its JSON Schema."""

from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from rota.agents.registry import CAPABILITIES
from rota.declare import (
    agents,
    calendar,
    chats,
    function_agents,
    limits,
    notifications,
    params,
    problems,
    readers,
    work_sources,
)
from rota.declare import people as people_keys
from rota.declare import secrets as origins
from rota.declare.problems import JOB_NAME
from rota.model import spec
from rota.model.agents import Access
from rota.model.budgets import Exceeded, Per, Unit
from rota.model.notifications import Channel
from rota.model.params import ParamType
from rota.model.proposals import Approval
from rota.settings import LogFormat
from rota.sources.github import LABELS

DURATION: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "pattern": r"^\s*[0-9]+[smhdSMHD]\s*$", "examples": ["30s", "5m", "1h", "1d"]},
        {"type": "integer", "minimum": 1},
    ]
}
GRACE = {"anyOf": [DURATION["anyOf"][0], {"type": "integer", "minimum": 0}]}
JITTER = {
    "anyOf": [
        {"type": "string", "pattern": r"^\s*([0-9]+[smhdSMHD]|[0-9]{1,3}(\.[0-9]{1,3})? ?%)\s*$"},
        {"type": "integer", "minimum": 0},
    ]
}
ARGV: dict[str, Any] = {
    "anyOf": [
        {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1},
        {"type": "string", "minLength": 1},
    ]
}
SCALAR = {"type": ["string", "number", "boolean"]}
ENV_ENTRY: dict[str, Any] = {
    "anyOf": [
        SCALAR,
        {
            "type": "object",
            "properties": {"secret": {"type": "string"}},
            "required": ["secret"],
            "additionalProperties": False,
        },
    ]
}
SECRET: dict[str, Any] = ENV_ENTRY["anyOf"][1]
POOL = {"type": "string", "pattern": f"^{JOB_NAME.pattern}$"}


class Value(NamedTuple):
    """A kind of value: its reader, which raises BadValue, and its JSON Schema."""

    read: problems.Reader
    schema: dict[str, Any]


def or_word(word: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also takes one word."""
    return {"anyOf": [*schema.get("anyOf", [schema]), {"const": word}]}


def words_of(kind: type[StrEnum]) -> dict[str, Any]:
    """Return the schema of the words of an enumeration."""
    return {"enum": [str(word) for word in kind]}


def word(kind: type[StrEnum], *, otherwise: str = "") -> Value:
    """Return the kind of value that is a word of an enumeration; `otherwise` is the hint where no word is near."""
    return Value(problems.choice(kind, otherwise=otherwise), words_of(kind))


def list_of(key: str, item: Value) -> Value:
    """Return the kind of value that is a list; `key` is shown in the hint."""
    return Value(problems.list_of(key, item.read), {"items": item.schema, "type": "array"})


def or_none(kind: Value) -> Value:
    """Return the kind of value that may also be empty."""
    return Value(lambda value: None if value is None else kind.read(value), {"anyOf": [kind.schema, {"type": "null"}]})


any_map = Value(problems.map_of(str, lambda value: value), {"additionalProperties": True, "type": "object"})
PRIORITY = 1000


class PollGroup(StrEnum):
    """Values of `group:` in older files: whether a job needs the shared poll."""

    LOCAL = "local"
    REMOTE = "remote"


class WorkType(StrEnum):
    """Values of `type:`; it must agree with the given work."""

    COMMAND = "command"
    SHELL = "shell"
    SCRIPT = "script"
    FUNCTION = "function"
    AGENT = "agent"


_INSTANT = {"type": "string", "pattern": f"^{problems.INSTANT.pattern.replace(chr(92) + 'd', '[0-9]')}$"}
_ENV_NAME = {"type": "string", "pattern": "^(?!ROTA_)[A-Za-z_][A-Za-z0-9_]*$"}
_ENV = {"type": "object", "propertyNames": _ENV_NAME, "additionalProperties": ENV_ENTRY}
argument = Value(problems.read_argument, {"type": "string", "pattern": r"^\s*[^\s-]"})
text = Value(problems.read_text, {"type": "string", "minLength": 1})
note = Value(problems.read_note, {"type": "string", "maxLength": 1000})
flag = Value(problems.read_flag, {"type": "boolean"})
log_format = word(LogFormat)
keep_awake = word(spec.KeepAwake)
switch = Value(problems.read_switch, {"enum": [True, False, "on", "off"]})
duration = Value(problems.read_duration, DURATION)
optional_duration = Value(problems.read_duration, DURATION)
_MODE_INTERVAL = or_word("never", DURATION)
mode_interval = Value(readers.read_one, _MODE_INTERVAL)
interval = Value(
    readers.read_interval,
    {
        "anyOf": [
            *DURATION["anyOf"],
            {
                "type": "object",
                "properties": dict.fromkeys(readers.MODES, _MODE_INTERVAL),
                "required": ["active"],
                "additionalProperties": False,
            },
        ]
    },
)
grace = Value(problems.read_grace, GRACE)
timeout = Value(problems.or_word("never", problems.read_duration), or_word("never", DURATION))
loop_guard = Value(
    problems.or_word("never", problems.whole(2, 1000)),
    or_word("never", {"type": "integer", "minimum": 2, "maximum": 1000}),
)
kept = Value(problems.or_word("forever", problems.read_duration), or_word("forever", DURATION))
kept_count = Value(
    problems.or_word("forever", problems.whole(1, 1_000_000_000)), or_word("forever", {"type": "integer", "minimum": 1})
)
SIZE: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "pattern": r"^\s*[0-9]+ ?([kKmMgGtT]?[bB])\s*$", "examples": ["500MB", "5GB"]},
        {"type": "integer", "minimum": 1},
    ]
}
kept_size = Value(problems.or_word("forever", problems.read_size), or_word("forever", SIZE))
tick = Value(problems.between(timedelta(seconds=1), timedelta(hours=1), said="1s and 1h"), DURATION)
zone = Value(problems.read_zone, {"type": "string", "examples": ["Europe/Paris", "UTC", "local"]})
instant = Value(problems.read_instant, _INSTANT)
cron = Value(
    readers.read_cron, {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
)
_WINDOW = {"type": "string", "pattern": r"^([A-Za-z ,-]*[A-Za-z]\s+)?[0-9]{1,2}:[0-9]{2}\s*-\s*[0-9]{1,2}:[0-9]{2}$"}
_WINDOWS = {"anyOf": [_WINDOW, {"type": "array", "items": _WINDOW, "minItems": 1}]}
_QUIET: dict[str, Any] = {
    "anyOf": [
        *_WINDOWS["anyOf"],
        {
            "type": "object",
            "properties": {"windows": _WINDOWS, "policy": words_of(spec.QuietPolicy), "timezone": {"type": "string"}},
            "minProperties": 1,
            "additionalProperties": False,
        },
    ]
}
quiet_hours = Value(calendar.read_quiet_hours, _QUIET)
own_quiet_hours = Value(calendar.read_own_quiet_hours, or_word(calendar.IGNORE, _QUIET))
exceptions = Value(
    calendar.read_except,
    {
        "type": "array",
        "items": {"type": "string", "pattern": r"^\s*([0-9]{4}-)?[0-9]{2}-[0-9]{2}\s*$|\.[iI][cC][sS]\s*$"},
    },
)
jitter_value = Value(problems.read_jitter, JITTER)
argv = Value(readers.read_command, ARGV)
pace = Value(
    readers.read_pace,
    {
        "type": "object",
        "properties": {"min": DURATION, "max": DURATION},
        "required": ["min", "max"],
        "additionalProperties": False,
    },
)
gate = Value(
    readers.read_condition,
    {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {
                "type": "object",
                "properties": {"name": {"type": "string"}, "command": ARGV, "timeout": DURATION},
                "oneOf": [{"required": ["name"]}, {"required": ["command"]}],
                "additionalProperties": False,
            },
        ]
    },
)
env_name = Value(readers.read_env_name, _ENV_NAME)
env_value = Value(readers.read_env_value, ENV_ENTRY)
env = Value(problems.map_of(env_name.read, env_value.read), _ENV)
_PARAMS: dict[str, Any] = {"type": "object", "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}
_BOUND = {"type": "number"}
_PARAM_KIND: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": words_of(ParamType),
        "one_of": {
            "type": "array",
            "items": {"type": ["string", "number", "boolean"]},
            "minItems": 1,
            "maxItems": params.MAX_CHOICES,
        },
        "min": _BOUND,
        "max": _BOUND,
        "default": {},
        "description": {"type": "string", "maxLength": 1000},
    },
    "anyOf": [{"required": ["type"]}, {"required": ["one_of"]}],
    "additionalProperties": False,
}
job_params = Value(
    params.read_job_params,
    {
        **_PARAMS,
        "additionalProperties": {"anyOf": [{"not": {"type": "object", "anyOf": _PARAM_KIND["anyOf"]}}, _PARAM_KIND]},
    },
)
labels = Value(
    readers.read_labels,
    {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "object", "additionalProperties": SCALAR}]},
)
module = Value(
    problems.matching(problems.MODULE, "the name of a module", hint="write it as in `import package.module`"),
    {"type": "string"},
)
pattern = Value(problems.read_pattern, {"type": "string", "minLength": 1})
function_name = Value(
    problems.matching(
        problems.FUNCTION,
        "the name of a function",
        hint="write a registered name or module:function; a line of shell is written shell: …",
    ),
    {"type": "string"},
)
aging = Value(
    problems.or_word("off", problems.between(timedelta(seconds=1), timedelta(days=7), said="1s and 7d")),
    or_word("off", DURATION),
)
count = Value(problems.whole(1, 1000), {"type": "integer", "minimum": 1, "maximum": 1000})
seconds = Value(problems.whole(1, 316_224_000), {"type": "integer", "minimum": 1})
priority = Value(problems.whole(-PRIORITY, PRIORITY), {"type": "integer", "minimum": -PRIORITY, "maximum": PRIORITY})
_MEMBER = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {
            "type": "object",
            "properties": {"job": {"type": "string"}, "params": _PARAMS, "always": {"type": "boolean"}},
            "required": ["job"],
            "additionalProperties": False,
        },
    ]
}
members = Value(readers.read_members, {"type": "array", "items": _MEMBER})
group_mode = word(spec.GroupMode)
on_failure = word(spec.OnFailure)
anchor = word(spec.Anchor)
first_run = word(spec.FirstRun)
misfire = word(spec.MisfirePolicy)
overlap = word(spec.OverlapPolicy, otherwise="`forbid` skips a run while another one is unfinished")
isolate = word(spec.Isolate)
output = word(spec.OutputPolicy)
on_restart = word(spec.OnRestart)
when_false = word(spec.WhenFalse)
poll_group = word(PollGroup, otherwise=problems.GROUPS)
time_of_day = Value(notifications.read_finish_by, {"type": "string", "pattern": "^ *[0-9]{1,2}:[0-9]{2} *$"})
work_type = word(WorkType)


store_address = Value(readers.read_store, {"type": "string", "pattern": "^(sqlite$|postgres(ql)?://)"})
poll_url = Value(readers.read_url, {"type": "string", "format": "uri"})
listen = Value(readers.read_listen, {"type": "string"})
base_path = Value(readers.read_base_path, {"type": "string", "pattern": "^/"})
public_url = Value(readers.read_public_url, {"type": "string", "format": "uri"})
header_name = Value(people_keys.read_header_name, {"type": "string", "pattern": "^[A-Za-z0-9-]+$"})
networks = Value(
    people_keys.read_networks,
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]},
)
named_secret = Value(people_keys.read_named_secret, SECRET)
oidc = Value(people_keys.read_oidc, people_keys.OIDC)
person_scope = Value(people_keys.read_person_scope, {"enum": ["none", *people_keys.PERSON_SCOPES]})
people = Value(
    problems.map_of(people_keys.read_person, people_keys.read_person_scope),
    {"type": "object", "additionalProperties": {"enum": ["none", *people_keys.PERSON_SCOPES]}},
)
poll_headers = Value(readers.read_headers, {"type": "object", "additionalProperties": ENV_ENTRY})

_PLACE: dict[str, Any] = {"anyOf": [{"type": "string", "format": "uri"}, SECRET]}
_TIME_OF_DAY = {"type": "string", "pattern": r"^\s*([01]?[0-9]|2[0-3]):[0-5][0-9]\s*$"}
_NUMBER: dict[str, Any] = {"type": ["integer", "string"]}
_NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_OF_A_CHAT: dict[str, Any] = {
    "users": {"type": "array", "items": _NUMBER, "minItems": 1, "maxItems": chats.MAX_USERS},
    "commands": {
        "type": "object",
        "properties": {"run": _NAMES, "pause": _NAMES, "status": {"type": "boolean"}},
        "additionalProperties": False,
    },
    "questions": {"type": "boolean"},
    "api_url": {"type": "string", "format": "uri"},
}
_TELEGRAM: dict[str, Any] = {
    "type": "object",
    "properties": {"chat": _NUMBER, "token": SECRET, **_OF_A_CHAT},
    "required": ["chat"],
    "additionalProperties": False,
}
_SLACK: dict[str, Any] = {
    "type": "object",
    "properties": {"channel": {"type": "string"}, "bot_token": SECRET, "app_token": SECRET, **_OF_A_CHAT},
    "required": ["channel", "bot_token"],
    "additionalProperties": False,
}
_TARGET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "on": {
            "anyOf": [
                {"enum": list(notifications.EVENTS)},
                {"type": "array", "items": {"enum": list(notifications.EVENTS)}, "minItems": 1},
            ]
        },
        "webhook": _PLACE,
        "apprise": SECRET,
        "telegram": {"anyOf": [_NUMBER, _TELEGRAM]},
        "slack": _SLACK,
        "token": SECRET,
        "command": ARGV,
        "signing": {"anyOf": [SECRET, {"type": "array", "items": SECRET, "minItems": 1, "maxItems": 2}]},
        "allow_private": {"type": "array", "items": {"type": "string"}},
        "digest": {
            "anyOf": [
                _TIME_OF_DAY,
                {"type": "array", "items": _TIME_OF_DAY, "minItems": 1, "maxItems": notifications.MAX_DIGESTS},
            ]
        },
        "remind": or_word("always", DURATION),
        "timeout": DURATION,
    },
    "oneOf": [{"required": [channel]} for channel in Channel],
    "additionalProperties": False,
}
target_name = Value(notifications.read_target_name, {"type": "string"})
target = Value(notifications.read_target, _TARGET)
targets = Value(problems.map_of(target_name.read, target.read), {"type": "object", "additionalProperties": _TARGET})
notify = Value(
    notifications.read_notify,
    {
        "anyOf": [
            {"type": "string", "minLength": 1},
            _TARGET,
            {"type": "array", "items": {"anyOf": [{"type": "string"}, _TARGET]}, "maxItems": notifications.MAX_TARGETS},
        ]
    },
)
_PING: list[dict[str, Any]] = [
    *_PLACE["anyOf"],
    {
        "type": "object",
        "properties": {"url": _PLACE, "allow_private": {"type": "array", "items": {"type": "string"}}},
        "required": ["url"],
        "additionalProperties": False,
    },
]
ping = Value(problems.or_word("none", notifications.read_ping), or_word("none", {"anyOf": _PING}))
ping_url = Value(notifications.read_ping, {"anyOf": _PING})


def read_money(value: Any) -> float:
    """Return an amount of dollars above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1_000_000:
        raise problems.wrong_type(value, "an amount of dollars", hint="write a number such as 2.00")
    return float(value)


def read_prompt(value: Any) -> str:
    """Return a task for an agent that is not empty."""
    hint = "write the task, or `prompt_file:`"
    if not isinstance(value, str):
        raise problems.wrong_type(value, "a text", hint=hint)
    if not value.strip():
        raise problems.BadValue("is empty", code="missing_value", hint=hint)
    return value


deliver = Value(
    chats.read_deliver,
    {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {
                "type": "object",
                "properties": {
                    "to": {"anyOf": [{"type": "string", "minLength": 1}, _NAMES]},
                    "when": {"enum": [str(when) for when in spec.DeliverWhen]},
                },
                "required": ["to"],
                "additionalProperties": False,
            },
        ]
    },
)
depth = Value(problems.whole(0, 10), {"type": "integer", "minimum": 0, "maximum": 10})
approval = word(Approval)
adapter = Value(
    function_agents.read_adapter,
    {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {
                "type": "object",
                "properties": {
                    "run": {"type": "string"},
                    "capabilities": {"type": "array", "items": {"enum": list(CAPABILITIES)}},
                    "provider": {"type": "string"},
                },
                "required": ["run"],
                "additionalProperties": False,
            },
        ]
    },
)
access = word(Access)
session = word(spec.SessionMode)
on_quota = word(spec.OnQuota)
turns = Value(problems.whole(1, 100_000), {"type": "integer", "minimum": 1, "maximum": 100_000})
_LOGIN = {"type": "object", "properties": {"name": {"type": "string"}, "dir": {"type": "string"}}}
login_account = Value(
    agents.read_account,
    {"anyOf": [{"type": "string"}, {**_LOGIN, "required": ["name"], "additionalProperties": False}]},
)
words = list_of("args", text)
folders = list_of("add_dirs", text)
profile = Value(agents.read_profile, {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]*$"})
_NAMES = {"type": "array", "items": {"type": "string"}}
mcp_servers = Value(
    agents.read_servers,
    {
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z][A-Za-z0-9_-]*$"},
        "additionalProperties": {
            "type": "object",
            "properties": {"command": ARGV, "url": {"type": "string"}, "tools": _NAMES, "env_pass": _NAMES},
            "oneOf": [{"required": ["command"]}, {"required": ["url"]}],
            "additionalProperties": False,
        },
    },
)
workspace = word(spec.Workspace)
agent_names = Value(
    agents.read_agents, {"anyOf": [text.schema, {"type": "array", "items": text.schema, "minItems": 1}]}
)
models = Value(
    agents.read_models, {"anyOf": [argument.schema, {"type": "array", "items": argument.schema, "minItems": 1}]}
)
carried = Value(agents.read_carry, {"anyOf": [words_of(spec.Carry), {"type": "array", "items": words_of(spec.Carry)}]})
after = Value(
    agents.read_after,
    {
        "type": "object",
        "properties": {"command": ARGV, "shell": {"type": "string"}, "cwd": words_of(spec.StepFolder)},
        "oneOf": [{"required": ["command"]}, {"required": ["shell"]}],
        "additionalProperties": False,
    },
)
postcondition = Value(
    readers.read_postcondition,
    {
        "type": "object",
        "properties": {"command": ARGV, "shell": {"type": "string"}, "timeout": DURATION},
        "oneOf": [{"required": ["command"]}, {"required": ["shell"]}],
        "additionalProperties": False,
    },
)
_HOSTS = {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": readers.HOST.pattern}}
_LIMIT_SIZES = {
    "memory": SIZE,
    "cpus": {"type": "number", "minimum": 0.01, "maximum": readers.MAX_CPUS},
    "processes": {"type": "integer", "minimum": 1, "maximum": readers.MAX_PROCESSES},
}
run_limits = Value(
    readers.read_limits,
    {"type": "object", "properties": _LIMIT_SIZES, "minProperties": 1, "additionalProperties": False},
)
_SWITCH = {"enum": ["on", "off", True, False]}
_PATHS = {"type": "array", "items": {"type": "string"}}
sandbox = Value(
    readers.read_sandbox,
    {
        "anyOf": [
            {"enum": ["bubblewrap", "none"]},
            {
                "type": "object",
                "properties": {"bubblewrap": {"const": True}, "network": {"anyOf": [_SWITCH, _HOSTS]}, "write": _PATHS},
                "required": ["bubblewrap"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {
                    "container": {"type": "string", "pattern": "^[^-]"},
                    "runtime": {"enum": ["docker", "podman"]},
                    "network": _SWITCH,
                    "write": _PATHS,
                    "user": {"type": "string", "minLength": 1},
                    **_LIMIT_SIZES,
                },
                "required": ["container"],
                "additionalProperties": False,
            },
        ]
    },
)
work_source = Value(
    work_sources.read_work_source,
    {
        "type": "object",
        "properties": {
            "github": {"type": "string", "pattern": "^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$"},
            **{label: {"type": "string", "pattern": "^[^,]{1,50}$"} for label in LABELS},
            "token": SECRET,
            "api_url": {"type": "string"},
            "directory": {"type": "string"},
            "pattern": {"type": "string"},
            "http": {"type": "string"},
            "headers": {"type": "object", "additionalProperties": ENV_ENTRY},
            "run": {"type": "string"},
            "options": {"type": "object"},
            "timeout": DURATION,
            "attempts": {"type": "integer", "minimum": 1, "maximum": 100},
        },
        "oneOf": [{"required": [kind]} for kind in ("github", "directory", "http", "run")],
        "additionalProperties": False,
    },
)
money = Value(read_money, {"type": "number", "exclusiveMinimum": 0})
prompt = Value(read_prompt, {"type": "string", "pattern": r"\S"})


_COST = {"type": "integer", "minimum": 1, "maximum": limits.CAPACITY}
_DRAWS = {"type": "object", "propertyNames": POOL, "additionalProperties": _COST}
capacities = Value(
    limits.read_capacities,
    {
        "type": "object",
        "propertyNames": POOL,
        "additionalProperties": {"type": "integer", "minimum": 0, "maximum": limits.CAPACITY},
    },
)
draws = Value(limits.read_draws, {"anyOf": [{"type": "array", "items": {"anyOf": [POOL, _DRAWS]}}, _DRAWS]})

_AMOUNT = {"type": "number", "minimum": 0}
_ACCOUNT = {
    "type": "object",
    "properties": {
        **{str(unit): {"type": "number", "exclusiveMinimum": 0} for unit in Unit},
        "per": words_of(Per),
        "policy": words_of(Exceeded),
        "estimate": _AMOUNT,
        "timezone": {"type": "string"},
    },
    "required": ["per"],
    "oneOf": [{"required": [str(unit)]} for unit in Unit],
    "additionalProperties": False,
}
_PRICE = {
    "type": "object",
    "properties": {"input": _AMOUNT, "output": _AMOUNT, "cached_input": _AMOUNT},
    "required": ["input", "output"],
    "additionalProperties": False,
}
account_name = Value(limits.read_name, POOL)
secrets = Value(
    problems.map_of(origins.read_secret_name, origins.read_origin, hint=origins.HINT),
    {"type": "object", "additionalProperties": origins.SCHEMA},
)
price = Value(limits.read_price, _PRICE)
_SUBSCRIPTION = {
    "type": "object",
    "properties": {
        "of": {"const": "subscription"},
        "provider": {"type": "string", "pattern": r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)?$"},
        "keep": {"type": "string", "pattern": r"^\s*[0-9]{1,2}(\.[0-9]{1,2})? ?%\s*$"},
    },
    "required": ["of", "keep"],
    "additionalProperties": False,
}
budgets = Value(
    problems.map_of(account_name.read, limits.read_budget),
    {"type": "object", "propertyNames": POOL, "additionalProperties": {"anyOf": [_ACCOUNT, _SUBSCRIPTION]}},
)
prices = Value(problems.map_of(text.read, price.read), {"type": "object", "additionalProperties": _PRICE})
accounts = Value(limits.read_names, {"anyOf": [POOL, {"type": "array", "items": POOL}]})
estimates = Value(
    limits.read_estimates,
    {"anyOf": [_AMOUNT, {"type": "object", "propertyNames": POOL, "additionalProperties": _AMOUNT}]},
)

_RETRY = {
    "type": "object",
    "properties": {
        "max_attempts": {"type": "integer", "minimum": 1, "maximum": limits.ATTEMPTS},
        "backoff": GRACE,
        "factor": {"type": "number", "minimum": 1, "maximum": limits.FACTOR},
        "max": DURATION,
        "jitter": JITTER,
    },
    "additionalProperties": False,
}
_REPEATED = {
    "type": "object",
    "properties": {"after": {"type": "integer", "minimum": 1, "maximum": limits.FAILURES}, "backoff_max": DURATION},
    "additionalProperties": False,
}
retry_policy = Value(limits.read_retry, {"anyOf": [{"type": "boolean"}, _RETRY]})
repeated_failure_policy = Value(limits.read_repeated_failure, {"anyOf": [{"type": "boolean"}, _REPEATED]})
