"""Queries over runs: one, many, pages and search."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypedDict, Unpack

from rota.model.agents import ProviderHold
from rota.model.amounts import counted
from rota.model.errors import InvalidValue, UnknownRun
from rota.model.ids import created_at, is_id
from rota.model.notifications import Delivery
from rota.model.records import Claim, Execution, Job, Run, Worktree
from rota.model.spec import JobSpec
from rota.model.states import OLDER_WORDS, SHOWN, Reason, Status, Trigger
from rota.operations.jobs import find_job, has_labels
from rota.runners.output import folder_of, read_output
from rota.store.driver import Database, Store
from rota.store.tables import jobs, notifications, queue, run_queries, runs, work_items
from rota.store.tables.processes import Worker, is_shared, worker_by_id
from rota.store.tables.queue import runs_of
from rota.store.tables.run_queries import RunSelection, Said, said
from rota.store.tables.work_items import worktree_of_run
from rota.text.jobs import workspace_of

LOOKED_THROUGH = 1000
"""So many newest runs of a job are looked through for one that started."""
_NUMBER = re.compile(r"-?[0-9]{1,15}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RunView:
    """A run with everything stored about it."""

    run: Run
    job: Job
    spec: JobSpec
    execution: Execution | None
    chain: tuple[Run, ...] = ()
    """The run and its automatic retries, or those before it, the first one first (DEC-001)."""
    work: Claim | None = None
    """What it asked of its work source (003)."""
    worktree: Worktree | None = None
    """The git worktree of its own, while there is one."""
    hold: ProviderHold | None = None
    """That of its provider, which keeps it from starting, or which it caused itself (section 8)."""
    deliveries: tuple[Delivery, ...] = ()
    """What was told of it to whom, the oldest first (DEC-009)."""
    worker: Worker | None = None
    """Who has it or had it, where there are many."""


def find_run(db: Database, handle: str) -> Run:
    """Return the run that a handle names: `backup:112`, `backup:-1`, `backup` (its newest), or an identifier."""
    if is_id(handle):
        run = runs.run_by_id(db, handle.lower())
        if run is None:
            raise UnknownRun(handle)
        return run
    name, colon, number = handle.rpartition(":")
    if not colon:
        return _newest(db, handle, back=0)
    if not _NUMBER.fullmatch(number):
        raise UnknownRun(handle)
    if number.startswith("-"):
        return _newest(db, name, back=int(number[1:]))
    found = runs.run_by_number(db, find_job(db, name).id, int(number))
    if found is None:
        raise UnknownRun(handle)
    return found


def _newest(db: Database, name: str, *, back: int) -> Run:
    found = run_queries.newest_runs(db, find_job(db, name).id, limit=1, offset=back)
    if not found:
        raise UnknownRun(f"{name}:-{back}" if back else name, "" if back else "the job has not run yet")
    return found[0]


def find_unfinished(db: Database, handle: str) -> Run:
    """Return the run that a handle names; of a job alone its newest that is not finished, where there is one."""
    run = find_run(db, handle)
    if not run.status.final or not _is_job(db, handle):
        return run
    found = run_queries.some_unfinished_runs(db, run.job_id, limit=1)
    return max(found, key=lambda one: one.number, default=run)


def find_started(db: Database, handle: str) -> Run:
    """Return the run that a handle names; of a job alone its newest that has started, where there is one."""
    run = find_run(db, handle)
    if run.started_at is not None or not _is_job(db, handle):
        return run
    running = [one for one in run_queries.some_unfinished_runs(db, run.job_id, limit=1) if one.started_at is not None]
    newest = [
        one for one in run_queries.newest_runs(db, run.job_id, limit=LOOKED_THROUGH) if one.started_at is not None
    ]
    return max(running + newest, key=lambda one: one.number, default=run)


def _is_job(db: Database, handle: str) -> bool:
    return not is_id(handle) and jobs.job_by_name(db, handle) is not None


def find_any(db: Database, name: str) -> Job | Run:
    """Return the job of this name, else the run of this handle; a name that means both is refused."""
    job = jobs.job_by_name(db, name)
    run = runs.run_by_id(db, name.lower()) if is_id(name) else None
    if job is not None and run is not None:
        raise InvalidValue(
            f"{name!r} names a job and the run {run.handle}",
            hint=f"write {run.handle}, or {name}:-0 for the newest run",
        )
    if job is not None:
        return job
    return find_run(db, name) if run is None else run


def show_run(store: Store, handle: str) -> RunView:
    """Return one run with its job, frozen definition and execution."""
    return store.read(lambda db: run_view(db, find_run(db, handle)))


def run_view(db: Database, run: Run) -> RunView:
    """Return a run with everything stored about it."""
    spec = jobs.version_spec(db, run.job_id, run.version)
    return RunView(
        run=run,
        job=jobs.job_by_id(db, run.job_id),
        spec=spec,
        execution=runs.execution_of_run(db, run.id),
        chain=tuple(run_queries.chain_runs(db, run.chain_id or run.id)),
        work=_claim(db, run, spec),
        worktree=worktree_of_run(db, run.id) if workspace_of(run) else None,
        hold=_hold(db, run, spec),
        deliveries=tuple(notifications.of_run(db, run.id)),
        worker=worker_by_id(db, run.worker_id) if run.worker_id is not None and is_shared(db) else None,
    )


def _claim(db: Database, run: Run, spec: JobSpec) -> Claim | None:
    sourced = spec.work.agent is not None and spec.work.agent.source is not None
    return work_items.of_run(db, run.id) if sourced else None


def _hold(db: Database, run: Run, spec: JobSpec) -> ProviderHold | None:
    """Return the hold that a run waits for, or that began with it; None where it has to do with none."""
    hold = queue.hold_of(db, spec.work.agent.provider) if spec.work.agent is not None else None
    if hold is None or hold.until is None:
        return None
    waits = run.status is Status.QUEUED and run.waiting_for is None
    return hold if waits or hold.run_id == run.id else None


class RunFilter(TypedDict, total=False):
    """Which runs somebody asks for, in words; `agent`: those of jobs that ask it now.

    A page goes on before a number of the job, else before a run.
    """

    job: str | None
    statuses: Sequence[str]
    reasons: Sequence[str]
    labels: Sequence[str]
    triggers: Sequence[str]
    agent: str
    since: datetime | None
    until: datetime | None
    before_id: str
    before_number: int | None


def history(store: Store, *, limit: int = 50, **asked: Unpack[RunFilter]) -> list[Run]:
    """Return past and present runs, newest first."""

    def read(db: Database) -> list[Run]:
        chosen = chosen_of(db, asked)
        return [] if chosen is None else run_queries.history(db, limit=limit, **chosen)

    return store.read(read)


def chosen_of(db: Database, asked: RunFilter) -> run_queries.RunSelection | None:
    """Return which runs are meant; None where no run can be."""
    job, labels, agent = asked.get("job"), asked.get("labels", ()), asked.get("agent", "")
    job_id = find_job(db, job).id if job else None
    job_ids = _fitting(db, labels, agent) if labels or agent else None
    if job_id is not None and job_ids is not None and job_id not in job_ids:
        return None
    return {
        "job_id": job_id,
        "job_ids": job_ids,
        "statuses": [word for status in asked.get("statuses", ()) for word in _stored_statuses(status)] or None,
        "reasons": [_reason(reason) for reason in asked.get("reasons", ())] or None,
        "triggers": [_trigger_word(word) for word in asked.get("triggers", ())] or None,
        "since": asked.get("since"),
        "until": asked.get("until"),
        "before_id": asked.get("before_id", ""),
        "before_number": asked.get("before_number"),
    }


def _fitting(db: Database, labels: Sequence[str], agent: str) -> list[str]:
    return [one.id for one in jobs.all_jobs(db) if has_labels(one, labels) and (not agent or asks(one, agent))]


def _stored_statuses(word: str) -> list[str]:
    upper = word.upper()
    status = OLDER_WORDS.get(upper) or (Status(upper) if upper in SHOWN else None)
    if status is None:
        raise InvalidValue(f"no status is named {word!r}", hint=f"use one of {', '.join(SHOWN)}")
    if upper == "TIMED_OUT":
        return [f"{status}/{Reason.TIMED_OUT}"]
    return ["DISPATCHED", "RUNNING"] if status is Status.RUNNING else [status.value]


def _reason(word: str) -> str:
    try:
        return Reason(word.lower()).value
    except ValueError:
        raise InvalidValue(f"no reason is named {word!r}", hint=f"use one of {', '.join(Reason)}") from None


def _trigger_word(word: str) -> str:
    try:
        return Trigger(word.lower()).value
    except ValueError:
        raise InvalidValue(f"no trigger is named {word!r}", hint=f"use one of {', '.join(Trigger)}") from None


def asks(job: Job, agent: str) -> bool:
    """Tell whether a job asks this agent."""
    return job.spec.work.agent is not None and job.spec.work.agent.agent == agent


RUNS = 10_000
ROWS = 50_000
AT_ONCE = 500
BYTES = 256_000_000
LINE = 65_536
SHOWN_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Match:
    """A line of a run's output that holds the text; long lines are cut around it."""

    run: Run
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class SearchResult:
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
) -> SearchResult:
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


def _search(state: Path, runs: Sequence[Run], wanted: str, *, limit: int) -> SearchResult:
    matches: list[Match] = []
    left = BYTES
    for count, run in enumerate(runs, start=1):
        for number, line, size in _lines(read_output(folder_of(state, run.id))):
            left -= size
            if (cut := _around(line, wanted)) is not None and not _told(matches, run, number):
                matches.append(Match(run, number, cut))
            if len(matches) >= limit or left <= 0:
                why = counted(limit, "line") if left > 0 else f"{BYTES // 1_000_000} MB of output"
                return SearchResult(tuple(matches), count, f"stopped after {why}: narrow it with --since or a job")
    return SearchResult(tuple(matches), len(runs))


@dataclass(frozen=True, slots=True)
class Saying:
    """Runs that say a text, newest first, and the last one looked at where older ones are left; None: all were."""

    runs: tuple[Run, ...]
    last: Said | None = None


def runs_saying(store: Store, text: str, *, limit: int, among: int, **asked: Unpack[RunFilter]) -> Saying:
    """Return the runs among the newest ones whose error or summary holds a text, whatever its case."""

    def read(db: Database) -> Saying:
        chosen = chosen_of(db, asked)
        return Saying(()) if chosen is None else _saying(db, text.casefold(), chosen, limit=limit, among=among)

    return store.read(read)


def _saying(db: Database, wanted: str, chosen: RunSelection, *, limit: int, among: int) -> Saying:
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


def history_with(store: Store, text: str | None, *, limit: int, **asked: Unpack[RunFilter]) -> list[Run]:
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
            rest = rest[-SHOWN_CHARACTERS:]
    if rest:
        yield number, rest.decode("utf-8", "replace"), len(rest)


def _around(line: str, wanted: str) -> str | None:
    """Return the part of a line that holds the text, None when it does not."""
    at = line.casefold().find(wanted)
    if at < 0:
        return None
    start = max(0, min(at - SHOWN_CHARACTERS // 3, len(line) - SHOWN_CHARACTERS))
    cut = line[start : start + SHOWN_CHARACTERS]
    return f"{'…' if start else ''}{cut}{'…' if start + SHOWN_CHARACTERS < len(line) else ''}"


LARGEST = 500
LOOKED_AT = 10_000
"""How many runs a page with a text is looked for in; the next page goes on from there."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which runs are meant."""

    job: str | None = None
    statuses: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    agent: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def mark(self) -> str:
        """A short text that differs for other queries; their ends move with the time where they are written `1h`."""
        told = json.dumps([self.job, self.statuses, self.reasons, self.labels, self.triggers, self.agent, self.text])
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class RunsPage:
    """Some runs, newest first, and where the rest begins; None: there is no rest."""

    runs: tuple[Run, ...]
    cursor: str | None
    back_to: datetime | None = None
    """When the oldest run was made that a text was looked for in, where older ones are left."""


def page_of_runs(store: Store, query: Query, *, cursor: str | None = None, limit: int = 50) -> RunsPage:
    """Return one page of runs; a run that is made meanwhile neither repeats nor hides another."""
    if not 1 <= limit <= LARGEST:
        raise InvalidValue(f"a page of {limit} is not possible", hint=f"ask for 1 to {LARGEST}")
    if query.text:
        return _page_with(store, query, cursor=cursor, limit=limit)
    found = history(store, limit=limit + 1, **_asked(query, cursor))
    more = len(found) > limit
    return RunsPage(tuple(found[:limit]), _cursor(query, found[limit - 1]) if more else None)


def shorter(page: RunsPage, query: Query, *, count: int) -> RunsPage:
    """Return the first runs of a page; the next page then begins with those that are left out."""
    if count >= len(page.runs):
        return page
    return RunsPage(page.runs[:count], _cursor(query, page.runs[count - 1]) if count else None)


def _page_with(store: Store, query: Query, *, cursor: str | None, limit: int) -> RunsPage:
    """Return the runs among the next ones that hold the text; the page may be short, and then says where it goes on."""
    found = runs_saying(store, query.text, limit=limit, among=LOOKED_AT, **_asked(query, cursor))
    if found.last is None:
        return RunsPage(found.runs, None)
    return RunsPage(found.runs, _cursor(query, found.last), created_at(found.last.id))


def _asked(query: Query, cursor: str | None) -> RunFilter:
    return {
        "job": query.job,
        "statuses": query.statuses,
        "reasons": query.reasons,
        "labels": query.labels,
        "triggers": query.triggers,
        "agent": query.agent,
        "since": query.since,
        "until": query.until,
        **_position(query, cursor),
    }


def _cursor(query: Query, last: Run | Said) -> str:
    told = f"{query.mark}|{last.number if query.job else last.id}"
    return base64.urlsafe_b64encode(told.encode()).rstrip(b"=").decode()


def _position(query: Query, cursor: str | None) -> RunFilter:
    if cursor is None:
        return {}
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        mark, _, place = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii").partition("|")
    except ValueError:
        raise _wrong() from None
    if mark != query.mark:
        raise InvalidValue("the cursor belongs to another query", hint="begin again without a cursor")
    if query.job:
        if not place.isdecimal() or len(place) > 18:
            raise _wrong()
        return {"before_number": int(place)}
    if not is_id(place):
        raise _wrong()
    return {"before_id": place}


def _wrong() -> InvalidValue:
    return InvalidValue("that is no cursor", hint="pass `next` of the page before, or begin without one")
