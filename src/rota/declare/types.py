"""The types of values in a file, each with its reader and its JSON Schema."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from rota.agents.registry import CAPABILITIES
from rota.declare import problems
from rota.declare.problems import JOB_NAME
from rota.declare.readers import agents, calendar, chats, function_agents, limits, notifications, params, work_sources
from rota.declare.readers import people as people_keys
from rota.declare.readers import secrets as origins
from rota.declare.readers import values as readers
from rota.model import spec
from rota.model.agents import Access
from rota.model.budgets import Exceeded, Per, Unit
from rota.model.notifications import Channel
from rota.model.params import ParamType
from rota.model.proposals import Approval
from rota.settings import LogFormat
from rota.sources.github import LABELS

TEXT = {"type": "string"}
SOME_TEXT = {"type": "string", "minLength": 1}
URL = {"type": "string", "format": "uri"}
FLAG = {"type": "boolean"}


def array(items: dict[str, Any], **bounds: int) -> dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **bounds}


def either(*schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value that one of several schemas fits."""
    return {"anyOf": list(schemas)}


def closed(
    properties: dict[str, Any], *, needs: Sequence[str] = (), one_of: Iterable[str] = (), **rules: Any
) -> dict[str, Any]:
    """Return the schema of a map with these keys alone: it has all that it `needs`, and exactly one of `one_of`."""
    found: dict[str, Any] = {"type": "object", "properties": properties}
    found |= {"required": list(needs)} if needs else {}
    found |= {"oneOf": [{"required": [key]} for key in one_of]} if one_of else {}
    return {**found, **rules, "additionalProperties": False}


DURATION: dict[str, Any] = either(
    {"type": "string", "pattern": r"^\s*[0-9]+[smhdSMHD]\s*$", "examples": ["30s", "5m", "1h", "1d"]},
    {"type": "integer", "minimum": 1},
)
GRACE = either(DURATION["anyOf"][0], {"type": "integer", "minimum": 0})
JITTER = either(
    {"type": "string", "pattern": r"^\s*([0-9]+[smhdSMHD]|[0-9]{1,3}(\.[0-9]{1,3})? ?%)\s*$"},
    {"type": "integer", "minimum": 0},
)
SCALAR = {"type": ["string", "number", "boolean"]}
ARGV: dict[str, Any] = either(array(SCALAR, minItems=1), SOME_TEXT)
ENV_ENTRY: dict[str, Any] = either(SCALAR, closed({"secret": TEXT}, needs=["secret"]))
SECRET: dict[str, Any] = ENV_ENTRY["anyOf"][1]
POOL = {"type": "string", "pattern": f"^{JOB_NAME.pattern}$"}


class Value(NamedTuple):
    """A kind of value: its reader, which raises BadValue, and its JSON Schema."""

    read: problems.Reader
    schema: dict[str, Any]


def or_word(word: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also takes one word."""
    return either(*schema.get("anyOf", [schema]), {"const": word})


def words_of(kind: type[StrEnum]) -> dict[str, Any]:
    """Return the schema of the words of an enumeration."""
    return {"enum": [str(word) for word in kind]}


def word(kind: type[StrEnum], *, otherwise: str = "") -> Value:
    """Return the kind of value that is a word of an enumeration; `otherwise` is the hint where no word is near."""
    return Value(problems.choice(kind, otherwise=otherwise), words_of(kind))


def list_of(key: str, item: Value) -> Value:
    """Return the kind of value that is a list; `key` is shown in the hint."""
    return Value(problems.list_of(key, item.read), {"items": item.schema, "type": "array"})


def whole(least: int, most: int) -> Value:
    """Return the kind of value that is a whole number from `least` to `most`."""
    return Value(problems.whole(least, most), {"type": "integer", "minimum": least, "maximum": most})


def optional(word: str, kind: Value) -> Value:
    """Return the kind of value that may also be a word, which stands for none."""
    return Value(problems.or_word(word, kind.read), or_word(word, kind.schema))


def or_none(kind: Value) -> Value:
    """Return the kind of value that may also be empty."""
    return Value(lambda value: None if value is None else kind.read(value), either(kind.schema, {"type": "null"}))


any_map = Value(problems.map_of(str, lambda value: value), {"additionalProperties": True, "type": "object"})


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
text = Value(problems.read_text, SOME_TEXT)
note = Value(problems.read_note, {"type": "string", "maxLength": 1000})
flag = Value(problems.read_flag, FLAG)
log_format = word(LogFormat)
keep_awake = word(spec.KeepAwake)
switch = Value(problems.read_switch, {"enum": [True, False, "on", "off"]})
duration = Value(problems.read_duration, DURATION)
timeout = mode_interval = optional("never", duration)
interval = Value(
    readers.read_interval,
    either(*DURATION["anyOf"], closed(dict.fromkeys(readers.MODES, mode_interval.schema), needs=["active"])),
)
grace = Value(problems.read_grace, GRACE)
loop_guard = optional("never", whole(2, 1000))
kept = optional("forever", duration)
kept_count = optional("forever", Value(problems.whole(1, 1_000_000_000), {"type": "integer", "minimum": 1}))
SIZE: dict[str, Any] = either(
    {"type": "string", "pattern": r"^\s*[0-9]+ ?([kKmMgGtT]?[bB])\s*$", "examples": ["500MB", "5GB"]},
    {"type": "integer", "minimum": 1},
)
kept_size = optional("forever", Value(problems.read_size, SIZE))
tick = Value(problems.between(timedelta(seconds=1), timedelta(hours=1), said="1s and 1h"), DURATION)
zone = Value(problems.read_zone, {"type": "string", "examples": ["Europe/Paris", "UTC", "local"]})
instant = Value(problems.read_instant, _INSTANT)
cron = Value(readers.read_cron, either(TEXT, array(TEXT, minItems=1)))
_WINDOW = {"type": "string", "pattern": r"^([A-Za-z ,-]*[A-Za-z]\s+)?[0-9]{1,2}:[0-9]{2}\s*-\s*[0-9]{1,2}:[0-9]{2}$"}
_WINDOWS = either(_WINDOW, array(_WINDOW, minItems=1))
_QUIET: dict[str, Any] = either(
    *_WINDOWS["anyOf"],
    closed({"windows": _WINDOWS, "policy": words_of(spec.QuietPolicy), "timezone": TEXT}, minProperties=1),
)
quiet_hours = Value(calendar.read_quiet_hours, _QUIET)
own_quiet_hours = Value(calendar.read_own_quiet_hours, or_word(calendar.IGNORE, _QUIET))
exceptions = Value(
    calendar.read_except,
    array({"type": "string", "pattern": r"^\s*([0-9]{4}-)?[0-9]{2}-[0-9]{2}\s*$|\.[iI][cC][sS]\s*$"}),
)
jitter_value = Value(problems.read_jitter, JITTER)
argv = Value(readers.read_command, ARGV)
pace = Value(readers.read_pace, closed({"min": DURATION, "max": DURATION}, needs=["min", "max"]))
gate = Value(
    readers.read_condition,
    either(SOME_TEXT, closed({"name": TEXT, "command": ARGV, "timeout": DURATION}, one_of=("name", "command"))),
)
env_name = Value(readers.read_env_name, _ENV_NAME)
env_value = Value(readers.read_env_value, ENV_ENTRY)
env = Value(problems.map_of(env_name.read, env_value.read), _ENV)
_PARAMS: dict[str, Any] = {"type": "object", "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}
_BOUND = {"type": "number"}
_PARAM_KIND: dict[str, Any] = closed(
    {
        "type": words_of(ParamType),
        "one_of": array(SCALAR, minItems=1, maxItems=params.MAX_CHOICES),
        "min": _BOUND,
        "max": _BOUND,
        "default": {},
        "description": {"type": "string", "maxLength": 1000},
    },
    anyOf=[{"required": ["type"]}, {"required": ["one_of"]}],
)
job_params = Value(
    params.read_job_params,
    {
        **_PARAMS,
        "additionalProperties": either({"not": {"type": "object", "anyOf": _PARAM_KIND["anyOf"]}}, _PARAM_KIND),
    },
)
labels = Value(readers.read_labels, either(array(TEXT), {"type": "object", "additionalProperties": SCALAR}))
module = Value(
    problems.matching(problems.MODULE, "the name of a module", hint="write it as in `import package.module`"), TEXT
)
pattern = Value(problems.read_pattern, SOME_TEXT)
function_name = Value(
    problems.matching(
        problems.FUNCTION,
        "the name of a function",
        hint="write a registered name or module:function; a line of shell is written shell: …",
    ),
    TEXT,
)
aging = optional("off", Value(problems.between(timedelta(seconds=1), timedelta(days=7), said="1s and 7d"), DURATION))
count = whole(1, 1000)
seconds = Value(problems.whole(1, 316_224_000), {"type": "integer", "minimum": 1})
priority = whole(-1000, 1000)
_MEMBER = either(SOME_TEXT, closed({"job": TEXT, "params": _PARAMS, "always": FLAG}, needs=["job"]))
members = Value(readers.read_members, array(_MEMBER))
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
poll_url = Value(readers.read_url, URL)
listen = Value(readers.read_listen, TEXT)
base_path = Value(readers.read_base_path, {"type": "string", "pattern": "^/"})
public_url = Value(readers.read_public_url, URL)
header_name = Value(people_keys.read_header_name, {"type": "string", "pattern": "^[A-Za-z0-9-]+$"})
networks = Value(people_keys.read_networks, either(TEXT, array(TEXT, minItems=1)))
named_secret = Value(people_keys.read_named_secret, SECRET)
oidc = Value(
    people_keys.read_oidc,
    closed(
        {
            "issuer": URL,
            "client_id": SOME_TEXT,
            "client_secret": SECRET,
            "claim": SOME_TEXT,
            "scope": {"type": "string", "pattern": "(^| )openid( |$)"},
        },
        needs=["issuer", "client_id"],
    ),
)
person_scope = Value(people_keys.read_person_scope, {"enum": ["none", *people_keys.PERSON_SCOPES]})
people = Value(
    problems.map_of(people_keys.read_person, person_scope.read),
    {"type": "object", "additionalProperties": person_scope.schema},
)
poll_headers = Value(readers.read_headers, {"type": "object", "additionalProperties": ENV_ENTRY})

_PLACE: dict[str, Any] = either(URL, SECRET)
_TIME_OF_DAY = {"type": "string", "pattern": r"^\s*([01]?[0-9]|2[0-3]):[0-5][0-9]\s*$"}
_NUMBER: dict[str, Any] = {"type": ["integer", "string"]}
_NAMES: dict[str, Any] = array(TEXT, minItems=1)
_OF_A_CHAT: dict[str, Any] = {
    "users": array(_NUMBER, minItems=1, maxItems=chats.MAX_USERS),
    "commands": closed({"run": _NAMES, "pause": _NAMES, "status": FLAG}),
    "questions": FLAG,
    "api_url": URL,
}
_TELEGRAM: dict[str, Any] = closed({"chat": _NUMBER, "token": SECRET, **_OF_A_CHAT}, needs=["chat"])
_SLACK: dict[str, Any] = closed(
    {"channel": TEXT, "bot_token": SECRET, "app_token": SECRET, **_OF_A_CHAT}, needs=["channel", "bot_token"]
)
_TARGET: dict[str, Any] = closed(
    {
        "on": either({"enum": list(notifications.EVENTS)}, array({"enum": list(notifications.EVENTS)}, minItems=1)),
        "webhook": _PLACE,
        "apprise": SECRET,
        "telegram": either(_NUMBER, _TELEGRAM),
        "slack": _SLACK,
        "token": SECRET,
        "command": ARGV,
        "signing": either(SECRET, array(SECRET, minItems=1, maxItems=2)),
        "allow_private": array(TEXT),
        "digest": either(_TIME_OF_DAY, array(_TIME_OF_DAY, minItems=1, maxItems=notifications.MAX_DIGESTS)),
        "remind": or_word("always", DURATION),
        "timeout": DURATION,
    },
    one_of=Channel,
)
target_name = Value(notifications.read_target_name, TEXT)
target = Value(notifications.read_target, _TARGET)
targets = Value(problems.map_of(target_name.read, target.read), {"type": "object", "additionalProperties": _TARGET})
notify = Value(
    notifications.read_notify,
    either(SOME_TEXT, _TARGET, array(either(TEXT, _TARGET), maxItems=notifications.MAX_TARGETS)),
)
ping_url = Value(
    notifications.read_ping,
    either(*_PLACE["anyOf"], closed({"url": _PLACE, "allow_private": array(TEXT)}, needs=["url"])),
)
ping = optional("none", ping_url)


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
    either(SOME_TEXT, closed({"to": either(SOME_TEXT, _NAMES), "when": words_of(spec.DeliverWhen)}, needs=["to"])),
)
depth = whole(0, 10)
approval = word(Approval)
adapter = Value(
    function_agents.read_adapter,
    either(
        SOME_TEXT,
        closed({"run": TEXT, "capabilities": array({"enum": list(CAPABILITIES)}), "provider": TEXT}, needs=["run"]),
    ),
)
access = word(Access)
session = word(spec.SessionMode)
on_quota = word(spec.OnQuota)
turns = whole(1, 100_000)
login_account = Value(agents.read_account, either(TEXT, closed({"name": TEXT, "dir": TEXT}, needs=["name"])))
words = list_of("args", text)
folders = list_of("add_dirs", text)
profile = Value(agents.read_profile, {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]*$"})
_NAMES = array(TEXT)
mcp_servers = Value(
    agents.read_servers,
    {
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z][A-Za-z0-9_-]*$"},
        "additionalProperties": closed(
            {"command": ARGV, "url": TEXT, "tools": _NAMES, "env_pass": _NAMES}, one_of=("command", "url")
        ),
    },
)
workspace = word(spec.Workspace)
agent_names = Value(agents.read_agents, either(text.schema, array(text.schema, minItems=1)))
models = Value(agents.read_models, either(argument.schema, array(argument.schema, minItems=1)))
carried = Value(agents.read_carry, either(words_of(spec.Carry), array(words_of(spec.Carry))))
after = Value(
    agents.read_after,
    closed({"command": ARGV, "shell": TEXT, "cwd": words_of(spec.StepFolder)}, one_of=("command", "shell")),
)
postcondition = Value(
    readers.read_postcondition,
    closed({"command": ARGV, "shell": TEXT, "timeout": DURATION}, one_of=("command", "shell")),
)
_HOSTS = {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": readers.HOST.pattern}}
_LIMIT_SIZES = {
    "memory": SIZE,
    "cpus": {"type": "number", "minimum": 0.01, "maximum": readers.MAX_CPUS},
    "processes": {"type": "integer", "minimum": 1, "maximum": readers.MAX_PROCESSES},
}
run_limits = Value(readers.read_limits, closed(_LIMIT_SIZES, minProperties=1))
_SWITCH = {"enum": ["on", "off", True, False]}
_PATHS = array(TEXT)
sandbox = Value(
    readers.read_sandbox,
    either(
        {"enum": ["bubblewrap", "none"]},
        closed(
            {"bubblewrap": {"const": True}, "network": either(_SWITCH, _HOSTS), "write": _PATHS}, needs=["bubblewrap"]
        ),
        closed(
            {
                "container": {"type": "string", "pattern": "^[^-]"},
                "runtime": {"enum": ["docker", "podman"]},
                "network": _SWITCH,
                "write": _PATHS,
                "user": SOME_TEXT,
                **_LIMIT_SIZES,
            },
            needs=["container"],
        ),
    ),
)
work_source = Value(
    work_sources.read_work_source,
    closed(
        {
            "github": {"type": "string", "pattern": "^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$"},
            **{label: {"type": "string", "pattern": "^[^,]{1,50}$"} for label in LABELS},
            "token": SECRET,
            "api_url": TEXT,
            "directory": TEXT,
            "pattern": TEXT,
            "http": TEXT,
            "headers": {"type": "object", "additionalProperties": ENV_ENTRY},
            "run": TEXT,
            "options": {"type": "object"},
            "timeout": DURATION,
            "attempts": {"type": "integer", "minimum": 1, "maximum": 100},
        },
        one_of=("github", "directory", "http", "run"),
    ),
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
draws = Value(limits.read_draws, either(array(either(POOL, _DRAWS)), _DRAWS))

_AMOUNT = {"type": "number", "minimum": 0}
_ACCOUNT = closed(
    {
        **{str(unit): {"type": "number", "exclusiveMinimum": 0} for unit in Unit},
        "per": words_of(Per),
        "policy": words_of(Exceeded),
        "estimate": _AMOUNT,
        "timezone": TEXT,
    },
    needs=["per"],
    one_of=Unit,
)
_PRICE = closed({"input": _AMOUNT, "output": _AMOUNT, "cached_input": _AMOUNT}, needs=["input", "output"])
account_name = Value(limits.read_name, POOL)
secrets = Value(
    problems.map_of(origins.read_secret_name, origins.read_origin, hint=origins.HINT),
    {
        "type": "object",
        "additionalProperties": closed(
            {
                "command": either(TEXT, array(TEXT, minItems=1)),
                "file": SOME_TEXT,
                "keyring": {"type": "string", "pattern": "^[^/]+/.+$"},
                "timeout": {"type": ["string", "integer"]},
            },
            one_of=origins.KINDS,
        ),
    },
)
price = Value(limits.read_price, _PRICE)
_SUBSCRIPTION = closed(
    {
        "of": {"const": "subscription"},
        "provider": {"type": "string", "pattern": r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)?$"},
        "keep": {"type": "string", "pattern": r"^\s*[0-9]{1,2}(\.[0-9]{1,2})? ?%\s*$"},
    },
    needs=["of", "keep"],
)
budgets = Value(
    problems.map_of(account_name.read, limits.read_budget),
    {"type": "object", "propertyNames": POOL, "additionalProperties": either(_ACCOUNT, _SUBSCRIPTION)},
)
prices = Value(problems.map_of(text.read, price.read), {"type": "object", "additionalProperties": _PRICE})
accounts = Value(limits.read_names, either(POOL, array(POOL)))
estimates = Value(
    limits.read_estimates, either(_AMOUNT, {"type": "object", "propertyNames": POOL, "additionalProperties": _AMOUNT})
)

_RETRY = closed(
    {
        "max_attempts": {"type": "integer", "minimum": 1, "maximum": limits.ATTEMPTS},
        "backoff": GRACE,
        "factor": {"type": "number", "minimum": 1, "maximum": limits.FACTOR},
        "max": DURATION,
        "jitter": JITTER,
    }
)
_REPEATED = closed({"after": {"type": "integer", "minimum": 1, "maximum": limits.FAILURES}, "backoff_max": DURATION})
retry_policy = Value(limits.read_retry, either(FLAG, _RETRY))
repeated_failure_policy = Value(limits.read_repeated_failure, either(FLAG, _REPEATED))
