"""`secrets:` in a file: each origin, what is refused, and which file applies."""

from datetime import timedelta
from pathlib import Path

import pytest

from rota.declare.project import read_project
from rota.model.errors import FileProblems
from rota.model.spec import SecretOrigin

HOME = {"HOME": "/home/x"}


def load(folder: Path, text: str) -> dict[str, SecretOrigin]:
    (folder / "rota.yaml").write_text(f"{text}jobs: {{a: {{command: x}}}}\n")
    return dict(read_project(folder, environment=HOME).settings.secrets)


def test_each_origin_is_read_with_its_paths_made_absolute(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        """secrets:
  OP: {command: [op, read, "op://vault/item/field"], timeout: 5s}
  OWN: {command: ./secret.sh one}
  FILE: {file: ~/token}
  KEY: {keyring: github/me}
""",
    )
    assert found == {
        "OP": SecretOrigin(
            command=("op", "read", "op://vault/item/field"), timeout=timedelta(seconds=5), cwd=str(tmp_path)
        ),
        "OWN": SecretOrigin(command=(f"{tmp_path}/secret.sh", "one"), cwd=str(tmp_path)),
        "FILE": SecretOrigin(file="/home/x/token"),
        "KEY": SecretOrigin(service="github", account="me"),
    }


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{A: hunter2}", "is not an origin of a secret"),
        ("{A: }", "has no value"),
        ("{A: {}}", "has no origin"),
        ("{A: {command: x, file: y}}", "has command and file"),
        ("{A: {value: hunter2}}", "unknown key"),
        ("{A: {keyring: github}}", '"github" is not an entry of a keyring'),
        ("{A: {command: []}}", "is an empty list"),
        ("{A: {command: x, timeout: 1h}}", "is not between 1s and 5m"),
        ("{A-B: {command: x}}", '"A-B" cannot be a secret\'s name'),
    ],
)
def test_what_is_no_origin_is_refused_without_its_value(tmp_path: Path, written: str, message: str) -> None:
    with pytest.raises(FileProblems) as told:
        load(tmp_path, f"secrets: {written}\n")
    said = str(told.value.problems[0])
    assert message in said
    assert "hunter2" not in said


def test_the_including_file_says_where_a_secret_is_read(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    inner = "secrets: {A: {file: a}, B: {file: b}}\njobs: {x: {command: x}}\n"
    (tmp_path / "api" / "rota.yaml").write_text(inner)
    found = load(tmp_path, "include: [api/rota.yaml]\nsecrets: {A: {file: mine}}\n")
    assert {name: one.file for name, one in found.items()} == {
        "A": f"{tmp_path}/mine",
        "B": f"{tmp_path}/api/b",
    }
