"""Comparing reverse, forward and second derivatives with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.graph import Graph
from ..core.pytree import flatten
from .blame import find_blame
from .problem import Problem, Tangent, quietly, symmetric
from .report import CheckReport
from .survey import Survey

METHODS = ("auto", "central", "complex")
MODES = ("reverse", "forward")

_CONVENTION = """\
{name} is symmetric, and along symmetric perturbations the derivative is right: functions of symmetric
  matrices (cholesky, eigh) read one triangle only, while their gradient is spread over both.
  Check it with tangents=[…] and symgrad.checking.problem.{hook} for {name}."""


def check_derivatives(
    *,
    value: Callable[..., Any],
    args: Sequence[Any],
    reverse: Callable[..., Sequence[Any]] | None = None,
    forward: Callable[[list[Any]], Any] | None = None,
    second: Callable[[list[Any]], Sequence[Any]] | None = None,
    names: Sequence[str] | None = None,
    argnums: Sequence[int] | None = None,
    order: int = 1,
    modes: Sequence[str] = MODES,
    method: str = "auto",
    tangents: Sequence[Tangent | None] | None = None,
    graph: Graph | None = None,
    function: str = "f",
    limit: int = 2000,
    raising: bool = True,
) -> CheckReport:
    """Compare derivatives with finite differences.

    What is differentiated are the floating-point leaves of ``args[k]`` for k in ``argnums``, in the order in
    which they stand in ``args``. Functions of any number of outputs are checked through their sum weighted by
    :func:`symgrad.checking.problem.cotangents`.

    Parameters
    ----------
    value
        ``value(*args)``: a scalar or a tree of arrays.
    args
        Where to check.
    reverse
        ``reverse(*args)``: the gradient of the weighted sum, one array (or None for zeros) a leaf. It is also
        called at other points for second derivatives.
    forward
        ``forward(tangents)``: the derivative of the weighted sum at ``args`` along one array a leaf.
    second
        ``second(tangents)``: the derivative of ``reverse`` at ``args`` along one array a leaf, one array (or
        None) a leaf.
    names
        One name a leaf.
    argnums
        Arguments that are differentiated; by default all.
    order
        1 or 2: up to which order to check.
    modes
        Any of ``"reverse"`` and ``"forward"``.
    method
        ``"auto"`` looks at each derivative with few evaluations and closer where they do not settle it;
        ``"central"`` always looks closely; ``"complex"`` steps into the complex plane first, which is exact
        for analytic functions that take complex numbers.
    tangents
        One projection of perturbations a leaf, or None: :func:`symgrad.checking.problem.symmetric` for
        arguments that must stay symmetric.
    graph
        The traced function, with one input for each leaf of ``args``: names the operation to blame.
    function
        Name for messages.
    limit
        Up to how many coordinates all are checked one by one; beyond, a sample of them and random directions.
    raising
        False returns the report of a failed check instead of raising.

    Returns
    -------
    CheckReport

    Raises
    ------
    GradientMismatch
        Naming the worst coordinate, both values, errors, step, mode, and the operation and line to blame.

    Examples
    --------
    >>> import numpy as np
    >>> def loss(x):
    ...     return np.sum(np.sin(x))
    >>> report = check_derivatives(
    ...     value=loss,
    ...     args=(np.array([0.5, 1.0]),),
    ...     reverse=lambda x: [np.cos(x)],
    ...     modes=("reverse",),
    ...     names=["x"],
    ... )
    >>> report.ok, [row.name for row in report.rows]
    (True, ['x[0]', 'x[1]', 'direction 1'])
    """
    _validate(order, modes, method, reverse, forward, second)
    problem = Problem(value, args, names, argnums, tangents)
    survey = Survey(problem, reverse, forward, modes, method, limit)
    with quietly():
        rows = survey.first_order()
        if order == 2 and not any(row.verdict == "mismatch" for row in rows):
            assert reverse is not None
            assert second is not None
            rows += survey.second_order(reverse, second)
    report = CheckReport(function, tuple(rows), problem.size)
    if not report.ok:
        report = _explained(report, problem, survey, args, graph)
    if raising:
        report.raise_if_wrong()
    return report


def _validate(
    order: int,
    modes: Sequence[str],
    method: str,
    reverse: Callable[..., Any] | None,
    forward: Callable[..., Any] | None,
    second: Callable[..., Any] | None,
) -> None:
    if order not in (1, 2):
        raise ValueError(f"order is 1 or 2, not {order!r}")
    if method not in METHODS:
        raise ValueError(f"method is one of {', '.join(METHODS)}, not {method!r}")
    if not modes or any(mode not in MODES for mode in modes):
        raise ValueError(f"modes holds some of {', '.join(MODES)}, not {modes!r}")
    given = {"reverse": reverse, "forward": forward}
    missing = [mode for mode in modes if given[mode] is None]
    if order == 2:
        missing += [name for name, f in (("reverse", reverse), ("second", second)) if f is None]
    if missing:
        raise ValueError(f"this check needs {' and '.join(dict.fromkeys(missing))}")


def _explained(
    report: CheckReport, problem: Problem, survey: Survey, args: Sequence[Any], graph: Graph | None
) -> CheckReport:
    """Add what may explain the mismatch: an operation, or a convention."""
    with quietly():
        blame = None if graph is None else find_blame(graph, flatten(tuple(args))[0])
        leaf = survey.symmetric_explanation(report.mismatches)
    advice = ""
    if leaf is not None:
        advice = _CONVENTION.format(name=problem.names[leaf], hook=symmetric.__name__)
    return CheckReport(report.function, report.rows, report.coordinates, blame, advice)
