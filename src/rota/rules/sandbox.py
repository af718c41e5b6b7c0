"""The command lines that enclose a run: bubblewrap, a container, and limits on memory, processors and processes."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePath

from msgspec import Struct

from rota.model.errors import InvalidValue
from rota.model.spec import Limits, Sandbox

HIDDEN = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - these folders are empty inside
"""Folders that are empty inside: temporary files of others, and sockets of services such as container runtimes."""
RESOLVER = "/run/systemd/resolve"
OF_THE_HOST = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"})
"""Variables that mean something on the host alone; a container has its own."""
LABEL = "rota.run"
PODMAN = "podman"


class Enclosure(Struct, frozen=True):
    """The places of a run that its sandbox must know."""

    cwd: str
    folder: str
    """The run's own folder, below the state folder."""
    state: str
    """The state folder, which has the database and the token."""
    write: tuple[str, ...] = ()
    """Further paths that exist and may be changed."""
    hidden: tuple[str, ...] = ()
    """The paths below which the state folder would show in a container."""
    read: tuple[str, ...] = ()
    """Paths that must be readable: also below a folder that is empty inside, and in a container."""


class LimitMethod(StrEnum):
    """How limits are kept."""

    SCOPE = "systemd scope"
    RLIMIT = "rlimits"
    CONTAINER = "container"


class LimitFacts(Struct, frozen=True):
    """The means of a machine to keep limits."""

    scopes: bool
    """Whether systemd makes a scope with cgroup v2 for this user."""
    prlimit: bool
    root: bool


def bubblewrap_argv(program: str, sandbox: Sandbox, places: Enclosure, argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command inside bubblewrap: a read-only system, a writable working folder, a private /tmp.

    There is no --die-with-parent: TERM ends bubblewrap itself, and the command shall keep its grace.
    """
    network = () if sandbox.network and not sandbox.hosts else ("--unshare-net",)
    system = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    alone = ("--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL", *network)
    inside = ("--setenv", "TMPDIR", "/tmp", "--chdir", places.cwd)  # noqa: S108 - the private one
    return (program, *alone, *system, *_mounts(places), *inside, "--", *argv)


def _mounts(places: Enclosure) -> tuple[str, ...]:
    """Return the mounts, outer folders first: a later mount covers an earlier one."""
    mounts: dict[str, tuple[str, ...]] = {path: ("--tmpfs", path) for path in HIDDEN}
    mounts[RESOLVER] = ("--ro-bind-try", RESOLVER, RESOLVER)
    mounts[places.state] = ("--tmpfs", places.state)
    mounts |= {path: ("--ro-bind", path, path) for path in places.read}
    for path in (*places.write, places.cwd, places.folder):
        mounts[path] = ("--bind", path, path)
    order = sorted(mounts, key=lambda path: PurePath(path).parts)
    return tuple(word for path in order for word in mounts[path])


def container_name(run_id: str) -> str:
    """Return the name of a run's container."""
    return f"rota-{run_id}"


def container_argv(
    sandbox: Sandbox,
    places: Enclosure,
    argv: Sequence[str],
    *,
    run_id: str,
    variables: Collection[str],
    limits: Limits | None,
    user: str,
) -> tuple[str, ...]:
    """Return a command in a container; variables are passed by name, so that no value shows in the process list.

    An empty `user`: the user of a podman without root, whose files keep their owner.
    """
    words = [sandbox.runtime, "run", "--rm", "--init", "--name", container_name(run_id), "--label", f"{LABEL}={run_id}"]
    writable = dict.fromkeys((*places.write, places.cwd, places.folder))
    for path in writable:
        words += ["--volume", f"{path}:{path}"]
    for path in (path for path in places.read if path not in writable):
        words += ["--volume", f"{path}:{path}:ro"]
    for path in places.hidden:  # podman would copy the files below into it
        words += ["--tmpfs", path + (":notmpcopyup" if sandbox.runtime == PODMAN else "")]
    words += ["--workdir", places.cwd]
    words += ["--user", sandbox.user or user] if sandbox.user or user else ["--userns", "keep-id"]
    words += [] if sandbox.network else ["--network", "none"]
    words += [word for name, value in _container_limits(limits) for word in (name, value)]
    words += [word for name in sorted(variables) for word in ("--env", name)]
    return (*words, sandbox.image, *argv)


def _container_limits(limits: Limits | None) -> list[tuple[str, str]]:
    limits = limits or Limits()
    values = {"--memory": limits.memory, "--cpus": limits.cpus, "--pids-limit": limits.processes}
    return [(name, f"{value:g}" if isinstance(value, float) else str(value)) for name, value in values.items() if value]


def container_variables(environment: Mapping[str, str], own: Collection[str]) -> frozenset[str]:
    """Return the variables that a container gets: all but those of the host, which the job may set itself."""
    return frozenset(name for name in environment if name not in OF_THE_HOST or name in own)


def removal_argv(sandbox: Sandbox, run_id: str) -> tuple[str, ...]:
    """Return the command that removes the container of a run, which no signal to its client would end."""
    return (sandbox.runtime, "rm", "--force", container_name(run_id))


def search_argv(removal: Sequence[str]) -> tuple[str, ...]:
    """Return the command that names the containers with the label of the run whose container `removal` removes."""
    run_id = removal[-1].removeprefix(container_name(""))
    return (removal[0], "ps", "--all", "--quiet", "--filter", f"label={LABEL}={run_id}")


def limit_method(limits: Limits, facts: LimitFacts) -> LimitMethod:
    """Return how this machine keeps limits; raise InvalidValue where it cannot."""
    if facts.scopes:
        return LimitMethod.SCOPE
    hint = "this needs systemd with cgroup v2 for this user (`systemd-run --user --scope`), or a container"
    if limits.cpus is not None:
        raise InvalidValue("`limits.cpus` cannot be kept on this machine", hint=hint)
    if limits.processes is not None and facts.root:
        raise InvalidValue("`limits.processes` cannot be kept for root on this machine", hint=hint)
    if not facts.prlimit:
        raise InvalidValue("`limits` cannot be kept on this machine: there is no program prlimit", hint=hint)
    return LimitMethod.RLIMIT


def limited_argv(
    limits: Limits, method: LimitMethod, argv: Sequence[str], *, root: bool, address: str = ""
) -> tuple[str, ...]:
    """Return a command under limits. A memory limit by rlimits counts the address space of each process.

    `address`: the runtime folder of the user, which only `systemd-run` gets.
    """
    if method is LimitMethod.RLIMIT:
        words = [f"--as={limits.memory}"] if limits.memory else []
        words += [f"--nproc={limits.processes}"] if limits.processes else []
        return ("prlimit", *words, "--", *argv)
    words = [] if root else ["--user"]
    words += ["--scope", "--quiet", "--collect"]
    if limits.memory:
        words += ["--property", f"MemoryMax={limits.memory}", "--property", "MemorySwapMax=0"]
    if limits.cpus:
        words += ["--property", f"CPUQuota={limits.cpus * 100:g}%"]
    if limits.processes:
        words += ["--property", f"TasksMax={limits.processes}"]
    if root or not address:
        return ("systemd-run", *words, "--", *argv)
    told = f"XDG_RUNTIME_DIR={address}"
    return ("env", told, "systemd-run", *words, "--", "env", "-u", "XDG_RUNTIME_DIR", *argv)


def say_sandbox(sandbox: Sandbox) -> str:
    """Return a sandbox in words.

    >>> say_sandbox(Sandbox(network=False))
    'bubblewrap, no network'
    """
    kind = f"container {sandbox.image} ({sandbox.runtime})" if sandbox.image else "bubblewrap"
    network = f"network: {', '.join(sandbox.hosts)}" if sandbox.hosts else "" if sandbox.network else "no network"
    writes = f"writes {', '.join(sandbox.write)}" if sandbox.write else ""
    return ", ".join(filter(None, (kind, network, writes)))


def say_limits(limits: Limits) -> str:
    """Return limits in words.

    >>> say_limits(Limits(memory=2_000_000_000, cpus=1.5, processes=200))
    '2000 MB of memory, 1.5 processors, 200 processes'
    """
    memory = f"{limits.memory // 1_000_000} MB of memory" if limits.memory else ""
    cpus = f"{limits.cpus:g} processors" if limits.cpus else ""
    processes = f"{limits.processes} processes" if limits.processes else ""
    return ", ".join(filter(None, (memory, cpus, processes)))
