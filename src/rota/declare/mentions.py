"""Which functions and conditions a file mentions, where, and which of them nobody knows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.declare.files import KeyPath
from rota.declare.jobs import Surroundings, Trouble, interpreter_of
from rota.declare.registry import BUILTIN_CONDITIONS, FunctionFinder, ImportingFinder
from rota.declare.words import NAME_LIMIT
from rota.model.errors import RotaError
from rota.settings import Settings

FinderOf = Callable[[str, Settings], FunctionFinder]
"""Makes a finder for another interpreter from its path and the project."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in the file that must exist, and the interpreter that must know it (None: this one)."""

    path: KeyPath
    name: str
    condition: bool
    python: str | None


def mentions_of(name: str, raw: Mapping[str, Any], *, own: Mapping[str, Any], around: Surroundings) -> list[Mention]:
    """Return the names that one job mentions, also beside mistakes; its conditions run where its function does."""
    python = interpreter_of(own, around) if "run" in own else around.python
    found = [Mention(("jobs", name, "run"), own["run"], condition=False, python=python)] if "run" in own else []
    return found + [
        Mention(path, condition, condition=True, python=python)
        for path, condition in _conditions(name, raw, around)
        if condition not in BUILTIN_CONDITIONS
    ]


def _conditions(name: str, raw: Mapping[str, Any], around: Surroundings) -> list[tuple[KeyPath, str]]:
    if "conditions" not in raw:
        defaults = enumerate(around.defaults.get("conditions", ()))
        return [(("defaults", "conditions", index), gate.name) for index, gate in defaults if gate.name]
    items = raw["conditions"] if isinstance(raw["conditions"], list) else []
    written = [item.get("name") if isinstance(item, dict) and "command" not in item else item for item in items]
    return [
        (("jobs", name, "conditions", index), text)
        for index, text in enumerate(written)
        if isinstance(text, str) and 0 < len(text.strip()) <= NAME_LIMIT
    ]


def unknown_names(
    mentions: Sequence[Mention], settings: Settings, *, functions: FunctionFinder | None, interpreter: FinderOf | None
) -> list[Trouble]:
    """Return a trouble, with its whole path, for each module that cannot be imported and each name nobody knows."""
    troubles: list[Trouble] = []
    for python in dict.fromkeys((settings.python, *(mention.python for mention in mentions))):
        theirs = [mention for mention in mentions if mention.python == python]
        finder = functions or _finder(python, settings, interpreter)
        if finder is not None and (theirs or settings.imports):
            troubles += _ask(finder, theirs, settings=settings)
    return list(dict.fromkeys(troubles))


def _finder(python: str | None, settings: Settings, interpreter: FinderOf | None) -> FunctionFinder | None:
    if python is None:
        return ImportingFinder(settings.folder, settings.imports)
    return interpreter(python, settings) if interpreter else None


def _ask(finder: FunctionFinder, mentions: Sequence[Mention], *, settings: Settings) -> list[Trouble]:
    functions = dict.fromkeys(mention.name for mention in mentions if not mention.condition)
    conditions = dict.fromkeys(mention.name for mention in mentions if mention.condition)
    try:
        missing = finder.find(list(functions), list(conditions))
    except RotaError as error:
        return [Trouble(("python",), error.message, error.code, error.hint)]
    failed = [
        _said(("imports", index), missing[module], "import_failed")
        for index, module in enumerate(settings.imports)
        if module in missing
    ]
    # A module that failed registered nothing: the names it would have brought are no problems of their own.
    return failed or [
        _said(mention.path, missing[mention.name], "condition_missing" if mention.condition else "function_missing")
        for mention in mentions
        if mention.name in missing
    ]


def _said(path: KeyPath, message: str, code: str) -> Trouble:
    text, _, hint = message.partition("; ")
    return Trouble(path, text, code, hint)
