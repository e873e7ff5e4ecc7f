"""What precedes a C kernel: the types and the small functions that it uses, each written once, on demand.

Element types are named `i8 … u64`, `f16`, `f32`, `f64`; `f16` is an unsigned 16-bit integer that holds the
bits, since arithmetic on it happens in f32. A vector type is `f32x16`. A bool is a `u8` holding 0 or 1; a
vector of bools is a vector of signed integers holding 0 or -1 (a mask), as wide as what was compared.
Functions have one name per type, `t_max_f32x16`; they give the IR its total semantics, and none of them reads
or writes memory that its mask forbids.
"""

from __future__ import annotations

import math
import re

from tiny_core.api import DType

Number = bool | int | float

SCALARS = {
    "bool": "u8", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32",
    "uint32": "u32", "int64": "i64", "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64",
}  # fmt: skip
_TYPEDEFS = """\
typedef __INT8_TYPE__ i8; typedef __INT16_TYPE__ i16; typedef __INT32_TYPE__ i32; typedef __INT64_TYPE__ i64;
typedef __UINT8_TYPE__ u8; typedef __UINT16_TYPE__ u16; typedef __UINT32_TYPE__ u32; typedef __UINT64_TYPE__
u64; typedef __UINT16_TYPE__ f16; typedef float f32; typedef double f64;
"""


def width(elem: str) -> int:
    """Return the bytes of an element type."""
    return int(elem[1:]) // 8


def integer(elem: str, signed: bool = True) -> str:
    """Return the integer type as wide as `elem`."""
    return ("i" if signed else "u") + elem[1:]


def name_of(elem: str, lanes: int) -> str:
    return f"{elem}x{lanes}" if lanes else elem


def literal(value: Number, dtype: DType, bits: int) -> str:
    """Return a number as a C expression with exactly its bit pattern; bracketed where it begins with a
    sign."""
    elem = SCALARS[dtype.name]
    if elem == "f16":
        return f"0x{bits:04x}"
    if elem in ("f32", "f64"):
        number, suffix = float(value), "f" if elem == "f32" else ""
        if math.isnan(number):
            return f'__builtin_nan{suffix}("")'
        if number in (math.inf, -math.inf):
            return f"__builtin_inf{suffix}()" if number > 0 else f"(-__builtin_inf{suffix}())"
        text = re.sub(r"\.?0+p", "p", number.hex()) + suffix
        return f"({text})" if text[0] == "-" else text
    number = int(value)
    suffix = {"i64": "L", "u64": "UL", "u32": "U"}.get(elem, "")
    if number == dtype.min and number < 0:
        return f"({number + 1}{suffix} - 1)"
    return f"({number}{suffix})" if number < 0 else f"{number}{suffix}"


class Prelude:
    """Collects the types and functions of one kernel.

    Args:
        features: names of the features that may be used.
        machine: architecture name.
    """

    def __init__(self, features: frozenset[str], machine: str) -> None:
        self.features, self.machine = features, machine
        self.avx512 = features >= {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
        self._types: dict[str, str] = {}
        self._functions: dict[str, str] = {}

    def text(self) -> str:
        return "\n".join((_TYPEDEFS + "\n".join(self._types.values()), *self._functions.values()))

    def type(self, elem: str, lanes: int, align: int = 0) -> str:
        """Return the name of a type; with `align`, of one for memory of that alignment and any declared
        type."""
        name = name_of(elem, lanes)
        size = width(elem) * max(lanes, 1)
        if align:
            align = min(align, size)
            name = f"{name}_a{align}"
        if (lanes or align) and name not in self._types:
            traits = f"vector_size({size})" if lanes else ""
            traits += f"{', ' if lanes else ''}aligned({align}), may_alias" if align else ""
            self._types[name] = f"typedef {elem} {name} __attribute__(({traits}));"
        return name

    def function(self, kind: str, elem: str, lanes: int = 0, to: str = "") -> str:
        """Return the name of a function, adding it (and what it needs) to the text."""
        name = f"t_{kind}_{to + '_' if to else ''}{name_of(elem, lanes)}"
        if name not in self._functions:
            if lanes:
                self.type(elem, lanes)
                self.type(integer(elem), lanes)
            result, parameters, body = self._body(kind, elem, lanes, to)
            self._functions[name] = (
                f"static inline __attribute__((always_inline)) {result} {name}({parameters}) {{\n{body}\n}}"
            )
        return name

    def _body(self, kind: str, elem: str, lanes: int, to: str) -> tuple[str, str, str]:
        """Return result type, parameters and body."""
        t = name_of(elem, lanes)
        match kind:
            case "splat":
                return t, f"{elem} x", f"  return ({t}){{{', '.join('x' * lanes)}}};"
            case "sel":
                i = self.type(integer(elem), lanes)
                return t, f"{i} m, {t} x, {t} y", f"  return ({t})((m & ({i})x) | (~m & ({i})y));"
            case "sqrt" | "trunc":
                scalar = f"__builtin_{kind}{'f' if elem == 'f32' else ''}"
                return t, f"{t} x", _lanewise(t, lanes, f"__builtin_elementwise_{kind}", scalar, "x")
            case "fma":
                scalar = f"__builtin_fma{'f' if elem == 'f32' else ''}"
                body = _lanewise(t, lanes, "__builtin_elementwise_fma", scalar, "xyz")
                return t, f"{t} x, {t} y, {t} z", body
            case "max" | "min":
                return t, f"{t} x, {t} y", self._extreme(kind == "max", elem, lanes)
            case "maxc" | "minc":
                test = f"x {'<=' if kind == 'maxc' else '>='} y"
                if not lanes:
                    return t, f"{t} x, {t} y", f"  return {test} ? y : x;"
                choose = self.function("sel", elem, lanes)
                return (
                    t,
                    f"{t} x, {t} y",
                    f"  return {choose}(({name_of(integer(elem), lanes)})({test}), y, x);",
                )
            case "idiv" | "imod":
                return t, f"{t} x, {t} y", self._divide(kind == "idiv", elem, lanes)
            case "shl" | "shr":
                return t, f"{t} x, {t} y", self._shift(kind == "shl", elem, lanes)
            case "to":
                return self.type(to, lanes), f"{t} x", self._to_integer(elem, lanes, to)
            case "widen":
                return self.type("f32", lanes), f"{t} x", self._widen(lanes)
            case "narrow":
                return self.type("f16", lanes), f"{t} x", self._narrow(lanes)
            case "odd":
                return self.type("f32", lanes), f"{t} x", self._round_to_odd(lanes)
            case "load":
                mask = name_of(integer(elem), lanes)
                return t, f"const {elem} *p, {mask} m, {t} other", self._masked_load(elem, lanes)
            case "store":
                mask = name_of(integer(elem), lanes)
                return "void", f"{elem} *p, {mask} m, {t} x", self._masked_store(elem, lanes)
        raise AssertionError(kind)

    def _extreme(self, greatest: bool, elem: str, lanes: int) -> str:
        """NaN if either is; of two zeros the one with the wanted sign (AND or OR of equal values)."""
        sign = ">" if greatest else "<"
        if not lanes:
            # of two zeros: -0.0 + 0.0 is 0.0, and the negated sum of the negated is -0.0 if one is
            zero = "x + y" if greatest else "-(-x + -y)"
            return f"  return x {sign} y || x != x ? x : x != y ? y : x == 0 ? {zero} : x;"
        i, t, choose = name_of(integer(elem), lanes), name_of(elem, lanes), self.function("sel", elem, lanes)
        both = f"({t})(({i})x {'&' if greatest else '|'} ({i})y)"
        return (
            f"  {t} r = {choose}(({i})(x {sign} y) | ({i})(x != x), x, y);\n"
            f"  return {choose}(({i})(x == y), {both}, r);"
        )

    def _divide(self, quotient: bool, elem: str, lanes: int) -> str:
        """x/0 = 0 and x%0 = x; the least value by -1 wraps. Division by 0 and by -1 may trap, so neither
        happens."""
        signed = elem[0] == "i"
        if not lanes:
            if quotient:
                special = f"y == -1 ? ({elem})(0 - x) : " if signed else ""
                return f"  return y == 0 ? 0 : {special}({elem})(x / y);"
            special = "y == -1 ? 0 : " if signed else ""
            return f"  return y == 0 ? x : {special}({elem})(x % y);"
        t = name_of(elem, lanes)
        special = f"{t} zero = ({t})(y == 0);"
        if signed:
            special += f"\n  {t} minus = ({t})(y == ({elem})-1), both = zero | minus;"
        both = "both" if signed else "zero"
        if quotient:
            result = f"((x / d) & ~{both})" + (" | ((0 - x) & minus)" if signed else "")
        else:
            result = "(x % d) | (x & zero)"
        return f"  {special}\n  {t} d = (y & ~{both}) | ({both} & ({elem})1);\n  return {result};"

    def _shift(self, left: bool, elem: str, lanes: int) -> str:
        """A count outside 0 … width-1 gives 0, or the sign."""
        bits, u = width(elem) * 8, name_of(integer(elem, False), lanes)
        t = name_of(elem, lanes)
        if lanes:
            self.type(integer(elem, False), lanes)
        unsigned = integer(elem, False)
        limit, last = f"({unsigned}){bits}", f"({unsigned}){bits - 1}"
        if not lanes:
            if left:
                return f"  return ({u})y < {bits} ? ({t})(({u})x << y) : 0;"
            rest = "x < 0 ? -1 : 0" if elem[0] == "i" else "0"
            return f"  return ({u})y < {bits} ? ({t})(x >> y) : ({t})({rest});"
        lines = [f"  {u} inside = ({u})(({u})y < {limit}), count = ({u})y & {last};"]
        if left:
            lines.append(f"  return ({t})((({u})x << count) & inside);")
        elif elem[0] == "u":
            lines.append("  return (x >> count) & inside;")
        else:
            lines.append(f"  return x >> ({t})((count & inside) | (~inside & {last}));")
        return "\n".join(lines)

    def _to_integer(self, elem: str, lanes: int, to: str) -> str:
        """Saturate; NaN gives 0. Only values in range are ever converted."""
        bits, suffix = width(to) * 8, "f" if elem == "f32" else ""
        signed = to[0] == "i"
        high = f"0x1p{bits - signed}{suffix}"
        low = f"-0x1p{bits - 1}{suffix}" if signed else f"0x0p0{suffix}"
        most = f"({to}){hex((1 << (bits - signed)) - 1)}{'UL' if bits == 64 else 'U'}"
        least = f"({to})(1UL << {bits - 1})" if signed else f"({to})0"
        step = "i32" if bits < 32 else to
        if not lanes:
            inside = f"x > {low} ? ({to})({step})x : x <= {low} ? {least} : ({to})0"
            return f"  return x >= {high} ? {most} : {inside};"
        i, t = name_of(integer(elem), lanes), name_of(elem, lanes)
        w, r, s = self.type(integer(to), lanes), self.type(to, lanes), self.type(step, lanes)
        wide = integer(to)
        return (
            f"  {t} in = ({t})(({i})x & ({i})(x > {low}) & ({i})(x < {high}));\n"
            f"  {w} value = ({w})__builtin_convertvector(__builtin_convertvector(in, {s}), {r});\n"
            f"  {w} above = __builtin_convertvector(({i})(x >= {high}), {w});\n"
            f"  {w} below = __builtin_convertvector(({i})(x <= {low}), {w});\n"
            f"  return ({r})(value | (above & ({wide}){most}) | (below & ({wide}){least}));"
        )

    def _widen(self, lanes: int) -> str:
        if self.machine != "x86_64":
            return _native_half("f32", lanes, widen=True)
        full = {8: "__builtin_ia32_vcvtph2ps256((i16x8)x)",
                16: "__builtin_ia32_vcvtph2ps512_mask((i16x16)x, (f32x16){0}, (u16)-1, 4)"}  # fmt: skip
        if lanes in full:
            self.type("i16", lanes)
            return f"  return {full[lanes]};"
        self.type("i16", 8)
        self.type("f32", 4)
        if not lanes:
            return "  return __builtin_ia32_vcvtph2ps((i16x8){(i16)x})[0];"
        eight = f"(i16x8)__builtin_shufflevector(x, x, {', '.join(str(i % lanes) for i in range(8))})"
        four = f"__builtin_ia32_vcvtph2ps({eight})"
        return f"  return {four if lanes == 4 else f'__builtin_shufflevector({four}, {four}, 0, 1)'};"

    def _narrow(self, lanes: int) -> str:
        if self.machine != "x86_64":
            return _native_half("f32", lanes, widen=False)
        full = {8: "(f16x8)__builtin_ia32_vcvtps2ph256(x, 0)",
                16: "(f16x16)__builtin_ia32_vcvtps2ph512_mask(x, 0, (i16x16){0}, (u16)-1)"}  # fmt: skip
        self.type("i16", lanes if lanes in full else 8)
        if lanes in full:
            return f"  return {full[lanes]};"
        self.type("f32", 4)
        if not lanes:
            return "  return (u16)((i16x8)__builtin_ia32_vcvtps2ph((f32x4){x}, 0))[0];"
        four = "x" if lanes == 4 else "__builtin_shufflevector(x, x, 0, 1, 0, 1)"
        eight = f"(i16x8)__builtin_ia32_vcvtps2ph({four}, 0)"
        picks = ", ".join(map(str, range(lanes)))
        return f"  return (f16x{lanes})__builtin_shufflevector({eight}, {eight}, {picks});"

    def _round_to_odd(self, lanes: int) -> str:
        """f64 to f32, inexact results with an odd last bit: a later rounding to f16 then is the only one
        (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008)."""
        if not lanes:
            return (
                "  union { f32 f; u32 u; } r = {(f32)x};\n"
                "  f64 back = r.f;\n"
                "  if (back == x) return r.f;\n"
                "  if (__builtin_fabs(back) > __builtin_fabs(x)) r.u -= 1;\n"
                "  r.u |= 1;\n"
                "  return r.f;"
            )
        d, i = self.type("f64", lanes), self.type("i64", lanes)
        f, n = self.type("f32", lanes), self.type("i32", lanes)
        size = "0x7fffffffffffffffL"  # without the sign, floats order as integers do
        return (
            f"  {f} r = __builtin_convertvector(x, {f});\n"
            f"  {d} back = __builtin_convertvector(r, {d});\n"
            f"  {i} past = ({i})((({i})back & {size}) > (({i})x & {size}));\n"
            f"  {i} inexact = ({i})(back != x);\n"
            f"  {n} bits = ({n})r + __builtin_convertvector(past & inexact, {n});\n"
            f"  return ({f})(bits | (__builtin_convertvector(inexact, {n}) & 1));"
        )

    def _masked_load(self, elem: str, lanes: int) -> str:
        t, i, size = name_of(elem, lanes), name_of(integer(elem), lanes), width(elem)
        lines = [f"  {t} r = other;"]
        lines += [f"  if (m[{k}]) r[{k}] = p[{k}];" for k in range(lanes)]
        plain = "\n".join([*lines, "  return r;"])
        total = size * lanes
        if self.avx512 and total in (16, 32, 64):
            builtin = f"__builtin_ia32_loaddqu{_LETTERS[size]}{total * 8}_mask"
            whole = f"  return ({t}){builtin}((const void *)p, ({i})other, {_bits(size, total)}(m));"
            return _if_builtin(builtin, whole, plain)
        if "avx2" in self.features and total in (16, 32) and size in (4, 8):
            builtin = f"__builtin_ia32_maskload{'d' if size == 4 else 'q'}{256 if total == 32 else ''}"
            choose = self.function("sel", elem, lanes)
            return _if_builtin(
                builtin,
                f"  return {choose}(m, ({t}){builtin}((const void *)p, {_avx2(size, total)}m), other);",
                plain,
            )
        return plain

    def _masked_store(self, elem: str, lanes: int) -> str:
        i, size = name_of(integer(elem), lanes), width(elem)
        plain = "\n".join(f"  if (m[{k}]) p[{k}] = x[{k}];" for k in range(lanes))
        total = size * lanes
        if self.avx512 and total in (16, 32, 64):
            builtin = f"__builtin_ia32_storedqu{_LETTERS[size]}{total * 8}_mask"
            return _if_builtin(builtin, f"  {builtin}((void *)p, ({i})x, {_bits(size, total)}(m));", plain)
        if "avx2" in self.features and total in (16, 32) and size in (4, 8):
            builtin = f"__builtin_ia32_maskstore{'d' if size == 4 else 'q'}{256 if total == 32 else ''}"
            cast = _avx2(size, total)
            return _if_builtin(builtin, f"  {builtin}((void *)p, {cast}m, {cast}x);", plain)
        return plain


_LETTERS = {1: "qi", 2: "hi", 4: "si", 8: "di"}  # of integer vector loads, by bytes of an element


def _bits(size: int, total: int) -> str:
    """The builtin that gathers the lanes' signs into a mask register."""
    return f"__builtin_ia32_cvt{ {1: 'b', 2: 'w', 4: 'd', 8: 'q'}[size] }2mask{total * 8}"


def _avx2(size: int, total: int) -> str:
    return f"(i{size * 8}x{total // size})"


def _if_builtin(builtin: str, whole: str, plain: str) -> str:
    return f"#if __has_builtin({builtin})\n{whole}\n#else\n{plain}\n#endif"


def _lanewise(t: str, lanes: int, whole: str, scalar: str, operands: str) -> str:
    """A function over all lanes: clang has a builtin, gcc joins the lanes' builtins to one instruction."""
    if not lanes:
        return f"  return {scalar}({', '.join(operands)});"
    each = ", ".join(f"{scalar}({', '.join(f'{o}[{k}]' for o in operands)})" for k in range(lanes))
    return _if_builtin(whole, f"  return {whole}({', '.join(operands)});", f"  return ({t}){{{each}}};")


def _native_half(elem: str, lanes: int, widen: bool) -> str:
    """Conversions of targets with half-precision registers."""
    if not lanes:
        if widen:
            return "  union { u16 u; _Float16 h; } r = {.u = x};\n  return (f32)r.h;"
        return "  union { u16 u; _Float16 h; } r = {.h = (_Float16)x};\n  return r.u;"
    half = f"  typedef _Float16 half __attribute__((vector_size({2 * lanes})));\n"
    if widen:
        return half + f"  return __builtin_convertvector((half)x, f32x{lanes});"
    return half + f"  return (f16x{lanes})__builtin_convertvector(x, half);"
