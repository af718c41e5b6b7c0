"""The JSON Schema of rota.yaml for editors, from the table of keys that reads it."""

from typing import Any

from rota.declare import keys
from rota.declare.applicability import WORKS
from rota.declare.jobs import MEMBERS
from rota.declare.problems import JOB_NAME

_NAMED = {"jobs": "JobEntry", "groups": "GroupEntry", "agents": "AgentEntry"}
"""The entries of the sections that hold them by name."""
_TWO_SCHEDULES: dict[str, Any] = {
    "anyOf": [{"required": list(pair)} for pair in (("cron", "interval"), ("cron", "at"), ("interval", "at"))]
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the schema of the file, draft 2020-12; every key has a description."""
    job, agent = _schema(keys.JOB), _schema(keys.AGENT)
    tables = (keys.AGENT_POLICY, keys.DEFAULTS, keys.HTTP, keys.POLL, keys.RETENTION_KEYS, keys.RETENTION)
    definitions: dict[str, Any] = {
        **{table.title: _schema(table) for table in (*tables, keys.SCHEDULER, keys.INSTANCES)},
        "JobEntry": _with_work(job),
        "GroupEntry": _with_members(_schema(keys.GROUP)),
        "AgentEntry": _with_schedules(agent),
        "ScheduleEntry": _of_an_agent(job),
    }
    schema = _schema(keys.PROJECT)
    for section, entry in _NAMED.items():
        schema["properties"][section] = {
            "description": schema["properties"][section]["description"],
            "type": ["object", "null"],
            "propertyNames": {"pattern": f"^{JOB_NAME.pattern}$"},
            "additionalProperties": {"$ref": f"#/$defs/{entry}"},
        }
    return {"$schema": DIALECT, **schema, "title": "rota.yaml", "$defs": definitions}


def _with_work(job: dict[str, Any]) -> dict[str, Any]:
    return {
        **job,
        "oneOf": [{"required": [work]} for work in WORKS],
        "not": _TWO_SCHEDULES,
        "description": f"One job: exactly one of {', '.join(WORKS)} and at most one of cron, interval, at.",
    }


def _with_schedules(agent: dict[str, Any]) -> dict[str, Any]:
    named = {"type": "object", "additionalProperties": {"$ref": "#/$defs/ScheduleEntry"}}
    schedules = {**agent["properties"]["schedules"], **named}
    return {**agent, "properties": {**agent["properties"], "schedules": schedules}}


def _of_an_agent(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job as an agent's own schedule holds it: its `type` says how it is due, and its prompt may be absent."""
    others = ("command", "shell", "run", "agent", "provider", "type")
    properties = {key: part for key, part in job["properties"].items() if key not in others}
    kind = {"type": "string", "enum": ["interval", "cron"], "description": "Accepted from older files; must agree."}
    return {
        **job,
        "properties": {**properties, "type": kind},
        "not": _TWO_SCHEDULES,
        "description": "One job of an agent: a prompt, and at most one of cron, interval, at.",
    }


def _with_members(group: dict[str, Any]) -> dict[str, Any]:
    bounds = {"minItems": 1, "maxItems": MEMBERS}
    properties = {**group["properties"], "members": {**group["properties"]["members"], **bounds}}
    about = "One group: its members, and at most one of cron, interval, at."
    return {**group, "properties": properties, "required": ["members"], "not": _TWO_SCHEDULES, "description": about}


def _schema(table: keys.Map) -> dict[str, Any]:
    return {
        "additionalProperties": False,
        "description": table.description,
        "properties": {key.name: {"description": key.description, **key.value.schema} for key in table.keys.values()},
        "title": table.title,
        "type": "object",
    }
