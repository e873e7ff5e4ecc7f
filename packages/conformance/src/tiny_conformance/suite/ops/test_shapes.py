"""Every element-wise operation over every kind of shape: no axis, no element, one, views with other strides,
axes that repeat one element, and more than a kernel takes at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Array, Tolerance, is_float
from tiny_conformance.suite.ops import test_binary, test_unary
from tiny_conformance.table import Op
from tiny_core import Tensor


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of shape: that of the storage, and the view of it that an operation is applied to."""

    shape: tuple[int, ...]
    ours: Callable[[Tensor], Tensor] = lambda t: t
    numpy: Callable[[Array], Array] = lambda x: x


KINDS = {
    "no axis": Kind(()),
    "no element": Kind((3, 0)),
    "one element": Kind((1, 1, 1)),
    "transposed": Kind((6, 5, 4), lambda t: t.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    "strided": Kind((6, 5, 9), lambda t: t[::2, 1:, ::-2], lambda x: x[::2, 1:, ::-2]),
    "repeated": Kind(
        (6, 1, 4), lambda t: t.expand(6, 5, 4), lambda x: np.ascontiguousarray(np.broadcast_to(x, (6, 5, 4)))
    ),
    "offset": Kind((130,), lambda t: t[3:], lambda x: x[3:]),
    "larger": Kind((37, 211)),
}
UNARY = (*test_unary.ROUNDED, *test_unary.ELEMENTARY, *test_unary.COMPOSED)
BINARY = (*test_binary.EXACT_OPS, *test_binary.NEAR)


def once(ops: tuple[Op, ...]) -> list[tuple[Op, str]]:
    """Each operation on one dtype: float32 if it takes that, else int32 or what comes first."""
    chosen: dict[str, tuple[Op, str]] = {}
    for name in ("float32", "int32"):
        for op in ops:
            if name in op.dtypes:
                chosen.setdefault(op.name, (op, name))
    for op in ops:
        chosen.setdefault(op.name, (op, op.dtypes[0]))
    return list(chosen.values())


def drawn(op: Op, dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    low, high = op.domain or (0.25, 3.0)
    return sample.uniform(dtype, shape, rng, *((1, 20) if not is_float(dtype) else (low, high)))


kinds = pytest.mark.parametrize("kind", list(KINDS))


@kinds
@pytest.mark.parametrize(("op", "dtype"), once(UNARY), ids=[f"{o.name}-{d}" for o, d in once(UNARY)])
def test_of_one(op: Op, dtype: str, kind: str, rng: np.random.Generator, check: Check) -> None:
    k = KINDS[kind]
    x = drawn(op, dtype, k.shape, rng)
    view = np.ascontiguousarray(k.numpy(x)).reshape(k.numpy(x).shape)
    want = op.reference(dtype, view)
    check(op.ours(k.ours(Tensor(x))), want, op.tolerance, op.scale(view), op.result or dtype)


@kinds
@pytest.mark.parametrize(("op", "dtype"), once(BINARY), ids=[f"{o.name}-{d}" for o, d in once(BINARY)])
def test_of_two(op: Op, dtype: str, kind: str, rng: np.random.Generator, check: Check) -> None:
    k = KINDS[kind]
    x, y = (drawn(op, dtype, k.shape, rng) for _ in range(2))
    if op.name in ("mod", "fmod") and is_float(dtype):  # far from where the quotient is a whole number
        y = np.asarray(np.full(k.shape, 2.0), y.dtype)
        x = np.asarray(np.floor(x) + 0.375, x.dtype)
    a, b = (np.ascontiguousarray(k.numpy(v)).reshape(k.numpy(v).shape) for v in (x, y))
    want = op.reference(dtype, a, b)
    tolerance = op.tolerance if is_float(dtype) else Tolerance()
    check(op.ours(k.ours(Tensor(x)), k.ours(Tensor(y))), want, tolerance, op.scale(a, b), op.result or dtype)
