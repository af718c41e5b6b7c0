"""Numbers for people: counts with their noun, money and sizes."""

from collections.abc import Sequence, Sized

from rota.model.budgets import MILLION

CENTS, HUNDREDTHS = 100_000, 1_000


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun; `plural` is for nouns without an s and for a verb that follows.

    >>> counted(1, "job"), counted(1_200, "job"), counted(2, "run waits", "runs wait")
    ('1 job', '1,200 jobs', '2 runs wait')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return the first names and the number of the others.

    >>> listed(["a", "b", "c"], 2), listed(["a"])
    ('a, b and 1 more', 'a')
    """
    return ", ".join(names[:most]) + and_more(names, most)


def and_more(names: Sized, shown: int) -> str:
    """Return the end of a list of which only the first ones are shown.

    >>> and_more("abcd", 3), and_more("abc", 3)
    (' and 1 more', '')
    """
    return f" and {len(names) - shown} more" if len(names) > shown else ""


def say_money(millionths: int) -> str:
    """Return an amount of millionths of a dollar in cents, small amounts with more digits.

    >>> say_money(86_307), say_money(12), say_money(50_000), say_money(500_000)
    ('$0.0863', '$0.000012', '$0.05', '$0.50')
    """
    dollars = millionths / MILLION
    if not 0 < millionths < CENTS:
        return f"${dollars:,.2f}"
    whole, _, rest = f"{dollars:.{6 if millionths < HUNDREDTHS else 4}f}".rstrip("0").partition(".")
    return f"${whole}.{rest:0<2}"


def say_dollars(dollars: float) -> str:
    """Return an amount of dollars in cents.

    >>> say_dollars(0.5), say_dollars(2)
    ('$0.50', '$2.00')
    """
    return say_money(round(dollars * MILLION))


def sized(count: int) -> str:
    """Return a number of bytes with its unit.

    >>> sized(2_450_000)
    '2.5 MB'
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return counted(count, "byte")
