"""Element-wise operations of two operands of one dtype, comparisons among them; and pairs of dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Array, Tolerance, is_float, limits, numpy_dtype
from tiny_conformance.table import ALL, FLOATS, INTS, NUMBERS, Op, cases, integers, widened
from tiny_core import Tensor


def greater(x: Array, y: Array) -> Array:
    """The greater of two, NaN if either is, 0.0 above -0.0."""
    equal = np.where(np.signbit(x), y, x)
    return np.where(np.isnan(x), x, np.where(np.isnan(y), y, np.where(x == y, equal, np.where(x > y, x, y))))


def lesser(x: Array, y: Array) -> Array:
    equal = np.where(np.signbit(x), x, y)
    return np.where(np.isnan(x), x, np.where(np.isnan(y), y, np.where(x == y, equal, np.where(x < y, x, y))))


def toward_zero(x: int, y: int) -> int:
    if y == 0:
        return 0
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


BITS = ("bool", *INTS)
EXACT_OPS = (
    Op("add", lambda x, y: x + y, np.add),
    Op("add", lambda x, y: x + y, integers(lambda x, y: x + y), INTS),
    Op("add", lambda x, y: x + y, np.logical_or, ("bool",)),
    Op("sub", lambda x, y: x - y, np.subtract),
    Op("sub", lambda x, y: x - y, integers(lambda x, y: x - y), INTS),
    Op("mul", lambda x, y: x * y, np.multiply),
    Op("mul", lambda x, y: x * y, integers(lambda x, y: x * y), INTS),
    Op("mul", lambda x, y: x * y, np.logical_and, ("bool",)),
    Op("div", lambda x, y: x / y, np.divide),
    Op("maximum", lambda x, y: x.maximum(y), greater),
    Op("maximum", lambda x, y: x.maximum(y), np.maximum, BITS),
    Op("minimum", lambda x, y: x.minimum(y), lesser),
    Op("minimum", lambda x, y: x.minimum(y), np.minimum, BITS),
    # total: x/0 is 0, x mod 0 is x, and the least divided by -1 wraps
    Op("floordiv", lambda x, y: x // y, integers(lambda x, y: x // y if y else 0), INTS),
    Op("mod", lambda x, y: x % y, integers(lambda x, y: x % y if y else x), INTS),
    Op("truncdiv", lambda x, y: x.div(y, rounding_mode="trunc"), integers(toward_zero), INTS),
    Op("fmod", lambda x, y: x.fmod(y), integers(lambda x, y: x - y * toward_zero(x, y)), INTS),
    Op("bitwise_and", lambda x, y: x & y, np.bitwise_and, BITS),
    Op("bitwise_or", lambda x, y: x | y, np.bitwise_or, BITS),
    Op("bitwise_xor", lambda x, y: x ^ y, np.bitwise_xor, BITS),
    Op("copysign", lambda x, y: x.copysign(y), np.copysign),
    Op("lt", lambda x, y: x < y, np.less, ALL, result="bool"),
    Op("le", lambda x, y: x <= y, np.less_equal, ALL, result="bool"),
    Op("gt", lambda x, y: x > y, np.greater, ALL, result="bool"),
    Op("ge", lambda x, y: x >= y, np.greater_equal, ALL, result="bool"),
    Op("eq", lambda x, y: x == y, np.equal, ALL, result="bool"),
    Op("ne", lambda x, y: x != y, np.not_equal, ALL, result="bool"),
)


@cases(EXACT_OPS)
def test_exact(op: Op, dtype: str, rng: np.random.Generator, check: Check) -> None:
    x, y = sample.pairs(dtype, rng)
    if op.name == "copysign":
        y = y[::-1].copy()
        y[np.isnan(y)] = 1  # the sign of a NaN is nobody's business
    check(op.ours(Tensor(x), Tensor(y)), op.reference(dtype, x, y), dtype=op.result or dtype)


@cases(
    [
        Op("lshift", lambda x, y: x << y, integers(lambda x, y: x << y), INTS),
        Op("rshift", lambda x, y: x >> y, integers(lambda x, y: x >> y), INTS),
    ]
)
def test_shifts_by_the_width_and_more(op: Op, dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.whole_range(dtype, rng)
    y = sample.uniform(dtype, x.shape, rng, 0, 8 * numpy_dtype(dtype).itemsize + 3)
    check(op.ours(Tensor(x), Tensor(y)), op.reference(dtype, x, y))


def both(x: Array, y: Array) -> Array:
    """The magnitude of what is rounded."""
    return np.asarray(np.abs(x) + np.abs(y))


def lerp(x: Array, y: Array) -> Array:
    return np.asarray(x + (y - x) * 0.25)


STEP = Tolerance(ulps=1, epsilons=1)
FEW = Tolerance(ulps=8, epsilons=4)
NEAR = (
    Op("pow", lambda x, y: x.pow(y), lambda x, y: x**y, FLOATS, Tolerance(ulps=2), domain=(0, 4)),
    Op("fmod", lambda x, y: x.fmod(y), np.fmod, FLOATS, STEP, domain=(0.5, 30), magnitude=both),
    Op("mod", lambda x, y: x % y, np.mod, FLOATS, STEP, domain=(0.5, 30), magnitude=both),
    Op("logaddexp", lambda x, y: x.logaddexp(y), np.logaddexp, FLOATS, FEW, domain=(-20, 20)),
    Op("lerp", lambda x, y: x.lerp(y, 0.25), lerp, FLOATS, FEW, domain=(-5, 5), magnitude=both),
)  # fmt: skip


@cases(NEAR)
def test_near(op: Op, dtype: str, rng: np.random.Generator, check: Check) -> None:
    assert op.domain is not None
    x = sample.uniform(dtype, (101,), rng, *op.domain)
    y = sample.uniform(dtype, (101,), rng, *op.domain)
    if op.name in ("mod", "fmod"):
        # away from multiples, where the quotient rounds to the next integer
        quotient = widened(x) / widened(y)
        whole = np.abs(quotient - np.rint(quotient)) < 0.02 + 2 * np.abs(quotient) * limits(dtype).epsilon
        x[whole] = y[whole] / np.asarray(2, x.dtype)
    check(op.ours(Tensor(x), Tensor(y)), op.reference(dtype, x, y), op.tolerance, op.scale(x, y), dtype)


@cases([Op("pow", lambda x, y: x.pow(y), lambda x, y: x**y, ("float32", "float64"), Tolerance(ulps=2))])
def test_pow_of_special_values(op: Op, dtype: str, rng: np.random.Generator, check: Check) -> None:
    x, y = sample.pairs(dtype, rng)
    check(op.ours(Tensor(x), Tensor(y)), op.reference(dtype, x, y), op.tolerance, dtype=dtype)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7])
@cases([Op("pow", lambda x: x, lambda x: x, INTS)])
def test_integer_to_an_integer(
    op: Op, dtype: str, exponent: int, rng: np.random.Generator, check: Check
) -> None:
    x = sample.whole_range(dtype, rng)
    check(Tensor(x) ** exponent, integers(lambda v: v**exponent)(x))


# The least dtype that holds both, as the field understands it: JAX's lattice. Python numbers: test_scalars.
LATTICE = {
    ("bool", "int8"): "int8", ("bool", "float16"): "float16", ("int8", "uint8"): "int16",
    ("int8", "int32"): "int32",
    ("uint8", "int16"): "int16", ("uint16", "int16"): "int32", ("uint32", "int32"): "int64",
    ("int64", "uint32"): "int64", ("uint8", "float16"): "float16", ("int64", "float32"): "float32",
    ("int32", "bfloat16"): "bfloat16", ("float16", "bfloat16"): "float32", ("float16", "float32"): "float32",
    ("bfloat16", "float64"): "float64", ("int64", "float64"): "float64", ("uint64", "uint8"): "uint64",
}  # fmt: skip


@pytest.mark.parametrize(("first_dtype", "second_dtype"), list(LATTICE))
def test_two_dtypes_meet(first_dtype: str, second_dtype: str, rng: np.random.Generator, check: Check) -> None:
    result = LATTICE[first_dtype, second_dtype]
    x = sample.uniform(first_dtype, (4, 9), rng, 0, 30)
    y = sample.uniform(second_dtype, (9,), rng, 0, 30)
    meet = numpy_dtype(result)
    want = (x.astype(meet) + y.astype(meet)).astype(meet)
    check(Tensor(x) + Tensor(y), want, dtype=result)
    check(Tensor(y) + Tensor(x), want, dtype=result)


SHAPES = [
    ((3, 1), (1, 4)),
    ((2, 3, 4), (3, 1)),
    ((1,), (5,)),
    ((), (2, 2)),
    ((4, 1, 6), (5, 1)),
    ((0, 3), (1, 3)),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_broadcast(
    dtype: str, shapes: tuple[tuple[int, ...], ...], rng: np.random.Generator, check: Check
) -> None:
    x, y = (sample.uniform(dtype, s, rng, -9, 9) for s in shapes)
    check(Tensor(x) * Tensor(y), x * y)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_comparison_at_the_end_of_the_range(dtype: str, check: Check) -> None:
    # an integer may not be thought unbounded, nor a float without infinity
    greatest = np.inf if is_float(dtype) else np.iinfo(dtype).max
    x = np.array([greatest], numpy_dtype(dtype))
    with np.errstate(all="ignore"):
        want = (x + np.ones_like(x)) > x
    check((Tensor(x) + 1) > Tensor(x), want)
