"""Floats of 8 bits: all their values, rounding to them, and arithmetic, made in float32 and rounded once."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance.check import Check
from tiny_conformance.compare import Array, limits, numpy_dtype
from tiny_conformance.table import FLOATS8, Op, cases, narrowed
from tiny_core import Tensor

dtypes = pytest.mark.parametrize("dtype", FLOATS8)


def values(dtype: str) -> Array:
    """All 256 of them."""
    return np.arange(256, dtype=np.uint8).view(numpy_dtype(dtype))


@dtypes
@pytest.mark.parametrize("wide_dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_value_widened(dtype: str, wide_dtype: str, check: Check) -> None:
    x = values(dtype)
    check(Tensor(x).cast(wide_dtype), narrowed(x, wide_dtype))


@dtypes
@pytest.mark.parametrize("wide_dtype", ["float16", "float32"])
def test_rounding_to_nearest_even(
    dtype: str, wide_dtype: str, rng: np.random.Generator, check: Check
) -> None:
    # of what does not overflow: between any two neighbours, the middle and what lies beside it
    finite = values(dtype).astype(np.float64)
    steps = np.unique(finite[np.isfinite(finite)])
    middles = (steps[1:] + steps[:-1]) / 2
    near = np.concatenate([middles, middles * (1 + 2**-8), middles * (1 - 2**-8), steps])
    x = near[np.abs(near) < limits(dtype).largest].astype(wide_dtype)
    check(Tensor(x).cast(dtype), narrowed(x.astype(np.float64), dtype))


@cases(
    [
        Op("add", lambda x, y: x + y, np.add, FLOATS8),
        Op("mul", lambda x, y: x * y, np.multiply, FLOATS8),
        Op("sub", lambda x, y: x - y, np.subtract, FLOATS8),
    ]
)
def test_arithmetic(op: Op, dtype: str, rng: np.random.Generator, check: Check) -> None:
    x, y = (narrowed(rng.uniform(-3, 3, 200), dtype) for _ in range(2))
    want = op.numpy(x.astype(np.float32), y.astype(np.float32))
    check(op.ours(Tensor(x), Tensor(y)), narrowed(want, dtype))


@dtypes
def test_storage(dtype: str, check: Check) -> None:
    x = values(dtype)
    finite = x[~np.isnan(x.astype(np.float32))].copy()
    check(Tensor(finite)[::-1], finite[::-1].copy())
    check(Tensor(finite).bitcast("uint8"), finite.view(np.uint8))
