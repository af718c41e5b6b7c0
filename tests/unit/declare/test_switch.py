"""`scheduler.crash_guard`, a switch: true or false, also written on or off."""

from pathlib import Path

import pytest

from rota.declare.project import read_project
from rota.model.errors import FileProblems


def crash_guard(folder: Path, written: str) -> bool:
    (folder / "rota.yaml").write_text(f"scheduler: {{crash_guard: {written}}}\njobs:\n  one: {{command: [echo]}}\n")
    return read_project(folder, environment={}).settings.scheduler.crash_guard


@pytest.mark.parametrize(
    ("written", "meant"),
    [("true", True), ("false", False), ("on", True), ("off", False), ("Off", False), ('"on"', True)],
)
def test_a_switch_is_read_in_both_spellings(tmp_path: Path, written: str, meant: bool) -> None:
    """YAML 1.2 reads `on` and `off` as texts."""
    assert crash_guard(tmp_path, written) is meant


@pytest.mark.parametrize("written", ["maybe", "1", "[]", "yes"])
def test_anything_else_is_refused_with_both_words(tmp_path: Path, written: str) -> None:
    with pytest.raises(FileProblems) as raised:
        crash_guard(tmp_path, written)
    assert "on or off" in str(raised.value.problems[0])
