"""Work sources of an embedded scheduler: a class by decorator, an agent that is a function (003)."""

from pathlib import Path

import rota
from rota.model.states import Reason, Status
from tests.engine.test_work_items import Shelf
from tests.library.conftest import LONG
from tests.waiting import until


def test_a_class_gives_work_to_a_function_that_is_an_agent(store: Path) -> None:
    scheduler = rota.Scheduler(store, folder=store.parents[1], defaults={"retry": False})
    told: list[tuple[str, bool, str]] = []

    @scheduler.source("board")
    class Board:
        def __init__(self, names: list[str]) -> None:
            self.names = names

        async def next_item(self, request: rota.WorkRequest) -> rota.WorkItem | None:
            return rota.WorkItem(self.names[0], f"item for {request.job}") if self.names else None

        def report(self, item: rota.WorkItem, outcome: rota.WorkReport) -> None:
            self.names.remove(item.id)
            told.append((item.id, outcome.success, outcome.summary))

        def release(self, item: rota.WorkItem) -> None:
            told.append((item.id, False, "released"))

    @scheduler.agent("reader")
    def read(task: rota.AgentTask) -> rota.AgentResult:
        assert task.item is not None
        assert task.prompt.endswith(task.item.title)
        return rota.AgentResult(summary=task.item.title)

    scheduler.add_job(
        "triage", agent="reader", prompt="Look.", work_source={"run": "board", "options": {"names": ["a"]}}
    )
    scheduler.start()
    try:
        first = scheduler.sync.trigger("triage")
        run = scheduler.sync.wait(first.run_id or "", timeout=LONG)
        assert (run.status, run.result_summary) == (Status.COMPLETED, "item for triage")
        until(lambda: told, what="the report")
        assert told == [("a", True, "item for triage")]
        second = scheduler.sync.trigger("triage")
        assert scheduler.sync.wait(second.run_id or "", timeout=LONG).reason is Reason.NO_WORK
    finally:
        scheduler.stop(wait=False)


def test_a_played_scheduler_asks_a_stand_in_and_no_server() -> None:
    with rota.testing.scheduler(now="2026-03-28T00:00Z", agents={"fixer": {"adapter": "claude"}}) as s:
        shelf = Shelf("a")
        s.put_source("me/api", shelf)
        source = {"github": "me/api", "token": {"secret": "NONE"}}
        s.add_job("fix", agent="fixer", prompt="Fix it.", interval="1h", work_source=source)
        s.advance("90m")
        assert [told.status for told in s.history("fix")] == ["COMPLETED", "SKIPPED"]
        assert [item for item, _ in shelf.reports] == ["a"]
