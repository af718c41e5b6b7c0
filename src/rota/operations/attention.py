"""What needs somebody: jobs that fail, are stuck, were missed, wait for approval or are held; and what is broken."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from rota.model.clock import iso
from rota.model.durations import say_duration
from rota.model.holds import provider_pool
from rota.model.records import Abandoned, Run
from rota.model.spec import JobSpec
from rota.model.states import Reason, Status
from rota.operations.holds import HoldView
from rota.operations.jobs import HELD, JobView
from rota.operations.project import in_scope
from rota.operations.untold import given_up
from rota.operations.views import is_failing
from rota.rules.hold_words import say_hold
from rota.rules.pool_words import say_abandoned
from rota.rules.retry_words import say_attempt, say_retrying
from rota.rules.times import day_time
from rota.store import acknowledging, deliveries, jobs, queue
from rota.store.acknowledging import Acknowledgement
from rota.store.driver import Database
from rota.store.making import digest_of
from rota.store.polls import POLL

STUCK_AFTER = timedelta(minutes=1)
UNHEARD = timedelta(days=1)
"""How long notifications that failed are pointed out."""
TOOLS_NAMED = 3


@dataclass(frozen=True, slots=True)
class Attention:
    """One thing that needs somebody: the job or file, what is wrong, and the command that tells more.

    `sign` changes when something new happens to it, and only then; `subject` is the run or job that it is about.
    """

    name: str
    what: str
    command: str
    kind: str = field(default="", compare=False)
    sign: str = field(default="", compare=False)
    subject: str = field(default="", compare=False)

    @property
    def topic(self) -> str:
        """What it is about, however often it happens."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Need:
    """Something that needs somebody; `seen` when somebody has acknowledged just this."""

    attention: Attention
    mark: str
    seen: Acknowledgement | None = None


def with_seen(db: Database, found: Iterable[Attention]) -> list[Need]:
    """Return what needs somebody, each with who has seen it, unless something new happened since."""
    known = acknowledging.acknowledgements(db)
    needs = []
    for one in found:
        mark, seen = mark_of(one), known.get(one.topic)
        needs.append(Need(one, mark, seen if seen is not None and seen.sign == mark else None))
    return needs


def mark_of(one: Attention) -> str:
    """Return the sign of something that needs somebody, short however long it is."""
    return hashlib.sha256(one.sign.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def need_json(need: Need) -> dict[str, Any]:
    """Return something that needs somebody as JSON."""
    one, seen = need.attention, need.seen
    return {
        "name": one.name,
        "kind": one.kind,
        "what": one.what,
        "command": one.command,
        "about": one.subject or None,
        "acknowledged": None if seen is None else {"by": seen.actor, "at": iso(seen.at)},
    }


def attention(
    db: Database,
    answer: Mapping[str, Any],
    *,
    views: Sequence[JobView],
    running: Sequence[Run],
    holds: Sequence[HoldView],
    now: datetime,
    scope: str = "",
) -> tuple[Attention, ...]:
    """Return what needs somebody; `answer` is what the scheduler's loop said of itself."""
    return (
        *_broken_file(answer),
        *_failing_parts(answer),
        *_stuck(running, partial(_spec_of, db), now),
        *_abandoned(queue.abandoned(db), now=now, scope=scope),
        *(note for view in views if (note := _needs(view, now, holds))),
        *_unheard(db, now=now, scope=scope),
        *_untold(db, now=now, scope=scope),
    )


def _spec_of(db: Database, run: Run) -> JobSpec:
    return jobs.version_spec(db, run.job_id, run.version)


def _broken_file(answer: Mapping[str, Any]) -> tuple[Attention, ...]:
    problem = answer.get("file_problem")
    if not problem:
        return ()
    if str(problem).startswith(HELD):
        return (Attention("rota.yaml", str(problem), "rota apply --dry-run", kind="file", sign=str(problem)),)
    first, *more = str(problem).splitlines()
    rest = f" (and {len(more)} more)" if more else ""
    what = f"{first}{rest}; the last good set goes on"
    return (Attention("rota.yaml", what, "rota check", kind="file", sign=str(problem)),)


def _failing_parts(answer: Mapping[str, Any]) -> tuple[Attention, ...]:
    """Return what the scheduler says goes wrong inside it: its storage, or a loop."""
    storage, damage = answer.get("storage_problem"), answer.get("damage")
    if damage:
        return (Attention("database", str(damage), "rota doctor", kind="damage", sign=str(damage)),)
    if storage:
        return (Attention("storage", str(storage), "rota doctor", kind="storage", sign=str(storage)),)
    failing = [(loop["name"], str(loop["error"])) for loop in answer.get("loops", ()) if loop["error"]]
    return tuple(
        Attention(f"{name} loop", error, "rota status --loops", kind="loop", sign=error) for name, error in failing
    )


def _unheard(db: Database, *, now: datetime, scope: str) -> Iterator[Attention]:
    """Yield the targets that were not told of something since yesterday."""
    prefix = f"{scope}/" if scope else ""
    for one in deliveries.failed_since(db, now - UNHEARD, prefix=prefix):
        what = f"{one.count} notification{'s' if one.count > 1 else ''} failed: {one.error}"
        sign = iso(one.newest)
        yield Attention(one.target, what, "rota deliveries --failed", kind="deliveries", sign=sign)


def _untold(db: Database, *, now: datetime, scope: str) -> Iterator[Attention]:
    """Yield the work sources that were not told since yesterday how runs ended."""
    for one in given_up(db, now - UNHEARD, prefix=f"{scope}/" if scope else ""):
        handle = one.newest.handle
        yield Attention(one.source, one.text, f"rota show {handle}", kind="source", sign=handle, subject=handle)


def _stuck(running: Sequence[Run], spec_of: Callable[[Run], JobSpec], now: datetime) -> list[Attention]:
    return [note for run in running if (note := _late_end(run, spec_of(run), now))]


def _late_end(run: Run, spec: JobSpec, now: datetime) -> Attention | None:
    timeout, started = spec.work.timeout, run.started_at
    if timeout is None or started is None or now - started <= timeout + spec.work.term_grace + STUCK_AFTER:
        return None
    what = f"stuck: runs for {say_duration(now - started)}, its timeout is {say_duration(timeout)}"
    return Attention(run.job, what, f"rota explain {run.handle}", kind="stuck", sign=run.id, subject=run.handle)


def _abandoned(found: Sequence[Abandoned], *, now: datetime, scope: str) -> Iterator[Attention]:
    """Yield the functions that still run after the end of their runs."""
    for one in found:
        if one.job is None or in_scope(one.job, scope):
            what = f"abandoned: {say_abandoned(one, now=now)}"
            known = one.job is not None
            command = f"rota explain {one.handle}" if known else "rota status"
            subject = one.handle if known else ""
            yield Attention(one.job or one.handle, what, command, kind="abandoned", sign=one.run_id, subject=subject)


def _needs(view: JobView, now: datetime, holds: Sequence[HoldView] = ()) -> Attention | None:
    newest, name = next((run for run in view.last if run.status.final), None), view.job.name
    if view.state == "provisional":
        whose = f", made by {view.job.made.by}" if view.job.made else ""
        sign = digest_of(view.job.spec)
        return Attention(
            name, f"waits for approval{whose}", f"rota approve {name}", kind="approval", sign=sign, subject=name
        )
    if newest is None:
        return None
    if is_failing(view):
        return _failing(view, now, holds)
    if newest.reason is Reason.MISSED:
        count = f"{newest.count} instants" if (newest.count or 0) > 1 else "an instant"
        what = f"missed {count}, {say_duration(now - newest.created_at)} ago"
        return _about(newest, what, kind="missed")
    if newest.reason is Reason.BUDGET and name == POLL:
        why = f": {newest.error}" if newest.error else ""
        return _about(newest, f"SKIPPED {newest.reason}, and with it the jobs that need the poll{why}", kind="skipped")
    if newest.reason in (Reason.CONDITION_ERROR, Reason.EXPIRED):
        why = f": {newest.error}" if newest.error else ""
        return _about(newest, f"SKIPPED {newest.reason}{why}", kind="skipped")
    return None


def _about(run: Run, what: str, *, kind: str) -> Attention:
    return Attention(run.job, what, f"rota explain {run.job}", kind=kind, sign=run.id, subject=run.handle)


def _failing(view: JobView, now: datetime, holds: Sequence[HoldView]) -> Attention:
    failed = next(run for run in view.last if run.status is Status.FAILED)
    why = f": {failed.error}" if failed.error else ""
    parts = (f"FAILED {failed.reason}", *_tried(view, failed, now), _refused(view, holds, now))
    told = ", ".join(part for part in parts if part)
    command = f"rota explain {failed.handle}"
    return Attention(view.job.name, f"{told}{why}", command, kind="failing", sign=failed.id, subject=failed.handle)


def _refused(view: JobView, holds: Sequence[HoldView], now: datetime) -> str:
    """Return how the provider of a job is held, nothing where it is not."""
    agent, zone = view.job.spec.work.agent, view.job.spec.schedule.timezone
    held = next((one.hold for one in holds if agent is not None and one.hold.provider == agent.provider), None)
    return "" if held is None else say_hold(provider_pool(held.provider), held.until, zone=zone, now=now)


def _tried(view: JobView, failed: Run, now: datetime) -> tuple[str, str]:
    """Return whether a failure is the last word: its retry or attempt, and whether the job is held back."""
    job = view.job
    retry = next((run for run in view.unfinished if run.retry_of == failed.id), None)
    tried = say_retrying(retry, job.spec) if retry else say_attempt(failed, job.spec)
    until = job.backing_off_until if job.spec.on_repeated_failure else None
    held = until is not None and until > now
    zone = job.spec.schedule.timezone
    return tried, f"held back until {day_time(until, zone, now=now)}" if until is not None and held else ""


def denied(view: JobView) -> Attention | None:
    """Return that the newest run of a job was refused tools; a failing one is told of already."""
    newest = next((run for run in view.last if run.status.final), None)
    if newest is None or not newest.denied_tools or newest.status is not Status.COMPLETED:
        return None
    tools = list(dict.fromkeys(newest.denied_tools))
    more = ", …" if len(tools) > TOOLS_NAMED else ""
    what = f"was refused {', '.join(tools[:TOOLS_NAMED])}{more} and completed without"
    command = f"rota show {newest.handle}"
    return Attention(view.job.name, what, command, kind="denied", sign=newest.id, subject=newest.handle)


def held(view: HoldView, *, zone: str, now: datetime) -> Attention:
    """Return that a provider takes no more work."""
    hold = view.hold
    until = say_hold(provider_pool(hold.provider), hold.until, zone=zone, now=now)
    what = f"{until}, {view.waiting} waiting: {hold.why}"
    command, sign = f"rota agents release {hold.provider}", iso(hold.set_at)
    return Attention(hold.provider, what, command, kind="held", sign=sign, subject=view.run or "")
