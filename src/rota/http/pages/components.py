"""Filters and functions of templates, and the cache of compiled ones. This module imports Jinja2."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from importlib.util import cache_from_source
from typing import Any

from jinja2 import FileSystemBytecodeCache, pass_context
from jinja2.bccache import Bucket
from jinja2.runtime import Context
from markupsafe import Markup

from rota.http.context import segment
from rota.model.amounts import counted
from rota.model.clock import iso
from rota.model.records import Run, cut
from rota.model.states import Status
from rota.operations.text import kind_of, outcome_words, shown_status, took
from rota.text.ansi import clean_for_terminal, plain
from rota.text.format import briefly, day_time, from_now, full_time, roughly, say_why

SHAPES = {
    "completed": '<path d="M3.5 8.5l3 3 6-7"/>',
    "partial": '<path d="M3.5 8.5l3 3 6-7"/><path d="M3 13.5h10"/>',
    "failed": '<path d="M4 4l8 8M12 4l-8 8"/>',
    "skipped": '<path d="M3.5 8h9"/>',
    "missed": '<circle cx="8" cy="8" r="4.5"/>',
    "cancelled": '<circle cx="8" cy="8" r="5"/><path d="M4.5 11.5l7-7"/>',
    "running": '<path class="full" d="M5 3.5l7 4.5-7 4.5z"/>',
    "queued": '<circle class="full" cx="3.5" cy="8" r="1.3"/><circle class="full" cx="8" cy="8" r="1.3"/>'
    '<circle class="full" cx="12.5" cy="8" r="1.3"/>',
    "paused": '<path d="M5.5 4v8M10.5 4v8"/>',
    "warning": '<path d="M8 3l5.5 10h-11z"/><path d="M8 7v2.5M8 11.3v.4"/>',
    "ok": '<circle class="full" cx="8" cy="8" r="4"/>',
    "bad": '<path class="full" d="M8 2.5l5.5 5.5L8 13.5 2.5 8z"/>',
    "clock": '<circle cx="8" cy="8" r="5.5"/><path d="M8 5v3.2l2 1.3"/>',
    "person": '<circle cx="8" cy="5.5" r="2.5"/><path d="M3.5 13c.6-2.8 2.3-4 4.5-4s3.9 1.2 4.5 4"/>',
}
"""Marks differ by shape, not by colour alone."""
LABELS = {
    "disabled": "skipped",
    "failing": "failed",
    "retired": "skipped",
    "used up": "skipped",
    "provisional": "person",
    "idle": "clock",
}
TICKED = ("completed", "partial", "failed", "skipped", "missed", "cancelled")
_CLASS = re.compile(r"[^a-z0-9-]")


def icon(name: str) -> Markup:
    """Return a mark without words; the word is beside it."""
    kind = LABELS.get(name, name)
    shape = SHAPES.get(kind, SHAPES["skipped"])
    return Markup(  # noqa: S704 - shapes are ours and the name is reduced to letters
        f'<svg class="mark mark-{_CLASS.sub("-", name.lower())}" viewBox="0 0 16 16" aria-hidden="true">{shape}</svg>'
    )


def mark(value: Run | Status | str, word: str = "") -> Markup:
    """Return the mark of a run, a status or a kind, with its word or another one."""
    if isinstance(value, Run):
        kind, word = kind_of(value), word or shown_status(value).capitalize()
    else:
        kind = str(value.shown if isinstance(value, Status) else value).lower()
        word = word or kind.capitalize()
    return Markup('<span class="status status-{}">{}{}</span>').format(_CLASS.sub("-", kind), icon(kind), word)


def symbols() -> Markup:
    """Return the shapes of outcomes that `ticks` uses; once on a page."""
    made = (f'<g id="t-{kind}" class="mark-{kind}" transform="scale(0.86)">{SHAPES[kind]}</g>' for kind in TICKED)
    return Markup(f'<svg class="symbols" aria-hidden="true">{"".join(made)}</svg>')  # noqa: S704 - shapes are ours


def ticks(runs: Sequence[Run], label: str) -> Markup:
    """Return one small mark for each finished run, oldest first; `runs` are newest first, `label` is the text."""
    final = [kind_of(run) for run in reversed(runs) if run.status.final]
    if not final:
        return Markup('<span class="soft small">none ended yet</span>')
    drawn = Markup("").join(
        Markup('<use href="#t-{}" x="{}"/>').format(kind, 13 * index) for index, kind in enumerate(final)
    )
    width = 13 * max(len(final), 1) + 1
    box = Markup('viewBox="0 0 {} 14" width="{}" height="14"').format(width, width)
    return Markup('<svg class="ticks-drawn" {} role="img" aria-label="{}"><title>{}</title>{}</svg>').format(
        box, label, label, drawn
    )


@pass_context
def relative(context: Context, at: datetime | None, *, none: str = "–") -> Markup | str:
    """Return an instant relative to now, `3 min ago`, with the exact one as tooltip."""
    if at is None:
        return none
    visit = context["visit"]
    exact = _exact(at, visit.zone, visit.now)
    words = from_now(at, visit.now)
    return _time(at, words, exact, kind="relative")


@pass_context
def instant(context: Context, at: datetime | None, *, none: str = "–", seconds: bool = False) -> Markup | str:
    """Return an instant in short, `Mon 02:15`, with the exact and the relative one as tooltip."""
    if at is None:
        return none
    visit = context["visit"]
    words = day_time(at, visit.zone, now=visit.now, seconds=seconds)
    return _time(at, words, f"{_exact(at, visit.zone, visit.now)}, {from_now(at, visit.now)}", kind="instant")


@pass_context
def why(context: Context, run: Run) -> str:
    """Return the error of a run, with instants in the zone of the page."""
    visit = context["visit"]
    return say_why(run, visit.zone, now=visit.now) or ""


@pass_context
def elapsed(context: Context, since: datetime | None, until: datetime | None = None) -> Markup | str:
    """Return a duration; scripts update it while it has no end."""
    if since is None:
        return ""
    visit = context["visit"]
    words = briefly(max((until or visit.now) - since, timedelta()))
    exact = f"since {_exact(since, visit.zone, visit.now)}"
    return words if until is not None else _time(since, words, exact, kind="elapsed")


def _exact(at: datetime, zone: str, now: datetime) -> str:
    return f"{full_time(at, zone, now=now, seconds=True)} ({zone})"


def _time(at: datetime, words: str, exact: str, *, kind: str) -> Markup:
    return Markup('<time datetime="{}" title="{}" data-time="{}">{}</time>').format(iso(at), exact, kind, words)


@pass_context
def outcome(context: Context, run: Run) -> str:
    """Return the outcome or state of a run in words."""
    return outcome_words(run, now=context["visit"].now)


@pass_context
def lasted(context: Context, run: Run) -> str:
    """Return the duration of a run so far."""
    return took(run, now=context["visit"].now)


def gauge(used: float, capacity: float, *, label: str, level: str = "") -> Markup:
    """Return a bar of used capacity; the words are beside it."""
    share = 0.0 if capacity <= 0 else min(max(used / capacity, 0.0), 1.0)
    level = level or ("full" if share >= 1 else "high" if share >= 0.8 else "")
    return Markup(
        '<svg class="gauge {}" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="gauge-all" width="100" height="6" rx="1"/><rect class="gauge-used" width="{}" height="6" rx="1"/>'
        "</svg>"
    ).format(f"gauge-{level}" if level else "", label, f"{share * 100:.1f}")


def command(text: str) -> Markup:
    """Return a command with a copy button."""
    return Markup(
        '<span class="command"><code>{}</code><button type="button" class="copy" data-copy="{}" hidden>'
        '<span class="visually-hidden">Copy {}</span></button></span>'
    ).format(text, text, text)


def amount(number: float) -> str:
    """Return a number with separated thousands."""
    return f"{number:,}"


def classes(*names: str) -> str:
    """Return the class names that are not empty, joined."""
    return " ".join(name for name in names if name)


def ticked(text: str) -> Markup:
    """Return a text with code between backticks; an odd backtick stays.

    >>> ticked("try `rota list`, not <b>")
    Markup('try <code>rota list</code>, not &lt;b&gt;')
    """
    parts = text.split("`")
    whole = parts if len(parts) % 2 else [*parts[:-2], "`".join(parts[-2:])]
    code = (Markup("<code>{}</code>").format(part) if index % 2 else part for index, part in enumerate(whole))
    return Markup("").join(code)


_FILTERS = (relative, instant, outcome, lasted, segment, amount, plain, briefly, roughly, ticked, why)
_GLOBALS = (icon, mark, kind_of, elapsed, gauge, command, counted, classes, symbols, ticks)
FILTERS: Mapping[str, Callable[..., Any]] = {
    "clipped": cut,
    "cleaned": clean_for_terminal,
    **{each.__name__: each for each in _FILTERS},
}
GLOBALS: Mapping[str, Callable[..., Any]] = {each.__name__: each for each in _GLOBALS}


class Compiled(FileSystemBytecodeCache):
    """Keeps compiled templates beside their sources; without write access they are compiled in each process."""

    def __init__(self, directory: str) -> None:
        super().__init__(os.path.dirname(cache_from_source(os.path.join(directory, "_"))), "%s.cache")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a compiled template."""
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a compiled template."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                os.makedirs(self.directory, exist_ok=True)
                super().dump_bytecode(bucket)
