"""The adapters by name, and the promises that all of them make."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.agents.fake_agent import RECORDED
from tests.agents.replaying import read, recording

from rota.agents.registry import adapter, complaints, names
from rota.model.agents import KEPT_ALONE, Access, AgentInvocation, AgentTask, ProcessEnd
from rota.model.errors import UnknownAdapter

PROCESSES = ("claude", "codex", "gemini", "opencode")


def test_all_adapters_have_a_name() -> None:
    assert names() == ("claude", "codex", "gemini", "opencode", "ollama", "custom")
    assert [adapter(name).name for name in names()] == list(names())


def test_an_unknown_name_is_refused_with_a_guess() -> None:
    with pytest.raises(UnknownAdapter) as raised:
        adapter("claud")
    assert "did you mean 'claude'?" in (raised.value.hint or "")


@pytest.mark.parametrize("name", names())
def test_an_adapter_is_a_process_or_a_call(name: str) -> None:
    found = adapter(name, {"argv": ["agent"]} if name == "custom" else None)
    is_process = found.invoke is not None and found.read is not None
    assert is_process != (found.run is not None)
    assert bool(found.executable) == is_process


@pytest.mark.parametrize(
    ("name", "provider"),
    [("claude", "anthropic"), ("codex", "openai"), ("gemini", "google"), ("ollama", "ollama"), ("custom", "custom")],
)
def test_who_answers_is_known_without_a_model(name: str, provider: str) -> None:
    assert adapter(name).provider_for(None) == provider


@pytest.mark.parametrize("name", PROCESSES)
def test_an_option_that_is_not_known_is_complained_about(name: str) -> None:
    """R-30: nothing is accepted and ignored."""
    assert complaints(name, {}) == ()
    assert complaints(name, {"turbo": True}) == ("turbo: unknown option",)


@pytest.mark.parametrize("name", PROCESSES)
def test_every_access_has_a_command_line_of_its_own(name: str) -> None:
    """R-30: access is translated by each adapter."""
    invokes, levels = adapter(name).invoke, adapter(name).capabilities.access
    assert invokes is not None
    assert levels >= KEPT_ALONE
    made = [invokes(AgentTask("look", access=access)) for access in levels]
    assert len({(each.argv, tuple(sorted(each.env.items()))) for each in made}) == len(levels)


@pytest.mark.parametrize("name", PROCESSES)
def test_the_state_folder_and_protected_files_are_in_the_rules_of_each_program(name: str, tmp_path: Path) -> None:
    state, file = tmp_path / "project" / ".rota", tmp_path / "project" / "rota.yaml"
    (state / "runs" / "1").mkdir(parents=True)
    for path in (file, state / "token"):
        path.write_text("x")
    invokes = adapter(name).invoke
    assert invokes is not None
    task = AgentTask("look", access=Access.WRITE, cwd=str(file.parent), folder=str(state / "runs" / "1"))
    bare, ruled = invokes(task), invokes(replace(task, state=str(state), protected=(str(file),)))
    for path in (state, file):
        named = str(path) if name != "gemini" else re.escape(str(path)).replace("\\", "\\\\")
        assert named not in said_by(bare)
        assert named in said_by(ruled)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claude", "--setting-sources=user"),
        ("codex", '"/srv/app"={"trust_level"="untrusted"}'),
        ("gemini", "GEMINI_CLI_TRUST_WORKSPACE=false"),
        ("opencode", "OPENCODE_DISABLE_PROJECT_CONFIG=1"),
    ],
)
def test_settings_of_the_folder_count_only_where_the_job_trusts_it(name: str, words: str) -> None:
    invokes = adapter(name).invoke
    assert invokes is not None
    bare, trusting = (invokes(AgentTask("look", cwd="/srv/app", trust_project=trust)) for trust in (False, True))
    said = [" ".join([*one.argv, *(f"{key}={value}" for key, value in one.env.items())]) for one in (bare, trusting)]
    assert words in said[0]
    assert words not in said[1]


def said_by(made: AgentInvocation) -> str:
    """Return all that a program is told but its own folder."""
    return " ".join(
        [*(word for word in made.argv if "--policy=" not in word), *made.env.values(), *made.files.values()]
    )


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_recording_cut_at_any_line_is_read_without_an_error_of_ours(path: object) -> None:
    name = getattr(path, "stem", "")
    ended = recording(name)
    lines = ended.stdout.split("\n")
    for count in range(len(lines)):
        cut = ProcessEnd(ended.exit_code, "\n".join(lines[:count]), ended.stderr)
        assert read(name.partition("-")[0], cut) is not None


def change(value: Any, drawn: st.DataObject) -> Any:
    """Return a value in which something, somewhere, is another value."""
    if isinstance(value, dict | list) and value and drawn.draw(st.integers(0, 4)):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = drawn.draw(st.sampled_from(keys))
        changed = value.copy()
        changed[key] = change(value[key], drawn)
        return changed
    return drawn.draw(st.sampled_from([None, True, -1, 1e400, 10**30, "", "text", [], [1], {}, {"a": [None]}]))


@given(drawn=st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_a_program_prints_is_read_without_an_error_of_ours(drawn: st.DataObject) -> None:
    path = drawn.draw(st.sampled_from(sorted(RECORDED.glob("*.jsonl"))))
    ended = recording(path.stem)
    lines = [line for line in ended.stdout.split("\n") if line]
    if lines:
        at = drawn.draw(st.integers(0, len(lines) - 1))
        lines[at] = json.dumps(change(json.loads(lines[at]), drawn))
    result = read(path.stem.partition("-")[0], ProcessEnd(ended.exit_code, "\n".join(lines), ended.stderr))
    assert isinstance(result.summary, str)
    assert (result.problem is None) == (result.error is None)


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("noise", ["null", "[]", "{}", '{"type": 5}', "{" * 5000, '{"type": "result", "usage": [1]}'])
def test_noise_is_no_success(name: str, noise: str) -> None:
    assert read(name, ProcessEnd(0, noise)).problem is not None
