"""Random programs: every kind of node that lowering treats in its own way, in random order and shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.core.aval import Aval, broadcast_shapes
from symgrad.core.expr import Expr, InternTable
from symgrad.core.graph import Graph
from symgrad.ops.arithmetic import absolute, add, divide, multiply, negative, sqrt, square, subtract
from symgrad.ops.comparison import less
from symgrad.ops.contraction import matmul
from symgrad.ops.indexing import gather, gathered_shape, scatter_add
from symgrad.ops.reduction import argmax, cumsum, max_, min_, prod, sum_
from symgrad.ops.selection import maximum, where
from symgrad.ops.shaping import broadcast_to, concatenate, put_slice, reshape, take_slice, transpose
from symgrad.ops.transcendental import cos, exp, sin, tanh

SIZES = (1, 2, 3, 4, 5, 7, 20, 70)


class Maker:
    """Grows one graph."""

    def __init__(self, seed: int, size: int, sizes: tuple[int, ...] = SIZES, largest: int = 20_000) -> None:
        self.sizes = sizes
        self.largest = largest
        self.rng = np.random.default_rng(seed)
        self.table = InternTable()
        self.inputs = [self.table.input(Aval(self.shape(), "float64"), f"x{k}") for k in range(3)]
        self.inputs.append(self.table.input(Aval((), "float64"), "a"))
        self.pool: list[Expr] = list(self.inputs)
        kinds = [
            self.binary,
            self.binary,
            self.unary,
            self.unary,
            self.reduce,
            self.reduce,
            self.reshape,
            self.transpose,
            self.broadcast,
            self.slice,
            self.put,
            self.join,
            self.gather,
            self.scatter,
            self.product,
            self.choose,
            self.running,
            self.restore,
            self.normalise,
        ]
        while len(self.pool) < size:
            made = kinds[self.rng.integers(len(kinds))]()
            if made is not None and made.aval.size <= self.largest:
                self.pool.append(made)
        chosen = self.rng.choice(
            len(self.pool), size=min(len(self.pool), int(self.rng.integers(1, 6))), replace=False
        )
        self.graph = Graph(
            self.inputs, [self.pool[k] for k in sorted({*chosen.tolist(), len(self.pool) - 1})], "random"
        )

    def args(self) -> list[Any]:
        """Values for the inputs."""
        return [self.rng.uniform(-1, 1, x.shape) for x in self.inputs]

    def shape(self) -> tuple[int, ...]:
        rank = int(self.rng.integers(1, 4))
        return tuple(int(n) for n in self.rng.choice(self.sizes, rank))

    def any(self, ndim: int = 0) -> Expr | None:
        late = [x for x in self.pool[-8:] if x.ndim >= ndim] or [x for x in self.pool if x.ndim >= ndim]
        return late[self.rng.integers(len(late))] if late else None

    def partner(self, x: Expr) -> Expr:
        """Something that broadcasts with ``x``."""
        fits = [x]
        for y in self.pool:
            try:
                size = math.prod(broadcast_shapes(x.shape, y.shape))
            except ValueError:
                continue
            if size <= self.largest:
                fits.append(y)
        return fits[self.rng.integers(len(fits))]

    def unary(self) -> Expr | None:
        x = self.any()
        assert x is not None
        return [
            sin,
            cos,
            tanh,
            negative,
            square,
            absolute,
            lambda v: exp(sin(v)),
            lambda v: sqrt(absolute(v) + 0.5),
        ][self.rng.integers(8)](x)

    def binary(self) -> Expr | None:
        x = self.any()
        assert x is not None
        y = self.partner(x)
        kinds = [add, subtract, multiply, maximum, lambda p, q: divide(p, absolute(q) + 1.0)]
        op = kinds[self.rng.integers(5)]
        return op(x, y)

    def choose(self) -> Expr | None:
        x = self.any()
        assert x is not None
        y = self.partner(x)
        return where(less(x, y), tanh(x), y)

    def reduce(self) -> Expr | None:
        x = self.any(1)
        if x is None:
            return None
        axes = tuple(
            sorted(
                self.rng.choice(x.ndim, size=int(self.rng.integers(1, x.ndim + 1)), replace=False).tolist()
            )
        )
        op = [sum_, sum_, max_, min_, prod][self.rng.integers(5)]
        return op(tanh(x) if op is prod else x, axis=axes)

    def restore(self) -> Expr | None:
        """A reduction along the last axis beside what was reduced, as in softmax."""
        x = self.any(1)
        if x is None:
            return None
        total = sum_(exp(sin(x)), axis=(x.ndim - 1,))
        return divide(exp(sin(x)), reshape(total, shape=(*x.shape[:-1], 1)))

    def normalise(self) -> Expr | None:
        """Two reductions along one axis, one needing the other."""
        x = self.any(2)
        if x is None:
            return None
        axis = int(self.rng.integers(x.ndim))
        kept = tuple(1 if k == axis else n for k, n in enumerate(x.shape))
        top = reshape(max_(x, axis=(axis,)), shape=kept)
        e = exp(subtract(x, top))
        return divide(e, reshape(sum_(e, axis=(axis,)), shape=kept))

    def reshape(self) -> Expr | None:
        x = self.any()
        assert x is not None
        size = x.aval.size
        factors = [k for k in (2, 3, 5, 7) if size % k == 0]
        options = [
            (size,),
            (1, *x.shape),
            (*x.shape, 1),
            *[(k, size // k) for k in factors],
            *[(size // k, k) for k in factors],
        ]
        if x.ndim > 1:
            options.append((x.shape[0] * x.shape[1], *x.shape[2:]))
        return reshape(x, shape=options[self.rng.integers(len(options))])

    def transpose(self) -> Expr | None:
        x = self.any(2)
        return None if x is None else transpose(x, axes=tuple(self.rng.permutation(x.ndim).tolist()))

    def broadcast(self) -> Expr | None:
        x = self.any()
        assert x is not None
        wide = tuple(int(self.rng.choice((2, 5))) if n == 1 else n for n in x.shape)
        extra = (int(self.rng.choice((2, 3, 20))),) if self.rng.uniform() < 0.5 else ()
        return broadcast_to(x, shape=(*extra, *wide))

    def slice(self) -> Expr | None:
        x = self.any(1)
        if x is None:
            return None
        starts, sizes, steps = [], [], []
        for n in x.shape:
            step = int(self.rng.choice((1, 1, 2, -1)))
            size = int(self.rng.integers(1, (n + abs(step) - 1) // abs(step) + 1))
            span = (size - 1) * abs(step)
            low = int(self.rng.integers(0, n - span))
            starts.append(low if step > 0 else low + span)
            sizes.append(size)
            steps.append(step)
        return take_slice(x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))

    def put(self) -> Expr | None:
        x = self.any(1)
        if x is None:
            return None
        shape, starts, steps = [], [], []
        for n in x.shape:
            step = int(self.rng.choice((1, 1, 2, -1)))
            before, after = int(self.rng.integers(0, 3)), int(self.rng.integers(0, 3))
            span = (n - 1) * abs(step)
            shape.append(before + span + 1 + after)
            starts.append(before if step > 0 else before + span)
            steps.append(step)
        return put_slice(x, shape=tuple(shape), starts=tuple(starts), steps=tuple(steps))

    def join(self) -> Expr | None:
        x = self.any(1)
        if x is None:
            return None
        return concatenate(x, tanh(x), x, axis=int(self.rng.integers(x.ndim)))

    def indices(self, n: int, shape: tuple[int, ...], late: bool) -> Expr:
        values = self.rng.integers(0, n, shape)
        if late:
            data = self.table.constant(self.rng.uniform(-1, 1, (*shape, n)))
            return argmax(data * self.inputs[3], axis=len(shape))
        return self.table.constant(values)

    def gather(self) -> Expr | None:
        x = self.any(1)
        if x is None:
            return None
        axes = tuple(
            sorted(
                self.rng.choice(x.ndim, size=int(self.rng.integers(1, x.ndim + 1)), replace=False).tolist()
            )
        )
        shape = ((4,), (2, 3), (30,))[self.rng.integers(3)]
        if math.prod(gathered_shape(x.shape, axes, shape)) > self.largest:
            return None
        return gather(
            x, *[self.indices(x.shape[a], shape, self.rng.uniform() < 0.3) for a in axes], axes=axes
        )

    def scatter(self) -> Expr | None:
        x = self.any(1)
        if x is None:
            return None
        n = int(self.rng.integers(2, 6))
        return scatter_add(
            x, self.indices(n, x.shape[:1], self.rng.uniform() < 0.3), shape=(n, *x.shape[1:]), axes=(0,)
        )

    def product(self) -> Expr | None:
        x = self.any(2)
        if x is None:
            return None
        other = transpose(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
        return tanh(matmul(x, tanh(other)) if self.rng.uniform() < 0.5 else matmul(other, x))

    def running(self) -> Expr | None:
        x = self.any(1)
        if x is None:
            return None
        return tanh(cumsum(x, axis=int(self.rng.integers(x.ndim)), reverse=bool(self.rng.uniform() < 0.5)))
