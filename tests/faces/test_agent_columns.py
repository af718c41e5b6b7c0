"""What agents cost and were refused, in `list`, `history`, `show`, `run`, `explain` and `usage`."""

import json
from datetime import timedelta
from typing import Any

import pytest

from rota.engine.membership.locks import take_serve_lock
from rota.model.budgets import Usage
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.faces.conftest import Project

JOBS = """
agents:
  reviewer: {adapter: claude, model: haiku, max_concurrent: 5}
defaults: {overlap: allow}
pools: {agents: 10}
jobs:
  review: {prompt: look, agent: reviewer}
  fix: {prompt: mend, agent: codex, access: write}
  backup: {command: [echo, hi]}
"""


def told(usd: int | None = None, *, denied: tuple[str, ...] = (), session: str | None = None, **more: Any) -> Outcome:
    usage = None if usd is None else Usage(tokens_in=18204, tokens_out=2113, usd=usd or None, model="haiku")
    return Outcome(
        **{"status": Status.COMPLETED, **more}, usage=usage, denied_tools=denied, session_id=session, exit_code=0
    )


def ran(project: Project, job: str, *outcomes: Outcome) -> None:
    for outcome in outcomes:
        project.ok("trigger", job)
        project.carry_out([outcome], took=timedelta(minutes=3, seconds=12))


@pytest.fixture
def agents(project: Project) -> Project:
    return project.applied(JOBS)


def line(text: str, begins: str) -> list[str]:
    """Return the cells of the first line that begins so."""
    found = next(line for line in text.splitlines() if line.startswith(begins))
    return [cell.strip() for cell in found.split("  ") if cell.strip()]


def test_list_tells_that_tools_were_denied(agents: Project) -> None:
    """R-30: what was denied shows."""
    ran(agents, "review", told(denied=("Bash", "Write", "Edit")))
    assert "COMPLETED, 3 tools denied" in line(agents.ok("list"), "review")


def test_list_tells_of_a_failure_its_reason_and_the_denied_tool(agents: Project) -> None:
    ran(agents, "review", told(denied=("Bash",), status=Status.FAILED, reason=Reason.AGENT_ERROR))
    assert "FAILED agent_error, 1 tool denied" in line(agents.ok("list"), "review")


def test_list_tells_what_the_last_run_cost_or_its_tokens_where_nobody_knows(agents: Project) -> None:
    ran(agents, "review", told(410_000, denied=("Bash",)))
    ran(agents, "fix", told(0))
    ran(agents, "backup", told())
    listed = agents.ok("list")
    assert "COMPLETED, 1 tool denied · $0.41" in line(listed, "review")
    assert "COMPLETED 3 min 12 s · 20,317 tokens" in line(listed, "fix")
    assert "COMPLETED 3 min 12 s" in line(listed, "backup")


def test_history_has_cost_and_tokens_where_any_run_tells_them(agents: Project) -> None:
    ran(agents, "backup", told())
    assert "COST" not in agents.ok("history")
    ran(agents, "review", told(410_000))
    shown = agents.ok("history")
    assert line(shown, "RUN") == ["RUN", "STATUS", "REASON", "STARTED (UTC)", "TOOK", "COST", "TOKENS", "WHY"]
    assert line(shown, "review:1")[-2:] == ["$0.41", "20,317"]
    assert line(shown, "backup:1")[-1] == "3 min 12 s"


def test_history_adds_up_what_equal_neighbours_cost_and_says_where_some_do_not_tell(agents: Project) -> None:
    ran(agents, "review", told(410_000), told(90_000), told(0))
    assert line(agents.ok("history"), "review ×3")[-2:] == ["≥ $0.50", "60,951"]


def test_history_shows_denied_tools_and_does_not_hide_them_among_equal_neighbours(agents: Project) -> None:
    ran(agents, "review", told(), told(denied=("Bash", "Edit")), told())
    shown = agents.ok("history")
    assert line(shown, "review:2")[1] == "COMPLETED, 2 tools denied"
    assert [row.split()[0] for row in shown.splitlines()[1:]] == ["review:3", "review:2", "review:1"]


def test_json_of_a_run_has_usage_denied_tools_and_session_everywhere(agents: Project) -> None:
    ran(agents, "review", told(410_000, denied=("Bash",), session="7f3a91c0-22"))
    ran(agents, "backup", told())
    usage = {"tokens_in": 18204, "tokens_out": 2113, "usd_millionths": 410000, "model": "haiku"}
    listed = {job["name"]: job["last"][0] for job in agents.json("list") if job["last"]}
    for run in (agents.json("history", "review")[0], agents.json("show", "review:1"), listed["review"]):
        assert (run["usage"], run["denied_tools"], run["session_id"]) == (usage, ["Bash"], "7f3a91c0-22")
    assert (listed["backup"]["usage"], listed["backup"]["denied_tools"]) == (None, [])


def test_show_tells_cost_denied_tools_and_the_whole_session(agents: Project) -> None:
    ran(agents, "review", told(410_000, denied=("Bash",), session="7f3a91c0-22"))
    shown = agents.ok("show", "review:1")
    for pair in ("used         $0.41 · 18,204 in", "denied       Bash", "session      7f3a91c0-22"):
        assert pair in shown


def test_explain_says_what_would_let_the_agent_use_a_denied_tool(agents: Project) -> None:
    """R-30: what was denied shows, with what to do about it."""
    ran(agents, "review", told(denied=("Bash",)))
    assert "denied       Bash: beyond `access: read`; set `access: write` or `full`" in agents.ok("explain", "review")


def test_the_last_line_of_run_has_time_cost_tokens_and_session(agents: Project) -> None:
    def work(_seconds: float) -> None:
        agents.carry_out([told(410_000, session="7f3a91c0-22")], took=timedelta(minutes=3, seconds=12))

    agents.pause = work
    lock = take_serve_lock(agents.state)
    try:
        shown = agents.ok("run", "review")
    finally:
        lock.release()
    told_last = "COMPLETED  3 min 12 s · $0.41 · 18,204 in / 2,113 out tokens · haiku · session 7f3a91c0…"
    assert f"review:1  {told_last}   rota show review:1" in shown


def test_usage_by_agent_adds_up_over_jobs_and_definitions(agents: Project) -> None:
    ran(agents, "review", told(410_000))
    agents.applied(JOBS.replace("prompt: look", "prompt: look again"))
    ran(agents, "review", told(90_000))
    ran(agents, "fix", told(0))
    ran(agents, "backup", told())
    rows = json.loads(agents.ok("usage", "--by", "agent", "--json"))["rows"]
    found = {row["agent"]: (row["runs"], row["usd_millionths"], row["usd_millionths_unknown_runs"]) for row in rows}
    assert found == {"reviewer": (2, 500_000, 0), "codex": (1, None, 1), None: (1, None, 1)}
    assert "(no agent)" in agents.ok("usage", "--by", "agent")


def test_usage_by_agent_of_one_job_leaves_the_others_out(agents: Project) -> None:
    ran(agents, "review", told(410_000))
    ran(agents, "fix", told(0))
    rows = agents.json("usage", "--by", "agent", "--job", "fix")["rows"]
    assert [row["agent"] for row in rows] == ["codex"]


# what it said

STREAM = "\n".join(
    [
        json.dumps({"type": "system", "subtype": "init", "session_id": "s"}),
        json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "two\nissues"}]}}),
        "a word of its own",
    ]
)


def test_logs_show_what_an_agent_said_and_raw_its_events(agents: Project) -> None:
    agents.ok("trigger", "review")
    agents.carry_out([told()], output=STREAM)
    assert agents.ok("logs", "review").splitlines() == ["two", "issues", "a word of its own"]
    assert agents.ok("logs", "review", "--tail", "2").splitlines() == ["issues", "a word of its own"]
    assert agents.ok("logs", "review", "--raw") == STREAM
    assert agents.json("logs", "review")["output"] == STREAM


def test_logs_of_an_agent_that_said_nothing_say_where_its_events_are(agents: Project) -> None:
    agents.ok("trigger", "review")
    agents.carry_out([told()], output=STREAM.splitlines()[0])
    result = agents.rota("logs", "review")
    assert result.stdout == ""
    assert "said nothing; what it printed: rota logs --raw review:1" in result.stderr


def test_logs_of_a_command_that_prints_json_are_left_alone(agents: Project) -> None:
    agents.ok("trigger", "backup")
    agents.carry_out([told()], output='{"type": "assistant"}\n')
    assert agents.ok("logs", "backup") == '{"type": "assistant"}\n'
