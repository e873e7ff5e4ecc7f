"""exp and cos by their spellings in EXP2 and SIN: on targets without these ops, and on targets with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from typing import Any

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.codegen.decompose import decompose
from tiny_core.dtypes import DType
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

from .test_transcendental import FORMATS, assert_within, wider

Target = Callable[..., Capabilities]
Compute = Callable[..., list[np.ndarray]]
TARGETS = pytest.mark.parametrize("lacks", [{Ops.EXP2, Ops.SIN}, frozenset()], ids=["without", "with"])


def load(dtype: DType, n: int) -> UOp:
    return UOp.param(0, dtype, n).load(UOp.range(UOp.const(n, dtypes.int32), "i"))


def points(kind: type) -> np.ndarray:
    rng = np.random.default_rng(5)
    most = 150 if kind is np.float32 else 1500
    x: list[Any] = [rng.uniform(-most, most, 20000), rng.uniform(-1, 1, 20000),
         rng.uniform(-0.7, 0.72, 5000) * most,
         [0.0, -0.0, np.inf, -np.inf, np.nan, 88.72283, 88.72284, -103.97, 1e30, -1e30]]  # fmt: skip
    return np.concatenate(x).astype(kind)


@FORMATS
@TARGETS
@pytest.mark.parametrize("n", [0, -1, 3])
def test_exp_within_the_stated_error(
    n: int, lacks: Set[Ops], dtype: DType, kind: type, target: Target, compute: Compute
) -> None:
    x = points(kind)
    argument = load(dtype, len(x)) * math.log2(math.e)
    node = (argument + float(n) if n else argument).alu(Ops.EXP2)
    (got,) = compute((decompose(node, target(lacks)),), target(lacks), {0: x}, len(x))
    with np.errstate(all="ignore"):
        assert_within(got, np.exp(x.astype(wider(kind))) * 2.0**n, 1.1 if lacks else 1.2)


@FORMATS
@TARGETS
@pytest.mark.parametrize("minus", [False, True])
def test_cos_within_the_stated_error(
    minus: bool, lacks: Set[Ops], dtype: DType, kind: type, target: Target, compute: Compute
) -> None:
    x: np.ndarray = np.concatenate([points(kind) * 100, np.pi / 2 * np.arange(-2000, 2000)]).astype(kind)
    value = load(dtype, len(x))
    quarter = UOp.const(math.pi / 2, dtype)
    node = (quarter - value if minus else value + quarter).alu(Ops.SIN)
    (got,) = compute((decompose(node, target(lacks)),), target(lacks), {0: x}, len(x))
    with np.errstate(all="ignore"):
        assert_within(got, np.cos(x.astype(wider(kind))), 1.5)


def test_exp_of_minus_x(target: Target, compute: Compute) -> None:
    x = points(np.float32)
    node = (load(dtypes.float32, len(x)) * -math.log2(math.e)).alu(Ops.EXP2)
    caps = target({Ops.EXP2})
    (got,) = compute((decompose(node, caps),), caps, {0: x}, len(x))
    with np.errstate(all="ignore"):
        assert_within(got, np.exp(-x.astype(np.float64)), 1.1)


@pytest.mark.parametrize("factor", [1.4426951, 1.4426949, 1.0, 2.0])
def test_another_factor_is_taken_as_it_stands(factor: float, target: Target) -> None:
    node = (load(dtypes.float32, 8) * factor).alu(Ops.EXP2)
    if node.src[0].src[1].value == np.float32(math.log2(math.e)):
        pytest.skip("it is the same float32")
    assert decompose(node, target()) is node


def test_a_target_without_what_replaces_it_keeps_its_own(target: Target) -> None:
    """One that has EXP2, but no integers to scale by powers of two with."""
    caps = target(frozenset(), set(dtypes.ints))
    node = (UOp.const(2.0, dtypes.float32) * math.log2(math.e)).alu(Ops.EXP2)
    assert decompose(node, caps) is node
