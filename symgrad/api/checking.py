"""Checking derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.aval import aval_of
from ..core.lazy import lazy_import
from ..core.pytree import flatten, leaf_names, unflatten
from ..runtime.compiled import Compiled, parameter_names
from ..tracing.namespace import bound
from ..tracing.trace import trace_flat
from .transforms import jvp, vjp

if TYPE_CHECKING:
    from ..checking import check, problem
    from ..checking.report import CheckReport
else:
    # Checking is loaded when the first function is checked.
    check = lazy_import("symgrad.checking.check")
    problem = lazy_import("symgrad.checking.problem")

Function = Callable[..., Any]
MODES = ("reverse", "forward")


class _Leaves:
    """A function of the floating-point leaves of its arguments; all else is held as given."""

    def __init__(self, f: Function, args: tuple[Any, ...]) -> None:
        self.f = f
        self.leaves, self.structure = flatten(args)
        self.moving = [k for k, leaf in enumerate(self.leaves) if problem.is_float(leaf)]

    def of(self, args: tuple[Any, ...]) -> list[Any]:
        """The floating-point leaves of other arguments."""
        leaves, _ = flatten(args)
        return [leaves[k] for k in self.moving]

    def __call__(self, *floats: Any) -> Any:
        leaves = list(self.leaves)
        for k, leaf in zip(self.moving, floats, strict=True):
            leaves[k] = leaf
        return bound(self.f)(*unflatten(self.structure, leaves))


def check_grads(
    f: Function,
    args: Sequence[Any],
    *,
    order: int = 2,
    modes: Sequence[str] = MODES,
    method: str = "auto",
    tangents: Sequence[Any] | None = None,
) -> CheckReport:
    """Compare the derivatives of a function with finite differences.

    Parameters
    ----------
    f
        A function over NumPy arrays and numbers; several outputs are checked through a weighted sum.
    args
        Where to check: a tuple or list with one entry for each argument. All floating-point numbers and
        arrays in it are varied.
    order
        1: first derivatives; 2: second derivatives too.
    modes
        Which of ``"reverse"`` and ``"forward"`` to check.
    method
        ``"auto"``, ``"central"``, or ``"complex"`` for functions that take complex numbers.
    tangents
        For each floating-point leaf None or a function that projects a perturbation, for arguments that must
        keep a property (symmetric matrices).

    Returns
    -------
    CheckReport
        Prints as a table of coordinates, derivatives, differences and verdicts.

    Raises
    ------
    GradientMismatch
        Naming the worst coordinate, both values, errors and step, and the operation and line to blame.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.check_grads(lambda x: np.sum(np.sin(x)), (np.array([0.5, 1.0]),)).ok
    True
    """
    return _check(f, args, order, modes, method, tangents, raising=True)


def check_report(f: Function, args: Sequence[Any], *, order: int = 2, modes: Sequence[str] = MODES) -> str:
    """The table of :func:`check_grads`, and a picture of the error against the step for the worst coordinate.

    Parameters
    ----------
    f, args, order, modes
        As for :func:`check_grads`; a derivative that is wrong is shown, not raised.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> "ok" in sg.check_report(lambda x: x**2, (3.0,))
    True
    """
    report = _check(f, args, order, modes, "auto", None, raising=False)
    return f"{report}\n\n{report.picture()}"


def _check(
    f: Function,
    args: Sequence[Any],
    order: int,
    modes: Sequence[str],
    method: str,
    tangents: Any,
    raising: bool,
) -> CheckReport:
    if not callable(f):
        raise TypeError(f"a function is checked, not {type(f).__name__}")
    if not isinstance(args, (tuple, list)):
        raise TypeError(
            "args must be a tuple or list with one entry for each argument, as in check_grads(f, (x,))"
        )
    args = tuple(args)
    plain = f.__wrapped__ if isinstance(f, Compiled) and f._function is f.__wrapped__ else f
    on_leaves = _Leaves(f, args)
    floats = on_leaves.of(args)
    weights = problem.cotangents(on_leaves(*floats))

    def gradient(*leaves: Any) -> tuple[Any, ...]:
        return vjp(on_leaves, *leaves)[1](weights)

    def reverse(*other: Any) -> list[Any]:
        return list(gradient(*on_leaves.of(other)))

    def forward(directions: list[Any]) -> float:
        _, tangent = jvp(on_leaves, floats, _as_given(directions, floats))
        pairs = zip(flatten(tangent)[0], flatten(weights)[0], strict=True)
        return float(sum(np.sum(np.multiply(t, w)) for t, w in pairs))

    def second(directions: list[Any]) -> list[Any]:
        return list(jvp(gradient, floats, _as_given(directions, floats))[1])

    names = _leaf_names(f, args)
    everything = flatten(args)[0]
    graph, _ = trace_flat(
        lambda *leaves: bound(f)(*unflatten(on_leaves.structure, leaves)),
        [aval_of(x) for x in everything],
        names,
        getattr(f, "__name__", "f"),
        [np.asarray(x)[()] for x in everything],
    )
    return check.check_derivatives(
        value=plain,
        args=args,
        reverse=reverse,
        forward=forward,
        second=second if order > 1 else None,
        names=[names[k] for k in on_leaves.moving],
        order=order,
        modes=modes,
        method=method,
        tangents=tangents,
        graph=graph,
        function=getattr(f, "__name__", "f"),
        raising=raising,
    )


def _as_given(directions: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """Directions in the types of the leaves, so that nothing is traced again."""
    return [
        float(d)
        if isinstance(x, float) and not isinstance(x, np.generic)
        else np.asarray(d, np.asarray(x).dtype)
        for d, x in zip(directions, leaves, strict=True)
    ]


def _leaf_names(f: Function, args: tuple[Any, ...]) -> list[str]:
    names: list[str] = []
    for a, name in zip(args, parameter_names(getattr(f, "__wrapped__", f), len(args)), strict=True):
        names.extend(leaf_names(a, name))
    return names
