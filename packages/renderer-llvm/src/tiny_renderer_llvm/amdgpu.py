"""Grid programs for AMD GPUs: `amdgpu_kernel`s with buffers in address space 1 and int64 scalars.

LLVM's "User Guide for AMDGPU Backend" has the address spaces, the attributes and the memory model: near
memory is LDS, a barrier is a release fence, `s_barrier` and an acquire fence at work-group scope.
"""

from __future__ import annotations

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
from tiny_renderer_llvm.architectures import architecture
from tiny_renderer_llvm.function import Dialect, Function
from tiny_renderer_llvm.matrix import units
from tiny_renderer_llvm.target import Target, operations, powers_of_two
from tiny_renderer_llvm.types import element, in_memory

_DTYPES = frozenset((dtypes.bool_, *dtypes.ints, *dtypes.floats))
_AXES = "xyz"
_SUMS = 160  # 32-bit registers of sums that leave enough of the 256 ordinary ones

# Hidden arguments and registers that no kernel of ours reads. LLVM's attributor would find that out, but it
# is an IR pass, and we run none.
_UNUSED = (
    "dispatch-ptr", "queue-ptr", "implicitarg-ptr", "dispatch-id", "hostcall-ptr", "multigrid-sync-arg",
    "heap-ptr", "default-queue", "completion-action", "lds-kernel-id", "flat-scratch-init",
)  # fmt: skip


class AMDGPU(Target):
    """A GPU architecture of `architectures`; it has no features to choose."""

    def __init__(self, arch: Arch) -> None:
        chip = architecture(arch.name)
        if arch.features:
            raise TargetError(
                f"LLVM: {arch.name} has no feature {arch.features[0][0]!r}", "leave features out"
            )
        self.arch, self.cpu = arch, arch.name
        self.features = chip.target_features
        self.dialect = Dialect(
            triple="amdgcn-amd-amdhsa",
            kind="grid",
            half_math=True,
            half_from_double=True,
            fma=frozenset({dtypes.float16, dtypes.float32, dtypes.float64}),
            spaces={"global": 1, "local": 3},
        )
        widths = powers_of_two(32)  # fragments of matrix units have up to 32 bytes of fp8
        self.capabilities = Capabilities(
            launch="grid",
            dtypes=_DTYPES,
            ops=operations(_DTYPES, self.dialect.fma, trunc=True),
            lanes=tuple((d, widths) for d in dtypes.storable),
            spaces=(GLOBAL, REGISTER, AddressSpace("local", "group", chip.lds, 16)),
            vector_bytes=16,
            registers=chip.vgprs,
            subgroup=chip.wave,
            max_items=chip.max_items,
            max_block=(chip.max_items,) * 3,
            max_grid=chip.max_grid,
            fma=self.dialect.fma,
            matrices=units(arch.name),
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
            *(f'"amdgpu-no-{what}"' for what in _UNUSED), *idle, *_without_accumulators(f),
        ]  # fmt: skip

    def module(self, f: Function) -> list[str]:
        lines = []
        for node, name in f.pointers.items():
            if node.op is Ops.BUFFER:
                store = node.payload(payload.Storage)
                of = f"[{store.size} x {in_memory(node.dtype)}]"
                lines.append(f"{name} = internal addrspace(3) global {of} poison, align 64")
        return [*lines, "!llvm.module.flags = !{!0}", '!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}']


def _without_accumulators(f: Function) -> list[str]:
    """Return the attribute that keeps sums of matrix units in ordinary registers, where they leave enough of
    them: else LLVM moves them from one accumulation register to another in every iteration."""
    if not any(node.op is Ops.MATRIX for node in f.values):
        return []
    slots = {buf: 0 for buf, _ in f.traffic.slots.values()}
    stores = (buf.payload(payload.Storage) for buf in slots)
    sizes = zip(stores, (buf.dtype.itemsize for buf in slots), strict=True)
    words = sum(s.size * max(1, s.lanes) * max(4, itemsize) // 4 for s, itemsize in sizes)
    return ['"amdgpu-agpr-alloc"="0"'] if words <= _SUMS else []


def _position(f: Function, node: UOp) -> str:
    special = node.payload(payload.Special)
    what = "workgroup" if special.level == "group" else "workitem"
    key = ("special", special.level, special.dim)
    raw = f.remember(key)
    if raw is None:
        raw = f.scopes[0][key] = f.emit(f"call i32 @llvm.amdgcn.{what}.id.{_AXES[special.dim]}()")
    return f.emit(f"zext i32 {raw} to i64") if node.dtype.bits == 64 else raw
