"""The JSON Schema of rota.yaml for editors, from the same models that read it."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from rota.declare.fields import JOB_NAME
from rota.declare.spec import JobEntry, ProjectFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _WithoutDefaults(GenerateJsonSchema):
    """Leaves defaults out: they depend on the kind of job, and the descriptions tell them."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])


def json_schema() -> dict[str, Any]:
    """Return the schema of the file, draft 2020-12; every key has a description."""
    schema = ProjectFile.model_json_schema(schema_generator=_WithoutDefaults)
    job = JobEntry.model_json_schema(schema_generator=_WithoutDefaults)
    definitions: dict[str, Any] = {**schema.pop("$defs", {}), **job.pop("$defs", {}), "JobEntry": _with_work(job)}
    for section in definitions.values():
        _without_inner_titles(section)
    _without_inner_titles(schema)
    schema["properties"]["jobs"] = {
        "description": schema["properties"]["jobs"]["description"],
        "type": ["object", "null"],
        "propertyNames": {"pattern": f"^{JOB_NAME.pattern}$"},
        "additionalProperties": {"$ref": "#/$defs/JobEntry"},
    }
    return {"$schema": DIALECT, **schema, "title": "rota.yaml", "$defs": definitions}


def _with_work(job: dict[str, Any]) -> dict[str, Any]:
    works = ("command", "shell", "run")
    schedules = ("cron", "interval", "at")
    pairs = [("cron", "interval"), ("cron", "at"), ("interval", "at")]
    return {
        **job,
        "oneOf": [{"required": [work]} for work in works],
        "not": {"anyOf": [{"required": list(pair)} for pair in pairs]},
        "description": f"One job: exactly one of {', '.join(works)} and at most one of {', '.join(schedules)}.",
    }


def _without_inner_titles(schema: dict[str, Any]) -> None:
    for part in schema.get("properties", {}).values():
        part.pop("title", None)
