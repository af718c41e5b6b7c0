"""Looking for an agent: present, version, logged in, headless."""

import json
import os
from pathlib import Path

import pytest
from tests.agents.programs import answering

from rota.agents.registry import AgentProbe, adapter, probe, probe_all


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    return tmp_path


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def environ(folder: Path, **further: str) -> dict[str, str]:
    return {"PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin", **further}


def test_an_agent_that_is_not_there_is_told(bin_folder: Path) -> None:
    assert probe(adapter("codex"), {"PATH": str(bin_folder)}) == AgentProbe("codex", problem="codex is not on PATH")


def test_version_and_login_are_asked_of_it(bin_folder: Path) -> None:
    path = answering(bin_folder, "codex", "codex-cli 0.166.0")
    assert probe(adapter("codex"), environ(bin_folder)) == AgentProbe(
        "codex", str(path), "0.166.0", True, headless=True
    )


def test_who_is_not_logged_in_is_told(bin_folder: Path) -> None:
    answering(bin_folder, "codex", logged_in=False)
    found = probe(adapter("codex"), environ(bin_folder))
    assert (found.logged_in, found.problem) == (False, "codex is not logged in")


def test_a_key_among_the_variables_is_a_login(bin_folder: Path) -> None:
    answering(bin_folder, "codex", logged_in=False)
    assert probe(adapter("codex"), environ(bin_folder, CODEX_API_KEY="k")).logged_in is True


REPORT = {
    "status": "ok",
    "summary": "auth is provided by the active model provider",
    "details": {"model provider requires OpenAI auth": "false"},
}


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        (REPORT, None),
        (
            {**REPORT, "status": "fail", "summary": "active model provider auth env var is missing"},
            "codex cannot log in: active model provider auth env var is missing",
        ),
        ({**REPORT, "details": {}}, "codex is not logged in"),
        ({}, "codex is not logged in"),
    ],
)
def test_codex_with_a_provider_of_ones_own_needs_no_login(
    bin_folder: Path, check: dict[str, object], problem: str | None
) -> None:
    report = json.dumps({"checks": {"auth.credentials": check}})
    answering(bin_folder, "codex", logged_in=False, report=report)
    found = probe(adapter("codex"), environ(bin_folder))
    assert (found.logged_in, found.problem) == (problem is None, problem)


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_a_version_without_an_option_that_rota_uses_does_not_run_headless(name: str, bin_folder: Path) -> None:
    kind = adapter(name).probe
    assert kind is not None
    answering(bin_folder, name, options=kind.options[:-1])
    found = probe(adapter(name), environ(bin_folder))
    assert (found.headless, found.problem) == (False, f"this version does not support {kind.options[-1]}")


def test_a_login_that_nobody_can_ask_for_is_unknown(bin_folder: Path) -> None:
    answering(bin_folder, "gemini", "0.61.0")
    found = probe(adapter("gemini"), environ(bin_folder))
    assert (found.version, found.logged_in, found.problem) == ("0.61.0", None, None)


def test_an_agent_that_breaks_is_told_with_its_words(bin_folder: Path) -> None:
    program(bin_folder, "gemini", "echo needs a newer node >&2; exit 3")
    found = probe(adapter("gemini"), environ(bin_folder))
    assert found.problem == "`gemini --version` ended with exit code 3: needs a newer node"


def test_a_program_that_cannot_start_is_told(bin_folder: Path) -> None:
    (bin_folder / "gemini").write_text("#!/no/such/interpreter\n")
    (bin_folder / "gemini").chmod(0o755)
    problem = probe(adapter("gemini"), environ(bin_folder)).problem or ""
    assert problem.startswith("`gemini --version` cannot be started: no such file")


def test_a_custom_agent_is_looked_for_as_its_options_say(bin_folder: Path) -> None:
    path = program(bin_folder, "aider", "echo aider v0.9")
    options = {"argv": ["aider"], "version": ["aider", "--version"]}
    assert probe(adapter("custom", options), environ(bin_folder)) == AgentProbe("custom", str(path), "v0.9")
    assert probe(adapter("custom", {"argv": ["aider"]}), environ(bin_folder)) == AgentProbe("custom", str(path))


def test_several_are_looked_for_in_their_order(bin_folder: Path) -> None:
    program(bin_folder, "gemini", "echo 0.61.0")
    found = probe_all([adapter("codex"), adapter("gemini")], environ(bin_folder))
    assert [(each.name, each.path is not None) for each in found] == [("codex", False), ("gemini", True)]
