"""Random expressions for fuzzing, from a seeded generator."""

from __future__ import annotations

import random
from itertools import product

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp

_INDEX_OPS = (
    Ops.ADD, Ops.ADD, Ops.ADD, Ops.SUB, Ops.MUL, Ops.MUL, Ops.FLOORDIV, Ops.FLOORDIV, Ops.FLOORMOD,
    Ops.FLOORMOD, Ops.IDIV, Ops.IMOD, Ops.MAX, Ops.MIN, Ops.NEG, Ops.NOT, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL,
    Ops.SHR, Ops.WHERE, Ops.MULACC,
)  # fmt: skip
_COMPARE = (Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE)
_SMALL = (-9, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 9, 12, 16)


class Generator:
    """Makes expressions over a few loops and a variable of small bounds, so that all of their values can be
    tried."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.leaves = [
            UOp.range(self.random.randint(1, 9), "i"),
            UOp.range(self.random.randint(1, 6), "j"),
            UOp.variable("n", -2, 3),
        ]

    def points(self) -> list[dict[UOp, Number]]:
        """All values of the leaves."""
        i, j, _ = self.leaves
        sizes = [int(n.src[0].value) for n in (i, j)]
        return [
            dict(zip(self.leaves, at, strict=True))
            for at in product(range(sizes[0]), range(sizes[1]), range(-2, 4))
        ]

    def index(self, depth: int) -> UOp:
        """An index expression."""
        r = self.random
        if depth == 0 or r.random() < 0.1:
            return r.choice(self.leaves) if r.random() < 0.7 else UOp.const(r.choice(_SMALL))
        op = r.choice(_INDEX_OPS)
        x = self.index(depth - 1)
        if op in (Ops.NEG, Ops.NOT):
            return x.alu(op)
        if op is Ops.WHERE:
            return self.bool(depth - 1).where(x, self.index(depth - 1))
        if op in (Ops.SHL, Ops.SHR):
            return x.alu(op, r.randint(0, 4))
        if op is Ops.MULACC:
            return x.alu(op, self.index(depth - 1), self.index(depth - 1))
        constant = r.random() < (0.8 if op in (Ops.FLOORDIV, Ops.FLOORMOD) else 0.4)
        return x.alu(op, UOp.const(r.choice(_SMALL)) if constant else self.index(depth - 1))

    def bool(self, depth: int) -> UOp:
        """A bool over index comparisons."""
        r = self.random
        if depth <= 0 or r.random() < 0.5:
            return self.index(max(depth, 1)).alu(r.choice(_COMPARE), self.index(max(depth - 1, 0)))
        if r.random() < 0.2:
            return ~self.bool(depth - 1)
        if r.random() < 0.2:
            return self.bool(depth - 1).where(self.bool(depth - 1), self.bool(depth - 1))
        op = r.choice((Ops.AND, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPEQ, Ops.CMPNE))
        return self.bool(depth - 1).alu(op, self.bool(depth - 1))


_BINARY = {
    "int": (
        Ops.ADD, Ops.SUB, Ops.MUL, Ops.IDIV, Ops.IMOD, Ops.FLOORDIV, Ops.FLOORMOD, Ops.MAX, Ops.MIN, Ops.AND,
        Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR,
    ),
    "bool": (Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN, Ops.AND, Ops.OR, Ops.XOR),
    "float": (Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MAX, Ops.MIN),
}  # fmt: skip
_UNARY = {
    "int": (Ops.NEG, Ops.NOT),
    "bool": (Ops.NOT,),
    "float": (Ops.NEG, Ops.TRUNC, Ops.SQRT, Ops.RECIP),
}


def _family(dtype: DType) -> str:
    return "float" if dtype.is_float else "bool" if dtype.kind == "bool" else "int"


class DataGenerator:
    """Makes expressions over loads of one dtype, with casts to others and back."""

    def __init__(self, seed: int, dtype: DType, others: tuple[DType, ...]) -> None:
        self.random = random.Random(seed)
        self.dtype = dtype
        self.others = others
        self.leaves = [UOp.param(s, dtype, 1).load(0) for s in range(3)]

    def value(self, dtype: DType) -> Number:
        """A number of `dtype`, more often than not one with a special meaning."""
        r = self.random
        if dtype.is_float:
            special = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, float("inf"), float("-inf"), float("nan"), 3.5, -1e-7)
            value = (
                r.choice(special) if r.random() < 0.7 else dtypes.from_bits(r.getrandbits(dtype.bits), dtype)
            )
            return dtypes.convert(value, dtype)
        if dtype.kind == "bool":
            return r.random() < 0.5
        special_ints = (0, 1, -1, 2, 7, int(dtype.min), int(dtype.max), dtype.bits)
        return dtypes.wrap(r.choice(special_ints) if r.random() < 0.6 else r.getrandbits(dtype.bits), dtype)

    def data(self, dtype: DType, depth: int) -> UOp:
        """An expression of `dtype`."""
        r = self.random
        if depth == 0 or r.random() < 0.1:
            if dtype is not self.dtype:
                return r.choice(self.leaves).cast(dtype)
            return r.choice(self.leaves) if r.random() < 0.6 else UOp.const(self.value(dtype), dtype)
        if r.random() < 0.15:
            return self.data(r.choice((self.dtype, *self.others)), depth - 1).cast(dtype)
        x = self.data(dtype, depth - 1)
        if r.random() < 0.15:
            return self.bool(depth - 1).where(x, self.data(dtype, depth - 1))
        if r.random() < 0.2:
            return x.alu(r.choice(_UNARY[_family(dtype)]))
        op = r.choice(_BINARY[_family(dtype)])
        other = self.data(dtype, depth - 1)
        if r.random() < 0.4:
            other = UOp.const(self.value(dtype), dtype)
        return other.alu(op, x) if r.random() < 0.3 else x.alu(op, x if r.random() < 0.15 else other)

    def bool(self, depth: int) -> UOp:
        """A bool over comparisons of data."""
        r = self.random
        if depth <= 0 or r.random() < 0.6:
            x = self.data(self.dtype, max(depth, 0))
            return x.alu(r.choice(_COMPARE), x if r.random() < 0.2 else self.data(self.dtype, max(depth, 0)))
        if r.random() < 0.3:
            return ~self.bool(depth - 1)
        return self.bool(depth - 1).alu(r.choice((Ops.AND, Ops.OR, Ops.XOR)), self.bool(depth - 1))
