"""Keys that are right alone and wrong together: they exclude each other, have no effect, or name what is not there."""

from collections.abc import Collection, Mapping, Sequence

from rota.declare.budgets import spends_of, without_estimate, wrong_estimates, wrong_names
from rota.declare.fields import shown
from rota.declare.fitting import SCHEDULES, WORKS, Keys, Shape, misfit
from rota.declare.notify import WrittenNotify, wrong_targets
from rota.declare.pools import wrong_draws
from rota.declare.troubles import Trouble, troubles_below
from rota.declare.values import WorkType
from rota.model.budget import Account
from rota.model.spec import Anchor, ByMode, Isolate, Kind

_TYPES = {
    WorkType.COMMAND: Kind.COMMAND,
    WorkType.SHELL: Kind.SHELL,
    WorkType.SCRIPT: Kind.FUNCTION,
    WorkType.FUNCTION: Kind.FUNCTION,
    WorkType.AGENT: Kind.AGENT,
}
NO_WORK = Trouble((), "has no work", "no_work_given", "add `command:`, `shell:`, `run:` or `prompt:`", tuple(WORKS))


def kind_troubles(own: Keys) -> list[Trouble]:
    """Return what is wrong with how many kinds of work and schedules a job has."""
    works = [key for key in own if key in WORKS]
    troubles = _surplus(works, "a job has one kind of work") + two_schedules(own, "a job")
    if not works:
        troubles.append(NO_WORK)
    elif "type" in own and _TYPES[own["type"]] is not WORKS[works[0]]:
        message = f"`type: {own['type']}` does not agree with `{works[0]}`"
        troubles.append(Trouble(("type",), message, hint="remove it, the work says it already"))
    return troubles


def two_schedules(own: Keys, owner: str) -> list[Trouble]:
    """Return the schedules beyond the first."""
    return _surplus([key for key in own if key in SCHEDULES], f"{owner} has one schedule")


def _surplus(found: Sequence[str], rule: str) -> list[Trouble]:
    """Return the keys beyond the first of those that exclude each other."""
    message = f"{rule}, and this one has `{found[0]}` already" if found else ""
    return [Trouble((key,), message, hint="keep one of them") for key in found[1:]]


def misfits(own: Keys, shape: Shape) -> list[Trouble]:
    """Return the keys that have no effect on a job of that shape."""
    troubles = [
        Trouble((key,), need.message, "no_effect", need.hint, need.looks_at)
        for key in own
        if (need := misfit(key, shape)) is not None
    ]
    if isinstance(own.get("interval"), ByMode) and own.get("anchor") is Anchor.FIXED:
        message = "a fixed grid has one interval, and this one has an interval by mode"
        troubles.append(Trouble(("anchor",), message, hint="remove this line, or write one duration"))
    if shape.python and own.get("isolate") is Isolate.THREAD:
        message = "a function of another interpreter (`python:`) cannot run inside the scheduler's process"
        troubles.append(Trouble(("isolate",), message, hint="remove this line, or `python:`"))
    return troubles


def draw_troubles(keys: Keys, capacities: Mapping[str, int] | None) -> list[Trouble]:
    """Return what is wrong with the pools that a job or the defaults draw on."""
    if capacities is None or "pools" not in keys:
        return []
    return troubles_below("pools", wrong_draws(keys["pools"], capacities))


def target_troubles(keys: Keys, targets: Collection[str] | None) -> list[Trouble]:
    """Return the targets that a job, a group or the defaults name and that are not there."""
    return [] if targets is None else troubles_below("notify", wrong_targets(keys.get("notify"), targets))


def unheard(own: Keys, keys: Keys) -> list[Trouble]:
    """Return a `finish_by` that nobody is told of."""
    written: WrittenNotify | None = keys.get("notify")
    if "finish_by" not in own or (written is not None and (written.names or written.own)):
        return []
    hint = "add `notify:`, or remove this line"
    return [Trouble(("finish_by",), "has no effect without somebody to tell", "no_effect", hint, ("notify",))]


def name_troubles(keys: Keys, accounts: Mapping[str, Account] | None) -> list[Trouble]:
    """Return the accounts that a job or the defaults name and that are not there."""
    return [] if accounts is None else troubles_below("budget", wrong_names(keys.get("budget", {}), accounts))


def spend_troubles(
    own: Keys, keys: Keys, accounts: Mapping[str, Account] | None, *, limited: bool = False
) -> list[Trouble]:
    """Return what is wrong with the accounts of a job and with what it says that a run costs (R-19)."""
    names = list(keys.get("budget", {}).values())
    troubles = name_troubles(own, accounts)
    if accounts is None or troubles or not names:
        return troubles
    refused = wrong_estimates(own["estimate"], names, accounts) if "estimate" in own else []
    troubles = troubles_below("estimate", refused, looks_at=("budget",))
    spends = spends_of(names, keys.get("estimate", {}), accounts)
    for name in [] if troubles else without_estimate(spends, accounts, limited=limited):
        message = f"nobody says what a run may cost in {shown(name)}"
        hint = "add `estimate:` to the job, or to the account"
        troubles.append(Trouble(("budget",), message, "estimate_missing", hint, ("estimate",)))
    return troubles
