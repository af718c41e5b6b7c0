"""`rota.testing.scheduler`: hours and clock changes in a moment, for the tests of programs that embed rota."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rota
from rota.model.errors import InvalidInstant, JobProblems
from rota.model.states import Status


def test_a_day_passes_in_a_moment_and_the_gap_of_the_clocks_is_seen() -> None:
    with rota.testing.scheduler(now="2026-03-28T00:00Z", timezone="Europe/Berlin") as played:

        @played.job("digest", cron="30 2 * * *")
        def digest(context: rota.JobContext) -> str:
            return f"for {context.run.scheduled_for:%d}"

        played.advance("49h")
        assert played.history("digest") == [
            ("2026-03-28T02:30:00+01:00", "COMPLETED", None),
            ("2026-03-29T03:00:00+02:00", "COMPLETED", None),
            ("2026-03-30T02:30:00+02:00", "COMPLETED", None),
        ]
        assert [run.result_summary for run in played.runs("digest")] == ["for 28", "for 29", "for 30"]
        assert played.now == datetime(2026, 3, 30, 1, tzinfo=UTC)


def test_what_another_scheduler_declares_is_played_and_that_one_is_left_alone(tmp_path: Path) -> None:
    mine = rota.Scheduler(tmp_path / "state", timezone="Europe/Berlin")
    looks = []

    @mine.condition("open")
    async def is_open(context: rota.JobContext) -> bool:
        looks.append(context.run.scheduled_for.hour)
        return len(looks) > 1

    @mine.job("work", cron="0 8,9 * * *", conditions=["open"])
    async def work() -> str:
        return "done"

    with rota.testing.scheduler(mine, now="2026-11-16T00:00Z") as played:
        played.advance(timedelta(hours=10))
        assert [(told.status, told.reason) for told in played.history("work")] == [
            ("SKIPPED", "condition"),
            ("COMPLETED", None),
        ]
    assert len(looks) == 2
    assert not mine.is_running
    assert not (tmp_path / "state").exists()


def test_commands_follow_their_script_and_nothing_is_started() -> None:
    with rota.testing.scheduler(now="2026-11-16T00:00Z") as played:
        played.script("backup", takes="90m", exit_code=3)
        played.add_job("backup", command=["no-such-program"], interval="1h", retry=False)
        played.advance("3h")
        assert [told[1:] for told in played.history("backup")] == [("FAILED", "exit_code"), ("RUNNING", None)]
        assert played.runs("backup")[1].scheduled_for == datetime(2026, 11, 16, 2, 30, tzinfo=UTC)


def test_a_failing_function_is_tried_again_after_its_backoff() -> None:
    with rota.testing.scheduler(now="2026-11-16T00:00Z") as played:
        attempts = []

        def work(context: rota.JobContext) -> None:
            attempts.append(context.run.attempt)
            if len(attempts) < 3:
                raise KeyError("no")

        played.add_job("work", run=work)
        assert played.trigger("work").success
        played.advance("5m")
        assert [told.status for told in played.history("work")] == ["FAILED", "FAILED", "COMPLETED"]
        assert attempts == [1, 2, 3]
        assert played.status().of("work").last_error is None


def test_a_job_may_be_changed_and_removed_while_it_is_played() -> None:
    with rota.testing.scheduler(now="2026-11-16T00:00Z") as played:
        played.add_job("work", run=lambda: None, cron="0 * * * *")
        played.advance("2h")
        played.add_job("work", run=lambda: None, cron="30 * * * *")
        assert played.next_fires("work", n=1) == [datetime(2026, 11, 16, 2, 30, tzinfo=UTC)]
        played.advance("1h")
        played.remove_job("work")
        played.advance("1d")
        assert [told.at[11:16] for told in played.history("work")] == ["01:00", "02:00", "02:30"]


def test_a_trigger_of_a_missing_job_says_so() -> None:
    with (
        rota.testing.scheduler(now="2026-11-16T00:00Z") as played,
        pytest.raises(rota.UnknownJob, match="no job is named 'missing'"),
    ):
        played.trigger("missing")


def test_mistakes_are_told_as_a_scheduler_tells_them() -> None:
    with rota.testing.scheduler(now="2026-11-16T00:00Z") as played, pytest.raises(JobProblems, match=r"jobs\.work"):
        played.add_job("work", run="missing")
    with pytest.raises(InvalidInstant), rota.testing.scheduler(now="2026-11-16T00:00"):
        pass


@pytest.mark.anyio
async def test_it_plays_inside_an_event_loop_too() -> None:
    async def work() -> str:
        return "done"

    with rota.testing.scheduler(now="2026-11-16T00:00Z") as played:
        played.add_job("work", run=work, interval="1h")
        played.advance("1h")
        assert [run.status for run in played.runs("work")] == [Status.COMPLETED] * 2
