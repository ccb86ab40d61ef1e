"""The rewrite engine: rules as data, and an iterative bottom-up driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from ..core.expr import CONST, Expr, InternTable, Params
from ..core.graph import Graph, rebuild
from ..core.op import Op
from ..errors import SymgradError
from ..ops.evaluate import evaluate
from ..ops.shaping import broadcast_to
from .patterns import Bindings, Matcher, Pattern, matcher, parse


class RuleClass(Enum):
    """What a rewrite preserves."""

    EXACT = "bit for bit on every double"
    MASKED = "exact zeros of derivative rules stay outermost"
    STABLE = "the same real function with no worse rounding or range"
    COST = "equal to rounding, cheaper"
    READABLE = "real algebra, for formulas"


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

    @cached_property
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


FOLD_LIMIT = 4096
"""Constants of more elements are not computed while rewriting."""

ROUNDS = 50
"""Rewrites of one node after which the rules involved are taken to ping-pong."""


KINDS = 10_000
"""How many combinations of an op with its operands are remembered."""

NUMBER = "a number"
"""Stands for the name of an operand's op where a rule asks for a certain number."""


class RuleIndex:
    """Rules by what they can match: the op of a node, and the ops and numbers among its operands.

    Raises
    ------
    SymgradError
        If a rule matches everything.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_op: dict[Op, dict[str, list[Rule]]] = {}
        self._numbers: set[Any] = set()
        self._found: dict[Any, Sequence[Rule]] = {}
        for rule in rules:
            op = rule.tree.op
            if op is None:
                raise SymgradError(f"rule {rule.name!r} matches everything")
            self._by_op.setdefault(op, {}).setdefault(_telling_operand(rule), []).append(rule)
            self._numbers.update([a.number for a in rule.tree.args if a.number is not None])

    def candidates(self, node: Expr) -> Sequence[Rule]:
        """The rules that may match a node."""
        op = node.op
        if op not in self._by_op:
            return ()
        key = (op, *[a.op if a.op is not CONST else self._kind_of(a) for a in node.args])
        found = self._found.get(key)
        if found is None:
            if len(self._found) > KINDS:
                self._found.clear()
            found = self._found[key] = self._search(op, key[1:])
        return found

    def _kind_of(self, constant: Expr) -> Op | None:
        """None for a number that rules ask for; nearly no constant is one."""
        return None if constant.params[0][1].number in self._numbers else CONST

    def _search(self, op: Op, operands: Sequence[Op | None]) -> Sequence[Rule]:
        names = [""]
        for a in operands:
            names += [NUMBER, CONST.name] if a is None else [a.name]
        index = self._by_op[op]
        return [rule for name in dict.fromkeys(names) for rule in index.get(name, ())]


_indexes: dict[tuple[int, ...], RuleIndex] = {}


def index_of(rules: Sequence[Rule]) -> RuleIndex:
    """The index of a list of rules, made once for the same rules."""
    key = tuple([id(rule) for rule in rules])
    index = _indexes.get(key)
    if index is None:
        if len(_indexes) > 16:
            _indexes.clear()
        index = _indexes[key] = RuleIndex(rules)
    return index


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
        self._index = index_of(self.rules)
        self._applying: list[str] = []

    def run(self, graph: Graph) -> Graph:
        """Rewrite a graph; the result is a fixpoint of the rules."""
        self._applying = []
        return rebuild(graph, make=self.rebuilt)

    def rebuilt(self, old: Expr, args: tuple[Expr, ...]) -> Expr:
        """The simplest form of a node on operands that are simplified already."""
        if args == old.args and not _all_constant(args):
            return self._settle(old)
        return self._settle(fold(old.table, old.op, args, old.params))

    def make(self, table: InternTable, op: Op, args: Sequence[Expr], params: dict[str, Any]) -> Expr:
        """Build a node in its simplest form."""
        return self._settle(fold(table, op, tuple(args), tuple(sorted(params.items())) if params else ()))

    def _settle(self, node: Expr) -> Expr:
        # A node has one simplest form: what was found for it holds as long as the table lives.
        known = node.table.memo(self._index)
        settled = known.get(node.id)
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
        known[first.id] = known[node.id] = node
        return node

    def _step(self, node: Expr) -> tuple[Expr | None, Rule | None]:
        for rule in self._index.candidates(node):
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
    arrays = [a.value[()] for a in args]  # type: ignore[index]  # all are constants
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
            return NUMBER
    return ""
