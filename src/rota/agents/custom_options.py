"""The options of a custom agent, and what can be wrong with them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rota.model.agents import Access

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
PROVIDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
ACCESS = "{access}"
PLACES = (
    *("prompt", "model", "session", "max_turns", "max_usd", "allowed_tools", "mcp_config"),
    *("folder", "cwd", "run_id", "job", "access"),
)
OPTIONS = ("argv", "prompt", "parser", "paths", "provider", "version", "login", "access")
PROMPTS = ("argument", "stdin")
PARSERS = ("text", "json", "jsonl")
PATHS = ("result", "session", "tokens_in", "tokens_cached", "tokens_out", "usd", "error")


def placeholders(argv: Any) -> set[str]:
    """Return the places that an argv has, also those in its lists."""
    if isinstance(argv, str):
        return set(PLACEHOLDER.findall(argv))
    return {name for item in argv for name in placeholders(item)} if isinstance(argv, list | tuple) else set()


def complaints(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is wrong with the options, each as `key: text`."""
    unknown = (f"{name}: unknown option" for name in options if name not in OPTIONS)
    return (*unknown, *_argv(options), *_choices(options), *_paths(options), *_access(options))


def _argv(options: Mapping[str, Any]) -> Iterator[str]:
    argv = options.get("argv")
    if not isinstance(argv, list | tuple) or not argv or not isinstance(argv[0], str) or not argv[0]:
        yield "argv: needs a list that begins with a program"
        return
    if not all(_is_word(item) or _is_words(item) for item in argv):
        yield "argv: holds texts, and lists of texts that go when a place in them has no value"
    for name in sorted(placeholders(argv) - set(PLACES)):
        yield f"argv: {{{name}}} is no place; there are {', '.join(PLACES)}"
    if options.get("prompt") == "stdin" and "prompt" in placeholders(argv):
        yield "argv: has a place for the prompt, which goes to stdin"
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
            yield f"paths: {name} is none of {', '.join(PATHS)}"
    if paths and not parsed:
        yield "paths: are read with parser: json or jsonl"
    if parsed and "result" not in paths:
        yield "paths: result is missing"


def _access(options: Mapping[str, Any]) -> Iterator[str]:
    levels = options.get("access")
    placed = "access" in placeholders(options.get("argv"))
    if levels is None:
        if placed:
            yield "argv: has a place for access, and access says nothing to put there"
        return
    if not isinstance(levels, Mapping) or not levels:
        yield "access: needs the arguments of each level that it keeps"
        return
    for level, words in levels.items():
        if level not in tuple(Access):
            yield f"access: {level} is none of {', '.join(Access)}"
        if words and not _is_words(words):
            yield f"access: {level} needs a list of texts"
    if not placed:
        yield "argv: has no place {access} for what access says"
