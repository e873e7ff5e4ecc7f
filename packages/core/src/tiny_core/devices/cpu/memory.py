"""Memory of the CPU device: aligned blocks from mappings, reused, so that repeated work touches pages already
present.

Sizes are rounded up to classes an eighth apart (at most 12.5 % more); freed blocks wait in a list per class.
Small blocks are cut from slabs that stay mapped; a large block is a mapping of its own, backed by huge pages
where the system gives them, and goes back to the system when free memory exceeds what was once in use at a
time.
"""

from __future__ import annotations

import threading
from typing import Final

from tiny_core.api import OutOfMemory
from tiny_core.devices.cpu import libc

ALIGN: Final = 64  # a cache line, and the widest vector register
LARGE: Final = 128 << 10  # blocks from this size on are mappings of their own
SLAB: Final = 1 << 20
HUGE_PAGE: Final = 2 << 20
KEEP: Final = 256 << 20  # free memory that is kept in any case


def size_class(nbytes: int) -> int:
    """Return the bytes of the block that serves a request."""
    if nbytes <= 8 * ALIGN:
        return max(-(-nbytes // ALIGN), 1) * ALIGN
    step = max(1 << ((nbytes - 1).bit_length() - 4), ALIGN)
    if nbytes >= LARGE:
        step = max(step, libc.PAGE)
    return -(-nbytes // step) * step


class Allocator:
    """Blocks of memory by address. Safe for threads, and for `free` being called by the garbage collector at
    any time.

    Attributes:
        live: bytes of the blocks handed out.
        kept: bytes of the large blocks that wait for reuse.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[int]] = {}
        self._slabs: list[int] = []
        self._slab_end = self._slab_at = 0
        self._lock = threading.RLock()  # re-entrant: a collection within `allocate` may call `free`
        self.live = self.kept = self.peak = 0

    def allocate(self, nbytes: int) -> int:
        """Return the address of `nbytes` of uninitialised memory, aligned to ALIGN; raises OutOfMemory."""
        size = size_class(nbytes)
        with self._lock:
            waiting = self._free.get(size)
            if waiting:
                address = waiting.pop()
                self.kept -= size if size >= LARGE else 0
            else:
                address = self._map(size) if size >= LARGE else self._cut(size)
            self.live += size
            self.peak = max(self.peak, self.live)
            return address

    def free(self, address: int, nbytes: int) -> None:
        """Give back the block that `allocate(nbytes)` returned."""
        size = size_class(nbytes)
        with self._lock:
            self._free.setdefault(size, []).append(address)
            self.live -= size
            self.kept += size if size >= LARGE else 0
            if self.kept > max(KEEP, self.peak):
                self.trim(max(KEEP, self.peak))

    def trim(self, limit: int = 0) -> None:
        """Give large free blocks back to the system until at most `limit` bytes of them are kept, largest
        first."""
        with self._lock:
            for size in sorted((s for s in self._free if s >= LARGE), reverse=True):
                while self.kept > limit and self._free[size]:
                    libc.unmap_memory(self._free[size].pop(), size)
                    self.kept -= size

    def close(self) -> None:
        """Give everything that is free back; blocks still in use stay mapped."""
        with self._lock:
            self.trim()
            if self.live == 0:
                for slab in self._slabs:
                    libc.unmap_memory(slab, SLAB)
                self._slabs.clear()
                self._free.clear()
                self._slab_at = self._slab_end = 0

    def after_fork(self) -> None:
        """Go on in a forked child: with a lock of its own."""
        self._lock = threading.RLock()

    def _map(self, size: int) -> int:
        try:
            address = libc.map_memory(size)
        except OutOfMemory:
            self.trim()
            address = libc.map_memory(size)
        if size >= 2 * HUGE_PAGE:
            libc.library().madvise(
                address, size, libc.MADV_HUGEPAGE
            )  # a wish: what it returns changes nothing
        return address

    def _cut(self, size: int) -> int:
        if self._slab_at + size > self._slab_end:
            slab = libc.map_memory(SLAB)
            self._slabs.append(slab)
            self._slab_at, self._slab_end = slab, slab + SLAB
        address = self._slab_at
        self._slab_at += size
        return address
