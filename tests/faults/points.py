"""Every crash point: who dies there, and what must happen for it to be passed."""

import signal
import subprocess
from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from rota.engine.membership.control import ask
from rota.model.store_url import SQLITE
from rota.runners.tree import send
from tests.faults.drill import Drill
from tests.service.serving import kill
from tests.waiting import LONGEST_WAIT, until

Victim = Literal["serve", "command", "child"]
FEW = 3
PASSES = (1, 2, 4)
"""At which pass of a point somebody dies; there must be so many."""
MIXED = ("hand", "again", "again", "gated", "long", "late", "late-call", "stay")


class Scene(Struct, frozen=True):
    """How a point is reached: who dies, what is made ready before it is armed, and what is done then."""

    victim: Victim
    act: Callable[[Drill], None]
    before: Callable[[Drill], None]


def declared(drill: Drill) -> None:
    """Have the jobs, and some work in the queue."""
    drill.declare()
    drill.trigger(*MIXED)


def nothing(_drill: Drill) -> None:
    """Have not even a database."""


def grown_old(drill: Drill) -> None:
    """Have rows that retention has reached, with their output."""
    drill.declare()
    drill.grow_old()
    drill.grow_old()


def asked_for_a_fix(drill: Drill) -> None:
    """Have an agent to start in a worktree of its own."""
    drill.make_repository()
    drill.declare()
    drill.trigger("fix")


def asked_for_an_item(drill: Drill) -> None:
    """Have an agent to start that works on an item of a folder."""
    drill.declare()
    drill.put_item()
    drill.trigger("pick")


def asleep(drill: Drill) -> None:
    """Have jobs that were planned while somebody was there, and nobody there any more."""
    drill.declare()
    drill.fall_asleep()


def crashed(drill: Drill) -> None:
    """Have a scheduler that was killed while everything ran."""
    drill.declare()
    started = drill.trigger(*PASSES[-1] * ["long"], "doomed", "stay", "stay")
    server = drill.serve()
    for run_id in started:
        drill.until_effect(run_id)
    kill(server)


def running(drill: Drill) -> None:
    """Have a scheduler and a queue, nothing more: it is armed already."""
    drill.declare()


def serve(drill: Drill) -> None:
    """Start a scheduler; the work at hand leads to the point."""
    drill.serve(ready=False)


def serve_and_cancel(drill: Drill) -> None:
    """Start a scheduler and cancel commands that run."""
    server = drill.serve(ready=False)
    started = drill.trigger(*PASSES[-1] * ["long"])
    until(lambda: server.poll() is not None or set(started) <= set(drill.effects()), what="the starts")
    for run_id in started:
        drill.rota("cancel", run_id, check=False)


def serve_and_stop(drill: Drill) -> None:
    """Start a scheduler and end it by a signal, once a command runs."""
    server = drill.serve()
    drill.until_effect(drill.trigger("long")[0])
    server.send_signal(signal.SIGTERM)


def serve_and_detach(drill: Drill) -> None:
    """Start a scheduler and let it leave its commands to their keepers."""
    drill.serve()
    for run_id in drill.trigger(*PASSES[-1] * ["long"]):
        drill.until_effect(run_id)
    ask(drill.state, {"ask": "stop", "mode": "detach", "within": None})


def serve_and_leave(drill: Drill) -> None:
    """Kill a scheduler whose commands run, and end them: their keepers store the outcomes in files."""
    server = drill.serve()
    for run_id in drill.trigger(*PASSES[-1] * ["long"]):
        drill.until_effect(run_id)
    kill(server)
    for (pid,) in drill.rows("SELECT pid FROM live WHERE pid IS NOT NULL"):
        send(pid, signal.SIGTERM)


def command(*arguments: str) -> Callable[[Drill], None]:
    """Return an act: run a command, again until it dies."""

    def act(drill: Drill) -> None:
        for _ in range(12):
            if drill.rota(*arguments, check=False).returncode == -signal.SIGKILL:
                return
        raise AssertionError(f"rota {arguments} did not die")

    return act


def pause_and_resume(drill: Drill) -> None:
    """Pause and resume until the point is passed often enough."""
    for _ in range(12):
        for arguments in (("pause", "tick", "--reason", "drill"), ("resume", "tick", "--catch-up", "once")):
            if drill.rota(*arguments, check=False).returncode == -signal.SIGKILL:
                return
    raise AssertionError("neither pause nor resume died")


def cancel_queued(drill: Drill) -> None:
    """Cancel runs that wait in the queue, until a command dies."""
    for run_id in drill.trigger("hand", "hand", "hand", "hand", "hand"):
        if drill.rota("cancel", run_id, check=False).returncode == -signal.SIGKILL:
            return
    raise AssertionError("no cancel died")


def trigger_many(drill: Drill) -> None:
    """Start many runs by one command, until it dies."""
    many = drill.folder / "many.jsonl"
    many.write_text("{}\n" * 5)
    command("trigger", "hand", "--each", str(many))(drill)


def cancel_many(drill: Drill) -> None:
    """Cancel queued runs by a filter, until the command dies."""
    for _ in range(12):
        drill.trigger("hand", "hand")
        if drill.rota("cancel", "--job", "hand", "--queued", "--yes", check=False).returncode == -signal.SIGKILL:
            return
    raise AssertionError("no cancel died")


def backfill(drill: Drill) -> None:
    """Make the runs of past days, each day by a command of its own, until one dies."""
    for day in range(1, 13):
        arguments = ("backfill", "daily", "--from", f"2026-01-{day:02}", "--to", f"2026-01-{day:02}")
        if drill.rota(*arguments, check=False).returncode == -signal.SIGKILL:
            return
    raise AssertionError("no backfill died")


def move(drill: Drill) -> None:
    """Move everything to another folder; the command that dies is given again, and goes on."""
    target = f"sqlite:{drill.folder / 'moved'}-{len(list(drill.folder.glob('moved-*')))}"
    assert drill.rota("migrate", "--to", target, check=False).returncode == -signal.SIGKILL
    assert "clean" in drill.rota("migrate", "--to", target).stdout


BUSY = Scene("serve", serve, declared)
CHILD = Scene("child", serve, declared)
ORPHAN = Scene("child", serve_and_leave, running)
RECOVERY = Scene("serve", serve, crashed)
FIRST_START = Scene("serve", serve, nothing)
WORKSPACE = Scene("serve", serve, asked_for_a_fix)
ITEMS = Scene("serve", serve, asked_for_an_item)
MOVE = Scene("command", move, declared)

SCENES: dict[str, Scene] = {
    "apply.changed": FIRST_START,
    "apply.committed": FIRST_START,
    "apply.written": FIRST_START,
    "backfill.committed": Scene("command", backfill, declared),
    "budget.reserved": BUSY,
    "bulk.cancelled": Scene("command", cancel_many, declared),
    "bulk.committed": Scene("command", trigger_many, declared),
    "cadence.replanned": Scene("serve", serve, asleep),
    "cancel.asked": Scene("command", cancel_queued, declared),
    "claim.committed": BUSY,
    "claim.launched": BUSY,
    "claim.updated": BUSY,
    "enqueue.inserted": BUSY,
    "enqueue.many_inserted": Scene("command", trigger_many, declared),
    "execute.function_succeeded": BUSY,
    "execute.gate_opened": BUSY,
    "execute.launched": BUSY,
    "execute.outcome_read": BUSY,
    "execute.start_committed": BUSY,
    "execute.start_written": BUSY,
    "fire.begun": BUSY,
    "fire.committed": BUSY,
    "fire.cursor_moved": BUSY,
    "fire.rows_written": BUSY,
    "function.timed_out": BUSY,
    "group.finished": BUSY,
    "group.members_born": BUSY,
    "group.members_let_go": BUSY,
    "items.asked": ITEMS,
    "items.given": ITEMS,
    "items.held": ITEMS,
    "items.told": ITEMS,
    "keeper.after_rename": ORPHAN,
    "keeper.at_gate": CHILD,
    "keeper.before_rename": ORPHAN,
    "keeper.command_ended": CHILD,
    "keeper.forked": CHILD,
    "keeper.gate_passed": CHILD,
    "keeper.postcondition": CHILD,
    "keeper.term_sent": CHILD,
    "keeper.told": CHILD,
    "migrate.committed": FIRST_START,
    "migrate.made": FIRST_START,
    "migrate.named": FIRST_START,
    "migrate.statement": FIRST_START,
    "migrate.written": FIRST_START,
    "move.begun": MOVE,
    "move.committed": MOVE,
    "move.finished": MOVE,
    "move.written": MOVE,
    "notify.sent": BUSY,
    "notify.written": BUSY,
    "pause.committed": Scene("command", pause_and_resume, declared),
    "poll.stored": BUSY,
    "prune.committed": Scene("serve", serve, grown_old),
    "prune.folders_removed": Scene("serve", serve, grown_old),
    "prune.rows_deleted": Scene("serve", serve, grown_old),
    "record.committed": BUSY,
    "record.followed_up": BUSY,
    "record.run_updated": BUSY,
    "recover.adopted": RECOVERY,
    "recover.epochs_ended": RECOVERY,
    "recover.found": RECOVERY,
    "recover.resolved": RECOVERY,
    "recover.swept": RECOVERY,
    "resume.committed": Scene("command", pause_and_resume, declared),
    "resume.skip_written": Scene("command", pause_and_resume, declared),
    "retry.born": BUSY,
    "session.closed": Scene("serve", serve_and_stop, declared),
    "session.entered": BUSY,
    "session.locked": BUSY,
    "shutdown.quiesced": Scene("serve", serve_and_stop, declared),
    "shutdown.run_left": Scene("serve", serve_and_detach, running),
    "shutdown.runs_ended": Scene("serve", serve_and_stop, declared),
    "spawn.asked": BUSY,
    "spawner.forked": CHILD,
    "stop.sent": Scene("serve", serve_and_cancel, running),
    "tick.looked": Scene("command", command("tick"), declared),
    "trigger.committed": Scene("command", command("trigger", "hand"), declared),
    "trigger.woken": Scene("command", command("trigger", "hand"), declared),
    "upgrade.committed": FIRST_START,
    "upgrade.scripted": FIRST_START,
    "upgrade.written": FIRST_START,
    "workspace.cleared": WORKSPACE,
    "workspace.found": WORKSPACE,
    "workspace.made": WORKSPACE,
    "workspace.noted": WORKSPACE,
}


OF_SQLITE = ("migrate.made", "migrate.named", "migrate.statement", "migrate.written", "migrate.committed")
OF_POSTGRES = ("upgrade.scripted", "upgrade.written", "upgrade.committed")
"""What only one of the databases passes: how its tables are made."""

CHAINS: dict[str, tuple[str, ...]] = {
    "first start": (
        *OF_SQLITE,
        *OF_POSTGRES,
        "apply.changed",
        "apply.written",
        "apply.committed",
    ),
    "fire": ("session.locked", "session.entered", "fire.begun", "fire.cursor_moved", "enqueue.inserted"),
    "claim": (
        "fire.rows_written",
        "fire.committed",
        "claim.updated",
        "claim.launched",
        "claim.committed",
        "spawn.asked",
    ),
    "start": ("execute.launched", "execute.start_written", "execute.start_committed", "execute.gate_opened"),
    "cadence": ("cadence.replanned", "poll.stored", "budget.reserved"),
    "group": ("group.members_born", "group.members_let_go", "group.finished"),
    "record": ("execute.outcome_read", "record.run_updated", "retry.born", "record.followed_up", "record.committed"),
    "notify": ("notify.written", "notify.sent"),
    "end": ("function.timed_out", "execute.function_succeeded", "stop.sent", "shutdown.run_left"),
    "leave": ("keeper.before_rename", "keeper.after_rename"),
    "recover": ("recover.found", "recover.swept", "recover.adopted", "recover.resolved", "recover.epochs_ended"),
    "stop": ("shutdown.quiesced", "shutdown.runs_ended", "session.closed"),
    "many": ("enqueue.many_inserted", "bulk.committed", "bulk.cancelled", "backfill.committed"),
    "tick": ("tick.looked",),
    "move": ("move.begun", "move.written", "move.committed", "move.finished"),
    "workspace": ("workspace.noted", "workspace.made", "workspace.found", "workspace.cleared"),
    "items": ("items.asked", "items.given", "items.held", "items.told"),
    "prune": ("prune.rows_deleted", "prune.committed", "prune.folders_removed"),
    "commands": (
        "trigger.committed",
        "trigger.woken",
        "cancel.asked",
        "pause.committed",
        "resume.skip_written",
        "resume.committed",
    ),
}
"""One project dies at each of these in turn: every scheduler recovers from the death before its own."""

ON_POSTGRES = ("first start", "start", "recover")
"""Chains that `make test` plays on PostgreSQL too: how it commits, and what a lease adds to recovery."""

BY_TICKS = ("session.entered", "fire.cursor_moved", "claim.committed", "execute.gate_opened", "record.followed_up")
"""Points at which ticks die too, one after another (R-24)."""

TOGETHER = tuple(name for name, scene in SCENES.items() if scene is CHILD)
"""These end children of a scheduler that lives: it sees them all."""


ELSEWHERE = {
    "chat": "tests/service/test_chats.py",
    "question": "tests/service/test_answering.py",
    "takeover": "tests/service/test_takeover.py",
}
"""Families of points with drills of their own, and the file that names each of their points."""


def passed_by(points: Iterable[str], store: str) -> list[str]:
    """Return those points that a scheduler on such a store comes by."""
    absent = OF_SQLITE if store != SQLITE else OF_POSTGRES
    return [point for point in points if point not in absent]


def crash(drill: Drill, point: str, *, nth: int = 1) -> None:
    """Bring a project to the n-th pass of a point and see that somebody died there."""
    scene = SCENES[point]
    if scene is not RECOVERY or not drill.servers:
        scene.before(drill)
    drill.arm({point: nth})
    scene.act(drill)
    if scene.victim == "serve":
        _until_dead(drill, point)
    else:
        until(lambda: drill.passed(point) >= nth, what=f"{point} to be passed {nth} times")
    if drill.servers and drill.servers[-1].poll() is None:
        kill(drill.servers[-1])


def _until_dead(drill: Drill, point: str) -> None:
    server = drill.servers[-1]
    try:
        ended = server.wait(LONGEST_WAIT)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"nobody died at {point}, passed {drill.passed(point)} times") from None
    assert ended == -signal.SIGKILL, f"serve ended {ended}: {drill.log()}"


def crash_ticks(drill: Drill) -> None:
    """Let a tick die at each of some points: every one recovers from the death before its own."""
    declared(drill)
    for point in BY_TICKS:
        drill.arm({point: 1})
        command("tick")(drill)


def crash_children(drill: Drill) -> None:
    """Let a keeper die at each of its points, and the spawner at its own, under one scheduler."""
    declared(drill)
    drill.arm(dict.fromkeys(TOGETHER, 1))
    drill.serve()
    until(lambda: _passed_all(drill), what="every point of keepers and spawner to be passed")


def _passed_all(drill: Drill) -> bool:
    left = [point for point in TOGETHER if not drill.passed(point)]
    waiting = drill.rows("SELECT count(*) FROM live WHERE state < 2")[0][0]
    if left and waiting < FEW:  # a slow scheduler must not drown in what it is asked
        drill.trigger("late" if left == ["keeper.term_sent"] else "hand")
    return not left
