"""The types of values that name a place outside: the store, the poll, who is told, and where the API listens."""

from typing import Annotated, Any

from pydantic import PlainValidator as Reads
from pydantic import WithJsonSchema as Schema

from rota.declare import addresses, listening, notify
from rota.declare.shapes import ARGV, DURATION, ENV_ENTRY, SECRET, or_word
from rota.model.notify import Channel, Target
from rota.model.spec import EnvValue

StoreAddress = Annotated[
    str, Reads(addresses.read_store), Schema({"type": "string", "pattern": "^(sqlite$|postgres(ql)?://)"})
]
PollUrl = Annotated[str, Reads(addresses.read_url), Schema({"type": "string", "format": "uri"})]
Listen = Annotated[str, Reads(listening.read_listen), Schema({"type": "string"})]
BasePath = Annotated[str, Reads(listening.read_base_path), Schema({"type": "string", "pattern": "^/"})]
PublicUrl = Annotated[str, Reads(listening.read_public_url), Schema({"type": "string", "format": "uri"})]
PollHeaders = Annotated[
    dict[str, EnvValue], Reads(addresses.read_headers), Schema({"type": "object", "additionalProperties": ENV_ENTRY})
]

_PLACE: dict[str, Any] = {"anyOf": [{"type": "string", "format": "uri"}, SECRET]}
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
