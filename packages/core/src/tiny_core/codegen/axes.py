"""Axes: what options make of the loops of a kernel.

In: a kernel and its options. Out: a `Plan`: for every axis its pieces, from outer to inner, with how each
runs. `apply` rewrites the kernel so that every RANGE is such a piece. Names are stable: tiling `i0` gives
`i0.0` and `i0.1`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from tiny_core.codegen.opaque import simplify_around
from tiny_core.errors import OptionError
from tiny_core.ir import payload as p
from tiny_core.ir.algebra import simplify
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import Ops
from tiny_core.ir.payload import AxisKind, Option
from tiny_core.ir.uop import UOp


@dataclass(slots=True)
class Piece:
    """A part of an axis: `size` iterations that advance it by `stride` each, run as `kind`."""

    name: str
    size: int
    stride: int
    kind: AxisKind


@dataclass(slots=True)
class Axis:
    """An axis of the kernel before options: its RANGE, its length, and its pieces."""

    range: UOp
    size: int
    pieces: list[Piece]
    padded: int = 0


@dataclass(frozen=True, slots=True)
class Matrix:
    """Pieces that a matrix unit runs along.

    Args:
        unit: which.
        axes: names of the pieces that are m, n and k.
        lane: the `item` axis of the unit's lanes.
    """

    unit: MatrixUnit
    axes: tuple[str, str, str]
    lane: str = "lane"

    @property
    def range(self) -> UOp:
        """The lane, as a RANGE."""
        return UOp.range(self.unit.lanes, self.lane, "item")


@dataclass(slots=True)
class Plan:
    """All axes by name, the nesting order of the pieces, and the operands to stage.

    Args:
        axes: by name.
        order: names of the pieces, outermost first.
        stages: the options that stage operands, and
        staged: the LOAD that each of them names, as `apply` leaves it.
        grouped: pieces that items share.
        units: matrix units of the target, and
        matrix: the pieces that one of them runs along.
    """

    axes: dict[str, Axis]
    order: list[str]
    stages: list[Option] = field(default_factory=list)
    staged: list[UOp] = field(default_factory=list)
    grouped: set[str] = field(default_factory=set)
    units: tuple[MatrixUnit, ...] = ()
    matrix: Matrix | None = None

    def piece(self, name: str) -> Piece:
        """Return the piece called `name`; raises OptionError with the names there are."""
        for axis in self.axes.values():
            for piece in axis.pieces:
                if piece.name == name:
                    return piece
        raise OptionError(f"no axis {name!r}", f"axes: {', '.join(self.order)}")

    def owner(self, name: str) -> Axis:
        """Return the axis that the piece called `name` is part of."""
        for axis in self.axes.values():
            if any(piece.name == name for piece in axis.pieces):
                return axis
        raise OptionError(f"no axis {name!r}", f"axes: {', '.join(self.order)}")

    def rank(self, r: UOp) -> int:
        """Return the nesting position of a RANGE made by `apply` or of a copy of it."""
        return self.order.index(r.payload(p.Range).axis)


def kernel_axes(kernel: UOp) -> list[UOp]:
    """Return the RANGEs of a kernel, output axes first, each kind in the order of its names."""
    ranges = [n for n in kernel.toposort() if n.op is Ops.RANGE]
    return sorted(
        ranges, key=lambda r: (r.payload(p.Range).kind == "reduce", name_key(r.payload(p.Range).axis))
    )


def name_key(name: str) -> tuple[int, str]:
    """Return what sorts names of axes of one kind."""
    digits = name[1:].rstrip("abcdefghijklmnopqrstuvwxyz").split("_")[0]
    return int(digits or 0), name


def plan(kernel: UOp, options: tuple[Option, ...], units: tuple[MatrixUnit, ...] = ()) -> Plan:
    """Return what `options` make of the axes of `kernel`, on a target with these matrix units.

    Raises:
        OptionError: an option names an axis that does not exist, or does not apply to it.
    """
    axes: dict[str, Axis] = {}
    for r in kernel_axes(kernel):
        arg = r.payload(p.Range)
        stop = r.src[0]
        size = int(stop.value) if stop.is_const else 0
        axes[arg.axis] = Axis(r, size, [Piece(arg.axis, size, 1, arg.kind)])
    out = Plan(axes, list(axes), units=units)
    for option in options:
        _APPLY[option.kind](out, option)
    if out.matrix is not None:
        # lanes are neighbours, so theirs is the innermost axis of items
        out.order += [out.matrix.lane, *(f"{out.matrix.lane}.{what}" for what in "abc")]
    for option in out.stages:
        if option.axis:
            out.piece(option.axis)  # it may have been tiled since
    return out


def _tile(plan: Plan, option: Option) -> None:
    axis, piece = plan.owner(option.axis), plan.piece(option.axis)
    if option.n < 1 or piece.size % option.n or not piece.size:
        raise OptionError(
            f"cannot tile axis {option.axis!r} of {piece.size or 'symbolic'} iterations by {option.n}",
            "pad it to a multiple first",
        )
    outer = Piece(f"{piece.name}.0", piece.size // option.n, piece.stride * option.n, piece.kind)
    inner = Piece(f"{piece.name}.1", option.n, piece.stride, piece.kind)
    at = axis.pieces.index(piece)
    axis.pieces[at : at + 1] = [outer, inner]
    at = plan.order.index(piece.name)
    plan.order[at : at + 1] = [outer.name, inner.name]


def _map(plan: Plan, option: Option) -> None:
    piece = plan.piece(option.axis)
    reduce = plan.owner(option.axis).range.payload(p.Range).kind == "reduce"
    if option.how is None or (reduce and option.how in ("thread", "group")):
        raise OptionError(f"axis {option.axis!r} cannot run as {option.how!r}")
    if option.how in ("vector", "unroll") and not piece.size:
        raise OptionError(f"axis {option.axis!r} is symbolic and cannot run as {option.how!r}")
    piece.kind = option.how


def _order(plan: Plan, option: Option) -> None:
    unknown = [n for n in option.axes if n not in plan.order]
    if unknown or len(set(option.axes)) != len(option.axes):
        raise OptionError(
            f"order of unknown or repeated axes {option.axes}", f"axes: {', '.join(plan.order)}"
        )
    plan.order = [*option.axes, *(n for n in plan.order if n not in option.axes)]


def _pad(plan: Plan, option: Option) -> None:
    axis = plan.owner(option.axis)
    if len(axis.pieces) != 1 or not axis.size or option.n < 1:
        raise OptionError(f"cannot pad axis {option.axis!r}: pad an axis before it is tiled")
    axis.padded = -(-axis.size // option.n) * option.n
    axis.pieces[0].size = axis.padded


def _group(plan: Plan, option: Option) -> None:
    if plan.owner(option.axis).range.payload(p.Range).kind != "reduce":
        raise OptionError(f"axis {option.axis!r} is no reduction: nothing to combine")
    _tile(plan, option)
    plan.piece(f"{option.axis}.1").kind = "item"
    plan.grouped.add(f"{option.axis}.1")


def _stage(plan: Plan, option: Option) -> None:
    if option.axis:
        plan.piece(option.axis)
    if option.copies != 1:
        raise OptionError("staging with more than one copy in flight is not available yet")
    plan.stages.append(option)


def _matrix(plan: Plan, option: Option) -> None:
    unit = next((u for u in plan.units if u.name == option.unit), None)
    if unit is None:
        known = ", ".join(u.name for u in plan.units)
        raise OptionError(
            f"the target has no matrix unit {option.unit!r}", f"it has {known}" if known else "it has none"
        )
    if plan.matrix is not None or len(option.axes) != 3:
        raise OptionError(
            "a kernel has one matrix option, with three axes", "those that are m, n and k of the unit"
        )
    names = []
    for what, name, extent in zip("mnk", option.axes, (unit.m, unit.n, unit.k), strict=True):
        reduce = plan.owner(name).range.payload(p.Range).kind == "reduce"
        if reduce != (what == "k"):
            raise OptionError(f"axis {name!r} cannot be {what} of {unit.name}")
        if plan.piece(name).size != extent:
            _tile(plan, Option("tile", name, n=extent))
            name = f"{name}.1"
        plan.piece(name).kind = "matrix"
        names.append(name)
    plan.matrix = Matrix(unit, (names[0], names[1], names[2]))


_APPLY = {
    "tile": _tile, "map": _map, "order": _order, "pad": _pad, "group": _group, "stage": _stage,
    "matrix": _matrix,
}  # fmt: skip


def load_of(kernel: UOp, slot: int, access: int) -> UOp:
    """Return the `access`-th LOAD of PARAM `slot`; raises OptionError."""
    loads = (n for n in kernel.toposort() if n.op is Ops.LOAD and n.src[0].op is Ops.PARAM)
    load = next(islice((n for n in loads if n.src[0].payload(p.Param).slot == slot), access, None), None)
    if load is None:
        raise OptionError(f"no load number {access} of operand {slot}")
    if load.src[0].payload(p.Param).access != "r":
        raise OptionError(f"cannot stage operand {slot}: the kernel also writes it")
    return load


def apply(kernel: UOp, plan: Plan) -> UOp:
    """Rewrite a kernel so that its RANGEs are the pieces of the plan; padded iterations neither load nor
    store."""
    index: dict[UOp, UOp] = {}
    guards: dict[UOp, UOp] = {}
    clamped: dict[UOp, UOp] = {}
    pieces: dict[UOp, tuple[UOp, ...]] = {}
    for axis in plan.axes.values():
        if [q.name for q in axis.pieces] == [axis.range.payload(p.Range).axis] and not axis.padded:
            piece = axis.pieces[0]
            made = UOp(Ops.RANGE, axis.range.dtype, axis.range.src, p.Range(piece.name, piece.kind))
            index[axis.range], pieces[axis.range] = made, (made,)
            continue
        ranges = tuple(UOp.range(q.size, q.name, q.kind) for q in axis.pieces)
        total = UOp.const(0)
        for r, q in zip(ranges, axis.pieces, strict=True):
            total = total + (r * q.stride if q.stride != 1 else r)
        index[axis.range], pieces[axis.range] = simplify(total), ranges
        if axis.padded and axis.padded != axis.size:
            guards[axis.range] = simplify(index[axis.range] < axis.size)
            # a whole row of lanes needs masks; elsewhere reading the last element again is harmless and
            # cheaper
            if axis.range.payload(p.Range).kind != "reduce" and not any(
                q.kind == "vector" for q in axis.pieces
            ):
                clamped[axis.range] = index[axis.range].minimum(axis.size - 1)
    staged = [load_of(kernel, o.slot, o.access) for o in plan.stages]
    rewrite = _Rewrite(index, guards, clamped, pieces, frozenset(staged))
    result = rewrite.run(kernel)
    plan.staged = [rewrite.done[load] for load in staged]
    return result


@dataclass(slots=True)
class _Rewrite:
    index: dict[UOp, UOp]
    guards: dict[UOp, UOp]
    clamped: dict[UOp, UOp]
    pieces: dict[UOp, tuple[UOp, ...]]
    staged: frozenset[UOp]
    done: dict[UOp, UOp] = field(default_factory=dict)

    def run(self, kernel: UOp) -> UOp:
        done = self.done
        order = kernel.toposort()
        for node in order:
            if node.op is Ops.RANGE:
                done[node] = self.index[node]
            elif node.op is Ops.LOAD:
                done[node] = self.load(node, done)
            elif node.op is Ops.STORE:
                done[node] = self.store(node, done)
            elif node.op is Ops.REDUCE:
                done[node] = self.reduce(node, done)
            else:
                src = tuple(done[s] for s in node.src)
                done[node] = node if src == node.src else node.replace(src)
        return done[kernel]

    def gate(self, over: frozenset[UOp], but: dict[UOp, UOp]) -> UOp | None:
        gate: UOp | None = None
        for r, guard in self.guards.items():
            if r in over and r not in but:
                gate = guard if gate is None else gate & guard
        return gate

    def load(self, node: UOp, done: dict[UOp, UOp]) -> UOp:
        over = node.src[1].ranges
        clamped = self.clamped
        if node in self.staged:
            # read through a tile, whose copy loop keeps within the operand
            gate, clamped = None, {}
        else:
            # the last element of what is written here may be changing; what an index is read from has guards
            if clamped and (
                node.src[0].payload(p.Param).access != "r"
                or any(n.op in (Ops.LOAD, Ops.REDUCE) for n in node.src[1].toposort())
            ):
                clamped = {}
            gate = self.gate(over, clamped)
        if any(r in over for r in clamped):
            at = node.src[1].substitute({**self.index, **clamped})
            own = node.src[2].substitute({**self.index, **clamped}) if len(node.src) == 4 else None
        else:
            at, own = done[node.src[1]], done[node.src[2]] if len(node.src) == 4 else None
        at = simplify_around(at)
        if own is not None:
            gate = own if gate is None else gate & own
        if gate is None:
            return UOp(Ops.LOAD, node.dtype, (done[node.src[0]], at), node.arg)
        alt = done[node.src[3]] if len(node.src) == 4 else UOp.const(0, node.dtype)
        if node not in self.staged:  # staging wants to see what a mask compares
            gate = simplify_around(gate)
        return UOp(Ops.LOAD, node.dtype, (done[node.src[0]], at, gate, alt), node.arg)

    def store(self, node: UOp, done: dict[UOp, UOp]) -> UOp:
        buf, at, value, *own = (done[s] for s in node.src)
        gate = self.gate(node.ranges, {})
        if own:
            gate = own[0] if gate is None else gate & own[0]
        at = simplify_around(at)
        src = (buf, at, value) if gate is None else (buf, at, value, simplify_around(gate))
        return node.replace(src)

    def reduce(self, node: UOp, done: dict[UOp, UOp]) -> UOp:
        op = node.payload(p.Reduce).op
        value = done[node.src[0]]
        gate = self.gate(frozenset(node.src[1:]), {})
        if gate is not None:
            value = gate.where(value, identity(op, value))
        ranges = tuple(q for r in node.src[1:] for q in self.pieces[r])
        return value.reduce(op, *ranges)


def identity(op: Ops, value: UOp) -> UOp:
    """Return the neutral element of a reduction of values like `value`."""
    lanes = value.shape[0] if value.shape else 0
    number = {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: value.dtype.min, Ops.MIN: value.dtype.max}[op]
    if op is Ops.ADD and value.dtype.is_float:
        number = 0.0
    return UOp.const(number, value.dtype, lanes)
