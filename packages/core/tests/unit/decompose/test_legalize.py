"""Whole graphs: casts by bits, threefry, what is left alone, and what is an error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.codegen.decompose import decompose
from tiny_core.dtypes import DType
from tiny_core.errors import RenderError
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

Apply = Callable[..., np.ndarray]
Target = Callable[..., Capabilities]


def test_a_legal_graph_is_the_same_node(target: Target) -> None:
    i = UOp.range(UOp.const(8, dtypes.int32), "i")
    root = UOp.sink(
        UOp.param(1, dtypes.float32, 8, "w").store(i, UOp.param(0, dtypes.float32, 8).load(i) * 2.0)
    )
    assert decompose(root, target()) is root


def test_an_op_that_nothing_replaces_is_an_error(target: Target) -> None:
    x = UOp.param(0, dtypes.float32, 8).load(UOp.const(0, dtypes.int32))
    with pytest.raises(RenderError, match="sqrt on float32"):
        decompose(x.alu(Ops.SQRT), target({Ops.SQRT}))
    with pytest.raises(RenderError, match="float64"):
        decompose(x.cast(dtypes.float64), target(set(), {dtypes.float64}))
    with pytest.raises(RenderError, match="cast on float32 to float64"):
        decompose(x.cast(dtypes.float64), target({Ops.CAST}))
    with pytest.raises(RenderError, match="bitcast on float32"):
        decompose(x.alu(Ops.EXP2), target({Ops.EXP2, Ops.BITCAST}))


def test_gates_stay_on_their_loads(target: Target) -> None:
    i = UOp.range(UOp.const(8, dtypes.int32), "i")
    load = UOp.param(0, dtypes.float32, 4).load(i, i < 4, 1.0)
    root = decompose(
        UOp.sink(UOp.param(1, dtypes.float32, 8, "w").store(i, load.alu(Ops.EXP2))), target({Ops.EXP2})
    )
    assert [n for n in root.toposort() if n.op is Ops.LOAD] == [load]


@pytest.mark.parametrize("absent", [set(), {dtypes.int64, dtypes.uint64}], ids=["64 bits", "32 bits"])
def test_threefry_matches_the_published_vectors(absent: set[DType], apply: Apply, target: Target) -> None:
    """The threefry2x32 R=20 vectors published with Random123 (kat_vectors)."""
    counter = np.array([0, 0xFFFFFFFF_FFFFFFFF, 0x85A308D3_243F6A88], np.uint64)
    key = np.array([0, 0xFFFFFFFF_FFFFFFFF, 0x03707344_13198A2E], np.uint64)
    got = apply(
        Ops.THREEFRY, (dtypes.uint64,) * 2, dtypes.uint64, target({Ops.THREEFRY}, absent), (counter, key)
    )
    assert got.tolist() == [0x99BA4EFE_6B200159, 0xBB002BE7_1CB996FC, 0x483DF7A0_C4923A9C]


def test_threefry_needs_no_wide_multiplication(target: Target) -> None:
    pair = [UOp.param(k, dtypes.uint64, 1).load(UOp.const(0, dtypes.int32)) for k in (0, 1)]
    for absent in (set(), {dtypes.int64, dtypes.uint64}):
        root = UOp.sink(
            UOp.param(2, dtypes.uint64, 1, "w").store(
                UOp.const(0, dtypes.int32), pair[0].alu(Ops.THREEFRY, pair[1])
            )
        )
        nodes = decompose(root, target({Ops.THREEFRY}, absent)).toposort()
        assert not any(n.op is Ops.MUL for n in nodes)
        assert len(nodes) < 220


FLOATS = np.concatenate([
    [0.0, -0.0, 0.5, -0.5, 0.999, 1.0, -1.0, 1.5, 127.5, 128.0, -128.0, -129.0, 255.9, 256.0, 65536.0,
    2.0**31,
     -(2.0**31), 2147483520.0, 4294967040.0, 2.0**32, 2.0**63, -(2.0**63), 2.0**64, np.inf, -np.inf,
     np.nan, 1e-40],
    np.random.default_rng(0).uniform(-1, 1, 3000) * 2.0 ** np.random.default_rng(1).integers(-4, 70, 3000),
])  # fmt: skip


@pytest.mark.parametrize("source", [dtypes.float32, dtypes.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("to", dtypes.ints, ids=lambda d: d.name)
def test_casts_to_integers_by_bits(source: DType, to: DType, apply: Apply, target: Target) -> None:
    x = FLOATS.astype(source.name)
    caps = target(set(), set(), {(Ops.CAST, source)})
    got = apply(Ops.CAST, (source,), to, caps, (x,))
    assert [int(v) for v in got] == [dtypes.convert(float(v), to) for v in x]


@pytest.mark.parametrize(
    ("source", "to"),
    [(d, f) for d in dtypes.ints for f in (dtypes.float32, dtypes.float64) if d.bits == f.bits],
    ids=lambda d: d.name,
)
def test_casts_to_floats_by_bits(source: DType, to: DType, apply: Apply, target: Target) -> None:
    kind = np.dtype(source.name)
    x = np.frombuffer(np.random.default_rng(2).bytes(3000 * kind.itemsize), kind)
    info = np.iinfo(kind)
    x = np.concatenate([x, x >> kind.type(9), np.array([0, 1, info.max, info.min, info.max - 1], kind)])
    got = apply(Ops.CAST, (source,), to, target(set(), set(), {(Ops.CAST, source)}), (x,))
    assert (got == x.astype(to.name)).all()


def test_casts_of_and_to_bool(apply: Apply, target: Target) -> None:
    x = np.array([0.0, -0.0, np.nan, 2.0, -np.inf], np.float32)
    got = apply(Ops.CAST, (dtypes.float32,), dtypes.bool_, target({Ops.CAST}), (x,))
    assert got.tolist() == [False, False, True, True, True]
    got = apply(Ops.CAST, (dtypes.bool_,), dtypes.float32, target({Ops.CAST}), (got,))
    assert got.tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=lambda d: d.name)
def test_truncation_by_bits(dtype: DType, apply: Apply, target: Target) -> None:
    x = FLOATS.astype(dtype.name)
    got = apply(Ops.TRUNC, (dtype,), dtype, target({Ops.TRUNC}), (x,))
    want = np.trunc(x)
    assert ((got == want) & (np.signbit(got) == np.signbit(want)) | (np.isnan(got) & np.isnan(want))).all()
