"""The kinds of params: which values a param of a job accepts."""

from enum import StrEnum

from msgspec import Struct


class ParamType(StrEnum):
    """The type of a param's values."""

    TEXT = "text"
    INT = "int"
    NUMBER = "number"
    BOOL = "bool"
    JSON = "json"


class ParamKind(Struct, frozen=True):
    """The kind of one param. A job whose params have no kinds stores none."""

    name: str
    type: ParamType = ParamType.JSON
    one_of: tuple[str | int | float | bool, ...] = ()
    """The only values it accepts; empty: any of its type."""
    min: int | float | None = None
    max: int | float | None = None
    description: str = ""
    required: bool = False
    """Whether it has no default: each start gives it a value."""


class TypedText(str):
    """A value that a person typed on a command line or in a form; the kind of its param decides how it is read."""

    __slots__ = ()
