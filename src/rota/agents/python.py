"""An agent that is a Python function: what it can keep is what it says itself. The engine knows the function."""

from collections.abc import Mapping
from typing import Any

from rota.agents.adapter import Adapter
from rota.model.agents import Access, Capabilities

NAME = "python"
CAPABILITIES = ("allowed_tools", "max_turns", "max_usd", "resume", "cost", "tools_server", "model", "access")
"""What a function may say that it keeps, or reports."""
_OPTIONS = ("capabilities", "provider")


def adapter(options: Mapping[str, Any]) -> Adapter:
    """Return the adapter of a function with these capabilities."""
    kept = set(options.get("capabilities") or ())
    # Nothing restrains a function that does not look at `task.access`: full is all that can be promised.
    access = frozenset(Access) if "access" in kept else frozenset({Access.FULL})
    limits = {name: name in kept for name in CAPABILITIES if name != "access"}
    return Adapter(
        name=NAME,
        provider=str(options.get("provider") or NAME),
        capabilities=Capabilities(**limits, access=access),
        complaints=_complaints,
    )


def _complaints(options: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{name}: unknown option" for name in options if name not in _OPTIONS)
