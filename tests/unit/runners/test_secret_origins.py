"""Secrets from a command, a file and the keyring: their values, their bounds, and errors without a value."""

import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.model.errors import SecretMissing
from rota.model.spec import EnvValue, Kind, SecretOrigin, Work
from rota.runners import secret_origins
from rota.runners.command import prepare
from rota.runners.environment import Secrets
from rota.runners.secret_origins import LIMIT, keyring_command, read_origin

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "VAULT_ADDR": "http://vault.test"}


def shell(text: str, *, timeout: float = 120) -> SecretOrigin:
    return SecretOrigin(command=("sh", "-c", text), timeout=timedelta(seconds=timeout))


def refused(origin: SecretOrigin) -> str:
    with pytest.raises(SecretMissing) as told:
        read_origin("TOKEN", origin, ENVIRONMENT)
    return told.value.message


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_command_gives_its_output_without_the_last_line_break_and_sees_the_schedulers_environment() -> None:
    assert read_origin("TOKEN", shell('echo "one two "; echo; echo "$VAULT_ADDR"'), ENVIRONMENT) == (
        "one two \n\nhttp://vault.test"
    )


def test_a_command_runs_in_the_projects_folder_and_reads_nothing_from_a_terminal(tmp_path: Path) -> None:
    origin = replace(shell("pwd; cat"), cwd=str(tmp_path))
    assert read_origin("TOKEN", origin, ENVIRONMENT) == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exit 7", "secret 'TOKEN': sh ended with exit code 7"),
        ("echo first >&2; echo not signed in >&2; exit 1", "secret 'TOKEN': sh ended with exit code 1: not signed in"),
        ("kill -9 $$", "secret 'TOKEN': sh ended with signal SIGKILL"),
        ("true", "secret 'TOKEN': sh gave nothing"),
        (r"printf 'a\0b'", "secret 'TOKEN': sh gave a NUL character"),
        (r"printf '\377'", "secret 'TOKEN': sh gave no UTF-8 text"),
        ("yes", f"secret 'TOKEN': sh gave more than {LIMIT:,} bytes"),
        ("seq 100000 >&2; echo error >&2; exit 1", "secret 'TOKEN': sh ended with exit code 1: error"),
    ],
)
def test_a_command_without_a_value_says_why(text: str, message: str) -> None:
    assert refused(shell(text)) == message


def test_the_error_of_a_command_never_shows_its_value() -> None:
    message = refused(shell("echo hunter2-and-more; echo no access with hunter2-and-more >&2; exit 1"))
    assert message == "secret 'TOKEN': sh ended with exit code 1: no access with ***"


def test_a_late_command_ends_with_all_its_processes(tmp_path: Path) -> None:
    """A child that has the pipe of its late parent is killed: the other end of the pipe closes."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    other_end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    message = refused(shell(f"sh -c 'exec sleep 1000' 3> {pipe} & wait", timeout=1))
    assert message == "secret 'TOKEN': sh gave no value within 1 s"
    os.set_blocking(other_end, True)
    assert os.read(other_end, 1) == b""
    os.close(other_end)


def test_a_program_that_is_missing_is_named() -> None:
    assert refused(SecretOrigin(command=("op-not-here", "read"))) == (
        "secret 'TOKEN': op-not-here is not on the scheduler's PATH"
    )


def test_a_file_gives_its_text_and_must_not_be_open_to_all(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("value\n")
    path.chmod(0o640)
    assert read_origin("TOKEN", SecretOrigin(file=str(path)), ENVIRONMENT) == "value"
    path.chmod(0o644)
    assert "is open to all users (mode 0644)" in refused(SecretOrigin(file=str(path)))
    assert "no such file" in refused(SecretOrigin(file=str(tmp_path / "none")))
    os.mkfifo(tmp_path / "pipe", stat.S_IRUSR | stat.S_IWUSR)
    assert "is not a regular file" in refused(SecretOrigin(file=str(tmp_path / "pipe")))


def test_the_keyring_is_read_by_the_systems_own_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "secret-tool", 'test "$*" = "lookup service github username me" && printf value')
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    origin = SecretOrigin(service="github", account="me")
    monkeypatch.setattr(secret_origins.sys, "platform", "linux")
    assert read_origin("TOKEN", origin, environ) == "value"
    monkeypatch.setattr(secret_origins.sys, "platform", "darwin")
    assert keyring_command(origin) == ("security", "find-generic-password", "-s", "github", "-a", "me", "-w")


def test_an_origin_takes_the_place_of_every_other_and_is_read_at_each_use(facts, around, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "token"
    path.write_text("first")
    path.chmod(0o600)
    origins = {"TOKEN": SecretOrigin(file=str(path))}
    work = Work(kind=Kind.COMMAND, command=("true",), env=(EnvValue("X", secret="TOKEN"),))
    here = replace(around, origins=origins, environ={**around.environ, "TOKEN": "environment"})
    assert prepare(work, facts, here).env["X"] == "first"
    assert prepare(work, facts, here).secret == ("X",)
    path.write_text("second")
    assert prepare(work, facts, here).env["X"] == "second"


def test_a_value_of_an_origin_is_redacted_like_the_others(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path, ENVIRONMENT, lambda: {"TOKEN": shell("echo hunter2-and-more")})
    assert secrets.find("TOKEN") == "hunter2-and-more"
    assert secrets.hide("401 for hunter2-and-more") == "401 for ***"
