"""CAST and BITCAST: every conversion is total and rounds once."""

from __future__ import annotations

from tiny_core.api import DType, UOp, dtypes
from tiny_renderer_llvm.function import Function
from tiny_renderer_llvm.types import element, lanes_of, mangle, same, vector

_HALF = dtypes.float16
_LOST = 29  # mantissa bits of f64 that f32 has no room for


def render_cast(f: Function, node: UOp) -> str:
    """Write the CAST `node` and return its value."""
    x = node.src[0]
    if x.dtype is dtypes.int32 and node.dtype is dtypes.int64 and not node.shape:
        return f.wide(x)
    return convert(f, f.value(x), x.dtype, node.dtype, lanes_of(node))


def render_bitcast(f: Function, node: UOp) -> str:
    """Write the BITCAST `node` and return its value."""
    x, lanes, value = node.src[0], lanes_of(node), f.value(node.src[0])
    if dtypes.bool_ in (x.dtype, node.dtype):
        return convert(
            f, value, x.dtype, node.dtype, lanes
        )  # a bool is one bit in a value and a byte in memory
    of, to = element(x.dtype), element(node.dtype)
    return value if of == to else f.emit(f"bitcast {vector(of, lanes)} {value} to {vector(to, lanes)}")


def convert(f: Function, value: str, of: DType, to: DType, lanes: int) -> str:
    """Write the conversion of `value` from dtype `of` to dtype `to` and return the result."""
    if of is to:
        return value
    t, r = vector(element(of), lanes), vector(element(to), lanes)
    match of.kind, to.kind:
        case "bool", "float":
            one = same("1.0", element(to), lanes)
            zero = same("0.0", element(to), lanes)
            return f.emit(f"select {t} {value}, {r} {one}, {r} {zero}")
        case "bool", _:
            return f.emit(f"zext {t} {value} to {r}")
        case "float", "bool":
            if of is _HALF and not f.dialect.half_math:
                return convert(f, convert(f, value, of, dtypes.float32, lanes), dtypes.float32, to, lanes)
            return f.emit(f"fcmp une {t} {value}, {same('0.0', element(of), lanes)}")
        case _, "bool":
            return f.emit(f"icmp ne {t} {value}, {same('0', element(of), lanes)}")
        case "float", "float":
            return _between_floats(f, value, of, to, lanes)
        case "float", _:
            return _to_integer(f, value, of, to, lanes)
        case _, "float":
            return _from_integer(f, value, of, to, lanes)
    if of.bits == to.bits:
        return value
    how = "trunc" if of.bits > to.bits else "zext" if of.is_unsigned else "sext"
    return f.emit(f"{how} {t} {value} to {r}")


def _between_floats(f: Function, value: str, of: DType, to: DType, lanes: int) -> str:
    t, r, single = (vector(element(d), lanes) for d in (of, to, dtypes.float32))
    if _HALF not in (of, to) or of is dtypes.float32 or to is dtypes.float32 or f.dialect.half_from_double:
        return f.emit(f"{'fptrunc' if of.bits > to.bits else 'fpext'} {t} {value} to {r}")
    if of is _HALF:
        return f.emit(f"fpext {single} {f.emit(f'fpext {t} {value} to {single}')} to {r}")
    # f64 to f16 through f32 would round twice. Rounding to odd first (a 1 in the last place that f32 keeps
    # stands for all that is lost) makes the second rounding the right one (Boldo and Melquiond, 2008); the
    # values that f32 cannot hold are infinities or zeros in f16 anyway.
    wide = vector("i64", lanes)
    bits = f.emit(f"bitcast {t} {value} to {wide}")
    low = f.emit(f"and {wide} {bits}, {same(str((1 << _LOST) - 1), 'i64', lanes)}")
    lost = f.emit(f"icmp ne {wide} {low}, {same('0', 'i64', lanes)}")
    sticky = f.emit(
        f"select {vector('i1', lanes)} {lost}, {wide} {same(str(1 << _LOST), 'i64', lanes)}, {wide} "
        f"{same('0', 'i64', lanes)}"
    )
    high = f.emit(f"and {wide} {bits}, {same(str(-(1 << _LOST)), 'i64', lanes)}")
    odd = f.emit(f"bitcast {wide} {f.emit(f'or {wide} {high}, {sticky}')} to {t}")
    return f.emit(f"fptrunc {single} {f.emit(f'fptrunc {t} {odd} to {single}')} to {r}")


def _to_integer(f: Function, value: str, of: DType, to: DType, lanes: int) -> str:
    if of is _HALF:
        # f32 holds every f16; and LLVM 22 forgets NaN in fptosi.sat from half to i16 under AVX512-FP16
        value, of = convert(f, value, of, dtypes.float32, lanes), dtypes.float32
    t, r = vector(element(of), lanes), vector(element(to), lanes)
    how = "fptoui" if to.is_unsigned else "fptosi"
    name = f"@llvm.{how}.sat.{mangle(element(to), lanes)}.{mangle(element(of), lanes)}"
    return f.emit(f"call {r} {name}({t} {value})")


def _from_integer(f: Function, value: str, of: DType, to: DType, lanes: int) -> str:
    t, r = vector(element(of), lanes), vector(element(to), lanes)
    how = "uitofp" if of.is_unsigned else "sitofp"
    if to is _HALF and not f.dialect.half_math:
        # through f32: every integer below f16's overflow is exact there
        single = vector("float", lanes)
        return f.emit(f"fptrunc {single} {f.emit(f'{how} {t} {value} to {single}')} to {r}")
    return f.emit(f"{how} {t} {value} to {r}")
