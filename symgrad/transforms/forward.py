"""Forward mode: tangents of outputs from tangents of inputs, by the same rules as reverse mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.expr import Expr, reachable
from ..core.origin import derivative_origin
from ..ops.arithmetic import add
from ..ops.shaping import broadcast_to
from .reverse import pullback, transposed
from .support import Supports


def pushforward(
    outputs: Sequence[Expr], wrt: Sequence[Expr], tangents: Sequence[Expr | None]
) -> list[Expr | None]:
    """Tangents of ``outputs`` given those of ``wrt``.

    Parameters
    ----------
    outputs
        What was computed.
    wrt
        Where the tangents start.
    tangents
        One for each of ``wrt``, of its shape; None where it is structurally zero.

    Returns
    -------
    list
        One expression for each output, None where the tangent is structurally zero.
    """
    table = outputs[0].table
    supports = Supports()
    known: dict[int, Expr] = {x.id: t for x, t in zip(wrt, tangents, strict=True) if t is not None}
    for seed in known.values():
        supports.seed(seed)
    given = {x.id for x in wrt}
    for node in reachable(outputs):
        if node.id in given or not node.aval.is_float or node.op.kind in ("leaf", "nondiff"):
            continue
        incoming = [known.get(a.id) for a in node.args]
        if any(t is not None for t in incoming):
            table.origin = derivative_origin(table.origins.get(node.id))
            tangent = _push(node, incoming, supports)
            if tangent is not None:
                known[node.id] = _spread(tangent, node.shape)
                supports.carry(known[node.id])
    table.origin = None
    return [known.get(out.id) for out in outputs]


def _spread(x: Expr, shape: tuple[int, ...]) -> Expr:
    return x if x.shape == shape else broadcast_to(x, shape=shape)


def _push(node: Expr, tangents: list[Expr | None], supports: Supports) -> Expr | None:
    kind = node.op.kind
    params = dict(node.params)
    if kind == "elementwise":
        return _elementwise(node, tangents, params, supports)
    if kind == "custom":
        assert node.op.jvp is not None
        made: Expr | None = node.op.jvp(tuple(tangents), node, *node.args, **params)
        return made
    if kind == "bilinear":
        x, y = node.args
        parts = [node.op(tangents[0], y, **params)] if tangents[0] is not None else []
        parts += [node.op(x, tangents[1], **params)] if tangents[1] is not None else []
        return _sum(parts)
    return _linear(node, tangents, params, supports)


def _sum(parts: Sequence[Expr]) -> Expr | None:
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    return total


def _elementwise(
    node: Expr, tangents: Sequence[Expr | None], params: dict[str, Any], supports: Supports
) -> Expr | None:
    parts = []
    for tangent, partial in zip(tangents, node.op.partials, strict=True):
        if tangent is None or partial is None:
            continue
        slope = partial(node, *node.args, **params)
        if slope is not None:
            parts.append(supports.scale(tangent, slope))
    total = _sum(parts)
    if total is None or node.op.factor is None:
        return total
    for part in parts:
        supports.carry(part)
    supports.carry(total)
    return supports.scale(total, node.op.factor(node, *node.args, **params))


def _linear(
    node: Expr, tangents: Sequence[Expr | None], params: dict[str, Any], supports: Supports
) -> Expr | None:
    carrying = [k for k, a in enumerate(node.args) if _carries(node, k, a)]
    if all(tangents[k] is not None for k in carrying):
        mixed = [
            t if t is not None and k in carrying else a
            for k, (t, a) in enumerate(zip(tangents, node.args, strict=True))
        ]
        return node.op(*mixed, **params)
    # Some operands have no tangent. The op on the others alone is the transpose of its transpose.
    given = [k for k in carrying if tangents[k] is not None]
    if not given:
        return None
    seed = node.table.input(node.aval)
    passed = zip(transposed(node, seed, given), [tangents[k] for k in given], strict=True)
    pairs = [(back, _spread(t, back.shape)) for back, t in passed if back is not None and t is not None]
    if not pairs:
        return None
    for _, t in pairs:
        supports.carry(t)
    (total,) = pullback([back for back, _ in pairs], [t for _, t in pairs], [seed], supports)
    return total


def _carries(node: Expr, k: int, arg: Expr) -> bool:
    if not arg.aval.is_float:
        return False
    return node.op.variadic or node.op.transposes[k] is not None
