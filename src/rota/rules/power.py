"""Power: the conditions on it, and when a machine is kept awake or woken."""

import re
from datetime import datetime, timedelta

from msgspec import Struct

from rota.model.spec import KeepAwake

BATTERY = "battery_above"
"""The condition that is written with a percentage: battery_above(30%)."""
WAKE_LEAD = timedelta(seconds=30)
"""How long before an instant a machine is woken: its network needs a moment."""
LINGER = timedelta(seconds=10)
"""How long the machine is kept awake after the last run: another one often follows."""
LOOK_EVERY = timedelta(minutes=1)
"""How often the power is read while runs depend on it, and how often a refused inhibitor is tried again."""
_PERCENT = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]{1,3})?)\s*%?\s*", re.ASCII)


class Power(Struct, frozen=True):
    """The power of a machine. `percent` None: no battery; `plugged` None: unknown."""

    plugged: bool | None = True
    percent: float | None = None


def on_ac_power(power: Power) -> bool:
    """Return whether a machine runs on mains power; without a battery it does.

    >>> on_ac_power(Power()), on_ac_power(Power(plugged=False, percent=80.0)), on_ac_power(Power(None, 80.0))
    (True, False, False)
    """
    return power.percent is None or power.plugged is True


def battery_above(power: Power, percent: float) -> bool:
    """Return whether the battery holds more than this percentage, on mains power too; without a battery it does.

    >>> battery_above(Power(False, 31.0), 30), battery_above(Power(True, 30.0), 30), battery_above(Power(), 30)
    (True, False, True)
    """
    return power.percent is None or power.percent > percent


def say_power(power: Power) -> str:
    """Return the power in words.

    >>> say_power(Power(False, 34.6)), say_power(Power())
    ('on battery, 35 %', 'no battery')
    """
    if power.percent is None:
        return "no battery"
    source = {True: "on mains power", False: "on battery", None: "source unknown"}[power.plugged]
    return f"{source}, {power.percent:.0f} %"


def condition_name(text: str) -> str:
    """Return the name of a condition without the percentage of `battery_above`.

    >>> condition_name("battery_above(30%)"), condition_name("has_mail")
    ('battery_above', 'has_mail')
    """
    name = text.partition("(")[0].strip()
    return name if name == BATTERY else text


def read_percent(text: str) -> float | None:
    """Return a percentage below 100, None for another text.

    >>> read_percent("30%"), read_percent(" 12.5 "), read_percent("100%"), read_percent("much")
    (30.0, 12.5, None, None)
    """
    match = _PERCENT.fullmatch(text)
    value = float(match[1]) if match else 100.0
    return value if value < 100 else None


def keeps_awake(policy: KeepAwake, *, taken: int, power: Power) -> bool:
    """Return whether the machine must not sleep: runs are in its slots, and the policy covers its power.

    >>> keeps_awake(KeepAwake.ON_AC, taken=1, power=Power(False, 90.0))
    False
    >>> keeps_awake(KeepAwake.ALWAYS, taken=1, power=Power(False, 90.0))
    True
    """
    if not taken or policy is KeepAwake.OFF:
        return False
    return policy is KeepAwake.ALWAYS or on_ac_power(power)


def wakes_at(next_at: datetime | None, *, now: datetime) -> datetime | None:
    """Return when the machine is to be woken for an instant; None without an instant, or if it is near."""
    at = None if next_at is None else next_at - WAKE_LEAD
    return at if at is not None and at > now else None
