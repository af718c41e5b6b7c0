"""`rota questions`, `answer` and `grants`, the tool `ask_person`, and the same through HTTP and the dashboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.operations.admin.access import Scope
from tests.api.conftest import Api, opened
from tests.faces.conftest import Project
from tests.faces.test_made_by_agents import Acting, refused
from tests.faces.test_tools import DAILY, Tools, running
from tests.pages.conftest import Site

HOSTILE = "Deploy <b>now</b>?\x1b[2J\u202e"
FILE = """
agents:
  reviewer: {adapter: claude, max_concurrent: 5}
agent_policy: {approval: required}
jobs:
  nightly: {agent: reviewer, prompt: Review the day., rota_tools: true}
  tidy: {agent: reviewer, prompt: Tidy., access: ask, answered_by: ["token:tester", "browser:owner"]}
  script: {command: "true"}
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A project in which a run of an agent has asked a person."""
    folder = tmp_path / "home"
    folder.mkdir()
    with opened(Project(folder).applied(FILE)) as made:
        project = made.project
        project.ok("trigger", "nightly")
        asking = Tools(project, running(project, "nightly:1"))
        asked = asking.call("ask_person", question=HOSTILE, choices=["yes", "no"])
        assert (asked["question"], asked["state"], asked["answer"]) == (1, "open", None)
        assert "end your turn now" in asked["next"]
        yield Site(made)


@pytest.fixture
def api(site: Site) -> Api:
    return site.api


def test_a_question_is_listed_shown_and_answered(site: Site) -> None:
    project = site.project
    assert project.json("questions")[0]["text"] == "Deploy <b>now</b>?"
    assert "Deploy <b>now</b>?" in project.ok("questions")
    assert "nightly:1" in project.ok("questions", "show", "1")
    assert "none of the choices" in project.rota("answer", "1", "maybe").stderr
    assert "nothing was changed" in project.ok("answer", "1", "yes", "--dry-run")
    assert "question 1: 'yes', by user:" in project.ok("answer", "1", "YES")
    again = project.rota("answer", "1", "no")
    assert (again.exit_code, "question 1 is answered" in again.stderr) == (6, True)
    assert project.ok("questions") == "no questions\n"
    assert project.json("questions", "--state", "all")[0]["door"] == "cli"
    assert "question 1" in project.ok("explain", "nightly:1")
    assert [entry["action"] for entry in project.json("audit") if entry["action"] == "answer"] == ["answer"]
    project.ok("verify")


def test_without_a_terminal_the_answer_must_be_named(site: Site) -> None:
    result = site.project.rota("answer", "1")
    assert (result.exit_code, "the answer is missing" in result.stderr) == (2, True)
    assert site.project.rota("answer", "9", "yes").exit_code == 2


def test_an_agent_inside_a_run_reads_and_never_answers(site: Site) -> None:
    inside = Acting(site.project).inside
    assert inside("nightly", "questions").exit_code == 0
    assert inside("nightly", "grants").exit_code == 0
    for command in (("answer", "1", "yes"), ("grants", "revoke", "1"), ("approve", "watch", "--yes")):
        assert refused(inside("nightly", *command)), command
    assert site.project.json("questions")[0]["state"] == "open"


def test_http_answers_with_the_digest_that_was_shown(api: Api) -> None:
    (question,) = api.get("/questions")["items"]
    assert question == api.get("/questions/1") == api.cli("questions", "show", "1")
    path, body = "/api/v1/questions/1/answer", {"answer": "yes", "digest": question["digest"]}
    assert api.refused("POST", path, {**body, "digest": "other"}) == (409, "question_changed")
    assert api.refused("POST", path, {**body, "answer": "maybe"}) == (422, "answer_invalid")
    assert api.call("POST", path, body, scope=Scope.READ).status_code == 403
    assert api.call("POST", path, body, scope=Scope.AGENT).status_code == 403
    answered = api.call("POST", path, body, scope=Scope.RUN).json()
    assert (answered["answer"], answered["answered_by"], answered["door"]) == ("yes", "token:tester", "api")
    assert api.refused("POST", path, body) == (409, "question_closed")
    assert api.refused("POST", "/api/v1/questions/9/answer", body) == (404, "unknown_question")


def test_the_stream_has_the_question_and_its_end(site: Site) -> None:
    from rota.operations.status.feed import follow_from

    site.project.ok("answer", "1", "yes")
    events = follow_from(site.store, 0).events
    assert [event.name for event in events if event.name.startswith("question.")] == [
        "question.asked",
        "question.answered",
    ]
    assert {event.data["question"] for event in events if event.name.startswith("question.")} == {1}


def test_the_page_shows_hostile_text_as_text_and_answers_without_scripts(site: Site) -> None:
    page = site.get("/ui/questions")
    assert "Deploy <b>now</b>?" in page.words
    assert "<b>now" not in page.html
    (digest, *_) = [field["value"] for field in page.all("input", name="digest")]
    answers = [field["value"] for field in page.all("input", name="answer")]
    assert answers == ["yes", "no"]
    refused_page = site.post("/ui/questions/1/answer", digest="other", answer="yes")
    assert "changed since you were asked" in refused_page.words
    assert "'no', by browser:owner (dashboard)" in site.post("/ui/questions/1/answer", digest=digest, answer="no").words
    assert "No questions wait for an answer" in site.get("/ui/questions").words


def test_a_reader_of_the_page_gets_no_form(site: Site) -> None:
    assert [action for action in site.get("/ui/questions", scope=Scope.READ).actions if "answer" in action] == []


def test_a_proposal_is_answered_through_every_door(site: Site) -> None:
    for name in ("one", "two"):
        Tools(site.project).call("schedule_job", **{**DAILY, "name": name, "task": f"look at {name}"})
    one, two = (site.api.get(f"/questions/{number}") for number in (2, 3))
    body = {"answer": "approve", "digest": one["digest"]}
    path = "/api/v1/questions/2/answer"
    assert site.api.call("POST", path, body, scope=Scope.RUN).status_code == 403
    assert site.api.call("POST", path, body).json()["state"] == "answered"
    assert site.project.json("show", "one")["provisional_since"] is None
    assert "/ui/agents/two" in site.get("/ui/questions").links
    site.project.ok("answer", "3", "reject")
    assert site.project.json("show", "two")["state"] == "retired"
    assert two["choices"] == ["approve", "reject"]


def permitting(project: Project) -> Tools:
    project.ok("trigger", "tidy")
    return Tools(project, running(project, "tidy:1"))


def ask_permission(site: Site) -> Tools:
    from functools import partial

    from rota.operations.questions.permissions import request

    inside = permitting(site.project)
    assert inside.maker is not None
    call = {"tool": "Bash", "given": {"command": "rm -r build\x1b[2J"}}
    site.store.write(partial(request, author=inside.maker, now=site.clock.now(), **call))
    return inside


def test_a_tool_call_is_shown_exactly_and_granted_once_and_for_all(site: Site) -> None:
    inside = ask_permission(site)
    shown = site.project.ok("questions", "show", "2")
    assert '"command": "rm -r build\\u001b[2J"' in shown
    page = site.get("/ui/questions")
    assert "rm -r build" in page.words
    refused_here = site.project.rota("answer", "2", "allow always")
    assert "may not answer question 2" in refused_here.stderr
    digest = site.api.get("/questions/2")["digest"]
    site.post("/ui/questions/2/answer", digest=digest, answer="allow always")
    (grant,) = site.project.json("grants")
    assert (grant["state"], grant["uses"], grant["granted_by"]) == ("valid", 0, "browser:owner")
    assert site.api.get("/grants")["items"] == [grant]
    assert "rm -r build" in site.project.ok("grants")
    call = {"command": "rm -r build\x1b[2J"}
    assert inside.call("permission", tool_name="Bash", input=call) == {"behavior": "allow", "updatedInput": call}
    assert [one["target"] for one in site.project.json("audit") if one["action"] == "permission"] == ["Bash"]
    assert "/ui/grants/1/revoke" in site.get("/ui/questions").actions
    assert "nothing was changed" in site.project.ok("grants", "revoke", "1", "--dry-run")
    assert site.api.post("/grants/1/revoke")["state"] == "revoked"
    assert site.api.refused("POST", "/api/v1/grants/9/revoke") == (404, "unknown_grant")
    site.project.ok("verify")


def test_a_run_that_only_asks_for_permission_has_no_other_tools(site: Site) -> None:
    inside = permitting(site.project)
    assert inside.refusal("list_jobs").startswith("tools_refused")


@pytest.mark.parametrize("adapter", ["codex", "gemini", "opencode"])
def test_a_program_that_cannot_ask_is_refused_with_its_place(tmp_path: Path, adapter: str) -> None:
    project = Project(tmp_path)
    project.write(f"jobs:\n  tidy: {{agent: {adapter}, prompt: x, access: ask}}\n")
    result = project.rota("check")
    assert "rota.yaml:2:" in result.stdout + result.stderr
    assert "cannot enforce access ask" in result.stdout + result.stderr
