"""The adapters by name, Python functions as agents, and probes of installed programs."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.agents import claude, codex, custom, gemini, ollama, opencode
from rota.agents.adapter import Adapter, last_words, unknown_options
from rota.model.agents import KEPT_ALONE, Access, Capabilities
from rota.model.errors import UnknownAdapter, nearest

NAME = "python"
CERTIFIABLE = frozenset({"claude", "codex", "gemini", "opencode"})
"""The adapters whose programs `rota agents certify` can try."""
CAPABILITIES = ("allowed_tools", "max_turns", "max_usd", "resume", "cost", "tools_server", "model", "access")
"""The capabilities that a function can declare."""


def python_adapter(options: Mapping[str, Any]) -> Adapter:
    """Return the adapter of a function with these capabilities."""
    capabilities = set(options.get("capabilities") or ())
    # Nothing restricts a function that ignores `task.access`, so only full access is honest.
    access = KEPT_ALONE if "access" in capabilities else frozenset({Access.FULL})
    limits = {name: name in capabilities for name in CAPABILITIES if name != "access"}
    return Adapter(
        name=NAME,
        provider=str(options.get("provider") or NAME),
        capabilities=Capabilities(**limits, access=access),
        complaints=lambda options: unknown_options(options, ("capabilities", "provider")),
    )


_ALL = (claude.ADAPTER, codex.ADAPTER, gemini.ADAPTER, opencode.ADAPTER, ollama.ADAPTER)
FIXED = {each.name: each for each in _ALL}
_DESCRIBED = {custom.NAME: custom.adapter, NAME: python_adapter}
"""The adapters that their options define."""


def names() -> tuple[str, ...]:
    """Return the names of all adapters; a Python function is written as {run: …}."""
    return (*FIXED, custom.NAME)


def adapter(name: str, options: Mapping[str, Any] | None = None) -> Adapter:
    """Return an adapter; the options define a custom one."""
    if name in _DESCRIBED:
        return _DESCRIBED[name](options or {})
    if name not in FIXED:
        raise UnknownAdapter(name, near=nearest(name, names()))
    return FIXED[name]


def complaints(name: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the problems of the options in the file, each as `key: text`."""
    return custom.complaints(options) if name == custom.NAME else adapter(name).complaints(options)


PROBE_SECONDS = 30.0
"""A busy machine needs long to start a program."""
QUICK_PROBE_SECONDS = 5.0
VERSION_LIMIT = 40


class AgentProbe(Struct, frozen=True):
    """An agent on this machine; `path` is None if it is not installed."""

    name: str
    path: str | None = None
    version: str = ""
    logged_in: bool | None = None
    """None: unknown without a request to a model."""
    problem: str | None = None
    headless: bool | None = None
    """Whether it runs without a terminal; None: unknown."""


def probe(adapter: Adapter, environ: Mapping[str, str], options: Mapping[str, Any] | None = None) -> AgentProbe:
    """Probe an agent as a run with these variables and options would find it."""
    if adapter.reach is not None:
        where, version, problem = adapter.reach(environ, options or {})
        here = None if problem else True
        return AgentProbe(adapter.name, where, version, logged_in=here, problem=problem, headless=here)
    path = shutil.which(adapter.executable, path=environ.get("PATH"))
    if path is None:
        return AgentProbe(adapter.name, problem=f"{adapter.executable} is not on PATH")
    agent = AgentProbe(adapter.name, path)
    if adapter.probe is None:
        return agent
    if adapter.probe.version:
        answer = _ask(adapter.probe.version, path, environ=environ)
        agent = replace(agent, version=version_in(answer.text), problem=answer.problem)
    return agent if agent.problem else _with_login(_with_headless(agent, adapter, environ), adapter, environ)


def version_of(adapter: Adapter, environ: Mapping[str, str], *, patience: float = QUICK_PROBE_SECONDS) -> str:
    """Return the version of an agent's program if the program answers quickly, else an empty text."""
    path = shutil.which(adapter.executable, path=environ.get("PATH")) if adapter.executable else None
    if path is None or adapter.probe is None or not adapter.probe.version:
        return ""
    return version_in(_ask(adapter.probe.version, path, environ=environ, patience=patience).text)


def probe_all(adapters: Iterable[Adapter], environ: Mapping[str, str]) -> tuple[AgentProbe, ...]:
    """Probe several agents at the same time."""
    from concurrent.futures import ThreadPoolExecutor

    listed = list(adapters)
    with ThreadPoolExecutor(max(1, len(listed))) as asking:
        return tuple(asking.map(lambda adapter: probe(adapter, environ), listed))


def version_in(text: str) -> str:
    """Return the first word that looks like a version.

    >>> version_in("codex-cli 0.166.0")
    '0.166.0'
    """
    words = (word for word in text.split() if word.lstrip("v")[:1].isdigit())
    return next(words, "")[:VERSION_LIMIT]


def _with_headless(agent: AgentProbe, adapter: Adapter, environ: Mapping[str, str]) -> AgentProbe:
    """Check whether this version knows the options that rota uses."""
    assert adapter.probe is not None
    if not adapter.probe.headless:
        return agent
    answer = _ask(adapter.probe.headless, agent.path or "", environ=environ)
    if answer.problem:
        return replace(agent, headless=False, problem=answer.problem)
    missing = [option for option in adapter.probe.options if option not in answer.text + answer.errors]
    problem = f"this version does not support {', '.join(missing)}" if missing else None
    return replace(agent, headless=not missing, problem=problem)


def _with_login(agent: AgentProbe, adapter: Adapter, environ: Mapping[str, str]) -> AgentProbe:
    assert adapter.probe is not None
    if any(environ.get(name) for name in adapter.probe.login_env):
        return replace(agent, logged_in=True)
    if not adapter.probe.login:
        return agent
    answer = _ask(adapter.probe.login, agent.path or "", environ=environ)
    if answer.exit_code is None:
        return replace(agent, problem=agent.problem or answer.problem)
    if answer.exit_code == 0:
        return replace(agent, logged_in=True)
    if adapter.login_problem is None:
        return _logged_out(agent, "is not logged in")
    report = _ask(adapter.probe.report, agent.path or "", environ=environ)
    if report.exit_code is None:
        return agent
    wrong = adapter.login_problem(report.text)
    return replace(agent, logged_in=True) if wrong is None else _logged_out(agent, wrong)


def _logged_out(agent: AgentProbe, wrong: str) -> AgentProbe:
    return replace(agent, logged_in=False, problem=agent.problem or f"{agent.name} {wrong}")


class _ProbeAnswer(Struct, frozen=True):
    exit_code: int | None
    text: str = ""
    problem: str | None = None
    errors: str = ""


def _ask(
    argv: Sequence[str], path: str, *, environ: Mapping[str, str], patience: float = PROBE_SECONDS
) -> _ProbeAnswer:
    import subprocess

    shown = " ".join(argv)
    try:
        done = subprocess.run(
            [path, *argv[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environ),
            timeout=patience,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _ProbeAnswer(None, problem=f"`{shown}` did not finish within {patience:.0f} s")
    except OSError as error:
        return _ProbeAnswer(None, problem=f"`{shown}` cannot be started: {(error.strerror or str(error)).lower()}")
    errors = done.stderr.decode("utf-8", "replace")
    last = last_words(errors)
    problem = f"`{shown}` ended with exit code {done.returncode}" + (f": {last}" if last else "")
    text = done.stdout.decode("utf-8", "replace")
    return _ProbeAnswer(done.returncode, text, problem if done.returncode else None, errors)
