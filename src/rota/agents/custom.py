"""The adapter for any program, configured in the file."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from rota.agents.adapter import (
    Adapter,
    failed,
    failed_end,
    look_up,
    mcp_config,
    number,
    parse,
    read_events,
    succeeded,
    unknown_options,
)
from rota.model.agents import (
    KEPT_ALONE,
    Access,
    AgentInvocation,
    AgentResult,
    AgentTask,
    Capabilities,
    Probe,
    ProcessEnd,
)

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
PROVIDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
ACCESS = "{access}"
LEVELS = tuple(level for level in Access if level in KEPT_ALONE)
PLACES = (
    *("prompt", "model", "session", "max_turns", "max_usd", "allowed_tools", "mcp_config"),
    *("folder", "cwd", "run_id", "job", "access"),
)
OPTIONS = ("argv", "prompt", "parser", "paths", "provider", "version", "login", "access")
PROMPTS = ("argument", "stdin")
PARSERS = ("text", "json", "jsonl")
PATHS = ("result", "session", "tokens_in", "tokens_cached", "tokens_out", "usd", "error")


def placeholders(argv: Any) -> set[str]:
    """Return the placeholders of an argv, also those in its lists."""
    if isinstance(argv, str):
        return set(PLACEHOLDER.findall(argv))
    return {name for item in argv for name in placeholders(item)} if isinstance(argv, list | tuple) else set()


def complaints(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the problems of the options, each as `key: text`."""
    checks = (_argv, _choices, _paths, _access_options)
    return (*unknown_options(options, OPTIONS), *(problem for check in checks for problem in check(options)))


def _argv(options: Mapping[str, Any]) -> Iterator[str]:
    argv = options.get("argv")
    if not isinstance(argv, list | tuple) or not argv or not isinstance(argv[0], str) or not argv[0]:
        yield "argv: needs a list that begins with a program"
        return
    if not all(_is_word(item) or _is_words(item) for item in argv):
        yield "argv: takes texts, and lists of texts that are left out if a placeholder in them has no value"
    for name in sorted(placeholders(argv) - set(PLACES)):
        yield f"argv: {{{name}}} is not a placeholder; use one of {', '.join(PLACES)}"
    if options.get("prompt") == "stdin" and "prompt" in placeholders(argv):
        yield "argv: has a placeholder for the prompt, which is sent to stdin"
    for key in ("version", "login"):
        if key in options and not _is_words(options[key]):
            yield f"{key}: needs a list of texts"


def _is_word(item: Any) -> bool:
    return isinstance(item, str)


def _is_words(item: Any) -> bool:
    return isinstance(item, list | tuple) and bool(item) and all(map(_is_word, item))


def _choices(options: Mapping[str, Any]) -> Iterator[str]:
    for key, known in (("prompt", PROMPTS), ("parser", PARSERS)):
        if key in options and options[key] not in known:
            yield f"{key}: is {options[key]!r}, not one of {', '.join(known)}"
    if "provider" in options and not PROVIDER.fullmatch(str(options["provider"] or "")):
        yield "provider: needs a name of letters, digits and . _ -"


def _paths(options: Mapping[str, Any]) -> Iterator[str]:
    paths, parsed = options.get("paths", {}), options.get("parser", "text") != "text"
    if not isinstance(paths, Mapping) or not all(map(_is_word, paths.values())):
        yield "paths: needs a dotted path for each name"
        return
    for name in paths:
        if name not in PATHS:
            yield f"paths: {name} is not one of {', '.join(PATHS)}"
    if paths and not parsed:
        yield "paths: are read with parser: json or jsonl"
    if parsed and "result" not in paths:
        yield "paths: result is missing"


def _access_options(options: Mapping[str, Any]) -> Iterator[str]:
    levels = options.get("access")
    placed = "access" in placeholders(options.get("argv"))
    if levels is None:
        if placed:
            yield "argv: has a placeholder for access, but `access` has no arguments"
        return
    if not isinstance(levels, Mapping) or not levels:
        yield "access: needs the arguments of each level"
        return
    for level, words in levels.items():
        if level not in LEVELS:
            yield f"access: {level} is not one of {', '.join(LEVELS)}"
        if words and not _is_words(words):
            yield f"access: {level} needs a list of texts"
    if not placed:
        yield "argv: has no placeholder {access} for the arguments of `access`"


NAME = "custom"
COUNTS = ("tokens_in", "tokens_cached", "tokens_out")


def adapter(options: Mapping[str, Any]) -> Adapter:
    """Return the adapter of these options; a placeholder in its argv is a capability."""
    argv = options.get("argv") or ("",)
    version, login = (tuple(options.get(key) or ()) for key in ("version", "login"))
    places, paths = placeholders(options.get("argv") or ()), options.get("paths") or {}
    return Adapter(
        name=NAME,
        provider=str(options.get("provider") or NAME),
        executable=str(argv[0]),
        capabilities=Capabilities(
            allowed_tools="allowed_tools" in places,
            max_turns="max_turns" in places,
            max_usd="max_usd" in places,
            resume="session" in places and "session" in paths,
            cost="usd" in paths,
            tools_server="mcp_config" in places,
            model="model" in places,
            # Without `access` in the file nothing restricts the program, so only full access is honest.
            access=frozenset(map(Access, options.get("access") or {Access.FULL})),
        ),
        probe=Probe(version, login) if version or login else None,
        invoke=invoke,
        read=read,
        complaints=complaints,
    )


def invoke(task: AgentTask) -> AgentInvocation:
    """Return the process of a task with its placeholders filled; a list with an empty placeholder is left out."""
    options = task.options
    values = {
        "prompt": task.prompt,
        "model": task.model,
        "session": task.session_id,
        "max_turns": None if task.max_turns is None else str(task.max_turns),
        "max_usd": None if task.max_usd is None else str(task.max_usd),
        "allowed_tools": ",".join(task.allowed_tools) or None,
        "mcp_config": json.dumps(mcp_config(task)) if task.tools_server else None,
        "folder": task.folder,
        "cwd": task.cwd,
        "run_id": task.run_id,
        "job": task.job,
    }
    by_argument = options.get("prompt", "argument") == "argument"
    argv = options["argv"]
    if by_argument and "prompt" not in placeholders(argv):
        argv = [*argv, "{prompt}"]
    access = (options.get("access") or {}).get(str(task.access)) or ()
    filled = [word for item in argv for word in _filled(item, values, access=access)]
    return AgentInvocation(tuple(filled), stdin=None if by_argument else task.prompt)


def _filled(item: Any, values: Mapping[str, str | None], *, access: Sequence[str]) -> list[str]:
    if item == ACCESS:
        return list(access)
    if isinstance(item, str):
        return [PLACEHOLDER.sub(lambda place: values.get(place[1], place[0]) or "", item)]
    missing = any(values.get(name, "") is None for name in placeholders(item))
    return [] if missing else [word for each in item for word in _filled(each, values, access=access)]


# output


def read(ended: ProcessEnd, task: AgentTask) -> AgentResult:
    """Return the result of a process; success needs exit code 0, no error and an answer."""
    parser = task.options.get("parser", "text")
    plain = parser == "text"
    documents = [] if plain else read_events(ended.stdout)
    if parser == "json" and (document := parse(ended.stdout)) is not None:
        documents = [document]
    outcome = _figures(documents, task)
    if plain:
        outcome = replace(outcome, summary=ended.stdout.strip())
    error = _error(_last(documents, _path(task, "error")), outcome.summary)
    if error:
        return failed(outcome, error, at=ended.ended_at)
    if ended.exit_code != 0:
        return failed_end(task.options["argv"][0], outcome, ended)
    if not plain and not documents:
        return failed(outcome, f"its output is not {parser}", plain=True)
    return succeeded(outcome)


def _figures(documents: list[Any], task: AgentTask) -> AgentResult:
    texts = {name: _last(documents, _path(task, name)) for name in ("result", "session")}
    counts = {name: number(_last(documents, _path(task, name))) for name in COUNTS}
    tokens = {name: None if count is None else int(count) for name, count in counts.items()}
    return AgentResult(
        summary=_text(texts["result"]),
        session_id=_text(texts["session"]) or None,
        tokens_in=tokens["tokens_in"],
        tokens_cached=tokens["tokens_cached"],
        tokens_out=tokens["tokens_out"],
        usd=number(_last(documents, _path(task, "usd"))),
        model=task.model,
    )


def _path(task: AgentTask, name: str) -> str | None:
    path = (task.options.get("paths") or {}).get(name)
    return None if path is None else str(path)


def _last(documents: list[Any], path: str | None) -> Any:
    """Return the value at a path in the last document that has one."""
    if path is None:
        return None
    return next((value for each in reversed(documents) if (value := look_up(each, path)) is not None), None)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _error(value: Any, summary: str) -> str:
    """Return the text of an error; `true` marks the result as an error."""
    if value is True:
        return summary or "it reported an error"
    return _text(value) if value else ""
