"""All that needs somebody, and what somebody has acknowledged: that stays quiet until something new happens to it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING

from rota.model.errors import InvalidValue, NothingNeeds
from rota.model.records import Job, Run
from rota.operations.attention import Attention, Need, attention, denied, held, with_seen
from rota.operations.budgets import AccountView
from rota.operations.holds import hold_views
from rota.operations.jobs import LAST_OUTCOMES, JobView, job_view
from rota.operations.left_behind import left_behind
from rota.operations.workers import machines_needing
from rota.rules.budget_words import say_used
from rota.store import acknowledging, timeline
from rota.store.acknowledging import Acknowledgement
from rota.store.driver import Database, Store
from rota.store.polls import POLL

if TYPE_CHECKING:
    from rota.operations.system import Heartbeat

FIRST = ("damage", "storage", "file", "workers", "loop", "failing", "stuck", "abandoned")
"""What comes before everything else that needs somebody."""


def needs_in(
    db: Database,
    beat: "Heartbeat",
    *,
    living: Sequence[Job],
    running: Sequence[Run],
    budgets: Sequence[AccountView],
    zone: str,
    now: datetime,
    scope: str = "",
) -> tuple[Need, ...]:
    """Return what needs somebody among these jobs and runs, the worst first."""
    views = _striking(db, living)
    holds = hold_views(db)
    found = [
        *machines_needing(beat.workers),
        *left_behind(db, beat.state),
        *attention(db, beat.answer, views=views, running=running, holds=holds, now=now, scope=scope),
        *(note for view in views if (note := denied(view))),
        *(held(one, zone=zone, now=now) for one in holds),
        *(_waiting(one) for one in budgets if one.waiting),
    ]
    return tuple(with_seen(db, sorted(found, key=_urgency)))


def _urgency(one: Attention) -> int:
    return FIRST.index(one.kind) if one.kind in FIRST else len(FIRST)


def _striking(db: Database, living: Sequence[Job]) -> list[JobView]:
    """Return the jobs that may need somebody, with their runs: most jobs are fine, and reading their runs costs."""
    striking = timeline.striking_jobs(db, newest=LAST_OUTCOMES)
    return [
        job_view(db, job)
        for job in living
        if job.id in striking or job.provisional_at or job.spec.work.agent or job.name == POLL
    ]


def _waiting(view: AccountView) -> Attention:
    account, polls = view.account, any(run.rpartition(":")[0] == POLL for run in view.waiting)
    wait = "1 run waits" if len(view.waiting) == 1 else f"{len(view.waiting)} runs wait"
    held = "; the jobs that need the poll wait, too" if polls else ""
    what = f"{wait} for room: {say_used(view.used, account.limit, account.unit)}{held}"
    return Attention(
        account.name, what, f"rota budgets {account.name}", kind="budget", sign=view.window.since.isoformat()
    )


def chosen_among(needs: Sequence[Need], names: Sequence[str], *, everything: bool = False) -> tuple[Need, ...]:
    """Return what is meant: everything, or names as `rota status` shows them, or runs; else NothingNeeds."""
    if everything == bool(names):
        raise InvalidValue("either names or everything must be meant", hint="name what `rota ack` lists, or all of it")
    if everything:
        return tuple(needs)
    for name in names:
        if not any(_is(need, name) for need in needs):
            near = get_close_matches(name, [need.attention.name for need in needs], n=1)
            raise NothingNeeds(name, near)
    return tuple(need for need in needs if any(_is(need, name) for name in names))


def _is(need: Need, name: str) -> bool:
    return name in (need.attention.name, need.attention.subject, need.attention.topic)


def acknowledge(
    store: Store, chosen: Sequence[Need], *, needs: Sequence[Need], actor: str, now: datetime
) -> tuple[Need, ...]:
    """Keep things quiet until something new happens to them; `needs` is all that needs somebody."""
    store.write(partial(_acknowledge, chosen=chosen, needs=needs, actor=actor, now=now))
    return tuple(replace(need, seen=Acknowledgement(need.attention.topic, need.mark, actor, now)) for need in chosen)


def _acknowledge(db: Database, *, chosen: Sequence[Need], needs: Sequence[Need], actor: str, now: datetime) -> None:
    """Store it, and forget what needs nobody any more, so that nothing piles up."""
    current = {need.attention.topic for need in needs}
    for known in acknowledging.acknowledgements(db):
        if known not in current:
            acknowledging.forget(db, known)
    for need in chosen:
        acknowledging.acknowledge(db, need.attention.topic, sign=need.mark, actor=actor, now=now)


def point_out(store: Store, topics: Sequence[str]) -> None:
    """Show things again that were acknowledged."""
    store.write(lambda db: [acknowledging.forget(db, topic) for topic in topics])
