"""The output of a run: read it, follow it, or explain why there is none; and the files that its result names."""

import codecs
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from rota.engine.membership.locks import read_worker
from rota.model.clock import say_duration
from rota.model.errors import InvalidValue
from rota.model.serialize import to_shape
from rota.model.spec import JobSpec, Kind, OutputPolicy
from rota.model.states import Status
from rota.operations.direct_calls import DirectView
from rota.operations.runs import RunView
from rota.runners import output
from rota.runners.files import FOLDER, read_index
from rota.runners.writer import PREFIX
from rota.store.driver import Store
from rota.store.tables import run_queries
from rota.text.ansi import clean_for_terminal

if TYPE_CHECKING:
    from rota.agents.adapter import Teller

FETCH_BATCH = 16
EVENTS_READ = 50
CLOCK_SLACK = timedelta(seconds=1)
"""An output that seems older than its run by more than this was copied: its time is not known."""
BINARY, TEXT, JSON, IMAGE = "binary", "text", "json", "image"
SNIFFED = 64 * 1024
IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""The beginnings of images that a browser may draw; SVG is not among them, as it may have scripts."""


def output_of(state: Path, run_id: str, *, lines: int | None = None) -> Iterator[bytes]:
    """Yield the stored output of a run: all of it, or its last lines."""
    folder = output.folder_of(state, run_id)
    yield from output.read_output(folder, start=0 if lines is None else output.tail_start(folder, lines))


def snapshot_of(state: Path, run_id: str) -> output.Snapshot:
    """Return a snapshot of a run's stored output, with a fixed size, to read in parts."""
    return output.Snapshot(output.folder_of(state, run_id))


def fetch_output(store: Store, state: Path, view: RunView) -> None:
    """Fetch the missing shared output of a run of another machine.

    Retention applies to it as to local output.
    """
    elsewhere = view.worker is not None and view.worker.id != read_worker(state)
    if not view.spec.work.output.shared or not elsewhere:
        return
    folder = output.folder_of(state, view.run.id)
    while pieces := store.read(
        partial(run_queries.read, run_id=view.run.id, after=output.size(folder), limit=FETCH_BATCH)
    ):
        output.make_folder(folder)
        for piece in pieces:
            (folder / f"{PREFIX}{piece.offset}").write_bytes(piece.data)


def why_no_output(state: Path, view: RunView, *, now: datetime) -> str | None:
    """Return why a run has no output; None if it has some."""
    if output.size(output.folder_of(state, view.run.id)):
        return None
    run = view.run
    elsewhere = view.worker is not None and view.worker.id != read_worker(state)
    if view.execution is not None and view.worker is not None and elsewhere and not view.spec.work.output.shared:
        where = f"{view.worker.host}:{view.worker.state}" if view.worker.state else view.worker.host
        name = view.worker.called
        return f"the output of {run.handle} is on the worker {name}, in {where}: `rota logs` prints it there"
    if view.spec.work.kind is Kind.GROUP and run.status is not Status.SKIPPED:
        return f"{run.handle} is a group: its members have the output"
    if view.execution is None:
        reason = f" {run.reason}" if run.reason else ""
        return (
            f"{run.handle} has not started: it is {run.status.shown}{reason}"
            if not run.status.final
            else (f"{run.handle} never started: {run.status}{reason}")
        )
    if view.spec.work.output is OutputPolicy.NONE:
        return f"the output of {run.handle} was not kept: its job says `output: none`"
    kept = view.spec.retention.output
    lost = bool(view.execution.artifacts.get("output_bytes"))
    if lost or (kept is not None and run.finished_at is not None and now - run.finished_at > kept):
        days = f" ({say_duration(kept)})" if kept else ""
        return f"the output of {run.handle} is no longer kept: see `retention.output`{days}"
    return f"{run.handle} wrote nothing" if run.status.final else f"{run.handle} has written nothing yet"


def why_no_output_of_call(state: Path, view: DirectView) -> str | None:
    """Return why a direct call has no output; None if it has some."""
    if output.size(output.folder_of(state, view.id)):
        return None
    if view.reserves:
        return f"a {view.name} has no output: its code is the caller's own"
    if view.started_at is None:
        return f"the direct call of {view.name} has not started"
    if view.output_bytes:
        return f"the output of the direct call of {view.name} is no longer kept: see `retention.output`"
    return f"the direct call of {view.name} wrote nothing{'' if view.status.final else ' yet'}, or its job keeps none"


def last_lines(state: Path, view: RunView, *, lines: int) -> list[str]:
    """Return the last lines of a run's output, with colours; events of an agent in words."""
    text = b"".join(output_of(state, view.run.id, lines=lines)).decode("utf-8", "replace")
    written = text.removesuffix("\n").split("\n") if text else []
    tell = teller_of(view.spec)
    if tell is None:
        return written
    return [*(told for line in written for told in tell(line.removesuffix("\r"))), *tell.rest()][-lines:]


class TimedLine(Struct, frozen=True):
    """A line of output; `at` is None where its time is not known, as on another machine."""

    text: str
    at: datetime | None


def timed_lines(state: Path, view: RunView, *, lines: int) -> list[TimedLine]:
    """Return the last lines of a run's output with the times at which they were written."""
    folder = output.folder_of(state, view.run.id)
    offset = output.tail_start(folder, lines)
    data = b"".join(output.read_output(folder, start=offset))
    times, tell = output.OutputTimes(folder), teller_of(view.spec)
    began = view.run.started_at
    timed_line_list: list[TimedLine] = []
    for line in data.removesuffix(b"\n").split(b"\n") if data else ():
        at = times.at(offset)
        offset += len(line) + 1
        text = line.decode("utf-8", "replace")
        told = [text] if tell is None else tell(text.removesuffix("\r"))
        known = at if at is not None and began is not None and at >= began - CLOCK_SLACK else None
        timed_line_list += [TimedLine(one, known) for one in told]
    rest = [] if tell is None else tell.rest()
    return [*timed_line_list, *(TimedLine(one, timed_line_list[-1].at if timed_line_list else None) for one in rest)][
        -lines:
    ]


def said_last(state: Path, run_id: str, *, spec: JobSpec | None) -> str:
    """Return the last line of a run's output that is not blank; events of an agent in words."""
    folder, tell = output.folder_of(state, run_id), teller_of(spec)
    if tell is None:
        return output.last_line(folder)
    written = output.tail(folder, EVENTS_READ).decode("utf-8", "replace").split("\n")
    told = [*(text for line in written for text in tell(line.removesuffix("\r"))), *tell.rest()]
    return next((text for line in reversed(told) if (text := clean_for_terminal(line).strip())), "")


class OutputFollower:
    """Reads the growing output of a run in complete lines."""

    def __init__(self, folder: Path, *, raw: bool = False, offset: int = 0, tell: "Teller | None" = None) -> None:
        self.folder = folder
        self.tell = tell
        self.raw = raw
        self.offset = offset
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def lines(self) -> list[str]:
        """Return the lines completed since the last call."""
        while (piece := output.read_from(self.folder, self.offset)).data:
            gap = output.gap_mark(piece.skipped) if piece.skipped else b""
            self._rest += self._decoder.decode(gap + piece.data)
            self.offset = piece.end
        *whole, self._rest = self._rest.split("\n")
        return [shown for line in whole for shown in self._shown(line)]

    def rest(self) -> list[str]:
        """Return the remaining lines, including an incomplete last one."""
        found = self.lines()
        last, self._rest = self._rest, ""
        said = self.tell.rest if self.tell is not None and not self.raw else list
        return [*found, *(self._shown(last) if last else ()), *map(clean_for_terminal, said())]

    def _shown(self, line: str) -> list[str]:
        if self.raw:
            return [line]
        line = line.removesuffix("\r")
        return [clean_for_terminal(text) for text in (self.tell(line) if self.tell is not None else [line])]


def follow(
    state: Path, run_id: str, *, raw: bool = False, offset: int = 0, spec: JobSpec | None = None
) -> OutputFollower:
    """Return a reader of a run's growing output; with an agent's definition it returns words, not events."""
    return OutputFollower(output.folder_of(state, run_id), raw=raw, offset=offset, tell=teller_of(spec))


def teller_of(spec: JobSpec | None) -> "Teller | None":
    """Return the converter of an agent's events to words; None if its output is text."""
    work = spec.work.agent if spec is not None else None
    if work is None:
        return None
    from rota.agents.adapter import Teller
    from rota.agents.registry import adapter, names

    kind = adapter(work.adapter, work.options) if work.adapter in names() else None
    return Teller(kind) if kind is not None and kind.tell is not None else None


class GrowingBytes:
    """Reads the growing output of a run as bytes, with marks at gaps."""

    def __init__(self, folder: Path, *, offset: int = 0) -> None:
        self._folder = folder
        self._offset = offset

    def more(self) -> bytes:
        """Return the next bytes since the last call."""
        piece = output.read_from(self._folder, self._offset)
        self._offset = piece.end
        return (output.gap_mark(piece.skipped) if piece.skipped and piece.data else b"") + piece.data


def follow_bytes(state: Path, run_id: str, *, lines: int | None = None) -> GrowingBytes:
    """Return a reader of a run's growing output as bytes: all of it, or from its last lines on."""
    folder = output.folder_of(state, run_id)
    return GrowingBytes(folder, offset=0 if lines is None else output.tail_start(folder, lines))


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
    folder = output.folder_of(state, view.run.id)
    return [_file(folder, number, entry) for number, entry in enumerate(read_index(str(folder)))]


def file_of(state: Path, view: RunView, number: int) -> RunFile:
    """Return a kept file by its number, or raise InvalidValue."""
    run_files = files_of(state, view)
    chosen = next((file for file in run_files if file.number == number), None)
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
