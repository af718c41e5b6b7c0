"""Pools in the file: how much there is of each, and what a job draws."""

from collections.abc import Collection, Mapping
from typing import Any

from rota.declare.fields import JOB_NAME, Refused, shown, whole, wrong_type
from rota.declare.parts import Parts
from rota.model.spec import Draw
from rota.rules.nearest import did_you_mean

KeyPath = tuple[str | int, ...]
WrittenDraws = Mapping[KeyPath, Draw]
"""What a job draws, by where in its value that stands."""

CAPACITY = 1_000_000
POOL_HINT = "use 1 to 200 letters, digits and . _ -, the first a letter or digit"
DRAW_HINT = "write `pools: [ollama]`, or with a cost `pools: {gpu: 2}`"

_capacity = whole(0, CAPACITY)
_cost = whole(1, CAPACITY)


def read_capacities(value: Any) -> dict[str, int]:
    """Return the capacities of pools by name."""
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map of pools", hint="write `pools: {ollama: 1}`")
    found: dict[str, int] = {}
    with Parts() as parts:
        for name in value:
            with parts.below(name):
                _pool_name(name)
            with parts.below(name):
                found[name] = _capacity(value[name])
    return found


def read_draws(value: Any) -> dict[KeyPath, Draw]:
    """Return what a job draws: names, or names with a cost, in a list or a map."""
    if not isinstance(value, list | Mapping):
        raise wrong_type(value, "a list of pools", hint=DRAW_HINT)
    with Parts() as parts:
        found = parts.rest = dict[KeyPath, Draw]()
        for path, (name, cost) in _written_draws(value).items():
            with parts.below(*path):
                found[path] = _draw(name, cost, known=[draw.pool for draw in found.values()])
    return found


def _draw(name: Any, cost: Any, *, known: Collection[str]) -> Draw:
    with Parts() as parts:
        with parts.below():
            _pool_name(name)
            if name in known:
                hint = f"name it once, with what it costs together: {{{name}: 2}}"
                raise Refused(f"the pool {shown(name)} is there twice", hint=hint)
        number = _cost(cost)
    return Draw(name, number)


def _written_draws(value: list[Any] | Mapping[str, Any]) -> dict[KeyPath, tuple[Any, Any]]:
    """Return names and costs by where they stand; a name alone costs one."""
    if isinstance(value, Mapping):
        return {(name,): (name, cost) for name, cost in value.items()}
    found: dict[KeyPath, tuple[Any, Any]] = {}
    for index, item in enumerate(value):
        below = _written_draws(item) if isinstance(item, Mapping) else {(): (item, 1)}
        found |= {(index, *path): draw for path, draw in below.items()}
    return found


def _pool_name(name: Any) -> None:
    if not isinstance(name, str):
        raise wrong_type(name, "the name of a pool", hint=DRAW_HINT)
    if not JOB_NAME.fullmatch(name):
        raise Refused(f"{shown(name)} cannot be a pool's name", hint=POOL_HINT)


def drawn(written: WrittenDraws) -> tuple[Draw, ...]:
    """Return what a job draws, in the order of the pools' names."""
    return tuple(sorted(written.values(), key=lambda draw: draw.pool))


def wrong_draws(written: WrittenDraws, capacities: Mapping[str, int]) -> list[Refused]:
    """Return the draws on pools that are not there, or that can never have room for them."""
    refused = [_wrong_draw(draw, path, capacities) for path, draw in written.items()]
    return [one for one in refused if one is not None]


def _wrong_draw(draw: Draw, path: KeyPath, capacities: Mapping[str, int]) -> Refused | None:
    capacity = capacities.get(draw.pool)
    if capacity is None:
        hint = did_you_mean(draw.pool, capacities, f"declare it at the top: `pools: {{{draw.pool}: 1}}`")
        return Refused(f"no pool is named {shown(draw.pool)}", code="pool_missing", hint=hint, at=path)
    if 0 < capacity < draw.cost:
        message = f"costs {draw.cost:,} of the pool {shown(draw.pool)}, which has {capacity:,}"
        hint = "lower the cost, or raise the pool's capacity"
        return Refused(message, code="out_of_range", hint=hint, at=path)
    return None
