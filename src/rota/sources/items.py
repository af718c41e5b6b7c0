"""Items as JSON: read with care, since whoever wrote one is no author of ours, and bounded."""

import json
from collections.abc import Mapping
from typing import Any

from rota.model.agents import WorkItem
from rota.model.errors import SourceError

TITLE_LIMIT = 500
DESCRIPTION_LIMIT = 256 * 1024
METADATA_LIMIT = 64 * 1024
CUT = "\n[cut: the rest is longer than a prompt takes]"


def read_item(value: Any, *, claim: Mapping[str, Any], source: str) -> WorkItem:
    """Return an item from what a source sent; raise SourceError for what is none."""
    if not isinstance(value, Mapping):
        raise SourceError(f"{source} sent an item that is no JSON object")
    identifier, title = value.get("id"), value.get("title")
    if isinstance(identifier, bool) or not isinstance(identifier, str | int) or not str(identifier).strip():
        raise SourceError(f"{source} sent an item without an `id`")
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise SourceError(f"{source} sent an item whose `metadata` is no JSON object")
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
    """Return an item whose parts are no longer than is stored and prompted."""
    return WorkItem(
        id=_storable(identifier)[:TITLE_LIMIT],
        title=" ".join(_storable(title).split())[:TITLE_LIMIT],
        description=_cut(_storable(description)),
        url=_storable(url)[:2000],
        metadata=_plain(metadata or {}),
        claim=_plain(claim or {}),
    )


def write_item(item: WorkItem) -> dict[str, Any]:
    """Return an item as JSON, without the source's own note."""
    return {
        "id": item.id,
        "title": item.title,
        "description": item.description,
        "url": item.url,
        "metadata": dict(item.metadata),
    }


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what JSON can hold of a map; one that is too large is told by its names alone."""
    text = _storable(json.dumps({str(key): one for key, one in value.items()}, default=str, allow_nan=True))
    if len(text) > METADATA_LIMIT:
        return {"cut": f"{len(text):,} characters of metadata", "names": [str(key)[:100] for key in value][:50]}
    found: dict[str, Any] = json.loads(text, parse_constant=str)
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, default=str)


def _storable(text: str) -> str:
    """Return a text that any file and database takes: no lone surrogates, no null characters."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def _cut(text: str) -> str:
    return text if len(text) <= DESCRIPTION_LIMIT else text[:DESCRIPTION_LIMIT] + CUT
