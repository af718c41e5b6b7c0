"""The files that the result of a run names: copies below the run, shown and downloaded, never as active content."""

import json
from pathlib import Path
from typing import TypedDict

from msgspec import Struct

from rota.model.errors import InvalidValue
from rota.model.serialize import to_shape
from rota.operations.runs import RunView
from rota.runners.files import FOLDER, read_index
from rota.runners.output import folder_of

BINARY, TEXT, JSON, IMAGE = "binary", "text", "json", "image"
SNIFFED = 64 * 1024
IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""The beginnings of images that a browser may draw; SVG is not among them, as it may have scripts."""


class RunFile(Struct, frozen=True):
    """A file of a result. `why`: the reason that it has no copy; `path`: the copy on this machine."""

    number: int
    name: str
    size: int | None
    kind: str
    media: str
    path: str
    why: str | None = None

    @property
    def kept(self) -> bool:
        """Whether there is a copy."""
        return self.why is None


def files_of(state: Path, view: RunView) -> list[RunFile]:
    """Return the files of a run's result; a run without files, or with pruned ones, has none."""
    folder = folder_of(state, view.run.id)
    return [_file(folder, number, entry) for number, entry in enumerate(read_index(str(folder)))]


def file_of(state: Path, view: RunView, number: int) -> RunFile:
    """Return a kept file by its number, or raise InvalidValue."""
    found = files_of(state, view)
    chosen = next((file for file in found if file.number == number), None)
    if chosen is None:
        handle = view.run.handle
        raise InvalidValue(f"{handle} has no file {number}", hint=f"`rota show {handle} --files` lists its files")
    if chosen.why is not None:
        raise InvalidValue(f"file {number} of {view.run.handle} has no copy: {chosen.name} {chosen.why}")
    return chosen


def _file(folder: Path, number: int, entry: dict[str, object]) -> RunFile:
    name, size, why = entry.get("name"), entry.get("size"), entry.get("why")
    path = folder / FOLDER / str(number)
    media = ""
    if why is None:
        try:
            with path.open("rb") as file:
                head = file.read(SNIFFED)
            media = _media(head)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
    kind = IMAGE if media.startswith("image/") else TEXT if media.startswith("text/") else BINARY
    kind = JSON if kind == TEXT and str(name).lower().endswith(".json") else kind
    size = size if isinstance(size, int) else None
    return RunFile(number, str(name), size, kind, media, str(path), None if why is None else str(why))


def _media(head: bytes) -> str:
    """Return the media type to send: that of an image, plain text, or bytes; never one that a browser runs."""
    for begin, media in IMAGES.items():
        if head.startswith(begin):
            return media
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if b"\0" in head:
        return "application/octet-stream"
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3 or len(head) < SNIFFED:
            return "application/octet-stream"
    return "text/plain; charset=utf-8"


def preview(file: RunFile, *, limit: int) -> str:
    """Return the beginning of a text, JSON with indentation."""
    try:
        with open(file.path, "rb") as opened:
            data = opened.read(4 * limit + 1 if file.kind == TEXT else SNIFFED)
    except OSError:
        return ""
    text = data.decode("utf-8", "replace")
    if file.kind == JSON and file.size is not None and file.size <= SNIFFED:
        try:
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass  # a wrong JSON is a text
    return text if len(text) <= limit else text[: limit - 1] + "…"


class RunFileJson(TypedDict):
    """A file of a result. `size` null, and `why` the reason: it has no copy."""

    number: int
    name: str
    size: int | None
    kind: str
    why: str | None


class RunFilesJson(TypedDict):
    """The files of a run, as `rota show RUN --files --json`."""

    run: str
    files: list[RunFileJson]


def files_json(view: RunView, files: list[RunFile]) -> RunFilesJson:
    """Return the files of a run as JSON."""
    return {"run": view.run.handle, "files": [to_shape(RunFileJson, file) for file in files]}
