"""Maps of the file through their pydantic models; pydantic's findings in our own words."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from rota import faults
from rota.declare.fields import Refused, shown, wrong_type
from rota.declare.files import KeyPath
from rota.declare.hints import GROUP_WORDS, JOB_WORDS, TOP_WORDS, unknown_key
from rota.declare.job_keys import DefaultsSection, GroupEntry, JobEntry, keys_of
from rota.declare.spec import ProjectFile
from rota.declare.troubles import Trouble

_WORDS: Mapping[type[BaseModel], dict[str, str]] = {
    JobEntry: JOB_WORDS,
    DefaultsSection: JOB_WORDS,
    GroupEntry: GROUP_WORDS,
    ProjectFile: TOP_WORDS,
}


def read_map(model: type[BaseModel], raw: Any) -> tuple[dict[str, Any], list[Trouble]]:
    """Return the keys that were written, read by `model`, and what is wrong with the others."""
    if not isinstance(raw, dict):
        return {}, [_trouble((), wrong_type(raw, "a map of keys"))]
    try:
        return _written(model.model_validate(raw), raw), []
    except ValidationError as error:
        findings = error.errors(include_url=False)
    bad = {finding["loc"][0] for finding in findings}
    good = {key: value for key, value in raw.items() if key not in bad}
    if faults.planted("unknown_key_ignored"):
        findings = [finding for finding in findings if finding["type"] != "extra_forbidden"]
    troubles = [trouble for finding in findings for trouble in _translated(model, finding)]
    return _written(model.model_validate(good), good) | _rests(findings), troubles


def _rests(findings: list[Any]) -> dict[str, Any]:
    """Return what the right parts of wrong values come to, so that they are looked at too."""
    refused = {finding["loc"][0]: _refused(finding) for finding in findings if len(finding["loc"]) == 1}
    return {key: one.rest for key, one in refused.items() if one is not None and one.rest is not None}


def _refused(finding: Any) -> Refused | None:
    error = finding.get("ctx", {}).get("error")
    return error if isinstance(error, Refused) else None


def _written(entry: BaseModel, raw: Mapping[str, Any]) -> dict[str, Any]:
    values, names = entry.__dict__, keys_of(type(entry))
    return {key: values[names[key]] for key in raw}


def _translated(model: type[BaseModel], finding: Any) -> list[Trouble]:
    path: KeyPath = tuple(part for part in finding["loc"] if part != "[key]")
    if refused := _refused(finding):
        return [_trouble(path, one) for one in refused.each]
    return [_told_by_pydantic(model, finding, path)]


def _told_by_pydantic(model: type[BaseModel], finding: Any, path: KeyPath) -> Trouble:
    if finding["type"] == "extra_forbidden":
        return _unknown(model, path)
    if finding["type"] == "list_type":
        hint = f"write `{path[-1]}: [{finding['input'][:80]}]`" if isinstance(finding["input"], str) else ""
        return _trouble(path, wrong_type(finding["input"], "a list", hint=hint))
    if finding["type"] in ("dict_type", "mapping_type", "model_type", "model_attributes_type"):
        return _trouble(path, wrong_type(finding["input"], "a map of keys"))
    return Trouble(path, f"{shown(finding['input'])} cannot be used", "invalid_value")


def _trouble(path: KeyPath, refused: Refused) -> Trouble:
    return Trouble((*path, *refused.at), refused.message, refused.code, refused.hint)


def _unknown(model: type[BaseModel], path: KeyPath) -> Trouble:
    key = str(path[-1])
    if model is DefaultsSection and len(path) == 1 and key in keys_of(JobEntry):
        return Trouble(path, "cannot be a default", "unknown_key", "write it in the job itself")
    if model is GroupEntry and len(path) == 1 and key in keys_of(JobEntry):
        return Trouble(path, "has no effect on a group", "no_effect", "write it in the jobs of its members")
    inner = _inner(model, path)
    return Trouble(path, "unknown key", "unknown_key", unknown_key(key, list(keys_of(inner)), _WORDS.get(inner)))


def _inner(model: type[BaseModel], path: KeyPath) -> type[BaseModel]:
    for part in path[:-1]:
        kind = model.model_fields[str(part)].annotation if part in model.model_fields else None
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            break
        model = kind
    return model
