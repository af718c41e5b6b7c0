"""Pools in the file: how much there is of each, and what a job draws."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from rota.declare.fields import JOB_NAME, Refused, shown, whole, wrong_type
from rota.model.spec import Draw

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
    return {_pool_name(name, (name,)): _number(_capacity, value[name], (name,)) for name in value}


def read_draws(value: Any) -> dict[KeyPath, Draw]:
    """Return what a job draws: names, or names with a cost, in a list or a map."""
    if isinstance(value, Mapping):
        return _from_map(value, ())
    if not isinstance(value, list):
        raise wrong_type(value, "a list of pools", hint=DRAW_HINT)
    found: dict[KeyPath, Draw] = {}
    for index, item in enumerate(value):
        for path, draw in _from_item(item, index).items():
            if any(draw.pool == other.pool for other in found.values()):
                hint = f"name it once, with what it costs together: {{{draw.pool}: 2}}"
                raise Refused(f"the pool {shown(draw.pool)} is there twice", hint=hint, at=path)
            found[path] = draw
    return found


def _from_item(item: Any, index: int) -> dict[KeyPath, Draw]:
    if isinstance(item, Mapping):
        return _from_map(item, (index,))
    return {(index,): Draw(_pool_name(item, (index,)))}


def _from_map(value: Mapping[str, Any], base: KeyPath) -> dict[KeyPath, Draw]:
    drawn = {(*base, name): (name, cost) for name, cost in value.items()}
    return {path: Draw(_pool_name(name, path), _number(_cost, cost, path)) for path, (name, cost) in drawn.items()}


def _pool_name(name: Any, at: KeyPath) -> str:
    if not isinstance(name, str):
        raise wrong_type(name, "the name of a pool", hint=DRAW_HINT, at=at)
    if not JOB_NAME.fullmatch(name):
        raise Refused(f"{shown(name)} cannot be a pool's name", hint=POOL_HINT, at=at)
    return name


def _number(read: Any, value: Any, at: KeyPath) -> int:
    try:
        number: int = read(value)
    except Refused as error:
        raise Refused(error.message, code=error.code, hint=error.hint, at=at) from None
    return number


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
        near = get_close_matches(draw.pool, capacities, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"declare it at the top: `pools: {{{draw.pool}: 1}}`"
        return Refused(f"no pool is named {shown(draw.pool)}", code="pool_missing", hint=hint, at=path)
    if 0 < capacity < draw.cost:
        message = f"costs {draw.cost:,} of the pool {shown(draw.pool)}, which has {capacity:,}"
        hint = "lower the cost, or raise the pool's capacity"
        return Refused(message, code="out_of_range", hint=hint, at=path)
    return None
