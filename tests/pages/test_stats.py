"""Statistics on pages: the figures and charts of the overview and of a job, and the page of costs."""

import csv
import io
from contextlib import closing
from datetime import timedelta

import pytest

from rota.http.pages.charts import budget_bar
from rota.model.budgets import Usage
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.pages.conftest import Page, Site

PAID = Outcome(Status.COMPLETED, exit_code=0, usage=Usage(tokens_in=900, tokens_out=100, usd=2_500_000, model="haiku"))
OTHER = Outcome(
    Status.COMPLETED, exit_code=0, usage=Usage(tokens_in=90, tokens_out=10, usd=500_000, model="=sonnet<b>")
)
FAILED = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3")


@pytest.fixture
def worked(site: Site) -> Site:
    for outcome in (PAID, PAID, OTHER, FAILED):
        site.project.ok("trigger", "hello")
        site.project.carry_out([outcome], took=timedelta(minutes=2))
    return site


def drawings(page: Page) -> list[str]:
    return [svg.get("aria-label", "") for svg in page.all("svg", role="img")]


def test_the_overview_has_figures_small_lines_and_charts(worked: Site) -> None:
    page = worked.get("/")
    assert "Runs 4" in page.words
    assert "Success 75 %" in page.words
    assert "Cost $5.50" in page.words
    assert any(label.startswith("Throughput: 4 in all") for label in drawings(page))


def test_each_chart_has_its_table_in_the_address(worked: Site) -> None:
    page = worked.get("/")
    to = next(link for link in page.links if link.endswith("#chart-throughput"))
    assert "as=table" in to
    table = worked.get(to.partition("#")[0])
    assert "Time completed failed Total" in table.words
    assert not any(label.startswith("Throughput") for label in drawings(table))


def test_the_range_is_kept_in_the_address(worked: Site) -> None:
    page = worked.get("/?range=7d&span=3h")
    assert "/?span=3h&range=7d" in page.links
    assert any("as=table" in link and "range=7d" in link and "span=3h" in link for link in page.links)
    assert "Runs 4" in page.words


def test_a_custom_range_of_days_that_are_over_is_empty(worked: Site) -> None:
    page = worked.get("/?since=2026-11-01&until=2026-11-02")
    assert "Runs 0" in page.words
    assert "2026-11-01 to 2026-11-02" in page.words


def test_a_range_that_is_no_date_is_refused(worked: Site) -> None:
    worked.get("/?since=yesterday", status=422)
    worked.get("/?range=5y", status=422)


def test_a_job_has_its_year_its_week_and_its_reasons(worked: Site) -> None:
    page = worked.get("/ui/jobs/hello")
    found = drawings(page)
    for title in (
        "Year: 1 of 366 days",
        "Duration: ",
        "Starts by weekday and hour: most on",
        "Reasons by week: 1 in all",
    ):
        assert any(label.startswith(title) for label in found), (title, found)


def test_costs_are_divided_and_the_most_expensive_runs_come_first(worked: Site) -> None:
    page = worked.get("/ui/costs")
    assert "In all $5.50" in page.words
    assert "haiku $5.00 91%" in page.words
    assert "=sonnet<b> $0.50 9%" in page.words
    assert "hello:1" in page.words
    by_job = worked.get("/ui/costs?by=job&unit=tokens")
    assert "hello 2,100 100%" in by_job.words
    assert "/ui/jobs/hello" in by_job.links


def test_each_budget_is_a_bar_with_its_forecast(site: Site) -> None:
    site.project.applied(
        "budgets: {money: {usd: 2, per: day}}\n"
        "jobs:\n  hello: {command: [echo], budget: money, estimate: 1, overlap: allow}\n"
    )
    (bar,) = site.get("/ui/costs").all("svg", class_="budget-bar")
    assert bar["aria-label"].startswith("$0.00 of $2.00")


def test_the_bar_of_a_budget_is_red_above_its_limit() -> None:
    assert "over" not in budget_bar(1, 1.5, 2, "half")
    assert 'class="expected over" x="66.7" y="5" width="33.3"' in budget_bar(1, 3, 2, "forecast above")
    assert 'class="used over" x="50" y="5" width="50"' in budget_bar(4, None, 2, "twice")
    assert "width" in budget_bar(0, None, 0, "nothing")


def test_costs_can_be_downloaded_and_no_name_becomes_a_formula(worked: Site) -> None:
    with closing(worked.browser()) as browser:
        answer = browser.get("/ui/costs.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    title, *rows = list(csv.reader(io.StringIO(answer.text)))
    assert title == ["time", "haiku", "'=sonnet<b>", "total"]
    assert sum(int(row[-1]) for row in rows) == 5_500_000


def test_pages_without_any_run_say_so(site: Site) -> None:
    assert "No run reported cost in this time" in site.get("/ui/costs").words
    assert "nothing in this time" in site.get("/").words
    assert site.get("/ui/jobs/hello").status == 200


@pytest.mark.parametrize("path", ["/?fragment=figures", "/?fragment=charts", "/ui/jobs/hello?fragment=stats"])
def test_the_parts_are_read_anew_alone(worked: Site, path: str) -> None:
    page = worked.get(path)
    assert page.status == 200
    assert "<!doctype" not in page.html
