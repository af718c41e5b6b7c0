"""The machine's own time zone, by name."""

import os
from collections.abc import Mapping
from pathlib import Path

from rota.model.errors import InvalidTimezone, RotaError
from rota.rules.timezone import zone

_MARK = "zoneinfo/"


def local_zone(environment: Mapping[str, str], etc: Path = Path("/etc")) -> str:
    """Return the IANA name of this machine's zone: TZ, /etc/timezone, or where /etc/localtime points to."""
    for name in (environment.get("TZ", "").lstrip(":"), _written(etc / "timezone"), _link(etc / "localtime")):
        if name and (known := _known(_below_zoneinfo(name))):
            return known
    raise RotaError(
        "this machine's time zone cannot be found by name (TZ, /etc/timezone, /etc/localtime)",
        hint="write an IANA name such as Europe/Paris, or UTC",
    )


def plain_name(name: str) -> str:
    """Return a zone's name as a person would write it: the many names of UTC are one.

    >>> plain_name("Etc/UTC"), plain_name("Europe/Paris")
    ('UTC', 'Europe/Paris')
    """
    return "UTC" if name in ("Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu") else name


def _below_zoneinfo(name: str) -> str:
    return name.rpartition(_MARK)[2] if _MARK in name else name


def _written(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()[:100]
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        target = os.readlink(path)
    except OSError:
        return ""
    return target if _MARK in target else ""


def _known(name: str) -> str | None:
    try:
        zone(name)
    except InvalidTimezone:
        return None
    return name
