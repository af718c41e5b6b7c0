"""Cancel, shutdown and the scheduler's death leave no process of a tree (R-28); test-faults runs all twelve shapes."""

import sys
from pathlib import Path

import pytest

from tests.faults.trees import ENDINGS, fell

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="macOS has no subreaper; its weaker sweep is documented"
)

SOME = ("ignores TERM", "stops itself", "double fork and setsid", "drops its tag")


@pytest.mark.parametrize("ending", ENDINGS)
def test_r28_nothing_of_a_tree_is_left(ending: str, tmp_path: Path) -> None:
    assert fell(ending, SOME, tmp_path) == []
