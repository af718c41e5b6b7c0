"""The page of a job: how it stands, when it fires, how it went, why, what it is and was; and what is done with it."""

from datetime import timedelta

from rota.model.clock import iso
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.admin.access import Scope
from rota.operations.jobs import JobQuery, page_of_jobs, show_job
from rota.operations.runs import history
from rota.rules.schedule.preview import coming_fires
from tests.pages.conftest import Site

GOOD = Outcome(Status.COMPLETED, exit_code=0)
BAD = Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="boom <b>")
MADE = {
    "name": "mine",
    "kind": "command",
    "work": "echo mine",
    "schedule": "daily at 8",
    "others": "env: {KEY: value1}",
}


def test_a_job_shows_its_next_ten_fires_its_definition_and_where_it_comes_from(site: Site) -> None:
    page = site.get("/ui/jobs/hello")
    for words in ("at 03:00 every day (UTC)", "Wed 25 Nov 03:00", "from rota.yaml, version 1", "echo hello"):
        assert words in page.words
    assert len(page.all("li", class_="row between")) == 10


def test_an_overdue_fire_is_told_apart_from_the_coming_ones(site: Site) -> None:
    """Everything is paused, the scheduler is switched off or late: the cursor of the job stays behind."""
    due = coming_fires(show_job(site.store, "hello").job, n=1)[0].at
    site.clock.advance(timedelta(days=3))
    page = site.get("/ui/jobs/hello?fragment=fires,standing")
    listed = [found["datetime"] for found in page.all("time")]
    assert "Overdue" in page.words
    assert iso(due) in listed
    coming = [at for at in listed if at != iso(due)]
    assert len({*coming}) == 10
    assert min(coming) > iso(site.clock.now())


def test_an_unknown_job_is_told_with_the_nearest_name(site: Site) -> None:
    assert "id you mean 'hello'?" in site.get("/ui/jobs/helo", status=404).words


def test_the_history_has_a_bar_and_a_mark_for_each_run(site: Site) -> None:
    for outcome, took in ((GOOD, 2), (BAD, 8), (GOOD, 4)):
        site.project.ok("trigger", "hello")
        site.project.carry_out([outcome], took=timedelta(seconds=took))
    page = site.get("/ui/jobs/hello")
    bars = [found for found in page.all("rect") if found.get("class", "").startswith("bar ")]
    assert [bar["class"].split()[1] for bar in bars] == ["bar-completed", "bar-failed", "bar-completed"]
    assert [float(bar["height"]) for bar in bars] == [30.0, 120.0, 60.0]
    assert "66 % of 3 runs" in page.words
    assert "4 s longest 8 s" in page.words
    assert "boom <b>" in page.words
    assert "boom &lt;b&gt;" in page.html


def test_a_job_tells_why_its_newest_run_is_where_it_is(site: Site) -> None:
    site.project.ok("trigger", "hello")
    page = site.get("/ui/jobs/hello")
    assert "hello:1 QUEUED" in page.words
    assert "started by hand" in page.words
    assert "/ui/runs/hello:1" in page.links


def test_versions_tell_what_changed(site: Site) -> None:
    text = (site.project.folder / "rota.yaml").read_text()
    site.clock.advance(timedelta(minutes=1))
    site.project.applied(text.replace("0 3", "30 4"))
    assert '2 12:01 now cron "0 3 * * *" -> "30 4 * * *" 1 12:00 created' in site.get("/ui/jobs/hello").words


def test_a_group_leads_to_its_members(site: Site) -> None:
    page = site.get("/ui/jobs/both")
    assert {"/ui/jobs/hello", "/ui/jobs/other"} <= set(page.links)
    assert "sequential, on_failure: stop" in page.words


def test_a_job_is_run_with_the_params_that_were_typed(site: Site) -> None:
    site.post("/ui/jobs/hello/run", **{"param.who": "me", "back": "/ui/jobs/hello"})
    site.post("/ui/jobs/hello/run", **{"param.who": "3", "back": "/ui/jobs/hello"})
    assert [run.params["who"] for run in history(site.store, limit=9)] == [3, "me"]


def test_a_param_that_the_job_lacks_is_refused(site: Site) -> None:
    page = site.post("/ui/jobs/hello/run", **{"param.nobody": "x", "back": "/ui/jobs/hello"})
    assert "has no param 'nobody'" in page.words
    assert history(site.store, limit=9) == []


def test_a_paused_job_says_so_and_may_make_up_for_the_latest(site: Site) -> None:
    site.project.ok("pause", "hello", "--reason", "upgrade")
    site.clock.advance(timedelta(days=1))
    page = site.get("/ui/jobs/hello")
    assert "Paused since" in page.words
    done = site.post("/ui/jobs/hello/resume", catch_up="once", back="/ui/jobs/hello")
    assert "hello is resumed" in done.words
    assert "catches up" in done.words


def test_a_job_of_a_file_can_be_neither_changed_nor_deleted_here(site: Site) -> None:
    page = site.get("/ui/jobs/hello")
    assert not {"/ui/jobs/hello/delete", "/ui/jobs/hello/disable"} & set(page.actions)
    refused = site.post("/ui/jobs/hello/delete", confirm="yes", back="/ui/jobs/hello")
    assert f"is declared in {site.api.project.folder}/rota.yaml:" in refused.words
    assert show_job(site.store, "hello").job.retired_at is None


def test_a_job_that_was_made_here_is_disabled_and_enabled(site: Site) -> None:
    site.post("/ui/new", **MADE)
    asked = site.post("/ui/jobs/mine/disable", back="/ui/jobs/mine")
    assert "will neither fire nor be started" in asked.words
    assert show_job(site.store, "mine").job.enabled
    done = site.post("/ui/jobs/mine/disable", confirm="yes", back="/ui/jobs/mine")
    assert "mine is disabled" in done.words
    assert not show_job(site.store, "mine").job.enabled
    assert "mine is enabled" in site.post("/ui/jobs/mine/enable", back="/ui/jobs/mine").words


def test_a_delete_asks_what_it_hits_before_it_does_anything(site: Site) -> None:
    site.post("/ui/new", **MADE)
    site.project.ok("trigger", "mine")
    asked = site.post("/ui/jobs/mine/delete", back="/ui/jobs/mine")
    assert "Delete mine?" in asked.words
    assert "in the queue: 1 run" in asked.words
    assert show_job(site.store, "mine").job.retired_at is None
    done = site.post("/ui/jobs/mine/delete", confirm="yes")
    assert "mine is deleted" in done.words
    assert show_job(site.store, "mine").job.retired_at is not None


def test_the_lines_for_the_file_are_shown_to_who_may_change_everything(site: Site) -> None:
    """The values of `env` may be private."""
    site.post("/ui/new", **MADE)
    page = site.get("/ui/jobs/mine")
    assert "Copy to rota.yaml" in page.words
    assert "value1" in page.html
    assert "value1" not in site.get("/ui/jobs/mine", scope=Scope.READ).html


def test_who_may_only_read_sees_no_forms_but_their_own_settings(site: Site) -> None:
    page = site.get("/ui/jobs/hello", scope=Scope.READ)
    assert not [action for action in page.actions if action.startswith("/ui/jobs")]


def test_parts_of_the_page_are_given_alone(site: Site) -> None:
    part = site.get("/ui/jobs/hello?fragment=standing,history,why,fires,versions,definition")
    assert len([one for one in part.all("section") if one.get("data-fragment")]) == 5
    assert not part.all("html")


def test_texts_of_others_never_become_markup(site: Site) -> None:
    payload = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}"
    site.post("/ui/new", **{**MADE, "description": payload, "others": "params: {who: x}"})
    site.post("/ui/jobs/mine/run", **{"param.who": payload, "back": "/ui/queue"})
    site.post("/ui/jobs/mine/pause", **{"for": "1h", "reason": payload, "back": "/ui/jobs"})
    for path in (
        "/ui/jobs",
        "/ui/jobs/mine",
        "/ui/queue",
        "/ui/queue/mine:1",
        "/ui/new?like=mine",
        "/ui/jobs?q=" + "%22%3E%3Cb%3E",
    ):
        page = site.get(path)
        assert not page.all("img")
        assert not page.all("b")
        assert "alert(1)" not in "".join(found.get("src", "") for found in page.all("script"))
        assert page.html.count("<script") == len(page.all("script", type="module"))
    assert "{{ 7 * 7 }}" in site.get("/ui/jobs/mine").words


def test_every_kind_of_job_has_its_page(site: Site) -> None:
    site.project.applied(
        """
poll: {url: "http://127.0.0.1:9/state", interval: 5m}
agents: {helper: {adapter: claude}}
jobs:
  hello: {command: "true", cron: "0 3 * * *", jitter: 10m, quiet_hours: {windows: ["02:00-04:00"], policy: defer}}
  asked: {agent: helper, prompt: "Look <b>around</b>", interval: 1h}
  once: {shell: "true", at: "2026-12-24 08:30"}
  boot: {command: "true", cron: "@reboot"}
  mode: {command: "true", interval: {active: 5m, idle: 1h, dormant: never}}
groups:
  both: {members: [hello, {job: once, always: true}], cron: "0 1 * * *"}
"""
    )
    names = [line.view.job.name for line in page_of_jobs(site.store, JobQuery()).lines]
    assert len(names) == 7
    for name in names:
        page = site.get(f"/ui/jobs/{name.replace('/', '~')}")
        assert name in page.words
        assert not page.all("b")
        assert (f"/ui/new?like={name}" in page.links) is (name not in ("both", "rota/poll"))
    for name in ("asked", "once", "mode"):
        assert site.get(f"/ui/new?like={name}").all("form", id="draft")
    assert "declare one like it" in site.get("/ui/new?like=both", status=422).words.lower()
    assert "deferred from" in site.get("/ui/jobs/hello").words
    assert len(site.get("/ui/jobs").all("table", class_="list jobs")) == 1
