"""What this wheel offers: the renderer LLVM. Imports neither the renderer nor llvmlite."""

from __future__ import annotations

from tiny_core.api import RendererSpec, hookimpl

_CPUS = ("x86_64", "x86_64_v2", "x86_64_v3", "x86_64_v4", "aarch64")
_GPUS = ("gfx942", "gfx950", "gfx1100", "gfx1201")


@hookimpl
def tiny_renderers() -> tuple[RendererSpec, ...]:
    """Return the renderers of this plugin."""
    return (RendererSpec("LLVM", "tiny_renderer_llvm.renderer:LLVMRenderer", (*_CPUS, *_GPUS)),)
