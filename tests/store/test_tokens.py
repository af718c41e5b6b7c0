"""Conformance: rows of named tokens on both backends."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from rota.model.errors import InvalidValue, UnknownToken
from rota.operations.admin.access import Scope
from rota.operations.admin.tokens import (
    LONGEST,
    TokenDesk,
    TokenState,
    create_token,
    hash_of,
    list_tokens,
    revoke_token,
    state_of,
)
from rota.operations.verify.report import AuditFindings
from rota.operations.verify.rows import check_rows
from rota.store.driver import Database, Store
from rota.store.tables import tokens
from rota.testing.doubles import FakeClock

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def make(store: Store, name: str = "ci", scope: Scope = Scope.RUN, lasts: timedelta | None = DAY, **more: object):
    return create_token(store, name, scope, lasts=lasts, by="user:anna", now=NOON, **more)  # type: ignore[arg-type]


def test_a_token_is_read_as_it_was_stored(store: Store) -> None:
    made = make(store)
    found = store.read(partial(tokens.by_hash, digest=hash_of(made.text)))
    assert found == made.row == store.read(partial(tokens.by_number, number=made.row.number))
    assert (found.name, found.scope, found.created_by) == ("ci", "run", "user:anna")
    assert (found.created_at, found.expires_at, found.last_used_at) == (NOON, NOON + DAY, None)
    assert store.read(partial(tokens.by_hash, digest=hash_of(made.text + "x"))) is None


@pytest.mark.parametrize("scope", list(Scope))
def test_every_scope_can_be_stored(store: Store, scope: Scope) -> None:
    assert make(store, scope=scope).row.scope == scope.value


def test_tokens_are_listed_newest_first(store: Store) -> None:
    for name in ("a", "b"):
        make(store, name, lasts=None)
    assert [each.name for each in list_tokens(store)] == ["b", "a"]


def test_a_name_belongs_to_one_token_until_it_is_revoked(store: Store) -> None:
    first = make(store)
    with pytest.raises(InvalidValue, match="there is a token named 'ci'"):
        make(store)
    revoked = revoke_token(store, "ci", by="user:bo", now=NOON)
    assert (revoked.revoked_by, state_of(revoked, now=NOON)) == ("user:bo", TokenState.REVOKED)
    again = make(store)
    assert (again.text, again.row.number) != (first.text, first.row.number)
    assert [each.revoked_at for each in list_tokens(store)] == [None, NOON]


@pytest.mark.parametrize(("name", "near"), [("cii", "did you mean 'ci'"), ("elsewhere", "rota token list")])
def test_an_unknown_or_revoked_token_cannot_be_revoked(store: Store, name: str, near: str) -> None:
    make(store)
    make(store, "old")
    revoke_token(store, "old", by="user:anna", now=NOON)
    with pytest.raises(UnknownToken) as raised:
        revoke_token(store, name, by="user:anna", now=NOON)
    assert near in raised.value.hint
    with pytest.raises(UnknownToken):
        revoke_token(store, "old", by="user:anna", now=NOON)


@pytest.mark.parametrize("lasts", [timedelta(), -DAY, LONGEST + DAY])
def test_a_token_without_a_sensible_end_is_refused(store: Store, lasts: timedelta) -> None:
    with pytest.raises(InvalidValue):
        make(store, lasts=lasts)
    assert list_tokens(store) == []


def test_a_dry_run_stores_and_revokes_nothing(store: Store) -> None:
    assert make(store, dry_run=True).row.name == "ci"
    assert list_tokens(store) == []
    make(store)
    assert revoke_token(store, "ci", by="user:anna", now=NOON, dry_run=True).revoked_at == NOON
    assert list_tokens(store)[0].revoked_at is None


@pytest.mark.parametrize(
    "change",
    [
        "scope = 'admin'",
        "name = 'cd'",
        "hash = replace(hash, substr(hash, 1, 1), 'g')",
        "expires_at = NULL",
        "expires_at = expires_at + 1",
        "created_by = 'user:eve'",
    ],
)
def test_a_stored_token_is_never_edited(backend, change: str) -> None:
    make(backend.store)
    with pytest.raises(Exception, match="never edited"):
        backend.sql(f"UPDATE access_token SET {change}")


def test_a_revocation_is_never_undone(backend) -> None:
    make(backend.store)
    revoke_token(backend.store, "ci", by="user:anna", now=NOON)
    with pytest.raises(Exception, match="never edited"):
        backend.sql("UPDATE access_token SET revoked_at = NULL, revoked_by = NULL")


@pytest.mark.parametrize(
    ("after", "recorded"), [(timedelta(seconds=59), NOON), (timedelta(seconds=60), NOON + timedelta(seconds=60))]
)
def test_two_requests_within_a_minute_write_one_use(store: Store, after: timedelta, recorded: datetime) -> None:
    number = make(store).row.number

    def use(db: Database) -> None:
        tokens.use(db, number, now=NOON)
        tokens.use(db, number, now=NOON + after)

    store.write(use)
    assert list_tokens(store)[0].last_used_at == recorded


def test_a_use_of_an_ended_token_is_not_recorded(store: Store) -> None:
    clock = FakeClock(NOON)
    desk = TokenDesk(store, clock)
    expired, revoked = make(store, "short", lasts=timedelta(hours=1)), make(store, "gone")
    revoke_token(store, "gone", by="user:anna", now=NOON)
    clock.advance(timedelta(hours=1))
    for made, state in ((expired, TokenState.EXPIRED), (revoked, TokenState.REVOKED)):
        found = desk.find(made.text)
        assert found is not None
        assert (desk.state_of(found), found.last_used_at) == (state, None)
    assert [each.last_used_at for each in list_tokens(store)] == [None, None]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("last_used_at = expires_at + 120000", "the token ci was used after it expired"),
        ("last_used_at = created_at - 120000", "the token ci was used before it was created"),
        (
            "revoked_at = created_at, revoked_by = 'x', last_used_at = created_at + 120000",
            "was used after it was revoked",
        ),
    ],
)
def test_verify_finds_a_use_that_cannot_be(backend, change: str, text: str) -> None:
    make(backend.store)
    assert violations(backend.store) == []
    backend.sql(f"UPDATE access_token SET {change}")
    (found,) = violations(backend.store)
    assert text in found


def violations(store: Store) -> list[str]:
    findings = AuditFindings()
    store.read(partial(check_rows, findings=findings, chosen=None, stepped=False))
    return [each.text for each in findings.violations]
