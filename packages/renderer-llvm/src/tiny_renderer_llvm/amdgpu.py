"""Grid programs for AMD GPUs: `amdgpu_kernel`s with buffers in address space 1 and int64 scalars.

LLVM's "User Guide for AMDGPU Backend" has the address spaces, the attributes and the memory model: near
memory is LDS, a barrier is a release fence, `s_barrier` and an acquire fence at work-group scope. Objects
are relocatable.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiny_core.api import (
    GLOBAL,
    REGISTER,
    AddressSpace,
    Arch,
    Capabilities,
    Ops,
    TargetError,
    UOp,
    dtypes,
    payload,
)
from tiny_renderer_llvm.function import Dialect, Function
from tiny_renderer_llvm.target import Target, operations, powers_of_two
from tiny_renderer_llvm.types import element, in_memory


@dataclass(frozen=True, slots=True)
class Chip:
    """A GPU architecture.

    Args:
        wave: work-items that run in lockstep.
        lds: bytes of near memory that a work-group may use.
        registers: 32-bit vector registers that a work-item may use (accumulation registers included).
    """

    wave: int
    lds: int
    registers: int


# CDNA3 and CDNA4: instruction set references, sections "VGPRs" and "LDS"; RDNA3 and RDNA4: the same
# sections. RDNA chips have both wave sizes; LLVM's default, and ours, is 32.
CHIPS: dict[str, Chip] = {
    "gfx942": Chip(wave=64, lds=64 << 10, registers=512),
    "gfx950": Chip(wave=64, lds=160 << 10, registers=512),
    "gfx1100": Chip(wave=32, lds=64 << 10, registers=256),
    "gfx1201": Chip(wave=32, lds=64 << 10, registers=256),
}

_DTYPES = frozenset((dtypes.bool_, *dtypes.ints, dtypes.float16, dtypes.float32, dtypes.float64))
_AXES = "xyz"

# Hidden arguments and registers that no kernel of ours reads. LLVM's attributor would find that out, but it
# is an IR pass, and we run none.
_UNUSED = (
    "dispatch-ptr", "queue-ptr", "implicitarg-ptr", "dispatch-id", "hostcall-ptr", "multigrid-sync-arg",
    "heap-ptr", "default-queue", "completion-action", "lds-kernel-id", "flat-scratch-init",
)  # fmt: skip


class AMDGPU(Target):
    """A GPU architecture of `CHIPS`; it has no features to choose."""

    def __init__(self, arch: Arch) -> None:
        chip = CHIPS[arch.name]
        if arch.features:
            raise TargetError(
                f"LLVM: {arch.name} has no feature {arch.features[0][0]!r}", "leave features out"
            )
        self.arch, self.cpu = arch, arch.name
        self.features = f"+wavefrontsize{chip.wave}" if arch.name.startswith("gfx1") else ""
        self.dialect = Dialect(
            triple="amdgcn-amd-amdhsa",
            kind="grid",
            half_math=True,
            half_from_double=True,
            fma=frozenset({dtypes.float16, dtypes.float32, dtypes.float64}),
            spaces={"global": 1, "local": 3},
        )
        widths = powers_of_two(16)
        self.capabilities = Capabilities(
            launch="grid",
            dtypes=_DTYPES,
            ops=operations(_DTYPES, self.dialect.fma, trunc=True),
            lanes=tuple((d, widths) for d in dtypes.storable if d in _DTYPES),
            spaces=(GLOBAL, REGISTER, AddressSpace("local", "group", chip.lds, 16)),
            vector_bytes=16,
            registers=chip.registers,
            subgroup=chip.wave,
            max_items=1024,
            max_block=(1024, 1024, 1024),
            # a packet counts work-items in 32 bits along x; RDNA4 packs the other two group numbers into 16
            # bits each
            max_grid=((1 << 32) // 1024 - 1, 65535, 65535),
            fma=self.dialect.fma,
        )

    def open(self, f: Function, nodes: tuple[UOp, ...]) -> None:
        for node in nodes:
            match node.op:
                case Ops.PARAM:
                    f.pointers[node] = f"%p{node.payload(payload.Param).slot}"
                case Ops.VARIABLE:
                    name = f"%s{f.scalars[node.payload(payload.Variable).name]}"
                    narrow = node.dtype.bits < 64
                    f.values[node] = f.emit(f"trunc i64 {name} to {element(node.dtype)}") if narrow else name
                case Ops.BUFFER if node.payload(payload.Storage).space != "register":
                    f.pointers[node] = f"@near{node.payload(payload.Storage).id}"
                case Ops.SPECIAL:
                    f.values[node] = _position(f, node)
                case _:
                    pass

    def header(self, f: Function) -> str:
        buffers = [f"{f.dialect.pointer(p.space)} noundef %p{i}" for i, p in enumerate(f.signature.params)]
        scalars = [f"i64 noundef %s{i}" for i in range(len(f.signature.scalars))]
        return f"define amdgpu_kernel void @{f.signature.name}({', '.join(buffers + scalars)}) #0 {{"

    def attributes(self, f: Function) -> list[str]:
        x, y, z = (*f.signature.block, 1, 1, 1)[:3]
        used = {key for key in f.scopes[0] if key[0] == "special"}
        idle = [
            f'"amdgpu-no-{what}-id-{axis}"'
            for level, what in (("group", "workgroup"), ("item", "workitem"))
            for dim, axis in enumerate(_AXES)
            if ("special", level, dim) not in used
        ]
        size = x * y * z
        return [
            "nounwind", '"no-builtins"', f'"target-cpu"="{self.cpu}"', f'"target-features"="{self.features}"',
            f'"amdgpu-flat-work-group-size"="{size},{size}"', '"uniform-work-group-size"="true"',
            *(f'"amdgpu-no-{what}"' for what in _UNUSED), *idle,
        ]  # fmt: skip

    def module(self, f: Function) -> list[str]:
        lines = []
        for node, name in f.pointers.items():
            if node.op is Ops.BUFFER:
                store = node.payload(payload.Storage)
                of = f"[{store.size} x {in_memory(node.dtype)}]"
                lines.append(f"{name} = internal addrspace(3) global {of} poison, align 16")
        return [*lines, "!llvm.module.flags = !{!0}", '!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}']


def _position(f: Function, node: UOp) -> str:
    special = node.payload(payload.Special)
    what = "workgroup" if special.level == "group" else "workitem"
    key = ("special", special.level, special.dim)
    raw = f.remember(key)
    if raw is None:
        raw = f.scopes[0][key] = f.emit(f"call i32 @llvm.amdgcn.{what}.id.{_AXES[special.dim]}()")
    return f.emit(f"zext i32 {raw} to i64") if node.dtype.bits == 64 else raw
