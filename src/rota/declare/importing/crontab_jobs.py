"""A crontab in rota's words: the keys that keep cron's meaning, and what a person has to do by hand."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.declare.fields import ENV_NAME
from rota.declare.hazards import secret_in
from rota.declare.importing.crontab import REBOOT, Crontab, Entry, Variable
from rota.declare.importing.naming import name_for
from rota.declare.importing.report import ImportedJob, Kept, Remark, Translation
from rota.declare.writing import write_comment, write_entry, write_job, write_map
from rota.model.errors import InvalidTimezone
from rota.rules.timezone import zone

CRON_PATH = "/usr/bin:/bin"
CRON_SHELL = "/bin/sh"
ROOT = "root"
_MAIL = ("MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING")
_CRON_ONLY = frozenset({*_MAIL, "CRON_TZ", "RANDOM_DELAY", "LOGNAME", "USER"})
_SILENT = re.compile(
    r"\s*(?:>>?\s*/dev/null\s+2>\s*(?:&1|/dev/null)|&>>?\s*/dev/null|2>\s*/dev/null\s+>\s*/dev/null)\s*$"
)
_BACKGROUND = re.compile(r"(?<![&>])&\s*$")


@dataclass(frozen=True, slots=True)
class _Setting:
    """What the variables in force at an entry mean for its job."""

    env: Mapping[str, Any]
    """Variables; one whose value looks like a secret as {secret: NAME}."""
    shell: str
    home: str
    timezone: str


def translate(crontab: Crontab, *, timezone: str, system: bool = False) -> Translation:
    """Return the rota.yaml that means the same; `timezone` is that of the machine whose cron read the file."""
    by_hand = [remark for variable in crontab.variables for remark in _about(variable)]
    of_file = _setting(crontab.first, timezone)
    jobs: list[ImportedJob] = []
    left_out: list[Remark] = []
    for entry in crontab.entries:
        if trouble := _unmappable(entry):
            left_out.append(Remark(entry.line, trouble))
            continue
        name = name_for(entry.command, taken=[job.name for job in jobs])
        keys, remarks = _job(name, entry, of_file=of_file)
        by_hand += remarks
        jobs.append(ImportedJob(name, entry.line, keys, entry.comments))
    by_hand += [Remark(line, "looks like an entry that is switched off: left out") for line in crontab.disabled]
    return Translation(
        text=_text(crontab, jobs, of_file=of_file, notes=left_out),
        read=len(crontab.entries),
        jobs=tuple(jobs),
        timezone=of_file.timezone,
        kept=_kept(of_file, timezone, system=system),
        by_hand=tuple(sorted(by_hand, key=lambda remark: remark.line)),
        left_out=tuple(left_out),
    )


def _setting(variables: Mapping[str, str], timezone: str) -> _Setting:
    own = {name: value for name, value in variables.items() if name not in _CRON_ONLY and _can_be_set(name)}
    shell = own.get("SHELL") or CRON_SHELL
    named = {name: {"secret": name} if secret_in(value) else value for name, value in own.items()}
    env = {"PATH": CRON_PATH, "SHELL": shell, **named}
    return _Setting(env, shell, own.get("HOME") or "~", variables.get("CRON_TZ") or timezone)


def _can_be_set(name: str) -> bool:
    return bool(ENV_NAME.fullmatch(name)) and not name.startswith("ROTA_")


def _about(variable: Variable) -> list[Remark]:
    """Return what has to be said about a line that sets a variable."""
    name, shown = variable.name, f"{variable.name}={variable.value}"
    if name in _MAIL:
        told = "`notify: {mail: {apprise: {secret: MAIL_URL}}}` and `defaults: {notify: mail}` mail what fails"
        return [Remark(variable.line, f"{shown} is not mapped: {told}")] if variable.value else []
    if name == "RANDOM_DELAY":
        return [Remark(variable.line, f"{shown} is not mapped: write `jitter: {variable.value or 5}m` into the jobs")]
    if name in ("LOGNAME", "USER"):
        return [Remark(variable.line, f"{shown} is not mapped: cron ignored it, the user is the scheduler's")]
    if name == "TZ":
        return [Remark(variable.line, f"{shown} goes to the commands only, as in cron; times follow `timezone`")]
    if _can_be_set(name) and secret_in(variable.value):
        told = f"`rota secrets set {name}` stores it, and the jobs only name it"
        return [Remark(variable.line, f"{name} looks like a secret: {told}")]
    if name == "CRON_TZ" or _can_be_set(name):
        return []
    return [Remark(variable.line, f"{shown} is not mapped: no variable of a job can have this name")]


def _unmappable(entry: Entry) -> str:
    zone_name = entry.variables.get("CRON_TZ")
    try:
        if zone_name and entry.cron != REBOOT:
            zone(zone_name)
    except InvalidTimezone as error:
        return f"`{entry.command}` cannot be mapped: {error.message}; correct CRON_TZ"
    return ""


def _job(name: str, entry: Entry, *, of_file: _Setting) -> tuple[dict[str, Any], list[Remark]]:
    own = _setting(entry.variables, of_file.timezone)
    shell, remarks = _shell(name, entry)
    keys: dict[str, Any] = {"cron": entry.cron, "shell": shell}
    if own.timezone != of_file.timezone and entry.cron != REBOOT:
        keys["timezone"] = own.timezone
    if own.shell != of_file.shell:
        keys["shell_with"] = [own.shell, "-c"]
    if own.home != of_file.home:
        keys["cwd"] = own.home
    if env := {key: value for key, value in own.env.items() if of_file.env.get(key) != value}:
        keys["env"] = env
    if entry.user and entry.user != ROOT:
        keys["enabled"] = False
        recipe = f"shell: sudo -u {shlex.quote(entry.user)} -H {own.shell} -c {shlex.quote(shell)}"
        remarks.append(
            Remark(
                entry.line,
                f"{name} ran as {entry.user}: a job runs as the scheduler's user, so it is disabled; "
                f"let the scheduler be {entry.user}, or write `{recipe}` and allow that in sudoers",
            )
        )
    return keys, remarks


def _shell(name: str, entry: Entry) -> tuple[str, list[Remark]]:
    text, remarks = entry.command, []
    if background := _BACKGROUND.search(text):
        text = text[: background.start()].rstrip()
        told = "the run would otherwise end what it left behind"
        remarks.append(Remark(entry.line, f"`&` dropped from {name}: {told}"))
    if silent := _SILENT.search(text):
        told = f"rota keeps the output (rota logs {name})"
        remarks.append(Remark(entry.line, f"`{silent[0].strip()}` dropped from {name}: {told}"))
        text = text[: silent.start()].rstrip()
    if entry.stdin is not None:
        text = with_input(text, entry.stdin)
        remarks.append(Remark(entry.line, f"`%` of {name} is written as a here-document: the lines it reads"))
    return text or ":", remarks


def with_input(command: str, stdin: str) -> str:
    """Return a shell's text in which the whole command reads `stdin`, as cron feeds what follows `%`."""
    lines, mark = stdin.split("\n"), "STDIN"
    while mark in lines:
        mark += "_"
    body = [*lines, mark] if stdin else [mark]
    return "\n".join(["{", command, f"}} <<'{mark}'", *body]) + "\n"


def _kept(of_file: _Setting, timezone: str, *, system: bool) -> tuple[Kept, ...]:
    zone_why = "CRON_TZ of the file" if of_file.timezone != timezone else "cron used this machine's local time"
    path_why = "cron's own kept" if of_file.env["PATH"] == CRON_PATH else "as the file sets it"
    kept = [
        Kept(f"timezone: {of_file.timezone}", f"{zone_why}; rota's default is UTC"),
        Kept("timeout: never", "cron had none; rota's default is 10 min"),
        Kept("retry: false", "cron never retried; rota's default is 3 attempts"),
        Kept("misfire: skip", "as cron: what was missed while the machine was down does not run"),
        Kept("overlap: allow", "cron did not wait for an earlier run; rota's default is forbid"),
        Kept(f"shell_with: [{of_file.shell}, -c]", "cron's shell; rota's default stops at the first error (-e)"),
        Kept(f"cwd: {of_file.home}", "cron started in the home folder; rota's default is the project"),
        Kept("env.PATH", f"{of_file.env['PATH']}, {path_why}"),
    ]
    if system:
        kept.append(Kept("user root", "lines of root need a scheduler that runs as root"))
    return tuple(kept)


def _defaults(of_file: _Setting) -> dict[str, Any]:
    return {
        "timeout": "never",
        "retry": False,
        "misfire": "skip",
        "overlap": "allow",
        "shell_with": [of_file.shell, "-c"],
        "cwd": of_file.home,
        "env": dict(of_file.env),
    }


def _text(crontab: Crontab, jobs: list[ImportedJob], *, of_file: _Setting, notes: list[Remark]) -> str:
    lines = [write_comment(text) for text in crontab.header]
    lines += [write_comment(f"line {note.line}: {note.text}") for note in notes]
    for variable in crontab.variables:
        if variable.name in _MAIL and variable.value:
            lines.append(write_comment(f"not mapped: {variable.name}={variable.value}"))
    lines += [""] if lines else []
    lines += [*write_entry("timezone", of_file.timezone), "", "defaults:", *write_map(_defaults(of_file), depth=1), ""]
    lines.append("jobs:" if jobs else "jobs: {}")
    for job in jobs:
        lines += write_job(job.name, job.keys, comments=job.comments)
    lines += ["", *(write_comment(text) for text in crontab.footer)] if crontab.footer else []
    return "\n".join(lines) + "\n"
