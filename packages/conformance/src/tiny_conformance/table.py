"""How an operation is described in the suite's tables, and the product of operations and dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tiny_conformance.compare import EXACT, Array, Tolerance, is_float, numpy_dtype

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
FLOATS = ("float16", "bfloat16", "float32", "float64")
FLOATS8 = ("float8_e4m3", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
NUMBERS = INTS + FLOATS
ALL = ("bool", *NUMBERS)


@dataclass(frozen=True, slots=True)
class Op:
    """An operation.

    Args:
        name: what reports call it.
        ours: it, on tensors (or on nodes of kernels).
        numpy: it, on arrays. Where the tolerance is exact, arrays are of the dtype itself; otherwise floats
            come in a wider dtype, whose results are taken for the exact ones.
        dtypes: of the operands.
        tolerance: of float results.
        domain: between what floats are drawn; None for the whole range of the dtype, special values included.
        result: dtype of the result; "" for that of the operands.
        magnitude: of what is rounded on the way, which `Tolerance.epsilons` refers to, from the operands;
            None for 1.
    """

    name: str
    ours: Callable[..., Any]
    numpy: Callable[..., Array]
    dtypes: tuple[str, ...] = FLOATS
    tolerance: Tolerance = EXACT
    domain: tuple[float, float] | None = None
    result: str = ""
    magnitude: Callable[..., Array] | None = None

    def reference(self, dtype: str, *operands: Array) -> Array:
        """Return numpy's result for operands of a dtype."""
        with np.errstate(all="ignore"):
            if self.tolerance == EXACT or not is_float(dtype):
                return np.asarray(self.numpy(*operands))
            return np.asarray(self.numpy(*(widened(x) for x in operands)))

    def scale(self, *operands: Array) -> Array | float:
        """Return what `Tolerance.epsilons` are multiplied by."""
        if self.magnitude is None:
            return 1.0
        with np.errstate(all="ignore"):
            return np.nan_to_num(np.abs(self.magnitude(*(widened(x) for x in operands))))


def widened(x: Array) -> Array:
    """Return floats in a wider dtype: float64, or numpy's longest for those."""
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


def narrowed(x: Array, dtype: str) -> Array:
    """Return the array in the dtype of that name."""
    with np.errstate(all="ignore"):
        return x.astype(numpy_dtype(dtype))


def integers(function: Callable[..., int]) -> Callable[..., Array]:
    """Return a function of integer arrays: `function` of unbounded integers, wrapped to their dtype."""

    def apply(*operands: Array) -> Array:
        dtype = operands[0].dtype
        flat = (np.broadcast_to(x, np.broadcast_shapes(*(o.shape for o in operands))) for x in operands)
        rows = zip(*(x.ravel().tolist() for x in flat), strict=True)
        mask = (1 << (dtype.itemsize * 8)) - 1
        words = np.array([function(*row) & mask for row in rows], np.uint64)
        return (
            words.astype(f"uint{dtype.itemsize * 8}")
            .view(dtype)
            .reshape(np.broadcast_shapes(*(o.shape for o in operands)))
        )

    return apply


def cases(ops: Iterable[Op], only: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Return the parametrisation of a test by `op` and `dtype`.

    Args:
        ops: operations.
        only: dtypes to leave it at.
    """
    rows = [(op, d) for op in ops for d in op.dtypes if not only or d in only]
    return pytest.mark.parametrize(("op", "dtype"), rows, ids=[f"{op.name}-{d}" for op, d in rows])


def dtypes_of(names: Sequence[str]) -> pytest.MarkDecorator:
    """Return the parametrisation of a test by `dtype`."""
    return pytest.mark.parametrize("dtype", names)
