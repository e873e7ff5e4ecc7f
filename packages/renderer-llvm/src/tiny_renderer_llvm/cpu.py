"""Host programs for x86-64 and AArch64, in the calling convention of core's `render/signature.py`.

Maths: IEEE, round to nearest even, no reassociation, nothing assumed about NaN, infinities or signed zeros.
MULACC is fused where the features have FMA. Whether denormals are flushed is the state of the thread that
runs the program.
"""

from __future__ import annotations

from tiny_core.api import (
    GLOBAL,
    REGISTER,
    AddressSpace,
    Arch,
    Capabilities,
    DType,
    Ops,
    RenderError,
    TargetError,
    UOp,
    dtypes,
    payload,
)
from tiny_renderer_llvm import caches, features
from tiny_renderer_llvm.function import Dialect, Function
from tiny_renderer_llvm.target import Target, operations, powers_of_two
from tiny_renderer_llvm.types import in_memory

_ALWAYS = (dtypes.bool_, *dtypes.ints, dtypes.float32, dtypes.float64)
_NEAR_BYTES = 512 << 10
"""Near memory lies on the stack of the thread, so it must fit the stack of any."""


class CPU(Target):
    """A CPU architecture with features.

    Args:
        arch: "" for the host with what the host has; or a name of `features.BASELINES`, whose features it
            then has. Cache sizes are the host's for the host's own name too, so that this class makes the
            same of a completed `Arch` as of the one it was completed from; levels (`x86_64_v3`) render alike
            on any machine.
    """

    def __init__(self, arch: Arch) -> None:
        name = arch.name or features.host_arch()
        start = features.BASELINES[name] if arch.name else features.host_features(name)
        listed = features.complete(name, start, arch.features)
        have = frozenset(f for f, on in listed if on)
        self.arch = Arch(name, listed)
        self.features = features.feature_string(listed)
        x86 = name.startswith("x86_64")
        self.cpu = "x86-64" if x86 else "generic"
        self.vector_bytes = 16 if not x86 or "avx" not in have else 64 if "avx512f" in have else 32
        native = _is_host(name)
        self.dialect = _dialect(x86, have, caches.last_cache() if native and x86 else 0)
        self.capabilities = _capabilities(x86, have, self.vector_bytes, self.dialect.fma, native)

    def open(self, f: Function, nodes: tuple[UOp, ...]) -> None:
        for node in nodes:
            match node.op:
                case Ops.PARAM:
                    slot = node.payload(payload.Param).slot
                    at = "%buf" if slot == 0 else f.emit(f"getelementptr ptr, ptr %buf, i64 {slot}")
                    f.pointers[node] = f.emit(f"load ptr, ptr {at}, align 8")
                case Ops.VARIABLE:
                    slot = f.scalars[node.payload(payload.Variable).name]
                    at = "%scalar" if slot == 0 else f.emit(f"getelementptr i64, ptr %scalar, i64 {slot}")
                    f.set_wide(node, f.emit(f"load i64, ptr {at}, align 8"))
                case Ops.BUFFER:
                    store = node.payload(payload.Storage)
                    if store.space != "register":
                        f.pointers[node] = f.emit(
                            f"alloca [{store.size} x {in_memory(node.dtype)}], align 64"
                        )
                case Ops.SPECIAL:
                    raise RenderError("LLVM: a host program has no work-items", "use a `thread` axis")
                case _:
                    pass

    def close(self, f: Function) -> None:
        if f.streamed:  # such stores are not ordered with those that tell other threads of them
            f.declarations["declare void @llvm.x86.sse.sfence()"] = None
            f.effect("call void @llvm.x86.sse.sfence()")

    def module(self, f: Function) -> list[str]:
        return ["!0 = !{i32 1}"] if f.streamed else []

    def header(self, f: Function) -> str:
        arguments = "ptr noalias %buf, ptr noalias %scalar, i64 %begin, i64 %end"
        return f"define void @{f.signature.name}({arguments}) #0 {{"

    def attributes(self, f: Function) -> list[str]:
        width = self.vector_bytes * 8
        return [
            "nounwind", '"no-builtins"', f'"target-cpu"="{self.cpu}"', f'"target-features"="{self.features}"',
            # some processors of these features are tuned for narrower vectors by default
            f'"prefer-vector-width"="{width}"', f'"min-legal-vector-width"="{width}"',
        ]  # fmt: skip


def _is_host(name: str) -> bool:
    try:
        return name == features.host_arch()
    except TargetError:
        return False


def _dialect(x86: bool, have: frozenset[str], stream: int) -> Dialect:
    half_math = "avx512fp16" in have or "fullfp16" in have
    fused = (dtypes.float32, dtypes.float64) if not x86 or "fma" in have else ()
    return Dialect(
        triple="x86_64-unknown-linux-gnu" if x86 else "aarch64-unknown-linux-gnu",
        kind="host",
        half_math=half_math,
        half_from_double=not x86 or "avx512fp16" in have,
        fma=frozenset((*fused, dtypes.float16) if half_math else fused),
        spaces={"global": 0, "local": 0},
        stream=stream,
    )


def _capabilities(
    x86: bool, have: frozenset[str], vector_bytes: int, fused: frozenset[DType], native: bool
) -> Capabilities:
    # f16 needs conversions at least; without them LLVM calls a library
    half = (dtypes.float16,) if not x86 or "f16c" in have else ()
    of: frozenset[DType] = frozenset((*_ALWAYS, *half))
    widths = powers_of_two(vector_bytes)
    return Capabilities(
        launch="threads",
        dtypes=of,
        ops=operations(of, fused, trunc=not x86 or "sse4.1" in have),
        lanes=tuple((d, widths) for d in dtypes.storable if d in of),
        spaces=(GLOBAL, REGISTER, AddressSpace("local", "group", _NEAR_BYTES, 64)),
        vector_bytes=vector_bytes,
        registers=32 if not x86 or "avx512f" in have else 16,
        caches=caches.private_caches() if native else caches.UNKNOWN,
        fma=fused,
    )
