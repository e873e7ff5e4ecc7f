"""Realizing: run what some cells hold, and let every live cell know.

In: cells. Out: their values are movements over BUFFERs. Guaranteed, whatever was realized before and in
whatever order: a node that reads version n of a BUFFER sees version n. Stores that run end versions; live
cells that still read such a version are computed in the same batch (the scheduler runs them before the
store), and afterwards no live cell mentions an ended version, so that BUFFER nodes always mean what memory
holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp, toposort
from tiny_core.settings import CHECK, GRAD, Context
from tiny_core.tensor import cell as cells
from tiny_core.tensor import graph as g
from tiny_core.tensor import history
from tiny_core.tensor.cell import Cell
from tiny_core.tensor.counters import advance
from tiny_core.tensor.lines import MemoryLabel, notes


class Engine(Protocol):
    """What runs graphs: the module `tiny_core.engine.realize`."""

    def realize_nodes(self, roots: list[UOp], labels: Sequence[object] = ()) -> list[UOp]:
        """Run; return for each root the node that holds its value: movements over a BUFFER."""
        ...

    def allocate_from_host(
        self, data: memoryview | bytes, dtype: DType, size: int, device: str, label: object = ""
    ) -> UOp:
        """Return a BUFFER node with `data` copied in."""
        ...

    def read_host(self, node: UOp) -> memoryview:
        """Return the bytes of a realized contiguous node; the view keeps them from being overwritten."""
        ...

    def keeps_data(self, device: p.Device) -> bool:
        """Return whether what is computed on a device can be read."""
        ...


def engine() -> Engine:
    import tiny_core.engine.realize as module

    return module


def realize(wanted: Iterable[Cell], default_device: Callable[[], str]) -> None:
    """Give these cells values in memory; other cells are computed too where their version would be lost."""
    with cells.LOCK:
        batch: dict[int, Cell] = {}
        for cell in wanted:
            if cell.value.size == 0 and not cell.owner:
                cell.clear(cell.device or default_device())
            elif not cell.realized:
                batch[id(cell)] = cell
        if batch:
            _place_constants(batch.values(), default_device)
            _run_checked(batch, default_device)


def realize_readers(buffers: set[UOp]) -> None:
    """Compute the live cells that read these BUFFERs as they are now, other than the owners themselves."""
    with cells.LOCK:
        batch = {id(c): c for c in _readers(buffers, set(), {})}
        if batch:
            from tiny_core.runtime.device import default_device

            _run_checked(batch, default_device)


def _run_checked(batch: dict[int, Cell], default_device: Callable[[], str]) -> None:
    """Run a batch with all that has to be computed along; under TINY_CHECK, look at its indices."""
    stores = _add_pending_readers(batch)
    if not CHECK:
        _run(batch, stores)
        return
    from tiny_core.tensor.checked import checks, verify

    roots = [c.value for c in batch.values()]
    every = [c for c in checks(batch.values()) if engine().keeps_data(c.cell.device or default_device())]
    early = [c for c in every if not c.late]
    with Context(CHECK=0):
        realize((c.cell for c in early), default_device)
    for check in early:
        verify(check, roots, engine().read_host)
    late = [c for c in every if c.late]
    batch.update((id(c.cell), c.cell) for c in late)
    _run(batch, stores)
    for check in late:
        verify(check, roots, engine().read_host)


def _place_constants(batch: Iterable[Cell], default_device: Callable[[], str]) -> None:
    """Give storage to values that are made of constants only: their graph does not say where they live."""
    seen: dict[UOp, bool] = {}
    for cell in batch:
        for node in cell.value.toposort(lambda n: n not in seen):
            if node not in seen:
                placed = node.op in (Ops.BUFFER, Ops.COPY, Ops.CALL)
                seen[node] = placed or any(seen[s] for s in node.src)
        if not seen[cell.value]:
            cell.own(cell.device or default_device())


def _add_pending_readers(batch: dict[int, Cell]) -> list[UOp]:
    """Add the live cells that read a version which the batch ends; return the versions that the batch
    makes."""
    while True:
        nodes = toposort(c.value for c in batch.values())
        for cell in advance(nodes):
            batch[id(cell)] = cell
            nodes = toposort([*nodes, cell.value])
        stores = [n for n in nodes if n.op is Ops.AFTER and n.base.op is Ops.BUFFER]
        found = _readers({n.src[0] for n in stores}, set(stores), batch) if stores else []
        if not found:
            return stores
        batch.update((id(c), c) for c in found)


def _readers(ended: set[UOp], made: set[UOp], known: dict[int, Cell]) -> list[Cell]:
    """The live cells, but for those in `known`, that read a version in `ended` other than by making one in
    `made`."""
    reads: dict[UOp, bool] = {}
    found = []
    for cell in cells.watched():
        if id(cell) in known:
            continue
        for node in cell.value.toposort(lambda n: n not in reads and n not in ended and n not in made):
            if node not in reads:
                reads[node] = node in ended or (node not in made and any(reads[s] for s in node.src))
        if reads[cell.value]:
            found.append(cell)
    return found


def _run(batch: dict[int, Cell], stores: list[UOp]) -> None:
    """Run what the cells of `batch` hold, which makes the versions `stores`."""
    todo = list(batch.values())
    for cell in todo:
        if not cell.owner and g.movements(cell.value)[1].op in (Ops.BUFFER, Ops.AFTER):
            assert cell.device is not None
            cell.own(cell.device)  # it shows the storage of another cell, which is being overwritten
            stores.append(g.movements(cell.value)[1])
    labels = [MemoryLabel(c.value.dtype, c.value.shape, c.line) for c in todo]
    results = engine().realize_nodes([c.value for c in todo], labels)
    ended = {n.src[0] for n in stores}
    latest = {n: n.base for n in stores if n not in ended}
    mapping = {c.value: r for c, r in zip(todo, results, strict=True) if not c.owner}
    _record(todo, results, mapping, latest, stores)
    for cell, result in zip(todo, results, strict=True):
        if cell.owner or cells.storage(result) not in cells.OWNERS:
            cell.adopt(result)
        else:
            cell.value = result
    _substitute({**mapping, **latest})


def _record(
    todo: list[Cell], results: list[UOp], mapping: dict[UOp, UOp], latest: dict[UOp, UOp], stores: list[UOp]
) -> None:
    """Keep the graphs of what depends on a parameter; of the rest, note what it was computed from."""
    made: list[
        tuple[UOp, list[UOp], UOp]
    ] = []  # new contents: the BUFFER, movements over it, the node they show
    if GRAD:
        for node, buffer in latest.items():
            cell = cells.OWNERS[buffer]()
            # of an array that nobody holds any more, others may have been computed
            if cell is None or not (cell.leaf or cell.param):
                made.append((buffer, [], node))
        for cell, result in zip(todo, results, strict=True):
            steps, buffer = g.movements(result)
            if buffer.op is Ops.BUFFER and buffer not in cells.OWNERS and not cell.leaf and not cell.param:
                made.append((buffer, steps, cell.value))
    read, tracked = history.dependencies(node for _, _, node in made)
    past: dict[UOp, UOp] = {}
    if made:
        past = {
            n.src[0]: history.past(n.base, cells.WRITTEN.get(n)) for n in stores if n.src[0].op is Ops.BUFFER
        }
    for node in stores:
        history.overwritten(node.base, cells.WRITTEN.get(node))
    known = {**mapping, **latest, **past}
    for buffer, steps, node in made:
        if read[node]:
            graph = node.replace(src=tuple(s.substitute(known) for s in node.src))
            if notes.on:
                notes.follow(node, graph)
            history.keep(buffer, steps, graph, read[node], node in tracked)


def _substitute(mapping: dict[UOp, UOp]) -> None:
    """Replace what has been computed in every live cell that mentions it."""
    done: dict[UOp, UOp] = dict(mapping)
    for cell in cells.watched():
        for node in cell.value.toposort(lambda n: n not in done):
            if node not in done:
                src = tuple(done[s] for s in node.src)
                done[node] = node if src == node.src else node.replace(src)
        if done[cell.value] is not cell.value:
            if notes.on:
                notes.follow(cell.value, done[cell.value])
            cell.value = done[cell.value]
            if cell.owner and cell.realized:
                cells.unwatch(cell)
