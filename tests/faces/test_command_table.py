"""The table of commands: lazy, complete, documented."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import rota.cli
from rota.cli.errors import EXIT_CODES
from rota.cli.main import COMMANDS, GROUPS, cli, load_command
from rota.model.errors import RotaError

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "commands.md"
HEAVY = ("pydantic", "apsw", "rich", "ruamel", "psutil", "asyncio", "mcp", "starlette")
LOOKING = (
    "status",
    "list",
    "history",
    "explain",
    "show",
    "queue",
    "next",
    "logs",
    "groups",
    "workers",
    "usage",
    "budgets",
)
FOR_OTHERS = (
    "pydantic",
    "mcp",
    "starlette",
    "rota.declare.project",
    "rota.engine.loops.executor",
    "rota.engine.transactions.fire",
)
"""What declares, fires and executes: half a second that somebody who looks would wait for."""
CHANGING = (
    "add",
    "apply",
    "ack",
    "approve",
    "remove",
    "trust",
    "run",
    "trigger",
    "direct",
    "retry",
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


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_imports_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    printed, heavy = imported(arguments, tmp_path, of=HEAVY)
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
    about = {"explain": ["copy"], "show": ["copy:1"], "logs": ["copy:1"]}.get(name, [])
    printed, used = imported([name, *about], served, of=FOR_OTHERS)
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


def test_the_overview_shows_every_command_in_a_known_group() -> None:
    overview = click.Context(cli, info_name="rota").get_help()
    assert {entry.group for entry in COMMANDS.values()} == set(GROUPS)
    for name, entry in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(entry.summary[:20])}", overview, re.MULTILINE), name


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
    text = DOCUMENT.read_text()
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
