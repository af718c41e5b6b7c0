"""The work sources by name, Python classes as sources included."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rota.model.agents import Source, WorkAhead, WorkItem, WorkReport, WorkRequest
from rota.model.errors import RotaError, SourceError
from rota.model.spec import SourceKind, WorkSource
from rota.sources.directory import DirectorySource
from rota.sources.github import GitHubSource
from rota.sources.http import HttpSource
from rota.sources.items import make_item, read_item

REQUIRED_METHODS = ("next_item", "report", "release")


def lacking(made: Any) -> str | None:
    """Return the method that an object lacks to be a work source, or None."""
    return next((name for name in REQUIRED_METHODS if not callable(getattr(made, name, None))), None)


class PythonSource:
    """Calls a class of the project; methods may be `async`. `release_claim` and `peek` are optional."""

    def __init__(self, name: str, made: Any) -> None:
        self._name = name
        self._made = made

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        """Claim the next item: a WorkItem, a map of its parts, or None."""
        item = self._call("next_item", request)
        return None if item is None else self._read(item)

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        """Report the outcome of the work."""
        self._call("report", item, outcome)

    def release(self, item: WorkItem, /) -> None:
        """Release an item."""
        self._call("release", item)

    def release_claim(self, request: WorkRequest, /) -> None:
        """Release the item of a request, if the class supports it."""
        if callable(getattr(self._made, "release_claim", None)):
            self._call("release_claim", request)

    def peek(self, request: WorkRequest, /) -> WorkAhead:
        """Return the waiting items, if the class supports it: a WorkAhead, an item, or None."""
        if not callable(getattr(self._made, "peek", None)):
            return WorkAhead()
        ahead = self._call("peek", request)
        if isinstance(ahead, WorkAhead):
            return ahead
        return WorkAhead(0) if ahead is None else WorkAhead(next=self._read(ahead))

    def _read(self, item: Any) -> WorkItem:
        if isinstance(item, Mapping):
            return read_item(item, claim=item.get("claim") or {}, source=self._name)
        if not isinstance(item, WorkItem):
            raise SourceError(f"{self._name} returned a {type(item).__name__}", hint="return a rota.WorkItem, or None")
        parts = {name: getattr(item, name) for name in ("description", "url", "metadata", "claim")}
        return make_item(item.id, item.title, **parts)

    def _call(self, method: str, *args: Any) -> Any:
        import asyncio

        try:
            answer = getattr(self._made, method)(*args)
            return asyncio.run(_wait(answer)) if inspect.isawaitable(answer) else answer
        except RotaError:
            raise
        except Exception as error:
            raise SourceError(f"{self._name}.{method}: {type(error).__name__}: {error}".rstrip(": ")) from error


async def _wait(answer: Any) -> Any:
    return await answer


def make(name: str, factory: Callable[..., Any], options: Mapping[str, Any]) -> PythonSource:
    """Return the source that a class creates from its options."""
    try:
        made = factory(**options)
    except Exception as error:
        raise SourceError(f"{name} cannot be created: {type(error).__name__}: {error}".rstrip(": ")) from error
    missing = lacking(made)
    if missing is not None:
        raise SourceError(f"{name} has no method {missing}", hint=f"a work source has {', '.join(REQUIRED_METHODS)}")
    return PythonSource(name, made)


Factory = Callable[..., Any]


def source(wanted: WorkSource, values: Mapping[str, str], *, classes: Mapping[str, Factory]) -> Source:
    """Return the source that a job names; `values` are its secrets and headers, `classes` those of the loaded file."""
    timeout = wanted.timeout.total_seconds()
    match wanted.kind:
        case SourceKind.GITHUB:
            options = {key: str(value) for key, value in wanted.options.items()}
            return GitHubSource(wanted.place, options, token=values["token"], timeout=timeout)
        case SourceKind.DIRECTORY:
            return DirectorySource(wanted.place, pattern=wanted.options.get("pattern", "*"))
        case SourceKind.HTTP:
            return HttpSource(wanted.place, values, timeout=timeout)
        case SourceKind.RUN:
            if wanted.place in classes:
                return make(wanted.place, classes[wanted.place], {**wanted.options, **values})
            raise SourceError(f'no work source "{wanted.place}" is loaded', hint="the file that named it has changed")
