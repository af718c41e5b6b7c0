"""The commands on a project whose store is PostgreSQL: one line of the file, or ROTA_STORE."""

import json

import psycopg
import pytest

from rota.engine.clock import SystemClock
from rota.model.ids import new_id
from rota.model.records import ProcessIdentity
from rota.operations.project.locate import locate, open_place
from rota.rules.liveness import LEASE
from rota.store.driver import Database
from rota.store.postgres.setup import open_postgres
from rota.store.tables import processes
from rota.store.tables.processes import Worker
from tests.faces.conftest import Project
from tests.postgres import lay_postgres
from tests.proxy import Proxy

JOBS = "jobs:\n  fine: {command: ['true'], cron: '0 9 * * *'}\n"


@pytest.fixture
def address() -> str:
    return lay_postgres()


@pytest.fixture
def shared(project: Project, address: str) -> Project:
    project.write(f"store: {address}\n{JOBS}")
    return project


def test_one_line_moves_everything_to_postgresql(shared: Project, address: str) -> None:
    assert "created" in shared.ok("apply")
    shared.ok("trigger", "fine")
    with psycopg.connect(address) as connection:
        assert connection.execute("SELECT name FROM job").fetchall() == [("fine",)]
    assert "fine:1" in shared.ok("history")
    assert not (shared.state / "rota.db").exists()
    assert shared.rota("verify").exit_code == 0


def test_the_environment_wins_over_the_file(project: Project, address: str) -> None:
    project.write(JOBS)
    result = project.rota("apply", environ={"ROTA_STORE": address})
    assert result.exit_code == 0, result.output
    assert not (project.state / "rota.db").exists()
    assert "fine" in project.rota("list", environ={"ROTA_STORE": address}).output
    assert project.rota("list").exit_code != 0


def test_status_names_the_store_without_its_password(project: Project, address: str) -> None:
    project.write(JOBS)
    secret = address.replace("postgres:@", "postgres:geheim@")
    project.rota("apply", environ={"ROTA_STORE": secret})
    for arguments in (["status"], ["status", "--json"], ["doctor"], ["backup", "x.tar"]):
        told = project.rota(*arguments, environ={"ROTA_STORE": secret}).output
        assert "postgresql://postgres@" in told
        assert "geheim" not in told


def test_doctor_says_which_machines_serve(shared: Project, address: str) -> None:
    shared.ok("apply")
    assert schedulers(shared) == ["none is running"]
    enter(address, "beta", kind="worker")
    assert "no machine serves" in schedulers(shared)[0]
    enter(address, "alpha", kind="serve")
    assert schedulers(shared) == [
        "none runs in this folder; alpha on host-of-alpha serves, beta on host-of-beta claims"
    ]


def test_doctor_says_that_it_cannot_know_who_serves(project: Project) -> None:
    project.write(f"store: postgresql://nobody@127.0.0.1:1/none\n{JOBS}")
    assert schedulers(project) == ["none is running in this folder; other machines are unknown"]


def schedulers(project: Project) -> list[str]:
    """Return what doctor says of schedulers."""
    found = json.loads(project.rota("doctor", "--json").stdout)
    return [one["text"] for one in found["findings"] if one["topic"] == "scheduler"]


def enter(address: str, name: str, *, kind: str) -> None:
    """Let another machine begin to work."""
    clock = SystemClock()
    me, worker = (
        ProcessIdentity(f"boot of {name}", 1, 1),
        Worker(new_id(clock.now()), name, {}, f"host-of-{name}", "/srv"),
    )

    def begin(db: Database) -> None:
        processes.insert_worker(db, worker, now=clock.now())
        epoch = processes.open_process(
            db, worker_id=worker.id, kind=kind, identity=me, lock=name, version="0", now=clock.now()
        )
        processes.renew_lease(db, epoch, lease=LEASE)

    store = open_postgres(address, now=clock.now)
    store.write(begin)
    store.close()


def test_doctor_looks_at_the_server(shared: Project) -> None:
    shared.ok("apply")
    found = json.loads(shared.rota("doctor", "--json").stdout)
    topics = {one["topic"] for one in found} if isinstance(found, list) else {one["topic"] for one in found["findings"]}
    assert {"database", "rights", "durability", "distance", "clocks", "connections"} <= topics


def test_a_password_that_is_written_out_is_refused_and_not_repeated(project: Project) -> None:
    """R-27: name secrets, do not write them into the file."""
    project.write(f"store: postgresql://rota:geheim@db/rota\n{JOBS}")
    result = project.rota("check")
    assert result.exit_code == 65
    assert "holds a password" in result.output
    assert "geheim" not in result.output


def test_the_password_may_be_a_secret(project: Project, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(f"store: {address.replace('postgres:@', 'postgres:${secret:DB_PASSWORD}@')}\n{JOBS}")
    missing = project.rota("apply")
    assert missing.exit_code == 78
    assert "DB_PASSWORD" in missing.output
    assert "missing" in project.ok("secrets")
    monkeypatch.setenv("DB_PASSWORD", "any")  # the test's server asks for none
    assert "created" in project.ok("apply")


@pytest.mark.parametrize("store", ["mysql://db/rota", "rota.db", "redis://db"])
def test_a_store_that_rota_does_not_know_is_told(project: Project, store: str) -> None:
    project.write(f"store: {store}\n{JOBS}")
    assert "is not a store that rota supports" in project.rota("check").output
    project.write(JOBS)
    result = project.rota("list", environ={"ROTA_STORE": store})
    assert result.exit_code == 2
    assert "is not a store that rota supports" in result.output


def test_nothing_applied_is_told_as_with_sqlite(shared: Project, address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS nothing")
    shared.write(f"store: {address}&options=-csearch_path%3Dnothing\n{JOBS}")
    assert "nothing is applied yet" in shared.rota("status").output
    assert shared.rota("list").exit_code == 66
    assert "fine" in shared.ok("next")


def test_backups_are_left_to_pg_dump(shared: Project) -> None:
    shared.ok("apply")
    for arguments in (["backup", "x.tar.gz"], ["restore", "x.tar.gz"]):
        result = shared.rota(*arguments)
        assert result.exit_code == 6
        assert "pg_" in result.output


def test_a_server_that_is_gone_is_told_with_its_host(
    shared: Project, address: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("way")
    proxy = Proxy(folder, address)
    shared.write(f"store: {proxy.address}\n{JOBS}")
    shared.ok("apply")
    proxy.refuse()
    result = shared.rota("list", "--json")
    proxy.close()
    assert result.exit_code == 69
    told = json.loads(result.output)
    assert "database_gone" in json.dumps(told)
    assert str(folder) in json.dumps(told)


def test_a_command_in_a_run_finds_the_store_of_its_scheduler(
    project: Project, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-27: a run does not inherit the environment that names the store."""
    project.write(JOBS)
    monkeypatch.setenv("ROTA_STORE", address)
    store = open_place(locate(str(project.folder), {"ROTA_STORE": address}, project.folder), project.clock, create=True)
    store.close()
    monkeypatch.delenv("ROTA_STORE")
    inside = {"ROTA_RUN_ID": "x", "ROTA_SCHEDULER_DIR": str(project.folder), "ROTA_STATE_DIR": str(project.state)}
    assert locate(str(project.folder), inside, project.folder).store == address
    assert (project.state / "store").stat().st_mode & 0o777 == 0o600
    assert locate(str(project.folder), {}, project.folder).store == "sqlite"


def test_an_included_project_has_no_store_of_its_own(project: Project) -> None:
    (project.folder / "api").mkdir()
    (project.folder / "api" / "rota.yaml").write_text(f"store: postgresql://db/other\n{JOBS}")
    project.write(f"include: [api/rota.yaml]\n{JOBS}")
    assert "store" in project.ok("check")


def test_a_service_gets_the_store_of_the_environment_but_no_password(project: Project) -> None:
    project.write(JOBS)
    install = ("service", "install", "--print")
    told = project.rota(*install, environ={"ROTA_STORE": "postgresql://rota@db/rota"})
    assert 'Environment="ROTA_STORE=postgresql://rota@db/rota"' in told.output
    refused = project.rota(*install, environ={"ROTA_STORE": "postgresql://rota:geheim@db/rota"})
    assert refused.exit_code == 69
    assert "geheim" not in refused.output
