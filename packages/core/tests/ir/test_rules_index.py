"""The rules of the index domain, proved by z3 over the unbounded integers on a grid of constants."""

from __future__ import annotations

import random
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # has no stubs
from expressions import Generator

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.algebra import divmod as rules
from tiny_core.ir.algebra.compare import compare
from tiny_core.ir.algebra.divmod import FormRule
from tiny_core.ir.algebra.linear import Form, from_linear, linear_form
from tiny_core.ir.algebra.simplifier import Simplifier
from tiny_core.ir.interval import bounds
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp

_DIVISORS = (2, 3, 4, 6, 8, 9, 12, 16, 64)
_FACTORS = (-27, -16, -9, -8, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 17, 24, 63, 64, 65)


def integer(node: UOp, memo: dict[UOp, Any]) -> Any:
    """The z3 term of an index or bool node. z3's div and mod by a positive constant are floor division."""
    known = memo.get(node)
    if known is None:
        src = [integer(s, memo) for s in node.src] if node.op is not Ops.RANGE else []
        known = memo[node] = _term(node, src)
    return known


def _term(node: UOp, src: list[Any]) -> Any:
    op = node.op
    if op is Ops.CONST:
        return z3.BoolVal(bool(node.value)) if node.dtype.kind == "bool" else z3.IntVal(int(node.value))
    if op is Ops.RANGE:
        return z3.Int(node.payload(p.Range).axis)
    if op is Ops.VARIABLE:
        return z3.Int(node.payload(p.Variable).name)
    if op in (Ops.FLOORDIV, Ops.FLOORMOD):
        x, y = src
        constant = node.src[1].op is Ops.CONST and int(node.src[1].value) > 0
        # for a negative divisor x // y = -x // -y and x % y = -(-x % -y)
        if op is Ops.FLOORDIV:
            return x / y if constant else z3.If(y == 0, 0, z3.If(y > 0, x / y, -x / -y))
        return x % y if constant else z3.If(y == 0, x, z3.If(y > 0, x % y, -(-x % -y)))
    x, y = src[0], src[-1]
    return {
        Ops.ADD: lambda: x + y, Ops.SUB: lambda: x - y, Ops.MUL: lambda: x * y, Ops.NEG: lambda: -x,
        Ops.NOT: lambda: z3.Not(x) if node.dtype.kind == "bool" else -x - 1,
        Ops.MAX: lambda: z3.If(x < y, y, x), Ops.MIN: lambda: z3.If(x < y, x, y),
        Ops.CMPLT: lambda: x < y, Ops.CMPLE: lambda: x <= y, Ops.CMPEQ: lambda: x == y, Ops.CMPNE: lambda: x
        != y, Ops.AND: lambda: z3.And(x, y), Ops.OR: lambda: z3.Or(x, y), Ops.WHERE: lambda: z3.If(x, src[1],
        y),
    }[op]()  # fmt: skip


def limits(*roots: UOp) -> list[Any]:
    """What is known of the leaves."""
    known = []
    for root in roots:
        for node in root.toposort():
            if node.op in (Ops.RANGE, Ops.VARIABLE):
                lo, hi = bounds(node)
                known += [integer(node, {}) >= lo, integer(node, {}) <= hi]
    return known


def prove(before: UOp, after: UOp) -> None:
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(*limits(before, after))
    solver.add(integer(before, {}) != integer(after, {}))
    assert solver.check() == z3.unsat, (before, after, linear_form(before), linear_form(after))


def atoms(r: random.Random) -> list[UOp]:
    """Loops of many sizes, a variable without useful bounds, and a few quotients and remainders of them."""
    i, j, k = (UOp.range(r.choice((2, 3, 4, 8, 9, 16, 64, 100)), name) for name in "ijk")
    n = UOp.variable("n", -1000, 1000)
    d, e = r.choice(_DIVISORS), r.choice(_DIVISORS)
    return [i, j, k, n, i // d, (i + n) // d, n % e, (j * 3 + n) % e]


def forms(r: random.Random) -> Form:
    chosen = r.sample(atoms(r), r.choice((0, 1, 1, 1, 2, 2, 3)))
    divisor_like = r.choice(_DIVISORS)
    return {
        a: r.choice(_FACTORS) if r.random() < 0.5 else r.choice((1, divisor_like, -divisor_like))
        for a in chosen
    }, r.choice((0, 0, 0, 1, -1, 5, 8, -17, 64))


def _of_table(table: tuple[FormRule, ...], op: Ops) -> list[Any]:
    return [pytest.param(rule, op, id=rule.name) for rule in table]


@pytest.mark.parametrize(
    ("rule", "op"), [*_of_table(rules.DIV, Ops.FLOORDIV), *_of_table(rules.MOD, Ops.FLOORMOD)]
)
def test_division_rule(rule: FormRule, op: Ops) -> None:
    seed = 7
    print(f"seed {seed}")
    r, s, proved = random.Random(seed), Simplifier(), 0
    for _ in range(4000):
        (terms, const), d = forms(r), r.choice(_DIVISORS)
        result = rule.apply(s, (terms, const), d)
        if result is None:
            continue
        prove(UOp(op, dtypes.index, (from_linear(terms, const), UOp.const(d))), from_linear(*result))
        proved += 1
        if proved == 12:
            break
    assert proved >= 5, "the rule hardly ever applies to what was tried"


def test_quotients_and_remainders_join() -> None:
    r, s, joined = random.Random(3), Simplifier(), 0
    for _ in range(120):
        x, a, b, k = r.choice(atoms(r)), r.choice(_DIVISORS), r.choice(_DIVISORS), r.choice((1, 2, -3))
        sums = (
            x // a * (a * k) + x % a * k,
            ((x // a) % b) * (a * k) + x % a * k,
            x // (a * b) * (a * b) + ((x // a) % b) * a + x % a,
        )
        before = r.choice(sums)
        after = s(before)
        prove(before, after)
        joined += len(after.toposort()) < len(before.toposort())
    assert joined > 90


@pytest.mark.parametrize("op", [Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE])
def test_comparisons(op: Ops) -> None:
    r, s = random.Random(11), Simplifier()
    changed = 0
    for _ in range(120):
        x, y = forms(r), forms(r)
        before = UOp(op, dtypes.bool_, (from_linear(*x), from_linear(*y)))
        after = compare(s, op, x, y)
        prove(before, after)
        changed += after is not before
    assert changed > 60


def test_division_by_nodes() -> None:
    s = Simplifier()
    n = UOp.variable("n", 1, 1000)
    i, j = UOp.range(8, "i"), UOp.range(n, "j")
    assert s((i * n + j) // n) is i
    assert s((i * n + j) % n) is j
    # of a divisor that may be 0, nothing may be assumed
    m = UOp.variable("m", 0, 1000)
    assert s((i * m) // m) is not i
    assert s((i * m) % m) is s((i * m) % m)
    for x in (i * n + j * 2, i * n - 3, n * n):
        prove(x // n, s(x // n)) if x is not n * n else None
    assert s((n * n) // n) is n


def test_whole_expressions() -> None:
    """Random trees over leaves with wide bounds, before and after."""
    seed = 5
    print(f"seed {seed}")
    proved = 0
    simple = frozenset({Ops.CONST, Ops.RANGE, Ops.VARIABLE, Ops.ADD, Ops.SUB, Ops.NEG, Ops.FLOORDIV,
                        Ops.FLOORMOD, Ops.MAX, Ops.MIN, Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE, Ops.WHERE,
                        Ops.MUL})  # fmt: skip
    for k in range(1200):
        g = Generator(seed * 10_000 + k)
        g.leaves = [UOp.range(1000, "i"), UOp.range(7, "j"), UOp.variable("n", -100, 100)]
        before = g.index(3)
        linear = all(
            n.op in simple and (n.op not in (Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD) or n.src[1].op is Ops.CONST)
            for n in before.toposort()
        )
        if not linear:
            continue
        after = Simplifier()(before)
        if after is not before:
            prove(before, after)
            proved += 1
    assert proved > 50
