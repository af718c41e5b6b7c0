"""The parts of a value that is a map or a list: each is read, and what is wrong with them is told together."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from rota.declare.fields import Refused

T = TypeVar("T")

MOST = 100
"""How many wrong parts of one value are told, so that a long list of nonsense has no answer many times its length."""


class Parts:
    """Keeps what is wrong with each part of a value, and refuses the value at the end of its `with`."""

    def __init__(self) -> None:
        self.refused: list[Refused] = []
        self.rest: Any = None
        """What the right parts come to, where they can be judged without the others."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Refused):
            self.refuse(error)
        elif error is not None:
            return
        if self.refused:
            first, *further = self._told()
            raise first.with_others(further, rest=self.rest) from None

    def _told(self) -> list[Refused]:
        left = len(self.refused) - MOST
        if left <= 0:
            return self.refused
        return [*self.refused[:MOST], Refused(f"{left:,} more of its parts are wrong", hint="correct the others first")]

    def below(self, *at: str | int) -> "Part":
        """Return the surroundings of one part: what it refuses is kept, and the others are read too."""
        return Part(self, at)

    def refuse(self, *refused: Refused) -> None:
        """Keep what is wrong."""
        self.refused += [each for one in refused for each in one.each]

    @property
    def mistyped(self) -> bool:
        """Whether a key is unknown: it may be the one that seems to be missing."""
        return any(one.code == "unknown_key" and len(one.at) == 1 for one in self.refused)


class Part:
    """One part of a value while it is read."""

    __slots__ = ("_at", "_parts")

    def __init__(self, parts: Parts, at: tuple[str | int, ...]) -> None:
        self._parts, self._at = parts, at

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Refused):
            return False
        self._parts.refuse(error.below(*self._at))
        return True


def read_items(value: Sequence[Any], reader: Callable[[Any], T]) -> list[T]:
    """Return the items of a list, each as `reader` makes it."""
    found: list[T] = []
    with Parts() as parts:
        for index, item in enumerate(value):
            with parts.below(index):
                found.append(reader(item))
    return found
