"""Which rota this process is, and which one is installed by now."""

from functools import cache
from importlib import metadata

NAME = "rota"


@cache
def own_version() -> str:
    """Return the version of this process, as it was when it was first asked: an upgrade leaves running code alone."""
    return metadata.version(NAME)


def installed_version() -> str | None:
    """Return the version that lies on the disk now, None while an upgrade is under way."""
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return None
