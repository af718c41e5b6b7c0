"""One connection to PostgreSQL: answers are read when needed, and none is mistaken for another."""

import psycopg
import pytest

from rota.store.postgres.pipeline import PipelineConnection, Statement, rows_of, statement
from tests.postgres import lay_postgres
from tests.store.making import NOW
from tests.waiting import until

BEGIN, ROLLBACK = Statement(b"BEGIN"), Statement(b"ROLLBACK")
NUMBER = statement("SELECT CAST(:number AS bigint)")
DIVIDE = statement("SELECT 1 / CAST(:by AS bigint)")
WRITE = statement("INSERT INTO meta VALUES (:key, '1')")
SLOW = statement("SELECT 1 FROM pg_sleep(0.2)")
MINE = Statement(b"SELECT pg_current_xact_id()")


@pytest.fixture
def address():
    return lay_postgres()


@pytest.fixture
def link(address):
    link = PipelineConnection(psycopg.connect(address, autocommit=True), now=lambda: NOW)
    yield link
    link.close()


@pytest.fixture
def beside(address):
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


def state_of(beside, link):
    return beside.execute("SELECT state, wait_event FROM pg_stat_activity WHERE pid = %s", [link.pid]).fetchone()


def ask(link, number):
    return link.ahead(NUMBER, {"number": number})


def test_an_answer_does_not_wait_for_what_was_sent_after_it(link):
    first = ask(link, 1)
    link.send()
    slow = link.ahead(SLOW, {})
    link.send()
    assert rows_of(link.answer(first)) == [(1,)]
    assert slow.result is None
    assert rows_of(link.answer(slow)) == [(1,)]


def test_answers_may_be_looked_at_in_any_order(link):
    asked = [ask(link, number) for number in range(4)]
    assert [rows_of(link.answer(asked[place])) for place in (2, 0, 3, 1)] == [[(2,)], [(0,)], [(3,)], [(1,)]]


def test_the_server_begins_with_what_is_sent_before_anybody_needs_an_answer(link, beside):
    link.begin(BEGIN, writing=True)
    link.defer(WRITE, {"key": "sent"})
    link.send()
    until(lambda: state_of(beside, link) == ("idle in transaction", "ClientRead"), what="the write to be done")
    link.leave(ROLLBACK)


def test_a_transaction_that_stops_after_something_was_sent_counts_as_idle_so_that_the_server_ends_it(link, beside):
    """A worker that is stopped inside a transaction may not hold its locks for long."""
    link.run(Statement(b"SET idle_in_transaction_session_timeout = '50ms'"), {})
    link.begin(BEGIN, writing=True)
    link.run(WRITE, {"key": "held"})
    link.defer(WRITE, {"key": "more"})
    link.send()
    until(lambda: state_of(beside, link) is None, what="the server to end it")


def test_a_refusal_of_what_nobody_waited_for_is_told_by_the_next_answer_and_what_follows_is_as_before(link):
    link.begin(BEGIN, writing=True)
    link.defer(DIVIDE, {"by": 0})
    link.send()
    with pytest.raises(psycopg.DataError, match="division by zero"):
        link.run(NUMBER, {"number": 1})
    link.leave(ROLLBACK)
    assert rows_of(link.run(NUMBER, {"number": 2})) == [(2,)]


def test_a_refusal_behind_an_answer_does_not_spoil_it(link):
    first = ask(link, 1)
    link.defer(DIVIDE, {"by": 0})
    assert rows_of(link.answer(first)) == [(1,)]
    with pytest.raises(psycopg.DataError):
        link.settle()
    assert rows_of(link.run(NUMBER, {"number": 3})) == [(3,)]


def test_nobody_minds_what_came_of_what_was_left(link, beside):
    link.begin(BEGIN, writing=True)
    link.defer(WRITE, {"key": "left"})
    link.defer(DIVIDE, {"by": 0})
    link.leave(ROLLBACK)
    link.begin(BEGIN, writing=True)
    assert rows_of(link.run(NUMBER, {"number": 4})) == [(4,)]
    link.leave(ROLLBACK)
    link.settle()
    assert beside.execute("SELECT count(*) FROM meta WHERE key = 'left'").fetchone() == (0,)


def test_the_number_of_a_transaction_that_was_left_is_not_taken_for_that_of_the_next(link):
    link.begin(BEGIN, writing=True)
    link.defer(WRITE, {"key": "left"})
    link.send()
    link.leave(ROLLBACK)
    link.begin(BEGIN, writing=True)
    link.run(NUMBER, {"number": 1})
    assert link.transaction is None
    link.settle()
    ((mine,),) = rows_of(link.run(MINE, {}))
    link.settle()
    assert link.transaction == mine


def test_what_was_passed_over_in_a_transaction_that_was_left_is_prepared_again(link):
    link.begin(BEGIN, writing=True)
    link.defer(DIVIDE, {"by": 0})
    link.defer(NUMBER, {"number": 1})
    link.leave(ROLLBACK)
    link.begin(BEGIN, writing=True)
    assert rows_of(link.run(NUMBER, {"number": 2})) == [(2,)]


def test_a_statement_is_prepared_once_however_many_transactions_use_it(link, beside):
    for number in range(3):
        link.begin(BEGIN, writing=False)
        assert rows_of(link.run(NUMBER, {"number": number})) == [(number,)]
        link.leave(ROLLBACK)
    names = statement("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT CAST(%'")
    assert rows_of(link.run(names, {})) == [(1,)]


def test_a_transaction_that_only_asked_has_no_number_and_owes_nothing(link):
    link.begin(BEGIN, writing=True)
    link.run(NUMBER, {"number": 1})
    link.settle()
    assert (link.transaction, link.owes) == (None, False)
    link.defer(WRITE, {"key": "key"})
    assert link.owes
    link.settle()
    assert link.transaction is not None


def test_an_announcement_is_heard_behind_an_answer_of_which_nobody_read_the_end(link, beside):
    link.run(Statement(b"LISTEN rota"), {})
    beside.execute("NOTIFY rota")
    until(link.announced, what="the announcement")
