"""The page of a run: how it went, why, its output, and what is done with it."""

import json
from datetime import timedelta

import pytest

from rota.engine.transactions.insert import create_run
from rota.model.clock import to_ms
from rota.model.ids import new_id
from rota.model.records import Outcome
from rota.model.states import Reason, Status, Trigger
from rota.operations.admin.access import Scope
from rota.operations.runs import show_run
from rota.runners.output import folder_of
from rota.runners.writer import TIME, TIMES
from rota.store.driver import Database
from rota.store.tables import jobs
from rota.store.tables.runs import NewRun
from rota.text.format import clock_time
from tests.pages.conftest import Site
from tests.pages.test_runs import BROKEN, DONE, play


def test_a_run_shows_its_outcome_why_and_facts(site: Site) -> None:
    play(site, "other", BROKEN)
    words = site.get("/ui/runs/other:1").words
    for told in ("FAILED exit 3", "disk <full>", "rota explain other:1", "echo other", "manual"):
        assert told in words


def test_a_run_that_is_not_there_is_not_found(site: Site) -> None:
    assert "no run" in site.get("/ui/runs/other:9", status=404).words


def test_output_is_shown_with_its_colours_and_never_as_markup(site: Site) -> None:
    play(site, "hello", DONE, output="\x1b[31mred\x1b[0m <script>alert(1)</script>\n\x1b]0;x\x07end\n")
    page = site.get("/ui/runs/hello:1")
    assert "ansi-red" in [found.get("class") for found in page.all("span")]
    assert "<script>alert(1)</script>" in page.words
    assert not [found for found in page.all("script") if "src" not in found]


def test_lines_of_output_have_the_time_of_their_writing(site: Site) -> None:
    play(site, "hello", DONE, output="one\ntwo\n")
    run = show_run(site.store, "hello:1").run
    folder = folder_of(site.project.state, run.id)
    begin = to_ms(run.started_at)
    (folder / TIMES).write_bytes(TIME.pack(0, begin) + TIME.pack(4, begin + 2000))
    page = site.get("/ui/runs/hello:1")
    assert len(page.all("time", class_="at")) == 2
    first, second = (clock_time(run.started_at + timedelta(seconds=later), "UTC") for later in (0, 2))
    assert f"{first} one {second} two" in page.words
    (folder / TIMES).write_bytes(TIME.pack(0, begin - 60_000))
    assert not site.get("/ui/runs/hello:1").all("time", class_="at")


def test_long_output_shows_its_end_and_leads_to_more(site: Site) -> None:
    play(site, "hello", DONE, output="".join(f"line {number}\n" for number in range(1000)))
    page = site.get("/ui/runs/hello:1")
    assert "The last 300 lines" in page.words
    assert "line 999" in page.words
    assert "line 699 " not in page.words
    assert "line 0 " in site.get("/ui/runs/hello:1?lines=5000").words


def test_without_output_the_page_says_why(site: Site) -> None:
    play(site, "hello", DONE)
    assert "hello:1 wrote nothing" in site.get("/ui/runs/hello:1").words
    site.project.ok("trigger", "hello")
    assert "hello:2 has not started" in site.get("/ui/runs/hello:2").words


def test_the_run_of_a_group_says_that_its_members_have_the_output(site: Site) -> None:
    site.project.ok("trigger", "both")
    assert "both:1 is a group: its members have the output" in site.get("/ui/runs/both:1").words
    for _ in range(2):
        site.project.carry_out([DONE])
    words = site.get("/ui/runs/both:1").words
    assert "COMPLETED" in words
    assert "both:1 is a group: its members have the output" in words
    assert "never started" not in words


def retrying(site: Site) -> None:
    """Let each job have two attempts, a minute apart."""
    text = (site.project.folder / "rota.yaml").read_text()
    site.project.applied(text.replace("{retry: false}", "{retry: {max_attempts: 2, backoff: 1m}}"))


def test_a_chain_shows_its_attempts(site: Site) -> None:
    retrying(site)
    play(site, "other", BROKEN)
    words = site.get("/ui/runs/other:1").words
    assert "Chain 2 attempts" in words
    assert "1 of 2, then :2" in words


def test_a_run_that_goes_on_with_an_answer_is_no_attempt_beyond_the_last(site: Site) -> None:
    play(site, "other", DONE)
    before, now = show_run(site.store, "other:1").run, site.clock.now()

    def follow(db: Database) -> None:
        job, free = jobs.job_by_id(db, before.job_id), {"retry": {"outages": 1}}
        new = NewRun(
            new_id(now), job, Trigger.RETRY, now, attempt=2, retry_of=before.id, chain_id=before.id, decisions=free
        )
        create_run(db, new)

    site.store.write(follow)
    assert "Attempt 2 of 2" in site.get("/ui/runs/other:2").words


def test_a_member_shows_its_group(site: Site) -> None:
    site.project.ok("trigger", "both")
    assert "Group both:1" in site.get("/ui/runs/hello:1").words
    assert "/ui/runs/other:1" in site.get("/ui/runs/both:1").links


def test_denied_tools_are_told(site: Site) -> None:
    refused = Outcome(Status.COMPLETED, exit_code=0, summary="ok", denied_tools=("Bash", "Write"))
    play(site, "hello", refused)
    page = site.get("/ui/runs/hello:1")
    assert "Refused 2 tools" in page.words
    assert "Write" in page.words


def test_a_finished_run_is_run_again(site: Site) -> None:
    play(site, "other", BROKEN)
    page = site.post("/ui/runs/other:1/retry")
    assert "other:2 retries other:1" in page.words
    assert show_run(site.store, "other:2").run.status is Status.QUEUED


def test_a_run_is_cancelled_after_a_question(site: Site) -> None:
    site.project.ok("trigger", "hello")
    asked = site.post("/ui/runs/hello:1/cancel", back="/ui/runs/hello:1")
    assert "Cancel hello:1?" in asked.words
    assert show_run(site.store, "hello:1").run.status is Status.QUEUED
    done = site.post("/ui/runs/hello:1/cancel", confirm="yes", back="/ui/runs/hello:1")
    assert "hello:1 is cancelled" in done.words
    assert show_run(site.store, "hello:1").run.reason is Reason.REQUESTED


def test_who_may_only_read_gets_no_buttons(site: Site) -> None:
    site.project.ok("trigger", "hello")
    assert not [one for one in site.get("/ui/runs/hello:1", scope=Scope.READ).actions if "/ui/runs" in one]


@pytest.mark.parametrize("fragment", ["head", "standing", "why", "family", "facts", "output"])
def test_each_part_can_be_fetched_alone(site: Site, fragment: str) -> None:
    site.project.ok("trigger", "hello")
    site.project.begin()
    site.clock.advance(timedelta(seconds=3))
    page = site.get(f"/ui/runs/hello:1?fragment={fragment}")
    assert [
        found["data-fragment"] for tag in ("div", "section") for found in page.all(tag) if "data-fragment" in found
    ] == [fragment]


def test_the_transcript_of_an_agent_is_folded_and_never_markup(site: Site) -> None:
    text = (site.project.folder / "rota.yaml").read_text()
    site.project.applied(text.replace("jobs:\n", "jobs:\n  look: {prompt: x, agent: claude}\n", 1))
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls <b>"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a <script>alert(1)</script>"}
    events = [
        {"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "I look."}, call]}},
        {"type": "user", "message": {"content": [result]}},
        {"type": "result", "subtype": "success", "total_cost_usd": 0.0123},
    ]
    play(site, "look", DONE, output="".join(json.dumps(event) + "\n" for event in events))
    page = site.get("/ui/runs/look:1")
    for told in ("Transcript", "Turn 1", "I look.", "Bash", "ls <b>", "a <script>alert(1)</script>", "In all $0.0123"):
        assert told in page.words
    assert page.all("details")
    assert not [found for found in page.all("script") if "src" not in found]
    assert "Turn 1" not in site.get("/ui/runs/hello:1", status=404).words
