"""Work sources with a real scheduler and real processes: claimed, reported, and given back after a kill (003)."""

import json
import threading

import pytest

from tests.service.serving import Project, ended, kill
from tests.waiting import until
from tests.work_servers import TOKEN, GitHubServer, Issue, ItemServer, serving

pytestmark = pytest.mark.xdist_group("service")

SCRIPT = """#!/bin/sh
cat > prompt
cat "$ROTA_ITEM_FILE" > item
while [ -e wait ] && [ ! -e go ]; do sleep 0.02; done
[ ! -e fail ] || exit 3
echo mended
"""
FILE = """
agents:
  fixer:
    adapter: custom
    access: full
    max_concurrent: 4
    options: {{argv: [./agent.sh], prompt: stdin, parser: text}}
jobs:
  fix:
    agent: fixer
    prompt: Fix it.
    term_grace: 0
    work_source: {source}
"""
ITEM = {"id": "7", "title": "500 on empty search", "description": "Search for nothing."}


def write(project: Project, source: str) -> None:
    """Write a project whose only job works on the items of a source."""
    program = project.folder / "agent.sh"
    program.write_text(SCRIPT)
    program.chmod(0o755)
    project.write(FILE.format(source=source))


def until_started(project: Project) -> None:
    until((project.folder / "item").exists, what="the agent to start")


def test_a_file_is_worked_on_and_ends_in_done(project: Project) -> None:
    inbox = project.folder / "inbox"
    inbox.mkdir()
    (inbox / "a.md").write_text("# Login fails\n\nOn Safari.\n")
    write(project, "{directory: inbox}")
    project.serve()
    project.rota("trigger", "fix")
    project.until_told("fix", [("COMPLETED", None)])
    until((inbox / "done/a.md.report.json").exists, what="the report")
    assert json.loads((inbox / "done/a.md.report.json").read_text())["summary"] == "mended"
    prompt = (project.folder / "prompt").read_text()
    assert "Fix it.\n\nThe work item comes from outside." in prompt
    assert "Work item: Login fails" in prompt
    assert json.loads((project.folder / "item").read_text())["id"] == "a.md"
    project.rota("trigger", "fix")
    project.until_told("fix", [("COMPLETED", None), ("SKIPPED", "no_work")])
    assert 'a.md "Login fails" claimed' in project.rota("explain", "fix:1").stdout
    project.rota("verify")


def test_a_tick_reports_before_it_ends(project: Project) -> None:
    inbox = project.folder / "inbox"
    inbox.mkdir()
    (inbox / "a.md").write_text("x")
    write(project, "{directory: inbox, attempts: 1}")
    (project.folder / "fail").touch()
    project.rota("apply")
    project.rota("trigger", "fix")
    project.rota("tick", apart=True)
    assert project.told("fix") == [("FAILED", "agent_error")]
    assert (inbox / "failed/a.md").exists()
    project.rota("verify")


def test_a_kill_between_the_claim_and_its_answer_gives_the_item_back(project: Project) -> None:
    with serving(ItemServer(ITEM)) as server:
        answered = threading.Event()
        server.after = lambda _method, path: (path.endswith("claim") and answered.wait() and None) or None
        write(project, f"{{http: '{server.url}'}}")
        first = project.serve()
        project.rota("trigger", "fix")
        until(lambda: server.held, what="the claim")
        kill(first)
        server.after = lambda _method, _path: None
        answered.set()
        project.serve()
        project.until_told("fix", [("COMPLETED", None)])
        until(lambda: server.reports, what="the report")
        assert [one["run"] for one in server.reports] == ["fix:1"]
        claims = [body["claim"] for _, path, body in server.asked if path.endswith("claim")]
        assert len(set(claims)) == 2
        assert server.held == {}
        project.rota("verify")


def test_an_agent_that_outlives_its_killed_scheduler_is_reported_by_the_next(project: Project) -> None:
    with serving(GitHubServer(Issue(212, "login fails"))) as server:
        project.state.mkdir(mode=0o700)
        secrets = project.state / "secrets.env"
        secrets.write_text(f"GITHUB_TOKEN={TOKEN}\n")
        secrets.chmod(0o600)
        (project.folder / "wait").touch()
        write(project, f"{{github: me/api, api_url: '{server.url}', token: {{secret: GITHUB_TOKEN}}}}")
        first = project.serve()
        project.rota("trigger", "fix")
        until_started(project)
        assert server.issues[212].labels == ["agent-working"]
        kill(first)
        second = project.serve()
        (project.folder / "go").touch()
        project.until_told("fix", [("COMPLETED", None)])
        until(lambda: server.issues[212].labels == ["agent-done"], what="the report")
        until(lambda: len(server.comments) == 1, what="the claim to end")
        assert "`fix:1` finished this." in server.comments[0].body
        project.rota("verify")
        project.rota("stop")
        assert ended(second) == 0
        stored = [path.read_bytes() for path in project.state.rglob("*") if path.is_file() and path != secrets]
        assert not any(TOKEN.encode() in content for content in stored)


def test_a_stop_gives_back_what_a_killed_agent_held(project: Project) -> None:
    inbox = project.folder / "inbox"
    inbox.mkdir()
    (inbox / "a.md").write_text("x")
    (project.folder / "wait").touch()
    write(project, "{directory: inbox}")
    server = project.serve()
    project.rota("trigger", "fix")
    until_started(project)
    assert not (inbox / "a.md").exists()
    project.rota("stop", "--now")
    ended(server)
    assert project.told("fix") == [("FAILED", "shutdown")]
    assert (inbox / "a.md").exists()
