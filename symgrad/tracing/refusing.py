"""Errors that show the user's line and what to write instead."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from ..core.expr import InternTable
from ..core.origin import Origin, library_call, raised_at, raises_itself, user_origin
from ..errors import (
    DtypeError,
    SideEffectWarning,
    SymgradError,
    TraceError,
    UnsupportedOperationError,
    with_location,
)
from .state import Trace, active_trace, running

_LASTING = (TraceError, UnsupportedOperationError, DtypeError)
_OURS = re.compile(r"\b(Array)?Tracer\b")
_shown: dict[Any, Any] = {}


def where() -> str:
    """The user's line, for messages."""
    origin = user_origin(2)
    return str(origin) if origin else ""


def refuse(what: str, advice: str, error: type[SymgradError] = TraceError) -> NoReturn:
    """Raise an error that shows the user's line and the fix."""
    raise remembered(error(with_location(what, where(), advice))) from None


def refuse_conversion(what: str, advice: str) -> NoReturn:
    """Refuse to make a plain number or array; the error names the library function that wanted one."""
    called = library_call(2)
    if not called:
        refuse(what, advice)
    refuse(
        f"{called} cannot be traced: in it, {what}",
        "It is not supported for differentiation: write it with NumPy functions, or call it outside of the traced "
        f"function. {advice}",
    )


def remembered(error: SymgradError) -> SymgradError:
    """The same error, which is raised again at the end of the trace where the user's code catches it.

    What stands behind an ``except`` runs for a value that NumPy would have taken: its result is not what the
    function gives without symgrad.
    """
    trace = active_trace()
    if trace is not None and _is_lasting(error):
        trace.refused.append(error)
    return error


def _is_lasting(error: SymgradError) -> bool:
    """Whether NumPy would have gone on where this error is raised."""
    return isinstance(error, _LASTING) and not isinstance(error, ArithmeticError)


def located(error: SymgradError) -> SymgradError:
    """The same error with the user's line, if it does not say it yet."""
    text = str(error)
    if "\n  at " not in text:
        head, _, advice = text.partition("\n  ")
        error = type(error)(with_location(head, where(), advice))
    return remembered(error)


def found(look_up: Callable[..., Any], *args: Any) -> Any:
    """What a table of functions holds; errors get the user's line."""
    try:
        return look_up(*args)
    except SymgradError as error:
        raise located(error) from None


def wrong_arguments(name: str) -> DtypeError:
    """The error for arguments that a function does not have, or a traced value where it needs a plain number."""
    error = DtypeError(
        with_location(
            f"{name} cannot be traced with these arguments",
            where(),
            "Axes, shapes, shifts, counts and options must be plain Python values: write int(n) to use a traced "
            "number as one, and leave out arguments that NumPy rarely needs.",
        )
    )
    remembered(error)
    return error


def over(table: InternTable) -> NoReturn:
    """Refuse a traced value that was kept after its trace, or is used on a thread that does not trace."""
    trace = running(table)
    if trace is not None:
        error = TraceError(
            with_location(
                "a traced value was used on another thread", where(), "Call the function without threads."
            )
        )
        trace.refused.append(error)
        raise error
    refuse(
        "a traced value was used after its trace was over",
        "Do not keep traced values in globals, attributes or caches; return them from the function instead.",
    )


def explained(error: Exception, trace: Trace) -> Exception:
    """What the user should see of an exception that ends a trace."""
    # NumPy chains our error behind one of its own, C code drops it.
    own = raises_itself(error.__traceback__)
    for cause in (error.__cause__, error.__context__, *trace.refused[-1:]):
        # NumPy would have raised the others, too: what the user's code makes of them stands.
        if isinstance(cause, SymgradError) and (_is_lasting(cause) or not own):
            return cause
    if _OURS.search(str(error)) and not isinstance(error, AttributeError):
        origin = raised_at(error.__traceback__)
        kind = DtypeError if isinstance(error, TypeError) else TraceError
        return kind(
            with_location(
                f"a traced value was used where only a plain number or array will do: {error}",
                str(origin) if origin else "",
                "Write it with NumPy functions, or call it outside of the traced function.",
            )
        )
    # The user's own exception: what it carries is plain, as it would have been without symgrad.
    _make_plain(error, trace)
    return error


def _make_plain(error: BaseException, trace: Trace) -> None:
    """What an exception carries, and those that it came from, with the values of this trace."""
    chain: list[BaseException | None] = [error]
    done: set[int] = set()
    while chain:
        link = chain.pop()
        if link is not None and id(link) not in done:
            done.add(id(link))
            link.args = tuple([_plain(a, trace, link is error) for a in link.args])
            carried = vars(link)
            for name, value in carried.items():
                carried[name] = _plain(value, trace, False)
            chain += [link.__cause__, link.__context__]


def _plain(value: Any, trace: Trace, strict: bool) -> Any:
    return value if trace.space is None else trace.space.plain(value, strict)


def warn_at(text: str, origin: Origin | None) -> None:
    """Issue a SideEffectWarning at a line of the user's."""
    if origin is None:
        warnings.warn(SideEffectWarning(text), stacklevel=3)
    else:
        warnings.warn_explicit(SideEffectWarning(text), None, origin.filename, origin.lineno, registry=_shown)


def tell(notes: dict[str, Origin | None]) -> None:
    """Warn about what was noted in a trace."""
    for what, origin in notes.items():
        warn_at(
            f"{what}\n  The text shows the value at the time of tracing, at every call. Make it outside of the traced "
            "function.",
            origin,
        )
