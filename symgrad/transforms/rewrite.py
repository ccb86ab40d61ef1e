"""The rewrite engine: rules as data, patterns in expression syntax, an iterative bottom-up driver."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from ..core.expr import CONST, Expr, InternTable, Params
from ..core.graph import Graph, rebuild
from ..core.op import OPS, Op
from ..errors import SymgradError
from ..ops.evaluate import evaluate
from ..ops.shaping import broadcast_to


class RuleClass(Enum):
    """What a rewrite preserves."""

    EXACT = "bit for bit on every double"
    MASKED = "exact zeros of derivative rules stay outermost"
    STABLE = "the same real function with no worse rounding or range"
    COST = "equal to rounding, cheaper"
    READABLE = "real algebra, for formulas"


Bindings = dict[str, Expr]


@dataclass(frozen=True)
class Rule:
    """One rewrite.

    Attributes
    ----------
    kind
        What it preserves.
    pattern
        What it matches: operations by name or operator, variables, numbers. A name that occurs twice must be
        the same node.
    result
        What it becomes, in the same syntax; or a function of the matched node and the bindings that returns
        an expression, or None where the rule does not apply.
    when
        A further condition on the bindings.
    operand
        Name of an op that an operand must have, where the pattern cannot say so.
    example, counterexample
        Expressions over x, y, c where it fires and where it must not, for the tests.
    """

    kind: RuleClass
    pattern: str
    result: str | Callable[..., Expr | None]
    when: Callable[[Bindings], bool] | None = None
    operand: str = ""
    example: str = ""
    counterexample: str = ""

    @property
    def name(self) -> str:
        """How hits are counted and reported."""
        return f"{self.pattern} -> {self.result if isinstance(self.result, str) else self.result.__name__}"

    @cached_property
    def tree(self) -> Pattern:
        """The parsed pattern."""
        return parse(self.pattern)

    @cached_property
    def matches(self) -> Matcher:
        """The pattern as a function of a node and the bindings to fill."""
        return matcher(self.tree)

    @cached_property
    def target(self) -> Pattern | None:
        """The parsed result, where it is written as an expression."""
        return parse(self.result) if isinstance(self.result, str) else None


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
            return Pattern(number=-float(node.operand.value))  # type: ignore[arg-type]
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
    return _op_matcher(pattern.op, [matcher(a) for a in pattern.args])


def _variable_matcher(name: str) -> Matcher:
    def matches(node: Expr, bindings: Bindings) -> bool:
        return bindings.setdefault(name, node) is node

    return matches


def _number_matcher(number: float | bool | None) -> Matcher:
    negative_zero = number == 0 and np.signbit(number)

    def matches(node: Expr, bindings: Bindings) -> bool:
        if node.op is not CONST:
            return False
        found = node.params[0][1].number
        if found is None or found != number or isinstance(found, bool) != isinstance(number, bool):
            return False
        # 0.0 and -0.0 are different numbers for a rule that must be exact.
        return number != 0 or isinstance(found, (bool, int)) or bool(np.signbit(found)) == negative_zero

    return matches


def _op_matcher(op: Op, inner: list[Matcher]) -> Matcher:
    count = len(inner)

    def matches(node: Expr, bindings: Bindings) -> bool:
        args = node.args
        if node.op is not op or len(args) != count:
            return False
        before = dict(bindings)
        if all([m(a, bindings) for m, a in zip(inner, args, strict=True)]):
            return True
        bindings.clear()
        bindings.update(before)
        if not op.commutative:
            return False
        if inner[0](args[1], bindings) and inner[1](args[0], bindings):
            return True
        bindings.clear()
        bindings.update(before)
        return False

    return matches


FOLD_LIMIT = 4096
"""Constants of more elements are not computed while rewriting."""

ROUNDS = 50
"""Rewrites of one node after which the rules involved are taken to ping-pong."""


@dataclass
class Rewriter:
    """Applies rules bottom-up until none fires.

    Attributes
    ----------
    rules
        The rules, in order of preference.
    hits
        How often each rule fired, by name.
    """

    rules: Sequence[Rule]
    hits: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        # Rules by the op they match and by an op that one of its operands must have.
        self._index: dict[str, dict[str, list[Rule]]] = {}
        for rule in self.rules:
            op = rule.tree.op
            if op is None:
                raise SymgradError(f"rule {rule.name!r} matches everything")
            self._index.setdefault(op.name, {}).setdefault(_telling_operand(rule), []).append(rule)
        self._settled: dict[int, Expr] = {}
        self._applying: list[str] = []

    def run(self, graph: Graph) -> Graph:
        """Rewrite a graph; the result is a fixpoint of the rules."""
        self._settled, self._applying = {}, []
        return rebuild(graph, make=self.rebuilt)

    def rebuilt(self, old: Expr, args: tuple[Expr, ...]) -> Expr:
        """The simplest form of a node on operands that are simplified already."""
        if args == old.args and not _all_constant(args):
            return self._settle(old)
        return self._settle(fold(old.table, old.op, args, old.params))

    def make(self, table: InternTable, op: Op, args: Sequence[Expr], params: dict[str, Any]) -> Expr:
        """Build a node in its simplest form."""
        return self._settle(fold(table, op, tuple(args), tuple(sorted(params.items()))))

    def _settle(self, node: Expr) -> Expr:
        settled = self._settled.get(node.id)
        if settled is not None:
            return settled
        first, trail = node, []
        for _ in range(ROUNDS):
            changed, rule = self._step(node)
            if changed is None or changed is node:
                break
            trail.append(rule)
            node = changed
        else:
            raise _undone([r.name for r in trail if r])
        self._settled[first.id] = self._settled[node.id] = node
        return node

    def _candidates(self, node: Expr) -> Sequence[Rule]:
        """Rules that may match, found by the op and the ops of its operands."""
        index = self._index.get(node.op.name)
        if index is None:
            return ()
        found: Sequence[Rule] = index.get("", ())
        seen = ""
        for a in node.args:
            operand = a.op.name
            if operand != seen and operand in index:
                found = [*found, *index[operand]]
            seen = operand
        return found

    def _step(self, node: Expr) -> tuple[Expr | None, Rule | None]:
        for rule in self._candidates(node):
            bindings: Bindings = {}
            if not rule.matches(node, bindings):
                continue
            if rule.when is not None and not rule.when(bindings):
                continue
            new = self._result(rule, node, bindings)
            if new is not None:
                new = fitted(new, node)
            if new is not None and new is not node:
                self.hits[rule.name] += 1
                return new, rule
        return None, None

    def _result(self, rule: Rule, node: Expr, bindings: Bindings) -> Expr | None:
        # What a rule builds is rewritten at once, which may apply further rules.
        self._applying.append(rule.name)
        if len(self._applying) > ROUNDS:
            raise _undone(self._applying)
        if rule.target is not None:
            made: Expr | None = self._build(rule.target, node, bindings)
        else:
            assert callable(rule.result)
            made = rule.result(self, node, **bindings)
        self._applying.pop()
        return made

    def _build(self, target: Pattern, node: Expr, bindings: Bindings) -> Expr:
        if target.variable:
            return bindings[target.variable]
        if target.op is None:
            return node.table.constant(target.number, node.dtype, node.aval.weak)
        args = [self._build(a, node, bindings) for a in target.args]
        return self.make(node.table, target.op, args, {})


def _undone(names: Sequence[str]) -> SymgradError:
    return SymgradError(f"rules undo each other: {', '.join(dict.fromkeys(names))}")


def fitted(new: Expr, old: Expr) -> Expr | None:
    """Give a replacement the shape of what it replaces; None if the type differs otherwise."""
    if new.dtype != old.dtype:
        return None
    if new.shape != old.shape:
        new = broadcast_to(new, shape=old.shape)
    if new.aval.weak == old.aval.weak:
        return new
    value = new.value
    return new.table.constant(value, new.dtype, old.aval.weak) if value is not None else None


def fold(table: InternTable, op: Op, args: tuple[Expr, ...], params: Params) -> Expr:
    """Intern a node; compute it at once if all operands are (small) constants."""
    node = table.remake(op, args, params)
    if not _all_constant(args):
        return node
    if not args or node.aval.size > max(FOLD_LIMIT, *[a.aval.size for a in args]):
        return node
    if op is broadcast_to and node.aval.size > 1:
        return node
    arrays = [a.value[()] for a in args]  # type: ignore[index]
    with np.errstate(all="ignore"):
        value = evaluate(op, arrays, [a.aval for a in args], dict(params))
    return table.constant(np.asarray(value, node.dtype), node.dtype, node.aval.weak)


def _all_constant(args: tuple[Expr, ...]) -> bool:
    for a in args:  # noqa: SIM110 - all() would cost a generator for every node
        if a.op is not CONST:
            return False
    return True


def _telling_operand(rule: Rule) -> str:
    """The name of an op that one operand of a match must have; empty if variables match anything."""
    if rule.operand:
        return rule.operand
    for a in rule.tree.args:
        if a.op is not None:
            return a.op.name
        if a.number is not None:
            return CONST.name
    return ""
