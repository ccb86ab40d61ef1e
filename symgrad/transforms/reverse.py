"""Reverse mode: from outputs and their cotangents to the cotangents of inputs, as new expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.expr import Expr, reachable
from ..core.op import Op
from ..core.origin import derivative_origin
from ..errors import NotDifferentiableError
from ..ops.shaping import unbroadcast
from .accumulate import accumulate
from .support import Supports


def pullback(
    outputs: Sequence[Expr],
    cotangents: Sequence[Expr | None],
    wrt: Sequence[Expr],
    supports: Supports | None = None,
) -> list[Expr | None]:
    """Cotangents of ``wrt`` given those of ``outputs``.

    Parameters
    ----------
    outputs
        What was computed.
    cotangents
        One for each output, of its shape; None where it is structurally zero.
    wrt
        The nodes to differentiate with respect to.
    supports
        Known supports, where this is part of a larger differentiation.

    Returns
    -------
    list
        One expression each, None where the cotangent is structurally zero.
    """
    if supports is None:
        supports = Supports()
        for ct in cotangents:
            if ct is not None:
                supports.seed(ct)
    engine = _Pullback(supports, {x.id for x in wrt})
    return engine.run(outputs, cotangents, wrt)


class _Pullback:
    def __init__(self, supports: Supports, wrt: set[int]) -> None:
        self.supports = supports
        self.wrt = wrt
        self.active: set[int] = set()
        self.pending: dict[int, list[Expr]] = {}

    def run(
        self, outputs: Sequence[Expr], cotangents: Sequence[Expr | None], wrt: Sequence[Expr]
    ) -> list[Expr | None]:
        nodes = reachable(outputs)
        self._mark(nodes)
        for out, ct in zip(outputs, cotangents, strict=True):
            if ct is not None and out.id in self.active:
                self.pending.setdefault(out.id, []).append(ct)
        found: dict[int, Expr] = {}
        table = outputs[0].table
        for node in reversed(nodes):
            parts = self.pending.pop(node.id, None)
            if parts is None:
                continue
            table.origin = derivative_origin(table.origins.get(node.id))
            ct = accumulate(parts)
            self.supports.carry(ct)
            if node.id in self.wrt:
                found[node.id] = ct
            elif node.args:
                self._push(node, ct)
        table.origin = None
        return [found.get(x.id) for x in wrt]

    def _mark(self, nodes: Sequence[Expr]) -> None:
        """Find the nodes through which a derivative can flow."""
        active = self.active
        for node in nodes:
            if node.id in self.wrt:
                active.add(node.id)
            elif node.aval.is_float and node.op.kind != "nondiff":
                for a in node.args:
                    if a.id in active:
                        active.add(node.id)
                        break

    def _push(self, node: Expr, ct: Expr) -> None:
        kind = node.op.kind
        if kind == "elementwise":
            self._push_elementwise(node, ct)
        elif kind == "custom":
            self._push_custom(node, ct)
        else:
            self._push_linear(node, ct)

    def _give(self, arg: Expr, ct: Expr) -> None:
        if ct.shape != arg.shape:
            ct = unbroadcast(ct, arg.shape)
        self.pending.setdefault(arg.id, []).append(ct)

    def _push_elementwise(self, node: Expr, ct: Expr) -> None:
        params = dict(node.params)
        if node.op.factor is not None:
            ct = self.supports.scale(ct, node.op.factor(node, *node.args, **params))
            self.supports.carry(ct)
        for arg, partial in zip(node.args, node.op.partials, strict=True):
            if arg.id not in self.active:
                continue
            if partial is None:
                if node.op.kind != "nondiff":
                    continue
                raise no_derivative(node.op)
            slope = partial(node, *node.args, **params)
            if slope is not None:
                self._give(arg, self.supports.scale(ct, slope))

    def _push_linear(self, node: Expr, ct: Expr) -> None:
        which = [k for k, arg in enumerate(node.args) if arg.id in self.active]
        for k, moved in zip(which, transposed(node, ct, which), strict=True):
            if moved is not None:
                self._give(node.args[k], moved)

    def _push_custom(self, node: Expr, ct: Expr) -> None:
        """Transpose the local jvp, which is linear in the tangents."""
        params = dict(node.params)
        table = node.table
        rules = node.op.transposes or (None,) * len(node.args)
        seeds: list[Expr | None] = []
        for arg, rule in zip(node.args, rules, strict=True):
            seeds.append(None)
            if arg.id not in self.active:
                continue
            if rule is None:
                seeds[-1] = table.input(arg.aval)
            else:
                self._give(arg, rule(ct, node, *node.args, **params))
        if not any(s is not None for s in seeds):
            return
        assert node.op.jvp is not None
        tangent = node.op.jvp(tuple(seeds), node, *node.args, **params)
        if tangent is None:
            return
        wanted = [s for s in seeds if s is not None]
        results = iter(pullback([tangent], [ct], wanted, self.supports))
        for arg, seed in zip(node.args, seeds, strict=True):
            moved = next(results) if seed is not None else None
            if moved is not None:
                self._give(arg, moved)


def transposed(node: Expr, ct: Expr, which: Sequence[int]) -> list[Expr | None]:
    """The cotangents that a linear op passes on to its arguments at some positions."""
    rules: Sequence[Any] = node.op.transposes
    params = dict(node.params)
    if node.op.variadic:
        passed: list[Expr | None] = rules[0](ct, node, node.args, which, **params)
        return passed
    return [None if rules[k] is None else rules[k](ct, node, *node.args, **params) for k in which]


def no_derivative(op: Op) -> NotDifferentiableError:
    """The error for an op without a derivative rule where one is needed."""
    return NotDifferentiableError(f"{op.name} has no derivative with respect to this argument")
