"""What must be so after every step: what is stored is what the model says, and `rota verify` is content."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant

from rota.model.clock import to_ms
from rota.operations.verify.verify import verify
from rota.store.tables import queue
from tests.engine.calling import look
from tests.machine.model import Model, Run
from tests.scene import Beside, Scene

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
MS = timedelta(milliseconds=1)
RUNS = """
SELECT run.job, run.number, run.status, run.reason, run.trigger, run.attempt, earlier.job || ':' || earlier.number,
    run.priority, run.params, run.waiting_for, run.not_before, run.cancel_reason,
    run_group.name || ':' || run_group.number, run.place, run.scheduled_for
FROM run_now AS run LEFT JOIN run_group ON run_group.id = run.group_id
LEFT JOIN run_now AS earlier ON earlier.id = run.retry_of
"""
QUEUE = """
SELECT job, number FROM run_now WHERE status = 'QUEUED' AND lane_id > 0
ORDER BY priority DESC, position, created_at, seq
"""
PARAMS = 6
"""Where they stand in such a row, behind the handle."""
GROUPS = "SELECT name, number, status FROM run_group ORDER BY id"


def same(stored: object, expected: object) -> None:
    """Compare, and say both where they differ."""
    assert stored == expected, f"rota: {stored}\nmodel: {expected}"


class Standing(RuleBasedStateMachine):
    """A scene and the model of it, compared."""

    scene: Scene
    model: Model
    beside: Beside
    callers: dict[str, Any]
    eager: bool

    def open(self) -> None:
        """Look at the database with plain SQL, past rota."""
        self.beside = Beside(self.scene.settings.state)

    @property
    def now(self) -> datetime:
        return self.scene.clock.now()

    def settle(self) -> None:
        """Let the loops turn."""
        raise NotImplementedError

    @invariant()
    def stands_as_the_model_says(self) -> None:
        """Compare every run, group, call and pool, the order of starts and of the queue, and what is due next."""
        if hasattr(self, "model"):
            if self.eager:
                self.settle()
            stored, wanted = self.stored_runs(), self.expected_runs()
            wrong = {handle for handle in stored.keys() | wanted.keys() if stored.get(handle) != wanted.get(handle)}
            assert not wrong, {handle: (stored.get(handle), wanted.get(handle)) for handle in sorted(wrong)}
            same(self.scene.processes.begun, self.model.begun)
            same(self.stored_queue(), [run.handle for run in self.model.queue()])
            same(self.stored_groups(), self.expected_groups())
            same(self.stored_calls(), self.expected_calls())
            same({pool.name: pool.used for pool in self.scene.store.read(queue.pools)}, self.model.used())
            self.audit(quick=True)

    def audit(self, *, quick: bool) -> None:
        """Ask `rota verify`; `quick` leaves out what costs most, the pages of the file and the processes.

        While the clock was set back and no scheduler has seen it yet, times look wrong.
        """
        if self.model.drift < 0 or (quick and not self.model.jobs):
            return
        names, alive = tuple(self.model.jobs), self.scene.processes.alive
        chosen = names if quick else ()
        found = verify(self.scene.store, self.scene.settings.state, now=self.now, jobs=chosen, quick=quick, alive=alive)
        assert found.violations == (), found.violations

    def stored_runs(self) -> dict[str, Any]:
        return {f"{name}:{number}": self._told(list(told)) for name, number, *told in self.beside.rows(RUNS)}

    def _told(self, told: list[Any]) -> list[Any]:
        told[PARAMS] = json.loads(told[PARAMS]).get("value")
        return told

    def expected_runs(self) -> dict[str, Any]:
        return {run.handle: self.expected(run) for run in self.model.runs.values()}

    def expected(self, run: Run) -> list[Any]:
        value = None if run.job.members else run.value
        waits = [run.waiting, self.wall(run.not_before)] if run.status == "QUEUED" else [None, None]
        told = [run.status, run.reason, run.trigger, run.attempt, run.retry_of, run.priority, value, *waits]
        group = None if run.group is None else f"{run.group.name}:{run.group.number}"
        return [*told, run.asked, group, run.place or None, self.wall(run.instant)]

    def wall(self, at: int | None) -> int | None:
        return None if at is None else to_ms(NOON) + at

    def stored_queue(self) -> list[str]:
        return [f"{name}:{number}" for name, number in self.beside.rows(QUEUE)]

    def stored_groups(self) -> list[tuple[Any, ...]]:
        return self.beside.rows(GROUPS)

    def expected_groups(self) -> list[tuple[Any, ...]]:
        return [(group.name, group.number, group.status) for group in self.model.groups]

    def stored_calls(self) -> dict[str, Any]:
        found = {name: look(self.scene, name) for name in self.callers}
        return {name: (view.status.shown.value, view.reason) for name, view in found.items() if view is not None}

    def expected_calls(self) -> dict[str, Any]:
        return {call.name: (call.status, call.reason) for call in self.model.calls}
