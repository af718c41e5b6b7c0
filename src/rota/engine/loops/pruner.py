"""Prune: let go of old rows and old output, in small batches that never delay a fire."""

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from msgspec import Struct

from rota import faults
from rota.engine.transactions.pause import retire_expired
from rota.log import log
from rota.model.clock import MILLISECOND, Clock, from_ms, to_ms
from rota.model.ids import created_at, is_id
from rota.model.records import Job
from rota.model.spec import Retention
from rota.model.states import FINAL, Status
from rota.rules.stats import HOUR
from rota.runners.output import RUNS, folder_of
from rota.settings import Settings
from rota.store.driver import Database, Store
from rota.store.tables import budgets, chats, jobs, notifications, questions, run_queries, runs, stats, work_items
from rota.store.tables.run_queries import id_at
from rota.store.tallies import merge_ends

EVERY = timedelta(hours=1)
ROWS_A_BATCH = 500
PIECES_A_BATCH = 50
YOUNG = timedelta(minutes=10)
REMOVED = "."
"""The prefix of a folder that is being removed."""
WINDOW_RETENTION = timedelta(days=400)
"""More than thirteen months: this month beside the same one a year ago."""
HOURS_KEPT = timedelta(days=60)
"""The retention of hourly statistics; days are kept for ever."""
HOURS_A_TICK = 200
"""The hours of the past that one tick counts."""
PRUNED_KEY = "pruned_at"


class OutputOwner(Struct, frozen=True):
    """The run or direct call that owns a folder of output."""

    job_id: str | None
    finished: bool


class Folder(Struct, frozen=True):
    """The output of one run on disk."""

    path: Path
    size: int

    @property
    def run_id(self) -> str:
        """The run it belongs to."""
        return self.path.name.removeprefix(REMOVED)


class Pruner:
    """Applies `retention:` once an hour; in a process that does not stay, one batch at a time until nothing is left."""

    def __init__(
        self, store: Store, clock: Clock, settings: Settings, *, stays: bool = True, rows: bool = True
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._stays = stays
        self._rows = rows
        """Whether it looks after the database too; the output in its folder is its own affair in any case."""

    async def round(self) -> datetime | None:
        """Delete everything older than its retention."""
        now = self._clock.now()
        if self._stays:
            await self._prune(now)
        elif not self._store.read(partial(_pruned_within, since=now - EVERY, until=now)) and not await self._prune(now):
            await self._store.submit(lambda db: db.execute("meta_set", key=PRUNED_KEY, value=str(to_ms(now))))
        return now + EVERY

    async def _prune(self, now: datetime) -> int:
        """Delete expired rows and folders; return how many."""
        if self._rows:
            await self._retire_expired(now)
            await self._count_past()
        job_list = self._store.read(jobs.all_jobs)
        if not self._rows:
            return await self._prune_output({job.id: job.spec.retention for job in job_list}, now)
        rows = await self._prune_rows(job_list, now)
        if rows and not self._stays:
            return rows
        if rows or not self._stays:
            await self._prune_groups(now)
        removed = await self._prune_output({job.id: job.spec.retention for job in job_list}, now)
        retention = self._settings.retention
        if retention.runs is not None:
            before = now - retention.runs
            await self._prune_batches(partial(_old_events, before=before), partial(_prune_events, before=before))
        await self._prune_windows(now)
        await self._prune_stats(now)
        before = now - notifications.DELIVERY_RETENTION
        prune = partial(notifications.prune, before=before, limit=ROWS_A_BATCH)
        await self._prune_batches(partial(notifications.old, before=before), prune)
        before = now - questions.QUESTION_RETENTION
        prune = partial(questions.prune, before=before, limit=ROWS_A_BATCH)
        await self._prune_batches(partial(questions.old, before=before), prune)
        await self._prune_batches(partial(chats.old, now=now), partial(chats.prune, now=now, limit=ROWS_A_BATCH))
        if retention.output is not None:
            before = now - retention.output
            prune = partial(run_queries.prune, before=before, limit=PIECES_A_BATCH)
            await self._prune_batches(partial(run_queries.old, before=before), prune)
        await self._prune_results(job_list, now)
        if rows or removed:
            log.info("old runs and output removed", rows=rows, outputs=removed)
        return rows + removed

    async def _retire_expired(self, now: datetime) -> None:
        if self._store.read(partial(jobs.expired_jobs, now=now)):
            for name in await self._store.submit(partial(retire_expired, now=now)):
                log.info("job expired", job=name)

    async def _prune_rows(self, found: Sequence[Job], now: datetime) -> int:
        rows = 0
        for job in found:
            rows += await self._prune_job(job, now)
            rows += await self._prune_direct(job.id, job.spec.retention.runs, now)
            if rows and not self._stays:
                return rows
        return rows + await self._prune_direct(None, self._settings.retention.runs, now)

    async def _prune_batches(self, is_old: Callable[[Database], bool], prune: Callable[[Database], object]) -> None:
        while self._store.read(is_old):
            await self._store.submit(prune)
            if not self._stays:
                return

    async def _prune_windows(self, now: datetime) -> None:
        before = now - WINDOW_RETENTION
        if self._store.read(partial(budgets.old_windows, before=before)):
            await self._store.submit(partial(budgets.forget_windows, before=before, limit=ROWS_A_BATCH))

    async def _prune_results(self, found: Sequence[Job], now: datetime) -> None:
        """Delete the answers of runs that are as old as the output of their jobs may be."""
        ages = {age for job in found if (age := job.spec.retention.output) is not None}
        for age in sorted(ages):
            if not self._store.read(partial(run_queries.old_results, before=now - age)):
                continue
            same = [job.id for job in found if job.spec.retention.output == age]
            prune = partial(run_queries.prune_results, before=now - age, job_ids=same, limit=PIECES_A_BATCH)
            while await self._store.submit(prune) and self._stays:
                pass

    async def _count_past(self) -> None:
        """Count what ended before the statistics, an hour of it in each transaction."""
        if self._store.read(stats.counted_from) is None:
            return
        hours = 0
        while await self._store.submit(stats.count_past):
            hours += 1
            if hours == HOURS_A_TICK and not self._stays:
                return
        log.info("statistics of the past are complete")

    async def _prune_stats(self, now: datetime) -> None:
        """Add recent ends to their cells; delete old hours once all past is counted, as days are sums of hours."""
        if self._store.read(lambda db: db.row("stat_delta_all")) is not None:
            await self._store.submit(merge_ends)
        before = to_ms(now - HOURS_KEPT)
        if self._store.read(stats.counted_from) is None and self._store.read(
            partial(stats.old, span=HOUR, before=before)
        ):
            await self._store.submit(partial(stats.prune, span=HOUR, before=before))

    async def _prune_job(self, job: Job, now: datetime) -> int:
        pruned = 0
        while True:
            ids = await self._store.submit(partial(prune_batch, job=job, now=now, limit=ROWS_A_BATCH))
            folders = [folder_of(self._settings.state, run_id) for run_id in ids]
            if ids:
                faults.point("prune.committed")
            await asyncio.to_thread(_remove, folders)
            if ids:
                faults.point("prune.folders_removed")
            pruned += len(ids)
            if not ids or not self._stays:
                return pruned

    async def _prune_direct(self, job_id: str | None, kept: timedelta | None, now: datetime) -> int:
        pruned = 0
        while kept is not None and self._store.read(partial(_old_direct, job_id=job_id, before=now - kept)):
            ids = await self._store.submit(partial(_prune_direct, job_id=job_id, before=now - kept))
            await asyncio.to_thread(_remove, [folder_of(self._settings.state, call_id) for call_id in ids])
            pruned += len(ids)
            if not self._stays:
                break
        return pruned

    async def _prune_groups(self, now: datetime) -> None:
        while ids := self._store.read(partial(_empty_groups, now=now)):
            await self._store.submit(partial(_prune_groups, ids=ids))

    async def _prune_output(self, retention: Mapping[str, Retention], now: datetime) -> int:
        folders = await asyncio.to_thread(output_folders, self._settings.state)
        known = self._store.read(partial(_known, run_ids=[folder.run_id for folder in folders]))
        doomed = choose_output(
            folders,
            known,
            retention=retention,
            default=self._settings.retention,
            total=self._settings.output_total,
            now=now,
        )
        doomed = doomed if self._stays else doomed[:ROWS_A_BATCH]
        await asyncio.to_thread(_remove, [folder.path for folder in doomed])
        return len(doomed)


def _pruned_within(db: Database, *, since: datetime, until: datetime) -> bool:
    row = db.row("meta_get", key=PRUNED_KEY)
    return row is not None and since < from_ms(int(row[0])) <= until


def _old_events(db: Database, *, before: datetime) -> bool:
    return db.row("event_oldest_before", before=id_at(before)) is not None


def _prune_events(db: Database, *, before: datetime) -> None:
    db.execute("event_prune", before=id_at(before), limit=ROWS_A_BATCH)


def _old_direct(db: Database, *, job_id: str | None, before: datetime) -> bool:
    return db.row("direct_oldest_before", job_id=job_id, before=to_ms(before)) is not None


def _prune_direct(db: Database, *, job_id: str | None, before: datetime) -> list[str]:
    rows = db.rows("prune_direct", job_id=job_id, before=to_ms(before), limit=ROWS_A_BATCH)
    ids = [call_id for call_id, _ in rows]
    budgets.forget_runs(db, ids)
    work_items.forget_runs(db, ids)
    run_queries.forget_runs(db, ids)
    stats.note_pruned(db, [(job_id, finished_at) for _, finished_at in rows])
    return ids


def _empty_groups(db: Database, *, now: datetime) -> list[str]:
    rows = db.rows("prune_groups_empty", before=id_at(now), limit=ROWS_A_BATCH)
    return [group_id for (group_id,) in rows]


def _prune_groups(db: Database, *, ids: Sequence[str]) -> int:
    return db.execute("prune_groups", ids=json.dumps(list(ids)))


def prune_batch(db: Database, *, job: Job, now: datetime, limit: int) -> list[str]:
    """Delete up to `limit` old rows of a job and move its ledger with them; return the runs."""
    jobs.job_by_id(db, job.id)  # locked: no other transaction retries or prunes one of its runs
    doomed: list[tuple[str, int]] = []
    for status in sorted(FINAL):
        doomed += _doomed_rows(db, job, status, now=now, limit=limit - len(doomed))
        if len(doomed) >= limit:
            break
    if not doomed:
        return []
    chosen = [run_id for run_id, _ in doomed]
    going = list(dict.fromkeys([*chosen, *(run_id for (run_id,) in db.rows("prune_chains", ids=json.dumps(chosen)))]))
    ids = json.dumps(going)
    budgets.forget_runs(db, going)
    work_items.forget_runs(db, going)
    run_queries.forget_runs(db, going)
    ended = db.rows("prune_ended", ids=ids)
    for status, worker_id, _ in ended:
        runs.count(db, runs.STATUSES[status], -1, worker_id=worker_id)
    stats.note_pruned(db, [(job.id, finished_at) for *_, finished_at in ended])
    db.execute("prune_runs", ids=ids)
    faults.point("prune.rows_deleted")
    newest = from_ms(max(last for _, last in doomed)) + MILLISECOND
    db.execute("job_move_ledger", id=job.id, ledger_from=to_ms(newest))
    return going


def _doomed_rows(db: Database, job: Job, status: Status, *, now: datetime, limit: int) -> list[tuple[str, int]]:
    retention = job.spec.retention
    age = retention.skipped if status is Status.SKIPPED else retention.runs
    doomed: dict[str, int] = {}
    if age is not None:
        before = to_ms(now - age)
        rows = db.rows("prune_candidates", job_id=job.id, status=runs.ENDS[status], before=before, limit=limit)
        doomed.update((run_id, last) for run_id, last in rows)
    if status is Status.SKIPPED and retention.skipped_count is not None and len(doomed) < limit:
        keep = retention.skipped_count
        rows = db.rows("prune_surplus", job_id=job.id, status=runs.ENDS[status], keep=keep, limit=limit)
        doomed.update((run_id, last) for run_id, last in rows)
    return list(doomed.items())[:limit]


def _known(db: Database, *, run_ids: Sequence[str]) -> dict[str, OutputOwner]:
    rows = db.rows("runs_known", ids=json.dumps(list(run_ids)))
    return {run_id: OutputOwner(job_id, finished_at is not None) for run_id, job_id, finished_at in rows}


def output_folders(state: Path) -> list[Folder]:
    """Return the output folders of all runs, oldest first."""
    paths = [path for path in (state / RUNS).glob("*/*") if is_id(path.name.removeprefix(REMOVED))]
    return [Folder(path, _size(path)) for path in sorted(paths, key=lambda path: path.name)]


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.lstat().st_size
        except OSError:
            continue  # removed meanwhile
    return total


def choose_output(
    folders: Sequence[Folder],
    known: Mapping[str, OutputOwner],
    *,
    retention: Mapping[str, Retention],
    default: Retention,
    total: int | None,
    now: datetime,
) -> list[Folder]:
    """Return the folders to remove: too old, without a run, or the oldest beyond the total; none of unfinished runs."""
    removable = [folder for folder in folders if _removable(folder, known, now)]
    doomed = [folder for folder in removable if _too_old(folder, known, retention=retention, default=default, now=now)]
    surplus = sum(folder.size for folder in folders) - sum(folder.size for folder in doomed)
    gone = set(doomed)
    for folder in removable:
        if total is None or surplus <= total:
            break
        if folder not in gone:
            doomed.append(folder)
            surplus -= folder.size
    return doomed


def _removable(folder: Folder, known: Mapping[str, OutputOwner], now: datetime) -> bool:
    owner = known.get(folder.run_id)
    return owner.finished if owner else now - created_at(folder.run_id) > YOUNG


def _too_old(
    folder: Folder,
    known: Mapping[str, OutputOwner],
    *,
    retention: Mapping[str, Retention],
    default: Retention,
    now: datetime,
) -> bool:
    owner = known.get(folder.run_id)
    if owner is None:
        return True
    age = (retention.get(owner.job_id, default) if owner.job_id else default).output
    return age is not None and now - created_at(folder.run_id) > age


def _remove(folders: Sequence[Path]) -> None:
    """Remove folders, each under another name: a folder that a run takes over meanwhile stays."""
    for folder in folders:
        removed = folder.with_name(f"{REMOVED}{folder.name.removeprefix(REMOVED)}")
        with suppress(OSError):
            folder.rename(removed)
            shutil.rmtree(removed, ignore_errors=True)
        with suppress(OSError):
            folder.parent.rmdir()  # the day's folder, once it is empty
