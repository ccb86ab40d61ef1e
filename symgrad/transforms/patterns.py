"""Patterns of rewrite rules: expressions with variables, parsed from text and matched against nodes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.expr import CONST, Expr
from ..core.op import OPS, Op
from ..errors import SymgradError


@dataclass(frozen=True)
class Pattern:
    """A node of a parsed rule: an op on patterns, a variable, or a number."""

    op: Op | None = None
    args: tuple[Pattern, ...] = ()
    variable: str = ""
    number: float | bool | None = None


_BINARY: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
    ast.BitAnd: "logical_and",
    ast.BitOr: "logical_or",
    ast.MatMult: "matmul",
}
_COMPARE: dict[type, str] = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}


def parse(text: str) -> Pattern:
    """Parse a pattern.

    Examples
    --------
    >>> parse("x * 1").op
    <op multiply>
    """
    return _convert(ast.parse(text, mode="eval").body)


def _convert(node: ast.expr) -> Pattern:
    if isinstance(node, ast.Name):
        return Pattern(variable=node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        return Pattern(number=node.value)
    if isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return Pattern(number=-float(node.operand.value))  # type: ignore[arg-type]  # a number in a rule
        return Pattern(
            OPS["negative" if isinstance(node.op, ast.USub) else "logical_not"], (_convert(node.operand),)
        )
    if isinstance(node, ast.BinOp):
        return Pattern(OPS[_BINARY[type(node.op)]], (_convert(node.left), _convert(node.right)))
    if isinstance(node, ast.Compare):
        return Pattern(OPS[_COMPARE[type(node.ops[0])]], (_convert(node.left), _convert(node.comparators[0])))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return Pattern(OPS[node.func.id], tuple(_convert(a) for a in node.args))
    raise SymgradError(f"a rule cannot contain {ast.unparse(node)}")


Bindings = dict[str, Expr]
Matcher = Callable[[Expr, Bindings], bool]


def match(pattern: Pattern, node: Expr, bindings: Bindings) -> bool:
    """Match a pattern at a node; on success ``bindings`` holds the variables."""
    return matcher(pattern)(node, bindings)


def matcher(pattern: Pattern) -> Matcher:
    """A pattern as a function: the patterns of all rules are tried on all nodes."""
    if pattern.variable:
        return _variable_matcher(pattern.variable)
    if pattern.op is None:
        return _number_matcher(pattern.number)
    return _op_matcher(pattern, pattern.op)


def _variable_matcher(name: str) -> Matcher:
    def matches(node: Expr, bindings: Bindings) -> bool:
        return bindings.setdefault(name, node) is node

    return matches


def _number_matcher(number: float | bool | None) -> Matcher:
    negative_zero = number == 0 and np.signbit(number)

    def matches(node: Expr, bindings: Bindings) -> bool:  # noqa: ARG001 - one signature for all matchers
        if node.op is not CONST:
            return False
        found = node.params[0][1].number
        if found is None or found != number or isinstance(found, bool) != isinstance(number, bool):
            return False
        # 0.0 and -0.0 are different numbers for a rule that must be exact.
        return number != 0 or isinstance(found, (bool, int)) or bool(np.signbit(found)) == negative_zero

    return matches


def _op_matcher(pattern: Pattern, op: Op) -> Matcher:
    inner = [matcher(a) for a in pattern.args]
    count = len(inner)
    if count == 2 and pattern.args[0].variable and pattern.args[0].variable == pattern.args[1].variable:
        return _twice_matcher(op, pattern.args[0].variable)

    def matches(node: Expr, bindings: Bindings) -> bool:
        args = node.args
        if node.op is not op or len(args) != count:
            return False
        before = bindings.copy()
        for match_arg, a in zip(inner, args, strict=True):
            if not match_arg(a, bindings):
                break
        else:
            return True
        _restore(bindings, before)
        if not op.commutative:
            return False
        if inner[0](args[1], bindings) and inner[1](args[0], bindings):
            return True
        _restore(bindings, before)
        return False

    return matches


def _twice_matcher(op: Op, name: str) -> Matcher:
    """An op on one node twice: most nodes that it is tried on have different operands."""

    def matches(node: Expr, bindings: Bindings) -> bool:
        args = node.args
        return (
            node.op is op and len(args) == 2 and args[0] is args[1]
            and bindings.setdefault(name, args[0]) is args[0]
        )

    return matches


def _restore(bindings: Bindings, before: Bindings) -> None:
    bindings.clear()
    bindings.update(before)
