"""Exact rounding with numpy: narrow floats from doubles, and fused multiply-add.

In: arrays. Out: arrays that are rounded once. Guaranteed: the same bits as the exact result rounded to
nearest, ties to even. The tool is rounding to odd (Boldo and Melquiond, "Emulation of a FMA and correctly
rounded sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57(4), 2008): an intermediate
result with at least two more bits than the final one, cut toward zero and its last bit set if anything was
lost, rounds to the same final value.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiny_core.api import DType, dtypes

# An array of any dtype that has arithmetic; numpy's stubs have no narrower type for it.
Array = NDArray[Any]
Doubles = NDArray[np.float64]

# Products and sums whose exponents stay within these have error terms that are doubles too.
_FACTOR_MIN, _FACTOR_MAX = 2.0**-450, 2.0**450
_ADDEND_MIN, _ADDEND_MAX = 2.0**-900, 2.0**990
_SPLITTER = 2.0**27 + 1  # Veltkamp's constant for 53 bits


def numpy_dtype(dtype: DType) -> np.dtype[np.generic]:
    """Return the numpy dtype that values of `dtype` have; `index`, which has no width, is computed in 64
    bits."""
    if dtype.code:
        return np.dtype(dtype.code) if dtype.kind != "weakfloat" else np.dtype(np.float64)
    if dtype is dtypes.index:
        return np.dtype(np.int64)
    import ml_dtypes

    name = "float8_e4m3fn" if dtype is dtypes.float8_e4m3 else dtype.name
    found: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, name))
    return found


def narrow(x: Doubles, dtype: DType) -> Array:
    """Round doubles to a float `dtype`, once."""
    target = numpy_dtype(dtype)
    if dtype.bits >= 32 or dtype is dtypes.float16:
        return x.astype(target)
    # ml_dtypes converts doubles by way of float32, which would round twice: make that step one to odd.
    y = x.astype(np.float32)
    wide = y.astype(np.float64)
    lost = (wide != x) & ~np.isnan(x)
    if lost.any():
        bits = y.view(np.int32)
        bits = np.where(lost, (bits - (np.abs(wide) > np.abs(x))) | 1, bits)
        y = bits.view(np.float32)
    return y.astype(target)


def whole_to_double(x: Array) -> Doubles:
    """Return integers as doubles that round to any narrower float as the integers do (to odd above 2**53)."""
    if x.dtype.itemsize < 8:
        return x.astype(np.float64)
    big = (x >> 53) != 0 if x.dtype.kind == "u" else ((x >> 53) != 0) & ((x >> 53) != -1)
    if big.any():
        odd = (x & ~x.dtype.type(0x7FF)) | ((x & x.dtype.type(0x7FF)) != 0).astype(x.dtype) << x.dtype.type(
            11
        )
        x = np.where(big, odd, x)
    return x.astype(np.float64)


def _sum_to_odd(x: Doubles, y: Doubles) -> Doubles:
    """Return x+y rounded to odd."""
    total = x + y
    shadow = total - x
    error = (x - (total - shadow)) + (y - shadow)  # exact (Knuth's TwoSum)
    bits = total.view(np.int64)
    step = (error != 0) & ((bits & 1) == 0) & np.isfinite(total) & ~np.isnan(error)
    if step.any():
        up = (error > 0) == (total > 0)  # away from zero; the exact sum lies between total and this neighbour
        bits = np.where(step, bits + np.where(up, 1, -1), bits)
    return bits.view(np.float64)


def fma_narrow(x: Array, y: Array, z: Array, dtype: DType) -> Array:
    """Return x*y+z of float16, bfloat16 or fp8 arrays, rounded once: their products are exact in double."""
    a, b, c = x.astype(np.float64), y.astype(np.float64), z.astype(np.float64)
    return narrow(_sum_to_odd(*np.broadcast_arrays(a * b, c)), dtype)


def fma32(x: Array, y: Array, z: Array) -> Array:
    """Return x*y+z of float32 arrays, rounded once."""
    product = np.multiply(x, y, dtype=np.float64)  # 48 bits: exact
    total: Doubles = np.add(product, z, dtype=np.float64)
    # Rounding twice differs from rounding once only where the double lies half-way between two floats, or
    # among the subnormal floats, which are further apart.
    half = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    if half.any() or (np.abs(total) < 2.0**-126).any():
        total = _sum_to_odd(*np.broadcast_arrays(product, z.astype(np.float64)))
    return total.astype(np.float32)


def _split(x: Doubles) -> tuple[Doubles, Doubles]:
    scaled = x * _SPLITTER
    high = scaled - (scaled - x)
    return high, x - high


def fma64(x: Array, y: Array, z: Array) -> Doubles:
    """Return x*y+z of float64 arrays, rounded once."""
    a, b, c = (np.array(v, np.float64) for v in np.broadcast_arrays(x, y, z))
    high = a * b
    (a1, a0), (b1, b0) = _split(a), _split(b)
    low = a0 * b0 - (((high - a1 * b1) - a0 * b1) - a1 * b0)  # Dekker: a*b = high + low
    inner = c + low
    shadow = inner - c
    rest = (c - (inner - shadow)) + (low - shadow)
    outer = high + inner
    shadow = outer - high
    error = (high - (outer - shadow)) + (inner - shadow)
    result: Doubles = outer + _sum_to_odd(rest, error)
    easy = _within(a, _FACTOR_MIN, _FACTOR_MAX) & _within(b, _FACTOR_MIN, _FACTOR_MAX)
    easy &= _within(c, _ADDEND_MIN, _ADDEND_MAX)
    zero = (result == 0) | (a == 0) | (b == 0) | (c == 0) & easy
    special = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    if zero.any() or special.any():  # the product is exact or absent, or its class decides
        plain = high + c
        # An overflowing product of finite numbers must not turn a sum with an infinity into NaN.
        plain = np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c, plain)
        result = np.where(zero | special, plain, result)
    hard = ~(easy | special) & (a != 0) & (b != 0)
    for at in zip(*np.nonzero(hard), strict=True):
        result[at] = _exact(float(a[at]), float(b[at]), float(c[at]))
    return result


def _within(x: Doubles, least: float, greatest: float) -> NDArray[np.bool_]:
    size = np.abs(x)
    inside: NDArray[np.bool_] = (size == 0) | ((size >= least) & (size <= greatest))
    return inside


def _exact(x: float, y: float, z: float) -> float:
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
