"""Tokens, sessions and one-time codes."""

import base64
import hashlib
import hmac
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.model.errors import InvalidValue, TokenUnusable
from rota.operations.admin.access import (
    Caller,
    Codes,
    Scope,
    derive_token,
    know_session,
    know_token,
    make_session,
    make_token,
    read_token,
    renew_token,
    token_file,
)

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def test_a_token_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    assert make_token(tmp_path)
    first = read_token(tmp_path)
    assert not make_token(tmp_path)
    assert read_token(tmp_path) == first
    assert len(first) == 43
    assert token_file(tmp_path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "\n", "short", "x" * 42, "with a space " * 5, "é" * 50])
def test_an_empty_short_or_odd_token_is_refused(tmp_path: Path, text: str) -> None:
    """cc-connect #1489: an empty token never means that nobody is asked for one."""
    token_file(tmp_path).write_text(text)
    token_file(tmp_path).chmod(0o600)
    with pytest.raises(TokenUnusable):
        read_token(tmp_path)


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    make_token(tmp_path)
    os.chmod(token_file(tmp_path), 0o644)
    with pytest.raises(TokenUnusable, match="chmod 600"):
        read_token(tmp_path)


def test_a_link_in_the_place_of_the_token_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x")
    token_file(tmp_path).symlink_to(tmp_path / "elsewhere")
    assert not make_token(tmp_path)
    assert (tmp_path / "elsewhere").read_text() == "x"


@pytest.mark.parametrize("name", ["owner", "Owner", "user", "scheduler", "rota", "unknown"])
def test_no_token_has_a_name_of_rota_s_own(name: str) -> None:
    with pytest.raises(InvalidValue, match="is reserved"):
        derive_token("x" * 43, Scope.READ, name)
    signed = hmac.new(b"x" * 43, f"token:admin:{name}".encode(), hashlib.sha256).digest()
    made_earlier = f"rota_admin_{name}_{base64.urlsafe_b64encode(signed).rstrip(b'=').decode()}"
    assert know_token("x" * 43, made_earlier) is None
    assert know_token("x" * 43, derive_token("x" * 43, Scope.ADMIN, f"{name}-2")) is not None


@pytest.mark.parametrize("scope", list(Scope))
def test_a_token_made_from_the_project_s_is_known_by_its_name_and_scope(scope: Scope) -> None:
    made = derive_token("t" * 43, scope, "ci.main-1")
    assert know_token("t" * 43, made) == Caller("ci.main-1", scope)
    assert know_token("u" * 43, made) is None
    assert made == derive_token("t" * 43, scope, "ci.main-1")


def test_the_scope_or_name_of_a_token_cannot_be_changed() -> None:
    made = derive_token("t" * 43, Scope.READ, "ci")
    assert know_token("t" * 43, made.replace("_read_", "_admin_")) is None
    assert know_token("t" * 43, made.replace("_ci_", "_me_")) is None
    assert know_token("t" * 43, made[:-1]) is None


@pytest.mark.parametrize("name", ["", "a b", "a_b", "-a", "é", "a" * 65, "../x"])
def test_a_name_that_no_token_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue):
        derive_token("t" * 43, Scope.READ, name)


def test_the_project_s_token_may_do_everything_and_renewing_it_ends_the_others(tmp_path: Path) -> None:
    make_token(tmp_path)
    old = read_token(tmp_path)
    caller = know_token(old, old)
    assert caller is not None
    assert all(caller.may(scope) for scope in Scope)
    made = derive_token(old, Scope.READ, "ci")
    renew_token(tmp_path)
    new = read_token(tmp_path)
    assert (know_token(new, old), know_token(new, made)) == (None, None)
    assert token_file(tmp_path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("scope", "may"),
    [
        (Scope.READ, {"read", "calendar"}),
        (Scope.RUN, {"read", "run", "agent", "calendar"}),
        (Scope.AGENT, {"read", "agent", "calendar"}),
        (Scope.CALENDAR, {"calendar"}),
    ],
)
def test_a_scope_allows_what_it_says(scope: Scope, may: set[str]) -> None:
    assert {wanted.value for wanted in Scope if Caller("x", scope).may(wanted)} == may


def test_a_session_lasts_a_week_and_cannot_be_made_longer() -> None:
    made = make_session("t" * 43, Caller("owner", Scope.ADMIN), now=NOW)
    assert know_session("t" * 43, made, now=NOW + timedelta(days=6)) == Caller("owner", Scope.ADMIN, browser=True)
    assert know_session("t" * 43, made, now=NOW + timedelta(days=7)) is None
    assert know_session("u" * 43, made, now=NOW) is None
    until, _, rest = made.partition(".")
    assert know_session("t" * 43, f"{int(until) + 1}.{rest}", now=NOW) is None
    assert know_session("t" * 43, "garbage", now=NOW) is None


def test_a_session_has_the_scope_and_name_of_its_login_and_no_other() -> None:
    made = make_session("t" * 43, Caller("wall.screen", Scope.READ), now=NOW)
    assert know_session("t" * 43, made, now=NOW) == Caller("wall.screen", Scope.READ, browser=True)
    assert know_session("t" * 43, made.replace(".read.", ".admin."), now=NOW) is None
    assert know_session("t" * 43, made.replace("wall", "well"), now=NOW) is None


def test_a_session_of_a_stored_token_names_its_row() -> None:
    """A session of another row, or of none, cannot be made of it."""
    caller = Caller("ci", Scope.RUN, token=12)
    made = make_session("t" * 43, caller, now=NOW)
    assert know_session("t" * 43, made, now=NOW) == Caller("ci", Scope.RUN, browser=True, token=12)
    assert know_session("t" * 43, made.replace("~12.", "~13."), now=NOW) is None
    assert know_session("t" * 43, made.replace("~12.", "."), now=NOW) is None


def test_a_code_works_once_and_for_a_minute() -> None:
    codes = Codes()
    first, second = codes.make(at=0), codes.make(at=0)
    assert first != second
    assert codes.take(first, at=59)
    assert not codes.take(first, at=59)
    assert not codes.take(second, at=60)
    assert not codes.take("", at=0)


def test_codes_do_not_pile_up() -> None:
    codes = Codes()
    made = [codes.make(at=0) for _ in range(200)]
    assert not codes.take(made[0], at=1)
    assert codes.take(made[-1], at=1)
