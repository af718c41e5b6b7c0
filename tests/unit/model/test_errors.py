"""The tree of errors: each has its own code, says the value and a way out, and is documented with every reason."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import rota
from rota.declare.problems import PROBLEM_CODES
from rota.model import errors
from rota.model.errors import FileProblems, Problem, RotaError
from rota.model.states import REASONS, Held, Reason, Status, WaitingFor

PAGES = [
    Path(__file__).parents[3] / "docs" / name
    for name in (
        "reasons.md",
        "waiting.md",
        "errors.md",
        "errors-agents.md",
        "errors-system.md",
        "http-errors.md",
        "file-problems.md",
    )
]
ERROR_SECTIONS = [
    title
    for name in ("errors.md", "errors-agents.md", "errors-system.md")
    for title in re.findall(r"^##? (.+)$", (Path(__file__).parents[3] / "docs" / name).read_text(), re.MULTILINE)
]
ROW = re.compile(r"^\| `([A-Za-z_]+)` \|(.+)\|(.+)\|$", re.MULTILINE)


def tree(kind):
    for below in kind.__subclasses__():
        yield below
        yield from tree(below)


def all_errors():
    """Return every error class of the package, wherever it is written."""
    for module in pkgutil.walk_packages(rota.__path__, "rota."):
        if not module.name.endswith("__main__"):
            source = importlib.util.find_spec(module.name).loader.get_source(module.name)
            if re.search(r"class \w+\(\w*(Error|Value|Cron|Refusal|Problems)\):", source):
                importlib.import_module(module.name)
    return [kind for kind in set(tree(RotaError)) if kind.__module__.startswith("rota.")]


ERRORS = sorted(all_errors(), key=lambda kind: kind.__name__)


@pytest.fixture(scope="module")
def page():
    return "".join(page.read_text("utf-8") for page in PAGES)


def section(page, title):
    """Return the rows of the tables below a heading: code → (meaning, what to do)."""
    parts = re.split(r"^##? ", page, flags=re.MULTILINE)
    (found,) = [part for part in parts if part.startswith(f"{title}\n")]
    return {code: (meaning.strip(), remedy.strip()) for code, meaning, remedy in ROW.findall(found)}


def example(name):
    """Return a value for a parameter of this name."""
    if name in ("pid", "count", "room"):
        return 4321
    if name == "place":
        return Problem("is declared here", "job_in_file", "rota.yaml", 9, 5)
    if name == "problems":
        return [Problem("needs a value", "param_missing", at=("params", "region"), hint="one of eu, us")]
    return ["value"] if name in ("near", "allowed") else f"<{name}>"


def _shown(value):
    return value[0] if isinstance(value, list) else str(value)


def test_every_error_has_a_code_of_its_own():
    codes = [kind.__dict__.get("code") for kind in ERRORS]
    assert None not in codes
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


def test_every_error_says_in_one_sentence_what_it_is():
    for kind in ERRORS:
        assert re.fullmatch(r"[A-Z`].*\.", kind.__doc__.split("\n")[0]), kind


@pytest.mark.parametrize(
    "kind", [kind for kind in ERRORS if "__init__" in kind.__dict__ and kind is not FileProblems], ids=str
)
def test_a_message_names_its_values_in_lower_case_and_has_a_hint(kind):
    parameters = inspect.signature(kind).parameters.values()
    by_name = [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    values = [example(one.name) for one in parameters if one.name not in by_name]
    error = kind(*values, **{name: example(name) for name in by_name})
    assert not values or _shown(values[0]) in str(error)
    assert error.message[0] not in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" or error.message.startswith("ROTA_")
    assert not error.message.endswith(".")
    assert error.hint
    assert str(error) == f"{error.message}; {error.hint}"


def test_problems_of_a_file_are_counted_and_kept():
    problem = Problem("unknown key", "unknown_key", file="rota.yaml", line=9, column=5, at=("jobs", "a"), hint="look")
    assert str(problem) == "rota.yaml:9:5: jobs.a: unknown key; look"
    assert FileProblems([problem]).message == "1 problem"
    assert FileProblems([problem, problem]).message == "2 problems"
    assert FileProblems([problem]).problems == (problem,)


def test_the_page_explains_every_status(page):
    assert set(section(page, "Statuses")) == {status.value for status in Status}


@pytest.mark.parametrize("status", sorted(REASONS))
def test_the_page_explains_every_reason_under_its_status(page, status):
    assert set(section(page, status.value)) == {reason.value for reason in REASONS[status]}


def test_the_page_explains_everything_that_a_run_may_wait_for(page):
    assert set(section(page, "Why a run waits")) == {value.value for value in (*WaitingFor, *Held)}


def test_the_page_explains_every_error_code(page):
    of_http = {kind.code for kind in ERRORS if kind.__module__.startswith("rota.http.")}
    assert set(section(page, "HTTP errors")) == of_http
    others = {code for title in ERROR_SECTIONS for code in section(page, title)}
    assert others == {kind.code for kind in ERRORS if not kind.__module__.startswith("rota.http.")}


def test_the_page_explains_every_code_of_a_problem_in_a_file(page):
    assert set(section(page, "Problems in a file")) == set(PROBLEM_CODES)


def test_the_page_says_of_each_code_what_it_means_and_what_to_do(page):
    rows = ROW.findall(page)
    assert len(rows) > len(Reason)
    assert all(meaning.strip() and remedy.strip() for _, meaning, remedy in rows)


def test_the_errors_of_the_model_are_all_in_the_tree():
    here = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)}
    assert here - {RotaError} <= set(ERRORS)
