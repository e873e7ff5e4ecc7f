"""What realized values were computed from, for gradients that are asked for afterwards.

Realizing replaces a node by the BUFFER that holds its value. Its graph is kept beside it, as the BUFFER's
*origin*, for as long as the BUFFER lives. Where the value depends on a parameter (`requires_grad`), the
origin keeps alive what it reads, as PyTorch does. Otherwise it does not: BUFFERs in it are replaced by
*stand-ins*, nodes without memory, so that a running average does not keep its whole past, nor converted
weights their source. A gradient that has to pass something that is gone is an error, and never silently 0:
the ids of all storage that a value was computed from stay known.

An origin means the versions that its BUFFERs had. `origin` gives it as it must be read today: a BUFFER that
has been overwritten since, or is gone, is replaced by a *ghost*, a node without memory that remembers what
it stands for.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp, toposort
from tiny_core.tensor import cell as cells
from tiny_core.tensor import graph as g
from tiny_core.tensor.lines import Line, notes

Ids = frozenset[int]
_NONE: Ids = frozenset()


@dataclass(frozen=True, slots=True)
class Ghost:
    """A version that is no more: of which BUFFER (its Storage.id), and the line that overwrote it, if one
    did."""

    storage: int
    written: Line | None


@final
class _StandIn:
    """What a node without memory stands for: a BUFFER, weakly, in a version."""

    __slots__ = ("buffer", "read", "storage", "version")

    def __init__(self, buffer: UOp) -> None:
        self.buffer = weakref.ref(buffer)
        self.storage, self.version = storage_id(buffer), _version(buffer)
        self.read = _computed_from.get(buffer, _NONE)


_origins: weakref.WeakKeyDictionary[UOp, tuple[UOp, dict[int, int]]] = weakref.WeakKeyDictionary()
"""By BUFFER: the graph that computed it, of shape (size,), and the versions of the BUFFERs it reads, by
Storage.id."""
_computed_from: weakref.WeakKeyDictionary[UOp, Ids] = weakref.WeakKeyDictionary()
_versions: weakref.WeakKeyDictionary[UOp, tuple[int, Line | None]] = weakref.WeakKeyDictionary()
_ghosts: weakref.WeakKeyDictionary[UOp, Ghost] = weakref.WeakKeyDictionary()
_stand_ins: weakref.WeakKeyDictionary[UOp, _StandIn] = weakref.WeakKeyDictionary()
_alive: weakref.WeakValueDictionary[int, UOp] = weakref.WeakValueDictionary()


def storage_id(buffer: UOp) -> int:
    return buffer.payload(p.Storage).id


def _version(buffer: UOp) -> int:
    return _versions.get(buffer, (0, None))[0]


def cut_from(buffer: UOp) -> Ids:
    """Return the ids of the storage from which `buffer` was computed, if its graph is gone."""
    return _NONE if buffer in _origins else _computed_from.get(buffer, _NONE)


def ghost_of(node: UOp) -> Ghost | None:
    return _ghosts.get(node) if node.op is Ops.BUFFER else None


def last_written(buffer: UOp) -> Line | None:
    """Return the line that overwrote `buffer` last, or None."""
    return _versions.get(buffer, (0, None))[1]


def overwritten(buffer: UOp, line: Line | None) -> None:
    """Note that a store into `buffer` has run."""
    _versions[buffer] = (_version(buffer) + 1, line)
    _origins.pop(buffer, None)


def _memoryless(like: UOp) -> UOp:
    storage = like.base.payload(p.Storage)
    assert storage.device is not None
    return UOp.buffer(like.dtype, storage.size, storage.device)


def _make_ghost(like: UOp, ghost: Ghost, read: Ids) -> UOp:
    node = _memoryless(like)
    _ghosts[node] = ghost
    if read:
        _computed_from[node] = read
    return node


def past(buffer: UOp, line: Line | None) -> UOp:
    """What stands for `buffer` as it was before `line` overwrites it: how it was computed, or a ghost."""
    ghost = Ghost(storage_id(buffer), line)
    return origin(buffer) or _make_ghost(buffer, ghost, _computed_from.get(buffer, _NONE))


def keep(buffer: UOp, steps: list[UOp], graph: UOp, read: Ids, strongly: bool) -> None:
    """Note how the value of new storage was computed.

    Args:
        buffer: the storage.
        steps: movements over it that show the value of `graph`.
        graph: what was realized, with what was realized or overwritten in the same batch replaced.
        read: the ids of the storage that it was computed from.
        strongly: whether to keep alive what the graph reads.
    """
    read = frozenset(i for i in read | _computed_from.get(buffer, _NONE) if i in _alive) - {
        storage_id(buffer)
    }
    if not read:
        return
    _computed_from[buffer] = read
    flat = _invert(steps, graph)
    if flat is None:
        return
    leaves = [n for n in flat.toposort() if n.op is Ops.BUFFER and n not in _ghosts and n not in _stand_ins]
    if strongly:
        _origins[buffer] = flat, {storage_id(n): _version(n) for n in leaves}
        return
    instead = {}
    for leaf in leaves:
        instead[leaf] = _memoryless(leaf)
        _stand_ins[instead[leaf]] = _StandIn(leaf)
    kept = flat.substitute(instead)
    if notes.on:
        notes.follow(flat, kept)
    _origins[buffer] = kept, {}


def _invert(steps: list[UOp], graph: UOp) -> UOp | None:
    """Undo movements that only rearrange; None where one does more."""
    for step in reversed(steps):
        before = step.src[0]
        match step.op:
            case Ops.RESHAPE:
                graph = g.reshape(graph, before.shape)
            case Ops.PERMUTE:
                axes = step.payload(p.Axes).axes
                graph = g.permute(graph, tuple(sorted(range(len(axes)), key=axes.__getitem__)))
            case Ops.FLIP:
                graph = g.flip(graph, step.payload(p.Axes).axes)
            case _:
                return None
    return graph


def origin(buffer: UOp) -> UOp | None:
    """Return the graph that `buffer` was computed by, ghosts in place of versions that are no more; or
    None."""
    known = _origins.get(buffer)
    if known is None:
        return None
    graph, reads = known
    instead = {}
    for node in graph.toposort():
        if node.op is not Ops.BUFFER:
            continue
        stand_in = _stand_ins.get(node)
        if stand_in is not None:
            there = stand_in.buffer()
            if there is not None and _version(there) == stand_in.version:
                instead[node] = there
            else:
                ghost = Ghost(stand_in.storage, None if there is None else last_written(there))
                instead[node] = _make_ghost(node, ghost, stand_in.read)
        elif _version(node) != reads.get(storage_id(node), 0) and node not in _ghosts:
            ghost = Ghost(storage_id(node), last_written(node))
            instead[node] = _make_ghost(node, ghost, _computed_from.get(node, _NONE))
    found = graph.substitute(instead)
    if notes.on:
        notes.follow(graph, found)
    return found


def dependencies(roots: Iterable[UOp]) -> tuple[dict[UOp, Ids], set[UOp]]:
    """What gradients could flow to: for each node below `roots` the storage it reads by a differentiable
    path, and the nodes that depend on a parameter by one."""
    params = {c.value for c in cells.PARAMS} | {cells.storage(c.value) for c in cells.PARAMS}
    read: dict[UOp, Ids] = {}
    tracked: set[UOp] = set()
    for node in toposort(roots, _differentiable):
        if not _differentiable(node):
            read[node] = _NONE
            continue
        if node.op is Ops.BUFFER:
            _alive[storage_id(node)] = node
            read[node] = _computed_from.get(node, _NONE) | {storage_id(node)}
            strong = node in _origins and bool(_origins[node][1])
        else:
            sets = {read[s] for s in node.src}
            read[node] = sets.pop() if len(sets) == 1 else _NONE.union(*sets)
            strong = any(s in tracked for s in node.src)
        if strong or node in params:
            tracked.add(node)
    return read, tracked


def _differentiable(node: UOp) -> bool:
    return node.op is not Ops.DETACH and (node.dtype.is_float or node.op is Ops.STORE)
