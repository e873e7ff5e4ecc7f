"""Numbers at the edges: NaN, infinities, signed zeros, integers that no dtype holds, and numpy's own numbers
and arrays. References are numpy's."""

# mypy: disable-error-code="arg-type,operator,call-overload,index"
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tiny_core import Tensor

NAN, INF = math.nan, math.inf
EDGES = [NAN, INF, -INF, 0.0, -0.0, 1e39, -1e39, 5e-324, 3.4028235e38, 1.5]
Array = np.ndarray
OPS: list[tuple[str, Callable[[object, float], object]]] = [
    ("x + c", lambda x, c: x + c),
    ("c - x", lambda x, c: c - x),
    ("x * c", lambda x, c: x * c),
    ("x / c", lambda x, c: x / c),
    ("c / x", lambda x, c: c / x),
    ("x < c", lambda x, c: x < c),
    ("x >= c", lambda x, c: x >= c),
    ("x == c", lambda x, c: x == c),
    ("x != c", lambda x, c: x != c),
]


def _same(got: Array, expected: Array) -> None:
    np.testing.assert_array_equal(got, expected)
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize(("name", "op"), OPS, ids=[n for n, _ in OPS])
def test_constants_at_the_edges_of_float32(name: str, op: Callable[[object, float], object]) -> None:
    x = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -2.5], np.float32)
    tensor = Tensor(x)
    results = [op(tensor, c) for c in EDGES]
    Tensor.realize(*results)
    with np.errstate(all="ignore"):
        for c, result in zip(EDGES, results, strict=True):
            _same(result.numpy(), np.asarray(op(x, np.float32(c))))


def test_filled_with_the_edges() -> None:
    with np.errstate(all="ignore"):
        for c in EDGES:
            _same(Tensor.full((2,), c).numpy(), np.full(2, c, np.float32))
            _same(Tensor([1.0]).pad(((1, 1),), value=c).numpy(), np.array([c, 1, c], np.float32))
            _same(Tensor([True, False]).where(c, 7.0).numpy(), np.array([c, 7], np.float32))


INTS = [1 << 31, -(1 << 31) - 1, 1 << 63, -(1 << 63) - 1, 1 << 64, 1 << 200, -(10**400), 0, -1, 255, 256]


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_integers_compare_by_value_with_any_python_integer(kind: str) -> None:
    info = np.iinfo(kind)
    values = [info.min, info.max, 0, 1]
    x = Tensor(np.array(values, kind))
    checks: list[tuple[Tensor, list[bool]]] = []
    for c in INTS:
        checks += [
            (x < c, [v < c for v in values]),
            (x <= c, [v <= c for v in values]),
            (x > c, [v > c for v in values]),
            (x >= c, [v >= c for v in values]),
            (x == c, [v == c for v in values]),
            (x != c, [v != c for v in values]),
        ]
    Tensor.realize(*(t for t, _ in checks))
    for tensor, expected in checks:
        assert tensor.tolist() == expected


def test_integers_that_no_float_holds() -> None:
    x = Tensor([1.0, -1.0])
    assert (x + 10**400).tolist() == [INF, INF]
    assert (x < 10**400).tolist() == [True, True] and (x == -(10**400)).tolist() == [False, False]
    assert (x * -(10**400)).tolist() == [-INF, INF]
    assert (Tensor([2.0]) ** 10**400).tolist() == [INF]


SCALARS = [np.float32(2), np.float64(2), np.int64(2), np.uint8(2), np.array(2.0, np.float32)]


@pytest.mark.parametrize("two", SCALARS, ids=[f"{type(s).__name__}-{s.dtype}" for s in SCALARS])
def test_numbers_of_numpy_are_numbers(two: object) -> None:
    x = Tensor([1.0, 3.0])
    results = [
        x + two,
        two + x,
        x * two,
        two - x,
        x / two,
        x**two,
        x.maximum(two),
        x.where(two, 0.0),
        x.pow(two),
    ]
    assert [r.dtype.name for r in results] == ["float32"] * len(results)
    assert [r.tolist() for r in results] == [
        [3, 5], [3, 5], [2, 6], [1, -1], [0.5, 1.5], [1, 9], [2, 3], [2, 2], [1, 9],
    ]  # fmt: skip
    assert (x < two).tolist() == [True, False]
    assert Tensor.full((2,), two).tolist() == [2, 2] and Tensor([two, 1]).tolist() == [2, 1]
    x.assign(two)
    assert x.tolist() == [2, 2]


def test_integers_of_numpy_are_sizes_axes_and_indices() -> None:
    n = np.int64(2)
    x = Tensor.zeros(n, np.int32(3))
    assert x.shape == (2, 3) and x.reshape(np.int64(3), n).shape == (3, 2)
    assert all(type(d) is int for d in x.shape)
    assert x.sum(np.int8(1)).shape == (2,) and x[np.int64(1)].shape == (3,)
    assert x.permute(np.int64(1), np.int64(0)).shape == (3, 2) and x.expand(n, 2, 3).shape == (2, 2, 3)


def test_arrays_of_numpy_index() -> None:
    x = Tensor([[1, 2], [3, 4], [5, 6]])
    assert x[np.array([2, 0])].tolist() == [[5, 6], [1, 2]]
    assert x[:, np.array([[1], [-1]])].tolist() == [[[2], [2]], [[4], [4]], [[6], [6]]]


@pytest.mark.parametrize("order", ["<", ">", "="])
@pytest.mark.parametrize("kind", ["i2", "u4", "i8", "f2", "f4", "f8"])
def test_arrays_of_either_byte_order(order: str, kind: str) -> None:
    array = np.array([[1, 2, 300], [0, 5, 7]], order + kind)
    for view in (array, array.T, array[:, ::-1], array[::2]):
        assert Tensor(view).tolist() == view.tolist()


def test_a_power_too_large_to_multiply_out() -> None:
    np.testing.assert_allclose((Tensor([1.0000001], dtype="float64") ** 10**7).numpy(), [math.e], rtol=1e-3)
