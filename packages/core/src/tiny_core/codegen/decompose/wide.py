"""64-bit integers as pairs of uint32, for targets that have none.

In: a graph of the loops stage. Out: an equal graph without int64 and uint64. A value becomes two values (low
word, high word); a buffer of n elements becomes one of 2n uint32 in the same bytes, low word first; loops,
variables and indices of int64 become int32 (no buffer of such a target has 2**31 elements), and a variable
that does not fit is an error.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.codegen.decompose.bits import constant, invert, like, select
from tiny_core.codegen.decompose.integer import multiply_high
from tiny_core.dtypes import DType
from tiny_core.errors import RenderError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import COMPARE, Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

LONG = frozenset({dtypes.int64, dtypes.uint64})
OPS = frozenset(
    {
        Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.NOT, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.WHERE,
        Ops.MAX, Ops.MIN, Ops.CAST, Ops.BITCAST, *COMPARE,
    }
)  # fmt: skip
"""Ops of 64-bit integers that become 32-bit ones here; `legalize.py` brings the others down to these
first."""
_WORD, _INT = dtypes.uint32, dtypes.int32
Pair = tuple[UOp, UOp]


def split(root: UOp, target: Capabilities) -> UOp:
    """Return `root` without 64-bit integers.

    Raises:
        RenderError: a plugin's op or a VARIABLE needs them.
    """
    nodes = root.toposort()
    if not any(n.dtype in LONG for n in nodes):
        return root
    return _Splitter(target).run(nodes)[root][0]


class _Splitter:
    """What became of each node: one node, for a 64-bit value its two words, and for an effect one or more
    effects."""

    def __init__(self, target: Capabilities) -> None:
        self.target = target
        self.new: dict[UOp, tuple[UOp, ...]] = {}

    def run(self, nodes: list[UOp]) -> dict[UOp, tuple[UOp, ...]]:
        for node in nodes:
            self.new[node] = self._node(node)
        return self.new

    def _node(self, node: UOp) -> tuple[UOp, ...]:
        op = node.op
        long = node.dtype in LONG
        if op is Ops.TARGET and (long or any(s.dtype in LONG for s in node.src)):
            raise RenderError(
                f"{node.payload(p.TargetOp).name} needs 64-bit integers, which the target lacks"
            )
        if op in (Ops.LOAD, Ops.STORE):
            return self._access(node)
        if op is Ops.AFTER:
            buffer = self.new[node.src[0]][0]
            return (UOp(op, buffer.dtype, (buffer, *self._effects(node.src[1:]))),)
        if not long and not any(s.dtype in LONG for s in node.src):
            src = self._effects(node.src)
            return (node if src == node.src else node.replace(src),)
        if op in (Ops.END, Ops.SINK, Ops.BARRIER, Ops.LINEAR):
            return (node.replace((*self._loop(node), *self._effects(node.src[op is Ops.END :]))),)
        match op:
            case Ops.CONST:
                value = int(node.value) & 0xFFFFFFFF_FFFFFFFF
                return UOp.const(value & 0xFFFFFFFF, _WORD), UOp.const(value >> 32, _WORD)
            case Ops.PARAM:
                arg = node.payload(p.Param)
                wide = p.Param(arg.slot, arg.size * 2, arg.access, arg.align, arg.space, arg.device)
                return (UOp(op, _WORD, (), wide),)
            case Ops.BUFFER:
                near = node.payload(p.Storage)
                return (UOp.near(_WORD, near.size * 2, near.id, near.space, near.lanes),)
            case Ops.VARIABLE | Ops.RANGE | Ops.SPECIAL:
                return self._index(node)
            case Ops.STACK | Ops.INDEX | Ops.SHUFFLE:
                pairs = [self._pair(s) for s in node.src]
                low, high = (UOp(op, _WORD, tuple(q[i] for q in pairs), node.arg) for i in (0, 1))
                return low, high
            case Ops.CAST | Ops.BITCAST:
                return self._convert(node)
            case Ops.WHERE:
                condition = self.new[node.src[0]][0]
                return _choose(condition, self._pair(node.src[1]), self._pair(node.src[2]))
        a, b = self._pair(node.src[0]), self._pair(node.src[-1])
        if op in COMPARE:
            return (_compare(op, a, b, node.src[0].dtype),)
        return self._arithmetic(node, a, b)

    # ---- structure -----------------------------------------------------------------------------------------

    def _pair(self, node: UOp) -> Pair:
        low, high = self.new[node]
        return low, high

    def _effects(self, nodes: tuple[UOp, ...]) -> tuple[UOp, ...]:
        """What became of effects, of the loops that an AFTER names, and of values that are not long."""
        loops = {n: (self._narrow_loop(n),) for n in nodes if n.op is Ops.RANGE}
        return tuple(new for n in nodes for new in loops.get(n, self.new[n]))

    def _loop(self, node: UOp) -> tuple[UOp, ...]:
        """The RANGE that an END closes."""
        return (self._narrow_loop(node.src[0]),) if node.op is Ops.END else ()

    def _narrow_loop(self, node: UOp) -> UOp:
        low = self.new[node][0]
        return low.src[0] if low.op is Ops.BITCAST else low

    def _index(self, node: UOp) -> tuple[UOp, ...]:
        """A loop index or variable of int64, as int32 and its sign."""
        if node.op is Ops.VARIABLE:
            bounds = node.payload(p.Variable)
            if bounds.lo < _INT.min or bounds.hi > _INT.max:
                span = f"{bounds.name} from {bounds.lo} to {bounds.hi}"
                raise RenderError(f"variable {span}: the target has no 64-bit integers")
        index = UOp(node.op, _INT, tuple(_signed(self._word(s)) for s in node.src), node.arg)
        high = index >> 31 if node.op is Ops.VARIABLE else like(index, 0)
        return index.bitcast(_WORD), high.bitcast(_WORD)

    def _word(self, node: UOp) -> UOp:
        return self.new[node][0]

    def _access(self, node: UOp) -> tuple[UOp, ...]:
        """LOAD and STORE: of 64-bit elements, both words of each."""
        buffer, at = self._word(node.src[0]), self._word(node.src[1])
        if node.src[1].dtype in LONG:
            at = _signed(at)
        if node.src[0].dtype not in LONG:
            src = (buffer, at, *self._effects(node.src[2:]))
            return (node if src == node.src else node.replace(src),)
        load = node.op is Ops.LOAD
        access = node.payload(p.Access)
        gate = self._word(node.src[2 if load else 3]) if len(node.src) == 4 else None
        value = None if len(node.src) == 2 else self._pair(node.src[3 if load else 2])
        base = node.src[0].base
        register = base.op is Ops.BUFFER and base.payload(p.Storage).space == "register"
        count = 0 if register else access.lanes
        # the words of a lane lie 8 bytes from the next lane's, so each is an access of its own
        words: tuple[list[UOp], list[UOp]] = ([], [])
        for lane in range(max(count, 1)):
            for half in (0, 1):
                parts = [buffer, _place(at, 2 * lane + half)]
                if value is not None:
                    parts.append(value[half].lane(lane) if count else value[half])
                if gate is not None:
                    parts.insert(2 if load else 3, gate.lane(lane) if count else gate)
                align = 4 if lane or half else access.align
                arg = p.Access(access.lanes if register else 0, align)
                words[half].append(UOp(node.op, _WORD if load else node.dtype, tuple(parts), arg))
        if not load:
            return tuple(w for pair in zip(*words, strict=True) for w in pair)
        low, high = (UOp(Ops.STACK, _WORD, tuple(w)) if count else w[0] for w in words)
        return low, high

    # ---- conversions ---------------------------------------------------------------------------------------

    def _convert(self, node: UOp) -> tuple[UOp, ...]:
        x, to = node.src[0], node.dtype
        if x.dtype in LONG and to in LONG:
            return self.new[x]
        if node.op is Ops.BITCAST:
            raise RenderError(f"bitcast from {x.dtype.name} to {to.name}: the target has no 64-bit integers")
        if x.dtype in LONG:
            low, high = self._pair(x)
            if to.kind == "bool":
                return ((low | high).ne(0),)
            return (_to_float((low, high), x.dtype, to) if to.is_float else low.cast(to),)
        value = self._word(x)
        if x.dtype.is_float:
            return _from_float(value, to)
        if x.dtype.kind == "bool":
            return select(value, 1, 0, _WORD), like(value, 0, _WORD)
        if x.dtype.is_unsigned:
            return value.cast(_WORD), like(value, 0, _WORD)
        signed = value.cast(_INT)
        return signed.bitcast(_WORD), (signed >> 31).bitcast(_WORD)

    # ---- arithmetic ----------------------------------------------------------------------------------------

    def _arithmetic(self, node: UOp, a: Pair, b: Pair) -> Pair:
        match node.op:
            case Ops.ADD:
                return _add(a, b)
            case Ops.SUB:
                return _subtract(a, b)
            case Ops.NEG:
                return _negate(a)
            case Ops.NOT:
                return a[0].alu(Ops.NOT), a[1].alu(Ops.NOT)
            case Ops.AND | Ops.OR | Ops.XOR:
                return a[0].alu(node.op, b[0]), a[1].alu(node.op, b[1])
            case Ops.MUL:
                high = multiply_high(a[0], b[0], self.target) + a[0] * b[1] + a[1] * b[0]
                return a[0] * b[0], high
            case Ops.MAX:
                return _choose(_compare(Ops.CMPLT, a, b, node.dtype), b, a)
            case Ops.MIN:
                return _choose(_compare(Ops.CMPLT, a, b, node.dtype), a, b)
            case Ops.SHL | Ops.SHR:
                return _shift(node.op, a, b, node.dtype)
        raise RenderError(f"{node.op.value} on {node.dtype.name}: the target has no 64-bit integers")


def _signed(word: UOp) -> UOp:
    """A word read as int32; a constant stays one."""
    return UOp.const(dtypes.wrap(int(word.value), _INT), _INT) if word.is_const else word.bitcast(_INT)


def _place(index: UOp, offset: int) -> UOp:
    """Twice an index, plus an offset; a constant stays one."""
    if index.is_const:
        return UOp.const(int(index.value) * 2 + offset, index.dtype)
    return index * 2 + offset if offset else index * 2


def _choose(condition: UOp, a: Pair, b: Pair) -> Pair:
    return condition.where(a[0], b[0]), condition.where(a[1], b[1])


def _add(a: Pair, b: Pair) -> Pair:
    low = a[0] + b[0]
    return low, a[1] + b[1] + select(low < a[0], 1, 0, _WORD)


def _subtract(a: Pair, b: Pair) -> Pair:
    return a[0] - b[0], a[1] - b[1] - select(a[0] < b[0], 1, 0, _WORD)


def _negate(a: Pair) -> Pair:
    return _subtract((like(a[0], 0), like(a[1], 0)), a)


def _compare(op: Ops, a: Pair, b: Pair, dtype: DType) -> UOp:
    if op in (Ops.CMPEQ, Ops.CMPNE):
        differ = (a[0] ^ b[0]) | (a[1] ^ b[1])
        return differ.alu(op, 0)
    if op is Ops.CMPLE:
        return invert(_compare(Ops.CMPLT, b, a, dtype))
    high = (a[1], b[1]) if dtype.is_unsigned else (a[1].bitcast(_INT), b[1].bitcast(_INT))
    return (high[0] < high[1]) | (a[1].eq(b[1]) & (a[0] < b[0]))


def _shift(op: Ops, a: Pair, by: Pair, dtype: DType) -> Pair:
    low, high = a
    left, arithmetic = op is Ops.SHL, op is Ops.SHR and dtype.kind == "int"
    fill = (high.bitcast(_INT) >> 31).bitcast(_WORD) if arithmetic else like(low, 0)
    count, above = constant(by[0]), constant(by[1])
    if count is not None and above is not None:
        k = int(count) if above == 0 else 64
        if k == 0:
            return a
        if k >= 64:
            return fill, fill
        if k >= 32:
            if left:
                return fill, low if k == 32 else low << (k - 32)
            return high if k == 32 else _down(high, k - 32, arithmetic), fill
        if left:
            return low << k, (high << k) | (low >> (32 - k))
        return (low >> k) | (high << (32 - k)), _down(high, k, arithmetic)
    small = by[0] & 31
    back = like(small, 31) - small
    if left:
        near, far = low << small, (high << small) | ((low >> 1) >> back)
        moved = _choose((by[0] & 32).ne(0), (fill, near), (near, far))
    else:
        far, near = (low >> small) | ((high << 1) << back), _down(high, small, arithmetic)
        moved = _choose((by[0] & 32).ne(0), (near, fill), (far, near))
    return _choose(by[1].ne(0) | (by[0] >= 64), (fill, fill), moved)


def _down(word: UOp, by: UOp | int, arithmetic: bool) -> UOp:
    if not arithmetic:
        return word >> by
    signed = by.bitcast(_INT) if isinstance(by, UOp) else by
    return (word.bitcast(_INT) >> signed).bitcast(_WORD)


def _to_float(x: Pair, dtype: DType, to: DType) -> UOp:
    """A 64-bit integer to a float, rounded once.

    The number is shifted up until its high word is full; the low word then only counts as a sticky bit. What
    is left has 32 bits (24 for types narrower than float32, so that it is exact there), and scaling it is
    exact.
    """
    negative = None
    if dtype.kind == "int":
        negative = x[1].bitcast(_INT) < 0
        x = _choose(negative, _negate(x), x)
    if to is dtypes.float64:
        value = x[1].cast(to) * 2.0**32 + x[0].cast(to)
        return value if negative is None else negative.where(-value, value)
    low, high = x
    work = dtypes.float32
    scale = like(low, 2.0**32, work)
    for k in (16, 8, 4, 2, 1):
        small = high < 1 << (32 - k)
        low, high = _choose(small, (low << k, (high << k) | (low >> (32 - k))), (low, high))
        scale = small.where(scale * 2.0**-k, scale)
    # a number below 2**32 is its own low word
    low, high = _choose(x[1].eq(0), (like(low, 0), x[0]), (low, high))
    scale = x[1].eq(0).where(1.0, scale)
    high = high | select(low.ne(0), 1, 0, _WORD)
    if to is not work:
        large = high >= 1 << 24
        lost = select((high & 0xFF).ne(0), 1, 0, _WORD)
        high = large.where((high >> 8) | lost, high)
        scale = large.where(scale * 256.0, scale)
    value = (high.cast(work) * scale).cast(to)
    return value if negative is None else negative.where(-value, value)


def _from_float(x: UOp, to: DType) -> Pair:
    """A float to a 64-bit integer: truncated, saturated, NaN to 0."""
    if x.dtype not in (dtypes.float32, dtypes.float64):
        x = x.cast(dtypes.float32)
    negative = x < 0.0
    size = negative.where(like(x, 0.0) - x, x)
    limit = 2.0 ** (64 - (to.kind == "int"))
    over = size >= limit
    size = (size < limit).where(size, 0.0).alu(Ops.TRUNC)  # NaN is 0
    high = (size * 2.0**-32).cast(_WORD)
    low = (size - high.cast(x.dtype) * 2.0**32).cast(_WORD)
    if to.kind == "uint":
        value = _choose(over, (like(low, 0xFFFFFFFF), like(low, 0xFFFFFFFF)), (low, high))
        return _choose(negative, (like(low, 0), like(low, 0)), value)
    value = _choose(over, (like(low, 0xFFFFFFFF), like(low, 0x7FFFFFFF)), (low, high))
    return _choose(
        negative, _choose(over, (like(low, 0), like(low, 0x80000000)), _negate((low, high))), value
    )


__all__ = ["LONG", "OPS", "split"]
