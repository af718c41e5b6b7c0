"""What a release is made of: man pages of every command, workflows that call targets of the Makefile, no host names."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from rota.cli.invocation import Invocation
from rota.cli.main import COMMANDS, cli
from rota.declare.project import read_project
from rota.engine.clock import SystemClock
from rota.operations.tools.catalog import tools_of
from tests.docs.pages import ROOT

WORKFLOWS = (".github/workflows/release.yml", "packaging/gitlab-release.yml")
MACROS = {"TH", "SH", "PP", "TP", "B", "BR", "nf", "fi"}


def man_pages() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("man", ROOT / "tools" / "man.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, str] = module.pages()
    return found


def test_every_command_has_a_man_page_of_known_macros() -> None:
    pages = man_pages()
    assert {f"rota-{name}.1" for name in COMMANDS} | {"rota.1", "rota-groups-show.1"} <= set(pages)
    for name, text in pages.items():
        assert text.startswith(".TH "), name
        assert {line[1:].split()[0] for line in text.splitlines() if line.startswith(".")} <= MACROS, name
    assert "\\-\\-dry\\-run" in pages["rota-apply.1"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_builds_tests_and_publishes_without_a_token(name: str) -> None:
    text = (ROOT / name).read_text()
    YAML(typ="safe").load(text)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {word for line in re.findall(r"make ([a-z -]+)$", text, re.MULTILINE) for word in line.split()}
    assert {"test", "dist"} <= called <= targets
    assert re.search(r"id-token: write|id_tokens:", text)
    assert not re.search(r"secrets\.|password|https?://|\w\.(org|com|io)\b", text)


def test_the_formula_installs_completions_and_man_pages() -> None:
    text = (ROOT / "packaging" / "rota.rb.in").read_text()
    assert set(re.findall(r"@[A-Z0-9]+@", text)) == {"@VERSION@", "@URL@", "@SHA256@"}
    assert 'bin/"rota", "completion"' in text
    assert 'man1.install Dir["man/*.1"]' in text
    assert not re.search(r"https?://", text)


def test_the_skill_names_every_tool_and_its_file_passes_the_check(tmp_path: Path) -> None:
    (skill,) = ROOT.glob("src/rota/operations/project/plugin/SKILL.md")
    text = skill.read_text()
    head = YAML(typ="safe").load(text.split("---\n")[1])
    assert head["name"] == "rota"
    assert len(head["description"]) <= 1024
    assert {tool.name for tool in tools_of(lambda _name, _arguments: {})} <= set(re.findall(r"`(\w+)`", text))
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(read_project(tmp_path, environment={}, content=example.encode()).jobs) == 3
    assert set(re.findall(r"^    rota ([a-z]+)", text, re.MULTILINE)) <= set(COMMANDS)


def test_the_plugin_serves_the_project_that_it_was_written_in(tmp_path: Path) -> None:
    (tmp_path / "rota.yaml").write_text("jobs: {}\n")
    invocation = Invocation({"HOME": str(tmp_path)}, tmp_path, SystemClock())
    wrote = CliRunner().invoke(cli, ["mcp", "--write-plugin", "plugin"], obj=invocation)
    assert wrote.exit_code == 0, wrote.output
    folder = tmp_path / "plugin"
    for manifest in (".claude-plugin", ".codex-plugin"):
        found = json.loads((folder / manifest / "plugin.json").read_text())
        assert found["name"] == "rota"
        assert (folder / found["skills"] / "rota" / "SKILL.md").is_file()
        server = json.loads((folder / found["mcpServers"]).read_text())["mcpServers"]["rota"]
    asked = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
    command = [server["command"], *server["args"]]
    told = subprocess.run(command, input=asked, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "schedule_job" in told.stdout
    assert str(tmp_path) in server["args"]
    again = CliRunner().invoke(cli, ["mcp", "--write-plugin", "."], obj=Invocation({}, tmp_path, SystemClock()))
    assert again.exit_code == 2
