"""What every page has: the way in, the header, messages, zone and theme, errors for people, styles and scripts."""

from contextlib import closing
from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from rota.http.app import make_app
from rota.http.pages.page import STATIC_FOLDER, asset_path, assets
from rota.http.security import Authenticator
from rota.model.errors import DatabaseBusy
from rota.operations.admin.access import Scope, ended_sessions
from rota.operations.status.feed import newest
from tests.api.conftest import BASE
from tests.asgi import Client
from tests.pages.conftest import Page, Site

HTML = {"Accept": "text/html"}


def test_a_page_says_from_where_on_it_follows_what_happens(site: Site) -> None:
    before = newest(site.store)
    site.project.ok("trigger", "hello")
    (body,) = site.get("/ui/queue").all("body")
    assert int(body["data-seq"]) == newest(site.store) > before


def test_a_page_has_landmarks_a_title_and_one_first_heading(site: Site) -> None:
    page = site.get("/")
    assert [len(page.all(tag)) for tag in ("header", "nav", "main", "footer", "h1")][1:] == [1, 1, 1, 1]
    assert page.all("a", class_="skip") == [{"class": "skip", "href": "#main"}]
    assert page.all("html", lang="en")
    assert "Overview · home · rota" in page.html


def test_a_page_has_no_script_and_no_style_of_its_own(site: Site) -> None:
    page = site.get("/")
    assert all(script["src"].startswith("/static/") for script in page.all("script"))
    assert not page.all("style")
    assert " style=" not in page.html
    assert not [name for _, found in page._read.elements for name in found if name.startswith("on")]


def test_who_is_not_logged_in_is_shown_the_login_and_then_goes_on(site: Site) -> None:
    found = Page(site.api.bare.get("/ui/search?q=x", headers=HTML))
    assert (found.status, found.all("input", name="back")[0]["value"]) == (401, "/ui/search?q=x")
    form = {"token": site.api.token, "back": "/ui/search?q=x"}
    sent = site.api.bare.post("/login", data=form, headers={"Origin": BASE}, follow_redirects=False)
    assert sent.headers["location"] == "/ui/search?q=x"


@pytest.mark.parametrize(
    "back", ["https://evil.test/", "//evil.test", "/\\evil.test", "/ui/x\n", "javascript:alert(1)", "/api/v1/jobs"]
)
def test_a_form_leads_to_no_other_place_than_a_page(site: Site, back: str) -> None:
    form = {"token": site.api.token, "back": back}
    sent = site.api.bare.post("/login", data=form, headers={"Origin": BASE}, follow_redirects=False)
    assert sent.headers["location"] == "/"


def test_programs_are_refused_in_json_and_people_by_a_page(site: Site) -> None:
    assert site.api.bare.get("/").headers["content-type"] == "application/problem+json"
    page = site.get("/ui/nowhere", status=404)
    assert "Page not found" in page.words
    assert "/" in page.links


def test_a_login_may_be_one_that_only_looks(site: Site) -> None:
    form = {"token": site.api.token_of(Scope.READ)}
    sent = site.api.bare.post("/login", data=form, headers={"Origin": BASE}, follow_redirects=False)
    assert sent.status_code == 303
    assert "tester, read" in Page(site.api.bare.get("/", headers=HTML)).words
    refused = site.api.bare.post("/api/v1/jobs/hello/trigger", headers={"Origin": BASE})
    assert refused.status_code == 403


def test_a_token_for_agents_logs_nobody_in(site: Site) -> None:
    form = {"token": site.api.token_of(Scope.AGENT)}
    assert site.api.bare.post("/login", data=form, headers={"Origin": BASE}).status_code == 403


def test_logging_out_ends_the_session(site: Site) -> None:
    page = site.post("/ui/logout")
    assert page.all("input", name="token")


@pytest.mark.parametrize("path", ["/ui/logout", "/api/v1/logout"])
def test_after_a_logout_no_copy_of_the_cookie_is_good(site: Site, path: str) -> None:
    """Also not in a server that was started later; other sessions go on."""
    with closing(site.browser()) as browser, closing(site.browser()) as other:
        cookie = browser.cookies[site.api.doorman.cookie]
        assert browser.get("/api/v1/jobs").status_code == 200
        browser.post(path, headers={"Origin": BASE})
        browser.cookies.set(site.api.doorman.cookie, cookie)
        assert browser.get("/api/v1/jobs").status_code == 401
        site.api.doorman.ended = site.store.read(partial(ended_sessions, now=site.clock.now()))
        assert browser.get("/api/v1/jobs").status_code == 401
        assert other.get("/api/v1/jobs").status_code == 200
    site.clock.advance(timedelta(days=8))
    assert site.store.read(partial(ended_sessions, now=site.clock.now())) == {}


def test_a_form_of_another_page_changes_nothing(site: Site) -> None:
    with closing(site.browser()) as browser:
        assert browser.post("/ui/logout", headers={"Origin": "https://evil.test"}).status_code == 403
        assert browser.post("/ui/logout").status_code == 403


def test_the_zone_is_the_project_s_until_a_browser_chooses_another(site: Site) -> None:
    assert [menu for menu in site.get("/").words.split() if menu == "UTC"]
    page = site.post("/ui/preferences", zone="Asia/Tokyo", back="/")
    assert "Asia/Tokyo" in page.words
    assert "Times in UTC" in site.get("/", cookies={"rota_zone": "No%2FSuch"}).words


def test_a_zone_that_does_not_exist_is_told(site: Site) -> None:
    page = site.post("/ui/preferences", zone="Europe/Berln")
    assert "'Europe/Berln'" in page.words
    assert page.all("div", class_="message bad")


def test_the_theme_is_what_the_browser_chose(site: Site) -> None:
    assert "data-theme" not in site.get("/").all("html")[0]
    assert site.post("/ui/preferences", theme="dark").all("html")[0]["data-theme"] == "dark"
    assert "data-theme" not in site.get("/", cookies={"rota_theme": '"><script>'}).all("html")[0]


def test_a_message_is_text_and_nothing_else(site: Site) -> None:
    page = site.post("/ui/preferences", zone="<script>alert(1)</script>")
    assert "<script>alert(1)</script>" in page.words


def test_health_is_told_at_the_top(site: Site) -> None:
    assert "not running" in site.get("/").words
    assert "not running" in site.get("/?fragment=health").words


@pytest.mark.parametrize("name", ["nothing", "../login", "UPPER", "health,nothing"])
def test_a_part_that_a_page_does_not_have_is_not_found(site: Site, name: str) -> None:
    site.get(f"/?fragment={name}", status=404)


def test_styles_and_scripts_need_no_token_and_are_kept_for_a_year(site: Site) -> None:
    found = site.api.bare.get(asset_path("rota.css"))
    assert (found.status_code, found.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert site.api.bare.get("/static/000000000000/rota.css").headers["cache-control"] == "no-cache"
    assert site.api.bare.get("/static/000000000000/none.css").status_code == 404


@pytest.mark.parametrize("name", ["..%2f..%2ftoken", "rota.py", "%2e%2e", "__init__.py"])
def test_nothing_else_is_served_beside_them(site: Site, name: str) -> None:
    assert site.api.bare.get(f"/static/{assets().digest}/{name}").status_code in (404, 422)


def test_styles_and_scripts_load_nothing_from_elsewhere() -> None:
    for path in STATIC_FOLDER.iterdir():
        text = path.read_text().replace("http://www.w3.org/", "")
        assert "http:" not in text, path
        assert "https:" not in text, path
        assert "@import" not in text, path


def test_pages_work_below_the_path_of_a_proxy(site: Site) -> None:
    context = replace(site.api.context, base_path="/rota")
    doorman = Authenticator(site.clock, token=lambda: site.api.token, public_url="https://ops.example.net/rota")
    with closing(Client(make_app(context, doorman), base_url="http://ops.example.net")) as behind:
        headers = {**HTML, "Authorization": f"Bearer {site.api.token}"}
        page = Page(behind.get("/rota/", headers=headers))
        assert page.status == 200
        assert [link for link in page.links if not link.startswith(("/rota/", "#"))] == []
        assert [action for action in page.actions if not action.startswith("/rota/")] == []
        assert behind.get(page.all("link", rel="stylesheet")[0]["href"]).status_code == 200


class BusyStore:
    """A database that another process holds for too long."""

    def read(self, _operation: object) -> object:
        raise DatabaseBusy("another process holds the database", hint="try again")

    write = read


def test_a_database_that_is_busy_is_told_on_a_page_that_needs_none(site: Site) -> None:
    site.api.context = replace(site.api.context, store=BusyStore())  # type: ignore[arg-type]
    page = site.get("/ui/system", status=503)
    assert "rota cannot answer now" in page.words
    assert "/ui/system" in page.links
    assert page.response.headers["retry-after"] == "5"
