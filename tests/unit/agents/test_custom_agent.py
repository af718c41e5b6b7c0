"""Custom agents: the options of the file become a command line, capabilities and a way to read."""

import json
from typing import Any

import pytest

from rota.agents.custom import adapter, complaints, invoke, read
from rota.model.agents import Access, AgentProblem, AgentTask, Probe, ProcessEnd

OPTIONS: dict[str, Any] = {
    "argv": ["aider", ["--model", "{model}"], "{access}", ["--resume={session}"], "--message", "{prompt}"],
    "access": {"read": ["--dry-run"], "full": []},
    "parser": "json",
    "paths": {"result": "answer", "session": "id", "tokens_in": "usage.in", "tokens_out": "usage.out", "usd": "cost"},
    "provider": "openrouter",
    "version": ["aider", "--version"],
}


def argv(options: dict[str, Any], **task: Any) -> list[str]:
    return list(invoke(AgentTask(**{"prompt": "look", "options": options, **task})).argv)


def ended(stdout: str, options: dict[str, Any], *, exit_code: int = 0, stderr: str = "") -> Any:
    return read(ProcessEnd(exit_code, stdout, stderr), AgentTask("look", options=options))


# its command line


def test_places_are_filled() -> None:
    words = argv(OPTIONS, model="big", session_id="s1")
    assert words == ["aider", "--model", "big", "--dry-run", "--resume=s1", "--message", "look"]


def test_a_list_goes_when_a_place_in_it_has_no_value() -> None:
    assert argv(OPTIONS, access=Access.FULL) == ["aider", "--message", "look"]


def test_a_prompt_without_a_place_is_the_last_argument() -> None:
    assert argv({"argv": ["agent", "-x"]}) == ["agent", "-x", "look"]


def test_a_prompt_by_standard_input_is_no_argument() -> None:
    invocation = invoke(AgentTask("look", options={"argv": ["agent", "-"], "prompt": "stdin"}))
    assert (invocation.argv, invocation.stdin) == (("agent", "-"), "look")


def test_a_prompt_is_not_searched_for_places() -> None:
    assert argv({"argv": ["agent", "{prompt}"]}, prompt="use {model} and {prompt}") == [
        "agent",
        "use {model} and {prompt}",
    ]


def test_the_tools_of_rota_are_described_where_there_is_a_place() -> None:
    options = {"argv": ["agent", ["--mcp", "{mcp_config}"]]}
    assert argv(options) == ["agent", "look"]
    described = json.loads(argv(options, tools_server=("rota", "mcp"))[2])
    assert described == {"mcpServers": {"rota": {"command": "rota", "args": ["mcp"]}}}


# what it can keep


def test_it_can_keep_what_its_argv_has_a_place_for() -> None:
    """R-30: nothing is accepted and ignored."""
    found = adapter(OPTIONS).capabilities
    assert (found.model, found.resume, found.cost) == (True, True, True)
    assert (found.max_turns, found.max_usd, found.allowed_tools, found.tools_server) == (False, False, False, False)
    assert found.access == {Access.READ, Access.FULL}


def test_nothing_restrains_it_unless_the_file_says_how() -> None:
    """R-30: without `access` it can only promise full access."""
    found = adapter({"argv": ["agent"]}).capabilities
    assert found.access == {Access.FULL}
    assert not found.model


def test_a_session_that_cannot_be_read_cannot_be_resumed() -> None:
    """R-30"""
    assert not adapter({"argv": ["agent", ["{session}"]]}).capabilities.resume


def test_it_says_who_answers_and_how_to_look_for_it() -> None:
    found = adapter(OPTIONS)
    assert (found.provider, found.executable) == ("openrouter", "aider")
    assert found.probe == Probe(version=("aider", "--version"))
    assert adapter({"argv": ["agent"]}).provider == "custom"


# what it says


def test_plain_text_is_the_answer() -> None:
    result = ended("\nall fine\n", {"argv": ["agent"]})
    assert (result.problem, result.summary, result.tokens_in) == (None, "all fine", None)


def test_no_text_is_no_success() -> None:
    """A run that did nothing is not a success."""
    assert ended(" \n", {"argv": ["agent"]}).problem is AgentProblem.AGENT_ERROR


def test_a_bad_exit_code_is_a_failure_with_its_last_words() -> None:
    result = ended("half", {"argv": ["agent"]}, exit_code=3, stderr="boom\n")
    assert (result.problem, result.error) == (AgentProblem.AGENT_ERROR, "agent ended with exit code 3: boom")


def test_standard_error_tells_the_class_of_a_failure_and_the_answer_does_not() -> None:
    options = {"argv": ["agent"]}
    assert ended("", options, exit_code=1, stderr="429 too many requests").problem is AgentProblem.QUOTA
    assert ended("too many requests", options, exit_code=1).problem is AgentProblem.AGENT_ERROR


def test_values_are_found_by_their_paths() -> None:
    answer = {"answer": "fine", "id": 7, "usage": {"in": 12, "out": 3}, "cost": 0.25}
    result = ended(json.dumps(answer), OPTIONS)
    assert (result.problem, result.summary, result.session_id) == (None, "fine", "7")
    assert (result.tokens_in, result.tokens_out, result.usd) == (12, 3, 0.25)


def test_a_path_counts_the_items_of_a_list() -> None:
    options = {"argv": ["agent"], "parser": "json", "paths": {"result": "choices.0.text"}}
    assert ended('{"choices": [{"text": "first"}, {"text": "second"}]}', options).summary == "first"


def test_of_lines_of_json_the_last_that_has_a_value_counts() -> None:
    options = {"argv": ["agent"], "parser": "jsonl", "paths": {"result": "text", "tokens_in": "in"}}
    result = ended('{"text": "one", "in": 5}\nnoise\n{"text": "two"}\n', options)
    assert (result.summary, result.tokens_in) == ("two", 5)


def test_what_is_missing_is_unknown() -> None:
    result = ended('{"answer": "fine", "usage": {"in": "many"}, "cost": -1}', OPTIONS)
    assert (result.tokens_in, result.tokens_out, result.usd, result.session_id) == (None, None, None, None)


@pytest.mark.parametrize(
    ("value", "error"),
    [("rate limited", "rate limited"), (True, "fine"), ({"code": 5}, '{"code": 5}')],
)
def test_an_error_of_its_own_is_a_failure_although_it_exits_with_0(value: Any, error: str) -> None:
    options = {"argv": ["agent"], "parser": "json", "paths": {"result": "answer", "error": "error"}}
    result = ended(json.dumps({"answer": "fine", "error": value}), options)
    assert result.problem is not None
    assert result.error == error


@pytest.mark.parametrize("value", [None, False, "", 0])
def test_an_error_that_is_none_is_none(value: Any) -> None:
    options = {"argv": ["agent"], "parser": "json", "paths": {"result": "answer", "error": "error"}}
    assert ended(json.dumps({"answer": "fine", "error": value}), options).problem is None


def test_output_that_is_no_json_is_a_failure() -> None:
    result = ended("Traceback", OPTIONS)
    assert (result.problem, result.error) == (AgentProblem.AGENT_ERROR, "its output is not json")


# the file


def test_good_options_are_taken_without_complaint() -> None:
    assert complaints(OPTIONS) == ()
    assert complaints({"argv": ["agent"]}) == ()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "argv: needs a list that begins with a program"),
        ({"argv": "agent"}, "argv: needs a list that begins with a program"),
        (
            {"argv": ["agent", 5]},
            "argv: takes texts, and lists of texts that are left out if a placeholder in them has no value",
        ),
        ({"argv": ["agent", "{modle}"]}, "argv: {modle} is not a placeholder"),
        (
            {"argv": ["agent", "{prompt}"], "prompt": "stdin"},
            "argv: has a placeholder for the prompt, which is sent to stdin",
        ),
        ({"argv": ["agent"], "prompt": "post"}, "prompt: is 'post', not one of argument, stdin"),
        ({"argv": ["agent"], "parser": "xml"}, "parser: is 'xml', not one of text, json, jsonl"),
        ({"argv": ["agent"], "paths": {"result": "a"}}, "paths: are read with parser: json or jsonl"),
        ({"argv": ["agent"], "parser": "json"}, "paths: result is missing"),
        ({"argv": ["agent"], "parser": "json", "paths": {"result": "a", "cost": "b"}}, "paths: cost is not one of"),
        ({"argv": ["agent"], "parser": "json", "paths": {"result": 5}}, "paths: needs a dotted path for each name"),
        ({"argv": ["agent"], "colour": "red"}, "colour: unknown option"),
        ({"argv": ["agent"], "provider": ""}, "provider: needs a name"),
        ({"argv": ["agent"], "version": "agent -v"}, "version: needs a list of texts"),
        (
            {"argv": ["agent"], "access": {"read": ["-r"]}},
            "argv: has no placeholder {access} for the arguments of `access`",
        ),
        ({"argv": ["agent", "{access}"]}, "argv: has a placeholder for access, but `access` has no arguments"),
        ({"argv": ["agent", "{access}"], "access": {"root": []}}, "access: root is not one of read, write, full"),
        ({"argv": ["agent", "{access}"], "access": {"read": "x"}}, "access: read needs a list of texts"),
        ({"argv": ["agent", "{access}"], "access": []}, "access: needs the arguments of each level"),
    ],
)
def test_bad_options_are_complained_about(options: dict[str, Any], complaint: str) -> None:
    assert any(found.startswith(complaint) for found in complaints(options)), complaints(options)
