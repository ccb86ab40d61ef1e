"""The errors and warnings that symgrad raises.

Each class also inherits the builtin one a caller would expect, so ``except ValueError`` keeps working.
A message says what happened, where in the user's file, and what to write instead.
"""

from __future__ import annotations


class SymgradError(Exception):
    """Base class of all errors raised by symgrad."""


class TraceError(SymgradError):
    """The function does something that cannot be recorded while it is traced."""


class ShapeError(SymgradError, ValueError):
    """Shapes, axes or sizes do not fit together."""


class DtypeError(SymgradError, TypeError):
    """A dtype or a kind of object cannot be used here."""


class NotDifferentiableError(SymgradError, TypeError):
    """A derivative was asked for where none is defined."""


class UnsupportedOperationError(SymgradError, NotImplementedError):
    """NumPy has this function, symgrad does not know it."""


class CompilerError(SymgradError, RuntimeError):
    """The C compiler is missing, failed, or produced something unusable."""


class GradientMismatch(SymgradError, AssertionError):
    """A derivative disagrees with finite differences."""


class SymgradWarning(UserWarning):
    """Base class of all warnings issued by symgrad."""


class RetraceWarning(SymgradWarning):
    """A function is traced again more often than it should be."""


class NumericalWarning(SymgradWarning):
    """A derivative was asked for at a point where it is not finite or not defined."""


class PerformanceWarning(SymgradWarning):
    """Something is right but much slower than it could be."""


class SideEffectWarning(SymgradWarning):
    """Something outside the function was read or changed while it was traced."""


class CompilerWarning(SymgradWarning):
    """C code cannot be built or cached; the NumPy backend answers instead."""


def with_location(what: str, where: str, advice: str) -> str:
    """Join the three parts of a message: what happened, where, and what to do."""
    parts = [what]
    if where:
        parts.append(f"  at {where}")
    if advice:
        parts.append(f"  {advice}")
    return "\n".join(parts)
