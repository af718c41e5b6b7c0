"""What the command line says about HTTP; it goes over what the file says."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rota.settings import Http

if TYPE_CHECKING:
    from rota.http.listening import Listening


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of `rota serve` about HTTP."""

    listen: str | None = None
    behind_proxy: bool = False
    certificate: Path | None = None
    key: Path | None = None

    def over(self, http: Http) -> "Listening":
        """Return how to listen: the file's settings with these flags over them."""
        from rota.http.listening import Listening

        return Listening(
            http=http if self.listen is None else replace(http, listen=self.listen),
            exposed=self.listen is not None,
            behind_proxy=self.behind_proxy,
            certificate=self.certificate,
            key=self.key,
        )
