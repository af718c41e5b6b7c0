"""Names in paths: a job of an included project, or of an agent's schedules, has a slash, which is written `~`."""

from typing import Annotated

from fastapi import Path
from pydantic import AfterValidator, Field


def _plain(name: str) -> str:
    return name.replace("~", "/")


def segment(name: str) -> str:
    """Return a name as it stands in a path."""
    return name.replace("/", "~")


JOB = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}(~[A-Za-z0-9][A-Za-z0-9._-]{0,199})*$"
RUN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}(~[A-Za-z0-9][A-Za-z0-9._-]{0,199})*(:-?[0-9]{1,18})?$"
WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"

JobName = Annotated[
    str, Path(pattern=JOB, max_length=400, description="A job; a slash in its name is ~."), AfterValidator(_plain)
]
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
