"""Small maps of keys that belong to one value: each key by its own reader, an unknown one with the nearest name."""

from collections.abc import Callable, Mapping
from typing import Any

from rota.declare.fields import Refused, wrong_type
from rota.declare.hints import unknown_key

Reader = Callable[[Any], Any]


def read_keys(
    value: Any, readers: Mapping[str, Reader], *, hint: str, words: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return the keys that were written, each as its reader makes it."""
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map of keys", hint=hint)
    return {key: _read_key(key, value[key], readers, words) for key in value}


def _read_key(key: str, value: Any, readers: Mapping[str, Reader], words: dict[str, str] | None) -> Any:
    if key not in readers:
        raise Refused("unknown key", code="unknown_key", hint=unknown_key(str(key), list(readers), words), at=(key,))
    return below((key,), readers[key], value)


def below(at: tuple[str | int, ...], reader: Reader, value: Any) -> Any:
    """Return what `reader` makes of a part of a value; a refusal says which part."""
    try:
        return reader(value)
    except Refused as error:
        raise Refused(error.message, code=error.code, hint=error.hint, at=(*at, *error.at)) from None
