"""Conversions between all pairs of dtypes, and bits seen as another dtype.

Total: integers wrap; floats round to nearest even, and beyond the largest become infinite; a float that an
integer does not reach saturates, and NaN is 0.
"""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Array, is_float, numpy_dtype
from tiny_conformance.table import ALL
from tiny_core import Tensor

WIDTHS = (
    ("int8", "uint8"),
    ("int16", "uint16", "float16", "bfloat16"),
    ("int32", "uint32", "float32"),
    ("int64", "uint64", "float64"),
)


def converted(x: Array, name: str) -> Array:
    """The array in another dtype, by the rules above."""
    to = numpy_dtype(name)
    if name == "bool":
        return np.asarray(x != 0)
    if is_float(name) or not is_float(x.dtype.name):
        with np.errstate(all="ignore"):
            if is_float(name) and x.dtype.kind in "iu" and to.itemsize < 4:
                return np.array([narrow(int(v), to) for v in x.ravel()], to).reshape(x.shape)
            return x.astype(to)
    info = np.iinfo(to)
    values = [0 if np.isnan(v) else v for v in x.astype(np.longdouble).ravel()]
    limited = [int(info.max) if v >= info.max else int(info.min) if v <= info.min else int(v) for v in values]
    return np.array(limited, to).reshape(x.shape)


def narrow(value: int, to: np.dtype[np.generic]) -> Array:
    """An integer as a narrow float, rounded once: to odd in wider ones first, where a digit is lost."""
    near = np.float64(value)
    if int(near) != value:
        toward = near if abs(int(near)) < abs(value) else np.nextafter(near, 0)
        near = (toward.view(np.int64) | 1).view(np.float64)
    single = np.float32(near)
    if np.float64(single) != near:
        toward32 = single if abs(np.float64(single)) < abs(near) else np.nextafter(single, np.float32(0))
        single = (toward32.view(np.int32) | 1).view(np.float32)
    return np.asarray(single).astype(to)


@pytest.mark.parametrize("to_dtype", ALL)
@pytest.mark.parametrize("from_dtype", ALL)
def test_cast(from_dtype: str, to_dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.whole_range(from_dtype, rng)
    if is_float(from_dtype) and not is_float(to_dtype):
        x = np.concatenate([x, sample.uniform(from_dtype, (60,), rng, -300, 300)])
    if from_dtype == "float64" and to_dtype in ("float16", "bfloat16"):
        with np.errstate(all="ignore"):
            x = x.astype(np.float32).astype(np.float64)  # where one rounding and two agree
    check(Tensor(x).cast(to_dtype), converted(x, to_dtype), dtype=to_dtype)


def missing(x: Array) -> Array:
    """Where a float is NaN."""
    return np.asarray(np.isnan(x)) if is_float(x.dtype.name) else np.zeros(x.shape, bool)


@pytest.mark.parametrize(("from_dtype", "to_dtype"), [(a, b) for w in WIDTHS for a in w for b in w if a != b])
def test_bitcast(from_dtype: str, to_dtype: str, rng: np.random.Generator, check: Check) -> None:
    dtype = numpy_dtype(from_dtype)
    x = rng.integers(0, 256, 64 * dtype.itemsize).astype(np.uint8).view(dtype)
    want = x.view(numpy_dtype(to_dtype))
    kept = ~(missing(x) | missing(want))  # a NaN's payload may change on the way
    check(Tensor(x[kept]).bitcast(to_dtype), want[kept], dtype=to_dtype)


def test_cast_in_the_middle_of_a_kernel_rounds(check: Check) -> None:
    x = np.array([1.0, 1 + 2**-12, 2049.0, 1e-8], np.float32)
    half = x.astype(np.float16)
    check(Tensor(x).half().float() * 2, half.astype(np.float32) * 2)


def test_to_bool_and_back(check: Check) -> None:
    x = np.array([0.0, -0.0, np.nan, 0.25, -3.0, np.inf], np.float32)
    check(Tensor(x).bool(), x != 0)
    check(Tensor(x).bool().float(), (x != 0).astype(np.float32))
