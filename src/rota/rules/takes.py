"""Which runs a worker takes, by the pools that they draw on; and what it may be called (R-03, R-04)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.model.spec import Draw

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Takes:
    """Which runs are taken: `only` those that draw on one of these pools (None: all), none that draws on `but`."""

    only: tuple[str, ...] | None = None
    but: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether nothing is left to others."""
        return self.only is None and not self.but

    def fits(self, draws: Sequence[Draw]) -> bool:
        """Tell whether a run that draws so is taken.

        >>> Takes(only=("gpu",)).fits([Draw("gpu"), Draw("agents")]), Takes(only=("gpu",)).fits([])
        (True, False)
        >>> Takes(but=("gpu",)).fits([Draw("gpu")]), Takes(but=("gpu",)).fits([])
        (False, True)
        """
        pools = {draw.pool for draw in draws}
        return (self.only is None or not pools.isdisjoint(self.only)) and pools.isdisjoint(self.but)


EVERYTHING = Takes()


def takes_json(takes: Takes) -> dict[str, Any]:
    """Return what a worker takes as a document.

    >>> takes_json(Takes(only=("gpu",)))
    {'only_pools': ['gpu'], 'except_pools': []}
    """
    only = None if takes.only is None else list(takes.only)
    return {"only_pools": only, "except_pools": list(takes.but)}


def read_takes(document: Mapping[str, Any] | None) -> Takes:
    """Return what a worker takes from its document; without one everything."""
    if document is None:
        return EVERYTHING
    only = document["only_pools"]
    return Takes(None if only is None else tuple(only), tuple(document["except_pools"]))


def say_takes(takes: Takes) -> str:
    """Return which runs a worker takes.

    >>> say_takes(EVERYTHING), say_takes(Takes(only=("gpu", "big"), but=("web",)))
    ('all', 'only gpu, big; not web')
    """
    told = [f"only {', '.join(takes.only)}"] if takes.only is not None else []
    told += [f"not {', '.join(takes.but)}"] if takes.but else []
    return "; ".join(told) or "all"


def default_name(host: str) -> str:
    """Return the name of a worker nobody named: that of its machine, of letters that a name may have.

    >>> default_name("build-7.example.org"), default_name("böse maschine"), default_name("")
    ('build-7.example.org', 'b-se-maschine', 'worker')
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", host).strip("-._")[:100]
    return name or "worker"
