"""The heuristic: options for a kernel from what its target declares. No shape is written into it.

In: a normalized kernel and capabilities. Out: options. `analyse` collects what the choices need: for every
access its stride along every axis. Contractions are blocked in `contraction.py`, grids are filled in
`grid_options.py`; here is what everything else gets: an axis in lanes, several accumulators, threads over
outer axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiny_core import dtypes, settings
from tiny_core.codegen.axes import kernel_axes
from tiny_core.ir import payload as p
from tiny_core.ir.algebra.index import linear_form
from tiny_core.ir.ops import COMPARE, Ops
from tiny_core.ir.payload import Option
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

SERIAL = 1 << 14  # iterations below which waking threads costs more than it saves
SHORT = 128  # iterations after which the rounding errors of a float sum are better kept apart
COPIES = 4  # vectors in flight in a loop without reuse


@dataclass(frozen=True, slots=True)
class Access:
    """A LOAD or STORE: what it touches and its stride along each axis it depends on (None: not linear)."""

    node: UOp
    strides: dict[str, int | None]
    gated: bool

    @property
    def slot(self) -> int:
        return self.node.src[0].payload(p.Param).slot

    @property
    def is_store(self) -> bool:
        return self.node.op is Ops.STORE


@dataclass(slots=True)
class Facts:
    """What the choices rest on.

    Args:
        sizes: length of each axis; 0 where symbolic.
        outer: output axes, and
        inner: reduce axes, in order.
        accesses: all of them.
        reduces: the REDUCE nodes.
    """

    kernel: UOp
    sizes: dict[str, int]
    outer: list[str]
    inner: list[str]
    accesses: list[Access]
    reduces: list[UOp]

    @property
    def loads(self) -> list[Access]:
        return [a for a in self.accesses if not a.is_store]

    @property
    def stores(self) -> list[Access]:
        return [a for a in self.accesses if a.is_store]

    @property
    def work(self) -> int:
        return math.prod(max(1, n) for n in self.sizes.values())


def name(r: UOp) -> str:
    return r.payload(p.Range).axis


def analyse(kernel: UOp) -> Facts:
    """Return the facts of a normalized kernel."""
    sizes: dict[str, int] = {}
    outer: list[str] = []
    inner: list[str] = []
    for r in kernel_axes(kernel):
        sizes[name(r)] = int(r.src[0].value) if r.src[0].is_const else 0
        (inner if r.payload(p.Range).kind == "reduce" else outer).append(name(r))
    accesses: list[Access] = []
    reduces: list[UOp] = []
    for n in kernel.toposort():
        if n.op is Ops.REDUCE:
            reduces.append(n)
        if n.op not in (Ops.LOAD, Ops.STORE):
            continue
        strides: dict[str, int | None] = {}
        for atom, c in linear_form(n.src[1])[0].items():
            if atom.op is not Ops.RANGE:
                strides |= {name(r): None for r in atom.ranges}
            elif strides.get(name(atom), c) is not None:
                strides[name(atom)] = c
        accesses.append(Access(n, strides, len(n.src) == 4))
    return Facts(kernel, sizes, outer, inner, accesses, reduces)


def choose(kernel: UOp, capabilities: Capabilities) -> tuple[Option, ...]:
    """Return options for a normalized kernel."""
    from tiny_core.codegen.contraction import block
    from tiny_core.codegen.grid_options import fill

    facts = analyse(kernel)
    if capabilities.launch == "grid":
        return fill(facts, capabilities)
    if not settings.OPTIMIZE.value:
        return ()
    return block(facts, capabilities) or stream(facts, capabilities)


def tile(axis: str, n: int) -> Option:
    return Option("tile", axis, n=n)


def run(axis: str, how: p.AxisKind) -> Option:
    return Option("map", axis, how=how)


def pad(axis: str, n: int) -> Option:
    return Option("pad", axis, n=n)


def lanes_for(facts: Facts, capabilities: Capabilities, size: int, limit: int = 0) -> int:
    """Return how many lanes to use along an axis of `size`: as many as a register holds of the widest dtype
    that the kernel moves, but no more than the power of two that covers the axis; 0 if no width fits all
    dtypes."""
    kinds = {n.dtype for n in facts.kernel.toposort() if n.dtype.bits and n.op not in (Ops.PARAM, Ops.BUFFER)}
    if not kinds:
        return 0
    widest = max(d.itemsize for d in kinds if d.itemsize)
    full = limit or max(1, capabilities.vector_bytes // min(4, widest))
    # masks are comparisons of indices, which take lanes too
    masked = any(n.src and n.src[0].dtype is dtypes.index and (n.op in COMPARE or n.op is Ops.CAST)
                 for n in facts.kernel.toposort())  # fmt: skip
    masks = capabilities.widths(dtypes.int32)
    shared = [w for w in capabilities.widths(max(kinds, key=lambda d: d.itemsize))
              if all(w in capabilities.widths(d) for d in kinds)
              and (w in masks or not (masked or size % (w * COPIES)))]  # fmt: skip
    cover = 1 << max(0, size - 1).bit_length()
    return max((w for w in shared if w <= min(full, cover)), default=0)


def waste(size: int, lanes: int) -> float:
    """Return the part of the lanes that does useful work when an axis of `size` is cut into vectors."""
    return size / (-(-size // lanes) * lanes)


def stream(facts: Facts, capabilities: Capabilities) -> tuple[Option, ...]:
    """Element-wise work and reductions without reuse: move memory as wide as it goes."""
    options: list[Option] = []
    in_reduce = {a.node for r in facts.reduces for n in _body(r) for a in facts.accesses if a.node is n}
    reduced = [a for a in facts.loads if a.node in in_reduce]
    plain = [a for a in facts.accesses if a.node not in in_reduce]
    over = {
        name(r) for red in facts.reduces for r in red.src[0].ranges if r.payload(p.Range).kind != "reduce"
    }
    row = _best(facts, capabilities, facts.inner, reduced) if facts.inner else None
    column = _best(facts, capabilities, facts.outer, facts.accesses if facts.inner else plain)
    pieces: dict[str, str] = {a: a for a in facts.outer}
    if column is not None and column[0] in over and row is not None:
        # one value cannot have lanes along both: take the one with the longer vectors, rows if equal
        if column[1] > row[1]:
            row = None
        else:
            column = None
    elif column is not None and column[0] not in over and facts.inner:
        column = _best(facts, capabilities, [a for a in facts.outer if a not in over], plain)
    copies = min(COPIES, max(1, capabilities.registers // 4))
    if row is not None:
        options += _vector(facts, *row, copies)
    if column is not None:
        axis, lanes = column
        if facts.inner and row is not None:
            copies = 1
        made = _vector(facts, axis, lanes, copies)
        options += made
        pieces[axis] = f"{axis}.0" if facts.sizes[axis] > lanes else ""
        if (
            facts.inner
            and row is None
            and copies > 1
            and facts.sizes[facts.inner[-1]] % copies == 0
            and axis in over
        ):
            options += [tile(facts.inner[-1], copies), run(f"{facts.inner[-1]}.1", "unroll")]
    elif row is None and facts.inner and facts.sizes[facts.inner[-1]]:
        last = facts.inner[-1]
        if facts.sizes[last] <= 32:
            options.append(run(last, "unroll"))
    options += _nested(facts, options)
    loops = [pieces[a] for a in facts.outer if pieces[a]]
    options += threads(facts, capabilities, loops, _counts(facts, options, pieces), over)
    return tuple(options)


def _nested(facts: Facts, options: list[Option]) -> list[Option]:
    """Cut the only loop of a long reduction in two, so that `expand` can make its sum of short sums."""
    loops: list[tuple[str, int]] = []
    for axis in facts.inner:
        piece, n = axis, facts.sizes[axis]
        for o in options:
            if o.kind == "pad" and o.axis == axis:
                n = -(-n // o.n) * o.n
            elif o.kind == "tile" and o.axis == piece:
                piece, n = f"{piece}.0", n // o.n
            elif o.kind == "map" and o.axis == piece:
                n = 1
        if n != 1:
            loops.append((piece, n))
    if len(loops) != 1 or loops[0][1] < 4 * SHORT:
        return []
    piece, n = loops[0]
    inner = next((d for d in range(2 * SHORT, SHORT // 4, -1) if n % d == 0), 0)
    return [tile(piece, inner)] if inner else []


def _body(reduce: UOp) -> list[UOp]:
    return reduce.src[0].toposort(lambda n: n.op is not Ops.REDUCE or n is reduce)


def _best(
    facts: Facts, capabilities: Capabilities, axes: list[str], accesses: list[Access]
) -> tuple[str, int] | None:
    """Return the axis along which most accesses are contiguous or constant, with the lanes to use, or
    None."""
    best: tuple[float, int, str, int] | None = None
    for position, axis in enumerate(axes):
        size = facts.sizes[axis]
        lanes = lanes_for(facts, capabilities, size)
        if lanes < 2 or size < 2:
            continue
        along = [a for a in accesses if axis in a.strides]
        good = sum(1 for a in along if a.strides[axis] == 1)
        if not good or 2 * good < len(along):
            continue
        score = good / len(along) * waste(size, lanes) * math.log2(2 * lanes)
        if best is None or (score, position) > best[:2]:
            best = (score, position, axis, lanes)
    return None if best is None else (best[2], best[3])


def _vector(facts: Facts, axis: str, lanes: int, copies: int) -> list[Option]:
    """Cut an axis into loop, copies and lanes."""
    size = facts.sizes[axis]
    vectors = -(-size // lanes)
    while copies > 1 and vectors % copies and vectors < 64:
        copies -= 1
    copies = min(copies, vectors)
    options: list[Option] = []
    whole = lanes * copies
    if size % whole:
        options.append(pad(axis, whole))
    total = -(-size // whole) * whole
    if total == lanes:
        return [*options, run(axis, "vector")]
    if total == whole:
        # no loop is left: the outer piece is the copies
        return [*options, tile(axis, lanes), run(f"{axis}.0", "unroll"), run(f"{axis}.1", "vector")]
    options.append(tile(axis, whole))
    if copies == 1:
        return [*options, run(f"{axis}.1", "vector")]
    return [*options, tile(f"{axis}.1", lanes), run(f"{axis}.1.0", "unroll"), run(f"{axis}.1.1", "vector")]


def _counts(facts: Facts, options: list[Option], pieces: dict[str, str]) -> dict[str, int]:
    """Iterations of the loop piece that is left of each output axis."""
    out = {piece: facts.sizes[axis] for axis, piece in pieces.items() if piece}
    for axis, piece in pieces.items():
        if piece.endswith(".0"):
            first = next(o for o in options if o.kind == "tile" and o.axis == axis)
            if any(o.kind == "map" and o.axis == piece for o in options):
                out.pop(piece)
            else:
                out[piece] = -(-facts.sizes[axis] // first.n)
    return out


def threads(
    facts: Facts, capabilities: Capabilities, pieces: list[str], counts: dict[str, int],
    first: set[str] | None = None,
) -> list[Option]:  # fmt: skip
    """Run outer loops over threads: as few axes as give enough tasks; none where the work is small."""
    if facts.work < SERIAL:
        return []
    options: list[Option] = []
    tasks = 1
    for piece in pieces:
        n = counts.get(piece, 0)
        if n < 2:
            if n == 0 and piece in counts:
                break  # symbolic
            continue
        if first and facts.inner and piece.split(".")[0] not in first:
            break  # inside the row that a reduction goes over
        options.append(run(piece, "thread"))
        tasks *= n
        if tasks >= capabilities.tasks:
            break
    return options
