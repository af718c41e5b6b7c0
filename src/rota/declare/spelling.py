"""Older spellings of keys, and several keys that say one thing: `group`, and the intervals of the modes."""

from datetime import timedelta
from typing import Any

from rota.declare.fields import Refused
from rota.declare.fitting import SPELLINGS, Keys
from rota.declare.intervals import SPELLINGS as MODE_SPELLINGS
from rota.declare.intervals import one_interval
from rota.declare.troubles import Trouble
from rota.declare.values import PollGroup


def one_spelling(keys: Keys) -> tuple[dict[str, Any], list[Trouble]]:
    """Return `keys` with the accepted older spellings replaced; both spellings at once are an error."""
    found, troubles = dict(keys), []
    for older, key in SPELLINGS.items():
        if older not in found:
            continue
        value = found.pop(older)
        if key in found:
            troubles.append(Trouble((older,), f"is another spelling of `{key}`, which is there too", hint="keep one"))
        else:
            found[key] = timedelta(seconds=value) if older == "timeout_seconds" else value
    if "group" in found:
        needs = found.pop("group") is PollGroup.REMOTE
        if found.setdefault("needs_poll", needs) is not needs:
            troubles.append(Trouble(("group",), "does not agree with `needs_poll`", hint="keep one of them"))
    spelt = next((key for key in MODE_SPELLINGS if key in found), "")
    try:
        one_interval(found)
    except Refused as error:
        troubles.append(Trouble(error.at or (spelt,), error.message, error.code, error.hint, ("interval",)))
    return found, troubles
