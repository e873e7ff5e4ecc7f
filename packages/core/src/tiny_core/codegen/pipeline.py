"""The passes of code generation, in order, and why there.

1. normalize: axes that indices divide are cut, axes walked as one are joined, so that options see plain
loops. 2. options: those given in KernelInfo, else the heuristic's; `axes.plan` turns them into pieces of
axes. 3. axes.apply: RANGEs become pieces; padding becomes masks while indices are still whole expressions. 4.
loops.separate: one RANGE per loop, before anything is placed in one. 5. stage: operands are brought into near
memory; needs loops, and must precede lanes and copies. 6. fragments.lower: what a matrix unit does becomes
lanes of a subgroup and their elements; tiles are in terms of whole pieces before. 7. grid.parallelize:
thread, group and item pieces; reductions over items go through near memory. 8. expand: lanes, copies of the
code, registers and explicit loops. 9. barriers.insert: once all reads and writes of near memory are in the
graph. 10. plugin rules, point "after expand". 11. commit: indices become int32 or int64, once no pass needs
their algebra. 12. decompose: what the target lacks, on typed nodes, between two simplifications. 13. plugin
rules, "before linearize"; linearize; plugin rules, "after linearize". What goes in and the
linear list are held against their specifications; with `TINY_SPEC=2`, what every pass makes.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from tiny_core import settings
from tiny_core.codegen import axes, barriers, fragments, grid, loops, stage
from tiny_core.codegen.commit import commit
from tiny_core.codegen.decompose import decompose
from tiny_core.codegen.estimate import estimate
from tiny_core.codegen.expand import expand
from tiny_core.codegen.heuristic import choose
from tiny_core.codegen.linearize import linearize
from tiny_core.codegen.normalize import normalize
from tiny_core.ir import payload as p
from tiny_core.ir.algebra import simplify
from tiny_core.ir.ops import Ops
from tiny_core.ir.spec import Stage, check
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities
from tiny_core.render.renderer import Renderer
from tiny_core.render.signature import ParamSpec, ScalarSpec, Signature


@dataclass(frozen=True, slots=True)
class Generated:
    """A kernel ready to render.

    Args:
        kernel: normalized, with the options that were applied in its KernelInfo.
        linear: the ordered list.
        signature: its calling convention.
        flops: arithmetic operations, and
        bytes: bytes of global memory, of one launch.
    """

    kernel: UOp
    linear: UOp
    signature: Signature
    flops: int
    bytes: int


def generate(kernel: UOp, renderer: Renderer) -> Generated:
    """Return the linear list and signature of a kernel-stage SINK for a renderer's target.

    Raises:
        OptionError: options given in the kernel's KernelInfo do not apply to it.
        RenderError: the target lacks an op and there is no decomposition of it.
    """
    capabilities = renderer.capabilities
    info = kernel.payload(p.KernelInfo) if kernel.arg is not None else p.KernelInfo()
    made = _Checks(capabilities)
    made.border("kernel", kernel)
    normal = made.by("normalize", "normal", normalize(kernel))
    options = info.options
    if options is None:
        options = choose(normal, capabilities)
    plan = axes.plan(normal, options, capabilities.matrices)
    graph = made.by("axes.apply", "pieces", axes.apply(normal, plan), plan.order)
    graph = made.by("loops.separate", "separate", loops.separate(graph), plan.order)
    graph = made.by("fragments.prepare", "separate", fragments.prepare(graph, plan), plan.order)
    graph = made.by("stage", "staged", stage.stage(graph, plan, capabilities), plan.order)
    graph = made.by("fragments.lower", "staged", fragments.lower(graph, plan), plan.order)
    graph, launch = grid.parallelize(graph, plan, capabilities)
    graph = made.by("grid.parallelize", "parallel", graph, plan.order)
    graph = made.by("expand", "loops", expand(graph, plan, capabilities))
    if capabilities.launch == "grid":
        graph = made.by("barriers.insert", "ordered", barriers.insert(graph))
    graph = _plugin(renderer, "after expand", graph, "loops")
    graph = made.by("commit", "committed", commit(graph, capabilities.launch == "threads"))
    graph = made.by("simplify", "committed", simplify(graph))
    graph = made.by("decompose", "decomposed", decompose(graph, capabilities))
    # simplification may write what the target lacks (an AND of bools for a WHERE): that is taken apart again
    graph = made.by("simplify", "decomposed", decompose(simplify(graph), capabilities))
    graph = _plugin(renderer, "before linearize", graph, "decomposed")
    info = replace(info, name=name_of(normal) if info.name == "kernel" else info.name, options=options)
    linear = made.border("linear", linearize(graph, info), "linearize")
    linear = _plugin(renderer, "after linearize", linear, "linear")
    flops, nbytes = estimate(linear)
    return Generated(
        normal.replace(arg=info), linear, signature(kernel, linear, info.name, launch), flops, nbytes
    )


class _Checks:
    """Holds what passes make against the specifications, as often as `TINY_SPEC` says."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self.level = settings.SPEC.value

    def border(self, stage: Stage, graph: UOp, after: str = "") -> UOp:
        """Return what goes from one stage to the next, checked unless checks are off."""
        if self.level:
            check(graph, stage, self.capabilities, after=after)
        return graph

    def by(self, name: str, stage: Stage, graph: UOp, order: Collection[str] | None = None) -> UOp:
        """Return what the pass called `name` has made, checked where every pass is."""
        if self.level > 1:
            check(graph, stage, self.capabilities, after=name, order=order)
        return graph


def _plugin(renderer: Renderer, point: str, graph: UOp, stage: Stage) -> UOp:
    rule = renderer.rules.get(point)
    if rule is None:
        return graph
    graph = rule(graph)
    if settings.SPEC.value:
        check(graph, stage, renderer.capabilities, after=f"rules of {renderer.name}, {point}")
    return graph


def name_of(kernel: UOp) -> str:
    """Return a name that says what a kernel runs over: `r_32_64_r288` reduces 288 elements for each of 32 by
    64."""
    sizes: dict[str, list[str]] = {"i": [], "r": []}
    for r in axes.kernel_axes(kernel):
        stop = r.src[0]
        letter = "r" if r.payload(p.Range).kind == "reduce" else "i"
        sizes[letter].append(str(stop.value) if stop.is_const else "n")
    head = "r" if sizes["r"] else "e"
    return re.sub(r"\W", "", "_".join([head, *sizes["i"], *(f"r{n}" for n in sizes["r"])])) or "e"


def signature(kernel: UOp, linear: UOp, name: str, launch: grid.Launch) -> Signature:
    """Return the calling convention of a kernel that has become `linear`: what simplification found unused is
    still passed."""
    params: dict[int, ParamSpec] = {}
    scalars: dict[str, None] = {}
    near = 0
    for node in (*kernel.toposort(), *linear.src):
        if node.op is Ops.PARAM:
            a = node.payload(p.Param)
            params[a.slot] = ParamSpec(node.dtype, a.size, a.access, a.align, a.space)
        elif node.op is Ops.VARIABLE:
            scalars[node.payload(p.Variable).name] = None
        elif node.op is Ops.BUFFER and node.payload(p.Storage).space != "register":
            near += -(-node.payload(p.Storage).size * node.dtype.itemsize // 64) * 64
    return Signature(
        name,
        tuple(params[k] for k in sorted(params)),
        tuple(ScalarSpec(n) for n in sorted(scalars)),
        grid=launch.grid,
        block=launch.block,
        parallel=launch.parallel,
        local_bytes=near,
    )
