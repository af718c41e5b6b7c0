"""Budgets as people see them: used, reserved, left, reopening, forecast, who waits and who spent it (R-19)."""

from datetime import timedelta
from functools import partial

from rota.engine.transactions.budgets import reserve
from rota.engine.transactions.claim import claim, start
from rota.engine.transactions.finish import Finished, finish
from rota.model.budgets import Usage
from rota.model.records import Outcome
from rota.model.states import Status
from rota.operations.project.locate import open_state
from rota.rules.admission import Admit, Defer
from rota.store.tables import runs
from tests.faces.conftest import Project

FILE = """timezone: Europe/Madrid
budgets:
  day: {usd: 10, per: day}
  week: {runs: 60, per: week}
prices: {sonnet: {input: 3, output: 15}}
jobs:
  review: {command: [echo, review], budget: [day, week], estimate: {day: 2}, overlap: allow}
  big: {command: [echo, big], budget: day, estimate: 6, overlap: allow}
  free: {command: [echo, free]}
"""


def play(project: Project, *usages: Usage | None, end: bool = True) -> None:
    """Let queued runs pass their gates as a scheduler does, and end those that start, in order, as they say."""
    store = open_state(project.state, project.clock, create=False)
    told, now = iter(usages), project.clock.now()
    try:
        holder = store.write(project._holder)
        for one in store.write(partial(claim, holder=holder, free=range(9), now=now)):
            run = one.run
            gate = partial(reserve, run_id=run.id, spec=one.spec, job_id=run.job_id, epoch=holder.epoch, now=now)
            verdict = store.write(gate)
            if isinstance(verdict, Defer):
                waits = {"waiting_for": verdict.waiting_for, "not_before": verdict.until}
                store.write(partial(runs.release_run, run_id=run.id, epoch=holder.epoch, **waits))
            elif isinstance(verdict, Admit):
                store.write(partial(start, claimed=one, holder=holder, process=holder.identity, now=now))
                if end:
                    outcome = Outcome(Status.COMPLETED, exit_code=0, usage=next(told, None))
                    finished = Finished(run.id, run.job_id, outcome)
                    store.write(partial(finish, results=[finished], epoch=holder.epoch, now=now))
    finally:
        store.close()


def run(project: Project, *jobs: str, usage: Usage | None = None, end: bool = True) -> None:
    for job in jobs:
        project.ok("trigger", job)
        play(project, usage, end=end)


def test_without_budgets_it_says_how_to_declare_one(project: Project) -> None:
    project.applied("jobs: {a: {command: [echo]}}\n")
    assert project.ok("budgets").startswith("no budgets; declare one in rota.yaml")
    assert project.json("budgets") == {"budgets": [], "subscriptions": []}


def test_apply_tells_what_changes_in_budgets_and_prices(project: Project) -> None:
    project.write(FILE)
    told = project.ok("apply", "--dry-run")
    assert "~ budget day $10.00 per day (Europe/Madrid), defer\n" in told
    assert "~ price sonnet $3.00 in, $15.00 out\n" in told
    project.applied(FILE.replace("usd: 10", "usd: 5.5").replace("estimate: 6", "estimate: 5"))
    project.write(FILE)
    assert "~ budget day $5.50 per day (Europe/Madrid), defer → $10.00 per day" in project.ok("apply")


def test_the_table_shows_used_reserved_left_and_reopening(project: Project) -> None:
    """R-19."""
    project.applied(FILE)
    run(project, "review", usage=Usage(usd=3_100_000))
    run(project, "review", end=False)
    lines = project.ok("budgets").splitlines()
    assert lines[0].split() == ["ACCOUNT", "USED", "RESERVED", "LEFT", "REOPENS", "FORECAST"]
    assert lines[1].split("  ")[0] == "day"
    for part in ("$3.10 of $10.00", "████▒▒░░░░░░", "$2.00", "$4.90", "in 11 h, Mon 00:00 (Europe/Madrid)"):
        assert part in lines[1]
    assert "$5.72 at this rate" in lines[1]
    assert "1 of 60 runs" in lines[2]


def test_the_forecast_goes_by_the_last_windows(project: Project) -> None:
    """R-19: what they used after this time of day, and it says which."""
    project.applied(FILE)
    for _ in range(2):
        run(project, "review", usage=Usage(usd=1_000_000))
        project.clock.advance(timedelta(hours=3))
        run(project, "review", usage=Usage(usd=2_000_000))
        project.clock.advance(timedelta(hours=21))
    run(project, "review", usage=Usage(usd=500_000))
    assert "$2.50 by the last 2" in project.ok("budgets")
    (day, _) = project.json("budgets")["budgets"]
    assert (day["forecast"], day["forecast_from"], day["forecast_windows"]) == (2_500_000, "history", 2)


def test_who_waits_and_what_went_over_is_told(project: Project) -> None:
    """R-19: the limit may be passed only by what runs cost above their estimates, and that is shown."""
    project.applied(FILE)
    run(project, "big", usage=Usage(usd=10_400_000))
    run(project, "review", "big")
    told = project.ok("budgets")
    assert "day is $0.40 above its limit: runs cost more than estimated\n" in told
    assert "waiting for day: review:1, big:2\n" in told
    assert "spent     today $10.40 of $10.00, $0.40 above it (day, 2 waiting) · this week 0 of 60 runs (week)\n" in (
        project.rota("status").stdout
    )


def test_one_account_shows_its_windows_and_who_spent_most(project: Project) -> None:
    project.applied(FILE)
    run(project, "review", usage=Usage(usd=1_000_000))
    project.clock.advance(timedelta(days=1))
    run(project, "big", usage=Usage(usd=3_000_000))
    run(project, "review")
    told = project.ok("budget", "day")
    assert told.splitlines()[0] == "day  $10.00 per day (Europe/Madrid), defer"
    rows = [line.split("  ") for line in told.splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert ["Mon 16 Nov 2026", "$5.00", "$10.00", "2", "$2.00 estimated"] in cells
    assert ["Sun 15 Nov 2026", "$1.00", "$10.00", "1"] in cells
    assert ["big", "1", "$3.00", "60 %"] in cells
    assert ["review", "1", "$2.00", "40 %", "$2.00 estimated"] in cells


def test_one_account_as_json(project: Project) -> None:
    project.applied(FILE)
    run(project, "big")
    found = project.json("budgets", "day")
    assert {key: found[key] for key in ("settled", "reserved", "left", "over", "waiting", "until")} == {
        "settled": 6_000_000,
        "reserved": 0,
        "left": 4_000_000,
        "over": 0,
        "waiting": [],
        "until": "2026-11-15T23:00:00Z",
    }
    assert found["windows"] == [
        {
            "since": "2026-11-14T23:00:00Z",
            "until": "2026-11-15T23:00:00Z",
            "limit": 10_000_000,
            "used": 6_000_000,
            "runs": 1,
            "estimated": 6_000_000,
        }
    ]
    assert found["spenders"] == [{"job": "big", "runs": 1, "used": 6_000_000, "under_way": 0, "estimated": 6_000_000}]


def test_an_account_that_nobody_used_says_so(project: Project) -> None:
    project.applied(FILE)
    assert project.ok("budgets", "day").endswith("nothing charged yet\n")


def test_an_unknown_account_is_answered_with_the_nearest(project: Project) -> None:
    project.applied(FILE)
    result = project.rota("budgets", "dya")
    assert result.exit_code == 2
    assert "no account is named 'dya'" in result.stderr
    assert "did you mean 'day'?" in result.stderr


def test_an_account_that_left_the_file_is_shown_while_it_is_used(project: Project) -> None:
    project.applied(FILE)
    run(project, "big")
    project.applied("jobs: {free: {command: [echo, free]}}\n")
    assert "day is no longer in the file; runs of older definitions still use it\n" in project.ok("budgets")
    project.clock.advance(timedelta(days=1))
    assert project.ok("budgets").startswith("no budgets")


def test_a_dry_run_shows_what_would_be_reserved(project: Project) -> None:
    """R-19: before and after the file is applied."""
    project.write(FILE)
    line = "budget       day  $0.00 of $10.00 used or reserved, would reserve $6.00 (by the job) → pass\n"
    assert line in project.ok("run", "big", "--dry-run")
    project.applied(FILE)
    run(project, "big")
    told = project.ok("run", "big", "--dry-run")
    assert "budget       day  $6.00 of $10.00 used or reserved, would reserve $6.00 (by the job) → wait\n" in told
    assert "but          it would wait for its budget until 2026-11-15T23:00:00Z\n" in told
    (charge,) = project.json("run", "big", "--dry-run")["budgets"]
    assert (charge["settled"], charge["estimate"], charge["answer"]) == (6_000_000, 6_000_000, "wait")


def test_explain_tells_what_the_accounts_said(project: Project) -> None:
    """R-19: from what was noted at the gate."""
    project.applied(FILE)
    run(project, "big", usage=Usage(tokens_in=1_000_000, tokens_out=10_000, model="sonnet"))
    told = project.ok("explain", "big")
    assert "budget       day: $0.00 of $10.00, reserved $6.00 (by the job) → pass\n" in told
    assert "used         $3.15 · 1,000,000 in / 10,000 out tokens · sonnet\n" in told
    run(project, "big", "big")
    told = project.ok("explain", "big:3")
    assert "budget       day: $9.15 of $10.00, needed $6.00 (by the job) → wait\n" in told
    assert "waits        for room in its budget; the next window opens at Mon 00:00:00 (in 11 h)" in told
    assert "waits for budget until Mon 00:00:00" in project.ok("queue")


def test_a_run_and_a_job_show_their_accounts_and_their_usage(project: Project) -> None:
    project.applied(FILE)
    run(project, "review", usage=Usage(tokens_in=5, tokens_out=1))
    assert "budget       day (usd, estimate $2.00), week (runs)\n" in project.ok("show", "review")
    assert "used         $? · 5 in / 1 out tokens\n" in project.ok("show", "review:1")


def test_a_direct_call_without_room_is_refused_with_its_code(project: Project) -> None:
    """R-13, R-19: exit 6, as everything that is refused."""
    from rota.cli.errors import REFUSED, exit_code
    from rota.model.errors import BudgetExceeded

    assert exit_code(BudgetExceeded("day", "has no room", reopens="tomorrow")) == REFUSED
