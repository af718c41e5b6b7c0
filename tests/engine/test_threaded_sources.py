"""Sources on threads: bounded in time, heard when they are late, their objects kept, their secrets read anew."""

import asyncio
import threading
from pathlib import Path

import pytest

from rota.engine.loops.work_sources import ThreadedSources
from rota.model.errors import SecretMissing, SourceError
from rota.model.spec import EnvValue, SourceKind, WorkSource
from rota.settings import Settings
from tests.unit.sources.test_python_source import Tickets

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def sources(folder: Path, **environ: str) -> ThreadedSources:
    return ThreadedSources(Settings(folder, folder), environ, lambda: {"tickets": Tickets})


async def test_a_call_runs_on_a_thread_of_its_own(tmp_path: Path) -> None:
    found = await sources(tmp_path).ask(threading.current_thread, within=60)
    assert found is not threading.current_thread()
    assert found.daemon


async def test_what_a_call_raises_is_a_source_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="ZeroDivisionError"):
        await sources(tmp_path).ask(lambda: 1 / 0, within=60)


async def test_a_call_that_takes_too_long_is_left_and_heard_when_it_ends(tmp_path: Path) -> None:
    go, late = threading.Event(), asyncio.Event()
    with pytest.raises(SourceError, match=r"no answer within 0\.05 s"):
        await sources(tmp_path).ask(go.wait, within=0.05, late=late.set)
    assert not late.is_set()
    go.set()
    await asyncio.wait_for(late.wait(), 60)


async def test_a_call_that_nobody_waits_for_is_heard_when_it_ends(tmp_path: Path) -> None:
    begun, go, late = threading.Event(), threading.Event(), asyncio.Event()

    def wait() -> bool:
        begun.set()
        return go.wait()

    asked = asyncio.create_task(sources(tmp_path).ask(wait, within=60, late=late.set))
    await asyncio.to_thread(begun.wait)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    go.set()
    await asyncio.wait_for(late.wait(), 60)


async def test_a_cancellation_that_meets_the_answer_is_not_lost_and_the_answer_is_released(tmp_path: Path) -> None:
    begun, go, late = threading.Event(), threading.Event(), asyncio.Event()
    threads: list[threading.Thread] = []

    def wait() -> bool:
        threads.append(threading.current_thread())
        begun.set()
        return go.wait()

    asked = asyncio.create_task(sources(tmp_path).ask(wait, within=60, late=late.set))
    await asyncio.to_thread(begun.wait)
    go.set()
    threads[0].join()  # its answer is now the next step of the event loop, and the cancellation the one after it
    asyncio.get_running_loop().call_soon(asked.cancel)
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert late.is_set()


async def test_an_object_of_a_class_is_kept_and_one_of_other_options_is_another(tmp_path: Path) -> None:
    made = sources(tmp_path)
    one = WorkSource(SourceKind.RUN, "tickets", {"board": "a"})
    assert made.find(one) is made.find(one)
    assert made.find(one) is not made.find(WorkSource(SourceKind.RUN, "tickets", {"board": "b"}))


async def test_a_class_that_is_not_loaded_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match='no work source "other" is loaded'):
        sources(tmp_path).find(WorkSource(SourceKind.RUN, "other"))


async def test_secrets_are_read_when_they_are_used(tmp_path: Path) -> None:
    wanted = WorkSource(SourceKind.RUN, "tickets", values=(EnvValue("board", secret="BOARD"),))
    with pytest.raises(SecretMissing):
        sources(tmp_path).find(wanted)
    assert sources(tmp_path, BOARD="ops").find(wanted)._made.board == "ops"  # type: ignore[attr-defined]
