"""Compiling the preloaded shims with the machine's own compiler."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def compiler() -> str | None:
    """Return the C compiler, None where there is none."""
    return shutil.which("cc")


def compiled(name: str, folder: Path) -> Path:
    """Return the shared object of `name`.c, made in `folder`; skip the test without a compiler."""
    made = folder / f"{name}.so"
    if made.exists():
        return made
    cc = compiler()
    if cc is None:
        pytest.skip("no C compiler `cc` on PATH: the shims of tests/faults cannot be built")
    fresh = folder / f"{name}.{os.getpid()}.so"
    command = [cc, "-O2", "-shared", "-fPIC", "-o", str(fresh), str(HERE / f"{name}.c"), "-ldl", "-lpthread"]
    subprocess.run(command, check=True, capture_output=True)
    fresh.rename(made)
    return made
