"""The names of jobs, groups, agents and schedules: which can be one, and that no two look alike."""

from collections.abc import Iterable

from rota.declare.fields import JOB_NAME, shown
from rota.declare.files import KeyPath, write_path
from rota.declare.findings import Findings
from rota.declare.troubles import Trouble
from rota.model.errors import Problem


def check_names(names: Iterable[tuple[str, str]], findings: Findings, *, base: KeyPath = ()) -> None:
    """Check names of one list, each with its section: `rota run` takes both a job's and a group's."""
    folded: dict[str, tuple[str, str]] = {}
    for section, name in names:
        taken, other = folded.setdefault(name.casefold(), (section, name))
        if trouble := _wrong_name(name, other):
            findings.tell((*base, section, name), [trouble])
        elif taken != section:
            message = f"there is a {taken[:-1]} of this name already"
            findings.tell((section, name), [Trouble((), message, "job_name", "choose another name")])


def in_case_only(name: str, other: str) -> Problem:
    """Return what is wrong with a job whose name only differs in case from that of another one."""
    found = _wrong_name(name, other)
    assert found is not None
    return Problem(found.message, found.code, path=write_path(("jobs", name)), hint=found.hint)


def _wrong_name(name: str, other: str) -> Trouble | None:
    if name.casefold().startswith("rota/"):
        return Trouble((), "names that start with rota/ are rota's own", "job_name", "choose another name")
    if not JOB_NAME.fullmatch(name):
        hint = "use 1 to 200 letters, digits and . _ -, the first a letter or digit"
        return Trouble((), f"{shown(name)} cannot be a job's name", "job_name", hint)
    if other != name:
        return Trouble((), f"differs from {shown(other)} in case only", "job_name", "choose another name")
    return None
