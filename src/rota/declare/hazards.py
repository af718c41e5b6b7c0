"""Variables by which a program is made to load other code, and texts that look like secrets written out."""

import re

_LOADS_CODE = re.compile(
    r"LD_[A-Z_]+|DYLD_[A-Z_]+|PYTHON[A-Z]+|BASH_ENV|NODE_OPTIONS|NODE_PATH|PERL5(OPT|LIB|DB)|PERLLIB|RUBY(OPT|LIB)"
    r"|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|GCONV_PATH|IFS|PROMPT_COMMAND",
    re.ASCII,
)
_BEFORE_ALL = re.compile(r"LD_(PRELOAD|AUDIT)|DYLD_INSERT_LIBRARIES|PYTHONSTARTUP|BASH_ENV|PROMPT_COMMAND", re.ASCII)
_SECRETS = {
    "an API key (sk-…)": r"sk-[A-Za-z0-9_-]{20,}",
    "a token of GitHub": r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}",
    "a token of GitLab": r"glpat-[A-Za-z0-9_-]{20,}",
    "an access key of AWS": r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])",
    "a token of Slack": r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "an API key of Google": r"AIza[A-Za-z0-9_-]{35}",
    "a secret of webhooks": r"whsec_[A-Za-z0-9+/]{24,}",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
}
_SECRET = {kind: re.compile(rf"(?<![A-Za-z0-9_]){pattern}", re.ASCII) for kind, pattern in _SECRETS.items()}


def loads_code(name: str) -> bool:
    """Tell whether a variable of this name may make a program load other code than its own (R-27).

    >>> loads_code("LD_PRELOAD"), loads_code("python_version")
    (True, False)
    """
    return bool(_LOADS_CODE.fullmatch(name))


def runs_first(name: str) -> bool:
    """Tell whether what a variable of this name holds always runs before the program itself.

    >>> runs_first("BASH_ENV"), runs_first("PYTHONPATH")
    (True, False)
    """
    return bool(_BEFORE_ALL.fullmatch(name))


def secret_in(text: str) -> str | None:
    """Return what kind of secret a text seems to hold, or None.

    >>> secret_in("Bearer ghp_" + 36 * "x")
    'a token of GitHub'
    """
    return next((kind for kind, pattern in _SECRET.items() if pattern.search(text)), None)
