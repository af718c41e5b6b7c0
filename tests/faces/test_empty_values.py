"""A value on the command line that is empty or not UTF-8 is a mistake that is named, never the same as no value."""

from collections.abc import Iterator

import click
import pytest

from rota.cli.main import COMMANDS, load_command
from tests.faces.conftest import Project

BYTES = b"\xff".decode("utf-8", "surrogateescape")
FILE = "jobs:\n  disk: {interval: 1h, command: [echo, hi]}\n"


def options() -> Iterator[tuple[list[str], str]]:
    """Every option that takes a text, of every command and of those below it."""
    for name in COMMANDS:
        yield from _options([name], load_command(name))


def _options(path: list[str], command: click.Command) -> Iterator[tuple[list[str], str]]:
    for param in command.params:
        if isinstance(param, click.Option) and not param.is_flag and type(param.type) is click.types.StringParamType:
            others = [
                word for other in command.params if other.required and other is not param for word in _word(other)
            ]
            yield [*path, *others], max(param.opts, key=len)
    for name, below in command.commands.items() if isinstance(command, click.Group) else ():
        yield from _options([*path, name], below)


def _word(param: click.Parameter) -> list[str]:
    """A required parameter, filled in."""
    value = param.type.choices[0] if isinstance(param.type, click.Choice) else "1"
    return [max(param.opts, key=len), value] if isinstance(param, click.Option) else [value] * max(param.nargs, 1)


OPTIONS = list(options())


def test_there_are_options_to_try() -> None:
    assert len(OPTIONS) > 100


@pytest.mark.parametrize(("path", "option"), OPTIONS, ids=lambda one: one if isinstance(one, str) else one[0])
def test_an_empty_option_is_an_error_that_names_it(path: list[str], option: str, project: Project) -> None:
    result = project.rota(*path, option, "")
    assert result.exit_code == 2, result.output
    assert f"the value of {option} is empty" in result.stderr


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (["ack", ""], "WHAT is empty"),
        (["ack", "disk", ""], "WHAT is empty"),
        (["pause", ""], "JOB is empty"),
        (["resume", ""], "JOB is empty"),
        (["cancel", ""], "RUN is empty"),
        (["show", ""], "NAME is empty"),
        (["history", ""], "JOB is empty"),
        (["--dir", "", "list"], "--dir is empty"),
    ],
)
def test_an_empty_name_is_an_error_that_names_it(typed: list[str], named: str, project: Project) -> None:
    project.applied(FILE)
    result = project.rota(*typed)
    assert result.exit_code == 2, result.output
    assert named in result.stderr


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (["show", BYTES], "NAME"),
        (["trigger", BYTES], "JOB"),
        (["pause", "disk", "--reason", BYTES], "--reason"),
        (["add", "other", "--", "echo", BYTES], "-- COMMAND"),
        (["backup", BYTES], "FILE"),
        (["--dir", BYTES, "list"], "--dir"),
    ],
)
def test_a_value_that_is_not_utf8_is_an_error_that_names_it(typed: list[str], named: str, project: Project) -> None:
    project.applied(FILE)
    result = project.rota(*typed)
    assert (result.exit_code, f"the value of {named} is not UTF-8" in result.stderr) == (2, True), result.stderr


def test_a_project_in_a_folder_whose_path_is_not_utf8_is_refused(project: Project) -> None:
    project.folder = project.folder / BYTES
    project.folder.mkdir()
    project.write(FILE)
    result = project.rota("check")
    assert (result.exit_code, "is not UTF-8" in result.stderr) == (2, True), result.stderr


def test_an_empty_end_of_a_pause_pauses_nothing(project: Project) -> None:
    project.applied(FILE)
    assert project.rota("pause", "disk", "--for", "").exit_code == 2
    assert project.json("show", "disk")["state"] == "idle"


def test_a_command_may_have_empty_words(project: Project) -> None:
    project.write(FILE)
    project.ok("add", "other", "--", "echo", "")
    assert 'echo, ""' in (project.folder / "rota.yaml").read_text().replace("''", '""')
