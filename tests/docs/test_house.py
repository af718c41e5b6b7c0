"""The layout of the package stays within its limits, and the architecture page shows it as it is (`tools/house.py`)."""

import importlib.util
import os
import subprocess
import sys
from types import ModuleType

from tests.docs.pages import ROOT, page

ON_THE_WAY = 66
"""60, and two more where the run takes longer than a second: then the tick looks for cancellations meanwhile."""


def load_tool() -> ModuleType:
    """Import `tools/house.py`, which is no package."""
    spec = importlib.util.spec_from_file_location("house", ROOT / "tools" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module
    spec.loader.exec_module(module)
    return module


house = load_tool()


def test_each_figure_of_the_house_is_within_its_limit() -> None:
    broken = [one for one in house.measure() if not one.kept]
    assert [f"{one.name}: {one.value} of {one.limit}: {' '.join(one.members)}" for one in broken] == []


def test_a_cycle_is_found_through_imports_inside_functions(tmp_path) -> None:
    package = tmp_path / "rota"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("from rota import two\n")
    (package / "two.py").write_text("def late():\n    from rota.one import two\n")
    graph = house.import_graph(house.read_modules(package))
    assert house.find_cycles(graph) == [["rota.one", "rota.two"]]


def test_the_architecture_page_shows_the_packages_as_they_import_each_other() -> None:
    assert house.picture() in page("internals/architecture.md")


def test_one_command_run_passes_through_a_bounded_number_of_modules(tmp_path) -> None:
    """From the fire to the stored delivery of a quiet tick, idle loops included."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    printed = subprocess.run(
        [sys.executable, ROOT / "tools" / "trace_run.py"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert "engine/transactions/finish.py" in printed
    assert int(printed.splitlines()[-1].split()[0]) <= ON_THE_WAY
