"""Options for targets with work-groups and work-items.

Contractions: a tile of output elements per group and of registers per item, both operands staged in near
memory for a slice of the reduction. Rows: a group per row, items along it, combining through near memory.
Everything else: an element, or a few, per item. Where a group is one item with vectors, it is what a thread
of a host is.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tiny_core import settings
from tiny_core.codegen.heuristic import Access, Facts, name, pad, run, stream, tile
from tiny_core.ir.payload import Option
from tiny_core.render.capabilities import Capabilities

ITEMS = 256  # items of a group
SIDE = 16  # items along each side of a contraction's group, and the slice of the reduction it stages
OWN = 4  # output elements of an item along each side
SHORT = 32  # a reduction over fewer elements is done by one item
FEW = 64  # groups below which it does not matter how they are made


def fill(facts: Facts, capabilities: Capabilities) -> tuple[Option, ...]:
    """Return options that fill a grid with the kernel's output axes."""
    from tiny_core.codegen.contraction import _only, _operands
    from tiny_core.codegen.matrix_options import units

    by_unit = units(facts, capabilities) if settings.OPTIMIZE.value else None
    if by_unit is not None:
        return by_unit

    if capabilities.max_items == 1 and capabilities.lanes and settings.OPTIMIZE.value:
        return _cores(facts, capabilities)
    operands = _operands(facts)
    if operands is not None and capabilities.max_items >= SIDE * SIDE and capabilities.space("local"):
        a, b = operands
        made = _contraction(facts, a, b, _only(facts, a, b), _only(facts, b, a))
        if made:
            return made
    length = math.prod(max(1, facts.sizes[r]) for r in facts.inner)
    if facts.inner and length >= SHORT and capabilities.space("local"):
        return _rows(facts, capabilities)
    return _elements(facts, capabilities)


def _cores(facts: Facts, capabilities: Capabilities) -> tuple[Option, ...]:
    """Groups of one item whose values have lanes are cores with vectors: they run what a host's threads
    do."""
    from tiny_core.codegen.contraction import block

    made = block(facts, capabilities) or stream(facts, capabilities)
    return tuple(replace(o, how="group") if o.how == "thread" else o for o in made)


def _contraction(
    facts: Facts, a: Access, b: Access, rows: list[str], columns: list[str]
) -> tuple[Option, ...] | None:
    i, j = max(rows, key=lambda x: facts.sizes[x]), max(columns, key=lambda x: facts.sizes[x])
    if facts.sizes[i] < SIDE or facts.sizes[j] < SIDE or any(not facts.sizes[x] for x in facts.sizes):
        return None
    options: list[Option] = []
    for axis in (i, j):
        own = OWN if facts.sizes[axis] >= SIDE * OWN else 1
        whole = SIDE * own
        if facts.sizes[axis] % whole:
            options.append(pad(axis, whole))
        if facts.sizes[axis] <= whole:
            inner, group = axis, ""
        else:
            options.append(tile(axis, whole))
            inner, group = f"{axis}.1", f"{axis}.0"
        if group:
            options.append(run(group, "group"))
        if own > 1:
            options += [tile(inner, SIDE), run(f"{inner}.0", "unroll")]
            inner = f"{inner}.1"
        options.append(run(inner, "item"))
    options += [run(x, "group") for x in facts.outer if x not in (i, j)]
    first = facts.inner[0]
    at = first
    if len(facts.inner) == 1 and facts.sizes[first] > SIDE:
        if facts.sizes[first] % SIDE:
            options.append(pad(first, SIDE))
        options.append(tile(first, SIDE))
        at = f"{first}.0"
    elif len(facts.inner) == 1:
        at = ""
    for x in (a, b):
        same = [y for y in facts.loads if y.slot == x.slot]
        options.append(Option("stage", at, slot=x.slot, access=same.index(x)))
    return tuple(options)


def _rows(facts: Facts, capabilities: Capabilities) -> tuple[Option, ...]:
    options: list[Option] = []
    last = max(facts.inner, key=lambda r: facts.sizes[r])
    count = min(ITEMS, capabilities.max_items)
    over = {x for red in facts.reduces for r in red.ranges if (x := name(r)) in facts.outer}
    inside = [x for x in facts.outer if x not in over]
    n = min(count, 1 << (facts.sizes[last].bit_length() - 1))
    if facts.sizes[last] % n:
        options.append(pad(last, n))
    options.append(Option("group", last, n=n))
    options += [run(x, "group") for x in facts.outer if x in over]
    if inside:
        # what runs over the row again shares the row's items
        axis = max(inside, key=lambda x: facts.sizes[x])
        options += _items(facts, axis, n)
    return tuple(options)


def _items(facts: Facts, axis: str, n: int) -> list[Option]:
    size = facts.sizes[axis]
    if size == n:
        return [run(axis, "item")]
    options = [pad(axis, n)] if size % n else []
    if size < n:
        return [*options, run(axis, "item")]
    return [*options, tile(axis, n), run(f"{axis}.1", "item")]


def _elements(facts: Facts, capabilities: Capabilities) -> tuple[Option, ...]:
    if not facts.outer:
        return ()
    # what only some stores run over is shared out between the items of a group: other groups would do the
    # rest again
    every = [x for x in facts.outer if all(x in (name(r) for r in s.node.ranges) for s in facts.stores)]
    some = [x for x in facts.outer if x not in every]
    axis = max(some or facts.outer, key=lambda x: facts.sizes[x])
    n = min(ITEMS, capabilities.max_items, 1 << max(0, facts.sizes[axis] - 1).bit_length())
    options = _items(facts, axis, n) if facts.sizes[axis] > 1 and n > 1 else []
    if facts.sizes[axis] > n > 1 and axis in every:
        options.append(run(f"{axis}.0", "group"))
    options += [run(x, "group") for x in every if x != axis and facts.sizes[x]]
    return tuple(options)
