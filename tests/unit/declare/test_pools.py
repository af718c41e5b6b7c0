"""`pools:` of the file and of jobs, and `scheduler.aging`: what is read, and each refusal at its place (R-03, R-04)."""

from datetime import timedelta
from pathlib import Path

import pytest

from rota.declare.project import Declared, read_project
from rota.model.errors import FileProblems
from rota.model.spec import Draw
from rota.settings import BUILT_IN_POOLS


def read(folder: Path, text: str) -> Declared:
    (folder / "rota.yaml").write_text(text)
    return read_project(folder, environment={"HOME": "/home/ops"})


def draws(folder: Path, written: str, *, top: str = "pools: {ollama: 1, gpu: 4}\n") -> tuple[Draw, ...]:
    return read(folder, f"{top}jobs:\n  x: {{command: [true], pools: {written}}}\n").jobs[0].pools


def refused(folder: Path, text: str) -> list[str]:
    with pytest.raises(FileProblems) as raised:
        read(folder, text)
    return [str(problem).removeprefix(f"{folder}/") for problem in raised.value.problems]


def job_refused(folder: Path, written: str) -> str:
    (problem,) = refused(
        folder, f"pools: {{ollama: 1, gpu: 4}}\njobs:\n  x:\n    command: [echo]\n    pools: {written}\n"
    )
    return problem


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[ollama]", (Draw("ollama"),)),
        ("{gpu: 2}", (Draw("gpu", 2),)),
        ("[ollama, {gpu: 2}]", (Draw("gpu", 2), Draw("ollama"))),
        ("{ollama: 1, gpu: 3}", (Draw("gpu", 3), Draw("ollama"))),
        ("[agents]", (Draw("agents"),)),
        ("[]", ()),
        ("{}", ()),
    ],
)
def test_a_job_draws_names_or_names_with_a_cost(tmp_path, written, meant):
    assert draws(tmp_path, written) == meant


def test_the_built_in_pool_is_there_without_being_written(tmp_path):
    """R-04: `agents` is 2."""
    assert read(tmp_path, "jobs: {}\n").settings.pools == BUILT_IN_POOLS == {"agents": 2}


def test_the_built_in_pool_may_be_set(tmp_path):
    assert read(tmp_path, "pools: {agents: 5, gpu: 0}\njobs: {}\n").settings.pools == {"agents": 5, "gpu": 0}


def test_an_empty_list_overrides_the_defaults(tmp_path):
    text = "pools: {gpu: 1}\ndefaults: {pools: [gpu]}\njobs:\n  a: {command: [a]}\n  b: {command: [b], pools: []}\n"
    assert [job.pools for job in read(tmp_path, text).jobs] == [(Draw("gpu"),), ()]


def test_a_pool_without_room_may_be_drawn_on(tmp_path):
    """A capacity of 0 closes a pool for a while; its runs wait."""
    assert draws(tmp_path, "{gpu: 2}", top="pools: {gpu: 0}\n") == (Draw("gpu", 2),)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("[olama]", 'rota.yaml:5:13: jobs.x.pools[0]: no pool is named "olama"; did you mean "ollama"?'),
        (
            "[disk]",
            'rota.yaml:5:13: jobs.x.pools[0]: no pool is named "disk"; declare it at the top: `pools: {disk: 1}`',
        ),
        (
            "[ollama, {gpu: 5}]",
            (
                'rota.yaml:5:22: jobs.x.pools[1].gpu: costs 5 of the pool "gpu", which has 4; '
                "lower the cost, or raise the pool's capacity"
            ),
        ),
        ("{gpu: 0}", "rota.yaml:5:13: jobs.x.pools.gpu: 0 is not between 1 and 1,000,000"),
        (
            "{gpu: many}",
            'rota.yaml:5:13: jobs.x.pools.gpu: "many" is not a whole number; write one from 1 to 1,000,000',
        ),
        (
            "[gpu, gpu]",
            (
                'rota.yaml:5:18: jobs.x.pools[1]: the pool "gpu" appears twice; '
                "name it once, with what it costs together: {gpu: 2}"
            ),
        ),
        (
            "gpu",
            (
                'rota.yaml:5:5: jobs.x.pools: "gpu" is not a list of pools; '
                "write `pools: [ollama]`, or with a cost `pools: {gpu: 2}`"
            ),
        ),
        (
            "[3]",
            (
                "rota.yaml:5:13: jobs.x.pools[0]: 3 is not the name of a pool; "
                "write `pools: [ollama]`, or with a cost `pools: {gpu: 2}`"
            ),
        ),
    ],
)
def test_a_wrong_draw_is_refused_where_it_stands(tmp_path, written, problem):
    """CON-002."""
    assert job_refused(tmp_path, written) == problem


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("{ollama: -1}", "rota.yaml:1:9: pools.ollama: -1 is not between 0 and 1,000,000"),
        ("{ollama: 1000001}", "rota.yaml:1:9: pools.ollama: 1000001 is not between 0 and 1,000,000"),
        (
            "{a b: 1}",
            (
                'rota.yaml:1:9: pools.a b: "a b" cannot be a pool\'s name; '
                "use 1 to 200 letters, digits and . _ -, the first a letter or digit"
            ),
        ),
        ("[ollama]", 'rota.yaml:1:1: pools: ["ollama"] is not a map of pools; write `pools: {ollama: 1}`'),
    ],
)
def test_a_wrong_capacity_is_refused_where_it_stands_and_alone(tmp_path, written, problem):
    """What draws on a pool that cannot be read is not blamed for it."""
    assert refused(tmp_path, f"pools: {written}\njobs:\n  x: {{command: [echo], pools: [ollama]}}\n") == [problem]


def test_wrong_pools_of_the_defaults_are_told_once_and_there(tmp_path):
    text = "defaults: {pools: [gpu]}\njobs:\n  a: {command: [a]}\n  b: {command: [b]}\n"
    (problem,) = refused(tmp_path, text)
    assert problem.startswith('rota.yaml:1:20: defaults.pools[0]: no pool is named "gpu"')


@pytest.mark.parametrize(("key", "hint"), [("resources", "`pools: [ollama]`"), ("queue", "`overlap: queue`")])
def test_words_of_other_tools_lead_to_pools(tmp_path, key, hint):
    (problem,) = refused(tmp_path, f"jobs:\n  x: {{command: [echo], {key}: gpu}}\n")
    assert "unknown key" in problem
    assert hint in problem


@pytest.mark.parametrize(
    ("written", "meant"), [("10m", timedelta(minutes=10)), ("off", None), ("7d", timedelta(days=7))]
)
def test_aging_is_a_duration_or_off(tmp_path, written, meant):
    text = f"scheduler: {{aging: {written}}}\njobs: {{}}\n"
    assert read(tmp_path, text).settings.scheduler.aging == meant


def test_aging_is_off_when_absent(tmp_path):
    assert read(tmp_path, "jobs: {}\n").settings.scheduler.aging is None


@pytest.mark.parametrize("written", ["8d", "0", "soon"])
def test_aging_out_of_its_bounds_is_refused(tmp_path, written):
    """RISK-4."""
    (problem,) = refused(tmp_path, f"scheduler: {{aging: {written}}}\njobs: {{}}\n")
    assert "scheduler.aging" in problem
