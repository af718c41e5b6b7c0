"""Styles, scripts and the icon of the pages: read once, named by their content, kept by browsers for a year."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

from fastapi import Path as InPath
from starlette.responses import Response

from rota.http.refusals import NotFound
from rota.http.routing import Routes

FOLDER = Path(__file__).parent.parent / "static"
PREFIX = "/static/"
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"
routes = Routes("static", prefix="")

Name = Annotated[str, InPath(pattern=r"^[a-z][a-z0-9_-]{0,40}\.(css|js|svg)$")]
Digest = Annotated[str, InPath(pattern=r"^[0-9a-f]{12}$")]


@dataclass(frozen=True, slots=True)
class Assets:
    """All files by name, and the digest of them together: scripts that import each other always fit."""

    digest: str
    files: dict[str, bytes]


@cache
def assets() -> Assets:
    """Return the files."""
    files = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}
    found = hashlib.sha256()
    for name, content in files.items():
        found.update(b"%s\0%d\0%s" % (name.encode(), len(content), content))
    return Assets(found.hexdigest()[:12], files)


def asset_path(name: str) -> str:
    """Return the path of a file, without the path of a proxy."""
    if name not in assets().files:
        raise KeyError(f"there is no file {name!r} for pages")
    return f"{PREFIX}{assets().digest}/{name}"


@routes.on("GET", "/static/{digest}/{name}", scope=None, answer=str, media="text/css", shown=False)
async def get_asset(digest: Digest, name: Name) -> Response:
    """Return a file of the pages; they tell nothing, so the login page may use them too."""
    content = assets().files.get(name)
    if content is None:
        raise NotFound
    kept = FOREVER if digest == assets().digest else "no-cache"
    return Response(content, 200, {"Cache-Control": kept}, TYPES[Path(name).suffix])
