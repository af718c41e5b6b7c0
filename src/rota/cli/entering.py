"""The options of processes that claim runs: what their worker is called, and which runs it takes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rota.engine.session import Entrance

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = (
    click.option("--name", metavar="NAME", help="What this worker is called; else as before, or as its machine."),
    click.option("--label", "labels", metavar="K=V", multiple=True, help="A label that `rota workers` shows."),
    click.option("--only-pools", metavar="POOL,…", help="Take only runs that draw on one of these pools."),
    click.option("--except-pools", metavar="POOL,…", help="Take no run that draws on one of these pools."),
    click.option("--concurrency", type=click.IntRange(1, 10_000), help="How many runs at the same time here."),
)


def entering_options(command: F) -> F:
    """Give a command the options with which a process enters as a worker."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def entrance_of(
    *,
    name: str | None,
    labels: tuple[str, ...],
    only_pools: str | None,
    except_pools: str | None,
    concurrency: int | None,
) -> "Entrance":
    """Return as what a process enters."""
    from rota.engine.session import Entrance
    from rota.operations.workers import check_name, read_labels
    from rota.rules.takes import Takes

    only, but = _pools("--only-pools", only_pools), _pools("--except-pools", except_pools)
    both = sorted(set(only or ()) & set(but or ()))
    if both:
        raise click.UsageError(f"--only-pools and --except-pools both name {both[0]}")
    called = None if name is None else check_name(name)
    return Entrance(called, read_labels(labels) or None, Takes(only, but or ()), concurrency)


def _pools(option: str, written: str | None) -> tuple[str, ...] | None:
    if written is None:
        return None
    names = tuple(name.strip() for name in written.split(","))
    if not all(names):
        raise click.UsageError(f"{option} names pools with commas between them: gpu,big")
    return names
