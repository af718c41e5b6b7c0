"""Certification of agents: the installed program is tried, not believed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import Struct

from rota.agents.adapter import Adapter
from rota.model.agents import Access, AgentTask, Attempted, Certification
from rota.model.errors import InvalidValue
from rota.model.serialize import to_shape
from rota.operations.agents.agents import AgentView, environment_of
from rota.operations.project.locate import ProjectPaths
from rota.store.driver import Database, Store
from rota.store.tables import activity, audit

if TYPE_CHECKING:
    from rota.agents.stub import Stub

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL")
"""The variables of an agent's runs that its program gets: no login leaves this machine."""


LONGEST_ATTEMPT = 120.0
MODEL = {"gemini": "gemini-2.5-pro", "opencode": "stub/m"}
"""The models of programs that need one."""
SLOW_DISK = "/var/tmp"  # noqa: S108 -- the sandbox of Codex has its own /dev/shm and may write to /tmp


class Ground(Struct, frozen=True):
    """A folder with a home, a project and everything that an attempt could make."""

    folder: Path
    url: str

    @property
    def home(self) -> Path:
        """The home of the program: it has none of the user's settings."""
        return self.folder / "home"

    @property
    def project(self) -> Path:
        """The workspace."""
        return self.folder / "project"

    def mark(self, name: str) -> Path:
        """Return the file that an attempt makes if nothing stops it."""
        return (self.project if name in ("write", "shell") else self.folder) / f"made-by-{name}"


def claude_settings(ground: Ground) -> dict[str, str]:
    """Return the environment in which Claude Code uses the stub."""
    return {
        "CLAUDE_CONFIG_DIR": str(ground.home / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ANTHROPIC_BASE_URL": ground.url,
        "ANTHROPIC_API_KEY": "stub",
    }


def codex_settings(ground: Ground) -> dict[str, str]:
    """Return the environment in which Codex uses the stub."""
    folder = ground.home / "codex"
    folder.mkdir(exist_ok=True)
    provider = {"name": "stub", "base_url": f"{ground.url}/v1", "env_key": "STUB_KEY", "wire_api": "responses"}
    retries = {"request_max_retries": 1, "stream_max_retries": 1}
    lines = [f"{key} = {json.dumps(value)}" for key, value in (provider | retries).items()]
    settings = ['model = "stub"', 'model_provider = "stub"', "[model_providers.stub]", *lines]
    (folder / "config.toml").write_text("\n".join(settings) + "\n")
    return {"CODEX_HOME": str(folder), "STUB_KEY": "stub"}


def gemini_settings(ground: Ground) -> dict[str, str]:
    """Return the environment in which Gemini uses the stub."""
    folder = ground.home / ".gemini"
    folder.mkdir(exist_ok=True)
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"maxAttempts": 1, "enableAutoUpdate": False},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    return {"GEMINI_API_KEY": "stub", "GOOGLE_GEMINI_BASE_URL": ground.url}


def opencode_settings(ground: Ground) -> dict[str, str]:
    """Return the environment in which OpenCode uses the stub."""
    folder = ground.home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    options = {"baseURL": f"{ground.url}/v1", "apiKey": "stub"}
    models = {"m": {"name": "m", "tool_call": True, "cost": {"input": 2, "output": 10}}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "stub", "options": options, "models": models}
    (folder / "opencode.json").write_text(json.dumps({"provider": {"stub": provider}, "autoupdate": False}))
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


class Program(Struct, frozen=True):
    """How a program uses the stub, and the names of its tools: `write` and `fetch` None for a program without."""

    settings: Callable[[Ground], dict[str, str]]
    shell: tuple[str, str]
    write: tuple[str, str] | None
    fetch: tuple[str, str] | None
    server: Callable[[list[str]], tuple[str, str]]
    """Return the project's file, and its text, that starts an MCP server."""


def _json_server(file: str, key: str) -> Callable[[list[str]], tuple[str, str]]:
    return lambda argv: (file, json.dumps({key: {"x": {"command": argv[0], "args": argv[1:]}}}))


PROGRAMS = {
    "claude": Program(
        claude_settings,
        ("Bash", "command"),
        ("Write", "file_path"),
        ("WebFetch", "url"),
        _json_server(".mcp.json", "mcpServers"),
    ),
    "codex": Program(
        codex_settings,
        ("exec_command", "cmd"),
        None,
        None,
        lambda argv: (
            ".codex/config.toml",
            f"[mcp_servers.x]\ncommand = {json.dumps(argv[0])}\nargs = {json.dumps(argv[1:])}\n",
        ),
    ),
    "gemini": Program(
        gemini_settings,
        ("run_shell_command", "command"),
        ("write_file", "file_path"),
        None,
        _json_server(".gemini/settings.json", "mcpServers"),
    ),
    "opencode": Program(
        opencode_settings,
        ("bash", "command"),
        ("write", "filePath"),
        ("webfetch", "url"),
        lambda argv: ("opencode.json", json.dumps({"mcp": {"x": {"type": "local", "command": argv, "enabled": True}}})),
    ),
}
CLASSES = ("write", "shell", "network", "mcp", "outside")
"""The acts that `access: read` forbids: a file of the workspace, a command that changes one, and so on."""


def certify(
    kind: Adapter, environ: Mapping[str, str], *, tell: Callable[[str], None], access: Access = Access.READ
) -> dict[str, Attempted]:
    """Run a program that attempts each forbidden class; return the end of each. `tell` gets the class before it."""
    from rota.agents.stub import serving

    program = PROGRAMS[kind.name]
    found: dict[str, Attempted] = {}
    for name in CLASSES:
        tell(name)
        parent = SLOW_DISK if os.access(SLOW_DISK, os.W_OK) else None
        with serving() as stub, tempfile.TemporaryDirectory(dir=parent, prefix="rota-certify-") as folder:
            ground = Ground(Path(folder), stub.url)
            ground.home.mkdir()
            ground.project.mkdir()
            (ground.project / "notes.txt").write_text("some notes\n")
            found[name] = _attempt(name, kind, program, ground=ground, stub=stub, environ=environ, access=access)
    return found


def _attempt(
    name: str,
    kind: Adapter,
    program: Program,
    *,
    ground: Ground,
    stub: "Stub",
    environ: Mapping[str, str],
    access: Access,
) -> Attempted:
    """Return whether a forbidden act was done, by its effect and not by the words of the program."""
    settings = program.settings(ground)
    orders = _orders(name, program, ground)
    tried = False
    for order in orders:
        before = len(stub.asked)
        _run(kind, order, ground=ground, environ={**environ, **settings}, access=access)
        if ground.mark(name).exists() or any(path.startswith("/made-by-") for path in stub.reached):
            return Attempted.DONE
        # A tool was attempted if the program came back with its result.
        tried = tried or len(stub.asked) - before > (1 if "tool" in order else 0)
    return Attempted.DENIED if tried else Attempted.UNTRIED


def _orders(name: str, program: Program, ground: Ground) -> list[dict[str, Any]]:
    """Return the orders to the model of one class."""
    mark, (shell, command) = ground.mark(name), program.shell
    if name == "mcp":
        server = [sys.executable, "-c", f"open({str(mark)!r}, 'w')"]
        file, text = program.server(server)
        (ground.project / file).parent.mkdir(parents=True, exist_ok=True)
        (ground.project / file).write_text(text)
        return [{"say": "done"}]
    orders = []
    if name == "network":
        host, _, port = ground.url.removeprefix("http://").partition(":")
        reach = f"exec 3<>/dev/tcp/{host}/{port}; printf 'GET /made-by-shell HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
        orders.append({"tool": shell, "input": {command: f'bash -c "{reach}"', "description": "reach"}})
        if program.fetch is not None:
            tool, key = program.fetch
            orders.append(
                {"tool": tool, "input": {key: f"{ground.url}/made-by-fetch", "prompt": "x", "format": "text"}}
            )
        return orders
    if name in ("write", "outside") and program.write is not None:
        tool, key = program.write
        orders.append({"tool": tool, "input": {key: str(mark), "content": "made"}})
    if name == "shell" or program.write is None:
        orders.append({"tool": shell, "input": {command: f"touch {mark}", "description": "touch"}})
    return orders


def _run(kind: Adapter, order: dict[str, Any], *, ground: Ground, environ: Mapping[str, str], access: Access) -> None:
    """Run the program once; end its process group afterwards."""
    assert kind.invoke is not None, "only programs are certified"
    folder = ground.folder / "run"
    folder.mkdir(exist_ok=True)
    task = AgentTask(
        prompt=f"Look at the notes.\nstub: {json.dumps(order)}\n",
        model=MODEL.get(kind.name),
        access=access,
        folder=str(folder),
        cwd=str(ground.project),
    )
    invocation = kind.invoke(task)
    for file, text in invocation.files.items():
        (folder / file).write_text(text)
    argv = [shutil.which(invocation.argv[0], path=environ.get("PATH")) or invocation.argv[0], *invocation.argv[1:]]
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ground.project,
        env={**environ, "HOME": str(ground.home), **invocation.env},
        start_new_session=True,
    )
    try:
        process.communicate((invocation.stdin or "").encode(), timeout=LONGEST_ATTEMPT)
    except subprocess.TimeoutExpired:
        pass  # its effects until now count
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def certify_agents(
    store: Store,
    views: Sequence[AgentView],
    *,
    place: ProjectPaths,
    environ: Mapping[str, str],
    clock: Callable[[], datetime],
    tell: Callable[[str, str], None],
) -> list[Certification]:
    """Try each program on the acts that `access: read` forbids, and store the outcome; `tell` gets agent and class."""
    certifications: list[Certification] = []
    for view in views:
        agent = view.known
        if agent.kind is None or agent.adapter in [certification.adapter for certification in certifications]:
            continue
        _refuse_unready(view)
        whole = environment_of(agent, environ, place)
        env = {name: whole[name] for name in PASSED_ON if name in whole}
        attempts = certify(agent.kind, env, tell=lambda each, name=agent.name: tell(name, each))  # type: ignore[misc]
        outcome = Certification(agent.adapter, view.found.version, clock(), attempts)
        store.write(lambda db, outcome=outcome: _save(db, outcome))  # type: ignore[misc]
        certifications.append(outcome)
    return certifications


def _save(db: Database, made: Certification) -> None:
    activity.save_certification(db, made)
    failed = ", ".join(not_denied(made))
    audit.insert_event(
        db, "agent_certified", now=made.at, adapter=made.adapter, version=made.version, not_denied=failed or None
    )


def certifiable(views: Sequence[AgentView]) -> list[AgentView]:
    """Return the agents whose programs can be certified."""
    return [view for view in views if view.known.adapter in PROGRAMS]


def _refuse_unready(view: AgentView) -> None:
    if view.found.path is None or not view.found.version:
        hint = "`rota agents check` has its path and version"
        raise InvalidValue(f"{view.known.name} cannot be certified: {view.found.problem or 'no version'}", hint=hint)


def not_denied(made: Certification) -> list[str]:
    """Return the classes that were not denied."""
    return [name for name, each in made.attempts.items() if each is not Attempted.DENIED]


def certified_words(made: Certification | None, version: str) -> str:
    """Return whether this version of a program is certified, in a few words."""
    if made is None:
        return "no"
    if made.version != version:
        return f"no, {made.version} was"
    failed = ", ".join(f"{name} {made.attempts[name]}" for name in not_denied(made))
    return f"failed: {failed}" if failed else "yes"


class CertificationJson(TypedDict):
    """The certification of a program; `current`: it is about the installed version."""

    adapter: str
    version: str
    at: str
    passed: bool
    current: bool
    attempts: dict[str, str]


def certification_json(made: Certification | None, version: str) -> CertificationJson | None:
    """Return a certification as JSON."""
    if made is None:
        return None
    attempts = {name: each.value for name, each in made.attempts.items()}
    return to_shape(CertificationJson, made, current=made.version == version, attempts=attempts)


def certified_json(made: Sequence[Certification]) -> dict[str, Any]:
    """Return new certifications as JSON."""
    return {
        "ok": all(certification.passed for certification in made),
        "certified": [certification_json(certification, certification.version) for certification in made],
    }
