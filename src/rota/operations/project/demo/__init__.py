"""The project of `rota demo`: its files are beside this module."""

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from rota.operations.project.load import VARIABLE

FILES = ("rota.yaml", "shop.py", "reviewer.py")
PYTHON = "@PYTHON@"
PREFIX = "rota-demo-"
LOCK = ".lock"
_OF_ANOTHER_PROJECT = ("ROTA_DIR", "ROTA_STATE", "ROTA_STORE")


@contextmanager
def demo_folder() -> Iterator[Path]:
    """Create the project in a temporary folder; remove it with its state at the end."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=PREFIX)))
    try:
        with open(folder / LOCK, "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # ends with the process, however it ends
            for name in FILES:
                (folder / name).write_text(demo_file(name), "utf-8")
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_dead_demos() -> list[Path]:
    """Remove the folders of demos that were killed; return them. A folder that is in use stays."""
    removed: list[Path] = []
    for folder in sorted(Path(os.path.realpath(tempfile.gettempdir())).glob(f"{PREFIX}*")):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with open(folder / LOCK, "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
        except OSError:  # in use, or another start removes it
            continue
        removed.append(folder)
    return removed


def demo_file(name: str) -> str:
    """Return one file of the project; programs of it run under this interpreter."""
    stored = f"{name}.txt" if name.endswith(".py") else name
    return (files(__name__) / stored).read_text("utf-8").replace(PYTHON, sys.executable)


def demo_environment(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment of the demo: its folder is trusted, and no variable names another project."""
    plain = {name: value for name, value in environ.items() if name not in _OF_ANOTHER_PROJECT}
    return {**plain, VARIABLE: str(folder)}
