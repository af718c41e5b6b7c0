"""Texts from outside on a terminal: no command lets a control sequence through, whatever field it is stored in."""

import io
import json
import re
import shutil
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rota.cli.console import configure_logging
from rota.cli.invocation import Invocation
from rota.cli.main import COMMANDS, cli
from rota.cli.output import clean_streams
from rota.log import log
from rota.model.records import Outcome
from rota.model.states import Reason, Status
from tests.faces.conftest import Project
from tests.faces.test_tools import Tools

MARK = "Zevil"
HOSTILE = f"{MARK}\x1b]0;title\x07\x1b]8;;https://evil.example\x1b\\\x1b[2J\x1b[8m\x1b[31m\x1bc\x9b2J\x9d0;t\x9c\x85\x08\r\u202e\u2066\u200f"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
OWN = re.compile(r"\x1b\[(?:0|1|2|3[1-6])m")
"""The styles that rota itself writes."""

FILE = f"""
agent_policy: {{approval: required}}
agents:
  reviewer: {{adapter: claude}}
notify:
  ops: {{webhook: "https://ops.example/hook"}}
pools: {{gpu: 1}}
jobs:
  disk:
    description: {MARK}
    command: [echo, {MARK}]
    params: {{text: {MARK}}}
    env: {{TEXT: {MARK}}}
    labels: [night]
    retry: false
  nightly: {{cron: "0 2 * * *", shell: "echo {MARK}", description: {MARK}, retry: false}}
  review: {{cron: "0 3 * * *", agent: reviewer, prompt: "Look at {MARK}.", description: {MARK}, retry: false}}
  held: {{interval: 1h, command: [echo, {MARK}], retry: false}}
groups:
  both: {{members: [disk, held], description: {MARK}}}
"""
BROKEN = Outcome(
    Status.FAILED,
    Reason.EXIT_CODE,
    exit_code=3,
    error=f"exit 3: {MARK}",
    summary=f"done: {MARK}",
    denied_tools=(MARK,),
    session_id=MARK,
)

SHOWN: dict[str, list[list[str]]] = {
    "init": [["--dry-run"]],
    "serve": [["--help"]],
    "demo": [["--help"]],
    "worker": [["--help"]],
    "open": [["--print"]],
    "tick": [["--dry-run"]],
    "stop": [["--dry-run"]],
    "service": [["status"], ["logs"]],
    "completion": [["bash"]],
    "takeover": [["status"]],
    "help": [[]],
    "check": [[]],
    "trust": [[]],
    "apply": [["--dry-run"]],
    "add": [["new", "--set", f"description={HOSTILE}", "--dry-run", "--", "echo"]],
    "next": [[], ["nightly"], ["--cron", HOSTILE]],
    "simulate": [["--days", "1"]],
    "import": [["jobs", "old.yaml"], ["crontab", "old.crontab"]],
    "export": [[], ["disk"]],
    "schema": [[]],
    "status": [[]],
    "list": [[], ["--all"]],
    "show": [["disk"], ["disk:1"], ["held"], ["review"], ["nightly"], ["both"], [HOSTILE], ["made"]],
    "history": [[], ["--all"], ["disk"], ["--grep", HOSTILE]],
    "logs": [["disk:1"], ["--grep", MARK], [HOSTILE]],
    "explain": [["disk"], ["disk:1"], ["held"], ["review"], ["nightly"], [HOSTILE]],
    "digest": [[]],
    "usage": [[], ["--by", "agent"], ["--by", "model"]],
    "stats": [[], ["--by", "job"], ["--by", "model"], ["--by", "queue"], ["disk", "--by", "time"], [HOSTILE]],
    "diff": [["disk:1", "nightly:1"], [HOSTILE, "disk:1"]],
    "spans": [["disk:1"], ["both"], [HOSTILE]],
    "run": [["disk", "--dry-run", "--param", f"text={HOSTILE}"], ["review", "--dry-run"], [HOSTILE], ["disk"]],
    "trigger": [["disk", "--dry-run"], [HOSTILE]],
    "direct": [["disk", "--dry-run"], [HOSTILE]],
    "retry": [["disk:1", "--dry-run"], [HOSTILE]],
    "cancel": [["--job", "disk", "--dry-run"], [HOSTILE]],
    "backfill": [["nightly", "--from", "2026-11-10", "--to", "2026-11-12", "--dry-run"], [HOSTILE]],
    "pause": [["disk", "--reason", HOSTILE, "--dry-run"], ["disk", "--reason", HOSTILE]],
    "resume": [["held", "--dry-run"], [HOSTILE]],
    "ack": [["--dry-run", "--all"], [HOSTILE]],
    "questions": [[], ["show", "1"], ["--job", HOSTILE]],
    "grants": [[], ["--job", HOSTILE], ["revoke", "1"]],
    "answer": [["1", "reject", "--dry-run"], ["1", HOSTILE]],
    "approve": [[], ["made", "--dry-run"], [HOSTILE]],
    "remove": [["made", "--dry-run"], [HOSTILE]],
    "touch": [["--dry-run"]],
    "queue": [[]],
    "move": [["disk:2", "--first", "--dry-run"], [HOSTILE, "--first"]],
    "edit": [["disk:2", "--param", f"text={HOSTILE}", "--dry-run"], [HOSTILE, "--priority", "1"]],
    "groups": [[], ["show", "both"], ["show", HOSTILE]],
    "agents": [[], ["release", HOSTILE]],
    "budgets": [[], [HOSTILE]],
    "mcp": [["--list"]],
    "attach": [["review:1", "--print"], [HOSTILE, "--print"]],
    "fork": [["review:1", "--prompt", HOSTILE, "--dry-run"], [HOSTILE, "--prompt", "Go on."]],
    "sessions": [[], ["reset", HOSTILE]],
    "worktrees": [
        [],
        ["open", "review:1", "--print"],
        ["open", HOSTILE, "--print"],
        ["merge", HOSTILE],
        ["discard", HOSTILE],
    ],
    "workers": [[], ["drain", HOSTILE]],
    "notify": [[], ["test", HOSTILE]],
    "deliveries": [[], ["--failed"]],
    "verify": [[]],
    "doctor": [[]],
    "backup": [["copy.tar"]],
    "restore": [["nothing.tar", "--dry-run"]],
    "migrate": [["--to", f"sqlite:{HOSTILE.replace(chr(0), '')}", "--dry-run"]],
    "token": [["--dry-run", "--renew"]],
    "audit": [[], ["--actor", HOSTILE]],
    "secrets": [[]],
}
"""How each command is typed: what it shows of the project, and a refusal that names the hostile text."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose every free text, in the file and in the database, is hostile."""
    project = Project(tmp_path_factory.mktemp("hostile") / "home")
    project.folder.mkdir()
    project.applied(FILE)
    project.ok("trigger", "disk", "--param", f"text={MARK}")
    project.carry_out([BROKEN], output=f"{HOSTILE}\n")
    project.ok("trigger", "review")
    project.carry_out([BROKEN])
    project.ok("trigger", "disk")
    Tools(project).call("schedule_job", name="made", task=f"Look at {MARK}.", schedule="0 9 * * mon-fri")
    project.ok("pause", "held", "--reason", MARK)
    project.ok("pause", "--all", "--reason", MARK)
    _poison(project.state / "rota.db", now=int(project.clock.now().timestamp() * 1000))
    (project.folder / "rota.yaml").write_text(FILE.replace(MARK, _in_yaml(HOSTILE)))
    (project.folder / "old.yaml").write_text(
        json.dumps({"schedules": [{"name": "a", "cron": "0 1 * * *", "command": HOSTILE}]})
    )
    (project.folder / "old.crontab").write_text(f"# {HOSTILE}\n0 1 * * * echo {HOSTILE}\n")
    return project.folder


def _in_yaml(text: str) -> str:
    return text if text.isprintable() else f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


def _poison(path: Path, *, now: int) -> None:
    """Put rows where the commands above left none, then the hostile text into every text that holds the mark."""
    database = sqlite3.connect(path)
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    run, job = database.execute("SELECT id, job_id FROM run_now WHERE error IS NOT NULL").fetchone()
    rows = {
        "provider_hold": {
            "pool": "agent:reviewer",
            "stated": 0,
            "refusals": 2,
            "why": MARK,
            "run_id": run,
            "set_at": now,
        },
        "delivery": {
            "id": "00000000000000000000000001",
            "run_id": run,
            "subject": run,
            "handle": "disk:1",
            "event": "failed",
            "target": "ops",
            "endpoint": f"https://{MARK}",
            "status": "FAILED",
            "attempts": 3,
            "created_at": now,
            "finished_at": now,
            "error": MARK,
        },
        "endpoint": {"endpoint": f"https://{MARK}", "failures": 9, "disabled_at": now, "error": MARK},
        "poll": {
            "id": 1,
            "run_id": run,
            "at": now,
            "ok": 0,
            "detail": MARK,
            "good_at": now,
            "data": json.dumps({"a": MARK}),
        },
        "audit": {
            "at": now,
            "actor": MARK,
            "face": MARK,
            "action": MARK,
            "target": MARK,
            "detail": json.dumps({"a": MARK}),
        },
        "worktree": {
            "path": f"/tmp/{MARK}",
            "run_id": run,
            "handle": "disk:1",
            "repository": MARK,
            "branch": MARK,
            "base": MARK,
            "made_at": now,
            "kept_at": now,
            "kept_why": MARK,
        },
        "agent_session": {
            "job_id": job,
            "adapter": "claude",
            "session_id": MARK,
            "run_id": run,
            "usd": 0,
            "tokens_in": 0,
            "tokens_out": 0,
            "at": now,
        },
        "remote_worker": {"name": MARK, "id": MARK, "registered_at": now, "seen_at": now, "lost_after": 9},
        "work_item": {
            "claim": "1",
            "run_id": run,
            "handle": "disk:1",
            "source": json.dumps({"kind": "directory", "place": MARK}),
            "source_key": MARK,
            "asked_at": now,
            "item_id": MARK,
            "item": json.dumps({"id": MARK, "title": MARK}),
            "claimed_at": now,
            "state": "given_up",
            "ended_at": now,
            "told_at": now,
            "error": MARK,
            "report": json.dumps({"success": False, "run": MARK}),
        },
    }
    for table, row in rows.items():
        names = ", ".join(row)
        database.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
    database.execute("UPDATE worker SET labels = ?", (json.dumps({"zone": MARK}),))
    database.execute("UPDATE job SET state = ?", (json.dumps({"note": MARK}),))
    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for _, column, kind, *_ in database.execute(f"PRAGMA table_info('{table}')").fetchall():
            if kind == "TEXT":
                database.execute(
                    f'UPDATE "{table}" SET "{column}" = CASE WHEN json_valid("{column}")'
                    f' THEN replace("{column}", ?1, ?2) ELSE replace("{column}", ?1, ?3) END'
                    f' WHERE instr("{column}", ?1)',
                    (MARK, _escaped(HOSTILE), HOSTILE),
                )
    database.commit()
    database.close()


def typed(folder: Path, *arguments: str) -> Result:
    project = Project(folder)
    project.clock.advance(timedelta(minutes=1))
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TERM": "xterm"}
    invocation = Invocation(environ, folder, project.clock, lambda _seconds: None)
    return CliRunner().invoke(cli, list(arguments), obj=invocation, color=True)


def test_every_command_of_the_table_is_tried() -> None:
    assert set(SHOWN) == set(COMMANDS)


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["words", "json"])
def test_no_command_lets_a_control_sequence_through(name: str, form: list[str], filled: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(filled, tmp_path / "home")
    for arguments in SHOWN[name]:
        result = typed(folder, name, *arguments, *form)
        assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)
        assert result.output, arguments
        for text in (result.stdout, result.stderr):
            shown = OWN.sub("", text)
            assert not FORBIDDEN.search(shown), (arguments, repr(shown))


@pytest.mark.parametrize(
    ("arguments", "most"),
    [(["show", "disk"], 1), (["show", "held"], 1), (["show", "disk:1"], 1), (["status"], 1), (["audit"], 1)],
)
def test_the_texts_themselves_are_still_shown(arguments: list[str], most: int, filled: Path) -> None:
    assert typed(filled, *arguments).output.count(MARK) >= most


def test_a_text_of_several_lines_forges_no_line_of_its_own(project: Project) -> None:
    project.applied("jobs: {disk: {interval: 1h, command: [echo]}}")
    project.ok("pause", "disk", "--reason", "upgrade\ndisk  idle\n  next  now")
    for command in (["show", "disk"], ["explain", "disk"], ["list"], ["status"]):
        assert not [
            line
            for line in project.rota(*command).stdout.splitlines()
            if line.startswith(("disk  idle", "  next  now"))
        ]


def test_json_keeps_the_text_as_it_is_stored(filled: Path) -> None:
    assert json.loads(typed(filled, "show", "disk", "--json").stdout)["spec"]["description"] == HOSTILE


def test_an_exported_file_keeps_the_text_as_it_is_stored(filled: Path) -> None:
    import ruamel.yaml

    exported = ruamel.yaml.YAML(typ="safe").load(typed(filled, "export", "disk").stdout)
    assert exported["jobs"]["disk"]["description"] == HOSTILE


def test_the_log_lets_no_control_sequence_through(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with clean_streams():
        configure_logging(verbose=True, console=False, stamp=lambda: "12:00:00")
        log.warning(HOSTILE, text=HOSTILE)
    assert MARK in terminal.getvalue()
    assert not FORBIDDEN.search(OWN.sub("", terminal.getvalue()))
