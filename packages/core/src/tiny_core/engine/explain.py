"""From a capture to a recording: say for every piece of storage where it comes from and who has it
afterwards.

In: a `Capture`, and the call that it is of. Out: a `Recording`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from tiny_core.engine.capture import Capture, Stored, duplicate, put_together, take_apart
from tiny_core.engine.capture import Chain as Steps
from tiny_core.engine.inputs import Input
from tiny_core.engine.layer import Cell, Layer
from tiny_core.engine.reach import Found, Path
from tiny_core.engine.recording import Brought, Escape, Output, Point, Rebinding, Recording, Value
from tiny_core.engine.replay import Replay
from tiny_core.engine.tree import Structure
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.runtime.buffer import Buffer, memory_of


@dataclass(frozen=True, slots=True)
class Reached:
    """A tensor that the function can reach: by which path, and what it was when recording began."""

    tensor: object
    path: Path
    cell: Cell
    value: UOp


@dataclass(frozen=True, slots=True)
class StandIn:
    """What the function was given in place of a partial argument: a view of storage that begins with it."""

    leaf: int
    tensor: object
    cell: Cell
    buffer: UOp


@dataclass(frozen=True, slots=True)
class Call:
    """A call that has been captured.

    Args:
        leaves: its arguments.
        inputs: those that are tensors.
        donated: positions of those given away.
        stand_ins: what was passed instead of some.
        reached: tensors that the function could reach otherwise.
        pending: cells that were pending before it, by id, with the value they had.
        outputs: leaves of its result, and
        structure: the structure of that.
        before: what the function could reach before it ran, and
        after: what it can reach now; both start at a list of the function and `leaves`.
    """

    leaves: Sequence[object]
    inputs: Sequence[Input | None]
    donated: Sequence[int]
    stand_ins: Sequence[StandIn]
    reached: Sequence[Reached]
    pending: dict[int, tuple[weakref.ref[Cell], UOp]]
    outputs: Sequence[object]
    structure: Structure
    before: Found
    after: Found


def explain(layer: Layer, capture: Capture, call: Call) -> Recording:
    """Return the recording of a captured call."""
    made = _Explanation(layer, capture, call).recording()
    for stored in capture.stored.values():
        stored.owner = None  # only paths and cells that are needed are kept
    capture.pinned.clear()
    return made


@final
class _Explanation:
    def __init__(self, layer: Layer, capture: Capture, call: Call) -> None:
        self.layer, self.capture, self.call = layer, capture, call
        self.paths: list[Path] = []
        self.brought: list[Brought] = []
        self.made: list[Stored] = []
        self.number: dict[int, int] = {}  # of brought or made storage, by id
        self.constants: dict[int, Buffer] = {}
        self.groups: dict[int, int] = {}  # cells of results, by id
        self.cells: list[tuple[Value, bool]] = []

    def recording(self) -> Recording:
        self._bring_all()
        existing = self._existing()
        outputs = [self._output(leaf, existing) for leaf in self.call.outputs]
        rebindings = self._rebindings(existing)
        escapes = self._escapes()
        initial: dict[int, Buffer] = {}
        for stored in self.capture.stored.values():
            if not (stored.fresh and stored.host):
                continue
            if stored.pristine is not None:
                initial[stored.id] = stored.pristine
            elif stored.id in self.number:
                initial[stored.id] = duplicate(memory_of(_node(stored)))
            elif stored.first >= 0:
                self._keep(stored)
        varying = [b.stored.id for b in self.brought] + [stored.id for stored in self.made]
        return Recording(
            self.layer,
            Replay(self.capture, varying, self.constants, initial),
            self.brought,
            self.made,
            self.paths,
            self._fixed_values(),
            outputs,
            self.cells,
            rebindings,
            escapes,
            self.call.structure,
            self._donors(initial),
            list(self.call.donated),
        )

    # ---- storage from before

    def _bring_all(self) -> None:
        for stored in self.capture.stored.values():
            if not stored.fresh and stored.first >= 0:
                self._bring(stored)
        self.brought.sort(key=lambda b: all(q.kind in ("leaf", "part") for q in b.points))
        self.number = {b.stored.id: i for i, b in enumerate(self.brought)}

    def _bring(self, stored: Stored) -> None:
        points = [
            Point("leaf", i)
            for i, given in enumerate(self.call.inputs)
            if given is not None and not given.part and given.buffer.payload(p.Storage).id == stored.id
        ]
        points += [
            Point("part", s.leaf) for s in self.call.stand_ins if s.buffer.payload(p.Storage).id == stored.id
        ]
        for reached in self.call.reached:
            steps, base = take_apart(reached.value)
            if base.op is Ops.BUFFER and base.payload(p.Storage).id == stored.id:
                at = self._path(reached.path)
                points.append(Point("path", at, None, steps, self.layer.chain(reached.tensor)))
        if not points and stored.owner is not None:
            points = [Point("cell", 0, stored.owner, stored.chain)]
        if not points:
            # no handle led to it: it is the same for ever
            self.constants[stored.id] = memory_of(_node(stored))
            return
        self.brought.append(Brought(stored, tuple(points)))

    def _path(self, path: Path) -> int:
        if path not in self.paths:
            self.paths.append(path)
        return self.paths.index(path)

    def _fixed_values(self) -> list[tuple[int, UOp]]:
        """Reached tensors without storage: their value is part of the kernels."""
        return [
            (self._path(r.path), self.layer.node(r.tensor))
            for r in self.call.reached
            if take_apart(r.value)[1].op is not Ops.BUFFER and self.layer.cell(r.tensor).value is r.value
        ]

    def _keep(self, stored: Stored) -> None:
        """Host data that nothing has overwritten: kept, or copied if somebody outside may still overwrite
        it."""
        node = _node(stored)
        buffer = memory_of(node)
        self.constants[stored.id] = buffer if self.layer.owner(node) is None else duplicate(buffer)

    # ---- what the call returns and leaves

    def _existing(self) -> set[int]:
        """Ids of cells that were there before the call, arguments apart."""
        cells = {id(r.cell) for r in self.call.reached} | {
            id(s.owner) for s in self.capture.stored.values() if s.owner is not None
        }
        return cells | {key for key, (ref, _) in self.call.pending.items() if ref() is not None}

    def _output(self, leaf: object, existing: set[int]) -> Output:
        layer = self.layer
        if not layer.is_tensor(leaf):
            return Output("value", given=leaf)
        cell, chain = layer.cell(leaf), layer.chain(leaf)
        for stand_in in self.call.stand_ins:
            if cell is stand_in.cell:
                if leaf is stand_in.tensor:
                    return Output("leaf", stand_in.leaf)
                outer = layer.chain(self.call.leaves[stand_in.leaf])
                return Output("leaf", stand_in.leaf, chain=(*outer, *chain))
        for i, (given, argument) in enumerate(zip(self.call.inputs, self.call.leaves, strict=True)):
            if leaf is argument:
                return Output("leaf", i)
            if given is not None and cell is layer.cell(argument):
                return Output("leaf", i, chain=chain)
        for reached in self.call.reached:
            if leaf is reached.tensor:
                return Output("path", self._path(reached.path))
        steps, base = take_apart(cell.value)
        owner = layer.owner(base) is cell
        stored = self.capture.stored.get(base.payload(p.Storage).id)
        if id(cell) in existing or (owner and (stored is None or not stored.fresh)):
            return Output("cell", given=cell, chain=chain)
        group = self.groups.get(id(cell))
        if group is None:
            group = self.groups[id(cell)] = len(self.cells)
            self.cells.append((self._value(steps, base), owner))
        return Output("new", group, chain=chain)

    def _value(self, steps: Steps, base: UOp) -> Value:
        id = base.payload(p.Storage).id
        stored = self.capture.stored.get(id)
        if stored is None or id in self.constants:
            return Value("fixed", 0, steps, put_together(steps, base))
        if not stored.fresh:
            return Value("brought", self.number[id], steps)
        if id not in self.number:
            self.number[id] = len(self.made)
            self.made.append(stored)
        return Value("made", self.number[id], steps)

    def _rebindings(self, existing: set[int]) -> list[Rebinding]:
        """Tensors that the call has put into objects that were there before."""
        before, after = self.call.before, self.call.after
        was = {path: value for value, path in before.objects.values()}
        places = {path: v for known in (after.inside, after.objects) for v, path in known.values()}
        found = []
        for tensor, path in after.objects.values():
            if was.get(path) is tensor or (path[:1] == ((("item", 1),)) and len(path) == 2):
                continue
            parent = places[path[:-1]]
            if before.knows(parent) and not isinstance(parent, tuple):
                found.append(Rebinding(self._path(path[:-1]), path[-1], self._output(tensor, existing)))
        return found

    def _escapes(self) -> list[Escape]:
        """Cells that the call has made or given other storage, and that are alive though it does not return
        them."""
        layer, escapes = self.layer, []
        spoken_for = set(self.groups) | {id(s.cell) for s in self.call.stand_ins}
        for stored in self.capture.stored.values():
            node = stored.node()
            if not stored.fresh or node is None or (stored.host and not stored.written):
                continue
            cell = layer.owner(node)
            if cell is not None and id(cell) not in spoken_for:
                spoken_for.add(id(cell))
                escapes.append(Escape(weakref.ref(cell), self._value(*take_apart(cell.value)), True))
        for cell in layer.pending():
            before = self.call.pending.get(id(cell))
            if id(cell) in spoken_for or (before is not None and before[1] is cell.value):
                continue
            steps, base = take_apart(cell.value)
            if base.op is Ops.BUFFER:  # it shows storage of another cell
                value = self._value(steps, base)
                if value.kind != "fixed":
                    escapes.append(Escape(weakref.ref(cell), value, False))
        return escapes

    def _donors(self, initial: dict[int, Buffer]) -> dict[int, int]:
        """Which donated argument lends its memory to which made storage: it must be read for the last time
        before."""
        donors: dict[int, int] = {}
        free = [
            i
            for i, b in enumerate(self.brought)
            if not b.stored.written and any(q.kind == "leaf" and q.at in self.call.donated for q in b.points)
        ]
        for i, made in enumerate(self.made):
            for donor in free:
                stored = self.brought[donor].stored
                fits = stored.nbytes == made.nbytes and stored.device is made.device
                if fits and stored.last < made.first and made.id not in initial:
                    donors[i] = donor
                    free.remove(donor)
                    break
        return donors


def _node(stored: Stored) -> UOp:
    node = stored.node()
    assert node is not None, "the capture keeps it"
    return node
