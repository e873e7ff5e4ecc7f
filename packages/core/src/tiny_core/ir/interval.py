"""Intervals: what is known of an integer or bool node from its operands alone.

In: a node of an integer dtype (fixed width or `index`) or bool, of any shape. Out: an inclusive interval that
holds for every element, whatever the values of its leaves. Guaranteed: sound under the total semantics of
`ops.py` (x//0 = 0, wrap-around, shifts beyond the width): a fixed-width result that might not fit has the
interval of its dtype.
"""

from __future__ import annotations

from collections.abc import Callable

from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.ops import COMPARE, Ops
from tiny_core.ir.uop import UOp

Interval = tuple[int, int]
_LIMIT = 1 << 16
_MEMO: dict[UOp, Interval] = {}
_BOOL: Interval = (0, 1)
_FULL: dict[DType, Interval] = {}

# Leaves of which the memo may hold references: those that exist only within kernels. A graph over anything
# else (device storage above all) is worked out again each time, so that the memo keeps no memory of a device
# alive.
_KERNEL_ONLY = frozenset(
    {
        Ops.CONST,
        Ops.PARAM,
        Ops.VARIABLE,
        Ops.IOTA,
        Ops.RANGE,
        Ops.SPECIAL,
        Ops.LOAD,
        Ops.TARGET,
        Ops.THREEFRY,
    }
)


def bounds(node: UOp) -> Interval:
    """Return (lo, hi), lo <= value <= hi, of an integer or bool node; `index` nodes of unknown value have
    ±2^62.

    >>> i, j = UOp.range(64, "i"), UOp.range(9, "j")
    >>> bounds(i * 9 + j), bounds((i * 9 + j) % 4), bounds(i < 64)
    ((0, 575), (0, 3), (1, 1))
    """
    known = _MEMO.get(node)
    return _compute(node) if known is None else known


def full(dtype: DType) -> Interval:
    """Return the interval of a dtype (integer or bool)."""
    known = _FULL.get(dtype)
    if known is None:
        known = _FULL[dtype] = (int(dtype.min), int(dtype.max))
    return known


def _compute(root: UOp) -> Interval:
    memo, done, keep = _MEMO, dict[UOp, Interval](), True
    stack = [root]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        rule = _RULES.get(node.op)
        if rule is None or node.dtype.is_float:
            keep = keep and (node.op in _KERNEL_ONLY or (node.op is Ops.REDUCE and len(node.src) > 1))
            done[node] = _BOOL if node.dtype.is_float or node.dtype.kind == "void" else full(node.dtype)
            stack.pop()
            continue
        src = node.src[:1] if node.op in _FIRST_ONLY else node.src
        waiting = []
        for s in src:
            if s not in done:
                known = memo.get(s)
                if known is None:
                    waiting.append(s)
                else:
                    done[s] = known
        if waiting:
            stack.extend(waiting)
            continue
        lo, hi = rule(node, [done[s] for s in src])
        least, most = full(node.dtype)
        fits = (least <= lo and hi <= most) or node.dtype.bits == 0
        done[node] = (lo, hi) if fits else (least, most)
        stack.pop()
    if keep:
        if len(memo) > _LIMIT:
            memo.clear()
        memo.update(done)
    return done[root]


# ---- rules: from a node and the intervals of its sources to its own, not yet confined to its dtype


def _add(n: UOp, s: list[Interval]) -> Interval:
    (a, b), (c, d) = s
    return (a | c, b | d) if n.dtype.kind == "bool" else (a + c, b + d)


def _sub(n: UOp, s: list[Interval]) -> Interval:
    (a, b), (c, d) = s
    return _BOOL if n.dtype.kind == "bool" else (a - d, b - c)


def product(x: Interval, y: Interval) -> Interval:
    """Return the interval of a product."""
    (a, b), (c, d) = x, y
    if a >= 0 and c >= 0:
        return a * c, b * d
    corners = (a * c, a * d, b * c, b * d)
    return min(corners), max(corners)


def _mulacc(n: UOp, s: list[Interval]) -> Interval:
    if n.dtype.kind == "bool":
        return _BOOL
    lo, hi = product(s[0], s[1])
    return lo + s[2][0], hi + s[2][1]


def _divisors(d: Interval) -> list[int]:
    """The divisors at which a quotient can be extreme: the ends of the negative and of the positive part."""
    lo, hi = d
    ends = {lo, hi}
    if lo <= -1 <= hi:
        ends.add(-1)
    if lo <= 1 <= hi:
        ends.add(1)
    return [e for e in ends if e]


def _floordiv(n: UOp, s: list[Interval]) -> Interval:
    (a, b), (c, d) = s
    if c > 0:
        return min(a // c, a // d), max(b // c, b // d)
    corners = [x // y for y in _divisors(s[1]) for x in (a, b)]
    if c <= 0 <= d:
        corners.append(0)
    return min(corners), max(corners)


def _truncate(x: int, y: int) -> int:
    q = abs(x) // abs(y)
    return q if (x < 0) == (y < 0) else -q


def _idiv(n: UOp, s: list[Interval]) -> Interval:
    (a, b), (c, d) = s
    corners = [_truncate(x, y) for y in _divisors(s[1]) for x in (a, b)]
    if c <= 0 <= d or a < 0 < b:
        corners.append(0)
    return min(corners), max(corners)


def _floormod(n: UOp, s: list[Interval]) -> Interval:
    (a, b), (c, d) = s
    if c > 0:
        if c == d and a // c == b // c:
            return a % c, b % c
        if a >= 0:
            return (a, b) if b < c else (0, min(b, d - 1))
        return 0, d - 1
    lo, hi = min(c + 1, 0), max(d - 1, 0)
    return (min(lo, a), max(hi, b)) if d >= 0 else (lo, hi)


def _imod(n: UOp, s: list[Interval]) -> Interval:
    (a, b), (c, d) = s
    if c <= 0 <= d:  # x % 0 = x, and |x % y| <= |x|
        return min(a, 0), max(b, 0)
    most = max(abs(c), abs(d)) - 1
    if max(abs(a), abs(b)) < min(abs(c), abs(d)):
        return a, b
    return max(min(a, 0), -most), min(max(b, 0), most)


def _max(n: UOp, s: list[Interval]) -> Interval:
    return max(s[0][0], s[1][0]), max(s[0][1], s[1][1])


def _min(n: UOp, s: list[Interval]) -> Interval:
    return min(s[0][0], s[1][0]), min(s[0][1], s[1][1])


def _width(s: list[Interval]) -> int:
    return max(v.bit_length() for pair in s for v in pair)


def _and(n: UOp, s: list[Interval]) -> Interval:
    (a, b), (c, d) = s
    if n.dtype.kind == "bool":
        return a & c, b & d
    if a >= 0 or c >= 0:
        return 0, min(b, d) if a >= 0 and c >= 0 else b if a >= 0 else d
    return -1 << _width(s), max(b, d)


def _or(n: UOp, s: list[Interval]) -> Interval:
    (a, b), (c, d) = s
    if n.dtype.kind == "bool":
        return a | c, b | d
    k = _width(s)
    return (max(a, c), (1 << k) - 1) if a >= 0 and c >= 0 else (-1 << k, (1 << k) - 1)


def _xor(n: UOp, s: list[Interval]) -> Interval:
    (a, b), (c, d) = s
    if a == b and c == d:
        return a ^ c, a ^ c
    if n.dtype.kind == "bool":
        return _BOOL
    k = _width(s)
    return (0, (1 << k) - 1) if a >= 0 and c >= 0 else (-1 << k, (1 << k) - 1)


def _not(n: UOp, s: list[Interval]) -> Interval:
    lo, hi = s[0]
    if n.dtype.kind == "bool":
        return 1 - hi, 1 - lo
    top = full(n.dtype)[1] if n.dtype.is_unsigned else -1
    return top - hi, top - lo


def _shl(n: UOp, s: list[Interval]) -> Interval:
    (a, b), (c, d) = s
    width = n.dtype.bits or 64
    if c < 0 or d >= width:
        return (0, 0) if c >= width and n.dtype.bits else full(n.dtype)
    return product((a, b), (1 << c, 1 << d))


def _shr(n: UOp, s: list[Interval]) -> Interval:
    (a, b), (c, d) = s
    if c < 0:
        return full(n.dtype)
    c, d = min(c, 64), min(d, 64)
    corners = (a >> c, a >> d, b >> c, b >> d)
    return min(corners), max(corners)


def _compare(n: UOp, s: list[Interval]) -> Interval:
    if n.src[0].dtype.is_float:
        return _BOOL
    (a, b), (c, d) = s
    yes, no = {
        Ops.CMPLT: (b < c, a >= d),
        Ops.CMPLE: (b <= c, a > d),
        Ops.CMPEQ: (a == b == c == d, b < c or d < a),
        Ops.CMPNE: (b < c or d < a, a == b == c == d),
    }[n.op]
    return (1, 1) if yes else (0, 0) if no else _BOOL


def _union(n: UOp, s: list[Interval]) -> Interval:
    return min(lo for lo, _ in s), max(hi for _, hi in s)


def _where(n: UOp, s: list[Interval]) -> Interval:
    c, x, y = s
    return x if c == (1, 1) else y if c == (0, 0) else (min(x[0], y[0]), max(x[1], y[1]))


def _cast(n: UOp, s: list[Interval]) -> Interval:
    if n.src[0].dtype.is_float:
        return full(n.dtype)
    lo, hi = s[0]
    if n.dtype.kind == "bool":
        return (0, 0) if lo == hi == 0 else (1, 1) if lo > 0 or hi < 0 else _BOOL
    return lo, hi


def _bitcast(n: UOp, s: list[Interval]) -> Interval:
    lo, hi = s[0]
    same = not n.src[0].dtype.is_float and lo >= 0 and hi < 1 << (n.dtype.bits - 1)
    return (lo, hi) if same else full(n.dtype)


def _const(n: UOp, s: list[Interval]) -> Interval:
    value = int(n.value)
    return value, value


def _variable(n: UOp, s: list[Interval]) -> Interval:
    arg = n.payload(p.Variable)
    return arg.lo, arg.hi


def _loop(n: UOp, s: list[Interval]) -> Interval:
    return 0, max(s[0][1] - 1, 0)


def _first(n: UOp, s: list[Interval]) -> Interval:
    return s[0]


def _pad(n: UOp, s: list[Interval]) -> Interval:
    return min(s[0][0], 0), max(s[0][1], 0)


_FIRST_ONLY = frozenset({Ops.AFTER, Ops.GATHER})

_RULES: dict[Ops, Callable[[UOp, list[Interval]], Interval]] = {
    # leaves and loops
    Ops.CONST: _const,
    Ops.VARIABLE: _variable,
    Ops.IOTA: lambda n, s: (0, max(n.payload(p.Iota).size - 1, 0)),
    Ops.RANGE: _loop,
    Ops.SPECIAL: _loop,
    # arithmetic
    Ops.NEG: lambda n, s: _BOOL if n.dtype.kind == "bool" else (-s[0][1], -s[0][0]),
    Ops.NOT: _not,
    Ops.ADD: _add,
    Ops.SUB: _sub,
    Ops.MUL: lambda n, s: product(s[0], s[1]),
    Ops.MULACC: _mulacc,
    Ops.FLOORDIV: _floordiv,
    Ops.FLOORMOD: _floormod,
    Ops.IDIV: _idiv,
    Ops.IMOD: _imod,
    Ops.MAX: _max,
    Ops.MIN: _min,
    Ops.AND: _and,
    Ops.OR: _or,
    Ops.XOR: _xor,
    Ops.SHL: _shl,
    Ops.SHR: _shr,
    **dict.fromkeys(COMPARE, _compare),
    Ops.WHERE: _where,
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
    # values that are other values, moved
    Ops.STACK: _union,
    Ops.SHUFFLE: _union,
    Ops.INDEX: _first,
    Ops.AFTER: _first,
    **dict.fromkeys(
        (Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.SHRINK, Ops.FLIP, Ops.SHEAR, Ops.CONTIGUOUS, Ops.DETACH),
        _first,
    ),
    Ops.PAD: _pad,
    Ops.UNSHEAR: _pad,
    Ops.GATHER: _pad,
}
