"""`rota token`, `rota open`, `rota audit`, `rota secrets`."""

import re
from pathlib import Path

import pytest

from rota.operations.admin.access import Caller, Scope, know_token, read_token
from rota.runners.environment import read_env_file
from tests.faces.conftest import Project

FILE = "jobs:\n  a: {command: [echo, hi], env: {KEY: {secret: GITHUB_TOKEN}}}\n"


@pytest.fixture
def applied(project: Project) -> Project:
    return project.applied(FILE)


def test_the_token_is_made_by_whoever_asks_first(applied: Project) -> None:
    first = applied.ok("token").strip()
    assert first == applied.ok("token").strip() == read_token(applied.state)
    assert (applied.state / "token").stat().st_mode & 0o777 == 0o600


def test_a_token_of_a_scope_is_printed(applied: Project) -> None:
    told = applied.json("token", "--scope", "run", "--name", "ci")
    assert (told["scope"], told["name"]) == ("run", "ci")
    assert know_token(read_token(applied.state), told["token"]) == Caller("ci", Scope.RUN)


@pytest.mark.parametrize(
    "flags", [["--scope", "run"], ["--name", "x"], ["--renew", "--scope", "run", "--name", "x"], ["--scope", "all"]]
)
def test_a_token_that_is_not_clear_is_refused(applied: Project, flags: list[str]) -> None:
    assert applied.rota("token", *flags).exit_code == 2


def test_the_token_is_renewed(applied: Project) -> None:
    old = applied.ok("token").strip()
    applied.ok("token", "--renew", "--dry-run")
    assert applied.ok("token").strip() == old
    assert applied.ok("token", "--renew").strip() == applied.ok("token").strip() != old


def test_a_named_token_is_shown_once_listed_and_revoked(applied: Project) -> None:
    text = applied.ok("token", "create", "ci", "--scope", "run", "--expires", "30d").strip()
    assert re.fullmatch(r"rota_token_[A-Za-z0-9_-]{43}", text)
    listed = applied.ok("token", "list")
    assert (text in listed, "ci" in listed, "valid" in listed, "never" in listed) == (False, True, True, False)
    (told,) = applied.json("token", "list")
    assert (told["name"], told["scope"], told["state"], told["last_used_at"]) == ("ci", "run", "valid", None)
    assert "is revoked" in applied.ok("token", "revoke", "ci")
    assert applied.json("token", "list")[0]["state"] == "revoked"
    acts = [(one["action"], one["target"]) for one in applied.json("audit")]
    assert acts[:2] == [("token revoke", "ci"), ("token create", "ci")]


def test_a_created_token_as_json_and_its_dry_run(applied: Project) -> None:
    planned = applied.json("token", "create", "ci", "--scope", "calendar", "--expires", "never", "--dry-run")
    assert (planned["secret"], planned["dry_run"], planned["expires_at"]) == (None, True, None)
    assert applied.json("token", "list") == []
    made = applied.json("token", "create", "ci", "--scope", "calendar", "--expires", "never")
    assert made["secret"].startswith("rota_token_")
    assert applied.json("token", "revoke", "ci", "--dry-run")["state"] == "revoked"
    assert applied.json("token", "list")[0]["state"] == "valid"


@pytest.mark.parametrize(
    "flags",
    [
        ["create", "ci"],
        ["create", "ci", "--scope", "all"],
        ["create", "ci", "--scope", "run", "--expires", "soon"],
        ["create", "ci", "--scope", "run", "--expires", "0d"],
        ["create", "ci", "--scope", "run", "--expires", "9999d"],
        ["create", "owner", "--scope", "run"],
        ["create", "a b", "--scope", "run"],
        ["revoke", "nothing"],
        ["--scope", "run", "create", "ci", "--scope", "run"],
    ],
)
def test_a_named_token_that_cannot_be_is_refused(applied: Project, flags: list[str]) -> None:
    assert applied.rota("token", *flags).exit_code in (2, 64, 65)
    assert applied.json("token", "list") == []


def test_a_second_token_of_one_name_is_refused(applied: Project) -> None:
    applied.ok("token", "create", "ci", "--scope", "read")
    refused = applied.rota("token", "create", "ci", "--scope", "admin")
    assert (refused.exit_code != 0, "rota token revoke ci" in refused.stderr) == (True, True)


def test_export_holds_no_token(applied: Project) -> None:
    applied.ok("token", "create", "ci", "--scope", "read")
    assert "token" not in applied.ok("export")


def test_a_restored_backup_accepts_its_tokens(applied: Project, tmp_path: Path) -> None:
    """A backup is the database itself: it holds the hash, as a restore needs it."""
    applied.ok("token", "create", "ci", "--scope", "read")
    applied.ok("backup", str(tmp_path / "copy.tar.gz"))
    applied.ok("token", "revoke", "ci")
    applied.ok("restore", str(tmp_path / "copy.tar.gz"), "--force")
    assert applied.json("token", "list")[0]["state"] == "valid"


def test_there_is_nothing_to_open_without_a_scheduler(applied: Project) -> None:
    refused = applied.rota("open")
    assert (refused.exit_code, "no scheduler is running" in refused.stderr) == (69, True)


def test_the_audit_tells_who_did_what(applied: Project) -> None:
    applied.ok("trigger", "a")
    applied.ok("cancel", "a:1")
    told = applied.json("audit")
    assert [(one["action"], one["target"], one["face"]) for one in told] == [
        ("cancel", "a:1", "command"),
        ("trigger", "a", "command"),
        ("apply", "", "command"),
    ]
    assert {one["actor"].partition(":")[0] for one in told} == {"user"}
    assert applied.json("audit", "--actor", "token:x") == []
    assert applied.ok("audit").splitlines()[1].endswith("a:1")


def test_what_was_refused_or_only_tried_is_not_in_the_audit(applied: Project) -> None:
    applied.rota("trigger", "nope")
    applied.ok("trigger", "a", "--dry-run")
    applied.ok("list")
    assert [one["action"] for one in applied.json("audit")] == ["apply"]


@pytest.mark.parametrize("statement", ["UPDATE audit SET actor = 'me'", "DELETE FROM audit"])
def test_the_audit_cannot_be_changed(applied: Project, statement: str) -> None:
    import apsw

    connection = apsw.Connection(str(applied.state / "rota.db"))
    with pytest.raises(apsw.ConstraintError, match="never changes"):
        connection.execute(statement)
    connection.close()


def test_a_secret_is_listed_by_where_it_comes_from(applied: Project, tmp_path: Path) -> None:
    assert applied.json("secrets") == [
        {
            "name": "GITHUB_TOKEN",
            "source": "missing",
            "jobs": ["a"],
            "targets": [],
            "sections": [],
            "store": False,
            "origin": None,
        }
    ]
    assert (
        "from-the-environment" not in applied.rota("secrets", environ={"GITHUB_TOKEN": "from-the-environment"}).output
    )
    listed = applied.rota("secrets", "--json", environ={"GITHUB_TOKEN": "x"}).stdout
    assert '"source": "environment"' in listed
    (tmp_path / "GITHUB_TOKEN").write_text("x")
    listed = applied.rota("secrets", "--json", environ={"CREDENTIALS_DIRECTORY": str(tmp_path)}).stdout
    assert '"source": "credential"' in listed


def test_a_secret_with_an_origin_shows_it_and_cannot_be_stored(applied: Project) -> None:
    text = (applied.folder / "rota.yaml").read_text()
    applied.write(text + "secrets: {GITHUB_TOKEN: {command: [pass, show, github]}, UNUSED: {keyring: a/b}}\n")
    found = [(one["name"], one["source"], one["origin"]) for one in applied.json("secrets")]
    assert found == [("GITHUB_TOKEN", "command", "pass show github"), ("UNUSED", "keyring", "a/b")]
    assert "command pass show github" in applied.rota("secrets").output
    refused = applied.rota("secrets", "set", "GITHUB_TOKEN")
    assert refused.exit_code == 2
    assert "reads GITHUB_TOKEN from its command, pass show github" in refused.output
    applied.write(text + "secrets: {GITHUB_TOKEN: {commnd: x}}\n")
    assert "was not read" in applied.rota("secrets").output


@pytest.mark.parametrize(
    "value", ["plain", 'quo"te', "back\\slash", "two\nlines", " spaces # not a comment ", "$x `y`"]
)
def test_a_secret_is_stored_as_it_was_given(applied: Project, value: str) -> None:
    from click.testing import CliRunner

    from rota.cli.invocation import Invocation
    from rota.cli.main import cli

    (applied.state / "secrets.env").write_text("# mine\nOTHER=1\nexport GITHUB_TOKEN=old\n")
    invocation = Invocation({"HOME": str(applied.folder)}, applied.folder, applied.clock)
    done = CliRunner().invoke(cli, ["secrets", "set", "GITHUB_TOKEN"], obj=invocation, input=value + "\n")
    assert (done.exit_code, done.output) == (0, "GITHUB_TOKEN replaced\n")
    path = applied.state / "secrets.env"
    assert read_env_file(path) == {"OTHER": "1", "GITHUB_TOKEN": value}
    assert path.read_text().startswith("# mine\n")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["", "1X", "A-B", "A B", "../x"])
def test_a_name_that_no_secret_can_have_is_refused(applied: Project, name: str) -> None:
    assert applied.rota("secrets", "set", name).exit_code == 2
    assert not (applied.state / "secrets.env").exists()


def deeds(project: Project) -> list[tuple[str, str]]:
    return [(one["action"], one["target"]) for one in project.json("audit")]


def given(project: Project, name: str, value: str, *flags: str) -> str:
    from click.testing import CliRunner

    from rota.cli.invocation import Invocation
    from rota.cli.main import cli

    invocation = Invocation({"HOME": str(project.folder)}, project.folder, project.clock)
    return CliRunner().invoke(cli, ["secrets", "set", name, *flags], obj=invocation, input=value).output


def test_who_set_or_removed_a_secret_is_in_the_audit_and_its_value_is_not(applied: Project) -> None:
    """R-27."""
    given(applied, "GITHUB_TOKEN", "hunter2")
    given(applied, "OTHER", "hunter3", "--dry-run")
    applied.ok("secrets", "remove", "GITHUB_TOKEN")
    assert deeds(applied)[:2] == [("secrets remove", "GITHUB_TOKEN"), ("secrets set", "GITHUB_TOKEN")]
    assert len(deeds(applied)) == 3
    assert "hunter" not in applied.ok("audit", "--json")


def test_a_secret_is_removed_alone(applied: Project) -> None:
    path = applied.state / "secrets.env"
    path.write_text("# mine\nOTHER=1\nexport GITHUB_TOKEN=old\n")
    applied.ok("secrets", "remove", "GITHUB_TOKEN", "--dry-run")
    assert "GITHUB_TOKEN" in path.read_text()
    assert applied.ok("secrets", "remove", "GITHUB_TOKEN") == "GITHUB_TOKEN removed\n"
    assert path.read_text() == "# mine\nOTHER=1\n"
    assert applied.rota("secrets", "remove", "GITHUB_TOKEN").exit_code == 2


def test_a_new_token_is_in_the_audit(applied: Project) -> None:
    applied.ok("token", "--renew", "--dry-run")
    applied.ok("token", "--renew")
    assert deeds(applied) == [("token", ""), ("apply", "")]


def test_a_secret_of_a_project_without_a_database_is_stored_without_a_line(project: Project) -> None:
    project.write("jobs: {}\n")
    assert given(project, "A", "x") == "A stored\n"
    assert not (project.state / "rota.db").exists()


def test_a_secret_is_stored_and_it_is_told_that_no_line_could_be_written(applied: Project) -> None:
    (applied.state / "rota.db").write_text("no database at all, but long enough to be looked at " * 9)
    told = given(applied, "A", "x")
    assert "not recorded in the audit log" in told
    assert "A stored" in told
    assert read_env_file(applied.state / "secrets.env") == {"A": "x"}
