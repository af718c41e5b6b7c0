"""Files of other schedulers turned into a rota.yaml: read, translated, compared, and checked before they are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from rota.declare.files import parse
from rota.declare.importing.crontab import read_crontab
from rota.declare.importing.crontab_jobs import translate
from rota.declare.importing.jobs_file import translate_jobs
from rota.declare.importing.report import ImportedJob, Remark, Translation
from rota.declare.validate import read_project
from rota.declare.zone import local_zone, plain_name
from rota.model.clock import iso
from rota.model.errors import FileProblems, InvalidCron, Problem, RotaError
from rota.model.names import Names
from rota.rules.cron import cron_next
from rota.rules.cron_peer import Difference, compare_fires
from rota.rules.cron_text import normalise


@dataclass(frozen=True, slots=True)
class Imported:
    """A translation that passes the check; `compared` jobs had their coming fires compared with cron's."""

    translation: Translation
    compared: int = 0
    differences: tuple[Remark, ...] = ()


def import_crontab(
    content: bytes, *, file: str, system: bool, environ: Mapping[str, str], folder: Path, now: datetime
) -> Imported:
    """Return the rota.yaml of a crontab; raise FileProblems with every line that cannot be read."""
    timezone, guessed = _machine_zone(environ)
    found = translate(read_crontab(content, file=file, system=system), timezone=timezone, system=system)
    if guessed:
        found = replace(found, by_hand=(Remark(0, guessed), *found.by_hand))
    check_translation(found, file=file, environ=environ, folder=folder)
    timed = [job for job in found.jobs if _has_instants(job)]
    differences = [remark for job in timed if (remark := _compared(job, found.timezone, now=now))]
    return Imported(found, len(timed), tuple(differences))


def import_jobs(content: bytes, *, file: str, environ: Mapping[str, str], folder: Path) -> Imported:
    """Return the rota.yaml of a jobs file of document 000; raise FileProblems when it cannot be read."""
    found = translate_jobs(parse(content, file), timezone=_machine_zone(environ)[0])
    check_translation(found, file=file, environ=environ, folder=folder)
    return Imported(found)


def check_translation(found: Translation, *, file: str, environ: Mapping[str, str], folder: Path) -> None:
    """Check the new file as `rota check` does; its problems are told at the lines of the old one."""
    try:
        read_project(folder, environment=environ, functions=_AnyName(), content=found.text.encode())
    except FileProblems as error:
        lines = {job.name: job.line for job in found.jobs}
        raise FileProblems([_told_at(problem, file=file, lines=lines) for problem in error.problems]) from None


def _told_at(problem: Problem, *, file: str, lines: Mapping[str, int]) -> Problem:
    name = next((name for name in lines if problem.path.startswith(f"jobs.{name}.")), "")
    return replace(problem, file=file, line=lines.get(name, 1), column=1)


class _AnyName:
    """Knows every function and condition: their modules are there where the file will be, not here."""

    def find(self, functions: Sequence[str], conditions: Sequence[str], sources: Sequence[str] = ()) -> Names:  # noqa: ARG002
        """Return no name that is unknown."""
        return Names()


def _machine_zone(environ: Mapping[str, str]) -> tuple[str, str]:
    try:
        return plain_name(local_zone(environ)), ""
    except RotaError as error:
        return "UTC", f"timezone: UTC is a guess: {error.message}"


def _has_instants(job: ImportedJob) -> bool:
    try:
        return cron_next((normalise(job.keys["cron"]),), "UTC", datetime.fromisoformat("2000-01-01T00:00Z")) is not None
    except InvalidCron:
        return False


def _compared(job: ImportedJob, timezone: str, *, now: datetime) -> Remark | None:
    difference = compare_fires(job.keys["cron"], job.keys.get("timezone", timezone), after=now)
    return Remark(job.line, _difference(job.name, difference)) if difference else None


def _difference(name: str, difference: Difference) -> str:
    cron, rota = (iso(at) if at else "no more" for at in (difference.cron, difference.rota))
    return f"{name} fires at {rota}, cron at {cron}: clocks change there"
