"""The words in which runs and jobs are shown on a terminal: those of every face, in colour."""

import click

from rota.model.records import Run
from rota.model.states import Status
from rota.operations.words import LEGEND as LEGEND
from rota.operations.words import MISSED as MISSED
from rota.operations.words import NAMED as NAMED
from rota.operations.words import PARTIAL as PARTIAL
from rota.operations.words import SESSION_SHOWN as SESSION_SHOWN
from rota.operations.words import TICKS as TICKS
from rota.operations.words import counted as counted
from rota.operations.words import denied_words as denied_words
from rota.operations.words import everything_words as everything_words
from rota.operations.words import jobs_paused_words as jobs_paused_words
from rota.operations.words import next_words as next_words
from rota.operations.words import outcome_words as outcome_words
from rota.operations.words import pause_words as pause_words
from rota.operations.words import plain as plain
from rota.operations.words import schedule_words as schedule_words
from rota.operations.words import session_words as session_words
from rota.operations.words import shown_status as shown_status
from rota.operations.words import sized as sized
from rota.operations.words import ticks as ticks
from rota.operations.words import took as took

COLOURS = {
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.SKIPPED: "yellow",
    Status.CANCELLED: "magenta",
    Status.RUNNING: "cyan",
    Status.QUEUED: "blue",
}


def coloured(status: Status, text: str | None = None) -> str:
    """Return a status, or a text about it, in its colour."""
    return click.style(text or status.shown.value, fg=COLOURS.get(status.shown))


def colour_of(run: Run) -> str | None:
    """Return the colour of a run; one that looks green but was refused tools is none."""
    denied = run.status is Status.COMPLETED and run.denied_tools
    return COLOURS[Status.SKIPPED] if denied else COLOURS.get(run.status.shown)
