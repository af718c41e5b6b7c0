"""The tree of errors; each has a code and a hint. Faces map them to exit codes and HTTP statuses."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import ClassVar


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """Return a hint with the nearest of the known names, else `otherwise`.

    >>> did_you_mean("bakcup", ["backup", "report"], "list them")
    'did you mean "backup"?'
    """
    near = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f'did you mean "{near[0]}"?' if near else otherwise


_SHOWN_LIMIT = 80


def shown(value: object) -> str:
    """Return a value for a message: escaped, one line, and never longer than a reader wants."""
    if isinstance(value, int) and value.bit_length() > 4 * _SHOWN_LIMIT:
        return "a number of more than 90 digits"  # Python refuses to print numbers of more than 4,300
    text = repr(value)
    return text if len(text) <= _SHOWN_LIMIT else text[: _SHOWN_LIMIT - 1] + "…"


def guess(near: Sequence[str]) -> str:
    """Return the beginning of a hint: the nearest name, where there is one."""
    return f"did you mean {near[0]!r}? " if near else ""


KeyPath = tuple[str | int, ...]


def write_path(path: KeyPath) -> str:
    """Return `path` as messages show it.

    >>> write_path(("jobs", "backup", "conditions", 0))
    'jobs.backup.conditions[0]'
    """
    text = ""
    for part in path:
        if isinstance(part, str):
            key = part if len(part) <= _SHOWN_LIMIT else part[: _SHOWN_LIMIT - 1] + "…"
            text += f".{key}" if text else key
        else:
            text += f"[{part}]"
    return text


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a user's file: where, which key, what, and what to do."""

    message: str
    code: str
    file: str = ""
    line: int = 0
    column: int = 0
    at: KeyPath = ()
    hint: str = ""
    looks_at: tuple[str, ...] = ()
    """Keys whose own problems may cause this one, which is then not reported."""

    @property
    def path(self) -> str:
        """The key as messages show it."""
        return write_path(self.at)

    def as_dict(self) -> dict[str, str | int]:
        """Return the problem as JSON shows it."""
        return {name: getattr(self, name) for name in ("message", "code", "file", "line", "column", "path", "hint")}

    def below(self, *at: str | int) -> "Problem":
        """Return the problem of the value that has this one's value at `at`."""
        return replace(self, at=(*at, *self.at))

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        where = ": ".join(part for part in (place, self.path) if part)
        text = f"{where}: {self.message}" if where else self.message
        return f"{text}; {self.hint}" if self.hint else text


class RotaError(Exception):
    """Something that rota refuses or cannot do, told so that a person can act."""

    code: ClassVar[str] = "error"
    problems: "tuple[Problem, ...]" = ()
    """The places in files that it is about."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class ProjectMissing(RotaError):
    """There is no rota.yaml here or above."""

    code = "no_project"


class NotApplied(RotaError):
    """A project has no stored jobs yet."""

    code = "not_applied"

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"nothing of {folder} is applied yet",
            hint="`rota apply` stores the jobs of its rota.yaml; `rota serve` does so when it starts",
        )


class FileProblems(RotaError):
    """A rota.yaml has problems; `problems` lists them all, `effect` says what became of the rest."""

    code = "file_problems"

    def __init__(self, problems: Sequence[Problem], *, effect: str = "nothing was changed") -> None:
        count = len(problems)
        super().__init__(f"{count} problem{'s' * (count != 1)}")
        self.problems = tuple(problems)
        self.effect = effect


class JobProblems(FileProblems):
    """What Python code declares has problems; they read as those of a file, without places."""

    code = "job_problems"

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class FolderUntrusted(RotaError):
    """A command would run code of a project that the user has not trusted."""

    code = "folder_untrusted"

    def __init__(self, folder: str, code: Sequence[str], *, what: str = "the Python modules") -> None:
        super().__init__(
            f"{folder} is not trusted, and {what} {', '.join(code)} would run",
            hint="look at that code, then type `rota trust` in this folder",
        )


class EmptyApply(RotaError):
    """An apply would retire every job of the file."""

    code = "empty_apply"


class NameTaken(RotaError):
    """A job of another source has this name."""

    code = "name_taken"


class JobInFile(RotaError):
    """A job is changed in the file that declares it, else the next apply would undo the change."""

    code = "job_in_file"

    def __init__(self, name: str, place: Problem, *, hint: str) -> None:
        line = f":{place.line}" if place.line else ""
        super().__init__(f"job {name!r} is declared in {place.file}{line}", hint=hint)
        self.problems = (place,)


class UnknownJob(RotaError):
    """No job has this name."""

    code = "unknown_job"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no job is named {name!r}", hint=f"{guess(near)}list them with `rota list`")
        self.name = name
        self.near = tuple(near)


class JobDisabled(RotaError):
    """A disabled or retired job does not start."""

    code = "job_disabled"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"job {name!r} is {why}", hint="set `enabled: true` in its definition and apply it")


class FunctionMissing(RotaError):
    """A Python function that a job names cannot be found."""

    code = "function_missing"


class SchedulerError(RotaError):
    """A scheduler inside somebody's process cannot do what it was asked to."""

    code = "scheduler_error"


class IntervalParseError(SchedulerError):
    """A text is no interval; `interval` is that text."""

    code = "interval_format"

    def __init__(self, interval: object, problem: str = "is no interval") -> None:
        super().__init__(f"{shown(interval)} {problem}", hint="write one whole number and one unit: 30s, 5m, 1h, 1d")
        self.interval = interval


class ScheduleTriggerError(SchedulerError):
    """A job could not be triggered since its run could not be stored; `job` and `schedule` are what was asked for."""

    code = "trigger_failed"

    def __init__(self, job: str, why: str, *, schedule: str | None = None) -> None:
        super().__init__(f"{job} was not triggered: {why}", hint="nothing was started; try again")
        self.job = job
        self.schedule = schedule


class SchedulerShutdownError(SchedulerError):
    """A scheduler has stopped, or had to end runs to do so (`timed_out`)."""

    code = "scheduler_shutdown"

    def __init__(self, what: str, *, timed_out: bool = False) -> None:
        more_time = "they are recorded as FAILED shutdown and retried by policy; give `stop` a longer `timeout`"
        super().__init__(what, hint=more_time if timed_out else "start it again, then ask once more")
        self.timed_out = timed_out


class InvalidValue(RotaError):
    """A value that a user wrote cannot be used."""

    code = "invalid_value"


class OptionLike(InvalidValue):
    """A param that somebody gives would be read as an option of the job's program."""

    code = "arg_option_like"

    def __init__(self, job: str, param: str, value: str) -> None:
        super().__init__(
            f"{value[:80]!r} as param {param!r} of job {job!r} would be an option of its program",
            hint=f"the job may put `--` before `{{{{ params.{param} }}}}`, or write `--name={{{{ params.{param} }}}}`",
        )


class InvalidDuration(InvalidValue):
    """A text is no duration."""

    code = "duration_format"

    def __init__(self, text: object, problem: str) -> None:
        super().__init__(
            f"{shown(text)} {problem}",
            hint="write one whole number and one unit: 30s, 5m, 1h, 1d, or whole seconds",
        )
        self.problem = problem


class InvalidCron(InvalidValue):
    """A cron expression is wrong, ambiguous, or never fires."""

    code = "cron"


class CronFields(InvalidCron):
    """A cron expression does not have five fields."""

    code = "cron_fields"


class CronCharacters(InvalidCron):
    """A cron expression is too long or holds characters that no field can have."""

    code = "cron_charset"


class CronRange(InvalidCron):
    """A value of a cron field is outside its range, or a range runs backwards."""

    code = "cron_range"


class CronStep(InvalidCron):
    """A step of a cron field is zero or larger than the field."""

    code = "cron_step"


class CronNeverFires(InvalidCron):
    """A cron expression names only days that do not exist."""

    code = "cron_never_fires"


class InvalidTimezone(InvalidValue):
    """A time zone is not known by name."""

    code = "timezone"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(
            f"no time zone is named {name!r}", hint=f"{guess(near)}use an IANA name such as Europe/Paris, or UTC"
        )


class InvalidInstant(InvalidValue):
    """A point in time does not exist, exists twice, or cannot be read."""

    code = "instant"


class InvalidWindow(InvalidValue):
    """A text is no window of quiet hours (R-17)."""

    code = "quiet_window"

    def __init__(self, text: object, problem: str, *, hint: str = "") -> None:
        example = 'write "00:00-07:00", "mon-fri 09:00-19:00" or "sat,sun 22:00-07:00"'
        super().__init__(f"{shown(text)} {problem}", hint=hint or example)


class PolicyRefused(RotaError):
    """`agent_policy` does not let a maker have this job; `rule` says which part of it."""

    code = "policy_refused"

    def __init__(self, message: str, *, rule: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.rule = rule


class AgentRefused(RotaError):
    """A command inside the run of an agent changes what agents may not change."""

    code = "agent_refused"

    def __init__(self, what: str, maker: str) -> None:
        super().__init__(
            f"{what} is not for agents, and this is the run {maker}",
            hint="read with `rota list` or `rota explain`, start with `rota trigger`, make jobs with rota's tools",
        )


class RunUnknown(AgentRefused):
    """ROTA_RUN_ID names no live run or direct call of this state: a command there has no rights at all."""

    code = "run_unknown"

    def __init__(self, run_id: str, what: str = "", where: str = "") -> None:
        RotaError.__init__(
            self,
            f"ROTA_RUN_ID is {shown(run_id)}, which is no live run or direct call of {where or 'this project'}, "
            f"so {what or 'this'} is refused",
            hint="a run acts only in its own project and only while it is live; run this in a shell of your own",
        )


class ToolsRefused(AgentRefused):
    """The run of an agent uses rota's tools, and its job does not give it any."""

    code = "tools_refused"

    def __init__(self, run: str) -> None:
        RotaError.__init__(
            self,
            f"the run {run} has no rota tools: its job does not set `rota_tools: true`",
            hint="read with `rota list` or `rota explain`, start with `rota trigger`",
        )


class NotYours(RotaError):
    """A maker may change only the jobs that it made itself."""

    code = "not_yours"

    def __init__(self, name: str, whose: str) -> None:
        super().__init__(
            f"job {name!r} {whose}, and the tools change only what you made",
            hint="choose another name, or ask the owner to change it",
        )


class DuplicateJob(RotaError):
    """A job with the same task at the same times is there under another name."""

    code = "duplicate_job"

    def __init__(self, name: str, other: str) -> None:
        super().__init__(
            f"{name!r} was not made: job {other!r} has the same task and schedule",
            hint=f"use {other!r}, or give this one another task or schedule",
        )
        self.other = other


class ToolArguments(InvalidValue):
    """A tool was called with arguments that it does not have or cannot use."""

    code = "tool_arguments"


class UnknownTool(RotaError):
    """There is no tool of this name."""

    code = "unknown_tool"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no tool {shown(name)}", hint=f"the tools are {', '.join(known)}")


class JobProvisional(JobDisabled):
    """A job that an agent proposed does not start before a person has approved it (R-29)."""

    code = "job_provisional"

    def __init__(self, name: str) -> None:
        super().__init__(name, "provisional: nobody has approved it yet")
        self.hint = f"look at it and allow it with `rota approve {name}`"


class NotProvisional(RotaError):
    """A job that does not wait for approval cannot be approved."""

    code = "not_provisional"

    def __init__(self, name: str) -> None:
        super().__init__(f"job {name!r} does not wait for approval", hint="list what does with `rota approve`")


class ApprovalVoid(RotaError):
    """A job was changed after it was looked at, so that the approval is for something else."""

    code = "approval_void"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"job {name!r} was changed since it was shown, and was not approved",
            hint=f"look at it again with `rota approve {name}`",
        )


class SpawnFailed(RotaError):
    """A process could not be started."""

    code = "spawn_failed"


class WorkspaceFailed(SpawnFailed):
    """The folder that an agent is to work in could not be made."""

    code = "workspace_failed"


class SpawnerLost(SpawnFailed):
    """The spawner process ended before it answered."""

    code = "spawner_lost"


class SecretMissing(RotaError):
    """A secret that a job refers to is in none of the places."""

    code = "secret_missing"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"secret {name!r} is in none of $CREDENTIALS_DIRECTORY, the scheduler's environment, secrets.env",
            hint=f"set it in one of them, for example with `rota secrets set {name}`, and try again",
        )


class SourceError(RotaError):
    """A work source could not be asked, or told.

    `status` is what its server answered, `again_after` how many seconds that wants to be left alone.
    """

    code = "source_error"

    def __init__(
        self, message: str, *, hint: str = "", status: int | None = None, again_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.again_after = again_after


class AddressRefused(RotaError):
    """An address that rota does not connect to: it is private, or not as it must be written."""

    code = "address_refused"


class AddressUnknown(RotaError):
    """A name that has no address at this moment."""

    code = "address_unknown"

    def __init__(self, name: str, why: str = "it has no address") -> None:
        super().__init__(f"{shown(name)} cannot be resolved: {why}", hint="look at the name, and at the network")


class UnknownTarget(RotaError):
    """No target of notifications has this name."""

    code = "unknown_target"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no target is named {shown(name)}", hint=f"{guess(near)}list them with `rota notify`")


class UnknownDelivery(RotaError):
    """No delivery, or more than one, is named so."""

    code = "unknown_delivery"

    def __init__(self, name: str, *, several: bool = False) -> None:
        what = "more than one delivery ends with" if several else "no delivery is named"
        super().__init__(f"{what} {shown(name)}", hint="list them with `rota deliveries`")


class IllegalTransition(RotaError):
    """A run was asked to do what its status does not allow."""

    code = "illegal_transition"

    def __init__(self, status: str, event: str, allowed: Sequence[str]) -> None:
        options = ", ".join(allowed) or "nothing, it is final"
        super().__init__(f"a run that is {status} cannot {event}", hint=f"possible: {options}")


class UnknownRun(RotaError):
    """No run has this handle."""

    code = "unknown_run"

    def __init__(self, handle: str, why: str = "") -> None:
        because = f": {why}" if why else ""
        super().__init__(f"there is no run {handle!r}{because}", hint="list them with `rota history`")


class RunIsFinal(RotaError):
    """A finished run never changes."""

    code = "run_final"

    def __init__(self, handle: str, status: str) -> None:
        super().__init__(
            f"{handle} is {status} already", hint="a finished run never changes; `rota run` starts a new one"
        )


class RunUnfinished(RotaError):
    """A run that is not final cannot be run again; nor one whose retry is not."""

    code = "run_unfinished"

    def __init__(self, handle: str, status: str, *, retry_of: str | None = None) -> None:
        retries = f", it retries {retry_of}" if retry_of else ""
        super().__init__(
            f"{handle} is not finished: it is {status}{retries}",
            hint=f"wait for it, or stop it with `rota cancel {handle}` and try again",
        )


class RunCompleted(RotaError):
    """A run that completed is run again only if that is meant."""

    code = "run_completed"

    def __init__(self, handle: str) -> None:
        super().__init__(f"{handle} is COMPLETED", hint=f"to do its work once more: `rota retry {handle} --again`")


class NotQueued(RotaError):
    """Only a queued run has a place in the queue."""

    code = "not_queued"

    def __init__(self, handle: str, status: str) -> None:
        super().__init__(
            f"{handle} is {status}, only a queued run has a place in the queue", hint="`rota queue` shows what waits"
        )


class Immutable(RotaError):
    """The params of a run are frozen from its first dispatch on (INV-001)."""

    code = "immutable"

    def __init__(self, handle: str, status: str) -> None:
        super().__init__(
            f"cannot modify params after dispatch: {handle} is {status}",
            hint=f"start a new run with other params: `rota run {handle.rpartition(':')[0]} --param NAME=VALUE`",
        )


class OtherPriority(RotaError):
    """A run cannot be moved before one of another priority (INV-004)."""

    code = "other_priority"

    def __init__(self, handle: str, other: str, *, priority: int, wanted: int) -> None:
        super().__init__(
            f"{handle} has the priority {priority} and cannot stand before {other}, which has {wanted}",
            hint=f"give it that priority first: `rota edit {handle} --priority {wanted}`",
        )


class AgingOrders(RotaError):
    """Runs have no place to be moved to while age and priority make the order (R-03)."""

    code = "aging_orders"

    def __init__(self, aging: str) -> None:
        super().__init__(
            f"runs cannot be moved while `scheduler.aging: {aging}` makes the order of the queue",
            hint="`rota edit RUN --priority N` changes how soon a run comes, or remove `scheduler.aging` and apply",
        )


class OverlapRefused(RotaError):
    """A manual start was refused because the job is active (R-11)."""

    code = "overlap"

    def __init__(self, name: str, blocking: str, policy: str) -> None:
        super().__init__(
            f"{name} was not started: {blocking} is not finished and the job says `overlap: {policy}`",
            hint=f"wait for it, stop it with `rota cancel {blocking}`, or pass overlap with --force",
        )
        self.blocking = blocking


class SetRefused(RotaError):
    """Many runs at once were refused: overlap leaves no room for all of them (R-11)."""

    code = "overlap_set"

    def __init__(self, name: str, count: int, *, room: int, policy: str) -> None:
        super().__init__(
            f"no run of {name} was created, of {count:,}: `overlap: {policy}` leaves room for {room}",
            hint="set `overlap: allow`, or `overlap: queue` with a larger `queue_depth`, or pass --force",
        )


class NoSlot(RotaError):
    """A direct caller got no slot within the time that it wanted to wait."""

    code = "no_slot"

    def __init__(self, name: str, waited: str) -> None:
        super().__init__(
            f"no slot for {name!r} became free within {waited}",
            hint="`rota status` shows who has the slots; raise `scheduler.concurrency`, or wait longer",
        )


class UnknownGroup(RotaError):
    """No group has this handle, or it has not begun."""

    code = "unknown_group"

    def __init__(self, handle: str, why: str = "", near: Sequence[str] = (), *, hint: str = "") -> None:
        because = f": {why}" if why else ""
        hint = hint or f"{guess(near)}list them with `rota groups`"
        super().__init__(f"there is no group {handle!r}{because}", hint=hint)


class GroupIsFinal(RotaError):
    """A final group never changes (INV-006)."""

    code = "group_final"

    def __init__(self, handle: str, status: str) -> None:
        super().__init__(
            f"{handle} is {status} already",
            hint=f"a final group never changes; `rota groups retry {handle}` makes a new one of what failed",
        )


class GroupCompleted(RotaError):
    """A group of which no member failed has nothing to repeat."""

    code = "group_completed"

    def __init__(self, handle: str, status: str, name: str) -> None:
        super().__init__(
            f"{handle} is {status}: none of its members failed",
            hint=f"start it again as a whole with `rota run {name}`",
        )


class GroupUnfinished(RotaError):
    """A group can be repeated only when all of its members are final (INV-006)."""

    code = "group_unfinished"

    def __init__(self, handle: str) -> None:
        super().__init__(
            f"{handle} is not finished", hint=f"wait for it, or cancel it with `rota groups cancel {handle}`"
        )


class NothingNeeds(RotaError):
    """Only what needs somebody can be acknowledged."""

    code = "nothing_needs"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"nothing about {name!r} needs attention", hint=f"{guess(near)}list what does with `rota ack`")


class AlreadyServing(RotaError):
    """Another scheduler serves this project."""

    code = "already_serving"

    def __init__(self, pid: int | None, state: str) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{who} serves {state} already", hint="stop it with `rota stop`, or use its commands: `rota status`"
        )
        self.pid = pid


class ProjectServed(RotaError):
    """An included project has a scheduler of its own, so that its jobs would fire twice."""

    code = "project_served"

    def __init__(self, file: str, folder: str, *, pid: int | None) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{file} is included here, but {who} serves it already: its jobs would fire twice",
            hint=f"stop that one with `rota --dir {folder} stop`, or leave the folder out of `include`",
        )


class ProjectIncluded(RotaError):
    """A project that another one includes has no scheduler of its own."""

    code = "project_included"

    def __init__(self, folder: str, host: str, *, verb: str) -> None:
        super().__init__(
            f"{folder} is included by {host}/rota.yaml, whose scheduler runs its jobs",
            hint=f"`rota --dir {host} {verb}` does that for all projects; or take this one out of `include`",
        )


class NoScheduler(RotaError):
    """A scheduler is needed and none is running."""

    code = "no_scheduler"

    def __init__(self, state: str) -> None:
        super().__init__(f"no scheduler is running on {state}", hint="start one with `rota serve`")


class CallerDismissed(NoScheduler):
    """The scheduler stopped while a direct caller waited, or before its call could be carried to the end."""

    code = "caller_dismissed"

    def __init__(self, name: str, what: str = "stopped before it began") -> None:
        hint = "start one with `rota serve` and call again"
        RotaError.__init__(self, f"the direct call of {name!r}: the scheduler {what}", hint=hint)


class NoHttp(NoScheduler):
    """The scheduler that is running does not serve HTTP, or none is running."""

    code = "no_http"

    def __init__(self, state: str, why: str = "no scheduler is running") -> None:
        hint = "start one with `rota serve`, without --no-http"
        RotaError.__init__(self, f"there is no HTTP API of {state}: {why}", hint=hint)


class ListenRefused(RotaError):
    """The address that HTTP is to listen on cannot be used."""

    code = "listen_refused"


class ListenExposed(RotaError):
    """HTTP would be reachable from other machines without that being asked for, or without encryption."""

    code = "listen_exposed"


class TokenUnusable(RotaError):
    """The file of the token is empty, too short, or open to others."""

    code = "token_unusable"


class UnknownWorker(RotaError):
    """No worker has this name."""

    code = "unknown_worker"

    def __init__(self, name: str) -> None:
        super().__init__(f"no worker is named {name!r}", hint="`rota workers` and GET /api/v1/workers list them")


class WorkerNameTaken(RotaError):
    """Another folder, here or on another machine, is the worker of this name."""

    code = "worker_name_taken"

    def __init__(self, name: str, *, host: str, state: str) -> None:
        where = f"{host}:{state}" if state else host
        super().__init__(
            f"the worker {name!r} is {where}",
            hint=f"choose another --name, or `rota workers forget {name}` if that one is gone for good",
        )


class WorkerAlive(RotaError):
    """A worker that is at work cannot be forgotten."""

    code = "worker_alive"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the worker {name!r} is alive",
            hint=f"stop it there first (`rota stop`), or let it finish what it has: `rota workers drain {name}`; "
            "one that was killed counts for up to 30 s more",
        )


class ServiceUnavailable(RotaError):
    """The service manager is not there, or refused."""

    code = "service_unavailable"


class UnknownAgent(RotaError):
    """No agent has this name: neither the file nor a job names it."""

    code = "unknown_agent"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no agent is named {name!r}", hint=f"{guess(near)}list them with `rota agents`")


class UnknownAdapter(RotaError):
    """No adapter has this name."""

    code = "unknown_adapter"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        hint = f"{guess(near)}an agent that rota does not know is `custom`"
        super().__init__(f"no adapter is named {name!r}", hint=hint)


class ProviderNotHeld(RotaError):
    """The provider is not held, so there is nothing to let go."""

    code = "provider_not_held"

    def __init__(self, name: str, held: Sequence[str] = ()) -> None:
        others = f"held: {', '.join(held)}" if held else "no provider is held"
        super().__init__(f"provider {name!r} is not held", hint=others)


class UnknownAccount(RotaError):
    """No account of budgets has this name."""

    code = "unknown_account"

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no account is named {name!r}", hint=f"{guess(near)}list them with `rota budgets`")


class BudgetExceeded(RotaError):
    """An account has no room for what was about to be spent (R-19)."""

    code = "budget_exceeded"

    def __init__(self, account: str, why: str, *, reopens: str) -> None:
        hint = f"it opens again {reopens}; `rota budgets {account}` shows who used it"
        super().__init__(f"{account} {why}", hint=hint)
        self.account = account


NAMED = 3
"""How many processes a message names; the others are counted."""


class StateError(RotaError):
    """The state folder or database cannot be used as it is."""

    code = "state"


class DatabaseForeign(StateError):
    """The database file was not made by rota."""

    code = "database_foreign"


class DatabaseNewer(StateError):
    """The database was made by a newer rota."""

    code = "database_newer"


class UpgradeBlocked(StateError):
    """The database has to be upgraded, but processes of an older rota are at work on it."""

    code = "upgrade_blocked"

    def __init__(self, place: str, who: Sequence[str], *, schema: int, wanted: int, hint: str) -> None:
        more = f" and {len(who) - NAMED} more" if len(who) > NAMED else ""
        told = f"{', '.join(who[:NAMED])}{more}"
        form = f"is of schema {schema} and has to be upgraded to {wanted} for this rota"
        super().__init__(f"the database {place} {form}, but is in use by {told}", hint=hint)


class DatabaseCorrupt(StateError):
    """The database file is damaged."""

    code = "database_corrupt"


class DatabaseReadOnly(StateError):
    """The database or its folder cannot be written."""

    code = "database_read_only"


class StorageFull(StateError):
    """The disk is full."""

    code = "storage_full"


class DatabaseBusy(StateError):
    """Another process holds the database for too long."""

    code = "database_busy"


class DatabaseGone(StateError):
    """The server of the database cannot be reached."""

    code = "database_gone"


class InvariantRefused(RotaError):
    """The database itself refused a change that would break an invariant."""

    code = "invariant"

    def __init__(self, rule: str, meaning: str) -> None:
        super().__init__(
            f"the database refused a change ({rule}): {meaning}", hint="nothing was changed; look with `rota show`"
        )
        self.rule = rule


class MoveUnfinished(StateError):
    """A move into this database was begun and not finished."""

    code = "move_unfinished"

    def __init__(self, place: str) -> None:
        hint = "run the same `rota migrate` again: it goes on where it was"
        super().__init__(f"a move into {place} was begun and is not finished", hint=hint)


class MoveRefused(RotaError):
    """One database cannot be moved into another one as they are."""

    code = "move_refused"


class MoveDiffers(StateError):
    """After a move the rows of the two databases are not the same."""

    code = "move_differs"


class StoreShared(RotaError):
    """The command is about rota's own database file, and the state is in PostgreSQL."""

    code = "store_shared"

    def __init__(self, place: str, what: str, *, tool: str) -> None:
        super().__init__(
            f"the state is in {place}, which {what}",
            hint=f"use {tool}; docs/postgresql.md has the commands",
        )


class StoreNotShared(RotaError):
    """Many machines need a database that they share."""

    code = "store_not_shared"


class BackupUnusable(RotaError):
    """A file is no backup of rota, or not whole."""

    code = "backup_unusable"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} cannot be restored: {why}", hint="nothing was changed; take another backup")


class StateExists(RotaError):
    """A restore would replace a state that is there."""

    code = "state_exists"

    def __init__(self, state: str) -> None:
        super().__init__(
            f"there is a state in {state} already",
            hint="nothing was changed; --force moves it aside, or restore into another folder with --dir",
        )


class FileExists(RotaError):
    """A file that would be written is there already."""

    code = "file_exists"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is there already", hint="nothing was written; move it away, or use another folder")


class OutputUnwritable(RotaError):
    """What a command has to say cannot be written."""

    code = "output_unwritable"

    def __init__(self, why: str) -> None:
        super().__init__(f"the output cannot be written: {why}", hint="make room there, or write it elsewhere")
