"""Filling the jinja2 templates. All expression strings come from Python; templates only arrange them."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..core.lazy import lazy_import
from ..core.resources import template_dir

jinja2: Any = lazy_import("jinja2")


@cache
def _environment() -> Any:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_dir()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(template: str, **context: Any) -> str:
    """Fill a template; a name that the context lacks is an error.

    Parameters
    ----------
    template
        File name in the template folder.
    context
        What it names.
    """
    text: str = _environment().get_template(template).render(**context)
    return text
