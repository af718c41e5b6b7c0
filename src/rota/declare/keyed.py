"""Small maps of keys that belong to one value: each key by its own reader, an unknown one with the nearest name."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rota.declare.fields import Refused, wrong_type
from rota.declare.hints import unknown_key
from rota.declare.parts import Parts

Reader = Callable[[Any], Any]


def read_keys(
    value: Any,
    readers: Mapping[str, Reader],
    *,
    parts: Parts,
    hint: str,
    words: dict[str, str] | None = None,
    known: str = "",
) -> dict[str, Any]:
    """Return the keys that were written and are right, each as its reader makes it; `parts` keeps the others.

    `known` is the hint to an unknown key, in the place of the nearest name.
    """
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map of keys", hint=hint)
    found: dict[str, Any] = {}
    for key in value:
        with parts.below(key):
            if key not in readers:
                guess = known or unknown_key(str(key), list(readers), words)
                raise Refused("unknown key", code="unknown_key", hint=guess)
            found[key] = readers[key](value[key])
    return found


def one_of(keys: Collection[str], value: Mapping[str, Any], *, parts: Parts) -> bool:
    """Tell whether exactly one of `keys` is written; a mistyped one may be it."""
    count = sum(key in value for key in keys)
    return count == 1 or (not count and parts.mistyped)
