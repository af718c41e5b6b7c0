"""Names of jobs from the commands that they run."""

import re
from collections.abc import Collection, Sequence

from rota.declare.importers.translation import MAX_NAME_LENGTH, free_name

_APART = re.compile(r"&&|\|\||[;|&(){}\n]")
_EXPANSION = re.compile(r"\$\(\((?:[^()]|\([^()]*\))*\)\)|\$\([^()]*\)|`[^`]*`")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=\S*")
_STEPS = frozenset(
    {
        *("cd", "test", "[", "[[", "export", "set", ".", "source", "sleep", "umask", "true", ":", "pushd"),
        *("ulimit", "command", "mkdir", "if", "then"),
    }
)
_WRAPPERS = frozenset(
    {
        *("sudo", "env", "nice", "ionice", "flock", "timeout", "chronic", "nohup", "exec", "time"),
        *("setsid", "systemd-cat", "stdbuf", "chrt", "taskset", "caffeinate", "cronic"),
    }
)
_PROGRAMS = frozenset(
    {
        *("sh", "bash", "dash", "zsh", "ksh", "python", "perl", "php", "ruby", "node", "java", "bun"),
        *("deno", "Rscript", "uv", "run", "poetry", "pipenv", "bundle"),
    }
)
_CONSOLES = frozenset({"manage.py", "artisan", "rake", "console", "bin/console", "django-admin", "make", "just", "npm"})
"""Programs whose first argument says what they do."""
_SUFFIX = re.compile(r"\.(sh|bash|py|pl|php|rb|js|mjs|ts|jar|R|zsh|ksh)$", re.IGNORECASE)
_VERSION = re.compile(r"[0-9][0-9.]*$")


def name_for(command: str, *, taken: Collection[str]) -> str:
    """Return a job's name for a command, none of `taken` (compared without case)."""
    return free_name(_base(command), taken=taken)


def flock_options(command: str) -> tuple[str, ...]:
    """Return the options of `flock` in a command, empty without it.

    >>> flock_options("cd /srv && flock -n -E 0 /tmp/x.lock ./run")
    ('-n', '-E')
    """
    for part in _APART.split(command):
        words = _words(part)
        if words and _program(words[0]) == "flock":
            return tuple(word for word in words[1:] if word.startswith("-"))
    return ()


def _base(command: str) -> str:
    plain = _EXPANSION.sub(" ", command)
    segments = [words for part in _APART.split(plain) if (words := _words(part))]
    chosen = next((words for words in segments if _program(words[0]) not in _STEPS), segments[0] if segments else [])
    word = _subject(chosen) if chosen else "job"
    name = re.sub(r"[^a-z0-9]+", "-", _SUFFIX.sub("", word.rstrip("/").rpartition("/")[2]).lower()).strip("-")
    return name[:MAX_NAME_LENGTH].strip("-") or "job"


def _words(text: str) -> list[str]:
    words = [word.strip("\"'`$") for word in text.split()]
    while words and (_ASSIGNMENT.fullmatch(words[0]) or not words[0] or words[0].startswith("!")):
        words.pop(0)
    return words


def _subject(words: Sequence[str]) -> str:
    """Return the word that says what runs: the program, or what a wrapper, an interpreter or a console is given."""
    rest = list(words)
    while len(rest) > 1 and _program(rest[0]) in _WRAPPERS:
        rest = _past_options(rest[1:])
    while len(rest) > 1 and _program(rest[0]) in _PROGRAMS:
        rest = _script(rest)
        if _program(rest[0]) not in _PROGRAMS:
            break
    console = rest[0].rpartition("/")[2] in _CONSOLES
    task = next((word for word in rest[1:] if not word.startswith("-") and word != "run"), "") if console else ""
    return task or rest[0]


def _script(words: list[str]) -> list[str]:
    """Return the words from the script of an interpreter on; of `python -m package.task` from the module on."""
    for index, word in enumerate(words[1:], start=1):
        if word == "-m" and len(words) > index + 1:
            return [words[index + 1].rpartition(".")[2], *words[index + 2 :]]
        if not word.startswith("-") and _program(word) not in _PROGRAMS:
            return words[index:]
    return words[:1]


def _past_options(words: list[str]) -> list[str]:
    """Return the words from the first that can be a program; the last one when none can."""
    for index, word in enumerate(words):
        plain = not word.startswith("-") and not _ASSIGNMENT.fullmatch(word)
        value = index > 0 and words[index - 1].startswith("-") and len(words[index - 1]) == 2
        value = value and words[index - 1] not in ("-n", "-x", "-s")  # of flock they take no value
        if plain and not value and not _is_argument(word):
            return words[index:]
    return words[-1:]


def _is_argument(word: str) -> bool:
    """Return whether a wrapper's own argument stands there: a number, a duration, a lock file."""
    return bool(re.fullmatch(r"[0-9.]+[smhd]?", word)) or word.endswith((".lock", ".lck", ".pid"))


def _program(word: str) -> str:
    return _VERSION.sub("", word.rpartition("/")[2])
