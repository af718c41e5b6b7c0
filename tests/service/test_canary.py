"""A real scheduler that uses a secret everywhere it may: its value is found nowhere but where it was put (G-37)."""

import base64
import json
from collections.abc import Iterator

import pytest

from rota.operations.admin.secrets import store_secret
from tests.service.serving import Project, ended
from tests.service.test_http import client
from tests.stub_server import Reply, StubServer, serving
from tests.waiting import until

CANARY = "canary7f3anottobeseen"
SIGNING = base64.b64encode(f"{CANARY}-signs-with-it".encode()).decode()
FORMS = (CANARY.encode(), SIGNING.encode(), base64.b64encode(CANARY.encode())[:24], CANARY.encode().hex().encode())
"""The value as it is, as it signs, and in the forms in which a header or a dump would show it."""
FILE = """
http: {{listen: "127.0.0.1:0"}}
imports: [chores]
defaults: {{retry: false}}
agents:
  helper: {{adapter: custom, access: full, options: {{argv: [sh, -c, 'test -n "$TOKEN" && echo done "$TOKEN"']}}}}
notify:
  hook:
    webhook: {{secret: ADDRESS}}
    signing: {{secret: SIGNING}}
    allow_private: ["{place}"]
    on: [completed, failed]
  told: {{command: [sh, -c, "cat > told.json"], on: [completed, failed]}}
jobs:
  uses: {{command: [sh, -c, 'test -n "$TOKEN" && env'], env: {{TOKEN: {{secret: CANARY}}}}, notify: [hook, told]}}
  fails: {{command: [sh, -c, 'env >&2; test -z "$TOKEN"'], env: {{TOKEN: {{secret: CANARY}}}}, notify: [hook, told]}}
  breaks: {{command: [no-such-program], env: {{TOKEN: {{secret: CANARY}}}}, notify: [hook, told]}}
  lacks: {{command: [echo], env: {{TOKEN: {{secret: NOWHERE}}, OTHER: {{secret: CANARY}}}}}}
  asks: {{prompt: look, agent: helper, env: {{TOKEN: {{secret: CANARY}}}}}}
  fetches:
    prompt: look
    agent: helper
    work_source: {{http: "{giver}", headers: {{X-Key: {{secret: CANARY}}}}}}
  says:
    command: [sh, -c, 'echo "{{\\"summary\\": \\"it is $TOKEN\\", \\"files\\": [\\"$TOKEN\\"]}}" > "$ROTA_RESULT_FILE"']
    env: {{TOKEN: {{secret: CANARY}}}}
    notify: [hook, told]
  raises: {{run: raises, isolate: process, env: {{TOKEN: {{secret: CANARY}}}}, notify: [hook, told]}}
  desk: {{prompt: look, agent: helper, work_source: {{run: "chores:Desk", options: {{key: {{secret: CANARY}}}}}}}}
  reviews:
    prompt: look
    agent: helper
    work_source: {{github: me/api, token: {{secret: CANARY}}, api_url: "{giver}"}}
"""
MODULE = """
import os, rota
@rota.job
def raises():
    raise KeyError(os.environ["TOKEN"])
class Desk:
    def __init__(self, key):
        self.key = key
    def next_item(self, request):
        raise ValueError(f"the key {self.key} is refused")
"""
JOBS = ("uses", "fails", "breaks", "lacks", "asks", "fetches", "reviews", "says", "raises", "desk")
STATUSES = [
    "COMPLETED",
    "FAILED",
    "FAILED",
    "FAILED",
    "COMPLETED",
    "SKIPPED",
    "SKIPPED",
    "COMPLETED",
    "FAILED",
    "SKIPPED",
]


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving(Reply(b"go away", 403)) as found:
        yield found


@pytest.fixture
def giver() -> Iterator[StubServer]:
    """A server that has work, and gives none to whom it does not know."""
    with serving(Reply(f"who is {CANARY}?".encode(), 403)) as found:
        yield found


@pytest.fixture
def worked(project: Project, server: StubServer, giver: StubServer) -> Project:
    """A scheduler whose jobs have run, and have told a receiver that refuses what it is told."""
    project.state.mkdir(0o700)
    address = f"{server.url}/{CANARY}"
    for name, value in (("CANARY", CANARY), ("ADDRESS", address), ("SIGNING", f"whsec_{SIGNING}")):
        store_secret(project.state, name, value)
    (project.folder / "chores.py").write_text(MODULE)
    project.write(FILE.format(place=server.url.removeprefix("http://"), giver=giver.url))
    project.serve("--verbose", http=True)
    for job in JOBS:
        project.rota("trigger", job)
    until(lambda: all(run["finished_at"] for job in JOBS for run in project.history(job)), what="all runs to end")
    until(lambda: len(server.bodies) >= 3, what="the receiver to be told of three runs")
    return project


def seen(text: bytes) -> bool:
    return any(form in text for form in FORMS)


def test_the_value_of_a_secret_is_in_no_file_answer_text_or_message(
    worked: Project, server: StubServer, giver: StubServer
) -> None:
    """R-27: neither what they write nor what they say about themselves shows it."""
    assert [run["status"] for job in JOBS for run in worked.history(job)] == STATUSES
    assert len([one for _, headers in giver.asked for one in headers.values() if CANARY in one]) >= 2
    tried = lambda: all(one["error"] or one["finished_at"] for one in worked.json("deliveries"))  # noqa: E731
    until(tried, what="what became of each message to be stored")
    paths = ["/jobs", "/runs", "/queue", "/deliveries", "/notify", "/audit", "/metrics", "/usage", "/openapi.json"]
    paths += ["/scheduler/status", "/scheduler/poll", "/workers", "/agents", "/groups", "/budgets"]
    paths += [f"/jobs/{job}{part}" for job in JOBS for part in ("", "/runs", "/explain", "/preview")]
    paths += [f"/runs/{job}:1{part}" for job in JOBS for part in ("", "/explain", "/output")]
    with client(worked) as http:
        answers = {path: http.get(f"/api/v1{path}").content for path in paths}
        refused = http.post("/api/v1/jobs", json={"name": "x", "command": ["a"], "env": {"A": {"secrt": "CANARY"}}})
        tools = [("get_run", {"run": "fails:1"}), ("explain_job", {"name": "lacks:1"}), ("list_jobs", {})]
        for number, (name, arguments) in enumerate(tools):
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
            message |= {"params": {"name": name, "arguments": arguments}}
            accept = {"Accept": "application/json, text/event-stream"}
            answers[name] = http.post("/mcp", json=message, headers=accept).content
    answers["refused"] = refused.content
    assert b"hook" in answers["/notify"]
    assert [name for name, text in answers.items() if seen(text)] == []
    commands = [f"show {job}:1" for job in JOBS] + [f"explain {job}:1" for job in JOBS]
    commands += ["secrets", "list", "history", "audit", "deliveries", "notify", "doctor", "status", "export", "verify"]
    printed = {one: worked.rota(*one.split(), *flag, check=False) for one in commands for flag in ((), ("--json",))}
    assert [one for one, done in printed.items() if seen(f"{done.stdout}{done.stderr}".encode())] == []
    told = [json.dumps([*server.asked[0][1].items()]).encode(), *server.bodies]
    assert [text for text in told if seen(text)] == []
    holding = [path.name for path in worked.folder.rglob("*") if path.is_file() and seen(path.read_bytes())]
    assert holding == ["secrets.env"]  # database, its log, runs, the scheduler's own log, what a command was told
    assert {"rota.db", "rota.db-wal", "told.json", "serve.0.log"} <= {path.name for path in worked.folder.rglob("*")}
    worked.rota("stop")
    assert ended(worked.servers[-1]) == 0
    holding = [path.name for path in worked.folder.rglob("*") if path.is_file() and seen(path.read_bytes())]
    assert holding == ["secrets.env"]
