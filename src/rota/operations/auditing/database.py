"""The database itself: pages, references, and that every table, index and trigger is there as it was made."""

from rota.operations.auditing.report import Check, Findings
from rota.store.driver import Database
from rota.store.schema import SERVER, Schema, expected_schema, present_schema

MOST_PROBLEMS = 20


def check_schema(db: Database, findings: Findings) -> None:
    """Compare the schema with that of a fresh database: a lost trigger or index takes a promise with it."""
    wanted, found = expected_schema(db), present_schema(db)
    made_by, kept_by = _take_server(wanted), _take_server(found)
    for kind, name in sorted(wanted.keys() - found.keys()):
        findings.violation(Check.SCHEMA, f"the {_shown(kind, name)} is missing")
    for kind, name in sorted(found.keys() - wanted.keys()):
        findings.violation(Check.SCHEMA, f"the {_shown(kind, name)} is not rota's")
    if made_by != kept_by:
        findings.notes.append(
            f"the schema was made on PostgreSQL {made_by} and is kept by {kept_by}, which words it in its own way: "
            "only names are compared"
        )
        return
    for kind, name in sorted(key for key in wanted.keys() & found.keys() if wanted[key] != found[key]):
        if wanted[kind, name].split() != found[kind, name].split():
            findings.violation(Check.SCHEMA, f"the {_shown(kind, name)} is not as rota makes it")


def _shown(kind: str, name: str) -> str:
    """Return what people call it; only constraints have no name of their own without that of their table."""
    return f"{kind} {name if kind == 'constraint' else name.rpartition('.')[2]}"


def _take_server(schema: Schema) -> str | None:
    """Take the line about the server out, and return its version; SQLite has none."""
    line = next((key for key in schema if key[0] == SERVER), None)
    if line is None:
        return None
    del schema[line]
    return line[1]


def check_integrity(db: Database, findings: Findings) -> None:
    """Let the database say what it knows of its pages and indexes, and ask for every reference from row to row."""
    for kind, text in db.rows("audit_integrity", limit=MOST_PROBLEMS):
        if kind == "violation":
            findings.violation(Check.INTEGRITY, text)
        elif kind == "note":
            findings.notes.append(text)
    for table, parent, count in db.rows("audit_foreign_keys"):
        findings.violation(Check.INTEGRITY, f"{count} rows of {table} point at a {parent} that is not there")
