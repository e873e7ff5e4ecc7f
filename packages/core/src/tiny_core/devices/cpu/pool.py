"""Worker threads: the interface of the native pool object, and the Python side that owns its memory and
threads.

The object comes from `Renderer.host_pool` of the device's renderer, compiled by that renderer's compiler. It
defines the five functions below, all position-independent and without undefined symbols; every structure is
an array of 64-bit words.

    int64_t tiny_pool_run(int64_t *pool, int64_t *batch)
        Run a batch, or go on with one that a slice interrupted. 1: it is done. 0: SLICE_NS have passed; call
        again.
    int64_t tiny_pool_cancel(int64_t *pool)
        Hand out no further chunk of the kernel that a slice interrupted. 1: none of its chunks is running any
        more. 0: SLICE_NS have passed and one still is; call again.
    void *tiny_pool_worker(int64_t *argument)
        Body of a worker: argument[0] is the pool, argument[1] its number from 1. Returns once STOP is set.
    void tiny_pool_copy(void **buf, const int64_t *scalar, int64_t begin, int64_t end)
        Like a kernel: copies scalar[0] bytes from buf[1] to buf[0], which do not overlap, COPY_CHUNK bytes an
        iteration.
    void tiny_pool_stamp(void **buf, const int64_t *scalar, int64_t begin, int64_t end)
        Like a kernel: stores the monotonic clock in nanoseconds to buf[0]; scalar[0] is clock_gettime's
        address.

A record is FUNCTION, BUFFERS, SCALARS, PARALLEL, CHUNKS: call FUNCTION(BUFFERS, SCALARS, begin, end) so that
the ranges cover 0 … PARALLEL-1. With CHUNKS <= 1 the caller does it in one call; else chunk c is the range
from PARALLEL*c/CHUNKS to PARALLEL*(c+1)/CHUNKS, whoever runs it. Chunks depend on the shape of the work and
never on the number of threads.

A fix-up is DESTINATION, SOURCE, OFFSET: before a batch begins, words[DESTINATION] = table[SOURCE] + OFFSET.
Records point into `words`, so a batch is replayed by filling its table.

Protocol. The caller is claimant 0, workers are 1 … THREADS-1. Chunks are dealt to claimants in equal runs;
each takes its own run first and then what is left of the others'. A run is one word, EPOCH << 32 | end << 16
| next, taken from by compare-and-swap, so that a claimant that comes late, with the number of an earlier
kernel, gets nothing. A claimed chunk keeps its kernel from finishing, so what the claimant then reads of the
kernel is this kernel's. DONE counts finished chunks. Waiting is spinning for SPIN_NS, then a futex: workers
on EPOCH (counted in SLEEPING), the caller on DONE (noted in WAITING). A writer changes its word before it
reads the other side's note, a sleeper writes its note before it reads the word, all sequentially consistent,
and the futex compares once more: no wake-up is lost. Both run and worker put the floating-point control
register into its default state first (round to nearest, subnormal numbers kept), so that results do not
depend on who set what in which thread; run restores the caller's.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import struct
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from tiny_core.api import LaunchError
from tiny_core.devices.cpu import libc
from tiny_core.devices.cpu.loader import LoadedObject, load

FUNCTIONS: Final = (
    "tiny_pool_run",
    "tiny_pool_cancel",
    "tiny_pool_worker",
    "tiny_pool_copy",
    "tiny_pool_stamp",
)

# words of the pool; words that different threads write are a cache line (8 words) or more apart
EPOCH, DONE, SLEEPING, WAITING, STOP = 0, 8, 16, 24, 32
THREADS, SPIN_NS, SLICE_NS, SYSCALL, FUTEX, CLOCK, ACTIVE = 40, 41, 42, 43, 44, 45, 46
FUNCTION, BUFFERS, SCALARS, PARALLEL, CHUNKS = 48, 49, 50, 51, 52
CLAIMS = 64  # claimant t's word is CLAIMS + 8 * t

# words of a batch
RECORDS, COUNT, FIXUPS, FIXUP_COUNT, WORDS, TABLE, POSITION = range(7)

COPY_CHUNK: Final = 1 << 16
SPIN: Final = 50_000  # ns: longer than most gaps between kernels of a batch, shorter than what Python does
SLICE: Final = 50_000_000  # ns after which the interpreter gets to see signals
# of a kernel: enough to balance many threads; each chunk stages its own copy of shared operands
MOST_CHUNKS: Final = 64


@dataclass(frozen=True, slots=True)
class Record:
    """A call to be made: `buffers` and `scalars` are positions in the batch's words."""

    function: int
    buffers: int
    scalars: int
    parallel: int = 1
    chunks: int = 1


class Batch:
    """Records in native form, with the table that they are patched from.

    Args:
        records: in order.
        words: initial contents of the argument words.
        fixups: (position in words, position in the table, offset to add).
        table: number of words in the table.
        pointers: (position, position in words whose address it holds).
        keep: objects that own what the records point to.
    """

    def __init__(
        self,
        records: list[Record],
        words: list[int],
        fixups: list[tuple[int, int, int]],
        table: int,
        pointers: list[tuple[int, int]] | None = None,
        keep: tuple[object, ...] = (),
    ) -> None:
        self.words = (ctypes.c_int64 * max(len(words), 1))(*words)
        self.table = (ctypes.c_int64 * max(table, 1))()
        base = ctypes.addressof(self.words)
        for word, target in pointers or ():
            self.words[word] = base + 8 * target
        rows = [
            (r.function, base + 8 * r.buffers, base + 8 * r.scalars, r.parallel, r.chunks) for r in records
        ]
        self._records = (ctypes.c_int64 * (5 * len(rows) or 1))(*(w for row in rows for w in row))
        self._fixups = (ctypes.c_int64 * (3 * len(fixups) or 1))(*(w for row in fixups for w in row))
        self._header = (ctypes.c_int64 * 7)(
            ctypes.addressof(self._records), len(rows), ctypes.addressof(self._fixups), len(fixups),
            base, ctypes.addressof(self.table), 0,
        )  # fmt: skip
        self.address = ctypes.addressof(self._header)
        self.parallel = any(r.chunks > 1 for r in records)
        self.keep = keep
        self._fill = struct.Struct(f"={table}q").pack_into

    def fill(self, values: list[int]) -> None:
        """Write the whole table; for `Pool.run`, which makes sure that the batch does not run."""
        self._fill(self.table, 0, *values)

    def rewind(self) -> None:
        """Begin from the first record again, after a run was cancelled."""
        self._header[POSITION] = 0


class Pool:
    """A pool of `threads` claimants: the calling thread and threads - 1 workers, which start with the first
    parallel kernel.

    Args:
        binary: the pool object.
        threads: at least 1.

    Raises:
        LaunchError: the object is malformed or lacks a function of the interface.
    """

    def __init__(self, binary: bytes, threads: int) -> None:
        self.threads = threads
        self._object: LoadedObject = load(binary)
        run, cancel, self._worker, self.copy, self.stamp = (self._object.entry(f) for f in FUNCTIONS)
        self._run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(run)
        self._cancel = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(cancel)
        self.clock = libc.address_of("clock_gettime")
        self._bytes = 8 * (CLAIMS + 8 * threads)
        self._address = libc.map_memory(self._bytes)
        self._words = (ctypes.c_int64 * (CLAIMS + 8 * threads)).from_address(self._address)
        self._arguments = (ctypes.c_int64 * (2 * threads))(
            *(w for t in range(threads) for w in (self._address, t))
        )
        self.reset()
        _register(self)

    def __del__(self, _finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # at the interpreter's exit modules are gone already, and so is the process's memory soon
        if getattr(self, "_words", None) is not None and not _finalizing():
            self.close()
            libc.unmap_memory(self._address, self._bytes)

    def reset(self) -> None:
        """Begin anew without workers: at first, and in a forked child, which has none of its parent's threads
        (and a lock that one of them may have held)."""
        self._lock = threading.RLock()
        self._running = False
        self._clear()

    def _clear(self) -> None:
        ctypes.memset(self._address, 0, self._bytes)
        settings = {
            THREADS: self.threads, SPIN_NS: SPIN, SLICE_NS: SLICE, SYSCALL: libc.address_of("syscall"),
            FUTEX: libc.FUTEX_CALL[platform.machine()], CLOCK: self.clock,
        }  # fmt: skip
        for word, value in settings.items():
            self._words[word] = value
        self._workers: list[int] = []

    def run(self, batch: Batch, table: list[int] | None = None) -> None:
        """Run a batch, with these values in its table. Signals are seen between slices; when their handler
        raises, what runs is waited for and the rest of the batch does not happen.

        Raises:
            LaunchError: it was called from within itself (by a signal handler), or a worker could not be
            started.
        """
        with self._lock:
            if self._running:
                raise LaunchError("a kernel of this device is running below this signal handler")
            if batch.parallel and not self._workers and self.threads > 1:
                self._start()
            self._running = True
            try:
                if table is not None:
                    batch.fill(table)
                while not self._run(self._address, batch.address):
                    pass
            except BaseException:
                self._abandon()
                batch.rewind()
                raise
            finally:
                self._running = False

    def close(self) -> None:
        """Stop and join the workers."""
        with self._lock:
            if not self._workers:
                return
            self._words[STOP] = 1
            self._words[EPOCH] = (self._words[EPOCH] + 1) & 0xFFFFFFFF
            wake = libc.library().syscall
            number = self._words[FUTEX]
            wake(
                ctypes.c_long(number),
                ctypes.c_void_p(self._address + 8 * EPOCH),
                129,
                self.threads,
                None,
                None,
                0,
            )
            for worker in self._workers:
                libc.library().pthread_join(worker, None)
            self._clear()

    def _start(self) -> None:
        """Start the workers, with all signals blocked, so that the main thread gets them."""
        import signal

        create = libc.library().pthread_create
        handle = ctypes.c_size_t()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            for t in range(1, self.threads):
                argument = ctypes.addressof(self._arguments) + 16 * t
                code = create(ctypes.byref(handle), None, self._worker, argument)
                if code != 0:
                    raise LaunchError(
                        f"cannot start worker thread {t} of {self.threads - 1}: {os.strerror(code)}",
                        "choose fewer: DEV=CPU,threads=N",
                    )
                self._workers.append(handle.value)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _abandon(self) -> None:
        """Wait until nothing of an interrupted batch runs: its memory may be freed next."""
        while True:
            try:
                if self._cancel(self._address):
                    return
            except KeyboardInterrupt:
                continue  # an interrupt is already on its way to the caller, who gets it once this is safe


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _register(pool: Pool) -> None:
    _pools.add(pool)
    _hook()


@cache
def _hook() -> None:
    os.register_at_fork(after_in_child=_after_fork)
    atexit.register(_at_exit)


def _after_fork() -> None:
    for pool in list(_pools):
        pool.reset()


def _at_exit() -> None:
    for pool in list(_pools):
        pool.close()
