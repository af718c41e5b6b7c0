"""The types of single values in the file: each reads with our own reader and shows our own schema to editors."""

from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

from pydantic import PlainValidator as Reads
from pydantic import WithJsonSchema as Schema

from rota.declare import (
    addresses,
    briefs,
    budgets,
    excluding,
    fields,
    function_agents,
    hints,
    intervals,
    listening,
    maps,
    members,
    notify,
    pools,
    quiet_hours,
    retries,
    sources,
    words,
)
from rota.model.agents import Access
from rota.model.budget import Exceeded, Per, Price, Unit
from rota.model.making import Approval
from rota.model.notify import Channel, Target
from rota.model.spec import (
    AfterStep,
    Anchor,
    ByMode,
    Carry,
    Condition,
    Draw,
    EnvValue,
    FirstRun,
    GroupMode,
    Isolate,
    Jitter,
    Member,
    MisfirePolicy,
    OnFailure,
    OnRestart,
    OutputPolicy,
    OverlapPolicy,
    QuietPolicy,
    RepeatedFailure,
    Retry,
    SessionMode,
    StepFolder,
    WhenFalse,
    WorkSource,
    Workspace,
)

PRIORITY = 1000


class PollGroup(StrEnum):
    """What `group:` of an older file says: whether a job needs the shared poll."""

    LOCAL = "local"
    REMOTE = "remote"


def read_money(value: Any) -> float:
    """Return an amount of dollars above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1_000_000:
        raise fields.wrong_type(value, "an amount of dollars", hint="write a number such as 2.00")
    return float(value)


def read_prompt(value: Any) -> str:
    """Return a task for an agent; an empty one means the default task."""
    if not isinstance(value, str):
        raise fields.wrong_type(value, "a text", hint="write the task, or `prompt_file:`")
    return value


class WorkType(StrEnum):
    """What `type:` may say; it must agree with the work that is given."""

    COMMAND = "command"
    SHELL = "shell"
    SCRIPT = "script"
    FUNCTION = "function"
    AGENT = "agent"


_DURATION: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "pattern": r"^\s*[0-9]+[smhdSMHD]\s*$", "examples": ["30s", "5m", "1h", "1d"]},
        {"type": "integer", "minimum": 1},
    ]
}
_GRACE = {"anyOf": [_DURATION["anyOf"][0], {"type": "integer", "minimum": 0}]}
_JITTER = {
    "anyOf": [
        {"type": "string", "pattern": r"^\s*([0-9]+[smhdSMHD]|[0-9]{1,3}(\.[0-9]{1,3})? ?%)\s*$"},
        {"type": "integer", "minimum": 0},
    ]
}
_ARGV: dict[str, Any] = {
    "anyOf": [
        {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1},
        {"type": "string", "minLength": 1},
    ]
}
_INSTANT = {"type": "string", "pattern": f"^{fields.INSTANT.pattern.replace(chr(92) + 'd', '[0-9]')}$"}
_ENV_NAME = {"type": "string", "pattern": "^(?!ROTA_)[A-Za-z_][A-Za-z0-9_]*$"}
_SCALAR = {"type": ["string", "number", "boolean"]}

_ENV_ENTRY: dict[str, Any] = {
    "anyOf": [
        _SCALAR,
        {
            "type": "object",
            "properties": {"secret": {"type": "string"}},
            "required": ["secret"],
            "additionalProperties": False,
        },
    ]
}
_SECRET: dict[str, Any] = _ENV_ENTRY["anyOf"][1]
_ENV = {"type": "object", "propertyNames": _ENV_NAME, "additionalProperties": _ENV_ENTRY}


def _or(word: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [*schema.get("anyOf", [schema]), {"const": word}]}


def _words(kind: type[StrEnum]) -> dict[str, Any]:
    return {"enum": [str(word) for word in kind]}


Text = Annotated[str, Reads(fields.read_text), Schema({"type": "string", "minLength": 1})]
Note = Annotated[str, Reads(fields.read_note), Schema({"type": "string", "maxLength": 1000})]
Flag = Annotated[bool, Reads(fields.read_flag), Schema({"type": "boolean"})]
Switch = Annotated[bool, Reads(fields.read_switch), Schema({"enum": [True, False, "on", "off"]})]
Duration = Annotated[timedelta, Reads(fields.read_duration), Schema(_DURATION)]
OptionalDuration = Annotated[timedelta | None, Reads(fields.read_duration), Schema(_DURATION)]
_MODE_INTERVAL = _or("never", _DURATION)
ModeInterval = Annotated[timedelta | None, Reads(intervals.read_one), Schema(_MODE_INTERVAL)]
Interval = Annotated[
    timedelta | ByMode | None,
    Reads(intervals.read_interval),
    Schema(
        {
            "anyOf": [
                *_DURATION["anyOf"],
                {
                    "type": "object",
                    "properties": dict.fromkeys(intervals.MODES, _MODE_INTERVAL),
                    "required": ["active"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
Grace = Annotated[timedelta, Reads(fields.read_grace), Schema(_GRACE)]
Timeout = Annotated[
    timedelta | None, Reads(fields.or_word("never", fields.read_duration)), Schema(_or("never", _DURATION))
]
Kept = Annotated[
    timedelta | None, Reads(fields.or_word("forever", fields.read_duration)), Schema(_or("forever", _DURATION))
]
KeptCount = Annotated[
    int | None,
    Reads(fields.or_word("forever", fields.whole(1, 1_000_000_000))),
    Schema(_or("forever", {"type": "integer", "minimum": 1})),
]
KeptSize = Annotated[
    int | None,
    Reads(fields.or_word("forever", fields.read_size)),
    Schema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\s*[0-9]+ ?([kKmMgGtT]?[bB])\s*$", "examples": ["500MB", "5GB"]},
                {"type": "integer", "minimum": 1},
                {"const": "forever"},
            ]
        }
    ),
]
Tick = Annotated[
    timedelta,
    Reads(fields.between(timedelta(seconds=1), timedelta(hours=1), said="1s and 1h")),
    Schema(_DURATION),
]
Zone = Annotated[str, Reads(fields.read_zone), Schema({"type": "string", "examples": ["Europe/Paris", "UTC", "local"]})]
Instant = Annotated[str, Reads(fields.read_instant), Schema(_INSTANT)]
Cron = Annotated[
    tuple[str, ...],
    Reads(fields.read_cron),
    Schema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]
_WINDOW = {"type": "string", "pattern": r"^([A-Za-z ,-]*[A-Za-z]\s+)?[0-9]{1,2}:[0-9]{2}\s*-\s*[0-9]{1,2}:[0-9]{2}$"}
_WINDOWS = {"anyOf": [_WINDOW, {"type": "array", "items": _WINDOW, "minItems": 1}]}
_QUIET: dict[str, Any] = {
    "anyOf": [
        *_WINDOWS["anyOf"],
        {
            "type": "object",
            "properties": {"windows": _WINDOWS, "policy": _words(QuietPolicy), "timezone": {"type": "string"}},
            "minProperties": 1,
            "additionalProperties": False,
        },
    ]
}
QuietHoursEntry = Annotated[quiet_hours.WrittenQuiet | None, Reads(quiet_hours.read_quiet_hours), Schema(_QUIET)]
OwnQuietHours = Annotated[
    quiet_hours.WrittenQuiet | None, Reads(quiet_hours.read_own_quiet_hours), Schema(_or(quiet_hours.IGNORE, _QUIET))
]
Exceptions = Annotated[
    tuple[str, ...],
    Reads(excluding.read_except),
    Schema(
        {
            "type": "array",
            "items": {"type": "string", "pattern": r"^\s*([0-9]{4}-)?[0-9]{2}-[0-9]{2}\s*$|\.[iI][cC][sS]\s*$"},
        }
    ),
]
JitterValue = Annotated[Jitter, Reads(fields.read_jitter), Schema(_JITTER)]
Argv = Annotated[tuple[str, ...], Reads(words.read_command), Schema(_ARGV)]
Gate = Annotated[
    Condition,
    Reads(words.read_condition),
    Schema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "command": _ARGV, "timeout": _DURATION},
                    "oneOf": [{"required": ["name"]}, {"required": ["command"]}],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
EnvName = Annotated[str, Reads(maps.read_env_name), Schema(_ENV_NAME)]
EnvEntry = Annotated[EnvValue, Reads(maps.read_env_value), Schema(_ENV_ENTRY)]
Env = Annotated[dict[EnvName, EnvEntry], Schema(_ENV)]
Params = Annotated[
    dict[str, Any],
    Reads(maps.read_params),
    Schema({"type": "object", "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}),
]
Labels = Annotated[
    tuple[str, ...],
    Reads(maps.read_labels),
    Schema(
        {
            "anyOf": [
                {"type": "array", "items": {"type": "string"}},
                {"type": "object", "additionalProperties": _SCALAR},
            ]
        }
    ),
]
Module = Annotated[
    str,
    Reads(fields.matching(fields.MODULE, "the name of a module", hint="write it as in `import package.module`")),
    Schema({"type": "string"}),
]
Pattern = Annotated[str, Reads(fields.read_pattern), Schema({"type": "string", "minLength": 1})]
FunctionName = Annotated[
    str,
    Reads(
        fields.matching(fields.FUNCTION, "the name of a function", hint="write a registered name or module:function")
    ),
    Schema({"type": "string"}),
]

_COST = {"type": "integer", "minimum": 1, "maximum": pools.CAPACITY}
_POOL = {"type": "string", "pattern": f"^{fields.JOB_NAME.pattern}$"}
_DRAWS = {"type": "object", "propertyNames": _POOL, "additionalProperties": _COST}
Aging = Annotated[
    timedelta | None,
    Reads(fields.or_word("off", fields.between(timedelta(seconds=1), timedelta(days=7), said="1s and 7d"))),
    Schema(_or("off", _DURATION)),
]
Capacities = Annotated[
    dict[str, int],
    Reads(pools.read_capacities),
    Schema(
        {
            "type": "object",
            "propertyNames": _POOL,
            "additionalProperties": {"type": "integer", "minimum": 0, "maximum": pools.CAPACITY},
        }
    ),
]
Draws = Annotated[
    dict[pools.KeyPath, Draw],
    Reads(pools.read_draws),
    Schema({"anyOf": [{"type": "array", "items": {"anyOf": [_POOL, _DRAWS]}}, _DRAWS]}),
]

_AMOUNT = {"type": "number", "minimum": 0}
_ACCOUNT = {
    "type": "object",
    "properties": {
        **{str(unit): {"type": "number", "exclusiveMinimum": 0} for unit in Unit},
        "per": _words(Per),
        "policy": _words(Exceeded),
        "estimate": _AMOUNT,
        "timezone": {"type": "string"},
    },
    "required": ["per"],
    "oneOf": [{"required": [str(unit)]} for unit in Unit],
    "additionalProperties": False,
}
_PRICE = {
    "type": "object",
    "properties": {"input": _AMOUNT, "output": _AMOUNT},
    "required": ["input", "output"],
    "additionalProperties": False,
}
AccountName = Annotated[str, Reads(budgets.read_name), Schema(_POOL)]
AccountEntry = Annotated[budgets.WrittenAccount, Reads(budgets.read_account), Schema(_ACCOUNT)]
PriceEntry = Annotated[Price, Reads(budgets.read_price), Schema(_PRICE)]
Budgets = Annotated[
    dict[AccountName, AccountEntry],
    Schema({"type": "object", "propertyNames": _POOL, "additionalProperties": _ACCOUNT}),
]
Prices = Annotated[dict[Text, PriceEntry], Schema({"type": "object", "additionalProperties": _PRICE})]
Accounts = Annotated[
    dict[budgets.KeyPath, str],
    Reads(budgets.read_names),
    Schema({"anyOf": [_POOL, {"type": "array", "items": _POOL}]}),
]
Estimates = Annotated[
    dict[str, Decimal],
    Reads(budgets.read_estimates),
    Schema({"anyOf": [_AMOUNT, {"type": "object", "propertyNames": _POOL, "additionalProperties": _AMOUNT}]}),
]

_RETRY = {
    "type": "object",
    "properties": {
        "max_attempts": {"type": "integer", "minimum": 1, "maximum": retries.ATTEMPTS},
        "backoff": _GRACE,
        "factor": {"type": "number", "minimum": 1, "maximum": retries.FACTOR},
        "max": _DURATION,
        "jitter": _JITTER,
    },
    "additionalProperties": False,
}
_REPEATED = {
    "type": "object",
    "properties": {
        "after": {"type": "integer", "minimum": 1, "maximum": retries.FAILURES},
        "backoff_max": _DURATION,
    },
    "additionalProperties": False,
}
RetryPolicy = Annotated[Retry, Reads(retries.read_retry), Schema({"anyOf": [{"type": "boolean"}, _RETRY]})]
RepeatedFailurePolicy = Annotated[
    RepeatedFailure | None,
    Reads(retries.read_repeated_failure),
    Schema({"anyOf": [{"type": "boolean"}, _REPEATED]}),
]

Count = Annotated[int, Reads(fields.whole(1, 1000)), Schema({"type": "integer", "minimum": 1, "maximum": 1000})]
Depth = Annotated[int, Reads(fields.whole(0, 10)), Schema({"type": "integer", "minimum": 0, "maximum": 10})]
Seconds = Annotated[int, Reads(fields.whole(1, 316_224_000)), Schema({"type": "integer", "minimum": 1})]
Priority = Annotated[
    int,
    Reads(fields.whole(-PRIORITY, PRIORITY)),
    Schema({"type": "integer", "minimum": -PRIORITY, "maximum": PRIORITY}),
]
_PARAMS = {"type": "object", "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}
MemberEntry = Annotated[
    Member,
    Reads(members.read_member),
    Schema(
        {
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
    ),
]
GroupModeWord = Annotated[GroupMode, Reads(fields.choice(GroupMode)), Schema(_words(GroupMode))]
OnFailureWord = Annotated[OnFailure, Reads(fields.choice(OnFailure)), Schema(_words(OnFailure))]
AnchorWord = Annotated[Anchor, Reads(fields.choice(Anchor)), Schema(_words(Anchor))]
FirstRunWord = Annotated[FirstRun, Reads(fields.choice(FirstRun)), Schema(_words(FirstRun))]
MisfireWord = Annotated[MisfirePolicy, Reads(fields.choice(MisfirePolicy)), Schema(_words(MisfirePolicy))]
OverlapWord = Annotated[OverlapPolicy, Reads(fields.choice(OverlapPolicy)), Schema(_words(OverlapPolicy))]
IsolateWord = Annotated[Isolate, Reads(fields.choice(Isolate)), Schema(_words(Isolate))]
OutputWord = Annotated[OutputPolicy, Reads(fields.choice(OutputPolicy)), Schema(_words(OutputPolicy))]
OnRestartWord = Annotated[OnRestart, Reads(fields.choice(OnRestart)), Schema(_words(OnRestart))]
WhenFalseWord = Annotated[WhenFalse, Reads(fields.choice(WhenFalse)), Schema(_words(WhenFalse))]
PollGroupWord = Annotated[PollGroup, Reads(fields.choice(PollGroup, otherwise=hints.GROUPS)), Schema(_words(PollGroup))]
StoreAddress = Annotated[
    str, Reads(addresses.read_store), Schema({"type": "string", "pattern": "^(sqlite$|postgres(ql)?://)"})
]
PollUrl = Annotated[str, Reads(addresses.read_url), Schema({"type": "string", "format": "uri"})]
Listen = Annotated[str, Reads(listening.read_listen), Schema({"type": "string"})]
BasePath = Annotated[str, Reads(listening.read_base_path), Schema({"type": "string", "pattern": "^/"})]
PublicUrl = Annotated[str, Reads(listening.read_public_url), Schema({"type": "string", "format": "uri"})]
PollHeaders = Annotated[
    dict[str, EnvValue], Reads(addresses.read_headers), Schema({"type": "object", "additionalProperties": _ENV_ENTRY})
]
_PLACE: dict[str, Any] = {"anyOf": [{"type": "string", "format": "uri"}, _SECRET]}
_TARGET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "on": {
            "anyOf": [
                {"enum": list(notify.EVENTS)},
                {"type": "array", "items": {"enum": list(notify.EVENTS)}, "minItems": 1},
            ]
        },
        "webhook": _PLACE,
        "apprise": _SECRET,
        "telegram": {"type": ["integer", "string"]},
        "token": _SECRET,
        "command": _ARGV,
        "signing": {"anyOf": [_SECRET, {"type": "array", "items": _SECRET, "minItems": 1, "maxItems": 2}]},
        "allow_private": {"type": "array", "items": {"type": "string"}},
        "remind": _or("always", _DURATION),
        "timeout": _DURATION,
    },
    "oneOf": [{"required": [channel]} for channel in Channel],
    "additionalProperties": False,
}
TargetName = Annotated[str, Reads(notify.read_target_name), Schema({"type": "string"})]
TargetEntry = Annotated[Target, Reads(notify.read_target), Schema(_TARGET)]
Targets = Annotated[dict[TargetName, TargetEntry], Schema({"type": "object", "additionalProperties": _TARGET})]
Notify = Annotated[
    notify.WrittenNotify | None,
    Reads(notify.read_notify),
    Schema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                _TARGET,
                {"type": "array", "items": {"anyOf": [{"type": "string"}, _TARGET]}, "maxItems": notify.MOST},
            ]
        }
    ),
]
PingUrl = Annotated[
    Target | None,
    Reads(notify.read_ping),
    Schema(
        {
            "anyOf": [
                *_PLACE["anyOf"],
                {
                    "type": "object",
                    "properties": {"url": _PLACE, "allow_private": {"type": "array", "items": {"type": "string"}}},
                    "required": ["url"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
TimeOfDay = Annotated[
    str, Reads(notify.read_finish_by), Schema({"type": "string", "pattern": "^ *[0-9]{1,2}:[0-9]{2} *$"})
]
ApprovalWord = Annotated[Approval, Reads(fields.choice(Approval)), Schema(_words(Approval))]
AdapterEntry = Annotated[
    str | function_agents.FunctionAdapter,
    Reads(function_agents.read_adapter),
    Schema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {
                    "type": "object",
                    "properties": {
                        "run": {"type": "string"},
                        "capabilities": {"type": "array", "items": {"enum": list(function_agents.CAPABILITIES)}},
                        "provider": {"type": "string"},
                    },
                    "required": ["run"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
AccessWord = Annotated[Access, Reads(fields.choice(Access)), Schema(_words(Access))]
SessionWord = Annotated[SessionMode, Reads(fields.choice(SessionMode)), Schema(_words(SessionMode))]
WorkspaceWord = Annotated[Workspace, Reads(fields.choice(Workspace)), Schema(_words(Workspace))]
Carried = Annotated[
    tuple[Carry, ...],
    Reads(briefs.read_carry),
    Schema({"anyOf": [_words(Carry), {"type": "array", "items": _words(Carry)}]}),
]
AfterEntry = Annotated[
    AfterStep | None,
    Reads(briefs.read_after),
    Schema(
        {
            "type": "object",
            "properties": {"command": _ARGV, "shell": {"type": "string"}, "cwd": _words(StepFolder)},
            "oneOf": [{"required": ["command"]}, {"required": ["shell"]}],
            "additionalProperties": False,
        }
    ),
]
WorkSourceEntry = Annotated[
    WorkSource | None,
    Reads(sources.read_work_source),
    Schema(
        {
            "type": "object",
            "properties": {
                "github": {"type": "string", "pattern": "^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$"},
                **{label: {"type": "string", "pattern": "^[^,]{1,50}$"} for label in sources.LABELS},
                "token": _SECRET,
                "api_url": {"type": "string"},
                "directory": {"type": "string"},
                "pattern": {"type": "string"},
                "http": {"type": "string"},
                "headers": {"type": "object", "additionalProperties": _ENV_ENTRY},
                "run": {"type": "string"},
                "options": {"type": "object"},
                "timeout": _DURATION,
                "attempts": {"type": "integer", "minimum": 1, "maximum": 100},
            },
            "oneOf": [{"required": [kind]} for kind in ("github", "directory", "http", "run")],
            "additionalProperties": False,
        }
    ),
]
Money = Annotated[float | None, Reads(read_money), Schema({"type": "number", "exclusiveMinimum": 0})]
Prompt = Annotated[str, Reads(read_prompt), Schema({"type": "string"})]
TypeWord = Annotated[WorkType, Reads(fields.choice(WorkType)), Schema(_words(WorkType))]
