"""The adapters by name: the one way by which the core knows them."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from rota.agents import claude, codex, custom, gemini, ollama, opencode, python
from rota.agents.adapter import Adapter
from rota.model.errors import UnknownAdapter

__all__ = ["Adapter", "adapter", "complaints", "names"]

_ALL = (claude.ADAPTER, codex.ADAPTER, gemini.ADAPTER, opencode.ADAPTER, ollama.ADAPTER)
FIXED = {each.name: each for each in _ALL}
_DESCRIBED = {custom.NAME: custom.adapter, python.NAME: python.adapter}
"""Those that are what their options say."""


def names() -> tuple[str, ...]:
    """Return the names of all adapters; a Python function is written as {run: …}."""
    return (*FIXED, custom.NAME)


def adapter(name: str, options: Mapping[str, Any] | None = None) -> Adapter:
    """Return an adapter; what a custom one is and can keep is in its options."""
    if name in _DESCRIBED:
        return _DESCRIBED[name](options or {})
    if name not in FIXED:
        raise UnknownAdapter(name, near=get_close_matches(name, names(), 1))
    return FIXED[name]


def complaints(name: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is wrong with the options of the file, each as `key: text`."""
    return custom.complaints(options) if name == custom.NAME else adapter(name).complaints(options)
