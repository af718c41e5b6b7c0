"""What a project gives to each of its jobs, and where the files and programs lie that a job names."""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from rota.declare.agents import Agent
from rota.declare.excluding import Calendars
from rota.declare.fitting import Keys
from rota.model.budget import Account
from rota.model.spec import QuietHours, Retention


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the project gives to each of its jobs."""

    folder: str
    home: str
    timezone: str
    local_zone: Callable[[], str]
    timeout: timedelta | None
    python: str | None
    retention: Retention
    pools: Mapping[str, int] | None = None
    """The capacities of the pools; None: not known, as they cannot be read."""
    budgets: Mapping[str, Account] | None = None
    """The accounts; None: not known, as they cannot be read."""
    agents: Mapping[str, Agent | None] = field(default_factory=dict)
    """The configured agents by name; None for one that has problems of its own."""
    defaults: Keys = field(default_factory=dict)
    quiet: QuietHours | None = None
    """The file's own quiet hours."""
    calendars: Calendars = field(default_factory=lambda: Calendars(str))
    targets: Collection[str] | None = None
    """The names of the targets of notifications; None: not known, as they cannot be read."""
    included: bool = False
    """Whether the project is included in another one, whose scheduler runs its jobs."""


def interpreter_of(keys: Keys, around: Surroundings) -> str | None:
    """Return the interpreter of a job's function: its own, that of the defaults, or the project's."""
    written = keys.get("python") or around.defaults.get("python")
    return place_of(written, around.folder, home=around.home, program=True) if written else around.python


def place_of(text: str, folder: str, *, home: str, program: bool = False) -> str:
    """Return the absolute path of what a file names: relative to `folder`, `~` is `home`.

    >>> place_of("a/../b", "/srv", home="/home/x")
    '/srv/b'
    """
    if program and "/" not in text:
        return text
    if text == "~" or text.startswith("~/"):
        text = home + text[1:]
    elif text.startswith("~"):
        text = os.path.expanduser(text)
    return os.path.normpath(os.path.join(folder, text))
