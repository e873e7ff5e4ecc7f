"""WMMA of RDNA3 and RDNA4, issued by the 32 lanes of a wave.

Layouts: "RDNA3 Instruction Set Architecture" section 7.9 and "RDNA4 Instruction Set Architecture" section
    7.12
(wave matrix multiply accumulate), and AMD's matrix instruction calculator, which prints them element by
element.
Signatures of the intrinsics: LLVM's tests `CodeGen/AMDGPU/llvm.amdgcn.wmma_32.ll` and
`llvm.amdgcn.wmma-gfx12-w32.ll`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiny_core.api import Digit, DType, Fragment, MatrixUnit, dtypes
from tiny_renderer_llvm.matrix import Instruction

_F16, _BF16, _F32, _I32 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.int32
_FP8 = {"fp8": dtypes.float8_e4m3, "bf8": dtypes.float8_e5m2}
_INTS = {"i8": dtypes.int8, "u8": dtypes.uint8}
_NIBBLES = {"i4": "int4", "u4": "uint4"}
_HALVES = {"f16": (_F16, "half"), "bf16": (_BF16, "i16")}


def _digits(text: str) -> tuple[Digit, ...]:
    return Fragment.parse(f"int8x1:{text}|").lanes


def rdna3() -> Iterator[Instruction]:
    """Instructions of gfx11: 16 by 16 by 16. Both halves of the wave hold all of A and B; of C the lower half
    holds the even rows."""

    def side(axis: str, dtype: DType, width: int, format: str = "") -> Fragment:
        return Fragment(dtype, width, _digits(f"{axis}16.-2"), _digits("k16"), format)

    def total(dtype: DType) -> Fragment:
        return Fragment(dtype, 8, _digits("n16.m2"), _digits("m8@2"))

    def unit(name: str, a: Fragment, b: Fragment, c: DType) -> MatrixUnit:
        return MatrixUnit(name, 16, 16, 16, 32, a, b, total(c), cycles=16 if a.encoding else 32)

    for what, (dtype, llvm) in _HALVES.items():
        a, b, t = side("m", dtype, 16), side("n", dtype, 16), f"<16 x {llvm}>"
        suffix = "16f16" if llvm == "half" else "16i16"
        yield Instruction(
            unit(f"wmma_f32_16x16x16_{what}", a, b, _F32),
            f"wmma.f32.16x16x16.{what}.v8f32.v{suffix}", t, t, "<8 x float>", "wmma",
        )  # fmt: skip
        yield Instruction(
            unit(f"wmma_{what}_16x16x16_{what}", a, b, dtype),
            f"wmma.{what}.16x16x16.{what}.v{suffix}.v{suffix}", t, t, t, "half", spread=True,
        )  # fmt: skip
    for x, left in _INTS.items():
        for y, right in _INTS.items():
            yield Instruction(
                unit(f"wmma_i32_16x16x16_iu8.{x}_{y}", side("m", left, 16), side("n", right, 16), _I32),
                "wmma.i32.16x16x16.iu8.v8i32.v4i32", "<4 x i32>", "<4 x i32>", "<8 x i32>", "int",
                (x == "i8", y == "i8"),
            )  # fmt: skip
    for x, form in _NIBBLES.items():
        for y, other in _NIBBLES.items():
            a, b = side("m", dtypes.uint32, 2, form), side("n", dtypes.uint32, 2, other)
            yield Instruction(
                unit(f"wmma_i32_16x16x16_iu4.{x}_{y}", a, b, _I32),
                "wmma.i32.16x16x16.iu4.v8i32.v2i32", "<2 x i32>", "<2 x i32>", "<8 x i32>", "int",
                (x == "i4", y == "i4"),
            )  # fmt: skip


def rdna4() -> Iterator[Instruction]:
    """Instructions of gfx12: each half of the wave holds half of k, and half of the rows of C."""

    def side(axis: str, dtype: DType, width: int, layout: str, format: str = "") -> Fragment:
        lanes, _, elements = layout.partition("|")
        return Fragment(dtype, width, _digits(f"{axis}16.{lanes}"), _digits(elements), format)

    def unit(name: str, k: int, a: Fragment, b: Fragment, c: DType) -> MatrixUnit:
        total = Fragment(c, 8, _digits("n16.m2@8"), _digits("m8"))
        return MatrixUnit(name, 16, 16, k, 32, a, b, total, cycles=16 if a.dtype.bits == 16 else 8)

    for what, (dtype, llvm) in _HALVES.items():
        a, b = (side(axis, dtype, 8, "k2@4|k4.k2@8") for axis in "mn")
        t, suffix = f"<8 x {llvm}>", "8f16" if llvm == "half" else "8i16"
        yield Instruction(
            unit(f"wmma_f32_16x16x16_{what}", 16, a, b, _F32),
            f"wmma.f32.16x16x16.{what}.v8f32.v{suffix}", t, t, "<8 x float>", "wmma",
        )  # fmt: skip
        yield Instruction(
            unit(f"wmma_{what}_16x16x16_{what}", 16, a, b, dtype),
            f"wmma.{what}.16x16x16.{what}.v{suffix}.v{suffix}", t, t, t, "half",
        )  # fmt: skip
    words = "<2 x i32>"
    for x, left in _FP8.items():
        for y, right in _FP8.items():
            a, b = side("m", left, 8, "k2@8|k8"), side("n", right, 8, "k2@8|k8")
            yield Instruction(
                unit(f"wmma_f32_16x16x16_{x}_{y}", 16, a, b, _F32),
                f"wmma.f32.16x16x16.{x}.{y}.v8f32.v2i32", words, words, "<8 x float>", "wmma",
            )  # fmt: skip
    for x, left in _INTS.items():
        for y, right in _INTS.items():
            a, b = side("m", left, 8, "k2@8|k8"), side("n", right, 8, "k2@8|k8")
            yield Instruction(
                unit(f"wmma_i32_16x16x16_iu8.{x}_{y}", 16, a, b, _I32),
                "wmma.i32.16x16x16.iu8.v8i32.v2i32", words, words, "<8 x i32>", "int", (x == "i8", y == "i8"),
            )  # fmt: skip
    for k, width, t, suffix in ((16, 1, "i32", "i32"), (32, 2, words, "v2i32")):
        for x, form in _NIBBLES.items():
            for y, other in _NIBBLES.items():
                layout = f"k2@{k // 2}|k{k // 2}"
                a = side("m", dtypes.uint32, width, layout, form)
                b = side("n", dtypes.uint32, width, layout, other)
                yield Instruction(
                    unit(f"wmma_i32_16x16x{k}_iu4.{x}_{y}", k, a, b, _I32),
                    f"wmma.i32.16x16x{k}.iu4.v8i32.{suffix}", t, t, "<8 x i32>", "int",
                    (x == "i4", y == "i4"),
                )  # fmt: skip
