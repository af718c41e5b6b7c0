"""What is built is whole: the wheel installs into an empty environment, and its `rota demo` serves and cleans up."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Mapping
from http.cookiejar import CookieJar
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from tests.waiting import LONGEST_WAIT, until

ROOT = Path(__file__).parents[2]
BUILD = "import sys, uv_build; print(getattr(uv_build, f'build_{sys.argv[1]}')(sys.argv[2]))"


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build a wheel or an sdist with the backend of pyproject.toml, as every front end does."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-c", BUILD, kind, str(folder)]
    ran = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=True)
    return folder / ran.stdout.split()[-1]


def members(wheel: Path) -> set[str]:
    listed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[0] for line in listed.splitlines()[1:]}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the unpacked sdist, so both are used."""
    folder = tmp_path_factory.mktemp("built")
    sdist = build("sdist", ROOT, folder)
    subprocess.run(["tar", "-xzf", str(sdist), "-C", str(folder)], check=True)
    return build("wheel", folder / sdist.name.removesuffix(".tar.gz"), folder)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel alone; its requirements are those of this environment, without its rota."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [str(ROOT / ".uv" / "bin" / "python"), "-m", "pip", "--python", str(python)]
    options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *options, str(wheel)], check=True, stdin=subprocess.DEVNULL)
    (place,) = folder.glob("lib/python*/site-packages")
    (place / "requirements.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def test_the_sdist_and_the_wheel_hold_every_file_of_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in (source / "rota").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files - members(wheel) == set()
    assert {name for name in members(wheel) if name.startswith("rota/") and not name.endswith("/")} == files


def test_pip_compiles_every_module_at_install(installed: Path) -> None:
    (package,) = installed.glob("lib/python*/site-packages/rota")
    modules = list(package.rglob("*.py"))
    assert len(modules) > 200
    assert [str(path) for path in modules if not Path(cache_from_source(path)).is_file()] == []


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Nothing of the repository: another home, another folder for temporary files."""
    (tmp_path / "temporary").mkdir()
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "temporary"), "TZ": "UTC"}


def test_the_demo_of_an_installed_wheel_serves_and_leaves_nothing(
    installed: Path, environment: Mapping[str, str], tmp_path: Path
) -> None:
    printed = tmp_path / "printed"
    with printed.open("wb") as out:
        demo = subprocess.Popen(
            [str(installed / "bin" / "rota"), "demo", "--json"],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.DEVNULL,
        )
    try:

        def events() -> list[dict[str, object]]:
            return [json.loads(line) for line in printed.read_text().splitlines() if line.endswith("}")]

        def ended(job: str) -> list[dict[str, object]]:
            return [event for event in events() if event["event"] == "finished" and event["job"] == job]

        login = until(lambda: [e["url"] for e in events() if e["event"] == "login"], what=printed.read_text)
        browser = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )
        with browser.open(str(login[0])) as page:
            assert "static" in page.read().decode()
        jobs = ("check-shop", "count-stock", "review-orders", "ship-parcels")
        until(lambda: demo.poll() is not None or all(map(ended, jobs)), what=printed.read_text)
        statuses = {job: ended(job)[0]["status"] for job in jobs}
        assert statuses == {**dict.fromkeys(jobs, "COMPLETED"), "ship-parcels": "SKIPPED"}
        assert list((tmp_path / "temporary").glob("rota-demo-*/.rota"))
    finally:
        demo.send_signal(signal.SIGTERM)
        code = demo.wait(LONGEST_WAIT)
    assert code == 0
    assert list((tmp_path / "temporary").iterdir()) == []
