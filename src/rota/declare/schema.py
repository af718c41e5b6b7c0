"""The JSON Schema of rota.yaml for editors, from the same models that read it."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from rota.declare.applicability import WORKS
from rota.declare.jobs import MEMBERS
from rota.declare.keys import AgentEntry, GroupEntry, JobEntry, ProjectFile
from rota.declare.problems import JOB_NAME

_NAMED = {"jobs": "JobEntry", "groups": "GroupEntry", "agents": "AgentEntry"}
"""The entries of the sections that hold them by name."""
_TWO_SCHEDULES: dict[str, Any] = {
    "anyOf": [{"required": list(pair)} for pair in (("cron", "interval"), ("cron", "at"), ("interval", "at"))]
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _WithoutDefaults(GenerateJsonSchema):
    """Leaves defaults out: they depend on the kind of job, and the descriptions tell them."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])


def json_schema() -> dict[str, Any]:
    """Return the schema of the file, draft 2020-12; every key has a description."""
    schema = ProjectFile.model_json_schema(schema_generator=_WithoutDefaults)
    job = JobEntry.model_json_schema(schema_generator=_WithoutDefaults)
    group = GroupEntry.model_json_schema(schema_generator=_WithoutDefaults)
    agent = AgentEntry.model_json_schema(schema_generator=_WithoutDefaults)
    definitions: dict[str, Any] = {
        **schema.pop("$defs", {}),
        **job.pop("$defs", {}),
        **group.pop("$defs", {}),
        **agent.pop("$defs", {}),
        "JobEntry": _with_work(job),
        "GroupEntry": _with_members(group),
        "AgentEntry": _with_schedules(agent),
        "ScheduleEntry": _of_an_agent(job),
    }
    for section in definitions.values():
        _without_inner_titles(section)
    _without_inner_titles(schema)
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
    description = "One group: its members, and at most one of cron, interval, at."
    return {
        **group,
        "properties": properties,
        "required": ["members"],
        "not": _TWO_SCHEDULES,
        "description": description,
    }


def _without_inner_titles(schema: dict[str, Any]) -> None:
    for part in schema.get("properties", {}).values():
        part.pop("title", None)
