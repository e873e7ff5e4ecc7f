"""Blocking of contractions (matmul, convolution) for a host with vector registers and caches.

A contraction sums products of two operands, A and B, each used again along output axes that the other has.
Two forms:

* *outer product*: lanes along an output axis of B; a register tile of rows of A times vectors of B; A is
broadcast in
  place, B is staged as the panel that the inner loop walks (packed, so contiguous whatever its layout was).
* *dot product*: lanes along a reduce axis that is contiguous in both; a tile of rows of A times rows of B;
lanes are
  added up at the end.

The form, the tile and what is staged follow from strides, sizes, registers and near memory. The shape of the
blocking is that of Goto and van de Geijn (TOMS 2008) and BLIS (Van Zee and van de Geijn, TOMS 2015), with the
whole reduction in registers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiny_core.codegen.heuristic import Access, Facts, lanes_for, pad, run, threads, tile, waste
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.payload import Option
from tiny_core.render.capabilities import Capabilities

LEAST_REUSE = 16  # uses of an element from which staging it pays
MOST_ACCUMULATORS = 0.8  # part of the registers that accumulators may take
PANELS = 8  # panels from which threads share them out
SCATTER = 2  # steps of the reduction that storing one lane on its own is worth
GOOD_CHAINS = 10  # accumulators that hide the latency of a fused multiply-add on two ports


@dataclass(frozen=True, slots=True)
class Form:
    """A way to block: lanes along `axis`, operands in this order, how good it looks."""

    outer: bool
    a: Access
    b: Access
    axis: str
    lanes: int
    score: float
    staged: bool


def block(facts: Facts, capabilities: Capabilities) -> tuple[Option, ...] | None:
    """Return options for a contraction, or None if the kernel is none."""
    operands = _operands(facts)
    if operands is None:
        return None
    forms = [f for a, b in (operands, operands[::-1]) for f in _forms(facts, capabilities, a, b)]
    if not forms:
        return None
    form = max(forms, key=lambda f: f.score)
    return _outer(facts, capabilities, form) if form.outer else _dot(facts, capabilities, form)


def _operands(facts: Facts) -> tuple[Access, Access] | None:
    """Return the two operands of the only reduction of the kernel, if it is a sum of products with reuse."""
    if len(facts.reduces) != 1 or facts.reduces[0].payload(p.Reduce).op is not Ops.ADD:
        return None
    body = facts.reduces[0].src[0]
    while body.op is Ops.CAST:
        body = body.src[0]
    if body.op is not Ops.MUL:
        return None
    sides = []
    for side in body.src:
        while side.op is Ops.CAST:
            side = side.src[0]
        access = next((x for x in facts.loads if x.node is side), None)
        if access is None or any(s is None for s in access.strides.values()):
            return None
        sides.append(access)
    a, b = sides
    if not _only(facts, a, b) or not _only(facts, b, a):
        return None
    return a, b


def _only(facts: Facts, x: Access, y: Access) -> list[str]:
    """Output axes that x has and y has not: along them y is used again."""
    return [i for i in facts.outer if i in x.strides and i not in y.strides and facts.sizes[i] > 1]


def _forms(facts: Facts, capabilities: Capabilities, a: Access, b: Access) -> list[Form]:
    out = []
    near = capabilities.space("local")
    room = near.bytes if near else 0
    length = math.prod(facts.sizes[r] for r in facts.inner)
    rows = math.prod(facts.sizes[i] for i in _only(facts, a, b))
    for v in _only(facts, b, a):
        lanes = lanes_for(facts, capabilities, facts.sizes[v])
        if lanes < 2:
            continue
        good = waste(facts.sizes[v], lanes) * lanes / max(1, capabilities.vector_bytes // 4)
        if any(s.strides.get(v) != 1 for s in facts.stores):
            good *= length / (length + SCATTER * lanes)
        fits = length * lanes * b.node.dtype.itemsize <= room and rows >= LEAST_REUSE
        direct = b.strides[v] == 1 and not b.gated
        if fits:
            out.append(Form(True, a, b, v, lanes, good, True))
        elif direct:
            out.append(Form(True, a, b, v, lanes, 0.8 * good, False))
    for v in facts.inner:
        if a.strides.get(v) != 1 or b.strides.get(v) != 1 or facts.sizes[v] < 4:
            continue
        lanes = lanes_for(facts, capabilities, facts.sizes[v])
        if lanes >= 2:
            good = waste(facts.sizes[v], lanes) * lanes / max(1, capabilities.vector_bytes // 4)
            out.append(Form(False, a, b, v, lanes, 0.75 * good, False))
    return out


def _split(size: int, most: int) -> int:
    """Return a tile of at most `most` for an axis of `size`: a divisor that is not much smaller, else
    `most`."""
    most = min(size, most)
    best = next(d for d in range(most, 0, -1) if size % d == 0)
    return best if 2 * best > most else most


class _Builder:
    """Collects options and keeps, for each axis, the name and length of the loop piece that is left of it."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.options: list[Option] = []
        self.loop: dict[str, str] = {a: a for a in (*facts.outer, *facts.inner)}
        self.count: dict[str, int] = dict(facts.sizes)

    def cut(self, axis: str, n: int) -> str:
        """Cut `n` iterations off the inside of an axis; return the name of the inner piece."""
        size = self.count[axis]
        if size % n:
            self.options.append(pad(axis, n))
            size = -(-size // n) * n
        piece = self.loop[axis]
        if size == n:
            self.loop[axis], self.count[axis] = "", 1
            return piece
        self.options.append(tile(piece, n))
        self.loop[axis], self.count[axis] = f"{piece}.0", size // n
        return f"{piece}.1"

    def halve(self, piece: str, size: int, n: int) -> tuple[str, str]:
        """Cut an inner piece of `size` again; return the names of the outer and inner part."""
        if size == n:
            return "", piece
        self.options.append(tile(piece, n))
        return f"{piece}.0", f"{piece}.1"


def _outer(facts: Facts, capabilities: Capabilities, form: Form) -> tuple[Option, ...]:
    a, b, v, lanes = form.a, form.b, form.axis, form.lanes
    most = max(1, int(capabilities.registers * MOST_ACCUMULATORS))
    rows = _rows(facts, a, b)
    vectors = -(-facts.sizes[v] // lanes)
    best: tuple[float, int, list[tuple[str, int]]] | None = None
    for nv in (1, 2, 3, 4):
        if nv > vectors or (nv > 1 and nv >= most):
            break
        tiles = _row_tiles(facts, rows, most // nv)
        nt = math.prod(t for _, t in tiles)
        used = waste(vectors, nv)
        for axis, t in tiles:
            used *= waste(facts.sizes[axis], t)
        # a step of the loop takes the longer of loading and multiplying; few chains cannot hide latency
        step = max(nv * nt, GOOD_CHAINS, nv + nt + 1) / (nv * nt) / used
        if best is None or step < best[0] - 1e-9:
            best = (step, nv, tiles)
    assert best is not None
    _, nv, tiles = best
    build = _Builder(facts)
    panel = build.cut(v, lanes * nv)
    copies, vector = build.halve(panel, lanes * nv, lanes)
    if copies:
        build.options.append(run(copies, "unroll"))
    build.options.append(run(vector, "vector"))
    for axis, t in tiles:
        if t > 1:
            build.options.append(run(build.cut(axis, t), "unroll"))
    shared = [i for i in facts.outer if i in a.strides and i in b.strides]
    free = [i for i in facts.outer if i not in shared and i != v]
    panels = [*shared, *(i for i in free if i in b.strides), v]
    moving = [i for i in free if i not in b.strides]
    # threads share out panels of B, each packed by one of them, or, if there are few, what runs past all
    # panels
    wide = math.prod(build.count[i] for i in panels if build.loop[i]) >= PANELS
    order = [*panels, *moving] if wide else [*moving, *panels]
    names = [build.loop[i] for i in order if build.loop[i]]
    build.options.append(Option("order", axes=tuple(names)))
    spread = threads(
        facts,
        capabilities,
        [build.loop[i] for i in (panels if wide else order) if build.loop[i]],
        {build.loop[i]: build.count[i] for i in order if build.loop[i]},
    )
    threaded = {o.axis for o in spread}
    build.options += spread
    if form.staged:
        at = _stage_point(build, b, order, threaded, capabilities, facts, v, lanes * nv)
        if at is not None:
            build.options.append(Option("stage", at, slot=b.slot, access=_number(facts, b), axes=(v,)))
    if a.gated:
        _stage_gated(build, a, order, capabilities, facts)
    return tuple(build.options)


def _rows(facts: Facts, a: Access, b: Access) -> list[str]:
    """Axes to unroll, best first: those that only A has, by its smallest stride."""
    axes = _only(facts, a, b)
    return sorted(axes, key=lambda i: (abs(a.strides[i] or 0), -facts.sizes[i]))


def _row_tiles(facts: Facts, rows: list[str], most: int) -> list[tuple[str, int]]:
    """Spread at most `most` rows over the axes: the first takes what divides it, the next what is left."""
    tiles: list[tuple[str, int]] = []
    left = max(1, most)
    for axis in rows[:2]:
        t = _split(facts.sizes[axis], left)
        tiles.append((axis, t))
        left //= t
        if left < 2 or t < facts.sizes[axis]:
            break
    return tiles


def _number(facts: Facts, access: Access) -> int:
    same = [x for x in facts.loads if x.slot == access.slot]
    return same.index(access)


def _tile_bytes(
    build: _Builder, access: Access, inside: list[str], facts: Facts, whole: dict[str, int]
) -> int:
    """Bytes of what `access` touches over the axes `inside` and the reduction, as `stage.tile_of` will find
    them."""
    spans: dict[int, int] = {}
    for axis, stride in access.strides.items():
        if axis in facts.inner or axis in inside:
            n = facts.sizes[axis]
        elif axis in whole:
            n = whole[axis]
        else:
            n = facts.sizes[axis] // max(1, build.count[axis])
        spans[abs(stride or 0)] = spans.get(abs(stride or 0), 1) + n - 1
    return math.prod(spans.values()) * access.node.dtype.itemsize


def _stage_point(
    build: _Builder, b: Access, order: list[str], threaded: set[str], capabilities: Capabilities,
    facts: Facts, v: str, panel: int,
) -> str | None:  # fmt: skip
    """Return the loop inside which a panel of B is staged: as far out as fits, but not inside loops that
    would stage the same panel again; "" stands for outside all loops. None if nowhere."""
    near = capabilities.space("local")
    room = near.bytes if near else 0
    names = [i for i in order if build.loop[i]]
    # outermost first: the loops of B that lie outside the stage point must come before all others
    for depth in range(len(names) + 1):
        fixed, inside = names[:depth], names[depth:]
        if depth and fixed[-1] not in b.strides and build.loop[fixed[-1]] not in threaded:
            return None  # deeper points lie inside a loop that B does not depend on
        if any(build.loop[i] in threaded and i in b.strides for i in inside):
            continue
        nbytes = _tile_bytes(build, b, inside, facts, {v: panel} if v not in inside else {})
        if nbytes <= room:
            last = [i for i in fixed if i in b.strides]
            return build.loop[last[-1]] if last else ""
    return None


def _stage_gated(
    build: _Builder, a: Access, order: list[str], capabilities: Capabilities, facts: Facts
) -> None:
    """Stage an operand with masks, so that the inner loop has none: zeros stand where it does not reach."""
    near = capabilities.space("local")
    room = (near.bytes if near else 0) // 2
    names = [i for i in order if build.loop[i]]
    for depth in range(1, len(names) + 1):
        inside = names[depth:]
        if _tile_bytes(build, a, inside, facts, {}) <= room:
            build.options.append(
                Option("stage", build.loop[names[depth - 1]], slot=a.slot, access=_number(facts, a))
            )
            return


def _dot(facts: Facts, capabilities: Capabilities, form: Form) -> tuple[Option, ...]:
    a, b, v, lanes = form.a, form.b, form.axis, form.lanes
    most = max(1, int(capabilities.registers * MOST_ACCUMULATORS))
    rows, columns = _rows(facts, a, b), _rows(facts, b, a)
    best: tuple[float, list[tuple[str, int]], list[tuple[str, int]]] | None = None
    for want in range(1, max(1, most // 2) + 1):
        ta = _row_tiles(facts, rows, want)
        na = math.prod(t for _, t in ta)
        tb = _row_tiles(facts, columns, most // na)
        nb = math.prod(t for _, t in tb)
        used = 1.0
        for axis, t in (*ta, *tb):
            used *= waste(facts.sizes[axis], t)
        step = max(na * nb, GOOD_CHAINS, na + nb) / (na * nb) / used
        if best is None or step < best[0] - 1e-9:
            best = (step, ta, tb)
    assert best is not None
    _, ta, tb = best
    build = _Builder(facts)
    build.options.append(run(build.cut(v, lanes), "vector"))
    rest = build.loop[v]
    if rest and build.count[v] <= 4:
        build.options.append(run(rest, "unroll"))
    for axis, t in (*ta, *tb):
        if t > 1:
            build.options.append(run(build.cut(axis, t), "unroll"))
    names = [build.loop[i] for i in facts.outer if build.loop[i]]
    counts = {build.loop[i]: build.count[i] for i in facts.outer if build.loop[i]}
    build.options += threads(facts, capabilities, names, counts)
    return tuple(build.options)
