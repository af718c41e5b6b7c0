"""Items as JSON: untrusted input, checked and bounded."""

import json
from collections.abc import Mapping
from typing import Any

from rota.model.agents import WorkItem
from rota.model.errors import SourceError

TITLE_LIMIT = 500
DESCRIPTION_LIMIT = 256 * 1024
METADATA_LIMIT = 64 * 1024
CUT = "\n[cut: the text is too long for a prompt]"


def read_item(value: Any, *, claim: Mapping[str, Any], source: str) -> WorkItem:
    """Return the item that a source sent, or raise SourceError."""
    if not isinstance(value, Mapping):
        raise SourceError(f"{source} sent an item that is not a JSON object")
    identifier, title = value.get("id"), value.get("title")
    if isinstance(identifier, bool) or not isinstance(identifier, str | int) or not str(identifier).strip():
        raise SourceError(f"{source} sent an item without an `id`")
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise SourceError(f"{source} sent an item whose `metadata` is not a JSON object")
    return make_item(
        str(identifier),
        _text(title) or str(identifier),
        description=_text(value.get("description")),
        url=_text(value.get("url")),
        metadata=metadata,
        claim=claim,
    )


def make_item(
    identifier: str,
    title: str,
    *,
    description: str = "",
    url: str = "",
    metadata: Mapping[str, Any] | None = None,
    claim: Mapping[str, Any] | None = None,
) -> WorkItem:
    """Return an item with bounded parts."""
    text = _storable(description)
    return WorkItem(
        id=_storable(identifier)[:TITLE_LIMIT],
        title=" ".join(_storable(title).split())[:TITLE_LIMIT],
        description=text if len(text) <= DESCRIPTION_LIMIT else text[:DESCRIPTION_LIMIT] + CUT,
        url=_storable(url)[:2000],
        metadata=_plain(metadata or {}),
        claim=_plain(claim or {}),
    )


def write_item(item: WorkItem) -> dict[str, Any]:
    """Return an item as JSON, without the source's own `claim`."""
    names = ("id", "title", "description", "url")
    return {**{name: getattr(item, name) for name in names}, "metadata": dict(item.metadata)}


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a map as plain JSON; of a large map only the names."""
    text = _storable(json.dumps({str(key): value[key] for key in value}, default=str, allow_nan=True))
    if len(text) > METADATA_LIMIT:
        return {"cut": f"{len(text):,} characters of metadata", "names": [str(key)[:100] for key in value][:50]}
    plain: dict[str, Any] = json.loads(text, parse_constant=str)
    return plain


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, default=str)


def _storable(text: str) -> str:
    """Replace lone surrogates and null characters, which files and databases refuse."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
