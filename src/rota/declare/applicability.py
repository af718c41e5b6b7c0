"""Which keys apply to which kind of job, and which environment variables are unsafe."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct

from rota.declare.problems import REBOOT
from rota.model.spec import Gates, Isolate, Kind, MisfirePolicy, OverlapPolicy, WhenFalse

Keys = Mapping[str, Any]
"""The keys of a job, a group or the defaults, as they were read."""

SCHEDULES = ("cron", "interval", "at")
AT_BOOT = "boot"
"""The shape of `cron: "@reboot"`: no instant of its own can be planned."""
WORKS = {
    "command": Kind.COMMAND,
    "shell": Kind.SHELL,
    "run": Kind.FUNCTION,
    **dict.fromkeys(("prompt", "prompt_file", "task"), Kind.AGENT),
}
SPELLINGS = {
    "overlap_policy": "overlap",
    "retry_policy": "retry",
    "timeout_seconds": "timeout",
    "working_directory": "cwd",
}


class JobShape(Struct, frozen=True):
    """The kind of a job, which decides the keys that apply."""

    schedule: str
    work: Kind
    python: bool
    in_process: bool
    overlap: OverlapPolicy
    misfire: MisfirePolicy
    conditions: bool
    when_false: WhenFalse
    budget: bool


class KeyRequirement(Struct, frozen=True):
    """The requirement of a key, and the keys that decide it."""

    fits: Callable[[JobShape], bool]
    looks_at: tuple[str, ...]
    message: str
    hint: str


def shape_of(own: Keys, defaults: Keys, *, python: bool) -> JobShape:
    """Return the shape of a job from its own keys, the defaults, and whether the project names an interpreter."""
    schedule = AT_BOOT if own.get("cron") == (REBOOT,) else next((key for key in SCHEDULES if key in own), "")
    work = next((kind for key, kind in WORKS.items() if key in own), Kind.COMMAND)
    python = work is Kind.FUNCTION and (python or "python" in own or "python" in defaults)
    isolate = own.get("isolate", defaults.get("isolate", Isolate.THREAD))
    return JobShape(
        schedule=schedule,
        work=work,
        python=python,
        in_process=work is Kind.FUNCTION and not python and isolate is Isolate.THREAD,
        overlap=own.get("overlap") or defaults.get("overlap", OverlapPolicy.FORBID),
        misfire=own.get("misfire") or defaults.get("misfire") or default_misfire(schedule),
        conditions=bool(own.get("conditions", defaults.get("conditions"))),
        when_false=own.get("when_false") or defaults.get("when_false") or default_when_false(schedule),
        budget=bool(own.get("budget", defaults.get("budget"))),
    )


def default_misfire(schedule: str) -> MisfirePolicy:
    """Return the policy of a job that names none."""
    return MisfirePolicy.ONCE if schedule in ("interval", "at") else MisfirePolicy.SKIP


def usual_recheck(interval: timedelta | None) -> timedelta:
    """Return how often conditions are checked again, where the job does not say."""
    return min(Gates().recheck, interval) if interval else Gates().recheck


def default_when_false(schedule: str) -> WhenFalse:
    """Return what a false condition does to a job that does not say."""
    return WhenFalse.WAIT if schedule == "interval" else WhenFalse.SKIP


def _without(what: str, *, hint: str = "") -> tuple[str, str]:
    return f"has no effect without {what}", hint or f"add {what}, or remove this line"


_IN_TIME = KeyRequirement(
    lambda shape: shape.schedule != AT_BOOT,
    ("cron",),
    "has no effect on a job that starts at boot",
    "remove this line, or write times into `cron`",
)
_INTERVAL = KeyRequirement(lambda shape: shape.schedule == "interval", ("interval",), *_without("`interval`"))
_REPEATING = KeyRequirement(
    lambda shape: shape.schedule in ("cron", "interval"), ("cron", "interval"), *_without("`cron` or `interval`")
)
_SCHEDULED = KeyRequirement(
    lambda shape: shape.schedule != "",
    SCHEDULES,
    *_without("a schedule", hint="add `cron`, `interval` or `at`, or remove this line"),
)
_PROCESS = KeyRequirement(
    lambda shape: not shape.in_process,
    ("run", "isolate", "python"),
    "has no effect on a function inside the scheduler's process",
    "add `isolate: process`, or remove this line",
)
_FUNCTION = KeyRequirement(lambda shape: shape.work is Kind.FUNCTION, ("run",), *_without("`run`"))
_SHELL = KeyRequirement(lambda shape: shape.work is Kind.SHELL, ("shell",), *_without("`shell`"))
_AGENT = KeyRequirement(
    lambda shape: shape.work is Kind.AGENT,
    ("prompt", "prompt_file", "task"),
    *_without("an agent's work", hint="add `prompt:` or `prompt_file:`, or remove this line"),
)
_CONDITIONS = KeyRequirement(lambda shape: shape.conditions, ("conditions",), *_without("`conditions`"))
_WAIT = KeyRequirement(
    lambda shape: shape.when_false is WhenFalse.WAIT, ("when_false",), *_without("`when_false: wait`")
)
_BUDGET = KeyRequirement(lambda shape: shape.budget, ("budget",), *_without("`budget`"))
_QUEUE = KeyRequirement(lambda shape: shape.overlap is OverlapPolicy.QUEUE, ("overlap",), *_without("`overlap: queue`"))
_ALL = KeyRequirement(lambda shape: shape.misfire is MisfirePolicy.ALL, ("misfire",), *_without("`misfire: all`"))
_MISSED_RUN = KeyRequirement(
    lambda shape: shape.misfire is not MisfirePolicy.SKIP, ("misfire",), *_without("`misfire: once` or `misfire: all`")
)

_NEEDED_BY = (
    ("anchor first_run pace", (_INTERVAL,)),
    ("jitter on_repeated_failure start_at end_at", (_IN_TIME, _REPEATING)),
    ("misfire misfire_grace except run_once finish_by quiet_hours wake", (_IN_TIME, _SCHEDULED)),
    ("misfire_limit", (_IN_TIME, _SCHEDULED, _ALL)),
    ("misfire_max_age", (_IN_TIME, _SCHEDULED, _MISSED_RUN)),
    ("queue_depth", (_QUEUE,)),
    ("shell_with", (_SHELL,)),
    ("python isolate", (_FUNCTION,)),
    ("env env_pass env_file cwd idle_timeout term_grace on_restart", (_PROCESS,)),
    ("when_false", (_CONDITIONS,)),
    ("recheck", (_CONDITIONS, _WAIT)),
    ("estimate", (_BUDGET,)),
    (
        "agent provider model access max_turns max_usd loop_guard allowed_tools answered_by session carry workspace",
        (_AGENT,),
    ),
    ("rota_tools trust_project placeholders work_source deliver after session_max_age session_max_turns", (_AGENT,)),
)
NEEDS = {key: needs for keys, needs in _NEEDED_BY for key in keys.split()}
"""What the keys need that affect only some jobs."""


_LOADS_CODE = re.compile(
    r"LD_[A-Z_]+|DYLD_[A-Z_]+|PYTHON[A-Z]+|BASH_ENV|NODE_OPTIONS|NODE_PATH|PERL5(OPT|LIB|DB)|PERLLIB|RUBY(OPT|LIB)"
    r"|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|GCONV_PATH|IFS|PROMPT_COMMAND",
    re.ASCII,
)
_BEFORE_ALL = re.compile(r"LD_(PRELOAD|AUDIT)|DYLD_INSERT_LIBRARIES|PYTHONSTARTUP|BASH_ENV|PROMPT_COMMAND", re.ASCII)
_SECRETS = {
    "an API key (sk-…)": r"sk-[A-Za-z0-9_-]{20,}",
    "a token of GitHub": r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}",
    "a token of GitLab": r"glpat-[A-Za-z0-9_-]{20,}",
    "an access key of AWS": r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])",
    "a token of Slack": r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "an API key of Google": r"AIza[A-Za-z0-9_-]{35}",
    "a secret of webhooks": r"whsec_[A-Za-z0-9+/]{24,}",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
}
_SECRET = {kind: re.compile(rf"(?<![A-Za-z0-9_]){pattern}", re.ASCII) for kind, pattern in _SECRETS.items()}


def loads_code(name: str) -> bool:
    """Return whether a variable of this name may make a program load other code than its own.

    >>> loads_code("LD_PRELOAD"), loads_code("python_version")
    (True, False)
    """
    return bool(_LOADS_CODE.fullmatch(name))


def runs_first(name: str) -> bool:
    """Return whether what a variable of this name holds always runs before the program itself.

    >>> runs_first("BASH_ENV"), runs_first("PYTHONPATH")
    (True, False)
    """
    return bool(_BEFORE_ALL.fullmatch(name))


def secret_in(text: str) -> str | None:
    """Return what kind of secret a text seems to hold, or None.

    >>> secret_in("Bearer ghp_" + 36 * "x")
    'a token of GitHub'
    """
    return next((kind for kind, pattern in _SECRET.items() if pattern.search(text)), None)
