"""The dashboard in Chromium with a million runs: first paint, size, and how soon an event shows; beside a bare page.

`BENCH_STORE=postgres` moves the runs to a PostgreSQL server first.
"""

import json
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import apsw
from playwright.sync_api import BrowserContext, Page, sync_playwright
from tests.browser.chromium import CHROMIUM, FLAGS

from bench.api import Goal, bare, served
from bench.measuring import Report, Row, figure, quantile, scratch, sized
from bench.rows import unguarded
from bench.scheduling import CLOCK
from rota.model.clock import to_ms
from rota.operations.admin.access import read_token
from rota.operations.admin.migrate import MigrationEnd, move
from rota.store.sqlite.store import SqliteStore, connect
from rota.store.tables.stats import count_past

TARGET = "1,000,000 runs stored: first contentful paint ≤ 300 ms, HTML ≤ 100 KB, an event shows within 500 ms"
PAINT, SIZE, SHOWN = 300.0, 100.0, 500.0
RUNS = int(os.environ.get("BENCH_RUNS", sized(1_000_000, 2_000)))
SPAN = timedelta(days=300)
STORE = os.environ.get("BENCH_STORE", "sqlite")
LOADS = sized(9, 1)
EVENTS = sized(15, 2)
APART = 1.2
JOBS = 20
YAML = """
http: {listen: "127.0.0.1:0"}
timezone: Europe/Madrid
retention: {runs: forever, skipped: forever}
jobs:
  task: {command: [/bin/true], overlap: allow, output: none}
  train: {command: [sleep, "3"], overlap: allow, output: none}
""" + "".join(
    f"  job-{number}: {{cron: '{number} 3 * * *', command: [/bin/true], labels: [l{number % 3}]}}\n"
    for number in range(JOBS)
)
PAGES = {
    "overview": "/",
    "jobs": "/ui/jobs",
    "a job": "/ui/jobs/job-7",
    "queue": "/ui/queue",
    "groups": "/ui/groups",
    "runs": "/ui/runs",
    "runs by a text that is nowhere": "/ui/runs?q=nowhere",
    "a run": "/ui/runs/job-7:9",
    "two runs": "/ui/runs/job-7:9/diff",
    "new job": "/ui/new",
    "agents": "/ui/agents",
    "overview of 30 days": "/?range=30d",
    "a job's statistics of 30 days as tables": "/ui/jobs/job-7?range=30d&as=table",
    "costs": "/ui/costs",
    "costs by job": "/ui/costs?by=job&range=7d",
    "forecast": "/ui/forecast",
    "forecast of 30 days with a change": "/ui/forecast?days=30&job=job-7&schedule=every+6h",
    "calendar, a week": "/ui/calendar",
    "calendar, a month": "/ui/calendar?view=month",
    "a job's lines in the file": "/ui/jobs/job-7/file",
    "API": "/ui/api",
    "API, an operation": "/ui/api?operation=get_run",
    "questions": "/ui/questions",
    "digest": "/ui/digest",
    "system": "/ui/system",
}
FOLLOWED = {"runs": ("/ui/runs?each=true", "task"), "overview": ("/", "train"), "a job": ("/ui/jobs/task", "task")}
FILL_RUNS = """
WITH RECURSIVE counted (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counted WHERE n < :count - 1),
placed (n, at) AS (SELECT n, :since + n * :step FROM counted),
jobs (seq, place) AS (SELECT seq, row_number() OVER (ORDER BY name) - 1 FROM job WHERE name LIKE 'job-%')
INSERT INTO run (id, job, number, version, trigger, created_at)
SELECT printf('%08x-%04x-7000-8000-%012x', at >> 16, at & 65535, n), seq, n / :jobs + 1, 1, 'manual', at
FROM placed JOIN jobs ON place = n % :jobs ORDER BY n
"""
FILL_ENDS = """
INSERT INTO ended (run, job, status, reason, finished_at, first_dispatched_at, started_at, worker, slot, epoch, boot_id,
    pid, pid_start, exit_code, error, result_summary, artifacts)
SELECT seq, job, iif(seq % 10, 4, 5), iif(seq % 10, NULL, 'exit_code'), created_at + 1500 + seq * 7919 % 100000,
    created_at, created_at + 20,
    (SELECT min(seq) FROM worker), 0, (SELECT min(epoch) FROM process), 'bench', 1, 1, iif(seq % 10, 0, 3),
    iif(seq % 10, NULL, 'exit code 3: no such table: sales'), iif(seq % 10, 'copied ' || seq || ' files', NULL),
    iif(job = (SELECT seq FROM job WHERE name = 'job-7'), :usage, NULL)
FROM run WHERE NOT EXISTS (SELECT 1 FROM ended WHERE ended.run = run.seq)
"""
COUNT_NUMBERS = "UPDATE job SET run_number = (SELECT coalesce(max(number), 0) FROM run WHERE run.job = job.seq)"
COUNT_STATES = "INSERT INTO counter (status, worker_id, count) SELECT status, '', count(*) FROM run_now GROUP BY status"
COUNT_COSTS = """
INSERT INTO run_cost (run, job, finished_at, usd)
SELECT run, job, finished_at, artifacts ->> '$.usage.usd_millionths' FROM ended WHERE artifacts IS NOT NULL
"""
COUNT_LATER = """
INSERT OR REPLACE INTO meta (key, value)
SELECT 'stats_from', CAST((max(finished_at) / 3600000 + 1) * 3600000 AS TEXT) FROM ended
"""
USAGE = {"usage": {"requests": 3, "tokens_in": 1200, "tokens_out": 340, "usd_millionths": 4100, "model": "haiku"}}
ANSWERED = """() => {
  const [load] = performance.getEntriesByType("navigation");
  return load.responseStart - load.requestStart;
}"""
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
APPEARS = """async (path) => {
  const began = performance.now();
  const answer = await fetch(path, { method: "POST" });
  const run = await answer.json();
  const there = () => document.querySelector(`a[href$="/ui/runs/${run.run}"]`);
  if (!there()) {
    await new Promise((done, give_up) => {
      setTimeout(give_up, 30000, `${run.run} is not on the page`);
      const watch = new MutationObserver(() => there() && (watch.disconnect(), done()));
      watch.observe(document.body, { childList: true, subtree: true, characterData: true });
    });
  }
  return performance.now() - began;
}"""


def measure() -> Report:
    """Load each page in turn with the bare one between them, then let runs happen before open pages."""
    with scratch() as folder, bare() as bare_port:
        with served(folder, YAML):
            pass  # the file is applied, and the database made
        _fill(folder / ".rota" / "rota.db")
        if STORE == "postgres":
            os.environ["ROTA_STORE"] = _moved(folder / ".rota")
        with served(folder, YAML) as (_, port), _browser(port, folder) as context:
            painted = _paint(context, f"http://127.0.0.1:{bare_port}/page")
            sizes = {name: _size(context, path) for name, path in PAGES.items()}
            shown = {name: _follow(context, *about) for name, about in FOLLOWED.items()}
    goals = [
        *(Goal(_row(f"first paint: {name}", [paint for paint, _ in painted[name]]), PAINT) for name in PAGES),
        *(Goal(figure(f"HTML: {name}", "KB", size / 1000), SIZE) for name, size in sizes.items()),
        *(Goal(_row(f"an event shows: {name}", took), SHOWN) for name, took in shown.items()),
    ]
    missed = sum(goal.row.median > goal.limit for goal in goals)
    answers = [_row(f"answer: {name}", [answer for _, answer in loads]) for name, loads in painted.items()]
    first = _row("first paint: bare page", [paint for paint, _ in painted["bare"]])
    notes = [*map(str, goals), f"{len(goals) - missed} of {len(goals)} goals are met", _spread(shown)]
    return Report("pages", TARGET, [first, *(goal.row for goal in goals), *answers], notes)


def _row(name: str, values: list[float]) -> Row:
    return Row(name, "ms", statistics.median(values), min(values), max(values))


def _spread(shown: dict[str, list[float]]) -> str:
    told = (f"{name} {quantile(took, 0.9):,.0f} ms" for name, took in shown.items())
    return f"nine in ten events show within: {', '.join(told)}"


def _fill(path: Path) -> None:
    """Store runs and their ends raw, as rota would have, in jobs that take turns."""
    connection: apsw.Connection = connect(path)
    step = SPAN // timedelta(milliseconds=1) // RUNS
    since = to_ms(CLOCK.now()) - step * RUNS
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(FILL_RUNS, {"count": RUNS, "since": since, "step": step, "jobs": JOBS}).fetchall()
    with unguarded(connection):
        connection.execute(FILL_ENDS, {"usage": json.dumps(USAGE)}).fetchall()
    for statement in (
        "DELETE FROM change",
        "DELETE FROM counter",
        COUNT_STATES,
        COUNT_NUMBERS,
        COUNT_COSTS,
        COUNT_LATER,
    ):
        connection.execute(statement).fetchall()
    connection.execute("COMMIT")
    connection.close()
    store = SqliteStore(path)
    began = time.perf_counter()
    while store.write(count_past):
        pass
    print(f"statistics of {RUNS:,} runs counted in {time.perf_counter() - began:.1f} s")
    store.close()


def _moved(state: Path) -> str:
    """Move the database to a server of its own, and return its address."""
    from tests.postgres import bare_postgres

    address = bare_postgres("pages")
    move(MigrationEnd(state), MigrationEnd(state, address), clock=CLOCK, tell=lambda *_: None)
    return address


@contextmanager
def _browser(port: int, folder: Path) -> Iterator[BrowserContext]:
    """Give a browser that is logged in."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = browser.new_context(base_url=f"http://127.0.0.1:{port}", viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.goto("/")
        page.get_by_label("token").fill(read_token(folder / ".rota") or "")
        page.get_by_role("button", name="Log in").click()
        page.locator("nav").first.wait_for()
        page.close()
        yield context
        browser.close()


def _paint(context: BrowserContext, bare_page: str) -> dict[str, list[tuple[float, float]]]:
    """Load all pages in turn, each in a tab of its own, the bare one among them; the first round warms up.

    Of each load: when something was painted, and how long the server took to answer.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ("bare", *PAGES)}
    for turn in range(LOADS + 1):
        for name, path in {"bare": bare_page, **PAGES}.items():
            took = _first_paint(context, path)
            if turn:
                found[name].append(took)
    return found


def _first_paint(context: BrowserContext, path: str) -> tuple[float, float]:
    page = context.new_page()
    page.goto(path)
    painted: float = page.wait_for_function(PAINTED).json_value()
    answered: float = page.evaluate(ANSWERED)
    page.close()
    return painted, answered


def _size(context: BrowserContext, path: str) -> int:
    answer = context.request.get(path, headers={"Accept": "text/html"})
    assert answer.ok, (path, answer.status)
    return len(answer.body())


def _follow(context: BrowserContext, path: str, job: str) -> list[float]:
    """Open a page, start a run from it so often, and return how long each took from the request until it was seen."""
    page = context.new_page()
    page.goto(path)
    time.sleep(3)
    took = [_appears(page, job) for _ in range(EVENTS)]
    page.close()
    return took


def _appears(page: Page, job: str) -> float:
    time.sleep(APART)
    took: float = page.evaluate(APPEARS, f"/api/v1/jobs/{job}/trigger")
    return took
