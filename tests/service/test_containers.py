"""Runs in real containers: under podman or docker, where one of them works here, in an image that is made here."""

import asyncio
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from rota.model.spec import Limits, Postcondition, Sandbox, Work
from rota.model.states import Reason, Status
from rota.runners.command import CommandRunner
from rota.runners.output import read_all
from rota.runners.processes import tagged
from rota.runners.spawn_client import Spawned
from tests.service.serving import Project, kill
from tests.service.test_command_runner import RUN_ID
from tests.service.test_sandbox import Place, shell
from tests.waiting import LONGEST_WAIT, until

IMAGE = "rota-test:latest"
SETTINGS = ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "DOCKER_HOST", "XDG_RUNTIME_DIR")
"""Variables that the runtimes of a machine may need."""
TOOLS = ("sh", "cat", "echo", "id", "ls", "sleep", "touch", "pwd", "true")


def ask(*argv: str, data: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Run a command of a runtime."""
    return subprocess.run(argv, input=data, capture_output=True, timeout=LONGEST_WAIT, check=False)


def make_image(runtime: str) -> str:
    """Make an image of a static busybox; return why that is impossible, empty if it works."""
    busybox = shutil.which("busybox")
    if busybox is None:
        return "there is no busybox to make an image of"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(busybox, "bin/busybox")
        for name in TOOLS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    made = ask(runtime, "import", "-", IMAGE, data=packed.getvalue())
    tried = made if made.returncode else ask(runtime, "run", "--rm", "--init", "--network", "none", IMAGE, "true")
    said = tried.stderr.decode().strip().splitlines()
    return f"{runtime}: {said[-1] if said else 'it fails'}" if tried.returncode else ""


@pytest.fixture(scope="module")
def runtime() -> str:
    """Return a runtime that can run a container here."""
    reasons = []
    for name in ("podman", "docker"):
        wrong = make_image(name) if shutil.which(name) else f"no {name} is installed"
        if not wrong:
            return name
        reasons.append(wrong)
    pytest.skip("; ".join(reasons))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.environ |= {name: os.environ[name] for name in SETTINGS if name in os.environ}
    return made


def boxed(text: str, runtime: str, sandbox: Sandbox | None = None, **fields: object) -> Work:
    inside = sandbox or Sandbox(image=IMAGE, runtime=runtime, network=False)
    return shell(text, inside, env_pass=SETTINGS, **fields)


def containers(runtime: str, label: str = "rota.run") -> list[str]:
    """Return the containers of runs that are left."""
    return ask(runtime, "ps", "--all", "--quiet", "--filter", f"label={label}").stdout.decode().split()


def test_a_run_in_a_container_streams_writes_its_folder_and_leaves_nothing(place: Place, runtime: str) -> None:
    async def watch(_runner: object, _spawned: Spawned) -> None:
        await asyncio.to_thread(until, lambda: b"hidden" in read_all(place.folder), what="the output")
        (place.project / "go").touch()

    text = 'pwd; echo mine > made; cat .rota/token || echo hidden; printf \'{"summary": "done"}\' > "$ROTA_RESULT_FILE"'
    outcome, output = place.run(boxed(f"{text}; until [ -e go ]; do sleep 0.1; done", runtime), watch)

    assert (outcome.status, outcome.summary, outcome.error) == (Status.COMPLETED, "done", None)
    assert output.splitlines()[0] == str(place.project)
    assert output.splitlines()[-1] == "hidden"
    assert (place.project / "made").stat().st_uid == os.getuid()
    assert containers(runtime, f"rota.run={RUN_ID}") == []


def test_a_container_has_its_limits(place: Place, runtime: str) -> None:
    limits = Limits(memory=64_000_000, processes=20)
    inside = Sandbox(image=IMAGE, runtime=runtime, network=False, limits=limits)
    told = "cat /sys/fs/cgroup/memory.max || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"
    _, output = place.run(boxed(told, runtime, inside))

    assert 63_000_000 < int(output.splitlines()[-1]) <= 64_000_000


def test_a_timeout_ends_the_container(place: Place, runtime: str) -> None:
    work = boxed("sleep 600", runtime, timeout=timedelta(seconds=3), term_grace=timedelta())
    outcome, _ = place.run(work)

    assert outcome.reason is Reason.TIMED_OUT
    assert containers(runtime, f"rota.run={RUN_ID}") == []
    assert tagged(RUN_ID) == []


def test_a_cancel_gives_the_command_its_grace(place: Place, runtime: str) -> None:
    async def stop(runner: CommandRunner, spawned: Spawned) -> None:
        await asyncio.to_thread(until, (place.project / "begun").exists, what="the container to begin")
        runner.stop(spawned.identity)

    text = "trap 'echo > ended; exit 0' TERM; echo > begun; while :; do sleep 0.1; done"
    outcome, _ = place.run(boxed(text, runtime, term_grace=timedelta(minutes=2)), stop)

    assert outcome.reason is Reason.SHUTDOWN
    assert (place.project / "ended").exists()
    assert containers(runtime, f"rota.run={RUN_ID}") == []


def test_a_container_whose_keeper_was_killed_is_ended(place: Place, runtime: str) -> None:
    async def kill_the_keeper(_runner: object, spawned: Spawned) -> None:
        await asyncio.to_thread(until, (place.project / "begun").exists, what="the container to begin")
        os.kill(spawned.identity.pid, 9)

    outcome, _ = place.run(boxed("echo > begun; sleep 600", runtime), kill_the_keeper)

    assert outcome.reason is Reason.PROCESS_RESTARTED
    assert containers(runtime, f"rota.run={RUN_ID}") == []
    assert tagged(RUN_ID) == []


def test_a_postcondition_runs_in_a_container_too(place: Place, runtime: str) -> None:
    check = Postcondition(shell="[ -e made ] && [ ! -e /usr/share ]")
    outcome, _ = place.run(boxed("touch made", runtime, postcondition=check))

    assert (outcome.status, outcome.postcondition and outcome.postcondition.passed) == (Status.COMPLETED, True)


@pytest.fixture
def served(project: Project, runtime: str) -> Iterator[Project]:
    passed = ", ".join(name for name in SETTINGS if name in os.environ)
    text = "echo first; echo > begun; until [ -e go ]; do sleep 0.1; done; echo > ended"
    inside = f"{{container: {IMAGE}, runtime: {runtime}, network: off}}"
    project.write(f"jobs: {{boxed: {{shell: '{text}', sandbox: {inside}, env_pass: [{passed}]}}}}\n")
    yield project
    (project.folder / "go").touch()


def test_a_container_outlives_its_scheduler_and_the_next_one_adopts_it(served: Project, runtime: str) -> None:
    server = served.serve()
    served.rota("trigger", "boxed")
    until((served.folder / "begun").exists, what="the container to begin")
    kill(server)
    (served.folder / "go").touch()
    served.serve()
    served.until_told("boxed", [("COMPLETED", None)])
    assert served.rota("logs", "boxed").stdout.splitlines()[-1] == "first"
    assert (served.folder / "ended").exists()
    run_id = served.history("boxed")[0]["id"]
    assert containers(runtime, f"rota.run={run_id}") == []


def test_a_container_whose_scheduler_and_keeper_were_killed_is_found_by_its_label(
    served: Project, runtime: str
) -> None:
    server = served.serve()
    served.rota("trigger", "boxed")
    until((served.folder / "begun").exists, what="the container to begin")
    run_id = served.history("boxed")[0]["id"]
    assert len(containers(runtime, f"rota.run={run_id}")) == 1
    keeper = served.json("show", "boxed:1")["execution"]["pid"]
    kill(server)
    os.kill(keeper, 9)
    served.serve()
    until(lambda: served.told("boxed")[0][0] == "FAILED", what="the run to be recovered")
    assert containers(runtime, f"rota.run={run_id}") == []
    assert tagged(run_id) == []
