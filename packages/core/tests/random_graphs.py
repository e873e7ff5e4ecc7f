"""Random graphs of the tensor stage, for the fuzzer and for tests of movements.

Values are small whole numbers, so that every order of additions gives the same bits and any difference is a
bug.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp, toposort
from tiny_core.tensor import graph as g

from .oracle import Array, _evaluate, numpy_dtype

KINDS = (
    dtypes.float32,
    dtypes.int32,
    dtypes.bool_,
    dtypes.float64,
    dtypes.float16,
    dtypes.int64,
    dtypes.uint8,
)
WEIGHTS = (8, 5, 2, 1, 1, 1, 1)
BOUND = {dtypes.float16: 1 << 10, dtypes.float32: 1 << 20, dtypes.float64: 1 << 40}
SIZES = (1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 32, 33, 64, 100)
MOST = 1 << 14  # elements of an array


@dataclass
class Case:
    """A graph to run: its roots, and what its BUFFERs hold at first."""

    roots: list[UOp]
    data: dict[UOp, Array]


class Maker:
    """Draws a graph, node by node, and evaluates it as it grows to keep values exact."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.numpy = np.random.default_rng(rng.getrandbits(32))
        self.data: dict[UOp, Array] = {}
        self.values: dict[UOp, Array] = {}
        self.pool: list[UOp] = []
        self.versions: dict[UOp, UOp] = {}

    # ---- leaves
    # ----------------------------------------------------------------------------------------------------

    def shape(self, most: int = MOST) -> tuple[int, ...]:
        while True:
            shape = tuple(self.rng.choice(SIZES) for _ in range(self.rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))))
            if np.prod(shape, dtype=int) <= most:
                return shape

    def buffer(self, dtype: DType | None = None, shape: tuple[int, ...] | None = None) -> UOp:
        dtype = dtype or self.rng.choices(KINDS, WEIGHTS)[0]
        shape = self.shape() if shape is None else shape
        size = int(np.prod(shape, dtype=int))
        extra = self.rng.choice((0, 0, 0, 1, 5))
        node = UOp.buffer(dtype, size + extra, "CPU")
        if dtype is dtypes.bool_:
            array: Array = self.numpy.random(size + extra) < 0.5
        elif dtype is dtypes.uint8:
            array = self.numpy.integers(0, 9, size + extra)
        else:
            array = self.numpy.integers(-4, 5, size + extra)
        self.data[node] = array.astype(numpy_dtype(dtype))
        self.values[node] = self.data[node]
        self.versions[node] = node
        begin = self.rng.randint(0, extra)
        return self.note(g.reshape(g.shrink(node, ((begin, begin + size),)), shape))

    def note(self, node: UOp) -> UOp:
        """Evaluate a node (and what is new below it) and add it to the pool."""
        self.value(node)
        if node not in self.pool:
            self.pool.append(node)
        return node

    def value(self, node: UOp) -> Array:
        with np.errstate(all="ignore"):
            for n in node.toposort(lambda n: n not in self.values):
                if n not in self.values and n.op is not Ops.STORE:
                    self.values[n] = _evaluate(n, self.values, self.data)
        return self.values[node]

    def pick(self) -> UOp:
        """A node, rather a late one."""
        if not self.pool or self.rng.random() < 0.08:
            return self.buffer()
        n = len(self.pool)
        return self.pool[max(self.rng.randrange(n), self.rng.randrange(n))]

    def cast(self, x: UOp, dtype: DType) -> UOp:
        if x.dtype is dtype:
            return x
        if dtype in BOUND and x.size and np.abs(self.value(x).astype(np.float64)).max() > BOUND[dtype]:
            x = g.alu(Ops.AND, g.cast(x, dtypes.int32), g.const(7, dtypes.int32, x.shape))
        return g.cast(x, dtype)

    def fit(self, x: UOp, shape: tuple[int, ...]) -> UOp:
        """`x` made to have this shape, by movements."""
        rng = self.rng
        if x.shape == shape:
            return x
        if x.size == np.prod(shape, dtype=int) and rng.random() < 0.8:
            return g.reshape(x, shape)
        while len(x.shape) > len(shape):
            axis = rng.randrange(len(x.shape))
            x = g.shrink(x, tuple((0, 1) if i == axis else (0, n) for i, n in enumerate(x.shape)))
            x = g.reshape(x, (*x.shape[:axis], *x.shape[axis + 1 :]))
        if len(x.shape) < len(shape):
            x = g.reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape)
        cut, grow = [], []
        for have, want in zip(x.shape, shape, strict=True):
            if have == 1 and rng.random() < 0.9:
                cut.append((0, 1))
                grow.append((0, 0))
            elif have >= want:
                a = rng.randint(0, have - want)
                cut.append((a, a + want))
                grow.append((0, 0))
            else:
                cut.append((0, have))
                a = rng.randint(0, want - have)
                grow.append((a, want - have - a))
        x = g.pad(g.shrink(x, tuple(cut)), tuple(grow))
        return g.expand(x, shape)

    # ---- nodes
    # -----------------------------------------------------------------------------------------------------

    def grow(self) -> None:
        makers: list[tuple[float, Callable[[], UOp | None]]] = [
            (6, self.elementwise), (6, self.movement), (3, self.reduction), (1, self.gather),
            (1.5, self.matmul), (1, self.window), (1, self.assign), (0.5, self.crossing),
            (0.4, self.contiguous), (0.5, self.iota), (1, self.softmax),
        ]  # fmt: skip
        make = self.rng.choices([m for _, m in makers], [w for w, _ in makers])[0]
        node = make()
        if node is None:
            return
        with np.errstate(all="ignore"):
            array = self.value(node)
        if node.dtype in BOUND and array.size:
            if not np.abs(array.astype(np.float64)).max() <= BOUND[node.dtype]:
                return
            if not exact(node, self.values):
                return
        self.note(node)

    def elementwise(self) -> UOp | None:
        rng = self.rng
        x, y = self.pick(), self.pick()
        shape = x.shape if rng.random() < 0.7 else y.shape
        if rng.random() < 0.4 and x.size * y.size <= MOST and len(x.shape) + len(y.shape) <= 5:
            # an outer product of the two
            x = g.reshape(x, x.shape + (1,) * len(y.shape))
            shape = x.shape[: len(x.shape) - len(y.shape)] + y.shape
            x = g.expand(x, shape)
        x = self.fit(x, shape)
        kind = x.dtype
        y = (
            self.cast(self.fit(y, shape), kind)
            if rng.random() < 0.8
            else g.const(rng.randint(0, 3), kind, shape)
        )
        choice = rng.random()
        if choice < 0.12:
            op = rng.choice((Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE))
            return g.alu(op, x, y)
        if choice < 0.25:
            c = self.cast(self.fit(self.pick(), shape), dtypes.bool_)
            return g.where(c, x, y)
        if choice < 0.33:
            return self.cast(x, rng.choices(KINDS, WEIGHTS)[0])
        if choice < 0.4 and kind is not dtypes.bool_:
            return g.alu(Ops.NEG, x)
        if choice < 0.45 and kind.is_float:
            return g.alu(Ops.SQRT, g.alu(Ops.MUL, x, x))
        if choice < 0.5 and kind.is_float:
            return g.alu(Ops.DIV, g.alu(Ops.MUL, x, g.const_like(4, x)), g.const(2, kind, shape))
        if kind is dtypes.bool_:
            return g.alu(rng.choice((Ops.AND, Ops.OR, Ops.XOR, Ops.ADD, Ops.MUL)), x, y)
        if kind.is_float:
            return g.alu(rng.choice((Ops.ADD, Ops.SUB, Ops.MUL, Ops.MUL, Ops.MAX, Ops.MIN)), x, y)
        return g.alu(
            rng.choice(
                (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.MIN, Ops.FLOORDIV, Ops.FLOORMOD, Ops.AND, Ops.XOR)
            ),
            x, y,
        )  # fmt: skip

    def movement(self) -> UOp | None:
        rng, x = self.rng, self.pick()
        kind = rng.choice(
            [
                "reshape",
                "expand",
                "permute",
                "pad",
                "shrink",
                "flip",
                "shear",
                "stride",
                "unshear",
                "unstride",
            ]
        )
        rank = len(x.shape)
        if kind == "reshape":
            return g.reshape(x, self.refactor(x.size))
        if kind == "expand":
            n = rng.choice((2, 3, 5, 8))
            if x.size * n > MOST:
                return None
            at = rng.randint(0, rank)
            x = g.reshape(x, (*x.shape[:at], 1, *x.shape[at:]))
            return g.expand(x, (*x.shape[:at], n, *x.shape[at + 1 :]))
        if not rank or not x.size:
            return None
        if kind == "permute":
            axes = list(range(rank))
            rng.shuffle(axes)
            return g.permute(x, tuple(axes))
        if kind == "pad":
            pairs = tuple((rng.choice((0, 0, 1, 2)), rng.choice((0, 0, 1, 3))) for _ in x.shape)
            out = g.pad(x, pairs)
            return out if out.size <= MOST else None
        if kind == "shrink":
            parts = []
            for n in x.shape:
                a = rng.randint(0, n - 1) if rng.random() < 0.5 else 0
                parts.append((a, rng.randint(a + 1, n) if rng.random() < 0.5 else n))
            return g.shrink(x, tuple(parts))
        if kind == "flip":
            return g.flip(x, tuple(i for i in range(rank) if rng.random() < 0.5))
        axis = rng.randrange(rank)
        stride = rng.choice((1, 1, 2, 3))
        if kind == "stride":
            return g.shear(x, axis, None, stride, 0, (x.shape[axis] - 1) // stride + 1)
        if kind == "unstride":
            size = (x.shape[axis] - 1) * stride + 1 + rng.choice((0, 0, 1, 2))
            if x.size // max(1, x.shape[axis]) * size > MOST:
                return None
            return UOp(Ops.UNSHEAR, x.dtype, (x,), p.Shear(axis, None, stride, 0, size))
        others = [i for i in range(rank) if i != axis]
        if not others:
            return None
        by, dilation = rng.choice(others), rng.choice((0, 1, 1, 2))
        if kind == "shear":
            size = (x.shape[axis] - 1 - (x.shape[by] - 1) * dilation) // stride + 1
            return g.shear(x, axis, by, stride, dilation, rng.randint(1, size)) if size > 0 else None
        size = (x.shape[axis] - 1) * stride + (x.shape[by] - 1) * dilation + 1 + rng.choice((0, 0, 1))
        if x.size // max(1, x.shape[axis]) * size > MOST:
            return None
        return UOp(Ops.UNSHEAR, x.dtype, (x,), p.Shear(axis, by, stride, dilation, size))

    def refactor(self, size: int) -> tuple[int, ...]:
        shape = []
        while size > 1 and self.rng.random() < 0.75:
            d = self.rng.choice([d for d in range(1, size + 1) if size % d == 0])
            shape.append(d)
            size //= d
        shape.append(size)
        self.rng.shuffle(shape)
        return tuple(shape)

    def reduction(self) -> UOp | None:
        rng, x = self.rng, self.pick()
        if not x.shape or not x.size:
            return None
        axes = [i for i in range(len(x.shape)) if rng.random() < 0.5] or [rng.randrange(len(x.shape))]
        op = rng.choice((Ops.ADD, Ops.ADD, Ops.ADD, Ops.MAX, Ops.MAX, Ops.MIN, Ops.MUL))
        if op is Ops.MUL and x.size > 64 and x.dtype.is_float:
            op = Ops.ADD
        make = g.reduce if rng.random() < 0.5 else g.reduce_keep
        return make(op, x, axes)

    def softmax(self) -> UOp | None:
        """A row operation: subtract the greatest, then scale by the sum."""
        x = self.pick()
        if not x.shape or not x.size or x.dtype is dtypes.bool_:
            return None
        axis = self.rng.choice((len(x.shape) - 1, self.rng.randrange(len(x.shape))))
        top = g.expand(g.reduce_keep(Ops.MAX, x, [axis]), x.shape)
        lower = g.alu(Ops.SUB, x, top)
        total = g.expand(g.reduce_keep(Ops.ADD, lower, [axis]), x.shape)
        return g.alu(Ops.ADD, lower, total)

    def gather(self) -> UOp | None:
        rng, x = self.rng, self.pick()
        if not x.shape:
            return None
        count = rng.randint(1, min(2, len(x.shape)))
        shape = self.shape(64)
        picks = []
        for _ in range(count):
            if rng.random() < 0.5:
                i = self.fit(self.pick(), shape)
                picks.append(self.cast(i, rng.choice((dtypes.int32, dtypes.int64, dtypes.uint8))))
            else:
                picks.append(self.buffer(dtypes.int32, shape))
        out = g.gather(x, picks)
        return out if out.size <= MOST else None

    def matmul(self) -> UOp | None:
        rng = self.rng
        i, j, k = (rng.choice((1, 3, 4, 8, 16, 17, 32, 33, 40)) for _ in range(3))
        if i * j * k > 1 << 15:
            return None
        kind = rng.choice((dtypes.float32, dtypes.float32, dtypes.int32, dtypes.float16))
        a = self.cast(self.fit(self.pick(), (i, k)), kind)
        b = self.cast(self.fit(self.pick(), (k, j)), kind)
        wide = g.expand(g.reshape(a, (i, 1, k)), (i, j, k))
        tall = g.expand(g.reshape(g.permute(b, (1, 0)), (1, j, k)), (i, j, k))
        return g.reduce(Ops.ADD, g.alu(Ops.MUL, wide, tall), [2])

    def window(self) -> UOp | None:
        """A convolution of two axes' worth, or a maximum over windows."""
        rng = self.rng
        n, c, h, o, k = (
            rng.choice((1, 2, 3)),
            rng.choice((1, 3, 4)),
            rng.choice((5, 8, 9)),
            rng.choice((1, 4, 16)),
            3,
        )
        stride, dilation = rng.choice((1, 1, 2)), rng.choice((1, 1, 2))
        if (k - 1) * dilation >= h:
            return None
        x = self.cast(self.fit(self.pick(), (n, c, h, h)), dtypes.float32)
        if rng.random() < 0.4:
            x = g.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        h = x.shape[-1]
        out = (h - (k - 1) * dilation - 1) // stride + 1
        wide = g.expand(g.reshape(x, (n, 1, c, h, 1, h, 1)), (n, o, c, h, k, h, k))
        wide = g.shear(g.shear(wide, 3, 4, stride, dilation, out), 5, 6, stride, dilation, out)
        if wide.size > 1 << 15:
            return None
        if rng.random() < 0.3:
            return g.reduce(Ops.MAX, wide, [2, 4, 6])
        w = self.cast(self.fit(self.pick(), (o, c, k, k)), dtypes.float32)
        w = g.expand(g.reshape(w, (1, o, c, 1, k, 1, k)), wide.shape)
        return g.reduce(Ops.ADD, g.alu(Ops.MUL, wide, w), [2, 4, 6])

    def iota(self) -> UOp:
        n = self.rng.choice(SIZES)
        return g.iota(n, self.rng.choice((dtypes.int32, dtypes.int64, dtypes.float32)))

    def contiguous(self) -> UOp:
        x = self.pick()
        return UOp(Ops.CONTIGUOUS, x.dtype, (x,))

    def assign(self) -> UOp | None:
        """A new version of some storage: a part of it is overwritten."""
        rng = self.rng
        base = rng.choice(list(self.versions)) if self.versions else None
        if base is None or not base.size:
            return None
        view = root = self.versions[base]
        if rng.random() < 0.3 and base.size > 1:
            a = rng.randint(0, base.size - 1)
            view = g.shrink(view, ((a, rng.randint(a + 1, base.size)),))
        if rng.random() < 0.6:
            view = g.reshape(view, self.refactor(view.size))
        if rng.random() < 0.3:
            axes = list(range(len(view.shape)))
            rng.shuffle(axes)
            view = g.permute(view, tuple(axes))
        if rng.random() < 0.3:
            pairs = tuple((a := rng.randint(0, n - 1), rng.randint(a + 1, n)) for n in view.shape)
            view = g.shrink(view, pairs)
        if rng.random() < 0.2:
            view = g.flip(view, (rng.randrange(len(view.shape)),))
        if rng.random() < 0.2:
            axis = rng.randrange(len(view.shape))
            view = g.shear(view, axis, None, 2, 0, (view.shape[axis] - 1) // 2 + 1)
        value = view if rng.random() < 0.3 else self.fit(self.pick(), view.shape)
        value = self.cast(value, base.dtype)
        if rng.random() < 0.4 and base.dtype is not dtypes.bool_:
            value = g.alu(Ops.ADD, value, view)
        node = root.after(UOp(Ops.STORE, dtypes.void, (view, value)))
        self.value(node)
        if (
            base.dtype in BOUND
            and not np.abs(self.values[node].astype(np.float64)).max() <= BOUND[base.dtype]
        ):
            return None
        if not exact(node, self.values):
            return None
        self.versions[base] = node
        return node

    def crossing(self) -> UOp | None:
        """A reader of storage that is then overwritten by something it reads as well: the two may share a
        kernel."""
        root = self.assign()
        if root is None:
            return None
        view, value = root.src[1].src
        other = self.cast(self.fit(self.pick(), view.shape), view.dtype)
        if view.dtype is dtypes.bool_:
            self.note(g.alu(Ops.XOR, view, other))
        elif self.value(view).size:
            total = g.alu(Ops.ADD, g.alu(Ops.MAX, view, other), value)
            if exact(total, self.values) and np.abs(self.value(total).astype(np.float64)).max() < 1 << 10:
                self.note(total)
        return root

    def case(self) -> Case:
        for _ in range(self.rng.randint(2, 16)):
            self.grow()
        used = {s for n in toposort(self.pool) for s in n.src}
        loose = [n for n in self.pool if n not in used and n.op is not Ops.BUFFER]
        self.rng.shuffle(loose)
        roots = loose[: self.rng.randint(1, 4)]
        for n in self.pool:
            if self.rng.random() < 0.05 and n not in roots:
                roots.append(n)
        if not roots:
            roots = [self.pool[-1] if self.pool else self.buffer()]
        return Case(roots, self.data)


def exact(node: UOp, values: dict[UOp, Array]) -> bool:
    """Whether every order of adding up (or multiplying) gives the same bits, all the way down."""
    for n in node.toposort():
        if n.op is not Ops.REDUCE or n.dtype not in BOUND:
            continue
        x = np.abs(values[n.src[0]].astype(np.float64))
        arg = n.payload(p.Reduce)
        with np.errstate(all="ignore"):
            if arg.op is Ops.ADD:
                most = x.sum(arg.axes)
            elif arg.op is Ops.MUL:
                most = np.maximum(x, 1).prod(arg.axes)
            else:
                continue
        if np.size(most) and not np.max(most) <= BOUND[n.dtype]:
            return False
    return True
