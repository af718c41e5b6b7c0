"""A complete JobSpec of a group from the keys a user wrote: members that exist, fit, and can come to an end."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rota.declare.contradictions import misfits, target_troubles, two_schedules, unheard
from rota.declare.fields import shown
from rota.declare.files import KeyPath
from rota.declare.fitting import Keys, shape_of
from rota.declare.job_keys import GroupEntry, keys_of
from rota.declare.jobs import merged, spec_of
from rota.declare.schedules import except_troubles, resolve_times
from rota.declare.spelling import one_spelling
from rota.declare.surroundings import Surroundings
from rota.declare.troubles import Trouble
from rota.model.spec import GroupMode, JobSpec, Kind, Member, OnFailure, Retry, Work
from rota.rules.nearest import did_you_mean

MEMBERS = 1000
NO_RETRY = Retry(max_attempts=1)
NO_MEMBERS = Trouble(("members",), "has no members", "member", "name at least one job: `members: [extract, load]`")


def build_group(
    name: str, own: Keys, around: Surroundings, *, jobs: Mapping[str, JobSpec | None], groups: Sequence[str]
) -> tuple[JobSpec | None, list[Trouble]]:
    """Return the spec of a group from its own read keys, or what is wrong with them.

    `jobs` are the jobs of the file by name, None for one that has problems of its own.
    """
    own, troubles = one_spelling(own)
    troubles += except_troubles(own, around.calendars) + two_schedules(own, "a group")
    troubles += target_troubles(own, around.targets)
    defaults = {key: value for key, value in around.defaults.items() if key in keys_of(GroupEntry)}
    shape = replace(shape_of(own, defaults, python=False), work=Kind.GROUP)
    troubles += misfits(own, shape)
    keys = merged(own, defaults, shape)
    troubles += resolve_times(keys, around) + unheard(own, keys)
    troubles += _wrong_members(own, keys, jobs=jobs, groups=groups)
    spec = spec_of(name, keys, around=around, shape=shape)
    return (None, troubles) if troubles else (replace(spec, work=_work(keys), retry=NO_RETRY), [])


def _work(keys: Keys) -> Work:
    return Work(
        Kind.GROUP,
        timeout=None,
        members=tuple(keys["members"].values()),
        mode=keys.get("mode", GroupMode.SEQUENTIAL),
        on_failure=keys.get("on_failure", OnFailure.STOP),
    )


def _wrong_members(
    own: Keys, keys: Keys, *, jobs: Mapping[str, JobSpec | None], groups: Sequence[str]
) -> list[Trouble]:
    members: Mapping[int, Member] = own.get("members", {})
    if not members:
        return [replace(NO_MEMBERS, path=("members",) if "members" in own else (), looks_at=("members",))]
    if len(members) > MEMBERS:
        message = f"has {len(members):,} members"
        return [Trouble(("members",), message, "out_of_range", f"at most {MEMBERS:,}; make several groups")]
    troubles: list[Trouble] = []
    for index, member in members.items():
        troubles += _wrong_member(member, index, jobs=jobs, groups=groups, enabled=keys.get("enabled", True))
    if all(member.always for member in members.values()):
        hint = "`always` members run when the others are final; leave it out where there are no others"
        troubles.append(Trouble(("members",), "every member is `always`", "member", hint, ("members",)))
    return troubles


def _wrong_member(
    member: Member, index: int, *, jobs: Mapping[str, JobSpec | None], groups: Sequence[str], enabled: bool
) -> list[Trouble]:
    path: KeyPath = ("members", index)
    if member.job in groups and member.job not in jobs:
        return [Trouble(path, f"{shown(member.job)} is a group, and groups hold no groups", "member", "name its jobs")]
    if member.job not in jobs:
        hint = did_you_mean(member.job, jobs, "declare it under `jobs:`")
        return [Trouble(path, f"no job is named {shown(member.job)}", "member", hint)]
    spec = jobs[member.job]
    if spec is None:
        return []
    if enabled and not spec.enabled:
        hint = "enable it, or take it out of the group"
        return [Trouble(path, f"the job {shown(member.job)} is disabled", "member", hint)]
    return _wrong_params(member, spec, path)


def _wrong_params(member: Member, spec: JobSpec, path: KeyPath) -> list[Trouble]:
    known: Mapping[str, Any] = spec.work.params
    listed = f"its params: {', '.join(sorted(known))}" if known else ""
    troubles: list[Trouble] = []
    for name in member.params:
        if name not in known:
            message = f"the job {shown(member.job)} has no param {shown(name)}"
            hint = listed or f"declare it in that job: `params: {{{name}: …}}`"
            troubles.append(Trouble((*path, "params", name), message, "member", hint))
    return troubles
