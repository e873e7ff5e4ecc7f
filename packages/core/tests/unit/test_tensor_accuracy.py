"""Errors of element-wise functions in units in the last place, against wider arithmetic, at the sizes where
the obvious formula loses digits: near 0, near overflow, far out; and gradients there."""

# mypy: disable-error-code="arg-type, no-untyped-call, var-annotated, index"
# Stubs of numpy and PyTorch are not for the type checker to judge here.
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tiny_core.settings import Context
from tiny_core.tensor.tensor import Tensor

Floats = np.ndarray[Any, np.dtype[Any]]
KINDS = pytest.mark.parametrize("kind", [np.float32, np.float64])
N = 2000
RNG = np.random.default_rng(3)
SIGNS = RNG.choice([-1.0, 1.0], N)
TINY = np.exp(RNG.uniform(-60, 0, N)) * SIGNS
UNIT = RNG.uniform(-1, 1, N)
PLAIN = RNG.uniform(-20, 20, N)
HUGE = np.exp(RNG.uniform(0, 80, N)) * SIGNS
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
NEAR_OVERFLOW = {np.float32: 89.2, np.float64: 710.4}


def softplus(x: Floats) -> Floats:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


ALL = np.concatenate([TINY, UNIT, PLAIN, HUGE, SPECIAL])
SMALL = np.concatenate([TINY, UNIT, PLAIN, [0.0, -0.0, np.nan]])
LIMIT = "limit"
"""Stands for values up to where the dtype overflows."""
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Floats], Floats], list[Any], float]] = {
    "exp": (lambda x: x.exp(), np.exp, [ALL, LIMIT], 1.2),
    "expm1": (lambda x: x.expm1(), np.expm1, [ALL, LIMIT], 2.5),
    "log": (lambda x: x.log(), np.log, [np.abs(ALL), 1 + UNIT / 2], 2.7),
    "log10": (lambda x: x.log10(), np.log10, [np.abs(ALL), 1 + UNIT / 2], 2.7),
    "log1p": (lambda x: x.log1p(), np.log1p, [ALL, np.array([-1.0])], 3),
    "sinh": (lambda x: x.sinh(), np.sinh, [ALL, LIMIT], 2.5),
    "cosh": (lambda x: x.cosh(), np.cosh, [ALL, LIMIT], 2),
    "tanh": (lambda x: x.tanh(), np.tanh, [ALL], 4),
    "asinh": (lambda x: x.asinh(), np.arcsinh, [ALL, np.array([1e20, -1e20])], 5),
    "acosh": (lambda x: x.acosh(), np.arccosh, [1 + np.abs(TINY), HUGE, SPECIAL, np.array([-1e5])], 5),
    "atanh": (lambda x: x.atanh(), np.arctanh, [TINY, UNIT, SPECIAL, np.array([1.0, -1.0, 2.0, -2.0])], 5),
    "sin": (lambda x: x.sin(), np.sin, [SMALL, PLAIN * 1e4], 1.5),
    "cos": (lambda x: x.cos(), np.cos, [SMALL, PLAIN * 1e4, np.array([1e4, 1e30, np.inf])], 1.5),
    "cos of -x": (lambda x: (-x).cos(), np.cos, [SMALL, PLAIN * 1e4], 1.5),
    "tan": (lambda x: x.tan(), np.tan, [SMALL], 4),
    "asin": (lambda x: x.asin(), np.arcsin, [TINY, UNIT, 1 - np.abs(TINY), np.array([1.0, -1.0, 2.0])], 6),
    "acos": (lambda x: x.acos(), np.arccos, [TINY, UNIT, 1 - np.abs(TINY), np.array([1.0, -1.0, 2.0, -2.0])],
             6),
    "atan": (lambda x: x.atan(), np.arctan, [ALL], 5),
    "sigmoid": (lambda x: x.sigmoid(), sigmoid, [SMALL, LIMIT, SPECIAL], 3),
    "softplus": (lambda x: x.softplus(), softplus, [SMALL, LIMIT, np.array([np.inf, -np.inf])], 4),
    "logsigmoid": (lambda x: x.logsigmoid(), lambda x: -softplus(-x), [PLAIN, LIMIT], 4),
    "elu": (lambda x: x.elu(), lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), [ALL], 3),
    "celu": (lambda x: x.celu(2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2)), [ALL],
             3),
    "mish": (lambda x: x.mish(), lambda x: x * np.tanh(softplus(x)), [SMALL], 6),
    "silu": (lambda x: x.silu(), lambda x: x * sigmoid(x), [SMALL], 4),
}  # fmt: skip
ODD = ("expm1", "log1p", "sinh", "tanh", "asinh", "atanh", "sin", "tan", "asin", "atan")


def assert_within(got: Floats, want: Floats, limit: float | Floats) -> None:
    """Equal where not finite, else within `limit` units in the last place of the rounded reference."""
    with np.errstate(all="ignore"):
        nearest = want.astype(got.dtype)
        finite = np.isfinite(nearest) & np.isfinite(got)
        error = np.abs(got.astype(want.dtype) - want) / np.spacing(np.abs(nearest)).astype(want.dtype)
        same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
    assert (finite | same).all(), (got[~(finite | same)][:5], want[~(finite | same)][:5])
    excess = np.where(finite, error - limit, 0)
    worst = np.argmax(excess)
    assert excess[worst] <= 0, (error[worst], got[worst], want[worst])


@pytest.fixture(params=["CPU", "PYTHON"])
def device(request: pytest.FixtureRequest) -> Any:
    with Context(DEV=request.param):
        yield request.param


@KINDS
@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_the_stated_error(name: str, kind: type, device: str) -> None:
    if kind is np.float64 and np.finfo(np.longdouble).nmant < 63:
        pytest.skip("the reference needs a long double wider than double")
    function, reference, where, limit = FUNCTIONS[name]
    most = NEAR_OVERFLOW[kind]
    parts = [UNIT * most if part is LIMIT else part for part in where]
    with np.errstate(all="ignore"):
        x = np.concatenate([*parts, *([[most, -most]] if LIMIT in [p for p in where if isinstance(p, str)]
                                      else [])]).astype(kind)  # fmt: skip
        wide = x.astype(np.float64 if kind is np.float32 else np.longdouble)
        assert_within(function(Tensor(x)).numpy(), reference(wide), limit)


@pytest.mark.parametrize("name", ODD)
def test_zeros_keep_their_sign(name: str) -> None:
    got = FUNCTIONS[name][0](Tensor(np.array([0.0, -0.0], np.float32))).numpy()
    assert got.tolist() == [0, 0] and np.signbit(got).tolist() == [False, True]


def _with_mpmath(kind: type, x: Floats, function: Callable[[Any], Any]) -> Floats:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workprec(120):
        values = [mpmath.nstr(function(mpmath.mpf(float(v))), 25) for v in x]
    return np.array([np.longdouble(v) for v in values])


@KINDS
def test_the_normal_distribution(kind: type) -> None:
    import mpmath  # type: ignore[import-untyped]

    x = np.concatenate([TINY[:100], UNIT[:100], np.linspace(-9, 9, 200)]).astype(kind)
    assert_within(Tensor(x).erf().numpy(), _with_mpmath(kind, x, mpmath.erf), 2)
    want = _with_mpmath(kind, x, lambda v: v * mpmath.erfc(-v / mpmath.sqrt(2)) / 2)
    assert_within(Tensor(x).gelu("none").numpy(), want, 6 + x.astype(np.float64) ** 2)

    def by_tanh(v: Any) -> Any:
        return v / (1 + mpmath.exp(-2 * mpmath.sqrt(2 / mpmath.pi) * (v + mpmath.mpf("0.044715") * v**3)))

    x = np.concatenate([TINY[:100], UNIT[:100], np.linspace(-6, 6, 200)]).astype(kind)
    assert_within(Tensor(x).gelu().numpy(), _with_mpmath(kind, x, by_tanh), 6 + 2 * x.astype(np.float64) ** 2)


def test_what_was_lost() -> None:
    """Each of these was wrong in all digits."""
    x = Tensor(np.array([-20.0, 1e-9], np.float32))
    assert x.softplus().numpy()[0] == pytest.approx(2.0611537e-9, rel=1e-6)
    assert x.tanh().numpy()[1] == x.sinh().numpy()[1] == x.atanh().numpy()[1] == np.float32(1e-9)
    assert Tensor(np.array([1e20], np.float32)).asinh().item() == pytest.approx(46.744849, rel=1e-6)
    assert Tensor(np.array([1e4], np.float32)).cos().item() == pytest.approx(math.cos(1e4), rel=1e-6)
    assert Tensor(np.array([-10.0], np.float32)).gelu().item() < 0
    pair = Tensor(np.array([-20.0], np.float32)).logaddexp(Tensor(np.array([0.0], np.float32)))
    assert pair.item() == pytest.approx(2.0611537e-9, rel=1e-6)
    small = Tensor(np.array([1e-9], np.float32)).binary_crossentropy(Tensor(np.array([0.0], np.float32)))
    assert small.item() == pytest.approx(1e-9, rel=1e-6)


def test_log_softmax_is_no_worse_than_pytorchs() -> None:
    x = np.concatenate([[[20.0, 0.0, 0.0, -3.0]], RNG.normal(0, 8, (200, 4))]).astype(np.float32)
    want = torch.log_softmax(torch.tensor(x, dtype=torch.float64), 1).numpy()
    theirs = np.abs(torch.log_softmax(torch.tensor(x), 1).numpy() - want)
    ours = np.abs(Tensor(x).log_softmax(1).numpy() - want)
    assert ours.max() <= theirs.max() * 1.5
    assert ours[0, 0] <= theirs[0, 0]


SLOPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp, "expm1": torch.expm1, "log1p": torch.log1p, "sinh": torch.sinh, "cosh": torch.cosh,
    "tanh": torch.tanh, "asinh": torch.asinh, "sin": torch.sin, "cos": torch.cos, "atan": torch.atan,
    "erf": torch.erf, "sigmoid": torch.sigmoid, "softplus": torch.nn.functional.softplus,
    "elu": torch.nn.functional.elu, "mish": torch.nn.functional.mish, "silu": torch.nn.functional.silu,
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_gradients_of_float32_at_all_sizes(name: str) -> None:
    """0, where two forms meet, where one of them overflows, and far out: never NaN, and near PyTorch's in
    float64."""
    x = np.array([0.0, 1e-20, -1e-6, 0.349, 0.351, -0.351, 0.7, 0.999, 1.0, 1.001, -3.0, 12.0, -17.0, 40.0,
                  -50.0, 80.0, -85.0, 3e4, 1e20], np.float32)  # fmt: skip
    if name in ("exp", "expm1", "sinh", "cosh"):
        x = x[:-2]  # infinite
    x = np.abs(x) if name == "log1p" else x
    mine = Tensor(x, requires_grad=True)
    (got,) = getattr(mine, name)().sum().gradient(mine)
    theirs = torch.tensor(x.astype(np.float64), requires_grad=True)
    SLOPES[name](theirs).sum().backward()
    assert theirs.grad is not None
    np.testing.assert_allclose(got.numpy(), theirs.grad.numpy(), rtol=3e-6, atol=1e-6)


def test_the_second_derivative_of_a_cosine_is_exact_far_out() -> None:
    x = Tensor(np.array([1e6, 123456.0], np.float32), requires_grad=True)
    (first,) = x.cos().sum().gradient(x)
    (second,) = first.sum().gradient(x)
    np.testing.assert_allclose(first.numpy(), -np.sin([1e6, 123456.0]), rtol=1e-6)
    np.testing.assert_allclose(second.numpy(), -np.cos([1e6, 123456.0]), rtol=1e-6)
