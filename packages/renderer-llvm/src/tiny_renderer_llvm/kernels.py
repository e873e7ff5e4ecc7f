"""Kernels as text files: what the command renders and compiles without a program that launches them."""

from __future__ import annotations

from tiny_core.api import (
    DataError,
    Ops,
    ParamSpec,
    Renderer,
    ScalarSpec,
    Signature,
    UOp,
    check,
    generate,
    payload,
    text,
)


def read(source: str, renderer: Renderer) -> tuple[UOp, Signature]:
    """Return the linear list and signature of a kernel in core's text form.

    Args:
        source: a `linear`, or a `sink` at the kernel stage, for which code is generated first.
        renderer: for whose target.

    Raises:
        ParseError: the text is malformed.
        SpecError: it breaks the specification of its stage.
        DataError: it is neither.
    """
    node = text.parse(source)
    match node.op:
        case Ops.LINEAR:
            check(node, "linear", renderer.capabilities)
            return node, signature(node)
        case Ops.SINK:
            check(node, "kernel")
            made = generate(node, renderer)
            return made.linear, made.signature
    raise DataError(
        f"a kernel is a `linear`, or a `sink` at the kernel stage, not `{node.op.value}`",
        "`tiny trace SCRIPT.py --stage kernel` prints some",
    )


def signature(linear: UOp) -> Signature:
    """Return the calling convention that a linear list implies: buffers by slot, scalars by name, groups and
    items as many as its SPECIAL nodes count."""
    params: dict[int, ParamSpec] = {}
    scalars: set[str] = set()
    sizes = {"group": [1, 1, 1], "item": [1, 1, 1]}
    for node in linear.src:
        if node.op is Ops.PARAM:
            p = node.payload(payload.Param)
            params[p.slot] = ParamSpec(node.dtype, p.size, p.access, p.align, p.space)
        elif node.op is Ops.VARIABLE:
            scalars.add(node.payload(payload.Variable).name)
        elif node.op is Ops.SPECIAL and node.src[0].is_const:
            special = node.payload(payload.Special)
            sizes[special.level][special.dim] = int(node.src[0].value)
    x, y, z = sizes["group"]
    return Signature(
        linear.payload(payload.KernelInfo).name,
        tuple(params[slot] for slot in sorted(params)),
        tuple(ScalarSpec(name) for name in sorted(scalars)),
        grid=(x, y, z),
        block=tuple(sizes["item"]),
    )
