"""The arguments of tools and the times in them."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rota.model.clock import iso
from rota.model.errors import InvalidInstant, ToolArguments, nearest
from rota.model.notifications import Channel
from rota.model.records import cut
from rota.model.spec import FirstRun, JobSpec, OverlapPolicy, Schedule
from rota.rules.schedule.cron import check_cron
from rota.rules.schedule.timezone import localize, zone

TASK_LIMIT = 20_000
NAME_LIMIT = 200
TEXT_LIMIT = 200
LABELS = 20
MAX_INTERVAL_SECONDS = 10 * 366 * 86_400
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_INVISIBLE = "\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f"
_HIDING = re.compile(f"[{_CONTROLS}{_INVISIBLE}]")
"""A person approves only visible text: no control, direction or invisible characters."""

A = TypeVar("A", bound="Arguments")


class Arguments(BaseModel):
    """The arguments of a tool; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Name = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)]
Word = Annotated[str, Field(min_length=1, max_length=TEXT_LIMIT)]
OverlapWord = Literal["forbid", "queue", "replace", "allow"]


class Times(Arguments):
    """The times of a job: exactly one of `schedule`, `interval_seconds` and `at`."""

    schedule: str = Field(
        "",
        description="Cron: five fields, minute hour day-of-month month day-of-week, such as `0 9 * * mon-fri`. "
        "Read in `timezone`. Give exactly one of schedule, interval_seconds and at.",
    )
    interval_seconds: int = Field(
        0,
        ge=0,
        le=MAX_INTERVAL_SECONDS,
        description="Seconds from the end of a run to the next; the first comes after it too.",
    )
    at: str = Field(
        "",
        max_length=TEXT_LIMIT,
        description="One time, `2026-12-01T09:00` in `timezone`, or with an offset: `2026-12-01T09:00:00Z`.",
    )
    timezone: str = Field(
        "", max_length=TEXT_LIMIT, description="IANA zone such as Europe/Berlin; the project's own when absent."
    )


class ScheduleJob(Times):
    """A job: absent fields of a new one get their default, those of an existing one stay as they are."""

    name: str = Field(
        description="The job's name: letters, digits and . _ -, the first a letter or digit. "
        "The same name again changes the job."
    )
    task: str = Field(
        "",
        max_length=TASK_LIMIT,
        description="The complete task for the agent: the run knows nothing of this conversation. A new job needs it.",
    )
    enabled: bool = Field(default=True, description="Whether the job fires; false disables it.")
    run_once: bool = Field(default=False, description="Whether it ends after its first run.")
    timeout_seconds: int = Field(0, ge=0, le=86_400, description="How long a run may take; 0: the default.")
    overlap_policy: OverlapWord = Field(
        OverlapPolicy.FORBID.value,
        description="When it is due while it still runs: forbid skips, queue waits, replace stops the old run.",
    )
    provider: str = Field(
        "", max_length=TEXT_LIMIT, description="The agent: one of this project, or anthropic, openai, google."
    )
    model: str = Field("", max_length=TEXT_LIMIT, description="The model; the agent's own when absent.")
    session: Literal["new", "mine"] = Field(
        "new",
        description="Whether its first run begins a new session, or continues that of the calling run, "
        "which has ended by then; each later run continues the one before.",
    )
    labels: list[Word] = Field(default_factory=list, max_length=LABELS, description="Labels for search.")
    notify_telegram_chat_id: int = Field(
        0,
        ge=-(10**18),
        le=10**18,
        description="A Telegram chat that the project's bot notifies after each run; 0: none.",
    )


class PreviewSchedule(Times):
    """Times to preview; nothing is stored."""

    count: int = Field(5, ge=1, le=50, description="How many future starts to show.")


class ListJobs(Arguments):
    """Which jobs to list."""

    mine: bool = Field(default=False, description="Only your own jobs.")
    label: str = Field("", max_length=TEXT_LIMIT, description="Only jobs with this label.")
    limit: int = Field(20, ge=1, le=100, description="Maximum number, the newest first.")


class SearchJobs(Arguments):
    """The filter of a search; all fields must match."""

    query: str = Field("", max_length=TEXT_LIMIT, description="Words to find in name, task and labels; ignores case.")
    last_run_from: str = Field("", max_length=40, description="Last run at or after this UTC time: 2026-12-01T08:00Z.")
    last_run_to: str = Field("", max_length=40, description="Last run before or at this time in UTC.")
    next_run_from: str = Field("", max_length=40, description="Next run at or after this time in UTC.")
    next_run_to: str = Field("", max_length=40, description="Next run before or at this time in UTC.")
    order: Literal["name", "newest", "last_run", "next_run"] = Field(
        "name", description="By name, the newest job first, the latest last run first, or the soonest next run first."
    )
    limit: int = Field(20, ge=1, le=100, description="Maximum number.")


class NamedJob(Arguments):
    """One job, by its identifier or its exact name."""

    job_id: str = Field("", max_length=NAME_LIMIT, description="The job's identifier, from the other tools.")
    name: str = Field("", max_length=NAME_LIMIT, description="Or its exact name.")


class UnscheduleJob(NamedJob):
    """The job to stop."""

    delete: bool = Field(default=False, description="Remove it for good instead of disabling it; its history stays.")


class TriggerJob(NamedJob):
    """The job to start."""

    params: dict[str, Any] = Field(
        default_factory=dict,
        description="Values for the params that the job declares; `params` of the job is their JSON Schema.",
    )


class ExplainJob(Arguments):
    """The job or run to explain."""

    name: Name = Field(description="A job's exact name, or a run such as `digest:12`.")


class GetRun(Arguments):
    """Which run to get."""

    run: Name = Field(description="A run: its identifier, `digest:12`, or a job's name for its newest run.")
    output: bool = Field(default=True, description="Whether to return the end of its output too.")
    result: bool = Field(default=False, description="Whether to return its whole answer too, not only its summary.")


class Permission(Arguments):
    """A tool call of an agent program."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    tool_name: str = Field(min_length=1, max_length=200, description="The tool.")
    input: dict[str, Any] = Field(default_factory=dict, description="Its exact arguments.")


class LookAgain(Arguments):
    """When the job of the calling run runs next, and why."""

    after: int = Field(ge=1, le=MAX_INTERVAL_SECONDS, description="Seconds from the end of this run to the next one.")
    why: str = Field(min_length=1, max_length=500, description="The reason, for the people who read the schedule.")


class AskPerson(Arguments):
    """A question to a person."""

    question: str = Field(
        min_length=1,
        max_length=4000,
        description="The complete question: the person knows nothing of this conversation.",
    )
    choices: list[Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        default_factory=list, max_length=10, description="The possible answers, at least two; none: a free text."
    )
    timeout: int = Field(86_400, ge=60, le=30 * 86_400, description="Seconds to wait for the answer; default: one day.")
    default: str = Field("", max_length=4000, description="The answer if none comes in time; absent: no answer.")


def read(kind: type[A], values: Mapping[str, Any]) -> A:
    """Return the arguments of a call; raise ToolArguments with all problems. A null counts as absent."""
    fields = kind.model_fields.items()
    names = ", ".join(f"{name} (needed)" if field.is_required() else name for name, field in fields)
    if not isinstance(values, Mapping):
        raise ToolArguments("the arguments are not an object", hint=f"give {names}")
    try:
        return kind.model_validate({str(key): value for key, value in values.items() if value is not None})
    except ValidationError as error:
        problems = [_problem(kind, one) for one in error.errors(include_url=False, include_context=False)]
        raise ToolArguments("; ".join(problems), hint=f"arguments: {names}") from None


def _problem(kind: type[Arguments], error: Any) -> str:
    path = ".".join(str(part)[:TEXT_LIMIT] for part in error["loc"]) or "arguments"
    if error["type"] == "extra_forbidden":
        near = nearest(path, list(kind.model_fields))
        guess = f"; did you mean {near[0]!r}?" if near else ""
        return f"unknown argument {path!r}{guess}"
    if error["type"] == "missing":
        return f"{path} is required"
    return f"{path}: {error['msg'][:1].lower()}{error['msg'][1:]}, not {cut(repr(error['input']), 80)}"


def schema(kind: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, without titles and docstrings."""
    full = kind.model_json_schema()
    properties = {
        name: {key: value for key, value in field.items() if key != "title"}
        for name, field in full["properties"].items()
    }
    required = {"required": full["required"]} if full.get("required") else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def refuse_hiding(key: str, text: str) -> None:
    """Refuse a text with invisible characters."""
    if hidden := _HIDING.search(text):
        message = f"{key}: holds the invisible character U+{ord(hidden[0]):04X}"
        raise ToolArguments(message, hint="write plain text; line feeds and tabs are fine")


TIMES = ("schedule", "interval_seconds", "at")


def settings_of(spec: JobSpec) -> dict[str, Any]:
    """Return what `schedule_job` can set of a job, except its name and its task, as it would be given."""
    schedule, work = spec.schedule, spec.work
    agent = work.agent
    chats = [target.address for target in spec.notify_own if target.channel is Channel.TELEGRAM]
    chat = next((int(each) for each in chats if each.lstrip("-").isdecimal()), 0)
    return {
        "schedule": schedule.cron[0] if len(schedule.cron) == 1 else "",
        "interval_seconds": int(schedule.interval.total_seconds()) if schedule.interval else 0,
        "at": iso(schedule.at) if schedule.at else "",
        "timezone": schedule.timezone,
        "enabled": spec.enabled,
        "run_once": schedule.run_once,
        "timeout_seconds": int(work.timeout.total_seconds()) if work.timeout else 0,
        "overlap_policy": spec.overlap.policy.value,
        "provider": agent.agent if agent is not None else "",
        "model": (agent.model if agent is not None else None) or "",
        "session": "mine" if agent is not None and agent.session_of else "new",
        "labels": list(spec.labels),
        "notify_telegram_chat_id": chat,
    }


def over_stored(wanted: ScheduleJob, spec: JobSpec) -> ScheduleJob:
    """Return the arguments of a change: the given ones, over the settings and the task of the stored job.

    A disabled job is enabled unless the change says otherwise.
    """
    given = wanted.model_dump(include=wanted.model_fields_set)
    stored = settings_of(spec) | {"enabled": True}
    if any(given.get(name) for name in TIMES):
        stored |= dict.fromkeys(TIMES, "") | {"interval_seconds": 0}
    task = spec.work.agent.prompt if spec.work.agent is not None else ""
    return ScheduleJob(**{**stored, "task": task, **given})


ONE = "give exactly one of `schedule` (cron), `interval_seconds` and `at`"


def keys_of(wanted: Times) -> dict[str, Any]:
    """Return the schedule keys of a job; raise ToolArguments unless exactly one kind of time is set."""
    keys: dict[str, Any] = {}
    if wanted.schedule.strip():
        keys["cron"] = wanted.schedule.strip()
    if wanted.interval_seconds:
        keys |= {"interval": wanted.interval_seconds, "first_run": FirstRun.AFTER_INTERVAL.value}
    if wanted.at.strip():
        keys["at"] = wanted.at.strip()
    if len(keys) - ("first_run" in keys) != 1:
        raise ToolArguments("the schedule is ambiguous", hint=ONE)
    if wanted.schedule.strip().startswith("@reboot"):
        raise ToolArguments("schedule: a start at boot has no times", hint=ONE)
    return keys | ({"timezone": wanted.timezone} if wanted.timezone else {})


def schedule_of(wanted: Times, *, default_zone: str) -> Schedule:
    """Return the schedule of times that are only previewed."""
    keys = keys_of(wanted)
    timezone = zone(wanted.timezone or default_zone).key
    if "cron" in keys:
        return Schedule(cron=(check_cron(keys["cron"]),), timezone=timezone)
    if "interval" in keys:
        interval = timedelta(seconds=wanted.interval_seconds)
        return Schedule(interval=interval, timezone=timezone, first_run=FirstRun.AFTER_INTERVAL)
    try:
        at = localize(datetime.fromisoformat(keys["at"]), timezone)
    except ValueError:
        hint = "write 2026-12-01T09:00 or 2026-12-01T09:00:00Z"
        raise InvalidInstant(f"{keys['at']!r} is not a time", hint=hint) from None
    return Schedule(at=at, timezone=timezone)
