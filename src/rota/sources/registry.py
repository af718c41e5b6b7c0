"""The work sources by kind: the one way by which the core knows them."""

from collections.abc import Callable, Mapping
from typing import Any

from rota.model.errors import SourceError
from rota.model.spec import SourceKind, WorkSource
from rota.model.work import Source
from rota.sources.directory import DirectorySource
from rota.sources.github import GitHubSource
from rota.sources.http import HttpSource
from rota.sources.python import make

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
