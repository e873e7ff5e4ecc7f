"""LLVMRenderer: a linear kernel in, the text of an LLVM module out. Pure: llvmlite is not imported.

The text has opaque pointers and SSA form; register slots have become phis. It is one module per kernel:
constants and near memory, the function, and its attributes, which name the processor and all features.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tiny_core.api import (
    Arch,
    Capabilities,
    DType,
    Ops,
    Renderer,
    RenderError,
    Signature,
    TargetError,
    UOp,
    payload,
)
from tiny_renderer_llvm import casts, control, expressions, index, lanes, matrix, memory, slots
from tiny_renderer_llvm.amdgpu import AMDGPU
from tiny_renderer_llvm.architectures import ARCHITECTURES
from tiny_renderer_llvm.cpu import CPU
from tiny_renderer_llvm.expressions import RULES, operand_dtype
from tiny_renderer_llvm.features import BASELINES
from tiny_renderer_llvm.function import Function
from tiny_renderer_llvm.target import Target

if TYPE_CHECKING:
    from tiny_renderer_llvm.compiler import LLVMCompiler

ARCHS: Final = (*BASELINES, *ARCHITECTURES)
_ALU: Final = frozenset(op for op, _ in RULES)
_PLAIN: Final = re.compile(r"[A-Za-z_$.][A-Za-z0-9_$.]*")

# Written where they stand: values, and effects. Leaves are written by the target before, or where they are
# used; AFTER is an alias. Loads and moves of lanes need no declaration beyond their width.
_VALUES: Final[dict[Ops, Callable[[Function, UOp], str]]] = {
    Ops.LOAD: memory.render_load, Ops.CAST: casts.render_cast, Ops.BITCAST: casts.render_bitcast,
    Ops.STACK: lanes.render_stack, Ops.INDEX: lanes.render_index, Ops.SHUFFLE: lanes.render_shuffle,
}  # fmt: skip
_EFFECTS: Final[dict[Ops, Callable[[Function, UOp], None]]] = {
    Ops.STORE: memory.render_store, Ops.RANGE: control.render_range, Ops.END: control.render_end,
    Ops.BARRIER: control.render_barrier,
}  # fmt: skip
_SILENT: Final = frozenset({Ops.CONST, Ops.VARIABLE, Ops.SPECIAL, Ops.AFTER})
_MOVES: Final = frozenset({Ops.LOAD, Ops.STACK, Ops.INDEX, Ops.SHUFFLE})


class LLVMRenderer(Renderer):
    """Renders LLVM IR for CPUs and AMD GPUs."""

    name = "LLVM"

    def __init__(self, arch: Arch) -> None:
        if arch.name and arch.name not in ARCHS:
            raise TargetError(f"LLVM: unknown architecture {arch.name!r}", f"known are {', '.join(ARCHS)}")
        self.target: Target = AMDGPU(arch) if arch.name in ARCHITECTURES else CPU(arch)
        self.arch = self.target.arch
        self.capabilities: Capabilities = self.target.capabilities
        self._widths: dict[DType, tuple[int, ...]] = dict(self.capabilities.lanes)

    def render(self, linear: UOp, signature: Signature) -> str:
        if linear.op is not Ops.LINEAR:
            raise RenderError(f"LLVM: cannot render {linear.op.value}", "a renderer takes a LINEAR node")
        if not _PLAIN.fullmatch(signature.name):
            raise RenderError(f"LLVM: {signature.name!r} cannot be the name of a kernel")
        nodes = linear.src
        known = index.bounds(nodes)
        scalars = {s.name: i for i, s in enumerate(signature.scalars)}
        f = Function(signature, self.target.dialect, scalars, slots.traffic(nodes), known, index.exact(known))
        self.target.open(f, nodes)
        for node in nodes:
            self._node(f, node)
        self.target.close(f)
        f.effect("ret void")
        return self._module(f)

    def _node(self, f: Function, node: UOp) -> None:
        op = node.op
        if op in _ALU:
            if node in f.exact:
                index.render_exact(f, node)
                return
            self._check(node)
            f.values[node] = expressions.render(f, node)
        elif op in _VALUES:
            self._check(node)
            f.values[node] = _VALUES[op](f, node)
        elif op is Ops.MATRIX:
            f.values[node] = matrix.render_matrix(f, node, self.arch.name)
        elif op in _EFFECTS:
            _EFFECTS[op](f, node)
        elif op is Ops.PARAM or op is Ops.BUFFER:
            if node.dtype not in self.capabilities.dtypes:
                raise RenderError(f"LLVM:{self.arch.name}: memory of {node.dtype.name} was not declared")
        elif op is Ops.TARGET:
            name = node.payload(payload.TargetOp).name
            raise RenderError(f"LLVM: no target op {name}", "it belongs to another plugin's renderer")
        elif op not in _SILENT:
            raise RenderError(f"LLVM: no {op.value} of {node.dtype.name} in a linear kernel")

    def _check(self, node: UOp) -> None:
        """Raise RenderError if the op, dtype or width of a value was not declared."""
        if node.shape and (len(node.shape) > 1 or node.shape[0] not in self._widths.get(node.dtype, ())):
            widths = ", ".join(map(str, self._widths.get(node.dtype, ())))
            raise RenderError(
                f"LLVM:{self.arch.name}: {node.op.value} of {node.dtype.name} has shape {node.shape}",
                f"declared widths are {widths}",
            )
        if node.op in _MOVES:
            return
        dtype = operand_dtype(node)
        if (node.op, dtype) not in self.capabilities.ops or node.dtype not in self.capabilities.dtypes:
            of = f"{dtype.name} to {node.dtype.name}" if node.op in (Ops.CAST, Ops.BITCAST) else dtype.name
            raise RenderError(f"LLVM:{self.arch.name}: {node.op.value} of {of} was not declared")

    def _module(self, f: Function) -> str:
        lines = [f'target triple = "{f.dialect.triple}"']
        lines += [f"{name} = {text}" for text, name in f.constants.items()]
        lines += self.target.module(f)
        lines += [self.target.header(f), "entry:", *f.lines, "}"]
        lines += f.declarations
        lines.append(f"attributes #0 = {{ {' '.join(self.target.attributes(f))} }}\n")
        return "\n".join(lines)

    def compiler(self) -> LLVMCompiler:
        from tiny_renderer_llvm.compiler import LLVMCompiler

        return LLVMCompiler(self.target.dialect.triple, self.target.cpu, self.target.features)

    def host_pool(self) -> str:
        if self.target.dialect.kind != "host":
            return ""
        from tiny_renderer_llvm.pool import pool_ir

        return pool_ir(self.target.dialect.triple)

    def fingerprint(self) -> str:
        # cache sizes decide about kernels as features do
        sizes = (*self.capabilities.caches, self.target.dialect.stream)
        return f"{super().fingerprint()} caches={sizes}"
