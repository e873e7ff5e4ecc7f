"""Index algebra: from each op on weak integers to its linear form.

Domain `index`: unbounded integers, no wrap-around, under the total semantics of `ops.py`. The table has a row
per op; rules about division are in `divmod.py`, comparisons in `compare.py`. `linear_form` and `from_linear`
are for passes that look for strides.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.algebra.divmod import floordiv_by, floormod_by, product_factors, product_of, recombine
from tiny_core.ir.algebra.linear import Form, content, from_linear, linear_form, order_key, plus, scale
from tiny_core.ir.algebra.simplifier import IndexRule, Simplifier
from tiny_core.ir.arith import evaluate
from tiny_core.ir.interval import bounds
from tiny_core.ir.ops import ELEMENTWISE, Ops
from tiny_core.ir.uop import UOp

__all__ = ["INDEX", "from_linear", "linear_form"]

_MOST_TERMS = 8  # a product of sums is multiplied out up to this many terms
_WIDEST_SHIFT = 1 << 10


def _const(s: Simplifier, n: UOp) -> Form:
    return {}, n.payload(p.Const).bits


def _add(s: Simplifier, n: UOp) -> Form:
    f = plus(s.forms[n.src[0]], s.forms[n.src[1]])
    for atom in f[0]:
        if atom.op is Ops.FLOORMOD:
            return recombine(s, f)
    return f


def _sub(s: Simplifier, n: UOp) -> Form:
    return recombine(s, plus(s.forms[n.src[0]], s.forms[n.src[1]], -1))


def _neg(s: Simplifier, n: UOp) -> Form:
    return scale(s.forms[n.src[0]], -1)


def _not(s: Simplifier, n: UOp) -> Form:
    return plus(({}, -1), s.forms[n.src[0]], -1)


def _mul(s: Simplifier, n: UOp) -> Form:
    return _product(s, s.forms[n.src[0]], s.forms[n.src[1]])


def _mulacc(s: Simplifier, n: UOp) -> Form:
    x, y, z = (s.forms[t] for t in n.src)
    return recombine(s, plus(_product(s, x, y), z))


def _product(s: Simplifier, f: Form, g: Form) -> Form:
    if not g[0]:
        return scale(f, g[1])
    if not f[0]:
        return scale(g, f[1])
    if (len(f[0]) + (f[1] != 0)) * (len(g[0]) + (g[1] != 0)) > _MOST_TERMS:
        common = content((f[0], 0)) or 1
        k = common if f[1] % common == 0 else 1
        f = {a: c // k for a, c in f[0].items()}, f[1] // k
        return scale(_times(s, s.build(f), s.build(g)), k)
    total = plus(scale(f, g[1]), ({a: f[1] * c for a, c in g[0].items()} if f[1] else {}, 0))
    for a, c in f[0].items():
        for b, d in g[0].items():
            total = plus(total, _times(s, a, b), c * d)
    return total


def _times(s: Simplifier, a: UOp, b: UOp) -> Form:
    """The product of two atoms: factors in order, so that equal products are one atom."""
    factors = sorted(product_factors(a) + product_factors(b), key=order_key)
    return s.atom(product_of(factors))


def _floordiv(s: Simplifier, n: UOp) -> Form:
    return floordiv_by(s, s.forms[n.src[0]], s.forms[n.src[1]])


def _floormod(s: Simplifier, n: UOp) -> Form:
    return floormod_by(s, s.forms[n.src[0]], s.forms[n.src[1]])


def _truncating(s: Simplifier, n: UOp) -> Form:
    """Division toward zero is floor division where the signs are known."""
    f, g = s.forms[n.src[0]], s.forms[n.src[1]]
    (a, b), (c, d) = s.span(f), s.span(g)
    rule = floordiv_by if n.op is Ops.IDIV else floormod_by
    if a >= 0 and c >= 0:
        return rule(s, f, g)
    sign = 1 if n.op is Ops.IDIV else -1  # -x // y = -(x // y) and -x % y = -(x % y), toward zero
    if b <= 0 and c >= 0:
        return scale(rule(s, scale(f, -1), g), -1)
    if a >= 0 and d <= 0:
        return scale(rule(s, f, scale(g, -1)), -sign)
    return _folded(s, n)


def _shl(s: Simplifier, n: UOp) -> Form:
    f, g = s.forms[n.src[0]], s.forms[n.src[1]]
    return scale(f, 1 << g[1]) if not g[0] and 0 <= g[1] < _WIDEST_SHIFT else _opaque(s, n)


def _shr(s: Simplifier, n: UOp) -> Form:
    f, g = s.forms[n.src[0]], s.forms[n.src[1]]
    if g[0] or not 0 <= g[1] < _WIDEST_SHIFT:
        return _opaque(s, n)
    return floordiv_by(s, f, ({}, 1 << g[1]))


def _and(s: Simplifier, n: UOp) -> Form:
    f, g = s.forms[n.src[0]], s.forms[n.src[1]]
    for x, mask in ((f, g), (g, f)):
        if not mask[0] and mask[1] >= 0 and mask[1] & (mask[1] + 1) == 0:
            return floormod_by(s, x, ({}, mask[1] + 1))
    return f if f == g else _folded(s, n)


def _or(s: Simplifier, n: UOp) -> Form:
    f, g = s.forms[n.src[0]], s.forms[n.src[1]]
    if g in (f, ({}, 0)):
        return f
    return g if f == ({}, 0) else _folded(s, n)


def _xor(s: Simplifier, n: UOp) -> Form:
    f, g = s.forms[n.src[0]], s.forms[n.src[1]]
    if f == g:
        return {}, 0
    return f if g == ({}, 0) else g if f == ({}, 0) else _folded(s, n)


def _extreme(s: Simplifier, n: UOp) -> Form:
    """MAX and MIN: the sign of the difference decides; constants gather on the right."""
    f, g = s.forms[n.src[0]], s.forms[n.src[1]]
    lo, hi = s.span(plus(f, g, -1))
    if lo >= 0 or hi <= 0:
        return f if (lo >= 0) == (n.op is Ops.MAX) else g
    a, b = s.build(f), s.build(g)
    if (a.op is Ops.CONST, *order_key(a)) > (b.op is Ops.CONST, *order_key(b)):
        a, b = b, a
    if a.op is n.op and a.src[1].op is Ops.CONST:
        if b.op is Ops.CONST:  # max(max(x, c), d) = max(x, max(c, d))
            pick = max if n.op is Ops.MAX else min
            limit: Form = ({}, pick(int(a.src[1].value), int(b.value)))
            a, b = a.src[0], s.build(limit)
        elif b is a.src[0]:
            return s.form(a)
    if b is a:
        return s.form(a)
    spans = s.span(s.form(a)), s.span(s.form(b))
    pick = max if n.op is Ops.MAX else min
    span = pick(spans[0][0], spans[1][0]), pick(spans[0][1], spans[1][1])
    return s.atom(UOp(n.op, dtypes.index, (a, b)), span)


def _where(s: Simplifier, n: UOp) -> Form:
    """A known condition, equal branches, a negated condition, a branch that asks the same again."""
    c = s.value(n.src[0])
    f, g = s.forms[n.src[1]], s.forms[n.src[2]]
    if c.op is Ops.NOT:
        c, f, g = c.src[0], g, f
    if c.op is Ops.CONST:
        return f if c.value else g
    f, g = _branch(s, c, f, 1), _branch(s, c, g, 2)
    if f == g:
        return f
    (a, b), (d, e) = s.span(f), s.span(g)
    node = UOp(Ops.WHERE, dtypes.index, (c, s.build(f), s.build(g)))
    return s.atom(node, (min(a, d), max(b, e)))


def _branch(s: Simplifier, c: UOp, f: Form, side: int) -> Form:
    if f[1] == 0 and len(f[0]) == 1:
        ((atom, k),) = f[0].items()
        if k == 1 and atom.op is Ops.WHERE and atom.src[0] is c:
            return s.form(atom.src[side])
    return f


def _cast(s: Simplifier, n: UOp) -> Form:
    """An integer that fits its dtype survives the way there and back."""
    x = s.value(n.src[0])
    if x.op is Ops.CONST:
        return {}, int(evaluate(Ops.CAST, dtypes.index, (x.value,), x.dtype))
    if x.op is Ops.CAST and x.src[0].dtype is dtypes.index and x.dtype.is_int:
        lo, hi = s.span(s.form(x.src[0]))
        if x.dtype.min <= lo and hi <= x.dtype.max:
            return s.form(x.src[0])
    return s.atom(UOp(Ops.CAST, dtypes.index, (x,)))


def _range(s: Simplifier, n: UOp) -> Form:
    """A loop of one iteration is at 0."""
    size = n.src[0]
    if size.op is Ops.CONST and size.dtype is dtypes.index:
        return s.atom(n, (0, max(size.payload(p.Const).bits - 1, 0)))
    hi = max(s.span(s.forms[n.src[0]])[1] - 1, 0) if n.src[0] in s.forms else bounds(n)[1]
    return s.atom(s.rebuild(n), (0, hi))


def _folded(s: Simplifier, n: UOp) -> Form:
    """The value, where all operands are constants."""
    forms = [s.forms[t] for t in n.src]
    if n.op in ELEMENTWISE and not any(f[0] for f in forms):
        return {}, int(evaluate(n.op, dtypes.index, tuple(f[1] for f in forms)))
    return _opaque(s, n)


def _opaque(s: Simplifier, n: UOp) -> Form:
    return s.atom(s.rebuild(n))


INDEX: dict[Ops, IndexRule] = {
    Ops.CONST: _const,  # itself
    Ops.RANGE: _range,  # an atom, 0 where it runs once
    Ops.SPECIAL: _range,  # likewise
    Ops.ADD: _add,  # factors add up; quotients and remainders of one division join
    Ops.SUB: _sub,  # x - x = 0 falls out
    Ops.NEG: _neg,
    Ops.NOT: _not,  # ~x = -x - 1
    Ops.MUL: _mul,  # constants scale; small sums are multiplied out; products of atoms are sorted
    Ops.MULACC: _mulacc,
    Ops.FLOORDIV: _floordiv,
    Ops.FLOORMOD: _floormod,
    Ops.IDIV: _truncating,
    Ops.IMOD: _truncating,
    Ops.SHL: _shl,  # x << c = x * 2^c
    Ops.SHR: _shr,  # x >> c = x // 2^c
    Ops.AND: _and,  # x & (2^c - 1) = x % 2^c; x & x = x
    Ops.OR: _or,  # x | x = x | 0 = x
    Ops.XOR: _xor,  # x ^ x = 0; x ^ 0 = x
    Ops.MAX: _extreme,
    Ops.MIN: _extreme,
    Ops.WHERE: _where,
    Ops.CAST: _cast,
}
"""Ops that are not here are atoms over simplified sources."""
