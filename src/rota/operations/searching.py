"""Looking for a text: in the output of many runs, and in what runs say about themselves. The work is bounded."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Unpack

from rota.model.errors import InvalidValue
from rota.model.ids import is_id
from rota.model.records import Run
from rota.operations.runs import Asked, chosen_of, history, show_run
from rota.runners.output import folder_of, read_output
from rota.store.driver import Database, Store
from rota.store.finding import Chosen, Said, said
from rota.store.order import runs_of

RUNS = 10_000
ROWS = 50_000
AT_ONCE = 500
BYTES = 256_000_000
LINE = 65_536
SHOWN = 300


@dataclass(frozen=True, slots=True)
class Match:
    """A line of a run's output that holds the text; long lines are cut around it."""

    run: Run
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, how many runs were looked at, and why the search ended early, if it did."""

    matches: tuple[Match, ...]
    runs: int
    stopped: str | None = None


def search_output(
    store: Store,
    state: Path,
    text: str,
    *,
    name: str | None = None,
    labels: Sequence[str] = (),
    since: datetime | None = None,
    limit: int,
) -> Found:
    """Return the lines of output that hold a text, whatever its case: of one run, of a job's runs, or of all."""
    wanted = wanted_text(text)
    if name is not None and (":" in name or is_id(name)):
        runs = [show_run(store, name).run]
    else:
        runs = history(store, job=name, labels=() if name else labels, since=since, limit=RUNS)
    found = _search(state, runs, wanted, limit=limit)
    if found.stopped is None and len(runs) == RUNS:
        return replace(found, stopped=f"only the newest {RUNS:,} runs were looked at")
    return found


def _search(state: Path, runs: Sequence[Run], wanted: str, *, limit: int) -> Found:
    matches: list[Match] = []
    left = BYTES
    for count, run in enumerate(runs, start=1):
        for number, line, size in _lines(read_output(folder_of(state, run.id))):
            left -= size
            if (cut := _around(line, wanted)) is not None and not _told(matches, run, number):
                matches.append(Match(run, number, cut))
            if len(matches) >= limit or left <= 0:
                why = f"{limit:,} lines" if left > 0 else f"{BYTES // 1_000_000} MB of output"
                return Found(tuple(matches), count, f"stopped after {why}: narrow it with --since or a job")
    return Found(tuple(matches), len(runs))


@dataclass(frozen=True, slots=True)
class Saying:
    """Runs that say a text, newest first, and the last one looked at where older ones are left; None: all were."""

    runs: tuple[Run, ...]
    last: Said | None = None


def runs_saying(store: Store, text: str, *, limit: int, among: int, **asked: Unpack[Asked]) -> Saying:
    """Return the runs among the newest ones whose error or summary holds a text, whatever its case."""

    def read(db: Database) -> Saying:
        chosen = chosen_of(db, asked)
        return Saying(()) if chosen is None else _saying(db, text.casefold(), chosen, limit=limit, among=among)

    return store.read(read)


def _saying(db: Database, wanted: str, chosen: Chosen, *, limit: int, among: int) -> Saying:
    found: list[str] = []
    last = None
    for _ in range(0, among, AT_ONCE):
        looked = said(db, limit=AT_ONCE, **chosen)
        for last in looked:
            if wanted in last.text.casefold():
                found.append(last.id)
            if len(found) == limit:
                return Saying(tuple(runs_of(db, found)), last)
        if last is None or len(looked) < AT_ONCE:
            return Saying(tuple(runs_of(db, found)))
        chosen = {**chosen, "before_id": last.id, "before_number": last.number}
    return Saying(tuple(runs_of(db, found)), last)


def history_with(store: Store, text: str | None, *, limit: int, **asked: Unpack[Asked]) -> list[Run]:
    """Return runs, newest first; with a text those of the newest 50,000 whose summary or error holds it."""
    if text is None:
        return history(store, limit=limit, **asked)
    return list(runs_saying(store, wanted_text(text), limit=limit, among=ROWS, **asked).runs)


def wanted_text(text: str) -> str:
    """Return a text to look for, whatever its case; refuse one of blanks alone."""
    if not text.strip():
        raise InvalidValue("there is no text to look for", hint="write --grep TEXT")
    return text.casefold()


def _told(matches: list[Match], run: Run, number: int) -> bool:
    return bool(matches) and matches[-1].run.id == run.id and matches[-1].line == number


def _lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, str, int]]:
    """Yield (number, text, bytes read for it); a line without an end comes in pieces that overlap."""
    number, rest = 1, b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield number, line.decode("utf-8", "replace"), len(line) + 1
            number += 1
        if len(rest) > LINE:
            yield number, rest.decode("utf-8", "replace"), len(rest)
            rest = rest[-SHOWN:]
    if rest:
        yield number, rest.decode("utf-8", "replace"), len(rest)


def _around(line: str, wanted: str) -> str | None:
    """Return the part of a line that holds the text, None when it does not."""
    at = line.casefold().find(wanted)
    if at < 0:
        return None
    start = max(0, min(at - SHOWN // 3, len(line) - SHOWN))
    cut = line[start : start + SHOWN]
    return f"{'…' if start else ''}{cut}{'…' if start + SHOWN < len(line) else ''}"
