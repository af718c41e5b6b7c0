"""rota: the resident scheduler for AI agents and scripts."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.declare.registry import default as _registry
    from rota.rules.instants import next_fires as next_fires
    from rota.runners.context import JobContext as JobContext

    job = _registry.job
    condition = _registry.condition

__all__ = ["JobContext", "condition", "job", "next_fires"]

_PLACES = {
    "JobContext": ("rota.runners.context", "JobContext"),
    "next_fires": ("rota.rules.instants", "next_fires"),
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562), so that `import rota` stays cheap."""
    if name in ("job", "condition"):
        return getattr(import_module("rota.declare.registry").default, name)
    if name in _PLACES:
        module, attribute = _PLACES[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'rota' has no attribute {name!r}")
