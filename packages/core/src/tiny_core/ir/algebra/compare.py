"""Comparisons of linear forms, and the bools made of them.

Domain `index`. A comparison is brought to one of `x < c`, `c < x`, `x < y`, `x == c`, `x == y` (and !=) with
the common factor and all that cannot matter removed. `fold_bool` is for AND, OR, NOT, XOR, WHERE, == and !=
of scalar bools, which need no domain.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.ir.algebra.linear import Form, content, number, order_key, plus, scale
from tiny_core.ir.algebra.simplifier import Simplifier
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp

_BOOL = dtypes.bool_


def compare(s: Simplifier, op: Ops, f: Form, g: Form) -> UOp:
    """Return the bool node of a comparison of two forms."""
    difference = plus(f, g, -1)
    if op is Ops.CMPLT:
        return below(s, difference)
    if op is Ops.CMPLE:
        return below(s, plus(difference, ({}, -1)))
    return equal(s, difference, op)


def below(s: Simplifier, f: Form) -> UOp:
    """Return the bool node of f < 0."""
    while True:
        lo, hi = s.span(f)
        if hi < 0 or lo >= 0:
            return s.truth(hi < 0)
        g = content(f)
        terms = f[0] if g == 1 else {a: k // g for a, k in f[0].items()}
        limit = -(f[1] // g)  # g*x + c < 0 where x < ceil(-c/g)
        simpler = _without_small(s, terms, limit) or _without_div(s, terms, limit)
        if simpler is None:
            break
        f = simpler
    known = _ordered(s, terms, limit)
    return s.truth(True) if known in s.true else s.settle(known)


def _without_small(s: Simplifier, terms: dict[UOp, int], limit: int) -> Form | None:
    """g*x + y < c is x < ceil((c-y)/g) where that is one number for all y."""
    if len(terms) < 2:
        return None
    for g in sorted({abs(k) for k in terms.values()}, reverse=True):
        if g == 1:
            break
        y = {a: k for a, k in terms.items() if k % g}
        lo, hi = s.span((y, 0))
        most = -((hi - limit) // g)
        if y and most == -((lo - limit) // g):
            return {a: k // g for a, k in terms.items() if k % g == 0}, -most
    return None


def _without_div(s: Simplifier, terms: dict[UOp, int], limit: int) -> Form | None:
    """x//d < c is x < c*d, and c < x//d likewise."""
    if len(terms) != 1:
        return None
    ((atom, k),) = terms.items()
    if atom.op is not Ops.FLOORDIV or atom.src[1].op is not Ops.CONST or abs(k) != 1:
        return None
    d = int(atom.src[1].value)
    if d <= 0:
        return None
    x = s.form(atom.src[0])
    return plus(x, ({}, -limit * d)) if k == 1 else plus(({}, (1 - limit) * d - 1), x, -1)


def _ordered(s: Simplifier, terms: dict[UOp, int], limit: int) -> UOp:
    """Terms with positive factors on the left, the others on the right, the constant where there is room."""
    left = {a: k for a, k in terms.items() if k > 0}
    right = {a: -k for a, k in terms.items() if k < 0}
    if not left:
        return UOp(Ops.CMPLT, _BOOL, (number(-limit), s.build((right, 0))))
    return UOp(Ops.CMPLT, _BOOL, (s.build((left, 0)), s.build((right, limit))))


def equal(s: Simplifier, f: Form, op: Ops) -> UOp:
    """Return the bool node of f == 0 (op CMPEQ) or f != 0 (CMPNE)."""
    yes = op is Ops.CMPEQ
    lo, hi = s.span(f)
    if lo > 0 or hi < 0:
        return s.truth(not yes)
    if lo == hi == 0:
        return s.truth(yes)
    g = content(f)
    if f[1] % g:
        return s.truth(not yes)
    terms, c = {a: k // g for a, k in f[0].items()}, f[1] // g
    if _no_solution(s, terms, c):
        return s.truth(not yes)
    if order_key_first(terms) < 0:
        terms, c = {a: -k for a, k in terms.items()}, -c
    left = {a: k for a, k in terms.items() if k > 0}
    right = {a: -k for a, k in terms.items() if k < 0}
    node = UOp(op, _BOOL, (s.build((left, 0)), s.build((right, -c))))
    if s.true:
        if node in s.true:
            return s.truth(True)
        other = UOp(Ops.CMPNE if yes else Ops.CMPEQ, _BOOL, node.src)
        if other in s.true:
            return s.truth(False)
    return s.settle(node)


def order_key_first(terms: dict[UOp, int]) -> int:
    """Return the factor of the leading term."""
    return min(terms.items(), key=lambda item: (-abs(item[1]), order_key(item[0])))[1]


def _no_solution(s: Simplifier, terms: dict[UOp, int], c: int) -> bool:
    """Whether g*x + y + c = 0 has no x for any y."""
    for g in {abs(k) for k in terms.values()}:
        y = {a: k for a, k in terms.items() if k % g}
        lo, hi = s.span((y, c))
        if g > 1 and -(-lo // g) * g > hi:  # no multiple of g lies in lo … hi
            return True
    return False


# ---- bools ---------------------------------------------------------------------------------------


def negate(s: Simplifier, x: UOp) -> UOp:
    """Return the normal form of NOT x, for a scalar bool in normal form."""
    if x.op is Ops.NOT:
        return x.src[0]
    if x.op is Ops.CONST:
        return s.truth(not x.value)
    if x.op is Ops.CMPEQ or x.op is Ops.CMPNE:  # exact for floats too: NaN == y is false and NaN != y is true
        op = Ops.CMPNE if x.op is Ops.CMPEQ else Ops.CMPEQ
        return s.settle(UOp(op, _BOOL, x.src))
    if x.op in (Ops.CMPLT, Ops.CMPLE) and not x.src[0].dtype.is_float and x.src[0].dtype is not _BOOL:
        if x.src[0].dtype is dtypes.index:  # not x < y is y < x+1; CMPLE does not occur in normal forms
            return below(s, plus(plus(s.form(x.src[1]), s.form(x.src[0]), -1), ({}, -1)))
        op = Ops.CMPLE if x.op is Ops.CMPLT else Ops.CMPLT
        return s.settle(UOp(op, _BOOL, (x.src[1], x.src[0])))
    return s.settle(UOp(Ops.NOT, _BOOL, (x,)))


def parts_of(op: Ops, node: UOp) -> list[UOp]:
    """Return the operands of a chain of ANDs or ORs, in order."""
    parts, stack = list[UOp](), [node]
    while stack:
        n = stack.pop()
        if n.op is op and n.dtype is _BOOL:
            stack += (n.src[1], n.src[0])
        else:
            parts.append(n)
    return parts


def join(s: Simplifier, op: Ops, operands: tuple[UOp, ...]) -> UOp:
    """Return the AND or OR of scalar bools in normal form: no constant, no operand twice or beside its
    negation, of two bounds on one index only the one that decides; sorted."""
    absorbing = op is Ops.OR
    kept: dict[UOp, None] = {}
    for operand in operands:
        for part in parts_of(op, operand):
            if part.op is not Ops.CONST:
                kept[part] = None
            elif bool(part.value) is absorbing:
                return s.truth(absorbing)
    _drop_implied(kept, op)
    for part in kept:
        if negate(s, part) in kept:
            return s.truth(absorbing)
    if _contradiction(s, kept, op):
        return s.truth(absorbing)
    order = sorted(kept, key=order_key)
    if not order:
        return s.truth(not absorbing)
    node = order[0]
    for part in order[1:]:
        node = UOp(op, _BOOL, (node, part))
    return s.settle(node)


def _limits(part: UOp) -> tuple[UOp, bool, int] | None:
    """(x, whether the limit is an upper one, limit) of x < c and c < x over indices."""
    if part.op is Ops.CMPLT and part.src[0].dtype is dtypes.index:
        x, y = part.src
        if y.op is Ops.CONST:
            return x, True, int(y.value)
        if x.op is Ops.CONST:
            return y, False, int(x.value)
    return None


def _drop_implied(kept: dict[UOp, None], op: Ops) -> None:
    best: dict[tuple[UOp, bool], tuple[int, UOp]] = {}
    for part in list(kept):
        found = _limits(part)
        if found is None:
            continue
        x, upper, limit = found
        other = best.get((x, upper))
        # an AND keeps the narrower bound, an OR the wider one
        if other is not None and (limit < other[0]) is not (upper is (op is Ops.AND)):
            del kept[part]
            continue
        if other is not None:
            del kept[other[1]]
        best[x, upper] = limit, part


def _contradiction(s: Simplifier, kept: dict[UOp, None], op: Ops) -> bool:
    """Whether two limits leave nothing (AND) or everything (OR)."""
    uppers: dict[UOp, int] = {}
    lowers: dict[UOp, int] = {}
    for part in kept:
        found = _limits(part)
        if found is not None:
            (uppers if found[1] else lowers)[found[0]] = found[2]
    if op is Ops.AND:
        return any(x in lowers and lowers[x] + 1 >= limit for x, limit in uppers.items())
    return any(x in lowers and lowers[x] < limit for x, limit in uppers.items())


def fold_bool(s: Simplifier, n: UOp) -> UOp | None:
    """Return the normal form of an op on scalar bools in normal form, or None where no rule applies."""
    op, src = n.op, n.src
    if op in (Ops.AND, Ops.OR):
        return join(s, op, src)
    if op in (Ops.MUL, Ops.ADD):  # AND and OR of bools
        return join(s, Ops.AND if op is Ops.MUL else Ops.OR, src)
    if op is Ops.NOT:
        return negate(s, src[0])
    if op is Ops.WHERE:
        return _where(s, *src)
    if op in (Ops.XOR, Ops.CMPEQ, Ops.CMPNE):
        x, y = src
        same = op is Ops.CMPEQ
        if x is y:
            return s.truth(same)
        if y.op is not Ops.CONST:
            x, y = y, x
        if y.op is Ops.CONST:
            return x if bool(y.value) is same else negate(s, x)
        return s.settle(n) if op is not Ops.XOR else UOp(Ops.CMPNE, _BOOL, src)
    return None


def _where(s: Simplifier, c: UOp, x: UOp, y: UOp) -> UOp:
    if c.op is Ops.CONST:
        return x if c.value else y
    if c.op is Ops.NOT:
        c, x, y = c.src[0], y, x
    if x is y:
        return x
    if x.op is Ops.CONST:  # where(c, True, y) = c or y; where(c, False, y) = not c and y
        return join(s, Ops.OR, (c, y)) if x.value else join(s, Ops.AND, (negate(s, c), y))
    if y.op is Ops.CONST:
        return join(s, Ops.OR, (negate(s, c), x)) if y.value else join(s, Ops.AND, (c, x))
    if c in (x, y):
        return join(s, Ops.OR if c is x else Ops.AND, (x, y))
    return s.settle(UOp(Ops.WHERE, _BOOL, (c, x, y)))


def scaled_difference(s: Simplifier, part: UOp) -> Form:
    """Return the form of x - y of a comparison."""
    return plus(s.form(part.src[0]), scale(s.form(part.src[1]), -1))
