"""Comparison of what a device gave with what numpy says, in units of the dtype's own precision.

A *unit* (ulp) at a value is the distance to its neighbour in the dtype; the *epsilon* of a dtype is the unit
at 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

# An array of a dtype that only the running test knows: numpy's types cannot say more of its arithmetic.
Array = npt.NDArray[Any]

_OTHERS = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be from the exact one.

    Args:
        ulps: units at the exact result; 0 with `epsilons` 0 asks for equal bits (any NaN equals any other).
        epsilons: epsilons of the dtype, times the scale that the comparison is given (1 unless it is).
    """

    ulps: float = 0.0
    epsilons: float = 0.0


EXACT = Tolerance()


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return numpy's dtype for the name of one of tiny's."""
    dtype: np.dtype[Any] = np.dtype(_OTHERS.get(name, name))
    return dtype


def is_float(name: str) -> bool:
    """Return whether a dtype's name is that of floats."""
    return "float" in name


@dataclass(frozen=True, slots=True)
class Limits:
    """What a float dtype reaches, as doubles.

    Args:
        largest: finite number.
        normal: the smallest number of full precision.
        least: the smallest number above 0.
        epsilon: the distance from 1 to the next number.
        exponents: of `normal`, and one more than that of `largest`.
    """

    largest: float
    normal: float
    least: float
    epsilon: float
    exponents: tuple[int, int]


def limits(name: str) -> Limits:
    """Return the limits of a float dtype."""
    f: Any = ml_dtypes.finfo(numpy_dtype(name))  # type: ignore[no-untyped-call]  # it has no type hints
    largest, normal, least, epsilon = map(float, (f.max, f.smallest_normal, f.smallest_subnormal, f.eps))
    return Limits(largest, normal, least, epsilon, (int(f.minexp), int(f.maxexp)))


def unit(value: Array, name: str) -> Array:
    """Return the unit of a float dtype at each value (finite, in a wider dtype)."""
    f, number = limits(name), value.dtype.type
    _, exponent = np.frexp(np.maximum(np.abs(value), number(f.normal)))
    return np.asarray(np.ldexp(number(f.epsilon), exponent - 1))


def differences(got: Array, want: Array, tolerance: Tolerance, scale: Array | float = 1.0) -> str:
    """Return a text that shows where two arrays differ; empty if they agree.

    Args:
        got: what the device gave.
        want: of the same shape: the exact result, in the same or a wider dtype.
        tolerance: what is allowed between them.
        scale: of the magnitude that `Tolerance.epsilons` refers to; broadcasts to the arrays.
    """
    name = got.dtype.name
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if not is_float(name):
        bad = got != want
        return _show(got, want, bad) if bad.any() else ""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        if tolerance == EXACT:
            bad = ~same | (np.signbit(got) != np.signbit(rounded)) & ~np.isnan(got)
            return _show(got, rounded, bad) if bad.any() else ""
        wide = np.promote_types(want.dtype, np.float64)
        exact, given = want.astype(wide), got.astype(wide)
        number = wide.type
        f = limits(name)
        # an overflow one unit early or late is an error of one unit
        beyond = f.largest + unit(np.asarray(number(f.largest)), name)
        given = np.where(np.isinf(given), np.copysign(beyond, given), given)
        exact = np.where(np.abs(exact) > f.largest, np.copysign(beyond, exact), exact)
        allowed = tolerance.ulps * unit(exact, name)
        allowed = allowed + tolerance.epsilons * np.asarray(scale, wide) * number(f.epsilon)
        near = np.abs(given - exact) <= allowed
    bad = ~(same | near)
    if not bad.any():
        return ""
    with np.errstate(all="ignore"):
        worst = np.nanmax(np.where(bad, np.abs(given - exact) / unit(exact, name), 0))
    return f"{_show(got, want, bad)}\nworst {worst:.3g} ulp, allowed {tolerance}"


def _show(got: Array, want: Array, bad: Array) -> str:
    """The first few places where two arrays differ."""
    places = np.argwhere(bad)
    lines = [f"{len(places)} of {bad.size} differ"]
    for place in places[:6]:
        at = tuple(int(i) for i in place)
        lines.append(f"  at {list(at)}: got {got[at]!r}, expected {want[at]!r}")
    return "\n".join(lines)
