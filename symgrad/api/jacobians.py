"""Jacobians and Hessians."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..runtime.compiled import Compiled, parameter_names
from ..runtime.jacobians import jacobian_of
from .transforms import grad

Function = Callable[..., Any]
Mode = Literal["auto", "forward", "reverse"]


def jacobian(f: Function, argnums: int | Sequence[int] = 0, *, mode: Mode = "auto") -> Compiled:
    """Jacobian of a function with array outputs, as dense arrays.

    Its program holds one copy of the derivative for each row (or column), shared where they agree: made for
    up to some hundred rows or columns.

    Parameters
    ----------
    f
        Returns an array, or a pytree of arrays.
    argnums
        Which positional arguments to differentiate: a position, or several.
    mode
        ``"reverse"`` goes row by row, ``"forward"`` column by column, ``"auto"`` takes the smaller number.

    Returns
    -------
    Compiled
        For each output the structure of the argument, with arrays of shape ``output.shape + argument.shape``;
        a tuple of them if ``argnums`` is a sequence.

    Raises
    ------
    ValueError
        If there is no such mode.
    DtypeError
        When called, if an argument or an output has no derivative.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    if not callable(f):
        raise TypeError(f"jacobian takes a function, not {type(f).__name__}")
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f"mode must be 'auto', 'forward' or 'reverse', not {mode!r}")
    run = f._function if isinstance(f, Compiled) else f
    names = functools.partial(parameter_names, getattr(f, "__wrapped__", f))
    return Compiled(jacobian_of(run, argnums, mode, names), f, static_argnums=getattr(f, "_static", ()))


def hessian(f: Function, argnums: int = 0) -> Compiled:
    """Hessian of a scalar function, as a dense array: the Jacobian of its gradient.

    Parameters
    ----------
    f
        Returns a scalar.
    argnums
        Which positional argument to differentiate twice.

    Returns
    -------
    Compiled
        An array of shape ``argument.shape + argument.shape``; for a pytree the structure of the argument
        twice.

    Raises
    ------
    ShapeError, DtypeError
        When called, as for :func:`grad`.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    return jacobian(grad(f, argnums), argnums)
