"""Element-wise operations of one operand, on every dtype that takes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Array, Tolerance, numpy_dtype
from tiny_conformance.table import ALL, FLOATS, INTS, NUMBERS, SIGNED, Op, cases, integers
from tiny_core import Tensor


def each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of arrays from one of Python's floats; errors of its domain are NaN."""

    def one(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return math.nan

    return lambda x: np.array([one(float(v)) for v in x.ravel()], np.float64).reshape(x.shape)


def softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(0, x))


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e / (1 + e), 1 / (1 + e))


def gelu(x: Array) -> Array:
    return np.asarray(x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def mish(x: Array) -> Array:
    return np.asarray(x * np.tanh(softplus(x)))


def elu(x: Array) -> Array:
    return np.where(x > 0, x, np.exp(x) - 1)


def celu(x: Array) -> Array:
    return np.where(x > 0, x, 2 * (np.exp(x / 2) - 1))


def selu(x: Array) -> Array:
    return np.asarray(1.0507 * np.where(x > 0, x, 1.67326 * (np.exp(x) - 1)))


def relu(x: Array) -> Array:
    return np.where((x > 0) | np.isnan(x), x, 0).astype(x.dtype)


def relu6(x: Array) -> Array:
    return np.where(x > 6, 6, relu(x)).astype(x.dtype)


def sign(x: Array) -> Array:
    return np.asarray((x > 0) * 1.0 - (x < 0) * 1.0).astype(x.dtype)


def hardsigmoid(x: Array) -> Array:
    return np.asarray(np.clip(x / 6 + 0.5, 0, 1))


def hardswish(x: Array) -> Array:
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6)


def leaky_relu(x: Array) -> Array:
    return np.where(x < 0, x * 0.25, x)


def quick_gelu(x: Array) -> Array:
    return np.asarray(x * sigmoid(1.702 * x))


def steep(x: Array) -> Array:
    """The slope of the tangent, which enlarges what its argument is off."""
    return np.asarray(1 + np.tan(x) ** 2)


def larger(x: Array) -> Array:
    """The magnitude of what is rounded where x is added to 1."""
    return np.asarray(np.abs(x) + 1)


# Correctly rounded: equal bits, for every value there is.
ROUNDED = (
    Op("neg", lambda x: -x, np.negative),
    Op("neg", lambda x: -x, integers(lambda x: -x), INTS),
    Op("abs", lambda x: x.abs(), np.abs),
    Op("abs", lambda x: x.abs(), integers(abs), INTS),
    Op("sqrt", lambda x: x.sqrt(), np.sqrt),
    Op("reciprocal", lambda x: x.reciprocal(), lambda x: (x.dtype.type(1) / x).astype(x.dtype)),
    Op("square", lambda x: x.square(), lambda x: x * x),
    Op("square", lambda x: x.square(), integers(lambda x: x * x), INTS),
    Op("trunc", lambda x: x.trunc(), np.trunc),
    Op("floor", lambda x: x.floor(), np.floor),
    Op("ceil", lambda x: x.ceil(), np.ceil),
    Op("round", lambda x: x.round(), np.rint),
    Op("relu", lambda x: x.relu(), relu),
    Op("relu", lambda x: x.relu(), lambda x: np.maximum(x, 0), INTS),
    Op("relu6", lambda x: x.relu6(), relu6),
    Op("sign", lambda x: x.sign(), sign),
    Op("sign", lambda x: x.sign(), np.sign, INTS),
    Op("isnan", lambda x: x.isnan(), np.isnan, result="bool"),
    Op("isinf", lambda x: x.isinf(), np.isinf, result="bool"),
    Op("isfinite", lambda x: x.isfinite(), np.isfinite, result="bool"),
    Op("logical_not", lambda x: x.logical_not(), np.logical_not, ALL, result="bool"),
    Op("bitwise_not", lambda x: ~x, np.invert, ("bool", *INTS)),
    Op("positive", lambda x: (x > 0).where(x, 0), lambda x: np.where(x > 0, x, 0).astype(x.dtype), NUMBERS),
)  # fmt: skip

# Within the units that the compiler states for its own expansions (`codegen/decompose/transcendental.py`);
# narrow floats are computed in float32 and rounded once.
STATED = Tolerance(ulps=2)
ELEMENTARY = (
    Op("exp2", lambda x: x.exp2(), np.exp2, FLOATS, STATED),
    Op("log2", lambda x: x.log2(), np.log2, FLOATS, STATED),
    Op("sin", lambda x: x.sin(), np.sin, FLOATS, STATED, domain=(-200, 200)),
    Op("rsqrt", lambda x: x.rsqrt(), lambda x: 1 / np.sqrt(x), FLOATS, STATED),
)

# Made of several operations: each step's rounding is carried along.
FEW, MORE = Tolerance(ulps=4, epsilons=2), Tolerance(ulps=16, epsilons=4)
COMPOSED = (
    Op("exp", lambda x: x.exp(), np.exp, FLOATS, Tolerance(ulps=16), domain=(-10, 10)),
    Op("log", lambda x: x.log(), np.log, FLOATS, FEW, domain=(1e-3, 1e3)),
    Op("log10", lambda x: x.log10(), np.log10, FLOATS, FEW, domain=(1e-3, 1e3)),
    Op("cos", lambda x: x.cos(), np.cos, FLOATS, FEW, domain=(-10, 10), magnitude=larger),
    Op("tan", lambda x: x.tan(), np.tan, FLOATS, MORE, domain=(-1.4, 1.4), magnitude=steep),
    Op("asin", lambda x: x.asin(), np.arcsin, FLOATS, MORE, domain=(-0.9, 0.9)),
    Op("acos", lambda x: x.acos(), np.arccos, FLOATS, MORE, domain=(-0.9, 0.9)),
    Op("atan", lambda x: x.atan(), np.arctan, FLOATS, MORE, domain=(-30, 30)),
    Op("sinh", lambda x: x.sinh(), np.sinh, FLOATS, Tolerance(16, 16), domain=(-6, 6)),
    Op("cosh", lambda x: x.cosh(), np.cosh, FLOATS, MORE, domain=(-6, 6)),
    Op("tanh", lambda x: x.tanh(), np.tanh, FLOATS, MORE, domain=(-12, 12)),
    Op("asinh", lambda x: x.asinh(), np.arcsinh, FLOATS, MORE, domain=(-30, 30)),
    Op("acosh", lambda x: x.acosh(), np.arccosh, FLOATS, MORE, domain=(1.5, 30)),
    Op("atanh", lambda x: x.atanh(), np.arctanh, FLOATS, MORE, domain=(-0.9, 0.9)),
    Op("sigmoid", lambda x: x.sigmoid(), sigmoid, FLOATS, MORE, domain=(-15, 15)),
    Op("logsigmoid", lambda x: x.logsigmoid(), lambda x: -softplus(-x), FLOATS, MORE, domain=(-15, 15)),
    Op("softplus", lambda x: x.softplus(), softplus, FLOATS, MORE, domain=(-15, 15)),
    Op("softsign", lambda x: x.softsign(), lambda x: x / (1 + np.abs(x)), FLOATS, FEW, domain=(-15, 15)),
    Op("silu", lambda x: x.silu(), lambda x: x * sigmoid(x), FLOATS, MORE, domain=(-15, 15)),
    Op("gelu", lambda x: x.gelu(), gelu, FLOATS, MORE, domain=(-6, 6), magnitude=larger),
    Op("quick_gelu", lambda x: x.quick_gelu(), quick_gelu, FLOATS, MORE, domain=(-6, 6)),
    Op("mish", lambda x: x.mish(), mish, FLOATS, MORE, domain=(-8, 8), magnitude=larger),
    Op("elu", lambda x: x.elu(), elu, FLOATS, MORE, domain=(-8, 8)),
    Op("celu", lambda x: x.celu(2.0), celu, FLOATS, MORE, domain=(-8, 8)),
    Op("selu", lambda x: x.selu(), selu, FLOATS, MORE, domain=(-8, 8)),
    Op("hardsigmoid", lambda x: x.hardsigmoid(), hardsigmoid, FLOATS, FEW, domain=(-6, 6)),
    Op("hardswish", lambda x: x.hardswish(), hardswish, FLOATS, FEW, domain=(-6, 6), magnitude=larger),
    Op("hardtanh", lambda x: x.hardtanh(), lambda x: np.clip(x, -1, 1), FLOATS, FEW, domain=(-3, 3)),
    Op("leaky_relu", lambda x: x.leaky_relu(0.25), leaky_relu, FLOATS, FEW, domain=(-6, 6)),
    # the series behind it is good to 1.5e-7
    Op("erf", lambda x: x.erf(), each(math.erf), ("float16", "float32"), MORE, domain=(-4, 4)),
)  # fmt: skip


@cases(ROUNDED)
def test_rounded(op: Op, dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.whole_range(dtype, rng)
    want = op.reference(dtype, x)
    check(op.ours(Tensor(x)), want, dtype=op.result or dtype)


@cases(ELEMENTARY)
def test_elementary(op: Op, dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.whole_range(dtype, rng)
    if op.domain:
        x = np.concatenate([x[:20], sample.uniform(dtype, (80,), rng, *op.domain)])
    check(op.ours(Tensor(x)), op.reference(dtype, x), op.tolerance, dtype=dtype)


@cases(COMPOSED)
def test_composed(op: Op, dtype: str, rng: np.random.Generator, check: Check) -> None:
    assert op.domain is not None
    x = np.concatenate(
        [sample.uniform(dtype, (100,), rng, *op.domain), np.array([np.nan], numpy_dtype(dtype))]
    )
    check(op.ours(Tensor(x)), op.reference(dtype, x), op.tolerance, op.scale(x), dtype)


# Integers become float32.
PROMOTED = (
    Op("sqrt", lambda x: x.sqrt(), lambda x: np.sqrt(x.astype(np.float32)), ("bool", "int8", "int32")),
    Op(
        "reciprocal",
        lambda x: x.reciprocal(),
        lambda x: np.float32(1) / x.astype(np.float32),
        ("bool", "int8", "int32"),
    ),
)


@cases(PROMOTED)
def test_of_integers(op: Op, dtype: str, rng: np.random.Generator, check: Check) -> None:
    x = sample.whole_range(dtype, rng)
    check(op.ours(Tensor(x)), op.reference(dtype, x), dtype="float32")


@cases([Op("abs", lambda x: x.abs(), np.abs, SIGNED)])
def test_abs_of_the_least_wraps(op: Op, dtype: str, rng: np.random.Generator, check: Check) -> None:
    least = np.array([np.iinfo(dtype).min], dtype)
    check(op.ours(Tensor(least)), least)
