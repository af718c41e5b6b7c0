"""What can be installed with rota: each extra is documented, and `all` is all of them."""

import tomllib
from pathlib import Path

from tests.docs.pages import page

ROOT = Path(__file__).parents[2]
OURS = {"dev", "bench"}
"""For who works on rota itself."""


def test_all_is_every_extra_and_each_is_documented() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = sorted(set(extras) - OURS - {"all"})
    assert extras["all"] == [f"rota[{','.join(named)}]"]
    told = page("notify.md") + page("postgresql.md") + page("telemetry.md", "configuration-people.md")
    assert [name for name in (*named, "all") if f"`rota[{name}]`" not in told] == []
