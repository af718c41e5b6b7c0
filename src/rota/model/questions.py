"""Questions to people: their states, subjects and answers."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct

from rota.model.errors import QuestionClosed

TEXT_LIMIT = 4000
"""Characters of a question, of an answer and of a default."""
MAX_CHOICES = 10
CHOICE_LIMIT = 100
MAX_OPEN = 1000
"""The limit of open questions of a project."""
MAX_OPEN_OF_JOB = 20
"""The limit of open questions of a job."""
MAX_CONTINUATIONS = 50
"""The limit of runs of a chain that continue, so that no agent asks and continues for ever."""
DEFAULT_TIMEOUT = timedelta(days=1)
MIN_TIMEOUT = timedelta(minutes=1)
MAX_TIMEOUT = timedelta(days=30)
APPROVE, REJECT = "approve", "reject"
ALLOW_ONCE, ALLOW_ALWAYS, DENY = "allow once", "allow always", "deny"


class QuestionState(StrEnum):
    """The state of a question. All but OPEN are final."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


class QuestionEvent(StrEnum):
    """An event in the life of a question."""

    ANSWER = "answer"
    EXPIRE = "expire"
    WITHDRAW = "withdraw"


TRANSITIONS: dict[tuple[QuestionState, QuestionEvent], QuestionState] = {
    (QuestionState.OPEN, QuestionEvent.ANSWER): QuestionState.ANSWERED,
    (QuestionState.OPEN, QuestionEvent.EXPIRE): QuestionState.EXPIRED,
    (QuestionState.OPEN, QuestionEvent.WITHDRAW): QuestionState.WITHDRAWN,
}


class Subject(StrEnum):
    """The kind of subject of a question: a run that goes on with the answer, a job, or a proposed job."""

    RUN = "run"
    JOB = "job"
    PROPOSAL = "proposal"


class Door(StrEnum):
    """The interface through which an answer came."""

    CLI = "cli"
    API = "api"
    DASHBOARD = "dashboard"
    MCP = "mcp"
    TELEGRAM = "telegram"
    SLACK = "slack"


class Answer(Struct, frozen=True):
    """The answer of an actor."""

    text: str
    actor: str
    door: Door
    digest: str
    """The digest of the question that the actor saw."""


class Question(Struct, frozen=True):
    """A question to people. It ends once, and then never changes."""

    number: int
    subject: Subject
    job_id: str
    job: str
    run_id: str | None
    """The run or direct call that asked; None for a proposal."""
    text: str
    digest: str
    """The digest of what the question concerns: an answer to another digest is refused."""
    choices: tuple[str, ...]
    allowed: tuple[str, ...]
    """The actors that may answer; empty: any actor with the right to answer."""
    asked_by: str
    asked_at: datetime
    expires_at: datetime | None
    fallback: str | None
    """The answer if no answer comes in time."""
    call: Mapping[str, Any]
    """The exact tool call that needs permission; empty for other questions."""
    waits: bool
    """Whether the end of the run inserts the run that continues with the answer."""
    used_by: str | None
    """The run that gets the answer."""
    state: QuestionState
    answer: str | None
    answered_by: str | None
    door: Door | None
    ended_at: datetime | None
    why: str | None
    """The reason of a withdrawal."""
    run_number: int | None = None
    used_number: int | None = None

    @property
    def run(self) -> str | None:
        """The handle of the run that asked."""
        return None if self.run_number is None else f"{self.job}:{self.run_number}"

    @property
    def continues(self) -> str | None:
        """The handle of the run that gets the answer."""
        return None if self.used_number is None else f"{self.job}:{self.used_number}"

    @property
    def is_open(self) -> bool:
        """Whether an answer is possible."""
        return self.state is QuestionState.OPEN


def next_state(state: QuestionState, event: QuestionEvent, *, number: int) -> QuestionState:
    """Return the state that a question enters; raise QuestionClosed if it is finished."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise QuestionClosed(number, state) from None


class Grant(Struct, frozen=True):
    """A standing grant: permission for one exact tool call of one definition of a job."""

    number: int
    job_id: str
    job: str
    digest: str
    """The digest of the definition; the grant is void under any other."""
    call: Mapping[str, Any]
    question: int
    granted_by: str
    granted_at: datetime
    expires_at: datetime
    uses: int
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
