"""Parts of arrays by integers, slices with steps, None, Ellipsis and integer tensors; gather; one-hot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.table import ALL, INTS, dtypes_of
from tiny_core import Tensor

# of an array of shape (5, 6, 7)
ALL_OF = slice(None)
PARTS: dict[str, Any] = {
    "2": 2, "-1": -1, "1, 2": (1, 2), "1, 2, -3": (1, 2, -3), "1:4": slice(1, 4),
    "::2": slice(None, None, 2), "::-1": slice(None, None, -1), "4:1:-2": slice(4, 1, -2),
    "-3:": slice(-3, None), "10:": slice(10, None), "2:2": slice(2, 2),
    "...": Ellipsis, "..., 3": (Ellipsis, 3), "1, ..., 2": (1, Ellipsis, 2),
    "None, 1": (None, 1), ":, None, :, 2": (ALL_OF, None, ALL_OF, 2),
    ":, 1:5:3": (ALL_OF, slice(1, 5, 3)), ":, :, 5:0:-2": (ALL_OF, ALL_OF, slice(5, 0, -2)),
    "1:3, ::-2, 2:": (slice(1, 3), slice(None, None, -2), slice(2, None)),
}  # fmt: skip


@pytest.mark.parametrize("part", list(PARTS))
def test_part(part: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("int32", (5, 6, 7), rng, -99, 99)
    check(Tensor(x)[PARTS[part]], np.array(x[PARTS[part]]))
    check(Tensor(x)[PARTS[part]] * 2, np.asarray(x[PARTS[part]] * 2, np.int32))


@pytest.mark.parametrize("part", list(PARTS))
def test_assign_to_a_part(part: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("int32", (5, 6, 7), rng, -99, 99)
    t, want = Tensor(x).realize(), x.copy()
    t[PARTS[part]] = 7
    want[PARTS[part]] = 7
    check(t, want)
    value = sample.uniform("int32", np.asarray(x[PARTS[part]]).shape, rng, -99, 99)
    t[PARTS[part]] = Tensor(value)
    want[PARTS[part]] = value
    check(t, want)


@dtypes_of(ALL)
def test_rows_by_a_tensor(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.numbers(dtype, 60, rng).reshape(10, 6)
    index = rng.integers(-10, 10, (4, 3)).astype(np.int32)
    check(Tensor(x)[Tensor(index)], x[index])


@dtypes_of(INTS)
def test_index_of_each_dtype(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("float32", (10, 6), rng, -9, 9)
    index = sample.uniform(dtype, (13,), rng, -10, 9)
    check(Tensor(x)[Tensor(index)], x[index])


@pytest.mark.parametrize("where", ["columns", "pairs", "around a slice", "with an int", "lists"])
def test_tensors_at_several_places(where: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("int32", (5, 6, 7), rng, -99, 99)
    i, j = rng.integers(0, 5, (4,)).astype(np.int32), rng.integers(0, 6, (3, 1)).astype(np.int32)
    t, ti, tj = Tensor(x), Tensor(i), Tensor(j)
    match where:
        case "columns":
            check(t[:, :, ti], x[:, :, i])
        case "pairs":
            check(t[ti, tj], x[i, j])
        case "around a slice":
            check(t[ti, :, tj], x[i, :, j])
        case "with an int":
            check(t[2][tj], x[2][j])
        case _:
            check(t[[0, 2, -1]], x[[0, 2, -1]])


def test_index_out_of_range_reads_zero(rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("float32", (6, 3), rng, 1, 9)
    index = np.array([0, 5, 6, 1000, -6, -7, 2**31 - 1, -(2**31)], np.int32)
    inside = (index >= -6) & (index < 6)
    want = np.where(inside[:, None], x[np.where(inside, index, 0)], np.float32(0))
    check(Tensor(x)[Tensor(index)], want)


@pytest.mark.parametrize("dim", [0, 1, -1])
@dtypes_of(("int32", "float32", "float16", "int64", "bool"))
def test_gather(dtype: str, dim: int, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (5, 6, 7), rng, -9, 9)
    shape = [4, 5, 6]
    shape[dim] = 9
    index = rng.integers(0, x.shape[dim], shape).astype(np.int32)
    inner = x[tuple(slice(0, n) if a != dim % 3 else slice(None) for a, n in enumerate(shape))]
    check(Tensor(x).gather(dim, Tensor(index)), np.take_along_axis(inner, index, dim))


def test_gather_of_an_expression(rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("int32", (8, 5), rng, -9, 9)
    index = rng.integers(0, 4, (11,)).astype(np.int32)
    check((Tensor(x) * 2 + 1)[Tensor(index) * 2], (x * 2 + 1)[index * 2])
    check(Tensor(x)[Tensor(index)].sum(0), x[index].sum(0, dtype=np.int32))
    check(Tensor(x).T[:, Tensor(index)], np.ascontiguousarray(x.T[:, index]))


def test_embedding(rng: np.random.Generator, check: Check) -> None:
    table = sample.uniform("float32", (50, 16), rng, -1, 1)
    tokens = rng.integers(0, 50, (3, 7)).astype(np.int64)
    check(Tensor(table)[Tensor(tokens)], table[tokens])


@dtypes_of(INTS)
def test_one_hot(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (3, 5), rng, 0, 6)
    check(Tensor(x).one_hot(7), (x[..., None].astype(np.int64) == np.arange(7)).astype(np.int32))


def test_mask_chooses_where_to_assign(rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("float32", (6, 7), rng, -3, 3)
    t = Tensor(x).realize()
    t[t < 0] = 0
    check(t, np.where(x < 0, np.float32(0), x))
