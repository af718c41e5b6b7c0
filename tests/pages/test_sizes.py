"""No page is large: long texts and many lines are cut, and the page says so."""

from collections.abc import Iterator

import pytest
from starlette.responses import Response

from rota.http.pages.page import LARGEST, fit
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.run_actions import trigger
from tests.api.conftest import opened
from tests.faces.conftest import Project
from tests.pages.conftest import Site
from tests.pages.test_runs import DONE, play

LONG = "&<" * 2000
JOBS = [f"{'a-long-name-' * 15}{number:03}" for number in range(60)]
FILE = "defaults: {retry: false, overlap: allow}\njobs:\n" + "".join(
    f"  {name}: {{command: [echo, '{LONG}'], cron: '{number} 3 * * *', params: {{text: '{LONG}'}}, labels: [l{number}],"
    f" description: '{LONG[:1000]}'}}\n"
    for number, name in enumerate(JOBS)
)
BROKEN = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error=LONG)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A project with long names and texts, in which much failed and much waits; nobody changes it here."""
    folder = tmp_path_factory.mktemp("crowded") / "home"
    folder.mkdir()
    with opened(Project(folder).applied(FILE)) as api:
        site = Site(api)
        for turn in range(2):
            for job in JOBS[: 40 - 10 * turn]:
                trigger(api.store, job, now=site.clock.now())
            site.project.carry_out([BROKEN, DONE] * 20)
        for job in JOBS * 2:
            trigger(api.store, job, now=site.clock.now())
        yield site


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/?span=3d&rows=all",
        "/ui/jobs",
        f"/ui/jobs/{JOBS[0]}",
        "/ui/queue",
        "/ui/queue?limit=100",
        f"/ui/queue/{JOBS[0]}:3",
        "/ui/runs",
        "/ui/runs?each=true",
        "/ui/runs?q=%26%3C",
        f"/ui/runs/{JOBS[0]}:1",
        "/ui/agents",
        "/ui/system",
    ],
)
def test_a_page_with_long_texts_stays_small(crowded: Site, path: str) -> None:
    assert len(crowded.get(path).html.encode()) <= LARGEST


def test_a_queue_that_is_cut_says_so(crowded: Site) -> None:
    page = crowded.get("/ui/queue?limit=100")
    shown = len([row for row in page.all("tr") if "data-run" in row])
    assert shown < 100
    assert f"The first {shown} of each list are shown" in page.words


def test_the_page_after_one_that_was_cut_begins_where_it_ended(crowded: Site) -> None:
    seen: list[str] = []
    path = "/ui/runs?each=true&status=FAILED"
    while path:
        page = crowded.get(path)
        seen += [link for link in page.links if link.startswith("/ui/runs/a-long")]
        path = next((found["href"] for found in page.all("a", rel="next")), "")
    assert len(seen) == len(set(seen)) == 35


def test_output_of_long_lines_is_cut_and_the_page_says_so(site: Site) -> None:
    play(site, "hello", DONE, output="".join(f"{number} {LONG}\n" for number in range(400)))
    page = site.get("/ui/runs/hello:1")
    assert len(page.html.encode()) <= LARGEST
    assert "399 &<&<" in page.words
    assert "the page would be too large with more" in page.words
    assert "/api/v1/runs/hello:1/output" in page.links


def test_one_endless_line_of_output_is_cut(site: Site) -> None:
    play(site, "hello", DONE, output="<" * 300_000)
    page = site.get("/ui/runs/hello:1")
    assert len(page.html.encode()) <= LARGEST
    assert "<<<…" in page.words


@pytest.mark.parametrize(("frame", "line", "lines"), [(30_000, 4_000, 200), (60_000, 900, 200), (5_000, 90_000, 3)])
def test_a_page_that_is_too_large_is_rendered_few_times(frame: int, line: int, lines: int) -> None:
    """The frame of the page does not shrink with its lines."""
    shown: list[int] = []

    def show(count: int) -> Response:
        shown.append(count)
        return Response(b"x" * (frame + line * count))

    page = fit(show, lines=lines)
    assert len(page.body) <= LARGEST
    assert len(page.body) + line > LARGEST
    assert len(shown) <= 4
