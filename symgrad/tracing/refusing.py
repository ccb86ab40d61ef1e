"""Errors that show the user's line and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..core.origin import user_origin
from ..errors import DtypeError, SymgradError, TraceError, with_location


def where() -> str:
    """The user's line, for messages."""
    origin = user_origin(2)
    return str(origin) if origin else ""


def refuse(what: str, advice: str, error: type[SymgradError] = TraceError) -> NoReturn:
    """Raise an error that shows the user's line and the fix."""
    raise error(with_location(what, where(), advice)) from None


def located(error: SymgradError) -> SymgradError:
    """The same error with the user's line, if it does not say it yet."""
    text = str(error)
    if "\n  at " in text:
        return error
    head, _, advice = text.partition("\n  ")
    return type(error)(with_location(head, where(), advice))


def found(look_up: Callable[..., Any], *args: Any) -> Any:
    """What a table of functions holds; errors get the user's line."""
    try:
        return look_up(*args)
    except SymgradError as error:
        raise located(error) from None


def wrong_arguments(name: str) -> DtypeError:
    """The error for arguments that a function does not have, or a traced value where it needs a plain number."""
    return DtypeError(
        with_location(
            f"{name} cannot be traced with these arguments",
            where(),
            "Axes, shapes, shifts, counts and options must be plain Python values: write int(n) to use a traced "
            "number as one, and leave out arguments that NumPy rarely needs.",
        )
    )


def over() -> NoReturn:
    """Refuse a traced value that was kept after its trace."""
    refuse(
        "a traced value was used after its trace was over",
        "Do not keep traced values in globals, attributes or caches; return them from the function instead.",
    )
