"""Python functions that are agents: what decorators and the file say about them, in the shape of `agents:`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.agents.python import CAPABILITIES
from rota.declare.fields import FUNCTION, JOB_NAME, Refused, matching, not_among, read_text, wrong_type
from rota.declare.keyed import read_keys
from rota.declare.parts import Parts, read_items
from rota.declare.registry import RegisteredAgent

ADAPTER_HINT = 'write the name of an adapter, or {run: "module:function"}'

Bodies = Mapping[str, Any]
"""Entries of `agents:` by name, as they are written."""

_function = matching(FUNCTION, "the name of a function", hint="write a registered name or module:function")
_provider = matching(JOB_NAME, "the name of a provider", hint="use 1 to 200 letters, digits and . _ -")


@dataclass(frozen=True, slots=True)
class FunctionAdapter:
    """`adapter: {run: …}`: the function that is the agent, what it says that it keeps, and who is held with it."""

    run: str
    capabilities: tuple[str, ...] = ()
    provider: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """What is stored with the jobs of the agent."""
        found = {"capabilities": list(self.capabilities), "provider": self.provider}
        return {key: value for key, value in found.items() if value}


def read_adapter(value: Any) -> str | FunctionAdapter:
    """Return which adapter an agent has: the name of one, or a Python function."""
    if not isinstance(value, Mapping):
        return read_text(value)
    readers = {"run": _function, "capabilities": _capabilities, "provider": _provider}
    with Parts() as parts:
        found = read_keys(
            value, readers, parts=parts, hint=ADAPTER_HINT, known=f"a function knows {', '.join(readers)}"
        )
        if "run" not in value and not parts.mistyped:
            raise Refused("does not say which function it is", code="missing_value", hint=ADAPTER_HINT)
    return FunctionAdapter(**found)


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
    found: dict[str, Any] = {name: _entry(name, one) for name, one in registered.items() if name not in written}
    for name, body in written.items():
        found[name] = _over_registered(name, body, registered)
    return found


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
