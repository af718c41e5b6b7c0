"""Work sources in a file."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from rota.declare.problems import (
    FUNCTION,
    BadValue,
    ProblemList,
    Reader,
    between,
    matching,
    read_text,
    shown,
    whole,
    wrong_type,
)
from rota.declare.readers.values import read_env_value, read_headers, read_keys, read_params, read_url
from rota.model.errors import Problem
from rota.model.spec import EnvValue, SourceKind, WorkSource
from rota.sources.github import LABELS

HINT = "write `work_source: {github: owner/repository, label: agent-ready, token: {secret: GITHUB_TOKEN}}`"
TIMEOUT = between(timedelta(seconds=1), timedelta(minutes=10), said="1s and 10m")
LABEL_LIMIT = 50
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}", re.ASCII)


def read_work_source(value: Any) -> WorkSource:
    """Return a work source; the folder of one of kind `directory` as it was written."""
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a work source", hint=HINT)
    kinds = [kind for kind in SourceKind if kind in value]
    readers = {**_ANY_KIND, **{key: reader for kind in kinds for key, reader in _KINDS[kind].items()}}
    with ProblemList() as problems:
        if len(kinds) != 1:
            message = f"has {' and '.join(kinds)}" if kinds else "does not name a source"
            code = "conflict" if kinds else "missing_value"
            problems.add(Problem(message, code, hint=f"keep one of {', '.join(SourceKind)}"))
        written = value if kinds else {key: value[key] for key in value if key in readers}
        keys = read_keys(written, readers, problems=problems, hint=HINT)
        if kinds == [SourceKind.GITHUB]:
            problems.add(*_wrong_github(value, keys, problems))
    kind = kinds[0]
    work_source = WorkSource(kind, keys.pop(kind), timeout=keys.pop("timeout", _USUAL.timeout))
    work_source = replace(work_source, attempts=keys.pop("attempts", _USUAL.attempts))
    return _with_keys(work_source, keys)


_USUAL = WorkSource(SourceKind.HTTP, "")


def _read_label(value: Any) -> str:
    text = read_text(value).strip()
    if "," in text or len(text) > LABEL_LIMIT or not text.isprintable():
        raise BadValue(f"{shown(text)} cannot be a label", hint=f"at most {LABEL_LIMIT} characters, and no comma")
    return text


def _read_secret(value: Any) -> EnvValue:
    """Return a secret by its name; the value itself has no place in a file."""
    env = read_env_value(value)
    if env.secret is None:
        hint = "write {secret: NAME}: name secrets, do not write them into the file"
        raise BadValue("is a literal secret", hint=hint)
    return env


def _read_options(value: Any) -> tuple[dict[str, Any], tuple[EnvValue, ...]]:
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map of arguments", hint="write `options: {board: ops, key: {secret: NAME}}`")
    secret = [name for name in value if isinstance(value[name], Mapping) and set(value[name]) == {"secret"}]
    values: list[EnvValue] = []
    with ProblemList() as problems:
        for name in secret:
            with problems.below(name):
                values.append(replace(_read_secret(value[name]), name=str(name)))
        params = read_params({name: one for name, one in value.items() if name not in secret})
    return params, tuple(values)


def _wrong_github(value: Mapping[str, Any], keys: Mapping[str, Any], problems: ProblemList) -> list[Problem]:
    found: list[Problem] = []
    if "token" not in value and not problems.mistyped:
        found.append(Problem("has no token", "missing_value", hint="add `token: {secret: GITHUB_TOKEN}`"))
    labels = {name: keys.get(name, usual) for name, usual in LABELS.items() if name in keys or name not in value}
    for name, label in labels.items():
        other = next(key for key, one in labels.items() if one.lower() == label.lower())
        if other != name:
            message = f"{shown(label)} is also the label of `{other}`"
            found.append(Problem(message, "conflict", at=(name,) if name in keys else (), hint="give each its own"))
    return found


def _with_keys(found: WorkSource, keys: dict[str, Any]) -> WorkSource:
    if found.kind is SourceKind.GITHUB:
        token = replace(keys.pop("token"), name="token")
        return replace(found, options=keys, values=(token,))
    if found.kind is SourceKind.HTTP:
        return replace(found, values=tuple(keys.get("headers", {}).values()))
    options, values = keys.get("options", ({}, ())) if found.kind is SourceKind.RUN else (keys, ())
    return replace(found, options=options, values=values)


_read_repository = matching(_REPOSITORY, "a repository", hint="write it as owner/name, such as me/api")
_read_class = matching(FUNCTION, "a class", hint="write module:Class, or the name of a registered one")
_ANY_KIND: Mapping[str, Reader] = {"timeout": TIMEOUT, "attempts": whole(1, 100)}
_KINDS: Mapping[SourceKind, Mapping[str, Reader]] = {
    SourceKind.GITHUB: {
        SourceKind.GITHUB: _read_repository,
        **dict.fromkeys(LABELS, _read_label),
        "token": _read_secret,
        "api_url": read_url,
    },
    SourceKind.DIRECTORY: {SourceKind.DIRECTORY: read_text, "pattern": read_text},
    SourceKind.HTTP: {SourceKind.HTTP: read_url, "headers": read_headers},
    SourceKind.RUN: {SourceKind.RUN: _read_class, "options": _read_options},
}


def refuse_source_elsewhere(source: WorkSource | None, python: str | None) -> None:
    """Refuse a class where the functions of a project run in processes: a source is asked by the scheduler itself."""
    if source is not None and source.kind is SourceKind.RUN and python is not None:
        message = "a work source's class runs inside the scheduler's process, not in another interpreter"
        hint = "use `http:`, or start rota from the project's environment and remove `python:`"
        raise BadValue(message, code="conflict", hint=hint, at=("work_source", "run"))


def write_work_source(source: WorkSource, place: Callable[[str], str]) -> dict[str, Any]:
    """Return the keys of a work source; `place` writes a path as the file would."""
    written = place(source.place) if source.kind is SourceKind.DIRECTORY else source.place
    keys: dict[str, Any] = {source.kind.value: written}
    values = {env.name: env.written for env in source.values}
    if source.kind is SourceKind.RUN:
        keys |= {"options": {**source.options, **values}} if source.options or values else {}
    elif source.kind is SourceKind.HTTP:
        keys |= {"headers": values} if values else {}
    else:
        keys |= {**source.options, **values}
    seconds = int(source.timeout.total_seconds())
    keys |= {"timeout": seconds} if source.timeout != _USUAL.timeout else {}
    return keys | ({"attempts": source.attempts} if source.attempts != _USUAL.attempts else {})
