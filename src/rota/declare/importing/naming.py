"""Names for jobs from the commands they start: `/opt/ops/disk-check.sh -q` becomes `disk-check`."""

import re
from collections.abc import Collection

LONGEST = 60
_APART = re.compile(r"&&|\|\||[;|&(){}\n]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=\S*")
_STEPS = frozenset(
    {
        "cd",
        "test",
        "[",
        "[[",
        "export",
        "set",
        ".",
        "source",
        "sleep",
        "umask",
        "true",
        ":",
        "ulimit",
        "command",
        "mkdir",
        "if",
        "then",
    }
)
_WRAPPERS = frozenset(
    {
        "sudo",
        "env",
        "nice",
        "ionice",
        "flock",
        "timeout",
        "chronic",
        "nohup",
        "exec",
        "time",
        "setsid",
        "systemd-cat",
        "stdbuf",
        "chrt",
        "taskset",
    }
)
_PROGRAMS = frozenset(
    {
        "sh",
        "bash",
        "dash",
        "zsh",
        "ksh",
        "python",
        "perl",
        "php",
        "ruby",
        "node",
        "java",
        "bun",
        "deno",
        "Rscript",
        "uv",
        "run",
    }
)
_SUFFIX = re.compile(r"\.(sh|bash|py|pl|php|rb|js|mjs|ts|jar|R|zsh|ksh)$", re.IGNORECASE)
_VERSION = re.compile(r"[0-9][0-9.]*$")


def name_for(command: str, *, taken: Collection[str]) -> str:
    """Return a job's name for a command, none of `taken` (compared without case)."""
    base = _base(command)
    folded = {name.casefold() for name in taken}
    number, name = 1, base
    while name.casefold() in folded:
        number += 1
        name = f"{base}-{number}"
    return name


def _base(command: str) -> str:
    segments = [words for part in _APART.split(command) if (words := _words(part))]
    chosen = next((words for words in segments if _program(words[0]) not in _STEPS), segments[0] if segments else [])
    word = _subject(chosen) if chosen else "job"
    name = re.sub(r"[^a-z0-9]+", "-", _SUFFIX.sub("", word.rstrip("/").rpartition("/")[2]).lower()).strip("-")
    return name[:LONGEST].strip("-") or "job"


def _words(text: str) -> list[str]:
    words = [word.strip("\"'`$") for word in text.split()]
    while words and (_ASSIGNMENT.fullmatch(words[0]) or not words[0] or words[0].startswith("!")):
        words.pop(0)
    return words


def _subject(words: list[str]) -> str:
    """Return the word that says what runs: the program, or what a wrapper or an interpreter is given."""
    rest = list(words)
    while len(rest) > 1 and _program(rest[0]) in _WRAPPERS:
        rest = _past_options(rest[1:])
    if len(rest) > 1 and _program(rest[0]) in _PROGRAMS:
        script = next((word for word in rest[1:] if not word.startswith("-") and _program(word) not in _PROGRAMS), "")
        return script or rest[0]
    return rest[0]


def _past_options(words: list[str]) -> list[str]:
    """Return the words from the first that can be a program; the last one when none can."""
    for index, word in enumerate(words):
        plain = not word.startswith("-") and not _ASSIGNMENT.fullmatch(word)
        value = index > 0 and words[index - 1].startswith("-") and len(words[index - 1]) == 2
        if plain and not value and not _is_argument(word):
            return words[index:]
    return words[-1:]


def _is_argument(word: str) -> bool:
    """Tell whether a wrapper's own argument stands there: a number, a duration, a lock file."""
    return bool(re.fullmatch(r"[0-9.]+[smhd]?", word)) or word.endswith((".lock", ".lck", ".pid"))


def _program(word: str) -> str:
    return _VERSION.sub("", word.rpartition("/")[2])
