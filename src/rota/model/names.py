"""What an interpreter knows of the functions and conditions that a file names."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Names:
    """What was found: `missing` has a message for each name nobody knows and each module that fails."""

    missing: Mapping[str, str] = field(default_factory=dict)
    conditions: frozenset[str] = frozenset()
    """Those that are registered; such a one replaces a built-in one of its name (R-09)."""
    needing_poll: frozenset[str] = frozenset()
    """Those of them that look at what the shared poll brought (R-16)."""
