"""A secret's value is nowhere: not in the database, logs, answers, audit, events or error texts (G-37)."""

from pathlib import Path

import pytest

from rota.operations.admin.secrets import store_secret
from rota.operations.status.feed import follow_from
from tests.api.conftest import Api
from tests.faces.conftest import Project

CANARY = "canary-7f3a-not-to-be-seen"
FILE = """
jobs:
  safe: {command: [echo, hi], env: {TOKEN: {secret: CANARY}}, cron: "0 3 * * *"}
  bare: {command: [echo, hi], env: {PLAIN: "canary-7f3a-not-to-be-seen"}}
"""


@pytest.fixture
def kept(tmp_path: Path) -> Api:
    folder = tmp_path / "home"
    folder.mkdir()
    project = Project(folder)
    project.state.mkdir(0o700)
    (folder / "rota.yaml").write_text(FILE)
    return Api(project.applied(FILE))


def test_no_answer_holds_the_value_of_a_secret_or_of_a_variable(kept: Api) -> None:
    store_secret(kept.project.state, "CANARY", CANARY)
    kept.post("/jobs/safe/trigger", status=202)
    paths = ["/jobs", "/jobs/safe", "/jobs/bare", "/jobs/safe/explain", "/runs", "/runs/safe:1", "/runs/safe:1/explain"]
    paths += ["/queue", "/scheduler/status", "/scheduler/poll", "/audit", "/metrics", "/budgets", "/usage", "/workers"]
    answers = [kept.call("GET", f"/api/v1{path}").text for path in paths]
    answers.append(str(follow_from(kept.store, 0)))
    assert "TOKEN" in "".join(answers)
    assert CANARY not in "".join(answers)
    kept.store.close()


def test_no_command_and_no_file_but_its_own_holds_the_value_of_a_secret(kept: Api) -> None:
    store_secret(kept.project.state, "CANARY", CANARY)
    kept.project.write(FILE.replace('"canary-7f3a-not-to-be-seen"', "x"))
    kept.project.ok("apply")
    kept.project.ok("trigger", "safe")
    printed = "".join(
        kept.project.rota(*command.split(), "--json").output
        for command in (
            "secrets",
            "list",
            "show safe",
            "history",
            "explain safe",
            "audit",
            "doctor",
            "status",
            "export",
        )
    )
    assert '"secrets.env"' in printed
    assert CANARY not in printed
    kept.store.close()
    holding = [
        path.name
        for path in kept.project.folder.rglob("*")
        if path.is_file() and CANARY.encode() in path.read_bytes() and path.name not in ("rota.db", "rota.db-wal")
    ]
    assert holding == ["secrets.env"]


def test_the_token_is_in_no_answer_and_in_no_other_file(kept: Api) -> None:
    paths = ["/jobs", "/scheduler/status", "/audit", "/openapi.json", "/metrics"]
    assert kept.token not in "".join(kept.call("GET", f"/api/v1{path}").text for path in paths)
    wrong = kept.bare.get("/api/v1/jobs", headers={"Authorization": "Bearer looks-like-a-token"})
    assert "looks-like-a-token" not in wrong.text
    kept.store.close()
    files = [path for path in kept.project.folder.rglob("*") if path.is_file()]
    assert [path.name for path in files if kept.token.encode() in path.read_bytes()] == ["token"]
