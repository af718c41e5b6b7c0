"""Texts of users stay texts: forty payloads in names, params, descriptions, prompts, output and errors (section 12)."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Site, watch
from tests.service.serving import Project
from tests.waiting import until

PAYLOADS = (
    "<script>hit()</script>",
    "</script><script>hit()</script>",
    "<img src=x onerror=hit()>",
    "<svg onload=hit()>",
    "<svg><script>hit()</script></svg>",
    '"><script>hit()</script>',
    "'><script>hit()</script>",
    '" onmouseover="hit()',
    "' onfocus='hit()' autofocus='",
    "` onclick=hit() `",
    "javascript:hit()",
    "<a href=javascript:hit()>x</a>",
    "<iframe srcdoc='<script>parent.hit()</script>'>",
    "<iframe src=javascript:hit()>",
    "<body onload=hit()>",
    "<details open ontoggle=hit()>",
    "<input autofocus onfocus=hit()>",
    "<style>@import 'x';*{display:none}</style>",
    "<link rel=stylesheet href=//x>",
    "<meta http-equiv=refresh content='0;url=javascript:hit()'>",
    "<base href=//x/>",
    "<form action=//x><button>go</button></form>",
    "<math><mtext><script>hit()</script></mtext></math>",
    "<template><script>hit()</script></template>",
    "<!--<script>hit()</script>-->",
    "--><script>hit()</script><!--",
    "]]><script>hit()</script>",
    "{{ 7 * 7 }}",
    "{% include '/etc/passwd' %}",
    "${7*7}",
    "&lt;script&gt;hit()&lt;/script&gt;",
    "&#60;script&#62;hit()&#60;/script&#62;",
    "%3Cscript%3Ehit()%3C/script%3E",
    "\\u003cscript\\u003ehit()\\u003c/script\\u003e",
    "<scr<script>ipt>hit()</scr</script>ipt>",
    "<IMG SRC=x OnErRoR=hit()>",
    "<img src='x' onerror='hit()' ",
    "\u202etxt.exe<script>hit()</script>",
    "<script\x0bsrc=//x>",
    "\x1b[31m<script>hit()</script>\x1b]0;<script>hit()</script>\x07",
)


def job(payload: str) -> dict[str, object]:
    return {
        "shell": "cat said; cat said >&2; exit 3",
        "description": payload,
        "labels": ["texts"],
        "params": {"text": payload},
    }


@pytest.fixture(scope="module")
def spoiled(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A project whose every text is a payload."""
    folder = tmp_path_factory.mktemp("spoiled") / "<script>hit()<"
    folder.mkdir()
    (folder / "said").write_text("\n".join(PAYLOADS) + "\n")
    project = Project(folder)
    jobs = {f"job-{number}": job(payload) for number, payload in enumerate(PAYLOADS)}
    project.write(json.dumps({"defaults": {"retry": False}, "jobs": jobs}))
    project.serve(http=True)
    for name in ("job-0", "job-1", "job-6"):
        project.rota("run", name, check=False)
    until(lambda: project.json("show", "job-6:1")["status"] == "FAILED", what="the run to fail")
    project.rota("pause", "job-3", "--reason", PAYLOADS[2])
    browser = site.browser
    made = Site(project, str(project.json("status")["http"]), browser)
    made.log_in()
    yield made
    project.rota("stop", "--now")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/ui/jobs",
        "/ui/jobs/job-0",
        "/ui/jobs/job-3",
        "/ui/new?like=job-6",
        "/ui/queue",
        "/ui/runs?each=true",
        "/ui/runs?q=%3Cscript%3Ehit()%3C/script%3E",
        "/ui/runs/job-0:1",
        "/ui/runs/job-6:1",
        "/ui/agents",
        "/ui/system",
        "/ui/search?q=%22%3E%3Cscript%3Ehit()%3C/script%3E",
    ],
)
def test_no_text_becomes_markup(spoiled: Site, path: str) -> None:
    with spoiled.context() as context:
        context.add_init_script("window.hits = 0; window.hit = () => { window.hits += 1 }")
        watched = watch(context.new_page())
        page = watched.page
        page.goto(path)
        page.get_by_role("main").wait_for()
        page.wait_for_load_state("load")
        assert page.evaluate("window.hits") == 0
        assert page.evaluate("[...document.scripts].every((one) => one.src.startsWith(location.origin))")
        assert (
            page.locator("main iframe, main base, main style, main link, main meta, main object, main embed").count()
            == 0
        )
        assert page.locator("[onerror], [onload], [onclick], [onfocus], [onmouseover], [ontoggle]").count() == 0
        assert [text for text in watched.complaints if "404" not in text] == []


def test_the_payload_is_read_as_it_was_written(spoiled: Site) -> None:
    with spoiled.context() as context:
        page: Page = context.new_page()
        page.goto("/ui/runs/job-0:1")
        page.locator("#output-lines").get_by_text(PAYLOADS[12]).first.wait_for()


def test_there_are_forty_of_them() -> None:
    assert len(set(PAYLOADS)) == 40
