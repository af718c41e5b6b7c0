"""Sandboxes and limits: real bubblewrap where it works, and a stand-in for container runtimes."""

import asyncio
import json
import os
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rota.model.errors import SpawnFailed
from rota.model.records import Outcome
from rota.model.spec import Kind, Limits, Postcondition, Sandbox, Work
from rota.model.states import Reason, Status, Trigger
from rota.runners.command import CommandRunner, prepare
from rota.runners.environment import RunFacts, RunSurroundings
from rota.runners.keeper import CLEANUP
from rota.runners.output import folder_of, read_all
from rota.runners.processes import tagged
from rota.runners.sandbox import remove_left_container, sandbox_problems
from rota.runners.spawn_client import Spawned
from tests.service.keeping import TIMEOUTS
from tests.service.serving import Project, kill
from tests.service.test_command_runner import RUN_ID, outcome_of
from tests.waiting import until

BUBBLEWRAP = Sandbox()
WRONG = dict(sandbox_problems(Work(Kind.SHELL, sandbox=BUBBLEWRAP))).get("sandbox", "")
needs_bubblewrap = pytest.mark.skipif(bool(WRONG), reason=WRONG)


def facts() -> RunFacts:
    at = datetime(2026, 11, 15, tzinfo=UTC)
    return RunFacts(
        run_id=RUN_ID,
        handle="work:1",
        job="work",
        number=1,
        attempt=1,
        trigger=Trigger.MANUAL,
        scheduled_for=at,
        timezone="UTC",
    )


class Place:
    """A project whose runs are really started, by a keeper."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.state = self.project / ".rota"
        self.state.mkdir(parents=True)
        (self.state / "token").write_text("secret")
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}

    @property
    def folder(self) -> Path:
        return folder_of(self.state, RUN_ID)

    def surroundings(self) -> RunSurroundings:
        return RunSurroundings(
            project=self.project, state=self.state, folder=self.folder, environ=self.environ, root=self.project
        )

    def run(self, work: Work, act: object = None) -> tuple[Outcome, str]:
        launch = prepare(work, facts(), self.surroundings())
        outcome = outcome_of(launch, self.state, act)
        return outcome, read_all(self.folder).decode()


def shell(text: str, sandbox: Sandbox | None = BUBBLEWRAP, **fields: object) -> Work:
    return Work(Kind.SHELL, shell=text, sandbox=sandbox, **{"timeout": timedelta(minutes=1), **fields})  # type: ignore[arg-type]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def web() -> Iterator[int]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"from the server")

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@needs_bubblewrap
def test_a_run_changes_its_folder_and_nothing_else(place: Place) -> None:
    other = place.project.parent / "other"
    other.mkdir()
    outcome, output = place.run(shell(f"echo mine > made; touch {other}/made || echo refused; touch /etc/made || true"))

    assert outcome.status is Status.COMPLETED
    assert (place.project / "made").read_text() == "mine\n"
    assert "refused" in output
    assert not (other / "made").exists()
    assert not Path("/etc/made").exists()


@needs_bubblewrap
def test_write_opens_a_further_folder(place: Place) -> None:
    other = place.project.parent / "other"
    other.mkdir()
    place.run(shell(f"touch {other}/made", Sandbox(write=("../other", "~/missing"))))

    assert (other / "made").exists()


@needs_bubblewrap
def test_the_state_folder_is_hidden_but_the_result_file_works(place: Place) -> None:
    outcome, output = place.run(
        shell('cat .rota/token || echo hidden; printf \'{"summary": "done"}\' > "$ROTA_RESULT_FILE"')
    )

    assert (outcome.status, outcome.summary) == (Status.COMPLETED, "done")
    assert output.endswith("hidden\n")
    assert "secret" not in output


@needs_bubblewrap
def test_tmp_is_private(place: Place) -> None:
    _, output = place.run(shell('touch /tmp/rota-private; echo "$TMPDIR"'))

    assert output == "/tmp\n"
    assert not Path("/tmp/rota-private").exists()


PYTHON = shutil.which("python3") or "python3"
FETCH = "import urllib.request, sys; print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())"


@needs_bubblewrap
def test_network_off_reaches_nothing(place: Place, web: int) -> None:
    outcome, output = place.run(shell(f"{PYTHON} -c '{FETCH}' http://127.0.0.1:{web}/", Sandbox(network=False)))

    assert outcome.reason is Reason.EXIT_CODE
    assert "from the server" not in output


@needs_bubblewrap
def test_a_list_of_hosts_reaches_these_alone(place: Place, web: int) -> None:
    fetch = f"{PYTHON} -c '{FETCH}' http://"
    text = f"{fetch}localhost:{web}/; {fetch}127.0.0.1:{web}/ 2>&1 | tail -n 1"
    outcome, output = place.run(shell(text, Sandbox(hosts=("localhost",))))

    assert outcome.status is Status.COMPLETED
    assert output.splitlines() == ["from the server", "urllib.error.HTTPError: HTTP Error 403: Forbidden"]


TUNNEL = """
import os, socket, sys
from urllib.parse import urlsplit
proxy = urlsplit(os.environ["HTTPS_PROXY"])
line = socket.create_connection((proxy.hostname, proxy.port))
line.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\n\\r\\n".encode())
print(line.recv(100).split(b"\\r\\n")[0].decode())
line.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
print(line.makefile("rb").read().decode().splitlines()[-1])
"""


@needs_bubblewrap
def test_a_tunnel_opens_to_an_allowed_port_alone(place: Place, web: int) -> None:
    (place.project / "tunnel.py").write_text(TUNNEL)
    text = f"{PYTHON} tunnel.py localhost:{web}; {PYTHON} tunnel.py localhost:1 2>/dev/null | head -n 1"
    _, output = place.run(shell(text, Sandbox(hosts=(f"localhost:{web}",))))

    assert output.splitlines() == ["HTTP/1.1 200 Connection established", "from the server", "HTTP/1.1 403 Forbidden"]


@needs_bubblewrap
@pytest.mark.parametrize("hosts", [(), ("localhost",)])
def test_a_timeout_keeps_the_grace_and_leaves_no_process(hosts: tuple[str, ...], tmp_path: Path) -> None:
    text = "sleep 600 & trap 'echo ended in order; exit 0' TERM; echo > begun; wait"
    for seconds in TIMEOUTS:
        place = Place(tmp_path / str(seconds))
        fields = {"timeout": timedelta(seconds=seconds), "term_grace": timedelta(minutes=2)}
        outcome, output = place.run(shell(text, Sandbox(hosts=hosts), **fields))
        assert outcome.reason is Reason.TIMED_OUT
        if (place.project / "begun").exists():
            break

    assert output == "ended in order\n"


@needs_bubblewrap
@pytest.mark.parametrize("hosts", [(), ("localhost",)])
def test_no_process_outlives_a_keeper_that_was_killed(hosts: tuple[str, ...], place: Place) -> None:
    async def kill_the_keeper(_runner: object, spawned: Spawned) -> None:
        await asyncio.to_thread(until, (place.project / "begun").exists, what="the command to begin")
        os.kill(spawned.identity.pid, 9)

    outcome, _ = place.run(shell("sleep 600 & echo > begun; wait", Sandbox(hosts=hosts)), kill_the_keeper)

    assert outcome.reason is Reason.PROCESS_RESTARTED
    assert tagged(RUN_ID) == []


@needs_bubblewrap
def test_a_cancelled_run_leaves_no_process(place: Place) -> None:
    async def stop(runner: CommandRunner, spawned: Spawned) -> None:
        await asyncio.to_thread(until, (place.project / "begun").exists, what="the command to begin")
        runner.stop(spawned.identity)

    outcome, _ = place.run(shell("trap '' TERM; sleep 600 & echo > begun; wait", term_grace=timedelta()), stop)

    assert outcome.reason is Reason.SHUTDOWN
    assert tagged(RUN_ID) == []


@needs_bubblewrap
def test_a_run_outlives_its_scheduler_and_the_next_one_adopts_it(project: Project) -> None:
    text = "echo first; echo > begun; until [ -e go ]; do sleep 0.05; done; echo last"
    project.write(f"jobs: {{boxed: {{shell: '{text}', sandbox: bubblewrap}}}}\n")
    server = project.serve()
    project.rota("trigger", "boxed")
    until((project.folder / "begun").exists, what="the command to begin")
    kill(server)
    (project.folder / "go").touch()
    project.serve()
    project.until_told("boxed", [("COMPLETED", None)])
    assert project.rota("logs", "boxed").stdout.splitlines()[-2:] == ["first", "last"]


@needs_bubblewrap
def test_a_postcondition_is_enclosed_too(place: Place) -> None:
    check = Postcondition(shell="touch /etc/made")
    outcome, _ = place.run(shell("true", postcondition=check))

    assert outcome.reason is Reason.POSTCONDITION_FAILED
    assert not Path("/etc/made").exists()


def test_without_the_program_a_run_does_not_start(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(place.project))

    with pytest.raises(SpawnFailed, match="needs the program 'bwrap'"):
        prepare(shell("true"), facts(), place.surroundings())
    assert dict(sandbox_problems(shell("true")))["sandbox"].startswith("there is no program 'bwrap'")


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="no prlimit")
def test_a_memory_limit_bounds_a_process(place: Place) -> None:
    work = shell(f"{PYTHON} -c 'bytearray(900_000_000)'", None, limits=Limits(memory=300_000_000))
    outcome, output = place.run(work)

    assert outcome.status is Status.FAILED
    assert "MemoryError" in output or outcome.error == "exit 137"


RUNTIME = """#!/bin/sh
# A stand-in for docker: the container is a process of another session, as that of a service would be.
echo "$@" >> "$HOME/calls"
case "$1" in
  info) exit 0 ;;
  ps) cat "$HOME/left" 2>/dev/null; exit 0 ;;
  rm) kill -9 $(cat "$HOME/container") 2>/dev/null; exit 0 ;;
esac
while [ "$1" != an-image ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def runtime(place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = place.project.parent / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(RUNTIME)
    program.chmod(0o755)
    place.environ["PATH"] = f"{program.parent}:{place.environ['PATH']}"
    for name in ("PATH", "HOME"):
        monkeypatch.setenv(name, place.environ[name])
    return place.project.parent / "calls"


CONTAINER = Sandbox(image="an-image", network=False, limits=Limits(memory=1_000_000, cpus=1.5))


def test_a_container_has_its_folder_limits_and_name_and_is_removed(place: Place, runtime: Path) -> None:
    outcome, output = place.run(shell("pwd", CONTAINER))

    assert (outcome.status, output) == (Status.COMPLETED, f"{place.project}\n")
    start, end = runtime.read_text().splitlines()
    assert start.startswith(f"run --rm --init --name rota-{RUN_ID} --label rota.run={RUN_ID} ")
    assert f"--volume {place.project}:{place.project} " in start
    assert "--network none --memory 1000000 --cpus 1.5 " in start
    assert "--env ROTA_RUN_ID" in start
    assert "--env PATH" not in start
    assert RUN_ID not in start.split("--env", 1)[1]
    assert end == f"rm --force rota-{RUN_ID}"


def test_a_runtime_that_cannot_start_a_container_says_why(place: Place, runtime: Path) -> None:
    program = place.project.parent / "bin" / "docker"
    said = "docker: no daemon here.\n\nRun 'docker run --help' for more information"
    program.write_text(f"#!/bin/sh\ncat >&2 <<END\n{said}\nEND\nexit 125\n")
    outcome, _ = place.run(shell("pwd", CONTAINER))

    assert (outcome.reason, outcome.error) == (
        Reason.SPAWN_FAILED,
        "the container did not start: docker: no daemon here.",
    )


def test_a_container_is_removed_after_a_timeout(place: Place, runtime: Path) -> None:
    work = shell("sleep 600", CONTAINER, timeout=timedelta(seconds=0.5), term_grace=timedelta())
    outcome, _ = place.run(work)

    assert outcome.reason is Reason.TIMED_OUT
    assert runtime.read_text().splitlines()[-1] == f"rm --force rota-{RUN_ID}"


def test_a_container_whose_keeper_was_killed_is_removed_by_the_scheduler(place: Place, runtime: Path) -> None:
    async def kill_the_keeper(_runner: object, spawned: Spawned) -> None:
        await asyncio.to_thread(until, lambda: runtime.exists() and runtime.read_text(), what="the container's start")
        os.kill(spawned.identity.pid, 9)

    (runtime.parent / "left").write_text("4f00 4f01\n")
    outcome, _ = place.run(shell("sleep 600", CONTAINER), kill_the_keeper)

    assert outcome.reason is Reason.PROCESS_RESTARTED
    removed, searched, *rest = runtime.read_text().splitlines()[1:]
    assert removed == f"rm --force rota-{RUN_ID}"
    assert searched == f"ps --all --quiet --filter label=rota.run={RUN_ID}"
    assert rest == ["rm --force 4f00", "rm --force 4f01"]


def test_nothing_is_removed_without_a_container(place: Place, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.folder.mkdir(parents=True)
    remove_left_container(place.folder)
    (place.folder / CLEANUP).write_text("no JSON")
    remove_left_container(place.folder)
    assert not runtime.exists()

    (place.folder / CLEANUP).write_text(json.dumps(["docker", "rm", "--force", "x"]))
    remove_left_container(place.folder)
    assert runtime.read_text().splitlines()[0] == "rm --force x"
