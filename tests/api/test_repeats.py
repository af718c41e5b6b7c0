"""Idempotency-Key (G-02): a request that is repeated takes effect once."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest

from rota.operations.admin.access import Scope
from rota.store.tables import audit
from tests.api.conftest import Api

OWNER = "token:admin:owner"
TRIGGER = "/api/v1/jobs/hello/trigger"


def test_a_repeated_request_gets_the_same_answer_and_makes_nothing(api: Api) -> None:
    first = api.call("POST", TRIGGER, {"params": {"who": "a"}}, Idempotency_Key="k1")
    again = api.call("POST", TRIGGER, {"params": {"who": "a"}}, Idempotency_Key="k1")
    assert (again.status_code, again.json()) == (202, first.json())
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
    assert len(api.get("/runs")["items"]) == 1


def test_a_key_of_another_request_is_refused(api: Api) -> None:
    api.call("POST", TRIGGER, {"params": {"who": "a"}}, Idempotency_Key="k1")
    for body, path in (({"params": {"who": "b"}}, TRIGGER), ({"params": {"who": "a"}}, "/api/v1/jobs/other/trigger")):
        assert api.refused("POST", path, body, Idempotency_Key="k1") == (409, "idempotency_mismatch")
    assert len(api.get("/runs")["items"]) == 1


def test_a_refused_request_may_be_tried_again_under_its_key(api: Api) -> None:
    api.post("/jobs/other/trigger", status=202)
    assert api.refused("POST", "/api/v1/jobs/other/trigger", Idempotency_Key="k") == (409, "overlap")
    api.post("/runs/other:1/cancel")
    assert api.call("POST", "/api/v1/jobs/other/trigger", Idempotency_Key="k").status_code == 202


def test_a_key_is_known_for_a_day(api: Api) -> None:
    api.call("POST", TRIGGER, Idempotency_Key="k")
    api.project.clock.advance(timedelta(hours=25))
    assert "idempotency-replayed" not in api.call("POST", TRIGGER, Idempotency_Key="k").headers
    assert len(api.get("/runs")["items"]) == 2


def test_keys_of_two_tokens_do_not_meet(api: Api) -> None:
    api.call("POST", TRIGGER, Idempotency_Key="k")
    api.call("POST", TRIGGER, Idempotency_Key="k", scope=Scope.RUN)
    assert len(api.get("/runs")["items"]) == 2


def test_keys_of_two_tokens_of_one_name_do_not_meet(api: Api) -> None:
    """`rota token --scope run --name ci` and `--scope agent --name ci` are two tokens."""
    first = api.call("POST", TRIGGER, Idempotency_Key="k", scope=Scope.RUN)
    second = api.call("POST", TRIGGER, Idempotency_Key="k", scope=Scope.AGENT)
    assert "idempotency-replayed" not in second.headers
    assert first.json()["id"] != second.json()["id"]


def test_a_scope_is_checked_before_any_answer_is_repeated(api: Api) -> None:
    api.call("POST", TRIGGER, Idempotency_Key="k")
    assert api.refused("POST", TRIGGER, Idempotency_Key="k", scope=Scope.READ) == (403, "forbidden")
    now = api.project.clock.now()
    digest = api.store.read(lambda db: audit.find_key(db, caller=OWNER, key="k", now=now)).digest
    stored = partial(
        audit.answer_key, caller="token:read:tester", key="k", digest=digest, status=202, body="{}", now=now
    )
    api.store.write(stored)
    assert api.refused("POST", TRIGGER, Idempotency_Key="k", scope=Scope.READ) == (403, "forbidden")


def test_a_request_whose_answer_was_lost_is_not_done_twice(api: Api) -> None:
    """A kill between the effect and its answer: the key is stored with the effect, so the repeat finds it."""
    first = api.call("POST", TRIGGER, Idempotency_Key="k")
    digest = api.store.read(lambda db: audit.find_key(db, caller=OWNER, key="k", now=api.project.clock.now())).digest
    claim = partial(audit.claim_key, caller=OWNER, key="lost", digest=digest, now=api.project.clock.now())
    assert api.store.write(claim)
    assert api.refused("POST", TRIGGER, Idempotency_Key="lost") == (409, "idempotency_pending")
    assert [run["id"] for run in api.get("/runs")["items"]] == [first.json()["id"]]


def test_two_requests_at_once_take_effect_once(api: Api) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: api.call("POST", TRIGGER, Idempotency_Key="k"), range(8)))
    assert {one.status_code for one in found} <= {202, 409}
    assert len({one.json()["id"] for one in found if one.status_code == 202}) == 1
    assert len(api.get("/runs")["items"]) == 1


@pytest.mark.parametrize("key", ["", "x" * 129, "a b", "a\tb", "é"])
def test_a_key_that_cannot_be_one_is_refused(api: Api, key: str) -> None:
    """#49."""
    sent = [
        ("Idempotency-Key", key.encode("latin-1")),
        *((name, value.encode()) for name, value in api.headers().items()),
    ]
    found = api.bare.post(TRIGGER, headers=sent)
    assert (found.status_code, found.json()["code"]) == (400, "idempotency_key")


def test_what_only_reads_takes_no_notice_of_a_key(api: Api) -> None:
    api.call("GET", "/api/v1/jobs", Idempotency_Key="k")
    assert "idempotency-replayed" not in api.call("GET", "/api/v1/jobs", Idempotency_Key="k").headers
