"""Document 000's agent job with a real scheduler, a real poll, and a recording in the place of Claude Code."""

import re
import shutil
from pathlib import Path

import pytest

from tests.agents.fake_agent import install
from tests.jobs_file import DOCUMENT
from tests.service.serving import Project
from tests.stub_server import reply_json, serving

pytestmark = pytest.mark.xdist_group("service")

EXAMPLE = Path(__file__).parents[2] / "examples" / "octopoid"
ANSWER = {"queue_counts": {"incoming": 0, "claimed": 0, "provisional": 2, "done": 5, "failed": 0}}


@pytest.mark.parametrize("text", [(EXAMPLE / "rota.yaml").read_text(), DOCUMENT], ids=["example", "document"])
def test_review_stale_prs_runs(text: str, project: Project) -> None:
    """R-16, R-30: it waits for the poll by its condition, and its limits reach the program."""
    shutil.copytree(EXAMPLE / "orchestrator", project.folder / "orchestrator")
    programs = project.folder / "bin"
    programs.mkdir()
    install(programs, "claude-success")
    with serving(reply_json(ANSWER)) as server:
        address = f"{server.url}/api/v1/scheduler/poll"
        polled = re.sub(r"https://octo\.example\S*", address, text)
        polled = polled if "poll:" in polled else f"poll: {{url: '{address}', interval: 60}}\n{polled}"
        path = f"{programs}:/usr/bin:/bin"
        project.write(f"defaults: {{env: {{PATH: '{path}', NO_PROXY: '*'}}, term_grace: 0}}\n{polled}")
        project.serve()
        project.until_told("review_stale_prs", [("COMPLETED", None)])
    [run] = project.history("review_stale_prs")
    assert run["usage"]["tokens_in"] > 0
    assert project.json("show", run["run"])["pools"] == {"agent:claude": 1, "agents": 1, "provider:anthropic": 1}
