"""The schema and the statements on PostgreSQL are those on SQLite, by what both say of themselves."""

import contextlib
import re

import apsw
import psycopg
import pytest

from rota.store.migrate import HISTORY
from rota.store.postgres.pipeline import statement
from rota.store.queries import load_migrations, load_queries
from tests.postgres import lay_postgres

TEXT, INTEGER = "TEXT", "INTEGER"
ALONE = {"committed"}
"""What only a server needs: it may crash under those who go on."""
NUMBERED = {("job", "seq"), ("worker", "seq")}
"""Columns that PostgreSQL numbers by itself; SQLite cannot add a column that is NOT NULL."""
LOOKED_AT = {
    ("live", "run", "run", "seq"),
    ("live", "worker", "worker", "seq"),
    ("live", "epoch", "process", "epoch"),
    ("ended", "run", "run", "seq"),
}
"""Foreign keys of SQLite that PostgreSQL looks after by a statement, not by a row."""
OF_POSTGRES = {
    ("run_stays", "run"),
    ("job_stays", "job"),
    ("inv_005", "run"),
    ("live_identity", "live"),
    ("live_inv_001", "live"),
    ("live_inv_002", "live"),
    ("live_inv_003", "live"),
}
"""Triggers that keep what foreign keys keep on SQLite, or a part of one trigger there."""
OF_SQLITE = {
    ("run_edited", "run"),
    ("live_is_new", "live"),
    ("ended_was_live", "ended"),
    ("worker_keeps_its_key", "worker"),
    ("process_keeps_its_epoch", "process"),
}
"""Triggers that are a part of another one on PostgreSQL, such as live_made, ended_made and worker_stays."""
DROPPED = re.compile(r"^CREATE TABLE (?:run|execution) \(.*?^\);", re.M | re.S)
"""Tables of the first schema that were replaced."""
TYPES = {"text": TEXT, "bigint": INTEGER, "bytea": "BLOB"}


@pytest.fixture(scope="module")
def ours():
    connection = apsw.Connection(":memory:")
    connection.execute(HISTORY).fetchall()
    for _, _, script in load_migrations("sqlite"):
        connection.execute(script).fetchall()
    return connection


@pytest.fixture(scope="module")
def theirs():
    with psycopg.connect(lay_postgres(), autocommit=True) as connection:
        yield connection


def rows(connection, text):
    return connection.execute(text).fetchall()


def tables(ours):
    return [
        name
        for (name,) in rows(
            ours, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY 1"
        )
    ]


def test_postgresql_begins_at_the_schema_that_sqlite_has_reached():
    assert load_migrations("postgres")[0][0] == 7
    assert load_migrations("postgres")[-1][0] == load_migrations("sqlite")[-1][0]


def test_both_have_the_same_tables(ours, theirs):
    found = rows(theirs, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1")
    assert [name for (name,) in found if name not in ALONE] == tables(ours)


def test_every_table_has_the_same_columns_in_the_same_order(ours, theirs):
    for table in tables(ours):
        wanted = [
            (name, kind, bool(not_null or key))
            for _, name, kind, not_null, _, key in rows(ours, f"SELECT * FROM pragma_table_info('{table}')")
        ]
        found = rows(
            theirs,
            f"""SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute
            WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum""",
        )
        assert [
            (name, TYPES[kind], not_null and (table, name) not in NUMBERED) for name, kind, not_null in found
        ] == wanted, table


def test_texts_sort_by_their_bytes(theirs):
    found = rows(
        theirs,
        """SELECT attrelid::regclass::text, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND atttypid = 'text'::regtype
        AND attnum > 0 AND relname <> 'migration' AND attcollation <> '"C"'::regcollation""",
    )
    assert found == []


def keys_of(ours, table):
    """Return the columns of the primary key and of unique constraints, by SQLite."""
    columns = rows(ours, f"SELECT name, pk FROM pragma_table_info('{table}') WHERE pk > 0 ORDER BY pk")
    found = {("p", tuple(name for name, _ in columns))}
    for name, origin in rows(ours, f"SELECT name, origin FROM pragma_index_list('{table}')"):
        if origin == "u":
            named = rows(ours, f"SELECT name FROM pragma_index_info('{name}') ORDER BY seqno")
            found.add(("u", tuple(column for (column,) in named)))
    return found


def test_every_table_has_the_same_keys(ours, theirs):
    for table in tables(ours):
        found = rows(
            theirs,
            f"""SELECT contype::text, ARRAY(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS k (num, place)
                JOIN pg_attribute ON attrelid = conrelid AND attnum = num ORDER BY place)
            FROM pg_constraint WHERE conrelid = '{table}'::regclass AND contype IN ('p', 'u')""",
        )
        assert {(kind, tuple(columns)) for kind, columns in found} == keys_of(ours, table), table


def test_every_table_points_at_the_same_rows(ours, theirs):
    for table in tables(ours):
        wanted: dict[int, list[tuple[str, str, str, str]]] = {}
        for number, _, parent, column, to, _, deleting, _ in rows(
            ours, f"SELECT * FROM pragma_foreign_key_list('{table}') ORDER BY id, seq"
        ):
            if (table, column, parent, to) not in LOOKED_AT:
                wanted.setdefault(number, []).append((parent, column, to, deleting))
        found = rows(
            theirs,
            f"""SELECT confrelid::regclass::text,
                ARRAY(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS k (num, place)
                JOIN pg_attribute ON attrelid = conrelid AND attnum = num ORDER BY place),
                ARRAY(SELECT attname::text FROM unnest(confkey) WITH ORDINALITY AS k (num, place)
                JOIN pg_attribute ON attrelid = confrelid AND attnum = num ORDER BY place),
                CASE confdeltype WHEN 'c' THEN 'CASCADE' ELSE 'NO ACTION' END
            FROM pg_constraint WHERE conrelid = '{table}'::regclass AND contype = 'f' AND convalidated""",
        )
        as_found = sorted([(parent, a, b, how) for a, b in zip(own, to, strict=True)] for parent, own, to, how in found)
        assert as_found == sorted(wanted.values()), table


def test_the_same_indexes_are_made_in_the_same_words(ours, theirs):
    wanted = dict(rows(ours, "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"))
    script = "\n".join(text for _, _, text in load_migrations("postgres"))
    made = {
        found[2]: found[0].removesuffix(";")
        for found in re.finditer(r"^CREATE (UNIQUE )?INDEX (\w+)[^;]*;", script, re.M)
    }
    assert {name: " ".join(made[name].split()) for name in wanted} == {
        name: " ".join(text.split()).replace('"', "") for name, text in wanted.items()
    }
    found = rows(
        theirs,
        """SELECT relname::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE relnamespace = current_schema()::regnamespace AND indisvalid
        AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'))""",
    )
    assert {name for (name,) in found} == set(wanted)


def test_the_same_triggers_watch_the_same_tables(ours, theirs):
    wanted = rows(ours, "SELECT name, tbl_name FROM sqlite_schema WHERE type = 'trigger'")
    found = rows(
        theirs,
        "SELECT tgname::text, tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal AND tgenabled = 'O'",
    )
    assert set(found) == set(wanted) - OF_SQLITE | OF_POSTGRES


def conditions(texts):
    """Return the checks of a schema, each as words that both databases write alike."""
    found = set()
    for text in texts:
        for check in re.finditer(r"CHECK \(", text):
            depth, end = 1, check.end()
            while depth:
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                end += 1
            words = " ".join(text[check.end() : end - 1].split())
            words = re.sub(r"json_valid\((\w+)\)", r"\1 is json", words)
            words = re.sub(r"\((\w+)::json\) IS NOT NULL", r"\1 is json", words)
            found.add(re.sub(r"^(\w+) IS NULL OR (\1 is json)$", r"\2", words))
    return found


def test_the_same_checks_are_made(ours):
    wanted = conditions(
        text for (text,) in rows(ours, "SELECT sql FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL")
    )
    assert conditions(DROPPED.sub("", text) for _, _, text in load_migrations("postgres")) == wanted
    assert len(wanted) > 50


def sqlite_columns(ours, text):
    cursor = ours.cursor()
    seen: list[int] = []

    def trace(cursor, *_):
        seen.append(len(cursor.get_description()))
        return False

    cursor.exec_trace = trace
    with contextlib.suppress(apsw.ExecTraceAbort):
        cursor.execute(text, dict.fromkeys(re.findall(r":(\w+)", text)))
    return seen[0] if seen else 0


@pytest.mark.parametrize("writing", [False, True])
def test_postgresql_takes_every_statement_and_answers_with_as_many_columns(ours, theirs, writing):
    """Every statement is prepared without values, so that the server has to know the types by itself."""
    refused, different = {}, {}
    ask = load_queries("sqlite")
    for name, text in load_queries("postgres", writing=writing).items():
        wanted = statement(text)
        if not wanted.text:
            continue
        label = f"{name}_{writing}".encode()
        answer = theirs.pgconn.prepare(label, wanted.text)
        if answer.status != psycopg.pq.ExecStatus.COMMAND_OK:
            refused[name] = answer.error_message.decode()
            continue
        columns = theirs.pgconn.describe_prepared(label).nfields
        expected = sqlite_columns(ours, ask[name])
        if expected and columns != expected:
            different[name] = (columns, expected)
    assert (refused, different) == ({}, {})
