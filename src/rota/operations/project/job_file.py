"""A job of a file in an editor: its lines, their check, the difference, and the conflict with another change."""

import difflib
import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from rota.declare.include import locate_job
from rota.declare.job_lines import JobLines, find_lines, replace_lines
from rota.declare.plan import differences
from rota.model.errors import FileProblems, InvalidValue, Problem, RotaError, StateError
from rota.model.records import Job
from rota.operations.project.apply import FILE, held_change
from rota.operations.project.edit import replace_file
from rota.operations.project.load import load_project
from rota.rules.schedule.instants import explain_schedule
from rota.rules.schedule.preview import UpcomingFire, next_fires
from rota.settings import FILE_NAME, home_of
from rota.store.driver import Store

FIRES = 5
LONGEST = 40_000
"""The longest lines that a page can edit."""
CONTEXT = 3


class JobPlace(Struct, frozen=True):
    """Where a file declares a job, as a person reads it."""

    file: Path
    shown: str
    line: int
    path: tuple[str | int, ...]

    @property
    def words(self) -> str:
        """File and line: `rota.yaml:12`."""
        return f"{self.shown}:{self.line}" if self.line else self.shown


def place_of(job: Job, *, environ: Mapping[str, str]) -> JobPlace | None:
    """Return where the file of a job declares it now; None if no file declares it any more."""
    if not job.source.startswith(FILE):
        return None
    file = Path(job.source.removeprefix(FILE))
    problem = locate_job(file, job.name, home=home_of(environ))
    if problem is None:
        return None
    there = Path(problem.file)
    shown = os.path.relpath(there, file.parent) if there.is_relative_to(file.parent) else str(there)
    return JobPlace(there, shown, problem.line, problem.at)


class EditedJob(Struct, frozen=True):
    """A job in the editor: the digest of its file, its lines, and what is found about them.

    `diff` are the lines of a unified difference; `changes` the keys that differ.
    """

    place: JobPlace
    digest: str
    text: str
    problems: tuple[Problem, ...] = ()
    diff: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    reading: str = ""
    fires: tuple[UpcomingFire, ...] = ()
    content: bytes = b""

    @property
    def changed(self) -> bool:
        """Whether the file would change."""
        return bool(self.diff)

    @property
    def shown(self) -> str:
        """The digest of the shown difference, so that only what a person saw is written; empty without one."""
        return _digest(self.content) if self.content and self.changed else ""


class FileEditor(Struct, frozen=True):
    """The project whose files are edited."""

    store: Store
    folder: Path
    state: Path
    environ: Mapping[str, str]


def open_job(editor: FileEditor, job: Job) -> EditedJob:
    """Return the lines of a job as they are in its file; refuse a job that cannot be edited there."""
    place, content, lines = _look(editor, job)
    if len(lines.text) > LONGEST:
        raise InvalidValue(f"the lines of {job.name!r} are too long for a page", hint=f"edit {place.words}")
    return EditedJob(place, _digest(content), lines.text)


def check_job(editor: FileEditor, job: Job, text: str, digest: str, *, now: datetime) -> EditedJob:
    """Return what other lines for a job would change, with all problems of the project's files; nothing is written."""
    place, content, lines = _look(editor, job)
    text = text.replace("\r\n", "\n")
    if _digest(content) != digest:
        problem = Problem(f"{place.shown} changed since this page was loaded", "file_changed", hint=CONFLICT)
        return EditedJob(place, digest, text, (problem,))
    if len(text) > LONGEST:
        problem = Problem(f"longer than {LONGEST:,} characters", "invalid_value", hint=f"edit {place.words}")
        return EditedJob(place, digest, text, (problem,))
    try:
        new = replace_lines(content, lines, text, file=place.shown)
        edited = {place.file: new}
        declared = load_project(editor.folder, editor.environ, state=editor.state, now=now, edited=edited).declared
    except FileProblems as error:
        return EditedJob(place, digest, text, tuple(error.problems))
    except RotaError as error:
        return EditedJob(place, digest, text, (Problem(error.message, error.code, hint=error.hint or ""),))
    spec = next(spec for spec in declared.jobs if spec.name == job.name)
    return EditedJob(
        place,
        digest,
        text,
        diff=_diff(content, new, place.shown),
        changes=tuple(differences(job.spec, spec)),
        reading=explain_schedule(spec.schedule),
        fires=tuple(next_fires(spec.schedule, now, FIRES, name=spec.name)),
        content=new,
    )


CONFLICT = "nothing was written; copy your lines, load the page again, and make the change there"


def save_job(editor: FileEditor, checked: EditedJob, *, now: datetime) -> str | None:
    """Write checked lines to the file of a job; return why the scheduler does not apply them by itself, if so."""
    if checked.problems or not checked.changed:
        raise FileProblems(checked.problems or [Problem("the lines are unchanged", "invalid_value")])
    file = Path(os.path.realpath(checked.place.file))
    content = _read(file)
    if _digest(content) != checked.digest:
        raise InvalidValue(f"{checked.place.shown} changed meanwhile", hint=CONFLICT)
    replace_file(file, checked.content, before=content)
    main, home = editor.folder / FILE_NAME, home_of(editor.environ)
    return editor.store.write(lambda db: held_change(db, file=main, home=home, now=now))


def _look(editor: FileEditor, job: Job) -> tuple[JobPlace, bytes, JobLines]:
    """Return where a job stands, the content of that file, and its lines."""
    place = place_of(job, environ=editor.environ)
    if job.source != f"{FILE}{editor.folder / FILE_NAME}" or place is None:
        hint = "the page edits jobs of this project's file, and of those that it includes"
        raise InvalidValue(f"no file of this project declares job {job.name!r}", hint=hint)
    content = _read(place.file)
    key = tuple(place.path)
    return place, content, find_lines(content, key, file=place.shown)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise StateError(f"cannot read {file}: {error.strerror}", hint="check its mode") from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _diff(before: bytes, after: bytes, file: str) -> tuple[str, ...]:
    old, new = (content.decode("utf-8").splitlines() for content in (before, after))
    found: Sequence[str] = list(difflib.unified_diff(old, new, file, file, n=CONTEXT, lineterm=""))
    return tuple(found[2:])
