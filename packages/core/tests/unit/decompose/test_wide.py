"""64-bit integers as pairs of 32-bit ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.codegen.decompose import decompose
from tiny_core.dtypes import DType
from tiny_core.errors import RenderError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import COMPARE, Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

Apply = Callable[..., np.ndarray]
Target = Callable[..., Capabilities]
LONG = {dtypes.int64, dtypes.uint64}
BOTH = pytest.mark.parametrize("dtype", [dtypes.int64, dtypes.uint64], ids=lambda d: d.name)


@pytest.fixture
def caps(target: Target) -> Capabilities:
    return target({Ops.FLOORDIV, Ops.FLOORMOD}, LONG)


def numbers(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    kind = np.dtype(dtype.name)
    rng = np.random.default_rng(1)
    words = [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]
    edge = np.array([h << 32 | l for h in words for l in words], np.uint64).view(kind)
    x, y = (v.ravel() for v in np.meshgrid(edge, edge))
    more = (
        rng.integers(0, 1 << 64, (2, 4000), np.uint64, endpoint=False) if False else rng.bytes(2 * 4000 * 8)
    )
    a, b = np.frombuffer(more, kind).reshape(2, 4000)
    shift = rng.integers(0, 63, 4000).astype(kind)
    return np.concatenate([x, a, a >> shift]), np.concatenate([y, b, b >> shift[::-1]])


@BOTH
@pytest.mark.parametrize("lanes", [0, 4])
def test_arithmetic(dtype: DType, lanes: int, apply: Apply, caps: Capabilities) -> None:
    x, y = numbers(dtype)
    if lanes:
        x, y = (v[: len(v) // lanes * lanes] for v in (x, y))
    with np.errstate(all="ignore"):
        table = {
            Ops.ADD: x + y, Ops.SUB: x - y, Ops.MUL: x * y, Ops.AND: x & y, Ops.OR: x | y, Ops.XOR: x ^ y,
            Ops.MAX: np.maximum(x, y), Ops.MIN: np.minimum(x, y), Ops.CMPLT: x < y, Ops.CMPLE: x <= y,
            Ops.CMPEQ: x == y, Ops.CMPNE: x != y,
        }  # fmt: skip
        for op, want in table.items():
            to = dtypes.bool_ if op in COMPARE else dtype
            assert (apply(op, (dtype, dtype), to, caps, (x, y), lanes) == want).all(), op
        assert (apply(Ops.NEG, (dtype,), dtype, caps, (x,), lanes) == np.zeros_like(x) - x).all()
        assert (apply(Ops.NOT, (dtype,), dtype, caps, (x,), lanes) == ~x).all()
        assert (apply(Ops.MULACC, (dtype,) * 3, dtype, caps, (x, y, y), lanes) == x * y + y).all()


@BOTH
def test_shifts(
    dtype: DType, apply: Apply, caps: Capabilities, compute: Callable[..., list[np.ndarray]]
) -> None:
    x = numbers(dtype)[0]
    counts = np.resize(np.array([*range(70), 1 << 32, (1 << 62) + 3]), len(x)).astype(x.dtype)
    past = counts >= 64
    safe = np.where(past, 0, counts).astype(x.dtype)
    left = np.where(past, 0, x << safe).astype(x.dtype)
    right = np.where(past, np.where(x < 0, -1, 0).astype(x.dtype), x >> safe)
    assert (apply(Ops.SHL, (dtype, dtype), dtype, caps, (x, counts)) == left).all()
    assert (apply(Ops.SHR, (dtype, dtype), dtype, caps, (x, counts)) == right).all()
    i = UOp.range(UOp.const(len(x), dtypes.int32), "i")
    load = UOp.param(0, dtype, len(x)).load(i)
    out = UOp.param(1, dtype, len(x), "w")
    for count in (0, 1, 31, 32, 33, 63, 64, 100):
        for op in (Ops.SHL, Ops.SHR):
            memory = {0: x.copy(), 1: np.zeros_like(x)}
            compute((decompose(UOp.sink(out.store(i, load.alu(op, count))), caps),), caps, memory, len(x))
            kind = x.dtype.type(min(count, 63))
            full = (x << kind) if op is Ops.SHL else (x >> kind)
            want = (
                full
                if count < 64
                else np.where(x < 0, -1, 0).astype(x.dtype)
                if op is Ops.SHR
                else np.zeros_like(x)
            )
            assert (memory[1] == want).all(), (op, count)


@BOTH
def test_division(dtype: DType, apply: Apply, caps: Capabilities) -> None:
    x, y = (v[::7] for v in numbers(dtype))
    exact = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    floor = [a // b if b else 0 for a, b in exact]
    trunc = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0 for a, b in exact]
    rest = [a % b if b else a for a, b in exact]
    for op, want in ((Ops.IDIV, trunc), (Ops.FLOORDIV, floor), (Ops.FLOORMOD, rest)):
        got = apply(op, (dtype, dtype), dtype, caps, (x, y))
        assert [int(v) for v in got] == [dtypes.wrap(v, dtype) for v in want], op


@BOTH
def test_casts_of_integers(dtype: DType, apply: Apply, caps: Capabilities) -> None:
    x = numbers(dtype)[0]
    for to in (
        dtypes.int8,
        dtypes.uint16,
        dtypes.int32,
        dtypes.uint32,
        dtypes.int64,
        dtypes.uint64,
        dtypes.bool_,
    ):
        want = x.astype(bool) if to is dtypes.bool_ else x.astype(to.name)
        assert (apply(Ops.CAST, (dtype,), to, caps, (x,)) == want).all(), to
    for source in (dtypes.int8, dtypes.uint16, dtypes.int32, dtypes.uint32, dtypes.bool_):
        small = x.astype(bool if source is dtypes.bool_ else source.name)
        assert (apply(Ops.CAST, (source,), dtype, caps, (small,)) == small.astype(x.dtype)).all(), source


@BOTH
def test_casts_to_floats_round_once(dtype: DType, apply: Apply, caps: Capabilities) -> None:
    from tiny_core.ir.arith import round_exact

    rng = np.random.default_rng(9)
    beside = [
        (((int(rng.integers(1 << 23, 1 << 24)) << 1) | 1) << k) + d for k in range(38) for d in (-1, 0, 1)
    ]
    x = np.concatenate([numbers(dtype)[0][::5], np.array(beside, np.dtype(dtype.name))])
    exact = [int(v) for v in x]
    got = apply(Ops.CAST, (dtype,), dtypes.float32, caps, (x,))
    assert got.tolist() == [round_exact(v, dtypes.float32) for v in exact]
    got = apply(Ops.CAST, (dtype,), dtypes.float64, caps, (x,))
    assert got.tolist() == [float(v) for v in exact]
    got = apply(Ops.CAST, (dtype,), dtypes.float16, caps, (x,))
    assert got.tolist() == [round_exact(v, dtypes.float16) for v in exact]


@BOTH
@pytest.mark.parametrize("source", [dtypes.float32, dtypes.float64, dtypes.float16], ids=lambda d: d.name)
def test_casts_of_floats_saturate(dtype: DType, source: DType, apply: Apply, caps: Capabilities) -> None:
    rng = np.random.default_rng(3)
    values = np.concatenate([
        rng.uniform(-1, 1, 500) * 2.0 ** rng.integers(0, 70, 500),
        [0.0, -0.0, 0.9, -0.9, np.inf, -np.inf, np.nan, 2.0**63, -(2.0**63), 2.0**64, 2.0**32, 2.0**31, -1.0],
    ])  # fmt: skip
    with np.errstate(all="ignore"):
        x = values.astype(source.name)
    got = apply(Ops.CAST, (source,), dtype, caps, (x,))
    assert [int(v) for v in got] == [dtypes.convert(float(v), dtype) for v in x]


def test_loads_and_stores_with_gates_and_lanes(
    caps: Capabilities, compute: Callable[..., list[np.ndarray]]
) -> None:
    n = 32
    i = UOp.range(UOp.const(n // 4, dtypes.int64), "i")
    x = UOp.param(0, dtypes.int64, n, align=64)
    out = UOp.param(1, dtypes.int64, n, "rw", align=64)
    inside = i < UOp.const(n // 4 - 1, dtypes.int64)
    gate = UOp(Ops.STACK, dtypes.bool_, (inside, inside, inside, UOp.const(True, dtypes.bool_)))
    far = inside.where(i * 4, (1 << 30))  # out of bounds where gated off
    gated = x.load(far, inside.splat(4), -5, lanes=4, align=32)
    root = UOp.sink(out.store(i * 4, gated + i.splat(4), gate, align=32))
    kernel = decompose(root, caps)
    memory = {0: np.arange(n, dtype=np.int64) - 3 + (1 << 40), 1: np.full(n, 77, np.int64)}
    want = memory[0] + np.repeat(np.arange(n // 4), 4)
    want[-4:-1], want[-1] = 77, -5 + n // 4 - 1
    compute((kernel,), caps, memory, n // 4)
    assert memory[1].tolist() == want.tolist()
    for node in kernel.toposort():
        if node.op in (Ops.LOAD, Ops.STORE):
            assert node.payload(p.Access).align in (4, 32)
        if node.op is Ops.PARAM:
            assert node.payload(p.Param).size == 2 * n and node.dtype is dtypes.uint32


def test_registers_and_loops(caps: Capabilities) -> None:
    i = UOp.range(UOp.const(10, dtypes.int64), "i")
    x, out = UOp.param(0, dtypes.int64, 10), UOp.param(1, dtypes.int64, 1, "w")
    zero = UOp.const(0, dtypes.int32)
    slot = UOp.near(dtypes.int64, 1, 0, "register")
    start = slot.after(slot.store(zero, 0))
    total = start.load(zero) + x.load(i)
    loop = start.store(zero, total).end(i)
    kernel = decompose(UOp.sink(out.store(zero, start.after(loop).load(zero))), caps)
    nodes = kernel.toposort()
    assert not any(n.dtype in LONG for n in nodes)
    (loop,) = (n for n in nodes if n.op is Ops.RANGE)
    (end,) = (n for n in nodes if n.op is Ops.END)
    assert loop.dtype is dtypes.int32 and loop.src[0].value == 10
    assert end.src[0] is loop and [s.op for s in end.src[1:]] == [Ops.STORE, Ops.STORE]
    (near,) = (n for n in nodes if n.op is Ops.BUFFER)
    assert near.payload(p.Storage).size == 2 and near.dtype is dtypes.uint32


def test_an_after_names_the_loop_itself(caps: Capabilities) -> None:
    i = UOp.range(UOp.const(4, dtypes.int64), "i")
    acc = UOp.near(dtypes.int64, 1, 0, "register")
    at = UOp.const(0, dtypes.int32)
    start = acc.after(i).store(at, i)
    out = UOp.param(0, dtypes.int64, 4, "w").store(i, acc.after(start, i).load(at)).end(i)
    new = decompose(UOp.sink(out), caps)
    after = [n for n in new.toposort() if n.op is Ops.AFTER]
    assert after
    for n in after:
        assert all(s.dtype is dtypes.void or s.op is Ops.RANGE for s in n.src[1:])
    assert sum(n.op is Ops.RANGE for n in new.toposort()) == 1


def test_a_variable_beyond_32_bits_is_an_error(caps: Capabilities) -> None:
    for hi, fails in ((1 << 31, True), ((1 << 31) - 1, False)):
        variable = UOp(Ops.VARIABLE, dtypes.int64, (), p.Variable("n", 0, hi))
        root = UOp.sink(UOp.param(0, dtypes.int64, 1, "w").store(UOp.const(0, dtypes.int32), variable + 1))
        if fails:
            with pytest.raises(RenderError, match="variable n from 0 to 2147483648"):
                decompose(root, caps)
        else:
            assert not any(n.dtype in LONG for n in decompose(root, caps).toposort())
