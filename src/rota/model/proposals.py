"""Who made a job that no file declares, within which limits, and what agents may make at all (section 8)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from rota.model.agents import Access

MADE = "agent"
"""The source of jobs that were made with the tools; an apply never touches them."""
ANYBODY = "agent"
"""Stands for every maker where makers are chosen."""
USER = "user"
"""Who makes jobs with the tools outside of a run."""
MAKER_LIMIT = 100


class Approval(StrEnum):
    """Whether what agents make waits until a person has seen it."""

    NONE = "none"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class AgentPolicy:
    """The `agent_policy:` of a project: what may be made with the tools. The limits hold for each maker."""

    enabled: bool = True
    max_active: int = 20
    creations_per_hour: int = 30
    min_interval: timedelta = timedelta(minutes=5)
    expires_after: timedelta = timedelta(days=30)
    max_depth: int = 2
    approval: Approval = Approval.NONE
    access: Access = Access.FULL


@dataclass(frozen=True, slots=True)
class Limits:
    """What the run of an agent may do itself, and so at most give to a job that it makes."""

    agent: str
    access: Access
    allowed_tools: tuple[str, ...] = ()
    """Empty: what the access gives."""
    max_turns: int | None = None
    max_usd: float | None = None
    accounts: tuple[str, ...] = ()
    rota_tools: bool = False
    trust_project: bool = False
    cwd: str = "."
    project: str | None = None
    """The folder of the included project that the run belongs to."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who acts: a person, a program under a name of its own, or a run. `limits` only where it is an agent's run."""

    name: str = USER
    run_id: str | None = None
    run: str | None = None
    """The run as people write it."""
    depth: int = 0
    """How many jobs that were made lie between this one and a person: 0 in a run of a job from the file."""
    limits: Limits | None = None
    bound: bool = False
    """Whether `agent_policy` binds it without a run: a token of the scope `agent`, or a caller of the tools."""
    unknown: str | None = None
    """The ROTA_RUN_ID that names no live run or direct call of this state: such a maker has no rights."""

    @property
    def is_agent(self) -> bool:
        """Whether `agent_policy` binds it."""
        return self.limits is not None or self.bound or self.unknown is not None

    @property
    def title(self) -> str:
        """The maker as messages name it."""
        return f"{self.name} ({self.run})" if self.run else self.name


@dataclass(frozen=True, slots=True)
class Provenance:
    """What is stored about the making of a job."""

    by: str
    at: datetime
    run_id: str | None = None
    depth: int = 1
    expires_at: datetime | None = None
