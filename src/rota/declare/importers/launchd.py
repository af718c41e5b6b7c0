"""Import of launchd property lists."""

import plistlib
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from typing import Any

from rota.declare.applicability import secret_in
from rota.declare.importers.names import name_for
from rota.declare.importers.prompts import map_of
from rota.declare.importers.translation import (
    NO_VARIABLE,
    ImportedJob,
    KeptKey,
    Reading,
    Remark,
    Source,
    Translation,
    TranslationDraft,
    Unmappable,
    duration_text,
    every,
    is_variable,
    line_of,
    plain_defaults,
    slug_for,
    taken_from,
)
from rota.model.errors import FileProblems, Problem
from rota.rules.schedule.timezone import zone

_RANGES = {"Minute": (0, 59), "Hour": (0, 23), "Day": (1, 31), "Month": (1, 12), "Weekday": (0, 7)}
_MAPPED = {
    *("Label", "Program", "ProgramArguments", "StartInterval", "StartCalendarInterval", "WorkingDirectory"),
    *("EnvironmentVariables", "UserName", "Disabled", "RunAtLoad", "KeepAlive", "ExitTimeOut", "TimeOut"),
}
_QUIET = {"StandardOutPath", "StandardErrorPath", "StandardInPath", "AbandonProcessGroup", "LimitLoadToSessionType"}
_TRIGGERS = ("WatchPaths", "QueueDirectories", "StartOnMount", "Sockets", "MachServices", "LaunchEvents")
_KEPT = (
    KeptKey("timeout: never", "launchd has none; rota's default is 10 min"),
    KeptKey("retry: false", "launchd starts a job once; rota's default is 3 attempts"),
    KeptKey("misfire: once", "as in launchd: what was missed during sleep runs once on wake"),
    KeptKey("cwd: /", "launchd's default folder; rota's default is the project"),
    KeptKey("env.PATH", "/usr/bin:/bin:/usr/sbin:/sbin, launchd's own"),
)
LONGEST_SCAN = timedelta(days=366 * 300)


def import_launchd(source: Source) -> Translation:
    """Return the translation of a property list."""
    try:
        plist = plistlib.loads(source.content)
    except Exception as error:  # the parser raises errors of many types
        raise FileProblems([Problem(f"is not a property list: {error}", "import_file", source.file, 1, 1)]) from None
    if not isinstance(plist, dict):
        raise FileProblems([Problem("is not a dictionary", "import_file", source.file, 1, 1)])
    draft = TranslationDraft()
    try:
        draft.jobs.append(_job(source, plist, draft.by_hand))
    except Unmappable as error:
        draft.left_out.append(Remark(error.line or 1, f"{plist.get('Label', source.file)}: {error}", source.file))
    draft.by_hand.sort(key=lambda remark: remark.line)
    defaults = {**plain_defaults(misfire="once"), "cwd": "/", "env": {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}}
    return draft.translation(source.timezone, defaults, read=1, kept=_KEPT)


def _line(source: Source, key: str) -> int:
    return line_of(source.content, f"<key>{key}</key>".encode())


def _job(source: Source, plist: Mapping[str, Any], remarks: list[Remark]) -> ImportedJob:
    def tell(key: str, text: str) -> None:
        remarks.append(Remark(_line(source, key), text, source.file))

    words = plist.get("ProgramArguments") or ([plist["Program"]] if plist.get("Program") else None)
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise Unmappable("it has no ProgramArguments and no Program", line=1)
    label = str(plist.get("Label", ""))
    name = slug_for(label.rpartition(".")[2], taken=()) if label else name_for(shlex.join(words), taken=())
    when, reading = _when(source, plist, name, tell)
    keys: dict[str, Any] = {**when, "command": words}
    if label:
        keys["description"] = label[:1000]
    if plist.get("WorkingDirectory"):
        keys["cwd"] = str(plist["WorkingDirectory"])
    if env := _environment(plist, tell):
        keys["env"] = env
    for theirs, ours in (("TimeOut", "timeout"), ("ExitTimeOut", "term_grace")):
        if isinstance(plist.get(theirs), int) and plist[theirs] > 0:
            keys[ours] = duration_text(plist[theirs])
    if plist.get("Disabled") is True:
        keys["enabled"] = False
    if plist.get("UserName") not in (None, "root"):
        keys["enabled"] = False
        user = plist["UserName"]
        tell(
            "UserName",
            f"{name} ran as {user}: a job runs as the scheduler's user, so it is disabled; use `sudo -u {user}`",
        )
    _tell_unmapped(plist, name, tell)
    return ImportedJob(name, _line(source, "Label") or 1, keys, reading=reading, file=source.file)


def _tell_unmapped(plist: Mapping[str, Any], name: str, tell: Any) -> None:
    for key in plist:
        if key.startswith("Standard"):
            tell(key, f"{key} is dropped: rota keeps the output (rota logs {name})")
        elif key not in _MAPPED and key not in _TRIGGERS and key not in _QUIET:
            tell(key, f"{key} has no counterpart")


def _environment(plist: Mapping[str, Any], tell: Any) -> dict[str, Any]:
    env: dict[str, Any] = {}
    for name, value in map_of(plist.get("EnvironmentVariables")).items():
        if not is_variable(name):
            tell("EnvironmentVariables", f"{name} is not mapped: {NO_VARIABLE}")
        elif secret_in(str(value)):
            env[name] = {"secret": name}
            tell("EnvironmentVariables", f"{name} looks like a secret: `rota secrets set {name}` stores it")
        else:
            env[name] = str(value)
    return env


def _when(source: Source, plist: Mapping[str, Any], name: str, tell: Any) -> tuple[dict[str, Any], Reading | None]:
    calendar, interval = plist.get("StartCalendarInterval"), plist.get("StartInterval")
    trigger = next((key for key in _TRIGGERS if plist.get(key)), "")
    if plist.get("KeepAlive"):
        raise Unmappable("KeepAlive is for a daemon, which launchd keeps running", line=_line(source, "KeepAlive"))
    if calendar is not None:
        _tell_beside(plist, name, tell, trigger)
        entries = calendar if isinstance(calendar, list) else [calendar]
        at = _line(source, "StartCalendarInterval")
        expressions = [cron_line(entry, line=at) for entry in entries]
        reading = reading_of(entries, source.timezone)
        return {"cron": expressions[0] if len(expressions) == 1 else expressions}, reading
    if isinstance(interval, int) and interval > 0:
        _tell_beside(plist, name, tell, trigger)
        keys = {"interval": duration_text(interval), "anchor": "start"}
        if not plist.get("RunAtLoad"):
            keys["first_run"] = "after_interval"
        return keys, every(interval)
    if trigger:
        raise Unmappable(f"{trigger} starts it on an event, not at a time", line=_line(source, trigger))
    if plist.get("RunAtLoad"):
        tell("RunAtLoad", f"RunAtLoad of {name} is `@reboot`: once for each boot, when the scheduler starts")
        return {"cron": "@reboot"}, None
    raise Unmappable("it has no StartInterval and no StartCalendarInterval", line=1)


def _tell_beside(plist: Mapping[str, Any], name: str, tell: Any, trigger: str) -> None:
    if trigger:
        tell(trigger, f"{trigger} of {name} is not mapped: rota starts it at its times alone")
    if plist.get("RunAtLoad") and plist.get("StartCalendarInterval") is not None:
        tell("RunAtLoad", f"RunAtLoad of {name} is not mapped: `rota run {name}` starts it by hand")


def cron_line(entry: Any, *, line: int = 0) -> str:
    """Return the cron expression of an entry of StartCalendarInterval.

    >>> cron_line({"Hour": 7, "Minute": 30, "Weekday": 1})
    '30 7 * * 1'
    """
    if not isinstance(entry, Mapping):
        raise Unmappable("StartCalendarInterval has an entry that is not a dictionary", line=line)
    for key, value in entry.items():
        low, high = _RANGES.get(key, (1, 0))
        if not isinstance(value, int) or not low <= value <= high:
            raise Unmappable(f"StartCalendarInterval has {key} = {value!r}", line=line)
    return " ".join(str(entry.get(key, "*")) for key in _RANGES)


def reading_of(entries: Sequence[Mapping[str, int]], timezone: str) -> Reading:
    """Return the reading of StartCalendarInterval: a missing key matches all, Day and Weekday match either."""
    return taken_from(partial(_instants, entries, zone(timezone)))


def _instants(entries: Sequence[Mapping[str, int]], tz: Any, after: datetime) -> Any:
    day, latest = after.astimezone(tz).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None), after
    end = day + LONGEST_SCAN
    while day < end:
        clocks = {clock for entry in entries if _on(entry, day) for clock in _clocks(entry)}
        for hour, minute in sorted(clocks):
            local = day.replace(hour=hour, minute=minute)
            at = local.replace(tzinfo=tz).astimezone(UTC)
            if at > latest and at.astimezone(tz).replace(tzinfo=None) == local:
                latest = at
                yield at
        day += timedelta(days=1)


def _on(entry: Mapping[str, int], day: datetime) -> bool:
    if entry.get("Month", day.month) != day.month:
        return False
    right_day = entry.get("Day") == day.day
    right_weekday = "Weekday" in entry and entry["Weekday"] % 7 == day.isoweekday() % 7
    return right_day or right_weekday or not {"Day", "Weekday"} & set(entry)


def _clocks(entry: Mapping[str, int]) -> Any:
    hours = [entry["Hour"]] if "Hour" in entry else range(24)
    minutes = [entry["Minute"]] if "Minute" in entry else range(60)
    return product(hours, minutes)
