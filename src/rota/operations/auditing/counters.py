"""The counters of runs, counted anew."""

from rota.operations.auditing.report import Check, Findings
from rota.store.driver import Database


def check_counters(db: Database, findings: Findings) -> None:
    """Each counter is the number of rows of its status and worker."""
    for status, worker_id, kept, counted in db.rows("audit_counters"):
        whose = f" of the worker {worker_id}" if worker_id else ""
        findings.violation(Check.COUNTER, f"{kept} runs{whose} are counted as {status}, but {counted} are")
