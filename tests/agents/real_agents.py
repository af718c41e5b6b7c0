"""The real command line agents against the stub: what the adapters promise of each. Run by `make test-agents` alone."""

import asyncio
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field

from rota.agents.registry import adapter, probe
from rota.agents.stub import serving
from rota.model.agents import Access, AgentInvocation, AgentProblem, AgentResult, Attempted, McpServer, ProcessEnd
from rota.model.spec import Kind, Sandbox, Work
from rota.operations.agents.certify import CLASSES, certify
from rota.operations.agents.transcripts import read_transcript
from rota.runners.keeper import readable
from rota.runners.output import read_all
from rota.runners.processes import send_signal, tagged
from rota.runners.sandbox import sandbox_problems
from rota.runners.spawn_client import Launch, Spawned
from tests.agents.driving import PROGRAMS, Place, drive, environment, make_place, prompt, start, task_of
from tests.service.keeping import RUN_ID, TIMEOUTS, Marker, keep, launch_of
from tests.service.serving import Project
from tests.waiting import LONGEST_WAIT, until

SERVER = (sys.executable, str(Path(__file__).with_name("mcp_server.py")))


DECIDER = """
import sys
from rota.mcp import serve
from rota.operations.tools.catalog import tools_of

class Decider:
    def __init__(self):
        self.tools = tools_of(self.call, permissions="only")

    def call(self, name, given):
        answers = {"allow": {"updatedInput": given["input"]}, "deny": {"message": "no"}}
        return {"behavior": sys.argv[1], **answers[sys.argv[1]]}

serve(Decider())
"""


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


@pytest.mark.parametrize("behavior", ["allow", "deny"])
def test_a_person_decides_about_a_call_of_claude(behavior: str, place: Place) -> None:
    made = place.project / "made"
    order = {"tool": "Bash", "input": {"command": f"touch {made}", "description": "d"}}
    told = ask("claude", place, order, access=Access.ASK, tools_server=(sys.executable, "-c", DECIDER, behavior))
    assert made.exists() is (behavior == "allow")
    assert told.denied_tools == (() if made.exists() else ("Bash",))


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


@EACH
def test_a_provider_that_fails_is_an_outage(agent: str, place: Place) -> None:
    """Also an overloaded one: the run is retried without using an attempt."""
    assert ask(agent, place, {"status": 503, "message": "come back later"}).problem is AgentProblem.OUTAGE


ARGUMENTS = {"claude": "--effort=high", "codex": "--color=never", "gemini": "--debug", "opencode": "--thinking"}


@EACH
def test_further_arguments_reach_the_program(agent: str, place: Place) -> None:
    result = ask(agent, place, {"say": "all fine"}, args=(ARGUMENTS[agent],))
    assert (result.problem, result.summary) == (None, "all fine")
    unknown = ask(agent, place, {"say": "all fine"}, args=("--no-such-option=1",))
    assert agent == "opencode" or unknown.problem is AgentProblem.AGENT_ERROR


@pytest.mark.parametrize("agent", [name for name in REAL if adapter(name).capabilities.system_prompt])
def test_a_system_prompt_reaches_the_model(agent: str, place: Place) -> None:
    ask(agent, place, {"say": "all fine"}, system_prompt="Answer in British English.")
    assert "Answer in British English." in json.dumps(place.stub.asked[-1].body)


@pytest.mark.parametrize("agent", [name for name in REAL if adapter(name).capabilities.add_dirs])
def test_a_further_folder_has_the_access_of_the_run(agent: str, place: Place) -> None:
    other = place.folder / "other"
    (other / ".git").mkdir(parents=True)
    (other / "notes.txt").write_text("the text of the other notes\n")
    own = {**own_files(place), "add_dirs": (str(other),)}
    own["protected"] = (*own["protected"], str(other / ".git"))
    ask(agent, place, reading(agent, other / "notes.txt"), **own)
    assert "the text of the other notes" in json.dumps(place.stub.asked[-1].body)
    ask(agent, place, writing(agent, other / "made.txt"), **own)
    assert not (other / "made.txt").exists()
    ask(agent, place, writing(agent, other / "made.txt"), access=Access.WRITE, **own)
    assert (other / "made.txt").read_text().strip() == "new"
    ask(agent, place, writing(agent, other / ".git" / "hook"), access=Access.WRITE, **own)
    assert not (other / ".git" / "hook").exists()


@EACH
def test_an_account_keeps_its_sessions_in_a_folder_of_its_own(agent: str, place: Place) -> None:
    settings = environment(agent, place)
    login = place.folder / "login"
    login.mkdir()
    if agent == "codex":  # its settings are in the same folder
        (login / "config.toml").write_text((Path(settings["CODEX_HOME"]) / "config.toml").read_text())
    if agent == "gemini":
        shutil.copytree(place.home / ".gemini", login / ".gemini")
    variable = adapter(agent).home
    first = ask(agent, place, {"say": "the first answer"}, env={variable: str(login)})
    assert (first.problem, first.summary) == (None, "the first answer")
    assert any(path.is_file() and path.name not in ("config.toml", "settings.json") for path in login.rglob("*"))
    other = ask(agent, place, {"say": "no"}, session_id=first.session_id)
    assert other.problem is not None, "the session is in the folder of its account alone"
    same = ask(agent, place, {"say": "more"}, session_id=first.session_id, env={variable: str(login)})
    assert (same.problem, same.session_id) == (None, first.session_id)


@pytest.mark.parametrize("agent", [name for name in REAL if adapter(name).capabilities.fork])
def test_a_fork_goes_on_in_a_copy_of_the_session(agent: str, place: Place) -> None:
    first = ask(agent, place, {"say": "the first answer"})
    fork = ask(agent, place, {"say": "the forked answer"}, session_id=first.session_id, fork=True)
    assert fork.problem is None
    assert fork.session_id not in (None, first.session_id)
    assert "the first answer" in json.dumps(place.stub.asked[-1].body)
    ask(agent, place, {"say": "the second answer"}, session_id=first.session_id)
    said = json.dumps(place.stub.asked[-1].body)
    assert ("the first answer" in said, "the forked answer" in said) == (True, False)


@EACH
def test_the_transcript_has_the_calls_with_their_arguments_and_results(agent: str, place: Place) -> None:
    order = {**reading(agent, place.project / "notes.txt"), "say": "I read them"}
    stdout = drive(agent, task_of(place, prompt=prompt(**order), model=REAL[agent].model), place).ended.stdout
    turns = read_transcript(agent, stdout.split("\n"), limit=10_000).turns
    assert turns[-1].text.endswith("I read them")
    calls = [call for turn in turns for call in turn.calls]
    if agent == "codex" and not calls:
        return  # its stream omits commands that end at once
    assert "notes.txt" in calls[0].arguments
    assert agent == "gemini" or "three lines" in calls[0].result


@EACH
def test_a_person_opens_the_session_of_a_run(agent: str, place: Place) -> None:
    """`rota attach`: the program shows in a terminal what the run said."""
    first = ask(agent, place, {"say": "the first answer"})
    attach = adapter(agent).attach
    assert attach is not None
    if agent == "claude":
        introduce(place)
    invocation = attach(task_of(place, session_id=first.session_id))
    # Codex first asks the person about a folder whose settings are switched off.
    wanted = b"1. Open restricted" if agent == "codex" else b"the first answer"
    shown = in_a_terminal(invocation, environment(agent, place), place, wanted=wanted)
    assert b"".join(wanted.split()).decode() in shown
    assert agent != "codex" or "Resumingsession" in shown


def introduce(place: Place) -> None:
    """Answer the questions of the first start of Claude Code, as a person who uses it has."""
    file = place.home / "claude" / ".claude.json"
    known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    answers = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": ["stub"]}}
    before = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**before, **answers, "projects": {str(place.project): known}}))


ESCAPES = re.compile(rb"\x1b(\[[0-9;?<>=]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\\\)|.)")


def in_a_terminal(invocation: AgentInvocation, environ: dict[str, str], place: Place, *, wanted: bytes) -> str:
    """Run a program in a terminal until it shows a text; return everything shown without spaces."""
    seen, found = b"", bytes.join(b"", wanted.split())
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover -- the program
        os.chdir(place.project)
        env = {**environ, **invocation.env, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
        os.execvpe(str(PROGRAMS / invocation.argv[0]), [*invocation.argv], env)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    try:
        while found not in b"".join(ESCAPES.sub(b"", seen).split()):
            if not readable([terminal], LONGEST_WAIT):
                break
            try:
                data = os.read(terminal, 65536)
            except OSError:
                break  # it ended
            for asked, answer in ANSWERS.items():
                if asked in data:
                    os.write(terminal, answer)
            seen += data
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return b"".join(ESCAPES.sub(b"", seen).split()).decode("utf-8", "replace")


ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;c", b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\"}
"""The questions of programs to a terminal: its cursor, its kind, its colour."""


def calling(agent: str, tool: str, word: object) -> dict[str, Any]:
    """Return an order to call a tool of the server `docs`."""
    names = {"claude": {"tool": f"mcp__docs__{tool}"}, "codex": {"tool": tool, "namespace": "mcp__docs"}}
    return {**names.get(agent, {"tool": f"docs_{tool}"}), "input": {"word": str(word)}}


@pytest.mark.parametrize("agent", [name for name in REAL if adapter(name).capabilities.mcp_servers])
def test_a_further_server_gives_the_tools_that_are_named_and_no_other(agent: str, place: Place) -> None:
    """Also with access to read: the file of the project permits each tool by its name."""
    docs, mark = McpServer("docs", command=SERVER, tools=("ping",)), place.folder / "marked"
    result = ask(agent, place, calling(agent, "ping", "hello"), mcp_servers=(docs,))
    assert (result.problem, result.denied_tools) == (None, ())
    assert "pong hello" in json.dumps(place.stub.asked[-1].body)
    for access in (Access.READ, Access.WRITE):
        ask(agent, place, calling(agent, "mark", mark), mcp_servers=(docs,), access=access)
        assert not mark.exists()
    ask(
        agent, place, calling(agent, "mark", mark), mcp_servers=(McpServer("docs", command=SERVER),), access=Access.FULL
    )
    assert mark.exists()


def test_a_profile_of_codex_counts_and_does_not_widen_the_access(place: Place) -> None:
    settings = Path(environment("codex", place)["CODEX_HOME"])
    (settings / "deep.config.toml").write_text(
        'model = "of-the-profile"\nsandbox_mode = "danger-full-access"\napproval_policy = "on-request"\n'
    )
    outside = place.folder / "outside"
    own = own_files(place)
    for access in (Access.READ, Access.WRITE):
        order = {"tool": "exec_command", "input": {"cmd": f"touch {outside}; cat .rota/token"}}
        ask("codex", place, order, profile="deep", access=access, **own)
        assert place.stub.asked[-1].body["model"] == "of-the-profile"
        assert not outside.exists()
        assert "the text of token" not in json.dumps(place.stub.asked[-1].body)


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


# limits that rota keeps from the stream


def kept(agent: str, place: Place, order: dict[str, Any], name: str = "kept", **options: Any) -> dict[str, Any]:
    """Run a task under a real keeper; return how it ended."""
    started = launch(agent, place, order, term_grace=5.0, timeout=LONGEST_WAIT, **options)
    return asyncio.run(keep(started, kept_folder(place, name)))


def endless(agent: str, place: Place) -> dict[str, Any]:
    """Return an order to make the same call again and again; Codex reports no command that ends at once."""
    if agent == "codex":
        return {"tool": "exec_command", "input": {"cmd": "sleep 1.5; cat notes.txt"}, "again": True}
    return {**reading(agent, place.project / "notes.txt"), "again": True}


@EACH
def test_the_same_call_again_and_again_is_stopped(agent: str, place: Place) -> None:
    guard = {"stream": agent, "limit": 3, "max_turns": None, "max_usd": None}
    ended = kept(agent, place, endless(agent, place), guard=guard)
    assert ended["why"] == "looping", ended
    assert "3 times in a row" in ended["error"]
    assert tagged(RUN_ID) == []


COUNTED = [name for name in REAL if adapter(name).capabilities.counts_turns]


@pytest.mark.parametrize("agent", COUNTED)
def test_a_program_without_a_limit_of_turns_is_stopped_by_rota(agent: str, place: Place) -> None:
    guard = {"stream": agent, "limit": None, "max_turns": 2, "max_usd": None}
    ended = kept(agent, place, endless(agent, place), guard=guard)
    assert (ended["why"], ended["error"]) == ("limited", f"{agent} was stopped at max_turns (2)")
    assert tagged(RUN_ID) == []


def test_opencode_is_stopped_at_its_dollars(place: Place) -> None:
    """The stub's model costs $0.0027 a turn."""
    guard = {"stream": "opencode", "limit": None, "max_turns": None, "max_usd": 0.005}
    ended = kept("opencode", place, endless("opencode", place), guard=guard)
    assert (ended["why"], ended["error"]) == ("limited", "opencode was stopped at max_usd (0.005)")


@EACH
def test_an_agent_that_falls_silent_is_stopped(agent: str, place: Place) -> None:
    for number, seconds in enumerate((10.0, 40.0)):
        ended = kept(agent, place, {"hang": True}, f"kept{number}", idle_timeout=seconds)
        assert ended["why"] == "idle"
        assert tagged(RUN_ID) == []
        if place.stub.waiting.is_set():
            return
    pytest.fail(f"{agent} never came as far as asking")


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


# runs of a real scheduler that are refused


class Refused(Planned):
    """A project whose one job is refused by its provider until the stub is calm."""

    def refuse(self, order: dict[str, Any], *, agents: dict[str, Any] | None = None, **keys: Any) -> None:
        """Serve a file whose job `work` gets this order."""
        model = {"model": REAL[self.agent].model} if REAL[self.agent].model else {}
        told = {
            "defaults": {"env_pass": sorted({*self.surroundings} - {"PATH", "HOME"}), "timeout": "5m"},
            "agents": {"first": {"adapter": self.agent, **model}, **(agents or {})},
            "jobs": {"work": {"agent": "first", "prompt": prompt(**order), **keys}},
        }
        self.write(json.dumps(told))
        self.serve()


@pytest.fixture
def refused(agent: str, place: Place) -> Iterator[Refused]:
    project = Refused(agent, place)
    try:
        yield project
    finally:
        project.end()


@EACH
def test_a_run_that_reaches_its_limit_goes_on_in_its_session_when_the_hold_ends(agent: str, refused: Refused) -> None:
    """`on_quota: continue`: what the run had done before the refusal is in the session that goes on."""
    stub, folder = refused.place.stub, refused.place.project
    limit = {"status": 429, "message": "rate limit reached", "headers": {"retry-after": "1"}, "say": "finished"}
    refused.refuse({**reading(agent, folder / "notes.txt"), "then": limit}, on_quota="continue")
    refused.rota("trigger", "work")
    until(lambda: refused.told("work")[0] == ("FAILED", "quota"), what=lambda: f"a refusal: {refused.told('work')}")
    stub.calm = True
    provider = refused.json("show", "work")["spec"]["work"]["agent"]["provider"]
    refused.rota("agents", "release", provider, check=False)
    refused.until_told("work", [("FAILED", "quota"), ("COMPLETED", None)])
    first, second = refused.history("work")
    assert second["retry_of"] in (first["id"], first["run"])
    assert second["result_summary"] == "finished"
    assert "three lines" in json.dumps(stub.asked[-1].body)
    refused.rota("stop", "--now")
    assert refused.json("verify")["clean"]


@pytest.mark.parametrize(
    ("agent", "second", "at"), [("claude", "codex", "/v1/messages"), ("codex", "claude", "/responses")]
)
@pytest.mark.parametrize(("status", "reason"), [(429, "quota"), (401, "auth"), (503, "outage")])
def test_the_next_agent_takes_over_from_one_that_is_refused(
    agent: str, second: str, at: str, status: int, reason: str, refused: Refused
) -> None:
    refused.surroundings |= environment(second, refused.place)
    order = {"status": status, "message": "no", "at": at, "say": "taken over"}
    refused.refuse(order, agents={"second": {"adapter": second}})
    refused.write(
        (refused.folder / "rota.yaml").read_text().replace('"agent": "first"', '"agent": ["first", "second"]')
    )
    refused.rota("apply")
    refused.rota("trigger", "work")
    refused.until_told("work", [("FAILED", reason), ("COMPLETED", None)])
    assert refused.history("work")[1]["result_summary"] == "taken over"
    assert "first refused" in refused.rota("explain", "work:2").stdout


@pytest.mark.parametrize("agent", ["claude"])
@pytest.mark.parametrize("answer", ["allow once", "deny"])
def test_a_person_permits_a_tool_call_or_does_not(agent: str, answer: str, refused: Refused) -> None:
    """`access: ask` with the program's own permission prompts."""
    order = {"tool": "Bash", "input": {"command": "touch made", "description": "d"}, "say": "done"}
    refused.refuse(order, access="ask")
    refused.rota("trigger", "work")
    question = until(lambda: refused.json("questions"), what="a question")[0]
    assert "touch made" in json.dumps(question)
    refused.rota("answer", str(question["question"]), answer)
    refused.until_told("work", [("COMPLETED", None)])
    assert (refused.folder / "made").exists() == (answer == "allow once")
    assert refused.history("work")[0]["denied_tools"] == ([] if answer == "allow once" else ["Bash"])


UNBOXED = dict(sandbox_problems(Work(Kind.SHELL, sandbox=Sandbox()))).get("sandbox", "")


@EACH
@pytest.mark.skipif(bool(UNBOXED), reason=UNBOXED)
def test_a_sandbox_encloses_an_agent_with_full_access(agent: str, refused: Refused) -> None:
    """It reads, writes its project and keeps its session, and changes nothing else."""
    outside = Path(f"/usr/{os.getpid()}.{agent}")
    real, key = REAL[agent], "cmd" if agent == "codex" else "command"
    order = {"tool": real.tool, "input": {**real.given, key: f"touch {outside}; touch made; ls .rota; true"}}
    boxed = {"bubblewrap": True, "write": [str(refused.place.home), str(PROGRAMS.parents[1])]}
    try:
        refused.refuse({**order, "say": "done"}, access="full", sandbox=boxed)
        refused.rota("trigger", "work")
        refused.until_told("work", [("COMPLETED", None)])
        said = json.dumps(refused.place.stub.asked[-1].body)
        assert (refused.folder / "made").exists(), said[-2000:]
        assert not outside.exists()
        assert "rota.db" not in said
    finally:
        outside.unlink(missing_ok=True)
