"""Choosing between values: where, masked_fill, clamp."""

from __future__ import annotations

import numpy as np

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import numpy_dtype
from tiny_conformance.table import ALL, NUMBERS, dtypes_of
from tiny_core import Tensor


@dtypes_of(ALL)
def test_where(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x, y = sample.pairs(dtype, rng)
    condition = rng.integers(0, 2, x.shape).astype(bool)
    check(Tensor(condition).where(Tensor(x), Tensor(y)), np.where(condition, x, y))


@dtypes_of(NUMBERS)
def test_where_with_numbers(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.whole_range(dtype, rng)
    condition = rng.integers(0, 2, x.shape).astype(bool)
    check(Tensor(condition).where(Tensor(x), 1), np.where(condition, x, np.asarray(1, x.dtype)))


@dtypes_of(("int32", "float32"))
def test_where_broadcasts(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (4, 1, 5), rng, -9, 9)
    y = sample.uniform(dtype, (3, 1), rng, -9, 9)
    condition = rng.integers(0, 2, (5,)).astype(bool)
    check(Tensor(condition).where(Tensor(x), Tensor(y)), np.where(condition, x, y))


@dtypes_of(("int32", "float32"))
def test_condition_of_numbers(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (40,), rng, -2, 2)
    x[::3] = 0
    check(Tensor(x).where(Tensor(x), 5), np.where(x != 0, x, np.asarray(5, x.dtype)))


@dtypes_of(ALL)
def test_masked_fill(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.whole_range(dtype, rng)
    mask = rng.integers(0, 2, x.shape).astype(bool)
    fill = np.asarray(1, numpy_dtype(dtype))
    check(Tensor(x).masked_fill(Tensor(mask), True if dtype == "bool" else 1), np.where(mask, fill, x))


@dtypes_of(NUMBERS)
def test_clamp(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.whole_range(dtype, rng)
    low, high = np.asarray(1, x.dtype), np.asarray(20, x.dtype)
    with np.errstate(all="ignore"):
        below = np.where(x > high, high, x)  # NaN stays
        within = np.where(below < low, low, below)
    check(Tensor(x).clamp(1, 20), within)
    check(Tensor(x).clamp(max_=20), below)


def test_the_side_not_chosen_is_not_seen(check: Check) -> None:
    x = np.array([0.0, 1.0, 4.0], np.float32)
    safe = (Tensor(x) == 0).where(1.0, Tensor(x))
    check((Tensor(x) == 0).where(0.0, 1.0 / safe), np.array([0, 1, 0.25], np.float32))
    check((Tensor(x) > 0).where(1.0 / Tensor(x), 0.0), np.array([0, 1, 0.25], np.float32))
