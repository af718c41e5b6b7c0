"""`retry` and `on_repeated_failure` in the file (DEC-007)."""

from datetime import timedelta
from pathlib import Path

import pytest

from rota.declare.plan import differences
from rota.declare.project import Declared, read_project
from rota.model.errors import FileProblems
from rota.model.spec import Jitter, JobSpec, RepeatedFailure, Retry

HEAD = "jobs:\n  x:\n    command: [a]\n    interval: 1h\n"


def read(folder: Path, text: str) -> Declared:
    (folder / "rota.yaml").write_text(text)
    return read_project(folder, environment={"HOME": "/home/ops"})


def job(folder: Path, body: str, top: str = "") -> JobSpec:
    return read(folder, top + HEAD + f"    {body}\n").jobs[0]


def problems(folder: Path, body: str, head: str = HEAD) -> list[str]:
    with pytest.raises(FileProblems) as caught:
        read(folder, head + f"    {body}\n")
    return [str(problem).partition(": ")[2] for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("body", "retry"),
    [
        ("priority: 0", Retry(3, timedelta(seconds=10), 2.0, timedelta(minutes=10))),
        ("retry: true", Retry()),
        ("retry: {}", Retry()),
        ("retry: false", Retry(max_attempts=1)),
        ("retry: {max_attempts: 1}", Retry(max_attempts=1)),
        ("retry: {max_attempts: 5}", Retry(max_attempts=5)),
        ("retry_policy: {max_attempts: 5}", Retry(max_attempts=5)),
        ("retry: {backoff: 0, factor: 1}", Retry(backoff=timedelta(), factor=1.0)),
        ("retry: {factor: 1.5, max: 1h}", Retry(factor=1.5, max=timedelta(hours=1))),
        ("retry: {jitter: 20%}", Retry(jitter=Jitter(percent=20.0))),
        ("retry: {jitter: 5s}", Retry(jitter=Jitter(up_to=timedelta(seconds=5)))),
        ("retry: {jitter: 0}", Retry()),
    ],
)
def test_a_policy_is_read_and_what_it_does_not_say_is_the_default(tmp_path: Path, body: str, retry: Retry) -> None:
    assert job(tmp_path, body).retry == retry


def test_a_backoff_longer_than_the_default_limit_raises_the_limit(tmp_path: Path) -> None:
    """Else a written hour would silently be ten minutes."""
    assert job(tmp_path, "retry: {backoff: 1h}").retry.max == timedelta(hours=1)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "retry: 5",
            "jobs.x.retry: 5 is not a map of keys; write `retry: {max_attempts: 5}`; it counts the first attempt",
        ),
        ("retry: {max_attempts: 0}", "jobs.x.retry.max_attempts: 0 is not between 1 and 100"),
        ("retry: {max_attempts: 101}", "jobs.x.retry.max_attempts: 101 is not between 1 and 100"),
        ("retry: {factor: 0.5}", "jobs.x.retry.factor: 0.5 is not between 1 and 100"),
        ("retry: {factor: 101}", "jobs.x.retry.factor: 101 is not between 1 and 100"),
        (
            "retry: {factor: fast}",
            'jobs.x.retry.factor: "fast" is not a number; write one from 1 to 100; 1 waits equally long each time',
        ),
        (
            "retry: {backoff: 1h, max: 5m}",
            "jobs.x.retry.max: is shorter than the first backoff; raise it, or lower `backoff`",
        ),
        ("retry: {max_attempts: 1, backoff: 5s}", "jobs.x.retry.backoff: has no effect with `max_attempts: 1`"),
        (
            "retry: {retries: 3}",
            "jobs.x.retry.retries: unknown key; write `max_attempts: 4` for three retries; it counts the first one",
        ),
        ("retry: {bakoff: 3s}", 'jobs.x.retry.bakoff: unknown key; did you mean "backoff"?'),
        (
            "retry: often",
            (
                'jobs.x.retry: "often" is not a map of keys; '
                "write `retry: {max_attempts: 5, backoff: 30s}`, or `retry: false` for none"
            ),
        ),
        ("retry: {jitter: 80%}", 'jobs.x.retry.jitter: "80%" is more than 50%; write 0% to 50%'),
        (
            "retry: false\n    retry_policy: {max_attempts: 2}",
            "jobs.x.retry_policy: is another spelling of `retry`, which is also set; keep one",
        ),
        (
            "on_repeated_failure: 5",
            "jobs.x.on_repeated_failure: 5 is not a map of keys; write `on_repeated_failure: {after: 5}`",
        ),
        ("on_repeated_failure: {after: 0}", "jobs.x.on_repeated_failure.after: 0 is not between 1 and 1,000"),
    ],
)
def test_a_policy_that_cannot_be_is_told_with_its_place_and_a_way_out(tmp_path: Path, body: str, said: str) -> None:
    assert problems(tmp_path, body) == [said]


@pytest.mark.parametrize(
    ("body", "repeated"),
    [
        ("priority: 0", None),
        ("on_repeated_failure: false", None),
        ("on_repeated_failure: true", RepeatedFailure(5, timedelta(days=1))),
        ("on_repeated_failure: {after: 2}", RepeatedFailure(2, timedelta(days=1))),
        ("on_repeated_failure: {backoff_max: 2h}", RepeatedFailure(5, timedelta(hours=2))),
    ],
)
def test_repeated_failure_is_off_unless_written(tmp_path: Path, body: str, repeated: RepeatedFailure | None) -> None:
    assert job(tmp_path, body).on_repeated_failure == repeated


def test_repeated_failure_needs_instants_to_hold_back(tmp_path: Path) -> None:
    head = 'jobs:\n  x:\n    command: [a]\n    at: "2027-01-01 08:00"\n'
    [said] = problems(tmp_path, "on_repeated_failure: true", head)
    assert said.startswith("jobs.x.on_repeated_failure: has no effect without `cron` or `interval`")


def test_a_default_holds_for_every_job_and_a_jobs_own_replaces_it(tmp_path: Path) -> None:
    top = "defaults: {retry: {max_attempts: 7, backoff: 1s}}\n"
    assert job(tmp_path, "priority: 0", top).retry == Retry(7, timedelta(seconds=1))
    assert job(tmp_path, "retry: {max_attempts: 2}", top).retry == Retry(2)


@pytest.mark.parametrize("key", ["retry", "retry_policy"])
def test_a_group_is_not_retried(tmp_path: Path, key: str) -> None:
    """R-15: its members are, each as its job says."""
    head = "jobs:\n  x: {command: [a]}\ngroups:\n  g:\n    members: [x]\n"
    [said] = problems(tmp_path, f"{key}: {{max_attempts: 2}}", head)
    assert said == f"groups.g.{key}: has no effect on a group; write it in the jobs of its members"


def test_a_group_may_be_held_back(tmp_path: Path) -> None:
    head = "jobs:\n  x: {command: [a]}\ngroups:\n  g:\n    interval: 1h\n    members: [x]\n"
    declared = read(tmp_path, head + "    on_repeated_failure: true\n")
    assert next(spec for spec in declared.jobs if spec.name == "g").on_repeated_failure == RepeatedFailure()


def test_changes_are_told_in_the_words_of_the_file(tmp_path: Path) -> None:
    before, after = job(tmp_path, "retry: false"), job(tmp_path, "retry: {jitter: 5s}")
    assert differences(before, after) == ("retry false -> max_attempts 3, backoff 10s, factor 2, max 10m, jitter 5s",)
    held = job(tmp_path, "on_repeated_failure: true")
    assert differences(job(tmp_path, "priority: 0"), held) == ("on_repeated_failure none -> after 5, backoff_max 1d",)
