"""What a job must not hold: names by which programs load other code, and secrets that are written out."""

import pytest

from rota.declare.applicability import loads_code, runs_first, secret_in
from rota.declare.problems import BadValue
from rota.declare.readers.values import read_env_value, read_params


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "BASH_ENV", "NODE_OPTIONS", "PERL5OPT"]
)
def test_r27_a_variable_by_which_programs_load_code_is_no_param(name: str) -> None:
    with pytest.raises(BadValue) as caught:
        read_params({"who": "world", name: "x"})
    assert [(problem.code, problem.at) for problem in caught.value.problems] == [("env_name_denied", (name,))]


@pytest.mark.parametrize("name", ["env", "python", "python_version", "PYTHON", "path", "PATH", "ld", "node"])
def test_other_names_are_params(name: str) -> None:
    assert read_params({name: "x"}) == {name: "x"}
    assert not loads_code(name)


def test_what_runs_first_also_loads_code() -> None:
    assert [name for name in ("LD_PRELOAD", "LD_AUDIT", "PYTHONSTARTUP", "BASH_ENV") if not runs_first(name)] == []
    assert [name for name in ("LD_PRELOAD", "PYTHONSTARTUP", "BASH_ENV") if not loads_code(name)] == []
    assert not runs_first("LD_LIBRARY_PATH")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("sk-ant-api03-" + "a1B2" * 20, "an API key (sk-…)"),
        ("Bearer sk-proj-" + "a1B2" * 10, "an API key (sk-…)"),
        ("ghp_" + "a1B2" * 9, "a token of GitHub"),
        ("https://x:github_pat_" + "a1B2" * 10 + "@github.example/", "a token of GitHub"),
        ("AKIA" + "A1B2" * 4, "an access key of AWS"),
        ("glpat-" + "a1B2" * 5, "a token of GitLab"),
        ("xoxb-" + "1" * 24, "a token of Slack"),
        ("whsec_" + "a1B2" * 8, "a secret of webhooks"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc", "a private key"),
    ],
)
def test_what_looks_like_a_secret_is_refused_without_being_shown(text: str, kind: str) -> None:
    with pytest.raises(BadValue) as caught:
        read_env_value(text)
    [problem] = caught.value.problems
    assert (problem.code, problem.message) == ("secret_literal", f"looks like {kind}, written out")
    assert text not in problem.hint


@pytest.mark.parametrize(
    "text",
    ["sk-short", "task-force-of-twenty-people-and-more", "disk-" + "a" * 40, "ghp_x", "AKIA", "ASIATICLIONSLIVEINGIR"],
)
def test_what_only_resembles_one_is_taken(text: str) -> None:
    assert secret_in(text) is None
    assert read_env_value(text).value == text
