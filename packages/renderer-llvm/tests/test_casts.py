"""CAST between every two dtypes and BITCAST, against numpy and the total rules for what numpy leaves
undefined."""

from __future__ import annotations

import math

import numpy as np
import pytest
from llvm_kernels import Array, Body, closed, levels, numpy_dtype, run

from tiny_core.api import Arch, DType, UOp, dtypes
from tiny_renderer_llvm.renderer import LLVMRenderer

_VALUES = (dtypes.bool_, *dtypes.ints, dtypes.float16, dtypes.float32, dtypes.float64)
_N = 64


def samples(dtype: DType) -> Array:
    t = numpy_dtype(dtype)
    if dtype is dtypes.bool_:
        return np.resize(np.array([False, True, True], t), _N)
    rng = np.random.default_rng(7)
    if dtype.is_float:
        some = [
            0.0, -0.0, 0.5, -0.5, 1.5, -1.9, 127.5, 128.0, 255.9, 256.0, -128.9, -129.0, 32767.9, 65519.0,
            65520.0, 65535.5, 2147483647.0, 2147483648.0, -2147483649.0, 4294967295.0, 4294967296.0, 9.3e18,
            -9.3e18, 1.9e19, math.inf, -math.inf, math.nan, 6e-8, 2.9e-8, 1e300, 2049.0 + 2**-20,
            1 + 2**-11 + 2**-30, 1 + 2**-11,
        ]  # fmt: skip
        with np.errstate(over="ignore"):
            return np.array([*some, *rng.normal(0, 3e4, _N - len(some))], t)
    low, high = int(dtype.min), int(dtype.max)
    some = [0, 1, low, high, high - 1, low + 1, 100, high // 3, high // 2 + 1]
    random = rng.integers(low, high, _N - len(some) - 16, dtype=t, endpoint=True).tolist()
    # halfway cases of f16 and f32, in reach of this dtype
    halves = [v for k in range(8) if (v := (1 << 24) * 2 + 2 * k + 1) <= high] or some
    small = [v for k in range(8) if (v := 2048 + k) <= high] or some
    return np.resize(np.array([*some, *random, *halves, *small], t), _N)


def converted(x: Array, to: DType) -> Array:
    """What CAST gives."""
    t = numpy_dtype(to)
    if x.dtype.kind == "f" and to.is_int:
        low, high = int(to.min), int(to.max)
        clipped = np.clip(np.nan_to_num(x.astype(np.float64), nan=0.0), -1e30, 1e30).tolist()
        return np.array([min(max(int(v), low), high) for v in clipped], t)
    with np.errstate(over="ignore"):
        return x.astype(t)


@pytest.mark.parametrize("arch", levels())
@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("dtype", _VALUES, ids=lambda d: d.name)
def test_cast_to_every_dtype(dtype: DType, vector: bool, arch: str) -> None:
    can = LLVMRenderer(Arch(arch)).capabilities
    if dtype not in can.dtypes:
        return
    targets = [d for d in _VALUES if d in can.dtypes and d is not dtype]
    lanes = max(can.widths(dtype)) if vector else 0
    x = samples(dtype)
    body = Body()
    loop = body(UOp.range(UOp.const(_N // max(lanes, 1), dtypes.int32), "i"))
    at = loop * lanes if lanes else loop
    value = body(UOp.param(0, dtype, _N).load(at, lanes=lanes))
    stores = [body(UOp.param(i, d, _N, "w").store(at, value.cast(d))) for i, d in enumerate(targets, 1)]
    body(closed(loop, *stores))
    got = [np.zeros(_N, numpy_dtype(d)) for d in targets]
    run(body, [x, *got], arch=Arch(arch))
    for d, g in zip(targets, got, strict=True):
        want = converted(x, d)
        same = (g == want) | (np.isnan(g) & np.isnan(want)) if d.is_float else g == want
        assert same.all(), f"{dtype.name} to {d.name}: {x[~same]} gave {g[~same]}, not {want[~same]}"


_EQUAL_WIDTHS = [("float32", "uint32"), ("int16", "float16"), ("float64", "int64"), ("int8", "uint8")]


@pytest.mark.parametrize("lanes", [0, 4])
@pytest.mark.parametrize("pair", _EQUAL_WIDTHS)
def test_bitcast(pair: tuple[str, str], lanes: int) -> None:
    of, to = map(dtypes.parse, pair)
    bits = np.arange(_N, dtype=np.uint8).repeat(of.itemsize).view(numpy_dtype(of))
    body = Body()
    loop = body(UOp.range(UOp.const(_N // max(lanes, 1), dtypes.int64), "i"))
    at = loop * lanes if lanes else loop
    value = body(UOp.param(0, of, _N).load(at, lanes=lanes)).bitcast(to)
    body(closed(loop, body(UOp.param(1, to, _N, "w").store(at, value))))
    got = np.zeros(_N, numpy_dtype(to))
    run(body, [bits, got])
    assert (got.view(np.uint8) == bits.view(np.uint8)).all()


def test_a_double_is_rounded_to_half_once() -> None:
    # just above halfway between two f16: f32 would round to halfway, and then to even
    below = 1 + 3 * 2.0**-11 - 2.0**-40
    x = np.array([1 + 2.0**-11 + 2.0**-40, 2.0**-25 * (1 + 2.0**-50), 65520 - 2.0**-30, -below])
    for arch in levels():
        if dtypes.float16 in LLVMRenderer(Arch(arch)).capabilities.dtypes:
            body = Body()
            value = body(UOp.param(0, dtypes.float64, 4).load(0, lanes=4)).cast(dtypes.float16)
            body(UOp.param(1, dtypes.float16, 4, "w").store(0, value))
            got = np.zeros(4, np.float16)
            run(body, [x, got], arch=Arch(arch))
            assert got.tolist() == [1 + 2.0**-10, 2.0**-24, 65504, -(1 + 2.0**-10)]
