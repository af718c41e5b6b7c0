"""The scheduler's figures in the text format of Prometheus; read when they are asked for, never kept."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

from rota.model.budget import MILLION, Unit
from rota.operations.budgets import list_accounts
from rota.operations.pools import pool_views
from rota.operations.summary import Summary, summarise
from rota.store.driver import Store

__all__ = ["CONTENT_TYPE", "exposition"]


class Figures:
    """Collects the figures of one moment."""

    def __init__(self, store: Store, state: Path, *, now: datetime) -> None:
        self._store = store
        self._now = now
        self._summary = summarise(store, state, now=now)

    def collect(self) -> Iterator[Metric]:
        """Yield the figures."""
        found = self._summary
        yield _gauge("rota_up", "Whether what is due will be done.", float(found.heartbeat.alive))
        yield from _runs(found)
        answer = found.heartbeat.answer
        yield _gauge("rota_slots", "How many runs execute at the same time.", answer.get("concurrency", 0))
        yield _gauge("rota_slots_taken", "How many slots are taken.", answer.get("slots_taken", 0))
        if found.next_due_at is not None:
            away = (found.next_due_at - self._now).total_seconds()
            yield _gauge("rota_next_due_seconds", "Seconds until the next instant is due.", away)
        yield from self._pools()
        yield from self._budgets()

    def _pools(self) -> Iterator[Metric]:
        capacity = GaugeMetricFamily("rota_pool_capacity", "How much a pool holds.", labels=["pool"])
        used = GaugeMetricFamily("rota_pool_used", "How much of a pool is drawn.", labels=["pool"])
        for view in self._store.read(pool_views):
            capacity.add_metric([view.pool.name], view.pool.capacity)
            used.add_metric([view.pool.name], view.pool.used)
        yield capacity
        yield used

    def _budgets(self) -> Iterator[Metric]:
        labels = ["account", "unit"]
        limit = GaugeMetricFamily("rota_budget_limit", "The limit of an account in its window.", labels=labels)
        used = GaugeMetricFamily("rota_budget_used", "What is spent or reserved of it.", labels=labels)
        for view in list_accounts(self._store, now=self._now):
            named = [view.account.name, str(view.account.unit)]
            one = MILLION if view.account.unit is Unit.USD else 1  # money in dollars, as the label says
            limit.add_metric(named, view.account.limit / one)
            used.add_metric(named, view.used / one)
        yield limit
        yield used


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _runs(found: Summary) -> Iterator[Metric]:
    """Yield how many runs there are; those that are no longer kept do not count, so it is no counter."""
    present = GaugeMetricFamily("rota_runs", "Runs that are stored, by status.", labels=["status"])
    for status, number in found.counts.items():
        present.add_metric([status.value], number)
    yield present


def exposition(store: Store, state: Path, *, now: datetime) -> bytes:
    """Return the figures as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(partial(Figures(store, state, now=now).collect)))
    return generate_latest(registry)


class _Once:
    def __init__(self, collect: partial[Iterator[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        return self._collect()

    def describe(self) -> list[Metric]:
        return []
