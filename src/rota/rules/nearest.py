"""The nearest name to one that is not known: a slip of the keys should cost one look."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """Return a hint with the nearest of the known names, else `otherwise`.

    >>> did_you_mean("bakcup", ["backup", "report"], "list them")
    'did you mean "backup"?'
    """
    near = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f'did you mean "{near[0]}"?' if near else otherwise
