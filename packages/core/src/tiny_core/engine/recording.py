"""A recording: a capture with every piece of storage explained, so that a later call can say what stands for
it.

In: a `Capture`, what the call was given and could reach, and what it returned. Out: a `Recording`. `bind`
finds for a later call what stands for each piece of storage that was there before, or raises Mismatch;
`Bound.run` replays.

Storage of a capture is of five kinds: *brought* (there before the call: arguments, and what the function
reached), *made* (new, and alive afterwards: results, and what the call left in objects), *constant* (host
data that nothing overwrites), and temporary; brought storage that no cell owned is constant too.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, cast, final

from tiny_core.engine import transfer
from tiny_core.engine.capture import Chain as Steps
from tiny_core.engine.capture import Stored, put_together, take_apart
from tiny_core.engine.inputs import Input
from tiny_core.engine.layer import Cell, Chain, Layer
from tiny_core.engine.reach import Path, Paths, Step, assign
from tiny_core.engine.replay import Replay
from tiny_core.engine.tree import Structure, unflatten
from tiny_core.errors import JitError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.runtime.buffer import Buffer, memory_of, moves, set_memory
from tiny_core.runtime.runtime import Handle


class Mismatch(Exception):
    """A recording cannot stand for a call."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where brought storage is found at a later call.

    Args:
        kind: "leaf": it is that of argument `at`; "part": it is what argument `at` shows; "path": it belongs
            to the
            tensor that path `at` leads to; "cell": to `cell`.
        at: number of the argument or path.
        cell: the cell.
        steps: the cell's movements over it.
        chain: the tensor's movements over the cell.
    """

    kind: Literal["leaf", "part", "path", "cell"]
    at: int = 0
    cell: Cell | None = None
    steps: Steps = ()
    chain: Chain = ()


@dataclass(frozen=True, slots=True)
class Brought:
    """Storage that was there before the call, and where to find it at another."""

    stored: Stored
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """Movements over brought storage (by its number), made storage (likewise), or a node that is always the
    same."""

    kind: Literal["brought", "made", "fixed"]
    at: int
    steps: Steps
    node: UOp | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A leaf of the result.

    Args:
        kind: "value": `given` itself; "leaf": a view of argument `at`; "path": the tensor that path `at`
            leads to;
            "cell": a view of the cell `given`; "new": a view of new cell number `at`.
        at: a number.
        given: an object.
        chain: the view; None for the argument itself.
    """

    kind: Literal["value", "leaf", "path", "cell", "new"]
    at: int = 0
    given: object = None
    chain: Chain | None = None


@dataclass(frozen=True, slots=True)
class Rebinding:
    """A tensor that a call puts into an object: the object is where path `parent` leads, `step` the place in
    it."""

    parent: int
    step: Step
    value: Output


@dataclass(frozen=True, slots=True)
class Escape:
    """A cell that a call leaves with another value."""

    cell: weakref.ref[Cell]
    value: Value
    owner: bool


@final
class Recording:
    """A call that can be replayed.

    Args:
        layer: what knows tensors.
        replay: what runs; it is given the memory of `brought`, then of `made`.
        brought: storage from before, what is reached (paths and cells) first, and then what arguments alone
            bring.
        made: storage that each call makes.
        paths: from a list of the function and the leaves of its arguments.
        constants: numbers of paths, and the value that the tensor there must have.
        outputs: leaves of the result.
        cells: values of the new cells that outputs are views of, and whether they own their storage.
        rebindings: what is put into objects.
        escapes: cells that get another value.
        structure: of the result.
        donated: which made storage may take over the memory of which brought storage.
        given: leaves that are given away.
    """

    def __init__(
        self,
        layer: Layer,
        replay: Replay,
        brought: list[Brought],
        made: list[Stored],
        paths: list[Path],
        constants: list[tuple[int, UOp]],
        outputs: list[Output],
        cells: list[tuple[Value, bool]],
        rebindings: list[Rebinding],
        escapes: list[Escape],
        structure: Structure,
        donated: dict[int, int],
        given: list[int],
    ) -> None:
        self.layer, self.replay, self.structure = layer, replay, structure
        self.brought, self.made = brought, made
        self.rebindings, self.escapes = rebindings, escapes
        self.outputs, self.cells, self.constants = outputs, cells, constants
        self.paths = Paths(paths)
        self.donated, self.given = donated, given
        self.writes = [i for i, b in enumerate(brought) if b.stored.written]
        points = [(i, point) for i, b in enumerate(brought) for point in b.points]
        self.has_parts = any(point.kind == "part" for _, point in points)
        reached = [at for at, _ in constants] + [q.at for _, q in points if q.kind == "path"]
        self._tensors = list(dict.fromkeys(reached))
        self._some = self._tensors != list(range(len(paths)))
        self._held = list({id(q.cell): q.cell for _, q in points if q.cell is not None}.values())
        self._state_count = sum(any(q.kind in ("path", "cell") for q in b.points) for b in brought)
        self._leaves = [(i, q.at) for i, q in points if q.kind in ("leaf", "part")]
        # what was found last time; see `bind` and `memory`
        self._values: list[UOp] = []
        self._nodes: list[UOp] = []
        self._known: frozenset[UOp] = frozenset()
        self._memory: tuple[int, list[Buffer], list[Handle]] = (-1, [], [])
        self._roots: tuple[int, frozenset[Buffer]] = (-1, frozenset())

    def bind(
        self, function: Callable[..., object], leaves: Sequence[object], inputs: Sequence[Input | None]
    ) -> Bound:
        """Find what stands for brought storage at a call.

        Raises:
            Mismatch: something does not fit: other storage is shared, or a tensor reached is another kind of
                view.
        """
        layer = self.layer
        try:
            reached = self.paths.walk([function, leaves])
        except JitError as error:
            raise Mismatch from error
        tensors = [reached[at] for at in self._tensors] if self._some else reached
        # Nodes are unique, so what has the same value as last time needs no other look.
        values = layer.nodes(tensors)
        if values is None:
            raise Mismatch
        values += [cell.value for cell in self._held]
        if values != self._values or not values:
            self._values = []
            self._nodes = self._find(tensors)
            self._known = frozenset(self._nodes)
            if self.writes and len(self._known) != len(self._nodes):
                raise Mismatch  # two that were apart are one now
            self._values = [*map(layer.node, tensors), *(cell.value for cell in self._held)]
            self._memory = (-1, [], [])
        nodes, offsets = self._nodes, _NO_OFFSETS
        if self._leaves:
            nodes, offsets = self._with_arguments(inputs)
        bound = Bound(self, reached, leaves, inputs, nodes, offsets)
        if self.has_parts and self.writes:
            bound.check_overlap()
        return bound

    def _with_arguments(self, inputs: Sequence[Input | None]) -> tuple[list[UOp], list[int]]:
        nodes = self._nodes.copy()
        offsets = []
        for at, leaf in self._leaves:
            given = inputs[leaf]
            assert given is not None, "the key says that this leaf is a tensor"
            buffer = given.buffer
            if at < self._state_count or at < len(nodes):
                if nodes[at] is not buffer:
                    raise Mismatch  # it was a tensor that is reached as well, or two arguments were one
                continue
            if self.writes and buffer in self._known:
                raise Mismatch  # a tensor that is reached is an argument now
            nodes.append(buffer)
            offsets.append(given.offset - given.lead if given.part else 0)
        return nodes, offsets

    def _find(self, tensors: Sequence[object]) -> list[UOp]:
        """The BUFFERs of reached storage."""
        layer = self.layer
        where = dict(zip(self._tensors, tensors, strict=True))
        for at, value in self.constants:
            if layer.node(where[at]) is not value:
                raise Mismatch
        nodes: list[UOp] = []
        for brought in self.brought[: self._state_count]:
            found = {self._find_one(point, brought.stored, where) for point in brought.points} - {None}
            if len(found) != 1:
                raise Mismatch
            nodes += [node for node in found if node is not None]
        return nodes

    def _find_one(self, point: Point, stored: Stored, where: Mapping[int, object]) -> UOp | None:
        if point.kind in ("leaf", "part"):
            return None  # compared with the argument later
        cell = point.cell
        if cell is None:
            tensor = where[point.at]
            if self.layer.chain(tensor) != point.chain:
                raise Mismatch
            cell = self.layer.cell(tensor)
        steps, node = take_apart(cell.value)
        if node.op is not Ops.BUFFER:
            self.layer.realize([cell])
            steps, node = take_apart(cell.value)
        if steps != point.steps or node.op is not Ops.BUFFER or not _alike(node, stored):
            raise Mismatch
        return node

    def memory(self, nodes: Sequence[UOp], offsets: Sequence[int]) -> tuple[list[Buffer], list[Handle]]:
        """The memory of brought storage; what is written moves away from host views of it.

        The memory of what is reached is remembered until any memory is replaced: it is the bulk of a model.
        """
        count, buffers, handles = self._memory
        state = self._state_count
        if count != moves.count or any(buffers[i].exports for i in self.writes if i < state):
            buffers = [
                transfer.writable(node) if brought.stored.written else memory_of(node)
                for node, brought in zip(nodes[:state], self.brought, strict=False)
            ]
            handles = [buffer.handle for buffer in buffers]
            self._memory = (moves.count, buffers, handles)
        buffers, handles = buffers.copy(), handles.copy()
        for node, offset, brought in zip(nodes[state:], offsets, self.brought[state:], strict=True):
            buffer = transfer.writable(node) if brought.stored.written else memory_of(node)
            if offset or buffer.nbytes != brought.stored.nbytes:
                buffer = buffer.part(offset, brought.stored.nbytes)
            buffers.append(buffer)
            handles.append(buffer.handle)
        return buffers, handles

    def roots(self, nodes: Sequence[UOp]) -> frozenset[Buffer]:
        """The memory that reached storage is part of; remembered like `memory`."""
        if self._roots[0] != moves.count or self._memory[0] != moves.count:
            self._roots = (moves.count, frozenset(memory_of(node).root for node in nodes))
        return self._roots[1]

    def overwrites(self) -> list[weakref.ref[UOp]]:
        """The storage that the recorded call has overwritten."""
        return [self.brought[i].stored.node for i in self.writes]

    def restore(self, leaves: Sequence[object], outputs: Sequence[object]) -> object:
        """The result of the call that was recorded, with the caller's arguments where it has stand-ins for
        them."""
        layer, found = self.layer, []
        for output, leaf in zip(self.outputs, outputs, strict=True):
            if output.kind != "leaf":
                found.append(leaf)
            elif output.chain is None:
                found.append(leaves[output.at])
            else:
                found.append(layer.view(layer.cell(leaves[output.at]), output.chain))
        return unflatten(self.structure, iter(found))


_NO_OFFSETS: Final[list[int]] = []


def _alike(node: UOp, stored: Stored) -> bool:
    storage = node.payload(p.Storage)
    return storage.id == stored.id or (
        node.dtype is stored.dtype and storage.size == stored.size and storage.device == stored.device.name
    )


@final
class Bound:
    """A recording together with what a call brings."""

    def __init__(
        self,
        recording: Recording,
        reached: Sequence[object],
        leaves: Sequence[object],
        inputs: Sequence[Input | None],
        nodes: list[UOp],
        offsets: list[int],
    ) -> None:
        self.recording, self.reached, self.leaves, self.inputs = recording, reached, leaves, inputs
        self.nodes, self.offsets = nodes, offsets

    def written(self) -> list[UOp]:
        """The BUFFERs that running will overwrite."""
        return [self.nodes[i] for i in self.recording.writes]

    def check_overlap(self) -> None:
        """Raise Mismatch if storage that is written overlaps other storage that is brought, as it did not
        before."""
        count = len(self.nodes) - len(self.offsets)
        roots = [memory_of(node).root for node in self.nodes[count:]]
        if len(set(roots)) == len(roots) and self.recording.roots(self.nodes[:count]).isdisjoint(roots):
            return
        spans: dict[Buffer, list[tuple[int, int, bool]]] = {}
        offsets = [0] * count + self.offsets
        for node, offset, brought in zip(self.nodes, offsets, self.recording.brought, strict=True):
            buffer = memory_of(node)
            begin = buffer.offset + offset
            spans.setdefault(buffer.root, []).append(
                (begin, begin + brought.stored.nbytes, brought.stored.written)
            )
        for row in spans.values():
            row.sort()
            for (_, end, writes), (begin, _, writes_too) in pairwise(row):
                if begin < end and (writes or writes_too):
                    raise Mismatch

    def run(self) -> object:
        """Replay, renew what the call leaves behind, and return its result."""
        recording, layer = self.recording, self.recording.layer
        written = self.written()
        if written:
            layer.before_write(written)
        buffers, handles = recording.memory(self.nodes, self.offsets)
        made = []
        for i, stored in enumerate(recording.made):
            buffer = self._lent(i, buffers) or Buffer(
                stored.device, stored.nbytes, "result of a captured function"
            )
            node = stored.new_node()
            set_memory(node, buffer)
            made.append(node)
            buffers.append(buffer)
            handles.append(buffer.handle)
        recording.replay.run(handles, buffers)
        for leaf in recording.given:
            give_away(self.inputs[leaf])
        if written:
            layer.after_write(written)
        for escape in recording.escapes:
            if (cell := escape.cell()) is not None:
                layer.set_value(cell, self._value(escape.value, made), escape.owner)
        cells = [layer.new_cell(self._value(v, made), owner) for v, owner in recording.cells]
        result = unflatten(recording.structure, iter([self._leaf(o, cells) for o in recording.outputs]))
        for rebinding in recording.rebindings:
            assign(self.reached[rebinding.parent], rebinding.step, self._leaf(rebinding.value, cells))
        return result

    def _lent(self, made: int, buffers: Sequence[Buffer]) -> Buffer | None:
        """Memory of a donated argument that made storage may take over."""
        donor = self.recording.donated.get(made)
        if donor is None or not buffers[donor].own or buffers[donor].exports:
            return None
        return buffers[donor]

    def _leaf(self, output: Output, cells: Sequence[Cell]) -> object:
        layer = self.recording.layer
        if output.kind == "value":
            return output.given
        if output.kind == "path":
            return self.reached[output.at]
        if output.chain is None:
            return self.leaves[output.at]
        if output.kind == "leaf":
            return layer.view(layer.cell(self.leaves[output.at]), output.chain)
        if output.kind == "cell":
            return layer.view(cast(Cell, output.given), output.chain)
        return layer.view(cells[output.at], output.chain)

    def _value(self, value: Value, made: list[UOp]) -> UOp:
        if value.node is not None:
            return value.node
        return put_together(value.steps, self.nodes[value.at] if value.kind == "brought" else made[value.at])


def give_away(given: Input | None) -> None:
    """Make a donated argument unusable: its memory may hold a result now."""
    if given is None or given.part:
        return
    buffer = memory_of(given.buffer)
    gone = Buffer(buffer.device, buffer.nbytes, buffer.label)
    gone.given_away = True
    set_memory(given.buffer, gone)
