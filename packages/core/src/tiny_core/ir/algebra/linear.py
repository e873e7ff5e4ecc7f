"""Linear forms: an index as a sum of atoms times integers, plus a constant.

In: index nodes. Out: `Form`s, and nodes built from them. Guaranteed: `from_linear` gives one node for one
form, with terms in an order that depends on structure alone (largest factor first, so that outer loops lead),
and that order is the same in every process.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from math import gcd

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp, toposort

Form = tuple[dict[UOp, int], int]
"""Factors of atoms (none is 0), and a constant. Forms share their dicts, so nobody changes one after making
it."""

Key = tuple[int, str, int]
_KEYS: dict[UOp, Key] = {}
_LIMIT = 1 << 15


@lru_cache(maxsize=4096)
def number(value: int, dtype: DType = dtypes.index) -> UOp:
    """Return an integer constant."""
    return UOp.const(value, dtype)


def from_linear(terms: dict[UOp, int], const: int = 0, dtype: DType = dtypes.index) -> UOp:
    """Return the canonical node of a linear form: terms by falling factor, then by structure; the constant
    last.

    Args:
        terms: atoms (all of one integer dtype) and their factors, none of them 0.
        const: what is added to them.
        dtype: of the result where there are no terms.
    """
    if not terms:
        return number(const, dtype)
    order = list(terms.items())
    if len(order) > 1:
        order.sort(key=_by_factor)
    total: UOp | None = None
    dtype = order[0][0].dtype
    for atom, factor in order:
        term = atom if factor == 1 else UOp(Ops.MUL, dtype, (atom, number(factor, dtype)))
        total = term if total is None else UOp(Ops.ADD, dtype, (total, term))
    assert total is not None
    return UOp(Ops.ADD, dtype, (total, number(const, dtype))) if const else total


def linear_form(node: UOp) -> Form:
    """Split an integer node into atoms with factors and a constant; atoms are nodes that are no sum,
    difference, negation or product with a constant.

    >>> i, j = UOp.range(64, "i"), UOp.range(9, "j")
    >>> terms, const = linear_form((i + 1) * 9 - j)
    >>> terms == {i: 9, j: -1}, const
    (True, 9)
    """
    terms: dict[UOp, int] = {}
    const = 0
    stack = [(node, 1)]
    while stack:
        n, k = stack.pop()
        op = n.op
        if op is Ops.CONST:
            const += k * int(n.value)
        elif op is Ops.ADD:
            stack += ((n.src[1], k), (n.src[0], k))
        elif op is Ops.SUB:
            stack += ((n.src[1], -k), (n.src[0], k))
        elif op is Ops.NEG:
            stack.append((n.src[0], -k))
        elif op is Ops.MUL and n.src[1].op is Ops.CONST:
            stack.append((n.src[0], k * int(n.src[1].value)))
        elif op is Ops.MUL and n.src[0].op is Ops.CONST:
            stack.append((n.src[1], k * int(n.src[0].value)))
        else:
            terms[n] = terms.get(n, 0) + k
    return {a: k for a, k in terms.items() if k}, const


# ---- arithmetic of forms -------------------------------------------------------------------------


def plus(f: Form, g: Form, k: int = 1) -> Form:
    """Return f + k*g."""
    more = g[0]
    if not more:
        return (f[0], f[1] + k * g[1])
    if not f[0]:
        return (more if k == 1 else {a: k * c for a, c in more.items()}, f[1] + k * g[1]) if k else f
    terms = dict(f[0])
    for atom, factor in more.items():
        total = terms.get(atom, 0) + k * factor
        if total:
            terms[atom] = total
        else:
            terms.pop(atom, None)
    return terms, f[1] + k * g[1]


def scale(f: Form, k: int) -> Form:
    """Return k*f."""
    if k == 1:
        return f
    return ({a: k * c for a, c in f[0].items()}, k * f[1]) if k else ({}, 0)


def content(f: Form) -> int:
    """Return the greatest common divisor of the factors (0 if there are none)."""
    return gcd(*f[0].values())


# ---- order ---------------------------------------------------------------------------------------


def _by_factor(item: tuple[UOp, int]) -> tuple[int, Key]:
    return -abs(item[1]), order_key(item[0])


def order_key(node: UOp) -> Key:
    """Return what terms are sorted by: loops by axis, then item indices, variables, and the rest by op and
    structure."""
    key = _KEYS.get(node)
    if key is not None:
        return key
    if len(_KEYS) > _LIMIT:
        _KEYS.clear()
    arg = node.arg
    if isinstance(arg, p.Range):  # by far the most frequent, so without the walk
        key = _KEYS[node] = (0, arg.axis, arg.instance)
        return key
    if isinstance(arg, p.Const) or (node.src and arg is None and all(s in _KEYS for s in node.src)):
        key = _KEYS[node] = _order_key(node, {})
        return key
    local: dict[UOp, Key] = {}
    keep = True
    for n in toposort((node,), lambda n: n not in _KEYS):
        if n not in _KEYS:
            local[n] = _order_key(n, local)
            keep = keep and not (n.op is Ops.BUFFER and n.payload(p.Storage).device is not None)
    if keep:
        _KEYS.update(local)
    return local[node]


def _order_key(node: UOp, local: dict[UOp, Key]) -> Key:
    arg = node.arg
    if isinstance(arg, p.Range):
        return 0, arg.axis, arg.instance
    if isinstance(arg, p.Special):
        return 1, arg.level, arg.dim
    if isinstance(arg, p.Variable):
        return 2, arg.name, arg.lo
    # Hashes of tuples of integers are not randomised; those of strings are, hence the checksums.
    text = arg.name if isinstance(arg, p.TargetOp) else str(arg)
    parts = [zlib.crc32(text.encode()), zlib.crc32(node.dtype.name.encode())]
    for s in node.src:
        rank, name, tie = local.get(s) or _KEYS[s]
        parts += (rank, zlib.crc32(name.encode()), tie)
    return 3, node.op.value, hash(tuple(parts))
