"""Memory of one device: what is allocated, by whom, and freed blocks kept for reuse.

In: sizes in bytes. Out: handles of the device's runtime. A freed block goes to a free list of its size class
and is reused in the order of the device's queue, so nothing has to wait; memory is returned to the runtime
only after the device is idle. `release` may be called by a destructor at any moment, even inside `allocate`,
so it only notes the block; the note is read at the next allocation.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from typing import Final, final

from tiny_core.errors import OutOfMemory
from tiny_core.runtime.runtime import Handle, Runtime

GRAIN: Final = 128
"""Blocks are multiples of this many bytes."""
_SLACK: Final = 64 << 20
_LARGEST_SHOWN: Final = 8


def size_class(nbytes: int) -> int:
    """Return the bytes a block for `nbytes` has: at most an eighth more (2 MiB more for large ones).

    >>> size_class(1), size_class(1000), size_class(1 << 30)
    (128, 1024, 1073741824)
    """
    if nbytes <= GRAIN * 8:
        return max(-(-nbytes // GRAIN), 1) * GRAIN
    step = min(1 << (nbytes.bit_length() - 4), 2 << 20)
    return -(-nbytes // step) * step


def human(nbytes: int) -> str:
    """Return `nbytes` for people: 12.5 MB."""
    amount = float(nbytes)
    for unit in ("bytes", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"


@final
class Memory:
    """The allocator of a device.

    Attributes:
        in_use: bytes of blocks that somebody holds.
        cached: bytes of freed blocks kept for reuse.
        peak: largest `in_use` so far.
    """

    def __init__(self, runtime: Runtime, name: str) -> None:
        self.name = name
        self.in_use = self.cached = self.peak = 0
        self._runtime = runtime
        self._lock = threading.RLock()
        self._free: dict[int, list[Handle]] = {}
        self._live: dict[Handle, tuple[int, object]] = {}
        self._returned: deque[tuple[Handle, int]] = deque()
        self._closed = False
        # Storage (files) has blocks of exact sizes that are not exchangeable, so it is not pooled.
        self._pooled = runtime.capabilities.executes

    def allocate(self, nbytes: int, label: object = "") -> Handle:
        """Return a block of at least `nbytes`, uninitialised.

        Args:
            nbytes: size.
            label: what it is for (its text), in the message of OutOfMemory.

        Raises:
            OutOfMemory: there is none, even with everything cached given back; lists the largest live blocks.
        """
        if not self._pooled:
            return self._unpooled(nbytes)
        size = size_class(nbytes)
        with self._lock:
            self._settle()
            kept = self._free.get(size)
            if kept:
                handle = kept.pop()
                self.cached -= size
            else:
                handle = self._fresh(size, nbytes, label)
            self._live[handle] = (size, label)
            self.in_use += size
            self.peak = max(self.peak, self.in_use)
        return handle

    def release(self, handle: Handle, nbytes: int) -> None:
        """Take back a block of `nbytes` (as asked for); commands already queued may still use it."""
        # nothing but this: it may be called when half of the interpreter is gone
        self._returned.append((handle, nbytes))

    def trim(self) -> int:
        """Return all cached blocks to the runtime, once the device is idle; gives the bytes returned."""
        with self._lock:
            self._settle()
            return self._give_back(self.cached)

    def used(self) -> int:
        """Return the bytes in use, with releases counted."""
        with self._lock:
            self._settle()
        return self.in_use

    def close(self) -> None:
        """Forget everything; the runtime is about to be closed and takes its memory with it."""
        with self._lock:
            self._closed = True
            self._free.clear()
            self._live.clear()
            self._returned.clear()
            self.in_use = self.cached = 0

    def after_fork(self) -> None:
        """Go on in a forked child, where no thread can be holding the lock."""
        self._lock = threading.RLock()

    def _settle(self) -> None:
        """Move what destructors returned to the free lists, and bound those."""
        if self._closed:
            self._returned.clear()
            return
        while self._returned:
            handle, nbytes = self._returned.popleft()
            if not self._pooled:
                self._runtime.free(handle, nbytes)
                self.in_use -= nbytes
                continue
            size = size_class(nbytes)
            del self._live[handle]
            self._free.setdefault(size, []).append(handle)
            self.in_use -= size
            self.cached += size
        # A workload that has passed its peak should not hold more than a quarter above it.
        excess = self.in_use + self.cached - self.peak - self.peak // 4 - _SLACK
        if excess > 0:
            self._give_back(excess)

    def _unpooled(self, nbytes: int) -> Handle:
        with self._lock:
            self._settle()
            handle = self._runtime.allocate(nbytes)
            self.in_use += nbytes
            self.peak = max(self.peak, self.in_use)
        return handle

    def _give_back(self, nbytes: int) -> int:
        """Free cached blocks, largest first, until `nbytes` are back with the runtime."""
        if nbytes <= 0 or not self.cached:
            return 0
        self._runtime.synchronize()
        done = 0
        for size in sorted(self._free, reverse=True):
            blocks = self._free[size]
            while blocks and done < nbytes:
                self._runtime.free(blocks.pop(), size)
                done += size
            if not blocks:
                del self._free[size]
        self.cached -= done
        return done

    def _fresh(self, size: int, nbytes: int, label: object) -> Handle:
        """Allocate from the runtime; on failure first drop the caches, then collect cycles that may hold
        memory."""
        for relief in (self._drop, self._collect, None):
            try:
                return self._runtime.allocate(size)
            except (OutOfMemory, MemoryError) as error:
                if relief is None:
                    raise OutOfMemory(
                        f"{self.name} has no {human(nbytes)} left{f' for {label}' if label else ''}: "
                        f"{human(self.in_use)} in use in {len(self._live)} blocks",
                        self._largest(),
                    ) from error
                relief()
        raise AssertionError("unreachable")

    def _drop(self) -> None:
        self._give_back(self.cached)

    def _collect(self) -> None:
        gc.collect()
        self._settle()
        self._give_back(self.cached)

    def _largest(self) -> str:
        blocks = sorted(self._live.values(), key=lambda b: -b[0])[:_LARGEST_SHOWN]
        if not blocks:
            return "the request alone is more than the device has"
        return "the largest live buffers are " + "; ".join(
            human(size) + (f" ({label})" if label else "") for size, label in blocks
        )
