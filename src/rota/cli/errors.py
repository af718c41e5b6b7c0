"""Exit codes of errors, and how errors are printed. docs/commands.md documents the table."""

import re
from pathlib import Path

import click
from msgspec.structs import replace

from rota.cli.output import json_text
from rota.model import errors as model
from rota.model.errors import FileProblems, RotaError

USAGE = 2
REFUSED = 6
FILE = 65
NO_PROJECT = 66
NO_SCHEDULER = 69
FAULT = 70
KEY_CODES = frozenset({"unknown_key", "yaml_duplicate_key", "no_effect", "conflict", "job_name"})
"""Problems of a key, not of its value."""
SOURCE_WIDTH = 100
SECRET = r"(?i)secret|token|passw|api_?key|authorization|://[^/]*@"
"""Lines that may hold a secret are not printed."""
INTERRUPTED = 130

_BY_CODE: dict[int, tuple[type[RotaError], ...]] = {
    USAGE: (
        *(model.InvalidValue, model.UnknownJob, model.UnknownRun, model.UnknownGroup, model.UnknownAccount),
        *(model.UnknownAgent, model.UnknownAdapter, model.UnknownWorker, model.UnknownTarget, model.NothingNeeds),
        *(model.UnknownDelivery, model.AddressRefused, model.UnknownQuestion, model.UnknownGrant),
        *(model.UnknownToken, model.UnknownTool),
    ),
    REFUSED: (
        *(model.WorkerNameTaken, model.WorkerAlive, model.StoreNotShared, model.StoreShared, model.MoveRefused),
        *(model.GroupIsFinal, model.GroupCompleted, model.GroupUnfinished, model.RunIsFinal, model.RunUnfinished),
        *(model.SessionUnusable, model.WorktreeRefused, model.RunCompleted, model.NotQueued, model.Immutable),
        *(model.OtherPriority, model.AgingOrders, model.InvariantRefused, model.JobDisabled, model.OverlapRefused),
        *(model.ProviderNotHeld, model.PolicyRefused, model.AgentRefused, model.NotYours, model.DuplicateJob),
        *(model.NotProvisional, model.ApprovalVoid, model.QuestionClosed, model.QuestionChanged),
        *(model.AnswerRefused, model.TooManyQuestions, model.BudgetExceeded, model.SetRefused, model.EmptyApply),
        *(model.FolderUntrusted, model.NameTaken, model.JobInFile, model.FileExists, model.StateExists),
    ),
    NO_SCHEDULER: (
        *(model.AddressUnknown, model.SourceError, model.NoScheduler, model.ServiceUnavailable),
        *(model.CallerDismissed, model.SchedulerError, model.DatabaseGone, model.ListenRefused),
    ),
    FILE: (model.BackupUnusable, model.FileProblems, model.FunctionMissing),
    NO_PROJECT: (model.ProjectMissing, model.NotApplied),
    75: (model.NoSlot, model.DatabaseBusy, model.UpgradeBlocked),
    FAULT: (model.IllegalTransition,),
    71: (model.SpawnFailed,),
    73: (model.AlreadyServing, model.ProjectServed, model.ProjectIncluded),
    74: (model.StateError, model.StorageFull, model.OutputUnwritable),
    77: (model.DatabaseReadOnly,),
    78: (
        *(model.DatabaseForeign, model.DatabaseNewer, model.DatabaseCorrupt, model.SecretMissing),
        *(model.ListenExposed, model.TokenUnusable),
    ),
    1: (RotaError,),
}
EXIT_CODES = {kind: code for code, kinds in _BY_CODE.items() for kind in kinds}


def exit_code(error: RotaError) -> int:
    """Return the exit code of an error: that of its class, else of the nearest class above."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)


def report(error: RotaError, *, as_json: bool) -> None:
    """Print an error to stderr."""
    if as_json:
        click.echo(json_text(error_json(error), indent=2), err=True)
        return
    if isinstance(error, FileProblems):
        tell_problems(error)
        return
    click.echo(f"rota: {error.message}", err=True)
    if error.hint:
        click.echo(f"      {error.hint}", err=True)


def tell_problems(error: FileProblems) -> None:
    """Print the problems of a file to stderr, each with its line where the project's folder is known."""
    for reported in error.problems:
        problem, row = at_value(reported, error.folder)
        click.echo(str(problem), err=True)
        for line in source_lines(problem, row):
            click.echo(f"    {line}", err=True)
    click.echo(f"{error.message}, {error.effect}", err=True)


def at_value(problem: model.Problem, folder: str | None) -> tuple[model.Problem, str]:
    """Return a problem with the column of its value where that is in the line of its key, and the line."""
    if not folder or not problem.file.endswith((".yaml", ".yml")):
        return problem, ""
    try:
        row = (Path(folder) / problem.file).read_text().split("\n")[problem.line - 1].replace("\t", " ")
    except (OSError, ValueError, IndexError):
        return problem, ""
    column, key = problem.column - 1, re.escape(str(problem.at[-1] if problem.at else ""))
    value = re.match(rf"""(["']?){key}\1 *: +(?=[^ #])""", row[column:])
    if value and problem.code not in KEY_CODES:
        return replace(problem, column=problem.column + value.end()), row
    return problem, row


def source_lines(problem: model.Problem, row: str) -> list[str]:
    """Return the source line, or the part of it around the value, and a caret; none if the line may hold a secret."""
    told = f"{problem.code} {problem.message} {problem.hint}"
    if not row.strip() or re.search("secret|password", told) or re.search(SECRET, row):
        return []
    indent = len(row) - len(row.lstrip())
    text, column = row.strip(), problem.column - 1 - indent
    if len(text) > SOURCE_WIDTH:
        start = max(0, min(column - SOURCE_WIDTH // 2, len(text) - SOURCE_WIDTH))
        text = "…" * (start > 0) + text[start : start + SOURCE_WIDTH] + "…" * (start + SOURCE_WIDTH < len(text))
        column -= start - (start > 0)
    return [text, " " * column + "^"]


def error_json(error: RotaError) -> dict[str, object]:
    """Return an error as --json prints it."""
    folder = error.folder if isinstance(error, FileProblems) else None
    return {
        "error": {
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "problems": [at_value(problem, folder)[0].as_dict() for problem in error.problems],
        }
    }


def report_usage(error: click.UsageError, *, as_json: bool) -> None:
    """Print a usage error."""
    text = error.format_message().replace("a valid float range", "a number")
    text = text.replace("a valid integer range", "a whole number").replace("a valid integer", "a whole number")
    text = text[:1].lower() + text[1:].rstrip(".")
    hint = f"see `{error.ctx.command_path} --help`" if error.ctx is not None else "see `rota help`"
    if as_json:
        told = {"code": "usage", "message": text, "hint": hint, "problems": []}
        click.echo(json_text({"error": told}, indent=2), err=True)
    else:
        click.echo(f"rota: {text}", err=True)
        click.echo(f"      {hint}", err=True)
