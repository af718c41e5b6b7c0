"""What the storage refuses: told once however often it is met, and forgotten as soon as it works again."""

import contextlib
from collections.abc import Iterator

from rota.log import log
from rota.model.clock import Clock
from rota.model.errors import StateError

AGAIN = 1.0
"""After how many seconds what was refused is tried again."""

FRESH = 60.0


class Refusals:
    """What was refused of late, by the stage that met it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._met: dict[str, tuple[str, float]] = {}

    @property
    def problem(self) -> str | None:
        """What the storage refused of late; everything refused is tried again well within that time."""
        since = self._clock.monotonic() - FRESH
        return next((text for text, at in self._met.values() if at >= since), None)

    def meet(self, stage: str, error: BaseException) -> None:
        """Tell a refusal once, however often it is met again."""
        told, _ = self._met.get(stage, ("", 0.0))
        if told != str(error):
            log.error("the storage refuses, trying again", stage=stage, error=str(error))
        self._met[stage] = (str(error), self._clock.monotonic())

    def clear(self, stage: str) -> None:
        """Note that a stage could store."""
        if self._met.pop(stage, None) is not None:
            log.info("the storage works again", stage=stage)

    @contextlib.contextmanager
    def telling(self, stage: str) -> Iterator[None]:
        """Tell what the storage refuses in here, and let it through."""
        try:
            yield
        except StateError as error:
            self.meet(stage, error)
            raise
