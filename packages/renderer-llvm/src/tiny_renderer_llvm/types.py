"""Types and constants in LLVM's syntax (LangRef, "Type System" and "Constants"): dtypes in, text out."""

from __future__ import annotations

import struct

from tiny_core.api import DType, Ops, RenderError, UOp, dtypes, payload

_ELEMENTS: dict[DType, str] = {
    dtypes.bool_: "i1",
    dtypes.int8: "i8", dtypes.uint8: "i8", dtypes.int16: "i16", dtypes.uint16: "i16",
    dtypes.int32: "i32", dtypes.uint32: "i32", dtypes.int64: "i64", dtypes.uint64: "i64",
    dtypes.float16: "half", dtypes.float32: "float", dtypes.float64: "double",
    # floats that are moved and handed to matrix units, and computed with as their bits
    dtypes.bfloat16: "i16", **dict.fromkeys(dtypes.fp8s, "i8"),
}  # fmt: skip
_SUFFIXES = {"half": "f16", "float": "f32", "double": "f64"}


def element(dtype: DType) -> str:
    """Return the type of a value of `dtype`.

    Raises:
        RenderError: it is weak or void.
    """
    known = _ELEMENTS.get(dtype)
    if known is None:
        raise RenderError(f"LLVM: no values of dtype {dtype.name}", "core decomposes what is not declared")
    return known


def vector(of: str, lanes: int) -> str:
    """Return the type of `lanes` values of type `of`, or `of` itself for 0."""
    return f"<{lanes} x {of}>" if lanes else of


def lanes_of(node: UOp) -> int:
    """Return the lanes of a value; 0 for a scalar."""
    return node.shape[0] if node.shape else 0


def value_type(node: UOp) -> str:
    """Return the type of the value of `node`."""
    return vector(element(node.dtype), node.shape[0]) if node.shape else element(node.dtype)


def in_memory(dtype: DType) -> str:
    """Return the type of an element in memory: as in values, but a bool takes a byte."""
    return "i8" if dtype is dtypes.bool_ else element(dtype)


def mangle(of: str, lanes: int) -> str:
    """Return the part of an overloaded intrinsic's name that stands for a type: `v16f32`, `i8`."""
    suffix = _SUFFIXES.get(of, of)
    return f"v{lanes}{suffix}" if lanes else suffix


def number(dtype: DType, bits: int) -> str:
    """Return the constant of `dtype` with this bit pattern; float constants are written by their bits."""
    match dtype.kind:
        case "bool":
            return "true" if bits else "false"
        case "int" | "uint":
            return str(bits - (1 << dtype.bits) if bits >> (dtype.bits - 1) else bits)
    if dtype is dtypes.float16:
        return f"0xH{bits:04X}"
    if dtype.bits < 16 or dtype is dtypes.bfloat16:  # an integer in LLVM
        return str(bits - (1 << dtype.bits) if bits >> (dtype.bits - 1) else bits)
    if dtype is dtypes.float32:  # LLVM writes a float as the double of the same value
        bits = int.from_bytes(struct.pack("<d", struct.unpack("<f", bits.to_bytes(4, "little"))[0]), "little")
    return f"0x{bits:016X}"


def constant(node: UOp) -> payload.Const | None:
    """Return the number that `node` is in every lane, or None."""
    if node.op is Ops.STACK and all(s is node.src[0] for s in node.src):
        node = node.src[0]
    return node.payload(payload.Const) if node.op is Ops.CONST else None


def same(text: str, of: str, lanes: int) -> str:
    """Return the constant that holds the number `text` in each of `lanes` lanes."""
    return f"splat ({of} {text})" if lanes else text
