"""A guest whose store is PostgreSQL: one address instead of a path, everything else as with SQLite."""

from pathlib import Path

import pytest

import rota
from rota.model.errors import DatabaseGone
from rota.model.states import Status
from tests.library.conftest import LONG
from tests.postgres import lay_postgres


def test_a_guest_works_on_an_address(tmp_path: Path) -> None:
    scheduler = rota.Scheduler(lay_postgres("guest"), folder=tmp_path, stop_timeout=LONG)
    scheduler.add_job("work", run=lambda context: f"got {context.params['n']}", params={"n": 1})
    scheduler.start()
    try:
        result = scheduler.sync.trigger("work", params={"n": 5})
        assert result.run_id is not None
        run = scheduler.sync.wait(result.run_id, timeout=LONG)
        assert (run.status, run.result_summary) == (Status.COMPLETED, "got 5")
    finally:
        scheduler.stop()
    assert not (tmp_path / ".rota" / "rota.db").exists()
    assert [one.result_summary for one in scheduler.history("work")] == ["got 5"]


def test_a_guest_without_its_database_says_so(tmp_path: Path) -> None:
    scheduler = rota.Scheduler("postgresql://rota:geheim@127.0.0.1:1/rota", folder=tmp_path)
    with pytest.raises(DatabaseGone) as refused:
        scheduler.start()
    assert "geheim" not in str(refused.value)
