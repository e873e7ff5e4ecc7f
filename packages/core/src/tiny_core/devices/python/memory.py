"""Memory as a kernel sees it: a typed array with bounds, an address, and the race checker's memory of it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tiny_core.api import DType, LaunchError, OutOfMemory
from tiny_core.devices.python.races import Ints, Shadow
from tiny_core.devices.python.rounding import Array, numpy_dtype

Bytes = NDArray[np.uint8]


class AccessError(LaunchError):
    """A kernel touched memory outside a buffer, at an address that its alignment claims rule out, or that it
    may not touch that way."""


def stored_dtype(dtype: DType) -> np.dtype[np.generic]:
    """Return the numpy dtype of `dtype` in memory: bools are bytes, and numpy moves plain integers
    fastest."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.kind == "bool" or not dtype.code else numpy_dtype(dtype)


@dataclass(slots=True)
class Memory:
    """A buffer of a kernel while it runs.

    Args:
        data: its elements; for near memory those of every group of the batch, one after the other.
        size: elements that an item may touch.
        address: of the first element, bytes.
        access: "r", "w" or "rw".
        origin: for near memory, where each item's part of `data` starts.
        shadow: what the race checker knows, if it watches this buffer.
        shadow_origin: where the buffer starts in the shadow, in its units.
        shadow_span: units of the shadow that an element covers.
        name: for messages.
    """

    data: Array
    size: int
    address: int
    access: str = "rw"
    origin: Ints | None = None
    shadow: Shadow | None = None
    shadow_origin: int = 0
    shadow_span: int = 1
    name: str = ""
    _windows: dict[int, Array] = field(default_factory=dict)

    def window(self, lanes: int) -> Array:
        """Return `data` with row i being the `lanes` elements from i on; without lanes, `data` itself.

        Indexed by rows, numpy copies whole vectors, ten times as fast as element by element.
        """
        if not lanes:
            return self.data
        if lanes not in self._windows:
            step = self.data.itemsize
            shape = (len(self.data) - lanes + 1, lanes)
            self._windows[lanes] = np.lib.stride_tricks.as_strided(self.data, shape, (step, step))
        return self._windows[lanes]

    def element(self, place: int) -> int:
        """Return the element at a place of the shadow."""
        place = (place - self.shadow_origin) // self.shadow_span
        return place % self.size if self.origin is not None else place


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes that a kernel is launched on.

    Args:
        data: the bytes.
        address: of the first; what alignment is judged by.
    """

    data: Bytes
    address: int

    @staticmethod
    def of(array: Array, address: int) -> Region:
        """Return a region over a C-contiguous array, as if it lay at `address`."""
        if not array.flags.c_contiguous:
            raise LaunchError(f"a kernel cannot run on an array of strides {array.strides}")
        return Region(array.reshape(-1).view(np.uint8), address)


class Heap:
    """Allocations of a device under invented addresses, which are multiples of 64 and of nothing more, with
    gaps
    between: a claim of a wider alignment, or an access beyond an allocation, cannot be right by luck."""

    def __init__(self) -> None:
        self._next = 64
        self._bases: list[int] = []  # ascending, since addresses only grow
        self._blocks: dict[int, Bytes] = {}

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory, filled with 0xff: NaN, -1 and True are easy to recognise."""
        try:
            block = np.full(nbytes, 0xFF, np.uint8)
        except MemoryError as error:
            raise OutOfMemory(f"cannot allocate {nbytes} bytes on PYTHON") from error
        address = self._next
        self._next += (nbytes + 255) // 128 * 128
        self._bases.append(address)
        self._blocks[address] = block
        return address

    def free(self, address: int) -> None:
        if self._blocks.pop(address, None) is None:
            raise LaunchError(f"{address:#x} is not an allocation of PYTHON")
        self._bases.pop(bisect_right(self._bases, address) - 1)

    def bytes(self, address: int, nbytes: int) -> Bytes:
        """Return `nbytes` of memory at an address, which may lie within an allocation."""
        at = bisect_right(self._bases, address) - 1
        if at >= 0:
            base = self._bases[at]
            block = self._blocks[base]
            if address - base + nbytes <= len(block):
                return block[address - base : address - base + nbytes]
        raise LaunchError(f"{nbytes} bytes at {address:#x} are not memory of PYTHON")
