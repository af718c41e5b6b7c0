"""Deliveries: each end that somebody is to be told of has its row, and none is forgotten on the way (DEC-009)."""

from rota.operations.auditing.report import Check, Findings
from rota.store.deliveries import TARGETS_AT_KEY, TARGETS_KEY
from rota.store.driver import Database

MOST = 1_000
SLACK = 60_000


def check_deliveries(db: Database, findings: Findings, *, jobs: str | None, since: int) -> None:
    """Each final event of a job with `notify` has its delivery; each that waits has a next attempt.

    Looked at is what ended after `since` and after the job and the targets last changed: what was told before that
    followed from definitions that are gone.
    """
    for handle, target, event in db.rows("audit_pending", limit=MOST):
        text = f"the delivery of {event} to {target} waits without a next attempt, or is over and has one"
        findings.violation(Check.DELIVERY, text, run=handle)
    targets, targets_at = db.row("meta_get", key=TARGETS_KEY), db.row("meta_get", key=TARGETS_AT_KEY)
    untold = db.rows(
        "audit_untold",
        targets=targets[0] if targets and targets_at else "{}",
        targets_at=int(targets_at[0]) if targets_at else 0,
        jobs=jobs,
        since=since,
        slack=SLACK,
        limit=MOST,
    )
    for job, number, target, event in untold:
        findings.violation(
            Check.DELIVERY, f"{target} was not told of {event} (DEC-009)", job=job, run=f"{job}:{number}"
        )
