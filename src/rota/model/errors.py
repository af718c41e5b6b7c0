"""The tree of errors; each has a code and a hint. The CLI and the HTTP API map them to exit codes and statuses."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """Return a hint with the nearest of the known names, else `otherwise`.

    >>> did_you_mean("bakcup", ["backup", "report"], "list them")
    'did you mean "backup"?'
    """
    near = nearest(name, known, cutoff=cutoff)
    return f'did you mean "{near[0]}"?' if near else otherwise


def nearest(name: str, known: Iterable[str], *, n: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the names that resemble this one most."""
    from difflib import get_close_matches

    return get_close_matches(name, list(known), n, cutoff)


_SHOWN_LIMIT = 80


def shown(value: object) -> str:
    """Return a value for a message: escaped, on one line, and cut to 80 characters."""
    if isinstance(value, int) and value.bit_length() > 4 * _SHOWN_LIMIT:
        return "a number of more than 90 digits"  # Python refuses to print numbers of more than 4,300
    text = repr(value)
    return text if len(text) <= _SHOWN_LIMIT else text[: _SHOWN_LIMIT - 1] + "…"


def is_utf8(text: str) -> bool:
    """Return whether a text has an encoding: a file name or an argument may be bytes that have none.

    >>> is_utf8("grün"), is_utf8(b"gr\\xfcn".decode("utf-8", "surrogateescape"))
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def guess(near: Sequence[str]) -> str:
    """Return the start of a hint with the nearest name, empty without one."""
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


class Problem(Struct, frozen=True):
    """A problem in a user's file: its place, key and message, and a hint."""

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
    """The base of all errors of rota. A subclass names its code: `class UnknownJob(RotaError, code="unknown_job")`."""

    code: ClassVar[str] = "error"
    problems: "tuple[Problem, ...]" = ()
    """The places in files that cause the error."""

    def __init_subclass__(cls, *, code: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if code:
            cls.code = code

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class ProjectMissing(RotaError, code="no_project"):
    """Neither this folder nor a parent has a rota.yaml."""


class NotApplied(RotaError, code="not_applied"):
    """A project has no stored jobs yet."""

    def __init__(self, folder: str) -> None:
        hint = "`rota apply` stores the jobs of its rota.yaml; `rota serve` does so at start"
        super().__init__(f"no jobs of {folder} are applied yet", hint=hint)


class FileProblems(RotaError, code="file_problems"):
    """A rota.yaml has problems; `problems` lists all of them, `effect` says what happened to the rest."""

    def __init__(self, problems: Sequence[Problem], *, effect: str = "nothing was changed") -> None:
        count = len(problems)
        super().__init__(f"{count} problem{'s' * (count != 1)}")
        self.problems = tuple(problems)
        self.effect = effect
        self.folder = ""
        """The project's folder, where its source may be shown."""


class JobProblems(FileProblems, code="job_problems"):
    """Jobs declared in Python have problems. The messages are those of a file, without places."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class FolderUntrusted(RotaError, code="folder_untrusted"):
    """A command would run code of a project that the user has not trusted."""

    def __init__(self, folder: str, code: Sequence[str], *, what: str = "the Python modules") -> None:
        hint = "read that code, then run `rota trust` in this folder"
        super().__init__(f"{folder} is not trusted, and {what} {', '.join(code)} would run", hint=hint)


class EmptyApply(RotaError, code="empty_apply"):
    """An apply would retire every job of the file."""


class NameTaken(RotaError, code="name_taken"):
    """A job of another source has this name."""


class JobInFile(RotaError, code="job_in_file"):
    """A job of a file must be changed in that file, or the next apply would undo the change."""

    def __init__(self, name: str, place: Problem, *, hint: str) -> None:
        line = f":{place.line}" if place.line else ""
        super().__init__(f"job {name!r} is declared in {place.file}{line}", hint=hint)
        self.problems = (place,)


class UnknownJob(RotaError, code="unknown_job"):
    """No job has this name."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no job is named {name!r}", hint=f"{guess(near)}list them with `rota list`")
        self.name = name
        self.near = tuple(near)


class JobDisabled(RotaError, code="job_disabled"):
    """A disabled or retired job does not start."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"job {name!r} is {why}", hint="set `enabled: true` in its definition and apply it")


class FunctionMissing(RotaError, code="function_missing"):
    """The Python function of a job does not exist."""


class SchedulerError(RotaError, code="scheduler_error"):
    """An embedded scheduler cannot do what the program asks."""


class IntervalParseError(SchedulerError, code="interval_format"):
    """A text is not an interval; `interval` is that text."""

    def __init__(self, interval: object, problem: str = "is not an interval") -> None:
        super().__init__(f"{shown(interval)} {problem}", hint="write a whole number and a unit: 30s, 5m, 1h, 1d")
        self.interval = interval


class ScheduleTriggerError(SchedulerError, code="trigger_failed"):
    """The run of a triggered job could not be stored; `job` and `schedule` name the trigger."""

    def __init__(self, job: str, why: str, *, schedule: str | None = None) -> None:
        super().__init__(f"{job} was not triggered: {why}", hint="nothing was started; try again")
        self.job = job
        self.schedule = schedule


class SchedulerShutdownError(SchedulerError, code="scheduler_shutdown"):
    """A scheduler has stopped, or killed runs to stop in time (`timed_out`)."""

    def __init__(self, what: str, *, timed_out: bool = False) -> None:
        more_time = "they are recorded as FAILED shutdown and retried by policy; give `stop` a longer `timeout`"
        super().__init__(what, hint=more_time if timed_out else "start it again, then ask once more")
        self.timed_out = timed_out


class InvalidValue(RotaError, code="invalid_value"):
    """A value that a user wrote cannot be used."""


class InvalidParams(InvalidValue, code="invalid_params"):
    """Params of a start are not of the kinds that the job declares, or one without a default is missing."""

    def __init__(self, job: str, problems: Sequence[Problem]) -> None:
        first, *others = problems
        more = f", and {len(others)} more" if others else ""
        super().__init__(f"job {job!r}, param {str(first.at[-1])!r}: {first.message}{more}", hint=first.hint)
        self.job = job
        self.problems = tuple(problems)


class OptionLike(InvalidValue, code="arg_option_like"):
    """The program of a job would read the value of a param as an option."""

    def __init__(self, job: str, param: str, value: str) -> None:
        super().__init__(
            f"{value[:80]!r} as param {param!r} of job {job!r} would be read as an option by its program",
            hint=f"put `--` in the job before `{{{{ params.{param} }}}}`, or write `--name={{{{ params.{param} }}}}`",
        )


class InvalidDuration(InvalidValue, code="duration_format"):
    """A text is not a duration."""

    def __init__(self, text: object, problem: str, *, instead: str = "") -> None:
        form = "a whole number and a unit: 30s, 5m, 1h, 1d, or whole seconds"
        super().__init__(f"{shown(text)} {problem}", hint=f"write {f'{instead}: ' if instead else ''}{form}")
        self.problem = problem


class InvalidCron(InvalidValue, code="cron"):
    """A cron expression is wrong, ambiguous, or never fires."""


class CronFields(InvalidCron, code="cron_fields"):
    """A cron expression does not have five fields."""


class CronCharacters(InvalidCron, code="cron_charset"):
    """A cron expression is too long or has invalid characters."""


class CronRange(InvalidCron, code="cron_range"):
    """A cron field has a value outside its range, or a reversed range."""


class CronStep(InvalidCron, code="cron_step"):
    """A cron step is zero or larger than its field."""


class CronNeverFires(InvalidCron, code="cron_never_fires"):
    """A cron expression has only days that do not exist."""


class InvalidTimezone(InvalidValue, code="timezone"):
    """A time zone name is unknown."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        hint = f"{guess(near)}use an IANA name such as Europe/Paris, or UTC"
        super().__init__(f"no time zone is named {name!r}", hint=hint)


class InvalidInstant(InvalidValue, code="instant"):
    """An instant does not exist, is ambiguous, or cannot be parsed."""


class InvalidWindow(InvalidValue, code="quiet_window"):
    """A text is not a window of quiet hours."""

    def __init__(self, text: object, problem: str, *, hint: str = "") -> None:
        example = 'write "00:00-07:00", "mon-fri 09:00-19:00" or "sat,sun 22:00-07:00"'
        super().__init__(f"{shown(text)} {problem}", hint=hint or example)


class PolicyRefused(RotaError, code="policy_refused"):
    """`agent_policy` forbids this job to its author; `rule` names the violated limit."""

    def __init__(self, message: str, *, rule: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.rule = rule


class AgentRefused(RotaError, code="agent_refused"):
    """A command in an agent's run attempts a change that agents may not make."""

    def __init__(self, what: str, maker: str) -> None:
        hint = "read with `rota list` or `rota explain`, start with `rota trigger`, create jobs with rota's tools"
        super().__init__(f"{what} is not allowed for agents, and this is the run {maker}", hint=hint)


class RunUnknown(AgentRefused, code="run_unknown"):
    """ROTA_RUN_ID names no live run or direct call of this state, so the command has no rights."""

    def __init__(self, run_id: str, what: str = "", where: str = "") -> None:
        RotaError.__init__(
            self,
            f"ROTA_RUN_ID is {shown(run_id)}, which is not a live run or direct call of {where or 'this project'}, "
            f"so {what or 'this'} is refused",
            hint="a run acts only in its own project and only while it is live; run this in a shell of your own",
        )


class ToolsRefused(AgentRefused, code="tools_refused"):
    """An agent's run uses rota's tools without `rota_tools` in its job."""

    def __init__(self, run: str) -> None:
        hint = "read with `rota list` or `rota explain`, start with `rota trigger`"
        RotaError.__init__(self, f"the run {run} has no rota tools: its job does not set `rota_tools: true`", hint=hint)


class NotYours(RotaError, code="not_yours"):
    """An author may change only its own jobs."""

    def __init__(self, name: str, whose: str) -> None:
        hint = "choose another name, or ask the owner to change it"
        super().__init__(f"job {name!r} {whose}, and the tools change only your own jobs", hint=hint)


class DuplicateJob(RotaError, code="duplicate_job"):
    """Another job has the same task and schedule."""

    def __init__(self, name: str, other: str) -> None:
        hint = f"use {other!r}, or give this one another task or schedule"
        super().__init__(f"{name!r} was not created: job {other!r} has the same task and schedule", hint=hint)
        self.other = other


class ToolArguments(InvalidValue, code="tool_arguments"):
    """A tool call has unknown or invalid arguments."""


class UnknownTool(RotaError, code="unknown_tool"):
    """No tool has this name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"unknown tool {shown(name)}", hint=f"the tools are {', '.join(known)}")


class JobProvisional(JobDisabled, code="job_provisional"):
    """A proposed job does not start before a person approves it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "provisional: not approved yet")
        self.hint = f"read it and approve it with `rota approve {name}`"


class NotProvisional(RotaError, code="not_provisional"):
    """Only a proposed job can be approved."""

    def __init__(self, name: str) -> None:
        super().__init__(f"job {name!r} does not wait for approval", hint="`rota approve` lists the jobs that do")


class ApprovalVoid(RotaError, code="approval_void"):
    """A job changed after it was shown, so the approval is for another definition."""

    def __init__(self, name: str) -> None:
        hint = f"read it again with `rota approve {name}`"
        super().__init__(f"job {name!r} changed since it was shown, and was not approved", hint=hint)


class UnknownQuestion(RotaError, code="unknown_question"):
    """No question has this number."""

    def __init__(self, number: object) -> None:
        super().__init__(f"there is no question {shown(number)}", hint="list them with `rota questions`")


class UnknownGrant(RotaError, code="unknown_grant"):
    """No standing grant has this number."""

    def __init__(self, number: object) -> None:
        super().__init__(f"there is no grant {shown(number)}", hint="list them with `rota grants`")


class UnknownToken(RotaError, code="unknown_token"):
    """No token that is not revoked has this name."""

    def __init__(self, name: object, near: Sequence[str] = ()) -> None:
        super().__init__(f"there is no token {shown(name)}", hint=f"{guess(near)}list them with `rota token list`")


class QuestionClosed(RotaError, code="question_closed"):
    """The question is answered, expired or withdrawn; its first end counts."""

    def __init__(self, number: int, state: str) -> None:
        super().__init__(f"question {number} is {state}", hint=f"read it with `rota questions show {number}`")


class QuestionChanged(RotaError, code="question_changed"):
    """The subject of the question changed since the actor saw it."""

    def __init__(self, number: int) -> None:
        hint = "read the present questions with `rota questions`"
        super().__init__(f"question {number}: it changed since you were asked, and nothing was done", hint=hint)


class AnswerRefused(RotaError, code="answer_refused"):
    """This actor may not answer the question."""

    def __init__(self, number: int, actor: str) -> None:
        hint = f"`rota questions show {number}` lists the actors that may"
        super().__init__(f"{actor} may not answer question {number}", hint=hint)


class AnswerInvalid(InvalidValue, code="answer_invalid"):
    """The answer is none of the choices, is empty, or is too long."""


class TooManyQuestions(RotaError, code="too_many_questions"):
    """The limit of open questions, or of runs of a chain that continue with an answer, is reached."""

    def __init__(
        self,
        limit: int,
        of: str,
        *,
        what: str = "open questions",
        hint: str = "answer some of them: `rota questions` lists them",
    ) -> None:
        super().__init__(f"{of} has {limit} {what}, which is the limit", hint=hint)


class SpawnFailed(RotaError, code="spawn_failed"):
    """A process could not be started."""


class WorkspaceFailed(SpawnFailed, code="workspace_failed"):
    """The working folder of an agent could not be created."""


class SessionUnusable(RotaError, code="session_unusable"):
    """The session of a run cannot be opened or continued."""

    def __init__(self, handle: str, why: str, *, hint: str) -> None:
        super().__init__(f"{handle} {why}", hint=hint)
        self.handle = handle


class WorktreeRefused(RotaError, code="worktree_refused"):
    """A kept worktree cannot be merged or discarded now."""

    def __init__(self, handle: str, why: str, *, hint: str) -> None:
        super().__init__(f"{handle} {why}", hint=hint)
        self.handle = handle


class SpawnerLost(SpawnFailed, code="spawner_lost"):
    """The spawner process exited before it answered."""


class SecretMissing(RotaError, code="secret_missing"):
    """A secret of a job is not set, or its origin in the file gave no value."""

    def __init__(self, name: str, why: str = "", *, hint: str = "") -> None:
        if why:
            super().__init__(f"secret {name!r}: {why}", hint=hint)
            return
        super().__init__(
            f"secret {name!r} is in none of $CREDENTIALS_DIRECTORY, the scheduler's environment, secrets.env",
            hint=f"set it in one of them, for example with `rota secrets set {name}`, and try again",
        )


class SourceError(RotaError, code="source_error"):
    """A request to a work source failed.

    `status` is the HTTP status of its answer, `again_after` the seconds of its Retry-After.
    """

    def __init__(
        self, message: str, *, hint: str = "", status: int | None = None, again_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.again_after = again_after


class AddressRefused(RotaError, code="address_refused"):
    """The address is private or malformed, so rota does not connect to it."""


class AddressUnknown(RotaError, code="address_unknown"):
    """A host name cannot be resolved."""

    def __init__(self, name: str, why: str = "no address") -> None:
        super().__init__(f"{shown(name)} cannot be resolved: {why}", hint="check the name and the network")


class UnknownTarget(RotaError, code="unknown_target"):
    """No notification target has this name."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no target is named {shown(name)}", hint=f"{guess(near)}list them with `rota notify`")


class UnknownDelivery(RotaError, code="unknown_delivery"):
    """The name matches no delivery, or several."""

    def __init__(self, name: str, *, several: bool = False) -> None:
        what = "more than one delivery ends with" if several else "no delivery is named"
        super().__init__(f"{what} {shown(name)}", hint="list them with `rota deliveries`")


class IllegalTransition(RotaError, code="illegal_transition"):
    """The status of a run does not allow this event."""

    def __init__(self, status: str, event: str, allowed: Sequence[str]) -> None:
        options = ", ".join(allowed) or "nothing, it is final"
        super().__init__(f"a run that is {status} cannot {event}", hint=f"possible: {options}")


class UnknownRun(RotaError, code="unknown_run"):
    """No run has this handle."""

    def __init__(self, handle: str, why: str = "") -> None:
        because = f": {why}" if why else ""
        super().__init__(f"there is no run {handle!r}{because}", hint="list them with `rota history`")


class RunIsFinal(RotaError, code="run_final"):
    """A finished run never changes."""

    def __init__(self, handle: str, status: str) -> None:
        hint = "a finished run never changes; `rota run` starts a new one"
        super().__init__(f"{handle} is already {status}", hint=hint)


class RunUnfinished(RotaError, code="run_unfinished"):
    """A run cannot be retried before it and its retries are final."""

    def __init__(self, handle: str, status: str, *, retry_of: str | None = None) -> None:
        retries = f", it retries {retry_of}" if retry_of else ""
        hint = f"wait for it, or stop it with `rota cancel {handle}` and try again"
        super().__init__(f"{handle} is not finished: it is {status}{retries}", hint=hint)


class RunCompleted(RotaError, code="run_completed"):
    """A completed run is repeated only with --again."""

    def __init__(self, handle: str) -> None:
        super().__init__(f"{handle} is COMPLETED", hint=f"to run it again: `rota retry {handle} --again`")


class NotQueued(RotaError, code="not_queued"):
    """Only a queued run has a place in the queue."""

    def __init__(self, handle: str, status: str) -> None:
        hint = "`rota queue` shows what waits"
        super().__init__(f"{handle} is {status}, only a queued run can be moved or edited", hint=hint)


class Immutable(RotaError, code="immutable"):
    """The params of a run are frozen from its first dispatch on."""

    def __init__(self, handle: str, status: str) -> None:
        hint = f"start a new run with other params: `rota run {handle.rpartition(':')[0]} --param NAME=VALUE`"
        super().__init__(f"cannot modify params after dispatch: {handle} is {status}", hint=hint)


class OtherPriority(RotaError, code="other_priority"):
    """A run cannot be moved before a run of another priority."""

    def __init__(self, handle: str, other: str, *, priority: int, wanted: int) -> None:
        super().__init__(
            f"{handle} has the priority {priority} and cannot be moved before {other}, which has {wanted}",
            hint=f"give it that priority first: `rota edit {handle} --priority {wanted}`",
        )


class AgingOrders(RotaError, code="aging_orders"):
    """With `scheduler.aging` the order follows age and priority, so runs cannot be moved."""

    def __init__(self, aging: str) -> None:
        hint = "`rota edit RUN --priority N` changes its order, or remove `scheduler.aging` and apply"
        super().__init__(f"runs cannot be moved while `scheduler.aging: {aging}` orders the queue", hint=hint)


class OverlapRefused(RotaError, code="overlap"):
    """A manual start was refused because the job is active."""

    def __init__(self, name: str, blocking: str, policy: str) -> None:
        super().__init__(
            f"{name} was not started: {blocking} is not finished and the job says `overlap: {policy}`",
            hint=f"wait for it, stop it with `rota cancel {blocking}`, or ignore overlap with --force",
        )
        self.blocking = blocking


class SetRefused(RotaError, code="overlap_set"):
    """Several runs were refused because `overlap` has no room for all of them."""

    def __init__(self, name: str, count: int, *, room: int, policy: str) -> None:
        hint = "set `overlap: allow`, or `overlap: queue` with a larger `queue_depth`, or pass --force"
        super().__init__(f"no run of {name} was created, of {count:,}: `overlap: {policy}` allows {room}", hint=hint)


class NoSlot(RotaError, code="no_slot"):
    """A direct call got no slot within its waiting time."""

    def __init__(self, name: str, waited: str) -> None:
        hint = "`rota status` shows the runs in the slots; raise `scheduler.concurrency`, or wait longer"
        super().__init__(f"no slot for {name!r} became free within {waited}", hint=hint)


class UnknownGroup(RotaError, code="unknown_group"):
    """No group has this handle, or the group has not started."""

    def __init__(self, handle: str, why: str = "", near: Sequence[str] = (), *, hint: str = "") -> None:
        because = f": {why}" if why else ""
        hint = hint or f"{guess(near)}list them with `rota groups`"
        super().__init__(f"there is no group {handle!r}{because}", hint=hint)


class GroupIsFinal(RotaError, code="group_final"):
    """A final group never changes."""

    def __init__(self, handle: str, status: str) -> None:
        hint = f"a final group never changes; `rota groups retry {handle}` creates a new group of the failed members"
        super().__init__(f"{handle} is already {status}", hint=hint)


class GroupCompleted(RotaError, code="group_completed"):
    """A group without a failed member has nothing to retry."""

    def __init__(self, handle: str, status: str, name: str) -> None:
        hint = f"start the whole group again with `rota run {name}`"
        super().__init__(f"{handle} is {status}: none of its members failed", hint=hint)


class GroupUnfinished(RotaError, code="group_unfinished"):
    """A group can be retried only when all of its members are final."""

    def __init__(self, handle: str) -> None:
        hint = f"wait for it, or cancel it with `rota groups cancel {handle}`"
        super().__init__(f"{handle} is not finished", hint=hint)


class NothingNeeds(RotaError, code="nothing_needs"):
    """Only an item that needs attention can be acknowledged."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"nothing about {name!r} needs attention", hint=f"{guess(near)}`rota ack` lists all problems")


class AlreadyServing(RotaError, code="already_serving"):
    """Another scheduler serves this project."""

    def __init__(self, pid: int | None, state: str) -> None:
        server = f"process {pid}" if pid else "another process"
        hint = "stop it with `rota stop`, or use its commands: `rota status`"
        super().__init__(f"{server} already serves {state}", hint=hint)
        self.pid = pid


class CronInCharge(AlreadyServing, code="cron_in_charge"):
    """The crontab still has lines that a takeover gives to this project: both would run them."""

    def __init__(self, lines: int, folder: str, *, again: bool) -> None:
        way = "remove them with `crontab -e`" if again else "`rota takeover crontab` gives them to rota"
        RotaError.__init__(
            self,
            f"cron {'runs' if again else 'still runs'} {lines} of the jobs of {folder}{' again' if again else ''}",
            hint=f"{way}; `rota takeover` shows them",
        )
        self.pid = None


class ProjectServed(RotaError, code="project_served"):
    """An included project has its own scheduler, so its jobs would fire twice."""

    def __init__(self, file: str, folder: str, *, pid: int | None) -> None:
        server = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{file} is included here, but {server} already serves it: its jobs would fire twice",
            hint=f"stop that one with `rota --dir {folder} stop`, or leave the folder out of `include`",
        )


class ProjectIncluded(RotaError, code="project_included"):
    """An included project cannot have its own scheduler."""

    def __init__(self, folder: str, host: str, *, verb: str) -> None:
        hint = f"`rota --dir {host} {verb}` does that for all projects; or remove this one from `include`"
        super().__init__(f"{folder} is included by {host}/rota.yaml, whose scheduler runs its jobs", hint=hint)


class NoScheduler(RotaError, code="no_scheduler"):
    """The command needs a running scheduler."""

    def __init__(self, state: str) -> None:
        super().__init__(f"no scheduler is running on {state}", hint="start one with `rota serve`")


class CallerDismissed(NoScheduler, code="caller_dismissed"):
    """The scheduler stopped before a direct call finished."""

    def __init__(self, name: str, what: str = "stopped before it started") -> None:
        hint = "start one with `rota serve` and call again"
        RotaError.__init__(self, f"the direct call of {name!r}: the scheduler {what}", hint=hint)


class NoHttp(NoScheduler, code="no_http"):
    """No scheduler serves HTTP."""

    def __init__(self, state: str, why: str = "no scheduler is running") -> None:
        hint = "start one with `rota serve`, without --no-http"
        RotaError.__init__(self, f"no HTTP API for {state}: {why}", hint=hint)


class ListenRefused(RotaError, code="listen_refused"):
    """The HTTP listen address cannot be used."""


class ListenExposed(RotaError, code="listen_exposed"):
    """HTTP would be reachable from other machines without `--listen`, or without TLS."""


class TokenUnusable(RotaError, code="token_unusable"):
    """The token file is empty, too short, or readable by other users."""


class UnknownWorker(RotaError, code="unknown_worker"):
    """No worker has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no worker is named {name!r}", hint="`rota workers` and GET /api/v1/workers list them")


class WorkerNameTaken(RotaError, code="worker_name_taken"):
    """Another state folder is already the worker of this name."""

    def __init__(self, name: str, *, host: str, state: str) -> None:
        where = f"{host}:{state}" if state else host
        hint = f"choose another --name, or `rota workers forget {name}` if that worker is gone for good"
        super().__init__(f"the worker {name!r} is {where}", hint=hint)


class WorkerAlive(RotaError, code="worker_alive"):
    """A live worker cannot be removed."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the worker {name!r} is alive",
            hint=f"stop it there first (`rota stop`), or let it finish what it has: `rota workers drain {name}`; "
            "one that was killed counts for up to 30 s more",
        )


class ServiceUnavailable(RotaError, code="service_unavailable"):
    """The service manager is missing, or its command failed."""


class UnknownAgent(RotaError, code="unknown_agent"):
    """No agent has this name, in the file or in a job."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no agent is named {name!r}", hint=f"{guess(near)}list them with `rota agents`")


class UnknownAdapter(RotaError, code="unknown_adapter"):
    """No adapter has this name."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        hint = f"{guess(near)}use the adapter `custom` for other programs"
        super().__init__(f"no adapter is named {name!r}", hint=hint)


class ProviderNotHeld(RotaError, code="provider_not_held"):
    """The provider is not rate-limited, so there is no hold to release."""

    def __init__(self, name: str, held: Sequence[str] = ()) -> None:
        others = f"held: {', '.join(held)}" if held else "no provider is held"
        super().__init__(f"provider {name!r} is not held", hint=others)


class UnknownAccount(RotaError, code="unknown_account"):
    """No budget account has this name."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        super().__init__(f"no account is named {name!r}", hint=f"{guess(near)}list them with `rota budgets`")


class BudgetExceeded(RotaError, code="budget_exceeded"):
    """A budget account has no room for the expense."""

    def __init__(self, account: str, why: str, *, reopens: str) -> None:
        hint = f"it opens again {reopens}; `rota budgets {account}` shows its usage"
        super().__init__(f"{account} {why}", hint=hint)
        self.account = account


_NAMED_PROCESSES = 3


class StateError(RotaError, code="state"):
    """The state folder or database cannot be used."""


class DatabaseForeign(StateError, code="database_foreign"):
    """Another program created this database."""


class DatabaseNewer(StateError, code="database_newer"):
    """A newer rota created or upgraded the database."""


class UpgradeBlocked(StateError, code="upgrade_blocked"):
    """The database needs an upgrade while processes of an older rota use it."""

    def __init__(self, place: str, processes: Sequence[str], *, schema: int, wanted: int, hint: str) -> None:
        more = f" and {len(processes) - _NAMED_PROCESSES} more" if len(processes) > _NAMED_PROCESSES else ""
        users = f"{', '.join(processes[:_NAMED_PROCESSES])}{more}"
        form = f"has schema {schema} and needs an upgrade to {wanted} for this rota"
        super().__init__(f"the database {place} {form}, but is in use by {users}", hint=hint)


class DatabaseCorrupt(StateError, code="database_corrupt"):
    """The database file is damaged."""


class DatabaseReadOnly(StateError, code="database_read_only"):
    """The database or its folder cannot be written."""


class StorageFull(StateError, code="storage_full"):
    """The disk is full."""


class DatabaseBusy(StateError, code="database_busy"):
    """Another process locks the database for too long."""


class DatabaseGone(StateError, code="database_gone"):
    """The database server cannot be reached."""


class InvariantRefused(RotaError, code="invariant"):
    """A constraint of the database refused a change that would break an invariant."""

    def __init__(self, rule: str, meaning: str) -> None:
        hint = "nothing was changed; look with `rota show`"
        super().__init__(f"the database refused a change ({rule}): {meaning}", hint=hint)
        self.rule = rule


class MoveUnfinished(StateError, code="move_unfinished"):
    """A migration into this database was interrupted."""

    def __init__(self, place: str) -> None:
        hint = "run the same `rota migrate` again: it continues where it stopped"
        super().__init__(f"a migration to {place} is not finished", hint=hint)


class MoveRefused(RotaError, code="move_refused"):
    """The contents of one database cannot be copied into the other."""


class MoveDiffers(StateError, code="move_differs"):
    """The rows of the two databases differ after a migration."""


class StoreShared(RotaError, code="store_shared"):
    """The command works on the SQLite file, and the state is in PostgreSQL."""

    def __init__(self, place: str, what: str, *, tool: str) -> None:
        hint = f"use {tool}; docs/postgresql.md has the commands"
        super().__init__(f"the state is in {place}, which {what}", hint=hint)


class StoreNotShared(RotaError, code="store_not_shared"):
    """Several machines need a shared database."""


class BackupUnusable(RotaError, code="backup_unusable"):
    """A file is not a complete backup of rota."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} cannot be restored: {why}", hint="nothing was changed; use another backup")


class StateExists(RotaError, code="state_exists"):
    """A restore would replace an existing state."""

    def __init__(self, state: str) -> None:
        hint = "nothing was changed; --force moves it aside, or restore into another folder with --dir"
        super().__init__(f"{state} already has a state", hint=hint)


class FileExists(RotaError, code="file_exists"):
    """The file to write already exists."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} already exists", hint="nothing was written; move it away, or use another folder")


class OutputUnwritable(RotaError, code="output_unwritable"):
    """The output of a command cannot be written."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the output cannot be written: {why}", hint="free space there, or write it elsewhere")
