"""Import of files of other schedulers: translation, check of the new file, and comparison of the next fires."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.declare.importers.translation import (
    ImportedJob,
    Remark,
    Source,
    Translation,
    free_name,
    remark_of,
)
from rota.declare.project import Declared, read_project
from rota.declare.readers.calendar import local_zone, plain_name
from rota.model.clock import iso
from rota.model.errors import FileProblems, Problem, RotaError
from rota.model.spec import JobSpec, Names
from rota.rules.schedule.preview import COMPARED_FIRES, next_fires
from rota.rules.schedule.timezone import zone


class ImportKind(Struct, frozen=True):
    """A format that can be imported: its importer, its words, and how to switch the old scheduler off."""

    module: str
    function: str
    noun: str
    peer: str
    off: str
    pattern: str = ""
    """The files of a folder that are imported; empty where one file is."""
    names: str = ".*"
    """The names of these files, as a regular expression."""


KINDS: dict[str, ImportKind] = {
    "crontab": ImportKind("crontab", "import_crontab", "line", "cron", "", "*", r"[A-Za-z0-9_-]+"),
    "anacron": ImportKind(
        "crontab", "import_anacron", "line", "anacron", "put a `#` before its lines in /etc/anacrontab"
    ),
    "systemd": ImportKind(
        "systemd", "import_systemd", "timer", "systemd", "`systemctl disable --now NAME.timer`", "*.timer"
    ),
    "launchd": ImportKind(
        "launchd", "import_launchd", "file", "launchd", "`launchctl bootout gui/$(id -u)/LABEL`", "*.plist"
    ),
    "herdctl": ImportKind("herdctl", "import_herdctl", "schedule", "herdctl", "stop it with `herdctl stop`"),
    "jobs": ImportKind("jobs_file", "import_jobs_file", "job", "octopoid", "remove its launchd job or cron line"),
    "openclaw": ImportKind("openclaw", "import_openclaw", "job", "OpenClaw", "`openclaw cron disable ID` for each job"),
    "hermes": ImportKind("hermes", "import_hermes", "job", "Hermes", "`hermes cron pause ID` for each job"),
    "claude": ImportKind("claude_tasks", "import_claude", "task", "Claude Code", "delete the tasks in Claude Code"),
    "github": ImportKind("github", "import_github", "job", "GitHub", "remove `schedule:` from the workflow", "*.y*ml"),
}


class Imported(Struct, frozen=True):
    """A translation that passes the check; for `compared` jobs the next fires were compared with the source's."""

    translation: Translation
    compared: int = 0
    differences: tuple[Remark, ...] = ()


class InputFile(Struct, frozen=True):
    """A file to import, and how to read the files beside it."""

    file: str
    content: bytes
    read: Callable[[str], bytes | None] = lambda _name: None


def import_files(
    kind: str,
    inputs: Sequence[InputFile],
    *,
    environ: Mapping[str, str],
    folder: Path,
    now: datetime,
    system: bool = False,
) -> Imported:
    """Return the rota.yaml of the files of another scheduler; raise FileProblems if no job can be written."""
    timezone, guessed = _machine_zone(environ)
    chosen = KINDS[kind]
    translate = getattr(import_module(f"rota.declare.importers.{chosen.module}"), chosen.function)
    if kind == "crontab":
        translate = partial(translate, system=system, several=len(inputs) > 1)
    sources = [Source(input_file.file, input_file.content, timezone, now, input_file.read) for input_file in inputs]
    translation = _translate_all(translate, sources)
    if guessed:
        translation = replace(translation, by_hand=(Remark(0, guessed), *translation.by_hand))
    translation, declared = check_translation(translation, file=inputs[0].file, environ=environ, folder=folder)
    if translation.left_out and not translation.jobs:
        raise FileProblems([_problem_of(remark, inputs[0].file) for remark in translation.left_out])
    specs = {spec.name: spec for spec in declared.jobs}
    compared = [job for job in translation.jobs if job.reading is not None and job.name in specs]
    differences = [remark for job in compared if (remark := _compared(job, specs[job.name], chosen.peer, now=now))]
    return Imported(translation, len(compared), tuple(differences))


def _translate_all(translate: Callable[[Source], Translation], sources: Sequence[Source]) -> Translation:
    """Return the translation of all files; a file of several that cannot be read is left out."""
    translations: list[Translation] = []
    problems: list[Problem] = []
    for source in sources:
        try:
            translations.append(translate(source))
        except FileProblems as error:
            problems += error.problems
            continue
        if len(sources) > 1:
            translations[-1] = _placed(translations[-1], source.file)
    if not translations:
        raise FileProblems(problems)
    unread = tuple(remark_of(problem) for problem in problems)
    translation = merge(translations)
    return replace(translation, read=translation.read + len(unread), left_out=(*translation.left_out, *unread))


def _placed(found: Translation, file: str) -> Translation:
    """Return a translation of which each job and remark names its file."""
    return replace(
        found,
        jobs=tuple(replace(job, file=job.file or file) for job in found.jobs),
        by_hand=tuple(replace(remark, file=remark.file or file) for remark in found.by_hand),
        left_out=tuple(replace(remark, file=remark.file or file) for remark in found.left_out),
    )


def _problem_of(one: Remark, file: str) -> Problem:
    return Problem(one.message, "import_entry", one.file or file, one.line, 1 if one.line else 0)


def merge(found: Sequence[Translation]) -> Translation:
    """Return one translation of several files of a kind; the sections are those of the first, all comments stay."""
    jobs: list[ImportedJob] = []
    for number, translation in enumerate(found):
        for index, job in enumerate(translation.jobs):
            head = translation.header if number and not index else ()
            name = free_name(job.name, taken=[imported_job.name for imported_job in jobs])
            jobs.append(replace(job, name=name, comments=(*head, *job.comments)))
    return replace(
        found[0],
        read=sum(translation.read for translation in found),
        jobs=tuple(jobs),
        by_hand=tuple(remark for translation in found for remark in translation.by_hand),
        left_out=tuple(remark for translation in found for remark in translation.left_out),
    )


def check_translation(
    found: Translation, *, file: str, environ: Mapping[str, str], folder: Path
) -> tuple[Translation, Declared]:
    """Check the new file as `rota check` does; leave out each job that it refuses, at its line of the old file."""
    while True:
        content = found.text.encode()
        try:
            return found, read_project(folder, environment=environ, functions=_AnyName(), content=content)
        except FileProblems as error:
            refused = _refused(found, error.problems)
            if not refused:
                raise FileProblems(
                    [replace(problem, file=file, line=1, column=1) for problem in error.problems]
                ) from None
            found = _without_agents(found.without(refused), error.problems)


def _refused(found: Translation, problems: Sequence[Problem]) -> dict[str, Remark]:
    refused: dict[str, Remark] = {}
    for problem in problems:
        for job in found.jobs:
            own = problem.path.startswith(f"jobs.{job.name}.") or problem.path == f"jobs.{job.name}"
            if own or _of_agent(problem, str(job.keys.get("agent", ""))):
                about = remark_of(replace(problem, line=job.line, column=1, file=job.file), subject="")
                refused.setdefault(job.name, about)
    return refused


def _of_agent(problem: Problem, agent: str) -> bool:
    return bool(agent) and f"{problem.path}.".startswith(f"agents.{agent}.")


def _without_agents(found: Translation, problems: Sequence[Problem]) -> Translation:
    sections = [
        replace(
            section,
            value={
                name: body
                for name, body in section.value.items()
                if not any(_of_agent(problem, name) for problem in problems)
            },
        )
        if section.key == "agents"
        else section
        for section in found.sections
    ]
    return replace(found, sections=tuple(sections))


class _AnyName:
    """A finder that accepts every function and condition: their modules may not be here."""

    def find(self, functions: Sequence[str], conditions: Sequence[str], sources: Sequence[str] = ()) -> Names:  # noqa: ARG002
        """Return no missing names."""
        return Names()


def _machine_zone(environ: Mapping[str, str]) -> tuple[str, str]:
    try:
        return plain_name(local_zone(environ)), ""
    except RotaError as error:
        return "UTC", f"timezone: UTC is a guess: {error.message}"


def _compared(job: ImportedJob, spec: JobSpec, peer: str, *, now: datetime) -> Remark | None:
    assert job.reading is not None
    ours: list[Any] = [fire.nominal for fire in next_fires(spec.schedule, now, COMPARED_FIRES, created_at=now)]
    theirs: list[Any] = list(job.reading(now, COMPARED_FIRES))
    if job.by_day:
        tz = zone(spec.schedule.timezone)
        ours, theirs = ([at.astimezone(tz).date() for at in fires] for fires in (ours, theirs))
        ours = ours[1:] if ours[:1] == [now.astimezone(tz).date()] else ours  # today is anacron's last day
        ours, theirs = ours[: COMPARED_FIRES - 1], theirs[: COMPARED_FIRES - 1]
    for own, other in zip_longest(ours, theirs):
        if own != other:
            shown = [at.isoformat() if job.by_day and at else iso(at) if at else "no more" for at in (own, other)]
            first = min(at for at in (own, other) if at)
            why = ": clocks change there" if not job.by_day and _clocks_change(first, spec.schedule.timezone) else ""
            return Remark(job.line, f"{job.name} fires at {shown[0]}, {peer} at {shown[1]}{why}", file=job.file)
    return None


def _clocks_change(at: datetime, timezone: str) -> bool:
    """Return whether the clock of a zone is set within a day of an instant."""
    before, after = ((at + timedelta(days=days)).astimezone(zone(timezone)).utcoffset() for days in (-1, 1))
    return before != after
