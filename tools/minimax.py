"""Derive the polynomial coefficients of `tiny_core/codegen/decompose/coefficients.py` and, with the argument
`tensor`, those of `tiny_core/tensor/approximations.py`.

For a function g on an interval, a relative weight w and a format, find coefficients c of that format for
which w(x) (g(x) - p(x)) is small: least squares in Chebyshev points (which comes within a small factor of
the best uniform approximation), rounding one coefficient at a time, lowest power first, and fitting the
higher ones again to what its rounding left. All of it in 400-bit arithmetic; the error printed is that of
the rounded polynomial.

Needs mpmath. Run `python tools/minimax.py` or `python tools/minimax.py tensor` and paste its output.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable

from mpmath import mp, mpf  # type: ignore[import-untyped]  # it has no type hints

mp.prec = 400
Function = Callable[[mpf], mpf]
POINTS = 100


def fit(left: list[mpf], weights: list[mpf], points: list[mpf], powers: range) -> list[mpf]:
    """Return coefficients of x**k, k in `powers`, with the least sum of squares of `weights * (left - p)`."""
    basis = [[w * x**k for k in powers] for x, w in zip(points, weights, strict=True)]
    n = len(powers)
    normal, right = mp.matrix(n, n), mp.matrix(n, 1)
    for row, value, w in zip(basis, left, weights, strict=True):
        for i in range(n):
            right[i] += row[i] * value * w
            for j in range(n):
                normal[i, j] += row[i] * row[j]
    solution = mp.lu_solve(normal, right)
    return [solution[i] for i in range(n)]


def rounded(c: mpf, code: str) -> float:
    """Round to float ("f") or double ("d")."""
    return float(c) if code == "d" else float(struct.unpack("<f", struct.pack("<f", float(c)))[0])


def show(name: str, g: Function, w: Function, lo: mpf, hi: mpf, degree: int, code: str) -> None:
    """Print the coefficients of the polynomial of `degree` for g on [lo, hi]."""
    points = [
        (lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (i + mpf(1) / 2) / POINTS) for i in range(POINTS)
    ]
    weights, left = [w(x) for x in points], [g(x) for x in points]
    coefficients = []
    for k in range(degree + 1):
        c = rounded(fit(left, weights, points, range(k, degree + 1))[0], code)
        coefficients.append(c)
        left = [v - mpf(c) * x**k for v, x in zip(left, points, strict=True)]
    grid = [lo + (hi - lo) * (2 * i + 1) / 4002 for i in range(2001)]
    worst = max(abs(w(x) * (g(x) - mp.polyval([mpf(c) for c in coefficients[::-1]], x))) for x in grid)
    print(f"# relative error 2**{float(mp.log(worst, 2)):.1f}")
    print(f"{name} = (")
    for c in coefficients:
        print(f"    {c!r},")
    print(")")


def main() -> None:
    half, ln2, turn = mpf(1) / 2, mp.log(2), mp.pi / 2
    low, high = mp.sqrt(half) - 1, mp.sqrt(2) - 1
    square = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
    small, quarter, edge = mpf(2) ** -100, mpf(1) / 4, ln2 / 2 * mpf("1.0001")
    for code, label, degrees in (
        ("f", "SINGLE", (6, 4, 9, 3, 3, 2)),
        ("d", "DOUBLE", (11, 9, 21, 6, 6, 7)),
    ):
        exp2, exp, log2, sin, cos, atanh = degrees
        # 2**r on [-1/2, 1/2]
        show(f"EXP2_{label}", lambda r: mpf(2) ** r, lambda r: mpf(2) ** -r, -half, half, exp2, code)
        # exp(r) = 1 + r + r*r*p(r), |r| <= ln(2)/2 and what rounding adds
        g: Function = lambda r: (mp.exp(r) - 1 - r) / r**2  # noqa: E731
        show(f"EXP_{label}", g, lambda r: r**2 * mp.exp(-r), -edge, edge, exp, code)
        # log2(1+f) = f + f*p(f), 1+f from sqrt(1/2) to sqrt(2)
        g = lambda f: mp.log1p(f) / ln2 / f - 1  # noqa: E731
        show(f"LOG2_{label}", g, lambda f: f * ln2 / mp.log1p(f), low, high, log2, code)
        # sin(pi/2 t) = t + t*p(t*t), |t| <= 1/2
        g = lambda z: mp.sin(turn * mp.sqrt(z)) / mp.sqrt(z) - 1  # noqa: E731
        show(f"SIN_{label}", g, lambda z: mp.sqrt(z) / mp.sin(turn * mp.sqrt(z)), small, quarter, sin, code)
        # cos(pi/2 t) = 1 + t*t*p(t*t)
        g = lambda z: (mp.cos(turn * mp.sqrt(z)) - 1) / z  # noqa: E731
        show(f"COS_{label}", g, lambda z: z / mp.cos(turn * mp.sqrt(z)), small, quarter, cos, code)
        # atanh(s) = s + s**3/3 + s**5*p(s*s), s = (m-1)/(m+1) for m from sqrt(1/2) to sqrt(2)
        g = lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1 - z / 3) / z**2  # noqa: E731
        weight: Function = lambda z: z**2 * mp.sqrt(z) / mp.atanh(mp.sqrt(z))  # noqa: E731
        show(f"ATANH_{label}", g, weight, mpf(2) ** -60, square, atanh, code)
    mp.prec = 1400
    digits = f"{int(mp.floor(2 / mp.pi * mpf(2) ** 1216)):0304x}"
    print("TWO_OVER_PI = int(")
    for i in range(0, len(digits), 76):
        print(f'    "{digits[i : i + 76]}"')
    print("    , 16)")


def tensor() -> None:
    middle = mpf(15) / 4
    low, high = -mpf("1.001"), (30 - middle) / (30 + middle)

    def tail(t: mpf) -> mpf:
        """(1 + 2x) exp(x*x) erfc(x) at t = (x - a) / (x + a), which is smooth from x = 0 to infinity."""
        x = middle * (1 + t) / (1 - t)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)

    for code, label, expm1, erf, erfc in (("f", "SINGLE", 5, 6, 11), ("d", "DOUBLE", 11, 15, 23)):
        # expm1(x) = x + x*x*p(x), x from about -ln(2)/2 to ln(2)
        g: Function = lambda x: (mp.expm1(x) - x) / x**2  # noqa: E731
        show(f"EXPM1_{label}", g, lambda x: x**2 / mp.expm1(x), mpf("-0.351"), mpf("0.701"), expm1, code)
        # erf(x) = x + x*p(x*x), |x| <= 1
        g = lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1  # noqa: E731
        show(f"ERF_{label}", g, lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), mpf(2) ** -100, mpf(1), erf, code)
        # erfc(x) = exp(-x*x) / (1 + 2x) * p((x-a)/(x+a)), 0 <= x <= 30 (Shepherd and Laframboise, 1981)
        show(f"ERFC_{label}", tail, lambda t: 1 / tail(t), low, high, erfc, code)


if __name__ == "__main__":
    tensor() if "tensor" in sys.argv else main()
