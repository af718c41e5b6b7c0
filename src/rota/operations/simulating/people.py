"""What the person does while a simulation plays: nothing, work in some hours, or whatever forces a mode (R-18)."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from rota.model.durations import parse_duration, say_duration
from rota.model.errors import InvalidValue
from rota.model.spec import Mode, QuietHours
from rota.rules.mode import ACTIVE_FOR
from rota.rules.quiet import QuietRun, canonical_windows, cover_the_week, next_quiet, parse_window, quiet_until

TOUCH = timedelta(minutes=1)
"""How often somebody who works does something."""
MOMENT = timedelta(milliseconds=1)


class Person(Protocol):
    """Somebody who may be there."""

    def activity(self, now: datetime) -> datetime | None:
        """Return when the last activity before or at `now` was, None for never."""
        ...

    def acts_at(self, now: datetime) -> datetime | None:
        """Return when the person does something next that was not to be expected, None for never."""
        ...

    @property
    def words(self) -> str:
        """What is assumed, for a reader."""
        ...


@dataclass(frozen=True, slots=True)
class Away:
    """Nobody does anything after `last`."""

    last: datetime | None = None

    def activity(self, now: datetime) -> datetime | None:
        """Return the last activity that is known."""
        return None if self.last is None else min(self.last, now)

    def acts_at(self, now: datetime) -> datetime | None:  # noqa: ARG002
        """Return None: never again."""
        return None

    @property
    def words(self) -> str:
        """What is assumed."""
        return "nobody does anything (--activity says otherwise)"


@dataclass(frozen=True, slots=True)
class AtWork:
    """Somebody does something every minute of these windows; `last` is what was done before the play began."""

    runs: Sequence[QuietRun]
    last: datetime | None
    words: str

    def activity(self, now: datetime) -> datetime | None:
        """Return the last minute at which something was done."""
        index = bisect_right(self.runs, now, key=lambda run: run.since) - 1
        if index < 0:
            return None if self.last is None else min(self.last, now)
        run = self.runs[index]
        return run.since + (min(now, run.until - MOMENT) - run.since) // TOUCH * TOUCH

    def acts_at(self, now: datetime) -> datetime | None:
        """Return when the next window begins."""
        index = bisect_right(self.runs, now, key=lambda run: run.since)
        return self.runs[index].since if index < len(self.runs) else None


@dataclass(frozen=True, slots=True)
class Phase:
    """A mode, and how long it lasts."""

    mode: Mode
    lasts: timedelta


@dataclass(frozen=True, slots=True)
class Forced:
    """The modes follow each other from `since` on, again and again, whatever anybody does."""

    phases: tuple[Phase, ...]
    since: datetime
    whole: timedelta = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", sum((phase.lasts for phase in self.phases), timedelta()))

    def activity(self, now: datetime) -> datetime | None:
        """Return an activity that makes the mode what it is to be."""
        phase, _ = self._phase(now)
        return {Mode.ACTIVE: now, Mode.IDLE: now - ACTIVE_FOR, Mode.DORMANT: None}[phase.mode]

    def acts_at(self, now: datetime) -> datetime | None:
        """Return when the next mode begins."""
        return self._phase(now)[1]

    def _phase(self, now: datetime) -> tuple[Phase, datetime]:
        end = self.since + (now - self.since) // self.whole * self.whole
        for phase in self.phases:
            end += phase.lasts
            if now < end:
                break
        return phase, end

    @property
    def words(self) -> str:
        """What is assumed."""
        told = ", ".join(f"{phase.mode} for {say_duration(phase.lasts)}" for phase in self.phases)
        return f"the modes are forced: {told}, and again"


def at_work(
    windows: Sequence[str], zone: str, *, since: datetime, until: datetime, last: datetime | None = None
) -> AtWork:
    """Return somebody who works in windows such as "mon-fri 09:00-17:00"; InvalidWindow where one is none."""
    parsed = [parse_window(text) for text in windows]
    written = canonical_windows(parsed)
    words = f"somebody is active {', '.join(written)} ({zone})"
    if cover_the_week(parsed):
        return AtWork((QuietRun(since, until),), last, words)
    hours = QuietHours(written, zone)
    runs: list[QuietRun] = []
    begin: datetime = since
    while begin < until:
        end = quiet_until(hours, begin)
        if end is not None:
            runs.append(QuietRun(begin, end))
        begin = next_quiet(hours, end or begin)
    return AtWork(tuple(runs), last, words)


def read_phases(text: str) -> tuple[Phase, ...]:
    """Return the modes of a text such as active=8h,idle=8h,dormant=8h.

    >>> [phase.mode.value for phase in read_phases("active=8h,dormant=16h")]
    ['active', 'dormant']
    """
    return tuple(_phase(part.strip(), text) for part in text.split(","))


def _phase(part: str, text: str) -> Phase:
    name, equals, lasts = (piece.strip() for piece in part.partition("="))
    if not equals or name not in tuple(Mode):
        raise InvalidValue(
            f"{text!r} names no modes", hint="write modes and how long each lasts: active=8h,idle=8h,dormant=8h"
        )
    return Phase(Mode(name), parse_duration(lasts))
