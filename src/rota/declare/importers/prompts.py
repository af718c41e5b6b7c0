"""The common parts of imports of prompts: adapters for models, and jobs for agents."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rota.declare.importers.translation import (
    ImportedJob,
    KeptKey,
    Remark,
    Source,
    Translation,
    TranslationDraft,
    Unmappable,
    json_entries,
)

_PROVIDERS = {
    "claude": "claude",
    "anthropic": "claude",
    "openai": "codex",
    "codex": "codex",
    "gpt": "codex",
    "google": "gemini",
    "gemini": "gemini",
    "ollama": "ollama",
}
AGENT_KEPT = (
    KeptKey("access: read", "rota's default: the agent looks and changes nothing; raise it where a task needs more"),
)
_EDITING = ("Edit", "Write", "NotebookEdit", "MultiEdit", "Bash")


def adapter_for(model: str, provider: str = "") -> tuple[str, str]:
    """Return the adapter and the model for `provider/model`; claude where neither names one that rota knows.

    >>> adapter_for("openai/gpt-5.2"), adapter_for("", "google"), adapter_for("zai/glm-5")
    (('codex', 'gpt-5.2'), ('gemini', ''), ('claude', ''))
    """
    before, slash, name = model.partition("/")
    named = provider or (before if slash else model)
    found = next((adapter for word, adapter in _PROVIDERS.items() if named.lower().startswith(word)), "")
    if not found:
        return "claude", ""
    return found, name if slash else model


def access_for(tools: list[str]) -> str:
    """Return the least access that tools of Claude Code need.

    >>> access_for(["Read", "Bash(git *)"]), access_for(["Read"])
    ('full', 'read')
    """
    plain = {tool.partition("(")[0] for tool in tools}
    if "Bash" in plain:
        return "full"
    return "write" if plain & set(_EDITING) else "read"


def plain_prompt(text: str) -> dict[str, Any]:
    """Return the keys of a prompt; a prompt with braces is given to the agent as it is written."""
    return {"prompt": text, **({"placeholders": False} if re.search(r"\{\{", text) else {})}


def texts_of(value: Any) -> list[str]:
    """Return the texts of a list, nothing for other values."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def map_of(value: Any) -> Mapping[str, Any]:
    """Return a map, an empty one for other values."""
    return value if isinstance(value, dict) else {}


class EntryReader(Protocol):
    """Returns the job of an entry, and what a person must do by hand; raises Unmappable."""

    def __call__(
        self, body: Mapping[str, Any], line: int, *, title: str, taken: Sequence[str]
    ) -> tuple[ImportedJob, list[str]]: ...


def translate_entries(
    source: Source,
    key: str,
    read_job: EntryReader,
    *,
    title_of: Callable[[Mapping[str, Any]], str],
    defaults: Mapping[str, Any],
    kept: Sequence[KeptKey],
) -> Translation:
    """Return the translation of a JSON list of jobs; an entry that cannot be mapped is left out."""
    entries, draft = json_entries(source.content, source.file, key=key), TranslationDraft()
    for entry in entries:
        body = map_of(entry.value)
        title = title_of(body)
        try:
            job, told = read_job(body, entry.line, title=title, taken=draft.names)
        except Unmappable as error:
            draft.left_out.append(Remark(entry.line, f"{title}: {error}"))
            continue
        draft.jobs.append(job)
        draft.by_hand += [Remark(entry.line, f"{job.name}: {text}") for text in told]
    return draft.translation(source.timezone, defaults, read=len(entries), kept=kept)
