"""The upgrade of a database of schema 14 in which jobs wait for approval: each has its question, which counts."""

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from rota.model.errors import ApprovalVoid, QuestionChanged
from rota.model.ids import new_id
from rota.model.proposals import Provenance
from rota.model.questions import Door, Question, QuestionState
from rota.model.spec import AgentWork, JobSpec, Kind, Schedule, Work
from rota.operations.questions import answers
from rota.operations.questions.answers import Answerer
from rota.operations.questions.views import list_questions
from rota.operations.verify.verify import verify
from rota.store import migrate
from rota.store.driver import Database, Store
from rota.store.migrate import open_store
from rota.store.postgres import setup
from rota.store.postgres.setup import open_postgres
from rota.store.queries import load_migrations
from rota.store.rows import write_spec
from rota.store.tables import jobs
from tests.faces.conftest import NOON, Project
from tests.postgres import bare_postgres
from tests.store.making import TZDATA

BEFORE = 14
ANNA = Answerer("user:anna", Door.CLI)
LATER = {"work": ("postcondition", "sandbox", "limits", "idle_timeout"), "agent": ("answered_by", "deliver", "choices")}
"""Keys of a definition that a version of rota with schema 14 did not write."""
PROPOSED = ("watch", "other")


def proposed(name: str) -> JobSpec:
    agent = AgentWork("reviewer", "claude", "anthropic", prompt=f"look at {name}")
    return JobSpec(name, Work(Kind.AGENT, agent=agent), Schedule(interval=timedelta(minutes=10)))


def as_before(spec: JobSpec) -> str:
    """Return a definition as a version of rota with schema 14 stored it."""
    values = json.loads(write_spec(spec))
    for key in LATER["work"]:
        del values["work"][key]
    for key in LATER["agent"]:
        del values["work"]["agent"][key]
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def fill(db: Database, *, now: datetime) -> None:
    """Store jobs that wait for approval, as a version of rota with schema 14 did."""
    for name in PROPOSED:
        spec, job_id = proposed(name), new_id(now)
        missing: dict[str, Any] = {"next_for": None, "next_at": None}
        jobs.insert_job(db, spec, job_id=job_id, source="made", tzdata=TZDATA, now=now, provisional=True, **missing)
        jobs.set_made(db, job_id, Provenance("agent:reviewer", now))
        jobs.set_provisional(db, job_id, now)


def rewrite(execute: Callable[..., Any], mark: str) -> None:
    """Write the definitions of the stored jobs with the keys of that time."""
    for name in PROPOSED:
        text = as_before(proposed(name))
        digest = hashlib.sha256(text.encode()).hexdigest()
        of_job = f"job_id = (SELECT id FROM job WHERE name = {mark})"
        execute(f"UPDATE job_version SET spec = {mark}, digest = {mark} WHERE {of_job}", (text, digest, name))


def older_sqlite(folder: Path, patched: pytest.MonkeyPatch) -> Callable[[], Store]:
    """Make a SQLite database of schema 14; return how it is opened."""
    path = folder / "rota.db"
    patched.setattr(migrate, "load_migrations", early)
    store = open_store(path, now=NOON)
    store.write(partial(fill, now=NOON))
    store.close()
    rewrite_sqlite(path)
    return partial(open_store, path, now=NOON)


def rewrite_sqlite(path: Path) -> None:
    """Write the definitions with the keys of that time; the triggers that keep versions stand aside."""
    connection = apsw.Connection(str(path))
    triggers = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'job_version'"
    ).fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}").fetchall()
    rewrite(lambda text, values: connection.execute(text, values).fetchall(), "?")
    for _, script in triggers:
        connection.execute(script).fetchall()
    connection.close()


def older_postgres(_folder: Path, patched: pytest.MonkeyPatch) -> Callable[[], Store]:
    """Make a PostgreSQL database of schema 14; return how it is opened."""
    address = bare_postgres("proposals")
    patched.setattr(setup, "load_migrations", early)
    store = open_postgres(address, now=lambda: NOON)
    store.write(partial(fill, now=NOON))
    store.close()
    with psycopg.connect(address) as connection:
        connection.execute("SET LOCAL session_replication_role = replica")
        rewrite(connection.execute, "%s")
    return partial(open_postgres, address, now=lambda: NOON)


def early(backend: str) -> list[tuple[int, str, str]]:
    """Return the migrations to schema 14."""
    return [migration for migration in load_migrations(backend) if migration[0] <= BEFORE]


@pytest.fixture(params=[older_sqlite, older_postgres])
def upgraded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store whose database had schema 14 with two proposals."""
    with pytest.MonkeyPatch.context() as patched:
        reopen = request.param(tmp_path, patched)
    store = reopen()
    yield store
    store.close()


def asked(store: Store) -> list[Question]:
    return sorted(list_questions(store, state=None), key=lambda question: question.number)


def found(store: Store, state: Path) -> list[str]:
    report = verify(store, state, now=NOON)
    return [violation.text for violation in report.violations]


def test_each_proposal_has_its_open_question(upgraded: Store, tmp_path: Path) -> None:
    assert {one.text for one in asked(upgraded)} == {"Approve the job watch?", "Approve the job other?"}
    for one in asked(upgraded):
        assert (one.state, one.choices, one.asked_by) == ("open", ("approve", "reject"), "agent:reviewer")
    assert found(upgraded, tmp_path) == []


def test_an_answer_approves_and_another_rejects(upgraded: Store, tmp_path: Path) -> None:
    for one, text in zip(asked(upgraded), ("approve", "reject"), strict=True):
        answer = partial(answers.answer, number=one.number, text=text, digest=one.digest, by=ANNA, now=NOON)
        assert upgraded.write(answer).state is QuestionState.ANSWERED
    approved, rejected = (upgraded.read(partial(jobs.job_by_id, job_id=one.job_id)) for one in asked(upgraded))
    assert (approved.provisional_at, approved.next_at is None) == (None, False)
    assert rejected.retired_at is not None
    assert found(upgraded, tmp_path) == []


def test_the_approval_of_what_was_shown_counts(upgraded: Store, tmp_path: Path) -> None:
    other = partial(answers.approve, name="watch", digest="other", by=ANNA, now=NOON)
    with pytest.raises(ApprovalVoid):
        upgraded.write(other)
    shown = jobs.digest_of(upgraded.read(partial(jobs.job_by_name, name="watch")).spec)  # type: ignore[union-attr]
    approved = upgraded.write(partial(answers.approve, name="watch", digest=shown, by=ANNA, now=NOON))
    assert approved.provisional_at is None
    upgraded.write(partial(answers.reject, name="other", by=ANNA, now=NOON))
    assert [one.answer for one in asked(upgraded)] in (["approve", "reject"], ["reject", "approve"])
    assert found(upgraded, tmp_path) == []


def test_an_answer_to_another_definition_is_refused(upgraded: Store) -> None:
    (one, *_) = asked(upgraded)
    with pytest.raises(QuestionChanged):
        upgraded.write(partial(answers.answer, number=one.number, text="approve", digest="other", by=ANNA, now=NOON))
    assert asked(upgraded)[0].is_open


def test_approve_and_answer_work_as_commands(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.state.mkdir(0o700)
    with pytest.MonkeyPatch.context() as patched:
        older_sqlite(project.state, patched)
    project.write("jobs: {}\n")
    first, second = sorted(project.json("questions"), key=lambda question: question["job"])
    assert (first["job"], second["job"]) == ("other", "watch")
    project.ok("verify")
    assert "watch is approved" in project.ok("approve", "watch", "--yes")
    project.ok("answer", str(first["question"]), "approve")
    assert project.json("questions") == []
    project.ok("verify")
