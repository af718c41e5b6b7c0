"""`poll:`, `needs_poll` and intervals by mode: what is read, what is refused and where (R-16, R-18)."""

from datetime import timedelta
from pathlib import Path

import pytest

from rota.declare.export import Top, export_text
from rota.declare.problems import PROBLEM_CODES
from rota.declare.project import Declared, read_project
from rota.declare.sections import POLL
from rota.model.budgets import Unit
from rota.model.errors import FileProblems
from rota.model.spec import (
    Anchor,
    ByMode,
    EnvValue,
    JobSpec,
    Kind,
    Mode,
    Names,
    OverlapPolicy,
    RepeatedFailure,
    Spend,
)

SECOND = timedelta(seconds=1)
URL = "poll: {url: https://octo.example/api}\n"
EVERY = "rota.yaml:1:1: poll: needs either `url` or `run`; write one of them"


class Known:
    """Knows every name; `looking` are registered conditions that look at the poll, `others` ones that do not."""

    def __init__(self, *looking: str, others: tuple[str, ...] = ()) -> None:
        self._names = Names(conditions=frozenset((*looking, *others)), needing_poll=frozenset(looking))

    def find(self, functions, conditions):
        return self._names


def read(folder: Path, text: str, *, functions=None) -> Declared:
    (folder / "rota.yaml").write_text(text)
    return read_project(folder, environment={"HOME": "/home/ops"}, functions=functions or Known())


def named(declared: Declared) -> dict[str, JobSpec]:
    return {spec.name: spec for spec in declared.jobs}


def poll(folder: Path, written: str, *, top: str = "", functions=None) -> JobSpec:
    return named(read(folder, f"poll: {written}\n{top}jobs: {{}}\n", functions=functions))[POLL]


def job(folder: Path, body: str, *, top: str = "", functions=None) -> JobSpec:
    return named(read(folder, f"{top}jobs:\n  x: {{command: [a], {body}}}\n", functions=functions))["x"]


def refused(folder: Path, text: str, *, functions=None) -> list[str]:
    with pytest.raises(FileProblems) as caught:
        read(folder, text, functions=functions)
    assert {problem.code for problem in caught.value.problems} <= set(PROBLEM_CODES)
    return [str(problem) for problem in caught.value.problems]


def poll_refused(folder: Path, written: str, *, top: str = "jobs: {}\n") -> str:
    (problem,) = refused(folder, f"poll: {written}\n{top}")
    return problem


def job_refused(folder: Path, body: str, *, top: str = "") -> str:
    (problem,) = refused(folder, f"{top}jobs:\n  x:\n    command: [a]\n    {body}\n")
    return problem


class TestThePoll:
    def test_it_is_a_job_of_its_own(self, tmp_path):
        """R-16: reserved name, no retry, forbid, completion, 15/60/300."""
        spec = poll(tmp_path, "{url: https://octo.example/api}", top="timezone: Europe/Rome\n")
        assert (spec.name, spec.work.kind, spec.work.url) == ("rota/poll", Kind.POLL, "https://octo.example/api")
        assert [spec.schedule.every(mode) for mode in Mode] == [15 * SECOND, 60 * SECOND, 300 * SECOND]
        assert (spec.schedule.anchor, spec.schedule.timezone) == (Anchor.COMPLETION, "Europe/Rome")
        assert (spec.retry.max_attempts, spec.overlap.policy) == (1, OverlapPolicy.FORBID)
        assert isinstance(spec.on_repeated_failure, RepeatedFailure)
        assert spec.work.timeout == 30 * SECOND
        assert spec.work.in_process

    def test_a_function_may_bring_the_data(self, tmp_path):
        spec = poll(tmp_path, "{run: 'sources:look', interval: 1m, timeout: 5s}")
        assert (spec.work.function, spec.work.url) == ("sources:look", "")
        assert (spec.schedule.interval, spec.schedule.by_mode) == (60 * SECOND, None)
        assert spec.work.timeout == 5 * SECOND

    def test_a_function_that_nobody_knows_is_told(self, tmp_path):
        class Nobody:
            def find(self, functions, conditions):
                return Names(dict.fromkeys(functions, "nobody knows it"))

        assert refused(tmp_path, "poll: {run: look}\njobs: {}\n", functions=Nobody()) == [
            "rota.yaml:1:8: poll.run: nobody knows it"
        ]

    @pytest.mark.parametrize("written", ["{}", "{interval: 10s}", "{url: 'http://a/b', run: look}"])
    def test_it_has_an_address_or_a_function(self, tmp_path, written):
        assert poll_refused(tmp_path, written) == EVERY

    def test_a_section_without_anything_is_told(self, tmp_path):
        assert poll_refused(tmp_path, "").startswith("rota.yaml:1:1: poll: has no value")

    @pytest.mark.parametrize(
        "url",
        [
            "octo.example/api",
            "ftp://octo.example/api",
            "https://",
            "https:///path",
            "file:///etc/passwd",
            "https://octo.example:99999/",
            "https://octo.example:0/",
            "https://octo.example:port/",
            "https://[::1/",
            "https://octo.example/a b",
        ],
    )
    def test_what_is_no_address_is_refused(self, tmp_path, url):
        said = poll_refused(tmp_path, f"{{url: '{url}'}}")
        assert said == (
            f'rota.yaml:1:8: poll.url: "{url}" is not an http or https address; write `url: https://host/path`'
        )

    @pytest.mark.parametrize("url", ["3", "[a]", "''"])
    def test_another_value_than_an_address_is_refused(self, tmp_path, url):
        assert "poll.url: " in poll_refused(tmp_path, f"{{url: {url}}}")

    @pytest.mark.parametrize("url", ["https://me:hunter2@octo.example/", "http://token@octo.example", "https://a:b@"])
    def test_a_password_in_an_address_is_refused_and_not_shown(self, tmp_path, url):
        said = poll_refused(tmp_path, f"{{url: '{url}'}}")
        assert said == (
            "rota.yaml:1:8: poll.url: holds a user or a password; "
            "put it into `headers: {Authorization: {secret: NAME}}`"
        )

    def test_an_at_sign_further_on_is_part_of_the_path(self, tmp_path):
        assert poll(tmp_path, "{url: 'https://octo.example/@me?to=a@b'}").work.url == "https://octo.example/@me?to=a@b"

    def test_headers_are_texts_or_secrets(self, tmp_path):
        spec = poll(tmp_path, "{url: 'http://a/b', headers: {X-Version: 2, Authorization: {secret: OCTO}}}")
        assert spec.work.headers == (EnvValue("X-Version", "2"), EnvValue("Authorization", secret="OCTO"))

    @pytest.mark.parametrize(
        ("written", "said"),
        [
            ("[a]", "poll.headers: "),
            ("{X: }", "poll.headers.X: has no value"),
            ("{X: {secret: 1}}", "poll.headers.X: is a map without `secret`"),
            ("{'a b': c}", 'poll.headers.a b: "a b" cannot be a header\'s name'),
            ("{'': c}", 'poll.headers.: "" cannot be a header\'s name'),
            ("{X: 'é'}", "poll.headers.X: holds characters that a header cannot have"),
            ("{X: a, x: b}", 'poll.headers.x: the header "x" appears twice'),
        ],
    )
    def test_a_wrong_header_is_refused_where_it_stands(self, tmp_path, written, said):
        assert said in poll_refused(tmp_path, f"{{url: 'http://a/b', headers: {written}}}")

    def test_headers_mean_nothing_to_a_function(self, tmp_path):
        assert poll_refused(tmp_path, "{run: look, headers: {A: b}}") == (
            "rota.yaml:1:19: poll.headers: has no effect without `url`; add `url`, or remove this line"
        )

    def test_its_function_runs_in_this_interpreter(self, tmp_path):
        (tmp_path / "python").write_text("")
        (tmp_path / "python").chmod(0o700)
        said = poll_refused(tmp_path, "{run: look}", top="python: ./python\njobs: {}\n")
        assert said.startswith("rota.yaml:1:8: poll.run: a poll's function runs inside the scheduler's process")

    def test_an_unknown_key_is_told_with_the_nearest(self, tmp_path):
        said = poll_refused(tmp_path, "{url: 'http://a/b', intervall: 5s}")
        assert said == 'rota.yaml:1:27: poll.intervall: unknown key; did you mean "interval"?'

    @pytest.mark.parametrize("name", ["rota/poll", "rota/x", "ROTA/poll"])
    def test_names_of_rota_itself_are_refused(self, tmp_path, name):
        """R-16: reserved."""
        (said,) = refused(tmp_path, f"{URL}jobs: {{{name}: {{command: [a]}}}}\n")
        assert "names that start with rota/ are reserved" in said


class TestTheBudgetOfThePoll:
    TOP = (
        "budgets: {day: {requests: 10, per: day}, starts: {runs: 5, per: hour}, money: {usd: 1, per: day}}\njobs: {}\n"
    )

    def test_each_poll_is_one_request(self, tmp_path):
        """R-19."""
        spec = poll(tmp_path, "{url: 'http://a/b', budget: [day, starts]}", top=self.TOP.removesuffix("jobs: {}\n"))
        assert spec.budgets == (Spend("day", 1, Unit.REQUESTS), Spend("starts", None, Unit.RUNS))

    def test_an_account_that_is_not_there_is_told(self, tmp_path):
        said = poll_refused(tmp_path, "{url: 'http://a/b', budget: dy}", top=self.TOP)
        assert said == 'rota.yaml:1:27: poll.budget: no account is named "dy"; did you mean "day"?'

    def test_an_account_of_money_is_refused(self, tmp_path):
        said = poll_refused(tmp_path, "{url: 'http://a/b', budget: [day, money]}", top=self.TOP)
        assert said == ("rota.yaml:1:41: poll.budget[1]: a poll is a request, not usd; name an account of `requests`")


class TestIntervalsByMode:
    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("interval: {active: 15s, idle: 1m, dormant: 5m}", ByMode(15 * SECOND, 60 * SECOND, 300 * SECOND)),
            ("interval: {active: 15, idle: 60, dormant: never}", ByMode(15 * SECOND, 60 * SECOND, None)),
            ("interval: {active: 15s}", ByMode(15 * SECOND, 15 * SECOND, 15 * SECOND)),
            ("interval: {active: 15s, idle: never}", ByMode(15 * SECOND, None, None)),
            ("interval: {active: 15s, dormant: never}", ByMode(15 * SECOND, 15 * SECOND, None)),
            ("interval: {active: never, dormant: 1h}", ByMode(None, None, timedelta(hours=1))),
            ("interval_active: 15s", ByMode(15 * SECOND, 15 * SECOND, 15 * SECOND)),
            ("interval_active: 15s, interval_idle: 1m", ByMode(15 * SECOND, 60 * SECOND, 60 * SECOND)),
            ("interval: 60, interval_active: 15", ByMode(15 * SECOND, 60 * SECOND, 60 * SECOND)),
            ("interval: 1m, interval_dormant: never", ByMode(60 * SECOND, 60 * SECOND, None)),
        ],
    )
    def test_shapes(self, tmp_path, written, meant):
        """R-18; the spellings are those of document 000."""
        spec = job(tmp_path, written)
        assert (spec.schedule.by_mode, spec.schedule.interval) == (meant, None)

    @pytest.mark.parametrize(
        ("written", "said"),
        [
            ("interval: {}", "4:5: jobs.x.interval: has no `active`; write `interval: {active: 15s, idle: 60s, dor"),
            ("interval: {idle: 15s}", "4:5: jobs.x.interval: has no `active`"),
            ("interval: {active: 15s, busy: 1s}", "4:29: jobs.x.interval.busy: unknown key"),
            ("interval: {active: 15s, idel: 1s}", '4:29: jobs.x.interval.idel: unknown key; did you mean "idle"?'),
            ("interval: {active: soon}", "4:16: jobs.x.interval.active: 'soon' is not a duration"),
            ("interval: {active: 0}", "4:16: jobs.x.interval.active: 0 is zero"),
            ("interval: {active: }", "4:16: jobs.x.interval.active: has no value"),
            ("interval: {active: never}", "4:5: jobs.x.interval: is never in all modes; remove the interval to"),
            ("interval: never", "4:5: jobs.x.interval: 'never' is not a duration"),
            ("interval_idle: 15s", "4:5: jobs.x.interval_idle: has no `active`"),
            ("interval_active: never", "4:5: jobs.x.interval_active: is never in all modes"),
            ("interval_active: [1]", "4:5: jobs.x.interval_active: [1] is not a duration"),
        ],
    )
    def test_a_wrong_one_is_refused_where_it_stands(self, tmp_path, written, said):
        assert job_refused(tmp_path, written).startswith(f"rota.yaml:{said}")

    def test_both_spellings_at_once_are_refused(self, tmp_path):
        said = job_refused(tmp_path, "interval: {active: 15s}\n    interval_idle: 1m")
        assert said.startswith("rota.yaml:5:5: jobs.x.interval_idle: `interval` has its own `active`, `idle` and")

    def test_an_interval_that_no_mode_has_is_refused(self, tmp_path):
        modes = "interval_active: 15s\n    interval_idle: 30s\n    interval_dormant: never"
        said = job_refused(tmp_path, f"{modes}\n    interval: 1m")
        assert said.startswith(
            "rota.yaml:7:5: jobs.x.interval: has no effect beside `interval_active`, `interval_idle`"
        )

    def test_a_fixed_grid_has_one_interval(self, tmp_path):
        said = job_refused(tmp_path, "interval: {active: 15s}\n    anchor: fixed")
        assert said.startswith("rota.yaml:5:5: jobs.x.anchor: `anchor: fixed` needs one interval")

    def test_a_grid_by_default_is_left_out(self, tmp_path):
        spec = job(tmp_path, "interval: {active: 15s}", top="defaults: {anchor: fixed}\n")
        assert spec.schedule.anchor is Anchor.COMPLETION

    def test_a_schedule_is_still_one(self, tmp_path):
        said = job_refused(tmp_path, "cron: '0 1 * * *'\n    interval_active: 15s")
        assert "a job has one schedule" in said

    def test_the_poll_and_groups_take_them_too(self, tmp_path):
        modes = "{active: 15s, dormant: never}"
        assert poll(tmp_path, f"{{run: look, interval: {modes}}}").schedule.every(Mode.DORMANT) is None
        text = f"jobs: {{a: {{command: [a]}}}}\ngroups: {{g: {{members: [a], interval: {modes}}}}}\n"
        assert named(read(tmp_path, text))["g"].schedule.every(Mode.ACTIVE) == 15 * SECOND


class TestWhoNeedsThePoll:
    @pytest.mark.parametrize(
        ("written", "needs"),
        [
            ("group: remote", True),
            ("group: local", False),
            ("needs_poll: true", True),
            ("needs_poll: false", False),
            ("priority: 0", False),
            ("group: remote, needs_poll: true", True),
            ("conditions: [has_open_prs]", True),
            ("conditions: [network_up, no_agents_running]", False),
        ],
    )
    def test_who_says_so_or_whose_condition_looks_at_it(self, tmp_path, written, needs):
        """R-16: `group: remote` is 000's spelling; without any the default is false."""
        assert job(tmp_path, written, top=URL).gates.needs_poll is needs

    def test_a_registered_condition_says_whether_it_looks_at_the_poll(self, tmp_path):
        """R-16: `@rota.condition("has_work", needs_poll=True)`."""
        body = "conditions: [has_work]"
        assert job(tmp_path, body, top=URL, functions=Known("has_work")).gates.needs_poll
        assert not job(tmp_path, body, functions=Known(others=("has_work",))).gates.needs_poll

    def test_a_registered_condition_replaces_a_built_in_one(self, tmp_path):
        """R-09, R-16: what the project's own has_open_prs looks at is what it says itself."""
        known = Known(others=("has_open_prs",))
        assert not job(tmp_path, "conditions: [has_open_prs]", functions=known).gates.needs_poll

    def test_a_default_may_need_it(self, tmp_path):
        top = f"{URL}defaults: {{needs_poll: true}}\n"
        assert job(tmp_path, "priority: 0", top=top).gates.needs_poll
        assert not job(tmp_path, "group: local", top=top).gates.needs_poll

    @pytest.mark.parametrize(
        ("written", "place"),
        [
            ("group: remote", "4:5: jobs.x.group"),
            ("needs_poll: true", "4:5: jobs.x.needs_poll"),
            ("conditions: [network_up, has_open_prs]", "4:30: jobs.x.conditions[1]"),
        ],
    )
    def test_without_a_poll_it_is_an_error_where_it_is_said(self, tmp_path, written, place):
        """R-16: a load error."""
        assert job_refused(tmp_path, written) == (
            f"rota.yaml:{place}: needs the shared poll, and the file has no `poll:`; "
            "add `poll: {url: https://…}`, or remove what needs it"
        )

    def test_a_poll_with_problems_is_a_poll(self, tmp_path):
        """Those who need it are not blamed for it."""
        text = "poll: {}\njobs: {x: {command: [a], needs_poll: true}}\n"
        assert refused(tmp_path, text) == [EVERY]

    def test_the_poll_of_an_included_project_is_nobodys(self, tmp_path):
        """R-16: there is one poll, the including file's."""
        (tmp_path / "api").mkdir()
        (tmp_path / "api" / "rota.yaml").write_text(f"{URL}jobs: {{x: {{command: [a], needs_poll: true}}}}\n")
        (said,) = refused(tmp_path, "include: [api/rota.yaml]\njobs: {}\n")
        assert "needs the shared poll, and the including file has no `poll:`" in said
        found = named(read(tmp_path, f"include: [api/rota.yaml]\n{URL}jobs: {{}}\n"))
        assert found["api/x"].gates.needs_poll
        assert POLL in found

    def test_two_words_that_contradict_each_other_are_refused(self, tmp_path):
        said = job_refused(tmp_path, "group: remote\n    needs_poll: false", top=URL)
        assert said == "rota.yaml:5:5: jobs.x.group: contradicts `needs_poll`; keep one of them"

    @pytest.mark.parametrize(("written", "key"), [("needs_poll: false", "needs_poll"), ("group: local", "group")])
    def test_who_denies_what_its_condition_needs_is_told(self, tmp_path, written, key):
        said = job_refused(tmp_path, f"{written}\n    conditions: [has_open_prs]", top=URL)
        assert said == (
            f'rota.yaml:5:5: jobs.x.{key}: contradicts the condition "has_open_prs", '
            "which reads the poll's data; remove this line, or the condition"
        )

    def test_another_word_is_pointed_at_groups(self, tmp_path):
        said = job_refused(tmp_path, "group: nightly", top=URL)
        assert 'jobs.x.group: "nightly" is not one of local, remote; jobs that belong together' in said


@pytest.mark.parametrize(
    "text",
    [
        "poll: {url: 'https://octo.example/api', interval: {active: 15s, idle: 60s, dormant: never}}\n",
        "poll: {url: 'http://a:8080/b?c=d', interval: 90s, timeout: 5s, headers: {A: 'x: y', B: {secret: S}}}\n",
        "poll: {run: 'sources:look'}\nretention: {runs: 7d}\n",
        "budgets: {day: {requests: 10, per: day}}\npoll: {url: 'http://a/b', budget: day}\n",
    ],
)
def test_what_is_exported_declares_the_same(tmp_path, text):
    jobs = "jobs:\n  a: {interval: {active: 1m, dormant: never}, command: [a], needs_poll: true}\n"
    declared = read(tmp_path, f"timezone: Europe/Rome\n{text}{jobs}")
    top = Top(str(tmp_path), "Europe/Rome", budgets=declared.settings.budgets)
    again = read(tmp_path, export_text(declared.jobs, top))
    assert named(again) == named(declared)
