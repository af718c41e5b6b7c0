"""Quiet hours as the file writes them, for all jobs or for one, and what they come to for a schedule (R-17)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rota.declare.fields import Refused, ask, choice, read_zone, wrong_type
from rota.declare.keyed import Reader, read_keys
from rota.declare.parts import Parts, read_items
from rota.model.spec import QuietHours, QuietPolicy, Schedule
from rota.rules.quiet import Window, canonical_windows, cover_the_week, parse_window

IGNORE = "ignore"
_HINT = 'write windows: ["00:00-07:00"], or {windows: ["00:00-07:00"], policy: defer}'


@dataclass(frozen=True, slots=True)
class WrittenQuiet:
    """Quiet hours with what was left out: no windows and no policy are the file's, no zone is that of the job."""

    windows: tuple[str, ...] = ()
    policy: QuietPolicy | None = None
    timezone: str = ""
    ignored: bool = False


def read_quiet_hours(value: Any) -> WrittenQuiet:
    """Return the quiet hours of all jobs: a list of windows, or a map with a policy."""
    return _read(value, own=False)


def read_own_quiet_hours(value: Any) -> WrittenQuiet:
    """Return the quiet hours of one job: as those of all, `ignore`, or a map that says only what differs."""
    return WrittenQuiet(ignored=True) if value == IGNORE else _read(value, own=True)


def _read(value: Any, *, own: bool) -> WrittenQuiet:
    windows = partial(_windows, own=own)
    if not isinstance(value, Mapping):
        return WrittenQuiet(windows(value))
    if not value:
        raise Refused("is empty", code="missing_value", hint=_HINT)
    readers: dict[str, Reader] = {"windows": windows, "policy": choice(QuietPolicy), "timezone": read_zone}
    with Parts() as parts:
        found = read_keys(value, readers, parts=parts, hint=_HINT)
        if not own and "windows" not in value and not parts.mistyped:
            raise Refused("has no `windows`", code="missing_value", hint=_HINT)
    return WrittenQuiet(**found)


def _windows(value: Any, *, own: bool) -> tuple[str, ...]:
    written = [value] if isinstance(value, str) else value
    if not isinstance(written, list):
        hint = _HINT + (f", or `quiet_hours: {IGNORE}`" if own else "")
        raise wrong_type(value, "a list of windows", hint=hint)
    if not written:
        hint = f"name a window, or write `quiet_hours: {IGNORE}`" if own else "name a window, or remove the line"
        raise Refused("is an empty list", hint=hint)
    windows = [_window(value)] if isinstance(value, str) else read_items(written, _window)
    if cover_the_week(windows):
        hint = "leave a minute of the week, or disable the jobs with `enabled: false`"
        raise Refused("leave no minute of the week", code="quiet_window", hint=hint)
    return canonical_windows(windows)


def _window(text: Any) -> Window:
    if not isinstance(text, str):
        raise wrong_type(text, "a window of quiet hours", hint='put it in quotes: "00:00-07:00"')
    return ask(parse_window, text)


def quiet_of(written: WrittenQuiet | None, file: QuietHours | None, schedule: Schedule) -> QuietHours | None:
    """Return the quiet hours of a schedule; those of the file only where they mean something to it.

    Raises Refused where its own mean nothing: every key that is written has an effect.
    """
    if written is None:
        return file if file is not None and means_something(file, schedule) else None
    if written.ignored:
        return None
    if not written.windows and file is None:
        raise Refused("has no `windows`, and the file has no quiet hours", code="missing_value", hint=_HINT)
    base = file if file is not None and not written.windows else QuietHours(written.windows, schedule.timezone)
    policy = written.policy or (file.policy if file is not None else QuietPolicy.DORMANT)
    found = replace(base, policy=policy, timezone=written.timezone or base.timezone)
    if not means_something(found, schedule):
        hint = "write {windows: […], policy: defer} or `policy: skip`, or an interval by mode"
        raise Refused("`policy: dormant` has no effect without an interval by mode", code="no_effect", hint=hint)
    return found


def means_something(quiet: QuietHours, schedule: Schedule) -> bool:
    """Tell whether quiet hours have an effect: `dormant` slows intervals by mode alone, the others act on instants."""
    if schedule.manual or schedule.reboot:
        return False
    return quiet.policy is not QuietPolicy.DORMANT or schedule.by_mode is not None


def quiet_of_poll(file: QuietHours | None, schedule: Schedule) -> QuietHours | None:
    """Return the quiet hours of the poll: whatever they do to jobs, they slow it, so that who needs it is served."""
    if file is None or schedule.by_mode is None:
        return None
    return replace(file, policy=QuietPolicy.DORMANT)


def written_quiet(quiet: QuietHours, *, zone: str) -> Any:
    """Return quiet hours as a file writes them, where those of the key are read in `zone`."""
    keys: dict[str, Any] = {"windows": list(quiet.windows), "policy": str(quiet.policy)}
    return keys if quiet.timezone == zone else {**keys, "timezone": quiet.timezone}
