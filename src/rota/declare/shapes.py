"""Parts of the JSON Schema that several types of values have in common."""

from enum import StrEnum
from typing import Any

from rota.declare.fields import JOB_NAME

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
