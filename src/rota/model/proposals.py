"""Authors of jobs from the tools, their limits, and the policy for agents."""

from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from rota.model.agents import Access

MADE = "agent"
"""The source of jobs from the tools; an apply never changes them."""
ANYBODY = "agent"
"""Selects every author."""
USER = "user"
"""The author of jobs from the tools outside of a run."""
MAKER_LIMIT = 100


class Approval(StrEnum):
    """Whether jobs of agents need the approval of a person."""

    NONE = "none"
    REQUIRED = "required"


class AgentPolicy(Struct, frozen=True):
    """The `agent_policy:` of a project. The limits hold for each author."""

    enabled: bool = True
    max_active: int = 20
    creations_per_hour: int = 30
    min_interval: timedelta = timedelta(minutes=5)
    expires_after: timedelta = timedelta(days=30)
    max_depth: int = 2
    approval: Approval = Approval.NONE
    access: Access = Access.FULL


class Limits(Struct, frozen=True):
    """The rights of an agent's run, which its new jobs cannot exceed."""

    agent: str
    access: Access
    allowed_tools: tuple[str, ...] = ()
    """Empty: those of its access."""
    max_turns: int | None = None
    max_usd: float | None = None
    accounts: tuple[str, ...] = ()
    rota_tools: bool = False
    trust_project: bool = False
    cwd: str = "."
    project: str | None = None
    """The folder of the run's included project."""


class Author(Struct, frozen=True):
    """The author of an action: a person, a named program, or a run. Only an agent's run has `limits`."""

    name: str = USER
    run_id: str | None = None
    run: str | None = None
    """The handle of the run."""
    depth: int = 0
    """The number of jobs from tools between this author and a person: 0 in a run of a job from the file."""
    limits: Limits | None = None
    bound: bool = False
    """Whether `agent_policy` applies without a run: a token of the scope `agent`, or a caller of the tools."""
    unknown: str | None = None
    """A ROTA_RUN_ID without a live run or direct call of this state: such an author has no rights."""

    @property
    def is_agent(self) -> bool:
        """Whether `agent_policy` applies."""
        return self.limits is not None or self.bound or self.unknown is not None

    @property
    def title(self) -> str:
        """The author in messages."""
        return f"{self.name} ({self.run})" if self.run else self.name


class Provenance(Struct, frozen=True):
    """The stored origin of a job from the tools."""

    by: str
    at: datetime
    run_id: str | None = None
    depth: int = 1
    expires_at: datetime | None = None
