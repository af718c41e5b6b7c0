"""Cron expressions as users write them: one, a list of them, or `@reboot` alone."""

from functools import lru_cache
from typing import Any

from rota.declare.fields import REBOOT, Refused, ask, wrong_type
from rota.declare.parts import read_items
from rota.rules.cron import check_cron


def read_cron(value: Any) -> tuple[str, ...]:
    """Return one or more cron expressions, each as `check_cron` spells it, or `@reboot` alone."""
    if isinstance(value, str):
        return (REBOOT,) if value.strip().lower() == REBOOT else (_cron(value),)
    if not isinstance(value, list):
        raise wrong_type(value, "a cron expression", hint='write five fields in quotes: cron: "30 2 * * *"')
    if not value:
        raise Refused("is an empty list", hint="name at least one expression")
    if any(isinstance(item, str) and item.strip().lower() == REBOOT for item in value):
        hint = 'write `cron: "@reboot"`, and other times in a job of their own'
        raise Refused(f"{REBOOT} stands alone, not in a list", code="conflict", hint=hint)
    return tuple(dict.fromkeys(read_items(value, _cron)))


def _cron(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "a cron expression")
    return ask(_checked_cron, value)


@lru_cache(4096)
def _checked_cron(text: str) -> str:
    return check_cron(text)
