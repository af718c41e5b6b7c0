"""Secrets taken out of what a command writes (R-27). Standard library only: the keeper knows no other."""

import re
from collections.abc import Iterable

SHORTEST = 6
"""What is shorter would be found in ordinary words."""
MASK = b"***"


class Redactor:
    """Replaces secrets in a stream of bytes, also those that come in two pieces.

    Each line of a secret counts by itself, so nothing is held back beyond the end of a line.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        lines = {line.strip().encode("utf-8", "surrogateescape") for one in secrets for line in one.splitlines()}
        self._hidden = sorted((line for line in lines if len(line) >= SHORTEST), key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._hidden)))
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what can be shown by now; what may be the beginning of a secret waits."""
        if not self._hidden:
            return data
        data = self._held + data
        self._held = data[len(data) - self._begun(data[self._last_end(data) :]) :]
        return self._pattern.sub(MASK, data[: len(data) - len(self._held)])

    def rest(self) -> bytes:
        """Return what waited, at the end of the stream."""
        held, self._held = self._held, b""
        return self._pattern.sub(MASK, held) if held else held

    def _last_end(self, data: bytes) -> int:
        """Return where the last secret ends, unless what follows may make it a longer one."""
        end = 0
        for found in self._pattern.finditer(data):
            longer = found.end() == len(data) and any(
                one.startswith(found[0]) for one in self._hidden if one != found[0]
            )
            end = found.start() if longer else found.end()
        return end

    def _begun(self, data: bytes) -> int:
        """Return how many of the last bytes may be the beginning of a secret."""
        return max(_overlap(data, secret) for secret in self._hidden)


def _overlap(data: bytes, secret: bytes) -> int:
    lengths = range(min(len(secret) - 1, len(data)), 0, -1)
    return next((length for length in lengths if data.endswith(secret[:length])), 0)
