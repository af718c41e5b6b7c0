"""`budgets:`, `prices:`, `budget:` and `estimate:`: what is read, and each refusal at its place (R-19)."""

from pathlib import Path

import pytest

from rota.declare.plan import StoredSettings, settings_differences
from rota.declare.project import Declared, read_project
from rota.model.budgets import Account, Exceeded, Per, Price, Unit
from rota.model.errors import FileProblems
from rota.model.spec import Spend

ACCOUNTS = """budgets:
  day: {usd: 10, per: day}
  tokens: {tokens: 4000000, per: day, estimate: 200000}
  week: {runs: 60, per: week}
  worker: {requests: 10000, per: day}
"""


def read(folder: Path, text: str) -> Declared:
    (folder / "rota.yaml").write_text(text)
    return read_project(folder, environment={"HOME": "/home/ops", "TZ": "Asia/Tokyo"})


def account(folder: Path, written: str, *, top: str = "") -> Account:
    return read(folder, f"{top}budgets: {{x: {written}}}\njobs: {{a: {{command: [true]}}}}\n").settings.budgets["x"]


def spends(folder: Path, written: str, *, top: str = ACCOUNTS) -> tuple[Spend, ...]:
    return read(folder, f"{top}jobs:\n  a: {{command: [true], {written}}}\n").jobs[0].budgets


def refused(folder: Path, text: str) -> list[str]:
    with pytest.raises(FileProblems) as raised:
        read(folder, text)
    return [str(problem).partition(": ")[2] for problem in raised.value.problems]


def account_refused(folder: Path, written: str) -> str:
    (problem,) = refused(folder, f"budgets: {{x: {written}}}\njobs: {{a: {{command: [true]}}}}\n")
    return problem


def job_refused(folder: Path, written: str) -> str:
    (problem,) = refused(folder, f"{ACCOUNTS}jobs:\n  a: {{command: [true], {written}}}\n")
    return problem


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{usd: 10, per: day}", Account("x", Unit.USD, 10_000_000, Per.DAY)),
        ("{usd: 0.1, per: hour, estimate: 0.000001}", Account("x", Unit.USD, 100_000, Per.HOUR, estimate=1)),
        ("{tokens: 1e3, per: month}", Account("x", Unit.TOKENS, 1000, Per.MONTH)),
        (
            "{requests: 0x10, per: minute, policy: skip}",
            Account("x", Unit.REQUESTS, 16, Per.MINUTE, policy=Exceeded.SKIP),
        ),
        ("{runs: 60, per: week, timezone: Europe/Paris}", Account("x", Unit.RUNS, 60, Per.WEEK, "Europe/Paris")),
        ("{runs: 60, per: week, timezone: local}", Account("x", Unit.RUNS, 60, Per.WEEK, "Asia/Tokyo")),
        (
            "{usd: 1, per: day, policy: warn, estimate: 5}",
            Account("x", Unit.USD, 1_000_000, Per.DAY, policy=Exceeded.WARN, estimate=5_000_000),
        ),
    ],
)
def test_an_account_is_read(tmp_path: Path, written: str, meant: Account) -> None:
    """R-19: one unit, a window, a policy; money in millionths."""
    assert account(tmp_path, written) == meant


def test_an_account_has_the_zone_of_the_file(tmp_path: Path) -> None:
    """R-19: calendar windows in the account's zone."""
    assert account(tmp_path, "{runs: 1, per: day}", top="timezone: Europe/Madrid\n").timezone == "Europe/Madrid"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("{per: day}", "budgets.x: has no limit; write what is counted: `usd: 10`"),
        ("{usd: 1, runs: 2, per: day}", "budgets.x.usd: counts both runs and usd"),
        ("{usd: 1}", "budgets.x: has no `per`; write `per: day`"),
        ("{usd: 0, per: day}", "budgets.x.usd: with 0 nothing starts"),
        ("{usd: -1, per: day}", "budgets.x.usd: -1 is not a number from 0 on"),
        ("{usd: .inf, per: day}", "budgets.x.usd: .inf is not a number from 0 on"),
        ("{usd: 0.0000001, per: day}", "budgets.x.usd: 1E-7 is too precise; the smallest amount is"),
        ("{runs: 1.5, per: day}", "budgets.x.runs: 1.5 is too precise; write a whole number"),
        ("{runs: 1e30, per: day}", "budgets.x.runs: 1E+30 is too large"),
        ('{runs: "1", per: day}', 'budgets.x.runs: "1" is not a number'),
        ("{runs: true, per: day}", "budgets.x.runs: true is not a number"),
        ("{usd: 1, per: year}", 'budgets.x.per: "year" is not one of minute, hour, day, week, month'),
        ("{usd: 1, per: day, policy: wait}", 'budgets.x.policy: "wait" is not one of defer, skip, warn'),
        ("{usd: 1, per: day, estimate: 2}", "budgets.x.estimate: $2.00 is more than the whole limit, $1.00"),
        ("{runs: 1, per: day, estimate: 1}", "budgets.x.estimate: has no effect: a run is one run"),
        ("{limit: 1, per: day}", "budgets.x.limit: unknown key; write what is counted"),
        ("{usd: 1, per: day, exceeded: skip}", "budgets.x.exceeded: unknown key; write `policy: defer`"),
        ("{usd: 1, per: day, timezone: Mars}", "budgets.x.timezone: no time zone is named 'Mars'"),
        ("10", "budgets.x: 10 is not a map of keys"),
    ],
)
def test_an_account_that_cannot_be_used_is_refused(tmp_path: Path, written: str, problem: str) -> None:
    """R-19: at its place."""
    assert account_refused(tmp_path, written).startswith(problem)


def test_every_wrong_account_is_told(tmp_path: Path) -> None:
    text = "budgets: {x: {usd: 0, per: day}, y: 3, 'z/': {runs: 1, per: day}}\njobs: {a: {command: [true]}}\n"
    assert [problem.partition(": ")[0] for problem in refused(tmp_path, text)] == [
        "budgets.x.usd",
        "budgets.y",
        "budgets.z/",
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("budget: worker", (Spend("worker", None, Unit.REQUESTS),)),
        ("budget: worker, estimate: 11", (Spend("worker", 11, Unit.REQUESTS),)),
        ("budget: day, estimate: 0.5", (Spend("day", 500_000, Unit.USD),)),
        ("budget: [week, tokens]", (Spend("tokens", None, Unit.TOKENS), Spend("week", None, Unit.RUNS))),
        (
            "budget: [week, day], estimate: {day: 2}",
            (Spend("day", 2_000_000, Unit.USD), Spend("week", None, Unit.RUNS)),
        ),
        ("budget: []", ()),
    ],
)
def test_a_job_is_charged_to_its_accounts(tmp_path: Path, written: str, meant: tuple[Spend, ...]) -> None:
    """R-19: one or a list, in the order of their names."""
    assert spends(tmp_path, written) == meant


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("budget: dya", 'jobs.a.budget: no account is named "dya"; did you mean "day"?'),
        ("budget: [day, other], estimate: 1", 'jobs.a.budget[1]: no account is named "other"; declare it at the top'),
        ("budget: [week, week]", 'jobs.a.budget[1]: the account "week" appears twice'),
        ("budget: 3", "jobs.a.budget: 3 is not the name of an account"),
        (
            "budget: day",
            'jobs.a.budget: there is no estimate of what a run costs in "day"; add `estimate: {day: AMOUNT}`',
        ),
        ("budget: day, estimate: 11", 'jobs.a.estimate: $11.00 is more than the whole limit of "day", $10.00'),
        ("budget: [day, week], estimate: 1", "jobs.a.estimate: is one number, and the job has 2 accounts"),
        ("budget: [day], estimate: {week: 1}", "jobs.a.estimate.week: is not an account of this job; name it under"),
        ("budget: week, estimate: 1", "jobs.a.estimate: has no effect: a run is one run"),
        ("budget: worker, estimate: 1.5", "jobs.a.estimate: 1.5 is too precise"),
        ("budget: worker, estimate: {}", "jobs.a.estimate: is an empty map"),
        ("estimate: 1", "jobs.a.estimate: has no effect without `budget`"),
        ("conditions: [budget_left]", "jobs.a.conditions[0]: `budget_left` needs an account, and the job has"),
    ],
)
def test_a_charge_that_cannot_be_is_refused(tmp_path: Path, written: str, problem: str) -> None:
    """R-19: a token or money account without any estimate is refused at load."""
    assert job_refused(tmp_path, written).startswith(problem)


def test_defaults_are_taken_as_far_as_they_fit(tmp_path: Path) -> None:
    """An estimate that stands among the defaults says nothing to accounts that it does not fit."""
    text = (
        f"{ACCOUNTS}defaults: {{budget: day, estimate: 2}}\n"
        "jobs:\n  a: {command: [true]}\n  b: {command: [true], budget: week}\n  c: {command: [true], budget: []}\n"
    )
    found = {spec.name: spec.budgets for spec in read(tmp_path, text).jobs}
    assert found == {
        "a": (Spend("day", 2_000_000, Unit.USD),),
        "b": (Spend("week", None, Unit.RUNS),),
        "c": (),
    }


def test_a_default_that_names_no_account_is_refused_once(tmp_path: Path) -> None:
    text = f"{ACCOUNTS}defaults: {{budget: dya}}\njobs: {{a: {{command: [true]}}, b: {{command: [true]}}}}\n"
    assert refused(tmp_path, text) == ['defaults.budget: no account is named "dya"; did you mean "day"?']


def test_a_job_of_accounts_that_cannot_be_read_is_not_blamed(tmp_path: Path) -> None:
    text = "budgets: {day: {usd: 0, per: day}}\njobs: {a: {command: [true], budget: day}}\n"
    assert [problem.partition(": ")[0] for problem in refused(tmp_path, text)] == ["budgets.day.usd"]


def test_prices_are_read_in_millionths(tmp_path: Path) -> None:
    """R-19: dollars for a million tokens."""
    text = "prices: {sonnet: {input: 3.00, output: 15}}\njobs: {a: {command: [true]}}\n"
    assert read(tmp_path, text).settings.prices == {"sonnet": Price(3_000_000, 15_000_000)}


def test_a_price_needs_both_sides(tmp_path: Path) -> None:
    text = "prices: {a: {input: 1}, b: {input: 1, output: x}, c: 3}\njobs: {a: {command: [true]}}\n"
    assert [problem.partition(";")[0] for problem in refused(tmp_path, text)] == [
        "prices.a: lacks `output`",
        'prices.b.output: "x" is not a number',
        "prices.c: 3 is not a map of keys",
    ]


def test_a_command_that_nothing_counts_is_told(tmp_path: Path) -> None:
    """R-19: it settles at its estimate, one request."""
    text = (
        f"{ACCOUNTS}jobs:\n  a: {{command: [true], budget: worker}}\n"
        "  b: {command: [true], budget: worker, estimate: 2}\n"
    )
    assert [note for note in read(tmp_path, text).notes if "request" in note] == [
        "a: counts as one request a run; `estimate`, or `usage` in the result file, sets the number"
    ]


def test_differences_of_accounts_and_prices_are_told(tmp_path: Path) -> None:
    settings = read(tmp_path, f"{ACCOUNTS}prices: {{m: {{input: 1, output: 2}}}}\njobs: {{}}\n").settings
    day = Account("day", Unit.USD, 5_000_000, Per.DAY)
    old = Account("old", Unit.RUNS, 5, Per.DAY)
    stored = StoredSettings(budgets={**settings.budgets, "day": day, "old": old}, prices={"m": Price(1, 1)})
    assert settings_differences(settings, stored) == (
        "budget day $5.00 per day (UTC), defer -> $10.00 per day (UTC), defer",
        "budget old removed",
        "price m $0.000001 in, $0.000001 out -> $1.00 in, $2.00 out",
    )
