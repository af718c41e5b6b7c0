"""Sandboxes and limits of processes: the argv that encloses a command, and whether this machine can keep them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from rota.model.errors import InvalidValue, SpawnFailed
from rota.model.spec import Limits, Sandbox, Work
from rota.rules.sandbox import (
    PODMAN,
    Enclosure,
    LimitFacts,
    LimitMethod,
    bubblewrap_argv,
    container_argv,
    container_variables,
    limit_method,
    limited_argv,
    removal_argv,
    search_argv,
)
from rota.runners.environment import RunFacts, RunSurroundings
from rota.runners.keeper import CLEANUP

BUBBLEWRAP = "bwrap"
MANAGER = "XDG_RUNTIME_DIR"
"""The variable by which programs find the systemd of their user."""
PROXY = Path(__file__).with_name("proxy.py")
PROBE_SECONDS = 20.0
CLEANUP_SECONDS = 20.0
CONTROLLERS = Path("/sys/fs/cgroup/cgroup.controllers")
PROBE = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--unshare-net", "--", "/bin/true")


class FurtherPaths(Struct, frozen=True):
    """Paths that an agent works with besides its folder: those to read, and those to write."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


NO_PATHS = FurtherPaths()


def enclose(
    argv: tuple[str, ...],
    work: Work,
    *,
    run: RunFacts,
    surroundings: RunSurroundings,
    cwd: str,
    env: Mapping[str, str],
    further: FurtherPaths = NO_PATHS,
) -> tuple[str, ...]:
    """Return a command with the sandbox and the limits of its work around it; raise SpawnFailed if one is missing."""
    sandbox, limits = work.sandbox, work.limits
    if sandbox is not None:
        places = _places(sandbox, surroundings, cwd, further=further)
        if sandbox.image:
            _require(sandbox.runtime)
            variables = container_variables(env, {variable.name for variable in work.env} | set(work.env_pass))
            rootless = sandbox.runtime == PODMAN and os.geteuid() != 0
            user, limits = "" if rootless else f"{os.getuid()}:{os.getgid()}", limits or sandbox.limits
            return container_argv(
                sandbox, places, argv, run_id=run.run_id, variables=variables, limits=limits, user=user
            )
        program = _require(BUBBLEWRAP)
        if sandbox.hosts:
            argv = (*_proxy("enter"), "{channel}", "--", *argv)
        argv = bubblewrap_argv(program, sandbox, places, argv)
        if sandbox.hosts:
            argv = (*_proxy("serve"), ",".join(sandbox.hosts), "--", *argv)
    if limits is None:
        return argv
    return limited_argv(limits, _method(limits), argv, **_manager(env))


def _manager(env: Mapping[str, str]) -> dict[str, Any]:
    """Return how a run reaches systemd: a run has none of the variables that name the manager of its user."""
    return {"root": os.geteuid() == 0, "address": "" if MANAGER in env else os.environ.get(MANAGER, "")}


def cleanup_files(work: Work, run: RunFacts) -> dict[str, str]:
    """Return the file that tells how to remove the container of a run; empty without one."""
    if work.sandbox is None or not work.sandbox.image:
        return {}
    return {CLEANUP: json.dumps(removal_argv(work.sandbox, run.run_id))}


def remove_left_container(folder: Path) -> None:
    """Remove the container of a run whose keeper is gone, if it had one. Blocks."""
    try:
        argv = json.loads((folder / CLEANUP).read_text("utf-8"))
        subprocess.run(argv, capture_output=True, timeout=CLEANUP_SECONDS, check=False)
        process = subprocess.run(
            search_argv(argv), capture_output=True, timeout=CLEANUP_SECONDS, check=False, text=True
        )
        for container in process.stdout.split():
            subprocess.run([*argv[:-1], container], capture_output=True, timeout=CLEANUP_SECONDS, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        pass  # no container, or no runtime that could still run it


def _proxy(verb: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", str(PROXY), verb)


def _places(sandbox: Sandbox, surroundings: RunSurroundings, cwd: str, *, further: FurtherPaths) -> Enclosure:
    """Return the places of a run: in a container under the names that the run knows, else where they really are."""
    paths = (_absolute(path, surroundings.project) for path in sandbox.write)
    write = (*(path for path in paths if os.path.exists(path)), *further.write)
    own = cwd, str(surroundings.folder), str(surroundings.state)
    if sandbox.image:
        hidden = tuple(_below((cwd, *write, *further.read), own[2]))
        return Enclosure(cwd=own[0], folder=own[1], state=own[2], write=write, read=further.read, hidden=hidden)
    own = os.path.realpath(own[0]), os.path.realpath(own[1]), os.path.realpath(own[2])
    # The command of a list of hosts begins with the proxy's own Python.
    proxy = (sys.prefix, sys.base_prefix, str(PROXY.parent)) if sandbox.hosts else ()
    read = tuple(map(os.path.realpath, (*proxy, *further.read)))
    return Enclosure(cwd=own[0], folder=own[1], state=own[2], write=tuple(map(os.path.realpath, write)), read=read)


def _below(paths: Iterable[str], state: str) -> Iterator[str]:
    """Yield where the state folder shows below these paths, also below a symbolic link to a folder above it."""
    real = os.path.realpath(state)
    for path in dict.fromkeys(paths):
        inner = os.path.realpath(path)
        if real.startswith(inner.rstrip("/") + "/"):
            yield os.path.normpath(os.path.join(path, os.path.relpath(real, inner)))


def _absolute(path: str, project: Path) -> str:
    return os.path.realpath(project / os.path.expanduser(path))


def _require(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        hint = "install it, or remove `sandbox:`; `rota doctor` checks it"
        raise SpawnFailed(f"the sandbox needs the program {program!r}, which is not on PATH", hint=hint)
    return found


def _method(limits: Limits) -> LimitMethod:
    try:
        return limit_method(limits, limit_facts())
    except InvalidValue as error:
        raise SpawnFailed(error.message, hint=error.hint) from error


def limit_facts() -> LimitFacts:
    """Return what this machine offers to keep limits; nothing is started."""
    root = os.geteuid() == 0
    manager = "/run/systemd" if root else os.environ.get("XDG_RUNTIME_DIR", "") + "/systemd"
    managed = os.path.exists(f"{manager}/private")
    scopes = managed and CONTROLLERS.exists() and shutil.which("systemd-run") is not None
    return LimitFacts(scopes=scopes, prlimit=shutil.which("prlimit") is not None, root=root)


def sandbox_problems(work: Work) -> Iterator[tuple[str, str]]:
    """Yield why this machine cannot keep the sandbox or the limits of a job, and the key; each is really tried."""
    if work.sandbox is not None:
        wrong = _try_container(work.sandbox) if work.sandbox.image else _try_bubblewrap()
        if wrong:
            yield "sandbox", wrong
    if work.limits is not None and not (work.sandbox and work.sandbox.image):
        wrong = _try_limits(work.limits)
        if wrong:
            yield "limits", wrong


def _try_bubblewrap() -> str:
    program = shutil.which(BUBBLEWRAP)
    if program is None:
        return f"there is no program {BUBBLEWRAP!r} on PATH; install bubblewrap"
    return _try((program, *PROBE), "bubblewrap cannot make a sandbox here")


def _try_container(sandbox: Sandbox) -> str:
    if shutil.which(sandbox.runtime) is None:
        return f"there is no program {sandbox.runtime!r} on PATH"
    return _try((sandbox.runtime, "info"), f"{sandbox.runtime} does not work here")


def _try_limits(limits: Limits) -> str:
    root = os.geteuid() == 0
    try:
        method = limit_method(limits, limit_facts())
    except InvalidValue as error:
        return f"{error.message}: {error.hint}"
    argv = limited_argv(limits, method, ("/bin/true",), root=root)
    return _try(argv, f"limits by {method} do not work here")


def _try(argv: tuple[str, ...], wrong: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{wrong}: {error}"
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else f"{wrong}: {said[-1] if said else f'exit {done.returncode}'}"
