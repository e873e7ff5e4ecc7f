"""Arithmetic: a table from op and kind of dtype to LLVM instructions.

LLVM has poison or traps where the IR of tiny has values: those ops have functions that guard them. No
instruction carries fast-math flags, except that a MULACC without a fused instruction is a multiplication
and an addition marked `contract`.
"""

from __future__ import annotations

from collections.abc import Callable

from tiny_core.api import DType, Ops, RenderError, UOp, dtypes
from tiny_renderer_llvm import index
from tiny_renderer_llvm.function import Function
from tiny_renderer_llvm.types import constant, element, lanes_of, mangle, value_type, vector

COMPARE = frozenset({Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE})
Rule = Callable[[Function, UOp, str, list[str]], str]
"""(function, node, type of the operands, operands) to the name of the result."""


def kind_of(dtype: DType) -> str:
    return "float" if dtype.is_float else dtype.kind


def _simple(instruction: str) -> Rule:
    return lambda f, node, t, x: f.emit(f"{instruction} {t} {', '.join(x)}")


def _intrinsic(name: str) -> Rule:
    def rule(f: Function, node: UOp, t: str, x: list[str]) -> str:
        suffix = mangle(element(node.src[0].dtype), lanes_of(node.src[0]))
        return f.emit(f"call {t} @llvm.{name}.{suffix}({', '.join(f'{t} {a}' for a in x)})")

    return rule


def _integer(node: UOp) -> int | None:
    """Return the integer that `node` is in every lane, or None."""
    const = constant(node)
    return None if const is None else int(const.value)


def _bools(node: UOp) -> str:
    return vector("i1", lanes_of(node))


def _negate(f: Function, node: UOp, t: str, x: list[str]) -> str:
    return f.emit(f"sub {t} {f.filled(node, 0)}, {x[0]}")


def _complement(f: Function, node: UOp, t: str, x: list[str]) -> str:
    ones = "true" if node.dtype is dtypes.bool_ else "-1"
    return f.emit(f"xor {t} {x[0]}, {f.filled(node, ones)}")


def _reciprocal(f: Function, node: UOp, t: str, x: list[str]) -> str:
    return f.emit(f"fdiv {t} {f.filled(node, '1.0')}, {x[0]}")


# A shift by the width or more is poison. Where the amount is a constant below the width there is nothing to
# guard.


def _shift_left(f: Function, node: UOp, t: str, x: list[str], op: str = "shl") -> str:
    amount = _integer(node.src[1])
    shifted = f.emit(f"{op} {t} {x[0]}, {x[1]}")
    if amount is not None and 0 <= amount < node.dtype.bits:
        return shifted
    fits = f.emit(f"icmp ult {t} {x[1]}, {f.filled(node, node.dtype.bits)}")
    return f.emit(f"select {_bools(node)} {fits}, {t} {shifted}, {t} {f.filled(node, 0)}")


def _shift_right(f: Function, node: UOp, t: str, x: list[str]) -> str:
    return _shift_left(f, node, t, x, "lshr")


def _shift_right_signed(f: Function, node: UOp, t: str, x: list[str]) -> str:
    amount, widest = _integer(node.src[1]), f.filled(node, node.dtype.bits - 1)
    if amount is not None and 0 <= amount < node.dtype.bits:
        return f.emit(f"ashr {t} {x[0]}, {x[1]}")
    fits = f.emit(f"icmp ult {t} {x[1]}, {widest}")
    by = f.emit(f"select {_bools(node)} {fits}, {t} {x[1]}, {t} {widest}")
    return f.emit(f"ashr {t} {x[0]}, {by}")


# Division by zero, and of the least integer by -1, is undefined behaviour: such divisors become 1, and the
# result is chosen afterwards.


def _divide_unsigned(f: Function, node: UOp, t: str, x: list[str]) -> str:
    if _integer(node.src[1]):
        return f.emit(f"udiv {t} {x[0]}, {x[1]}")
    b, zero = _bools(node), f.filled(node, 0)
    bad = f.emit(f"icmp eq {t} {x[1]}, {zero}")
    by = f.emit(f"select {b} {bad}, {t} {f.filled(node, 1)}, {t} {x[1]}")
    quotient = f.emit(f"udiv {t} {x[0]}, {by}")
    return f.emit(f"select {b} {bad}, {t} {zero}, {t} {quotient}")


def _remainder_unsigned(f: Function, node: UOp, t: str, x: list[str]) -> str:
    if _integer(node.src[1]):
        return f.emit(f"urem {t} {x[0]}, {x[1]}")
    b = _bools(node)
    bad = f.emit(f"icmp eq {t} {x[1]}, {f.filled(node, 0)}")
    by = f.emit(f"select {b} {bad}, {t} {f.filled(node, 1)}, {t} {x[1]}")
    rest = f.emit(f"urem {t} {x[0]}, {by}")
    return f.emit(f"select {b} {bad}, {t} {x[0]}, {t} {rest}")


def _divide(f: Function, node: UOp, t: str, x: list[str]) -> str:
    divisor = _integer(node.src[1])
    if divisor not in (None, 0, -1):
        return f.emit(f"sdiv {t} {x[0]}, {x[1]}")
    if divisor == -1:
        return _negate(f, node, t, x)
    b, zero = _bools(node), f.filled(node, 0)
    none = f.emit(f"icmp eq {t} {x[1]}, {zero}")
    least = f.emit(f"icmp eq {t} {x[0]}, {f.filled(node, 1 << (node.dtype.bits - 1))}")
    minus = f.emit(f"icmp eq {t} {x[1]}, {f.filled(node, '-1')}")
    wraps = f.emit(f"and {b} {least}, {minus}")
    bad = f.emit(f"or {b} {none}, {wraps}")
    by = f.emit(f"select {b} {bad}, {t} {f.filled(node, 1)}, {t} {x[1]}")
    quotient = f.emit(f"sdiv {t} {x[0]}, {by}")
    return f.emit(f"select {b} {none}, {t} {zero}, {t} {quotient}")


def _remainder(f: Function, node: UOp, t: str, x: list[str]) -> str:
    if _integer(node.src[1]) not in (None, 0, -1):
        return f.emit(f"srem {t} {x[0]}, {x[1]}")
    b, zero, one = _bools(node), f.filled(node, 0), f.filled(node, 1)
    none = f.emit(f"icmp eq {t} {x[1]}, {zero}")
    above = f.emit(f"add {t} {x[1]}, {one}")
    bad = f.emit(f"icmp ult {t} {above}, {f.filled(node, 2)}")  # -1 or 0; x % 1 is x % -1
    by = f.emit(f"select {b} {bad}, {t} {one}, {t} {x[1]}")
    rest = f.emit(f"srem {t} {x[0]}, {by}")
    return f.emit(f"select {b} {none}, {t} {x[0]}, {t} {rest}")


# Of two zeros the greater is +0, so beside a constant other than -0 one comparison does: it keeps x where x
# is greater or NaN. (Least: the same with +0.) That is two instructions where the general form takes six on
# x86.


def _extremum(name: str, predicate: str, bad_zero: str) -> Rule:
    general = _intrinsic(name)

    def rule(f: Function, node: UOp, t: str, x: list[str]) -> str:
        for at in (1, 0):
            const = constant(node.src[at])
            if const is None or const.value != const.value or str(const.value) == bad_zero:
                continue
            other = x[1 - at]
            keep = f.emit(f"fcmp {predicate} {t} {other}, {x[at]}")
            return f.emit(f"select {_bools(node)} {keep}, {t} {other}, {t} {x[at]}")
        return general(f, node, t, x)

    return rule


def _where(f: Function, node: UOp, t: str, x: list[str]) -> str:
    t = value_type(node)
    return f.emit(f"select {_bools(node)} {x[0]}, {t} {x[1]}, {t} {x[2]}")


def _fused(f: Function, node: UOp, t: str, x: list[str]) -> str:
    if node.dtype in f.dialect.fma:
        return _intrinsic("fma")(f, node, t, x)
    product = f.emit(f"fmul contract {t} {x[0]}, {x[1]}")
    return f.emit(f"fadd contract {t} {product}, {x[2]}")


def _multiply_add(f: Function, node: UOp, t: str, x: list[str]) -> str:
    product = f.emit(f"mul {t} {x[0]}, {x[1]}")
    return f.emit(f"add {t} {product}, {x[2]}")


def _table() -> dict[tuple[Ops, str], Rule]:
    rules: dict[tuple[Ops, str], Rule] = {}
    floats: dict[Ops, Rule] = {
        Ops.NEG: _simple("fneg"), Ops.RECIP: _reciprocal, Ops.SQRT: _intrinsic("sqrt"),
        Ops.TRUNC: _intrinsic("trunc"), Ops.ADD: _simple("fadd"), Ops.SUB: _simple("fsub"),
        Ops.MUL: _simple("fmul"), Ops.DIV: _simple("fdiv"),
        Ops.MAX: _extremum("maximum", "ugt", "-0.0"), Ops.MIN: _extremum("minimum", "ult", "0.0"),
        # comparisons with NaN are false, but for "not equal"
        Ops.CMPLT: _simple("fcmp olt"), Ops.CMPLE: _simple("fcmp ole"), Ops.CMPEQ: _simple("fcmp oeq"),
        Ops.CMPNE: _simple("fcmp une"), Ops.WHERE: _where, Ops.MULACC: _fused,
    }  # fmt: skip
    ints: dict[Ops, Rule] = {
        Ops.NEG: _negate, Ops.NOT: _complement, Ops.ADD: _simple("add"), Ops.SUB: _simple("sub"),
        Ops.MUL: _simple("mul"), Ops.AND: _simple("and"), Ops.OR: _simple("or"), Ops.XOR: _simple("xor"),
        Ops.SHL: _shift_left, Ops.CMPEQ: _simple("icmp eq"), Ops.CMPNE: _simple("icmp ne"),
        Ops.WHERE: _where, Ops.MULACC: _multiply_add,
    }  # fmt: skip
    signed: dict[Ops, Rule] = {
        Ops.IDIV: _divide, Ops.IMOD: _remainder, Ops.SHR: _shift_right_signed, Ops.MAX: _intrinsic("smax"),
        Ops.MIN: _intrinsic("smin"), Ops.CMPLT: _simple("icmp slt"), Ops.CMPLE: _simple("icmp sle"),
    }  # fmt: skip
    unsigned: dict[Ops, Rule] = {
        Ops.IDIV: _divide_unsigned, Ops.IMOD: _remainder_unsigned, Ops.SHR: _shift_right, Ops.MAX:
        _intrinsic("umax"), Ops.MIN: _intrinsic("umin"), Ops.CMPLT: _simple("icmp ult"), Ops.CMPLE:
        _simple("icmp ule"),
    }  # fmt: skip
    bools: dict[Ops, Rule] = {
        Ops.NOT: _complement, Ops.ADD: _simple("or"), Ops.MUL: _simple("and"), Ops.MAX: _simple("or"),
        Ops.MIN: _simple("and"), Ops.AND: _simple("and"), Ops.OR: _simple("or"), Ops.XOR: _simple("xor"),
        Ops.CMPLT: _simple("icmp ult"), Ops.CMPLE: _simple("icmp ule"), Ops.CMPEQ: _simple("icmp eq"),
        Ops.CMPNE: _simple("icmp ne"), Ops.WHERE: _where,
    }  # fmt: skip
    for kind, table in (
        ("float", floats),
        ("int", ints | signed),
        ("uint", ints | unsigned),
        ("bool", bools),
    ):
        for op, rule in table.items():
            rules[op, kind] = rule
    return rules


RULES: dict[tuple[Ops, str], Rule] = _table()


def operand_dtype(node: UOp) -> DType:
    """Return the dtype by which an element-wise node is declared: of its first source, or of WHERE's
    choices."""
    return node.src[1 if node.op is Ops.WHERE else 0].dtype


def render(f: Function, node: UOp) -> str:
    """Write an element-wise node (other than CAST and BITCAST) and return its value.

    Raises:
        RenderError: an op that is not in the table.
    """
    dtype = operand_dtype(node)
    rule = RULES.get((node.op, kind_of(dtype)))
    if rule is None:
        raise RenderError(f"LLVM: no {node.op.value} of {dtype.name}")
    if dtype is dtypes.int32 and node.op in COMPARE and not node.shape:
        known = index.render_compare(f, node)
        if known is not None:
            return known
    x = [f.value(s) for s in node.src]
    if dtype is dtypes.float16 and not f.dialect.half_math and node.op is not Ops.WHERE:
        return _through_float(f, node, rule, x)
    return rule(f, node, value_type(node.src[0]), x)


def _through_float(f: Function, node: UOp, rule: Rule, x: list[str]) -> str:
    # f32 has more than twice the bits of f16 plus two, so rounding +, -, *, / and sqrt twice is rounding once
    # (Figueroa, "When is double rounding innocuous?", 1995)
    lanes = lanes_of(node)
    half, single = vector("half", lanes), vector("float", lanes)
    wide = node.replace(tuple(s.cast(dtypes.float32) for s in node.src))
    wide = UOp(node.op, dtypes.float32 if node.dtype is dtypes.float16 else node.dtype, wide.src, node.arg)
    x = [f.emit(f"fpext {half} {a} to {single}") for a in x]
    result = rule(f, wide, single, x)
    return f.emit(f"fptrunc {single} {result} to {half}") if node.dtype is dtypes.float16 else result
