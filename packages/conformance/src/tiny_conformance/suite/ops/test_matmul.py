"""Matrix products, at sizes that fill tiles and sizes that do not."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Array, Tolerance, numpy_dtype
from tiny_conformance.table import FLOATS, dtypes_of, widened
from tiny_core import Tensor

SHAPES = [
    ((3, 4), (4, 5)), ((16, 16), (16, 16)), ((1, 7), (7, 1)), ((33, 17), (17, 65)), ((64, 64), (64, 64)),
    ((5,), (5,)), ((5,), (5, 3)), ((3, 5), (5,)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((100, 3), (3, 100)), ((1, 128), (128, 64)),
    ((64, 128), (128, 1)), ((4, 0), (0, 3)),
]  # fmt: skip
shapes = pytest.mark.parametrize("shapes", SHAPES, ids=str)
Shapes = tuple[tuple[int, ...], tuple[int, ...]]


def agrees(check: Check, got: Tensor, x: Array, y: Array, dtype: str) -> None:
    """Check a product against numpy's in a wider dtype, within what a sum in any order may be off."""
    scale = np.abs(widened(x)) @ np.abs(widened(y))
    epsilons = 1.0 if numpy_dtype(dtype).itemsize == 2 else 2 * x.shape[-1] ** 0.5 + 2
    check(got, np.asarray(widened(x) @ widened(y)), Tolerance(1, epsilons), scale, dtype)


@shapes
def test_product(shapes: Shapes, rng: np.random.Generator, check: Check) -> None:
    x, y = (sample.uniform("float32", s, rng, -2, 2) for s in shapes)
    agrees(check, Tensor(x) @ Tensor(y), x, y, "float32")


@shapes
def test_product_of_integers(shapes: Shapes, rng: np.random.Generator, check: Check) -> None:
    x, y = (sample.uniform("int32", s, rng, -99, 99) for s in shapes)
    check(Tensor(x) @ Tensor(y), np.asarray(x @ y))


@dtypes_of((*FLOATS, "int8", "uint8", "int16", "int64"))
@pytest.mark.parametrize("shapes", [SHAPES[3], SHAPES[1]], ids=str)
def test_each_dtype(dtype: str, shapes: Shapes, rng: np.random.Generator, check: Check) -> None:
    x, y = (sample.uniform(dtype, s, rng, -2, 9) for s in shapes)
    if dtype in FLOATS:
        agrees(check, Tensor(x) @ Tensor(y), x, y, dtype)
        return
    got = Tensor(x) @ Tensor(y)
    with np.errstate(all="ignore"):
        want = (x.astype(np.int64) @ y.astype(np.int64)).astype(numpy_dtype(got.dtype.name))
    check(got, want)


@pytest.mark.parametrize("layout", ["nt", "tn", "tt"])
def test_transposed_operands(layout: str, rng: np.random.Generator, check: Check) -> None:
    x, y = sample.uniform("float32", (35, 20), rng, -2, 2), sample.uniform("float32", (20, 18), rng, -2, 2)
    a = Tensor(np.ascontiguousarray(x.T)).T if layout[0] == "t" else Tensor(x)
    b = Tensor(np.ascontiguousarray(y.T)).T if layout[1] == "t" else Tensor(y)
    agrees(check, a @ b, x, y, "float32")


def test_what_follows(rng: np.random.Generator, check: Check) -> None:
    x, y = sample.uniform("float32", (40, 24), rng, -2, 2), sample.uniform("float32", (24, 33), rng, -2, 2)
    bias = sample.uniform("float32", (33,), rng, -2, 2)
    want = np.maximum(widened(x) @ widened(y) + widened(bias), 0) * 0.5
    scale = np.abs(widened(x)) @ np.abs(widened(y))
    check((Tensor(x) @ Tensor(y) + Tensor(bias)).relu() * 0.5, want, Tolerance(1, 12), scale, "float32")
    check(Tensor(x).linear(Tensor(y), Tensor(bias)).relu() * 0.5, want, Tolerance(1, 12), scale, "float32")


def test_what_goes_before(rng: np.random.Generator, check: Check) -> None:
    x, y = sample.uniform("float32", (40, 24), rng, -2, 2), sample.uniform("float32", (24, 33), rng, -2, 2)
    want = np.maximum(widened(x), 0) @ (widened(y) * 2 + 1)
    scale = np.abs(widened(x)) @ (np.abs(widened(y)) * 2 + 1)
    check(Tensor(x).relu() @ (Tensor(y) * 2 + 1), want, Tolerance(1, 16), scale, "float32")


def test_sum_of_a_product(rng: np.random.Generator, check: Check) -> None:
    x, y = sample.uniform("float32", (40, 24), rng, -2, 2), sample.uniform("float32", (24, 33), rng, -2, 2)
    product = widened(x) @ widened(y)
    scale = (np.abs(widened(x)) @ np.abs(widened(y))).sum()
    check(
        (Tensor(x) @ Tensor(y)).relu().sum(),
        np.asarray(np.maximum(product, 0).sum()),
        Tolerance(1, 32),
        scale,
        "float32",
    )


def test_chain(rng: np.random.Generator, check: Check) -> None:
    x, y, z = (sample.uniform("int32", s, rng, -9, 9) for s in ((12, 8), (8, 20), (20, 5)))
    check(Tensor(x) @ Tensor(y) @ Tensor(z), x @ y @ z)


@pytest.mark.large
@pytest.mark.parametrize("size", [(128, 128, 128), (200, 150, 170), (257, 129, 65), (512, 512, 96)], ids=str)
def test_large(size: tuple[int, int, int], rng: np.random.Generator, check: Check) -> None:
    m, n, k = size
    x, y = sample.uniform("float32", (m, k), rng, -2, 2), sample.uniform("float32", (k, n), rng, -2, 2)
    agrees(check, Tensor(x) @ Tensor(y), x, y, "float32")
