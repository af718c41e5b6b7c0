"""The types of values in a file, each with its reader and its JSON Schema."""

from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

from pydantic import PlainValidator as Reads
from pydantic import WithJsonSchema as Schema

from rota.agents.registry import CAPABILITIES
from rota.declare import agents, calendar, limits, notifications, problems, readers
from rota.declare.problems import JOB_NAME
from rota.model import spec
from rota.model.agents import Access
from rota.model.budgets import Exceeded, Per, Price, Unit
from rota.model.errors import KeyPath
from rota.model.notifications import Channel, Target
from rota.model.proposals import Approval
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


def or_word(word: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also takes one word."""
    return {"anyOf": [*schema.get("anyOf", [schema]), {"const": word}]}


def words_of(kind: type[StrEnum]) -> dict[str, Any]:
    """Return the schema of the words of an enumeration."""
    return {"enum": [str(word) for word in kind]}


PRIORITY = 1000


class PollGroup(StrEnum):
    """What `group:` of an older file says: whether a job needs the shared poll."""

    LOCAL = "local"
    REMOTE = "remote"


class WorkType(StrEnum):
    """What `type:` may say; it must agree with the work that is given."""

    COMMAND = "command"
    SHELL = "shell"
    SCRIPT = "script"
    FUNCTION = "function"
    AGENT = "agent"


_INSTANT = {"type": "string", "pattern": f"^{problems.INSTANT.pattern.replace(chr(92) + 'd', '[0-9]')}$"}
_ENV_NAME = {"type": "string", "pattern": "^(?!ROTA_)[A-Za-z_][A-Za-z0-9_]*$"}
_ENV = {"type": "object", "propertyNames": _ENV_NAME, "additionalProperties": ENV_ENTRY}
Argument = Annotated[str, Reads(problems.read_argument), Schema({"type": "string", "pattern": r"^\s*[^\s-]"})]
Text = Annotated[str, Reads(problems.read_text), Schema({"type": "string", "minLength": 1})]
Note = Annotated[str, Reads(problems.read_note), Schema({"type": "string", "maxLength": 1000})]
Flag = Annotated[bool, Reads(problems.read_flag), Schema({"type": "boolean"})]
Switch = Annotated[bool, Reads(problems.read_switch), Schema({"enum": [True, False, "on", "off"]})]
Duration = Annotated[timedelta, Reads(problems.read_duration), Schema(DURATION)]
OptionalDuration = Annotated[timedelta | None, Reads(problems.read_duration), Schema(DURATION)]
_MODE_INTERVAL = or_word("never", DURATION)
ModeInterval = Annotated[timedelta | None, Reads(readers.read_one), Schema(_MODE_INTERVAL)]
Interval = Annotated[
    timedelta | spec.ByMode | None,
    Reads(readers.read_interval),
    Schema(
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
        }
    ),
]
Grace = Annotated[timedelta, Reads(problems.read_grace), Schema(GRACE)]
Timeout = Annotated[
    timedelta | None, Reads(problems.or_word("never", problems.read_duration)), Schema(or_word("never", DURATION))
]
Kept = Annotated[
    timedelta | None, Reads(problems.or_word("forever", problems.read_duration)), Schema(or_word("forever", DURATION))
]
KeptCount = Annotated[
    int | None,
    Reads(problems.or_word("forever", problems.whole(1, 1_000_000_000))),
    Schema(or_word("forever", {"type": "integer", "minimum": 1})),
]
KeptSize = Annotated[
    int | None,
    Reads(problems.or_word("forever", problems.read_size)),
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
    Reads(problems.between(timedelta(seconds=1), timedelta(hours=1), said="1s and 1h")),
    Schema(DURATION),
]
Zone = Annotated[
    str, Reads(problems.read_zone), Schema({"type": "string", "examples": ["Europe/Paris", "UTC", "local"]})
]
Instant = Annotated[str, Reads(problems.read_instant), Schema(_INSTANT)]
Cron = Annotated[
    tuple[str, ...],
    Reads(readers.read_cron),
    Schema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]
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
QuietHoursEntry = Annotated[calendar.WrittenQuiet | None, Reads(calendar.read_quiet_hours), Schema(_QUIET)]
OwnQuietHours = Annotated[
    calendar.WrittenQuiet | None,
    Reads(calendar.read_own_quiet_hours),
    Schema(or_word(calendar.IGNORE, _QUIET)),
]
Exceptions = Annotated[
    dict[int, str],
    Reads(calendar.read_except),
    Schema(
        {
            "type": "array",
            "items": {"type": "string", "pattern": r"^\s*([0-9]{4}-)?[0-9]{2}-[0-9]{2}\s*$|\.[iI][cC][sS]\s*$"},
        }
    ),
]
JitterValue = Annotated[spec.Jitter, Reads(problems.read_jitter), Schema(JITTER)]
Argv = Annotated[tuple[str, ...], Reads(readers.read_command), Schema(ARGV)]
Gate = Annotated[
    spec.Condition,
    Reads(readers.read_condition),
    Schema(
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
        }
    ),
]
EnvName = Annotated[str, Reads(readers.read_env_name), Schema(_ENV_NAME)]
EnvEntry = Annotated[spec.EnvValue, Reads(readers.read_env_value), Schema(ENV_ENTRY)]
Env = Annotated[dict[EnvName, EnvEntry], Schema(_ENV)]
Params = Annotated[
    dict[str, Any],
    Reads(readers.read_params),
    Schema({"type": "object", "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}),
]
Labels = Annotated[
    tuple[str, ...],
    Reads(readers.read_labels),
    Schema(
        {
            "anyOf": [
                {"type": "array", "items": {"type": "string"}},
                {"type": "object", "additionalProperties": SCALAR},
            ]
        }
    ),
]
Module = Annotated[
    str,
    Reads(problems.matching(problems.MODULE, "the name of a module", hint="write it as in `import package.module`")),
    Schema({"type": "string"}),
]
Pattern = Annotated[str, Reads(problems.read_pattern), Schema({"type": "string", "minLength": 1})]
FunctionName = Annotated[
    str,
    Reads(
        problems.matching(
            problems.FUNCTION,
            "the name of a function",
            hint="write a registered name or module:function; a line of shell is written shell: …",
        )
    ),
    Schema({"type": "string"}),
]
Aging = Annotated[
    timedelta | None,
    Reads(problems.or_word("off", problems.between(timedelta(seconds=1), timedelta(days=7), said="1s and 7d"))),
    Schema(or_word("off", DURATION)),
]
Count = Annotated[int, Reads(problems.whole(1, 1000)), Schema({"type": "integer", "minimum": 1, "maximum": 1000})]
Seconds = Annotated[int, Reads(problems.whole(1, 316_224_000)), Schema({"type": "integer", "minimum": 1})]
Priority = Annotated[
    int,
    Reads(problems.whole(-PRIORITY, PRIORITY)),
    Schema({"type": "integer", "minimum": -PRIORITY, "maximum": PRIORITY}),
]
_PARAMS = {"type": "object", "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}
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
Members = Annotated[dict[int, spec.Member], Reads(readers.read_members), Schema({"type": "array", "items": _MEMBER})]
GroupModeWord = Annotated[spec.GroupMode, Reads(problems.choice(spec.GroupMode)), Schema(words_of(spec.GroupMode))]
OnFailureWord = Annotated[spec.OnFailure, Reads(problems.choice(spec.OnFailure)), Schema(words_of(spec.OnFailure))]
AnchorWord = Annotated[spec.Anchor, Reads(problems.choice(spec.Anchor)), Schema(words_of(spec.Anchor))]
FirstRunWord = Annotated[spec.FirstRun, Reads(problems.choice(spec.FirstRun)), Schema(words_of(spec.FirstRun))]
MisfireWord = Annotated[
    spec.MisfirePolicy, Reads(problems.choice(spec.MisfirePolicy)), Schema(words_of(spec.MisfirePolicy))
]
OverlapWord = Annotated[
    spec.OverlapPolicy,
    Reads(problems.choice(spec.OverlapPolicy, otherwise="`forbid` skips a run while another one is unfinished")),
    Schema(words_of(spec.OverlapPolicy)),
]
IsolateWord = Annotated[spec.Isolate, Reads(problems.choice(spec.Isolate)), Schema(words_of(spec.Isolate))]
OutputWord = Annotated[
    spec.OutputPolicy, Reads(problems.choice(spec.OutputPolicy)), Schema(words_of(spec.OutputPolicy))
]
OnRestartWord = Annotated[spec.OnRestart, Reads(problems.choice(spec.OnRestart)), Schema(words_of(spec.OnRestart))]
WhenFalseWord = Annotated[spec.WhenFalse, Reads(problems.choice(spec.WhenFalse)), Schema(words_of(spec.WhenFalse))]
PollGroupWord = Annotated[
    PollGroup, Reads(problems.choice(PollGroup, otherwise=problems.GROUPS)), Schema(words_of(PollGroup))
]
TimeOfDay = Annotated[
    str, Reads(notifications.read_finish_by), Schema({"type": "string", "pattern": "^ *[0-9]{1,2}:[0-9]{2} *$"})
]
TypeWord = Annotated[WorkType, Reads(problems.choice(WorkType)), Schema(words_of(WorkType))]


StoreAddress = Annotated[
    str, Reads(readers.read_store), Schema({"type": "string", "pattern": "^(sqlite$|postgres(ql)?://)"})
]
PollUrl = Annotated[str, Reads(readers.read_url), Schema({"type": "string", "format": "uri"})]
Listen = Annotated[str, Reads(readers.read_listen), Schema({"type": "string"})]
BasePath = Annotated[str, Reads(readers.read_base_path), Schema({"type": "string", "pattern": "^/"})]
PublicUrl = Annotated[str, Reads(readers.read_public_url), Schema({"type": "string", "format": "uri"})]
PollHeaders = Annotated[
    dict[str, spec.EnvValue], Reads(readers.read_headers), Schema({"type": "object", "additionalProperties": ENV_ENTRY})
]

_PLACE: dict[str, Any] = {"anyOf": [{"type": "string", "format": "uri"}, SECRET]}
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
        "telegram": {"type": ["integer", "string"]},
        "token": SECRET,
        "command": ARGV,
        "signing": {"anyOf": [SECRET, {"type": "array", "items": SECRET, "minItems": 1, "maxItems": 2}]},
        "allow_private": {"type": "array", "items": {"type": "string"}},
        "remind": or_word("always", DURATION),
        "timeout": DURATION,
    },
    "oneOf": [{"required": [channel]} for channel in Channel],
    "additionalProperties": False,
}
TargetName = Annotated[str, Reads(notifications.read_target_name), Schema({"type": "string"})]
TargetEntry = Annotated[Target, Reads(notifications.read_target), Schema(_TARGET)]
Targets = Annotated[dict[TargetName, TargetEntry], Schema({"type": "object", "additionalProperties": _TARGET})]
Notify = Annotated[
    notifications.WrittenNotify | None,
    Reads(notifications.read_notify),
    Schema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                _TARGET,
                {"type": "array", "items": {"anyOf": [{"type": "string"}, _TARGET]}, "maxItems": notifications.MOST},
            ]
        }
    ),
]
PingUrl = Annotated[
    Target | None,
    Reads(notifications.read_ping),
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


Depth = Annotated[int, Reads(problems.whole(0, 10)), Schema({"type": "integer", "minimum": 0, "maximum": 10})]
ApprovalWord = Annotated[Approval, Reads(problems.choice(Approval)), Schema(words_of(Approval))]
AdapterEntry = Annotated[
    str | agents.FunctionAdapter,
    Reads(agents.read_adapter),
    Schema(
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
        }
    ),
]
AccessWord = Annotated[Access, Reads(problems.choice(Access)), Schema(words_of(Access))]
SessionWord = Annotated[spec.SessionMode, Reads(problems.choice(spec.SessionMode)), Schema(words_of(spec.SessionMode))]
WorkspaceWord = Annotated[spec.Workspace, Reads(problems.choice(spec.Workspace)), Schema(words_of(spec.Workspace))]
Carried = Annotated[
    tuple[spec.Carry, ...],
    Reads(agents.read_carry),
    Schema({"anyOf": [words_of(spec.Carry), {"type": "array", "items": words_of(spec.Carry)}]}),
]
AfterEntry = Annotated[
    spec.AfterStep | None,
    Reads(agents.read_after),
    Schema(
        {
            "type": "object",
            "properties": {"command": ARGV, "shell": {"type": "string"}, "cwd": words_of(spec.StepFolder)},
            "oneOf": [{"required": ["command"]}, {"required": ["shell"]}],
            "additionalProperties": False,
        }
    ),
]
WorkSourceEntry = Annotated[
    spec.WorkSource | None,
    Reads(agents.read_work_source),
    Schema(
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
        }
    ),
]
Money = Annotated[float | None, Reads(read_money), Schema({"type": "number", "exclusiveMinimum": 0})]
Prompt = Annotated[str, Reads(read_prompt), Schema({"type": "string", "pattern": r"\S"})]


_COST = {"type": "integer", "minimum": 1, "maximum": limits.CAPACITY}
_DRAWS = {"type": "object", "propertyNames": POOL, "additionalProperties": _COST}
Capacities = Annotated[
    dict[str, int],
    Reads(limits.read_capacities),
    Schema(
        {
            "type": "object",
            "propertyNames": POOL,
            "additionalProperties": {"type": "integer", "minimum": 0, "maximum": limits.CAPACITY},
        }
    ),
]
Draws = Annotated[
    dict[KeyPath, spec.Draw],
    Reads(limits.read_draws),
    Schema({"anyOf": [{"type": "array", "items": {"anyOf": [POOL, _DRAWS]}}, _DRAWS]}),
]

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
AccountName = Annotated[str, Reads(limits.read_name), Schema(POOL)]
AccountEntry = Annotated[limits.WrittenAccount, Reads(limits.read_account), Schema(_ACCOUNT)]
PriceEntry = Annotated[Price, Reads(limits.read_price), Schema(_PRICE)]
Budgets = Annotated[
    dict[AccountName, AccountEntry],
    Schema({"type": "object", "propertyNames": POOL, "additionalProperties": _ACCOUNT}),
]
Prices = Annotated[dict[Text, PriceEntry], Schema({"type": "object", "additionalProperties": _PRICE})]
Accounts = Annotated[
    dict[KeyPath, str],
    Reads(limits.read_names),
    Schema({"anyOf": [POOL, {"type": "array", "items": POOL}]}),
]
Estimates = Annotated[
    dict[str, Decimal],
    Reads(limits.read_estimates),
    Schema({"anyOf": [_AMOUNT, {"type": "object", "propertyNames": POOL, "additionalProperties": _AMOUNT}]}),
]

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
    "properties": {
        "after": {"type": "integer", "minimum": 1, "maximum": limits.FAILURES},
        "backoff_max": DURATION,
    },
    "additionalProperties": False,
}
RetryPolicy = Annotated[spec.Retry, Reads(limits.read_retry), Schema({"anyOf": [{"type": "boolean"}, _RETRY]})]
RepeatedFailurePolicy = Annotated[
    spec.RepeatedFailure | None,
    Reads(limits.read_repeated_failure),
    Schema({"anyOf": [{"type": "boolean"}, _REPEATED]}),
]
