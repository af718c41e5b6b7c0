"""The example for containers: its file passes the check, and it is put together as docs/containers.md says."""

import re
from pathlib import Path
from typing import Any

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


def test_the_scheduler_is_process_1_of_a_short_image_name() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)$", text, re.MULTILINE) == ["python:3.12-slim"]
    assert re.findall(r"^CMD (.*)$", text, re.MULTILINE) == ['["rota", "serve"]']
    assert "ENTRYPOINT" not in text


def test_the_files_that_compose_names_are_there() -> None:
    build = service()["build"]
    context = Path(FOLDER / build["context"]).resolve()
    assert (context / "pyproject.toml").is_file()
    assert (context / build["dockerfile"]).is_file()
