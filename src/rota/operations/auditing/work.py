"""Work items: each that is held belongs to something under way, and to nothing else."""

from rota.operations.auditing.report import Check, Findings
from rota.store.driver import Database

MOST = 1_000


def check_work(db: Database, findings: Findings) -> None:
    """A run that ended or waits holds no item (003); an item is held by one run."""
    for handle, source, item in db.rows("audit_work", limit=MOST):
        what = "asks for an item" if item is None else f"holds the item {item!r}"
        findings.violation(Check.WORK, f"{handle} {what} of {_named(source)}, but is not under way")
    for source, item, handles in db.rows("audit_work_doubled", limit=MOST):
        findings.violation(Check.WORK, f"the item {item!r} of {_named(source)} is held more than once: {handles}")


def _named(key: str) -> str:
    return key.partition(" {")[0]
