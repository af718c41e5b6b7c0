"""`rota verify`: clean after all that may happen, and each thing that is broken on purpose is found and named."""

import ast
import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import rota
from rota.engine.membership.locks import take_serve_lock
from rota.model.clock import from_ms, to_ms
from rota.model.errors import UnknownJob
from rota.model.ids import new_id
from rota.model.spec import (
    Anchor,
    Condition,
    FirstRun,
    Gates,
    Jitter,
    Misfire,
    MisfirePolicy,
    QuietHours,
    QuietPolicy,
    Schedule,
)
from rota.operations.pause import JobSelection, pause, resume
from rota.operations.verify.instants import instants_of
from rota.operations.verify.ledger import COUNTED
from rota.operations.verify.report import Check
from rota.operations.verify.verify import verify
from rota.rules.schedule.cron import check_cron
from rota.rules.schedule.instants import next_instant
from rota.runners.output import folder_of, make_folder
from rota.testing.doubles import Script
from tests.engine.conftest import NOON, ONCE, QUEUE, REPLACE, audit, command, cron, every
from tests.engine.test_apply import put
from tests.scene import Scene, copied, drop_trigger, kept, sqlite_alone, tamper

pytestmark = pytest.mark.anyio

PLANNED = ("plan", "cursor", "instants", "cron", "blackouts")
PLANNING = {"rota.rules.pause", *(f"rota.rules.schedule.{name}" for name in PLANNED)}
FIXED = replace(every("5m"), anchor=Anchor.FIXED)


def minutes(count: int) -> timedelta:
    return timedelta(minutes=count)


# the auditor itself


@cache
def imported_by(module: str) -> set[str]:
    """Return the modules of ours that a module imports, wherever in its text."""
    path = Path(rota.__file__).parents[1] / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.exists():
        return set()  # a name inside a module
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rota"):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)} - {"rota"}  # lazy
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("rota.")}
    return found


def reached_from(module: str) -> set[str]:
    reached, todo = set(), [module]
    while todo:
        one = todo.pop()
        if one not in reached:
            reached.add(one)
            todo += imported_by(one)
    return reached


def test_the_auditor_shares_no_planning_code() -> None:
    folder = Path(rota.__file__).parent / "operations" / "verify"
    parts = [f"rota.operations.verify.{path.stem}" for path in folder.glob("*.py")]
    reached = {one for part in parts for one in reached_from(part)}
    assert "rota.store.rows" in reached
    assert reached & PLANNING == set()


def test_the_walk_over_imports_would_find_planning_code() -> None:
    assert reached_from("rota.engine.transactions.fire") >= PLANNING - {"rota.rules.pause"}


FIELDS = (
    ["*", "*/5", "0", "0,30", "5/15", "10-40/10", "59"],
    ["*", "*/2", "2", "0", "1-3", "23", "3/4", "0-23"],
    ["*", "*/2", "1", "L", "LW", "29-31", "L,15"],
    ["*", "MAR,OCT,NOV", "*/3"],
    ["*", "MON-FRI", "7", "5L", "MON#1", "6-7", "*/2", "1/2", "0L,2#5"],
)
ZONES = ("UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Havana")
CHANGES = (
    datetime(2011, 12, 29, tzinfo=UTC),  # Apia leaves out a day
    datetime(2026, 3, 7, 20, tzinfo=UTC),
    datetime(2026, 3, 28, 12, tzinfo=UTC),
    datetime(2026, 4, 4, 6, tzinfo=UTC),
    datetime(2026, 10, 24, 12, tzinfo=UTC),
    datetime(2026, 10, 31, 12, tzinfo=UTC),
)


@settings(max_examples=60)
@given(fields=st.tuples(*map(st.sampled_from, FIELDS)), zone=st.sampled_from(ZONES), start=st.sampled_from(CHANGES))
def test_auditor_and_planner_enumerate_cron_alike_around_changes_of_clocks(
    fields: tuple[str, ...], zone: str, start: datetime
) -> None:
    """Two readings of one rule, written apart: where they differ, one of them is wrong."""
    schedule = Schedule(cron=(check_cron(" ".join(fields)),), timezone=zone)
    audited = instants_of(schedule, created_at=0)
    assert audited is not None
    planned: datetime | None = start
    at: int | None = to_ms(start)
    for _ in range(40):
        assert planned is not None
        assert at is not None
        planned, at = next_instant(schedule, after=planned, created_at=start), audited.after(at)
        assert (planned and to_ms(planned)) == at


def test_a_fixed_time_is_audited_once_in_the_gap_and_once_in_the_fold() -> None:
    audited = instants_of(Schedule(cron=("30 2 * * *",), timezone="Europe/Paris"), created_at=0)
    assert audited is not None
    spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
    gap = audited.after(to_ms(spring))
    fold = audited.after(to_ms(autumn))
    assert gap is not None
    assert fold is not None
    assert from_ms(gap) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert from_ms(fold) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert audited.after(fold) == to_ms(datetime(2026, 10, 26, 1, 30, tzinfo=UTC))


# clean


async def test_every_kind_of_schedule_is_clean_after_hours_of_work(scene: Scene) -> None:
    scene.declare(
        command("cron", schedule=cron("*/10 * * * *")),
        command("two", schedule=Schedule(cron=("*/15 * * * *", "7 * * * *"))),
        command("fixed", schedule=FIXED),
        command("after", schedule=every("20m")),
        command("at", schedule=Schedule(at=NOON + minutes(30))),
        command("over", schedule=Schedule(at=NOON - minutes(30)), misfire=ONCE),
        command("jitter", schedule=cron("*/10 * * * *", jitter=Jitter(percent=50))),
        command("bounded", schedule=cron("* * * * *", start_at=NOON + minutes(5), end_at=NOON + minutes(15))),
        command("manual"),
    )
    scene.trigger("manual")
    await scene.advance("3h")
    report = audit(scene)
    assert report.violations == ()
    assert (report.checked.jobs, report.checked.spans) == (9, 9)
    assert report.checked.instants > 100
    assert report.checked.rows > 100


async def test_downtime_overlap_pause_edit_crash_and_step_leave_it_clean(scene: Scene) -> None:
    scene.processes.scripts["slow"] = Script(takes=minutes(25))
    jobs = {
        "slow": command("slow", schedule=cron("*/10 * * * *"), overlap=QUEUE),
        "new": command("new", schedule=cron("*/7 * * * *"), overlap=REPLACE),
        "grid": command("grid", schedule=FIXED, misfire=Misfire(MisfirePolicy.ALL)),
        "after": command("after", schedule=every("9m")),
    }
    put(scene, *jobs.values())
    await scene.advance("1h")
    await scene.crash()
    scene.clock.advance("5h")
    await scene.start()
    await scene.advance("30m")
    pause(scene.store, JobSelection(everything=True), until=None, reason="", now=scene.clock.now())
    await scene.advance("2h")
    resume(scene.store, JobSelection(everything=True), catch_up=True, now=scene.clock.now())
    jobs["grid"] = replace(jobs["grid"], schedule=cron("3 * * * *"))
    jobs["slow"] = replace(jobs["slow"], enabled=False)
    put(scene, *jobs.values())
    await scene.advance("1h")
    scene.clock.step(-minutes(40))
    await scene.advance("3h")
    assert audit(scene).violations == ()


@pytest.mark.parametrize(
    ("zone", "start"),
    [
        ("America/New_York", CHANGES[1]),
        ("Europe/Paris", CHANGES[2]),
        ("Australia/Lord_Howe", CHANGES[3]),
        ("Europe/Paris", CHANGES[4]),
        ("America/New_York", CHANGES[5]),
    ],
    ids=str,
)
async def test_days_in_which_clocks_change_are_clean(tmp_path: Path, zone: str, start: datetime) -> None:
    scene = Scene(tmp_path, start)
    await scene.start()
    scene.declare(
        command("fixed", schedule=cron("30 1,2 * * *", timezone=zone)),
        command("hourly", schedule=cron("0 * * * *", timezone=zone)),
        command("steps", schedule=cron("*/30 */2 * * *", timezone=zone)),
    )
    await scene.advance("2d")
    report = audit(scene)
    await scene.close()
    assert report.violations == ()
    assert report.checked.instants > 50


async def test_a_run_once_job_is_due_until_it_ran_and_no_longer(scene: Scene) -> None:
    """R-07."""
    scene.processes.conditions["ready"] = "false"
    gates = Gates(conditions=(Condition(command=("ready",)),))
    scene.declare(
        command("once", schedule=cron("*/10 * * * *", run_once=True)),
        command("gated", schedule=cron("*/10 * * * *", run_once=True), gates=gates),
    )
    await scene.advance("1h")
    scene.processes.conditions["ready"] = "pass"
    await scene.advance("1h")
    assert len(scene.history("once")) == 1
    assert scene.told("gated") == [("SKIPPED", "condition")] * 6 + [("COMPLETED", None)]
    assert audit(scene).violations == ()


async def test_a_stretch_of_more_than_ten_thousand_instants_is_counted_as_null(scene: Scene) -> None:
    """R-10."""
    scene.declare(command("tick", schedule=cron("* * * * *")))
    await scene.crash()
    scene.clock.advance(timedelta(minutes=COUNTED + 5))
    await scene.start()
    await scene.settle()
    assert scene.history("tick")[0].count is None
    assert audit(scene).violations == ()


async def test_spans_of_other_time_zone_data_are_left_out_and_said(scene: Scene) -> None:
    """R-20: what was recorded under other data cannot be enumerated, so it is never called wrong."""
    scene.declare(command("zoned", schedule=cron("0 * * * *", timezone="Europe/Paris")))
    await scene.advance("2h")
    report = audit(scene, tzdata="some other")
    assert report.clean
    assert report.checked.spans_left_out == 1
    assert "time zone data" in report.notes[0]


async def test_jobs_can_be_chosen_by_name(scene: Scene) -> None:
    scene.declare(command("a", schedule=FIXED), command("b", schedule=FIXED))
    await scene.advance("1h")
    assert audit(scene, jobs=["a"]).checked.jobs == 1
    with pytest.raises(UnknownJob, match="'c'"):
        audit(scene, jobs=["a", "c"])


SCHEDULES = st.one_of(
    st.sampled_from(["* * * * *", "*/7 * * * *", "0,30 9-17 * * *", "15 2 * * *", "0 0 L * *"]).map(cron),
    st.sampled_from(["40s", "5m", "3h"]).map(lambda text: replace(every(text), anchor=Anchor.FIXED)),
    st.sampled_from(["5m", "3h"]).map(every),
    st.integers(-100, 5000).map(lambda late: Schedule(at=NOON + minutes(late))),
)


@settings(max_examples=25)
@given(
    schedule=SCHEDULES,
    policy=st.sampled_from(MisfirePolicy),
    first_run=st.sampled_from(FirstRun),
    gaps=st.lists(st.tuples(st.integers(1, 3000), st.booleans()), max_size=5),
)
async def test_any_schedule_over_any_gaps_is_clean(
    tmp_path_factory: pytest.TempPathFactory,
    schedule: Schedule,
    policy: MisfirePolicy,
    first_run: FirstRun,
    gaps: list[tuple[int, bool]],
) -> None:
    scene = Scene(tmp_path_factory.mktemp("scene"), NOON)
    await scene.start()
    scene.declare(command("job", schedule=replace(schedule, first_run=first_run), misfire=Misfire(policy)))
    for gap, crashes in gaps:
        if crashes:
            await scene.crash()
            scene.clock.advance(minutes(gap))
            await scene.start()
            await scene.settle()
        else:
            await scene.advance(minutes(gap % 90))
    report = audit(scene, quick=True)
    await scene.close()
    assert report.violations == ()


# broken on purpose


async def worked(scene: Scene) -> None:
    """Leave rows of many kinds: runs, a counted row, a job that follows its runs, one that runs, one that waits."""
    scene.processes.scripts["slow"] = Script(takes=timedelta(days=9))
    scene.declare(
        command("tick", schedule=cron("*/10 * * * *")),
        command("after", schedule=every("10m")),
        command("slow", schedule=cron("5 12 * * *"), overlap=QUEUE),
    )
    await scene.advance("1h")
    await scene.crash()
    scene.clock.advance("2h")
    await scene.start()
    await scene.advance("30m")
    scene.trigger("slow")
    await scene.settle()
    assert audit(scene).violations == ()


async def test_the_jitter_of_the_last_instant_before_the_end_is_that_of_any_other(scene: Scene) -> None:
    """Found by simulation: the gap to the next instant counts, also where that lies beyond `end_at`."""
    ends = NOON + timedelta(days=1)
    scene.declare(command("last", schedule=cron("0 3 * * *", jitter=Jitter(percent=50), end_at=ends)))
    job = scene.job("last")
    assert job.next_for is not None
    assert job.next_at is not None
    assert job.next_at > job.next_for
    assert audit(scene).violations == ()


TICK = "(SELECT id FROM job WHERE name = 'tick')"
AFTER = "(SELECT id FROM job WHERE name = 'after')"
TICKS = "job = (SELECT seq FROM job WHERE name = 'tick')"
AFTERS = "job = (SELECT seq FROM job WHERE name = 'after')"
COUNTED_ROW = f"{TICKS} AND covers_to IS NOT NULL"
LAST_RUN = f"{TICKS} AND number = (SELECT max(number) FROM run WHERE {TICKS})"
FIRST_END = f"run = (SELECT seq FROM run WHERE {TICKS} AND number = 1)"
COUNTED_END = f"run = (SELECT seq FROM run WHERE {COUNTED_ROW})"
COLUMNS = "version, trigger, scheduled_for, created_at"
HOW = "job, status, finished_at, first_dispatched_at, started_at, worker, slot, epoch"


def again(key: str) -> list[str]:
    """Store the first run of `tick` a second time, with its end."""
    return [
        f"UPDATE job SET run_number = run_number + 1 WHERE id = {TICK}",
        f"""INSERT INTO run (id, job, number, slot_key, {COLUMNS})
        SELECT 'double', job, (SELECT run_number FROM job WHERE id = {TICK}), {key}, {COLUMNS} FROM run
        WHERE {TICKS} AND number = 1""",
        f"""INSERT INTO ended (run, {HOW}) SELECT (SELECT seq FROM run WHERE id = 'double'), {HOW} FROM ended
        WHERE {FIRST_END}""",
    ]


def gone(where: str) -> list[str]:
    """Delete runs with their ends, as if they had never been."""
    return [f"DELETE FROM ended WHERE run IN (SELECT seq FROM run WHERE {where})", f"DELETE FROM run WHERE {where}"]


SPAN = "job_id, job, spec, digest, schedules, tzdata, since"
SLOT = "state, waiting_for, first_dispatched_at, started_at, worker, slot, epoch"
LIVE = """INSERT INTO live (run, job, state, lane_id, rank, position, created_at)
    SELECT seq, job, 1, lane_id, priority, 1, created_at FROM run"""
BROKEN = {
    "a row is deleted": (Check.LEDGER, "has no row", gone(f"{TICKS} AND number = 3")),
    "the newest row is deleted": (Check.LEDGER, "has no row", gone(LAST_RUN)),
    "the counted row is deleted": (Check.LEDGER, "instants from", gone(COUNTED_ROW)),
    "a numbered fire is deleted": (Check.LEDGER, "fire #3 has no row", gone(f"{AFTERS} AND slot_key = '#3'")),
    "the newest numbered fire is deleted": (
        Check.LEDGER,
        "has no row, the job has counted",
        gone(f"{AFTERS} AND number = (SELECT run_number FROM job WHERE id = {AFTER})"),
    ),
    "a row is doubled under another key": (Check.LEDGER, "accounted for before", again("'1794745200001'")),
    "a row is doubled without its index": (Check.LEDGER, "has 2 rows", ["DROP INDEX run_fire", *again("slot_key")]),
    "a row covers no instant": (
        Check.LEDGER,
        "not an instant of its schedule",
        [f"UPDATE run SET scheduled_for = scheduled_for + 1, slot_key = '1' WHERE {TICKS} AND number = 2"],
    ),
    "a key is not its instant": (
        Check.LEDGER,
        "has the key",
        [f"UPDATE run SET slot_key = '12' WHERE {TICKS} AND number = 2"],
    ),
    "the counted row ends too early": (
        Check.LEDGER,
        "has no row",
        [f"UPDATE run SET covers_to = covers_to - 600000, count = count - 1 WHERE {COUNTED_ROW}"],
    ),
    "the counted row ends between instants": (
        Check.LEDGER,
        "covers up to",
        [f"UPDATE run SET covers_to = covers_to - 1 WHERE {COUNTED_ROW}"],
    ),
    "the counted row reaches too far": (
        Check.LEDGER,
        "accounted for before",
        [f"UPDATE run SET covers_to = covers_to + 600000, count = count + 1 WHERE {COUNTED_ROW}"],
    ),
    "the count is off by one": (Check.LEDGER, "counts", [f"UPDATE run SET count = count - 1 WHERE {COUNTED_ROW}"]),
    "the count is lost": (Check.LEDGER, "counts more than", [f"UPDATE run SET count = NULL WHERE {COUNTED_ROW}"]),
    "the cursor moves on": (
        Check.LEDGER,
        "has no row",
        [f"UPDATE job SET next_for = next_for + 600000, next_at = next_at + 600000 WHERE id = {TICK}"],
    ),
    "the cursor moves back": (
        Check.CURSOR,
        "first instant without a row",
        [f"UPDATE job SET next_for = next_for - 600000, next_at = next_at - 600000 WHERE id = {TICK}"],
    ),
    "the cursor is no instant": (
        Check.CURSOR,
        "not an instant of the schedule",
        [f"UPDATE job SET next_for = next_for + 1, next_at = next_at + 1 WHERE id = {TICK}"],
    ),
    "the cursor is lost": (
        Check.CURSOR,
        "it stands at none",
        [f"UPDATE job SET next_for = NULL, next_at = NULL WHERE id = {TICK}"],
    ),
    "it fires later than its instant": (
        Check.CURSOR,
        "outside its jitter",
        [f"UPDATE job SET next_at = next_at + 5 WHERE id = {TICK}"],
    ),
    "an interval job stalls": (
        Check.CURSOR,
        "never fire again",
        [f"UPDATE job SET next_for = NULL, next_at = NULL WHERE id = {AFTER}"],
    ),
    "a definition was changed": (
        Check.VERSION,
        "digest",
        [f"UPDATE job_version SET spec = replace(spec, '\"priority\":0', '\"priority\":7') WHERE job_id = {TICK}"],
    ),
    "a definition cannot be read": (
        Check.VERSION,
        "cannot be read",
        [f"UPDATE job_version SET spec = '[]' WHERE job_id = {TICK}"],
    ),
    "a span has no end": (
        Check.VERSION,
        "ends at None",
        [
            f"INSERT INTO job_version ({SPAN}, version) SELECT {SPAN}, 2 FROM job_version WHERE job_id = {TICK}",
            f"UPDATE job SET version = 2 WHERE id = {TICK}",
        ],
    ),
    "a run that started has lost its slot": (
        Check.EXECUTION,
        "has no execution",
        [f"UPDATE ended SET slot = NULL WHERE {FIRST_END}"],
    ),
    "a run that started has lost its process": (
        Check.EXECUTION,
        "has no execution",
        [f"UPDATE ended SET epoch = NULL WHERE {FIRST_END}"],
    ),
    "an end of another job": (
        Check.EXECUTION,
        "its execution belongs to another job",
        [f"UPDATE ended SET job = (SELECT seq FROM job WHERE name = 'after') WHERE {FIRST_END}"],
    ),
    "an unfinished run of another job": (
        Check.EXECUTION,
        "its execution belongs to another job",
        ["UPDATE live SET job = (SELECT seq FROM job WHERE name = 'after') WHERE state = 3"],
    ),
    "a skipped run that started": (
        Check.EXECUTION,
        "but it started",
        [f"UPDATE ended SET started_at = finished_at WHERE {COUNTED_END}"],
    ),
    "a completed run that never started": (
        Check.EXECUTION,
        "but never started",
        [f"UPDATE ended SET started_at = NULL WHERE {FIRST_END}"],
    ),
    "a run that started and was never dispatched": (
        Check.EXECUTION,
        "but was never dispatched",
        [f"UPDATE ended SET first_dispatched_at = NULL WHERE {FIRST_END}"],
    ),
    "the run of a group in a slot": (
        Check.EXECUTION,
        "is a group's and has an execution",
        [f"UPDATE run SET lane_id = 0 WHERE {TICKS} AND number = 1"],
    ),
    "a run without a state and without an end": (
        Check.STATE,
        "neither a state nor an end",
        [f"DELETE FROM ended WHERE {FIRST_END}"],
    ),
    "an unfinished run without its state": (Check.STATE, "neither a state nor an end", ["DELETE FROM live"]),
    "a run that ended and waits": (
        Check.STATE,
        "is unfinished as well",
        [f"{LIVE} WHERE {TICKS} AND number = 1"],
    ),
    "a reason of another status": (
        Check.STATE,
        "a reason that this status does not have",
        [f"UPDATE ended SET reason = 'exit_code' WHERE {COUNTED_END}"],
    ),
    "a skip without a reason": (
        Check.STATE,
        "must have a reason",
        [f"UPDATE ended SET reason = NULL WHERE {COUNTED_END}"],
    ),
    "a completed run with a reason": (
        Check.STATE,
        "must have a reason",
        [f"UPDATE ended SET reason = 'exit_code' WHERE {FIRST_END}"],
    ),
    "a running run without a slot": (
        Check.STATE,
        "no worker holds it",
        ["UPDATE live SET slot = NULL WHERE state = 3"],
    ),
    "a queued run with a slot": (
        Check.STATE,
        "still has a slot or a start",
        ["UPDATE live SET slot = 9 WHERE state = 0"],
    ),
    "a queued run that started": (
        Check.STATE,
        "still has a slot or a start",
        ["UPDATE live SET started_at = created_at WHERE state = 0"],
    ),
    "a running run that waits": (
        Check.STATE,
        "but waits for poll",
        ["UPDATE live SET waiting_for = 'poll' WHERE state = 3"],
    ),
    "a queued run without a place": (
        Check.STATE,
        "no place in the order",
        ["UPDATE live SET position = 0 WHERE state = 0"],
    ),
    "a scheduled run without its key": (
        Check.STATE,
        "does not fit its key",
        [f"UPDATE run SET slot_key = NULL WHERE {TICKS} AND number = 1"],
    ),
    "a run of a version that is not there": (
        Check.STATE,
        "its version 99 is not there",
        [f"UPDATE run SET version = 99 WHERE {TICKS} AND number = 1"],
    ),
    "a run dispatched after it started": (
        Check.TIME,
        "out of order",
        [f"UPDATE ended SET first_dispatched_at = started_at + 200000 WHERE {FIRST_END}"],
    ),
    "a run that ended before it started": (
        Check.TIME,
        "out of order",
        [f"UPDATE ended SET finished_at = started_at - 200000 WHERE {FIRST_END}"],
    ),
    "a number given twice": (
        Check.NUMBER,
        "given to 2 runs",
        ["DROP INDEX run_number", f"UPDATE run SET number = 2 WHERE {TICKS} AND number = 1"],
    ),
    "a number beyond the counter": (
        Check.NUMBER,
        "there is run 99",
        [f"UPDATE run SET number = 99 WHERE {LAST_RUN}"],
    ),
    "a wait that nothing ends": (
        Check.WAITING,
        "for ever",
        ["UPDATE live SET predecessor_id = 'gone' WHERE waiting_for = 'predecessor'"],
    ),
    "two runs in a slot": (
        Check.STATE,
        "holds 2 runs",
        [
            "DROP INDEX live_slot",
            f"UPDATE live SET ({SLOT}) = (SELECT {SLOT} FROM live WHERE state = 3) WHERE state = 0",
        ],
    ),
    "a counter is off by one": (
        Check.COUNTER,
        "the counter of COMPLETED runs",
        ["UPDATE counter SET count = count + 1 WHERE status = 'COMPLETED'"],
    ),
    "a counter is lost": (Check.COUNTER, " is 0, but there are ", ["DELETE FROM counter WHERE status = 'COMPLETED'"]),
    "an orphan": (
        Check.OWNER,
        "is gone",
        ["UPDATE process SET lock = 'nobody', ended_at = 0, ending = 'lost' WHERE ended_at IS NULL"],
    ),
    "a missing index": (Check.SCHEMA, "index run_fire is missing", ["DROP INDEX run_fire"]),
    "a changed index": (
        Check.SCHEMA,
        "index run_fire is not as rota makes it",
        ["DROP INDEX run_fire", "CREATE INDEX run_fire ON run (job, slot_key)"],
    ),
    "a foreign index": (Check.SCHEMA, "index mine is not rota's", ["CREATE INDEX mine ON ended (error)"]),
    "a reference to nothing": (
        Check.INTEGRITY,
        "without its",
        [f"DELETE FROM job_version WHERE job_id = {TICK}"],
    ),
    "an unfinished run of no process": (
        Check.INTEGRITY,
        "without its",
        ["UPDATE live SET epoch = 999999 WHERE state = 3"],
    ),
    "an unfinished run of no worker": (
        Check.INTEGRITY,
        "without its",
        ["UPDATE live SET worker = 999999 WHERE state = 3"],
    ),
    "an end of no process": (Check.INTEGRITY, "without its", [f"UPDATE ended SET epoch = 999999 WHERE {FIRST_END}"]),
    "an end of no worker": (Check.INTEGRITY, "without its", [f"UPDATE ended SET worker = 999999 WHERE {FIRST_END}"]),
    "an end of no run": (
        Check.INTEGRITY,
        "without its",
        [f"DELETE FROM run WHERE {TICKS} AND number = 1"],
    ),
    "a state of no run": (
        Check.INTEGRITY,
        "without its",
        ["DELETE FROM run WHERE seq = (SELECT run FROM live WHERE state = 3)"],
    ),
}


async def make_worked(folder: Path) -> Scene:
    scene = Scene(folder, NOON)
    await scene.start()
    await worked(scene)
    return scene


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A scene that worked once for all tests here; its process lock is held, so its runs have an owner."""
    scene = asyncio.run(make_worked(tmp_path_factory.mktemp("original")))
    with kept(scene):
        yield scene
    scene.functions.close()
    scene.store.close()


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_broken_is_found_and_named(original: Scene, tmp_path: Path, broken: str) -> None:
    check, words, statements = BROKEN[broken]
    with copied(original, tmp_path, *statements) as store:
        report = verify(store, original.settings.state, now=original.clock.now(), alive=lambda _process: False)
    assert not report.clean
    told = [violation.text for violation in report.violations if violation.check is check]
    assert any(words in text for text in told), report.violations


@sqlite_alone
async def test_a_foreign_table_is_found_where_the_file_is_rotas_alone(unaudited: Scene) -> None:
    tamper(unaudited, "CREATE TABLE mine (a)")
    assert [violation.text for violation in audit(unaudited).violations] == ["the table mine is not rota's"]


async def test_a_missing_trigger_is_found(unaudited: Scene) -> None:
    drop_trigger(unaudited, "ended_is_final", table="ended")
    assert [violation.text for violation in audit(unaudited).violations] == ["the trigger ended_is_final is missing"]


async def test_a_violation_names_job_and_run(unaudited: Scene) -> None:
    await worked(unaudited)
    tamper(unaudited, f"UPDATE run SET count = count - 1 WHERE {COUNTED_ROW}")
    found, *others = audit(unaudited).violations
    assert {other.check for other in others} == {Check.STATS}  # of the hour and the day
    assert (found.job, found.where) == ("tick", f"tick:{unaudited.history('tick')[6].number}")
    assert found.text.startswith("counts ")


async def test_a_paused_job_that_lost_its_held_cursor_is_found(unaudited: Scene) -> None:
    """R-20."""
    await worked(unaudited)
    pause(unaudited.store, JobSelection(("tick",)), until=None, reason="", now=unaudited.clock.now())
    assert audit(unaudited).clean
    tamper(unaudited, f"UPDATE job SET held_for = NULL WHERE id = {TICK}")
    assert [violation.check for violation in audit(unaudited).violations] == [Check.CURSOR]


async def test_a_run_once_job_that_fires_again_is_found(unaudited: Scene) -> None:
    """R-07."""
    unaudited.declare(command("tick", schedule=cron("*/10 * * * *")))
    await unaudited.advance("1h")
    text = """replace(spec, '"run_once":false', '"run_once":true')"""
    tamper(unaudited, f"UPDATE job_version SET spec = {text}")
    told = [violation.text for violation in audit(unaudited).violations]
    assert any("was to run once and had run" in text for text in told)


# owners and processes


async def test_a_run_whose_keeper_outlived_the_scheduler_is_a_note(unaudited: Scene) -> None:
    """R-23: it is recovered at the next start."""
    await worked(unaudited)
    await unaudited.crash()
    report = audit(unaudited)
    assert report.clean
    assert [note for note in report.notes if note.startswith("slow:1 still runs under its keeper")]
    await unaudited.start()
    assert [note for note in audit(unaudited).notes if note.startswith("slow:1")] == []


async def test_an_outcome_that_nobody_has_read_is_a_note(unaudited: Scene) -> None:
    """R-23."""
    await worked(unaudited)
    await unaudited.crash()
    (run_id,) = unaudited.processes.living
    folder = make_folder(folder_of(unaudited.settings.state, run_id))
    (folder / "outcome.json").write_text(json.dumps({"why": "exited", "exit_code": 0}))
    unaudited.processes.living.clear()
    report = audit(unaudited)
    assert report.clean, report.violations
    assert [note for note in report.notes if note.startswith("slow:1 has ended")]
    await unaudited.start()


async def test_a_run_of_a_dead_process_that_the_next_start_recovers_is_a_note(unaudited: Scene) -> None:
    """R-23."""
    await worked(unaudited)
    await unaudited.crash()
    unaudited.processes.living.clear()
    report = audit(unaudited)
    assert report.clean, report.violations
    assert "slow:1 is RUNNING, and the process that held it is gone: recovered at the next start" in report.notes
    await unaudited.start()
    assert [note for note in audit(unaudited).notes if note.startswith("slow:1")] == []


@pytest.mark.parametrize("served", [True, False], ids=["beside a scheduler", "of an end that was recorded"])
async def test_a_run_of_a_dead_process_that_no_start_recovers_is_an_orphan(unaudited: Scene, served: bool) -> None:
    await worked(unaudited)
    await unaudited.crash()
    unaudited.processes.living.clear()
    with contextlib.ExitStack() as stack:
        if served:
            lock = take_serve_lock(unaudited.settings.state)
            stack.callback(lock.release)
        else:
            tamper(unaudited, "UPDATE process SET ended_at = started_at, ending = 'lost' WHERE ended_at IS NULL")
        (found,) = audit(unaudited).violations
    assert (found.check, found.where) == (Check.OWNER, "slow:1")
    await unaudited.start()


def tagged_process(scene: Scene, run_id: str) -> "subprocess.Popen[bytes]":
    folder = folder_of(scene.settings.state, run_id)
    environment = {**os.environ, "ROTA_RUN_ID": run_id, "ROTA_RESULT_FILE": str(folder / "result.json")}
    code = "import sys; print(flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize("known", [True, False])
async def test_a_process_that_outlived_its_run_is_found(unaudited: Scene, known: bool) -> None:
    await worked(unaudited)
    run_id = unaudited.history("tick")[0].id if known else new_id(unaudited.clock.now())
    with tagged_process(unaudited, run_id) as process:
        (found,) = audit(unaudited).violations
        process.kill()
    assert found.check is Check.PROCESS
    assert f"process {process.pid}" in found.text
    assert found.run == ("tick:1" if known else None)


async def test_the_process_of_a_running_run_is_as_it_should_be(scene: Scene) -> None:
    await worked(scene)
    with tagged_process(scene, scene.history("slow")[0].id) as process:
        report = audit(scene)
        process.kill()
    assert report.violations == ()
    assert report.checked.processes >= 1


async def test_a_recovery_that_took_its_time_is_no_clock_that_was_set_back(scene: Scene) -> None:
    """R-26: the end of a lost process is written by the next one, long after that one began."""
    await worked(scene)
    await scene.crash()
    await scene.start()
    tamper(scene, "UPDATE process SET ended_at = started_at + 3600000 WHERE ending = 'lost'")
    assert [note for note in audit(scene).notes if "set back" in note] == []


async def test_a_schedule_that_was_over_before_the_clock_was_set_back_has_not_stalled(scene: Scene) -> None:
    """R-26: its next instant would lie beyond its end, whatever the wall says now."""
    scene.declare(command("tick", schedule=every("10m", end_at=NOON + timedelta(minutes=25))))
    await scene.advance("40m")
    scene.clock.step(-timedelta(minutes=35))
    await scene.settle()
    assert scene.job("tick").next_for is None
    assert audit(scene).violations == ()


async def test_a_schedule_that_was_over_when_it_was_made_has_not_stalled_either(scene: Scene) -> None:
    """R-26: found by simulation; no run tells of it, only the definition does."""
    put(
        scene,
        command("tick", schedule=every("4h", end_at=NOON + timedelta(hours=2), first_run=FirstRun.AFTER_INTERVAL)),
    )
    assert scene.job("tick").next_for is None
    scene.clock.step(-timedelta(days=1))
    await scene.settle()
    assert audit(scene).violations == ()


@pytest.mark.parametrize(
    "lull",
    [{"excluded": ("2026-11-15",)}, {"quiet": QuietHours(("11:00-18:00",), policy=QuietPolicy.SKIP)}],
    ids=["excluded", "quiet"],
)
async def test_a_schedule_whose_end_comes_before_a_lull_is_over_has_not_stalled(scene: Scene, lull: dict) -> None:
    """R-17: after the lull one more interval leads beyond its end."""
    scene.declare(command("tick", schedule=every("10m", end_at=NOON + timedelta(hours=6), **lull)))
    await scene.advance("7h")
    assert scene.job("tick").next_for is None
    scene.clock.step(-timedelta(hours=5))
    await scene.settle()
    assert audit(scene).violations == ()
