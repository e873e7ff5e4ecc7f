"""Every rule of the wrap table, proved by z3 on 8-bit vectors, signed and unsigned."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # has no stubs

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.algebra.wrap import WRAP
from tiny_core.ir.arith import evaluate
from tiny_core.ir.ops import BINARY, COMPARE, UNARY, Ops
from tiny_core.ir.pattern import CONSTANT, Pattern, Rule, compile_matcher
from tiny_core.ir.uop import UOp

_CONSTANTS = (0, 1, 2, 3, 5, 7, 8, 100, 127, 128, 200, 254, 255)
_NOT_FOR_INTS = frozenset({
    Ops.DIV, Ops.POW, Ops.THREEFRY, Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC, Ops.WHERE,
    Ops.MULACC,
})  # fmt: skip


def _vector(node: UOp, memo: dict[UOp, Any]) -> Any:
    """The z3 term of a node: 8-bit vectors, and Bools."""
    if node in memo:
        return memo[node]
    src = [_vector(s, memo) for s in node.src] if node.op is not Ops.LOAD else []
    signed = (node.src[0].dtype if node.src and node.op is not Ops.LOAD else node.dtype).kind == "int"
    made = memo[node] = _term(node, src, signed)
    return made


def _term(node: UOp, src: list[Any], signed: bool) -> Any:
    op = node.op
    if op is Ops.CONST:
        return z3.BoolVal(bool(node.value)) if node.dtype.kind == "bool" else z3.BitVecVal(int(node.value), 8)
    if op is Ops.LOAD:
        slot = node.src[0].payload(p.Param).slot
        return z3.Bool(f"b{slot}") if node.dtype.kind == "bool" else z3.BitVec(f"v{slot}", 8)
    if node.src[0].dtype.kind == "bool":
        x, y = src[0], src[-1]
        return {
            Ops.NOT: lambda: z3.Not(x), Ops.ADD: lambda: z3.Or(x, y), Ops.OR: lambda: z3.Or(x, y),
            Ops.MAX: lambda: z3.Or(x, y), Ops.MUL: lambda: z3.And(x, y), Ops.AND: lambda: z3.And(x, y),
            Ops.MIN: lambda: z3.And(x, y), Ops.XOR: lambda: z3.Xor(x, y), Ops.CMPEQ: lambda: x == y,
            Ops.CMPNE: lambda: x != y, Ops.CMPLT: lambda: z3.And(z3.Not(x), y), Ops.CMPLE: lambda:
            z3.Or(z3.Not(x), y),
        }[op]()  # fmt: skip
    x, y = src[0], src[-1]
    less = (lambda a, b: a < b) if signed else z3.ULT
    zero = z3.BitVecVal(0, 8)
    quotient = x / y if signed else z3.UDiv(x, y)
    rest = z3.SRem(x, y) if signed else z3.URem(x, y)
    floor = z3.If(z3.And(rest != 0, (rest < 0) != (y < 0)), quotient - 1, quotient) if signed else quotient
    return {
        Ops.NEG: lambda: -x, Ops.NOT: lambda: ~x, Ops.ADD: lambda: x + y, Ops.SUB: lambda: x - y, Ops.MUL:
        lambda: x * y, Ops.AND: lambda: x & y, Ops.OR: lambda: x | y, Ops.XOR: lambda: x ^ y,
        Ops.SHL: lambda: x << y, Ops.SHR: lambda: x >> y if signed else z3.LShR(x, y),
        Ops.IDIV: lambda: z3.If(y == 0, zero, quotient), Ops.IMOD: lambda: z3.If(y == 0, x, rest),
        Ops.FLOORDIV: lambda: z3.If(y == 0, zero, floor), Ops.FLOORMOD: lambda: z3.If(y == 0, x, x - floor *
        y), Ops.MAX: lambda: z3.If(less(x, y), y, x), Ops.MIN: lambda: z3.If(less(x, y), x, y),
        Ops.CMPLT: lambda: less(x, y), Ops.CMPLE: lambda: z3.Not(less(y, x)),
        Ops.CMPEQ: lambda: x == y, Ops.CMPNE: lambda: x != y,
    }[op]()  # fmt: skip


def _instances(pattern: Pattern, dtype: DType, names: dict[str, UOp]) -> Iterator[tuple[UOp, dict[str, UOp]]]:
    """Nodes that `pattern` matches, with leaves of `dtype`: unknown ones, ones within intervals, and
    constants."""
    if pattern.name in names and pattern.src is None:
        yield names[pattern.name], names
        return
    if pattern.value is not None:
        yield UOp.const(pattern.value, dtype), names
        return
    if pattern.ops == CONSTANT and pattern.src is None:
        for value in _CONSTANTS if dtype.kind != "bool" else (0, 1):
            node = UOp.const(dtypes.wrap(value, dtype) if dtype.kind != "bool" else bool(value), dtype)
            yield node, {**names, pattern.name: node} if pattern.name else names
        return
    if pattern.ops is None:
        for node in _leaves(len(names), dtype):
            yield node, {**names, pattern.name: node} if pattern.name else names
        return
    for op in sorted(pattern.ops - _NOT_FOR_INTS, key=lambda o: o.value):
        if pattern.src is not None:
            parts = [pattern.src]
        else:
            leaf = Pattern(CONSTANT) if pattern.constants else Pattern()
            parts = [tuple([leaf] * (1 if op in UNARY else 2))]
        for src in parts:
            for operands, bound in _all(src, dtype, names):
                result = dtypes.bool_ if op in COMPARE else operands[0].dtype
                node = UOp(op, result, operands)
                yield node, {**bound, pattern.name: node} if pattern.name else bound


def _all(
    src: tuple[Pattern, ...], dtype: DType, names: dict[str, UOp]
) -> Iterator[tuple[tuple[UOp, ...], dict[str, UOp]]]:
    if not src:
        yield (), names
        return
    for node, bound in _instances(src[0], dtype, names):
        # a nameless leaf counts too, so that the next one is another
        known = bound if src[0].name else {**bound, f"_{len(bound)}": node}
        for rest, end in _all(src[1:], dtype, known):
            yield (node, *rest), end


def _leaves(slot: int, dtype: DType) -> Iterator[UOp]:
    load = UOp.param(slot, dtype, 1).load(0)
    yield load
    if dtype.kind != "bool":
        yield load & 7
        yield (load & 7) + 20


def _dtypes(rule: Rule) -> tuple[DType, ...]:
    return (dtypes.int8, dtypes.uint8, dtypes.bool_)


def _meaningful(node: UOp) -> bool:
    """Whether every op of it has a meaning for its dtype."""
    of_integers = (Ops.SUB, Ops.NEG, Ops.SHL, Ops.SHR, Ops.IDIV, Ops.IMOD, Ops.FLOORDIV, Ops.FLOORMOD)
    return not any(n.op in of_integers and n.src[0].dtype.kind == "bool" for n in node.toposort())


def _cases(rule: Rule) -> Iterator[tuple[UOp, UOp]]:
    for dtype in _dtypes(rule):
        for node, _ in _instances(rule.pattern, dtype, {}):
            if not _meaningful(node):
                continue
            found = compile_matcher(node.op, [rule])(node, None)
            if found is not None:
                yield node, found[0]


@pytest.mark.parametrize("rule", WRAP.rules, ids=lambda r: r.name)
def test_rule_holds_for_all_values(rule: Rule) -> None:
    proved = 0
    solver = z3.Solver()
    for before, after in islice(_cases(rule), 0, 120):
        assert before.dtype is after.dtype
        memo: dict[UOp, Any] = {}
        solver.push()
        solver.add(_vector(before, memo) != _vector(after, memo))
        assert solver.check() == z3.unsat, f"{rule.name}: {solver.model()} for {before.op} {before.dtype}"
        solver.pop()
        proved += 1
    assert proved, f"{rule.name} applies to nothing that was tried"


def test_the_proofs_mean_what_the_ops_mean() -> None:
    """z3's terms agree with the arithmetic table, on which everything else rests."""
    seed = 20
    print(f"seed {seed}")
    r = random.Random(seed)
    edges = (-128, -127, -1, 0, 1, 2, 7, 8, 9, 126, 127, 128, 255)
    for dtype in (dtypes.int8, dtypes.uint8):
        x, y = (UOp.param(s, dtype, 1).load(0) for s in range(2))
        pairs = [*product(edges, edges), *((r.randrange(256), r.randrange(256)) for _ in range(20))]
        for op in sorted((BINARY | UNARY) - _NOT_FOR_INTS, key=lambda o: o.value):
            node = x.alu(op) if op in UNARY else x.alu(op, y)
            term = _vector(node, {})
            for a, b in pairs:
                a, b = dtypes.wrap(a, dtype), dtypes.wrap(b, dtype)
                at = z3.simplify(
                    z3.substitute(
                        term,
                        (z3.BitVec("v0", 8), z3.BitVecVal(a, 8)),
                        (z3.BitVec("v1", 8), z3.BitVecVal(b, 8)),
                    )
                )
                want = evaluate(op, node.dtype, (a,) if op in UNARY else (a, b), dtype)
                got = z3.is_true(at) if node.dtype.kind == "bool" else dtypes.wrap(at.as_long(), dtype)
                assert got == want, (op, dtype, a, b)
