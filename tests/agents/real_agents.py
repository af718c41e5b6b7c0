"""The real command line agents against the stub: what the adapters promise of each. Run by `make test-agents` alone."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field

from rota.agents.certify import CLASSES, certify
from rota.agents.registry import adapter, probe
from rota.agents.stub import serving
from rota.model.agents import Access, AgentProblem, AgentResult, Attempted, ProcessEnd
from rota.runners.output import read_all
from rota.runners.processes import send_signal, tagged
from rota.runners.spawn_client import Launch, Spawned
from tests.agents.driving import PROGRAMS, Place, drive, environment, make_place, prompt, start, task_of
from tests.service.keeping import RUN_ID, TIMEOUTS, Marker, keep, launch_of
from tests.service.serving import Project
from tests.waiting import LONGEST_WAIT, until

SERVER = (sys.executable, str(Path(__file__).with_name("mcp_server.py")))


class Real(Struct, frozen=True):
    """What differs between the agents: how a tool is named, what it is denied, and who resumes and reaches servers."""

    tool: str
    given: dict[str, Any]
    denied: str
    access: Access = Access.READ
    model: str | None = None
    no_login: dict[str, str] = field(default_factory=dict)


REAL = {
    "claude": Real("Bash", {"command": "touch x", "description": "d"}, "Bash", no_login={"ANTHROPIC_API_KEY": ""}),
    "codex": Real("exec_command", {"cmd": "touch /usr/x"}, "shell", Access.WRITE),
    "gemini": Real(
        "run_shell_command",
        {"command": "touch x"},
        "run_shell_command",
        model="gemini-2.5-pro",
        no_login={"GEMINI_API_KEY": ""},
    ),
    "opencode": Real("bash", {"command": "touch x", "description": "d"}, "bash", model="stub/m"),
}
EACH = pytest.mark.parametrize("agent", REAL)


@pytest.fixture
def place() -> Iterator[Place]:
    """A place on a disk: the sandbox of Codex has a /dev/shm of its own."""
    with serving() as stub, tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield make_place(Path(folder), stub)


def ask(agent: str, place: Place, order: dict[str, Any], **task: Any) -> AgentResult:
    env = task.pop("env", {})
    given = {"model": REAL[agent].model, "prompt": prompt(**order), **task}
    return drive(agent, task_of(place, **given), place, **env).result


@EACH
def test_it_is_found_with_its_version(agent: str, place: Place) -> None:
    found = probe(adapter(agent), environment(agent, place))
    packages = Path(__file__).with_name("packages.txt").read_text()
    assert found.version
    assert f"@{found.version}\n" in packages


@EACH
def test_a_success_tells_answer_tokens_and_session(agent: str, place: Place) -> None:
    result = ask(agent, place, {"say": "all fine"})
    assert (result.problem, result.summary, result.denied_tools) == (None, "all fine", ())
    assert (result.tokens_in or 0) >= 1200
    assert (result.tokens_out or 0) >= 34
    assert result.session_id
    assert (result.usd is not None) == adapter(agent).capabilities.cost


@EACH
def test_a_tool_that_the_access_does_not_allow_does_nothing_and_shows(agent: str, place: Place) -> None:
    """R-30: denied without asking anybody, and told."""
    real = REAL[agent]
    result = ask(agent, place, {"tool": real.tool, "input": real.given}, access=real.access)
    assert (result.problem, result.denied_tools) == (None, (real.denied,))
    assert sorted(os.listdir(place.project)) == ["notes.txt"]


@EACH
def test_each_forbidden_class_is_denied_to_a_reader_and_done_with_full_access(agent: str) -> None:
    """The attempts of `rota agents certify` are real: nothing but the access prevents them."""
    environ = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "LANG": "C.UTF-8"}
    denied = certify(adapter(agent), environ, tell=lambda _name: None)
    assert denied == dict.fromkeys(CLASSES, Attempted.DENIED)
    done = certify(adapter(agent), environ, tell=lambda _name: None, access=Access.FULL)
    assert {name for name, each in done.items() if each is Attempted.DONE} >= {"write", "shell", "network"}


TRICKS = (
    "git -c alias.z='!touch {outside}' z",
    "git grep --no-index --open-files-in-pager='touch {outside};' notes",
    "git clone --config core.sshCommand='touch {outside};' ssh://127.0.0.1/x y",
)


@EACH
@pytest.mark.parametrize("trick", TRICKS, ids=["alias", "pager", "ssh"])
def test_access_to_write_starts_no_program_outside_by_way_of_git(agent: str, trick: str, place: Place) -> None:
    """Options of git start any program; in the sandbox of Codex they reach nothing outside."""
    real, outside = REAL[agent], Path(f"/usr/{os.getpid()}.outside")
    key = "cmd" if agent == "codex" else "command"
    order = {"tool": real.tool, "input": {**real.given, key: trick.format(outside=outside)}}
    try:
        ask(agent, place, order, access=Access.WRITE)
        assert not outside.exists()
    finally:
        outside.unlink(missing_ok=True)


def reading(agent: str, path: object) -> dict[str, Any]:
    """Return an order to read a file."""
    tools = {"claude": ("Read", "file_path"), "gemini": ("read_file", "file_path"), "opencode": ("read", "filePath")}
    name, key = tools.get(agent, (REAL[agent].tool, "cmd"))
    return {"tool": name, "input": {key: f"cat {path}" if agent == "codex" else str(path)}}


def writing(agent: str, path: object) -> dict[str, Any]:
    """Return an order to write a file."""
    tools = {"claude": ("Write", "file_path"), "gemini": ("write_file", "file_path"), "opencode": ("write", "filePath")}
    name, key = tools.get(agent, (REAL[agent].tool, "cmd"))
    if agent == "codex":
        return {"tool": name, "input": {key: f"echo new > {path}"}}
    return {"tool": name, "input": {key: str(path), "content": "new"}}


def own_files(place: Place) -> dict[str, Any]:
    """Make what is rota's own in a project; return the part of a task that protects it."""
    subprocess.run(["git", "init", "-q"], cwd=place.project, check=True)
    for name in ("rota.yaml", "parts/one.yaml", ".rota/token", ".rota/runs/1/out"):
        path = place.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"the text of {path.name}\n")
    (place.project / ".rota" / ".gitignore").write_text("*\n")  # as rota itself writes it
    protected = [str(place.project / name) for name in ("rota.yaml", "parts/one.yaml", ".git")]
    return {"protected": tuple(protected), "state": str(place.project / ".rota")}


SPELLINGS = ("{project}/{name}", "{name}", "./{name}", "../project/{name}")


@EACH
@pytest.mark.parametrize("spelling", SPELLINGS, ids=["whole", "relative", "dot", "parent"])
def test_the_state_folder_cannot_be_read(agent: str, spelling: str, place: Place) -> None:
    path = spelling.format(project=place.project, name=".rota/token")
    access = Access.READ if spelling == SPELLINGS[0] else Access.WRITE
    ask(agent, place, reading(agent, path), access=access, **own_files(place))
    assert len(place.stub.asked) > 1
    assert "the text of token" not in json.dumps(place.stub.asked[-1].body)


@pytest.mark.parametrize("agent", [name for name in REAL if name != "opencode"])
def test_a_search_does_not_find_what_is_in_the_state_folder(agent: str, place: Place) -> None:
    """OpenCode searches with a ripgrep that it downloads."""
    (place.project / "notes.txt").write_text("the text of notes\n")
    orders = {
        "claude": {"tool": "Grep", "input": {"pattern": "the text", "output_mode": "content"}},
        "codex": {"tool": "exec_command", "input": {"cmd": "grep -r 'the text' ."}},
        "gemini": {"tool": "grep_search", "input": {"pattern": "the text"}},
    }
    ask(agent, place, orders[agent], **own_files(place))
    said = json.dumps(place.stub.asked[-1].body)
    assert "the text of notes" in said
    assert "the text of token" not in said


@EACH
def test_the_rest_of_the_project_can_be_read(agent: str, place: Place) -> None:
    own = own_files(place)
    for name in ("rota.yaml", "notes.txt"):
        ask(agent, place, reading(agent, place.project / name), **own)
        assert (place.project / name).read_text().split("\n")[0] in json.dumps(place.stub.asked[-1].body)


@EACH
def test_access_to_write_changes_nothing_that_runs_outside_of_it(agent: str, place: Place) -> None:
    own = own_files(place)
    names = ("rota.yaml", "parts/one.yaml", ".git/hooks/new", ".git/config", ".rota/token", "rota.yaml")
    for name, spelling in zip(names, (*SPELLINGS, SPELLINGS[0], SPELLINGS[3]), strict=True):
        path = place.project / name
        before = path.read_text() if path.exists() else None
        order = writing(agent, spelling.format(project=place.project, name=name))
        ask(agent, place, order, access=Access.WRITE, **own)
        assert (path.read_text() if path.exists() else None) == before, (name, spelling)


@EACH
def test_access_to_write_writes_everything_else(agent: str, place: Place) -> None:
    order = writing(agent, place.project / "made.txt")
    ask(agent, place, order, access=Access.WRITE, **own_files(place))
    assert (place.project / "made.txt").read_text().strip() == "new"


@EACH
def test_a_run_works_in_its_worktree_inside_the_state_folder(agent: str, place: Place) -> None:
    own = own_files(place)
    tree, other = (place.project / ".rota" / "worktrees" / name for name in ("fix-1", "fix-2"))
    for folder in (tree, other):
        folder.mkdir(parents=True)
        (folder / "code.txt").write_text("the text of code\n")
    ask(agent, place, writing(agent, tree / "made.txt"), access=Access.WRITE, **{**own, "cwd": str(tree)})
    assert (tree / "made.txt").read_text().strip() == "new"
    ask(agent, place, reading(agent, tree / "code.txt"), **{**own, "cwd": str(tree)})
    assert "the text of code" in json.dumps(place.stub.asked[-1].body)
    ask(agent, place, reading(agent, place.project / ".rota" / "token"), **{**own, "cwd": str(tree)})
    assert "the text of token" not in json.dumps(place.stub.asked[-1].body)


def arm(agent: str, place: Place) -> Path:
    """Write settings of the program into the project that run a command; return the file that the command makes."""
    made, project = place.folder / "made-by-the-project", place.project
    touch = ["/bin/sh", "-c", f"touch {made}"]
    server = {"command": touch[0], "args": touch[1:]}
    hook = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": f"touch {made}"}]}]}}
    files = {
        "claude": {".claude/settings.json": {**hook, "apiKeyHelper": f"touch {made}; echo stub"}},
        "gemini": {".gemini/settings.json": {"mcpServers": {"x": server}}},
        "opencode": {"opencode.json": {"mcp": {"x": {"type": "local", "command": touch, "enabled": True}}}},
    }
    written = {name: json.dumps(settings) for name, settings in files.get(agent, {}).items()}
    if agent == "opencode":
        head = 'import { writeFileSync } from "fs"\n'
        plugin = head + f'export const X = async () => {{ writeFileSync("{made}", "x"); return {{}} }}\n'
        written[".opencode/plugin/x.js"] = plugin
    if agent == "codex":
        written[".codex/config.toml"] = (
            f"[mcp_servers.x]\ncommand = {json.dumps(touch[0])}\nargs = {json.dumps(touch[1:])}\n"
        )
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    for name, text in written.items():
        (project / name).parent.mkdir(exist_ok=True, parents=True)
        (project / name).write_text(text)
    return made


@EACH
@pytest.mark.parametrize("access", [Access.READ, Access.WRITE])
def test_settings_of_the_project_run_nothing(agent: str, access: Access, place: Place) -> None:
    made = arm(agent, place)
    assert ask(agent, place, {"say": "all fine"}, access=access).problem is None
    assert not made.exists()


@EACH
def test_settings_of_a_trusted_project_count(agent: str, place: Place) -> None:
    made = arm(agent, place)
    access = Access.WRITE if agent == "codex" else Access.FULL  # Claude Code starts no servers with less
    ask(agent, place, {"say": "all fine"}, access=access, trust_project=True)
    assert made.exists()


@EACH
def test_full_access_runs_a_command(agent: str, place: Place) -> None:
    """R-30; as root too, where Claude Code refuses to skip permissions."""
    real = REAL[agent]
    key = "cmd" if agent == "codex" else "command"
    order = {"tool": real.tool, "input": {**real.given, key: f"touch {place.project}/made"}}
    assert ask(agent, place, order, access=Access.FULL).denied_tools == ()
    assert (place.project / "made").exists()


@EACH
def test_a_bad_key_is_a_failure_of_login(agent: str, place: Place) -> None:
    assert ask(agent, place, {"status": 401, "message": "no such key"}).problem is AgentProblem.AUTH


@pytest.mark.parametrize("agent", [name for name, real in REAL.items() if real.no_login])
def test_no_login_is_a_failure_of_login(agent: str, place: Place) -> None:
    assert ask(agent, place, {}, env=REAL[agent].no_login).problem is AgentProblem.AUTH


@EACH
def test_a_provider_that_wants_no_more_is_a_failure_of_quota(agent: str, place: Place) -> None:
    order = {"status": 429, "message": "no more today", "headers": {"retry-after": "1"}}
    assert ask(agent, place, order).problem is AgentProblem.QUOTA


@EACH
def test_a_session_is_resumed(agent: str, place: Place) -> None:
    first = ask(agent, place, {"say": "the first answer"})
    second = ask(agent, place, {"say": "the second answer"}, session_id=first.session_id)
    assert (second.problem, second.session_id) == (None, first.session_id)
    assert "the first answer" in json.dumps(place.stub.asked[-1].body)


@pytest.mark.parametrize("agent", [name for name in REAL if adapter(name).capabilities.tools_server])
def test_it_uses_a_tool_of_the_server_that_it_is_given(agent: str, place: Place) -> None:
    """With access to read too: rota's own tools keep their own policy."""
    names = {"claude": {"tool": "mcp__rota__ping"}, "codex": {"tool": "ping", "namespace": "mcp__rota"}}
    order = {**names.get(agent, {"tool": "rota_ping"}), "input": {"word": "hello"}}
    result = ask(agent, place, order, tools_server=SERVER, env={"ROTA_RUN_ID": "the-run"})
    assert (result.problem, result.denied_tools) == (None, ())
    assert "pong hello from the-run" in json.dumps(place.stub.asked[-1].body)


# what is left when it is killed


def launch(agent: str, place: Place, order: dict[str, Any], **options: Any) -> Launch:
    """Return the launch of a task under a real keeper."""
    access = options.pop("access", Access.READ)
    task = task_of(place, prompt=prompt(**order), model=REAL[agent].model, access=access)
    invocation, environ = start(agent, task, place)
    stdin = Path(task.folder) / "stdin"
    stdin.write_text(invocation.stdin or "")
    given = {"cwd": task.cwd, "stdin": str(stdin), "errors_apart": True, **options}
    return launch_of(*invocation.argv, env=environ, **given)


def kept_folder(place: Place, name: str = "kept") -> Path:
    folder = place.folder / name
    folder.mkdir()
    return folder


@EACH
def test_a_run_that_is_stopped_leaves_no_process(agent: str, place: Place) -> None:
    """Gemini does not end by itself when it is asked to; the keeper ends all of them."""

    async def stop(spawned: Spawned) -> None:
        assert await asyncio.to_thread(place.stub.waiting.wait, LONGEST_WAIT)
        send_signal(spawned.identity, signal.SIGTERM)

    folder = kept_folder(place)
    ended = asyncio.run(keep(launch(agent, place, {"hang": True}, term_grace=5.0), folder, stop))
    assert ended["why"] == "stopped"
    assert tagged(RUN_ID) == []
    read = adapter(agent).read
    assert read is not None
    said = ProcessEnd(ended["exit_code"], read_all(folder).decode(), stopped=True)
    assert read(said, task_of(place)).problem is AgentProblem.AGENT_ERROR


def test_a_run_of_claude_that_times_out_leaves_no_process(place: Place) -> None:
    for number, timeout in enumerate(TIMEOUTS):
        folder = kept_folder(place, f"kept{number}")
        ended = asyncio.run(keep(launch("claude", place, {"hang": True}, timeout=timeout, term_grace=5.0), folder))
        assert ended["why"] == "timed_out"
        assert tagged(RUN_ID) == []
        if place.stub.waiting.is_set():
            return
    pytest.fail("claude never came as far as asking")


def test_a_command_of_claude_that_left_its_process_group_is_killed_with_it(place: Place) -> None:
    """Trap: its Bash children leave the process group."""
    marker = Marker(place.folder)
    code = f"import os, signal; m = os.open('{marker.path}', os.O_WRONLY); os.write(m, b'r'); signal.pause()"
    order = {"tool": "Bash", "input": {"command": f'{sys.executable} -c "{code}"', "description": "wait"}}

    async def kill(spawned: Spawned) -> None:
        await marker.ready()
        send_signal(spawned.identity, signal.SIGTERM)
        send_signal(spawned.identity, signal.SIGTERM)

    started = launch("claude", place, order, access=Access.FULL, timeout=LONGEST_WAIT)
    ended = asyncio.run(keep(started, kept_folder(place), kill))
    assert ended["why"] == "stopped"
    assert not marker.held()
    assert tagged(RUN_ID) == []


# Codex alone


def test_codex_with_a_provider_of_ones_own_is_logged_in_with_the_key_of_that_provider(place: Place) -> None:
    environ = environment("codex", place)
    found = probe(adapter("codex"), environ)
    assert (found.logged_in, found.problem) == (True, None)
    without = probe(adapter("codex"), {**environ, "STUB_KEY": ""})
    assert (without.logged_in, without.problem) == (
        False,
        "codex cannot log in: active model provider auth env var is missing",
    )


# Claude Code alone


def test_a_usage_limit_of_claude_tells_when_it_ends(place: Place) -> None:
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": "1894830400",
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
    }
    login = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "stub"}
    result = ask("claude", place, {"status": 429, "message": "limit", "headers": headers}, env=login)
    assert result.problem is AgentProblem.QUOTA
    assert result.resets_at is not None
    assert result.resets_at.timestamp() == 1894830400


def test_claude_with_access_to_write_writes_in_the_project_and_nowhere_else(place: Place) -> None:
    """R-30: access is translated."""
    inside, outside = place.project / "new.txt", place.folder / "new.txt"
    for path in (inside, outside):
        order = {"tool": "Write", "input": {"file_path": str(path), "content": "new"}}
        ask("claude", place, order, access=Access.WRITE)
    assert inside.exists()
    assert not outside.exists()


@pytest.mark.parametrize("limit", [{"max_turns": 2}, {"max_usd": 0.01}])
def test_claude_keeps_its_limits(limit: dict[str, Any], place: Place) -> None:
    """R-30: no limit is accepted and ignored."""
    order = {"tool": "Glob", "input": {"pattern": "*"}, "again": True}
    result = ask("claude", place, order, **limit)
    assert result.problem is AgentProblem.AGENT_ERROR
    assert next(iter(limit)) in (result.error or "")


# rota's own tools in a scheduled run

TOOL_NAMES: dict[str, Any] = {
    "claude": lambda name: {"tool": f"mcp__rota__{name}"},
    "codex": lambda name: {"tool": name, "namespace": "mcp__rota"},
    "gemini": lambda name: {"tool": f"mcp_rota_{name}"},
    "opencode": lambda name: {"tool": f"rota_{name}"},
}


class Planned(Project):
    """A project whose one job plans: its agent, started by a real scheduler, is told to call a tool of rota's."""

    def __init__(self, agent: str, place: Place) -> None:
        super().__init__(place.project)
        self.agent, self.place = agent, place
        self.surroundings = environment(agent, place)
        if not adapter(agent).capabilities.tools_server:
            self.add_by_hand()

    def add_by_hand(self) -> None:
        """Name rota's server in the settings of Gemini, as `gemini mcp add --trust` does."""
        path = self.place.home / ".gemini" / "settings.json"
        arguments = ["-P", "-m", "rota", "mcp", "--dir", str(self.folder)]
        server = {"command": sys.executable, "args": arguments, "trust": True, "timeout": 60_000}
        path.write_text(json.dumps({**json.loads(path.read_text()), "mcpServers": {"rota": server}}))

    def environment(self) -> dict[str, str]:
        return self.surroundings

    def plan(self, tool: str, given: dict[str, Any], **policy: str) -> None:
        """Serve a file whose job `plan` is due at once."""
        model = {"model": REAL[self.agent].model} if REAL[self.agent].model else {}
        tools = {"rota_tools": True} if adapter(self.agent).capabilities.tools_server else {}
        order = prompt(**TOOL_NAMES[self.agent](tool), input=given, say="it is planned")
        told = {
            "defaults": {"env_pass": sorted({*self.surroundings} - {"PATH", "HOME"}), "timeout": "5m"},
            "agent_policy": policy,
            "agents": {"planner": {"adapter": self.agent, **model}},
            "jobs": {"plan": {"interval": "1h", "agent": "planner", "prompt": order, **tools}},
        }
        self.write(json.dumps(told))
        self.serve()


@pytest.fixture
def planned(agent: str, place: Place) -> Iterator[Planned]:
    project = Planned(agent, place)
    try:
        yield project
    finally:
        project.end()


TOOLED = pytest.mark.parametrize("agent", [name for name in REAL if adapter(name).capabilities.tools_server])


@TOOLED
def test_a_scheduled_run_makes_a_job_that_fires_runs_and_is_reported(agent: str, planned: Planned) -> None:
    """Issue 6: the agent calls rota's MCP server within policy, the job that it makes works, and nothing is amiss."""
    follow_up = {"name": "follow-up", "interval_seconds": 2, "task": prompt(say="followed up"), "labels": ["later"]}
    planned.plan("schedule_job", follow_up, min_interval="1s")
    planned.until_told("plan", [("COMPLETED", None)])
    until(lambda: planned.told("follow-up")[:1] == [("COMPLETED", None)], what="what was made to run")
    first = planned.history("follow-up")[0]
    assert (first["result_summary"], first["trigger"], first["denied_tools"]) == ("followed up", "schedule", [])
    assert first["usage"]["tokens_in"] >= 1200
    made = planned.json("show", "follow-up")
    assert (made["made"]["by"], made["made"]["run_id"]) == ("agent:planner", planned.history("plan")[0]["id"])
    assert planned.json("usage", "--by", "agent")["rows"][0]["agent"] == "planner"
    planned.rota("stop", "--now")
    assert planned.json("verify")["clean"]


@pytest.mark.parametrize("agent", ["gemini"])
def test_a_server_that_was_added_by_hand_serves_no_run_without_rota_tools(agent: str, planned: Planned) -> None:
    planned.plan("schedule_job", {"name": "follow-up", "interval_seconds": 2, "task": "Look again."}, min_interval="1s")
    planned.until_told("plan", [("COMPLETED", None)])
    assert [job["name"] for job in planned.json("list")] == ["plan"]


@TOOLED
def test_a_wish_beyond_the_policy_is_refused_in_words_that_the_agent_reads(agent: str, planned: Planned) -> None:
    planned.plan("schedule_job", {"name": "follow-up", "interval_seconds": 2, "task": "Look again."})
    planned.until_told("plan", [("COMPLETED", None)])
    assert "too_often: the job would start every 2 s" in json.dumps(planned.place.stub.asked[-1].body)
    assert [job["name"] for job in planned.json("list")] == ["plan"]
