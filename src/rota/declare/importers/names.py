"""Names of jobs from the commands that they run."""

import re
import shlex
import unicodedata
from collections.abc import Collection, Iterator, Sequence

from rota.declare.importers.translation import MAX_NAME_LENGTH, free_name

_EXPANSION = re.compile(r"\$\(\((?:[^()]|\([^()]*\))*\)\)|\$\([^()]*\)|`[^`]*`|\$\{[^}]*\}|\$\w+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_OPERATORS = re.compile(r"[;&|(){}\n]+")
_REDIRECTION = re.compile(r"[0-9]*(?:>>?|<<?<?)[&|]?[0-9-]*")
_KEYWORDS = frozenset({"if", "then", "elif", "else", "do", "while", "until", "!", "time", "exec", "fi", "done"})
_STEPS = frozenset(
    {
        *("cd", "test", "[", "[[", "export", "set", ".", "source", "sleep", "umask", "true", ":", "pushd", "for"),
        *("ulimit", "command", "mkdir", "echo", "printf", "date", "logger", "eval", "exit", "unset", "touch", "trap"),
    }
)
"""Commands that stand beside the work of a job; they name it where nothing else does."""
_WRAPPERS = {
    "sudo": "ughpCrtTRD",
    "doas": "uC",
    "su": "sgGw",
    "runuser": "usgGw",
    "env": "uCS",
    "nice": "n",
    "ionice": "cnpPu",
    "timeout": "ks",
    "flock": "wE",
    "chrt": "TPDp",
    "taskset": "p",
    "stdbuf": "ioe",
    "systemd-cat": "tp",
    "systemd-run": "pupEGH",
    "setsid": "",
    "nohup": "",
    "chronic": "",
    "cronic": "",
    "caffeinate": "tw",
}
"""Programs that start another one, and their options with a value."""
_POSITIONALS = {"timeout": 1, "flock": 1, "chrt": 1, "taskset": 1}
"""How many words a wrapper reads before the command."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_RUNNERS = {"uv": "run", "poetry": "run", "pipenv": "run", "pdm": "run", "bundle": "exec"}
_OF_RUNNERS = ("--project", "--directory", "--with", "--python", "--env-file", "-p", "-C")
_INTERPRETERS = frozenset({"python", "perl", "php", "ruby", "node", "java", "bun", "deno", "Rscript", "tsx", "pypy"})
_CONSOLES = frozenset(
    {"manage.py", "artisan", "rake", "console", "django-admin", "make", "just", "npm", "pnpm", "yarn", "run-parts"}
)
"""Programs whose first argument says what they do."""
_OF_CONSOLES = ("-C", "--prefix", "-f", "--settings", "--env", "-e")
_SUFFIX = re.compile(r"\.(sh|bash|py|pl|php|rb|js|mjs|cjs|ts|jar|R|zsh|ksh)$", re.IGNORECASE)
_VERSION = re.compile(r"[0-9][0-9.]*$")


def name_for(command: str, *, taken: Collection[str]) -> str:
    """Return a job's name for a command, none of `taken` (compared without case).

    >>> name_for("cd /srv && flock -n /tmp/lock python manage.py send_mail --now", taken=[])
    'send-mail'
    """
    return free_name(_base(command), taken=taken)


def flock_options(command: str) -> tuple[str, ...]:
    """Return the options of `flock` in a command, each short one alone, empty without it.

    >>> flock_options("cd /srv && sudo flock -xn -E 0 /tmp/x.lock rsync -a here there")
    ('-x', '-n', '-E')
    """
    for words in _commands(command):
        for rest in _unwrapped(words):
            if _program(rest[0]) == "flock":
                return tuple(_options(rest[1 : len(rest) - len(_after(rest, "wE"))]))
    return ()


def _options(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word.startswith("--"):
            yield word.partition("=")[0]
        elif word.startswith("-"):
            yield from (f"-{letter}" for letter in word[1:] if letter.isalpha())


def _base(command: str) -> str:
    found = [word for words in _commands(command) if (word := _subject(words))]
    ranked = sorted(found, key=lambda word: (_program(word) in _STEPS, _program(word) in _INTERPRETERS))
    return next((name for word in ranked if (name := _slug(word))), "job")


def _slug(word: str) -> str:
    name = _SUFFIX.sub("", word.rstrip("/").rpartition("/")[2])
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:MAX_NAME_LENGTH].strip("-")


def _commands(text: str) -> list[list[str]]:
    """Return the simple commands of a shell's text as words, without assignments, redirections and keywords."""
    lexer = shlex.shlex(_EXPANSION.sub("", text).replace("\n", " ; "), posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:  # a quote without its end
        words = re.sub(r"([;&|()]+)", r" \1 ", re.sub(r"[\"']", " ", text)).split()
    found: list[list[str]] = [[]]
    target = False
    for word in words:
        if _OPERATORS.fullmatch(word):
            found.append([])
        elif not target and not _REDIRECTION.fullmatch(word):
            found[-1].append(word)
        target = bool(_REDIRECTION.fullmatch(word)) and not word[-1:].isdigit()
    return [stripped for words in found if (stripped := _stripped(words))]


def _stripped(words: Sequence[str]) -> list[str]:
    rest = list(words)
    while rest and (_ASSIGNMENT.fullmatch(rest[0]) or rest[0] in _KEYWORDS or not rest[0].strip()):
        rest.pop(0)
    return rest


def _unwrapped(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield a command, then the command that it starts, and so on."""
    rest = list(words)
    while rest:
        yield rest
        wrapper = _program(rest[0])
        if wrapper not in _WRAPPERS:
            return
        rest = _stripped(_after(rest, _WRAPPERS[wrapper]))


def _after(words: Sequence[str], valued: str) -> list[str]:
    """Return the words behind a wrapper's options and own arguments: `-c TEXT` as a shell with it."""
    wrapper, rest = _program(words[0]), list(words[1:])
    own = _POSITIONALS.get(wrapper, 0)
    while rest:
        word = rest[0]
        if wrapper in ("flock", "su", "runuser") and word in ("-c", "--command") and len(rest) > 1:
            return ["sh", "-c", rest[1]]
        if word.startswith("-") and len(word) > 1:
            del rest[: 2 if not word.startswith("--") and word[-1] in valued and "=" not in word else 1]
        elif wrapper in ("su", "runuser") or (wrapper == "env" and _ASSIGNMENT.fullmatch(word)):
            rest.pop(0)  # the dash and the user stand before `-c`
        elif own:
            own -= 1
            rest.pop(0)
        else:
            break
    return rest


def _subject(words: Sequence[str]) -> str:
    """Return the word that says what runs: the program, or what a wrapper, an interpreter or a console gets."""
    *_, rest = _unwrapped(words)
    program = _program(rest[0])
    if program in _RUNNERS and _RUNNERS[program] in rest[1:]:
        rest = _past_options(rest[rest.index(_RUNNERS[program]) + 1 :], _OF_RUNNERS) or rest[:1]
        return rest[0] if len(rest) == 1 and rest[0] == words[0] else _subject(rest)
    if program in _SHELLS:
        return _of_shell(rest)
    if program in _INTERPRETERS:
        rest = _script(rest)
    console = rest[0].rpartition("/")[2] in _CONSOLES
    task = next((word for word in _past_options(rest[1:], _OF_CONSOLES) if word not in ("run", "-")), "")
    return task if console and task and not task.startswith("-") else rest[0]


def _of_shell(words: Sequence[str]) -> str:
    """Return the subject of `sh -c TEXT`, or the script that a shell reads."""
    for index, word in enumerate(words[1:], start=1):
        if not word.startswith("-"):
            return word
        if not word.startswith("--") and "c" in word:
            text = next((other for other in words[index + 1 :] if not other.startswith("-")), "")
            return _base(text) if text else words[0]
    return words[0]


def _script(words: Sequence[str]) -> list[str]:
    """Return the words from the script of an interpreter on; of `python -m package.task` from the module on."""
    for index, word in enumerate(words[1:], start=1):
        if word == "-m" and len(words) > index + 1:
            return [words[index + 1].rpartition(".")[2], *words[index + 2 :]]
        if word in ("-c", "-e", "-r") and _program(words[0]) != "bun":
            break  # the program itself
        if not word.startswith("-") and word != "run":
            return list(words[index:])
    return list(words[:1])


def _past_options(words: Sequence[str], valued: Sequence[str]) -> list[str]:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in valued else 1]
    return rest


def _program(word: str) -> str:
    return _VERSION.sub("", word.rpartition("/")[2])
