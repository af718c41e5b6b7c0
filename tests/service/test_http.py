"""A real scheduler with its HTTP side: found, asked, followed, stopped, killed."""

import json
import os
import resource
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest

from rota.operations.admin.access import read_token
from tests.service.serving import Project, ended, kill
from tests.waiting import LONGEST_WAIT, until

FILE = """
http: {listen: "127.0.0.1:0"}
jobs:
  quick: {command: [echo, hello], overlap: allow}
  slow: {command: [sleep, "300"], term_grace: 1s}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A scheduler for all tests that do not end it."""
    made = Project(tmp_path_factory.mktemp("served"))
    made.write(FILE)
    made.serve(http=True)
    yield made
    made.end()


@pytest.fixture
def mortal(project: Project) -> Project:
    """A scheduler for one test."""
    project.write(FILE)
    project.serve(http=True)
    return project


@contextmanager
def client(project: Project) -> Iterator[httpx2.Client]:
    """Yield a client with the project's token, once the server answers."""
    url = json.loads((project.state / "http.json").read_text())["url"]
    headers = {"Authorization": f"Bearer {read_token(project.state)}"}
    with httpx2.Client(base_url=url, headers=headers, timeout=LONGEST_WAIT, trust_env=False) as made:
        until(lambda: answers(made), what="HTTP to answer")
        yield made


def answers(made: httpx2.Client) -> bool:
    try:
        return made.get("/healthz").status_code == 200
    except httpx2.HTTPError:
        return False


def test_a_run_is_started_watched_and_read(served: Project) -> None:
    with client(served) as http:
        run = http.post("/api/v1/jobs/quick/trigger").json()
        text = http.get(f"/api/v1/runs/{run['id']}/output", params={"follow": "true"}).text
        assert text == "hello\n"
        assert http.get(f"/api/v1/runs/{run['id']}").json()["status"] == "COMPLETED"
        assert served.json("show", "quick:1")["id"] == run["id"]
        assert http.get("/api/v1/scheduler/poll").json()["state"] == "running"


def test_a_direct_call_waits_for_its_end(served: Project) -> None:
    """R-13, DEC-004."""
    with client(served) as http:
        told = http.post("/api/v1/direct", json={"job": "quick"}).json()
    assert (told["status"], told["exit_code"], told["direct"]) == ("COMPLETED", 0, True)


def test_a_client_that_goes_away_gives_its_direct_call_up(served: Project) -> None:
    """R-13: the place is released, and what runs is stopped."""
    with client(served) as http:
        with pytest.raises(httpx2.ReadTimeout):
            http.post("/api/v1/direct", json={"job": "slow"}, timeout=3)
        until(lambda: http.get("/api/v1/direct").json() == {"waiting": [], "running": []}, what="the call to end")


def test_events_are_followed_while_runs_go_by(served: Project) -> None:
    seen: list[str] = []
    following = threading.Event()

    def follow(http: httpx2.Client) -> None:
        with http.stream("GET", "/api/v1/events") as stream:
            for line in stream.iter_lines():
                following.set()
                if line.startswith("event: "):
                    seen.append(line.removeprefix("event: "))
                if "run.finished" in seen:
                    return

    with client(served) as http:
        thread = threading.Thread(target=follow, args=(http,))
        thread.start()
        assert following.wait(LONGEST_WAIT)
        served.rota("trigger", "quick")
        thread.join(LONGEST_WAIT)
    assert seen[-1] == "run.finished"


def test_a_browser_is_opened_by_a_code(served: Project) -> None:
    with client(served):
        url = served.json("open")["url"]
    with httpx2.Client(trust_env=False, follow_redirects=True) as browser:
        assert "owner, admin" in browser.get(url).text
        assert browser.get(url).status_code == 401


def test_a_new_token_is_used_at_once(mortal: Project) -> None:
    with client(mortal) as http:
        fresh = mortal.rota("token", "--renew").stdout.strip()
        assert http.get("/api/v1/jobs").status_code == 401
        assert http.get("/api/v1/jobs", headers={"Authorization": f"Bearer {fresh}"}).status_code == 200


def test_the_scheduler_is_stopped_through_its_api(mortal: Project) -> None:
    with client(mortal) as http:
        assert http.post("/api/v1/scheduler/stop", json={"mode": "now"}).status_code == 202
    assert ended(mortal.servers[-1]) == 0
    assert not (mortal.state / "http.json").exists()
    assert [one["action"] for one in mortal.json("audit")] == ["stop_scheduler", "apply"]


def test_a_stop_does_not_wait_for_those_who_follow(mortal: Project) -> None:
    with client(mortal) as http, http.stream("GET", "/api/v1/events") as stream:
        next(stream.iter_lines())
        mortal.servers[-1].send_signal(signal.SIGTERM)
        assert ended(mortal.servers[-1]) == 0


def test_what_was_acknowledged_survives_a_kill(mortal: Project) -> None:
    """G-01, G-02: an answer means that it is stored; a repeat after the crash makes no second run."""
    key = {"Idempotency-Key": "once"}
    with client(mortal) as http:
        first = http.post("/api/v1/jobs/slow/trigger", headers=key).json()
    kill(mortal.servers[-1])
    mortal.serve(http=True)
    with client(mortal) as http:
        again = http.post("/api/v1/jobs/slow/trigger", headers=key)
        assert (again.json()["id"], again.headers["idempotency-replayed"]) == (first["id"], "true")
        assert len(http.get("/api/v1/runs", params={"job": "slow"}).json()["items"]) == 1
        http.post(f"/api/v1/runs/{first['id']}/cancel")


@pytest.mark.parametrize(
    ("flags", "code", "told"),
    [
        (["--listen", "0.0.0.0:0"], 78, "without encryption"),
        (["--listen", "192.0.2.1:0", "--behind-proxy"], 69, "cannot listen on"),
        (["--listen", "127.0.0.1:0", "--tls-cert", "nowhere.pem"], 69, "cannot be used"),
        (["--no-http", "--behind-proxy"], 2, "cannot be combined"),
        (["--listen", "nonsense:x"], 2, "--listen"),
    ],
)
def test_what_would_be_unsafe_or_cannot_be_does_not_start(
    project: Project, flags: list[str], code: int, told: str
) -> None:
    """T-01, #76, #77."""
    project.write(FILE)
    refused = project.rota("serve", *flags, check=False)
    assert refused.returncode == code, refused.stderr
    assert told in refused.stderr


def test_an_address_beyond_this_machine_in_the_file_alone_does_not_start(project: Project) -> None:
    project.write(FILE.replace("127.0.0.1:0", "0.0.0.0:0"))
    refused = project.rota("serve", check=False)
    assert (refused.returncode, "--listen" in refused.stderr) == (78, True)


def test_an_empty_token_does_not_start(project: Project) -> None:
    """cc-connect #1489."""
    project.write(FILE)
    project.rota("apply")
    descriptor = os.open(project.state / "token", os.O_CREAT | os.O_WRONLY, 0o600)
    os.close(descriptor)
    refused = project.rota("serve", check=False)
    assert (refused.returncode, "is empty" in refused.stderr) == (78, True)


def raw(project: Project, *parts: bytes) -> bytes:
    """Send bytes as they are; return the first line of the answer, empty where the connection is closed."""
    url = httpx2.URL(json.loads((project.state / "http.json").read_text())["url"])
    with socket.create_connection((url.host, url.port or 0), timeout=LONGEST_WAIT) as connection:
        for part in parts:
            connection.sendall(part)
        return connection.recv(4096).partition(b"\r\n")[0]


def test_odd_requests_are_refused_and_the_server_stays_up(served: Project) -> None:
    """#36, #71, #72."""
    with client(served) as http:
        host = b"Host: 127.0.0.1\r\n"
        token = f"Authorization: Bearer {read_token(served.state)}\r\n".encode()
        assert b" 400" in raw(served, b"nonsense\r\n\r\n")
        assert b" 4" in raw(served, b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n")
        assert b" 421" in raw(served, b"GET /healthz HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        assert b" 400" in raw(served, b"GET /healthz HTTP/1.1\r\n" + host + host + b"\r\n")
        head = b"POST /api/v1/jobs HTTP/1.1\r\n" + host + token + b"Content-Type: application/json\r\n"
        assert b" 413" in raw(served, head + b"Content-Length: 99999999\r\n\r\n")
        chunks = b"f4240\r\n" + b" " * 1_000_000 + b"\r\n"
        assert b" 413" in raw(served, head + b"Transfer-Encoding: chunked\r\n\r\n", chunks, chunks)
        assert answers(http)


@pytest.mark.parametrize(
    "head",
    [
        b"POST /api/v1/jobs/quick/trigger HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"POST /api/v1/jobs/quick/trigger HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
    ],
)
def test_a_request_of_two_lengths_is_refused_and_its_connection_closed(served: Project, head: bytes) -> None:
    """A proxy that goes by the other length takes what follows for the request of somebody else."""
    with client(served) as http:
        token = f"Authorization: Bearer {read_token(served.state)}\r\n".encode()
        hidden = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        sent = head + b"Host: 127.0.0.1\r\nConnection: keep-alive\r\n" + token + b"\r\n0\r\n\r\n" + hidden
        port = httpx2.URL(http.base_url).port
        with socket.create_connection(("127.0.0.1", port or 0), timeout=LONGEST_WAIT) as connection:
            connection.sendall(sent)
            told = b"".join(iter(lambda: connection.recv(4096), b""))
    assert told.startswith(b"HTTP/1.1 400 ")
    assert told.count(b"HTTP/1.1 ") == 1


@contextmanager
def open_files(count: int) -> Iterator[None]:
    """Let this process and those it starts open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_everything_answers_and_runs_with_1500_descriptors_open(project: Project) -> None:
    """select() refuses descriptors from 1,024 on."""
    project.write(FILE)
    with open_files(4096), ExitStack() as held:
        server = project.serve(http=True)
        with client(project) as http:
            port = httpx2.URL(http.base_url).port
            for _ in range(1500):
                held.enter_context(socket.create_connection(("127.0.0.1", port or 0), timeout=LONGEST_WAIT))
            assert http.get("/healthz").status_code == 200
            assert len(os.listdir(f"/proc/{server.pid}/fd")) > 1500
            for path in ("/api/v1/scheduler/status", "/", "/jobs/quick"):
                assert http.get(path).status_code == 200, path
            assert http.post("/api/v1/direct", json={"job": "quick"}).json()["status"] == "COMPLETED"
            assert http.get("/healthz").status_code == 200


def test_clients_that_read_nothing_of_a_large_output_cost_little_memory(project: Project) -> None:
    project.write(FILE + "  large: {shell: \"head -c 9000000 /dev/zero | tr '\\\\0' x\"}\n")
    server = project.serve(http=True)
    with client(project) as http, ExitStack() as held:
        path = f"/api/v1/runs/{http.post('/api/v1/jobs/large/trigger').json()['id']}/output"
        whole = "x" * 9_000_000
        assert http.get(path, params={"follow": "true"}).text == whole
        assert http.get(path).text == whole
        before = psutil.Process(server.pid).memory_info().rss
        token = read_token(project.state)
        asked = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        port = httpx2.URL(http.base_url).port
        for _ in range(60):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", port or 0), timeout=LONGEST_WAIT))
            connection.sendall(asked)
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert http.get(path, headers={"Range": "bytes=8999990-"}).text == "x" * 10
        assert http.get(path, params={"tail": 1}).text == whole
        assert psutil.Process(server.pid).memory_info().rss - before < 40_000_000


def test_the_state_folder_and_status_tell_where_it_listens(served: Project) -> None:
    note = Path(served.state / "http.json")
    assert note.stat().st_mode & 0o777 == 0o600
    assert (served.state / "token").stat().st_mode & 0o777 == 0o600
    assert "API at http://127.0.0.1:" in served.log()
