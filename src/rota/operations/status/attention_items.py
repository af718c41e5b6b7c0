"""All attention items, and their acknowledgement, which lasts until something new happens."""

from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.model.amounts import counted
from rota.model.errors import InvalidValue, NothingNeeds
from rota.model.records import Job, Run
from rota.operations.budgets import AccountView
from rota.operations.capacity import hold_views
from rota.operations.jobs import LAST_OUTCOMES, job_view
from rota.operations.status.attention import Attention, AttentionItem, attention, denied, held, left_behind, with_seen
from rota.operations.workers import machines_needing
from rota.rules.budgets import say_used
from rota.store.driver import Database, Store
from rota.store.tables import audit, run_queries
from rota.store.tables.activity import POLL
from rota.store.tables.audit import Acknowledgement

if TYPE_CHECKING:
    from rota.operations.status.status import Heartbeat

FIRST = ("damage", "storage", "file", "workers", "loop", "failing", "stuck", "abandoned")
"""The kinds that come first, in order."""


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
) -> tuple[AttentionItem, ...]:
    """Return the attention items of these jobs and runs, the worst first."""
    striking = run_queries.striking_jobs(db, newest=LAST_OUTCOMES)
    views = [  # most jobs are fine, and reading their runs is expensive
        job_view(db, job)
        for job in living
        if job.id in striking or job.provisional_at or job.spec.work.agent or job.name == POLL
    ]
    holds = hold_views(db)
    items = [
        *machines_needing(beat.workers),
        *left_behind(db, beat.state),
        *attention(db, beat.answer, views=views, running=running, holds=holds, now=now, scope=scope),
        *(note for view in views if (note := denied(view))),
        *(held(hold, zone=zone, now=now) for hold in holds),
        *(_waiting(account) for account in budgets if account.waiting),
    ]
    items.sort(key=lambda item: FIRST.index(item.kind) if item.kind in FIRST else len(FIRST))
    return tuple(with_seen(db, items))


def _waiting(view: AccountView) -> Attention:
    account, polls = view.account, any(run.rpartition(":")[0] == POLL for run in view.waiting)
    wait = counted(len(view.waiting), "run waits", "runs wait")
    held = "; jobs that need the poll also wait" if polls else ""
    what = f"{wait} for room: {say_used(view.used, account.limit, account.unit)}{held}"
    return Attention(
        account.name, what, f"rota budgets {account.name}", kind="budget", sign=view.window.since.isoformat()
    )


def chosen_among(
    needs: Sequence[AttentionItem], names: Sequence[str], *, everything: bool = False
) -> tuple[AttentionItem, ...]:
    """Return the chosen items: all, or those of names as `rota status` shows them, or of runs; else NothingNeeds."""
    if everything == bool(names):
        raise InvalidValue("name items, or pass `all`", hint="`rota ack` lists the items")
    if everything:
        return tuple(needs)
    for name in names:
        if not any(_is(need, name) for need in needs):
            near = get_close_matches(name, [need.attention.name for need in needs], n=1)
            raise NothingNeeds(name, near)
    return tuple(need for need in needs if any(_is(need, name) for name in names))


def _is(need: AttentionItem, name: str) -> bool:
    return name in (need.attention.name, need.attention.subject, need.attention.topic)


def acknowledge(
    store: Store, chosen: Sequence[AttentionItem], *, needs: Sequence[AttentionItem], actor: str, now: datetime
) -> tuple[AttentionItem, ...]:
    """Acknowledge items until something new happens; delete acknowledgements of topics that are not in `needs`."""
    current = {need.attention.topic for need in needs}

    def change(db: Database) -> None:
        for topic in audit.acknowledgements(db):
            if topic not in current:
                audit.forget(db, topic)
        for need in chosen:
            audit.acknowledge(db, need.attention.topic, sign=need.mark, actor=actor, now=now)

    store.write(change)
    return tuple(replace(need, seen=Acknowledgement(need.attention.topic, need.mark, actor, now)) for need in chosen)


def point_out(store: Store, topics: Sequence[str]) -> None:
    """Show acknowledged items again."""
    store.write(lambda db: [audit.forget(db, topic) for topic in topics])
