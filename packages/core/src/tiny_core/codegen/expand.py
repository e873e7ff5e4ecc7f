"""Expansion: from ranges and reductions to lanes, copies, registers and loops.

In: a kernel whose RANGEs are pieces with a kind (`axes.apply`, `loops.separate`). Out: a loops-stage graph:
`unroll` pieces have become copies of the code, `vector` pieces lanes of values, and every REDUCE registers
that are initialised before its loops, updated within, and read after. A value is expanded only over the
pieces it depends on, so what is invariant is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import TypeVar

from tiny_core import dtypes
from tiny_core.codegen.axes import Plan, identity
from tiny_core.codegen.opaque import data_in, simplify_with
from tiny_core.dtypes import DType
from tiny_core.errors import OptionError
from tiny_core.ir import payload as p
from tiny_core.ir.algebra import simplify
from tiny_core.ir.algebra.index import from_linear, linear_form
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import ELEMENTWISE, Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

_Maybe = TypeVar("_Maybe", UOp, UOp | None)
Where = dict[UOp, int]
Values = dict[tuple[int, ...], UOp]
MAX_COPIES = 1 << 12  # copies of one node that unrolling may make
LONG = 512  # iterations from which a sum is made of sums
CHAINS = 8  # independent accumulators wanted, to hide the latency of an addition


def expand(kernel: UOp, plan: Plan, capabilities: Capabilities) -> UOp:
    """Return the loops-stage graph of a kernel.

    Raises:
        OptionError: the options ask for what cannot be expanded (two vector axes in one value, too many
            copies).
    """
    return _Expander(kernel, plan, capabilities).run()


def _kind(r: UOp) -> p.AxisKind:
    return r.payload(p.Range).kind


class _Expander:
    def __init__(self, kernel: UOp, plan: Plan, capabilities: Capabilities) -> None:
        self.kernel, self.plan, self.capabilities = kernel, plan, capabilities
        self.values: dict[UOp, Values] = {}
        self.effects: dict[UOp, dict[tuple[int, ...], tuple[UOp, ...]]] = {}
        self.copied: dict[UOp, tuple[UOp, ...]] = {}
        self.lanes_of: dict[UOp, UOp | None] = {}
        self.data_of: dict[UOp, list[UOp]] = {}
        self.closed: set[UOp] = set()
        self.registers = 0
        self.order = self._order()

    def _order(self) -> list[UOp]:
        """Sources first, where the REDUCEs that share their loops count as one node."""
        everything = self.kernel.toposort()
        teams: dict[tuple[UOp, ...], list[UOp]] = {}
        for n in everything:
            if n.op is Ops.REDUCE:
                teams.setdefault(self._loops(n), []).append(n)
            elif n.op is Ops.BUFFER and n.payload(p.Storage).space == "register":
                self.registers = max(self.registers, n.payload(p.Storage).id + 1)
        self.team = {n: team if key else [n] for key, team in teams.items() for n in team}
        for key, team in teams.items():
            if not key:
                for n in team:
                    self.team[n] = [n]
        order: dict[UOp, None] = {}
        stack: list[tuple[UOp, bool]] = [(self.kernel, False)]
        while stack:
            node, ready = stack.pop()
            if node in order:
                continue
            if ready:
                order[node] = None
                continue
            stack.append((node, True))
            members = self.team.get(node, [node])
            stack.extend((s, False) for m in members for s in m.src if s not in order)
        return list(order)

    def _loops(self, reduce: UOp) -> tuple[UOp, ...]:
        """The ranges of a REDUCE that stay loops, outermost first."""
        loops = [r for r in reduce.src[1:] if _kind(r) not in ("vector", "unroll")]
        return tuple(sorted(loops, key=self.plan.rank))

    def run(self) -> UOp:
        for node in self.order:
            over = node.ranges
            self.copied[node] = tuple(sorted((r for r in over if _kind(r) == "unroll"), key=_axis_key))
            vectors = [r for r in over if _kind(r) == "vector"]
            if len(vectors) > 1:
                names = " and ".join(sorted(r.payload(p.Range).axis for r in vectors))
                raise OptionError(f"a value depends on two vector axes, {names}")
            self.lanes_of[node] = vectors[0] if vectors else None
            if vectors and node.dtype is not dtypes.void:
                self.check_lanes(node)
            self.visit(node)
        stores = [e for s in self.kernel.src for group in self.effects[s].values() for e in group]
        return self.kernel.replace(tuple(self.close(stores)))

    def check_lanes(self, node: UOp) -> None:
        """Raise OptionError if the target has no values of so many lanes."""
        kind = dtypes.int32 if node.dtype is dtypes.index else node.dtype
        if self.lanes(node) not in self.capabilities.widths(kind):
            widths = ", ".join(map(str, self.capabilities.widths(kind))) or "none"
            raise OptionError(
                f"the target has no {kind.name} of {self.lanes(node)} lanes", f"it has {widths}"
            )

    def close(self, effects: list[UOp], opened: frozenset[UOp] = frozenset()) -> list[UOp]:
        """Close all loops that effects are in, but for those opened around them: those that share a loop
        share its END."""
        out: list[UOp] = []
        by_range: dict[UOp, list[UOp]] = {}
        for e in effects:
            loops = sorted(e.ranges - opened, key=self.plan.rank)
            if loops:
                by_range.setdefault(loops[0], []).append(e)
            else:
                out.append(e)
        for r, inside in by_range.items():
            if r in self.closed:
                name = r.payload(p.Range).axis
                raise OptionError(
                    f"axis {name!r} is inside different loops for different results",
                    "keep the axes that all results have outermost",
                )
            self.closed.add(r)
            out.append(UOp(Ops.END, dtypes.void, (r, *self.close(inside, opened | {r}))))
        return out

    # ---- one node

    def visit(self, node: UOp) -> None:
        if node in self.values or node in self.effects:
            return
        match node.op:
            case Ops.REDUCE:
                self.reduce_team(self.team[node])
            case Ops.STORE:
                self.effects[node] = {at: tuple(self.store(node, w)) for at, w in self.places(node)}
            case Ops.END:
                self.end(node)
            case Ops.SINK | Ops.LINEAR:
                pass
            case Ops.LOAD:
                self.values[node] = {at: self.load(node, w) for at, w in self.places(node)}
            case Ops.AFTER:
                self.values[node] = {at: self.after(node, w) for at, w in self.places(node)}
            case Ops.RANGE:
                self.values[node] = self.range(node)
            case Ops.MATRIX:
                self.values[node] = {at: self.matrix(node, w) for at, w in self.places(node)}
            case _:
                self.values[node] = {at: self.alu(node, w) for at, w in self.places(node)}

    def places(self, node: UOp) -> Iterator[tuple[tuple[int, ...], Where]]:
        """All assignments of the unrolled pieces that `node` depends on."""
        over = self.copied[node]
        if not over:
            yield (), {}
            return
        sizes = [int(r.src[0].value) for r in over]
        if math.prod(sizes) > MAX_COPIES:
            raise OptionError(f"unrolling makes {math.prod(sizes)} copies", f"at most {MAX_COPIES}")
        for at in product(*map(range, sizes)):
            yield at, dict(zip(over, at, strict=True))

    def get(self, node: UOp, where: Where) -> UOp:
        over = self.copied[node]
        return self.values[node][tuple(where[r] for r in over) if over else ()]

    def get_effects(self, node: UOp, where: Where) -> tuple[UOp, ...]:
        return self.effects[node][tuple(where[r] for r in self.copied[node])]

    def lanes(self, node: UOp) -> int:
        v = self.lanes_of[node]
        return int(v.src[0].value) if v is not None else 0

    def range(self, node: UOp) -> Values:
        if _kind(node) == "unroll":
            return {(k,): UOp.const(k, node.dtype) for k in range(int(node.src[0].value))}
        if _kind(node) == "vector":
            n = int(node.src[0].value)
            return {(): UOp(Ops.STACK, node.dtype, tuple(UOp.const(k, node.dtype) for k in range(n)))}
        return {(): node}

    def alu(self, node: UOp, where: Where) -> UOp:
        if not node.src:
            return node
        src = [self.get(s, where) for s in node.src]
        lanes = max((s.shape[0] for s in src if s.shape), default=0) if node.op in ELEMENTWISE else 0
        if lanes:
            src = [s if s.shape else s.splat(lanes) for s in src]
        made = tuple(src)
        return node if made == node.src else node.replace(made)

    def matrix(self, node: UOp, where: Where) -> UOp:
        """The products alone, added to zeros: `add_to` puts an accumulator in their place."""
        unit = node.payload(MatrixUnit)
        src = [self.get(s, where) for s in node.src[:2]]
        a, b = (
            s if s.shape else s.splat(f.width if f.width > 1 else 0)
            for s, f in zip(src, (unit.a, unit.b), strict=True)
        )
        zero = UOp.const(0, unit.c.dtype, unit.c.width if unit.c.width > 1 else 0)
        return UOp(Ops.MATRIX, node.dtype, (a, b, zero), unit)

    def after(self, node: UOp, where: Where) -> UOp:
        effects: list[UOp] = []
        for e in node.src[1:]:
            if e.op is Ops.RANGE:
                effects.append(e)
            else:
                effects.extend(self.get_effects(e, where))
        return self.get(node.src[0], where).after(*dict.fromkeys(effects))

    def end(self, node: UOp) -> None:
        """END closes its range: copies over an unrolled or vector piece become effects side by side."""
        r = node.src[0]
        out: dict[tuple[int, ...], tuple[UOp, ...]] = {}
        for at, where in self.places(node):
            inside: list[UOp] = []
            steps = range(int(r.src[0].value)) if _kind(r) == "unroll" else (0,)
            for k in steps:
                for e in node.src[1:]:
                    inside.extend(self.get_effects(e, {**where, r: k}))
            if _kind(r) in ("unroll", "vector"):
                out[at] = tuple(inside)
            else:
                out[at] = (UOp(Ops.END, dtypes.void, (r, *dict.fromkeys(inside))),)
        self.effects[node] = out

    # ---- memory

    def address(self, index: UOp, where: Where) -> tuple[UOp, int | None]:
        """Return the index at lane 0 and its step from lane to lane; or the index and None if it has no
        constant step (`at_lane` finds it lane by lane)."""
        terms, constant = linear_form(index)
        step: int | None = 0
        rest: dict[UOp, int] = {}
        moving = {r for r in index.ranges if _kind(r) in ("unroll", "vector")}
        settled = True
        for atom, c in terms.items():
            if atom in moving:
                if _kind(atom) == "unroll":
                    constant += c * where[atom]
                else:
                    step = c
                continue
            if moving and not moving.isdisjoint(atom.ranges):
                if any(_kind(r) == "vector" for r in atom.ranges):
                    return index, None
                settled = False
            elif self.data(atom):
                settled = False
            rest[atom] = c
        base = from_linear(rest, 0)
        if not settled:
            return self.settle(base + constant if constant else base, where, 0), step
        if not constant:
            return base, step
        return (base + constant if rest else UOp.const(constant)), step

    def data(self, index: UOp) -> list[UOp]:
        """Return the loaded and reduced values that an index depends on."""
        found = self.data_of.get(index)
        if found is None:
            found = self.data_of[index] = data_in(index)
        return found

    def at_lane(self, index: UOp, step: int | None, lane: int, where: Where) -> UOp:
        if step is None:
            return self.settle(index, where, lane)
        return simplify(index + step * lane) if lane else index

    def settle(self, index: UOp, where: Where, lane: int) -> UOp:
        """Return an index at a lane of a copy."""
        known = {
            r: UOp.const(where[r] if _kind(r) == "unroll" else lane, r.dtype)
            for r in index.ranges
            if _kind(r) in ("unroll", "vector")
        }
        return simplify_with(index, self.data(index), known, lambda n: lane_of(self.get(n, where), lane))

    def load(self, node: UOp, where: Where) -> UOp:
        buf = self.get(node.src[0], where)
        index, step = self.address(node.src[1], where)
        gate = self.get(node.src[2], where) if len(node.src) == 4 else None
        alt = self.get(node.src[3], where) if len(node.src) == 4 else None
        lanes = self.lanes(node)
        if not lanes:
            return self.scalar_load(buf, index, gate, alt)
        if alt is not None and not alt.shape:
            alt = alt.splat(lanes)
        if gate is not None and not gate.shape:
            gate = gate.splat(lanes)
        if step == 1:
            return buf.load(index, gate, alt, lanes, alignment(buf, index, lanes))
        if step == -1 and gate is None:
            low = simplify(index - (lanes - 1))
            loaded = buf.load(low, None, None, lanes, alignment(buf, low, lanes))
            return UOp(Ops.SHUFFLE, node.dtype, (loaded,), p.Shuffle(tuple(range(lanes - 1, -1, -1))))
        across = self.across(node, step, where)
        if across is not None:
            return across
        at, run = self.runs(node.dtype, index, step, lanes, where)
        if run > 1:
            wide = [
                buf.load(at[k], part_of(gate, k, run), part_of(alt, k, run), run, alignment(buf, at[k], run))
                for k in range(0, lanes, run)
            ]
            return UOp(Ops.SHUFFLE, node.dtype, tuple(wide), p.Shuffle(tuple(range(lanes))))
        parts = []
        for k in range(lanes):
            g = None if gate is None else lane_of(gate, k)
            a = None if alt is None else lane_of(alt, k)
            parts.append(self.scalar_load(buf, at[k], g, a))
        return UOp(Ops.STACK, node.dtype, tuple(parts))

    def across(self, node: UOp, step: int | None, where: Where) -> UOp | None:
        """Return the value of a LOAD without neighbours along its lanes, but along a piece that is unrolled:
        as lanes of wide loads that all copies share; None if there is no such piece."""
        if self.capabilities.launch != "grid" or not step or _is_register(node):
            return None
        terms, _ = linear_form(node.src[1])
        rows = [
            r for r in self.copied[node]
            if terms.get(r) == 1 and int(r.src[0].value) in self.capabilities.widths(node.dtype)
        ]  # fmt: skip
        if not rows or any(a not in (rows[0],) and rows[0] in a.ranges for a in terms):
            return None
        row, lanes = rows[0], self.lanes(node)
        n, mine = int(row.src[0].value), where[row]
        buf = self.get(node.src[0], where)
        first, _ = self.address(node.src[1], {**where, row: 0})
        gates = [self.get(node.src[2], {**where, row: k}) for k in range(n)] if len(node.src) == 4 else []
        others = [self.get(node.src[3], {**where, row: k}) for k in range(n)] if len(node.src) == 4 else []
        parts = []
        for k in range(lanes):
            at = self.at_lane(first, step, k, where)
            gate, alt = (_gathered(of, k) if of else None for of in (gates, others))
            wide = buf.load(at, gate, alt, n, alignment(buf, at, n))
            parts.append(wide.lane(mine))
        return UOp(Ops.STACK, node.dtype, tuple(parts))

    def runs(
        self, dtype: DType, index: UOp, step: int | None, lanes: int, where: Where
    ) -> tuple[list[UOp], int]:
        """Return the index of each lane, and the length of the runs of neighbours that lanes fall into."""
        at = [self.at_lane(index, step, k, where) for k in range(lanes)]
        if step is not None:
            return at, 1
        forms = [linear_form(x) for x in at]
        run = lanes // 2
        while run > 1:
            if run in self.capabilities.widths(dtype) and all(
                forms[k][0] == forms[k - k % run][0] and forms[k][1] == forms[k - k % run][1] + k % run
                for k in range(lanes)
            ):
                return at, run
            run //= 2
        return at, 1

    def scalar_load(self, buf: UOp, index: UOp, gate: UOp | None, alt: UOp | None) -> UOp:
        if gate is not None and gate.is_const:
            if not gate.value:
                assert alt is not None
                return alt
            gate = None
        return buf.load(index, gate, alt)

    def store(self, node: UOp, where: Where) -> list[UOp]:
        buf = self.get(node.src[0], where)
        index, step = self.address(node.src[1], where)
        value = self.get(node.src[2], where)
        gate = self.get(node.src[3], where) if len(node.src) == 4 else None
        lanes = self.lanes(node)
        if not lanes:
            return [buf.store(index, value, gate)]
        if gate is not None and not gate.shape:
            gate = gate.splat(lanes)
        if step == 1:
            wide = value if value.shape else value.splat(lanes)
            return [buf.store(index, wide, gate, alignment(buf, index, lanes))]
        if step == 0:
            raise OptionError("lanes of a vector axis store to one location")
        at, run = self.runs(buf.dtype, index, step, lanes, where)
        if run > 1:
            whole = value if value.shape else value.splat(lanes)
            return [
                buf.store(at[k], part_of(whole, k, run), part_of(gate, k, run), alignment(buf, at[k], run))
                for k in range(0, lanes, run)
            ]
        return [
            buf.store(
                at[k],
                lane_of(value, k) if value.shape else value,
                None if gate is None else lane_of(gate, k),
            )
            for k in range(lanes)
        ]

    # ---- reductions

    def reduce_team(self, team: list[UOp]) -> None:
        """Expand REDUCEs that share their loops: one END closes the loops of all."""
        loops = self._loops(team[0])
        for node in team:  # what `run` sets for the node it visits, for all of the team
            self.copied[node] = tuple(sorted((r for r in node.ranges if _kind(r) == "unroll"), key=_axis_key))
        parts = {n: {at: self.contributions(n, w) for at, w in self.places(n)} for n in team}
        for around, level in self._levels(team, loops, parts):
            parts = self.accumulate(parts, around, level)
        for node, made in parts.items():
            self.values[node] = {at: self.combine(node, values) for at, values in made.items()}

    def _levels(
        self, team: list[UOp], loops: tuple[UOp, ...], parts: dict[UOp, dict[tuple[int, ...], list[UOp]]]
    ) -> list[tuple[tuple[UOp, ...], tuple[UOp, ...]]]:
        """Return which loops are summed over together, innermost first, with the loops around them.

        A long sum of floats is made of short ones, so that its rounding error grows with their lengths and
        not with their product; not where results fill the registers anyway, as a contraction's do.
        """
        if not loops:
            return []
        if any(n.src[0].op is Ops.MATRIX for n in team):
            return [((), loops)]
        whole: list[tuple[tuple[UOp, ...], tuple[UOp, ...]]] = [((), loops)]
        trips = [int(r.src[0].value) if r.src[0].is_const else MAX_COPIES for r in loops]
        floats = any(n.payload(p.Reduce).op is Ops.ADD and n.dtype.is_float for n in team)
        slots = sum(len(made) for made in parts.values())
        if len(loops) < 2 or not floats or slots > CHAINS or math.prod(trips) < LONG:
            return whole
        cut = len(loops) - 1
        while cut > 1 and math.prod(trips[cut - 1 :]) ** 2 <= math.prod(trips):
            cut -= 1
        return [(loops[:cut], loops[cut:]), ((), loops[:cut])]

    def contributions(self, node: UOp, where: Where) -> list[UOp]:
        """The values of the body at one place, over the unrolled pieces that are reduced, and over lanes that
        it is the same for."""
        inner = [r for r in node.src[1:] if _kind(r) == "unroll"]
        body = node.src[0]
        same = [r for r in node.src[1:] if _kind(r) == "vector" and r is not self.lanes_of[body]]
        out = []
        for at in product(*(range(int(r.src[0].value)) for r in inner)):
            out.append(self.get(body, {**where, **dict(zip(inner, at, strict=True))}))
        return out * math.prod(int(r.src[0].value) for r in same)

    def accumulate(
        self,
        parts: dict[UOp, dict[tuple[int, ...], list[UOp]]],
        around: tuple[UOp, ...],
        loops: tuple[UOp, ...],
    ) -> dict[UOp, dict[tuple[int, ...], list[UOp]]]:
        """Sum the parts of each result over `loops` in registers; return what is left to combine after the
        loops.

        Args:
            parts: for each REDUCE, for each place of its result, values to reduce in every iteration.
            around: loops of the same reductions outside these.
            loops: loops to run, outermost first.
        """
        updates: list[UOp] = []
        registers: list[tuple[UOp, UOp, dict[tuple[int, ...], list[int]]]] = []
        for node, made in parts.items():
            op = node.payload(p.Reduce).op
            values = list(made.values())
            count = len(values[0])
            chains = min(count, max(1, CHAINS // len(values)))
            while count % chains:
                chains -= 1
            sample = values[0][0]
            lanes = sample.shape[0] if sample.shape else 0
            register = UOp.near(node.dtype, len(values) * chains, self.registers, "register", lanes)
            self.registers += 1
            outside = {r for r in node.ranges if _kind(r) not in ("vector", "unroll")} | set(around)
            fresh = register.after(*sorted(outside, key=self.plan.rank))
            start = identity(op, sample)
            slots = {at: list(range(n * chains, (n + 1) * chains)) for n, at in enumerate(made)}
            inside = register.after(*(fresh.store(k, start) for ks in slots.values() for k in ks), *loops)
            for at, ks in slots.items():
                for n, k in enumerate(ks):
                    value = inside.load(k)
                    for part in made[at][n::chains]:
                        value = self.add_to(op, value, part)
                    updates.append(inside.store(k, value))
            registers.append((node, register, slots))
        closed: tuple[UOp, ...] = tuple(updates)
        for r in reversed(loops):
            closed = (UOp(Ops.END, dtypes.void, (r, *closed)),)
        return {
            node: {at: [register.after(*closed).load(k) for k in ks] for at, ks in slots.items()}
            for node, register, slots in registers
        }

    def add_to(self, op: Ops, total: UOp, part: UOp) -> UOp:
        if part.op is Ops.MATRIX:
            return part.replace((*part.src[:2], total))
        lanes = total.shape[0] if total.shape else 0
        if lanes and not part.shape:
            part = part.splat(lanes)
        if op is Ops.ADD and part.op is Ops.MUL and part.dtype in self.capabilities.fma:
            return UOp(Ops.MULACC, part.dtype, (*part.src, total))
        return total.alu(op, part)

    def combine(self, node: UOp, parts: list[UOp]) -> UOp:
        """Reduce values, then the lanes of a reduced vector piece, in a balanced order."""
        op = node.payload(p.Reduce).op
        while len(parts) > 1 and parts[1].op is Ops.MATRIX:  # of no loop: one adds to the other's sum
            parts = [self.add_to(op, parts[0], parts[1]), *parts[2:]]
        while len(parts) > 1:
            pairs = [parts[k].alu(op, parts[k + 1]) for k in range(0, len(parts) - 1, 2)]
            parts = pairs + parts[len(parts) & ~1 :]
        total = parts[0]
        if not total.shape or self.lanes_of[node.src[0]] not in node.src[1:]:
            return total
        widths = self.capabilities.widths(total.dtype)
        n = total.shape[0]
        while n > 2 and n % 2 == 0 and n // 2 in widths:
            n //= 2
            low = UOp(Ops.SHUFFLE, total.dtype, (total,), p.Shuffle(tuple(range(n))))
            high = UOp(Ops.SHUFFLE, total.dtype, (total,), p.Shuffle(tuple(range(n, 2 * n))))
            total = low.alu(op, high)
        scalars = [total.lane(k) for k in range(n)]
        while len(scalars) > 1:
            pairs = [scalars[k].alu(op, scalars[k + 1]) for k in range(0, len(scalars) - 1, 2)]
            scalars = pairs + scalars[len(scalars) & ~1 :]
        return scalars[0]


def lane_of(value: UOp, k: int) -> UOp:
    """Return lane k of a value, looking through STACK."""
    if not value.shape:
        return value
    return value.src[k] if value.op is Ops.STACK else value.lane(k)


def _is_register(node: UOp) -> bool:
    base = node.src[0].base
    return base.op is Ops.BUFFER and base.payload(p.Storage).space == "register"


def _gathered(values: list[UOp], lane: int) -> UOp:
    """Return the same lane of several values as one value."""
    return UOp(Ops.STACK, values[0].dtype, tuple(lane_of(v, lane) for v in values))


def part_of(value: _Maybe, first: int, lanes: int) -> _Maybe:
    """Return some neighbouring lanes of a value, looking through STACK; None of None."""
    if value is None:
        return None
    if value.op is Ops.STACK:
        return UOp(Ops.STACK, value.dtype, value.src[first : first + lanes])
    return UOp(Ops.SHUFFLE, value.dtype, (value,), p.Shuffle(tuple(range(first, first + lanes))))


def alignment(buf: UOp, index: UOp, lanes: int) -> int:
    """Return the bytes to which the address of `index` is known to be aligned, at most those of the whole
    access."""
    base = buf.base
    have = base.payload(p.Param).align if base.op is Ops.PARAM else 64
    terms, constant = linear_form(index)
    size = buf.dtype.itemsize
    for c in (*terms.values(), constant):
        have = math.gcd(have, c * size)
    return max(size, math.gcd(have, 1 << (lanes * size).bit_length() - 1))


def _axis_key(r: UOp) -> tuple[str, int]:
    arg = r.payload(p.Range)
    return arg.axis, arg.instance
