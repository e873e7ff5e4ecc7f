"""Staging: bring a tile of an operand into near memory before the loops that use it.

In: a kernel after `loops.separate`, and the stage options of its plan. Out: the same, where each staged LOAD
reads near memory that a copy loop fills first. What the tile holds is found from the load's index: its terms
are grouped by stride into the operand's dimensions, and each dimension spans the interval that its terms take
over the loops inside the stage point. So a convolution's window is staged once, and elements outside the
operand are zeros in the tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tiny_core import dtypes
from tiny_core.codegen.axes import Plan
from tiny_core.codegen.stage_items import spread
from tiny_core.errors import OptionError
from tiny_core.ir import payload as p
from tiny_core.ir.algebra import simplify
from tiny_core.ir.algebra.compare import parts_of
from tiny_core.ir.algebra.index import from_linear, linear_form
from tiny_core.ir.ops import COMPARE, ELEMENTWISE, Ops
from tiny_core.ir.payload import Option
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities


@dataclass(slots=True)
class Dim:
    """A dimension of a tile.

    Args:
        unit: distance in the operand from one element of the dimension to the next.
        terms: the position along it, as a sum of RANGEs times factors.
        lo: least position.
        extent: number of positions.
        outside: what the loops outside the stage point add to the position, and
        valid: least and greatest sum of both that an unpadded iteration reaches; None if no axis is padded.
    """

    unit: int
    terms: dict[UOp, int]
    lo: int
    extent: int
    outside: UOp
    valid: tuple[int, int] | None

    @property
    def position(self) -> UOp:
        return from_linear(self.terms, -self.lo)


@dataclass(slots=True)
class Tile:
    """What one LOAD touches inside a stage point.

    Args:
        load: the LOAD.
        fixed: its index where all dimensions are at position 0.
        dims: its dimensions.
        exists: the part of its mask that says which elements there are, and
        used: the part that is the same for all elements, and stays where they are used.
    """

    load: UOp
    fixed: UOp
    dims: list[Dim]
    exists: UOp | None
    used: UOp | None

    @property
    def size(self) -> int:
        return math.prod(d.extent for d in self.dims)


def stage(kernel: UOp, plan: Plan, capabilities: Capabilities) -> UOp:
    """Return the kernel with the operands named by the plan's stage options in near memory.

    Raises:
        OptionError: the operand does not exist, its index has no linear form, or its tile does not fit.
    """
    number, used = 0, dict[str, int]()
    for option, named in zip(plan.stages, plan.staged, strict=True):
        # a load that is reduced more than once has a copy in each loop
        loads = [n for n in kernel.toposort() if n.op is Ops.LOAD and _original(n) is named]
        if not loads:
            raise OptionError(f"operand {option.slot}, load {option.access}, is staged already")
        for load in loads:
            tile = tile_of(load, plan, option.axis)
            space = capabilities.space(option.space)
            tile.dims = _layout(tile.dims, option.axes, plan)
            held = _held(load, kernel, plan)
            nbytes = _strides(tile.dims, option.n)[1] * held.dtype.itemsize
            if capabilities.launch == "grid":  # what a group has is shared by all its tiles
                nbytes = used[option.space] = used.get(option.space, 0) + nbytes
            if space is None or (space.bytes and nbytes > space.bytes):
                have = f"{space.bytes} bytes" if space else "no such space"
                raise OptionError(
                    f"staging {nbytes} bytes of operand {option.slot} in {option.space!r}: {have}"
                )
            kernel = kernel.substitute({held: _staged(tile, held, plan, option, number, capabilities)})
            number += 1
    return kernel


def _held(load: UOp, kernel: UOp, plan: Plan) -> UOp:
    """Return what a tile of `load` holds: itself, or, where a matrix unit takes another dtype, what it has
    been converted to, so that it is converted once."""
    if plan.matrix is None:
        return load
    wanted = (plan.matrix.unit.a.dtype, plan.matrix.unit.b.dtype)
    held, nodes = load, kernel.toposort()
    while held.dtype not in wanted:
        users = [n for n in nodes if held in n.src]
        if len(users) != 1 or users[0].op is not Ops.CAST:
            return load
        held = users[0]
    return held


def _original(load: UOp) -> UOp:
    """Return a LOAD as it was before `loops.separate`."""
    first: dict[UOp, UOp] = {}
    for r in load.ranges:
        arg = r.payload(p.Range)
        if arg.instance:
            first[r] = UOp(Ops.RANGE, r.dtype, r.src, p.Range(arg.axis, arg.kind))
    return load.substitute(first)


def tile_of(load: UOp, plan: Plan, at: str) -> Tile:
    """Return the tile that `load` touches inside the loop of piece `at` ("" stands for the whole kernel)."""
    limit = plan.order.index(at) if at else -1

    def is_fixed(r: UOp) -> bool:
        kind = r.payload(p.Range).kind
        if kind in ("loop", "reduce", "device"):
            return plan.rank(r) <= limit
        return kind in ("thread", "group")

    terms, constant = linear_form(load.src[1])
    here = {r.payload(p.Range).axis: r for r in load.src[1].ranges if is_fixed(r)}
    fixed: dict[UOp, int] = {}
    by_unit: dict[int, dict[UOp, int]] = {}
    for atom, c in terms.items():
        if all(is_fixed(r) for r in atom.ranges):
            fixed[atom] = c
            continue
        if atom.op is not Ops.RANGE:
            raise OptionError("cannot stage an operand whose index is not linear in the loops")
        stride = plan.piece(atom.payload(p.Range).axis).stride
        unit, sign = abs(c) // stride, 1 if c > 0 else -1
        if abs(c) % stride:
            unit, stride = abs(c), 1
        by_unit.setdefault(unit, {})[atom] = sign * stride
    masks = _mask_forms(load.src[2]) if len(load.src) == 4 else []
    dims = [
        _dim(unit, part, plan, here)
        for unit, parts in sorted(by_unit.items(), reverse=True)
        for part in _apart(parts, masks)
    ]
    owners = [name for d in dims for name in {_axis(r, plan) for r in d.terms}]
    if any(plan.axes[name].padded > plan.axes[name].size and owners.count(name) > 1 for name in owners):
        raise OptionError("cannot stage: a padded axis runs along two dimensions of the operand")
    base = constant + sum(d.unit * d.lo for d in dims)
    exists, used = _halves(load.src[2], dims, is_fixed) if len(load.src) == 4 else (None, None)
    for guard in _guards(fixed, dims, plan, here):
        exists = guard if exists is None else exists & guard
    return Tile(load, from_linear(fixed, base), dims, exists, used)


def _guards(fixed: dict[UOp, int], dims: list[Dim], plan: Plan, here: dict[str, UOp]) -> list[UOp]:
    """Return what keeps padded axes that lie outside the stage point within the operand."""
    names = {_axis(r, plan) for atom in fixed for r in atom.ranges}
    along = {_axis(r, plan) for d in dims for r in d.terms}
    guards = []
    for name in sorted(names):
        axis = plan.axes[name]
        if name in along or axis.padded <= axis.size:
            continue
        position = UOp.const(0)
        for q in axis.pieces:
            if q.name in here:
                position = position + here[q.name] * q.stride
        guards.append(position < axis.size)
    return guards


def _axis(r: UOp, plan: Plan) -> str:
    """Return the name of the axis that a RANGE is a piece of."""
    return plan.owner(r.payload(p.Range).axis).range.payload(p.Range).axis


def _halves(gate: UOp, dims: list[Dim], is_fixed: Callable[[UOp], bool]) -> tuple[UOp | None, UOp | None]:
    """Part a mask into what depends on elements, and what depends on other loops inside the stage point."""
    along = frozenset(r for d in dims for r in d.terms)
    halves: list[UOp | None] = [None, None]
    for part in parts_of(Ops.AND, gate):
        moves = [r for r in part.ranges if not is_fixed(r)]
        foreign = not along.issuperset(moves)
        if foreign and not along.isdisjoint(moves):
            raise OptionError(
                "cannot stage: a mask compares a position with a loop the operand does not have"
            )
        have = halves[foreign]
        halves[foreign] = part if have is None else have & part
    return halves[0], halves[1]


def _mask_forms(gate: UOp) -> list[dict[UOp, int]]:
    """Return the linear forms that a mask compares or divides."""
    forms = []
    pending = [
        simplify(n.src[0] - n.src[1])
        for n in gate.toposort()
        if n.op in COMPARE and n.src[0].dtype is dtypes.index
    ]
    while pending:
        terms, _ = linear_form(pending.pop())
        forms.append(terms)
        for atom in terms:
            if atom.op in ELEMENTWISE:
                pending.extend(s for s in atom.src if s.dtype is dtypes.index and s.ranges)
    return forms


def _apart(parts: dict[UOp, int], masks: list[dict[UOp, int]]) -> list[dict[UOp, int]]:
    """Take terms of one stride apart where masks say that they are positions along different dimensions: a
    row may be as long as a step of the window along the columns."""
    groups: dict[tuple[Fraction, ...], dict[UOp, int]] = {}
    for r, c in parts.items():
        groups.setdefault(tuple(Fraction(terms.get(r, 0), c) for terms in masks), {})[r] = c
    return list(groups.values())


def _dim(unit: int, parts: dict[UOp, int], plan: Plan, here: dict[str, UOp]) -> Dim:
    lo = hi = 0
    signs: dict[str, int] = {}
    for r, c in parts.items():
        last = int(r.src[0].value) - 1
        lo, hi = lo + min(0, c * last), hi + max(0, c * last)
        signs[_axis(r, plan)] = c // plan.piece(r.payload(p.Range).axis).stride
    axes = [(plan.axes[name], sign) for name, sign in signs.items()]
    outside = UOp.const(0)
    for axis, sign in axes:
        for q in axis.pieces:
            if q.name in here:
                outside = outside + here[q.name] * (sign * q.stride)
    valid = None
    if any(axis.padded > axis.size for axis, _ in axes):
        ends = [(axis.size - 1) * sign for axis, sign in axes]
        valid = (sum(e for e in ends if e < 0), sum(e for e in ends if e > 0))
    return Dim(unit, parts, lo, hi - lo + 1, simplify(outside), valid)


def _staged(
    tile: Tile, held: UOp, plan: Plan, option: Option, number: int, capabilities: Capabilities
) -> UOp:
    dims = tile.dims
    strides, below = _strides(dims, option.n)
    load = tile.load
    memory = UOp.near(held.dtype, below, 1000 + number, option.space)
    if capabilities.launch == "grid":
        at, closes, inside = spread(dims, plan, number, load, held.dtype, capabilities)
    else:
        at, closes, inside = _copy_loops(dims, plan, number, load, capabilities)
    source = tile.fixed
    target = UOp.const(0)
    for d, x, stride in zip(dims, at, strides, strict=True):
        source = source + x * d.unit
        target = target + x * stride
    gate = None if tile.exists is None else _moved(tile.exists, dims, at)
    both = gate if inside is None else inside if gate is None else gate & inside
    for d, x in zip(dims, at, strict=True):
        if d.valid is not None:
            position = d.outside + x + d.lo
            within = (UOp.const(d.valid[0]) <= position) & (position <= d.valid[1])
            both = within if both is None else both & within
    param = load.src[0]
    value = param.load(simplify(source), None if both is None else simplify(both))
    fill = memory.store(simplify(target), held.substitute({load: value}), inside)
    for r in closes:
        fill = UOp(Ops.END, fill.dtype, (r, fill))
    index = UOp.const(0)
    for d, stride in zip(dims, strides, strict=True):
        index = index + d.position * stride
    other = None if tile.used is None else held.substitute({load: load.src[3]})
    return memory.after(fill).load(simplify(index), tile.used, other)


def _strides(dims: list[Dim], free: int) -> tuple[list[int], int]:
    """Return the stride of each dimension in a tile, whose rows are followed by `free` elements, and its
    size."""
    strides: list[int] = []
    below = 1
    for d in reversed(dims):
        strides.insert(0, below)
        below *= d.extent
        if len(strides) == 1 and len(dims) > 1:
            below += free
    return strides, below


def _layout(dims: list[Dim], axes: tuple[str, ...], plan: Plan) -> list[Dim]:
    """Order dimensions as `axes` names them, outer to inner; those not named stay outside, largest stride
    first."""

    def named(d: Dim) -> int:
        for k, name in enumerate(axes):
            for r in d.terms:
                piece = r.payload(p.Range).axis
                if piece == name or piece.startswith(name + "."):
                    return k
        return -1

    return sorted(dims, key=named)


def _copy_loops(
    dims: list[Dim], plan: Plan, number: int, load: UOp, capabilities: Capabilities
) -> tuple[list[UOp], list[UOp], UOp | None]:
    """Copy with plain loops, the innermost dimension in lanes where its length allows."""
    at: list[UOp] = []
    closes: list[UOp] = []
    widths = capabilities.widths(load.dtype)
    for k, d in enumerate(dims):
        name = f"s{number}.{k}"
        lanes = 0
        if k == len(dims) - 1:
            full = max(1, capabilities.vector_bytes // load.dtype.itemsize)
            lanes = max((w for w in widths if w <= full and d.extent % w == 0), default=0)
        if lanes and d.extent > lanes:
            outer, inner = UOp.range(d.extent // lanes, f"{name}.0"), UOp.range(lanes, f"{name}.1", "vector")
            plan.order += [f"{name}.0", f"{name}.1"]
            at.append(outer * lanes + inner)
            closes += [outer, inner]
        elif lanes:
            inner = UOp.range(lanes, name, "vector")
            plan.order.append(name)
            at.append(inner)
            closes.append(inner)
        elif d.extent == 1:
            at.append(UOp.const(0))
        else:
            r = UOp.range(d.extent, name)
            plan.order.append(name)
            at.append(r)
            closes.append(r)
    return at, closes[::-1], None


def _moved(node: UOp, dims: list[Dim], at: list[UOp]) -> UOp:
    """Rewrite a mask in terms of the positions of the copy loops instead of the loops inside the stage
    point."""
    inner = frozenset(r for d in dims for r in d.terms)
    if inner.isdisjoint(node.ranges):
        return node
    if node.dtype is dtypes.index:
        return _position(node, dims, at, inner)
    if node.op in COMPARE and node.src[0].dtype is dtypes.index:
        # the two sides may each hold a part of a position: compare their difference with 0
        return _position(simplify(node.src[0] - node.src[1]), dims, at, inner).alu(node.op, 0)
    return node.replace(tuple(_moved(s, dims, at) for s in node.src))


def _position(node: UOp, dims: list[Dim], at: list[UOp], inner: frozenset[UOp]) -> UOp:
    terms, constant = linear_form(node)
    total = UOp.const(constant)
    rest = dict(terms)
    for d, x in zip(dims, at, strict=True):
        first = next(iter(d.terms))
        c = rest.get(first, 0)
        if not c or c % d.terms[first]:
            continue
        times = c // d.terms[first]
        if all(rest.get(r, 0) == times * f for r, f in d.terms.items()):
            for r in d.terms:
                del rest[r]
            total = total + (x + d.lo) * times
    for atom, c in rest.items():
        if inner.isdisjoint(atom.ranges):
            total = total + atom * c
        elif atom.op in ELEMENTWISE and atom is not node:
            total = total + atom.replace(tuple(_moved(s, dims, at) for s in atom.src)) * c
        else:
            raise OptionError("cannot stage: a mask depends on the loops otherwise than the index does")
    return simplify(total)
