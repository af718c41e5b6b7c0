"""The reference of the API, rendered from its own OpenAPI document."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from rota.http.context import SCOPE_KEY
from rota.http.errors import NotFound
from rota.http.pages.page import PageContext, Pages, View, VisitOf, fit

pages = Pages()
PATH = "/ui/api"
REF = "#/components/schemas/"
Schema = Mapping[str, Any]
MOST_SCHEMAS = 60
"""The shapes that a page shows; fewer on a page that would be too large."""
BOUNDS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "pattern {}",
}


@pages.show(PATH)
def show_api(visit: VisitOf, operation: Annotated[str, Query(max_length=80)] = "") -> Response:
    """Show all operations of the API, or one with its parameters, its body and its answers."""
    document: Schema = visit.request.app.openapi()
    found = list(_operations(document))
    if not operation:
        tags: dict[str, list[View]] = {}
        for one in found:
            tags.setdefault(one["tag"], []).append(one)
        view = {"tags": list(tags.items()), "count": len(found)}
        return visit.show("api.html", view, title="HTTP API", section="")
    chosen = next((one for one in found if one["id"] == operation), None)
    if chosen is None:
        raise NotFound
    return fit(lambda shapes: _show_one(visit, document, chosen, shapes=shapes), lines=MOST_SCHEMAS)


def _show_one(visit: PageContext, document: Schema, chosen: View, *, shapes: int) -> Response:
    raw = chosen["raw"]
    body = _content(raw.get("requestBody", {}))
    answers = [_answer(status, answer) for status, answer in raw["responses"].items()]
    roots = [param.get("schema", {}) for param in raw.get("parameters", ())]
    roots += [body, *(_content(answer) for answer in raw["responses"].values())]
    named = list(_named(document, roots))
    view = {
        "one": chosen,
        "about": raw.get("description", ""),
        "params": [_param(param) for param in raw.get("parameters", ())],
        "body": type_of(body) if body else [],
        "body_required": bool(raw.get("requestBody", {}).get("required")),
        "answers": answers,
        "shapes": [_shape(name, document) for name in named[:shapes]],
        "left": len(named) - len(named[:shapes]),
    }
    return visit.show("api_operation.html", view, title=chosen["summary"], section="")


def _operations(document: Schema) -> Iterator[View]:
    for path, methods in document["paths"].items():
        for method, raw in methods.items():
            yield {
                "id": raw["operationId"],
                "method": method.upper(),
                "path": path,
                "summary": raw.get("summary", ""),
                "scope": raw.get(SCOPE_KEY, "none"),
                "tag": raw["tags"][0],
                "deprecated": bool(raw.get("deprecated")),
                "raw": raw,
            }


def _content(holder: Schema) -> Schema:
    """Return the schema of a body or an answer; empty for none."""
    for media in holder.get("content", {}).values():
        schema: Schema = media.get("schema", {})
        return schema
    return {}


def _answer(status: str, answer: Schema) -> View:
    schema = _content(answer)
    media = next(iter(answer.get("content", {})), "")
    return {"status": status, "about": answer.get("description", ""), "media": media, "type": type_of(schema)}


def _param(param: Schema) -> View:
    schema = param.get("schema", {})
    return {
        "name": param["name"],
        "where": param["in"],
        "required": bool(param.get("required")),
        "type": type_of(schema),
        "about": _about({"description": param.get("description", ""), **schema}),
    }


def _shape(name: str, document: Schema) -> View:
    schema = document["components"]["schemas"][name]
    needed = set(schema.get("required", ()))
    fields = [
        {"name": key, "required": key in needed, "type": type_of(field), "about": _about(field)}
        for key, field in schema.get("properties", {}).items()
    ]
    return {
        "name": name,
        "about": schema.get("description", ""),
        "fields": fields,
        "type": [] if fields else type_of(schema),
    }


def _about(schema: Schema) -> str:
    """Return the description of a value, its bounds and its default."""
    limits = [words.format(schema[key]) for key, words in BOUNDS.items() if key in schema]
    if schema.get("default") not in (None, "", [], {}):
        limits.append(f"default {schema['default']}")
    about = str(schema.get("description", ""))
    return " ".join(part for part in (about, f"({', '.join(limits)})" if limits else "") if part)


def type_of(schema: Schema) -> list[View]:
    """Return the type of a value in words; a part with `ref` names a shape."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REF)
        return [{"text": name, "ref": True}]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return _joined(schema[key])
    if "enum" in schema:
        return [{"text": " | ".join(map(str, schema["enum"])), "ref": False}]
    if "const" in schema:
        return [{"text": str(schema["const"]), "ref": False}]
    kind = schema.get("type", "any")
    if kind == "array":
        return [{"text": "list of ", "ref": False}, *type_of(schema.get("items", {}))]
    inner = schema.get("additionalProperties")
    if kind == "object" and isinstance(inner, dict):
        return [{"text": "map to ", "ref": False}, *type_of(inner)]
    form = schema.get("format", "")
    return [{"text": f"{kind} ({form})" if form else str(kind), "ref": False}]


def _joined(options: list[Schema]) -> list[View]:
    found: list[View] = []
    for option in options:
        part = type_of(option)
        if part in ([one] for one in found):
            continue
        found += [{"text": " or ", "ref": False}, *part] if found else part
    return found


def _named(document: Schema, roots: list[Schema]) -> Iterator[str]:
    """Yield the names of all shapes that these schemas use, the nearest first."""
    seen: set[str] = set()
    queue: list[Any] = list(roots)
    while queue:
        node = queue.pop(0)
        if isinstance(node, list):
            queue += node
        elif isinstance(node, dict):
            name = str(node.get("$ref", "")).removeprefix(REF)
            if name and name not in seen:
                seen.add(name)
                yield name
                queue.append(document["components"]["schemas"][name])
            queue += [value for value in node.values() if isinstance(value, dict | list)]
