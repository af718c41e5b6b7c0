"""The types of single values in the file: each reads with our own reader and shows our own schema to editors.

Those of limits, of addresses and of agents have their own modules.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

from pydantic import PlainValidator as Reads
from pydantic import WithJsonSchema as Schema

from rota.declare import crons, excluding, fields, hints, intervals, maps, members, notify, quiet_hours, words
from rota.declare.shapes import ARGV, DURATION, ENV_ENTRY, GRACE, JITTER, SCALAR, or_word, words_of
from rota.model.spec import (
    Anchor,
    ByMode,
    Condition,
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
    WhenFalse,
)

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


_INSTANT = {"type": "string", "pattern": f"^{fields.INSTANT.pattern.replace(chr(92) + 'd', '[0-9]')}$"}
_ENV_NAME = {"type": "string", "pattern": "^(?!ROTA_)[A-Za-z_][A-Za-z0-9_]*$"}
_ENV = {"type": "object", "propertyNames": _ENV_NAME, "additionalProperties": ENV_ENTRY}
Argument = Annotated[str, Reads(fields.read_argument), Schema({"type": "string", "pattern": r"^\s*[^\s-]"})]
Text = Annotated[str, Reads(fields.read_text), Schema({"type": "string", "minLength": 1})]
Note = Annotated[str, Reads(fields.read_note), Schema({"type": "string", "maxLength": 1000})]
Flag = Annotated[bool, Reads(fields.read_flag), Schema({"type": "boolean"})]
Switch = Annotated[bool, Reads(fields.read_switch), Schema({"enum": [True, False, "on", "off"]})]
Duration = Annotated[timedelta, Reads(fields.read_duration), Schema(DURATION)]
OptionalDuration = Annotated[timedelta | None, Reads(fields.read_duration), Schema(DURATION)]
_MODE_INTERVAL = or_word("never", DURATION)
ModeInterval = Annotated[timedelta | None, Reads(intervals.read_one), Schema(_MODE_INTERVAL)]
Interval = Annotated[
    timedelta | ByMode | None,
    Reads(intervals.read_interval),
    Schema(
        {
            "anyOf": [
                *DURATION["anyOf"],
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
Grace = Annotated[timedelta, Reads(fields.read_grace), Schema(GRACE)]
Timeout = Annotated[
    timedelta | None, Reads(fields.or_word("never", fields.read_duration)), Schema(or_word("never", DURATION))
]
Kept = Annotated[
    timedelta | None, Reads(fields.or_word("forever", fields.read_duration)), Schema(or_word("forever", DURATION))
]
KeptCount = Annotated[
    int | None,
    Reads(fields.or_word("forever", fields.whole(1, 1_000_000_000))),
    Schema(or_word("forever", {"type": "integer", "minimum": 1})),
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
    Schema(DURATION),
]
Zone = Annotated[str, Reads(fields.read_zone), Schema({"type": "string", "examples": ["Europe/Paris", "UTC", "local"]})]
Instant = Annotated[str, Reads(fields.read_instant), Schema(_INSTANT)]
Cron = Annotated[
    tuple[str, ...],
    Reads(crons.read_cron),
    Schema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]
_WINDOW = {"type": "string", "pattern": r"^([A-Za-z ,-]*[A-Za-z]\s+)?[0-9]{1,2}:[0-9]{2}\s*-\s*[0-9]{1,2}:[0-9]{2}$"}
_WINDOWS = {"anyOf": [_WINDOW, {"type": "array", "items": _WINDOW, "minItems": 1}]}
_QUIET: dict[str, Any] = {
    "anyOf": [
        *_WINDOWS["anyOf"],
        {
            "type": "object",
            "properties": {"windows": _WINDOWS, "policy": words_of(QuietPolicy), "timezone": {"type": "string"}},
            "minProperties": 1,
            "additionalProperties": False,
        },
    ]
}
QuietHoursEntry = Annotated[quiet_hours.WrittenQuiet | None, Reads(quiet_hours.read_quiet_hours), Schema(_QUIET)]
OwnQuietHours = Annotated[
    quiet_hours.WrittenQuiet | None,
    Reads(quiet_hours.read_own_quiet_hours),
    Schema(or_word(quiet_hours.IGNORE, _QUIET)),
]
Exceptions = Annotated[
    dict[int, str],
    Reads(excluding.read_except),
    Schema(
        {
            "type": "array",
            "items": {"type": "string", "pattern": r"^\s*([0-9]{4}-)?[0-9]{2}-[0-9]{2}\s*$|\.[iI][cC][sS]\s*$"},
        }
    ),
]
JitterValue = Annotated[Jitter, Reads(fields.read_jitter), Schema(JITTER)]
Argv = Annotated[tuple[str, ...], Reads(words.read_command), Schema(ARGV)]
Gate = Annotated[
    Condition,
    Reads(words.read_condition),
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
EnvName = Annotated[str, Reads(maps.read_env_name), Schema(_ENV_NAME)]
EnvEntry = Annotated[EnvValue, Reads(maps.read_env_value), Schema(ENV_ENTRY)]
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
                {"type": "object", "additionalProperties": SCALAR},
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
        fields.matching(
            fields.FUNCTION,
            "the name of a function",
            hint="write a registered name or module:function; a line of shell is written shell: …",
        )
    ),
    Schema({"type": "string"}),
]
Aging = Annotated[
    timedelta | None,
    Reads(fields.or_word("off", fields.between(timedelta(seconds=1), timedelta(days=7), said="1s and 7d"))),
    Schema(or_word("off", DURATION)),
]
Count = Annotated[int, Reads(fields.whole(1, 1000)), Schema({"type": "integer", "minimum": 1, "maximum": 1000})]
Seconds = Annotated[int, Reads(fields.whole(1, 316_224_000)), Schema({"type": "integer", "minimum": 1})]
Priority = Annotated[
    int,
    Reads(fields.whole(-PRIORITY, PRIORITY)),
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
Members = Annotated[dict[int, Member], Reads(members.read_members), Schema({"type": "array", "items": _MEMBER})]
GroupModeWord = Annotated[GroupMode, Reads(fields.choice(GroupMode)), Schema(words_of(GroupMode))]
OnFailureWord = Annotated[OnFailure, Reads(fields.choice(OnFailure)), Schema(words_of(OnFailure))]
AnchorWord = Annotated[Anchor, Reads(fields.choice(Anchor)), Schema(words_of(Anchor))]
FirstRunWord = Annotated[FirstRun, Reads(fields.choice(FirstRun)), Schema(words_of(FirstRun))]
MisfireWord = Annotated[MisfirePolicy, Reads(fields.choice(MisfirePolicy)), Schema(words_of(MisfirePolicy))]
OverlapWord = Annotated[OverlapPolicy, Reads(fields.choice(OverlapPolicy)), Schema(words_of(OverlapPolicy))]
IsolateWord = Annotated[Isolate, Reads(fields.choice(Isolate)), Schema(words_of(Isolate))]
OutputWord = Annotated[OutputPolicy, Reads(fields.choice(OutputPolicy)), Schema(words_of(OutputPolicy))]
OnRestartWord = Annotated[OnRestart, Reads(fields.choice(OnRestart)), Schema(words_of(OnRestart))]
WhenFalseWord = Annotated[WhenFalse, Reads(fields.choice(WhenFalse)), Schema(words_of(WhenFalse))]
PollGroupWord = Annotated[
    PollGroup, Reads(fields.choice(PollGroup, otherwise=hints.GROUPS)), Schema(words_of(PollGroup))
]
TimeOfDay = Annotated[
    str, Reads(notify.read_finish_by), Schema({"type": "string", "pattern": "^ *[0-9]{1,2}:[0-9]{2} *$"})
]
TypeWord = Annotated[WorkType, Reads(fields.choice(WorkType)), Schema(words_of(WorkType))]
