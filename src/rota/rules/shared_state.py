"""The scheduler's state: one document that all jobs share (document 000). A run tells the keys that it changed."""

from collections.abc import Mapping
from typing import Any


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys whose value is another one, None for those that are gone.

    >>> changes({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 5, "d": 6})
    {'b': 5, 'd': 6, 'c': None}
    """
    changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
    return {**changed, **{key: None for key in before if key not in after}}


def merged(document: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with changes: the last writer of a key wins, other keys stay; None takes a key away.

    >>> merged({"a": 1, "b": 2}, {"b": None, "c": 3})
    {'a': 1, 'c': 3}
    """
    return {key: value for key, value in {**document, **changed}.items() if value is not None}
