"""The descendants of a process, and signals to all of them. Standard library only."""

import os
import sys
from collections.abc import Container, Iterable

LINUX = sys.platform == "linux"
ROUNDS = 100
PROCESS_LIMIT = 1 << 16
"""The most processes in one look: a tree may grow meanwhile."""


def descendants(pid: int) -> list[int]:
    """Return the pids below `pid`, parents before their children."""
    return signal_once(pid)


def children(pid: int) -> list[int]:
    """Return the pids that a process has started or, as a subreaper, inherited; Linux only."""
    pids: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                pids += map(int, file.read().split())
    except OSError:
        pass  # it ended just now; the next round finds its children under another parent
    return pids


class _Table(dict[int, list[int]]):
    def __missing__(self, pid: int) -> list[int]:
        return []


def _table() -> _Table:
    table = _Table()
    for pid, parent in _parents_from_proc() if LINUX else _parents_from_ps():
        table.setdefault(parent, []).append(pid)
    return table


def _parents_from_proc() -> list[tuple[int, int]]:
    rows = ((int(name), stat_fields(int(name))) for name in os.listdir("/proc") if name.isdigit())
    return [(pid, int(fields[1])) for pid, fields in rows if fields]


def _parents_from_ps() -> list[tuple[int, int]]:
    """Return pid and parent of every process; an orphan is a child of its group's leader."""
    import subprocess  # not on Linux: it would double the spawner's start

    with subprocess.Popen(["/bin/ps", "-A", "-o", "pid=,ppid=,pgid="], stdout=subprocess.PIPE) as ps:
        assert ps.stdout is not None
        rows = [tuple(map(int, line.split())) for line in ps.stdout if line.strip()]
    parents = [(pid, group if parent == 1 and pid != group else parent) for pid, parent, group in rows]
    return [row for row in parents if row[0] != ps.pid]


def stat_fields(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat after the name, state first; none without such a process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def start_ticks(pid: int) -> int | None:
    """Return when `pid` started, in clock ticks since boot, which identifies it after a reuse of the pid."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else None


def send(pid: int, *signals: int) -> None:
    """Send `signals` to a process that may be gone."""
    for number in signals:
        try:
            os.kill(pid, number)
        except OSError:
            return


def groups(pids: Iterable[int]) -> set[int]:
    """Return the process groups of descendants of this process; all their members are descendants."""
    group_ids = set()
    for pid in pids:
        try:
            group_ids.add(os.getpgid(pid))
        except OSError:
            pass  # it is gone
    return group_ids - {os.getpgrp()}


def signal_all(root: int, *signals: int) -> list[int]:
    """Send `signals` to every descendant of `root`, new ones included, and return them."""
    reached: dict[int, None] = {}
    for _ in range(ROUNDS):
        fresh = signal_once(root, *signals, leave_out=reached)
        if not fresh:
            break
        reached |= dict.fromkeys(fresh)
    return list(reached)


def signal_once(root: int, *signals: int, leave_out: Container[int] = ()) -> list[int]:
    """Send `signals` to the present descendants of `root`, each as soon as it is found."""
    children_of = children if LINUX and os.path.exists(f"/proc/{root}/task/{root}/children") else _table().__getitem__
    seen: dict[int, None] = {}
    open_pids = [root]
    while open_pids and len(seen) < PROCESS_LIMIT:
        for pid in children_of(open_pids.pop()):
            if pid not in seen:  # it may have got another parent
                open_pids.append(pid)
                seen[pid] = None
                if pid not in leave_out:
                    send(pid, *signals)
    return [pid for pid in seen if pid not in leave_out]
