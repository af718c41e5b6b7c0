"""run, trigger, cancel, stop: without a scheduler, and with one that a test plays."""

from datetime import timedelta

import pytest

from rota.engine.membership.locks import take_serve_lock
from rota.engine.transactions.fire import fire
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from rota.operations.jobs import find_job
from rota.operations.project.locate import open_state
from rota.runners.output import folder_of, make_folder
from tests.faces.conftest import Project

DONE = Outcome(Status.COMPLETED, exit_code=0, summary="all good")
JOBS = """jobs:
  hello: {command: [echo, hello, "{{ params.who }}"], params: {who: you, loud: false}}
  gated: {command: [echo, hi], conditions: [{command: [sh, -c, "exit 10"]}, {command: [touch, never]}]}
  off: {command: [echo, off], enabled: false}
  missing: {command: [no-such-program]}
  private: {command: [env], env: {TOKEN: hunter2}}
"""
HELD = """pools: {db: 1}
jobs:
  first: {command: [echo, one], pools: [db]}
  second: {command: [echo, two], pools: [db]}
"""


class Served:
    """A project whose serve lock is held; `on_pause` plays the scheduler."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.lock = take_serve_lock(project.state)
        self.steps: list[object] = []
        project.pause = self._pause

    def _pause(self, seconds: float) -> None:
        self.project.clock.advance(timedelta(seconds=seconds))
        if self.steps:
            self.steps.pop(0)()  # type: ignore[operator]


@pytest.fixture
def served(project: Project):
    """A project with a scheduler that does what the test says, step by step."""
    project.applied(JOBS)
    served = Served(project)
    yield served
    served.lock.release()


def test_run_without_a_scheduler_queues_and_is_69(project: Project) -> None:
    result = project.applied(JOBS).rota("run", "hello")
    assert result.exit_code == 69
    start = "Start one with rota serve, or run it now with rota tick"
    assert result.stdout == f"queued as hello:1; no scheduler is running here. {start}\n"
    assert project.json("show", "hello:1")["status"] == "QUEUED"


def test_trigger_does_not_need_a_scheduler(project: Project) -> None:
    result = project.applied(JOBS).rota("trigger", "hello", "--json")
    assert result.exit_code == 0
    assert "no scheduler is running here" in result.stderr


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (DONE, 0),
        (Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3: oh no"), 1),
        (Outcome(Status.CANCELLED, Reason.REQUESTED), 4),
    ],
)
def test_the_exit_code_of_run_is_the_outcome(served: Served, outcome: Outcome, code: int) -> None:
    served.steps = [lambda: served.project.carry_out([outcome], output="one\n\x1b[1mtwo\x1b[0m")]
    result = served.project.rota("run", "hello")
    assert result.exit_code == code
    lines = result.stdout.splitlines()
    assert lines[0].startswith("hello:1  QUEUED → RUNNING  12:00:00   (Ctrl-C leaves it running; stop it with:")
    assert lines[1:3] == ["│ one", "│ two"]
    assert lines[3].startswith(f"hello:1  {outcome.status}")
    assert lines[3].endswith("rota show hello:1")


def test_run_as_json_prints_the_finished_run_alone(served: Served) -> None:
    served.steps = [lambda: served.project.carry_out([DONE], output="noise\n")]
    told = served.project.json("run", "hello")
    assert (told["status"], told["result_summary"]) == ("COMPLETED", "all good")


def test_run_leaves_at_the_wait_limit_with_5(served: Served) -> None:
    result = served.project.rota("run", "hello", "--wait", "2s")
    assert result.exit_code == 5
    assert "hello:1 is still QUEUED; it continues" in result.stdout


def test_ctrl_c_detaches_and_leaves_the_run_alone(served: Served) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    served.steps = [interrupt]
    result = served.project.rota("run", "hello")
    assert result.exit_code == 0
    assert "left waiting; stop it with: rota cancel hello:1" in result.stdout
    assert served.project.json("show", "hello:1")["status"] == "QUEUED"


def test_ctrl_c_says_that_a_run_which_started_goes_on(served: Served) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    served.steps = [served.project.begin, interrupt]
    result = served.project.rota("run", "hello")
    assert "left running; stop it with: rota cancel hello:1" in result.stdout


def test_run_says_once_why_it_does_not_start(served: Served) -> None:
    served.project.applied(HELD)
    served.project.ok("trigger", "first")
    served.project.begin()
    result = served.project.rota("run", "second", "--wait", "5s")
    assert result.stdout.splitlines()[0] == 'second:1  QUEUED, waits for the pool "db": 1 of 1 used by first:1'
    assert result.stdout.count("waits for") == 1


def test_run_says_that_it_started_after_it_said_why_it_waits(served: Served) -> None:
    served.steps = [*[lambda: None] * 30, lambda: served.project.carry_out([DONE])]
    lines = served.project.ok("run", "hello").splitlines()
    assert lines[0].startswith("hello:1  QUEUED, waits ")
    assert lines[1].startswith("hello:1  QUEUED → RUNNING  12:00:01")


def test_ctrl_c_elsewhere_is_130(served: Served) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    served.project.ok("trigger", "hello")
    served.steps = [interrupt]
    result = served.project.rota("logs", "-f", "hello")
    assert result.exit_code == 130
    assert "Traceback" not in result.output


def test_run_says_when_the_scheduler_ends_meanwhile(served: Served) -> None:
    lock = served.lock
    served.steps = [lambda: lock.release(remove=True)]
    result = served.project.rota("run", "hello")
    served.lock = take_serve_lock(served.project.state)
    assert result.exit_code == 69
    assert "the scheduler has stopped" in result.stdout


def test_logs_follows_until_the_run_is_final(served: Served) -> None:
    served.project.ok("trigger", "hello")
    served.steps = [lambda: served.project.carry_out([DONE], output="first\nlast")]
    assert served.project.ok("logs", "-f", "hello") == "first\nlast\n"


def test_params_are_json_where_they_can_be_else_text(project: Project) -> None:
    project.applied(JOBS).ok("trigger", "hello", "--param", "who=me", "--param", "loud=true")
    assert project.json("show", "hello:1")["params"] == {"who": "me", "loud": True}


@pytest.mark.parametrize("param", ["nobody=1", "who"])
def test_a_param_that_the_job_does_not_have_is_refused(project: Project, param: str) -> None:
    result = project.applied(JOBS).rota("trigger", "hello", "--param", param)
    assert result.exit_code == 2
    assert project.json("history") == []


def test_overlap_refuses_a_start_by_hand_and_names_the_run_r_29(project: Project) -> None:
    """R-29, R-11: no run is made; --force passes and is recorded."""
    project.applied(JOBS).ok("trigger", "hello")
    result = project.rota("trigger", "hello")
    assert result.exit_code == 6
    assert "hello:1 is not finished" in result.stderr
    assert len(project.json("history")) == 1
    project.ok("trigger", "hello", "--force")
    assert project.json("show", "hello:2")["forced"] is True
    assert "ignored, --force" in project.ok("explain", "hello:2")


def test_a_disabled_job_refuses_to_start_r_29(project: Project) -> None:
    """R-29."""
    result = project.applied(JOBS).rota("run", "off")
    assert result.exit_code == 6
    assert "job 'off' is disabled" in result.stderr


def test_a_dry_run_shows_everything_and_starts_nothing(project: Project) -> None:
    told = project.applied(JOBS).ok("run", "hello", "--dry-run", "--param", "who=me")
    assert told.splitlines()[:3] == [
        f"would run    hello, in {project.folder}",
        "command      echo hello me",
        'params       {"loud": false, "who": "me"}',
    ]
    assert "nothing was started, claimed or spent" in told
    assert project.json("history") == []


def test_a_dry_run_asks_conditions_for_real_up_to_the_first_that_is_false(project: Project) -> None:
    told = project.applied(JOBS).ok("run", "gated", "--dry-run")
    assert "sh -c exit 10 → false (exit 10," in told
    assert "touch never → not checked" in told
    assert "it would be SKIPPED condition" in told
    assert "were really run" in told
    assert not (project.folder / "never").exists()
    assert project.json("run", "gated", "--dry-run")["conditions"][0]["answer"] == "false"


def test_a_dry_run_calls_registered_conditions(project: Project) -> None:
    name = "conditions_of_a_dry_run"
    source = "import rota\n\n@rota.condition('dry_open')\ndef dry_open(ctx):\n    return ctx.params['go']\n"
    (project.folder / f"{name}.py").write_text(source)
    project.write(
        f"imports: [{name}]\njobs:\n  a: {{command: [echo, hi], conditions: [dry_open], params: {{go: true}}}}\n"
    )
    assert "dry_open → pass" in project.ok("run", "a", "--dry-run")
    assert "dry_open → false" in project.ok("run", "a", "--dry-run", "--param", "go=false")


def test_a_dry_run_tells_what_would_fail_and_never_shows_values_of_the_environment(project: Project) -> None:
    project.applied(JOBS)
    assert "it would fail at once: no program 'no-such-program' is on PATH" in project.ok("run", "missing", "--dry-run")
    assert "it would be refused: job 'off' is disabled" in project.ok("run", "off", "--dry-run")
    told = project.ok("run", "private", "--dry-run")
    assert "TOKEN" in told
    assert "hunter2" not in told


def test_a_dry_run_of_a_job_that_is_not_applied_reads_the_file(project: Project) -> None:
    project.write(JOBS)
    assert "it is not applied yet" in project.ok("run", "hello", "--dry-run")
    assert not project.state.exists()


def test_cancel_takes_a_queued_run_out_at_once(project: Project) -> None:
    project.applied(JOBS).ok("trigger", "hello")
    assert project.ok("cancel", "hello", "--dry-run").splitlines()[0] == "hello:1  would be removed from the queue"
    assert project.json("show", "hello:1")["status"] == "QUEUED"
    assert project.ok("cancel", "hello") == "hello:1  CANCELLED, it had not started\n"
    again = project.rota("cancel", "hello:1")
    assert again.exit_code == 6
    assert "hello:1 is already CANCELLED" in again.stderr


def test_cancel_tells_of_every_run_and_of_the_one_that_is_refused(project: Project) -> None:
    project.applied(JOBS).ok("trigger", "hello")
    project.ok("trigger", "gated")
    project.ok("cancel", "hello")
    result = project.rota("cancel", "hello", "gated")
    assert "gated:1  CANCELLED" in result.stdout
    assert "hello:1 is already CANCELLED" in result.stderr
    assert result.exit_code == 6


def test_stop_without_a_scheduler_is_69(project: Project) -> None:
    for arguments in (["stop"], ["stop", "--dry-run"]):
        result = project.applied(JOBS).rota(*arguments)
        assert result.exit_code == 69
        assert "no scheduler is running" in result.stderr


def test_two_ways_of_stopping_are_refused(project: Project) -> None:
    assert project.applied(JOBS).rota("stop", "--now", "--detach").exit_code == 2


def test_a_held_lock_without_an_answer_is_a_stalled_scheduler_r_22(served: Served) -> None:
    """R-22: no answer within a second is stalled."""
    result = served.project.rota("status")
    assert result.exit_code == 1
    assert "scheduler stalled" in result.stdout
    stop = served.project.rota("stop")
    assert stop.exit_code == 74
    assert "does not answer" in stop.stderr


LONG = """jobs:
  long: {interval: 1m, anchor: fixed, first_run: after_interval, command: [echo, long]}
"""


@pytest.fixture
def overlapped(project: Project) -> Project:
    """A job whose first run goes on, while a later instant of it was skipped."""
    project.applied(LONG).ok("trigger", "long")
    project.begin()
    make_folder(folder_of(project.state, project.json("show", "long:1")["id"])).joinpath("output.0").write_text("on\n")
    skip_next_instant(project, "long")
    assert project.json("show", "long:2")["reason"] == "overlap"
    return project


def skip_next_instant(project: Project, name: str) -> None:
    """Let the next instant of a job come, as a scheduler would."""
    project.clock.advance(timedelta(seconds=61))
    store = open_state(project.state, project.clock, create=False)
    try:
        store.write(lambda db: fire(db, find_job(db, name).id, now=project.clock.now()))
    finally:
        store.close()


def test_cancel_of_a_job_means_its_run_that_is_not_finished(overlapped: Project) -> None:
    """What is in the way is older than the instants that were skipped because of it."""
    assert overlapped.ok("cancel", "long", "--dry-run").startswith("long:1  would be stopped")


def test_logs_of_a_job_means_its_newest_run_that_started(overlapped: Project) -> None:
    result = overlapped.rota("logs", "long")
    assert (result.stdout, result.stderr) == ("on\n", "rota: this is long:1; long:2 is SKIPPED overlap\n")
    assert overlapped.json("logs", "long")["run"] == "long:1"


def test_logs_of_a_run_by_its_number_means_that_run(overlapped: Project) -> None:
    assert "long:2 never started: SKIPPED overlap" in overlapped.rota("logs", "long:2").stderr


def test_logs_of_a_job_that_has_not_run_says_so(project: Project) -> None:
    result = project.applied(LONG).rota("logs", "long")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        2,
        "rota: there is no run 'long': the job has not run yet",
    )


OFF = "scheduler: {enabled: false}\n" + JOBS
SWITCHED_OFF = "the scheduler is switched off by `scheduler.enabled: false`: nothing fires and nothing starts"


@pytest.mark.parametrize(("words", "code"), [(["trigger", "hello"], 0), (["run", "hello"], 69)])
def test_a_start_says_that_the_scheduler_is_switched_off(project: Project, words: list[str], code: int) -> None:
    result = project.applied(OFF).rota(*words)
    assert (result.exit_code, result.stdout) == (code, f"queued as hello:1; it waits: {SWITCHED_OFF}\n")


def test_explain_names_a_scheduler_that_is_switched_off(project: Project) -> None:
    project.applied(OFF).ok("trigger", "hello")
    assert f"waits        since {SWITCHED_OFF}" in project.ok("explain", "hello:1")
    assert f"scheduler    {SWITCHED_OFF}" in project.ok("explain", "off")
    project.applied(JOBS)
    assert "switched off" not in project.ok("explain", "hello")
