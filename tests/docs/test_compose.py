"""The example for containers: its file passes the check, and it is put together as docs/containers.md says."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from rota.declare.project import read_project
from rota.declare.yaml import parse
from rota.model.clock import parse_duration
from tests.docs.pages import ROOT, page

FOLDER = ROOT / "examples" / "compose"


def service() -> Any:
    return parse((FOLDER / "compose.yaml").read_bytes()).data["services"]["rota"]


def test_the_project_passes_the_check() -> None:
    assert [job.name for job in read_project(FOLDER / "project", environment={}).jobs] == ["hello", "nightly"]


def test_the_file_is_read_only_and_the_state_a_volume() -> None:
    compose = parse((FOLDER / "compose.yaml").read_bytes()).data
    assert service()["volumes"] == ["./project:/project:ro", "state:/state"]
    assert set(compose["volumes"]) == {"state"}
    assert (service()["environment"]["ROTA_DIR"], service()["environment"]["ROTA_STATE"]) == ("/project", "/state")


def test_the_health_check_is_rota_status() -> None:
    assert service()["healthcheck"]["test"] == ["CMD", "rota", "status"]
    assert "`rota status`" in page("containers.md")


def test_the_container_gets_longer_than_the_grace() -> None:
    declared = read_project(FOLDER / "project", environment={})
    assert parse_duration(service()["stop_grace_period"]) > declared.settings.scheduler.shutdown_grace


CONTAINERFILE = (ROOT / "Containerfile").read_text()


def steps(word: str) -> list[str]:
    """Return the arguments of an instruction."""
    return re.findall(rf"^{word} (.*)$", CONTAINERFILE, re.MULTILINE)


def test_the_scheduler_is_process_1_of_a_short_image_name() -> None:
    assert steps("FROM") == ["python:3.13-slim AS build", "python:3.13-slim"]
    assert steps("CMD") == ['["rota", "serve"]']
    assert "ENTRYPOINT" not in CONTAINERFILE


def test_the_image_has_no_root_one_volume_and_a_health_check() -> None:
    assert steps("USER") == ["rota"]
    assert steps("VOLUME") == ["/state"]
    (check,) = steps("HEALTHCHECK")
    assert check.endswith('CMD ["rota", "status"]')
    assert CONTAINERFILE.index("USER") > CONTAINERFILE.index("useradd")


def test_every_instruction_is_known_and_bytecode_is_written() -> None:
    lines = [line for line in CONTAINERFILE.splitlines() if line and not line.startswith("#")]
    words = {line.split()[0] for line in lines}
    assert words <= {"FROM", "COPY", "RUN", "ENV", "USER", "VOLUME", "HEALTHCHECK", "CMD"}
    assert "PYTHONDONTWRITEBYTECODE" not in CONTAINERFILE + (FOLDER / "compose.yaml").read_text()
    copied = [name for line in steps("COPY") if not line.startswith("--from") for name in line.split()[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    kept = (ROOT / ".containerignore").read_text()
    assert kept == (ROOT / ".dockerignore").read_text()
    assert [name for name in copied if f"!{name}\n" not in kept] == []


def test_the_templates_are_compiled_as_the_image_does_it() -> None:
    (code,) = re.findall(r'python -c "(.*)"$', CONTAINERFILE, re.MULTILINE)
    subprocess.run([sys.executable, "-c", code], check=True)


def test_two_workers_share_a_postgresql() -> None:
    text = (FOLDER / "compose.postgres.yaml").read_text()
    loaded = YAML(typ="safe").load(text)
    services = loaded["services"]
    assert sorted(services) == ["db", "rota", "worker-1", "worker-2"]
    ours = [body for name, body in services.items() if name != "db"]
    states = [volume for body in ours for volume in body["volumes"] if volume.endswith(":/state")]
    assert len(set(states)) == 3
    assert {state.partition(":")[0] for state in states} | {"database"} == set(loaded["volumes"])
    for body in ours:
        assert body["environment"]["ROTA_STORE"] == "postgresql://rota:$${secret:DB_PASSWORD}@db:5432/rota"
        assert body["healthcheck"]["test"] == ["CMD", "rota", "status"]
    assert services["worker-1"]["command"] == ["rota", "worker", "--name", "worker-1"]


def test_the_files_that_compose_names_are_there() -> None:
    build = service()["build"]
    context = Path(FOLDER / build["context"]).resolve()
    assert (context / "pyproject.toml").is_file()
    assert (context / build["dockerfile"]).is_file()
