"""Operations of a tensor and a Python number, which takes the tensor's dtype and is rounded once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import numpy_dtype
from tiny_conformance.table import FLOATS, INTS, dtypes_of, integers, narrowed
from tiny_core import Tensor


@dtypes_of(INTS)
def test_integer_with_an_integer(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.whole_range(dtype, rng)
    t = Tensor(x)
    check(t + 7, integers(lambda v: v + 7)(x))
    check(7 - t, integers(lambda v: 7 - v)(x))
    check(t * 3, integers(lambda v: v * 3)(x))
    check(t // 3, integers(lambda v: v // 3)(x))
    check(t % 5, integers(lambda v: v % 5)(x))


@dtypes_of(INTS)
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 10, 64, 100, 127])
def test_integer_divided_by_a_constant(
    dtype: str, divisor: int, rng: np.random.Generator, check: Check
) -> None:
    x = sample.whole_range(dtype, rng, 200)
    check(Tensor(x) // divisor, integers(lambda v: v // divisor)(x))
    check(Tensor(x) % divisor, integers(lambda v: v % divisor)(x))


@pytest.mark.parametrize("dtype", ["bool", *INTS])
def test_integer_with_a_float(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (67,), rng, -100, 100)
    check(Tensor(x) * 0.5, x.astype(np.float32) * np.float32(0.5))
    check(Tensor(x) / 2, x.astype(np.float32) / np.float32(2))


@dtypes_of(FLOATS)
def test_float_with_an_exact_number(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.whole_range(dtype, rng)
    two = np.asarray(2, numpy_dtype(dtype))
    with np.errstate(all="ignore"):
        check(Tensor(x) * 2, x * two)
        check(2 / Tensor(x), two / x)
        check(Tensor(x) - 2, x - two)


@dtypes_of(("float16", "bfloat16"))
def test_narrow_float_with_a_number_it_does_not_hold(
    dtype: str, rng: np.random.Generator, check: Check
) -> None:
    # 0.1 is not rounded to the narrow type first: the product is made in float32 and rounded once
    x = sample.uniform(dtype, (67,), rng, -100, 100)
    check(Tensor(x) * 0.1, narrowed(x.astype(np.float32) * np.float32(0.1), dtype))


@dtypes_of(FLOATS)
def test_zeros_keep_their_sign(dtype: str, check: Check) -> None:
    zeros = np.array([0.0, -0.0], numpy_dtype(dtype))
    negative = np.asarray(-0.0, numpy_dtype(dtype))
    check(Tensor(zeros) * -0.0, zeros * negative)
    check(Tensor(zeros) + -0.0, zeros + negative)
    check(Tensor(zeros) + 0.0, zeros + np.asarray(0.0, numpy_dtype(dtype)))
    check(1.0 / Tensor(zeros), np.array([np.inf, -np.inf], numpy_dtype(dtype)))


@dtypes_of(FLOATS)
def test_nothing_is_folded_that_nan_and_infinity_change(dtype: str, check: Check) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -1.0], numpy_dtype(dtype))
    t = Tensor(x)
    with np.errstate(all="ignore"):
        check(t * 0.0, x * np.asarray(0, x.dtype))
        check(t - t, x - x)
        check(t / t, x / x)
    check(t == t, ~np.isnan(x))  # noqa: PLR0124


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e30, -0.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_constants(dtype: str, value: float, rng: np.random.Generator, check: Check) -> None:
    x = sample.whole_range(dtype, rng)
    with np.errstate(all="ignore"):
        check(Tensor(x) + value, x + np.asarray(value, x.dtype))
    check((Tensor(x) > value), x > value)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_comparison_with_an_integer_out_of_range(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.whole_range(dtype, rng)
    for value in (np.iinfo(dtype).max + 1, np.iinfo(dtype).min - 1):
        check(Tensor(x) < int(value), np.array([int(v) < value for v in x]))
        check(Tensor(x) == int(value), np.zeros(x.shape, bool))
