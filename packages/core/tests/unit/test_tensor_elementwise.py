"""Element-wise methods against PyTorch: values and gradients in float64, dtypes, weak numbers, total
rules."""

# mypy: disable-error-code="arg-type, index"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.tensor.tensor import Tensor

from .tensor_checks import close, rng, same_function

pytestmark = pytest.mark.usefixtures("oracle")

X = np.concatenate([rng().uniform(-4, 4, 40), [0.25, -0.5, 1.5, -3.0]])
POSITIVE = np.abs(X) + 0.1
UNIT = X / 5

UNARY: list[tuple[str, np.ndarray[Any, Any], Callable[..., torch.Tensor]]] = [
    ("exp", X, torch.exp),
    ("exp2", X, torch.exp2),
    ("log", POSITIVE, torch.log),
    ("log2", POSITIVE, torch.log2),
    ("log10", POSITIVE, torch.log10),
    ("sqrt", POSITIVE, torch.sqrt),
    ("rsqrt", POSITIVE, torch.rsqrt),
    ("reciprocal", X, torch.reciprocal),
    ("square", X, torch.square),
    ("abs", X, torch.abs),
    ("neg", X, torch.neg),
    ("sin", X, torch.sin),
    ("cos", X, torch.cos),
    ("tan", UNIT, torch.tan),
    ("asin", UNIT, torch.asin),
    ("acos", UNIT, torch.acos),
    ("atan", X * 10, torch.atan),
    ("sinh", X, torch.sinh),
    ("cosh", X, torch.cosh),
    ("tanh", X, torch.tanh),
    ("asinh", X, torch.asinh),
    ("acosh", POSITIVE + 1, torch.acosh),
    ("atanh", UNIT, torch.atanh),
    ("relu", X, torch.relu),
    ("relu6", X * 3, F.relu6),
    ("leaky_relu", X, F.leaky_relu),
    ("elu", X, F.elu),
    ("celu", X, F.celu),
    ("sigmoid", X, torch.sigmoid),
    ("hardsigmoid", X, F.hardsigmoid),
    ("hardswish", X, F.hardswish),
    ("hardtanh", X, F.hardtanh),
    ("logsigmoid", X, F.logsigmoid),
    ("silu", X, F.silu),
    ("swish", X, F.silu),
    ("mish", X, F.mish),
    ("softplus", X, F.softplus),
    ("softsign", X, F.softsign),
    ("gelu", X, lambda x: F.gelu(x, approximate="tanh")),
    ("quick_gelu", X, lambda x: x * torch.sigmoid(1.702 * x)),
]


@pytest.mark.parametrize(("name", "x", "reference"), UNARY, ids=[u[0] for u in UNARY])
def test_function_of_one_number(
    name: str, x: np.ndarray[Any, Any], reference: Callable[..., torch.Tensor]
) -> None:
    same_function(lambda t: getattr(t, name)(), reference, x, rtol=1e-7)  # PyTorch has 1/6 in float32


def test_selu_has_rounded_constants() -> None:
    same_function(lambda t: t.selu(), F.selu, X, rtol=1e-4, gradients=False)


@pytest.mark.parametrize("name", ["erf"])
def test_function_of_stated_accuracy(name: str) -> None:
    close(Tensor(X).erf(), torch.erf(torch.tensor(X)), atol=1.6e-7)
    close(Tensor(X).gelu("none"), F.gelu(torch.tensor(X)), atol=5e-7)


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc", "sign", "isnan", "isinf", "isfinite"])
def test_step_functions_with_special_values(name: str) -> None:
    x = np.array(
        [
            0.5,
            1.5,
            2.5,
            -0.5,
            -1.5,
            0.49999999999999994,
            2**52 + 1,
            -0.0,
            0.0,
            np.inf,
            -np.inf,
            np.nan,
            3.7,
            -3.2,
        ]
    )
    have, want = getattr(Tensor(x), name)().numpy(), getattr(torch, name)(torch.tensor(x)).numpy()
    np.testing.assert_array_equal(have, want)
    if name != "sign":  # where zeros have signs, they are the same
        np.testing.assert_array_equal(np.signbit(have.astype(float)), np.signbit(want.astype(float)))


BINARY: list[tuple[str, Callable[..., Any]]] = [
    ("add", operator.add),
    ("sub", operator.sub),
    ("mul", operator.mul),
    ("div", operator.truediv),
    ("mod", operator.mod),
    ("floordiv", operator.floordiv),
]


@pytest.mark.parametrize(("name", "op"), BINARY, ids=[b[0] for b in BINARY])
def test_arithmetic_broadcasts(name: str, op: Callable[..., Any]) -> None:
    a, b = rng(1).uniform(1, 3, (4, 1, 3)), rng(2).uniform(-2, -0.5, (5, 1))
    same_function(op, op, a, b, gradients=name in ("add", "sub", "mul", "div"))


def test_functions_of_two_tensors() -> None:
    a, b = rng(1).uniform(0.2, 3, 20), rng(2).uniform(-2, 2, 20)
    same_function(lambda x, y: x.maximum(y), torch.maximum, a, b)
    same_function(lambda x, y: x.minimum(y), torch.minimum, a, b)
    same_function(lambda x, y: x**y, torch.pow, a, b)
    same_function(lambda x, y: x.logaddexp(y), torch.logaddexp, a, b)
    same_function(lambda x, y: x.lerp(y, 0.3), lambda x, y: torch.lerp(x, y, 0.3), a, b)
    same_function(lambda x, y: x.fmod(y), torch.fmod, a * 3, b, gradients=False)
    same_function(lambda x, y: x.copysign(y), torch.copysign, a, b, gradients=False)
    same_function(lambda x, y: (x > y).where(x, y * 2), lambda x, y: torch.where(x > y, x, y * 2), a, b)


def test_extremes_share_gradients_of_ties_but_a_constant_takes_all() -> None:
    same_function(lambda x, y: x.maximum(y), torch.maximum, np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    same_function(lambda x: x.relu(), torch.relu, np.array([0.0, 1.0, -1.0]))
    same_function(
        lambda x: x.clamp(-1, 1), lambda x: torch.clamp(x, -1, 1), np.array([-1.0, 1.0, 0.0, 2.0, -3.0])
    )


def test_number_on_either_side() -> None:
    x = rng().uniform(0.5, 2, 10)
    for op in (
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.pow,
        operator.mod,
        operator.floordiv,
    ):
        close(op(Tensor(x), 1.7), op(torch.tensor(x), 1.7))
        close(op(1.7, Tensor(x)), op(1.7, torch.tensor(x)))
    for op in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        np.testing.assert_array_equal(op(Tensor(x), 1.0).numpy(), op(x, 1.0))
        np.testing.assert_array_equal(op(1.0, Tensor(x)).numpy(), op(1.0, x))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 0.5, -1, -2, 2.5])
def test_power_of_number(exponent: float) -> None:
    same_function(lambda t: t**exponent, lambda t: t**exponent, POSITIVE)


def test_power_zero_has_no_slope() -> None:
    same_function(lambda x, y: x**y, torch.pow, np.array([0.0, 0.0, 2.0]), np.array([0.0, 2.0, 0.0]))


def test_integer_powers_wrap() -> None:
    x = Tensor([2, -3, 10], dtype=dtypes.int32)
    assert (x**3).tolist() == [8, -27, 1000]
    assert (x**3).dtype is dtypes.int32
    assert (x**31).tolist() == torch.tensor([2, -3, 10], dtype=torch.int32).pow(31).tolist()


# ---- dtypes -----------------------------------------------------------------------------------------------

PROMOTIONS: list[tuple[DType, DType | bool | int | float, DType]] = [
    (dtypes.float32, 1, dtypes.float32),
    (dtypes.float16, 1.5, dtypes.float16),
    (dtypes.int32, 1.5, dtypes.float32),
    (dtypes.int8, 1, dtypes.int8),
    (dtypes.bool_, 1, dtypes.int32),
    (dtypes.bool_, True, dtypes.bool_),
    (dtypes.uint8, 2, dtypes.uint8),
    (dtypes.int64, 0.5, dtypes.float32),
    (dtypes.bfloat16, 0.1, dtypes.bfloat16),
    (dtypes.uint8, dtypes.int8, dtypes.int16),
    (dtypes.int64, dtypes.float16, dtypes.float16),
    (dtypes.float16, dtypes.bfloat16, dtypes.float32),
    (dtypes.float32, dtypes.float64, dtypes.float64),
    (dtypes.bool_, dtypes.uint16, dtypes.uint16),
    (dtypes.uint64, dtypes.int64, dtypes.float32),
]


@pytest.mark.parametrize(("a", "b", "want"), PROMOTIONS)
def test_promotion(a: DType, b: DType | float, want: DType) -> None:
    other = Tensor([1], dtype=b) if isinstance(b, DType) else b
    assert (Tensor([1], dtype=a) + other).dtype is want
    assert (other + Tensor([1], dtype=a)).dtype is want


def test_numbers_alone_take_the_default_dtypes() -> None:
    assert Tensor(2).dtype is dtypes.int32
    assert Tensor(2.0).dtype is dtypes.float32
    assert Tensor(True).dtype is dtypes.bool_
    assert (Tensor([True]).where(1.0, 0)).dtype is dtypes.float32
    assert (Tensor([True]).where(1, 0)).dtype is dtypes.int32


def test_division_of_integers_is_float32() -> None:
    assert (Tensor([7]) / 2).dtype is dtypes.float32
    assert (Tensor([7]) / Tensor([2])).tolist() == [3.5]
    assert (Tensor([True]) / 2).tolist() == [0.5]
    assert Tensor([7], dtype=dtypes.float16).div(Tensor([2])).dtype is dtypes.float16


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float8_e4m3, dtypes.float8_e5m2])
def test_narrow_float_with_number_is_rounded_once(dtype: DType) -> None:
    values = [1.0, 1.25, 3.0, 0.375, 7.0]
    x = Tensor(values, dtype=dtype)
    for number in (0.1, 1 / 3, 1e-3, 2.7):
        want = [dtypes.round_float(float(np.float32(v) * np.float32(number)), dtype) for v in values]
        assert (x * number).tolist() == want
        assert (number + x).tolist() == [
            dtypes.round_float(float(np.float32(v) + np.float32(number)), dtype) for v in values
        ]


def test_large_number_does_not_overflow_on_its_way() -> None:
    assert (Tensor([0.5], dtype=dtypes.float16) * 100000.0).tolist() == [49984.0]
    assert (Tensor([100], dtype=dtypes.uint8) < 300).tolist() == [True]


def test_narrow_functions_are_computed_in_float32() -> None:
    x = rng().uniform(-3, 3, 50).astype(np.float16)
    want = np.tanh(x.astype(np.float64)).astype(np.float16)
    np.testing.assert_allclose(Tensor(x).tanh().numpy().astype(float), want.astype(float), atol=1e-3)
    assert Tensor(x).exp().dtype is dtypes.float16


def test_casts_are_total() -> None:
    x = Tensor([300.7, -1.5, math.nan, math.inf, -math.inf])
    assert x.cast(dtypes.uint8).tolist() == [255, 0, 0, 255, 0]
    assert x.cast(dtypes.int32).tolist() == [300, -1, 0, 2147483647, -2147483648]
    assert Tensor([300, -1]).cast(dtypes.uint8).tolist() == [44, 255]
    assert Tensor([0.5, 0.0, math.nan]).bool().tolist() == [True, False, True]
    assert Tensor([1.0]).cast("half").dtype is dtypes.float16


def test_bitcast_reads_the_same_bits() -> None:
    assert Tensor([1.0, -0.0]).bitcast(dtypes.uint32).tolist() == [0x3F800000, 0x80000000]


# ---- total rules ------------------------------------------------------------------------------------------


def test_integer_division_by_zero_is_zero() -> None:
    x, y = Tensor([7, -7, 0]), Tensor([0, 0, 0])
    assert (x // y).tolist() == [0, 0, 0]
    assert x.div(y, rounding_mode="trunc").tolist() == [0, 0, 0]
    assert (x % y).tolist() == [7, -7, 0]
    assert x.fmod(y).tolist() == [7, -7, 0]


def test_integer_division_rounds_as_asked() -> None:
    x, y = Tensor([7, -7, 7, -7]), Tensor([2, 2, -2, -2])
    assert (x // y).tolist() == [3, -4, -4, 3]
    assert x.div(y, rounding_mode="trunc").tolist() == [3, -3, -3, 3]
    assert (x % y).tolist() == [1, 1, -1, -1]
    assert x.fmod(y).tolist() == [1, -1, 1, -1]


def test_integers_wrap() -> None:
    top = Tensor([2147483647])
    assert (top + 1).tolist() == [-2147483648]
    assert (top + 1 > top).tolist() == [False]
    assert (Tensor([200], dtype=dtypes.uint8) + Tensor([100], dtype=dtypes.uint8)).tolist() == [44]


def test_shifts_by_the_width_or_more() -> None:
    x = Tensor([-8, 8])
    assert (x << 32).tolist() == [0, 0]
    assert (x >> 40).tolist() == [-1, 0]
    assert (x >> 1).tolist() == [-4, 4]
    assert (1 << Tensor([3])).tolist() == [8]


def test_nan_passes_through() -> None:
    x = Tensor([math.nan, -1.0, 2.0])
    for t in (x.relu(), x.clamp(0, 1), x.maximum(0), x.minimum(5), x.relu6(), x.sigmoid(), x.abs(), x.gelu()):
        assert math.isnan(float(t.tolist()[0]))
    assert x.relu().tolist()[1:] == [0.0, 2.0]


def test_zeros_of_both_signs_are_kept() -> None:
    x = Tensor([-0.0, 0.0])
    assert np.signbit(x.numpy()).tolist() == [True, False]
    assert np.signbit((x * 1.0).numpy()).tolist() == [True, False]
    assert np.signbit((x + -0.0).numpy()).tolist() == [True, False]
    assert np.signbit((x + 0.0).numpy()).tolist() == [False, False]
    assert np.signbit(Tensor.full((1,), -0.0).numpy()).tolist() == [True]
    assert np.signbit(x.abs().numpy()).tolist() == [False, False]
    assert np.signbit(x.cat(x).numpy()).tolist() == [True, False, True, False]


def test_sigmoid_and_its_gradient_do_not_overflow() -> None:
    x = Tensor([-200.0, 200.0, 0.0])
    assert x.sigmoid().tolist() == [0.0, 1.0, 0.5]
    assert x.sigmoid().sum().gradient(x)[0].tolist() == [0.0, 0.0, 0.25]
    assert x.softplus().sum().gradient(x)[0].tolist() == [0.0, 1.0, 0.5]


def test_bits() -> None:
    x, y = Tensor([0b1100, 5]), Tensor([0b1010, 3])
    assert (x & y).tolist() == [8, 1]
    assert (x | y).tolist() == [14, 7]
    assert (x ^ y).tolist() == [6, 6]
    assert (~x).tolist() == [-13, -6]
    assert (~Tensor([True, False])).tolist() == [False, True]
    assert (Tensor([True, False]) & True).tolist() == [True, False]
    assert Tensor([0, 3]).logical_not().tolist() == [True, False]


def test_closeness() -> None:
    x, y = Tensor([1.0, math.nan, math.inf, 1.0]), Tensor([1.0 + 1e-7, math.nan, math.inf, 1.1])
    assert x.isclose(y).tolist() == [True, False, True, False]
    assert x.isclose(y, equal_nan=True).tolist() == [True, True, True, False]


def test_masked_fill() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    assert x.masked_fill(Tensor([True, False, True]), -1).tolist() == [-1.0, 2.0, -1.0]
