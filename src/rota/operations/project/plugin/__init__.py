"""The plugin for Claude Code and Codex: a skill, and the MCP server of a project."""

import json
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from rota.model.errors import InvalidValue

MANIFESTS = (".claude-plugin/plugin.json", ".codex-plugin/plugin.json")
SERVERS = ".mcp.json"
SKILL = "skills/rota/SKILL.md"


def plugin_files(program: Sequence[str], project: Path | None) -> dict[str, str]:
    """Return the files of the plugin; without a project the server looks for the one of its folder."""
    directory = ["--dir", str(project)] if project else []
    manifest = {
        "name": "rota",
        "version": version("rota"),
        "description": "Schedule commands, scripts and agent tasks with rota, and explain what ran.",
        "license": "MIT",
        "skills": "./skills/",
        "mcpServers": f"./{SERVERS}",
    }
    server = {"command": program[0], "args": [*program[1:], *directory, "mcp"]}
    return {
        **dict.fromkeys(MANIFESTS, _json(manifest)),
        SERVERS: _json({"mcpServers": {"rota": server}}),
        SKILL: (files(__name__) / "SKILL.md").read_text("utf-8"),
    }


def write_plugin(folder: Path, contents: dict[str, str]) -> None:
    """Write the plugin; a folder with other files in it is refused, an older plugin is replaced."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MANIFESTS[0]).is_file():
        raise InvalidValue(f"{folder} is not empty", hint="name a new folder, such as ./rota-plugin")
    for name, text in contents.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
