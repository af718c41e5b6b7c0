"""Live events: in order, resumable, bounded for each client."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest

from rota.http import feed as feeds
from rota.http.feed import Feed, Subscriber, written
from rota.operations.run_actions import cancel_run, trigger
from rota.operations.status.feed import FeedEvent, Followed, follow_from, newest
from tests.api.conftest import COMPLETED, Api

LONG = 60


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def start(api: Api, job: str = "hello") -> str:
    return trigger(api.store, job, now=api.project.clock.now()).id


def told(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Return name and content of the events of a part of a stream."""
    blocks = [block for block in data.decode().split("\n\n") if "data: " in block]
    lines = [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]
    return [(one["event"], {**json.loads(one["data"]), "seq": int(one["id"])}) for one in lines]


async def events(stream: AsyncIterator[bytes], count: int) -> list[tuple[str, dict[str, Any]]]:
    """Read a stream until so many events came."""
    found: list[tuple[str, dict[str, Any]]] = []
    async with asyncio.timeout(LONG):
        while len(found) < count:
            found += told(await anext(stream))
    return found


def test_changes_are_told_in_order_with_the_state_of_now(api: Api) -> None:
    before = newest(api.store)
    first = start(api)
    found = follow_from(api.store, before)
    assert [(event.name, event.data["id"]) for event in found.events] == [("run.created", first)]
    api.project.carry_out([COMPLETED])
    after = follow_from(api.store, found.seq)
    told_now = [(event.name, event.data["status"]) for event in after.events]
    assert told_now == [("run.started", "COMPLETED"), ("run.finished", "COMPLETED")]
    assert follow_from(api.store, after.seq).events == ()


def test_a_run_that_is_over_before_anybody_looks_is_told_as_created_started_and_finished(api: Api) -> None:
    before = newest(api.store)
    first = start(api)
    api.project.carry_out([COMPLETED])
    second = start(api)
    cancel_run(api.store, second, now=api.project.clock.now())
    found = follow_from(api.store, before).events
    named = {run: [event.name for event in found if event.data["id"] == run] for run in (first, second)}
    assert named[first] == ["run.created", "run.started", "run.finished"]
    assert named[second] == ["run.created", "run.finished"]
    assert [event.seq for event in found] == sorted(event.seq for event in found)


def test_the_run_of_a_group_is_told_as_created_and_started(api: Api) -> None:
    before = newest(api.store)
    made = api.post("/jobs/both/trigger", status=202)["id"]
    found = follow_from(api.store, before).events
    assert [event.name for event in found if event.data["id"] == made] == ["run.created", "run.started"]


def test_an_edit_of_a_run_that_has_not_started_is_told_as_waiting(api: Api) -> None:
    before = newest(api.store)
    run = start(api)
    api.call("PATCH", f"/api/v1/runs/{run}", {"priority": 7})
    assert [event.name for event in follow_from(api.store, before).events] == ["run.created", "run.waiting"]


def test_a_client_that_comes_again_after_any_event_is_told_all_that_follow_it(api: Api) -> None:
    before = newest(api.store)
    for _ in range(3):
        start(api)
        api.project.carry_out([COMPLETED])
    found = follow_from(api.store, before).events
    assert len(found) >= 9
    for index, event in enumerate(found):
        again = follow_from(api.store, event.seq).events
        assert [(one.seq, one.name) for one in again] == [(one.seq, one.name) for one in found[index + 1 :]]


def test_who_is_cut_off_between_two_events_of_one_number_is_told_both_again() -> None:
    """On PostgreSQL what one statement moved shares a number: only the last event has it."""
    together = [
        FeedEvent(7, "run.started", {"id": "a"}),
        FeedEvent(7, "run.started", {"id": "b"}),
        FeedEvent(9, "run.finished", {}),
    ]
    blocks = written(Followed(9, tuple(together))).decode().split("\n\n")
    assert [block.split("\n")[0] for block in blocks if block] == ["event: run.started", "id: 7", "id: 9"]


def test_a_change_of_a_job_is_told_but_not_each_of_its_instants(api: Api) -> None:
    before = newest(api.store)
    api.post("/jobs/hello/pause")
    found = follow_from(api.store, before)
    assert [(event.name, event.data["name"], event.data["state"]) for event in found.events] == [
        ("job.changed", "hello", "paused")
    ]


@pytest.mark.parametrize("seq", [-1, 10**9])
def test_who_was_away_too_long_begins_again(api: Api, seq: int) -> None:
    start(api)
    found = follow_from(api.store, seq)
    assert (found.reset, found.seq) == (True, newest(api.store))


def test_only_so_many_changes_are_kept(api: Api) -> None:
    """The table never grows: the newest 100,000 changes stay."""
    numbers = partial(_fill, count=100_100)
    api.store.write(numbers)
    assert api.store.read(lambda db: db.row("change_bounds")) == (newest(api.store) - 99_999, newest(api.store))


def _fill(db: Any, *, count: int) -> None:
    connection = db._connection
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
    connection.execute(f"{numbers} INSERT INTO change (kind, subject) SELECT 'run', 'x' FROM n", (count,)).fetchall()


@pytest.mark.anyio
async def test_a_client_is_told_what_happens(api: Api) -> None:
    feed = Feed(api.store)
    async with aclosing(feed.stream(None)) as stream:
        assert (await anext(stream)).startswith(b"retry: ")
        run = start(api)
        assert [(name, event["id"]) for name, event in await events(stream, 1)] == [("run.created", run)]
        cancel_run(api.store, run, now=api.project.clock.now())
        assert [(name, event["status"]) for name, event in await events(stream, 1)] == [("run.finished", "CANCELLED")]
    assert not feed._subscribers


@pytest.mark.anyio
async def test_a_client_that_comes_again_misses_nothing_and_gets_nothing_twice(api: Api) -> None:
    feed = Feed(api.store)
    async with aclosing(feed.stream(None)) as stream:
        await anext(stream)
        first = start(api)
        last = (await events(stream, 1))[-1][1]["seq"]
    second = start(api)
    async with aclosing(feed.stream(last)) as stream:
        await anext(stream)
        third = start(api)
        found = await events(stream, 2)
    assert [event["id"] for _, event in found] == [second, third]
    assert first not in [event["id"] for _, event in found]


@pytest.mark.anyio
async def test_a_client_that_is_cut_off_before_its_first_event_misses_nothing(api: Api) -> None:
    feed = Feed(api.store)
    async with aclosing(feed.stream(None)) as stream:
        lines = (await anext(stream)).decode().split("\n")
    number = next(int(line.removeprefix("id: ")) for line in lines if line.startswith("id: "))
    run = start(api)
    async with aclosing(feed.stream(number)) as stream:
        await anext(stream)
        assert [(name, event["id"]) for name, event in await events(stream, 1)] == [("run.created", run)]


@pytest.mark.anyio
async def test_a_client_that_cannot_go_on_is_told_to_begin_again(api: Api) -> None:
    async with aclosing(Feed(api.store).stream(-1)) as stream:
        await anext(stream)
        ((name, event),) = await events(stream, 1)
    assert (name, event["seq"]) == ("reset", newest(api.store))


@pytest.mark.anyio
async def test_all_clients_are_told_the_same_bytes(api: Api) -> None:
    feed = Feed(api.store)
    async with aclosing(feed.stream(None)) as one, aclosing(feed.stream(None)) as other:
        await anext(one)
        await anext(other)
        start(api)
        assert await anext(one) is await anext(other)


@pytest.mark.anyio
async def test_a_client_that_does_not_read_is_cut_off_and_costs_no_other(api: Api) -> None:
    """G-35: a bound for each client."""
    slow = asyncio.create_task(asyncio.Event().wait())
    stuck, reading = Subscriber(), Subscriber()
    stuck.task = slow
    for _ in range(feeds.BEHIND + 1):
        stuck.push(b"x")
        reading.push(b"x")
        assert await reading.next() == b"x"
    assert (stuck.cut, reading.cut) == (True, False)
    await asyncio.wait([slow])
    assert slow.cancelled()
    large = Subscriber()
    large.task = None
    large.push(b"x" * (feeds.BEHIND_BYTES + 1))
    assert (large.cut, large.waiting.qsize()) == (True, 0)


@pytest.mark.anyio
async def test_what_comes_in_a_hurry_is_one_part_for_a_client_that_was_just_told(api: Api) -> None:
    """No more than two parts a second for each client: what comes too early is sent together."""
    feed = Feed(api.store)
    async with aclosing(feed.stream(None)) as stream:
        await anext(stream)
        (subscriber,) = feed._subscribers
        subscriber.push(b"first")
        assert await anext(stream) == b"first"
        coming = asyncio.ensure_future(anext(stream))
        subscriber.push(b"second")
        subscriber.push(b"third")
        async with asyncio.timeout(LONG):
            assert await coming == b"secondthird"
        assert subscriber.bytes == 0


@pytest.mark.anyio
async def test_when_the_server_ends_the_streams_end(api: Api) -> None:
    feed = Feed(api.store)
    async with aclosing(feed.stream(None)) as stream:
        await anext(stream)
        feed.close()
        assert [part async for part in stream] == []


def test_more_clients_than_there_is_room_for_are_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "STREAMS", 0)
    assert api.refused("GET", "/api/v1/events") == (503, "too_many_streams")
