"""What requests share: answers of pollers until the next commit, and the commits of triggers."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from rota.http.context import KEPT_ANSWERS, KEPT_BYTES, AnswerCache, WakeOnce
from rota.model.errors import StateError
from rota.store.driver import PLAIN, Database, Operation, T, WriteOptions
from rota.store.migrate import open_store
from rota.store.sqlite.store import SqliteStore
from rota.testing.doubles import FakeClock
from tests.api.conftest import Api
from tests.faces.conftest import NOON
from tests.template import lay_database
from tests.waiting import LONGEST_WAIT


class Maker:
    """Makes bodies that differ, and counts them."""

    def __init__(self, body: bytes = b"") -> None:
        self.made = 0
        self._body = body

    def __call__(self) -> bytes:
        self.made += 1
        return self._body or b"%d" % self.made


class Number:
    """A number of commits that the test sets."""

    def __init__(self) -> None:
        self.value: int | None = 1

    def __call__(self) -> int | None:
        return self.value


def test_an_answer_is_kept_until_the_next_commit() -> None:
    number, make = Number(), Maker()
    cache = AnswerCache(number, FakeClock(NOON))

    async def ask() -> list[bytes]:
        answers = [await cache.get("jobs", make), await cache.get("jobs", make)]
        number.value = 2
        return [*answers, await cache.get("jobs", make), await cache.get("jobs", make)]

    assert asyncio.run(ask()) == [b"1", b"1", b"2", b"2"]


@pytest.mark.parametrize("unknown", [None, lambda: None])
def test_each_request_looks_where_commits_are_not_counted(unknown: Callable[[], None] | None) -> None:
    cache, make = AnswerCache(unknown, FakeClock(NOON)), Maker()

    async def ask() -> list[bytes]:
        return [await cache.get("jobs", make), await cache.get("jobs", make)]

    assert asyncio.run(ask()) == [b"1", b"2"]


def test_an_answer_that_tells_of_more_than_the_database_ages() -> None:
    clock, make = FakeClock(NOON), Maker()
    cache = AnswerCache(Number(), clock)

    async def ask() -> list[bytes]:
        answers = [await cache.get("poll", make, within=0.25)]
        clock.advance(timedelta(milliseconds=125))
        answers.append(await cache.get("poll", make, within=0.25))
        clock.advance(timedelta(milliseconds=125))
        return [*answers, await cache.get("poll", make, within=0.25)]

    assert asyncio.run(ask()) == [b"1", b"1", b"2"]


def test_requests_at_the_same_time_share_a_look_and_one_that_leaves_does_not_end_it() -> None:
    begun, go, make = threading.Event(), threading.Event(), Maker()
    cache = AnswerCache(Number(), FakeClock(NOON))

    def wait() -> bytes:
        begun.set()
        assert go.wait(LONGEST_WAIT)
        return make()

    async def ask() -> list[bytes]:
        first, *others = [asyncio.create_task(cache.get("jobs", wait)) for _ in range(4)]
        assert await asyncio.to_thread(begun.wait, LONGEST_WAIT)
        first.cancel()
        go.set()
        return list(await asyncio.gather(*others))

    assert asyncio.run(ask()) == [b"1"] * 3


def test_a_look_that_fails_is_not_kept() -> None:
    cache, make = AnswerCache(Number(), FakeClock(NOON)), Maker()

    def fail() -> bytes:
        raise StateError("the disk is gone", hint="look at it")

    async def ask() -> bytes:
        for _ in range(2):
            with pytest.raises(StateError):
                await cache.get("jobs", fail)
        return await cache.get("jobs", make)

    assert asyncio.run(ask()) == b"1"


def test_only_some_answers_of_some_size_are_kept() -> None:
    cache = AnswerCache(Number(), FakeClock(NOON))
    long, short = Maker(b"x" * (KEPT_BYTES + 1)), Maker()

    async def ask() -> None:
        for _ in range(2):
            await cache.get("long", long)
        for name in range(KEPT_ANSWERS):
            await cache.get(name, Maker())
        await cache.get(0, short)

    asyncio.run(ask())
    assert (long.made, short.made) == (2, 0)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteStore]:
    store = open_store(lay_database(tmp_path), now=NOON)
    yield store
    store.close()


def test_sqlite_counts_the_commits_of_all(file: SqliteStore) -> None:
    commits, other = file.commits(), SqliteStore(file.path)

    def change(db: Database) -> None:
        db.execute("meta_set", key="x", value=str(len(numbers)))

    async def submit() -> None:
        await file.submit(change)

    numbers = [commits(), commits()]
    assert numbers[0] == numbers[1]
    for write in (lambda: file.write(change), lambda: other.write(change), lambda: asyncio.run(submit())):
        write()
        numbers.append(commits())
    other.close()
    assert len(set(numbers)) == 4
    assert None not in numbers


def test_a_closed_database_counts_nothing(file: SqliteStore) -> None:
    commits = file.commits()
    file.close()
    assert commits() is None


def test_the_list_is_made_again_after_a_change_of_another_process(api: Api) -> None:
    def state() -> str:
        return next(job["state"] for job in api.get("/jobs")["items"] if job["name"] == "other")

    before = [state(), state()]
    api.project.rota("pause", "other")
    assert [*before, state()] == ["idle", "idle", "paused"]


@pytest.mark.parametrize(("patient", "way"), [(False, "submit"), (True, "write")])
def test_a_change_does_not_wait_for_a_server_that_is_away(api: Api, *, patient: bool, way: str) -> None:
    """The writer of PostgreSQL keeps trying; a request reports at once that the server is away."""
    ways: list[str] = []

    class Recording(SqliteStore):
        def write(self, operation: Operation[T]) -> T:
            ways.append("write")
            return super().write(operation)

        def submit(self, operation: Operation[T], options: WriteOptions = PLAIN) -> asyncio.Future[T]:
            ways.append("submit")
            return super().submit(operation, options)

    store = Recording(api.project.state / "rota.db")
    store.patient = patient
    api.context = replace(api.context, store=store)
    started = api.post("/jobs/hello/trigger", status=202)
    store.close()
    assert ways == [way]
    assert api.get(f"/runs/{started['id']}")["status"] == "QUEUED"


def test_triggers_at_the_same_time_are_all_stored_and_audited_and_a_refused_one_fails_alone(api: Api) -> None:
    def trigger(job: str) -> int:
        return int(api.call("POST", f"/api/v1/jobs/{job}/trigger").status_code)

    with ThreadPoolExecutor(8) as clients:
        statuses = list(clients.map(trigger, ["hello", "nope", "hello", "hello", "nope", "hello"]))
    assert statuses == [202, 404, 202, 202, 404, 202]
    assert len(api.get("/jobs/hello/runs")["items"]) == 4
    audit = [entry["target"] for entry in api.get("/audit")["items"] if entry["action"] == "trigger_job"]
    assert audit == ["hello"] * 4


def test_triggers_that_one_turn_answers_wake_the_scheduler_once() -> None:
    waking, heard = WakeOnce(), []

    async def answer(state: Path) -> None:
        for _ in range(3):
            waking.wake(state)
        turned = asyncio.Event()
        asyncio.get_running_loop().call_soon(turned.set)
        await turned.wait()
        waking.wake(state)

    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as scheduler:
        scheduler.bind(f"{folder}/wake.sock")
        scheduler.settimeout(0)
        asyncio.run(answer(Path(folder)))
        with contextlib.suppress(BlockingIOError):
            while True:
                heard.append(scheduler.recv(100))
    assert heard == [b"wake", b"wake"]
