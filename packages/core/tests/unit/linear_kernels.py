"""Linear kernels written by hand, for the tests of what runs them."""

from __future__ import annotations

from collections.abc import Sequence

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.signature import Expr, ParamSpec, ScalarSpec, Signature


class Lines:
    """A LINEAR list in the making: `add` lists a node after those of its sources that are not listed yet."""

    def __init__(self) -> None:
        self.nodes: dict[UOp, None] = {}

    def add(self, node: UOp) -> UOp:
        for n in node.toposort(lambda n: n not in self.nodes):
            self.nodes.setdefault(n)
        return node

    def loop(self, size: int | UOp, axis: str, kind: p.AxisKind = "loop") -> UOp:
        stop = i32(size) if isinstance(size, int) else size
        return self.add(UOp.range(stop, axis, kind))

    def end(self, axis: UOp, *effects: UOp) -> UOp:
        return self.add(UOp(Ops.END, dtypes.void, (axis, *effects)))

    def barrier(self, *effects: UOp) -> UOp:
        return self.add(UOp(Ops.BARRIER, dtypes.void, effects))

    def linear(self, name: str = "kernel") -> UOp:
        return UOp(Ops.LINEAR, dtypes.void, tuple(self.nodes), p.KernelInfo(name))


def i32(value: int) -> UOp:
    return UOp.const(value, dtypes.int32)


def group(size: int, dim: int = 0) -> UOp:
    return UOp(Ops.SPECIAL, dtypes.int32, (i32(size),), p.Special("group", dim))


def item(size: int, dim: int = 0) -> UOp:
    return UOp(Ops.SPECIAL, dtypes.int32, (i32(size),), p.Special("item", dim))


def register(dtype: DType, size: int = 1, id: int = 100, lanes: int = 0) -> UOp:
    return UOp.near(dtype, size, id, "register", lanes)


def signature(
    linear: UOp,
    scalars: Sequence[str] = (),
    grid: tuple[int | Expr, ...] = (1, 1, 1),
    block: tuple[int, ...] = (1, 1, 1),
    parallel: int = 1,
) -> Signature:
    params = sorted((n for n in linear.src if n.op is Ops.PARAM), key=lambda n: n.payload(p.Param).slot)
    specs = []
    for n in params:
        arg = n.payload(p.Param)
        specs.append(ParamSpec(n.dtype, arg.size, arg.access, arg.align, arg.space))
    names = tuple(ScalarSpec(s) for s in scalars)
    return Signature(linear.payload(p.KernelInfo).name, tuple(specs), names, grid, block, parallel)
