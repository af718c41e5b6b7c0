"""Names in paths: a job of an included project, or of an agent's schedules, has a slash, which is written `~`."""

from typing import Annotated

from fastapi import Path
from pydantic import AfterValidator, Field

from rota.model.states import SHOWN, Reason, Trigger


def _plain(name: str) -> str:
    return name.replace("~", "/")


def segment(name: str) -> str:
    """Return a name as it stands in a path."""
    return name.replace("/", "~")


JOB = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}(~[A-Za-z0-9][A-Za-z0-9._-]{0,199})*$"
RUN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}(~[A-Za-z0-9][A-Za-z0-9._-]{0,199})*(:-?[0-9]{1,18})?$"
NEW_JOB = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
GROUP = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}(/[A-Za-z0-9][A-Za-z0-9._-]{0,199})?$"
WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"

JobName = Annotated[
    str, Path(pattern=JOB, max_length=400, description="A job; a slash in its name is ~."), AfterValidator(_plain)
]
NewJobName = Annotated[str, Path(pattern=NEW_JOB, description="A job: letters, digits and . _ -")]
RunName = Annotated[
    str,
    Path(pattern=RUN, max_length=430, description="JOB:NUMBER, JOB:-1, JOB for its newest run, or an identifier."),
    AfterValidator(_plain),
]
GroupName = Annotated[
    str, Path(pattern=RUN, max_length=430, description="NAME:NUMBER, NAME, or an identifier."), AfterValidator(_plain)
]
TargetName = Annotated[
    str, Path(pattern=JOB, max_length=400, description="A target; a slash in its name is ~."), AfterValidator(_plain)
]
Word = Annotated[str, Path(pattern=WORD)]
FilterWord = Annotated[str, Field(min_length=1)]
"""A value of a filter that may be repeated; an empty one is refused, so that it never counts as "not given"."""
StatusWord = Annotated[str, Field(min_length=1, json_schema_extra={"enum": list(SHOWN)})]
ReasonWord = Annotated[str, Field(min_length=1, json_schema_extra={"enum": list(Reason)})]
TriggerWord = Annotated[str, Field(min_length=1, json_schema_extra={"enum": list(Trigger)})]
"""Values of filters; the operations also accept other case, and older words for statuses."""
