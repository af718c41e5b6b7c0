"""The database file itself: pages, references, and that every table, index and trigger is there as it was made."""

from rota.operations.auditing.report import Check, Findings
from rota.store.driver import Database
from rota.store.schema import expected_schema

MOST_PROBLEMS = 20


def check_schema(db: Database, findings: Findings) -> None:
    """Compare the schema with that of a fresh database: a lost trigger or index takes a promise with it."""
    wanted = expected_schema()
    found = {(kind, name): text for kind, name, text in db.rows("audit_schema")}
    for kind, name in sorted(wanted.keys() - found.keys()):
        findings.violation(Check.SCHEMA, f"the {kind} {name} is missing")
    for kind, name in sorted(found.keys() - wanted.keys()):
        findings.violation(Check.SCHEMA, f"the {kind} {name} is not rota's")
    for kind, name in sorted(wanted.keys() & found.keys()):
        if wanted[kind, name].split() != found[kind, name].split():
            findings.violation(Check.SCHEMA, f"the {kind} {name} is not as rota makes it")


def check_integrity(db: Database, findings: Findings) -> None:
    """Let SQLite check its pages and indexes, and every reference from row to row."""
    for (text,) in db.rows("audit_integrity", limit=MOST_PROBLEMS):
        if text != "ok":
            findings.violation(Check.INTEGRITY, text)
    for table, parent, count in db.rows("audit_foreign_keys"):
        findings.violation(Check.INTEGRITY, f"{count} rows of {table} point at a {parent} that is not there")
