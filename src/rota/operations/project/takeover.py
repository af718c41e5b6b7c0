"""Takeover of a crontab: one write of the crontab moves its lines from cron to rota, or back.

The text of the crontab decides which of the two is in charge. Until rota has stored the jobs, a journal in the state
folder keeps `rota serve`, `rota tick` and `rota apply` from starting beside active lines of cron.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rota import faults
from rota.declare.project import Declared, read_project
from rota.engine.membership.locks import take_serve_lock
from rota.model.amounts import counted
from rota.model.clock import Clock
from rota.model.errors import CronInCharge, InvalidValue, StateError
from rota.operations.admin.service import own_program
from rota.operations.project.apply import apply
from rota.operations.project.imports import Imported, InputFile, import_files
from rota.operations.project.load import load_project, require_trust
from rota.operations.project.locate import ProjectPaths, is_applied, make_state, open_place
from rota.settings import FILE_NAME, TAKEOVER_NAME
from rota.store.sqlite.store import reachable, sync

MARK = "#rota# "
"""Stands before each line that rota took over."""
NOTE = (
    "# rota runs the lines marked #rota#, by the line below or by `rota serve`; `rota takeover undo` gives them back."
)
_NO_ENTRY = re.compile(r"\s*($|#|\w+\s*=)")
LATEST_SECOND = 55
"""A switch later in a minute waits for the next one: cron reads its tables again at each full minute."""


class Phase(StrEnum):
    """The intent of the last command; the crontab says how far it came."""

    PREPARED = "prepared"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


class Owner(StrEnum):
    """Which scheduler runs the lines of a takeover, by the text of the crontab."""

    CRON = "cron"
    ROTA = "rota"
    BOTH = "both"


class Journal(Struct, frozen=True):
    """A takeover: its lines, the line that starts rota, and the first instant that is rota's."""

    phase: Phase
    lines: tuple[str, ...]
    tick: str
    cutoff: datetime
    begun: datetime


class Takeover(Struct, frozen=True):
    """A planned takeover."""

    imported: Imported
    before: str
    after: str
    lines: tuple[str, ...]
    tick: str


class Standing(Struct, frozen=True):
    """Where a takeover stands: its journal, the owner of the lines, and the lines that cron still runs.

    `others`: the number of lines of cron that belong to no takeover.
    """

    journal: Journal
    owner: Owner
    active: tuple[str, ...]
    others: int = 0


# The crontab


def read_crontab(environ: Mapping[str, str]) -> str:
    """Return this user's crontab, empty if there is none."""
    ran = _crontab(["-l"], environ)
    if ran.returncode and b"no crontab" not in ran.stderr.lower():
        raise StateError(f"crontab -l failed: {_said(ran)}", hint="run it by hand to see why")
    return "" if ran.returncode else ran.stdout.decode("utf-8", "surrogateescape")


def write_crontab(text: str, environ: Mapping[str, str]) -> None:
    """Replace this user's crontab as a whole."""
    ran = _crontab(["-"], environ, text=text.encode("utf-8", "surrogateescape"))
    if ran.returncode:
        raise StateError(f"crontab refused the new table: {_said(ran)}", hint="the old one is still in force")


def _crontab(
    arguments: list[str], environ: Mapping[str, str], *, text: bytes | None = None
) -> "subprocess.CompletedProcess[bytes]":
    command = ["crontab", *arguments]
    try:
        return subprocess.run(
            command, input=text or b"", capture_output=True, check=False, env={**environ, "LC_ALL": "C"}
        )
    except OSError as error:
        hint = "install cron, or name another crontab program in PATH"
        raise StateError(f"cannot start crontab: {error.strerror}", hint=hint) from None


def _said(ran: "subprocess.CompletedProcess[bytes]") -> str:
    lines = ran.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"exit {ran.returncode}"


def commented(text: str, numbers: Sequence[int], tick: str) -> str:
    """Return a crontab with some lines (from 1) commented out, and the line that starts rota at its end."""
    lines = [f"{MARK}{line}" if number in numbers else line for number, line in enumerate(text.splitlines(), start=1)]
    return "\n".join([*lines, NOTE, tick]) + "\n"


def restored(text: str, journal: Journal) -> str:
    """Return a crontab with the lines of a takeover active again, each once; other changes of it stay."""
    lines = [line for line in text.splitlines() if line not in (NOTE, journal.tick)]
    active = {line.strip() for line in lines if not line.startswith(MARK)}
    plain = [
        line.removeprefix(MARK) for line in lines if not (line.startswith(MARK) and line[len(MARK) :].strip() in active)
    ]
    return "".join(f"{line}\n" for line in plain)


def tick_line(folder: Path, program: Sequence[str]) -> str:
    """Return the line by which cron starts rota each minute."""
    words = [*program, "--dir", str(folder), "tick", "--quiet"]
    return "* * * * * " + " ".join(map(shlex.quote, words)).replace("%", "\\%")


def owner_of(text: str, journal: Journal) -> tuple[Owner, tuple[str, ...]]:
    """Return the scheduler that runs the lines of a takeover, and the lines that cron still runs."""
    current = {line.strip() for line in text.splitlines()}
    active = tuple(line for line in journal.lines if line.strip() in current)
    if not active:
        return Owner.ROTA, ()
    taken = any(f"{MARK}{line}".strip() in current for line in journal.lines if line not in active)
    return Owner.BOTH if taken or journal.tick in current else Owner.CRON, active


# The journal


def read_journal(state: Path) -> Journal | None:
    """Return the journal of a takeover, None if there was none."""
    try:
        with reachable(state):
            content = (state / TAKEOVER_NAME).read_bytes()
    except FileNotFoundError:
        return None
    except StateError:
        if not (state / TAKEOVER_NAME).exists():
            return None
        raise
    try:
        return msgspec.json.decode(content, type=Journal)
    except msgspec.MsgspecError as error:
        raise StateError(
            f"{state / TAKEOVER_NAME} is damaged: {error}", hint="look at `crontab -l` and remove it"
        ) from None


def _write_journal(state: Path, journal: Journal) -> None:
    path, fresh = state / TAKEOVER_NAME, state / f"{TAKEOVER_NAME}.new"
    with reachable(state):
        with open(fresh, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(msgspec.json.encode(journal))
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    sync(state)


def standing(state: Path, environ: Mapping[str, str]) -> Standing | None:
    """Return where the takeover of a project stands, None without one."""
    journal = read_journal(state)
    if journal is None:
        return None
    text = read_crontab(environ)
    mine = {line.strip() for line in (*journal.lines, journal.tick)}
    others = [line for line in text.splitlines() if line.strip() not in mine and not _NO_ENTRY.match(line)]
    return Standing(journal, *owner_of(text, journal), len(others))


def crontab_problem(state: Path, environ: Mapping[str, str]) -> str | None:
    """Return that cron runs lines again that rota runs since a takeover; None also if no crontab can be read."""
    try:
        found = standing(state, environ)
    except StateError:
        return None
    if found is None or found.owner is Owner.ROTA or found.journal.phase is not Phase.DONE:
        return None
    return f"cron runs {counted(len(found.active), 'line')} of the crontab that rota runs too"


# Over to rota


def plan_takeover(place: ProjectPaths, *, environ: Mapping[str, str], now: datetime) -> Takeover:
    """Return the takeover of this user's crontab; raise an error if rota.yaml here does not hold its jobs."""
    before = read_crontab(environ)
    if not before.strip():
        raise InvalidValue(
            "this user has no crontab", hint="`crontab -l` shows it; `--system` files are not taken over"
        )
    content = before.encode("utf-8", "surrogateescape")
    imported = import_files("crontab", [InputFile("crontab", content)], environ=environ, folder=place.folder, now=now)
    numbers = [job.line for job in imported.translation.jobs]
    tick = tick_line(place.folder, own_program())
    texts = before.splitlines()
    lines = tuple(texts[number - 1] for number in numbers)
    _refuse_other_file(place, imported, environ=environ)
    return Takeover(imported, before, commented(before, numbers, tick), lines, tick)


def _refuse_other_file(place: ProjectPaths, imported: Imported, *, environ: Mapping[str, str]) -> None:
    file = place.folder / FILE_NAME
    if not file.exists() or file.read_text("utf-8") == imported.translation.text:
        return
    specs = read_project(place.folder, environment=environ, content=imported.translation.text.encode()).jobs
    here = {spec.name: spec for spec in read_project(place.folder, environment=environ).jobs}
    for spec in specs:
        if spec.name not in here or here[spec.name].schedule != spec.schedule:
            raise InvalidValue(
                f"{file} has no job {spec.name} on the times of the crontab",
                hint="take over in an empty folder, or write the file with `rota import crontab > rota.yaml` first",
            )


def carry_out(
    place: ProjectPaths, takeover: Takeover, *, environ: Mapping[str, str], clock: Clock, fresh: bool
) -> Journal:
    """Give the lines to rota: journal, file, crontab, jobs, in this order; a kill leaves one of the two in charge."""
    make_state(place.state)
    with _alone(place.state):
        cutoff = clock.now().replace(second=0, microsecond=0) + timedelta(minutes=1)
        journal = Journal(Phase.PREPARED, takeover.lines, takeover.tick, cutoff, clock.now())
        _write_journal(place.state, journal)
        faults.point("takeover.prepared")
        file = place.folder / FILE_NAME
        if fresh:
            _write_file(file, takeover.imported.translation.text)
        faults.point("takeover.written")
        if read_crontab(environ) != takeover.before:
            raise InvalidValue("the crontab changed meanwhile", hint="cron is still in charge; run the command again")
        write_crontab(takeover.after, environ)
        faults.point("takeover.switched")
        return finish(place, journal, environ=environ, clock=clock)


def _write_file(file: Path, text: str) -> None:
    fresh = file.with_name(f".{file.name}.{os.getpid()}.new")
    with open(fresh, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(fresh, file)
    sync(file.parent)


def finish(place: ProjectPaths, journal: Journal, *, environ: Mapping[str, str], clock: Clock) -> Journal:
    """Store the jobs after the switch: their first instants are the first that cron no longer runs."""
    now = clock.now()
    as_of = min(now, journal.cutoff - timedelta(seconds=1))
    require_trust(place.folder, environ, now=now, ask=lambda _modules: False)
    declared = load_project(place.folder, environ, state=place.state, now=now, acts=True).declared
    _apply(place, declared, clock=clock, now=as_of)
    faults.point("takeover.stored")
    done = replace(journal, phase=Phase.DONE)
    _write_journal(place.state, done)
    return done


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Keep every scheduler of the project out: a `serve` cannot start meanwhile, and a tick does nothing."""
    lock = take_serve_lock(state)
    try:
        yield
    finally:
        lock.release()


# Back to cron


def undo(place: ProjectPaths, journal: Journal, *, environ: Mapping[str, str], clock: Clock) -> str:
    """Give the lines back to cron and retire the jobs; return the new crontab. No scheduler of the project may run."""
    with _alone(place.state):
        _write_journal(place.state, replace(journal, phase=Phase.UNDOING))
        faults.point("takeover.undoing")
        after = restored(read_crontab(environ), journal)
        write_crontab(after, environ)
        faults.point("takeover.restored")
        _retire(place, environ=environ, clock=clock)
        _write_journal(place.state, replace(journal, phase=Phase.UNDONE))
    return after


def _retire(place: ProjectPaths, *, environ: Mapping[str, str], clock: Clock) -> None:
    """Retire the jobs, so that a later takeover does not make up what cron runs from now on."""
    if not is_applied(place, clock):
        return
    declared = load_project(place.folder, environ, state=place.state, now=clock.now(), acts=True).declared
    _apply(place, replace(declared, jobs=()), clock=clock, now=clock.now())


def _apply(place: ProjectPaths, declared: Declared, *, clock: Clock, now: datetime) -> None:
    store = open_place(place, clock, create=True)
    try:
        apply(store, declared, now=now, allow_empty=True)
    finally:
        store.close()


# Before a scheduler starts


def settle_takeover(place: ProjectPaths, *, environ: Mapping[str, str], clock: Clock) -> None:
    """Refuse to schedule beside active lines of cron; store the jobs if a takeover was killed behind its switch."""
    journal = read_journal(place.state)
    if journal is None:
        return
    try:
        owner, active = owner_of(read_crontab(environ), journal)
    except StateError:
        if journal.phase is not Phase.DONE:
            raise
        return  # the crontab is not readable here; at the end of the takeover it had none of the lines
    if owner is not Owner.ROTA:
        raise CronInCharge(len(active), str(place.folder), again=journal.phase is Phase.DONE)
    if journal.phase is Phase.PREPARED:
        finish(place, journal, environ=environ, clock=clock)


def standing_json(found: Standing | None) -> dict[str, object]:
    """Return where a takeover stands, as JSON shows it."""
    if found is None:
        return {"phase": None, "owner": None, "lines": [], "active": [], "since": None}
    journal = json.loads(msgspec.json.encode(found.journal))
    return {
        "phase": str(found.journal.phase),
        "owner": str(found.owner),
        "lines": journal["lines"],
        "active": list(found.active),
        "since": journal["cutoff"],
    }
