"""The C renderer: a linear kernel to one C function for gcc (12 or newer) or clang.

What the target has no instruction for is not declared, so that core decomposes it and no library call is
left. `c_kernel.py` writes the function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tiny_core.api import (
    GLOBAL,
    REGISTER,
    AddressSpace,
    Arch,
    Capabilities,
    DType,
    Ops,
    Renderer,
    Signature,
    UOp,
    dtypes,
)
from tiny_core.devices.cpu import host
from tiny_core.devices.cpu.c_kernel import BOOLS, COMPARE, Kernel
from tiny_core.devices.cpu.c_prelude import Prelude

if TYPE_CHECKING:
    from tiny_core.api import Compiler

_COMMON = {
    Ops.NEG, Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.MIN, *COMPARE, Ops.WHERE, Ops.MULACC, Ops.CAST,
    Ops.BITCAST,
}  # fmt: skip
_FLOAT_OPS = _COMMON | {Ops.RECIP, Ops.SQRT, Ops.DIV}
_INT_OPS = _COMMON | {
    Ops.NOT, Ops.IDIV, Ops.IMOD, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR,
}  # fmt: skip
_BOOL_OPS = {*BOOLS, Ops.CAST, Ops.BITCAST}
_NEAR: Final = (
    512 << 10
)  # bytes of near memory: it must fit the stack of any thread, and should a level-2 cache


def capabilities(arch: Arch, caches: tuple[int, ...]) -> Capabilities:
    """Return what C code for `arch` (completed) may contain."""
    features = frozenset(f for f, on in arch.features if on)
    x86 = arch.name == "x86_64"
    wide = Prelude(features, arch.name).avx512
    vector = 64 if wide else 32 if "avx2" in features else 16
    floats = [dtypes.float32, dtypes.float64]
    if not x86 or "f16c" in features:
        floats.insert(0, dtypes.float16)
    fma = frozenset({dtypes.float32, dtypes.float64} if not x86 or "fma" in features else ())
    ops = {(op, d) for d in floats for op in _FLOAT_OPS}
    if not x86 or "sse4.1" in features:
        ops |= {(Ops.TRUNC, d) for d in floats}
    ops.discard((Ops.MULACC, dtypes.float16))  # in f32 it would be neither fused nor rounded twice to f16
    ops |= {(op, d) for d in dtypes.ints for op in _INT_OPS} | {(op, dtypes.bool_) for op in _BOOL_OPS}
    known = (dtypes.bool_, *dtypes.ints, *floats)

    def widths(dtype: DType) -> tuple[int, ...]:
        # two registers of the dtype; 8-byte types go as far as 4-byte ones, so that indices can accompany
        # data
        most = 2 * vector // min(dtype.itemsize, 4)
        return tuple(1 << k for k in range(1, most.bit_length()))

    return Capabilities(
        "threads",
        frozenset(known),
        frozenset(ops),
        tuple((d, widths(d)) for d in known),
        (GLOBAL, REGISTER, AddressSpace("local", "group", _NEAR, 64)),
        vector_bytes=vector,
        registers=32 if wide or not x86 else 16,
        caches=caches,
        fma=fma,
    )


class CRenderer(Renderer):
    """Renders C for x86-64 and AArch64. For an unnamed architecture, for this host with the features and
    caches it has.

    Raises:
        TargetError: the architecture or a feature is unknown.
    """

    name = "C"

    def __init__(self, arch: Arch) -> None:
        self.arch = host.complete(arch)
        self.capabilities = capabilities(self.arch, host.FALLBACK_CACHES if arch.name else host.caches())
        self.features = frozenset(f for f, on in self.arch.features if on)

    def render(self, linear: UOp, signature: Signature) -> str:
        return Kernel(self, signature).render(linear)

    def compiler(self) -> Compiler:
        from tiny_core.devices.cpu.c_compiler import CCompiler

        return CCompiler(self.arch)

    def host_pool(self) -> str:
        from tiny_core.devices.cpu.c_pool import POOL_C

        return POOL_C

    def fingerprint(self) -> str:
        return f"{super().fingerprint()} caches {self.capabilities.caches}"
