"""Sums, products, extremes: every dtype, over one axis, several, or all."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Array, Tolerance, is_float, numpy_dtype
from tiny_conformance.table import ALL, FLOATS, NUMBERS, dtypes_of, widened
from tiny_core import Tensor

Axis = int | tuple[int, ...] | None
WHERE: list[tuple[tuple[int, ...], Axis]] = [
    ((), None), ((1,), 0), ((7,), 0), ((3, 5), None), ((3, 5), 0), ((3, 5), 1), ((2, 3, 4), (0, 2)),
    ((2, 3, 4), 1), ((33, 65), 0), ((33, 65), -1), ((33, 65), None), ((4, 1000), 1), ((1000, 4), 0),
    ((1, 1, 9), (0, 1)), ((5, 0), 0), ((2, 3, 4, 5), (1, 3)), ((3, 5), ()),
]  # fmt: skip
ACCUMULATED = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
"""Dtypes of integer sums that are not the operand's own."""
few = pytest.mark.parametrize(("shape", "axis"), [WHERE[4], WHERE[6], WHERE[9]], ids=str)
many = pytest.mark.parametrize(("shape", "axis"), WHERE, ids=str)


def sum_tolerance(x: Array, axis: Axis) -> tuple[Tolerance, Array]:
    """What a sum in any order may be off, as a random walk of its roundings."""
    count = max(1, x.size // max(1, np.sum(np.ones_like(x, np.int64), axis=axis).size))
    return Tolerance(ulps=1, epsilons=2 * float(count) ** 0.5), np.sum(np.abs(widened(x)), axis=axis)


@many
def test_sum_of_floats(shape: tuple[int, ...], axis: Axis, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("float32", shape, rng, -3, 3)
    tolerance, scale = sum_tolerance(x, axis)
    check(Tensor(x).sum(axis), np.asarray(np.sum(widened(x), axis=axis)), tolerance, scale, "float32")


@many
def test_max_of_floats(shape: tuple[int, ...], axis: Axis, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("float32", shape, rng, -3, 3)
    if x.size == 0:
        pytest.skip("there is nothing to choose from")
    check(Tensor(x).max(axis), np.asarray(np.max(x, axis=axis)))


@few
@dtypes_of(FLOATS)
def test_sum_of_each_float(
    dtype: str, shape: tuple[int, ...], axis: Axis, rng: np.random.Generator, check: Check
) -> None:
    x = sample.uniform(dtype, shape, rng, -3, 3)
    if dtype in ("float16", "bfloat16"):  # accumulated in float32, rounded once
        check(
            Tensor(x).sum(axis),
            np.sum(widened(x), axis=axis),
            Tolerance(ulps=0.51, epsilons=2.0**-7),
            np.sum(np.abs(widened(x)), axis=axis),
            dtype,
        )
        return
    tolerance, scale = sum_tolerance(x, axis)
    check(Tensor(x).sum(axis), np.sum(widened(x), axis=axis), tolerance, scale, dtype)


@few
@dtypes_of(("bool", *(d for d in NUMBERS if not is_float(d))))
def test_sum_of_each_integer(
    dtype: str, shape: tuple[int, ...], axis: Axis, rng: np.random.Generator, check: Check
) -> None:
    x = sample.numbers(dtype, int(np.prod(shape)), rng).reshape(shape)
    inner = numpy_dtype(ACCUMULATED.get(dtype, dtype))
    with np.errstate(all="ignore"):
        want = np.sum(x.astype(inner), axis=axis, dtype=inner)  # wraps
        product = np.prod(x.astype(inner) | inner.type(1), axis=axis, dtype=inner)
    check(Tensor(x).sum(axis), want)
    check((Tensor(x).cast(inner.name) | 1).prod(axis), product)


@few
@dtypes_of(ALL)
def test_extremes(
    dtype: str, shape: tuple[int, ...], axis: Axis, rng: np.random.Generator, check: Check
) -> None:
    x = sample.numbers(dtype, int(np.prod(shape)), rng).reshape(shape)
    check(Tensor(x).max(axis), np.max(x, axis=axis))
    check(Tensor(x).min(axis), np.min(x, axis=axis))


@few
@dtypes_of(ALL)
def test_first_of_the_extremes(
    dtype: str, shape: tuple[int, ...], axis: Axis, rng: np.random.Generator, check: Check
) -> None:
    x = sample.uniform(dtype, shape, rng, -3, 3)
    if is_float(dtype):
        x = np.rint(x.astype(np.float32)).astype(x.dtype)  # so that some are equal
    along = axis if isinstance(axis, int) else None
    check(Tensor(x).argmax(along), np.asarray(np.argmax(x, axis=along), np.int32))
    check(Tensor(x).argmin(along), np.asarray(np.argmin(x, axis=along), np.int32))


@few
@dtypes_of(ALL)
def test_any_and_all(
    dtype: str, shape: tuple[int, ...], axis: Axis, rng: np.random.Generator, check: Check
) -> None:
    x = sample.uniform(dtype, shape, rng, 0, 1)
    if is_float(dtype):
        x = np.rint(x.astype(np.float32)).astype(x.dtype)
    check(Tensor(x).any(axis), np.asarray(np.any(x != 0, axis=axis)))
    check(Tensor(x).all(axis), np.asarray(np.all(x != 0, axis=axis)))


@dtypes_of(("float32", "float64"))
def test_product(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (6, 40), rng, 0.7, 1.4)
    check(Tensor(x).prod(1), np.prod(widened(x), axis=1), Tolerance(ulps=40), dtype=dtype)


@dtypes_of(FLOATS)
def test_nan_wins(dtype: str, check: Check) -> None:
    x = np.array([[1, np.nan, 3], [1, 2, 3], [np.inf, -np.inf, 0]], numpy_dtype(dtype))
    nan = np.nan
    check(Tensor(x).max(1), np.array([nan, 3, np.inf], x.dtype))
    check(Tensor(x).min(1), np.array([nan, 1, -np.inf], x.dtype))
    check(Tensor(x).sum(1), np.array([nan, 6, nan], x.dtype))


@many
def test_keepdim(shape: tuple[int, ...], axis: Axis, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("int32", shape, rng, -9, 9)
    check(Tensor(x).sum(axis, keepdim=True), np.asarray(np.sum(x, axis=axis, keepdims=True, dtype=np.int32)))


@dtypes_of(("int32", "float32"))
def test_dtype_of_accumulation(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (5, 9), rng, 0, 9)
    check(Tensor(x).sum(1, dtype="int64"), np.sum(x.astype(np.int64), axis=1))


@dtypes_of(("float32",))
def test_of_an_expression(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x, y = (sample.uniform(dtype, (24, 31), rng, -3, 3) for _ in range(2))
    product = widened(x) * widened(y)
    want = np.maximum(product, 0).sum(0) * 2 + 1
    scale = np.abs(product).sum(0)
    check((Tensor(x) * Tensor(y)).relu().sum(0) * 2 + 1, want, Tolerance(4, 16), scale, dtype)


@dtypes_of(("int32",))
def test_of_views(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (6, 8, 10), rng, -99, 99)
    t = Tensor(x)
    check(t.permute(2, 0, 1).sum(1), x.transpose(2, 0, 1).sum(1, dtype=np.int32))
    check(t[:, ::2, 3:].sum((0, 2)), x[:, ::2, 3:].sum((0, 2), dtype=np.int32))
    check(t.flip(1).max(0), x[:, ::-1].max(0))
    check(t.pad(((1, 2), (0, 0), (3, 0))).sum(2), np.pad(x, ((1, 2), (0, 0), (3, 0))).sum(2, dtype=np.int32))
    check(t.reshape(48, 10).sum(0).reshape(2, 5), x.reshape(48, 10).sum(0, dtype=np.int32).reshape(2, 5))


@pytest.mark.large
@dtypes_of(("float32", "int32"))
def test_long(dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform(dtype, (1_000_003,), rng, -3, 3)
    if dtype == "int32":
        check(Tensor(x).sum(), np.asarray(np.sum(x, dtype=np.int32)))
        return
    tolerance, scale = sum_tolerance(x, None)
    check(Tensor(x).sum(), np.asarray(np.sum(widened(x))), tolerance, scale, dtype)
    check(Tensor(x).max(), np.asarray(np.max(x)))


def test_two_reductions_of_one_input(rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("int32", (17, 29), rng, -99, 99)
    t = Tensor(x)
    check(t.max(1) - t.min(1) + t.sum(1), x.max(1) - x.min(1) + x.sum(1, dtype=np.int32))


def test_reduction_of_a_reduction(rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("int32", (17, 29), rng, -99, 99)
    check(Tensor(x).max(1).sum(), np.asarray(x.max(1).sum(dtype=np.int32)))
    check(
        (Tensor(x) - Tensor(x).max(1, keepdim=True)).sum(0),
        (x - x.max(1, keepdims=True)).sum(0, dtype=np.int32),
    )
