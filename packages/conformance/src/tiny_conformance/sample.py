"""Inputs: numbers of every magnitude a dtype has, its special values among them."""

from __future__ import annotations

import numpy as np

from tiny_conformance.compare import Array, is_float, limits, numpy_dtype


def specials(name: str) -> Array:
    """Return the values of a dtype at which operations tend to go wrong."""
    dtype = numpy_dtype(name)
    if name == "bool":
        return np.array([False, True])
    if is_float(name):
        f = limits(name)
        sizes = [0.0, 1.0, 0.5, 1.5, 2.5, f.largest, f.normal, f.least, np.inf, np.nan]
        return np.array([*sizes, *(-x for x in sizes)]).astype(dtype)
    i = np.iinfo(dtype)
    few = [0, 1, 2, 3, i.max, i.max - 1, i.min, i.min + 1]
    return np.array(few if i.min == 0 else [*few, -1, -2, -3], dtype)


def numbers(name: str, count: int, rng: np.random.Generator) -> Array:
    """Return `count` finite numbers of all magnitudes that a dtype has."""
    dtype = numpy_dtype(name)
    if name == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if is_float(name):
        exponents = rng.integers(*limits(name).exponents, count)
        sizes = np.ldexp(rng.uniform(1, 2, count), exponents)
        return np.asarray(sizes * rng.choice([-1, 1], count)).astype(dtype)
    i = np.iinfo(dtype)
    bits = rng.integers(0, dtype.itemsize * 8, count).astype(np.uint64)
    wide = rng.integers(0, np.iinfo(np.uint64).max, count, np.uint64, endpoint=True)
    small = wide >> (np.uint64(63) - bits)
    return np.asarray(small.view(np.int64) if i.min else small).astype(dtype)


def uniform(name: str, shape: tuple[int, ...], rng: np.random.Generator, low: float, high: float) -> Array:
    """Return numbers between `low` and `high`, both reached by integers."""
    dtype = numpy_dtype(name)
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if is_float(name):
        return rng.uniform(low, high, shape).astype(dtype)
    least = max(int(low), int(np.iinfo(dtype).min))
    return rng.integers(least, int(min(high, np.iinfo(dtype).max)), shape, endpoint=True).astype(dtype)


def whole_range(name: str, rng: np.random.Generator, count: int = 67) -> Array:
    """Return a vector of special values and random ones; its length is no multiple of a vector register's."""
    return np.concatenate([specials(name), numbers(name, count, rng)])


def pairs(name: str, rng: np.random.Generator, count: int = 67) -> tuple[Array, Array]:
    """Return two vectors: all pairs of special values, then random pairs, some of which are equal."""
    few = specials(name)
    x = np.concatenate([np.repeat(few, len(few)), numbers(name, count, rng)])
    y = np.concatenate([np.tile(few, len(few)), numbers(name, count, rng)])
    y[-count // 4 :] = x[-count // 4 :]
    return x, y
