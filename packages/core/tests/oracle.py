"""An oracle for tensor-stage graphs: each op computed by numpy, with the semantics that ir/ops.py states.

`evaluate(node, buffers)` gives the value of a node: a pure function of the graph and of what the BUFFERs
hold at the start. A version (`AFTER(root, STORE(view, value))`) evaluates to the whole storage as that
version has it, so old and new versions of one buffer can be read side by side. `Engine` is an execution
engine on top of it: storage, roots, and stores that happen.

Nothing here is fast, and nothing is taken from the code under test except the payload classes.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence

import ml_dtypes
import numpy as np

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.ops import MOVEMENT, Ops
from tiny_core.ir.uop import UOp, toposort

Array = np.ndarray

_NUMPY: dict[DType, np.dtype] = {
    dtypes.bool_: np.dtype(bool),
    **{d: np.dtype(d.name) for d in (*dtypes.ints, dtypes.float16, dtypes.float32, dtypes.float64)},
    dtypes.bfloat16: np.dtype(ml_dtypes.bfloat16),
    dtypes.float8_e4m3: np.dtype(ml_dtypes.float8_e4m3fn),
    dtypes.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    dtypes.float8_e4m3fnuz: np.dtype(ml_dtypes.float8_e4m3fnuz),
    dtypes.float8_e5m2fnuz: np.dtype(ml_dtypes.float8_e5m2fnuz),
    dtypes.index: np.dtype(np.int64),
    dtypes.weakfloat: np.dtype(np.float64),
}


def numpy_dtype(dtype: DType) -> np.dtype:
    """The numpy dtype that has the same bits."""
    return _NUMPY[dtype]


def evaluate(node: UOp, buffers: Mapping[UOp, Array]) -> Array:
    """Return the value of `node`, an array of its shape and dtype.

    Args:
        node: a tensor-stage node with a value, or a SINK (then the value of its last source).
        buffers: what each BUFFER below it holds: arrays of shape (size,). Not changed.
    """
    return evaluate_all([node], buffers)[0]


def evaluate_all(roots: Iterable[UOp], buffers: Mapping[UOp, Array]) -> list[Array]:
    """Return the values of several nodes, each sub-expression computed once."""
    roots = list(roots)
    values: dict[UOp, Array] = {}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for node in toposort(roots):
            if node.op is Ops.STORE:
                continue  # has no value; AFTER applies it
            value = _evaluate(node, values, buffers)
            assert value.shape == node.shape, (node, value.shape)
            assert node.dtype is dtypes.void or value.dtype == numpy_dtype(node.dtype), (node, value.dtype)
            values[node] = value
    return [values[r] for r in roots]


def _evaluate(node: UOp, values: dict[UOp, Array], buffers: Mapping[UOp, Array]) -> Array:
    if node.op is Ops.BUFFER:
        return buffers[node]
    if node.op is Ops.CONST:
        bits = node.payload(p.Const).bits
        if node.dtype.is_weak:
            return np.asarray(node.value, numpy_dtype(node.dtype))
        return np.frombuffer(bits.to_bytes(node.dtype.itemsize, "little"), numpy_dtype(node.dtype)).reshape(
            ()
        )
    if node.op is Ops.IOTA:
        return np.arange(node.payload(p.Iota).size).astype(numpy_dtype(node.dtype))
    if node.op is Ops.AFTER:
        return _after(node, values)
    if node.op is Ops.SINK:
        return np.zeros(())
    src = [values[s] for s in node.src]
    if node.op in MOVEMENT:
        return _move(node, src[0])
    match node.op:
        case Ops.CONTIGUOUS | Ops.DETACH | Ops.COPY:
            return src[0]
        case Ops.CAST:
            return convert(src[0], node.dtype)
        case Ops.BITCAST:
            return np.ascontiguousarray(src[0]).view(numpy_dtype(node.dtype))
        case Ops.REDUCE:
            return _reduce(node, src[0])
        case Ops.GATHER:
            return _gather(src[0], src[1:])
    return np.asarray(_ALU[node.op](*src)).astype(numpy_dtype(node.dtype), copy=False)


# ---- storage -----------------------------------------------------------------------------------------


def locations(view: UOp) -> Array:
    """Return, for each element of a chain of movements over storage, its place in that storage."""
    chain = []
    while view.op in MOVEMENT or view.op is Ops.DETACH:
        chain.append(view)
        view = view.src[0]
    assert view.op in (Ops.BUFFER, Ops.AFTER), f"{view} is not storage"
    at: Array = np.arange(view.shape[0]) + 1  # 0 is what PAD and UNSHEAR bring in
    for step in reversed(chain):
        at = at if step.op is Ops.DETACH else _move(step, at)
    assert at.size == 0 or at.min() > 0, "a store through padding"
    return at - 1


def _after(node: UOp, values: dict[UOp, Array]) -> Array:
    root = values[node.src[0]]
    result = root.copy()
    for effect in node.src[1:]:
        if effect.op is not Ops.STORE or storage_of(effect.src[0]) is not node.base:
            continue  # only an ordering
        at = locations(effect.src[0]).reshape(-1)
        assert len(np.unique(at)) == at.size, "a store that writes a location twice"
        result[at] = values[effect.src[1]].reshape(-1)
    return result


def storage_of(view: UOp) -> UOp:
    """Return the BUFFER below a chain of movements and versions."""
    while view.op in MOVEMENT or view.op in (Ops.AFTER, Ops.DETACH):
        view = view.src[0]
    return view


# ---- movement ----------------------------------------------------------------------------------------


def _move(node: UOp, x: Array) -> Array:
    match node.op:
        case Ops.RESHAPE:
            return x.reshape(node.payload(p.Shape).dims)
        case Ops.EXPAND:
            return np.broadcast_to(x, node.payload(p.Shape).dims)
        case Ops.PERMUTE:
            return x.transpose(node.payload(p.Axes).axes)
        case Ops.FLIP:
            return np.flip(x, node.payload(p.Axes).axes)
        case Ops.PAD:
            return np.pad(x, node.payload(p.Bounds).pairs) if x.ndim else x
        case Ops.SHRINK:
            return x[tuple(slice(a, b) for a, b in node.payload(p.Bounds).pairs)]
    arg = node.payload(p.Shear)
    # axis first, the axis it is sheared by second
    by = x[..., None] if arg.by is None else x
    order = (arg.axis, x.ndim if arg.by is None else arg.by)
    moved = np.moveaxis(by, order, (0, 1))
    new = np.arange(arg.size)[:, None]
    j = np.arange(moved.shape[1])[None, :]
    if node.op is Ops.SHEAR:
        at, good = new * arg.stride + j * arg.dilation, None
    else:
        at, rest = np.divmod(new - j * arg.dilation, arg.stride)
        good = (rest == 0) & (at >= 0) & (at < moved.shape[0])
        at = np.where(good, at, 0)
    if moved.shape[0] == 0:
        out = np.zeros((arg.size, *moved.shape[1:]), x.dtype)
    else:
        out = moved[at, j]
    if good is not None:
        out = np.where(good.reshape(good.shape + (1,) * (out.ndim - 2)), out, np.zeros((), x.dtype))
    out = np.moveaxis(out, (0, 1), order)
    return out[..., 0] if arg.by is None else out


def _gather(x: Array, indices: list[Array]) -> Array:
    good = np.ones(indices[0].shape, bool)
    at = []
    for size, index in zip(x.shape, indices, strict=False):
        inside = (index >= 0) & (index < size)
        good &= inside
        at.append(np.where(inside, index, 0).astype(np.int64))
    if 0 in x.shape[: len(indices)]:
        return np.zeros(indices[0].shape + x.shape[len(indices) :], x.dtype)
    out = x[tuple(at)]
    return np.where(good.reshape(good.shape + (1,) * (out.ndim - good.ndim)), out, np.zeros((), x.dtype))


# ---- arithmetic --------------------------------------------------------------------------------------


def _reduce(node: UOp, x: Array) -> Array:
    arg = node.payload(p.Reduce)
    logical = x.dtype.kind == "b"
    match arg.op:
        case Ops.ADD:
            out = x.any(arg.axes) if logical else x.sum(arg.axes, dtype=x.dtype)
        case Ops.MUL:
            out = x.all(arg.axes) if logical else x.prod(arg.axes, dtype=x.dtype)
        case Ops.MAX:
            out = x.max(arg.axes)
        case _:
            out = x.min(arg.axes)
    return np.asarray(out)


def convert(x: Array, dtype: DType) -> Array:
    """CAST: integers wrap, floats round to nearest even, float to integer saturates with NaN to 0."""
    to = numpy_dtype(dtype)
    if dtype.kind == "bool":
        return np.asarray(x != 0)
    from_float = not (x.dtype.kind == "b" or np.issubdtype(x.dtype, np.integer))
    if dtype.is_float or not from_float:
        return x.astype(to)
    info = np.iinfo(to)
    wide = np.trunc(np.where(np.isnan(x.astype(np.float64)), 0, x.astype(np.float64)))
    low, high = wide <= float(info.min), wide >= float(info.max)
    inside = np.where(low | high, 0, wide).astype(to)
    return np.where(low, to.type(info.min), np.where(high, to.type(info.max), inside))


def _divide(floor: bool) -> Callable[[Array, Array], Array]:
    def divide(x: Array, y: Array) -> Array:
        q = np.where(y == 0, 0, x // np.where(y == 0, 1, y)).astype(x.dtype)
        if np.issubdtype(x.dtype, np.signedinteger):
            low = np.iinfo(x.dtype).min
            q = np.where((x == low) & (y == -1), low, q)
            if not floor:
                inexact = (q * y != x) & ((x < 0) != (y < 0)) & (y != 0)
                q = q + inexact.astype(x.dtype)
        return q.astype(x.dtype)

    return divide


def _remainder(floor: bool) -> Callable[[Array, Array], Array]:
    quotient = _divide(floor)
    return lambda x, y: np.where(y == 0, x, x - quotient(x, y) * y)


def _shift(left: bool) -> Callable[[Array, Array], Array]:
    def shift(x: Array, y: Array) -> Array:
        width = x.dtype.itemsize * 8
        wide = (y >= width) | (y < 0)
        n = np.where(wide, 0, y).astype(x.dtype)
        if left:
            return np.where(wide, 0, np.left_shift(x, n))
        return np.where(wide, np.where(x < 0, -1, 0).astype(x.dtype), np.right_shift(x, n))

    return shift


def _extreme(pick: Callable[..., Array], of_zeros: float) -> Callable[[Array, Array], Array]:
    def extreme(x: Array, y: Array) -> Array:
        if np.issubdtype(x.dtype, np.integer) or x.dtype.kind == "b":
            return pick(x, y)
        zeros = (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
        return np.where(zeros, np.asarray(of_zeros, x.dtype), pick(x, y))

    return extreme


def _logical(on_bool: Callable[..., Array], otherwise: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *x: on_bool(*x) if x[0].dtype.kind == "b" else otherwise(*x)


def threefry(counter: Array, key: Array) -> Array:
    """Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers", SC 2011)."""

    def words(v: Array) -> list[Array]:
        return [(v & np.uint64(0xFFFFFFFF)).astype(np.uint32), (v >> np.uint64(32)).astype(np.uint32)]

    (x0, x1), (k0, k1) = words(counter), words(key)
    keys = [k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA)]
    turns = (13, 15, 26, 6, 17, 29, 16, 24)
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for i in range(20):
        n = np.uint32(turns[i % 8])
        x0 = x0 + x1
        x1 = ((x1 << n) | (x1 >> (np.uint32(32) - n))) ^ x0
        if i % 4 == 3:
            s = i // 4 + 1
            x0, x1 = x0 + keys[s % 3], x1 + keys[(s + 1) % 3] + np.uint32(s)
    return np.asarray(x0.astype(np.uint64) | (x1.astype(np.uint64) << np.uint64(32)))


_ALU: dict[Ops, Callable[..., Array]] = {
    Ops.NEG: _logical(lambda x: x, np.negative),
    Ops.RECIP: lambda x: np.ones((), x.dtype) / x,
    Ops.SQRT: np.sqrt,
    Ops.EXP2: np.exp2,
    Ops.LOG2: np.log2,
    Ops.SIN: np.sin,
    Ops.TRUNC: np.trunc,
    Ops.NOT: _logical(np.logical_not, np.invert),
    Ops.ADD: np.add,
    Ops.SUB: _logical(np.logical_xor, np.subtract),
    Ops.MUL: np.multiply,
    Ops.DIV: np.divide,
    Ops.IDIV: _divide(floor=False),
    Ops.IMOD: _remainder(floor=False),
    Ops.FLOORDIV: _divide(floor=True),
    Ops.FLOORMOD: _remainder(floor=True),
    Ops.POW: np.power,
    Ops.MAX: _extreme(np.maximum, 0.0),
    Ops.MIN: _extreme(np.minimum, -0.0),
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    Ops.SHL: _shift(left=True),
    Ops.SHR: _shift(left=False),
    Ops.CMPLT: np.less,
    Ops.CMPLE: np.less_equal,
    Ops.CMPEQ: np.equal,
    Ops.CMPNE: np.not_equal,
    Ops.THREEFRY: threefry,
    Ops.WHERE: np.where,
    Ops.MULACC: lambda x, y, z: x * y + z,
}


# ---- an engine ---------------------------------------------------------------------------------------


class Engine:
    """Runs tensor graphs by the oracle, with the interface of `tiny_core.engine.realize`.

    Attributes:
        memory: what each BUFFER holds, as long as the node lives.
        batches: the roots of every call of `realize_nodes`, for tests that count them.
    """

    def __init__(self) -> None:
        self.memory: MutableMapping[UOp, Array] = weakref.WeakKeyDictionary()
        self.batches: list[list[UOp]] = []

    def allocate_from_host(
        self, data: memoryview | bytes, dtype: DType, size: int, device: p.Device, label: object = ""
    ) -> UOp:
        node = UOp.buffer(dtype, size, device)
        self.memory[node] = np.frombuffer(bytes(data), numpy_dtype(dtype)).copy()
        assert self.memory[node].shape == (size,)
        return node

    def write_host(self, buffer: UOp, data: memoryview | bytes) -> None:
        self.memory[buffer] = np.frombuffer(bytes(data), numpy_dtype(buffer.dtype)).copy()

    def read_host(self, node: UOp) -> memoryview:
        return memoryview(evaluate(node, self.memory).tobytes())

    def realize_nodes(self, roots: list[UOp], labels: Sequence[object] = ()) -> list[UOp]:
        """Compute all roots from what memory holds now, then let the stores happen."""
        self.batches.append(list(roots))
        nodes = toposort(roots)
        for node in nodes:
            if node.op is Ops.BUFFER and node not in self.memory:  # Tensor.empty: any value will do
                self.memory[node] = np.full(node.shape, 77).astype(numpy_dtype(node.dtype))
        after = [n for n in nodes if n.op is Ops.AFTER]
        earlier = {n.src[0] for n in after}
        latest = {n.base: n for n in after if n not in earlier}
        values = evaluate_all([*roots, *latest.values()], self.memory)
        for (base, _), value in zip(latest.items(), values[len(roots) :], strict=True):
            self.memory[base] = value.copy()
        results = []
        for root, value in zip(roots, values, strict=False):
            results.append(self._place(root, value, latest))
        return results

    def _place(self, root: UOp, value: Array, latest: dict[UOp, UOp]) -> UOp:
        """Where the value of a root is found: in storage it is a view of, or in new storage."""
        chain, node = [], root
        while node.op in (MOVEMENT - {Ops.PAD, Ops.UNSHEAR}):
            chain.append(node)
            node = node.src[0]
        current = latest.get(node.base, node.base) if node.op in (Ops.BUFFER, Ops.AFTER) else None
        if node is current:
            result = node.base
            for step in reversed(chain):
                result = step.replace(src=(result,))
            return result
        device = next((n.payload(p.Storage).device for n in root.toposort() if n.op is Ops.BUFFER), "CPU")
        assert device is not None
        buffer = self.allocate_from_host(
            np.ascontiguousarray(value).tobytes(), root.dtype, value.size, device
        )
        return UOp(Ops.RESHAPE, root.dtype, (buffer,), p.Shape(root.shape))
