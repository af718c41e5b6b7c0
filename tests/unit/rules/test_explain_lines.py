"""Why a run did, did not or will run: each label, from records alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from rota.model.records import Abandoned, Execution, Job, Run
from rota.model.spec import (
    Anchor,
    Condition,
    Gates,
    JobSpec,
    Kind,
    Misfire,
    MisfirePolicy,
    Overlap,
    OverlapPolicy,
    Postcondition,
    QuietHours,
    QuietPolicy,
    Schedule,
    WhenFalse,
    Work,
)
from rota.model.states import Held, Reason, Status, Trigger, WaitingFor
from rota.text.explain import Facts, Seen, explain_job, explain_run, title
from rota.text.schedule import next_fire

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
DUE = NOW - timedelta(minutes=10)
SPEC = JobSpec("backup", Work(Kind.COMMAND, command=("true",), cwd="/srv"), Schedule(cron=("50 11 * * *",)))


def a_job(spec: JobSpec = SPEC, **changes: Any) -> Job:
    job = Job(
        id="job",
        name="backup",
        source="file",
        version=1,
        spec=spec,
        created_at=DUE,
        updated_at=DUE,
        enabled=True,
        retired_at=None,
        used_up_at=None,
        next_for=None,
        next_at=None,
        anchored_at=None,
        fire_number=1,
        run_number=7,
        ledger_from=DUE,
    )
    return replace(job, **changes)


def a_run(**changes: Any) -> Run:
    run = Run(
        id="run",
        job_id="job",
        job="backup",
        number=7,
        version=1,
        trigger=Trigger.SCHEDULE,
        status=Status.QUEUED,
        reason=None,
        waiting_for=None,
        not_before=None,
        scheduled_for=DUE,
        covers_to=None,
        count=None,
        lane_id=1,
        priority=0,
        rank=0,
        position=0,
        params={},
        attempt=1,
        retry_of=None,
        chain_id=None,
        group_id=None,
        place=None,
        always=False,
        created_at=DUE,
        first_dispatched_at=None,
        started_at=None,
        finished_at=None,
        expires_at=None,
        cancel_requested_at=None,
        worker_id=None,
        slot=None,
        epoch=None,
        losses=0,
        forced=False,
        exit_code=None,
        error=None,
        result_summary=None,
        decisions={"late_ms": 0, "overlap": {"policy": "forbid", "verdict": "go"}},
    )
    return replace(run, **changes)


def told(run: Run, spec: JobSpec = SPEC, *, execution: Execution | None = None, **facts: Any) -> dict[str, str]:
    lines = explain_run(Facts(run, spec, a_job(spec), execution, **facts), now=NOW)
    return {line.label: line.text for line in lines}


def an_execution(spec_started: datetime = DUE) -> Execution:
    return Execution(
        id="e",
        run_id="run",
        job_id="job",
        version=None,
        lane_id=None,
        params={},
        caller=None,
        worker_id="w",
        slot=2,
        epoch=1,
        boot_id="boot",
        pid=4711,
        pid_start=1,
        started_at=spec_started,
        finished_at=None,
        status=None,
        exit_code=None,
        error=None,
        artifacts={},
    )


def test_the_title_names_run_status_reason_and_time_in_the_job_s_zone() -> None:
    spec = replace(SPEC, schedule=replace(SPEC.schedule, timezone="Europe/Madrid"))
    run = a_run(status=Status.SKIPPED, reason=Reason.OVERLAP, finished_at=DUE)
    assert title(Facts(run, spec, a_job(spec), None), now=NOW) == (
        "backup:7  SKIPPED overlap  Sun 15 Nov 12:50:00 (Europe/Madrid)"
    )


def test_a_scheduled_run_says_when_it_was_due_and_by_which_schedule() -> None:
    assert told(a_run())["due"] == "11:50:00 at 11:50 every day (UTC)"


def test_a_counted_row_says_how_many_instants_it_stands_for() -> None:
    missed = a_run(status=Status.SKIPPED, reason=Reason.MISSED, covers_to=NOW, count=12, finished_at=NOW)
    assert told(missed)["due"].startswith("12 instants from 11:50:00 to 12:00:00")
    assert told(replace(missed, count=None))["due"].startswith("more than 10,000 instants")


@pytest.mark.parametrize(
    ("misfire", "run", "text"),
    [
        (Misfire(), a_run(), "no, on time"),
        (Misfire(), a_run(decisions={"late_ms": 41}), "no, 41 ms late"),
        (
            Misfire(MisfirePolicy.ONCE),
            a_run(decisions={"late_ms": 1_200_000, "made_up": "once"}),
            "20 min late; `misfire: once` ran it late",
        ),
        (
            Misfire(),
            a_run(status=Status.SKIPPED, reason=Reason.MISSED, decisions={"late_ms": 600_000}),
            "missed: noticed 10 min late, more than 1 min; `misfire: skip` does not run it",
        ),
        (
            Misfire(MisfirePolicy.ONCE),
            a_run(status=Status.SKIPPED, reason=Reason.MISSED, decisions={"late_ms": 600_000}),
            "missed: noticed 10 min late, more than 1 min; `misfire: once` ran a later instant instead",
        ),
        (
            Misfire(),
            a_run(status=Status.SKIPPED, reason=Reason.MISSED, decisions={"late_ms": 600_000, "grace_ms": 300_000}),
            "missed: noticed 10 min late, more than 5 min; `misfire: skip` does not run it",
        ),
        (
            Misfire(),
            a_run(status=Status.SKIPPED, reason=Reason.OVERLAP, decisions={"late_ms": 200_000, "grace_ms": 300_000}),
            "no, 3 min 20 s late",
        ),
        (Misfire(), a_run(trigger=Trigger.MANUAL), "not applied to a manual start"),
    ],
)
def test_misfire_is_told_r_10(misfire: Misfire, run: Run, text: str) -> None:
    """R-10."""
    assert told(run, replace(SPEC, misfire=misfire))["misfire"] == text


def test_an_instant_older_than_the_limit_of_misfire_says_so_r_10() -> None:
    """R-10: misfire_max_age."""
    spec = replace(SPEC, misfire=Misfire(MisfirePolicy.ONCE, max_age=timedelta(hours=6)))
    run = a_run(status=Status.SKIPPED, reason=Reason.MISSED, decisions={"late_ms": 600_000})
    assert told(run, spec)["misfire"].endswith("missed instants younger than 6 h")


@pytest.mark.parametrize(
    ("decided", "text"),
    [
        ({"policy": "forbid", "verdict": "go"}, "forbid: nothing active"),
        ({"policy": "allow", "verdict": "go"}, "allow: any number may run"),
        ({"policy": "queue", "verdict": "after"}, "queue: queued behind an unfinished run"),
        ({"policy": "replace", "verdict": "replace"}, "replace: replaced the unfinished run"),
        ({"policy": "forbid", "verdict": "refuse", "blocking": "backup:6"}, "forbid: backup:6 was not finished"),
        (
            {"policy": "queue", "verdict": "refuse", "blocking": "backup:6"},
            "queue: backup:6 was not finished, and `queue_depth: 1` was full",
        ),
    ],
)
def test_overlap_is_told_r_11(decided: dict[str, str], text: str) -> None:
    """R-11."""
    assert told(a_run(decisions={"overlap": decided}))["overlap"] == text


def test_force_is_told_in_place_of_overlap_and_conditions_r_29() -> None:
    """R-29."""
    spec = replace(SPEC, gates=Gates((Condition("is_open"),)))
    lines = told(a_run(trigger=Trigger.MANUAL, forced=True), spec)
    assert lines["due"].endswith("started by hand, with --force")
    assert lines["overlap"] == "forbid: ignored, --force"
    assert lines["conditions"] == "ignored, --force"


def test_conditions_are_told_with_their_evidence_r_09() -> None:
    """R-09."""
    spec = replace(SPEC, gates=Gates((Condition("is_open"), Condition(command=("./check",)))))
    assert told(a_run(), spec)["conditions"] == "2, not checked yet"
    asked = [
        {"title": "is_open", "answer": "pass", "detail": "", "took_ms": 1},
        {"title": "./check", "answer": "false", "detail": "exit 10", "took_ms": 41},
    ]
    assert told(a_run(decisions={"conditions": asked}), spec)["conditions"] == (
        "is_open → pass (1 ms); ./check → false (exit 10, 41 ms)"
    )


def test_a_run_that_waits_for_a_condition_says_until_when_r_02() -> None:
    """R-02, R-09."""
    spec = replace(SPEC, gates=Gates((Condition("is_open"),), WhenFalse.WAIT))
    run = a_run(
        waiting_for=WaitingFor.CONDITION, not_before=NOW + timedelta(minutes=1), expires_at=NOW + timedelta(hours=1)
    )
    assert told(run, spec)["waits"] == (
        "for its condition (`when_false: wait`), checked again at 12:01:00 (in 1 min), abandoned at 13:00:00 (in 1 h)"
    )


@pytest.mark.parametrize(
    ("waiting_for", "held", "text"),
    [
        (WaitingFor.PREDECESSOR, None, "for backup:6 to finish"),
        (WaitingFor.REPLACED_RUN, None, "until backup:6 is stopped"),
        (WaitingFor.PREDECESSOR, Held.NO_WORKER, "for backup:6 to finish; no scheduler is running here"),
        (None, Held.NO_WORKER, "for a scheduler: none is running here; start one with `rota serve`"),
        (None, Held.SLOT, "for a slot: all are taken"),
        (None, Held.POOL, 'for the pool "ollama": 1 of 1 used by other:1'),
        (None, None, "for its turn; a slot is free"),
    ],
)
def test_a_queued_run_says_why_it_is_not_running_r_02(
    waiting_for: WaitingFor | None, held: Held | None, text: str
) -> None:
    """R-02: stored and derived reasons."""
    earlier = a_run(id="earlier", number=6, status=Status.RUNNING)
    run = a_run(waiting_for=waiting_for)
    why = 'the pool "ollama": 1 of 1 used by other:1' if held is Held.POOL else ""
    assert told(run, held=held, held_why=why, unfinished=[earlier, run])["waits"] == text


def test_a_run_that_waits_for_a_slot_says_which_functions_keep_some_after_their_end() -> None:
    left = [Abandoned("a", "stuck", 3, NOW, 0), Abandoned("b", None, None, None, 1)]
    assert told(a_run(), held=Held.SLOT, abandoned=left)["waits"] == (
        "for a slot: all are taken, 2 of them by functions that still run after the end of stuck:3, a direct call"
    )


def test_a_running_run_says_since_when_where_and_how_long_it_may() -> None:
    run = a_run(status=Status.RUNNING, started_at=DUE)
    lines = told(run, execution=an_execution())
    assert lines["start"] == "11:50:00 pid 4711 in /srv, slot 2"
    assert lines["end"] == "not yet: running for 10 min, stopped after 10 min"
    stopping = replace(run, cancel_requested_at=NOW)
    endless = replace(SPEC, work=replace(SPEC.work, timeout=None))
    assert told(stopping, endless)["end"] == "not yet: running for 10 min, without a timeout and is being stopped"


def test_a_dispatched_run_stands_at_its_conditions_r_01() -> None:
    """R-01."""
    lines = told(a_run(status=Status.DISPATCHED, first_dispatched_at=NOW))
    assert lines["start"] == "not yet: it has a slot, and its conditions and budget are being checked"
    assert lines["end"] == "not yet"


def test_a_function_runs_inside_the_scheduler() -> None:
    spec = replace(SPEC, work=Work(Kind.FUNCTION, function="count"))
    lines = told(a_run(status=Status.RUNNING, started_at=DUE), spec, execution=an_execution())
    assert lines["start"] == "11:50:00 inside the scheduler (pid 4711), slot 2"


def test_the_end_tells_status_reason_time_and_words() -> None:
    failed = a_run(
        status=Status.FAILED, reason=Reason.EXIT_CODE, started_at=DUE, finished_at=NOW, error="exit 3: locked"
    )
    assert told(failed)["end"] == "12:00:00 FAILED exit_code after 10 min: exit 3: locked"
    done = a_run(status=Status.COMPLETED, started_at=DUE, finished_at=NOW, result_summary="3 mails")
    assert told(done)["end"] == "12:00:00 COMPLETED after 10 min: 3 mails"
    never = a_run(status=Status.CANCELLED, reason=Reason.REQUESTED, finished_at=NOW)
    assert told(never)["start"] == "never"


EVERY = replace(SPEC, schedule=Schedule(interval=timedelta(minutes=15), anchor=Anchor.COMPLETION))


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (a_job(next_at=NOW + timedelta(hours=2)), "next Sun 15 Nov 14:00 (UTC), in 2 h"),
        (a_job(next_at=DUE), "due since Sun 15 Nov 11:50 (UTC), 10 min ago"),
        (a_job(retired_at=NOW), "no next fire: the job is retired, its file no longer has it"),
        (a_job(enabled=False), "no next fire: the job is disabled (`enabled: false`)"),
        (a_job(used_up_at=NOW), "no next fire: the job ran once, or its time has passed"),
        (a_job(replace(SPEC, schedule=Schedule())), "no next fire: the job has no schedule; start it by hand"),
        (a_job(EVERY), "next 15 min after backup:7 is finished"),
        (a_job(), "no next fire until backup:7 is finished"),
    ],
)
def test_the_next_fire_or_why_there_is_none(job: Job, text: str) -> None:
    assert next_fire(job, now=NOW, unfinished=[a_run(status=Status.RUNNING)]) == text


def test_a_schedule_that_has_ended_says_so() -> None:
    ended = replace(SPEC, schedule=replace(SPEC.schedule, end_at=DUE))
    assert next_fire(a_job(ended), now=NOW) == "no next fire: the schedule has ended"
    assert next_fire(a_job(), now=NOW) == "no next fire: the schedule has no further instant"


def test_a_job_tells_its_state_its_schedule_and_its_next_fire() -> None:
    running, queued = a_run(number=6, status=Status.RUNNING), a_run()
    job = a_job(next_at=NOW + timedelta(hours=2), updated_at=NOW - timedelta(days=1))
    lines = explain_job(job, state="running", unfinished=[running, queued], now=NOW)
    assert [line.text for line in lines] == [
        "running backup:6, queued backup:7",
        "at 11:50 every day (UTC); version 1 since yesterday 12:00",
        "Sun 15 Nov 14:00 (UTC), in 2 h",
    ]


def test_a_full_queue_is_told_with_the_depth_of_the_version_that_ran() -> None:
    spec = replace(SPEC, overlap=Overlap(OverlapPolicy.QUEUE, queue_depth=3))
    decided = {"overlap": {"policy": "queue", "verdict": "refuse", "blocking": "backup:4"}}
    assert told(a_run(decisions=decided), spec)["overlap"].endswith("`queue_depth: 3` was full")


QUIET = replace(SPEC, schedule=replace(SPEC.schedule, quiet=QuietHours(("09:00-12:00",), "UTC", QuietPolicy.DEFER)))


def lull_lines(spec: JobSpec, **changes: Any) -> dict[str, str]:
    facts = Facts(a_run(**changes), spec, a_job(spec), None)
    return {line.label: line.text for line in explain_run(facts, now=NOW)}


def test_a_deferred_run_tells_the_quiet_hours_it_waited_for():
    """R-17."""
    lines = lull_lines(QUIET, decisions={"late_ms": 0, "quiet_until": "2026-11-15T12:00:00Z"})
    assert lines["quiet hours"] == "09:00-12:00 (UTC), policy defer: waited until 12:00"
    assert lines["misfire"] == "not checked: quiet hours decided"


def test_a_row_of_quiet_hours_tells_them_and_asks_nothing_else():
    """R-17."""
    skipped = {"status": Status.SKIPPED, "reason": Reason.QUIET_HOURS, "finished_at": NOW}
    lines = lull_lines(QUIET, decisions={"quiet_until": "2026-11-15T12:00:00Z"}, **skipped)
    assert lines["quiet hours"] == "09:00-12:00 (UTC), policy defer: not run; they ended 12:00"
    assert "conditions" not in lines


def test_an_excluded_row_names_its_day_and_a_start_at_boot_says_so():
    skipped = {"status": Status.SKIPPED, "reason": Reason.EXCLUDED, "finished_at": NOW, "scheduled_for": DUE}
    assert lull_lines(SPEC, **skipped)["except"] == "2026-11-15 is excluded by `except`"
    boot = replace(SPEC, schedule=Schedule(reboot=True))
    lines = lull_lines(boot, decisions={"boot": "first"}, scheduled_for=DUE)
    assert lines["due"].endswith("at boot")
    assert lines["misfire"] == "not applied to a start at boot"


@pytest.mark.parametrize(
    ("reason", "stored", "told"),
    [
        (Reason.BACKING_OFF, "failed 5 times in a row, held back until 2026-11-15T11:30:00Z", "Sun 15 Nov 12:30"),
        (Reason.OVERLAP, "the run of 2026-11-14T23:30:00.250Z was not finished", "the run of Sun 15 Nov 00:30 was"),
        (
            Reason.POLL_FAILED,
            "the poll at 2026-11-15T11:49:58Z failed: no answer",
            "the poll at Sun 15 Nov 12:49:58 failed",
        ),
    ],
)
def test_instants_in_stored_texts_of_ours_are_told_in_the_zone_of_the_job(
    reason: Reason, stored: str, told: str
) -> None:
    spec = replace(SPEC, schedule=Schedule(cron=("50 11 * * *",), timezone="Europe/Madrid"))
    run = a_run(status=Status.SKIPPED, reason=reason, error=stored, finished_at=NOW)
    (end,) = [line.text for line in explain_run(Facts(run, spec, a_job(spec), None), now=NOW) if line.label == "end"]
    assert told in end
    assert "Z" not in end


def test_the_run_that_blocked_another_is_named_by_its_time_in_the_zone_of_the_job() -> None:
    spec = replace(SPEC, schedule=Schedule(cron=("50 11 * * *",), timezone="Europe/Madrid"))
    decided = {"overlap": {"policy": "forbid", "verdict": "refuse", "blocking": "the run of 2026-11-15T11:49:00Z"}}
    run = a_run(status=Status.SKIPPED, reason=Reason.OVERLAP, decisions=decided, finished_at=NOW)
    told = {line.label: line.text for line in explain_run(Facts(run, spec, a_job(spec), None), now=NOW)}
    assert told["overlap"] == "forbid: the run of Sun 15 Nov 12:49 was not finished"


def test_what_a_command_said_is_told_as_it_said_it() -> None:
    run = a_run(
        status=Status.FAILED, reason=Reason.EXIT_CODE, error="exit 1: expired 2026-11-15T11:00:00Z", finished_at=NOW
    )
    (end,) = [line.text for line in explain_run(Facts(run, SPEC, a_job(), None), now=NOW) if line.label == "end"]
    assert end.endswith("exit 1: expired 2026-11-15T11:00:00Z")


def test_a_running_run_and_one_that_was_ended_for_its_silence_show_their_last_output() -> None:
    seen = Seen(DUE + timedelta(seconds=3), "→ Bash make")
    line = told(a_run(status=Status.RUNNING, started_at=DUE), seen=seen)["last seen"]
    assert line.endswith(": → Bash make")
    assert "ago" in line
    assert "last seen" not in told(a_run(status=Status.RUNNING, started_at=DUE))


def test_the_end_of_a_postcondition_is_told_with_its_last_lines() -> None:
    spec = replace(SPEC, work=replace(SPEC.work, postcondition=Postcondition(shell="make test")))
    failed = {"postcondition": {"passed": False, "exit_code": 2, "output": "a\n\n 2 failed \n"}}
    done = {"status": Status.FAILED, "reason": Reason.POSTCONDITION_FAILED, "started_at": DUE, "finished_at": DUE}
    assert told(a_run(**done, decisions=failed), spec)["checked"] == "the postcondition failed: a; 2 failed"
    passed = {"postcondition": {"passed": True, "exit_code": 0}}
    assert told(a_run(decisions=passed), spec)["checked"] == "the postcondition passed"
    assert told(a_run(status=Status.RUNNING, started_at=DUE), spec)["checked"] == "not yet"
    assert "checked" not in told(a_run())
