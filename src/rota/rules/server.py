"""What about a PostgreSQL server is fit for rota and what is not. Pure: measured values in, findings out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from rota.rules.machine import Finding, Level

FAR = timedelta(milliseconds=20)
"""A round trip that takes longer makes every start late: some are needed for each."""
APART = timedelta(seconds=2)
"""Clocks that differ by more let a machine fire visibly early or late."""
FLUSHES = ("fsync", "full_page_writes")
SPARE = 10
NAMED = 3
NONE_RUNNING = Finding("scheduler", Level.NOTE, "none is running", "start one with `rota serve`")
NONE_HERE = Finding("scheduler", Level.NOTE, "none runs in this folder; whether other machines serve cannot be told")


@dataclass(frozen=True, slots=True)
class Server:
    """What was found at a server: `apart` is how far our clock is ahead of its own."""

    place: str
    version: str
    round_trip: timedelta
    apart: timedelta
    settings: dict[str, str]
    connections: int
    most_connections: int
    may_write: bool
    owns: bool


def judge_server(server: Server) -> Iterator[Finding]:
    """Judge a server and what its role may do there."""
    yield Finding("database", Level.OK, f"{server.place} is PostgreSQL {server.version}")
    yield _judge_rights(server)
    yield from _judge_flushing(server)
    yield _judge_distance(server)
    yield _judge_clock(server)
    yield _judge_connections(server)


def _judge_rights(server: Server) -> Finding:
    if not server.may_write:
        text = "the server takes no writes: it is a standby, or its role may not write"
        return Finding("rights", Level.PROBLEM, text, "name the server that is written to")
    if not server.owns:
        text = "another role owns rota's tables, so that an upgrade of rota cannot change them"
        return Finding("rights", Level.WARNING, text, "use one role for all, or make its owner a member of this one")
    return Finding("rights", Level.OK, "the role owns rota's tables and may write them")


def _judge_flushing(server: Server) -> Iterator[Finding]:
    off = [name for name in FLUSHES if server.settings.get(name) == "off"]
    if off:
        text = f"off: {', '.join(off)}; a power cut there may lose what was acknowledged, or damage it"
        yield Finding("durability", Level.PROBLEM, text, "turn it on in postgresql.conf")
        return
    told = server.settings.get("synchronous_commit", "on")
    own = "" if told in ("on", "remote_apply") else f", which is {told} there, on for itself"
    yield Finding("durability", Level.OK, f"commits are flushed; rota keeps synchronous_commit{own or f' = {told}'}")


def _judge_distance(server: Server) -> Finding:
    milliseconds = server.round_trip / timedelta(milliseconds=1)
    text = f"a round trip takes {milliseconds:.1f} ms"
    if server.round_trip > FAR:
        return Finding("distance", Level.WARNING, text, "runs start some of them late: move the database nearer")
    return Finding("distance", Level.OK, text)


def _judge_clock(server: Server) -> Finding:
    way = "ahead of" if server.apart > timedelta() else "behind"
    text = f"this machine's clock is {abs(server.apart).total_seconds():.1f} s {way} the database's"
    if abs(server.apart) > APART:
        return Finding("clocks", Level.WARNING, text, "let NTP keep both: each machine fires by its own clock")
    return Finding("clocks", Level.OK, text)


def _judge_connections(server: Server) -> Finding:
    text = f"{server.connections} of {server.most_connections} connections are in use"
    if server.most_connections - server.connections < SPARE:
        remedy = "raise max_connections, or close others: a machine of rota uses up to a dozen"
        return Finding("connections", Level.WARNING, text, remedy)
    return Finding("connections", Level.OK, text)


def judge_machines(serving: Sequence[str], claiming: Sequence[str], *, here: bool) -> list[Finding]:
    """Judge who is at work on a shared database beside this folder, where a scheduler runs or not (`here`).

    >>> [one.text for one in judge_machines(["b", "c on host"], ["d"], here=False)]
    ['none runs in this folder; b, c on host serve, d claims']
    """
    claims = _verb(claiming, "claims", "claim")
    if serving:
        also = "beside it " if here else "none runs in this folder; "
        text = also + ", ".join(filter(None, (_verb(serving, "serves", "serve"), claims)))
        return [Finding("scheduler", Level.OK, text)]
    if here:
        return [Finding("scheduler", Level.OK, f"beside it {claims}")] if claiming else []
    if claiming:
        text = f"no machine serves, so nothing that is due fires; {claims}"
        return [Finding("scheduler", Level.WARNING, text, "start `rota serve` on one of them, or here")]
    return [NONE_RUNNING]


def _verb(names: Sequence[str], one: str, many: str) -> str:
    more = len(names) - NAMED
    shown = ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{shown} {one if len(names) == 1 else many}" if names else ""
