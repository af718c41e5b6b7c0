"""The decorators, and finding the functions and conditions that a file names."""

import subprocess
import sys
import textwrap

import pytest

import rota
from rota.declare import registry as registry_module
from rota.declare.project import read_project
from rota.declare.registry import (
    BUILTIN_CONDITIONS,
    ENVIRONMENT_HINT,
    ImportingFinder,
    Registry,
    asked_elsewhere,
)
from rota.model.errors import FileProblems, FunctionMissing, InvalidValue
from rota.model.spec import Names


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder whose modules can be imported, and are forgotten afterwards."""
    known, path = set(sys.modules), list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def check(ctx):
    return None


def other(ctx):
    return None


def test_a_function_is_known_by_its_own_name_or_the_one_given(registry):
    assert registry.job(check) is check
    assert registry.job("second")(check) is check
    registry.job()(other)
    assert registry.functions == {"check": check, "second": check, "other": other}


def test_conditions_have_names_of_their_own(registry):
    registry.condition(check)
    registry.condition("ready")(other)
    assert registry.conditions == {"check": check, "ready": other}
    assert registry.functions == {}


def test_two_functions_of_one_name_are_an_error_that_names_both(registry):
    registry.job("a")(check)
    with pytest.raises(InvalidValue, match=r"check and .*other") as caught:
        registry.job("a")(other)
    assert 'two functions are registered as function "a"' in str(caught.value)


def test_registering_the_same_function_again_replaces_it(registry):
    registry.job("a")(check)
    registry.job("a")(check)
    assert registry.functions == {"a": check}


def test_a_registered_name_is_resolved_and_a_near_one_is_guessed(registry):
    registry.job("check_queue")(check)
    assert registry.resolve("check_queue") is check
    with pytest.raises(FunctionMissing, match='did you mean "check_queue"'):
        registry.resolve("chek_queue")


def test_a_module_and_function_are_resolved_by_import(registry):
    assert registry.resolve("textwrap:dedent") is textwrap.dedent
    with pytest.raises(FunctionMissing, match='module "textwrap" has no "dedend"; did you mean "dedent"'):
        registry.resolve("textwrap:dedend")
    with pytest.raises(FunctionMissing, match='"textwrap:re" is not a function'):
        registry.resolve("textwrap:re")


def test_a_missing_module_names_the_way_out(registry):
    with pytest.raises(FunctionMissing) as caught:
        registry.resolve("no_such_module:x")
    assert str(caught.value).startswith(
        f'cannot import "no_such_module" from {sys.prefix}; write no_such_module.py beside rota.yaml, set python: .venv'
    )


def test_the_public_decorators_fill_the_default_registry():
    assert rota.job.__self__ is registry_module.default
    assert rota.condition.__self__ is registry_module.default


def test_every_public_name_can_be_loaded():
    assert all(getattr(rota, name) is not None for name in rota.__all__)
    assert [name for name in dir(rota) if not name.startswith("__")] == sorted(rota.__all__)


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        rota.nope  # noqa: B018


def test_importing_rota_and_its_decorators_loads_nothing_heavy():
    heavy = ("pydantic", "apsw", "rich", "ruamel.yaml")
    code = f"import rota, sys; rota.job; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_condition_says_whether_it_looks_at_the_poll(project, registry):
    """R-16: the newest word of a function counts."""
    registry.condition("has_work", needs_poll=True)(check)
    registry.condition(needs_poll=True)(check)
    registry.condition("other")(check)
    registry.condition(check)
    names = ImportingFinder(project, [], registry).find([], [])
    assert (names.conditions, names.needing_poll) == ({"has_work", "check", "other"}, {"has_work"})


def test_older_names_of_the_decorators_are_an_import(registry):
    """Document 000: `from rota import job as register_job`."""
    register_job, register_condition = registry.job, registry.condition

    @register_job("sweep")
    def sweep_worktrees(ctx) -> None: ...

    @register_condition("quiet")
    def is_quiet(ctx) -> bool:
        return True

    assert (registry.resolve("sweep"), registry.resolve_condition("quiet")) == (sweep_worktrees, is_quiet)


def test_modules_of_the_project_are_imported_from_its_folder(project, registry):
    (project / "rota_test_jobs.py").write_text("def registered(ctx): pass\n")
    finder = ImportingFinder(project, ["rota_test_jobs"], registry)
    assert finder.find(["rota_test_jobs:registered"], list(BUILTIN_CONDITIONS)).missing == {}
    assert sys.path[0] == str(project)


def test_missing_names_come_back_with_a_message_each(project, registry):
    registry.condition("has_open_prs")(check)
    missing = ImportingFinder(project, [], registry).find(["nope"], ["has_open_pr", "has_open_prs"]).missing
    assert missing == {
        "nope": 'no function is named "nope"; register it with @rota.job("nope") in a module that `imports:` names',
        "has_open_pr": 'no condition is named "has_open_pr"; did you mean "has_open_prs"?',
    }


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ValueError('bad day')", 'cannot import "rota_test_broken": ValueError: bad day'),
        ("import sys; sys.exit(3)", 'cannot import "rota_test_broken": SystemExit: 3'),
        ("def x(:", 'cannot import "rota_test_broken": SyntaxError: invalid syntax (rota_test_broken.py, line 1)'),
        (
            "import missing_elsewhere",
            f'cannot import "rota_test_broken", which needs "missing_elsewhere", from {sys.prefix}; {ENVIRONMENT_HINT}',
        ),
    ],
)
def test_an_import_that_fails_is_a_problem_at_imports_and_hides_what_follows_from_it(project, source, said):
    (project / "rota_test_broken.py").write_text(source)
    (project / "rota.yaml").write_text("imports: [rota_test_broken]\njobs: {a: {run: from_there}}\n")
    with pytest.raises(FileProblems) as caught:
        read_project(project, environment={})
    assert [str(problem) for problem in caught.value.problems] == [f"rota.yaml:1:11: imports[0]: {said}"]


def test_a_module_with_a_typing_error_is_guessed_from_those_of_the_project(project):
    (project / "nightly_jobs.py").write_text("")
    (project / "rota.yaml").write_text("imports: [nightly_job]\n")
    with pytest.raises(FileProblems) as caught:
        read_project(project, environment={})
    assert caught.value.problems[0].hint == 'did you mean "nightly_jobs"?'


def test_a_module_that_is_not_installed_says_how_to_use_the_projects_interpreter(project):
    (project / "rota.yaml").write_text("imports: [nowhere_to_be_found.jobs]\n")
    with pytest.raises(FileProblems) as caught:
        read_project(project, environment={})
    assert str(caught.value.problems[0]) == (
        f'rota.yaml:1:11: imports[0]: cannot import "nowhere_to_be_found.jobs" from {sys.prefix}; '
        "write nowhere_to_be_found.py beside rota.yaml, set python: .venv/bin/python in rota.yaml, "
        "or start rota from the project's environment (uv run rota serve)"
    )


class Asked:
    """A finder that keeps what it was asked."""

    def __init__(self, names=None):
        self.asked = []
        self.names = names or Names()

    def find(self, functions, conditions):
        self.asked.append((list(functions), list(conditions)))
        return self.names


def test_functions_of_another_interpreter_are_asked_of_that_one(tmp_path):
    first = "  a: {run: f, python: python3.12, conditions: [network_up, ready]}\n"
    second = "  b: {run: 'm:g', python: python3.12}\n"
    (tmp_path / "rota.yaml").write_text(f"jobs:\n{first}{second}")
    asked = Asked()
    read_project(tmp_path, environment={}, interpreter=lambda python, settings: asked)
    assert asked.asked == [(["f", "m:g"], ["ready"])]


def test_the_projects_interpreter_knows_the_conditions_of_commands_too(tmp_path):
    jobs = "jobs: {a: {run: f}, b: {command: [x], conditions: [ready]}, c: {command: [x], conditions: [network_up]}}\n"
    (tmp_path / "rota.yaml").write_text(f"python: python3\nimports: [m]\n{jobs}")
    asked = Asked()
    declared = read_project(tmp_path, environment={}, interpreter=lambda python, settings: asked)
    assert asked.asked == [(["f"], ["ready"])]
    assert [spec.work.python for spec in declared.jobs] == ["python3", "python3", "python3"]


def test_a_condition_of_another_interpreter_replaces_a_built_in_one(tmp_path):
    """R-09, R-16: it is asked there, and what it looks at is what it says itself."""
    job = "jobs: {a: {command: [x], conditions: [no_agents_running, has_open_prs, network_up]}}\n"
    (tmp_path / "rota.yaml").write_text(f"python: python3\nimports: [m]\n{job}")
    known = Asked(Names(conditions=frozenset({"no_agents_running", "has_open_prs"})))
    (spec,) = read_project(tmp_path, environment={}, interpreter=lambda python, settings: known).jobs
    elsewhere = [asked_elsewhere(condition, spec.work.python) for condition in spec.gates.conditions]
    assert (elsewhere, spec.gates.needs_poll) == ([True, True, False], False)


def test_a_condition_of_another_interpreter_may_look_at_the_poll(tmp_path):
    """R-16."""
    job = "jobs: {a: {command: [x], conditions: [has_work]}}\n"
    (tmp_path / "rota.yaml").write_text(f"poll: {{url: 'http://a/b'}}\npython: python3\nimports: [m]\n{job}")
    known = Asked(Names(conditions=frozenset({"has_work"}), needing_poll=frozenset({"has_work"})))
    _, spec = read_project(tmp_path, environment={}, interpreter=lambda python, settings: known).jobs
    assert spec.gates.needs_poll


def test_a_missing_condition_of_the_defaults_is_told_once_where_it_stands(tmp_path):
    text = "defaults: {conditions: [nework_up]}\njobs: {a: {command: [x]}, b: {command: [x]}}\n"
    (tmp_path / "rota.yaml").write_text(text)
    with pytest.raises(FileProblems) as caught:
        read_project(tmp_path, environment={})
    assert [str(problem) for problem in caught.value.problems] == [
        'rota.yaml:1:25: defaults.conditions[0]: no condition is named "nework_up"; did you mean "network_up"?'
    ]


def test_no_module_is_imported_when_the_file_names_none(tmp_path):
    before = list(sys.path)
    (tmp_path / "rota.yaml").write_text("jobs: {a: {command: [x]}}\n")
    read_project(tmp_path, environment={})
    assert sys.path == before
