"""Processes of this machine: identity, boot, process 1 and network."""

import ipaddress
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import psutil

from rota.model.records import ProcessIdentity
from rota.runners.tree import LINUX, descendants, send, signal_all, start_ticks, stat_fields

TAG = "ROTA_RUN_ID"
RESULT_FILE = "ROTA_RESULT_FILE"
SWEEPS = 100
SWEEP_PAUSE_SECONDS = 0.02
_GONE = (b"Z", b"X", b"x")


@cache
def boot_id() -> str:
    """Return an id of this boot of this machine and, on Linux, of this pid namespace."""
    if not LINUX:
        return f"boot-{int(psutil.boot_time())}"
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()}-{os.stat('/proc/self/ns/pid').st_ino}"


def start_time(pid: int) -> int | None:
    """Return when `pid` started, in the system's own unit; None without such a process."""
    if LINUX:
        return start_ticks(pid)
    try:
        return int(psutil.Process(pid).create_time() * 1000)
    except psutil.Error:
        return None


def identity(pid: int | None = None) -> ProcessIdentity:
    """Return the identity of a process, by default of this one."""
    pid = os.getpid() if pid is None else pid
    start = start_time(pid)
    if start is None:
        raise ProcessLookupError(f"there is no process {pid}")
    return ProcessIdentity(boot_id=boot_id(), pid=pid, start=start)


def alive(process: ProcessIdentity) -> bool:
    """Return whether exactly this process still runs; a zombie is dead, a reused pid is another process."""
    if process.boot_id != boot_id():
        return False
    if LINUX:
        fields = stat_fields(process.pid)
        return bool(fields) and fields[0] not in _GONE and int(fields[19]) == process.start
    try:
        current = psutil.Process(process.pid)
        return int(current.create_time() * 1000) == process.start and current.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def tagged(run_id: str) -> list[int]:
    """Return the other processes with the run's id in their environment."""
    mark = f"{TAG}={run_id}".encode()
    return [pid for pid in psutil.pids() if pid != os.getpid() and mark in _environment(pid)]


def runs_here(state: Path) -> set[str]:
    """Return the runs of this state folder that have living processes."""
    home = f"{RESULT_FILE}={state}{os.sep}".encode()
    run_ids = set()
    for pid in psutil.pids():
        environment = _environment(pid)
        if any(line.startswith(home) for line in environment) and pid != os.getpid() and _runs(pid):
            run_ids |= {line.decode().partition("=")[2] for line in environment if line.startswith(f"{TAG}=".encode())}
    return run_ids


def _environment(pid: int) -> list[bytes]:
    try:
        if LINUX:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return file.read().split(b"\0")
        return [f"{name}={value}".encode() for name, value in psutil.Process(pid).environ().items()]
    except (OSError, psutil.Error):
        return []


def kill_tagged(run_id: str) -> list[int]:
    """Kill the rest of a run's process tree, for two seconds at most; return the pids that are left."""
    for _ in range(SWEEPS):
        left = _tree_of(run_id)
        if not left:
            return []
        for pid in left:
            send(pid, signal.SIGKILL)
        threading.Event().wait(SWEEP_PAUSE_SECONDS)
    return _tree_of(run_id)


def _tree_of(run_id: str) -> list[int]:
    roots = tagged(run_id)
    below = {pid for root in roots for pid in descendants(root)}
    ourselves = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())} if roots else set()
    return sorted(pid for pid in below.union(roots) - ourselves if _runs(pid))


def _runs(pid: int) -> bool:
    start = start_time(pid)
    return start is not None and alive(ProcessIdentity(boot_id=boot_id(), pid=pid, start=start))


def kill_keeper(keeper: ProcessIdentity) -> None:
    """Kill a keeper after its process tree, whose owner is unknown once the keeper is gone."""
    for _ in range(SWEEPS):
        if not alive(keeper):
            return
        signal_all(keeper.pid, signal.SIGKILL)
        if not keeps(keeper):
            break
        threading.Event().wait(SWEEP_PAUSE_SECONDS)
    send_signal(keeper, signal.SIGKILL)


def stuck(keeper: ProcessIdentity) -> bool:
    """Return whether a keeper was stopped and receives only CONT and KILL."""
    return LINUX and stat_fields(keeper.pid)[:1] in ([b"T"], [b"t"])


def keeps(keeper: ProcessIdentity) -> bool:
    """Return whether a keeper has living descendants."""
    return alive(keeper) and any(_runs(pid) for pid in descendants(keeper.pid))


def send_signal(process: ProcessIdentity, number: int) -> bool:
    """Send a signal to exactly this process; return whether it received it."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return alive(process) and _kill(process.pid, number)
    try:
        if not alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def port_owner(port: int) -> str:
    """Return the process that listens on a TCP port of this machine, for messages."""
    try:
        sockets = [each for each in psutil.net_connections("tcp") if each.laddr and each.laddr.port == port]
        process = psutil.Process(next(each.pid for each in sockets if each.status == psutil.CONN_LISTEN and each.pid))
        return f"{process.name()} (pid {process.pid}, in {process.cwd()})"
    except (StopIteration, psutil.Error, OSError):  # the process of another user, or it has ended
        return "a process that cannot be seen from here"


LINUX_BOOT = Path("/proc/sys/kernel/random/boot_id")
MAC_BOOT = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
"""Not the boot time, which moves when the clock is set."""
SYSCTL_SECONDS = 5


@cache
def machine_boot() -> str:
    """Return an id of this boot of the machine."""
    if LINUX:
        return LINUX_BOOT.read_text("ascii").strip()
    return subprocess.run(MAC_BOOT, capture_output=True, text=True, check=True, timeout=SYSCTL_SECONDS).stdout.strip()


FORWARDED_SIGNALS = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT),
)


def leave_first_place(pid: Callable[[], int] = os.getpid) -> None:
    """Continue in a child if this is process 1, which must reap the orphans of its container.

    The scheduler cannot reap them itself: it would lose the exit codes of its own children.
    """
    if pid() != 1:
        return
    waited = {*FORWARDED_SIGNALS, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    child = os.fork()
    if child == 0:
        _take_the_terminal()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    while True:
        number = signal.sigwait(waited)
        if number is not signal.SIGCHLD:
            os.kill(child, number)
        elif (code := _reap(child)) is not None:
            os._exit(code)


def _take_the_terminal() -> None:
    """Become the foreground group, so that Ctrl-C arrives once."""
    os.setpgid(0, 0)
    ignored = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(0, os.getpgrp())
    except OSError:
        pass
    signal.signal(signal.SIGTTOU, ignored)


def _reap(child: int) -> int | None:
    """Reap ended processes; return the exit code of the child if it is among them."""
    exit_code = None
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                exit_code = code if code >= 0 else 128 - code
    except ChildProcessError:
        pass
    return exit_code


def network_up() -> bool:
    """Return whether an interface other than loopback is up and has an address that is not link-local."""
    up = {name for name, interface in psutil.net_if_stats().items() if interface.isup}
    listed = [entry for name, entries in psutil.net_if_addrs().items() if name in up for entry in entries]
    texts = (entry.address for entry in listed if entry.family in (socket.AF_INET, socket.AF_INET6))
    addresses = (ipaddress.ip_address(text.partition("%")[0]) for text in texts)
    return any(not (each.is_loopback or each.is_link_local or each.is_unspecified) for each in addresses)
