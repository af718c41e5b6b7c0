"""Templates: how they are found and filled. Everything is escaped; what a template lacks is an error, never empty."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent.parent / "templates"


@cache
def environment() -> "Environment":
    """Return the environment of all templates; made when the first page is asked for."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from rota.http.pages import marks
    from rota.http.pages.compiled import Compiled

    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        bytecode_cache=Compiled(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= marks.FILTERS
    made.globals |= {**marks.GLOBALS, "version": version("rota")}
    return made


def render(template: str, values: Mapping[str, Any]) -> str:
    """Return a filled template."""
    return environment().get_template(template).render(values)


def exists(template: str) -> bool:
    """Tell whether there is such a template."""
    return template in _known()


@cache
def _known() -> frozenset[str]:
    return frozenset(environment().list_templates(extensions=["html"]))
