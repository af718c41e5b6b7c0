"""Several real schedulers on one real PostgreSQL, each in a folder of its own, as on machines of their own."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from tests.service.serving import Process, Project, gone
from tests.waiting import until


class Machine(Project):
    """A folder that shares its database with others."""

    def __init__(self, folder: Path, store: str, text: str) -> None:
        folder.mkdir()
        super().__init__(folder)
        self.store = store
        self.write(text)

    def environment(self) -> dict[str, str]:
        """Return the environment of commands and schedulers."""
        return {**super().environment(), "ROTA_STORE": self.store}

    def work(self, *flags: str) -> Process:
        """Start a worker and wait until it has begun its rounds."""
        server = self.start("worker", *flags, log=self.folder / f"serve.{len(self.servers)}.log")
        self.servers.append(server)
        until(lambda: self._answers(server), what="the worker to work")
        return server

    def workers(self) -> Mapping[str, dict[str, Any]]:
        """Return all workers by name."""
        return {one["name"]: one for one in self.json("workers")}

    def running_on(self, job: str) -> str | None:
        """Return which worker carries the newest run of a job, None while nobody does."""
        newest = self.json("show", self.history(job)[-1]["run"])
        if newest["status"] != "RUNNING" or newest["started_at"] is None:
            return None
        name: str | None = newest["worker"]
        return name

    def processes(self) -> list[int]:
        """Return the keepers and commands that carry the tag of a run of this folder."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                told = process.environ().get("ROTA_RESULT_FILE", "")
                if told.startswith(f"{self.state}/") and not gone(process.pid):
                    found.append(process.pid)
        return found

    def clean(self) -> str:
        """Return what `rota verify` finds wrong: nothing."""
        return str(self.json("verify")["violations"])
