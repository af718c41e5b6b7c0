"""`ctx.http` and what functions report (R-19): every request is charged before it is sent, to the single one."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import rota
from rota.model.budgets import Account, Per, Unit
from rota.model.spec import Condition, Gates, Spend, WhenFalse
from rota.model.states import Reason, Status
from rota.store.tables import runs
from rota.testing.scene import Scene
from tests.engine.conftest import ALLOW, NOON, function
from tests.engine.spending import DAY, dollars, put, skipping, used, warning
from tests.engine.test_functions import play

pytestmark = pytest.mark.anyio

REQUESTS = Account("worker", Unit.REQUESTS, 5, Per.DAY)
WORKER = (Spend("worker", 2, Unit.REQUESTS),)


class Handler(BaseHTTPRequestHandler):
    """Answers everything; `/there` leads on to `/here`."""

    def do_GET(self) -> None:
        self.server.seen.append(self.path)
        self.send_response(302 if self.path == "/there" else 200)
        self.send_header("Location", "/here")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """A server on this machine that remembers what it was asked for."""
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving.seen = []
    serving.url = f"http://127.0.0.1:{serving.server_port}"
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield serving
    serving.shutdown()
    serving.server_close()
    thread.join()


def artifacts(scene: Scene, name: str) -> dict:
    run = scene.history(name)[-1]
    execution = scene.store.read(lambda db: runs.execution_of_run(db, run.id))
    assert execution is not None
    return dict(execution.artifacts)


async def run_once(scene: Scene, work, *, accounts=(REQUESTS,), **changes) -> None:
    scene.table.functions = {"work": work}
    put(scene, function("work", **{"budgets": WORKER, "overlap": ALLOW, **changes}), accounts=accounts)
    scene.trigger("work")
    await play(scene)


async def test_requests_of_a_function_are_counted_and_settled(scene: Scene, server) -> None:
    """R-19: what was sent, not what was expected."""

    def work(ctx) -> None:
        for _ in range(3):
            assert ctx.http.get(server.url).status_code == 200

    await run_once(scene, work)
    assert scene.told("work") == [("COMPLETED", None)]
    assert used(scene, REQUESTS) == (3, 0)
    assert artifacts(scene, "work")["usage"] == {"requests": 3}


async def test_requests_of_an_async_function_are_counted(scene: Scene, server) -> None:
    """R-19."""

    async def work(ctx) -> None:
        await ctx.http.get(server.url)

    await run_once(scene, work)
    assert used(scene, REQUESTS) == (1, 0)


async def test_a_request_beyond_the_limit_is_not_sent(scene: Scene, server) -> None:
    """R-19: BudgetExceeded, even in the middle of a run."""
    raised = []

    def work(ctx) -> None:
        try:
            for _ in range(9):
                ctx.http.get(server.url)
        except rota.BudgetExceeded as error:
            raised.append(str(error))
            raise

    await run_once(scene, work)
    assert len(server.seen) == 5
    assert used(scene, REQUESTS) == (5, 0)
    (run,) = scene.history("work")
    assert (run.status, run.reason) == (Status.FAILED, Reason.EXCEPTION)
    assert raised[0].startswith(
        "worker has no room for another request: 5 of 5 requests used or reserved; it opens again"
    )


async def test_what_others_have_reserved_is_not_there_for_more_requests(scene: Scene, server) -> None:
    """R-19: a run spends its own reservation first, then what is left."""
    sent = []

    def work(ctx) -> None:
        try:
            for _ in range(9):
                ctx.http.get(server.url)
        except rota.BudgetExceeded:
            sent.append(len(server.seen))

    going = threading.Event()
    scene.table.functions = {"other": going.wait, "work": work}
    put(
        scene,
        function("other", budgets=(Spend("worker", 1, Unit.REQUESTS),)),
        function("work", budgets=WORKER),
        accounts=(REQUESTS,),
    )
    scene.trigger("other")
    await scene.settle()
    scene.trigger("work")
    await scene.settle()
    while not sent:
        await scene.quiet()
    going.set()
    await play(scene)
    assert sent == [4]
    assert used(scene, REQUESTS) == (5, 0)


async def test_every_hop_of_a_redirect_is_a_request(scene: Scene, server) -> None:
    """R-19."""

    def work(ctx) -> None:
        assert ctx.http.get(f"{server.url}/there").url.path == "/here"

    await run_once(scene, work)
    assert used(scene, REQUESTS) == (2, 0)


async def test_an_account_that_warns_counts_and_lets_all_requests_pass(scene: Scene, server) -> None:
    """R-19: warn."""

    def work(ctx) -> None:
        for _ in range(7):
            ctx.http.get(server.url)

    await run_once(scene, work, accounts=(warning(REQUESTS),))
    assert len(server.seen) == 7
    assert used(scene, REQUESTS) == (7, 0)


async def test_a_function_that_opened_no_client_settles_at_its_estimate(scene: Scene) -> None:
    """R-19: nothing sees what it sent otherwise."""
    await run_once(scene, lambda ctx: None)
    assert used(scene, REQUESTS) == (2, 0)


async def test_a_function_reports_what_it_used_elsewhere(scene: Scene) -> None:
    """R-19: ctx.add_usage adds up."""

    def work(ctx) -> None:
        ctx.add_usage(requests=1, tokens_in=100, model="sonnet")
        ctx.add_usage(requests=2, tokens_in=10, tokens_out=5, usd=0.25)

    accounts = (REQUESTS, DAY)
    await run_once(scene, work, accounts=accounts, budgets=(Spend("day", dollars(1), Unit.USD), *WORKER))
    assert used(scene, REQUESTS) == (3, 0)
    assert used(scene) == (dollars(0.25), 0)
    assert artifacts(scene, "work")["usage"] == {
        "requests": 3,
        "tokens_in": 110,
        "tokens_out": 5,
        "usd_millionths": 250_000,
        "model": "sonnet",
    }


async def test_what_a_function_reported_before_it_failed_is_charged(scene: Scene) -> None:
    """R-19: what was spent is spent."""

    def work(ctx) -> None:
        ctx.add_usage(requests=4)
        raise ValueError("no")

    await run_once(scene, work)
    assert used(scene, REQUESTS) == (4, 0)


async def test_a_wrong_report_fails_in_the_function(scene: Scene) -> None:
    await run_once(scene, lambda ctx: ctx.add_usage(tokens_in=-1))
    assert scene.told("work") == [("FAILED", "exception")]
    assert "not a whole number from 0 on" in (scene.history("work")[0].error or "")


async def test_requests_in_the_next_window_count_there(scene: Scene, server) -> None:
    """R-19: a long run does not carry its requests back into the window in which it began."""
    first, second = threading.Event(), threading.Event()

    def work(ctx) -> None:
        ctx.http.get(server.url)
        first.set()
        second.wait()
        for _ in range(4):
            ctx.http.get(server.url)

    scene.table.functions = {"work": work}
    put(scene, function("work", budgets=WORKER), accounts=(REQUESTS,))
    scene.trigger("work")
    await scene.settle()
    while not first.is_set():
        await scene.quiet()
    scene.clock.advance(timedelta(hours=12))
    second.set()
    await play(scene)
    assert used(scene, REQUESTS) == (4, 0)
    scene.clock.step(-timedelta(hours=1))
    assert used(scene, REQUESTS) == (1, 0)


async def test_requests_of_a_condition_count_though_the_run_never_starts(scene: Scene, server) -> None:
    """R-09, R-19: nothing is reserved yet, and what was sent is spent."""

    def look(ctx) -> bool:
        ctx.http.get(server.url)
        return False

    scene.table.conditions = {"look": look}
    gates = Gates((Condition(name="look"),), when_false=WhenFalse.SKIP)
    await run_once(scene, lambda ctx: None, gates=gates)
    assert scene.told("work") == [("SKIPPED", "condition")]
    assert used(scene, REQUESTS) == (1, 0)


async def test_a_run_that_waits_for_its_condition_keeps_what_that_spent(scene: Scene, server) -> None:
    """R-09, R-19."""
    answers = iter([False, False, True])

    def look(ctx) -> bool:
        ctx.http.get(server.url)
        return next(answers)

    scene.table.functions, scene.table.conditions = {"work": lambda ctx: None}, {"look": look}
    gates = Gates((Condition(name="look"),), when_false=WhenFalse.WAIT, recheck=timedelta(minutes=1))
    put(scene, function("work", budgets=WORKER, gates=gates), accounts=(REQUESTS,))
    scene.trigger("work")
    for _ in range(3):
        await play(scene)
        await scene.advance("1m")
    await play(scene)
    assert scene.told("work") == [("COMPLETED", None)]
    assert used(scene, REQUESTS) == (5, 0)


async def test_a_thread_that_outlives_its_run_sends_nothing_more(scene: Scene, server) -> None:
    """R-19: its accounts are settled."""
    going, refused = threading.Event(), []

    def work(ctx) -> None:
        ctx.http.get(server.url)
        going.wait()
        try:
            ctx.http.get(server.url)
        except RuntimeError as error:
            refused.append(str(error))

    scene.table.functions = {"work": work}
    put(scene, function("work", budgets=WORKER), accounts=(REQUESTS,))
    handle = scene.trigger("work")
    await scene.settle()
    while len(server.seen) < 1:
        await scene.quiet()
    scene.engine.executor.stop(scene.history("work")[0].id)
    await scene.quiet()
    assert scene.history("work")[0].handle == handle
    assert scene.history("work")[0].status.final
    going.set()
    while not refused:
        await scene.quiet()
    assert refused == ["the run has ended and cannot send requests"]
    assert used(scene, REQUESTS) == (1, 0)
    await play(scene)


async def test_budget_left_is_false_without_room(scene: Scene) -> None:
    """R-09: a built-in condition."""
    gates = Gates((Condition(name="budget_left"),), when_false=WhenFalse.SKIP)
    await run_once(scene, lambda ctx: None, gates=gates, accounts=(skipping(REQUESTS),))
    for _ in range(2):
        scene.trigger("work")
        await play(scene)
    assert scene.told("work") == [("COMPLETED", None), ("COMPLETED", None), ("SKIPPED", "condition")]
    assert scene.clock.now() == NOON
