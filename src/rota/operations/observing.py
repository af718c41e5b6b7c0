"""Who watches a serving scheduler, such as its console."""

from collections.abc import Collection
from typing import Protocol

from rota.declare.plan import Plan
from rota.engine.fire import Fired
from rota.engine.stopping import Stop
from rota.model.errors import RotaError
from rota.model.records import Run
from rota.operations.pauses import Pauses
from rota.settings import Settings


class Observer(Protocol):
    """What is told to whoever watches a serving scheduler."""

    def serving(self, settings: Settings, *, recovered: int, going_on: Collection[str] = ()) -> None:
        """The scheduler is up; so many runs of an earlier process were looked after, these of them go on."""
        ...

    def applied(self, plan: Plan) -> None:
        """The file was applied."""
        ...

    def broken(self, error: RotaError) -> None:
        """The file cannot be applied; the last good set goes on."""
        ...

    def paused(self, found: Pauses) -> None:
        """Pauses began, changed or ended."""
        ...

    def fired(self, fired: Fired) -> None:
        """Instants of a job were accounted for."""
        ...

    def finished(self, run: Run) -> None:
        """A run ended, or went back to wait."""
        ...

    def listening(self, url: str) -> None:
        """HTTP is served at this address."""
        ...

    def stopping(self, stop: Stop, *, running: int) -> None:
        """The scheduler was asked to stop."""
        ...
