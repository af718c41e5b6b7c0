"""The params of a job in a file: values, and kinds of values."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.declare.problems import BadValue, ProblemList, choice, not_among, read_note, shown, wrong_type
from rota.declare.readers.values import read_params
from rota.model.errors import Problem, did_you_mean
from rota.model.params import ParamKind, ParamType
from rota.model.spec import Member, Schedule, Work
from rota.rules.params import WrongParam, is_kind, read_param, same_value, wrong_params

KEYS = ("type", "one_of", "min", "max", "default", "description")
MAX_CHOICES = 200
_HINT = "write {type: int, min: 1, max: 10, default: 3} or {one_of: [eu, us], default: eu}"
_MIXED = "a value with these keys is written {type: json, default: {…}}"


_TYPES = choice(ParamType, otherwise="a list of values is written one_of: […]")


class DeclaredParams(Struct, frozen=True):
    """The params of a job: the values of those that have one, and the kinds of all if one has a kind."""

    values: Mapping[str, Any]
    kinds: tuple[ParamKind, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return them as fields of the work."""
        return {"params": self.values, "param_kinds": self.kinds}


def read_job_params(value: Any) -> DeclaredParams:
    """Return the params of a job: plain values, or kinds with a default."""
    values: dict[str, Any] = {}
    kinds: list[ParamKind] = []
    with ProblemList() as problems:
        for name, item in read_params(value).items():
            if not is_kind(item):
                values[name] = item
                kinds.append(ParamKind(name))
                continue
            with problems.below(name):
                kind = _kind(name, item)
                kinds.append(kind)
                if not kind.required:
                    values[name] = _default(kind, item["default"])
    plain = all(kind == ParamKind(kind.name) for kind in kinds)
    return DeclaredParams(values, () if plain else tuple(kinds))


def _kind(name: str, item: Mapping[str, Any]) -> ParamKind:
    if unknown := [key for key in item if key not in KEYS]:
        hint = did_you_mean(str(unknown[0]), KEYS, _MIXED)
        raise BadValue(f"{shown(unknown[0])} is not a key of a param's kind", code="unknown_key", hint=hint)
    kind = ParamKind(name, required="default" not in item)
    with ProblemList() as problems:
        if "description" in item:
            with problems.below("description"):
                kind = replace(kind, description=read_note(item["description"]))
        if "one_of" in item:
            with problems.below("one_of"):
                kind = replace(kind, one_of=_choices(item["one_of"]))
        if "type" in item:
            with problems.below("type"):
                kind = replace(kind, type=_TYPES(item["type"]))
    if "type" in item and kind.one_of:
        _check_choices(kind)
    bounds = [key for key in ("min", "max") if key in item]
    if bounds and (kind.one_of or kind.type not in (ParamType.INT, ParamType.NUMBER)):
        raise BadValue("has an effect on numbers alone", code="no_effect", at=(bounds[0],), hint=_HINT)
    for key in bounds:
        kind = replace(kind, **{key: _bound(kind, key, item[key])})
    if kind.min is not None and kind.max is not None and kind.min > kind.max:
        raise BadValue(f"{kind.min} is more than the max, {kind.max}", code="out_of_range", at=("min",))
    return kind


def _choices(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise wrong_type(value, "a list of values", hint="write one_of: [eu, us]")
    if len(value) > MAX_CHOICES:
        raise BadValue(f"has {len(value):,} values", code="out_of_range", hint=f"at most {MAX_CHOICES} are allowed")
    for index, one in enumerate(value):
        if not isinstance(one, str | int | float):
            raise BadValue(f"{shown(one)} is not a text, a number, true or false", code="wrong_type", at=(index,))
        if any(same_value(one, other) for other in value[:index]):
            raise BadValue(f"{shown(one)} is there twice", at=(index,))
    return tuple(value)


def _check_choices(kind: ParamKind) -> None:
    alone = replace(kind, one_of=())
    for index, one in enumerate(kind.one_of):
        try:
            read_param(alone, one)
        except WrongParam as error:
            raise BadValue(str(error), code="wrong_type", at=("one_of", index), hint=error.hint) from None


def _bound(kind: ParamKind, key: str, value: Any) -> int | float:
    try:
        found: int | float = read_param(replace(kind, min=None, max=None), value)
    except WrongParam as error:
        raise BadValue(str(error), code="wrong_type", at=(key,)) from None
    return found


def _default(kind: ParamKind, value: Any) -> Any:
    try:
        return read_param(kind, value)
    except WrongParam as error:
        if kind.one_of:
            words = [str(one) for one in kind.one_of]
            refused = not_among(value, words).problems[0]
            raise BadValue(refused.message, code=refused.code, at=("default",), hint=refused.hint) from None
        raise BadValue(str(error), code="wrong_type", at=("default",), hint=error.hint) from None


def unfilled_params(work: Work, schedule: Schedule) -> list[Problem]:
    """Return the params without a default of a job that its schedule starts."""
    if schedule.manual:
        return []
    return [
        Problem(
            "has no default, and the job has a schedule",
            "missing_value",
            at=("params", kind.name),
            hint="add `default:`, or remove the schedule",
        )
        for kind in work.param_kinds
        if kind.required
    ]


def wrong_member_params(member: Member, work: Work) -> list[Problem]:
    """Return what is wrong with the params that a group gives to a job."""
    listed = f"its params: {', '.join(sorted(work.param_names))}" if work.param_names else ""
    problems: list[Problem] = []
    for problem in wrong_params(work, member.params)[1]:
        name = problem.at[-1]
        if problem.code == "param_unknown":
            message = f"the job {shown(member.job)} has no param {shown(name)}"
            hint = listed or f"declare it in that job: `params: {{{name}: …}}`"
        elif problem.code == "param_missing":
            message = f"the job {shown(member.job)} needs the param {shown(name)}"
            hint = f"write {{job: {member.job}, params: {{{name}: …}}}}: {problem.hint}"
        else:
            message, hint = problem.message, problem.hint
        at = ("params", name) if name in member.params else ()
        problems.append(Problem(message, "member", at=at, hint=hint))
    return problems
