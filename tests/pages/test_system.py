"""The system: scheduler, loops, workers, deliveries, audit, configuration, versions, doctor, pausing everything."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rota.model.notifications import DeliveryStatus
from rota.operations.admin.access import Scope
from rota.operations.notifications import list_deliveries
from rota.settings import Settings
from rota.store.queries import load_migrations
from rota.store.tables import notifications
from tests.pages.conftest import Site
from tests.pages.test_overview import FAILED, ran

TOLD = """
defaults: {retry: false}
notify:
  ops: {webhook: "https://ops.example.net/hook", on: [failed]}
jobs:
  hello: {command: [echo, hello], notify: [ops]}
"""


@pytest.fixture
def failed_delivery(site: Site) -> Site:
    """A project whose only notification was given up."""
    site.project.write(TOLD)
    site.project.ok("apply")
    ran(site, "hello", FAILED)
    site.store.write(lambda db: notifications.leave_all(db, "410 Gone", now=site.clock.now()))
    return site


def test_the_scheduler_is_told_to_be_where_none_answers(site: Site) -> None:
    page = site.get("/ui/system")
    assert "Process not running" in page.words
    assert "No scheduler is running." in page.words


def test_the_versions_are_told(site: Site) -> None:
    words = site.get("/ui/system").words
    assert "rota 0.1.0, Python 3." in words
    assert "SQLite 3." in words
    assert f"rota.db schema {len(load_migrations('sqlite'))}" in words


def test_who_claimed_runs_is_a_worker_with_counts(site: Site) -> None:
    ran(site, "hello")
    ran(site, "other", FAILED)
    assert "here" in site.get("/ui/system?fragment=workers").words
    assert "1 1" in site.get("/ui/system?fragment=workers").words


def test_a_scheduler_elsewhere_is_listed_while_it_says_that_it_is_there(site: Site) -> None:
    site.api.call("PUT", "/api/v1/workers/laptop")
    assert "laptop remote registered" in site.get("/ui/system").words
    site.clock.advance(timedelta(days=1))
    assert "laptop remote no contact" in site.get("/ui/system").words


def test_a_worker_is_drained_and_takes_runs_again(site: Site) -> None:
    ran(site, "hello")
    assert "here is draining" in site.post("/ui/workers/here/drain", draining="yes").words
    assert "here claims runs again" in site.post("/ui/workers/here/drain", draining="no").words
    assert "nobody" in site.post("/ui/workers/nobody/drain", draining="yes").words


def test_a_delivery_that_failed_is_shown_and_sent_again(failed_delivery: Site) -> None:
    page = failed_delivery.get("/ui/system")
    assert "hello:1 failed ops failed" in page.words
    one = page.all("input", name="id")[0]["value"]
    assert "1 notification is resent" in failed_delivery.post("/ui/deliveries/retry", id=one).words
    (found,) = list_deliveries(failed_delivery.store, status=None, about=None, target=None, limit=9)
    assert found.status is DeliveryStatus.PENDING


def test_all_deliveries_that_failed_are_sent_again_and_none_is_refused(failed_delivery: Site) -> None:
    assert "1 notification is resent" in failed_delivery.post("/ui/deliveries/retry", failed="yes").words
    assert "0 notifications are resent" in failed_delivery.post("/ui/deliveries/retry", failed="yes").words
    assert "no notification is named" in failed_delivery.post("/ui/deliveries/retry").words


def test_a_target_is_told_again(failed_delivery: Site) -> None:
    assert "ops was not disabled" in failed_delivery.post("/ui/notify/ops/enable").words
    assert "no target is named 'oops'" in failed_delivery.post("/ui/notify/oops/enable").words


def test_the_audit_is_shown_to_who_may_read_it_and_page_by_page(site: Site) -> None:
    for _ in range(20):
        site.project.ok("trigger", "hello")
    page = site.get("/ui/system")
    older = next(link for link in page.links if "before=" in link)
    assert page.words.count(" command trigger hello") == 15
    assert "command apply" in site.get(older.partition("#")[0]).words
    assert "command trigger" not in site.get("/ui/system", scope=Scope.READ).words


def test_the_configuration_is_shown_as_it_is_in_effect(site: Site) -> None:
    settings = Settings(site.project.folder, site.project.state)
    site.api.context = replace(site.api.context, settings=settings)
    words = site.get("/ui/system").words
    assert "concurrency 16" in words
    assert "shutdown_grace 30s" in words
    assert "gpu 1" in words
    assert "day 100 runs per day (UTC), defer" in words


def test_the_address_of_a_target_is_not_shown(failed_delivery: Site) -> None:
    """An address may be a secret: T-09."""
    assert "ops.example.net" not in failed_delivery.get("/ui/system").html


def test_doctor_tells_the_worst_first_and_needs_an_admin(site: Site) -> None:
    (site.project.folder / "rota.yaml").write_text("jobs: {hello: {comand: x}}\n")
    words = site.get("/ui/system/doctor").words
    assert words.index("problem file") < words.index("ok sqlite")
    assert site.get("/ui/system/doctor", scope=Scope.RUN, status=403)


def test_everything_is_paused_after_a_question_and_goes_on(site: Site) -> None:
    asked = site.post("/ui/scheduler/stop", reason="upgrade", back="/ui/system")
    assert "Pause everything?" in asked.words
    assert "3 jobs stop firing" in asked.words
    assert asked.all("input", name="reason")[0]["value"] == "upgrade"
    assert site.api.get("/scheduler/status")["paused"] is None
    page = site.post("/ui/scheduler/stop", reason="upgrade", confirm="yes")
    assert "everything is paused" in page.words
    assert site.api.get("/scheduler/status")["paused"]["reason"] == "upgrade"
    assert "everything is resumed" in site.post("/ui/scheduler/start").words
    assert site.api.get("/scheduler/status")["paused"] is None


def test_who_may_not_pause_everything_sees_no_button_and_is_refused(site: Site) -> None:
    page = site.get("/ui/system", scope=Scope.RUN)
    assert "/ui/scheduler/stop" not in page.actions
    assert site.post("/ui/scheduler/stop", scope=Scope.RUN, confirm="yes").status == 403


@pytest.mark.parametrize("part", ["scheduler", "loops", "workers", "deliveries", "audit"])
def test_each_part_is_given_alone(site: Site, part: str) -> None:
    assert site.get(f"/ui/system?fragment={part}").all("section", data_fragment=part)
