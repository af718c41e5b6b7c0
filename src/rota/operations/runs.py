"""Queries over runs: one, many, pages, search and stretches of equal neighbours."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from msgspec import Struct
from msgspec.structs import replace

from rota.model.agents import ProviderHold
from rota.model.amounts import counted
from rota.model.errors import InvalidValue, UnknownRun
from rota.model.ids import created_at, is_id
from rota.model.notifications import Delivery
from rota.model.records import Claim, Execution, Job, Run, Worktree
from rota.model.spec import JobSpec
from rota.model.states import OLDER_WORDS, SHOWN, Reason, Status, Trigger
from rota.operations.jobs import find_job, has_labels
from rota.store.driver import Database, Store
from rota.store.tables import jobs, run_queries, runs
from rota.store.tables.run_queries import RunSelection, Said, said
from rota.text.jobs import workspace_of

if TYPE_CHECKING:
    from rota.store.tables.processes import Worker

MAX_SCANNED_RUNS = 1000
"""The number of newest runs of a job to scan for a started one."""
_NUMBER = r"(?a)-?[0-9]{1,15}"


class RunView(Struct, frozen=True):
    """A run with everything stored about it."""

    run: Run
    job: Job
    spec: JobSpec
    execution: Execution | None
    chain: tuple[Run, ...] = ()
    """The chain of automatic retries that the run belongs to, in order."""
    work: Claim | None = None
    worktree: Worktree | None = None
    """Its git worktree, while it exists."""
    hold: ProviderHold | None = None
    """The hold of its provider that delays it, or that it caused."""
    deliveries: tuple[Delivery, ...] = ()
    """Its notifications, the oldest first."""
    worker: "Worker | None" = None
    """Its worker, in a shared database."""
    result: str | None = None
    """Its whole answer, of which the summary is the beginning."""


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
    if not re.fullmatch(_NUMBER, number):
        raise UnknownRun(handle)
    if number.startswith("-"):
        return _newest(db, name, back=int(number[1:]))
    numbered = runs.run_by_number(db, find_job(db, name).id, int(number))
    if numbered is None:
        raise UnknownRun(handle)
    return numbered


def _newest(db: Database, name: str, *, back: int) -> Run:
    newest = run_queries.newest_runs(db, find_job(db, name).id, limit=1, offset=back)
    if not newest:
        raise UnknownRun(f"{name}:-{back}" if back else name, "" if back else "the job has not run yet")
    return newest[0]


def find_unfinished(db: Database, handle: str) -> Run:
    """Return the run that a handle names; for a job name its newest unfinished run, if any."""
    run = find_run(db, handle)
    if not run.status.final or not _is_job(db, handle):
        return run
    unfinished = run_queries.some_unfinished_runs(db, run.job_id, limit=1)
    return max(unfinished, key=lambda run: run.number, default=run)


def find_started(db: Database, handle: str) -> Run:
    """Return the run that a handle names; for a job name its newest started run, if any."""
    run = find_run(db, handle)
    if run.started_at is not None or not _is_job(db, handle):
        return run
    candidates = run_queries.some_unfinished_runs(db, run.job_id, limit=1)
    candidates += run_queries.newest_runs(db, run.job_id, limit=MAX_SCANNED_RUNS)
    started = (run for run in candidates if run.started_at is not None)
    return max(started, key=lambda run: run.number, default=run)


def _is_job(db: Database, handle: str) -> bool:
    return not is_id(handle) and jobs.job_by_name(db, handle) is not None


def find_any(db: Database, name: str) -> Job | Run:
    """Return the job of this name, else the run of this handle; refuse an ambiguous name."""
    job = jobs.job_by_name(db, name)
    run = runs.run_by_id(db, name.lower()) if is_id(name) else None
    if job is not None and run is not None:
        hint = f"write {run.handle}, or {name}:-0 for the newest run"
        raise InvalidValue(f"{name!r} names a job and the run {run.handle}", hint=hint)
    if job is not None:
        return job
    return find_run(db, name) if run is None else run


def show_run(store: Store, handle: str) -> RunView:
    """Return one run with its job, frozen definition and execution."""
    return store.read(lambda db: run_view(db, find_run(db, handle)))


def run_view(db: Database, run: Run) -> RunView:
    """Return a run with everything stored about it."""
    from rota.store.tables import notifications, queue, work_items
    from rota.store.tables.processes import is_shared, worker_by_id

    spec = queue.with_agent(db, jobs.version_spec(db, run.job_id, run.version), run.lane_id)
    sourced = spec.work.agent is not None and spec.work.agent.source is not None
    return RunView(
        run=run,
        job=jobs.job_by_id(db, run.job_id),
        spec=spec,
        execution=runs.execution_of_run(db, run.id),
        chain=tuple(run_queries.chain_runs(db, run.chain_id or run.id)),
        work=work_items.of_run(db, run.id) if sourced else None,
        worktree=_worktree(db, run),
        hold=_hold(db, run, spec),
        deliveries=tuple(notifications.of_run(db, run.id)),
        worker=worker_by_id(db, run.worker_id) if run.worker_id is not None and is_shared(db) else None,
        result=run_queries.result_of(db, run),
    )


def _worktree(db: Database, run: Run) -> Worktree | None:
    """Return the worktree that a run works in: its own, or that of the run that it goes on from."""
    from rota.store.tables import work_items

    workspace = workspace_of(run)
    return work_items.worktree_at(db, workspace["path"]) if workspace and workspace.get("branch") else None


def _hold(db: Database, run: Run, spec: JobSpec) -> ProviderHold | None:
    """Return the hold that a run waits for or caused, if any."""
    from rota.store.tables import queue

    hold = queue.hold_of(db, spec.work.agent.provider) if spec.work.agent is not None else None
    if hold is None or hold.until is None:
        return None
    waits = run.status is Status.QUEUED and run.waiting_for is None
    return hold if waits or hold.run_id == run.id else None


class RunFilter(TypedDict, total=False):
    """A filter of runs as users write it; `agent`: runs of jobs that use the agent now.

    A page continues before a run number of the job, else before a run identifier.
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
    """Return the stored selection of a filter; None if it matches no run."""
    job, labels, agent = asked.get("job"), asked.get("labels", ()), asked.get("agent", "")
    job_id, job_ids = find_job(db, job).id if job else None, None
    if labels or agent:
        job_ids = [job.id for job in jobs.all_jobs(db) if has_labels(job, labels) and (not agent or asks(job, agent))]
    if job_id is not None and job_ids is not None and job_id not in job_ids:
        return None
    return {
        "job_id": job_id,
        "job_ids": job_ids,
        "statuses": [word for status in asked.get("statuses", ()) for word in _stored_statuses(status)] or None,
        "reasons": [_member(Reason, word, "reason") for word in asked.get("reasons", ())] or None,
        "triggers": [_member(Trigger, word, "trigger") for word in asked.get("triggers", ())] or None,
        "since": asked.get("since"),
        "until": asked.get("until"),
        "before_id": asked.get("before_id", ""),
        "before_number": asked.get("before_number"),
    }


def _stored_statuses(word: str) -> list[str]:
    upper = word.upper()
    status = OLDER_WORDS.get(upper) or (Status(upper) if upper in SHOWN else None)
    if status is None:
        raise InvalidValue(f"no status is named {word!r}", hint=f"use one of {', '.join(SHOWN)}")
    if upper == "TIMED_OUT":
        return [f"{status}/{Reason.TIMED_OUT}"]
    return ["DISPATCHED", "RUNNING"] if status is Status.RUNNING else [status.value]


def _member(kind: type[StrEnum], word: str, noun: str) -> str:
    try:
        return kind(word.lower()).value
    except ValueError:
        raise InvalidValue(f"no {noun} is named {word!r}", hint=f"use one of {', '.join(kind)}") from None


def asks(job: Job, agent: str) -> bool:
    """Return whether a job uses this agent."""
    work = job.spec.work.agent
    return work is not None and agent in (work.agent, *(choice.agent for choice in work.choices))


MAX_SEARCHED_RUNS = 10_000
ROWS = 50_000
SAID_BATCH = 500
MAX_SEARCHED_BYTES = 256_000_000
MAX_LINE_BYTES = 65_536
SHOWN_CHARACTERS = 300


class Match(Struct, frozen=True):
    """A line of a run's output that contains the text; long lines are cut around it."""

    run: Run
    line: int
    text: str


class SearchResult(Struct, frozen=True):
    """The matches, the number of searched runs, and why the search stopped early, if it did."""

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
    """Return the lines of output that contain a text, ignoring case: of one run, of a job's runs, or of all."""
    wanted = wanted_text(text)
    if name is not None and (":" in name or is_id(name)):
        runs = [show_run(store, name).run]
    else:
        runs = history(store, job=name, labels=() if name else labels, since=since, limit=MAX_SEARCHED_RUNS)
    result = _search(state, runs, wanted, limit=limit)
    if result.stopped is None and len(runs) == MAX_SEARCHED_RUNS:
        return replace(result, stopped=f"searched only the newest {MAX_SEARCHED_RUNS:,} runs")
    return result


def _search(state: Path, runs: Sequence[Run], wanted: str, *, limit: int) -> SearchResult:
    from rota.runners.output import folder_of, read_output

    matches: dict[tuple[str, int], Match] = {}
    left = MAX_SEARCHED_BYTES
    for count, run in enumerate(runs, start=1):
        for number, line, size in _lines(read_output(folder_of(state, run.id))):
            left -= size
            if (cut := _around(line, wanted)) is not None:
                matches.setdefault((run.id, number), Match(run, number, cut))
            if len(matches) >= limit or left <= 0:
                why = counted(limit, "line") if left > 0 else f"{MAX_SEARCHED_BYTES // 1_000_000} MB of output"
                stopped = f"stopped after {why}: narrow the search with --since or a job"
                return SearchResult(tuple(matches.values()), count, stopped)
    return SearchResult(tuple(matches.values()), len(runs))


class Saying(Struct, frozen=True):
    """Runs that contain a text, newest first, and the last scanned row; None if no older rows are left."""

    runs: tuple[Run, ...]
    last: Said | None = None


def runs_saying(store: Store, text: str, *, limit: int, among: int, **asked: Unpack[RunFilter]) -> Saying:
    """Return the runs among the newest ones whose error or summary contains a text, ignoring case."""

    def read(db: Database) -> Saying:
        chosen = chosen_of(db, asked)
        return Saying(()) if chosen is None else _saying(db, text.casefold(), chosen, limit=limit, among=among)

    return store.read(read)


def _saying(db: Database, wanted: str, chosen: RunSelection, *, limit: int, among: int) -> Saying:
    from rota.store.tables.queue import runs_of

    run_ids: list[str] = []
    last = None
    for _ in range(0, among, SAID_BATCH):
        rows = said(db, limit=SAID_BATCH, **chosen)
        for last in rows:
            if wanted in last.text.casefold():
                run_ids.append(last.id)
            if len(run_ids) == limit:
                return Saying(tuple(runs_of(db, run_ids)), last)
        if last is None or len(rows) < SAID_BATCH:
            return Saying(tuple(runs_of(db, run_ids)))
        chosen = {**chosen, "before_id": last.id, "before_number": last.number}
    return Saying(tuple(runs_of(db, run_ids)), last)


def history_with(store: Store, text: str | None, *, limit: int, **asked: Unpack[RunFilter]) -> list[Run]:
    """Return runs, newest first; with a text those of the newest 50,000 whose summary or error contains it."""
    if text is None:
        return history(store, limit=limit, **asked)
    return list(runs_saying(store, wanted_text(text), limit=limit, among=ROWS, **asked).runs)


def wanted_text(text: str) -> str:
    """Return a search text in lower case; refuse an empty text."""
    if not text.strip():
        raise InvalidValue("no text to search for", hint="write --grep TEXT")
    return text.casefold()


def _lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, str, int]]:
    """Yield (number, text, size in bytes); a very long line comes in overlapping pieces."""
    number, rest = 1, b""
    for chunk in chunks:
        *complete, rest = (rest + chunk).split(b"\n")
        for line in complete:
            yield number, line.decode("utf-8", "replace"), len(line) + 1
            number += 1
        if len(rest) > MAX_LINE_BYTES:
            yield number, rest.decode("utf-8", "replace"), len(rest)
            rest = rest[-SHOWN_CHARACTERS:]
    if rest:
        yield number, rest.decode("utf-8", "replace"), len(rest)


def _around(line: str, wanted: str) -> str | None:
    """Return the part of a line that contains the text, or None."""
    at = line.casefold().find(wanted)
    if at < 0:
        return None
    start = max(0, min(at - SHOWN_CHARACTERS // 3, len(line) - SHOWN_CHARACTERS))
    cut = line[start : start + SHOWN_CHARACTERS]
    return f"{'…' if start else ''}{cut}{'…' if start + SHOWN_CHARACTERS < len(line) else ''}"


MAX_PAGE = 500
MAX_SCANNED_ROWS = 10_000
"""The number of runs that a page with a text scans; the next page continues there."""


class Query(Struct, frozen=True):
    """A filter of runs."""

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
        """A digest of the query without its times, which move when they are written as `1h`."""
        fields = [self.job, self.statuses, self.reasons, self.labels, self.triggers, self.agent, self.text]
        import hashlib

        return hashlib.sha256(json.dumps(fields).encode("utf-8", "surrogatepass")).hexdigest()[:12]


class RunsPage(Struct, frozen=True):
    """Some runs, newest first, and the cursor of the next page, if any."""

    runs: tuple[Run, ...]
    cursor: str | None
    back_to: datetime | None = None
    """Creation time of the oldest run that a text search scanned, if older runs are left."""


def page_of_runs(store: Store, query: Query, *, cursor: str | None = None, limit: int = 50) -> RunsPage:
    """Return one page of runs; new runs neither repeat nor hide others.

    A page of a text search may be short and still have a next page.
    """
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidValue(f"a page size of {limit} is not allowed", hint=f"use 1 to {MAX_PAGE}")
    asked = _asked(query, cursor)
    if query.text:
        saying = runs_saying(store, query.text, limit=limit, among=MAX_SCANNED_ROWS, **asked)
        if saying.last is None:
            return RunsPage(saying.runs, None)
        return RunsPage(saying.runs, _cursor(query, saying.last), created_at(saying.last.id))
    runs = history(store, limit=limit + 1, **asked)
    return RunsPage(tuple(runs[:limit]), _cursor(query, runs[limit - 1]) if len(runs) > limit else None)


def shorter(page: RunsPage, query: Query, *, count: int) -> RunsPage:
    """Return the first runs of a page; the next page then begins with the omitted ones."""
    if count >= len(page.runs):
        return page
    return RunsPage(page.runs[:count], _cursor(query, page.runs[count - 1]) if count else None)


def _asked(query: Query, cursor: str | None) -> RunFilter:
    names = ("job", "statuses", "reasons", "labels", "triggers", "agent", "since", "until")
    return cast("RunFilter", {name: getattr(query, name) for name in names} | _position(query, cursor))


def _cursor(query: Query, last: Run | Said) -> str:
    from base64 import urlsafe_b64encode

    position = f"{query.mark}|{last.number if query.job else last.id}"
    return urlsafe_b64encode(position.encode()).rstrip(b"=").decode()


def _position(query: Query, cursor: str | None) -> RunFilter:
    if cursor is None:
        return {}
    from base64 import b64decode

    invalid = InvalidValue(
        "the cursor is not valid", hint="pass `next` of the previous page, or start without a cursor"
    )
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        mark, _, place = b64decode(padded, altchars=b"-_", validate=True).decode("ascii").partition("|")
    except ValueError:
        raise invalid from None
    if mark != query.mark:
        raise InvalidValue("the cursor belongs to another query", hint="start again without a cursor")
    if query.job and place.isdecimal() and len(place) <= 18:
        return {"before_number": int(place)}
    if query.job or not is_id(place):
        raise invalid
    return {"before_id": place}


ROWS_A_LINE = 40


class Stretch(Struct, frozen=True):
    """Consecutive runs of one job with equal outcomes."""

    newest: Run
    oldest: Run
    runs: int
    times: int
    """The number of instants or starts that they represent."""
    usd: int = 0
    usd_told: int = 0
    """The number of runs that report their cost."""
    tokens: int = 0
    tokens_told: int = 0


class Lines(Struct, frozen=True):
    """The newest stretches, and whether there are older ones."""

    stretches: tuple[Stretch, ...]
    more: bool


def history_lines(store: Store, text: str | None, *, limit: int, **asked: Unpack[RunFilter]) -> Lines:
    """Return the newest `limit` stretches, each of them complete.

    With a text, only those of the newest 50,000 runs count whose summary or error contains it.
    """
    if text is not None:
        saying = runs_saying(store, wanted_text(text), limit=ROWS, among=ROWS, **asked)
        stretches = collapsed(saying.runs)
        return Lines(tuple(stretches[:limit]), len(stretches) > limit or saying.last is not None)

    def read(db: Database) -> Lines:
        chosen = chosen_of(db, asked)
        return Lines((), more=False) if chosen is None else _newest_lines(db, chosen, limit=limit)

    return store.read(read)


def _newest_lines(db: Database, chosen: run_queries.RunSelection, *, limit: int) -> Lines:
    """Read the newest runs; the database adds up the rest of each job's last stretch."""
    rows = limit * ROWS_A_LINE
    runs = run_queries.history(db, limit=rows, **chosen)
    stretches = collapsed(runs)
    if len(runs) < rows:
        return Lines(tuple(stretches[:limit]), len(stretches) > limit)
    last = {stretch.newest.job_id: index for index, stretch in enumerate(stretches)}
    more = len(stretches) > limit or _has_others(db, chosen, set(last))
    for index in (index for index in last.values() if index < limit):
        older = run_queries.alike_before(db, stretches[index].oldest, **chosen)
        stretches[index] = _longer(db, stretches[index], older)
        more = more or not older.complete
    return Lines(tuple(stretches[:limit]), more)


def _has_others(db: Database, chosen: run_queries.RunSelection, job_ids: set[str]) -> bool:
    """Return whether the selection includes runs of other jobs."""
    if chosen.get("job_id"):
        return False
    meant = chosen.get("job_ids")
    others = [one for one in ([job.id for job in jobs.all_jobs(db)] if meant is None else meant) if one not in job_ids]
    elsewhere: run_queries.RunSelection = {**chosen, "job_ids": others}
    return bool(others) and bool(run_queries.history(db, limit=1, **elsewhere))


def _longer(db: Database, stretch: Stretch, older: run_queries.Older) -> Stretch:
    oldest = None if older.oldest is None else runs.run_by_number(db, stretch.newest.job_id, older.oldest)
    return replace(
        stretch,
        oldest=oldest or stretch.oldest,
        runs=stretch.runs + older.runs,
        times=stretch.times + older.times,
        usd=stretch.usd + older.usd,
        usd_told=stretch.usd_told + older.usd_told,
        tokens=stretch.tokens + older.tokens,
        tokens_told=stretch.tokens_told + older.tokens_told,
    )


def collapsed(runs: Sequence[Run]) -> list[Stretch]:
    """Return runs as stretches of equal neighbours, in the order of their newest runs.

    Neighbours are consecutive runs of one job, regardless of other jobs.
    """
    stretches: list[list[Run]] = []
    newest: dict[str, list[Run]] = {}
    for run in runs:
        stretch = newest.get(run.job_id)
        if stretch is None or _alike(stretch[-1]) != _alike(run):
            stretch = newest[run.job_id] = []
            stretches.append(stretch)
        stretch.append(run)
    return [stretch_of(stretch) for stretch in stretches]


def _alike(run: Run) -> tuple[object, ...]:
    return run.status.shown, run.reason, len(run.denied_tools)


def stretch_of(runs: Sequence[Run]) -> Stretch:
    """Return runs with equal outcomes, newest first, as one stretch."""
    costs = [run.usage["usd_millionths"] for run in runs if "usd_millionths" in run.usage]
    both = [(run.usage.get("tokens_in"), run.usage.get("tokens_out")) for run in runs]
    tokens = [sum(filter(None, pair)) for pair in both if pair != (None, None)]
    times = sum(run.count or 1 for run in runs)
    return Stretch(runs[0], runs[-1], len(runs), times, sum(costs), len(costs), sum(tokens), len(tokens))
