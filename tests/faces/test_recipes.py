"""Each recipe is checked, applied and run once, with stand-ins for its programs."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.agents import fake_agent
from tests.docs.pages import blocks
from tests.faces.conftest import Project

RECIPES = {
    text.split("jobs:")[1].split(":")[0].strip(): text
    for place, text in blocks("yaml")
    if place.startswith("recipes.md")
}
SECRETS = {"PING_URL": "http://127.0.0.1:9/", "PUSHOVER_URL": "json://127.0.0.1:9"}


@pytest.fixture
def kitchen(project: Project) -> Project:
    """A folder with what the recipes expect beside their file."""
    (project.folder / "bin").mkdir()
    for agent in ("claude-success", "codex-success"):
        fake_agent.install(project.folder / "bin", agent)
    for folder in ("api", "web", "inbox", "jobs.d"):
        (project.folder / folder).mkdir()
    (project.folder / "inbox" / "task.md").write_text("Fix the typo.")
    (project.folder / "jobs.d" / "one.yaml").write_text("jobs:\n  one: {command: [./one.sh]}\n")
    return project


def commit(folder: Path) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.net")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *words], cwd=folder, check=True)


def test_there_are_ten_recipes() -> None:
    assert len(RECIPES) == 10


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_runs(recipe: str, kitchen: Project) -> None:
    text = RECIPES[recipe]
    for script in re.findall(r"\./([\w-]+\.sh)", text + "./one.sh"):
        program = kitchen.folder / script
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
    commit(kitchen.folder)
    environ = {"PATH": f"{kitchen.folder / 'bin'}:/usr/bin:/bin", **SECRETS}
    kitchen.write(text)
    checked = kitchen.rota("check", environ=environ)
    assert checked.exit_code == 0, checked.output
    assert kitchen.rota("apply", environ=environ).exit_code == 0
    jobs = [job["name"] for job in kitchen.json("list")]
    for name in ["nightly"] if "nightly" in text else jobs:
        assert kitchen.rota("trigger", name, environ=environ).exit_code == 0
    ticked = kitchen.rota("tick", environ=environ)
    runs = {run["job"]: run["status"] for run in kitchen.json("history")}
    assert {runs.get(name) for name in jobs} == {"COMPLETED"}, (runs, ticked.output)
