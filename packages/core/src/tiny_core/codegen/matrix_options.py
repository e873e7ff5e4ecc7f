"""Options for contractions that a matrix unit can do.

In: the facts of a kernel, and a target with matrix units, work-groups and near memory. Out: options, or None
where no unit takes the operands as they are (a unit that would round them first is never chosen), or too much
of it would be padding. Each subgroup computes a tile of several units' results, the subgroups of a group
share the operands, which a slice of the reduction at a time stages in near memory, rows of k behind each
other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tiny_core.codegen.axes import name_key
from tiny_core.codegen.fragments import taken
from tiny_core.codegen.heuristic import Facts, name, pad, run, tile, waste
from tiny_core.ir import payload as p
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import ALU, Ops
from tiny_core.ir.payload import Option
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

SIDE = 64  # elements along each side of a subgroup's tile
SUBGROUPS = 2  # subgroups along each side of a group's tile
USED = 0.4  # part of a unit's work that must not be padding; units of wide elements gain less:
USED_WIDE = 0.75
NEAR = 0.375  # part of near memory for the tiles of a group, so that several groups fit a processor
ROW = 64  # bytes of a row that are staged at least
FREE = 16  # bytes between rows, so that they begin in different banks
MOST = 64  # uses of the unit in one iteration
ACCUMULATORS = 0.5  # part of the registers that accumulators may take
WORK = 4  # operations on an element of an operand, which every subgroup that uses it does again
FEW = 64  # groups below which tiles are made smaller


@dataclass(frozen=True, slots=True)
class Choice:
    """A unit, the axes that are its m, n and k, and the operands that are its A and B."""

    unit: MatrixUnit
    axes: tuple[str, str, str]
    sides: tuple[UOp, UOp]
    used: float

    @property
    def rate(self) -> float:
        """Products a cycle that are no padding, by the unit's own account."""
        return self.used * self.unit.m * self.unit.n * self.unit.k / max(1, self.unit.cycles)


def units(facts: Facts, capabilities: Capabilities) -> tuple[Option, ...] | None:
    """Return options that give the kernel's reduction to a matrix unit, or None."""
    near = capabilities.space("local")
    if not capabilities.matrices or near is None or len(facts.reduces) != 1:
        return None
    if any(not n for n in facts.sizes.values()):
        return None
    choices = list(_choices(facts, capabilities))
    if not choices:
        return None
    best = max(choices, key=lambda c: (c.rate, c.unit.m * c.unit.n, _rows(facts, c)))
    return _options(facts, capabilities, best, near.bytes)


def _choices(facts: Facts, capabilities: Capabilities) -> Iterator[Choice]:
    reduce = facts.reduces[0]
    body = reduce.src[0]
    if reduce.payload(p.Reduce).op is not Ops.ADD or body.op is not Ops.MUL:
        return
    for left, right in (body.src, body.src[::-1]):
        mine, other = ({name(r) for r in side.ranges} for side in (left, right))
        rows = [x for x in facts.outer if x in mine and x not in other]
        columns = [x for x in facts.outer if x in other and x not in mine]
        depths = [x for x in facts.inner if x in mine and x in other]
        if not rows or not columns or not depths:
            return
        for unit in capabilities.matrices:
            if unit.c.dtype is not reduce.dtype or not unit.exact or unit.lanes != capabilities.subgroup:
                continue
            if taken(left, unit.a.dtype) is None or taken(right, unit.b.dtype) is None:
                continue
            axes, used = [], 1.0
            for candidates, extent in ((rows, unit.m), (columns, unit.n), (depths, unit.k)):
                axis = max(candidates, key=lambda x: (waste(facts.sizes[x], extent), facts.sizes[x]))
                axes.append(axis)
                used *= waste(facts.sizes[axis], extent)
            m, n, k = axes
            wide = max(unit.a.dtype.itemsize, unit.b.dtype.itemsize) >= 4
            if used >= (USED_WIDE if wide else USED) and _fits(facts, (left, right), (m, n)):
                yield Choice(unit, (m, n, k), (left, right), used)


def _fits(facts: Facts, sides: tuple[UOp, UOp], outer: tuple[str, str]) -> bool:
    """Whether operands can be staged and every store is of one result of the unit's."""
    for side in sides:
        nodes = side.toposort(lambda n: n.op is not Ops.LOAD)
        if any(n.op is Ops.REDUCE for n in nodes) or sum(n.op in ALU for n in nodes) > WORK:
            return False
        for access in facts.loads:
            if access.node in side.toposort() and None in access.strides.values():
                return False
    return all({*outer} <= {name(r) for r in s.node.src[1].ranges} for s in facts.stores)


def _rows(facts: Facts, choice: Choice) -> bool:
    """Whether results that are neighbours in memory are a lane's own, or, where a lane has none, its
    neighbours'."""
    m, n, _ = choice.axes
    digit = choice.unit.c.elements[0] if choice.unit.c.elements else None
    along = m if digit is not None and digit.axis == "m" and digit.stride == 1 else n
    return any(s.strides.get(along) == 1 for s in facts.stores)


def _options(facts: Facts, capabilities: Capabilities, choice: Choice, room: int) -> tuple[Option, ...]:
    unit, (m, n, k) = choice.unit, choice.axes
    tiles = _tiles(facts, capabilities, choice)
    options: list[Option] = []
    pieces: list[str] = []
    for axis, extent, (copies, groups) in zip((m, n), (unit.m, unit.n), tiles, strict=True):
        whole = extent * copies * groups
        if facts.sizes[axis] % whole:
            options.append(pad(axis, whole))
        inner = axis
        if facts.sizes[axis] > whole:
            options += [tile(axis, whole), run(f"{axis}.0", "group")]
            inner = f"{axis}.1"
        if groups > 1:
            options += [tile(inner, extent * copies), run(f"{inner}.0", "item")]
            inner = f"{inner}.1"
        if copies > 1:
            options += [tile(inner, extent), run(f"{inner}.0", "unroll")]
            inner = f"{inner}.1"
        pieces.append(inner)
    depth = _depth(facts, choice, tiles, room)
    if facts.sizes[k] % depth:
        options.append(pad(k, depth))
    inner, at = k, ""
    if facts.sizes[k] > depth:
        options.append(tile(k, depth))
        inner, at = f"{k}.1", f"{k}.0"
    if depth > unit.k:
        options += [tile(inner, unit.k), run(f"{inner}.0", "unroll")]
        inner = f"{inner}.1"
    options.append(Option("matrix", axes=(pieces[0], pieces[1], inner), unit=unit.name))
    options += [run(x, "group") for x in facts.outer if x not in (m, n)]
    others = [x for x in facts.inner if x != k]
    if others:
        options.append(Option("order", axes=(*others, *([at] if at else ()))))
    at = at or (max(others, key=name_key) if others else "")
    for side, axis, fragment in zip(choice.sides, (m, n), (unit.a, unit.b), strict=True):
        for access in facts.loads:
            if access.node not in side.toposort() or not {axis, k} <= set(access.strides):
                continue
            same = [x for x in facts.loads if x.slot == access.slot]
            free = FREE // fragment.dtype.itemsize
            options.append(Option("stage", at, n=free, axes=(axis, k), slot=access.slot,
                                  access=same.index(access)))  # fmt: skip
    return tuple(options)


def _tiles(facts: Facts, capabilities: Capabilities, choice: Choice) -> list[tuple[int, int]]:
    """Return, along m and n, how many units a subgroup computes, and how many subgroups are in a group."""
    unit, sizes = choice.unit, [facts.sizes[x] for x in choice.axes[:2]]
    extents = (unit.m, unit.n)
    tiles = [[max(1, SIDE // extent), SUBGROUPS] for extent in extents]
    while math.prod(t[1] for t in tiles) * unit.lanes > capabilities.max_items:
        tiles[0][1] = tiles[1][1] = 1
    words = unit.c.width * max(4, unit.c.dtype.itemsize) // 4
    while tiles[0][0] * tiles[1][0] * words > capabilities.registers * ACCUMULATORS:
        tiles[0 if tiles[0][0] >= tiles[1][0] else 1][0] //= 2
    rest = math.prod(facts.sizes[x] for x in facts.outer if x not in choice.axes)

    def whole(d: int) -> int:
        return extents[d] * tiles[d][0] * tiles[d][1]

    for d, size in enumerate(sizes):
        # no more than the axis needs, and rather less than much padding
        while whole(d) > extents[d] and (
            whole(d) // 2 >= size or waste(size, whole(d)) < waste(size, whole(d) // 2)
        ):
            tiles[d][0 if tiles[d][0] > 1 else 1] //= 2
    while rest * math.prod(-(-size // whole(d)) for d, size in enumerate(sizes)) < FEW:
        d = 0 if tiles[0][0] >= tiles[1][0] else 1
        if tiles[d][0] == 1:
            break
        tiles[d][0] //= 2
    return [(copies, groups) for copies, groups in tiles]


def _depth(facts: Facts, choice: Choice, tiles: list[tuple[int, int]], room: int) -> int:
    """Return how much of k is staged at a time: a multiple of the unit's, without padding if it can be."""
    unit, size = choice.unit, facts.sizes[choice.axes[2]]
    rows = [extent * a * b for extent, (a, b) in zip((unit.m, unit.n), tiles, strict=True)]
    kinds = (unit.a.dtype.itemsize, unit.b.dtype.itemsize)
    uses, steps = tiles[0][0] * tiles[1][0], -(-size // unit.k)
    most = 1
    while most < steps and 2 * most * uses <= MOST:
        depth = 2 * most * unit.k
        near = sum(n * (depth * itemsize + FREE) for n, itemsize in zip(rows, kinds, strict=True))
        if near > room or (near > room * NEAR and depth * min(kinds) > ROW):
            break
        most *= 2
    best = max(d for d in range(1, most + 1) if steps % d == 0)
    return (best if 2 * best > most else most) * unit.k
