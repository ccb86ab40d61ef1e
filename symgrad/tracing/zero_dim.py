"""Arrays without axes that can be written to: arguments and captured arrays."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..core.expr import Expr
from ..core.origin import user_origin
from ..errors import SymgradError
from ..ops.define import cast, lift
from .refusing import located
from .replacing import fitted
from .tracer import ArrayTracer, Tracer, unwrap
from .values import written_value


class ZeroDim(Tracer):
    """An array without axes. NumPy's scalars are no such thing: they cannot be written to."""

    __slots__ = ("was_written",)
    __hash__ = Tracer.__hash__

    def __init__(self, expr: Expr) -> None:
        super().__init__(expr)
        self.was_written = False

    def overwrite(self, value: Any, what: str = "the value") -> None:
        """Replace the element, by NumPy's rules for casting."""
        new = lift(unwrap(written_value(value, self.dtype)), self._expr.table)
        if not np.can_cast(new.dtype, self.dtype, "same_kind") and not new.aval.weak:
            raise TypeError(
                f"{what} has dtype {new.dtype}, which does not fit into an array of dtype {self.dtype}"
            )
        self._write(new)

    def _write(self, new: Expr) -> None:
        self._expr = fitted(cast(new, self.dtype), ())
        self.was_written = True

    def copy(self, **_: Any) -> Any:
        """``ndarray.copy``."""
        return ZeroDim(self._expr)

    def fill(self, value: Any) -> None:
        """``ndarray.fill``."""
        self[()] = value

    def __getitem__(self, key: Any) -> Any:
        if key is Ellipsis or key == (Ellipsis,):
            return self
        return self.__getattr__("__getitem__")(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is not Ellipsis and key not in ((), (Ellipsis,)):
            raise IndexError("too many indices for array: array is 0-dimensional")
        table = self._expr.table
        table.origin = user_origin(1)
        try:
            self._write(lift(unwrap(written_value(value, self.dtype)), table))
        except SymgradError as error:
            raise located(error) from None

    def __pos__(self) -> Any:
        return Tracer(self._expr)

    __iadd__, __isub__, __imul__ = ArrayTracer.__iadd__, ArrayTracer.__isub__, ArrayTracer.__imul__
    __itruediv__, __ipow__ = ArrayTracer.__itruediv__, ArrayTracer.__ipow__
    __ifloordiv__, __imod__ = ArrayTracer.__ifloordiv__, ArrayTracer.__imod__
    __iand__, __ior__, __ixor__ = ArrayTracer.__iand__, ArrayTracer.__ior__, ArrayTracer.__ixor__


WRITABLE: Final = (ArrayTracer, ZeroDim)
"""What arrays are while traced: they remember whether they were written to."""
