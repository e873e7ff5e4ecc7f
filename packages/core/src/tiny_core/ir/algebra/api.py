"""`simplify` and `simplify_given`: the algebra's two entry points.

In: any graph. Out: an equal graph in normal form. `simplify_given` may also use that a gate holds, and its
result is equal only where it does.
"""

from __future__ import annotations

from collections import OrderedDict

from tiny_core import dtypes
from tiny_core.ir.algebra.compare import parts_of, scaled_difference
from tiny_core.ir.algebra.linear import content
from tiny_core.ir.algebra.simplifier import Fact, Simplifier
from tiny_core.ir.interval import bounds
from tiny_core.ir.ops import Ops
from tiny_core.ir.rewrite import tracing
from tiny_core.ir.uop import UOp

_SIMPLIFIER = Simplifier()
_GIVEN: OrderedDict[UOp, Simplifier | None] = OrderedDict()
_MOST_GATES = 256


def simplify(node: UOp) -> UOp:
    """Return an equal node in normal form.

    >>> i, j = UOp.range(64, "i"), UOp.range(9, "j")
    >>> simplify((i * 9 + j) // 9) is i, simplify((i * 9 + j) % 9) is j
    (True, True)
    """
    # a trace shows every step, so then nothing is remembered
    return Simplifier()(node) if tracing() else _SIMPLIFIER(node)


def simplify_given(node: UOp, gate: UOp) -> UOp:
    """Return a node that equals `node` wherever the scalar bool `gate` holds; of an AND of comparisons over
    indices, each tightens the interval of what it compares.

    >>> i = UOp.range(64, "i")
    >>> simplify_given(i // 8, i < 8).value
    0
    """
    gate = simplify(gate)
    if gate.op is Ops.CONST:
        return simplify(node)
    if gate not in _GIVEN:
        _GIVEN[gate] = _given(gate)
        if len(_GIVEN) > _MOST_GATES:
            _GIVEN.popitem(last=False)
    simplifier = _GIVEN[gate]
    return simplify(node) if simplifier is None else simplify(simplifier(simplify(node)))


def _given(gate: UOp) -> Simplifier | None:
    """A Simplifier that knows the conjuncts of `gate`; None where they exclude each other."""
    s = Simplifier()
    conjuncts = parts_of(Ops.AND, gate)
    s.true = frozenset(conjuncts)
    for part in conjuncts:
        if part.src and part.src[0].dtype is dtypes.index and part.op in (Ops.CMPLT, Ops.CMPEQ):
            terms, const = scaled_difference(s, part)
            g = content((terms, const)) or 1
            most = (-const - (part.op is Ops.CMPLT)) // g
            least = None if part.op is Ops.CMPLT else -(const // g)
            s.facts.append(({a: k // g for a, k in terms.items()}, least, most))
    for _ in range(2):  # one limit may tighten what another one says
        for fact in s.facts:
            if not _propagate(s, fact):
                return None
    s.facts = [fact for fact in s.facts if len(fact[0]) > 1]
    return s


def _propagate(s: Simplifier, fact: Fact) -> bool:
    """Tighten the interval of each atom of a fact by those of the others; False where nothing is left."""
    terms, least, most = fact
    for atom in terms:
        s.spans.setdefault(atom, bounds(atom))
    for atom, k in terms.items():
        lo = hi = 0
        for other, c in terms.items():
            if other is not atom:
                a, b = s.spans[other]
                lo, hi = (lo + c * a, hi + c * b) if c > 0 else (lo + c * b, hi + c * a)
        a, b = s.spans[atom]
        if most is not None:  # k * atom <= most - lo
            a, b = (a, min(b, (most - lo) // k)) if k > 0 else (max(a, -((most - lo) // -k)), b)
        if least is not None:  # k * atom >= least - hi
            a, b = (max(a, -((hi - least) // k)), b) if k > 0 else (a, min(b, (hi - least) // -k))
        if a > b:
            return False
        s.spans[atom] = a, b
    return True
