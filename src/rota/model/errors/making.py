"""Jobs that agents make with rota's tools, and what they may not."""

from collections.abc import Sequence

from rota.model.errors.declaring import JobDisabled
from rota.model.errors.root import RotaError, shown
from rota.model.errors.values import InvalidValue


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
