"""EXP2, LOG2, SIN and POW by decomposition, against numpy in a wider format."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir.ops import Ops
from tiny_core.render.capabilities import Capabilities

LACKS = {Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW}
Apply = Callable[..., np.ndarray]
Target = Callable[..., Capabilities]
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, 3.0, -2.0, -3.0, 1.5, -1.5,
           1e-30, -1e-30,
           1e30, -1e30, 16777216.0, 16777215.0, 9007199254740993.0, 1 - 2.0**-24, 1 + 2.0**-23, 5e-324, 1e-45,
           1.1754944e-38, 2.2250738585072014e-308, 128.0, 127.99999, -149.0, -150.0, -151.0, 1024.0, -1074.0,
           -1075.5, 3.4028235e38]  # fmt: skip


def wider(kind: type) -> type:
    """float64 for float32; for float64 the 64-bit mantissa of the x87 long double."""
    if kind is np.float64 and np.finfo(np.longdouble).nmant < 63:
        pytest.skip("the reference needs a long double wider than double")
    return np.float64 if kind is np.float32 else np.longdouble


def any_bits(kind: type, n: int, seed: int) -> np.ndarray:
    """Floats of all magnitudes: random bit patterns."""
    word = np.uint32 if kind is np.float32 else np.uint64
    return np.random.default_rng(seed).integers(0, np.iinfo(word).max, n, word, endpoint=True).view(kind)


def assert_within(got: np.ndarray, want: np.ndarray, limit: float) -> None:
    """Equal where not finite, else within `limit` units in the last place of the rounded reference."""
    with np.errstate(all="ignore"):
        nearest = want.astype(got.dtype)
        finite = np.isfinite(nearest) & np.isfinite(got)
        error = np.abs(got.astype(want.dtype) - want) / np.spacing(np.abs(nearest))
        wrong = ~finite & ~((got == nearest) | (np.isnan(got) & np.isnan(nearest)))
    assert not wrong.any(), (got[wrong][:5], want[wrong][:5])
    worst = np.argmax(np.where(finite, error, 0))
    assert error[worst] <= limit, (error[worst], got[worst], want[worst])
    signed = nearest == 0
    assert (np.signbit(got[signed]) == np.signbit(nearest[signed])).all()


FORMATS = pytest.mark.parametrize(
    ("dtype", "kind"),
    [(dtypes.float32, np.float32), (dtypes.float64, np.float64)],
    ids=["float32", "float64"],
)


@FORMATS
@pytest.mark.parametrize(
    ("op", "function", "limit"),
    [(Ops.EXP2, np.exp2, 1.1), (Ops.LOG2, np.log2, 1.35), (Ops.SIN, np.sin, 1.5)],
    ids=["exp2", "log2", "sin"],
)
def test_within_the_stated_error(
    op: Ops,
    function: Callable[..., np.ndarray],
    limit: float,
    dtype: DType,
    kind: type,
    apply: Apply,
    target: Target,
) -> None:
    rng = np.random.default_rng(7)
    n = 60000
    with np.errstate(all="ignore"):
        x: np.ndarray = np.concatenate([
            any_bits(kind, n, 1), rng.uniform(-1, 1, n), rng.uniform(0.5, 2, n), rng.uniform(-1100, 1100, n),
            rng.uniform(-160, 135, n), np.pi / 2 * np.arange(-4000, 4000), SPECIAL,
        ]).astype(kind)  # fmt: skip
        want = function(x.astype(wider(kind)))
    got = apply(op, (dtype,), dtype, target(LACKS), (x,))
    assert_within(got, want, limit)


def test_sine_where_multiples_of_half_pi_come_closest(apply: Apply, target: Target) -> None:
    """The double nearest to a multiple of pi/2 (Muller, Elementary Functions, 3rd ed., table 11.1), and
    float32 cousins."""
    x = np.array([6381956970095103.0 * 2.0**797, -6381956970095103.0 * 2.0**797])
    got = apply(Ops.SIN, (dtypes.float64,), dtypes.float64, target(LACKS), (x,))
    assert_within(got, np.array([1.0, -1.0]), 0)  # it is an odd multiple, give or take 5e-19
    multiples = (np.pi / 2 * np.arange(1, 200001)).astype(np.float32)
    got = apply(Ops.SIN, (dtypes.float32,), dtypes.float32, target(LACKS), (multiples,))
    assert_within(got, np.sin(multiples.astype(np.float64)), 1.5)


def test_sine_of_every_exponent(apply: Apply, target: Target) -> None:
    x = (
        np.ldexp(np.linspace(1, 2, 257, endpoint=False)[:, None], np.arange(-149, 128)[None, :])
        .ravel()
        .astype(np.float32)
    )
    got = apply(Ops.SIN, (dtypes.float32,), dtypes.float32, target(LACKS), (x,))
    assert_within(got, np.sin(x.astype(np.float64)), 1.5)


def test_sine_without_64_bit_integers(apply: Apply, target: Target) -> None:
    caps = target(LACKS, {dtypes.int64, dtypes.uint64, dtypes.float64})
    x = np.concatenate([any_bits(np.float32, 30000, 2), np.linspace(-40, 40, 30000, dtype=np.float32)])
    got = apply(Ops.SIN, (dtypes.float32,), dtypes.float32, caps, (x,))
    with np.errstate(all="ignore"):
        assert_within(got, np.sin(x.astype(np.float64)), 1.5)


@FORMATS
def test_power_within_the_stated_error(dtype: DType, kind: type, apply: Apply, target: Target) -> None:
    rng = np.random.default_rng(8)
    n, most = 40000, 130 if kind is np.float32 else 1030
    wide = wider(kind)
    with np.errstate(all="ignore"):
        pairs: list[tuple[np.ndarray, np.ndarray]] = []
        base: np.ndarray
        for base in (np.abs(any_bits(kind, n, 3)), rng.uniform(0.5, 2, n).astype(kind)):
            pairs.append((base, (rng.uniform(-most, most, n) / np.log2(base.astype(wide))).astype(kind)))
        base = rng.uniform(0, 10, n).astype(kind)
        pairs.append((base, rng.uniform(-10, 10, n).astype(kind)))
        pairs.append((-base, rng.integers(-20, 20, n).astype(kind)))
        x, y = (np.concatenate([q[i] for q in pairs]) for i in (0, 1))
        got = apply(Ops.POW, (dtype, dtype), dtype, target(LACKS), (x, y))
        assert_within(got, np.power(x.astype(wide), y.astype(wide)), 1.35)


@FORMATS
def test_power_has_the_special_cases_of_ieee_754(
    dtype: DType, kind: type, apply: Apply, target: Target
) -> None:
    with np.errstate(all="ignore"):
        values: np.ndarray = np.unique(
            np.array(SPECIAL).astype(kind).view(np.uint32 if kind is np.float32 else np.uint64)
        ).view(kind)
        values = values[values != 0.5]  # of which numpy takes a square root, with another sign of zero
        x, y = (v.ravel() for v in np.meshgrid(values, values))
        want = np.power(x.astype(wider(kind)), y.astype(wider(kind)))
    assert_within(apply(Ops.POW, (dtype, dtype), dtype, target(LACKS), (x, y)), want, 1.35)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, 3.0, -1.0, 0.5, 2.5])
def test_power_with_a_constant(
    power: float, target: Target, compute: Callable[..., list[np.ndarray]]
) -> None:
    from tiny_core.codegen.decompose import decompose
    from tiny_core.ir.uop import UOp

    x = np.array([*SPECIAL, *np.linspace(-4, 4, 401)]).astype(np.float32)
    i = UOp.range(UOp.const(len(x), dtypes.int32), "i")
    node = UOp.param(0, dtypes.float32, len(x)).load(i).alu(Ops.POW, power)
    (got,) = compute((decompose(node, target(LACKS)),), target(LACKS), {0: x}, len(x))
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), power)
    if (
        power == 0.5
    ):  # IEEE 754: a power of a zero or infinity has no sign unless the exponent is an odd integer
        want = np.where(np.isneginf(x), np.inf, np.where(x == 0, 0.0, want))
    assert_within(np.broadcast_to(got, x.shape), want, 1.5)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda d: d.name)
def test_narrow_floats_go_through_float32(dtype: DType, apply: Apply, target: Target) -> None:
    import ml_dtypes

    kind = np.float16 if dtype is dtypes.float16 else ml_dtypes.bfloat16
    x = np.arange(1 << 16, dtype=np.uint16).view(kind)
    with np.errstate(all="ignore"):
        for op, function in ((Ops.EXP2, np.exp2), (Ops.LOG2, np.log2), (Ops.SIN, np.sin)):
            got = apply(op, (dtype,), dtype, target(LACKS), (x,)).astype(np.float64)
            want = function(x.astype(np.float64))
            step = 2.0 ** (
                np.frexp(np.where(np.isfinite(want) & (want != 0), want, 1))[1] - 1 - dtype.mantissa
            )
            step = np.maximum(step, float(dtypes.from_bits(1, dtype)))
            close = np.abs(got - want) <= 0.51 * step
            rounded = want.astype(kind).astype(np.float64)
            assert (close | (got == rounded) | (np.isnan(got) & np.isnan(rounded))).all(), op


def test_lanes(apply: Apply, target: Target) -> None:
    x = np.linspace(-20, 20, 1024, dtype=np.float32)
    for op in (Ops.EXP2, Ops.SIN):
        scalar = apply(op, (dtypes.float32,), dtypes.float32, target(LACKS), (x,))
        assert (apply(op, (dtypes.float32,), dtypes.float32, target(LACKS), (x,), lanes=8) == scalar).all()
