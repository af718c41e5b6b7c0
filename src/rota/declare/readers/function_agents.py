"""Agents that are Python functions, in a file and as decorators register them."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rota.agents.registry import CAPABILITIES
from rota.declare.problems import FUNCTION, JOB_NAME, matching, not_among, read_items, read_text, wrong_type
from rota.declare.readers.values import read_record
from rota.declare.registry import RegisteredAgent

ADAPTER_HINT = 'write the name of an adapter, or {run: "module:function"}'

Bodies = Mapping[str, Any]
"""Entries of `agents:` by name, as they are written."""

_function = matching(FUNCTION, "the name of a function", hint="write a registered name or module:function")
_function_provider = matching(JOB_NAME, "the name of a provider", hint="use 1 to 200 letters, digits and . _ -")


class FunctionAdapter(Struct, frozen=True):
    """`adapter: {run: …}`: the function that is the agent, the limits it enforces, and its provider."""

    run: str
    capabilities: tuple[str, ...] = ()
    provider: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """The part of an agent that is stored with its jobs."""
        found = {"capabilities": list(self.capabilities), "provider": self.provider}
        return {key: value for key, value in found.items() if value}


def read_adapter(value: Any) -> str | FunctionAdapter:
    """Return which adapter an agent has: the name of one, or a Python function."""
    if not isinstance(value, Mapping):
        return read_text(value)
    readers = {"run": _function, "capabilities": _capabilities, "provider": _function_provider}
    known, needs = f"a function has the keys {', '.join(readers)}", {"run": "does not name a function"}
    return FunctionAdapter(**read_record(value, readers, hint=ADAPTER_HINT, needs=needs, known=known))


def _capabilities(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise wrong_type(value, "a list of limits", hint=f"such as [max_turns], of {', '.join(CAPABILITIES)}")
    return tuple(dict.fromkeys(read_items(value, _capability)))


def _capability(value: Any) -> str:
    if value not in CAPABILITIES:
        raise not_among(value, CAPABILITIES)
    return str(value)


def with_registered(written: Bodies, registered: Mapping[str, RegisteredAgent]) -> dict[str, Any]:
    """Return the entries of the file with the functions that code has registered; what the file says wins.

    An entry of the same name that names no adapter is about the function.
    """
    found: dict[str, Any] = {name: _entry(name, agent) for name, agent in registered.items() if name not in written}
    return found | {name: _over_registered(name, body, registered) for name, body in written.items()}


def _over_registered(name: str, body: Any, registered: Mapping[str, RegisteredAgent]) -> Any:
    if not isinstance(body, dict | None):
        return body
    body = dict(body or {})
    adapter = body.get("adapter")
    if adapter is None and name in registered:
        return {**_entry(name, registered[name]), **body}
    run = adapter.get("run") if isinstance(adapter, Mapping) else None
    if isinstance(run, str) and run in registered:
        known = _entry(run, registered[run])
        return {**known, **body, "adapter": {**known["adapter"], **adapter}}
    return body


def _entry(name: str, registered: RegisteredAgent) -> dict[str, Any]:
    """Return what a decorator says as an entry of `agents`.

    A limit that it names is one that the function keeps: `max_turns=True`, or with a value for its jobs `max_turns=20`.
    """
    keys = dict(registered.keys)
    named = keys.pop("capabilities", ())
    named = [named] if isinstance(named, str) else list(named)
    named += [key for key in CAPABILITIES if key in keys and keys[key] is not False]
    adapter = {"run": name, "capabilities": list(dict.fromkeys(named)), "provider": keys.pop("provider", None)}
    rest = {key: value for key, value in keys.items() if key not in CAPABILITIES or not isinstance(value, bool)}
    return {"adapter": {key: value for key, value in adapter.items() if value}, **rest}
