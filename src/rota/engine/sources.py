"""Work sources for the engine: made from their definitions, secrets read, each call on a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rota.model.errors import RotaError, SourceError
from rota.model.spec import EnvValue, SourceKind, WorkSource
from rota.model.work import Source
from rota.runners.secrets import Secrets
from rota.settings import Settings
from rota.sources.registry import source

T = TypeVar("T")
Classes = Callable[[], Mapping[str, Callable[..., Any]]]


class ThreadedSources:
    """Makes sources and calls them. A thread cannot be ended: one that takes too long is left, and heard when it ends.

    `classes` are those of the loaded file; an object of one is kept, and may be called from several threads.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str], classes: Classes = dict) -> None:
        self._secrets = Secrets(settings.state, environ)
        self._classes = classes
        self._kept: dict[tuple[str, tuple[tuple[str, str], ...], int], Source] = {}

    def find(self, wanted: WorkSource) -> Source:
        """Return a source; raise SecretMissing, or SourceError where it cannot be made."""
        values = {one.name: self._value(one) for one in wanted.values}
        classes = self._classes()
        key = (wanted.key, tuple(sorted(values.items())), id(classes.get(wanted.place)))
        if key in self._kept:
            return self._kept[key]
        try:
            made = source(wanted, values, classes=classes)
        except SourceError as error:
            raise self._secrets.hide_in(error) from None
        if wanted.kind is SourceKind.RUN:
            self._kept[key] = made
        return made

    def _value(self, one: EnvValue) -> str:
        return one.value or "" if one.secret is None else self._secrets.find(one.secret)

    async def ask(self, call: Callable[[], T], *, within: float, late: Callable[[], None] = lambda: None) -> T:
        """Return what a call brings; raise what it raises, or SourceError when it takes too long.

        `late` is called when it ends after nobody waits any more.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def hand_over(found: T | None, error: BaseException | None) -> None:
            if answer.done():  # nobody waits: it was cancelled, or took too long
                late()
            elif error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(found)  # type: ignore[arg-type]

        def work() -> None:
            found, error = self._called(call)
            try:
                loop.call_soon_threadsafe(hand_over, found, error)
            except RuntimeError:
                pass  # the loop is closed: the next process finds the claim in the database

        threading.Thread(target=work, name="rota-source", daemon=True).start()
        try:
            return await asyncio.wait_for(answer, within)
        except TimeoutError:
            hint = "look at the source, or raise its `timeout`"
            raise SourceError(f"it did not answer within {within:g} s", hint=hint) from None

    def _called(self, call: Callable[[], T]) -> tuple[T | None, BaseException | None]:
        try:
            return call(), None
        except RotaError as error:
            return None, self._secrets.hide_in(error)
        except Exception as error:
            return None, self._secrets.hide_in(SourceError(f"{type(error).__name__}: {error}".rstrip(": ")))
