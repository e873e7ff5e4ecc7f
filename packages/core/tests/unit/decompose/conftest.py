"""What the tests of decompositions share: capabilities by subtraction, and a numpy evaluator of loops-stage
graphs.

The evaluator is independent of `ir/arith.py`. It computes a graph for many elements at once: every value is
an array with one row an element (and one column a lane), RANGE is the element's number, and loads and stores
index real arrays. It refuses an op or dtype that the capabilities do not declare.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.codegen.decompose import decompose
from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.ops import COMPARE, ELEMENTWISE, Ops
from tiny_core.ir.uop import UOp, toposort
from tiny_core.render.capabilities import Capabilities

NUMPY: dict[DType, np.dtype] = {
    dtypes.bool_: np.dtype(np.bool_),
    **{d: np.dtype(d.name) for d in (*dtypes.ints, dtypes.float16, dtypes.float32, dtypes.float64)},
    dtypes.bfloat16: np.dtype(ml_dtypes.bfloat16),
    dtypes.float8_e4m3: np.dtype(ml_dtypes.float8_e4m3fn),
    dtypes.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    dtypes.float8_e4m3fnuz: np.dtype(ml_dtypes.float8_e4m3fnuz),
    dtypes.float8_e5m2fnuz: np.dtype(ml_dtypes.float8_e5m2fnuz),
}
_WIDTHS = (2, 4, 8, 16)


def make_target(
    without: Set[Ops] = frozenset(),
    dtypes_without: Set[DType] = frozenset(),
    pairs_without: Set[tuple[Ops, DType]] = frozenset(),
) -> Capabilities:
    """Capabilities with everything but what is given."""
    have = [d for d in dtypes.storable if d not in dtypes_without]
    ops = {(op, d) for op in ELEMENTWISE - without for d in have} - set(pairs_without)
    return Capabilities("threads", frozenset(have), frozenset(ops), tuple((d, _WIDTHS) for d in have))


class Evaluator:
    def __init__(self, target: Capabilities, memory: dict[int, np.ndarray], count: int) -> None:
        self.target, self.memory, self.count = target, memory, count
        self.near: dict[int, np.ndarray] = {}
        self.values: dict[UOp, np.ndarray] = {}

    def run(self, roots: tuple[UOp, ...]) -> None:
        with np.errstate(all="ignore"):
            for node in toposort(roots):
                value = self.node(node)
                if value is not None:
                    self.values[node] = value

    def node(self, node: UOp) -> Any:
        if node.dtype is not dtypes.void:
            assert node.dtype in self.target.dtypes, f"{node.dtype} is not declared"
        src: list[Any] = [self.values.get(s) for s in node.src]
        match node.op:
            case Ops.CONST:
                raw = np.array(node.payload(p.Const).bits, dtype=f"u{node.dtype.itemsize}")
                return np.broadcast_to(raw.view(NUMPY[node.dtype]), (self.count,))
            case Ops.RANGE:
                return np.arange(self.count, dtype=NUMPY[node.dtype])
            case Ops.STACK:
                return np.stack(src, axis=-1)
            case Ops.INDEX:
                return src[0][:, node.payload(p.Lane).lane]
            case Ops.SHUFFLE:
                return np.concatenate(src, axis=-1)[:, list(node.payload(p.Shuffle).lanes)]
            case Ops.PARAM | Ops.BUFFER | Ops.AFTER | Ops.SINK | Ops.END:
                return None
            case Ops.LOAD:
                return self.load(node, src)
            case Ops.STORE:
                self.store(node, src)
                return None
        of = node.src[1 if node.op is Ops.WHERE else 0].dtype
        assert self.target.supports(node.op, of), f"{node.op} on {of} is not declared"
        result = self.alu(node, src)
        assert result.dtype == NUMPY[node.dtype], f"{node} gave {result.dtype}"
        return result

    def place(self, node: UOp, index: np.ndarray, lanes: int) -> tuple[np.ndarray, np.ndarray]:
        base = node.src[0].base
        if base.op is Ops.PARAM:
            array = self.memory[base.payload(p.Param).slot]
            array = array.view(NUMPY[base.dtype])
        else:
            near = base.payload(p.Storage)
            shape = (near.size, self.count, *((near.lanes,) if near.lanes else ()))
            array = self.near.setdefault(near.id, np.zeros(shape, NUMPY[base.dtype]))
        at = index.astype(np.int64)
        return array, at[:, None] + np.arange(lanes) if lanes else at

    def load(self, node: UOp, src: list[Any]) -> Any:
        array, at = self.place(
            node, src[1], node.payload(p.Access).lanes if node.src[0].base.op is Ops.PARAM else 0
        )
        if node.src[0].base.op is Ops.BUFFER:
            return array[int(src[1][0])].copy()
        if len(src) == 2:
            assert (at >= 0).all() and (at < array.size).all(), "load out of bounds"
            return array[at]
        assert (at[src[2]] >= 0).all() and (at[src[2]] < array.size).all(), "load out of bounds"
        return np.where(src[2], array[np.clip(at, 0, array.size - 1)], src[3])

    def store(self, node: UOp, src: list[Any]) -> None:
        array, at = self.place(
            node, src[1], node.payload(p.Access).lanes if node.src[0].base.op is Ops.PARAM else 0
        )
        if node.src[0].base.op is Ops.BUFFER:
            array[int(src[1][0])] = src[2]
        else:
            gate = src[3] if len(src) == 4 else np.ones(at.shape, bool)
            array[at[gate]] = src[2][gate]

    def alu(self, node: UOp, src: list[Any]) -> Any:
        x, op = src[0], node.op
        y = src[1] if len(src) > 1 else x
        if op is Ops.CAST:
            return self.cast(x, node.dtype)
        if op is Ops.BITCAST:
            return np.ascontiguousarray(x).view(NUMPY[node.dtype])
        if op is Ops.WHERE:
            return np.where(x, y, src[2])
        if op in (Ops.SHL, Ops.SHR):
            bits = x.dtype.itemsize * 8
            past = (y < 0) | (y >= bits)
            count = np.where(past, 0, y)
            if op is Ops.SHL:
                return np.where(past, 0, x << count).astype(x.dtype)
            return np.where(past, np.where(x < 0, -1, 0).astype(x.dtype), x >> count).astype(x.dtype)
        if op in (Ops.IDIV, Ops.IMOD):
            safe = np.where(y == 0, 1, y).astype(x.dtype)
            quotient = x // safe
            quotient = quotient + ((x - quotient * safe != 0) & ((x < 0) != (safe < 0))).astype(x.dtype)
            if x.dtype.kind == "i":
                quotient = np.where(safe == -1, np.zeros_like(x) - x, quotient)
            quotient = np.where(y == 0, 0, quotient).astype(x.dtype)
            return quotient if op is Ops.IDIV else (x - quotient * y).astype(x.dtype)
        function = _NUMPY.get(op)
        assert function is not None, f"the evaluator has no {op}"
        result = function(*src)
        return result if op in COMPARE else result.astype(x.dtype)

    @staticmethod
    def cast(x: Any, to: DType) -> Any:
        kind = NUMPY[to]
        if not np.issubdtype(x.dtype, np.integer) and x.dtype != np.bool_ and to.is_int:
            x = x.astype(np.float64)
            low, high = int(to.min), int(to.max)
            inside = np.where(np.isnan(x) | (x <= low) | (x >= high), 0, x).astype(kind)
            return np.where(x >= high, np.array(high, kind), np.where(x <= low, np.array(low, kind), inside))
        return x.astype(kind)


_NUMPY: dict[Ops, Callable[..., np.ndarray]] = {
    Ops.NEG: np.negative, Ops.SQRT: np.sqrt, Ops.TRUNC: np.trunc, Ops.NOT: np.invert, Ops.ADD: np.add,
    Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.DIV: np.divide, Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor, Ops.CMPLT: np.less, Ops.CMPLE: np.less_equal, Ops.CMPEQ: np.equal,
    Ops.CMPNE: np.not_equal, Ops.RECIP: lambda x: np.divide(x.dtype.type(1), x), Ops.EXP2: np.exp2,
}  # fmt: skip


def run_values(
    roots: tuple[UOp, ...], target: Capabilities, memory: dict[int, np.ndarray], count: int
) -> list[np.ndarray]:
    evaluator = Evaluator(target, memory, count)
    evaluator.run(roots)
    return [evaluator.values.get(r, np.zeros(0)) for r in roots]


@pytest.fixture
def target() -> Callable[..., Capabilities]:
    """`target(without ops, without dtypes, without pairs)`."""
    return make_target


@pytest.fixture
def apply() -> Callable[..., np.ndarray]:
    """`apply(op, dtypes of sources, dtype of result, capabilities, arrays, lanes=0)`: decompose one op and
    compute it."""

    def call(
        op: Ops,
        sources: tuple[DType, ...],
        to: DType,
        caps: Capabilities,
        arrays: tuple[np.ndarray, ...],
        lanes: int = 0,
    ) -> np.ndarray:
        n = len(arrays[0]) // max(lanes, 1)
        i = UOp.range(UOp.const(n, dtypes.int32), "i")
        at = i * lanes if lanes else i
        loads = [UOp.param(k, d, len(arrays[0])).load(at, lanes=lanes) for k, d in enumerate(sources)]
        out = UOp.param(len(sources), to, len(arrays[0]), "w")
        root = UOp.sink(out.store(at, UOp(op, to, tuple(loads))))
        result = np.zeros(len(arrays[0]), NUMPY[to])
        memory = {k: a.copy() for k, a in enumerate(arrays)} | {len(sources): result}
        run_values((decompose(root, caps),), caps, memory, n)
        return result

    return call


@pytest.fixture
def compute() -> Callable[..., list[np.ndarray]]:
    """`compute(roots, capabilities, memory by slot, elements)`: run a graph that is decomposed already."""
    return run_values
