"""The work sources by name, Python classes as sources included."""

import asyncio
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

NEEDED = ("next_item", "report", "release")


def lacking(made: Any) -> str | None:
    """Return which method something lacks to be a work source, None for none."""
    return next((name for name in NEEDED if not callable(getattr(made, name, None))), None)


class PythonSource:
    """Calls a class of the project; methods may be `async`. `release_claim` and `peek` need not be there."""

    def __init__(self, name: str, made: Any) -> None:
        self._name = name
        self._made = made

    def next_item(self, request: WorkRequest, /) -> WorkItem | None:
        """Claim the next item: a WorkItem, a map of its parts, or None."""
        found = self._call("next_item", request)
        return None if found is None else self._read(found)

    def report(self, item: WorkItem, outcome: WorkReport, /) -> None:
        """Tell how the work ended."""
        self._call("report", item, outcome)

    def release(self, item: WorkItem, /) -> None:
        """Give an item back."""
        self._call("release", item)

    def release_claim(self, request: WorkRequest, /) -> None:
        """Give back what a request may have claimed, where the class can tell."""
        if callable(getattr(self._made, "release_claim", None)):
            self._call("release_claim", request)

    def peek(self, request: WorkRequest, /) -> WorkAhead:
        """Return what there is, where the class can tell: a WorkAhead, an item, or None."""
        if not callable(getattr(self._made, "peek", None)):
            return WorkAhead()
        found = self._call("peek", request)
        if isinstance(found, WorkAhead):
            return found
        return WorkAhead(0) if found is None else WorkAhead(next=self._read(found))

    def _read(self, found: Any) -> WorkItem:
        if isinstance(found, Mapping):
            return read_item(found, claim=found.get("claim") or {}, source=self._name)
        if not isinstance(found, WorkItem):
            raise SourceError(f"{self._name} gave a {type(found).__name__}", hint="return a rota.WorkItem, or None")
        return make_item(
            found.id,
            found.title,
            description=found.description,
            url=found.url,
            metadata=found.metadata,
            claim=found.claim,
        )

    def _call(self, method: str, *args: Any) -> Any:
        try:
            found = getattr(self._made, method)(*args)
            return asyncio.run(_awaited(found)) if inspect.isawaitable(found) else found
        except RotaError:
            raise
        except Exception as error:
            raise SourceError(f"{self._name}.{method}: {type(error).__name__}: {error}".rstrip(": ")) from error


async def _awaited(found: Any) -> Any:
    return await found


def make(name: str, factory: Callable[..., Any], options: Mapping[str, Any]) -> PythonSource:
    """Return the source that a class makes of its options."""
    try:
        made = factory(**options)
    except Exception as error:
        raise SourceError(f"{name} cannot be made: {type(error).__name__}: {error}".rstrip(": ")) from error
    missing = lacking(made)
    if missing is not None:
        raise SourceError(f"{name} has no method {missing}", hint=f"a work source has {', '.join(NEEDED)}")
    return PythonSource(name, made)


Factory = Callable[..., Any]


def source(wanted: WorkSource, values: Mapping[str, str], *, classes: Mapping[str, Factory]) -> Source:
    """Return the source that a job names; `values` are its secrets and headers, `classes` those of the loaded file."""
    return _MAKERS[wanted.kind](wanted, values, classes)


def _github(wanted: WorkSource, values: Mapping[str, str], _classes: Mapping[str, Factory]) -> Source:
    options = {key: str(value) for key, value in wanted.options.items()}
    return GitHubSource(wanted.place, options, token=values["token"], timeout=wanted.timeout.total_seconds())


def _directory(wanted: WorkSource, _values: Mapping[str, str], _classes: Mapping[str, Factory]) -> Source:
    return DirectorySource(wanted.place, pattern=wanted.options.get("pattern", "*"))


def _http(wanted: WorkSource, values: Mapping[str, str], _classes: Mapping[str, Factory]) -> Source:
    return HttpSource(wanted.place, values, timeout=wanted.timeout.total_seconds())


def _python(wanted: WorkSource, values: Mapping[str, str], classes: Mapping[str, Factory]) -> Source:
    factory = classes.get(wanted.place)
    if factory is None:
        raise SourceError(f'no work source "{wanted.place}" is loaded', hint="the file that named it has changed")
    return make(wanted.place, factory, {**wanted.options, **values})


_MAKERS = {
    SourceKind.GITHUB: _github,
    SourceKind.DIRECTORY: _directory,
    SourceKind.HTTP: _http,
    SourceKind.RUN: _python,
}
