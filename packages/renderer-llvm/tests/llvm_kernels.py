"""Kernels built by hand, and running them on this machine through core's loader."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiny_core.api import Arch, DType, Ops, ParamSpec, ScalarSpec, Signature, UOp, dtypes, payload
from tiny_core.devices.cpu import loader
from tiny_core.ir.spec import check
from tiny_renderer_llvm.renderer import LLVMRenderer

Array = npt.NDArray[Any]
HOST = platform.machine()


class Body:
    """The list of a linear kernel while it is built: adding a node adds the sources that are missing."""

    def __init__(self) -> None:
        self.nodes: dict[UOp, None] = {}

    def __call__(self, node: UOp) -> UOp:
        for n in node.toposort(lambda n: n not in self.nodes):
            self.nodes.setdefault(n)
        return node

    def linear(self) -> UOp:
        """The kernel; indices that were given as Python numbers become int32."""
        strong: dict[UOp, UOp] = {}
        for n in self.nodes:
            weak = n.op is Ops.CONST and n.dtype.is_weak
            strong[n] = (
                UOp.const(n.value, dtypes.int32) if weak else n.replace(tuple(strong[s] for s in n.src))
            )
        nodes = tuple(dict.fromkeys(strong.values()))
        return UOp(Ops.LINEAR, dtypes.void, nodes, payload.KernelInfo("kernel"))

    def signature(self, block: tuple[int, ...] = (1, 1, 1)) -> Signature:
        """The calling convention that PARAMs and VARIABLEs of the list imply; scalars in alphabetical
        order."""
        params = sorted(
            (n for n in self.nodes if n.op is Ops.PARAM), key=lambda n: n.payload(payload.Param).slot
        )
        names = sorted({n.payload(payload.Variable).name for n in self.nodes if n.op is Ops.VARIABLE})
        return Signature("kernel", tuple(map(_spec, params)), tuple(map(ScalarSpec, names)), block=block)


def _spec(node: UOp) -> ParamSpec:
    p = node.payload(payload.Param)
    return ParamSpec(node.dtype, p.size, p.access, p.align, p.space)


def closed(loop: UOp, *effects: UOp) -> UOp:
    """END of one loop after several effects."""
    return UOp(Ops.END, dtypes.void, (loop, *effects))


def variable(name: str, low: int, high: int, dtype: DType = dtypes.int64) -> UOp:
    """A VARIABLE as it is in linear kernels: of a strong dtype."""
    return UOp(Ops.VARIABLE, dtype, (), payload.Variable(name, low, high))


def special(level: str, dim: int, size: int, dtype: DType = dtypes.int32) -> UOp:
    assert level in ("group", "item")
    return UOp(Ops.SPECIAL, dtype, (UOp.const(size, dtype),), payload.Special(level, dim))  # type: ignore[arg-type]


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    return np.dtype(np.bool_ if dtype is dtypes.bool_ else dtype.name)


def render(body: Body, arch: Arch = Arch(), block: tuple[int, ...] = (1, 1, 1)) -> str:  # noqa: B008  frozen
    return LLVMRenderer(arch).render(body.linear(), body.signature(block))


def compiled(body: Body, arch: Arch = Arch(), block: tuple[int, ...] = (1, 1, 1)) -> bytes:  # noqa: B008
    renderer = LLVMRenderer(arch)
    check(body.linear(), "linear", renderer.capabilities)
    return renderer.compiler().compile(renderer.render(body.linear(), body.signature(block)), "kernel")


def run(
    body: Body,
    buffers: Sequence[Array | int],
    scalars: Iterable[int] = (),
    begin: int = 0,
    end: int = 1,
    arch: Arch = Arch(),  # noqa: B008
) -> None:
    """Compile for `arch`, load and call, with arrays or addresses as buffers."""
    loaded = loader.load(compiled(body, arch))
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    addresses = [b if isinstance(b, int) else b.ctypes.data for b in buffers]
    table = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
    values = list(scalars)
    numbers = (ctypes.c_int64 * max(len(values), 1))(*values)
    kind(loaded.entry("kernel"))(ctypes.addressof(table), ctypes.addressof(numbers), begin, end)


def levels() -> list[str]:
    """Architectures of CPUs whose code this machine can run: the host's own ("") and lower levels."""
    if HOST != "x86_64":
        return [""]
    from tiny_renderer_llvm import features

    have = features.host_features("x86_64")
    return [
        "",
        *(name for name, need in features.BASELINES.items() if name[:3] == "x86" and have.issuperset(need)),
    ]
