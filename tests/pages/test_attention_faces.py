"""One list of what needs attention: every kind of item, the same in every face."""

import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rota.cli.commands.status import MAX_NAMES
from rota.engine.membership.control import NAME, installed_version
from rota.engine.transactions.attention import look
from rota.engine.transactions.claim import ClaimOwner, claim
from rota.engine.transactions.insert import create_run
from rota.engine.transactions.pause import pause_everything
from rota.model.agents import AgentProblem, ProviderHold
from rota.model.attention import ItemKind
from rota.model.clock import iso, to_ms
from rota.model.ids import new_id
from rota.model.notifications import Channel, Event, Target
from rota.model.questions import Subject
from rota.model.records import Outcome, ProcessIdentity
from rota.model.states import Reason, Status, Trigger
from rota.operations.status.heartbeat import heartbeat
from rota.operations.status.status import needs_of
from rota.rules.liveness import LEASE
from rota.rules.liveness import REASON as CRASH_LOOP
from rota.store.driver import Database
from rota.store.migrate import MOVED_TO
from rota.store.tables import jobs, notifications, processes, questions, queue
from rota.store.tables.questions import NewQuestion
from rota.store.tables.runs import NewRun
from tests.api.conftest import opened
from tests.docs.pages import DOCS
from tests.faces.conftest import Project
from tests.faces.test_budgets import run as spend
from tests.faces.test_left_behind import alive
from tests.pages.conftest import Site
from tests.postgres import lay_postgres
from tests.scene import tamper_file

FILE = """
defaults: {retry: false}
budgets: {day: {runs: 1, per: day, policy: warn}}
jobs:
  failing: {command: "true"}
  denied: {prompt: look, agent: claude}
  stuck: {command: "true", timeout: 1m}
  missed: {command: "true"}
  skipped: {command: "true"}
  asking: {command: "true"}
  proposed: {command: "true"}
  spender: {command: "true", budget: day}
"""
OF_MACHINES = {ItemKind.WORKERS, ItemKind.DRAINED, ItemKind.WORKER, ItemKind.CLOCK}
"""The kinds of a database that several machines share."""
WORKING = {"file_problem": "rota.yaml:3:5: unknown key", "storage_problem": "disk full", "failing": None, "loops": []}
BROKEN = {
    "file_problem": None,
    "failing": {"stage": "claim", "code": "state", "error": "database is locked"},
    "loops": [{"name": "fire", "error": "no", "last_at": None, "rounds": 1, "failures": 3}],
}
DAMAGED = {"damage": "row 7 is missing from index live_ready", "loops": []}


@contextmanager
def scheduler(site: Site, answer: Mapping[str, Any]) -> Iterator[None]:
    """Answer as a scheduler of this folder would."""
    now = iso(site.clock.now())
    usual = {"pid": 1, "kind": "serve", "enabled": True, "concurrency": 4, "slots_taken": 0, "started_at": now}
    reply = json.dumps({**usual, "stopping": None, **answer}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(str(site.project.state / NAME))
        door.settimeout(0.05)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                try:
                    message, sender = door.recvfrom(65536)
                except TimeoutError:
                    continue
                if sender and b"ask" in message:
                    door.sendto(reply, sender)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
    (site.project.state / NAME).unlink()


def skip(db: Database, name: str, reason: Reason, *, site: Site) -> None:
    job = jobs.job_by_name(db, name)
    assert job is not None
    now = site.clock.now()
    create_run(db, NewRun(new_id(now), job, Trigger.SCHEDULE, now, scheduled_for=now, reason=reason))


def fill(site: Site) -> None:
    """Make an item of each kind that is stored."""
    project, store = site.project.applied(FILE), site.store
    spend(project, "spender")
    for name in ("failing", "denied"):
        project.ok("trigger", name)
    project.carry_out(
        [
            Outcome(Status.FAILED, Reason.EXIT_CODE, exit_code=3, error="exit 3"),
            Outcome(Status.COMPLETED, denied_tools=("Bash",), exit_code=0),
        ]
    )
    project.ok("trigger", "stuck")
    project.begin()
    site.clock.advance(timedelta(minutes=30))
    now = site.clock.now()
    store.write(partial(skip, name="missed", reason=Reason.MISSED, site=site))
    store.write(partial(skip, name="skipped", reason=Reason.EXPIRED, site=site))
    hold = ProviderHold("acme", now + timedelta(hours=1), False, 1, "used up", None, now, AgentProblem.QUOTA, now)
    store.write(partial(queue.put_hold, hold=hold))
    asking = store.read(partial(jobs.job_by_name, name="asking"))
    assert asking is not None
    asked = NewQuestion(Subject.JOB, asking.id, "Which branch?", "d", "asking:1", now, run_id=new_id(now))
    store.write(partial(questions.insert, new=asked))
    store.write(lambda db: db.execute("meta_set", key=MOVED_TO, value="postgresql://db/rota"))
    store.write(partial(pause_everything, until=None, reason=CRASH_LOOP, now=now))
    at = to_ms(now)
    source = json.dumps({"kind": "github", "place": "me/api"})
    tamper_file(
        project.state / "rota.db",
        f"UPDATE job SET provisional_at = {at} WHERE name = 'proposed'",
        f"INSERT INTO delivery (id, subject, payload, handle, event, target, endpoint, status, created_at, finished_at)"
        f" VALUES ('m', 's', '{{}}', '', 'attention', 'ops', 'e', 'FAILED', {at}, {at})",
        "INSERT INTO worktree (path, run_id, handle, repository, branch, base, made_at, kept_at, kept_why)"
        " VALUES ('/w', 'r', 'failing:1', '/r', 'b', 'c', 1, 1, 'it has commits')",
        "INSERT INTO abandoned (run_id, lane_id, slot, epoch)"
        " SELECT run.id, 1, 9, 1 FROM run JOIN job ON job.seq = run.job WHERE job.name = 'denied'",
        "INSERT INTO work_item (claim, run_id, handle, source, source_key, asked_at, state, ended_at, attempts,"
        " told_at)"
        f" VALUES ('c', 'r', 'failing:1', '{source}', 'k', {at}, 'given_up', {at}, 20, {at})",
    )


def topics_of_metrics(text: str) -> set[str]:
    lines = re.findall(r"^rota_attention\{(.*)\} 1\.0$", text, flags=re.MULTILINE)
    found = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in lines]
    return {f"{one['kind']}:{one['name']}" for one in found if one["acknowledged"] == "false"}


def topics_of_page(site: Site) -> list[str]:
    inputs = site.get("/").all("input", name="topic")
    return [one["value"] for one in inputs]


def faces(site: Site) -> set[str]:
    """Return the topics of `rota ack`, after all other faces showed the same."""
    items = site.project.json("ack")
    listed = [one["topic"] for one in items]
    status = site.project.json("status")
    assert [f"{one['kind']}:{one['name']}" for one in status["attention"]] == listed
    words = site.project.rota("status").output
    assert site.project.rota().output == words
    assert [one["name"] for one in items[:MAX_NAMES] if one["name"] not in words] == []
    assert site.project.rota("status", "--strict").exit_code == 1
    assert site.api.get("/attention")["items"] == items
    assert [f"{one['kind']}:{one['name']}" for one in site.api.get("/scheduler/status")["attention"]] == listed
    assert topics_of_page(site) == listed[:12]
    assert topics_of_metrics(site.api.call("GET", "/api/v1/metrics").text) == set(listed)
    assert [one["topic"] for one in site.api.get("/digest")["attention"]] == listed[:20]
    target = Target("me", Channel.TELEGRAM, on=(Event.ATTENTION,), address="1", address_secret="T")
    site.store.write(partial(notifications.declare_targets, declared={"me": target}, now=site.clock.now()))
    beat = heartbeat(site.project.state)
    needs = needs_of(site.store, beat=beat, zone="UTC", now=site.clock.now())
    changes = site.store.read(
        lambda db: look(
            db, lambda _db, _now: [one.attention for one in needs], together=timedelta(), now=site.clock.now()
        )
    )
    assert {one.topic for one in changes.new} == set(listed)
    return set(listed)


def test_every_kind_of_item_is_the_same_in_every_face(site: Site) -> None:
    fill(site)
    found = set()
    with alive(site.project, kind="serve", version="0.0.9"):
        for answer in (WORKING, BROKEN, DAMAGED):
            with scheduler(site, answer):
                found |= faces(site)
    kinds = {ItemKind(topic.partition(":")[0]) for topic in found}
    assert set(ItemKind) - kinds == OF_MACHINES


class Machines:
    """The machines of a database that they share."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def enter(self, name: str, *, kind: str = "worker") -> ClaimOwner:
        """Let a machine begin, with a lease."""
        return self.site.store.write(partial(self._enter, name=name, kind=kind))

    def _enter(self, db: Database, *, name: str, kind: str) -> ClaimOwner:
        now, me = self.site.clock.now(), ProcessIdentity(f"boot of {name}", 1, 1)
        worker = processes.Worker(new_id(now), name, {}, name, "/srv/rota")
        processes.insert_worker(db, worker, now=now)
        version = installed_version() or ""
        epoch = processes.open_process(
            db, worker_id=worker.id, kind=kind, identity=me, lock=new_id(now), version=version, now=now
        )
        processes.renew_lease(db, epoch, lease=LEASE)
        return ClaimOwner(worker.id, epoch, me, leased=True)

    def vanish(self, machine: ClaimOwner) -> None:
        """Let a machine die while it carries a run."""
        self.site.project.ok("trigger", "hello")
        now = self.site.clock.now()
        assert self.site.store.write(partial(claim, holder=machine, free=range(1), now=now))
        self.site.store.write(partial(processes.renew_lease, epoch=machine.epoch, lease=timedelta(hours=-1)))


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "home"
    folder.mkdir()
    project, address = Project(folder), lay_postgres()
    project.write(f"store: {address}\njobs: {{hello: {{command: [echo, hello]}}}}\n")
    project.ok("apply")
    with opened(project, store=address) as made:
        yield Site(made)


def test_the_items_of_machines_are_the_same_in_every_face(shared: Site) -> None:
    machines, store = Machines(shared), shared.store
    lost, crashed = machines.enter("lost"), machines.enter("crashed")
    store.write(partial(processes.note_skew, worker_id=crashed.worker_id, skew=timedelta(minutes=5)))
    store.write(partial(processes.drain, worker_id=crashed.worker_id, draining=True, crashes=6))
    machines.vanish(lost)
    assert faces(shared) == {"workers:workers", "drained:workers", "worker:lost", "clock:crashed", "crashes:crashed"}


def test_every_kind_is_documented() -> None:
    page = (DOCS / "attention.md").read_text()
    assert [kind for kind in ItemKind if f"`{kind}`" not in page] == []
