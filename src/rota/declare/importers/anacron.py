"""Import of an anacrontab."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from rota.declare.importers.crontab import CRON_PATH, CRON_SHELL
from rota.declare.importers.translation import (
    ImportedJob,
    KeptKey,
    Reading,
    Remark,
    Section,
    Source,
    Translation,
    comments_above,
    plain_defaults,
    remark,
    slug_for,
)
from rota.declare.problems import ENV_NAME
from rota.rules.schedule.timezone import zone

_VARIABLE = re.compile(r"\s*(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*?)\s*")
_JOB = re.compile(r"\s*(?P<period>\d+|@\w+)\s+(?P<delay>\d+)\s+(?P<id>\S+)\s+(?P<command>.*\S)\s*")
_PERIODS = {"@daily": 1, "@weekly": 7}
_CALENDAR = {"@monthly": "1 * *", "@yearly": "1 1 *", "@annually": "1 1 *"}
_OWN = {"START_HOURS_RANGE", "RANDOM_DELAY", "MAILTO", "MAILFROM", "SHELL", "PATH", "HOME", "LOGNAME", "NO_MAIL_OUTPUT"}
FIRST_HOUR = 3
"""The hour of a job where the file has no START_HOURS_RANGE; anacron itself then takes the first hour of the day."""


def import_anacron(source: Source) -> Translation:
    """Return the translation of an anacrontab."""
    lines = source.content.decode("utf-8", "replace").splitlines()
    variables: dict[str, str] = {}
    jobs: list[ImportedJob] = []
    by_hand: list[Remark] = []
    left_out: list[Remark] = []
    read = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.strip().startswith("#"):
            continue
        if found := _VARIABLE.fullmatch(line):
            variables[found["name"]] = found["value"].strip("\"'")
            by_hand += _about(number, found["name"], variables[found["name"]])
            continue
        read += 1
        match = _JOB.fullmatch(line)
        if match is None:
            why = "is not an entry of anacron: a period in days, a delay in minutes, a name and a command"
            left_out.append(remark(number, f"`{line.strip()}` {why}"))
            continue
        trouble = _trouble(match["period"])
        if trouble:
            left_out.append(remark(number, f"{match['id']}: {trouble}"))
            continue
        comments = comments_above(lines, number)
        jobs.append(_job(match, number, variables, source, taken=[job.name for job in jobs], comments=comments))
    return Translation(
        read=read,
        sections=_sections(variables, source.timezone),
        jobs=tuple(jobs),
        timezone=source.timezone,
        kept=_KEPT,
        by_hand=tuple(by_hand),
        left_out=tuple(left_out),
    )


_KEPT = (
    KeptKey("timeout: never", "anacron had none; rota's default is 10 min"),
    KeptKey("retry: false", "anacron never retried; rota's default is 3 attempts"),
    KeptKey("misfire: once", "as in anacron: what was missed while the machine was off runs once"),
    KeptKey("shell_with", "anacron's shell; rota's default stops at the first error (-e)"),
)


def _about(line: int, name: str, value: str) -> list[Remark]:
    if name in ("MAILTO", "MAILFROM") and value:
        told = "`notify: {mail: {apprise: {secret: MAIL_URL}}}` and `defaults: {notify: mail}` send mail for failures"
        return [remark(line, f"{name}={value} is not mapped: {told}")]
    if name == "LOGNAME":
        return [remark(line, f"{name}={value} is not mapped: the user is that of the scheduler")]
    if name not in _OWN and (not ENV_NAME.fullmatch(name) or name.startswith("ROTA_")):
        return [remark(line, f"{name}={value} is not mapped: no variable of a job can have this name")]
    return []


def _trouble(period: str) -> str:
    if period.startswith("@") and period not in {**_PERIODS, **_CALENDAR}:
        return f"{period} is not a period of anacron"
    return "a period of 0 days never ends" if period == "0" else ""


def _hours(variables: dict[str, str]) -> tuple[int, int]:
    first, _, last = variables.get("START_HOURS_RANGE", "").partition("-")
    return (int(first), int(last)) if first.isdigit() and last.isdigit() else (FIRST_HOUR, 24)


def _job(
    match: "re.Match[str]",
    line: int,
    variables: dict[str, str],
    source: Source,
    *,
    taken: Sequence[str],
    comments: tuple[str, ...],
) -> ImportedJob:
    period, delay = match["period"], int(match["delay"])
    hour = min(_hours(variables)[0] + delay // 60, 23)
    clock = f"{delay % 60} {hour}"
    days = _PERIODS.get(period) or (int(period) if period.isdigit() else 0)
    keys: dict[str, Any]
    if period in _CALENDAR:
        keys = {"cron": f"{clock} {_CALENDAR[period]}"}
    elif days == 1:
        keys = {"cron": f"{clock} * * *"}
    else:
        begin = f"{source.now.astimezone(zone(source.timezone)):%Y-%m-%d} {hour:02}:{delay % 60:02}"
        keys = {"interval": f"{days}d", "anchor": "fixed", "start_at": begin}
    if (random := variables.get("RANDOM_DELAY", "0")).isdigit() and int(random):
        keys["jitter"] = f"{random}m"
    keys["shell"] = match["command"]
    name = slug_for(match["id"], taken=taken)
    return ImportedJob(name, line, keys, comments, _reading(period, days, source.timezone), by_day=True)


def _reading(period: str, days: int, timezone: str) -> Reading:
    """Return anacron's own rule on a machine that is always on: a job runs on the first day after its period."""

    def read(after: datetime, count: int) -> list[datetime]:
        day = after.astimezone(zone(timezone)).replace(hour=12, minute=0, second=0, microsecond=0)
        last, found = day, list[datetime]()
        while len(found) < count:
            day += timedelta(days=1)
            if period in ("@yearly", "@annually"):
                due = day.year != last.year
            elif period == "@monthly":
                due = (day.year, day.month) != (last.year, last.month)
            else:
                due = (day.date() - last.date()).days >= days
            if due:
                last = day
                found.append(day)
        return found

    return read


def _sections(variables: dict[str, str], timezone: str) -> tuple[Section, ...]:
    shell = variables.get("SHELL") or CRON_SHELL
    others = {
        name: value
        for name, value in variables.items()
        if name not in _OWN and ENV_NAME.fullmatch(name) and not name.startswith("ROTA_")
    }
    env = {"PATH": variables.get("PATH") or CRON_PATH, "SHELL": shell, **others}
    home = {"cwd": variables["HOME"]} if variables.get("HOME") else {"cwd": "/"}
    defaults = {**plain_defaults(misfire="once"), "shell_with": [shell, "-c"], **home, "env": env}
    return Section("timezone", timezone), Section("defaults", defaults)
