"""The scripted agent that other tests run: a process that plays a recording."""

import subprocess
from pathlib import Path

import pytest
from tests.agents.fake_agent import install
from tests.agents.replaying import read, recording, replay

from rota.model.agents import ProcessEnd


@pytest.mark.parametrize("name", ["claude-success", "claude-bad_key", "codex-terminated", "gemini-no_login"])
def test_it_says_and_ends_as_the_recorded_one(name: str, tmp_path: Path) -> None:
    program = install(tmp_path, name)
    assert program.name == name.partition("-")[0]
    done = subprocess.run([program, "-p"], input="look", capture_output=True, text=True, check=False)
    played = recording(name)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (
        played.exit_code,
        played.stdout.strip(),
        played.stderr,
    )
    ended = ProcessEnd(done.returncode, done.stdout, done.stderr, ended_at=played.ended_at)
    assert read(program.name, ended) == replay(name)
