"""What is wrong with a wish, in the words of the tool that was called: nobody there wrote a file."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rota.declare.files import write_path
from rota.declare.notes import refuse_past
from rota.model.errors import (
    FileProblems,
    JobDisabled,
    JobProblems,
    JobProvisional,
    Problem,
    RotaError,
    UnknownJob,
    UnknownRun,
)
from rota.model.errors.root import guess
from rota.model.spec import JobSpec
from rota.operations.tools.desk import Desk

WORDS = {
    "cron": "schedule",
    "interval": "interval_seconds",
    "overlap": "overlap_policy",
    "timeout": "timeout_seconds",
    "prompt": "task",
    "agent": "provider",
    "notify": "notify_telegram_chat_id",
}
"""What the tools call the keys of a file."""
WAITS = "it starts nothing until a person approves it with `rota approve`; tell them"
BRACES = r"text in double braces is filled in when the job runs; write `\{{` for the braces themselves"


def declare(desk: Desk, name: str, *, keys: Mapping[str, Any]) -> JobSpec:
    """Return the definition of a wish; raise JobProblems that name the fields of the tool.

    Problems of the project's own file stay as they are: a person has to mend those.
    """
    try:
        spec = desk.declare(name, keys, desk.maker)
        refuse_past(spec, now=desk.now())
        return spec
    except FileProblems as error:
        own = [problem for problem in error.problems if _is_of(problem, name)]
        if not own or len(own) < len(error.problems):
            raise
        raise JobProblems([_said(problem, name) for problem in own], effect=error.effect) from None


def _is_of(problem: Problem, name: str) -> bool:
    path = write_path(("jobs", name))
    return problem.path == path or problem.path.startswith(f"{path}.")


def _said(problem: Problem, name: str) -> Problem:
    """Return a problem with the field of the tool in the place of the key of a file."""
    key = problem.path.removeprefix(write_path(("jobs", name))).lstrip(".").partition(".")[0]
    hint = BRACES if problem.code == "placeholder" else problem.hint
    return replace(problem, path=WORDS.get(key, key or "name"), hint=hint, file="", line=0, column=0)


def hint_of(error: RotaError) -> str:
    """Return what to do about an error for somebody who has the tools and no command line."""
    match error:
        case JobProvisional():
            return WAITS
        case JobDisabled():
            return "where it is yours, schedule_job with its name and enabled=true lets it start again"
        case UnknownRun():
            return "name a job for its newest run, or a run such as `digest:12`; list_jobs tells each last_run"
        case UnknownJob():
            return f"{guess(error.near)}find it with list_jobs or search_jobs"
    return error.hint
