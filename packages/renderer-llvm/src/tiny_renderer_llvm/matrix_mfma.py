"""MFMA of CDNA3 and CDNA4, issued by the 64 lanes of a wave.

Layouts: "AMD Instinct MI300 Instruction Set Architecture" and "CDNA4 Instruction Set Architecture", chapter 7
(matrix arithmetic instructions), AMD's matrix instruction calculator (CDNA3), and ROCm's "Matrix Core
Programming on AMD CDNA3 and CDNA4 architecture" (which elements a lane holds of 8-bit and 4-bit operands of
64 and 128 elements of k, and cycles of CDNA4). Signatures of the intrinsics: LLVM's tests
`CodeGen/AMDGPU/llvm.amdgcn.mfma.*.ll`. Instructions that multiply several blocks at once are left out.

fp8 and bf8 are the types without negative zero on CDNA3, and those of the OCP on CDNA4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tiny_core.api import Digit, DType, Fragment, MatrixUnit, dtypes
from tiny_renderer_llvm.matrix import Instruction

_F16, _BF16, _F32, _F64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
_FNUZ = {"fp8": dtypes.float8_e4m3fnuz, "bf8": dtypes.float8_e5m2fnuz}
_OCP = {"fp8": dtypes.float8_e4m3, "bf8": dtypes.float8_e5m2}
_SIZES = (16, 32)  # m and n
_ACCUMULATORS = 256  # registers of 32 bits beside the ordinary ones


def _digits(text: str) -> tuple[Digit, ...]:
    return Fragment.parse(f"int8x1:{text}|").lanes


def _side(axis: str, size: int, dtype: DType, each: int) -> Fragment:
    """A or B: a lane for each row, and groups of lanes for `each` neighbours along k."""
    groups = 64 // size
    k = f"k{groups}@{each}" if each > 1 else f"k{groups}"
    return Fragment(dtype, each, _digits(f"{axis}{size}.{k}"), _digits(f"k{each}" if each > 1 else ""))


def _total(size: int, dtype: DType) -> Fragment:
    """C: a lane for each column; groups of lanes for four neighbouring rows, or every fourth (float64)."""
    if dtype is _F64:
        return Fragment(dtype, 4, _digits("n16.m4"), _digits("m4@4"))
    if size == 16:
        return Fragment(dtype, 4, _digits("n16.m4@4"), _digits("m4"))
    return Fragment(dtype, 16, _digits("n32.m2@4"), _digits("m4.m4@8"))


def _unit(name: str, size: int, a: Fragment, b: Fragment, c: DType, cycles: int) -> MatrixUnit:
    total = _total(size, c)
    k, held = a.extent("k"), _ACCUMULATORS // (total.width * c.itemsize // 4)
    return MatrixUnit(name, size, size, k, 64, a, b, total, accumulators=held, cycles=cycles)


def _mfma(
    size: int, what: str, given: tuple[DType, DType], c: DType, each: int, call: str, t: str, cycles: int = 0
) -> Instruction:  # fmt: skip
    """One instruction: of `each` elements along k in a lane, asked for as `call` with operands of type t; it
    takes as many cycles as it has rows, or as said."""
    a, b = _side("m", size, given[0], each), _side("n", size, given[1], each)
    out = {_F32: "f32", _F64: "f64"}.get(c, "i32")
    cycles = cycles or size
    unit = _unit(f"mfma_{out}_{size}x{size}x{a.extent('k')}_{what}", size, a, b, c, cycles)
    of = {_F32: "float", _F64: "double"}.get(c, "i32")
    shape = f"{size}x{size}x{unit.k}"
    return Instruction(
        unit, f"mfma.{out}.{call.format(shape=shape)}", t, t, f"<{unit.c.width} x {of}>", "mfma"
    )


def _common(eights: dict[str, DType], doubles: int) -> Iterator[Instruction]:
    """What CDNA3 and CDNA4 share, but for the cycles that float64 takes."""
    for size in _SIZES:
        yield _mfma(size, "f16", (_F16, _F16), _F32, 4, "{shape}f16", "<4 x half>")
        yield _mfma(size, "bf16", (_BF16, _BF16), _F32, 4, "{shape}bf16.1k", "<4 x i16>")
        yield _mfma(size, "f32", (_F32, _F32), _F32, 1, "{shape}f32", "float", 2 * size)
        yield _mfma(size, "i8", (dtypes.int8, dtypes.int8), dtypes.int32, 8, "{shape}.i8", "i64")
        for x, left in eights.items():
            for y, right in eights.items():
                yield _mfma(size, f"{x}_{y}", (left, right), _F32, 8, f"{{shape}}.{x}.{y}", "i64")
    yield _mfma(16, "f64", (_F64, _F64), _F64, 1, "{shape}f64", "double", doubles)


def cdna3() -> Iterator[Instruction]:
    """Instructions of gfx942."""
    yield from _common(_FNUZ, 32)
    for size in _SIZES:
        made = _mfma(size, "xf32", (_F32, _F32), _F32, 2, "{shape}.xf32", "<2 x float>")
        u = made.unit
        a, b = (replace(s, format="xf32") for s in (u.a, u.b))
        unit = replace(u, a=a, b=b)
        yield Instruction(unit, made.intrinsic, made.a, made.b, made.c, "mfma")


def cdna4() -> Iterator[Instruction]:
    """Instructions of gfx950: those of gfx942 without xf32, twice as long ones, and those with factors."""
    yield from _common(_OCP, 64)
    for size in _SIZES:
        yield _mfma(size, "f16", (_F16, _F16), _F32, 8, "{shape}.f16", "<8 x half>")
        yield _mfma(size, "bf16", (_BF16, _BF16), _F32, 8, "{shape}.bf16", "<8 x bfloat>")
        yield _mfma(size, "i8", (dtypes.int8, dtypes.int8), dtypes.int32, 16, "{shape}.i8", "<4 x i32>")
    for size in _SIZES:
        for x in _SCALED:
            for y in _SCALED:
                yield _scaled(size, x, y, True)
        for x in _OCP:  # without factors, only where a lane hands over the values themselves
            for y in _OCP:
                yield _scaled(size, x, y, False)


# What cbsz and blgp call the formats, in what a lane hands them over, how many registers that takes, and the
# name of the format where it is no dtype. Fragments of 6 registers are handed over in 8.
_SCALED: dict[str, tuple[int, DType, int, int, str]] = {
    "fp8": (0, dtypes.float8_e4m3, 32, 8, ""),
    "bf8": (1, dtypes.float8_e5m2, 32, 8, ""),
    "fp6": (2, dtypes.uint32, 8, 6, "fp6e2m3"),
    "bf6": (3, dtypes.uint32, 8, 6, "fp6e3m2"),
    "fp4": (4, dtypes.uint32, 4, 4, "fp4e2m1"),
}


def _scaled(size: int, x: str, y: str, factors: bool) -> Instruction:
    """v_mfma_scale_f32_*_f8f6f4: 128 or 64 elements of k, a factor for each 32. Factors belong to rows and
    blocks of k, whichever lanes hold the elements."""
    groups = 64 // size
    k = 32 * groups

    def side(axis: str, dtype: DType, width: int, format: str) -> Fragment:
        if format:
            return Fragment(dtype, width, _digits(f"{axis}{size}.k{groups}@32"), _digits("k32"), format)
        # bytes come in two runs of 16
        return Fragment(
            dtype, width, _digits(f"{axis}{size}.k{groups}@16"), _digits(f"k16.k2@{16 * groups}"), format
        )

    (f, dtype, width, used, format), (g, other, wide, filled, form) = _SCALED[x], _SCALED[y]
    a, b, c = side("m", dtype, width, format), side("n", other, wide, form), _total(size, _F32)
    shape = f"{size}x{size}x{k}"
    held, cycles = _ACCUMULATORS // c.width, 2 * size if 32 in (width, wide) else size
    if factors:
        exponents = [Fragment(dtypes.uint8, 1, _digits(f"{axis}{size}.s{groups}"), ()) for axis in "mn"]
        unit = MatrixUnit(
            f"mfma_scale_f32_{shape}_f8f6f4.{x}_{y}", size, size, k, 64, a, b, c, 32, exponents[0],
            exponents[1], accumulators=held, cycles=cycles,
        )  # fmt: skip
    else:
        unit = MatrixUnit(
            f"mfma_f32_{shape}_f8f6f4.{x}_{y}", size, size, k, 64, a, b, c, accumulators=held, cycles=cycles
        )
    types = [f"<{n} x i32>" for n in (used, filled)]
    return Instruction(
        unit, f"mfma.scale.f32.{shape}.f8f6f4.v{used}i32.v{filled}i32", types[0], types[1],
        f"<{c.width} x float>", "scale", (f, g),
    )  # fmt: skip
