"""What jit needs to know of tensors: a protocol that the tensor layer implements and installs when it is
imported.

The engine knows nodes and memory; tensors are above it. A *cell* is where an array's current node is kept; a
tensor is a view of a cell. Exactly one living cell at most owns a BUFFER, and only it makes new versions of
it.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

from tiny_core.errors import JitError
from tiny_core.ir.uop import UOp

Chain = tuple[Hashable, ...]


class Cell(Protocol):
    """Where the current node of an array is kept."""

    value: UOp


class Layer(Protocol):
    """The tensor layer, as jit sees it. Tensors are `object` here: only the layer looks inside.

    Attributes:
        lock: held while nodes of cells, or memory, are read or replaced together.
    """

    lock: threading.RLock

    def is_tensor(self, value: object) -> bool:
        """Whether `value` is a tensor."""

    def cell(self, tensor: object) -> Cell:
        """The cell that a tensor is a view of."""

    def node(self, tensor: object) -> UOp:
        """The node of a tensor's current value."""

    def nodes(self, tensors: Sequence[object]) -> list[UOp] | None:
        """The nodes of these tensors; None if one is no tensor. This is called at every replay for all
        weights."""

    def wants_gradient(self, tensor: object) -> bool:
        """Whether differentiation looks for this very tensor, so that no other may stand in for it."""

    def owner(self, buffer: UOp) -> Cell | None:
        """The living cell that owns a BUFFER."""

    def pending(self) -> Sequence[Cell]:
        """The living cells whose value has not been computed, or is storage of another cell."""

    def realize(self, cells: Iterable[Cell]) -> None:
        """Compute the values of these cells: afterwards each is movements over a BUFFER."""

    def before_write(self, buffers: Iterable[UOp]) -> None:
        """These BUFFERs are about to be overwritten: compute what still reads them."""

    def after_write(self, buffers: Iterable[UOp]) -> None:
        """These BUFFERs have been overwritten: what they held cannot be read again."""

    def new_cell(self, value: UOp, owner: bool) -> Cell:
        """A cell with this value, movements over a BUFFER; `owner`: nobody else has that BUFFER."""

    def set_value(self, cell: Cell, value: UOp, owner: bool) -> None:
        """Give a cell another value, as `new_cell`."""

    def chain(self, tensor: object) -> Chain:
        """The movements by which a tensor shows its cell, in a form that `view` understands; () for all of
        it."""

    def view(self, cell: Cell, chain: Chain) -> object:
        """A tensor that shows this of `cell`."""

    def read(self, tensor: object) -> bytes:
        """The bytes of a tensor's elements, row-major."""

    def state(self) -> Hashable:
        """Whatever else a captured function may depend on: training mode, default dtypes."""


_installed: list[Layer] = []


def install(layer: Layer) -> None:
    """Say who implements tensors."""
    _installed[:] = [layer]


def layer() -> Layer:
    """Return the tensor layer; raises JitError where none has been imported."""
    if not _installed:
        raise JitError("jit of a function without tensors", "import Tensor from tiny_core")
    return _installed[0]
