"""The table of what each adapter supports."""

import runpy

from tests.docs.pages import ROOT


def test_the_table_is_that_of_the_adapters() -> None:
    """`python tools/adapters.py --write` writes it."""
    tool = runpy.run_path(str(ROOT / "tools" / "adapters.py"))
    assert tool["PAGE"].read_text("utf-8") == tool["page"]()
