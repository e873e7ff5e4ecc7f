"""Every op of the IR, a sentence each.

Stages in brackets: t = tensor graph, k = kernel (ranges and reductions), o = loops (expanded graph with
registers and explicit loops, not yet ordered), l = linear (ordered list, the renderer's contract). Semantics
are total: no op traps, and the PYTHON device is the definition. Sources are listed in order; `?` marks
optional ones.

The set is closed: what a target adds is `TARGET` with a descriptor owned by a plugin.
"""

from __future__ import annotations

from enum import Enum


class Ops(Enum):
    """Operations. The value is the name used in the text form."""

    # leaves
    CONST = "const"  # [t k o l] a number; payload Const holds dtype and bit pattern, so 0.0 is not -0.0
    BUFFER = (
        "buffer"  # [t] storage of a device; [k o l] near memory or registers of a kernel. Payload Storage
    )
    PARAM = "param"  # [k o l] a buffer handed to a kernel; [t] inside a CALL. Payload Param
    VARIABLE = "variable"  # [t k o l] an integer known at launch, within bounds. Payload Variable
    IOTA = "iota"  # [t] the numbers 0 … n-1, shape (n,). Payload Iota

    # loops
    RANGE = "range"  # [k o l] (size) an axis: the index that runs from 0 to size-1. Payload Range
    END = "end"  # [o l] (range, effect…) closes the loop of range after the effects
    SPECIAL = (
        "special"  # [o l] (size) index of the work-group or work-item along a dimension. Payload Special
    )

    # unary
    NEG = "neg"  # -x; wraps for integers
    RECIP = "recip"  # 1/x, floats
    SQRT = "sqrt"  # square root, correctly rounded; NaN below zero
    EXP2 = "exp2"  # 2**x
    LOG2 = "log2"  # logarithm to base 2; -inf at 0, NaN below
    SIN = "sin"  # sine of radians
    TRUNC = "trunc"  # round toward zero, floats
    NOT = "not"  # bitwise complement; logical for bool

    # binary, both operands of one dtype and shape
    ADD = "add"  # wraps for integers, or for bool
    SUB = "sub"
    MUL = "mul"  # wraps for integers, and for bool
    DIV = "div"  # float division
    IDIV = "idiv"  # integer division toward zero; x/0 = 0; INT_MIN/-1 wraps
    IMOD = "imod"  # remainder with the sign of x; x%0 = x
    FLOORDIV = "floordiv"  # integer division toward -inf; x//0 = 0
    FLOORMOD = "floormod"  # x - floordiv(x, y)*y; x%0 = x
    POW = "pow"  # x**y, floats
    MAX = "max"  # greater of two; NaN if either is; max(-0.0, 0.0) is 0.0
    MIN = "min"  # lesser of two; NaN if either is; min(-0.0, 0.0) is -0.0
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHL = "shl"  # shift by >= width gives 0
    SHR = "shr"  # logical for unsigned, arithmetic for signed; a shift >= width gives 0, or the sign
    CMPLT = "cmplt"  # to bool; false with NaN
    CMPLE = "cmple"  # to bool; false with NaN
    CMPEQ = "cmpeq"  # to bool; false with NaN
    CMPNE = "cmpne"  # to bool; true with NaN
    THREEFRY = "threefry"  # (counter, key) uint64: Threefry-2x32-20 (Salmon et al., SC 2011), low word first

    # ternary
    WHERE = "where"  # (condition, x, y): x where the condition holds, else y
    MULACC = (
        "mulacc"  # (x, y, z): x*y+z, fused where the target can; made only for accumulators of reductions
    )

    # conversion
    CAST = "cast"  # to the dtype: integers wrap, floats round to even, float to int saturates, NaN to 0
    BITCAST = "bitcast"  # the same bits under another dtype of equal width

    # values made of lanes
    STACK = "stack"  # [o l] (x…) n scalars to a value of n lanes
    INDEX = "index"  # [o l] (x) one lane of x. Payload Lane
    SHUFFLE = "shuffle"  # [o l] (x…) lanes picked from the concatenation of the sources. Payload Shuffle

    # of several work-items together
    MATRIX = "matrix"  # [o l] (a, b, c, factors…) a·b + c, each lane its fragment. Payload MatrixUnit

    # movement: views of an array, never run; each is a function from output indices to input indices
    RESHAPE = "reshape"  # [t] same elements in row-major order. Payload Shape
    EXPAND = "expand"  # [t] broadcast to a shape (numpy's rule: new axes lead). Payload Shape
    PERMUTE = "permute"  # [t] output axis i is input axis payload[i]. Payload Axes
    PAD = "pad"  # [t] zeros (False) before and after each axis. Payload Bounds of (before, after)
    SHRINK = "shrink"  # [t] a part of each axis. Payload Bounds of (begin, end)
    FLIP = "flip"  # [t] reverse axes. Payload Axes
    SHEAR = (
        "shear"  # [t] out[…o…j…] = x[…o*stride + j*dilation…j…]. Payload Shear; windows and strided slices
    )
    UNSHEAR = "unshear"  # [t] SHEAR's adjoint: out[…i…j…] = x[…(i - j*dilation)/stride…j…] or 0
    GATHER = "gather"  # [t] (x, i…) leading axes indexed by integer tensors of one shape; 0 out of range

    # reductions
    REDUCE = "reduce"  # [t] (x) over axes, which disappear; [k] (x, range…) over ranges. Payload Reduce

    # memory; buf is a PARAM or BUFFER, possibly under AFTER
    LOAD = "load"  # [k o l] (buf, index, gate?, alternative?). Payload Access. Gated off: no memory touched
    STORE = "store"  # [k o l] (buf, index, value, gate?). Payload Access; [t] (view, value) without payload
    COPY = "copy"  # [t] (x) the same value on another device. Payload Copy

    # order
    AFTER = "after"  # [t k o l] (x, effect…) x, once the effects have happened; the only ordering edge
    BARRIER = "barrier"  # [o l] (effect…) all items of the group are here and see each other's near memory

    # structure
    SINK = "sink"  # [t] (x…) what to compute; [k o] (store…) a kernel. Payload KernelInfo for kernels
    LINEAR = "linear"  # [l] (node…) every node of a kernel in execution order. Payload KernelInfo
    CALL = "call"  # [t] (body, argument…) a kernel (SINK) or copy run on buffers
    CONTIGUOUS = "contiguous"  # [t] (x) x in storage of its own
    DETACH = "detach"  # [t] (x) x, through which no gradient flows

    # the open edge
    TARGET = "target"  # [k o l] an operation that a plugin describes. Payload TargetOp

    # members are singletons: hash by identity in C, where Enum's own method is Python and on every rewriting
    # path
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Ops.{self.name}"


UNARY = frozenset({Ops.NEG, Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC, Ops.NOT})
COMPARE = frozenset({Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE})
BINARY = COMPARE | {
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.DIV, Ops.IDIV, Ops.IMOD, Ops.FLOORDIV, Ops.FLOORMOD, Ops.POW,
    Ops.MAX, Ops.MIN, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.THREEFRY,
}  # fmt: skip
TERNARY = frozenset({Ops.WHERE, Ops.MULACC})
CONVERT = frozenset({Ops.CAST, Ops.BITCAST})
ALU = UNARY | BINARY | TERNARY
ELEMENTWISE = ALU | CONVERT
COMMUTATIVE = frozenset({Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPEQ, Ops.CMPNE})
MOVEMENT = frozenset(
    {Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.PAD, Ops.SHRINK, Ops.FLIP, Ops.SHEAR, Ops.UNSHEAR}
)
REDUCTIONS = frozenset({Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN})
EFFECTS = frozenset({Ops.STORE, Ops.END, Ops.BARRIER})
