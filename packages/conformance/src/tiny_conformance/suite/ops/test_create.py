"""Filled shapes, sequences, and arrays of the host."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Array, Tolerance, numpy_dtype
from tiny_conformance.table import ALL, NUMBERS, dtypes_of
from tiny_core import Tensor


@dtypes_of(ALL)
def test_array_and_back(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = np.resize(sample.whole_range(dtype, rng), 60).reshape(5, 12)
    check(Tensor(x), x)
    check(Tensor(x).clone(), x)
    check(Tensor(x.T), x.T)


@dtypes_of(ALL)
def test_filled(dtype: str, check: Check) -> None:
    to = numpy_dtype(dtype)
    check(Tensor.zeros(3, 4, dtype=dtype), np.zeros((3, 4), to))
    check(Tensor.ones(7, dtype=dtype).contiguous(), np.ones(7, to))
    check(Tensor.full((2, 3), 1, dtype=dtype), np.full((2, 3), 1, to))


@dtypes_of(NUMBERS)
def test_arange(dtype: str, check: Check) -> None:
    to = numpy_dtype(dtype)
    check(Tensor.arange(100, dtype=dtype), np.arange(100).astype(to))
    check(Tensor.arange(3, 50, 7, dtype=dtype), np.arange(3, 50, 7).astype(to))


def test_sequences(check: Check) -> None:
    check(Tensor.arange(10), np.arange(10, dtype=np.int32))
    check(Tensor.arange(9, -3, -2), np.arange(9, -3, -2, dtype=np.int32))
    check(Tensor.arange(0, 2, 0.25), np.arange(0, 2, 0.25, dtype=np.float32))
    check(Tensor.linspace(-1, 1, 9), np.linspace(-1, 1, 9), Tolerance(ulps=2, epsilons=1), dtype="float32")
    check(Tensor.eye(4), np.eye(4, dtype=np.float32))
    check(Tensor.eye(3, 5), np.eye(3, 5, dtype=np.float32))


def test_arange_in_an_expression(check: Check) -> None:
    n = np.arange(50, dtype=np.int32)
    check((Tensor.arange(50) * 3 + 1).sum(), np.asarray((n * 3 + 1).sum(dtype=np.int32)))
    check(Tensor.arange(50).reshape(5, 10).T * 2, n.reshape(5, 10).T * 2)
    check((Tensor.arange(50) % 7 == 3).sum(), np.asarray((n % 7 == 3).sum(dtype=np.int32)))


@pytest.mark.parametrize(
    "data", [3, 2.5, True, [1, 2, 3], [[1.5, 2], [3, 4]], [True, False], [], [2**40]], ids=str
)
def test_numbers_and_lists(data: object, check: Check) -> None:
    x = np.array(data)
    default = {"i": np.int32, "f": np.float32, "b": np.bool_}[x.dtype.kind]
    want: Array = x.astype(np.int64 if data == [2**40] else default)
    check(Tensor(data), want)  # type: ignore[arg-type]  # a list of lists


def test_array_changed_afterwards(check: Check) -> None:
    x = np.ones(5, np.float32)
    t = Tensor(x)
    y = t * 2
    x[:] = 9
    check(t, np.ones(5, np.float32))
    check(y, np.full(5, 2, np.float32))
