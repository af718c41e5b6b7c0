"""The types of values that are about agents: adapters, access, briefs and work sources."""

from typing import Annotated, Any

from pydantic import PlainValidator as Reads
from pydantic import WithJsonSchema as Schema

from rota.declare import briefs, fields, function_agents, sources
from rota.declare.shapes import ARGV, DURATION, ENV_ENTRY, SECRET, words_of
from rota.model.agents import Access
from rota.model.making import Approval
from rota.model.spec import AfterStep, Carry, SessionMode, StepFolder, WorkSource, Workspace


def read_money(value: Any) -> float:
    """Return an amount of dollars above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1_000_000:
        raise fields.wrong_type(value, "an amount of dollars", hint="write a number such as 2.00")
    return float(value)


def read_prompt(value: Any) -> str:
    """Return a task for an agent that is not empty."""
    hint = "write the task, or `prompt_file:`"
    if not isinstance(value, str):
        raise fields.wrong_type(value, "a text", hint=hint)
    if not value.strip():
        raise fields.Refused("is empty", code="missing_value", hint=hint)
    return value


Depth = Annotated[int, Reads(fields.whole(0, 10)), Schema({"type": "integer", "minimum": 0, "maximum": 10})]
ApprovalWord = Annotated[Approval, Reads(fields.choice(Approval)), Schema(words_of(Approval))]
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
AccessWord = Annotated[Access, Reads(fields.choice(Access)), Schema(words_of(Access))]
SessionWord = Annotated[SessionMode, Reads(fields.choice(SessionMode)), Schema(words_of(SessionMode))]
WorkspaceWord = Annotated[Workspace, Reads(fields.choice(Workspace)), Schema(words_of(Workspace))]
Carried = Annotated[
    tuple[Carry, ...],
    Reads(briefs.read_carry),
    Schema({"anyOf": [words_of(Carry), {"type": "array", "items": words_of(Carry)}]}),
]
AfterEntry = Annotated[
    AfterStep | None,
    Reads(briefs.read_after),
    Schema(
        {
            "type": "object",
            "properties": {"command": ARGV, "shell": {"type": "string"}, "cwd": words_of(StepFolder)},
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
