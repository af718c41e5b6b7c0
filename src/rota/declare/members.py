"""Members of groups as users write them: a job's name, or a map with its params and whether it always runs."""

from typing import Any

from rota.declare.fields import JOB_NAME, Refused, read_flag, shown, wrong_type
from rota.declare.keyed import read_keys
from rota.declare.maps import read_params
from rota.declare.parts import Parts
from rota.model.spec import Member

HINT = "write a job's name, or {job: name, params: {full: false}, always: true}"


def read_members(value: Any) -> dict[int, Member]:
    """Return the members of a group by their places in the list."""
    if not isinstance(value, list):
        raise wrong_type(value, "a list", hint=f"write `members: [{value[:80]}]`" if isinstance(value, str) else "")
    with Parts() as parts:
        found = parts.rest = dict[int, Member]()
        for index, item in enumerate(value):
            with parts.below(index):
                found[index] = read_member(item)
    return found


def read_member(value: Any) -> Member:
    """Return a member: a name, or {job: …} with params and `always`."""
    if isinstance(value, str):
        return Member(_name(value))
    if not isinstance(value, dict) or not value:
        raise wrong_type(value, "a member", hint=HINT)
    with Parts() as parts:
        found = read_keys(value, _READERS, parts=parts, hint=HINT, known="a member knows job, params, always")
        if "job" not in value and not parts.mistyped:
            raise Refused("names no job", code="member", hint=HINT)
    return Member(**found)


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "the name of a job", hint=HINT)
    if not JOB_NAME.fullmatch(value):
        raise Refused(f"{shown(value)} cannot be a job's name", code="member", hint=HINT)
    return value


_READERS = {"job": _name, "params": read_params, "always": read_flag}
