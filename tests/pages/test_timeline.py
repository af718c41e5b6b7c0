"""The timeline: which jobs are drawn, what becomes one band, where bars lie."""

from datetime import UTC, datetime, timedelta

from rota.http.pages.overview import drawing_of
from rota.operations.status.overview import Bar, Lane, Timeline, draw
from rota.rules.schedule.blackouts import QuietRun
from rota.store.driver import Database
from rota.store.tables import jobs
from tests.pages.conftest import Site
from tests.pages.test_overview import DONE, FAILED, ran

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def line(*lanes: Lane) -> Timeline:
    return Timeline(NOON - 10 * HOUR, NOON + 10 * HOUR, NOON, lanes, len(lanes))


def drawn(site: Site, **wanted: int) -> Timeline:
    def read(db: Database) -> Timeline:
        return draw(db, jobs.all_jobs(db), now=site.clock.now(), span=12 * HOUR, **wanted)

    return site.store.read(read)


def test_a_bar_lies_where_its_time_is() -> None:
    lane = Lane("a", (Bar("completed", NOON - 5 * HOUR, NOON - 4 * HOUR, 1, 7),), (), band=False, quiet=())
    (row,) = drawing_of(line(lane), zone="UTC", span="12h").rows
    (stroke,) = row.strokes
    assert (stroke.x, stroke.width, stroke.run) == ("250", "50", "a:7")
    assert stroke.title == "a:7 completed, 07:00:00, took 1 h"


def test_a_short_run_is_wide_enough_to_be_seen_and_never_leaves_the_line() -> None:
    edges = (NOON - 12 * HOUR, NOON + 10 * HOUR)
    lane = Lane("a", tuple(Bar("failed", at, at, 1, 1) for at in edges), (), band=False, quiet=())
    (row,) = drawing_of(line(lane), zone="UTC", span="12h").rows
    assert [(one.x, one.width) for one in row.strokes] == [("0", "3"), ("997", "3")]


def test_fires_are_one_path_and_many_of_them_a_band() -> None:
    fires = tuple(NOON + step * HOUR for step in range(1, 7))
    few = Lane("a", (), fires, band=False, quiet=())
    many = Lane("b", (), fires, band=True, quiet=())
    first, second = drawing_of(line(few, many), zone="UTC", span="12h").rows
    assert first.ticks == "M550 4v12M600 4v12M650 4v12M700 4v12M750 4v12M800 4v12"
    assert first.ahead == "next in 1 h: 13:00, 14:00, 15:00, 16:00 and 2 more"
    assert second.band is not None
    assert (second.band.x, second.band.width, second.ticks) == ("550", "450", "")
    assert second.ahead.endswith("and on")


def test_quiet_hours_and_pauses_are_told() -> None:
    quiet = (QuietRun(NOON + HOUR, NOON + 2 * HOUR),)
    (row,) = drawing_of(line(Lane("a", (), (), band=False, quiet=quiet, paused=True)), zone="UTC", span="12h").rows
    assert row.quiet[0].title == "quiet hours, 13:00 to 14:00"
    assert row.summary == "no runs; paused"


def test_jobs_that_neither_ran_nor_will_are_left_out(site: Site) -> None:
    assert drawn(site).lanes == ()
    ran(site, "other")
    assert [lane.job for lane in drawn(site).lanes] == ["other"]


def test_where_there_are_too_many_those_that_matter_come_first(site: Site) -> None:
    ran(site, "other")
    site.clock.advance(HOUR)
    ran(site, "hello")
    found = drawn(site, lanes=1)
    assert ([lane.job for lane in found.lanes], found.jobs) == (["hello"], 2)

    def read(db: Database) -> Timeline:
        return draw(db, jobs.all_jobs(db), now=site.clock.now(), span=12 * HOUR, first={"other"}, lanes=1)

    assert [lane.job for lane in site.store.read(read).lanes] == ["other"]


def test_many_runs_are_one_band_in_which_failures_still_show(site: Site) -> None:
    outcomes = [FAILED if number == 15 else DONE for number in range(24)]
    for outcome in outcomes:
        ran(site, "other", outcome)
        site.clock.advance(MINUTE)
    lane = next(lane for lane in drawn(site, bars=10).lanes if lane.job == "other")
    assert [(bar.kind, bar.count, bar.number) for bar in lane.bars] == [("completed", 23, None), ("failed", 1, None)]


def test_counts_come_from_an_index_alone(site: Site) -> None:
    """The page must stay fast with a million runs: no query of it may read the whole table."""
    values = {"job_id": "x", "status": 5, "since": 0, "width": 1, "limit": 9, "newest": 10}
    for name in ("timeline_counts", "timeline_runs", "jobs_newest_run", "jobs_striking"):
        plan = site.store.read(lambda db, name=name: plan_of(db, name, values))
        reads = [step for step in plan if {"run", "ended", "live"} & set(step.split())]
        assert reads, (name, plan)
        assert not [step for step in reads if step.startswith("SCAN")], (name, plan)


def plan_of(db: Database, name: str, values: dict[str, object]) -> list[str]:
    statement = db._queries[name]  # type: ignore[attr-defined]
    used = {key: value for key, value in values.items() if f":{key}" in statement}
    rows = db._connection.execute(f"EXPLAIN QUERY PLAN {statement}", used)  # type: ignore[attr-defined]
    return [str(row[3]) for row in rows]
