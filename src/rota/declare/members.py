"""Members of groups as users write them: a job's name, or a map with its params and whether it always runs."""

from typing import Any

from rota.declare.fields import JOB_NAME, Refused, read_flag, shown, wrong_type
from rota.declare.maps import read_params
from rota.model.spec import Member

HINT = "write a job's name, or {job: name, params: {full: false}, always: true}"
_READERS = {"params": read_params, "always": read_flag}


def read_member(value: Any) -> Member:
    """Return a member: a name, or {job: …} with params and `always`."""
    if isinstance(value, str):
        return Member(_name(value, ()))
    if not isinstance(value, dict) or not value:
        raise wrong_type(value, "a member", hint=HINT)
    for key in value:
        if key not in ("job", *_READERS):
            raise Refused("unknown key", code="unknown_key", hint="a member knows job, params, always", at=(key,))
    if "job" not in value:
        raise Refused("names no job", code="member", hint=HINT)
    parts = {key: _part(key, value[key]) for key in _READERS if key in value}
    return Member(_name(value["job"], ("job",)), **parts)


def _name(value: Any, at: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "the name of a job", hint=HINT, at=at)
    if not JOB_NAME.fullmatch(value):
        raise Refused(f"{shown(value)} cannot be a job's name", code="member", hint=HINT, at=at)
    return value


def _part(key: str, value: Any) -> Any:
    try:
        return _READERS[key](value)
    except Refused as error:
        raise Refused(error.message, code=error.code, hint=error.hint, at=(key, *error.at)) from None
