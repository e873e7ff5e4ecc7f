"""Every rule of the ieee table, tried on all pairs of 8-bit floats, all 16-bit floats, and a sample of their
pairs.

The reference is numpy: both sides are computed in float64 and rounded once per op, which is exact for these
widths (double rounding is innocuous where 53 >= 2p + 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.algebra.ieee import IEEE
from tiny_core.ir.ops import COMPARE, UNARY, Ops
from tiny_core.ir.pattern import CONSTANT, Pattern, Rule, compile_matcher
from tiny_core.ir.uop import UOp

Array = np.ndarray[Any, np.dtype[Any]]
_NUMPY: dict[DType, type] = {
    dtypes.float8_e4m3: ml_dtypes.float8_e4m3fn,
    dtypes.float8_e5m2: ml_dtypes.float8_e5m2,
    dtypes.float8_e4m3fnuz: ml_dtypes.float8_e4m3fnuz,
    dtypes.float8_e5m2fnuz: ml_dtypes.float8_e5m2fnuz,
    dtypes.float16: np.float16,
    dtypes.bfloat16: ml_dtypes.bfloat16,
}
_CONSTANTS = (0.0, -0.0, 1.0, -1.0, 2.0, -0.5, 3.0, 0.0078125, 240.0, float("inf"), float("nan"))
_FLOAT_OPS = frozenset({
    Ops.NEG, Ops.RECIP, Ops.SQRT, Ops.TRUNC, Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.MAX, Ops.MIN,
    Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE,
})  # fmt: skip


def _rounded(x: Array, dtype: DType) -> Array:
    return np.asarray(x, np.float64).astype(_NUMPY[dtype]).astype(np.float64)


def _extreme(x: Array, y: Array, sign: float) -> Array:
    nan = np.isnan(x) | np.isnan(y)
    larger = np.where(x * sign > y * sign, x, y)
    zeros = (x == 0) & (y == 0)
    either = np.where(np.signbit(x) == np.signbit(y), x, 0.0 if sign > 0 else -0.0)
    return np.where(nan, np.nan, np.where(zeros, either, larger))


def value(node: UOp, leaves: list[Array]) -> Array:
    """The value of an expression over arrays."""
    dtype = node.dtype
    if node.op is Ops.LOAD:
        return leaves[node.src[0].payload(p.Param).slot]
    if node.op is Ops.CONST:
        return np.asarray(float(node.value)) if dtype.is_float else np.asarray(bool(node.value))
    x, *rest = (value(s, leaves) for s in node.src)
    y = rest[0] if rest else x
    made: Any = {  # type: ignore[no-untyped-call]
        Ops.NEG: lambda: -x, Ops.RECIP: lambda: 1.0 / x, Ops.SQRT: lambda: np.sqrt(x), Ops.TRUNC: lambda:
        np.trunc(x), Ops.ADD: lambda: x + y, Ops.SUB: lambda: x - y, Ops.MUL: lambda: x * y, Ops.DIV: lambda:
        x / y, Ops.MAX: lambda: _extreme(x, y, 1.0), Ops.MIN: lambda: _extreme(x, y, -1.0),
        Ops.CMPLT: lambda: x < y, Ops.CMPLE: lambda: x <= y, Ops.CMPEQ: lambda: x == y, Ops.CMPNE: lambda: x
        != y,
    }[node.op]()  # fmt: skip
    return _rounded(made, dtype) if dtype.is_float else made


def assert_same(x: Array, y: Array, what: str) -> None:
    """Equal numbers, NaN where NaN, and zeros of one sign."""
    x, y = np.broadcast_arrays(x, y)
    if x.dtype == bool:
        assert np.array_equal(x, y), what
        return
    assert np.array_equal(np.isnan(x), np.isnan(y)), what
    known = ~np.isnan(x)
    assert np.array_equal(x[known], y[known]), what
    assert np.array_equal(np.signbit(x[known]), np.signbit(y[known])), what


def _instances(pattern: Pattern, dtype: DType, names: dict[str, UOp]) -> Iterator[tuple[UOp, dict[str, UOp]]]:
    if pattern.name in names and pattern.src is None:
        yield names[pattern.name], names
    elif pattern.value is not None:
        yield UOp.const(pattern.value, dtype), names
    elif pattern.ops == CONSTANT and pattern.src is None:
        for number in _CONSTANTS:
            node = UOp.const(number, dtype)
            yield node, {**names, pattern.name: node} if pattern.name else names
    elif pattern.ops is None:
        node = UOp.param(sum(n.op is Ops.LOAD for n in names.values()), dtype, 1).load(0)
        yield node, {**names, pattern.name: node} if pattern.name else names
    else:
        for op in sorted(pattern.ops & _FLOAT_OPS, key=lambda o: o.value):
            leaf = Pattern(CONSTANT) if pattern.constants else Pattern()
            src = pattern.src or (leaf,) * (1 if op in UNARY else 2)
            for operands, bound in _all(src, dtype, names):
                node = UOp(op, dtypes.bool_ if op in COMPARE else dtype, operands)
                yield node, {**bound, pattern.name: node} if pattern.name else bound


def _all(
    src: tuple[Pattern, ...], dtype: DType, names: dict[str, UOp]
) -> Iterator[tuple[tuple[UOp, ...], dict[str, UOp]]]:
    if not src:
        yield (), names
        return
    for node, bound in _instances(src[0], dtype, names):
        for rest, end in _all(src[1:], dtype, bound):
            yield (node, *rest), end


def _cases(rule: Rule, dtype: DType) -> Iterator[tuple[UOp, UOp]]:
    for node, _ in _instances(rule.pattern, dtype, {}):
        found = compile_matcher(node.op, [rule])(node, None)
        if found is not None:
            yield node, found[0]


def _every(dtype: DType) -> Array:
    bits = np.arange(1 << dtype.bits, dtype=np.uint8 if dtype.bits == 8 else np.uint16)
    return bits.view(_NUMPY[dtype]).astype(np.float64)


@pytest.mark.parametrize("dtype", dtypes.fp8s, ids=lambda d: d.name)
@pytest.mark.parametrize("rule", IEEE.rules, ids=lambda r: r.name)
@np.errstate(all="ignore")
def test_rule_on_all_pairs_of_8_bits(rule: Rule, dtype: DType) -> None:
    every = _every(dtype)
    leaves = [every[:, None], every[None, :]]
    tried = 0
    for before, after in islice(_cases(rule, dtype), 150):
        assert_same(value(before, leaves), value(after, leaves), f"{rule.name}: {before.src} to {after}")
        tried += 1
    assert tried, "the rule applies to nothing that was tried"


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("rule", IEEE.rules, ids=lambda r: r.name)
@np.errstate(all="ignore")
def test_rule_on_16_bits(rule: Rule, dtype: DType) -> None:
    every = _every(dtype)
    seed = 13
    print(f"seed {seed}")
    others = np.random.default_rng(seed).permutation(every)
    for before, after in islice(_cases(rule, dtype), 60):
        for second in (every, others, np.asarray(0.0), np.asarray(-0.0), np.asarray(np.nan)):
            if before.dtype is dtypes.bool_ and second is not others:
                continue
            leaves = [every, second]
            assert_same(value(before, leaves), value(after, leaves), f"{rule.name}: {before.src} to {after}")


def test_what_is_not_a_rule_stays() -> None:
    """Tempting identities that -0.0, NaN, infinity or rounding break."""
    from tiny_core.ir.algebra import simplify

    x, y, z = (UOp.param(s, dtypes.float32, 1).load(0) for s in range(3))
    for node in (
        x + 0.0, 0.0 - x, x * 0.0, x - x, x / x, x.eq(x), x.ne(x), x.alu(Ops.CMPLE, x), x + y - y,
        (x + y) + z, x * 3.0 * 5.0, x / 3.0, -(x - y), ~(x < y), x.alu(Ops.RECIP).alu(Ops.RECIP),
        x * 2.0**-140, x / 2.0**140,
    ):  # fmt: skip
        assert simplify(node) is node, node
