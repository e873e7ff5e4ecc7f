"""What jit needs to know of tensors (`engine/layer.py`), and `jit` itself, for users.

In: the engine's questions. Out: cells, nodes and views of them. The engine sees tensors only through this.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import repeat
from typing import cast

from tiny_core.engine.jit import Jit, TinyJit, jit
from tiny_core.engine.layer import Cell as AnyCell
from tiny_core.engine.layer import Chain as AnyChain
from tiny_core.engine.layer import install
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.settings import GRAD, TRAINING, overrides
from tiny_core.tensor import cell as cells
from tiny_core.tensor import history
from tiny_core.tensor import realize as realizing
from tiny_core.tensor.cell import Cell, Chain
from tiny_core.tensor.handle import Handle, default_device
from tiny_core.tensor.tensor import Tensor

__all__ = ["Jit", "TensorLayer", "TinyJit", "jit"]


class TensorLayer:
    """The tensor layer, as jit sees it; see `engine.layer.Layer` for what each method promises."""

    lock = cells.LOCK

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, Handle)

    def cell(self, tensor: object) -> Cell:
        return cast(Tensor, tensor)._cell

    def node(self, tensor: object) -> UOp:
        return cast(Tensor, tensor).uop

    def nodes(self, tensors: Sequence[object]) -> list[UOp] | None:
        if not all(map(isinstance, tensors, repeat(Handle))):
            return None
        return [tensor.uop for tensor in cast("Sequence[Handle]", tensors)]

    def wants_gradient(self, tensor: object) -> bool:
        return cast(Tensor, tensor)._cell.param

    def owner(self, buffer: UOp) -> Cell | None:
        known = cells.OWNERS.get(buffer)
        cell = known() if known is not None else None
        return cell if cell is not None and cells.storage(cell.value) is buffer else None

    def pending(self) -> Sequence[Cell]:
        return cells.watched()

    def realize(self, wanted: Iterable[AnyCell]) -> None:
        realizing.realize(cast("Iterable[Cell]", wanted), default_device)

    def before_write(self, buffers: Iterable[UOp]) -> None:
        realizing.realize_readers(set(buffers))

    def after_write(self, buffers: Iterable[UOp]) -> None:
        for buffer in buffers:
            history.overwritten(buffer, None)

    def new_cell(self, value: UOp, owner: bool) -> Cell:
        storage = cells.storage(value)
        cell = Cell(value, storage.payload(p.Storage).device, None)
        if owner:
            cell.adopt(value)
        return cell

    def set_value(self, cell: AnyCell, value: UOp, owner: bool) -> None:
        assert isinstance(cell, Cell)
        if owner:
            cell.adopt(value)
        else:
            cell.value = value
            cells.watch(cell)

    def chain(self, tensor: object) -> Chain:
        return cast(Tensor, tensor)._chain

    def view(self, cell: AnyCell, chain: AnyChain) -> Tensor:
        return Tensor._over(cast(Cell, cell), cast(Chain, chain), None)

    def read(self, tensor: object) -> bytes:
        from tiny_core.engine.realize import read_host
        from tiny_core.schedule.scheduler import view

        shown = cast(Tensor, tensor)
        shown.realize()
        node = shown.uop
        while node.op is Ops.DETACH:
            node = node.src[0]
        if view(node) is None:
            node = shown.contiguous().realize().uop
        return bytes(read_host(node))

    def state(self) -> Hashable:
        return overrides((TRAINING, GRAD))


install(TensorLayer())
