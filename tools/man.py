"""Write the man pages from the help texts of the commands: `python tools/man.py FOLDER`."""

import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from rota.cli.invocation import examples
from rota.cli.main import COMMANDS, cli, load_command
from rota.cli.overview import SUMMARY


def escape(text: str) -> str:
    """Return a text that roff prints as it is."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in plain.split("\n"))


def page(path: str, command: click.Command) -> str:
    """Return the page of a command."""
    context = click.Context(command, info_name=f"rota {path}")
    lines = [f'.TH "ROTA-{path.replace(" ", "-").upper()}" 1 "" "rota {version("rota")}" "rota"', ".SH NAME"]
    lines.append(f"rota\\-{escape(path.replace(' ', '-'))} \\- {escape(command.get_short_help_str(1000).rstrip('.'))}")
    lines += [".SH SYNOPSIS", f".B rota {escape(path)}", escape(" ".join(command.collect_usage_pieces(context)))]
    lines.append(".SH DESCRIPTION")
    for paragraph in (command.help or "").split("\n\n"):
        lines += [".PP", escape(" ".join(paragraph.split()))]
    lines += _options(command, context)
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for name, below in sorted(command.commands.items()):
            lines += [".TP", f".B {escape(name)}", escape(below.get_short_help_str(1000))]
    own = [line for line in examples() if f"{line} ".startswith(f"rota {path} ")]
    if own:
        lines += [".SH EXAMPLES", ".nf", *(escape(line) for line in own), ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR rota (1)"]) + "\n"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [record for param in command.params if (record := param.get_help_record(context)) and record[1]]
    if records:
        yield ".SH OPTIONS"
    for names, text in records:
        yield from (".TP", f".B {escape(names)}", escape(" ".join(text.split())))


def overview_page() -> str:
    """Return the page of `rota` itself."""
    lines = [
        f'.TH "ROTA" 1 "" "rota {version("rota")}" "rota"',
        ".SH NAME",
        "rota \\- scheduler for agents and scripts",
    ]
    lines += [".SH SYNOPSIS", ".B rota", "[OPTIONS] COMMAND ...", ".SH DESCRIPTION", escape(SUMMARY), ".SH COMMANDS"]
    for name in COMMANDS:
        summary = load_command(name).get_short_help_str(1000)
        lines += [".TP", f".BR rota\\-{escape(name)} (1)", escape(summary)]
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Return all pages by file name."""
    found = {"rota.1": overview_page()}
    for name in COMMANDS:
        command = load_command(name)
        found[f"rota-{name}.1"] = page(name, command)
        if isinstance(command, click.Group):
            for below, inner in command.commands.items():
                found[f"rota-{name}-{below}.1"] = page(f"{name} {below}", inner)
    return found


def main(folder: Path) -> None:
    """Write the pages into a folder."""
    assert cli.name == "rota"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
