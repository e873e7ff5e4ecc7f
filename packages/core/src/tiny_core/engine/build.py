"""One kernel to one binary: code generation, rendering, compilation. Runs in this process or in a compile
worker.

In: a SINK at the kernel stage and a renderer. Out: `Compiled`. Nothing here knows devices, caches or
processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from tiny_core.errors import CompileError
from tiny_core.ir import payload as p
from tiny_core.ir.uop import UOp
from tiny_core.render.renderer import Compiled, Renderer

Mode = Literal["binary", "source", "text"]
"""What `Compiled.binary` is: what the compiler gives; the source, where no toolkit is needed (NULL without
one); or the text of the linear kernel, for runtimes that interpret it."""


def build(
    kernel: UOp, renderer: Renderer, mode: Mode, on_source: Callable[[str], None] | None = None
) -> Compiled:
    """Generate code for `kernel` and compile it.

    Args:
        kernel: a SINK at the kernel stage.
        renderer: what to render with.
        mode: what is wanted as binary.
        on_source: called with the source before the compiler runs, which may abort the process.

    Raises:
        TinyError: from any step; a CompileError carries the source.
    """
    from tiny_core.codegen.pipeline import generate

    made = generate(kernel, renderer)
    if mode == "text":
        from tiny_core.ir.text import format as to_text

        source = to_text(made.linear)
        binary = source.encode()
    else:
        source = renderer.render(made.linear, made.signature)
        if on_source is not None:
            on_source(source)
        binary = source.encode()
        if mode == "binary":
            try:
                binary = renderer.compiler().compile(source, made.signature.name)
            except CompileError as error:
                error.source = error.source or source
                raise
    return Compiled(made.signature, binary, source, made.flops, made.bytes, describe_options(made.kernel))


def describe_options(kernel: UOp) -> str:
    """Return the options applied to a kernel, for people: `map(axis="i0", how="vector")`."""
    from tiny_core.ir.text import option

    info = kernel.arg
    return " ".join(map(option, info.options or ())) if isinstance(info, p.KernelInfo) else ""
