"""Pools, lanes and order, counted anew: what is drawn, who draws it, and where queued runs stand."""

from rota.operations.auditing.report import Check, Findings
from rota.store.driver import Database

MOST = 1_000
AGING_KEY = "aging"


def check_pools(db: Database, findings: Findings, *, jobs: str | None) -> None:
    """R-03: used is what is drawn, a run stands in the lane of its definition; INV-004: its rank is its priority."""
    for name, used, counted in db.rows("audit_pools"):
        findings.violation(Check.POOL, f"the pool {name} counts {used} as used, but {counted} is drawn (R-03)")
    for lane, key, drawn in db.rows("audit_lanes"):
        findings.violation(Check.POOL, f"lane {lane} is {key!r}, but draws {drawn!r} (R-03)")
    for job, number, found, wanted in db.rows("audit_lanes_used", jobs=jobs, limit=MOST):
        text = f"stands in the lane {found!r}, but its definition draws {wanted!r} (R-03)"
        findings.violation(Check.POOL, text, job=job, run=f"{job}:{number}")
    aging = db.row("meta_get", key=AGING_KEY) is not None
    for job, number, rank, priority in db.rows("audit_order", aging=int(aging), jobs=jobs, limit=MOST):
        text = f"has rank {rank} in the queue, but priority {priority}{' under aging' if aging else ''} (INV-004)"
        findings.violation(Check.ORDER, text, job=job, run=f"{job}:{number}")
