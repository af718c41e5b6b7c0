"""The configuration as it is in effect: what the scheduler was started with, and what its file has declared since."""

import platform
from collections import Counter
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rota.engine.clock import tzdata_version
from rota.model.address import is_postgres, shown
from rota.model.durations import write_duration
from rota.model.notify import Target
from rota.operations.jobs import TIMEZONE_KEY
from rota.rules.budget_words import say_account
from rota.settings import Settings
from rota.store import budgets, deliveries, jobs, making, queue
from rota.store.driver import Database, Store
from rota.store.queries import load_migrations


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the configuration, with its keys as rota.yaml has them."""

    title: str
    values: tuple[tuple[str, str], ...]


def configuration(store: Store, settings: Settings | None) -> tuple[Section, ...]:
    """Return what is in effect; without settings only what is stored."""
    started = () if settings is None else _started(settings)
    return (*started, *store.read(_declared))


def _started(settings: Settings) -> tuple[Section, ...]:
    """Return what the scheduler was started with; it is read again at the next start."""
    return (
        Section("scheduler", _values(settings.scheduler)),
        Section("http", _values(settings.http)),
        Section("retention", (*_values(settings.retention), ("output_total", _said(settings.output_total)))),
    )


def _declared(db: Database) -> tuple[Section, ...]:
    """Return what the file has declared, as it is applied."""
    zone = db.row("meta_get", key=TIMEZONE_KEY)
    accounts = [(one.account.name, say_account(one.account)) for one in budgets.accounts(db) if one.declared]
    pools = [(pool.name, f"{pool.capacity:,}") for pool in queue.pools(db) if pool.declared]
    sources = Counter(job.source for job in jobs.all_jobs(db) if job.retired_at is None)
    found = (
        Section("project", (("timezone", str(zone[0]) if zone else "UTC"), ("aging", _said(queue.aging(db))))),
        Section("jobs", tuple((source, f"{number:,}") for source, number in sorted(sources.items()))),
        Section("pools", tuple(pools)),
        Section("budgets", tuple(accounts)),
        Section("notify", tuple((name, _target(one)) for name, one in sorted(deliveries.targets(db).items()))),
        Section("agent_policy", _values(making.policy(db))),
    )
    return tuple(section for section in found if section.values)


def _target(target: Target) -> str:
    """Return a target without its address, which may be a secret."""
    return f"{target.channel}, told of {', '.join(event.value for event in target.on)}"


def _values(record: Any) -> tuple[tuple[str, str], ...]:
    return tuple((one.name, _said(getattr(record, one.name))) for one in fields(record))


def _said(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, Target):
        return _target(value)
    return f"{value:,}" if isinstance(value, int) else str(value) or "–"


@dataclass(frozen=True, slots=True)
class Versions:
    """What runs here."""

    rota: str
    python: str
    database: str
    place: str
    schema: int
    tzdata: str
    system: str


def versions(store: Store, state: Path, settings: Settings | None) -> Versions:
    """Return what runs here; the address of a database without its password."""
    address = settings.store if settings is not None else "sqlite"
    shared = is_postgres(address)
    return Versions(
        rota=version("rota"),
        python=platform.python_version(),
        database=store.read(partial(_server, shared=shared)),
        place=shown(address) if shared else str(state / "rota.db"),
        schema=max(number for number, _, _ in load_migrations("postgres" if shared else "sqlite")),
        tzdata=tzdata_version(),
        system=platform.platform(terse=True),
    )


def _server(db: Database, *, shared: bool) -> str:
    row = db.row("database_version")
    return f"{'PostgreSQL' if shared else 'SQLite'} {str(row[0]).split(' ')[0] if row else ''}"
