"""Quiet hours as the file writes them, for all jobs or for one, and what they come to for a schedule (R-17)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rota.declare.fields import Refused, ask, choice, read_zone, wrong_type
from rota.declare.hints import unknown_key
from rota.model.spec import QuietHours, QuietPolicy, Schedule
from rota.rules.quiet import Window, canonical_windows, cover_the_week, parse_window

IGNORE = "ignore"
KEYS = ("windows", "policy", "timezone")
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
    written = _read(value)
    if not written.windows:
        raise Refused("has no `windows`", code="missing_value", hint=_HINT)
    return written


def read_own_quiet_hours(value: Any) -> WrittenQuiet:
    """Return the quiet hours of one job: as those of all, `ignore`, or a map that says only what differs."""
    return WrittenQuiet(ignored=True) if value == IGNORE else _read(value, own=True)


def _read(value: Any, *, own: bool = False) -> WrittenQuiet:
    if not isinstance(value, Mapping):
        return WrittenQuiet(_windows(value, (), own=own))
    for key in value:
        if key not in KEYS:
            raise Refused("unknown key", code="unknown_key", hint=unknown_key(str(key), KEYS), at=(key,))
    if not value:
        raise Refused("is empty", code="missing_value", hint=_HINT)
    return WrittenQuiet(
        windows=_windows(value["windows"], ("windows",), own=own) if "windows" in value else (),
        policy=_part(choice(QuietPolicy), value["policy"], "policy") if "policy" in value else None,
        timezone=_part(read_zone, value["timezone"], "timezone") if "timezone" in value else "",
    )


def _part(reader: Any, value: Any, key: str) -> Any:
    try:
        return reader(value)
    except Refused as error:
        raise Refused(error.message, code=error.code, hint=error.hint, at=(key, *error.at)) from None


def _windows(value: Any, at: tuple[Any, ...], *, own: bool) -> tuple[str, ...]:
    written = [value] if isinstance(value, str) else value
    if not isinstance(written, list):
        hint = _HINT + (f", or `quiet_hours: {IGNORE}`" if own else "")
        raise wrong_type(value, "a list of windows", hint=hint, at=at)
    if not written:
        hint = f"name a window, or write `quiet_hours: {IGNORE}`" if own else "name a window, or remove the line"
        raise Refused("is an empty list", hint=hint, at=at)
    windows = [_window(text, at if isinstance(value, str) else (*at, index)) for index, text in enumerate(written)]
    if cover_the_week(windows):
        hint = "leave a minute of the week, or disable the jobs with `enabled: false`"
        raise Refused("leave no minute of the week", code="quiet_window", hint=hint, at=at)
    return canonical_windows(windows)


def _window(text: Any, at: tuple[Any, ...]) -> Window:
    if not isinstance(text, str):
        raise wrong_type(text, "a window of quiet hours", hint='put it in quotes: "00:00-07:00"', at=at)
    try:
        return ask(parse_window, text)
    except Refused as error:
        raise Refused(error.message, code=error.code, hint=error.hint, at=at) from None


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
