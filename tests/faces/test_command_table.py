"""The table of commands: lazy, complete, documented."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import rota.cli
from rota.cli.errors import EXIT_CODES
from rota.cli.invocation import examples
from rota.cli.main import COMMANDS, cli, load_command
from rota.cli.overview import OVERVIEW, overview
from rota.model.errors import RotaError

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "commands.md"
HEAVY = ("pydantic", "rich", "ruamel", "psutil", "asyncio", "mcp", "starlette")
LOOKING = (
    "status",
    "list",
    "history",
    "explain",
    "show",
    "queue",
    "questions",
    "next",
    "logs",
    "groups",
    "workers",
    "usage",
    "digest",
    "stats",
    "spans",
    "budgets",
    "token",
    "touch",
)
FOR_OTHERS = (
    *HEAVY,
    "rota.declare.project",
    "rota.declare.yaml",
    "rota.engine.loops.executor",
    "rota.engine.loops.loop",
    "rota.engine.transactions.claim",
    "rota.engine.transactions.fire",
    "rota.runners.processes",
    "rota.store.transfer",
    *("concurrent.futures", "cronsim.explain", "ctypes", "difflib", "email", "logging", "socket", "ssl", "subprocess"),
    *("importlib.metadata", "importlib.resources"),
)
"""What declares, fires and executes, and what costs a command that only looks more than its own work."""
NOT_TO_CHECK = (
    *("pydantic", "ruamel", "apsw", "asyncio", "psutil", "ctypes", "importlib.metadata", "importlib.resources"),
    *("rota.store", "rota.engine.functions", "rota.engine.transactions", "rota.runners.command"),
)
"""What stores and executes: three quarters of the time that a check of a small file would take with them."""
CHANGING = (
    "add",
    "apply",
    "ack",
    "answer",
    "approve",
    "remove",
    "trust",
    "run",
    "trigger",
    "direct",
    "retry",
    "fork",
    "cancel",
    "stop",
    "init",
    "pause",
    "resume",
    "restore",
    "touch",
    "move",
    "edit",
    "backfill",
    "service",
    "tick",
    "token",
    "migrate",
)


def commands() -> dict[str, click.Command]:
    return {name: load_command(name) for name in COMMANDS}


def imported(arguments: Sequence[str], folder: Path, *, of: Sequence[str]) -> tuple[str, list[str]]:
    """Return what a command prints in a folder, and which of some modules it imports for that."""
    code = (
        "import json, sys; sys.argv = ['rota', *sys.argv[1:]]\n"
        "from rota.cli import run as main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        f"print(json.dumps([name for name in {of!r} if name in sys.modules]), file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return ran.stdout, json.loads(ran.stderr.splitlines()[-1])


@pytest.mark.parametrize("arguments", [["--help"], ["-h"]])
def test_the_overview_is_printed_without_click_and_records(arguments: list[str], tmp_path: Path) -> None:
    printed, used = imported(arguments, tmp_path, of=("click", "msgspec", "pathlib", "rota.model", "rota.cli.main"))
    assert printed.startswith("Usage: rota ")
    assert used == []


def test_the_overview_and_the_command_help_print_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("60", "79", "82", "120"):
        monkeypatch.setenv("COLUMNS", columns)
        assert CliRunner().invoke(cli, ["--help"]).output == overview()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_imports_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    printed, heavy = imported(arguments, tmp_path, of=(*HEAVY, "apsw"))
    if arguments:
        assert heavy == []
    assert "rota" in printed


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose one job has run once, by a tick."""
    folder = tmp_path_factory.mktemp("looking")
    (folder / "rota.yaml").write_text("jobs: {copy: {interval: 1h, command: [echo, done]}}\n")
    _, used = imported(["tick"], folder, of=FOR_OTHERS)
    assert "rota.engine.loops.executor" in used
    return folder


@pytest.mark.parametrize("name", LOOKING)
def test_who_only_looks_does_not_wait_for_what_declares_and_executes(name: str, served: Path) -> None:
    about = {"explain": ["copy"], "show": ["copy:1"], "logs": ["copy:1"], "spans": ["copy:1"]}.get(name, [])
    printed, used = imported([name, *about], served, of=FOR_OTHERS)
    assert printed
    assert used == []


@pytest.mark.parametrize("arguments", [["check"], ["check", "--json"], ["apply", "--dry-run"], ["schema"]])
def test_a_check_does_not_wait_for_what_stores_and_executes(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("jobs:\n  copy:\n    interval: 1h\n    command: [echo, done]  # a note\n")
    printed, used = imported(arguments, tmp_path, of=NOT_TO_CHECK)
    assert printed
    assert used == []


def test_the_table_and_the_modules_are_the_same_commands() -> None:
    folder = Path(rota.cli.__file__).parent
    written = {
        name
        for path in folder.rglob("*.py")
        for name in re.findall(r"^def (\w+)_command\(", path.read_text(), re.MULTILINE)
    } - {"load"}
    assert written == set(COMMANDS)
    assert {name: found.name for name, found in commands().items()} == {name: name for name in COMMANDS}


@pytest.mark.parametrize("columns", ["80", "100"])
def test_the_overview_shows_every_command_with_its_text(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    overview = click.Context(cli, info_name="rota").get_help()
    for names, text in (cell for cells in OVERVIEW.values() for cell in cells):
        assert re.search(rf" {names} +{re.escape(text)}( |$)", overview, re.MULTILINE), names
    assert max(len(line) for line in overview.splitlines()) <= int(columns)


def test_the_overview_fits_one_screen_and_begins_with_the_commands_of_the_first_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = CliRunner().invoke(cli, ["--help"]).output.splitlines()
    assert len(lines) <= 40
    assert list(OVERVIEW) == ["Start here", "See", "Act", "Queue", "Agents", "Operate"]
    assert list(COMMANDS)[:5] == ["init", "check", "serve", "run", "status"]


def test_outside_a_project_rota_says_in_four_lines_what_to_do(tmp_path: Path) -> None:
    printed, _ = imported([], tmp_path, of=())
    assert len(printed.splitlines()) == 4
    assert "rota init" in printed
    assert "rota --help" in printed


def test_every_command_has_examples() -> None:
    paths = [name for name, command in commands().items() if not isinstance(command, click.Group)]
    groups = {name: command for name, command in commands().items() if isinstance(command, click.Group)}
    paths += [f"{name} {below}" for name, command in groups.items() for below in command.commands]
    for path in paths:
        told = CliRunner().invoke(cli, [*path.split(), "--help"]).output
        assert re.search(rf"^Examples:\n  rota {path}\b", told, re.MULTILINE), path


@pytest.mark.parametrize("line", examples())
def test_every_example_is_a_command_that_parses(line: str) -> None:
    assert len(line) <= 78
    command: click.Command = cli
    context, words = click.Context(cli, info_name="rota"), shlex.split(line, comments=True)[1:]
    while isinstance(command, click.Group) and words and words[0] in command.list_commands(context):
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command, context = found, click.Context(found, info_name=found.name, parent=context)
    command.make_context(command.name, words, parent=context.parent)


def test_every_option_of_every_command_has_help() -> None:
    silent = [
        f"{name} {param.opts[0]}"
        for name, command in {**commands(), "rota": cli}.items()
        for param in command.params
        if isinstance(param, click.Option) and not param.help
    ]
    assert silent == []


def test_every_command_has_json_and_dir_and_every_changing_one_has_dry_run() -> None:
    for name, command in commands().items():
        options = {option for param in command.params for option in param.opts}
        assert {"--json", "--dir"} <= options, name
        assert ("--dry-run" in options) == (name in CHANGING), name


def test_every_command_and_option_is_documented() -> None:
    text = "\n".join(path.read_text() for path in sorted((ROOT / "docs").glob("commands*.md")))
    for name, command in commands().items():
        section = re.search(rf"^### `rota {name}\b.*?(?=^### |^## |\Z)", text, re.MULTILINE | re.DOTALL)
        assert section, name
        own = [param for param in command.params if isinstance(param, click.Option) and "--dir" not in param.opts]
        missing = [param.opts[-1] for param in own if param.opts[-1] not in section[0] and param.opts[-1] != "--json"]
        assert not missing, (name, missing)


def test_every_exit_code_is_documented() -> None:
    text = DOCUMENT.read_text()
    for code in {*EXIT_CODES.values(), 0, 3, 4, 5, 130}:
        assert re.search(rf"^\| {code} \|", text, re.MULTILINE), code


def test_no_error_is_without_an_exit_code() -> None:
    def below(kind: type[RotaError]) -> list[type[RotaError]]:
        return [each for child in kind.__subclasses__() for each in (child, *below(child))]

    named = [kind for kind in below(RotaError) if kind.__module__ == "rota.model.errors"]
    unmapped = [kind for kind in named if not any(base in EXIT_CODES for base in kind.__mro__ if base is not RotaError)]
    assert len(named) > 20
    assert unmapped == []


def test_help_breaks_no_option_and_cuts_no_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ([], *([name] for name in COMMANDS)):
        told = CliRunner().invoke(cli, [*name, "--help"]).output
        assert not re.search(r"\w-$|\.\.\.$|\u2011", told, re.MULTILINE), told
