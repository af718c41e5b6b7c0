"""A scripted agent: a process that takes its prompt and plays a recording of a real one.

`install(folder, "claude-success")` puts a program `claude` there; a test sets PATH to the folder.
"""

import json
import os
import signal
import sys
from pathlib import Path

RECORDED = Path(__file__).parents[1] / "unit" / "agents" / "recorded"


def install(folder: Path, recording: str, *, name: str | None = None, waits: bool = False) -> Path:
    """Write a program that plays a recording, named as its agent; `waits`: it never comes to its last line."""
    program = folder / (name or recording.partition("-")[0])
    words = [sys.executable, "-I", "-S", str(Path(__file__)), str(RECORDED / f"{recording}.jsonl")]
    quoted = " ".join(f"'{word}'" for word in [*words, *(["--wait"] if waits else [])])
    program.write_text(f"#!/bin/sh\nexec {quoted}\n")
    program.chmod(0o755)
    return program


def play(path: str, *, waits: bool) -> None:
    """Print what was recorded and end as it ended."""
    sys.stdin.read()
    head, *lines = Path(path).read_text("utf-8").split("\n")[:-1]
    ended = json.loads(head)
    for line in lines[:-1] if waits else lines:
        print(line, flush=True)  # noqa: T201
    if waits:
        signal.pause()
    sys.stderr.write(ended["stderr"])
    sys.stderr.flush()
    if ended["exit_code"] < 0:
        os.kill(os.getpid(), -ended["exit_code"])
    os._exit(ended["exit_code"])


if __name__ == "__main__":
    play(sys.argv[1], waits="--wait" in sys.argv)
