"""Filling a tile of near memory with all items of a group.

In: the dimensions of a tile in the order they have in near memory. Out: positions along them in terms of
items, copy loops, and lanes. Neighbouring items take neighbouring elements of the operand. An item moves as
much at once as memory takes: lanes along the innermost dimension of the tile, and, where the operand has its
neighbours along another one, a block of both: read as rows of one, written as rows of the other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tiny_core.codegen.axes import Plan
from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.algebra import simplify
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

AT_ONCE = 8  # steps of an item up to which all its loads are under way at once

if TYPE_CHECKING:
    from tiny_core.codegen.stage import Dim


def spread(
    dims: list[Dim], plan: Plan, number: int, load: UOp, held: DType, capabilities: Capabilities
) -> tuple[list[UOp], list[UOp], UOp | None]:
    """Return the position along each dimension, the RANGEs to close around the STORE, innermost first, and a
    mask where there are more items than work; the tile holds `load` as dtype `held`."""
    item, count = _items(plan, load)
    widths = tuple(w for w in capabilities.widths(load.dtype) if w in capabilities.widths(held))
    most = max(1, capabilities.vector_bytes // max(load.dtype.itemsize, held.itemsize))
    each = max(1, math.prod(d.extent for d in dims) // count)  # elements of an item
    inner = len(dims) - 1
    source = next((k for k, d in enumerate(dims) if d.unit == 1), inner)
    if source == inner:
        block = {inner: _width(dims[inner].extent, min(most, each), widths)}
    else:
        side = 1 << (each.bit_length() // 2)  # a square of them, rather longer in near memory
        block = {inner: _width(dims[inner].extent, min(most, side), widths)}
        block[source] = _width(dims[source].extent, min(most, max(1, each // block[inner])), widths)
    lanes = {
        k: UOp.range(n, f"s{number}.{'v' if k == inner else 'u'}", "vector" if k == inner else "unroll")
        for k, n in block.items()
        if n > 1
    }
    plan.order += [_name(r) for r in lanes.values()]
    extents = [d.extent // block.get(k, 1) for k, d in enumerate(dims)]
    total = math.prod(extents)
    steps = -(-total // count)
    loops: list[UOp] = []
    if steps > 1:
        loops.append(UOp.range(steps, f"s{number}", "unroll" if steps <= AT_ONCE else "loop"))
        plan.order.append(f"s{number}")
    flat = simplify(loops[0] * count + item if loops else item)
    inside = None if total % count == 0 else simplify(flat < total)
    # the operand's own order, so that neighbouring items read neighbouring addresses
    order = sorted(range(len(dims)), key=lambda k: -dims[k].unit)
    at: list[UOp] = [UOp.const(0)] * len(dims)
    below = 1
    for k in reversed(order):
        part = flat // below if below != 1 else flat
        part = part % extents[k] if k != order[0] else part
        at[k] = simplify(part * block[k] + lanes[k] if k in lanes else part)
        below *= extents[k]
    closes = [lanes[k] for k in (inner, source) if k in lanes]
    return at, [*dict.fromkeys(closes), *loops], inside


def _name(r: UOp) -> str:
    return r.payload(p.Range).axis


def _items(plan: Plan, load: UOp) -> tuple[UOp, int]:
    """Return the number of the item within its group, and how many there are."""
    items: list[UOp] = []
    mine = {_name(r): r for r in load.ranges}
    for axis in plan.axes.values():
        items += [
            mine.get(q.name, UOp.range(q.size, q.name, q.kind)) for q in axis.pieces if q.kind == "item"
        ]
    if plan.matrix is not None:
        items.append(plan.matrix.range)
    item, count = UOp.const(0), 1
    for r in reversed(items):
        item, count = item + r * count, count * int(r.src[0].value)
    return item, count


def _width(extent: int, most: int, widths: tuple[int, ...]) -> int:
    """Return the greatest power of two up to `most` that divides `extent` and is a width of values, or 1."""
    return max((w for w in widths if w <= most and extent % w == 0 and w & (w - 1) == 0), default=1)
