"""float16, bfloat16 and the fp8 types where a target lacks them or their arithmetic; 8 and 16-bit integers
likewise.

Two levels. A dtype that the target can load but not compute with: each op is done in float32 (or int32) and
its result cast back, which rounds once: float32 has more than twice the bits plus two of any of these types,
so the sum, product, quotient or root rounded to it and then to the type is the correctly rounded one. A
float that the target does not have at all: `carry` keeps its values in float32 (every one holds a value of
the type), and buffers of it become buffers of unsigned integers, converted by bits at each load and store.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.codegen.decompose.bits import UNSIGNED, is_nan, like
from tiny_core.dtypes import DType
from tiny_core.errors import RenderError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import COMPARE, ELEMENTWISE, Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

NARROW = frozenset(dtypes.narrow_floats)
_SINGLE, _WORD = dtypes.float32, dtypes.uint32
_WIDER = {
    dtypes.int8: dtypes.int32, dtypes.int16: dtypes.int32, dtypes.uint8: _WORD, dtypes.uint16: _WORD,
    **dict.fromkeys(dtypes.narrow_floats, _SINGLE),
}  # fmt: skip


# ---- ops of types that can be loaded -----------------------------------------------------------------------


def widen(node: UOp, target: Capabilities) -> UOp | None:
    """An op of a narrow type in the wide one, and back."""
    op = node.op
    if op in (Ops.CAST, Ops.BITCAST):
        return None
    dtype = node.src[-1].dtype
    wide = _WIDER.get(dtype)
    if wide is None or (dtype not in NARROW and (Ops.CAST, dtype) not in target.ops):
        return None
    src = tuple(s.cast(wide) if s.dtype is dtype else s for s in node.src)
    if op in COMPARE:
        return UOp(op, node.dtype, src)
    return UOp(op, wide, src).cast(dtype)


def cast(node: UOp, target: Capabilities) -> UOp | None:
    """CAST from and to a narrow float."""
    x, to = node.src[0], node.dtype
    if x.dtype in NARROW:
        single = decode(x.bitcast(UNSIGNED[x.dtype.bits]).cast(_WORD), x.dtype)
        return single.cast(to)
    if to in NARROW:
        if x.dtype is not _SINGLE:
            return sticky(x, to, target).cast(to)
        word = encode(x, to)
        return word.cast(UNSIGNED[to.bits]).bitcast(to)
    return None


RULES = dict.fromkeys(ELEMENTWISE, (widen,)) | {Ops.CAST: (cast,)}


# ---- the bits of narrow floats -----------------------------------------------------------------------------


def decode(word: UOp, dtype: DType) -> UOp:
    """The float32 of the bits of a narrow float, given in uint32."""
    sign = dtype.bits - 1
    size = word & ((1 << sign) - 1)
    high = (word & (1 << sign)) << (31 - sign)
    bits = size << (23 - dtype.mantissa)
    bias = _bias(dtype)
    if bias == 127:  # bfloat16: the upper half of a float32
        return (bits | high).bitcast(_SINGLE)
    # with the exponent field read by float32's bias the value is too small by a power of two, subnormals
    # included
    value = (bits.bitcast(_SINGLE) * 2.0 ** (127 - bias)).bitcast(_WORD)
    if dtype.variant == "ieee":  # infinities and NaNs
        value = (size >= ((1 << dtype.exponent) - 1) << dtype.mantissa).where(bits | 0x7F800000, value)
    elif dtype.variant == "fn":
        value = size.eq((1 << sign) - 1).where(0x7FC00000, value)
    value = value | high
    if dtype.variant == "fnuz":  # what would be negative zero is the NaN
        value = word.eq(1 << sign).where(0x7FC00000, value)
    return value.bitcast(_SINGLE)


def encode(x: UOp, dtype: DType) -> UOp:
    """The bits, in uint32, of a narrow float nearest to a float32, ties to even."""
    bits = x.bitcast(_WORD)
    size = bits & 0x7FFFFFFF
    shift, bias = 23 - dtype.mantissa, _bias(dtype)
    # half a unit less one, plus one where the last bit that stays is odd, carries exactly when it should
    # round up
    word = (size + (((size >> shift) & 1) + ((1 << (shift - 1)) - 1))) >> shift
    if bias != 127:
        word = word - ((127 - bias) << dtype.mantissa)
        # below the normal range: adding a number whose unit is the subnormal step rounds to it
        unit = 2.0 ** (24 - bias - dtype.mantissa)
        small = (size.bitcast(_SINGLE) + unit).bitcast(_WORD) - dtypes.to_bits(unit, _SINGLE)
        word = (size < (128 - bias) << 23).where(small, word)
    largest = dtypes.to_bits(dtype.largest, dtype)
    nan = dtypes.to_bits(float("nan"), dtype)
    # size past the halfway point to the next power has rounded to something greater than `largest`
    beyond = largest + 1 if dtype.variant == "ieee" else nan
    word = ((size >= 0x7F800000) | (word > largest)).where(beyond, word)
    high = (bits >> (32 - dtype.bits)) & (1 << (dtype.bits - 1))
    if dtype.variant == "fnuz":
        return is_nan(x).where(nan, (word.eq(0) | word.eq(nan)).where(word, word | high))
    return (is_nan(x).where(nan, word)) | high


def _bias(dtype: DType) -> int:
    return (1 << (dtype.exponent - 1)) - (0 if dtype.variant == "fnuz" else 1)


def sticky(x: UOp, to: DType, target: Capabilities) -> UOp:
    """A number as a float32 that rounds to the narrow float `to` as the number itself does.

    Integers beyond 24 bits lose low bits, float64 loses 29: the last bit that stays is set where any that is
    lost was (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008: rounding to odd).
    """
    if x.dtype in _WIDER or x.dtype.kind == "bool":
        return x.cast(_SINGLE)
    if x.dtype is dtypes.float64:
        near = x.cast(_SINGLE)
        bits = near.bitcast(_WORD)
        back = near.cast(dtypes.float64)
        larger = (x < 0.0).where(back < x, x < back)  # |near| > |x|
        odd = (larger.where(bits - 1, bits) | 1).bitcast(_SINGLE)
        return (back.eq(x) | is_nan(x)).where(near, odd)
    unsigned = UNSIGNED[x.dtype.bits]
    if x.dtype.is_unsigned:
        size, negative = x, None
    else:
        negative = x < 0
        size = negative.where(like(x, 0) - x, x).bitcast(unsigned)
    scale = like(x, 1.0, _SINGLE)
    # each step leaves 17 bits or more, and after the last there are at most 24
    for shift in (32, 16, 8) if unsigned.bits == 64 else (8,):
        many = size >= 1 << (shift + 16)
        lost = (size & ((1 << shift) - 1)).ne(0).where(like(size, 1), 0)
        size = many.where((size >> shift) | lost, size)
        scale = many.where(scale * 2.0**shift, scale)
    value = size.cast(_WORD).bitcast(dtypes.int32).cast(_SINGLE) * scale
    return value if negative is None else negative.where(-value, value)


# ---- types that the target does not have -------------------------------------------------------------------


def carry(root: UOp, target: Capabilities) -> UOp:
    """Rewrite a graph so that no narrow float is left that the target does not have; see the module's
    docstring.

    Raises:
        RenderError: a plugin's op takes or gives such a type, or the target cannot load integers of its
        width.
    """
    absent = NARROW - target.dtypes
    nodes = root.toposort()
    if not any(n.dtype in absent for n in nodes):
        return root
    new: dict[UOp, UOp] = {}
    words: dict[UOp, UOp] = {}  # bits of float32 values that are known to hold a narrow one
    for node in nodes:
        new[node] = _carry(node, absent, new, words, target)
    return new[root]


def _carry(
    node: UOp, absent: frozenset[DType], new: dict[UOp, UOp], words: dict[UOp, UOp], target: Capabilities
) -> UOp:
    src = tuple(new[s] for s in node.src)
    dtype, op = node.dtype, node.op
    of = node.src[0].dtype if node.src else dtype
    if op is Ops.STORE and of in absent:
        if src[0].dtype is _SINGLE:
            return UOp(op, dtype, src, node.arg)
        value = _word(src[2], of, words).cast(UNSIGNED[of.bits])
        return UOp(op, dtype, (*src[:2], value, *src[3:]), node.arg)
    if op is Ops.TARGET and (bad := [d for d in (dtype, *(s.dtype for s in node.src)) if d in absent]):
        raise RenderError(
            f"{node.payload(p.TargetOp).name} on {bad[0].name}: the target has no {bad[0].name}"
        )
    if dtype not in absent and of not in absent:
        return node if src == node.src else node.replace(src)
    if op is Ops.CONST:
        return UOp.const(node.value, _SINGLE)
    if op in (Ops.PARAM, Ops.BUFFER, Ops.AFTER):
        return _memory(node, src, target)
    if op is Ops.LOAD:
        if src[0].dtype is _SINGLE:
            return UOp(op, _SINGLE, src, node.arg)
        unsigned = UNSIGNED[dtype.bits]
        if len(src) == 4:
            src = (*src[:3], _word(src[3], dtype, words).cast(unsigned))
        word = UOp(op, unsigned, src, node.arg).cast(_WORD)
        value = decode(word, dtype)
        words[value] = word
        return value
    if op is Ops.CAST:
        if dtype not in absent:
            return src[0].cast(dtype)
        if of in NARROW or of is _SINGLE:
            return _rounded(src[0].cast(_SINGLE), dtype, words)
        return _rounded(sticky(src[0], dtype, target), dtype, words)
    if op is Ops.BITCAST:
        if of in absent:
            bits = _word(src[0], of, words).cast(UNSIGNED[of.bits])
            return bits.bitcast(dtype) if dtype not in absent else decode(bits.cast(_WORD), dtype)
        word = src[0].bitcast(UNSIGNED[dtype.bits]).cast(_WORD)
        value = decode(word, dtype)
        words[value] = word
        return value
    if op in COMPARE:
        return UOp(op, dtype, src)
    value = UOp(op, _SINGLE, src, node.arg)
    if op in (Ops.WHERE, Ops.MAX, Ops.MIN) or op not in ELEMENTWISE:  # gives what it got
        return value
    if op in (Ops.NEG, Ops.TRUNC) and dtype.variant != "fnuz":  # exact, but for a zero with a sign
        return value
    return _rounded(value, dtype, words)


def _memory(node: UOp, src: tuple[UOp, ...], target: Capabilities) -> UOp:
    if node.op is Ops.AFTER:
        return UOp(Ops.AFTER, src[0].dtype, src)
    if node.op is Ops.BUFFER and node.payload(p.Storage).space == "register":
        return UOp(node.op, _SINGLE, src, node.arg)
    unsigned = UNSIGNED[node.dtype.bits]
    if unsigned not in target.dtypes:
        raise RenderError(f"the target can load neither {node.dtype.name} nor {unsigned.name}")
    return UOp(node.op, unsigned, src, node.arg)


def _word(value: UOp, dtype: DType, words: dict[UOp, UOp]) -> UOp:
    known = words.get(value)
    return encode(value, dtype) if known is None else known


def _rounded(value: UOp, dtype: DType, words: dict[UOp, UOp]) -> UOp:
    """A float32 rounded to a value of `dtype`."""
    word = encode(value, dtype)
    result = decode(word, dtype)
    words[result] = word
    return result
