"""Functions on functions: compile, grad, value_and_grad, vjp, jvp, stop_gradient."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, overload

from ..core.pytree import map_leaves
from ..ops.control import stop_gradient as stop_gradient_op
from ..runtime import functional, pullbacks
from ..runtime.compiled import Compiled, parameter_names
from ..runtime.settings import Backend, Policy
from ..runtime.titles import derivative_titles
from ..tracing.trace import active_table
from ..tracing.tracer import Tracer, record

Function = Callable[..., Any]


def _check_callable(f: Any, name: str) -> None:
    if not callable(f):
        raise TypeError(f"{name} takes a function, not {type(f).__name__}")


def _unwrapped(f: Any) -> Function:
    """The function behind a compiled one: inside a trace it would inline anyway."""
    return f._function if isinstance(f, Compiled) else f


@overload
def compile(
    f: Function, *, backend: Backend | None = None, static_argnums: int | Sequence[int] = (),
    compile: Policy | None = None,
) -> Compiled: ...
@overload
def compile(
    f: None = None, *, backend: Backend | None = None, static_argnums: int | Sequence[int] = (),
    compile: Policy | None = None,
) -> Callable[[Function], Compiled]: ...
def compile(
    f: Function | None = None, *, backend: Backend | None = None, static_argnums: int | Sequence[int] = (),
    compile: Policy | None = None,
) -> Any:
    """Compile a function over NumPy arrays and numbers.

    Parameters
    ----------
    f
        Takes and returns pytrees (tuples, lists, dicts, namedtuples, dataclasses) of arrays and numbers. It
        is traced once for every structure and types of its arguments. Without it, a decorator is returned.
    backend
        ``"c"``: compile at the first call. ``"numpy"``: generated NumPy code. ``"auto"``: answer the first
        call from NumPy and build C when the function is called again. The default is the setting in force,
        see :func:`config`.
    static_argnums
        Positions of arguments that are not traced: options, strings, sizes. They must be hashable; another
        value is another trace.
    compile
        Who waits for the C compiler under ``backend="auto"``: the call that needs the code (``"sync"``), or
        nobody, as NumPy answers until it is there (``"background"``); with ``"never"`` only code compiled
        earlier is used. ``"auto"`` waits for code of up to 2,000 operations. The default is the setting in force.

    Returns
    -------
    Compiled
        Called like ``f``; also has ``source``, ``graph``, ``cache_info`` and ``stats``.

    Raises
    ------
    TypeError
        If ``f`` is not callable.
    ValueError
        If there is no such backend, or no such way to wait.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> f = sg.compile(lambda x: np.sum(x**2), backend="numpy")
    >>> f(np.array([1.0, 2.0]))
    np.float64(5.0)
    """

    def compiled(f: Function) -> Compiled:
        _check_callable(f, "compile")
        if isinstance(f, Compiled):
            return Compiled(f._function, f.__wrapped__, backend, static_argnums or f._static, f._titles, compile)
        return Compiled(f, None, backend, static_argnums, policy=compile)

    return compiled if f is None else compiled(f)


def value_and_grad(
    f: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False, allow_int: bool = False
) -> Compiled:
    """Value and gradient of a scalar function, computed together.

    Parameters
    ----------
    f
        Returns a scalar; with ``has_aux`` a pair of a scalar and anything else.
    argnums
        Which positional arguments to differentiate: a position, or several.
    has_aux
        ``f`` returns ``(value, aux)``; then ``((value, aux), gradient)`` is returned.
    allow_int
        Integer arrays get a gradient of zeros instead of an error.

    Returns
    -------
    Compiled
        ``(value, gradient)``; the gradient has the structure, shapes and dtypes of the argument, and is a
        tuple if ``argnums`` is a sequence.

    Raises
    ------
    ShapeError
        When called, if the value is no scalar.
    DtypeError
        When called, if an argument or the value has no derivative.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """
    _check_callable(f, "value_and_grad")
    names = functools.partial(parameter_names, getattr(f, "__wrapped__", f))
    inner = functional.value_and_grad_of(_unwrapped(f), argnums, has_aux, names, allow_int)
    titles = derivative_titles(f, argnums, names, with_value=True)
    return Compiled(inner, f, static_argnums=getattr(f, "_static", ()), titles=titles)


def grad(
    f: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False, allow_int: bool = False
) -> Compiled:
    """Gradient of a scalar function.

    Parameters
    ----------
    f, argnums, has_aux, allow_int
        As for :func:`value_and_grad`.

    Returns
    -------
    Compiled
        The gradient; with ``has_aux`` the pair ``(gradient, aux)``. It can be differentiated again.

    Raises
    ------
    ShapeError, DtypeError
        As for :func:`value_and_grad`.

    Examples
    --------
    >>> import symgrad as sg
    >>> sg.grad(lambda x: x**3)(2.0)
    12.0
    >>> sg.grad(sg.grad(lambda x: x**3))(2.0)
    12.0
    """
    _check_callable(f, "grad")
    names = functools.partial(parameter_names, getattr(f, "__wrapped__", f))
    inner = functional.value_and_grad_of(_unwrapped(f), argnums, has_aux, names, allow_int)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        head, result = inner(*args, **kwargs)
        return (result, head[1]) if has_aux else result

    titles = derivative_titles(f, argnums, names, with_value=False)
    return Compiled(gradient, f, static_argnums=getattr(f, "_static", ()), titles=titles)


_pullbacks: weakref.WeakKeyDictionary[Any, Compiled] = weakref.WeakKeyDictionary()
_pushforwards: weakref.WeakKeyDictionary[Any, Compiled] = weakref.WeakKeyDictionary()


def vjp(f: Function, *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Value of a function, and the pullback of its derivative there.

    Parameters
    ----------
    f
        Any outputs.
    *primals
        Its arguments.

    Returns
    -------
    value
        ``f(*primals)``.
    pullback
        Takes a cotangent of the structure and shapes of the value and returns a tuple with one cotangent for
        each argument. It belongs to this very run of ``f``: nothing is run again, and what changes later, in
        the arguments or in captured values, is not seen.

    Raises
    ------
    ShapeError
        If the cotangent does not fit the value.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> value, pullback = sg.vjp(lambda x: x**2, np.array([1.0, 2.0]))
    >>> pullback(np.array([1.0, 10.0]))
    (array([ 2., 40.]),)
    """
    _check_callable(f, "vjp")
    names = functools.partial(parameter_names, getattr(f, "__wrapped__", f))
    if active_table() is not None:
        made = pullbacks.linearised(_unwrapped(f), primals, names(len(primals)))
        return made.value, made.pull
    compiled = _recall(_pullbacks, f)
    if compiled is None:
        compiled = Compiled(pullbacks.value_and_pullback_of(_unwrapped(f), names), f)
        _remember(_pullbacks, f, compiled)
    value, residuals, moved = compiled(*primals)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        """Cotangents of the arguments from one of the value."""
        cotangents: tuple[Any, ...] = moved(residuals, cotangent)
        return cotangents

    return value, pullback


def _remember(cache: Any, f: Any, made: Any) -> None:
    """Keep what was compiled for a function as long as the function lives."""
    # Some callables cannot be keys: they are compiled at each call of the transform.
    with contextlib.suppress(TypeError):
        cache[f] = made


def _recall(cache: Any, f: Any) -> Any:
    with contextlib.suppress(TypeError):
        return cache.get(f)
    return None


def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Value of a function and its directional derivative, in forward mode.

    Parameters
    ----------
    f
        Any outputs.
    primals
        Its arguments, as a tuple or list.
    tangents
        A direction: of the same structure and shapes.

    Returns
    -------
    value, tangent
        ``f(*primals)``, and its derivative along the direction.

    Raises
    ------
    ShapeError
        If the tangents do not fit the primals.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.jvp(np.sin, (0.0,), (2.0,))
    (np.float64(0.0), np.float64(2.0))
    """
    _check_callable(f, "jvp")
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError("primals and tangents must be tuples or lists with one entry for each argument")
    run = _unwrapped(f)
    if active_table() is not None:
        return functional.jvp_of(
            run, primals, tangents, parameter_names(getattr(f, "__wrapped__", f), len(primals))
        )
    compiled = _recall(_pushforwards, f)
    if compiled is None:

        def call(primals: Any, tangents: Any) -> Any:
            names = parameter_names(getattr(f, "__wrapped__", f), len(primals))
            return functional.jvp_of(run, primals, tangents, names)

        compiled = Compiled(call, f)
        _remember(_pushforwards, f, compiled)
    result: tuple[Any, Any] = compiled(tuple(primals), tuple(tangents))
    return result


def stop_gradient(x: Any) -> Any:
    """The same value, held constant by every derivative.

    Parameters
    ----------
    x
        A pytree of arrays and numbers.

    Returns
    -------
    pytree
        Equal to ``x``.

    Examples
    --------
    >>> import symgrad as sg
    >>> sg.grad(lambda x: x * sg.stop_gradient(x))(3.0)
    3.0
    """

    def stop(leaf: Any) -> Any:
        if not isinstance(leaf, Tracer):
            return leaf
        return record(stop_gradient_op, (leaf,))

    return map_leaves(stop, x)
