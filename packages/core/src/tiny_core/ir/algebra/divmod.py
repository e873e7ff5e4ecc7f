"""Floor division and remainder of linear forms by constants, and by nodes where that is easy.

Domain `index`: unbounded integers, x // 0 = 0, x % 0 = x. `floordiv` and `floormod` try the rules of their
table in order; where none applies the quotient is an atom. Both reduce their argument alike, so that x//d*d +
x%d finds itself again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

from tiny_core import dtypes
from tiny_core.ir.algebra.linear import Form, content, number, plus, scale
from tiny_core.ir.algebra.simplifier import Simplifier
from tiny_core.ir.interval import bounds
from tiny_core.ir.ops import Ops
from tiny_core.ir.rewrite import record, tracing
from tiny_core.ir.uop import UOp


@dataclass(frozen=True, slots=True)
class FormRule:
    """A rule about a form and a divisor >= 2: gives the result, or None where it does not apply."""

    name: str
    apply: Callable[[Simplifier, Form, int], Form | None]


def floordiv(s: Simplifier, f: Form, d: int) -> Form:
    """Return the form of f // d."""
    if d < 2:
        return f if d == 1 else ({}, 0) if d == 0 else floordiv(s, scale(f, -1), -d)
    for rule in DIV:
        result = rule.apply(s, f, d)
        if result is not None:
            return _traced(s, rule, Ops.FLOORDIV, f, d, result) if tracing() else result
    lo, hi = s.span(f)
    node = UOp(Ops.FLOORDIV, dtypes.index, (s.build(f), number(d)))
    return s.atom(node, (lo // d, hi // d))


def floormod(s: Simplifier, f: Form, d: int) -> Form:
    """Return the form of f % d."""
    if d < 2:
        return f if d == 0 else ({}, 0) if d == 1 else scale(floormod(s, scale(f, -1), -d), -1)
    for rule in MOD:
        result = rule.apply(s, f, d)
        if result is not None:
            return _traced(s, rule, Ops.FLOORMOD, f, d, result) if tracing() else result
    lo, hi = s.span(f)
    node = UOp(Ops.FLOORMOD, dtypes.index, (s.build(f), number(d)))
    return s.atom(node, (0, min(hi, d - 1) if lo >= 0 else d - 1))


def _traced(s: Simplifier, rule: FormRule, op: Ops, f: Form, d: int, result: Form) -> Form:
    before = UOp(op, dtypes.index, (s.build(f), number(d)))
    record(rule.name, "divmod.py", before, s.build(result))
    return result


# ---- both ----------------------------------------------------------------------------------------


def _split(f: Form, d: int) -> tuple[Form, Form] | None:
    """f = d*q + r, factors of r less than d in size and its constant in 0 … d-1; None where q would be 0."""
    terms, const = f
    for k in terms.values():
        if k >= d or -k >= d:
            break
    else:
        if 0 <= const < d:
            return None
    q, r = dict[UOp, int](), dict[UOp, int]()
    for atom, k in terms.items():
        times = k // d if k >= 0 else -(-k // d)
        if times:
            q[atom] = times
        if k != times * d:
            r[atom] = k - times * d
    return (q, const // d), (r, const % d)


def _near(f: Form, d: int) -> tuple[Form, Form] | None:
    """f = d*q + r with the factors of r as near to 0 as can be; None where q would be 0."""
    q, r = dict[UOp, int](), dict[UOp, int]()
    for atom, k in f[0].items():
        if 2 * k > d:
            q[atom], r[atom] = 1, k - d
        elif -2 * k > d:
            q[atom], r[atom] = -1, k + d
        else:
            r[atom] = k
    return ((q, 0), (r, f[1])) if q else None


def _blocks(s: Simplifier, f: Form, d: int) -> tuple[int, Form, Form] | None:
    """f = g*x + y with g > 1 dividing d and 0 <= y < g: (g, x, y)."""
    terms, const = f
    factors = {g for k in terms.values() if (g := gcd(k, d)) > 1}
    for g in sorted(factors, reverse=True):
        y = {a: k for a, k in terms.items() if k % g}
        lo, hi = s.span((y, const % g))
        shift = lo // g
        if shift == hi // g:
            x = {a: k // g for a, k in terms.items() if k % g == 0}
            return g, (x, const // g + shift), (y, const % g - shift * g)
    return None


def _complement(f: Form) -> Form | None:
    """~f = -f-1, where all factors of f are negative."""
    if any(k > 0 for k in f[0].values()):
        return None
    return {a: -k for a, k in f[0].items()}, -f[1] - 1


def _only(f: Form, op: Ops) -> tuple[UOp, int] | None:
    """(x, c) where f = op(x, c) + constant, c > 0."""
    if len(f[0]) != 1:
        return None
    ((atom, k),) = f[0].items()
    if k == 1 and atom.op is op and atom.src[1].op is Ops.CONST:
        c = int(atom.src[1].value)
        return (atom.src[0], c) if c > 0 else None
    return None


# ---- division ------------------------------------------------------------------------------------


def _div_const(s: Simplifier, f: Form, d: int) -> Form | None:
    return None if f[0] else ({}, f[1] // d)


def _div_interval(s: Simplifier, f: Form, d: int) -> Form | None:
    lo, hi = s.span(f)
    return ({}, lo // d) if lo // d == hi // d else None


def _div_split(s: Simplifier, f: Form, d: int) -> Form | None:
    parts = _split(f, d)
    return None if parts is None else plus(parts[0], floordiv(s, parts[1], d))


def _div_near(s: Simplifier, f: Form, d: int) -> Form | None:
    parts = _near(f, d)
    if parts is None:
        return None
    lo, hi = s.span(parts[1])
    return plus(parts[0], ({}, lo // d)) if lo // d == hi // d else None


def _div_gcd(s: Simplifier, f: Form, d: int) -> Form | None:
    g = gcd(content(f), d)
    if g == 1:
        return None
    return floordiv(s, ({a: k // g for a, k in f[0].items()}, f[1] // g), d // g)


def _div_negative(s: Simplifier, f: Form, d: int) -> Form | None:
    flipped = _complement(f)
    return None if flipped is None else plus(({}, -1), floordiv(s, flipped, d), -1)


def _div_blocks(s: Simplifier, f: Form, d: int) -> Form | None:
    parts = _blocks(s, f, d)
    return None if parts is None else floordiv(s, parts[1], d // parts[0])


def _div_div(s: Simplifier, f: Form, d: int) -> Form | None:
    inner = _only(f, Ops.FLOORDIV)
    if inner is None:
        return None
    x, a = inner
    return floordiv(s, plus(s.form(x), ({}, f[1] * a)), a * d)


def _div_mod(s: Simplifier, f: Form, d: int) -> Form | None:
    inner = _only(f, Ops.FLOORMOD)
    if inner is None or f[1] or inner[1] % d:
        return None
    x, m = inner
    return floormod(s, floordiv(s, s.form(x), d), m // d)


DIV: tuple[FormRule, ...] = (
    # A constant divides at once.
    FormRule("div of a constant", _div_const),
    # If the whole interval lies inside one quotient, that is the result.
    FormRule("div inside one quotient", _div_interval),
    # Multiples of the divisor leave: (d*x + y) // d = x + y//d.
    FormRule("div of multiples", _div_split),
    # k*x = d*x + (k-d)*x: with the nearer factor the interval may lie inside one quotient.
    FormRule("div by nearer factors", _div_near),
    # A common factor cancels: (g*x + c) // (g*d) = (x + c//g) // d.
    FormRule("div by a common factor", _div_gcd),
    # ~x // d = ~(x // d): reversed indices become indices.
    FormRule("div of a negative", _div_negative),
    # (g*x + y) // (g*d) = x // d for 0 <= y < g.
    FormRule("div of blocks", _div_blocks),
    # (x // a + c) // d = (x + a*c) // (a*d).
    FormRule("div of div", _div_div),
    # (x % (d*m)) // d = (x // d) % m: one order of the two, so that sums find their partners.
    FormRule("div of mod", _div_mod),
)


# ---- remainder -----------------------------------------------------------------------------------


def _mod_const(s: Simplifier, f: Form, d: int) -> Form | None:
    return None if f[0] else ({}, f[1] % d)


def _mod_interval(s: Simplifier, f: Form, d: int) -> Form | None:
    lo, hi = s.span(f)
    return (f[0], f[1] - lo // d * d) if lo // d == hi // d else None


def _mod_split(s: Simplifier, f: Form, d: int) -> Form | None:
    parts = _split(f, d)
    return None if parts is None else floormod(s, parts[1], d)


def _mod_near(s: Simplifier, f: Form, d: int) -> Form | None:
    parts = _near(f, d)
    if parts is None:
        return None
    r = parts[1]
    lo, hi = s.span(r)
    return (r[0], r[1] - lo // d * d) if lo // d == hi // d else None


def _mod_mod(s: Simplifier, f: Form, d: int) -> Form | None:
    for atom, k in f[0].items():
        if atom.op is Ops.FLOORMOD and atom.src[1].op is Ops.CONST and k * int(atom.src[1].value) % d == 0:
            return floormod(s, plus(plus(f, ({atom: 1}, 0), -k), s.form(atom.src[0]), k), d)
    return None


def _mod_gcd(s: Simplifier, f: Form, d: int) -> Form | None:
    g = gcd(content(f), d)
    if g == 1:
        return None
    inner = floormod(s, ({a: k // g for a, k in f[0].items()}, f[1] // g), d // g)
    return plus(({}, f[1] % g), inner, g)


def _mod_negative(s: Simplifier, f: Form, d: int) -> Form | None:
    flipped = _complement(f)
    return None if flipped is None else plus(({}, d - 1), floormod(s, flipped, d), -1)


def _mod_blocks(s: Simplifier, f: Form, d: int) -> Form | None:
    parts = _blocks(s, f, d)
    if parts is None:
        return None
    g, x, y = parts
    return plus(y, floormod(s, x, d // g), g)


MOD: tuple[FormRule, ...] = (
    # A constant divides at once.
    FormRule("mod of a constant", _mod_const),
    # If the whole interval lies inside one quotient, subtract its multiple.
    FormRule("mod inside one quotient", _mod_interval),
    # Multiples of the divisor vanish: (d*x + y) % d = y % d.
    FormRule("mod of multiples", _mod_split),
    # k*x and (k-d)*x leave one remainder: with the nearer factor the interval may lie inside one quotient.
    FormRule("mod by nearer factors", _mod_near),
    # (k * (x % m) + y) % d = (k*x + y) % d where d divides k*m.
    FormRule("mod of mod", _mod_mod),
    # A common factor leaves: (g*x + c) % (g*d) = g * ((x + c//g) % d) + c%g.
    FormRule("mod by a common factor", _mod_gcd),
    # ~x % d = d-1 - x%d: reversed indices become indices.
    FormRule("mod of a negative", _mod_negative),
    # (g*x + y) % (g*d) = g * (x % d) + y for 0 <= y < g.
    FormRule("mod of blocks", _mod_blocks),
)


# ---- sums of quotients and remainders ------------------------------------------------------------


def recombine(s: Simplifier, f: Form) -> Form:
    """Join quotients and remainders that belong together: x//d*d + x%d = x, and
    ((x//a) % b)*a + x%a = x % (a*b)."""
    again = len(f[0]) > 1
    while again:
        again = False
        for atom, k in f[0].items():
            if atom.op is Ops.FLOORMOD and atom.src[1].op is Ops.CONST:
                joined = _join(s, f, atom, k)
                if joined is not None:
                    f, again = joined, len(joined[0]) > 1
                    break
    return f


def _join(s: Simplifier, f: Form, atom: UOp, k: int) -> Form | None:
    terms, d = f[0], int(atom.src[1].value)
    if not any(k * d == other for other in terms.values()):
        return None
    x = s.form(atom.src[0])
    quotient = floordiv(s, x, d)
    if not quotient[0]:
        return None
    whole = scale(quotient, k * d)
    if all(terms.get(a) == c for a, c in whole[0].items()):
        return plus(plus(plus(f, ({atom: 1}, 0), -k), x, k), whole, -1)
    for other, c in terms.items():
        if c == k * d and other.op is Ops.FLOORMOD and other.src[1].op is Ops.CONST:
            m = int(other.src[1].value)
            if floormod(s, quotient, m) == ({other: 1}, 0):
                rest = plus(plus(f, ({atom: 1}, 0), -k), ({other: 1}, 0), -c)
                return plus(rest, floormod(s, x, d * m), k)
    return None


# ---- divisors that are nodes ---------------------------------------------------------------------


def floordiv_by(s: Simplifier, f: Form, g: Form) -> Form:
    """Return the form of f // g."""
    if not g[0]:
        return floordiv(s, f, g[1])
    if f == ({}, 0):
        return f
    divisor = s.build(g)
    q, r = _split_by(s, f, g, divisor)
    if _below(s, r, g, divisor):
        return q
    rest = s.atom(UOp(Ops.FLOORDIV, dtypes.index, (s.build(r), divisor))) if r != ({}, 0) else r
    return plus(q, rest)


def floormod_by(s: Simplifier, f: Form, g: Form) -> Form:
    """Return the form of f % g."""
    if not g[0]:
        return floormod(s, f, g[1])
    divisor = s.build(g)
    r = _split_by(s, f, g, divisor)[1]
    if r == ({}, 0) or _below(s, r, g, divisor):
        return r
    return s.atom(UOp(Ops.FLOORMOD, dtypes.index, (s.build(r), divisor)))


def _split_by(s: Simplifier, f: Form, g: Form, divisor: UOp) -> tuple[Form, Form]:
    """f = g*q + r by the terms that have the divisor as a factor; needs it to be one atom, and not 0."""
    lo, hi = s.span(g)
    if lo <= 0 <= hi or g != ({divisor: 1}, 0):
        return ({}, 0), f
    q, r = dict[UOp, int](), dict[UOp, int]()
    constant = 0
    for atom, k in f[0].items():
        if atom is divisor:
            constant += k
        elif atom.op is Ops.MUL and divisor in (factors := product_factors(atom)):
            factors.remove(divisor)
            q[product_of(factors)] = k
        else:
            r[atom] = k
    return (q, constant), (r, f[1])


def _below(s: Simplifier, r: Form, g: Form, divisor: UOp) -> bool:
    """Whether 0 <= r < g is known."""
    lo, hi = s.span(r)
    if lo < 0:
        return False
    if hi < s.span(g)[0]:
        return True
    if len(r[0]) != 1:
        return False
    ((atom, k),) = r[0].items()
    return k == 1 and r[1] == 0 and atom.op is Ops.RANGE and atom.src[0] is divisor and bounds(divisor)[0] > 0


def product_factors(node: UOp) -> list[UOp]:
    """Return the factors of a product of atoms."""
    factors = list[UOp]()
    while node.op is Ops.MUL:
        factors.append(node.src[1])
        node = node.src[0]
    return [node, *reversed(factors)]


def product_of(factors: list[UOp]) -> UOp:
    """Return the product of atoms, in the order given."""
    node = factors[0]
    for other in factors[1:]:
        node = UOp(Ops.MUL, dtypes.index, (node, other))
    return node
